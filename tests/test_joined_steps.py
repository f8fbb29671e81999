"""Steps of a plan that run as one: they do the same to tensors of other sizes, and none needs another's result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pylayout as pl

pytestmark = pytest.mark.usefixtures("unoptimised")

SIZES = (5, 300, 1, 4097, 64, 33, 2, 1025, 7, 260, 19, 11, 1024, 3, 129, 6)


def values_of(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(size).astype("f4") for size in SIZES]


def events_of(plan: Any, op: str, *given: np.ndarray) -> int:
    with pl.profile() as profile:
        plan.run(*given)
    return sum(event["op"] == op for event in profile.events)


def test_updates_of_all_parameters_are_few_launches(opencl_device: str) -> None:
    g = pl.Graph()
    parameters = [g.parameter(f"w{i}", value) for i, value in enumerate(values_of(0))]
    targets = [g.input(f"t{i}", (size,)) for i, size in enumerate(SIZES)]
    loss = sum((((w - t) * (w - t)).sum() for w, t in zip(parameters, targets, strict=True)), start=parameters[2].sum())
    g.output(loss, "loss")
    pl.training.sgd(g, loss, lr=0.1, momentum=0.9)
    plan = pl.compile(g, device=opencl_device, tune="off")
    given = values_of(1)
    weights, velocities = values_of(0), [np.zeros(size, "f4") for size in SIZES]
    for _ in range(3):
        plan.run(*given)
        for i, (w, t) in enumerate(zip(weights, given, strict=True)):
            velocities[i] = np.float32(0.9) * velocities[i] + 2 * (w - t) + np.float32(i == 2)
            weights[i] = w - np.float32(0.1) * velocities[i]
    for i, expected in enumerate(weights):
        assert np.allclose(plan.state(f"w{i}"), expected, rtol=1e-5, atol=1e-5), SIZES[i]
    assert events_of(plan, "sgd_step", *given) <= 3
    joined = [step for step in plan.summary()["steps"] if step.get("op") == "sgd_step"]
    assert len(joined) == len(SIZES)  # each is still a step of the plan


def test_steps_that_need_each_other_run_one_after_the_other(opencl_device: str) -> None:
    """The same expression of its own result, and of what a step between reads."""
    g = pl.Graph()
    xs = [g.input(f"x{i}", (size,)) for i, size in enumerate(SIZES[:4])]
    step = {"expressions": "y0 = s0 * x0 + 1", "scalars": [1.5]}

    def once(value: Any) -> Any:
        return g.op("pointwise", [value], **step)

    for i, x in enumerate(xs):
        y = once(once(once(x)))
        g.output(y, f"y{i}")
        g.output(y.sum(), f"s{i}")
    plan = pl.compile(g, device=opencl_device, tune="off", simplify=False)
    given = values_of(2)[:4]
    results = plan.run(*given)
    for i, x in enumerate(given):
        expected = x
        for _ in range(3):
            expected = np.float32(1.5) * expected + 1
        assert np.allclose(results[2 * i], expected, rtol=1e-6, atol=1e-5), i
        assert np.allclose(results[2 * i + 1], expected.sum(), rtol=1e-4), i


# Channels that blocks of 16 do not divide, one pixel, several groups.
KERNELS = ((20, 3, 3, 3), (16, 20, 1, 1), (33, 16, 1, 1), (8, 33, 3, 3), (16, 8, 1, 1), (5, 16, 5, 5))


def test_reorders_of_weights_are_few_launches(opencl_device: str) -> None:
    """Of weights that change: each is brought to the layout that its convolution wants, in every run."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 3, 9, 9)).astype("f4")
    starts = [rng.standard_normal(shape).astype("f4") / np.sqrt(np.prod(shape[1:])) for shape in KERNELS]

    def results(device: str) -> tuple[Any, list[np.ndarray]]:
        g = pl.Graph()
        y = g.input("x", x.shape)
        for i, start in enumerate(starts):
            y = g.conv2d(y, g.parameter(f"w{i}", start), padding=start.shape[2] // 2)
        loss = (y * y).sum()
        g.output(loss, "loss")
        pl.training.sgd(g, loss, lr=1e-5)
        plan = pl.compile(g, device=device, tune="off")
        losses = [np.asarray(plan.run(x)[0]) for _ in range(3)]
        return plan, losses + [np.asarray(plan.state(f"w{i}")) for i in range(len(starts))]

    plan, found = results(opencl_device)
    for ours, exact in zip(found, results("cpu")[1], strict=True):
        assert np.allclose(ours, exact, rtol=1e-4, atol=1e-5)
    weights = [s for s in plan.summary()["steps"] if s["kind"] == "reorder" and s["cause"].endswith(": weight")]
    with pl.profile() as profile:
        plan.run(x)
    launches = [e for e in profile.events if e["kind"] == "reorder" and e["cause"].endswith(": weight")]
    alike = {s["implementation"] for s in weights}
    assert len(weights) >= 4, "the convolutions of this device take weights as they are"
    assert len(launches) <= len(alike), [e["implementation"] for e in launches]


def test_reorders_and_sums_of_parts_take_the_way_that_runs_with_others(opencl_device: str) -> None:
    """For weights of depthwise convolutions another kernel is faster alone, by less than a launch. Where costs say more
    than a launch they are moved apart. Their gradients come in parts, which are added up together."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((4, 64, 14, 14)).astype("f4")
    starts = [rng.standard_normal((64, 1, 3, 3)).astype("f4") / 3 for _ in range(4)]

    def results(device: str) -> tuple[Any, list[np.ndarray]]:
        g = pl.Graph()
        y = g.input("x", x.shape)
        for i, start in enumerate(starts):
            y = g.tanh(g.conv2d(y, g.parameter(f"w{i}", start), padding=1, groups=64))
        loss = (y * y).mean()
        g.output(loss, "loss")
        pl.training.sgd(g, loss, lr=0.1)
        plan = pl.compile(g, device=device, tune="off")
        losses = [np.asarray(plan.run(x)[0]) for _ in range(3)]
        return plan, losses + [np.asarray(plan.state(f"w{i}")) for i in range(len(starts))]

    plan, found = results(opencl_device)
    for ours, exact in zip(found, results("cpu")[1], strict=True):
        assert np.allclose(ours, exact, rtol=1e-4, atol=1e-5)
    turned = [s for s in plan.summary()["steps"] if s["kind"] == "reorder" and s["cause"].endswith(": weight")]
    with pl.profile() as profile:
        plan.run(x)
    launches = [e for e in profile.events if e["kind"] == "reorder" and e["cause"].endswith(": weight")]
    assert len(turned) == len(starts), "the convolutions of this device take weights as they are"
    apart = [e for e in launches if e["implementation"] != "reorder_axes"]  # which alone takes several tensors
    assert len(launches) == (len(starts) if apart else 1), [e["implementation"] for e in launches]
    parts = [s for s in plan.summary()["steps"] if s.get("implementation") == "sum of parts"]
    sums = [e for e in profile.events if e["implementation"] == "sum of parts"]
    assert len(parts) == len(starts), "gradients by weights of this device have no parts"
    assert len(sums) == 1, [e["cause"] for e in sums]


def test_sums_of_norms_weights_are_few_launches(opencl_device: str) -> None:
    """A norm's gradient ends with two sums, behind its first result: those of all norms are added up together."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 50, 24)).astype("f4")
    count = 3

    def results(device: str) -> tuple[Any, list[np.ndarray]]:
        g = pl.Graph()
        y = g.input("x", x.shape)
        names = []
        for i in range(count):
            weight, bias = (g.parameter(f"{part}{i}", np.full(24, value, "f4")) for part, value in (("w", 1), ("b", 0)))
            names += [f"w{i}", f"b{i}"]
            y = g.tanh(g.layer_norm(y, (24,), weight, bias))
        loss = (y * y).mean()
        g.output(loss, "loss")
        pl.training.sgd(g, loss, lr=0.5)
        plan = pl.compile(g, device=device, tune="off")
        losses = [np.asarray(plan.run(x)[0]) for _ in range(3)]
        return plan, losses + [np.asarray(plan.state(name)) for name in names]

    plan, found = results(opencl_device)
    for ours, exact in zip(found, results("cpu")[1], strict=True):
        assert np.allclose(ours, exact, rtol=1e-4, atol=1e-5)
    sums = [s for s in plan.summary()["steps"] if s.get("implementation") == "sum of parts"]
    assert len(sums) == 2 * count
    with pl.profile() as profile:
        plan.run(x)
    assert sum(e["implementation"] == "sum of parts" for e in profile.events) == 1


def test_what_reads_sums_of_parts_waits(opencl_device: str) -> None:
    """Each sum is read before the next one is there: as gradients by biases are, which are then made wide."""
    rng = np.random.default_rng(0)
    x, grad = (rng.standard_normal((400, 24)).astype("f4") for _ in range(2))
    count = 3

    def plan_on(device: str) -> pl.Plan:
        g = pl.Graph()
        y, by_y = g.input("x", x.shape), g.input("grad", grad.shape)
        read = []
        for _ in range(count):
            by_y, by_weight, by_bias = g.layer_norm_backward(y, by_y, (24,), np.ones(24, "f4"))
            read += [g.cast(by_weight, "f16"), g.cast(by_bias, "f16")]
            by_y = g.tanh(by_y)
        g.output(g.concat(read, 0), "sums")
        return pl.compile(g, device=device, tune="off")

    plan = plan_on(opencl_device)
    found, exact = (np.asarray(each.run(x, grad)[0]) for each in (plan, plan_on("cpu")))
    assert np.allclose(found, exact, rtol=2e-3, atol=2e-3)
    with pl.profile() as profile:
        plan.run(x, grad)
    launches = [e for e in profile.events if e["implementation"] == "sum of parts" or e["op"] == "cast"]
    assert len(launches) == 2, [(e["op"], e["implementation"]) for e in launches]  # of sums, and of casts
