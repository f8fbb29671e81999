"""Memory of programs that train: states are updated in place, a run that fails changes nothing, steps leave nothing."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import numpy as np
import pytest

import pylayout as pl


def linear_step(size: int, optimizer: str = "sgd") -> pl.Plan:
    graph = pl.Graph()
    x, t = graph.input("x", (4, size)), graph.input("t", (4,), "s64")
    w = graph.parameter("w", np.zeros((size, size), "f4"))
    loss = graph.cross_entropy(graph.linear(x, w), t)
    graph.output(loss, "loss")
    if optimizer == "sgd":
        pl.training.sgd(graph, loss, lr=0.1, momentum=0.9)
    else:
        pl.training.adam(graph, loss, lr=0.1)
    return pl.compile(graph, tune="off", device="cpu")


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_states_are_updated_in_place(optimizer: str, rng: np.random.Generator) -> None:
    """A step needs the states and one gradient, and no second copy of them."""
    size = 512
    plan = linear_step(size, optimizer)
    before = pl.memory("cpu")["in_use"]
    x, t = rng.standard_normal((4, size)).astype("f4"), np.zeros(4, "i8")
    losses = [float(plan.run(x, t)[0]) for _ in range(3)]
    assert losses[2] < losses[0]
    grown = pl.memory("cpu")["in_use"] - before
    assert grown < size * size * 4 / 2, grown


def test_what_is_read_after_the_step_is_the_old_value(rng: np.random.Generator) -> None:
    """A result that is the parameter itself, states that change places, and a copy taken before a run."""
    graph = pl.Graph()
    w = graph.parameter("w", np.ones(5000, "f4"))
    a, b = graph.state("a", np.full(5000, 2, "f4")), graph.state("b", np.full(5000, 3, "f4"))
    graph.update(w, graph.sgd_step(w, graph.input("g", (5000,)), np.float32(1)))
    graph.update(a, b)
    graph.update(b, a)
    graph.output(w, "w before")
    plan = pl.compile(graph, tune="off", device="cpu")
    for run in range(3):
        copy = plan.state("w")
        (old,) = plan.run(np.full(5000, 0.5, "f4"))
        np.testing.assert_array_equal(old, np.full(5000, 1 - 0.5 * run, "f4"))
        np.testing.assert_array_equal(copy, old)
        np.testing.assert_array_equal(plan.state("w"), old - 0.5)
        assert plan.state("a")[0] == (3 if run % 2 == 0 else 2) and plan.state("b")[0] == (2 if run % 2 == 0 else 3)


def test_a_run_that_fails_changes_no_state(rng: np.random.Generator) -> None:
    """A layer refuses the lengths of its sequences while it runs."""
    graph = pl.Graph()
    x, lengths = graph.input("x", (4, 2, 3)), graph.input("lengths", (2,), "s32")
    w, r = (graph.parameter(name, rng.standard_normal((1, 16, n)).astype("f4")) for name, n in (("w", 3), ("r", 4)))
    y, *_ = graph.lstm(x, w, r, sequence_lens=lengths)
    loss = (y * y).mean()
    graph.output(loss, "loss")
    pl.training.adam(graph, loss, lr=0.1)
    plan = pl.compile(graph, tune="off", device="cpu")
    images = rng.standard_normal((4, 2, 3)).astype("f4")
    plan.run(images, np.array([4, 2], "i4"))
    before = {name: plan.state(name) for name in (s["name"] for s in plan.states)}
    with pytest.raises(pl.InvalidArgumentError, match="sequence_lens is 5"):
        plan.run(images, np.array([4, 5], "i4"))
    for name, value in before.items():
        np.testing.assert_array_equal(plan.state(name), value, err_msg=name)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def test_a_thousand_steps_grow_nothing(device: str, rng: np.random.Generator) -> None:
    """Neither the memory of the device and of the CPU, nor the process."""
    graph = pl.Graph()
    x, t = graph.input("x", (8, 3, 16, 16)), graph.input("t", (8,), "s64")
    y = x
    for i, channels in enumerate((16, 32)):
        w = graph.parameter(f"w{i}", (rng.standard_normal((channels, y.shape[1], 3, 3)) * 0.1).astype("f4"))
        scale, shift = (
            graph.parameter(f"s{i}", np.ones(channels, "f4")),
            graph.parameter(f"o{i}", np.zeros(channels, "f4")),
        )
        y = graph.relu(graph.batch_norm_training(graph.conv2d(y, w, padding=1), scale, shift)[0])
    head = graph.parameter("head", (rng.standard_normal((10, 32)) * 0.1).astype("f4"))
    loss = graph.cross_entropy(graph.linear(graph.flatten(graph.global_avg_pool(y), 1), head), t)
    graph.output(loss, "loss")
    pl.training.adam(graph, loss)
    plan = pl.compile(graph, tune="off", device=device)
    images, labels = rng.standard_normal((8, 3, 16, 16)).astype("f4"), rng.integers(0, 10, 8)
    for _ in range(100):
        plan.run(images, labels)
    kept = [pl.memory(name) for name in ("cpu", device)]
    grown = []
    for _ in range(3):  # what other tests left may still grow beside one of them
        before = resident()
        for _ in range(1000):
            plan.run(images, labels)
        grown.append(resident() - before)
        if grown[-1] < 1 << 20:
            break
    for name, before in zip(("cpu", device), kept, strict=True):
        now = pl.memory(name)
        assert now["in_use"] <= before["in_use"] and now["peak_held"] <= before["peak_held"], (name, before, now)
        assert now["in_use"] + now["cached"] <= before["in_use"] + before["cached"], (name, before, now)
    assert min(grown) < 1 << 20, grown


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_optimizer_begins_without_memory_of_its_own(optimizer: str) -> None:
    """Its zeros are no tensor before a plan is made."""
    graph = pl.Graph()
    w = graph.parameter("w", np.zeros((1024, 1024), "f4"))
    loss = (w * w).sum()
    before = pl.memory("cpu")["in_use"]
    if optimizer == "sgd":
        pl.training.sgd(graph, loss, momentum=0.9)
    else:
        pl.training.adam(graph, loss)
    assert pl.memory("cpu")["in_use"] - before < 1 << 20


def test_a_plan_that_is_gone_leaves_its_memory() -> None:
    size = 2048  # 16 MiB each for the parameter, its velocity and its gradient
    plan = linear_step(size)
    plan.run(np.zeros((4, size), "f4"), np.zeros(4, "i8"))
    held = sum(pl.memory("cpu")[key] for key in ("in_use", "cached"))
    del plan
    left = sum(pl.memory("cpu")[key] for key in ("in_use", "cached"))
    assert held - left > 3 * size * size * 4


def test_a_graph_is_gone_with_its_last_reference() -> None:
    """Without the collector: what it has may be large."""
    graph = pl.Graph()
    w = graph.parameter("w", np.ones(3, "f4"))
    x = graph.input("x", (3,))
    graph.output(w * x + graph.constant(np.ones(3, "f4")), "y")
    pl.training.sgd(graph, graph.outputs["y"].sum(), momentum=0.9)
    simple, trainable = graph.simplify(), graph.trainable()
    alive = [weakref.ref(one) for one in (graph, simple, trainable)]
    assert list(graph.inputs) == ["x"] and list(trainable.parameters)[:1] == ["w"]
    del graph, w, x, simple, trainable
    assert [one() for one in alive] == [None] * 3
