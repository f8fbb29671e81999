"""Layouts as values, held against a model of the memory in NumPy."""

import pickle
import string

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pylayout as pl
from pylayout import ops

pytestmark = pytest.mark.usefixtures("unoptimised")  # values are in question, not which implementation wins


@st.composite
def layouts(draw):
    """(rank, order, blocks) of any permutation with any inner blocking."""
    rank = draw(st.integers(1, 6))
    order = draw(st.permutations(range(rank)))
    dims = st.integers(0, rank - 1)
    blocks = draw(st.lists(st.tuples(dims, st.sampled_from([2, 3, 4, 5, 8, 16])), max_size=3))
    return rank, tuple(order), tuple(blocks)


def spell(order, blocks):
    letters = string.ascii_lowercase
    blocked = {dim for dim, _ in blocks}
    outer = "".join(letters[dim].upper() if dim in blocked else letters[dim] for dim in order)
    return outer + "".join(f"{size}{letters[dim]}" for dim, size in blocks)


def places(shape, order, blocks):
    """The offset of every element, found by laying out an array of indices as the layout says."""
    rank = len(shape)
    block = [1] * rank
    for dim, size in blocks:
        block[dim] *= size
    padded = [-(-n // b) * b for n, b in zip(shape, block, strict=True)]
    index = numpy.full(padded, -1, numpy.int64)
    index[tuple(slice(0, n) for n in shape)] = numpy.arange(int(numpy.prod(shape))).reshape(shape)
    # Each dimension becomes (outer, its blocks from the outermost to the innermost).
    split, names = [], []
    for dim in range(rank):
        inner = [(i, size) for i, (d, size) in enumerate(blocks) if d == dim]
        split += [padded[dim] // block[dim], *(size for _, size in inner)]
        names += [("outer", dim), *(("block", i) for i, _ in inner)]
    wanted = [("outer", dim) for dim in order] + [("block", i) for i in range(len(blocks))]
    memory = index.reshape(split).transpose([names.index(name) for name in wanted]).reshape(-1)
    offsets = numpy.empty(index[index >= 0].size, numpy.int64)
    at = numpy.nonzero(memory >= 0)[0]
    offsets[memory[at]] = at
    return tuple(padded), memory.size, offsets.reshape(shape)


@given(layouts(), st.data())
def test_offsets_agree_with_a_model(described, data):
    rank, order, blocks = described
    layout = pl.Layout(spell(order, blocks))
    assert (layout.rank, layout.order, layout.blocks) == (rank, order, blocks)
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank)))
    padded, size, offsets = places(shape, order, blocks)
    assert layout.padded_shape(shape) == padded
    assert layout.storage_bytes(shape, "f16") == 2 * size
    for index in data.draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in shape)), min_size=1, max_size=8)):
        assert layout.offset(shape, index) == offsets[index]


@given(layouts(), st.data())
def test_values_survive_every_layout(described, data):
    rank, order, blocks = described
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank)))
    values = numpy.arange(1, numpy.prod(shape) + 1, dtype="float32").reshape(shape)
    tensor = pl.asarray(values, layout=spell(order, blocks))
    numpy.testing.assert_array_equal(tensor.numpy(), values)
    _, size, offsets = places(shape, order, blocks)
    memory = storage(tensor)
    assert memory.size == size
    numpy.testing.assert_array_equal(memory[offsets], values)
    assert numpy.count_nonzero(memory) == values.size, "padding is not zero"


def storage(tensor):
    """The memory of a tensor on cpu, in its own layout."""
    from pylayout._load import ffi, lib

    data = ffi.new("void **")
    assert lib.pl_tensor_data(tensor._handle, data) == 0
    return numpy.frombuffer(ffi.buffer(data[0], tensor.nbytes), tensor.dtype.dtype).copy()


