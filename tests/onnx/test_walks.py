"""Walks: what a segment gives for sizes that are new is what its plan gives for the same sizes later."""

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811
from onnx_models import helper, model_of  # noqa: E402

import pylayout as pl  # noqa: E402
from pylayout.onnx.segments import steps, walk  # noqa: E402

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64

# What is done to rows (m, 4) that were found, as ONNX nodes from `x`; each gives `x` of some rows of 4 again.
PARTS = {
    "exp": ["a = Abs(x)", "n = Neg(a)", "x = Exp(n)"],
    "boxes": ["two = Constant<value_float = 2.0>()", "x = Div(x, two)", "x = Clip(x)"],
    "sorted": [
        "first = Constant<value_int = 0>()", "key = Gather<axis = 1>(x, first)", "n = Shape(key)",
        "v, place = TopK<axis = 0>(key, n)", "x = Gather<axis = 0>(x, place)",
    ],
    "best": [
        "most = Constant<value_ints = [3]>()", "n = Shape<start = 0, end = 1>(x)", "both = Concat<axis = 0>(n, most)",
        "k = ReduceMin<keepdims = 1>(both)", "zero = Constant<value_ints = [0]>()", "x = Slice(x, zero, k)",
    ],
    "corners": [
        "a, b = Split<axis = 1, num_outputs = 2>(x)", "low = Min(a, b)", "high = Max(a, b)",
        "x = Concat<axis = 1>(low, high)",
    ],
    "numbered": [
        "n = Shape<start = 0, end = 1>(x)", "zero = Constant<value_int = 0>()", "one = Constant<value_int = 1>()",
        "count = Squeeze(n)", "places = Range(zero, count, one)", "f = Cast<to = 1>(places)",
        "column = Constant<value_ints = [-1, 1]>()", "f = Reshape(f, column)", "x = Add(x, f)",
    ],
    "sure": ["s = Sigmoid(x)", "p = Softmax<axis = 1>(x)", "c = Greater(s, p)", "x = Where(c, s, p)"],
    "twice": ["x = Concat<axis = 0>(x, x)"],
    "turned": ["t = Transpose(x)", "r = ReduceMax<keepdims = 1>(t)", "t = Sub(t, r)", "x = Transpose(t)"],
}  # fmt: skip


