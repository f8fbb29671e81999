"""Small integers that decide over shapes, as inputs of the model: one plan for all their values."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811
import onnx.reference  # noqa: E402

import pylayout as pl  # noqa: E402

X = numpy.random.default_rng(0).standard_normal((4, 6)).astype("float32")
OFF_ON = numpy.array([-1, 2], "float32")
LARGEST = 2**63 - 1  # "to the end", as exporters write it

Values = tuple[Any, ...]


def integers(*values):
    return numpy.array(values, "int64")


def number(value, dtype="int64"):
    return numpy.array(value, dtype)


class Late(NamedTuple):
    """An op whose inputs decide over shapes."""

    inputs: str  # but for x, a matrix of any sides
    nodes: str
    values: list[Values]  # for x of 4 x 6
    draw: Callable[[Any, Any], Values] | None = None  # values for another x, by Hypothesis' draw
    graphs: int = 0  # the most graphs for all of `values`; 0: one for each value
    want: Callable[..., Any] | None = None  # where ONNX's evaluator has it not
    least: int = 0  # the least side of x that is drawn


# ---- what is drawn ----


def drawn_axes(draw, x, least=1):
    axes = draw(st.lists(st.sampled_from([0, 1]), min_size=least, max_size=2, unique=True))
    return integers(*(axis - draw(st.sampled_from([0, 2])) for axis in axes))


def drawn_broadcast(draw, x):
    """Another side only where x has 1; perhaps axes before."""
    sides = [draw(st.integers(0, 3)) if n == 1 else draw(st.sampled_from([1, n])) for n in x.shape]
    before = draw(st.lists(st.integers(0, 3), max_size=2))
    return (integers(*before, *(sides if before else sides[draw(st.integers(0, 2)) :])),)


def drawn_reshape(draw, x):
    count, shape = x.size, []
    if not count:  # a 0 copies the side
        other = draw(st.integers(1, 4))
        return (draw(st.sampled_from([integers(-1), integers(0, other) if not x.shape[0] else integers(other, 0)])),)
    for _ in range(draw(st.integers(0, 2))):
        shape.append(draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0])))
        count //= shape[-1]
    shape.append(count)
    open_one = draw(st.integers(-1, len(shape) - 1))
    return (integers(*(-1 if i == open_one else n for i, n in enumerate(shape))),)


PLACES = st.one_of(st.integers(-9, 9), st.sampled_from([LARGEST, -LARGEST, -(2**63)]))


def drawn_slice(draw, x):
    axes = drawn_axes(draw, x)
    parts = [[draw(PLACES), draw(PLACES), draw(st.sampled_from([-3, -1, 1, 2]))] for _ in axes]
    starts, ends, steps = zip(*parts, strict=True)
    return integers(*starts), integers(*ends), axes, integers(*steps)


def drawn_pads(draw, x):
    """Of each side at most all is cut."""
    before = [draw(st.integers(-n, 3)) for n in x.shape]
    after = [draw(st.integers(-n - min(b, 0), 3)) for n, b in zip(x.shape, before, strict=True)]
    return (integers(*before, *after),)


def drawn_positive_pads(draw, x):
    """No further than to the other end."""
    return (integers(*(draw(st.integers(0, n - 1)) for n in (*x.shape, *x.shape))),)


def drawn_range(draw, x):
    return number(draw(st.integers(-5, 5))), number(draw(st.integers(-5, 9))), number(draw(st.sampled_from([-2, 1, 3])))


def drawn_fractions(draw, x):
    parts = draw(st.integers(-8, 8)), draw(st.integers(-8, 16)), draw(st.sampled_from([-3, -1, 1, 2, 4]))
    return tuple(number(part / 4, "float32") for part in parts)


def drawn_split(draw, x):
    first = draw(st.integers(0, x.shape[1]))
    return (integers(first, x.shape[1] - first),)


def drawn_one_hot(draw, x):
    depth = draw(st.integers(1, 5))
    return integers(*draw(st.lists(st.integers(-depth, depth), max_size=4))), number(depth), OFF_ON


# ---- what ONNX's evaluator has not ----


def padded(x, pads, mode="constant"):
    """Its evaluator cuts nothing off."""
    sides = [(int(a), int(b)) for a, b in zip(pads[: x.ndim], pads[x.ndim :], strict=True)]
    kept = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(sides, x.shape, strict=True))
    return numpy.pad(x[kept], [(max(a, 0), max(b, 0)) for a, b in sides], mode)


def padded_along(x, pads, value, axes):
    sides = [(0, 0)] * x.ndim
    for k, axis in enumerate(axes):
        sides[axis] = (int(pads[k]), int(pads[k + len(axes)]))
    kept = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(sides, x.shape, strict=True))
    return numpy.pad(x[kept], [(max(a, 0), max(b, 0)) for a, b in sides], constant_values=value)


def one_hot_columns(x, places, depth, off_on):
    """Its evaluator takes no depth of shape (1)."""
    depth = int(depth[0])
    return numpy.where(numpy.arange(depth)[:, None] == numpy.where(places < 0, places + depth, places), *off_on[::-1])


def images(resize):
    """The nodes with x as an image."""
    return f"ends = Constant<value_ints = [0, 1]>() u = Unsqueeze(x, ends) {resize}"


def each(function, *values):
    return [function(*value) if isinstance(value, tuple) else function(value) for value in values]


def single(*values):
    """Values of one input of integers."""
    return [(integers(*(value if isinstance(value, tuple) else (value,))),) for value in values]


SIDES = single((1, 1, 4, 6), (1, 1, 8, 6), (1, 1, 2, 3), (1, 1, 5, 13), (1, 1, 1, 1), (1, 1, 4, 12))
AXES = single(0, 1, -1, (0, 1), (-2, 1), (1, 0))


def drawn_sides(draw, x):
    return (integers(1, 1, draw(st.integers(1, 9)), draw(st.integers(1, 9))),)


TABLE = {
    "Expand": Late(
        "int64[r] v", "y = Expand(x, v)",
        [*single((4, 6), (1, 1), (4, 1), 1, 6, (2, 4, 6), (0, 4, 6), (3, 1, 1), (0, 1, 1)), (integers(),)],
        drawn_broadcast, graphs=4,
    ),
    "Expand, an axis of 1": Late(
        "int64[r] v", "zero = Constant<value_ints = [0]>() s = ReduceMax(x, zero) y = Expand(s, v)",
        single((4, 6), (1, 1), (0, 6), (7, 6), (5, 1)), graphs=1,
    ),
    "OneHot": Late(
        "int64[k] i, int64 d, float[2] v", "y = OneHot(i, d, v)",
        [(integers(*i), number(d), OFF_ON) for i, d in (((0, 1, 2), 3), ((0, -2), 5), ((0, 9), 3), ((), 3), ((1,), 1))],
        drawn_one_hot, graphs=1,
    ),
    "OneHot, columns": Late(
        "int64[k] i, int64[1] d, float[2] v", "y = OneHot<axis = 0>(i, d, v)",
        [(integers(*i), integers(d), OFF_ON) for i, d in (((0, 1), 3), ((0, -2), 5), ((0, 9), 3), ((), 3), ((1,), 1))],
        graphs=1, want=one_hot_columns,
    ),
    "Trilu": Late(
        "int64 k", "y = Trilu(x, k)", each(lambda k: (number(k),), 0, 1, -1, 3, -3, 9, -9),
        lambda draw, x: (number(draw(st.integers(-8, 8))),), graphs=1,
    ),
    "Trilu, lower": Late(
        "int64 k", "y = Trilu<upper = 0>(x, k)", each(lambda k: (number(k),), 0, 1, -1, 3, -3, 9, -9, 2**40),
        lambda draw, x: (number(draw(st.integers(-8, 8))),), graphs=2,
    ),
    "Resize": Late("int64[4] v", images('y = Resize<mode = "linear">(u, , , v)'), SIDES, drawn_sides, 1, least=1),
    "Resize, nearest": Late("int64[4] v", images("y = Resize(u, , , v)"), SIDES, drawn_sides, least=1),
    "Resize, cubic": Late("int64[4] v", images('y = Resize<mode = "cubic">(u, , , v)'), SIDES, drawn_sides, least=1),
    "Resize, axes": Late(
        "int64[2] v", images('y = Resize<mode = "linear", axes = [2, 3]>(u, , , v)'),
        single((4, 6), (8, 6), (2, 3), (5, 13), (1, 1)), graphs=1,
    ),
    "Resize, scales": Late(
        "float[4] v", images('y = Resize<mode = "linear">(u, , v)'),
        [(number((1, 1, a, b), "float32"),) for a, b in ((1, 1), (2, 3), (0.5, 0.5), (1.3, 2.1), (1, 0.25))],
    ),
    "Tile": Late(
        "int64[2] v", "y = Tile(x, v)", single((1, 1), (2, 3), (0, 1), (1, 0), (3, 1), (0, 0)),
        lambda draw, x: (integers(draw(st.integers(0, 3)), draw(st.integers(0, 3))),), graphs=3,
    ),
    "Pad": Late(
        "int64[4] v", "y = Pad(x, v)",
        single((0, 0, 0, 0), (1, 2, 3, 0), (-1, 0, 0, -2), (0, -6, 0, 0), (-3, 3, 2, -1), (-4, 0, 0, 0)),
        drawn_pads, graphs=3, want=padded,
    ),
    "Pad, value and axes": Late(
        "int64[2] v, float c, int64[1] a", "y = Pad(x, v, c, a)",
        [(integers(*v), number(c, "float32"), integers(a))
         for v, c, a in (((0, 0), 1, 0), ((1, 2), 2, 1), ((-1, 1), 3, -1), ((2, -4), 0, 0), ((0, 3), 7, -2))],
        want=padded_along,
    ),
    "Pad, edge": Late(
        "int64[4] v", 'y = Pad<mode = "edge">(x, v)',
        single((0, 0, 0, 0), (1, 2, 3, 0), (-1, 0, 0, -2), (-1, 3, 2, -1), (0, 9, 0, 0)),
        drawn_positive_pads, want=lambda x, v: padded(x, v, "edge"), least=1,
    ),
    "Pad, reflect": Late(
        "int64[4] v", 'y = Pad<mode = "reflect">(x, v)',
        single((0, 0, 0, 0), (1, 2, 3, 0), (3, 5, 3, 5), (0, 0, 2, 1), (0, 1, 0, 0)), drawn_positive_pads, least=1,
    ),
    "Pad, wrap": Late(
        "int64[4] v", 'y = Pad<mode = "wrap">(x, v)',
        single((0, 0, 0, 0), (1, 2, 3, 0), (3, 5, 3, 5), (0, 0, 2, 1), (0, 1, 0, 0)), drawn_positive_pads, least=1,
    ),
    "TopK": Late(
        "int64[1] k", "y, i = TopK(x, k)", single(1, 3, 6, 0, 2),
        lambda draw, x: (integers(draw(st.integers(0, x.shape[1]))),), graphs=1,
    ),
    "TopK, smallest of columns": Late(
        "int64[1] k", "y, i = TopK<axis = 0, largest = 0>(x, k)", single(1, 3, 4, 0, 2), graphs=1
    ),
    "ReduceSum": Late(
        "int64[r] v", "y = ReduceSum(x, v)", [*AXES, (integers(),)],
        lambda draw, x: (drawn_axes(draw, x, 0),),
    ),
    "ReduceSum, no axes": Late(
        "int64[r] v", "y = ReduceSum<noop_with_empty_axes = 1>(x, v)", [*AXES, (integers(),)],
        lambda draw, x: (drawn_axes(draw, x, 0),),
    ),
    "ReduceMean": Late("int64[r] v", "y = ReduceMean<keepdims = 0>(x, v)", AXES),
    "ReduceMax": Late(
        "int64[r] v", "y = ReduceMax<keepdims = 0>(x, v)", AXES, lambda draw, x: (drawn_axes(draw, x),), least=1
    ),
    "ReduceL2": Late("int64[r] v", "y = ReduceL2(x, v)", AXES, lambda draw, x: (drawn_axes(draw, x),)),
    "ReduceLogSumExp": Late("int64[r] v", "y = ReduceLogSumExp<keepdims = 0>(x, v)", AXES),
    "Range": Late(
        "int64 a, int64 b, int64 c", "r = Range(a, b, c) y = Add(r, r)",
        [tuple(map(number, v)) for v in ((0, 5, 1), (5, 0, -1), (0, 0, 1), (5, 0, 1), (-4, 9, 3), (9, -9, -4))],
        drawn_range, graphs=1,
    ),
    "Range, fractions": Late(
        "float a, float b, float c", "r = Range(a, b, c) y = Add(r, r)",
        [tuple(number(part, "float32") for part in v)
         for v in ((0, 5, 1), (5, 0, -1), (0, 0, 1), (5, 0, 1), (-4, 9, 0.5), (1, 0, -0.25))],
        drawn_fractions,
    ),
    "Slice": Late(
        "int64[r] a, int64[r] b, int64[r] c, int64[r] d", "w = Neg(x) y = Slice(w, a, b, c, d)",
        [tuple(integers(*part) for part in v)
         for v in (((0,), (2,), (0,), (1,)), ((-1,), (-9,), (1,), (-1,)), ((3, 0), (3, 6), (0, 1), (1, 2)),
                   ((0, 5), (4, 0), (0, 1), (3, -2)), ((1,), (LARGEST,), (-1,), (1,)),
                   ((-1,), (-LARGEST - 1,), (-1,), (-2,)), ((-LARGEST, 1), (LARGEST, -1), (0, 1), (2, 1)))],
        drawn_slice,
    ),
    "Reshape": Late(
        "int64[r] v", "y = Reshape(x, v)", single((6, 4), (2, 12), (-1, 3), (0, 2, 3), 24, (0, -1), (1, 1, 1, -1)),
        drawn_reshape, graphs=6,
    ),
    "Reshape, zeros are sizes": Late(
        "int64[r] v", "y = Reshape<allowzero = 1>(x, v)", single((6, 4), (2, 12), (-1, 3), 24, (8, 3))
    ),
    "Squeeze": Late(
        "int64[r] v", "ends = Constant<value_ints = [0, 3]>() u = Unsqueeze(x, ends) y = Squeeze(u, v)",
        single(0, 3, -1, (0, 3), (-4, -1)),
    ),
    "Unsqueeze": Late(
        "int64[r] v", "y = Unsqueeze(x, v)", single(0, 1, -1, (0, 3), -2),
        lambda draw, x: (integers(draw(st.integers(-3, 2))),),
    ),
    "Split": Late(
        "int64[2] v", "y, z = Split<axis = 1>(x, v)", single((3, 3), (1, 5), (0, 6), (6, 0), (2, 4)), drawn_split, 1
    ),
    "ConstantOfShape": Late(
        "int64[r] v", "c = ConstantOfShape<value = float[1] {2}>(v) y = Add(c, c)",
        single(3, (2, 5), (0, 2), 0, (2, 1, 0, 3)),
        lambda draw, x: (integers(*draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))),), graphs=3,
    ),
    "CumSum": Late(
        "int64 a", "y = CumSum(x, a)", each(lambda a: (number(a),), 0, 1, -1, -2, 0),
        lambda draw, x: (number(draw(st.integers(-2, 1))),), least=1,
    ),
}  # fmt: skip


class Run:
    """A plan of an entry, and what ONNX's evaluator gives."""

    def __init__(self, name: str) -> None:
        self.late = TABLE[name]
        self.model = onnx.parser.parse_model(
            f"""<ir_version: 9, opset_import: ["" : 20]>
            agraph (float[n, m] x, {self.late.inputs}) => (float y) {{ {self.late.nodes} }}"""
        )
        kind = "Range" if "Range(a" in self.late.nodes and "int64" in self.late.inputs else ""
        self.model.graph.output[0].CopyFrom(
            onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64 if kind else onnx.TensorProto.FLOAT, None)
        )
        self.reference = onnx.reference.ReferenceEvaluator(self.model)
        self.names = [entry.name for entry in self.model.graph.input]
        self.plan = pl.compile(self.model, device="cpu", tune="off")

    def check(self, x: Any, values: Values) -> None:
        feeds = dict(zip(self.names, (x, *values), strict=True))
        want = self.late.want(x, *values) if self.late.want else self.reference.run(None, feeds)[0]
        (got,) = self.plan.run(feeds)
        assert got.shape == want.shape, feeds
        assert got.dtype == want.dtype
        numpy.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    def graphs(self) -> int:
        return sum(plan["sizes"]["graphs"] for plan in self.plan.summary()["plans"])


