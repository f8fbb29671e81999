"""Ops that need the size of an axis: one graph serves any."""

import numpy
import pytest

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811
import onnx.reference  # noqa: E402

import pylayout as pl  # noqa: E402
from pylayout.onnx.importer import Importer  # noqa: E402
from pylayout.onnx.model import read  # noqa: E402


def parsed(nodes, kind="float"):
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        agraph (float[n, m] x) => ({kind}[k, l] y) {{ {nodes} }}"""
    )


def compiled(nodes, kind="float"):
    """A plan that may not be made again for other sizes."""
    plan = pl.compile(parsed(nodes, kind), device="cpu", tune="off")
    plan._graph_for = None
    return plan


@pytest.mark.parametrize("shape", [(5, 5), (3, 6), (7, 2), (1, 1), (0, 3)])
@pytest.mark.parametrize("k", [0, 2, -1])
def test_diagonals(shape, k):
    x = numpy.arange(1, 1 + numpy.prod(shape), dtype="float32").reshape(shape)
    assert (compiled(f"y = EyeLike<k = {k}>(x)").run(x)[0] == numpy.eye(*shape, k)).all()
    ones = compiled(f"y = EyeLike<k = {k}, dtype = 7>(x)", "int64").run(x)[0]
    assert ones.dtype == numpy.int64 and (ones == numpy.eye(*shape, k)).all()
    shift = f"k = Constant<value_int = {k}>()"
    assert (compiled(f"{shift} y = Trilu(x, k)").run(x)[0] == numpy.triu(x, k)).all()
    assert (compiled(f"{shift} y = Trilu<upper = 0>(x, k)").run(x)[0] == numpy.tril(x, k)).all()


def test_squeeze_without_axes_takes_those_that_are_1_at_each_size():
    """Another rank is another graph: the importer makes one for each."""
    plan = pl.compile(
        onnx.parser.parse_model(
            """<ir_version: 10, opset_import: ["" : 20]>
            agraph (float[n, 1, m] x) => (float[] y) { s = Squeeze(x) y = Neg(s) }"""
        ),
        device="cpu",
        tune="off",
    )
    for shape in [(2, 1, 3), (1, 1, 3), (4, 1, 1), (1, 1, 1), (7, 1, 5), (1, 1, 6), (3, 1, 0)]:
        x = numpy.arange(numpy.prod(shape), dtype="float32").reshape(shape)
        (y,) = plan.run(x)
        assert y.shape == x.squeeze().shape and (y == -x.squeeze()).all()


def ints(**values):
    """Constants of integers, as nodes."""
    texts = {name: str(value).replace("(", "[").replace(")", "]") for name, value in values.items()}
    kinds = {name: "ints" if text.startswith("[") else "int" for name, text in texts.items()}
    return " ".join(f"{name} = Constant<value_{kinds[name]} = {text}>()" for name, text in texts.items())


LAST, FIRST = 2**62, -(2**62)
NODES = {
    "slice every second": ints(a=[0, 1], b=[LAST, LAST], c=[0, 1], d=[2, 3]) + " y = Slice(x, a, b, c, d)",
    "slice within": ints(a=[1, -4], b=[-1, 4], c=[0, 1], d=[2, 2]) + " y = Slice(x, a, b, c, d)",
    "slice turned": ints(a=[LAST, -1], b=[FIRST, FIRST], c=[0, 1], d=[-1, -1]) + " y = Slice(x, a, b, c, d)",
    "slice back by two": ints(a=[-2, 3], b=[0, FIRST], c=[0, 1], d=[-2, -2]) + " y = Slice(x, a, b, c, d)",
    "slice back before": ints(a=[-5, 1], b=[FIRST, -3], c=[0, 1], d=[-1, -1]) + " y = Slice(x, a, b, c, d)",
    "pad reflect": ints(p=[0, 2, 0, 1]) + ' y = Pad<mode = "reflect">(x, p)',
    "pad edge": ints(p=[1, 2, 9, 1]) + ' y = Pad<mode = "edge">(x, p)',
    "pad wrap": ints(p=[1, 2, 0, 1]) + ' y = Pad<mode = "wrap">(x, p)',
    "a row for each": "n = Shape<start = 0, end = 1>(x) one = Constant<value_ints = [1]>() r = Concat<axis = 0>(n, one)"
    " zero = Constant<value_ints = [0]>() row = ReduceMax(x, zero) y = Tile(row, r)",
    "sums from behind": ints(a=1) + " y = CumSum<reverse = 1>(x, a)",
    "sums before": ints(a=0) + " y = CumSum<reverse = 1, exclusive = 1>(x, a)",
    "the last of the largest": " r = Round(x) p = ArgMax<axis = 1, select_last_index = 1>(r) y = Cast<to = 1>(p)",
    "the place of the largest": "y = Hardmax<axis = 0>(x)",
    "of each row": "i = ArgMax<axis = 1>(x) v = GatherND<batch_dims = 1>(x, i) " + ints(a=[1]) + " y = Unsqueeze(v, a)",
}


@pytest.mark.parametrize("name", NODES)
def test_an_axis_of_any_size(name):
    plan, exact = compiled(NODES[name]), onnx.reference.ReferenceEvaluator(parsed(NODES[name]))
    for shape in ((5, 6), (8, 7), (3, 4)):
        x = numpy.random.default_rng(len(name)).standard_normal(shape).astype("float32")
        (wanted,) = exact.run(None, {"x": x})
        (found,) = plan.run(x)
        assert found.shape == wanted.shape
        numpy.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("code", "dtype"), [(1, "float32"), (6, "int32"), (7, "int64")])
@pytest.mark.parametrize("backwards", [False, True])
def test_ranges_of_any_type(code, dtype, backwards):
    """Positions that are floats from the start on, as torch.arange(n, dtype=torch.float32) gives them."""
    first, end, step = ("last", "minus", "minus") if backwards else ("zero", "count", "one")
    nodes = f"""
        size = Shape <start = 1, end = 2> (x)
        number = Squeeze(size)
        count = Cast <to = {code}> (number)
        zero_ = Constant <value_int = 0> ()
        zero = Cast <to = {code}> (zero_)
        one_ = Constant <value_int = 1> ()
        one = Cast <to = {code}> (one_)
        minus = Neg(one)
        last_ = Sub(number, one_)
        last = Cast <to = {code}> (last_)
        y = Range({first}, {end}, {step})
    """
    plan = compiled(nodes, {"float32": "float"}.get(dtype, dtype))
    for n in (64, 5, 1, 100):
        (y,) = plan.run(numpy.zeros((2, n), "float32"))
        want = numpy.arange(n)[::-1] if backwards else numpy.arange(n)
        assert y.dtype == dtype and y.tolist() == want.tolist()


def test_quotients_of_sizes_that_are_floats():
    nodes = """
        size = Shape <start = 1, end = 2> (x)
        count = Cast <to = 1> (size)
        two = Constant <value_floats = [2.0]> ()
        half = Div(count, two)
        more = Div(half, count)
        y = Add(half, more)
    """
    plan = pl.compile(parsed(nodes).SerializeToString(), device="cpu", tune="off")
    for n in (5, 64, 7):
        assert plan.run(numpy.zeros((2, n), "float32"))[0].tolist() == [n / 2 + 0.5]


def positions(rows):
    """A model that adds rows 0, 1, ... of a table to its input; and the table."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        agraph (float[n, m, 3] x) => (float[n, m, 3] y) <float[{rows}, 3] table> {{
            none = Constant<value = int64 {{0}}>()
            one = Constant<value = int64 {{1}}>()
            sizes = Shape(x)
            length = Gather<axis = 0>(sizes, one)
            places = Range(none, length, one)
            part = Gather<axis = 0>(table, places)
            y = Add(x, part)
        }}"""
    )
    table = numpy.random.default_rng(rows).standard_normal((rows, 3)).astype("float32")
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    return model, table


@pytest.mark.parametrize("rows", [512, 100, 16])
def test_positions_within_a_table(rows):
    """The sizes that are tried for an open axis stay within a table of positions, however short it is."""
    model, table = positions(rows)
    plan = pl.compile(model, device="cpu", tune="off")
    for length in (1, rows - 3, rows):
        x = numpy.ones((2, length, 3), "float32")
        assert (plan.run(x)[0] == x + table[:length]).all()
    with pytest.raises(pl.InvalidArgumentError, match=f"index is {rows} at element {rows}, expected -{rows} to"):
        plan.run(numpy.ones((1, rows + 2, 3), "float32"))


def test_a_table_too_short_for_all_sizes():
    """What makes sense for none of the sizes that are tried is refused by the first error."""
    with pytest.raises(pl.InvalidArgumentError, match="index is 4 at element 4"):
        pl.compile(positions(4)[0], device="cpu", tune="off")


def test_sizes_that_the_model_fixes_are_integers():
    """What converters ask of them requires nothing: the graph keeps no rules for sizes that no run changes."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]>
        agraph (float[n, 3, 8] x) => (float[n, 3, 5] y) <float[8, 5] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
        15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40}> {
            y = MatMul(x, w)
        }"""
    )
    seen = []

    class Watched(Importer):
        def _input(self, entry):
            value = super()._input(entry)
            seen.extend(value.shape)
            return value

    Watched(read(model), {}, {}, {}, late=True, open_size=64).run()
    assert [type(size).__name__ for size in seen] == ["Size", "int", "int"]


DECODER = """
    <ir_version: 9, opset_import: ["" : 20]>
    agraph (float[n, SIZE, 4] x, bool[n, total] mask, float[n, past, 4] keys) => (float[n, a, 4] y, float[n, b, 4] all)
    <int64[1] one = {1}> {
        all = Concat <axis = 1> (keys, x)
        turned = Transpose <perm = [0, 2, 1]> (all)
        scores = MatMul(x, turned)
        seen = Unsqueeze(mask, one)
        hidden = CastLike(LOW, scores)
        masked = Where(seen, scores, hidden)
        weights = Softmax(masked)
        y = MatMul(weights, all)
    }"""


@pytest.mark.parametrize("added", ["s", "1"])
def test_a_mask_as_long_as_past_and_present_needs_no_sizes(added):
    """A decoder's mask: no two of its axes may be equal, so sizes are tried with which they are not."""
    text = DECODER.replace("SIZE", added).replace("LOW", "low").replace("{1}>", "{1}, float low = {-30000}>")
    plan = pl.compile(onnx.parser.parse_model(text), device="cpu", tune="off")
    assert plan.summary()["sizes"]["growing"] == "past"
    keys = numpy.ones((2, 3, 4), "float32")
    for step in range(20):
        s = 1 if added == "1" or step else 5
        x = numpy.random.default_rng(step).standard_normal((2, s, 4)).astype("float32")
        mask = numpy.ones((2, keys.shape[1] + s), bool)
        mask[1, :2] = False
        y, longer = plan.run(x, mask, keys)
        every = numpy.concatenate([keys, x], 1)
        scores = numpy.where(mask[:, None], x @ every.transpose(0, 2, 1), -30000)
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        want = weights / weights.sum(-1, keepdims=True) @ every
        numpy.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
        keys = longer
    assert plan.summary()["sizes"]["made"] <= 3


def test_sizes_that_were_tried_are_named():
    """A model of 7 columns, which says that it has any number of them."""
    nodes = "y = Add(x, seven)"
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        agraph (float[n, m] x) => (float[k, l] y) <float[7] seven = {{1, 2, 3, 4, 5, 6, 7}}> {{ {nodes} }}"""
    )
    with pytest.raises(pl.ShapeError, match=r"add: .*; with the sizes x \(1, 64\), .* sizes= say for which"):
        pl.compile(model, device="cpu", tune="off")
    plan = pl.compile(model, sizes={"m": 7}, device="cpu", tune="off")
    assert plan.run(numpy.zeros((2, 7), "float32"))[0].tolist() == [[1, 2, 3, 4, 5, 6, 7]] * 2
