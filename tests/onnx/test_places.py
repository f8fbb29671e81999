"""Indices that are all places of some dimensions, as PyTorch's exporters write mask[rows, columns], are slices."""

import numpy
import pytest

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811

import pylayout as pl  # noqa: E402

# rows (n, 1, 1) and columns (1, 1, k), k of which are those of another input.
RANGES = """
    shape = Shape <start = 0, end = 1> (mask)
    n = Squeeze(shape)
    other_shape = Shape <start = 0, end = 1> (other)
    k = Squeeze(other_shape)
    rows = Range(zero, n, one)
    rows1 = Unsqueeze(rows, a1)
    rows2 = Unsqueeze(rows1, a2)
    columns = Range(FIRST, k, one)
    columns2 = Unsqueeze(columns, a01)
"""
FLAT = """
    all = Shape(mask)
    width = Gather <axis = 0> (all, a1)
    begins = Mul(rows2, width)
    places = Add(columns2, begins)
    flat = Flatten <axis = 2> (mask)
    found = Gather(flat, places)
    flat_found = Reshape(found, minus)
    places_shape = Shape(places)
    y = Reshape(flat_found, places_shape)
"""
PAIRS = """
    greatest = Max(rows2, columns2)
    whole = Shape(greatest)
    rows3 = Expand(rows2, whole)
    rows4 = Unsqueeze(rows3, minus)
    columns3 = Expand(columns2, whole)
    columns4 = Unsqueeze(columns3, minus)
    pairs = Concat <axis = -1> (FIRST_COLUMN)
    y = GatherND(mask, pairs)
"""
GRAPH = """
    <ir_version: 9, opset_import: ["" : 18]>
    agraph (float[n, m] mask, float[k] other) => (float[a, b, c] y)
    <int64 zero = {0}, int64 one = {1}, int64[1] a1 = {1}, int64[1] a2 = {2}, int64[2] a01 = {0, 1},
     int64[1] minus = {-1}>
    {BODY}"""


def model(nodes, first="zero", columns="rows4, columns4"):
    body = (RANGES + nodes).replace("FIRST_COLUMN", columns).replace("FIRST", first)
    return onnx.parser.parse_model(GRAPH.replace("BODY", body))


def mask_of(n, m):
    return numpy.arange(n * m, dtype="float32").reshape(n, m)


@pytest.mark.parametrize("nodes", [FLAT, PAIRS], ids=["flat", "pairs"])
def test_places_along_dimensions_of_their_own_are_slices(nodes):
    plan = pl.compile(model(nodes), device="cpu", tune="off")
    assert "index_select" not in plan.graph()
    for n, m, k in ((2, 5, 5), (3, 7, 4), (1, 4, 1), (1, 1, 1)):
        (y,) = plan.run(mask_of(n, m), numpy.zeros(k, "float32"))
        assert y.tolist() == mask_of(n, m)[:, None, :k].tolist()
    assert plan.summary()["sizes"]["graphs"] == 1
    with pytest.raises(pl.Error, match="index is 10 at element 11, expected -10 to 9"):
        plan.run(mask_of(2, 5), numpy.zeros(6, "float32"))


@pytest.mark.parametrize(
    ("nodes", "change"),
    [
        (FLAT, {"first": "one"}),  # not from 0 on
        (PAIRS, {"first": "one"}),
        (PAIRS, {"columns": "columns4, columns4"}),  # along one dimension
        (FLAT.replace("Mul(rows2, width)", "Mul(rows2, a2)"), {}),  # other strides
    ],
)
def test_other_indices_are_looked_up(nodes, change):
    made = model(nodes, **change)
    mask, other = mask_of(3, 4), numpy.zeros(3, "float32")
    rows, columns = numpy.arange(3)[:, None, None], numpy.arange(1 if "first" in change else 0, 3)[None, None]
    if change.get("columns"):
        want = numpy.broadcast_to(mask[columns, columns], (3, 1, 3))
    elif "a2)\n" in nodes:
        want = mask.reshape(-1)[columns + 2 * rows]
    else:
        want = mask[rows, columns]
    plan = pl.compile(made, device="cpu", tune="off", sizes={"m": 4, "k": 3, "n": 3})
    assert plan.run(mask, other)[0].tolist() == want.tolist()


DECODER = """
    <ir_version: 9, opset_import: ["" : 18]>
    agraph (float[n, s, 4] x, bool[n, total] mask, float[n, past, 4] keys) => (float[n, a, 4] y, float[n, b, 4] other)
    <int64 zero = {0}, int64 one = {1}, int64[1] a1 = {1}, int64[1] a2 = {2}, int64[2] a01 = {0, 1},
     int64[1] minus = {-1}, float low = {-30000}> {
        other = Concat <axis = 1> (keys, x)
        BODY
        turned = Transpose <perm = [0, 2, 1]> (other)
        scores = MatMul(x, turned)
        masked = Where(seen, scores, low)
        weights = Softmax(masked)
        y = MatMul(weights, other)
    }"""


@pytest.mark.parametrize("nodes", [FLAT, PAIRS], ids=["flat", "pairs"])
@pytest.mark.parametrize("n", [1, 3])
def test_a_past_grows_beside_a_mask_of_places(nodes, n):
    body = (RANGES + nodes).replace("FIRST_COLUMN", "rows4, columns4").replace("FIRST", "zero")
    body = body.replace("Shape <start = 0, end = 1> (other)", "Shape <start = 1, end = 2> (other)")
    body = body.replace("y = ", "seen = ")
    text = DECODER.replace("BODY", body)
    plan = pl.compile(onnx.parser.parse_model(text), device="cpu", tune="off")
    assert plan.summary()["sizes"]["growing"] == "past"
    rng = numpy.random.default_rng(n)
    keys, mask = rng.standard_normal((n, 3, 4)).astype("float32"), numpy.ones((n, 3), bool)
    for _ in range(20):
        x = rng.standard_normal((n, 1, 4)).astype("float32")
        mask = numpy.concatenate([mask, rng.integers(0, 4, (n, 1)) > 0], 1)
        every = numpy.concatenate([keys, x], 1)
        y, keys = plan.run(x, mask, keys)
        scores = numpy.where(mask[:, None], x @ every.transpose(0, 2, 1), -30000)
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        numpy.testing.assert_allclose(y, weights / weights.sum(-1, keepdims=True) @ every, rtol=1e-5, atol=1e-5)
        assert numpy.array_equal(keys, every)
    assert plan.summary()["sizes"]["made"] == 1