@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
@pytest.mark.parametrize("name", TABLE)
def test_one_plan_for_values_of_inputs(name, turned):
    """Each value is the first one, or comes after others for which the plan has graphs."""
    run = Run(name)
    values = run.late.values[::-1] if turned else run.late.values
    assert len(values) >= 5
    for value in (*values, *values):
        run.check(X, value)
    assert run.graphs() <= (run.late.graphs or len(values))


prepared = cache(Run)


@pytest.mark.parametrize("name", [name for name, late in TABLE.items() if late.draw])
def test_drawn_values_give_what_onnx_says(name):
    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def check(data):
        run = prepared(name)
        rows, columns = (data.draw(st.integers(run.late.least, 5), side) for side in ("rows", "columns"))
        x = numpy.random.default_rng(rows * 7 + columns).standard_normal((rows, columns)).astype("float32")
        values = run.late.draw(data.draw, x)
        run.check(x, values)

    check()


def test_no_axes_are_other_axes():
    """Nothing of an empty input tells graphs apart but that it is empty."""
    run = Run("ReduceSum")
    for axes in ((), (0,), (), (1,), (0,)):
        run.check(X, (integers(*axes),))


# ---- values that make no sense ----

BAD = [
    ("Reshape", [integers(5, 5)], r'"y" \(ai.onnx Reshape.*shape is \[5, 5\], which does not fit x .*\[4, 6\]'),
    ("Reshape", [integers(-1, 5)], r"shape is .*, which does not fit x with shape \[4, 6\]"),
    ("Reshape", [integers(-1, -1)], r"shape is \[-1, -1\], which does not fit x with shape \[4, 6\]"),
    ("Reshape", [integers(0, 0, 0)], r"shape is \[0, 0, 0\], which copies a size that x, \[4, 6\], has not"),
    ("Slice", [*each(integers, 0, 2, 0, 0)], r'"y" \(ai.onnx Slice.*steps is \[0\], expected none to be 0'),
    ("Slice", [*each(integers, 0, 2, 5, 1)], r"axes is 5, expected -2 to 1"),
    ("Slice", [integers(0, 0), integers(2, 1), integers(0, 0), integers(1, 1)], r"axes is \[0, 0\], expected each"),
    ("Slice", [*each(integers, (0, 1), 2, 0, 1)], r"starts \[0, 1\], ends \[2\], .* differ in length"),
    ("Tile", [integers(-1, 1)], r'"y" \(ai.onnx Tile.*repeats is \[-1, 1\], expected 2 values of at least 0'),
    ("Pad", [integers(-5, 0, 0, 0)], r'"y" \(ai.onnx Pad.*pads are \[\(-5, 0\).*cut more than x, \[4, 6\], has'),
    ("Pad, value and axes", [integers(1, 1), number(0, "float32"), integers(2)], r"axes is 2, expected -2 to 1"),
    ("TopK", [integers(7)], r"\(ai.onnx TopK.*K is 7, x has shape \[4, 6\], expected 0 to 6"),
    ("TopK", [integers(-1)], r"\(ai.onnx TopK.*K is -1, x has shape \[4, 6\], expected 0 to 6"),
    ("ReduceSum", [integers(2)], r"\(ai.onnx ReduceSum.*axes is 2, expected -2 to 1"),
    ("ReduceSum", [integers(0, -2)], r"axes is \[0, -2\], expected each axis once"),
    ("Range", [*each(number, 0, 4, 0)], r'"r" \(ai.onnx Range.*delta is 0, expected a number other than 0'),
    ("Range, fractions", [number(v, "float32") for v in (0, numpy.inf, 1)], r"Range.*limit is inf, expected finite"),
    ("Expand", [integers(3, 6)], r'"y" \(ai.onnx Expand.*shape is \[3, 6\], which does not broadcast with x, \[4, 6\]'),
    ("Expand", [integers(-1, 6)], r"shape is \[-1, 6\], which does not broadcast with x, \[4, 6\]"),
    ("OneHot", [integers(0, 1), number(-1), OFF_ON], r"\(ai.onnx OneHot.*depth is -1"),
    ("Resize", [integers(1, 1, -2, 6)], r"\(ai.onnx Resize.*sizes is \[1, 1, -2, 6\], expected 4 values of at least 0"),
    ("Resize, scales", [number((1, 1, -1, 2), "float32")], r"scales is .*, expected 4 positive numbers"),
    ("Squeeze", [integers(1)], r"\(ai.onnx Squeeze.*axes is \[1\], expected axes of size 1 of x"),
    ("Unsqueeze", [integers(4)], r"\(ai.onnx Unsqueeze.*axes is 4, expected -3 to 2"),
    ("Split", [integers(1, 4)], r"\(ai.onnx Split.*split is \[1, 4\], expected sizes whose sum is 6"),
    ("Split", [integers(-1, 7)], r"split is \[-1, 7\], expected sizes whose sum is 6"),
    ("ConstantOfShape", [integers(2, -3)], r"\(ai.onnx ConstantOfShape.*shape \[2, -3\], expected sizes of at least 0"),
    ("CumSum", [number(2)], r"\(CumSum, on the host\).*axis is 2, expected -2 to 1"),
]  # fmt: skip


@pytest.mark.parametrize("before", [False, True], ids=["first", "after a run"])
@pytest.mark.parametrize(("name", "bad", "message"), BAD, ids=lambda v: str(v)[:20])
def test_bad_values_are_refused_and_the_plan_goes_on(name, bad, message, before):
    """The error is of the node and names its input, whether the plan has a graph for such values already or not."""
    run = Run(name)
    if before:
        run.check(X, run.late.values[0])
        run.check(X, run.late.values[1])
    with pytest.raises((pl.ShapeError, pl.InvalidArgumentError), match=message):
        run.plan.run(X, *bad)
    for value in run.late.values[:2]:
        run.check(X, value)