@given(layouts())
def test_spelling_round_trips(described):
    _, order, blocks = described
    layout = pl.Layout(spell(order, blocks))
    assert pl.Layout(layout.name) == layout
    assert pl.Layout(layout.generic) == layout
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert hash(pl.Layout(layout.generic)) == hash(layout)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("NCHW", "abcd"),
        ("NHWC", "acdb"),
        ("nChw16c", "aBcd16b"),
        ("NCW", "abc"),
        ("NDHWC", "acdeb"),
        ("OIhw16i16o", "ABcd16b16a"),
        ("OIHW", "NCHW"),
        ("gOIhw8i8o", "aBCde8c8b"),
        ("HWIO", "cdba"),
    ],
)
def test_names_mean_the_generic_spelling(one, other):
    assert pl.Layout(one) == pl.Layout(other) == other
    assert one == pl.Layout(other)


def test_different_layouts_are_not_equal():
    assert pl.Layout("NCHW") != pl.Layout("NHWC")
    assert pl.Layout("NCHW") != "nChw16c"
    assert pl.Layout("NCHW") != "not a layout"
    assert pl.Layout("nChw16c") != pl.Layout("nChw8c")
    assert pl.Layout("NCHW") is not None and pl.Layout("NCHW") != 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NCQ",
        "NCHWW",
        "nChw0c",
        "nChw1c",
        "nChw16",
        "nChw16x",
        "nChw99999c",
        "16c",
        "abcdefghi",
        "NC HW",
        "é",
        "N\0",
    ],
)
def test_what_does_not_parse_is_a_layout_error(text):
    with pytest.raises(pl.LayoutError, match="layout"):
        pl.Layout(text)


def test_a_layout_of_the_wrong_type_is_a_type_error():
    with pytest.raises(TypeError, match="layout is 4, expected a string"):
        pl.Layout(4)


def test_rank_of_layout_and_shape_must_agree():
    with pytest.raises(pl.LayoutError, match="rank"):
        pl.Layout("NCHW").strides((1, 2, 3))
    with pytest.raises(pl.LayoutError, match="rank"):
        pl.zeros((2, 3), layout="NHWC")


def test_index_outside_of_the_shape():
    for index in [(0, 0, 0, 4), (0, 0, -1, 0), (0, 0, 0)]:
        with pytest.raises(pl.InvalidArgumentError, match="index"):
            pl.Layout("NHWC").offset((1, 3, 4, 4), index)


def test_layouts_of_the_same_bytes_are_converted_without_a_copy(rng):
    """C = 1 or H = W = 1: the orders NCHW and NHWC name the same memory."""
    for shape in [(2, 1, 5, 5), (3, 7, 1, 1)]:
        x = pl.asarray(rng.random(shape, "float32"))
        with pl.profile() as p:
            y = x.to(layout="NHWC")
        assert y.layout == "NHWC"
        assert [event for event in p.events if event["kind"] == "reorder"] == []


def test_layouts_of_weights_are_told_in_their_letters():
    x, w = pl.ones((1, 32, 8, 8)), pl.ones((32, 32, 3, 3))
    found = pl.query("conv2d", x, w, padding=1).data
    told = {candidate["inputs"][1] for candidate in found["candidates"]}
    assert "OIHW" in told
    named = [name for name in told if ":" not in name]  # the others are forms that no layout describes
    assert all(set(name.lower()) <= set("oihw0123456789") for name in named), named
    assert {name: str(pl.Layout(name)) for name in named}["OIHW"] == "NCHW"  # names that layouts are read from
    assert "- -" not in str(pl.query("conv2d", x, w, padding=1))  # bias and residual, which are not given
    assert all(candidate["inputs"][0] != "OIHW" for candidate in found["candidates"])
    graph = pl.Graph()
    graph.output(graph.conv2d(graph.input("x", (1, 32, 8, 8)), w, padding=1), "y")
    plan = pl.compile(graph, tune="off", device="cpu")
    for choice in plan.summary()["choices"]:  # the same words as of a query, packed forms among them
        assert choice["inputs"][1] in told and choice["inputs"][1] in plan.explain()
    with pl.profile() as p:
        ops.conv2d(x, w, padding=1, layout="NCHW")
        plan.run(numpy.ones((1, 32, 8, 8), "float32"))
    for event in p.events:
        for text in event["inputs"]:
            assert not text.startswith("f32 (32, 32, 3, 3) NC"), event
