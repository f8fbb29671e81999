"""Loops whose carried values grow by Concat: the parts are joined once, and nothing but the time shows it."""

import numpy
import pytest

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811

import pylayout as pl  # noqa: E402


def compiled(body, results="y", declared="float[m, 2] y"):
    """A loop over a count and a value known late; `body` computes `w` of the carried `v`, the iteration and `x`."""
    return pl.compile(
        onnx.parser.parse_model(
            f"""<ir_version: 9, opset_import: ["" : 20]>
            agraph (float[n, 2] x, int64 most) => ({declared}) {{
                yes = Constant<value = bool {{1}}>()
                two = Constant<value_float=2.0>()
                {results} = Loop(most, yes, x) <body = b (int64 i, bool c, float[k, 2] v) => (bool again, float w{
                ", float s" if "," in results else ""
            }) {{
                    again = Identity(c)
                    number = Cast<to=1>(i)
                    part = Mul(number, x)
                    {body}
                }}>
            }}"""
        ),
        device="cpu",
        tune="off",
    )


def inner(plan):
    """The program of the loop's body."""
    return next(step.programs["body"] for step in plan._rounds.all_steps() if "body" in getattr(step, "programs", {}))


X = numpy.arange(6, dtype="float32").reshape(3, 2)

JOINS = {
    "behind": ("w = Concat<axis=0>(v, part)", lambda v, part: [v, part]),
    "before": ("w = Concat<axis=0>(part, v)", lambda v, part: [part, v]),
    "around": ("w = Concat<axis=-2>(part, v, x, part)", lambda v, part: [part, v, X, part]),
    "alone": ("w = Concat<axis=0>(v)", lambda v, part: [v]),
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("most", [0, 1, 2, 7])
def test_parts_are_joined_in_their_order(name, most):
    body, parts = JOINS[name]
    plan = compiled(body)
    want = X
    for i in range(most):
        want = numpy.concatenate(parts(want, i * X))
    for _ in range(2):
        numpy.testing.assert_array_equal(plan.run(X, numpy.array(most))[0], want)
    if most:
        assert len(inner(plan).outputs) == len(parts(X, X))  # the condition, and all parts but the value itself
        assert "v" not in [entry.name for entry in inner(plan).proto.input]


READ = {
    "the value is read": "w = Concat<axis=0>(v, part) n = Shape(v) s = Cast<to=1>(n)",
    "the result is read": "w = Concat<axis=0>(v, part) s = Mul(w, two)",
    "the value comes twice": "w = Concat<axis=0>(v, part, v) s = Neg(x)",
    "a subgraph reads it": """w = Concat<axis=0>(v, part)
        s = If(c) <then_branch = t () => (float a) { a = Mul(v, two) },
                   else_branch = e () => (float b) { b = Neg(x) }>""",
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_joined_in_the_body(name):
    plan = compiled(READ[name], "y, all")
    want = numpy.concatenate([X, 0 * X, *([X] if "twice" in name else [])])
    numpy.testing.assert_array_equal(plan.run(X, numpy.array(1))[0], want)
    assert "v" in [entry.name for entry in inner(plan).proto.input]


def test_scanned_values_and_others_stay_beside_what_grows():
    plan = pl.compile(
        onnx.parser.parse_model(
            """<ir_version: 9, opset_import: ["" : 20]>
            agraph (float[n] x, int64 most) => (float[m] y, float z, float[j] all) {
                yes = Constant<value = bool {1}>()
                one = Constant<value_float=1.0>()
                y, z, all = Loop(most, yes, x, one) <
                    body = b (int64 i, bool c, float[k] v, float a) => (bool again, float[l] w, float d, float s) {
                        two = Constant<value_float=2.0>()
                        limit = Constant<value_float=20.0>()
                        axes = Constant<value_ints=[0]>()
                        d = Mul(a, two)
                        again = Less(d, limit)
                        column = Unsqueeze(d, axes)
                        w = Concat<axis=0>(column, v)
                        s = Neg(d)
                    }>
            }"""
        ),
        device="cpu",
        tune="off",
    )
    for most, powers in ((9, [2, 4, 8, 16, 32]), (2, [2, 4]), (0, [])):
        y, z, scanned = plan.run(numpy.array([7, 8], "float32"), numpy.array(most))
        assert y.tolist() == [*powers[::-1], 7, 8]
        assert float(z) == (powers or [1])[-1] and scanned.tolist() == [-power for power in powers]


def test_a_saved_plan_joins_alike(tmp_path):
    plan = compiled(JOINS["around"][0])
    want = plan.run(X, numpy.array(5))[0]
    plan.save(tmp_path / "loop.plan")
    again = pl.load_plan(tmp_path / "loop.plan")
    numpy.testing.assert_array_equal(again.run(X, numpy.array(5))[0], want)
    assert inner(again).outputs == inner(plan).outputs


def test_parts_that_do_not_fit_are_errors():
    plan = compiled("one = Constant<value_ints=[1, -1]>() flat = Reshape(part, one) w = Concat<axis=0>(v, flat)")
    with pytest.raises(pl.Error, match="Loop"):
        plan.run(X, numpy.array(2))
