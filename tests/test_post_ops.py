"""Post-ops through Python: how lists are spelled, what they are short for, where they are kept, what takes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pylayout as pl
from pylayout import ops

X, W = (1, 4, 5, 6), (4, 4, 1, 1)


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def products(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.einsum("nchw,oc->nohw", x.astype(np.float64), w[:, :, 0, 0].astype(np.float64))


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


STEPS = ["silu", "add(residual)", "scale(0.5)", "clip(-0.25, 1)"]
SPELLINGS: list[Any] = [STEPS, tuple(STEPS), ", ".join(STEPS), "silu,add( residual ),scale(5e-1),clip(-.25,1)"]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
@pytest.mark.parametrize("layout", ["auto", "NCHW", "NHWC", "nChw8c"])
def test_spellings(spelling: Any, layout: str, untuned: None) -> None:
    x, w, r = draw(*X), draw(*W), draw(1, 4, 5, 6) * 2
    expected = np.clip((silu(products(x, w)) + r) * 0.5, -0.25, 1)
    for _ in range(2):  # made, then kept by its value
        y = ops.conv2d(x, w, residual=r, post_ops=spelling, layout=layout)
        np.testing.assert_allclose(np.asarray(y), expected, atol=1e-5)


def test_short_forms() -> None:
    g = pl.Graph()
    x, w = g.input("x", X), g.constant(draw(*W))
    short = g.conv2d(x, w, residual=x, activation="leaky_relu", activation_alpha=0.5)
    listed = g.conv2d(x, w, residual=x, post_ops="add(residual), leaky_relu(0.5)")
    plain = g.conv2d(x, w, activation=None, post_ops=[])
    g.output(g.add(g.add(short, listed), plain), "y")
    nodes = g.describe()["nodes"]
    assert [node["attributes"] for node in nodes[:3]] == [{"post_ops": "add(residual), leaky_relu(0.5)"}] * 2 + [{}]
    # Equal calls are one op, however they are spelled.
    assert sum(node["op"] == "conv2d" for node in g.simplify().describe()["nodes"]) == 2


def test_documentation() -> None:
    assert "post_ops (str or list of str or None)" in str(ops.conv2d.__doc__)
    assert "add(residual)" in str(ops.conv2d.__doc__) and "add(residual)" not in str(ops.add.__doc__)
    assert "post_ops" not in str(ops.softmax.__doc__)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, w: ops.conv2d(x, w, post_ops="rleu"), r"post_ops has rleu, expected add\(residual\), multiply\("),
        (lambda x, w: ops.conv2d(x, w, post_ops="relu,"), r'conv2d: post_ops is "relu,": expected .* at position 5'),
        (lambda x, w: ops.conv2d(x, w, post_ops="add(residual)"), "conv2d: residual is missing, expected a tensor"),
        (lambda x, w: ops.conv2d(x, w, residual=x, post_ops="relu"), "conv2d: residual is given, expected post_ops"),
        (lambda x, w: ops.conv2d(x, w, gate=x), r"conv2d: gate is given, expected post_ops with multiply\(gate\)"),
        (lambda x, w: ops.conv2d(x, w, activation="relu", post_ops="relu"), "conv2d: activation is given"),
        (lambda x, w: ops.conv2d(x, w, post_ops=[1, 2]), r"conv2d: post_ops is \[1,2\] \(ints\), expected .* post-ops"),
        (lambda x, w: ops.add(x, x, post_ops="add(residual)"), r"add: post_ops has add\(residual\), expected scale"),
    ],
)
def test_bad_lists(call: Any, message: str) -> None:
    with pytest.raises(pl.InvalidArgumentError, match=message):
        call(draw(*X), draw(*W))


def test_who_refuses_a_list_says_why() -> None:
    """Kernels that read one input behind a function; others run the call."""
    x, w = draw(1, 32, 6, 6), draw(32, 32, 1, 1)
    found = pl.query("conv2d", x, w, residual=x, gate=x, post_ops="relu, add(residual), multiply(gate)", device="cpu")
    reasons = [r["reason"] for r in found.refusals if r["provider"] == "host"]
    assert any("post_ops is relu, add(residual), multiply(gate), expected" in reason for reason in reasons)
    assert "onednn" in {candidate["provider"] for candidate in found.candidates}


def test_plans_of_before_and_saved_plans(tmp_path: Path, untuned: None) -> None:
    """A file that has activations and residuals as attributes and inputs of their own."""
    before = pl.load_plan(Path(__file__).parent / "data" / "activation_attributes.plan", replan=True)
    g = pl.Graph()

    def w(*shape: int, seed: int) -> Any:
        return g.constant((np.random.default_rng(seed).integers(-4, 5, shape) / 4).astype("float32"))

    x = g.input("x", (1, 3, 6, 5))
    y = g.conv2d(x, w(5, 3, 3, 3, seed=1), w(5, seed=2), padding=1, post_ops="relu")
    z = g.conv2d(y, w(5, 5, 1, 1, seed=3), residual=y, post_ops="add(residual), clip(-1, 2)")
    z = g.conv2d(z, w(5, 5, 1, 1, seed=4), residual=z)
    s = g.add(z, y, post_ops="leaky_relu(0.25)")
    g.output(g.linear(g.reshape(s, (5, 30)), w(4, 30, seed=5), post_ops="relu6"), "p")
    now = pl.compile(g, tune="off")
    data = draw(1, 3, 6, 5)
    np.testing.assert_allclose(before.run(data)[0], now.run(data)[0], rtol=1e-5, atol=1e-5)
    now.save(tmp_path / "now.plan")
    assert b'post_ops="add(residual), clip(-1.0, 2.0)"' in (tmp_path / "now.plan").read_bytes()
    np.testing.assert_array_equal(pl.load_plan(tmp_path / "now.plan").run(data)[0], now.run(data)[0])


def test_norms_in_training_take_what_follows(device: str, untuned: None) -> None:
    """conv, norm, relu6, conv, norm, sum, relu: two norms with post-ops; results and gradients as without passes."""
    rng = np.random.default_rng(0)

    def build() -> pl.Graph:
        g = pl.Graph()
        x = g.input("x", (4, 8, 6, 5))
        own = {}

        def norm(y: Any, name: str) -> Any:
            for part, value in (("scale", 1.5), ("shift", 0.5)):
                own[name + part] = g.parameter(name + part, np.full(8, value, np.float32))
            return g.batch_norm_training(y, own[name + "scale"], own[name + "shift"])[0]

        for name in ("first", "second"):
            own[name] = g.parameter(name, weights[name])
        y = g.relu6(norm(g.conv2d(x, own["first"], padding=1), "one"))
        y = g.relu(g.add(norm(g.conv2d(y, own["second"], padding=1), "two"), x))
        loss = g.mean(g.mul(y, y))
        g.output(loss, "loss")
        for name, gradient in zip(own, g.gradients(loss, list(own.values())), strict=True):
            g.output(gradient, name + "_gradient")
        return g

    weights = {name: rng.standard_normal((8, 8, 3, 3)).astype(np.float32) / 6 for name in ("first", "second")}
    data = rng.standard_normal((4, 8, 6, 5)).astype(np.float32)
    fused = pl.compile(build(), device=device, tune="off")
    apart = pl.compile(build(), device=device, tune="off", without="fuse_post_ops,fuse_norm_slope")
    nodes = build().simplify().describe()["nodes"]
    lists = [node["attributes"].get("post_ops") for node in nodes if node["op"] == "batch_norm_training"]
    assert lists == ["relu6", "add(residual), relu"]
    assert not any(node["op"] in ("relu", "relu6") for node in nodes)
    for found, expected in zip(fused.run(data), apart.run(data), strict=True):
        found, expected = np.asarray(found), np.asarray(expected)
        np.testing.assert_allclose(found, expected, atol=2e-5 * max(1e-3, np.abs(expected).max()))


def test_every_schema_that_takes_post_ops_has_a_case_of_a_list() -> None:
    from op_cases import CASES

    from pylayout.calls import schemas

    listed = {case.op for case in CASES if "post_ops" in case.attributes}
    kinds = {schemas()[op]["kind"] for op in listed}
    takers = {schema["kind"] for schema in schemas().values() if schema["post_ops"]["taken"]}
    assert takers == kinds
    adders = {s["kind"] for s in schemas().values() if s["post_ops"]["operands"]}
    summed = {schemas()[c.op]["kind"] for c in CASES if re.search(r"add\(", str(c.attributes.get("post_ops")))}
    assert adders == summed
    gated = {s["kind"] for s in schemas().values() if "multiply(gate)" in s["post_ops"]["operands"]}
    multiplied = {schemas()[c.op]["kind"] for c in CASES if re.search(r"multiply\(", str(c.attributes.get("post_ops")))}
    assert gated == multiplied


def plan_of(build: Any, shape: tuple[int, ...], device: str, without: str | None = None) -> pl.Plan:
    g = pl.Graph()
    g.output(build(g, g.input("x", shape)), "y")
    return pl.compile(g, device=device, tune="off", without=without)


def ops_in(plan: pl.Plan) -> list[str]:
    return [step["op"] for step in plan.summary()["steps"] if step["kind"] == "op"]


def test_longer_lists_in_plans(untuned: None) -> None:
    """A sum behind an activation is one op with the convolution, of fewer steps; the report tells it."""
    w, x = draw(32, 32, 1, 1), draw(2, 32, 9, 8)

    def build(o: Any, x: Any) -> Any:
        return o.add(o.silu(o.conv2d(x, w)), x)

    plan, apart = (plan_of(build, x.shape, "cpu", without) for without in (None, "fuse_longer_post_ops"))
    assert ops_in(plan) == ["conv2d"] and ops_in(apart) == ["conv2d", "add"]
    assert plan.summary()["passes"]["fuse_longer_post_ops"] == 1
    assert apart.summary()["passes"]["fuse_longer_post_ops"] == 0
    expected = silu(products(x, w)) + x
    for each in (plan, apart):
        np.testing.assert_allclose(each.run(x)[0], expected, atol=1e-5)


def test_gates_in_plans(device: str, untuned: None) -> None:
    """A gated layer whose products are apart: the later one is multiplied by the gate."""
    gate, up, x = draw(48, 64), draw(48, 64)[::-1].copy(), draw(2, 9, 64)

    def build(o: Any, x: Any) -> Any:
        return o.mul(o.silu(o.linear(x, gate)), o.linear(x, up))

    names = ("join_linear", "join_linear,fuse_longer_post_ops")
    plan, apart = (plan_of(build, x.shape, device, without) for without in names)
    assert ops_in(plan) == ["linear", "linear"] and ops_in(apart) == ["linear", "linear", "mul"]
    expected = silu(x.astype(np.float64) @ gate.T) * (x @ up.T)
    for each in (plan, apart):
        np.testing.assert_allclose(each.run(x)[0], expected, atol=1e-4)


def folded(x: np.ndarray, mean: np.ndarray, variance: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    scale = weight.astype(np.float64) / np.sqrt(variance.astype(np.float64) + 1e-5)
    column = (1, -1, 1, 1)
    return x * scale.reshape(column) + (bias - mean * scale).reshape(column)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_norms_in_plans(device: str, layout: str, untuned: None) -> None:
    """A sum behind a norm is its residual, a product its gate where that costs less; without a product before it."""
    x, r = draw(2, 20, 9, 8), draw(2, 20, 8, 9).reshape(2, 20, 9, 8)
    parts = [draw(20), np.abs(draw(20)) + 0.5, draw(20)[::-1].copy(), draw(20) * 2]

    def build(g: pl.Graph) -> pl.Graph:
        a, b = g.input("x", x.shape), g.input("r", r.shape)
        norm = g.batch_norm(a, *(g.constant(part) for part in parts))
        g.output(g.relu(g.add(norm, b)), "sum")
        other = g.batch_norm(a, *(g.constant(part) for part in parts[:2]), bias=g.constant(parts[3]))
        g.output(g.mul(g.silu(other), b), "gated")
        return g

    plan, apart = (
        pl.compile(build(pl.Graph()), device=device, layout=layout, tune="off", without=without)
        for without in (None, "fuse_post_ops,fuse_longer_post_ops,fuse_pointwise")
    )
    found = ops_in(plan)
    assert found.count("batch_norm") == 2 and "add" not in found and "relu" not in found
    assert ops_in(apart).count("add") == 1
    gated = folded(x, *parts[:2], np.ones(20), parts[3])
    expected = [np.maximum(folded(x, *parts) + r, 0), silu(gated) * r]
    for each in (plan, apart):
        for result, value in zip(each.run(x, r), expected, strict=True):
            np.testing.assert_allclose(result, value, atol=2e-5 * np.abs(value).max())


def test_a_norm_of_a_product_gives_it_what_it_reads(untuned: None) -> None:
    """conv, norm with residual and gate: one convolution, which reads them."""
    x, w, r, gate = draw(*X), draw(*W), draw(1, 4, 5, 6), draw(1, 4, 6, 5).reshape(1, 4, 5, 6)
    parts = [draw(4), np.abs(draw(4)) + 0.5, draw(4) * 2, draw(4) + 1]
    steps = "add(residual), relu, multiply(gate)"
    g = pl.Graph()
    y = g.conv2d(g.input("x", X), g.constant(w))
    more = {"residual": g.input("r", r.shape), "gate": g.input("gate", gate.shape)}
    g.output(g.batch_norm(y, *(g.constant(part) for part in parts), post_ops=steps, **more), "y")
    nodes = g.simplify().describe()["nodes"]
    assert [(node["op"], node["attributes"]["post_ops"]) for node in nodes] == [("conv2d", steps)]
    expected = np.maximum(folded(products(x, w), *parts) + r, 0) * gate
    for without in (None, "fold_batch_norm"):
        plan = pl.compile(g, device="cpu", tune="off", without=without)
        np.testing.assert_allclose(plan.run(x, r, gate)[0], expected, atol=2e-5 * np.abs(expected).max())
