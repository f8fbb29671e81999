"""Values that a step of training makes again in its backward pass, to keep a limit: less memory, the same bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pylayout as pl

pytestmark = pytest.mark.usefixtures("unoptimised")  # memory is in question, not which implementation wins


def cnn(layers: int = 7, channels: int = 8, kernel: int = 3, batch: int | str = 4) -> pl.Graph:
    """Convolutions, batch norms with running statistics, residuals, a pool."""
    rng = np.random.default_rng(5)
    g = pl.Graph(sizes={"n": 4})
    y, t = g.input("x", (batch, 3, 18, 18)), g.input("t", (batch,), "s64")
    for i in range(layers):
        shape = (channels, y.shape[1], kernel, kernel)
        w = g.parameter(f"w{i}", (rng.standard_normal(shape) * 0.5 / kernel).astype("f4"))
        scale, shift = g.parameter(f"s{i}", np.ones(channels, "f4")), g.parameter(f"o{i}", np.zeros(channels, "f4"))
        z, mean, _ = g.batch_norm_training(g.conv2d(y, w, padding=kernel // 2), scale, shift)
        running = g.state(f"mean{i}", np.zeros(channels, "f4"))
        g.update(running, running + 0.1 * (mean - running))
        y = g.relu(z + y if i else z)
    y = g.max_pool2d(y, 2)
    head = g.parameter("head", (rng.standard_normal((10, channels)) * 0.3).astype("f4"))
    loss = g.cross_entropy(g.linear(g.flatten(g.global_avg_pool(y), 1), head), t)
    g.output(loss, "loss")
    pl.training.adam(g, loss, lr=0.01)
    return g


def mlp() -> pl.Graph:
    """Products, gelus and dropout whose seed changes in every step."""
    rng = np.random.default_rng(6)
    g = pl.Graph()
    y, t = g.input("x", (1024, 32)), g.input("t", (1024,), "s64")
    seed = g.state("seed", np.array([11], "i8"))
    g.update(seed, seed + 1)
    for i in range(6):
        w = g.parameter(f"w{i}", (rng.standard_normal((48, y.shape[1])) * 0.2).astype("f4"))
        y = g.random_dropout(g.gelu(g.linear(y, w)), seed, 0.3)
    head = g.parameter("head", (rng.standard_normal((10, 48)) * 0.3).astype("f4"))
    loss = g.cross_entropy(g.linear(y, head), t)
    g.output(loss, "loss")
    pl.training.sgd(g, loss, lr=0.1, momentum=0.9)
    return g


NETWORKS: dict[str, Callable[[], pl.Graph]] = {"cnn": cnn, "mlp": mlp}


def compiled(graph: pl.Graph, device: str = "cpu", memory_limit: int | None = None) -> Any:
    """On two threads, so that what kernels need beside values does not depend on the machine."""
    return pl.compile(graph, device=device, tune="off", threads=2, memory_limit=memory_limit)


def steps(plan: Any, count: int = 4) -> list[np.ndarray[Any, Any]]:
    """Losses, and the states afterwards."""
    rng = np.random.default_rng(1)
    results = []
    for _ in range(count):
        given = []
        for item in plan.inputs:
            labels, shape = item["dtype"] == "s64", item["shape"]
            given.append(rng.integers(0, 10, shape) if labels else rng.standard_normal(shape).astype("f4"))
        results.append(np.asarray(plan.run(*given)[0]))
    return results + [plan.state(state["name"]) for state in plan.states]


def assert_same_bits(got: list[np.ndarray[Any, Any]], wanted: list[np.ndarray[Any, Any]]) -> None:
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def limit_of(plan: Any, share: float) -> int:
    """With so much of what lies between inputs and outputs."""
    memory = plan.summary()["memory"]
    return int(memory["bytes"] - (1 - share) * memory["arena_bytes"])


@pytest.mark.parametrize("network", NETWORKS)
def test_less_memory_and_the_same_bits(device: str, network: str) -> None:
    make = NETWORKS[network]
    kept = compiled(make(), device)
    wanted = steps(kept)
    assert kept.summary()["made_again"] == {"ops": 0, "ms": 0}
    limit = limit_of(kept, 0.65)
    before = pl.memory(device)["in_use"]
    plan = compiled(make(), device, limit)
    got = steps(plan)
    held = pl.memory(device)["in_use"] - before
    assert_same_bits(got, wanted)
    memory, whole = plan.summary()["memory"], kept.summary()["memory"]
    assert memory["bytes"] <= limit
    assert memory["arena_bytes"] <= 0.65 * whole["arena_bytes"]
    assert held < 0.9 * whole["bytes"], (held, whole)
    again = plan.summary()["made_again"]
    assert again["ops"] > 0 and again["ms"] > 0
    marked = [choice["node"] for choice in plan.summary()["choices"] if choice["again"]]
    assert marked and all(name.endswith(" again") for name in marked)
    text = plan.explain()
    assert f"{again['ops']} ops made again in the backward pass" in text
    assert text.count(", made again): ") == len(marked)
    phases = {step["node"]: step["phase"] for step in plan.summary()["steps"] if step["kind"] == "op"}
    assert {phases[name] for name in marked if name in phases} == {"backward"}


def test_cheap_values_are_made_again_first() -> None:
    """No convolution, where activations and norms are enough."""
    kept = compiled(cnn(4, 32, 5))
    plan = compiled(cnn(4, 32, 5), memory_limit=limit_of(kept, 0.92))
    ops = [choice["op"] for choice in plan.summary()["choices"] if choice["again"]]
    assert ops and "conv2d" not in ops


def test_the_error_says_how_far_it_led() -> None:
    kept = compiled(cnn()).summary()["memory"]
    with pytest.raises(pl.OutOfMemoryError, match="ops of the forward pass are made again") as problem:
        compiled(cnn(), memory_limit=5000)
    found = re.search(r"memory_limit is 5000 bytes, .* is (\d+) \(.*, states (\d+); (\d+) ops", str(problem.value))
    assert found
    least, states, ops = map(int, found.groups())
    assert states == kept["state_bytes"] and ops > 0 and states < least < kept["bytes"]
    plan = compiled(cnn(), memory_limit=least)
    assert plan.summary()["memory"]["bytes"] <= least
    with pytest.raises(pl.OutOfMemoryError, match=f"memory_limit is {least - 1} bytes"):
        compiled(cnn(), memory_limit=least - 1)


def test_saved_plans_hold_it(tmp_path: Path) -> None:
    kept = compiled(cnn())
    plan = compiled(cnn(), memory_limit=limit_of(kept, 0.65))
    plan.save(tmp_path / "plan")
    again = pl.load_plan(tmp_path / "plan")
    assert again.summary()["memory"] == plan.summary()["memory"]
    assert again.summary()["made_again"]["ops"] == plan.summary()["made_again"]["ops"] > 0
    assert_same_bits(steps(again), steps(kept))


def test_saved_plans_of_any_batch_hold_it(tmp_path: Path) -> None:
    kept = compiled(cnn(batch="n"))
    plan = compiled(cnn(batch="n"), memory_limit=limit_of(kept, 0.65))
    plan.save(tmp_path / "plan")
    again = pl.load_plan(tmp_path / "plan")
    assert again.summary()["memory"] == plan.summary()["memory"]
    assert again.summary()["made_again"]["ops"] == plan.summary()["made_again"]["ops"] > 0
    assert_same_bits(steps(again), steps(kept))
    rng = np.random.default_rng(8)
    x, t = rng.standard_normal((3, 3, 18, 18)).astype("f4"), rng.integers(0, 10, 3)
    assert_same_bits([again.run(x, t)], [kept.run(x, t)])
    x, t = rng.standard_normal((8, 3, 18, 18)).astype("f4"), rng.integers(0, 10, 8)
    with pytest.raises(pl.OutOfMemoryError, match="memory_limit is"):  # twice as many values
        again.run(x, t)


def test_nothing_is_made_again_without_need(device: str) -> None:
    kept = compiled(mlp(), device)
    plan = compiled(mlp(), device, kept.summary()["memory"]["bytes"])
    assert plan.summary()["made_again"]["ops"] == 0
    assert plan.summary()["memory"] == kept.summary()["memory"]


def test_kept_choices_hold_it() -> None:
    # Its products have no lighter implementation that measuring might find.
    limit = limit_of(compiled(mlp()), 0.65)
    plans = [pl.compile(mlp(), device="cpu", threads=2, seconds=0.5, memory_limit=limit)]
    while not plans[-1].summary()["recalled"] and len(plans) < 6:  # on a busy machine it is repeated three times
        plans.append(pl.compile(mlp(), device="cpu", threads=2, seconds=0.5, memory_limit=limit))
    first, second = plans[-2:]
    assert second.summary()["recalled"]
    assert second.summary()["made_again"]["ops"] == first.summary()["made_again"]["ops"] > 0
    assert second.summary()["memory"] == first.summary()["memory"]
    assert_same_bits(steps(second), steps(first))
