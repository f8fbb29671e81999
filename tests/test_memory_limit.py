"""A limit of a plan's memory: values between inputs and outputs, weights and states, on every device."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_cases import weights

import pylayout as pl

pytestmark = pytest.mark.usefixtures("untuned")  # memory is in question, not which implementation wins


def convolutions(batch: int = 1) -> pl.Graph:
    """Weights are most of its memory."""
    g = pl.Graph()
    y = g.input("x", (batch, 64, 12, 12))
    for i in range(3):
        w = pl.asarray(np.random.default_rng(i).standard_normal((64, 64, 3, 3)).astype("f4") * 0.05)
        y = g.conv2d(y, g.constant(w, name=f"w{i}"), padding=1, activation="relu", name=f"conv{i}")
    g.output(y, "y")
    return g


def memory_of(plan: Any) -> dict[str, int]:
    memory: dict[str, int] = plan.summary()["memory"]
    assert memory["bytes"] == memory["arena_bytes"] + memory["constant_bytes"] + memory["state_bytes"]
    return memory


def least_of(g: pl.Graph, device: str) -> int:
    """What the error says."""
    with pytest.raises(pl.OutOfMemoryError, match="memory_limit is 1000 bytes, the least") as problem:
        pl.compile(g, device=device, tune="off", memory_limit=1000)
    wanted = r"run in here is (\d+) \(weights (\d+), values between inputs and outputs (\d+)"
    found = re.search(wanted, str(problem.value))
    assert found, problem.value
    least, *parts = map(int, found.groups())
    assert least == sum(parts)
    return least


def test_the_least_fits_and_a_byte_less_does_not(device: str) -> None:
    g, x = convolutions(2), np.random.default_rng(7).standard_normal((2, 64, 12, 12)).astype("f4")
    unlimited = pl.compile(g, device=device, tune="off")
    least = least_of(g, device)
    assert least <= memory_of(unlimited)["bytes"]
    plan = pl.compile(g, device=device, tune="off", memory_limit=least)
    assert memory_of(plan)["bytes"] <= least
    np.testing.assert_allclose(plan.run(x)[0], unlimited.run(x)[0], rtol=1e-3, atol=1e-3)
    with pytest.raises(pl.OutOfMemoryError, match=f"memory_limit is {least - 1} bytes, the least .* {least} "):
        pl.compile(g, device=device, tune="off", memory_limit=least - 1)


@pytest.mark.parametrize("share", [0.9, 0.7])
def test_lighter_weights_are_taken_under_a_limit(device: str, share: float) -> None:
    g = convolutions()
    least, most = least_of(g, device), memory_of(pl.compile(g, device=device, tune="off"))["bytes"]
    limit = int(least + share * (most - least))
    plan = pl.compile(g, device=device, tune="off", memory_limit=limit)
    assert least <= memory_of(plan)["bytes"] <= limit


def test_what_is_counted_is_what_is_held(device: str) -> None:
    """Weights that the plan alone holds, as a loaded one does, and the arena of a run."""
    x = pl.asarray(np.ones((1, 64, 12, 12), "f4"), device=device)
    made = pl.compile(convolutions(), device=device, tune="off")
    (first,) = made.run(x)
    del made, first
    pl.release_caches()
    before = pl.memory(device)["in_use"]
    plan = pl.compile(convolutions(), device=device, tune="off")
    plan(x)
    held = pl.memory(device)["in_use"] - before
    counted = memory_of(plan)["bytes"]
    assert 0.95 * counted <= held <= 1.05 * counted + (1 << 16), (held, counted)


def test_weights_that_ops_share_count_once(device: str) -> None:
    def graph(times: int) -> pl.Graph:
        g = pl.Graph()
        y = g.input("x", (1, 256))
        w = g.constant(weights(256, 256), name="w")
        for _ in range(times):
            y = g.tanh(g.linear(y, w))
        g.output(y, "y")
        return g

    once, often = (memory_of(pl.compile(graph(times), device=device, tune="off")) for times in (1, 4))
    assert often["constant_bytes"] == once["constant_bytes"] >= 256 * 256 * 4


def test_sizes_share_weights_within_the_limit(device: str) -> None:
    g = pl.Graph(sizes={"n": 2})
    y = g.input("x", ("n", 256))
    for i in range(3):
        y = g.relu(g.linear(y, g.constant(weights(256, 256), name=f"w{i}")))
    g.output(g.softmax(y, 0), "y")  # rows cannot be run apart
    plan = pl.compile(g, device=device, tune="off")
    alone = memory_of(plan)
    limit = alone["bytes"] + 64 * 1024
    assert limit < 2 * alone["constant_bytes"]  # the weights twice would be too much
    limited = pl.compile(g, device=device, tune="off", memory_limit=limit)
    for n in (2, 1, 3, 5, 2, 8):
        x = np.random.default_rng(n).standard_normal((n, 256)).astype("f4")
        np.testing.assert_allclose(limited.run(x)[0], plan.run(x)[0], rtol=1e-4, atol=1e-5)
    assert limited.summary()["sizes"]["programs"] > 1
    with pytest.raises(pl.OutOfMemoryError, match=f"memory_limit is {limit} bytes"):
        limited.run(np.zeros((4096, 256), "f4"))
    np.testing.assert_array_equal(limited.run(x)[0], limited.run(x)[0])  # and it serves on


def test_a_saved_plan_needs_as_much(device: str, tmp_path: Path) -> None:
    g, x = convolutions(), np.random.default_rng(3).standard_normal((1, 64, 12, 12)).astype("f4")
    least = least_of(g, device)
    plan = pl.compile(g, device=device, tune="off", memory_limit=least)
    plan.save(tmp_path / "plan")
    again = pl.load_plan(tmp_path / "plan")
    assert memory_of(again) == memory_of(plan)
    np.testing.assert_array_equal(again.run(x)[0], plan.run(x)[0])


def test_lent_weights_count_where_they_are_read_as_they_lie() -> None:
    """Arrays of the caller's: what is packed of them is the plan's."""
    g, w = pl.Graph(), weights(128, 512)
    g.output(g.linear(g.input("x", (1, 512)), g.constant(w)), "y")
    own = pl.Graph()
    own.output(own.linear(own.input("x", (1, 512)), own.constant(pl.asarray(w))), "y")
    lent, held = (memory_of(pl.compile(graph, device="cpu", tune="off")) for graph in (g, own))
    assert w.nbytes <= lent["constant_bytes"] <= held["constant_bytes"] <= lent["constant_bytes"] + w.nbytes


def test_states_count(device: str) -> None:
    g = pl.Graph()
    x, t = g.input("x", (4, 256)), g.input("t", (4,), "s64")
    w = g.parameter("w", np.zeros((256, 256), "f4"))
    loss = g.cross_entropy(g.linear(x, w), t)
    g.output(loss, "loss")
    pl.training.sgd(g, loss, lr=0.1, momentum=0.9)
    memory = memory_of(pl.compile(g, device=device, tune="off"))
    assert 2 * w.shape[0] * w.shape[1] * 4 <= memory["state_bytes"] < 3 * w.shape[0] * w.shape[1] * 4


def test_live_runs_keep_within_the_limit(rng: np.random.Generator) -> None:
    g, x = convolutions(), rng.standard_normal((1, 64, 12, 12)).astype("f4")
    limit = least_of(g, "cpu") + 4096
    pl.set_tuning("auto")
    try:
        plan = pl.compile(g, device="cpu", memory_limit=limit)
        for _ in range(50):
            plan.run(x)
            assert memory_of(plan)["bytes"] <= limit
    finally:
        pl.set_tuning("off")