def model(parts):
    """The nodes of the parts, each result with a name of its own."""
    current, lines = {"x": "rows"}, []
    for part in parts:
        for line in PARTS[part]:
            left, right = line.split(" = ", 1)
            at = right.rindex("(")
            inputs = ", ".join(current[name] for name in right[at + 1 : -1].split(", ") if name)
            names = left.split(", ")
            current |= {name: f"{name}_{len(lines)}" for name in names}
            lines.append(f"{', '.join(current[name] for name in names)} = {right[:at]}({inputs})")
    body = "\n".join(lines)
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        agraph (float[n, 4] x) => (float[m, 4] y) {{
            zero = Constant<value_float = 0.0>()
            columns = Constant<value_ints = [1]>()
            ahead = Constant<value_ints = [0]>()
            largest = ReduceMax<keepdims = 0>(x, columns)
            c = Greater(largest, zero)
            p = NonZero(c)
            q = Squeeze(p, ahead)
            rows = Gather<axis = 0>(x, q)
            {body}
            y = Identity({current["x"]})
        }}"""
    )


def walks_of(plan):
    return [variant for step in plan._rounds.all_steps() for variant in getattr(step, "variants", ()) if variant.walk]


@pytest.fixture
def heavy(monkeypatch):
    """Segments of any size are bound to sizes that come again."""
    monkeypatch.setattr(walk, "LIGHT_ELEMENTS", 0)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=4), seed=st.integers(0, 1000))
def test_a_walk_gives_what_the_plan_gives(heavy, parts, seed):
    plan = pl.compile(model(parts), device="cpu", tune="off")
    rng = numpy.random.default_rng(seed)
    plan.run(rng.standard_normal((5, 4)).astype("float32"))
    for n in (7, 12, 1):
        x = rng.standard_normal((n, 4)).astype("float32")
        x[0] = numpy.abs(x[0])  # something is found
        before = [dict(variant._met) for variant in walks_of(plan)]
        results = [plan.run(x)[0] for _ in range(steps.WALKS + 1)]
        assert walks_of(plan) and before != [variant._met for variant in walks_of(plan)]
        for result in results[1:]:
            assert result.shape == results[0].shape and result.dtype == results[0].dtype
            numpy.testing.assert_allclose(result, results[0], rtol=1e-5, atol=1e-6)


def test_sizes_that_come_again_are_bound(heavy):
    plan = pl.compile(model(["exp"]), device="cpu", tune="off")
    for n in (3, 4, 5, 6):
        plan.run(numpy.ones((n, 4), "float32"))
    made = plan.summary()["plans"][-1]["sizes"]["made"]
    for _ in range(steps.WALKS):
        plan.run(numpy.ones((6, 4), "float32"))
    assert plan.summary()["plans"][-1]["sizes"]["made"] == made + 1


@pytest.mark.parametrize("planned, more", [(0.1, 4), (3.0, 0)])
def test_the_faster_of_the_walk_and_the_plan_is_taken(heavy, monkeypatch, planned, more):
    """A walk of one second beside plans that take so long, and five at sizes that they are not bound to."""
    now, ran, bound = [0.0], {"walk": 0, "plan": 0}, set()
    walked, run = walk.Walk.run, steps.Variant._planned

    def slow_walk(self, arrays):
        now[0] += 1.0
        ran["walk"] += 1
        return walked(self, arrays)

    def slow_plan(self, inputs):
        key = id(self), tuple(array.shape for array in inputs)
        now[0] += planned if key in bound else 5.0
        bound.add(key)
        ran["plan"] += 1
        return run(self, inputs)

    plan = pl.compile(model(["exp"]), device="cpu", tune="off")
    plan.run(numpy.ones((3, 4), "float32"))
    (variant,) = [each for each in walks_of(plan) if "exp" in str(each.walk._noted)]
    for other in walks_of(plan):
        if other is not variant:
            other.walk = None
    monkeypatch.setattr(steps, "clock", lambda: now[0])
    monkeypatch.setattr(walk.Walk, "run", slow_walk)
    monkeypatch.setattr(steps.Variant, "_planned", lambda self, inputs: slow_plan(self, inputs) if self is variant
                        else run(self, inputs))  # fmt: skip

    def runs(n, count):
        ran.update(walk=0, plan=0)
        for _ in range(count):
            assert plan.run(numpy.full((n, 4), 2, "float32"))[0][0, 0] == pytest.approx(numpy.exp(-2))
        return ran["walk"], ran["plan"]

    assert runs(7, steps.WALKS) == (steps.WALKS, 0)
    assert runs(7, 1) == (0, 1), "what binding takes is not known yet"
    assert runs(8, 8) == (5, 3), "as long as binding takes"
    runs(7, 20)
    assert runs(9, 9) == (9 - more, more)


def test_light_segments_are_always_walked():
    plan = pl.compile(model(["exp"]), device="cpu", tune="off")
    plan.run(numpy.ones((3, 4), "float32"))
    made = [summary["sizes"]["made"] for summary in plan.summary()["plans"]]
    for _ in range(2 * steps.WALKS):
        plan.run(numpy.ones((6, 4), "float32"))
    after = [summary["sizes"]["made"] for summary in plan.summary()["plans"]]
    assert after[1:] == made[1:]


def test_what_is_wrong_is_said_by_the_plan():
    nodes = [helper.make_node("NonZero", ["x"], ["p"]), helper.make_node("GatherND", ["y", "q"], ["z"])]
    nodes.insert(1, helper.make_node("Transpose", ["p"], ["q"]))
    plan = pl.compile(model_of(nodes, {"x": (FLOAT, ["n"]), "y": (FLOAT, ["k"])}, ["z"], 20), device="cpu", tune="off")
    for n in (2, 3):
        assert plan.run(numpy.ones(n, "float32"), numpy.arange(9, dtype="float32"))[0].tolist() == list(range(n))
    with pytest.raises(pl.InvalidArgumentError, match="index"):
        plan.run(numpy.ones(20, "float32"), numpy.arange(9, dtype="float32"))


def test_results_are_the_callers():
    """A result is no part of an input, and no constant of the model."""
    plan = pl.compile(
        onnx.parser.parse_model(
            """<ir_version: 9, opset_import: ["" : 20]>
            agraph (float[n] x) => (float[m] y, float[n] z) {
                p = NonZero(x)
                q = Squeeze(p)
                y = Gather(x, q)
                z = Identity(x)
            }"""
        ),
        device="cpu",
        tune="off",
    )
    for n in (3, 4, 4, 4, 4):
        x = numpy.ones(n, "float32")
        y, z = plan.run(x)
        assert not numpy.shares_memory(y, x) and not numpy.shares_memory(z, x)
        assert y.tolist() == z.tolist() == x.tolist()
