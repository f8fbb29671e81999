"""Tensors: making them, their properties, conversions, views, indexing and operators, against NumPy."""

import array
import copy
import gc
import pickle
import sys
import weakref

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pylayout as pl
from pylayout import ops

pytestmark = pytest.mark.usefixtures("unoptimised")  # values are in question, not which implementation wins

LAYOUTS = ["NCHW", "NHWC", "nChw16c", "nChw8c", "acbd", "CHWN"]
DTYPES = ["float32", "float16", "int8", "uint8", "int32", "int64", "bool"]


def random(rng, shape, dtype="float32"):
    values = rng.standard_normal(shape) * 10
    return values > 0 if dtype == "bool" else numpy.abs(values).astype(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(device, rng, layout, dtype):
    values = random(rng, (2, 17, 3, 5), dtype)
    x = pl.asarray(values, layout=layout, device=device)
    assert (x.shape, x.dtype, x.layout, x.device, x.ndim) == ((2, 17, 3, 5), dtype, layout, device, 4)
    numpy.testing.assert_array_equal(x.numpy(), values)
    assert x.numpy().dtype == dtype


def test_bf16(rng):
    values = random(rng, (2, 3))
    x = pl.asarray(values, dtype="bf16")
    assert x.dtype == pl.bf16 and x.nbytes == 12
    numpy.testing.assert_allclose(x.to(dtype="f32").numpy(), values, rtol=2**-8)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert x.numpy().dtype == ml_dtypes.bfloat16
    numpy.testing.assert_array_equal(x.numpy(), values.astype(ml_dtypes.bfloat16))
    assert pl.asarray(values.astype(ml_dtypes.bfloat16)).dtype == pl.bf16


def test_conversions_go_anywhere(device, rng):
    values = random(rng, (1, 19, 4, 4))
    x = pl.asarray(values)
    y = x.to(layout="nChw16c", device=device)
    assert (y.layout, y.device) == ("nChw16c", device)
    numpy.testing.assert_array_equal(y.to(layout="NHWC").to(device="cpu").numpy(), values)
    assert x.to(layout="NHWC").to(dtype="f16").dtype == "f16"


def test_float64_becomes_f32_and_other_types_are_refused():
    assert pl.asarray(numpy.zeros(3)).dtype == "f32"
    assert pl.asarray([1.5, 2.5]).dtype == "f32"
    assert pl.asarray([1, 2]).dtype == "s64"
    for dtype in ["complex64", "uint16", "datetime64[s]", "U3"]:
        with pytest.raises(pl.UnsupportedError, match="dtype"):
            pl.asarray(numpy.zeros(3, dtype))
    with pytest.raises(TypeError):
        pl.asarray(object())


def test_buffer_protocol_and_scalars():
    numpy.testing.assert_array_equal(pl.asarray(array.array("f", [1, 2])).numpy(), [1, 2])
    numpy.testing.assert_array_equal(pl.asarray(memoryview(b"ab")).numpy(), [97, 98])
    numpy.testing.assert_array_equal(pl.asarray(bytearray(b"ab")).numpy(), [97, 98])
    x = pl.asarray(2.5)
    assert x.shape == () and x.item() == 2.5 and float(x) == 2.5 and bool(x)


def test_asarray_copies_unless_told_not_to(rng):
    values = random(rng, (2, 3, 4, 4))
    x = pl.asarray(values)
    before = values.copy()
    values += 1
    numpy.testing.assert_array_equal(x.numpy(), before)
    assert not x.is_borrowed


def test_borrowed_memory_is_seen_after_touch(rng):
    values = random(rng, (2, 3, 4, 4))
    x = pl.asarray(values, copy=False)
    assert x.is_borrowed
    blocked = x.to(layout="nChw16c")
    numpy.testing.assert_array_equal(blocked.numpy(), values)
    values *= 2
    x.touch()
    numpy.testing.assert_array_equal(x.numpy(), values)
    numpy.testing.assert_array_equal(x.to(layout="nChw16c").numpy(), values)


def test_borrowed_array_lives_as_long_as_the_tensor():
    class Array(numpy.ndarray):
        """Unlike numpy.ndarray, can be watched."""

    values = numpy.arange(6, dtype="float32").view(Array)
    watch = weakref.ref(values)
    x = pl.asarray(values, copy=False)
    view = pl.ops.reshape(x, (2, 3))
    del values, x
    gc.collect()
    assert watch() is not None, "the view still uses the memory"
    numpy.testing.assert_array_equal(view.numpy(), numpy.arange(6).reshape(2, 3))
    del view
    gc.collect()
    assert watch() is None


def test_borrowing_what_needs_a_copy_is_an_error(rng):
    values = random(rng, (2, 3))
    for bad in [values[::-1], values.astype(">f4"), values.astype("float64"), [1.0, 2.0]]:
        with pytest.raises(pl.InvalidArgumentError, match="copy"):
            pl.asarray(bad, copy=False)
    with pytest.raises(pl.InvalidArgumentError, match="copy"):
        pl.asarray(values, copy=False, layout="ba")
    values.flags.writeable = False
    with pytest.raises(pl.InvalidArgumentError, match="read-only"):
        pl.asarray(values, copy=False)


def test_awkward_arrays(rng):
    base = random(rng, (4, 6, 8, 10))
    readonly = base.copy()
    readonly.flags.writeable = False
    unaligned = numpy.frombuffer(bytearray(base.nbytes + 1), "uint8")[1:].view("float32").reshape(base.shape)
    unaligned[...] = base
    for values in [
        base[:, ::2, 1:7, ::3],
        base.transpose(3, 1, 0, 2),
        base[::-1],
        numpy.broadcast_to(base[:1], base.shape),
        readonly,
        unaligned,
        base.astype(">f4"),
        numpy.asfortranarray(base),
        base[:0],
        base[1, 2, 3, 4],
    ]:
        numpy.testing.assert_array_equal(pl.asarray(values).numpy(), values)
        numpy.testing.assert_array_equal(pl.ops.neg(values).numpy(), -values)
    x = pl.asarray(base.transpose(0, 2, 3, 1), copy=False)
    assert not x.layout.is_plain and x.is_borrowed
    numpy.testing.assert_array_equal(x.numpy(), base.transpose(0, 2, 3, 1))


def test_array_protocol(rng):
    values = random(rng, (2, 3, 4, 4))
    x = pl.asarray(values)
    view = numpy.asarray(x)
    assert not view.flags.writeable and not view.flags.owndata
    numpy.testing.assert_array_equal(view, values)
    owner = numpy.array(x)
    assert owner.flags.writeable
    assert numpy.asarray(x, dtype="float64").dtype == "float64"
    blocked = x.to(layout="nChw16c")
    numpy.testing.assert_array_equal(numpy.asarray(blocked), values)
    with pytest.raises(ValueError, match="copy=False"):
        blocked.__array__(copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        x.__array__(dtype="float16", copy=False)
    assert x.__array__(copy=True).flags.owndata
    del x
    gc.collect()
    numpy.testing.assert_array_equal(view, values)


def test_copies_in_other_layouts_are_made_once(rng):
    x = pl.asarray(random(rng, (1, 32, 8, 8)))
    x.to(layout="nChw16c")
    with pl.profile() as p:
        x.to(layout="nChw16c")
    assert p.events == []


def test_write_replaces_the_values(device, rng):
    x = pl.zeros((1, 5, 3, 3), layout="nChw16c", device=device)
    values = random(rng, (1, 5, 3, 3))
    x.to(layout="NHWC")
    assert x.write(values) is x
    numpy.testing.assert_array_equal(x.to(layout="NHWC").numpy(), values)
    with pytest.raises(ValueError, match="shape"):
        x.write(values[0])


@pytest.mark.parametrize("how", ["whole", "part"])
def test_a_copy_that_was_given_may_be_written_to(device, rng, how):
    """What it was made of keeps it too, for ops that want its layout."""
    x = pl.asarray(rng.standard_normal((2, 8, 6, 6), "float32"), device=device)
    wanted = numpy.array(ops.relu(x, layout="NHWC"))
    there = x.to(layout="NHWC")
    if how == "whole":
        there.write(pl.asarray(numpy.full((2, 8, 6, 6), 5, "float32"), device=device))
    else:
        there[:, 2:5].write(numpy.full((2, 3, 6, 6), 7, "float32"))
    assert abs(numpy.asarray(there)).max() >= 5
    again = x.to(layout="NHWC")
    numpy.testing.assert_array_equal(again, x)
    numpy.testing.assert_array_equal(ops.relu(x, layout="NHWC"), wanted)
    numpy.testing.assert_array_equal(ops.relu(again), wanted)


def test_clone_pickle_copy(device, rng):
    values = random(rng, (1, 5, 3, 3))
    x = pl.asarray(values, layout="NHWC", device=device)
    for same in [x.clone(), copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))]:
        assert (same.layout, same.device, same.dtype) == (x.layout, x.device, x.dtype)
        numpy.testing.assert_array_equal(same.numpy(), values)
    y = x.clone()
    y.write(values * 2)
    numpy.testing.assert_array_equal(x.numpy(), values)


def test_full_and_empty_like():
    x = pl.full((2, 3), 1.5, dtype="f16")
    numpy.testing.assert_array_equal(x.numpy(), numpy.full((2, 3), 1.5, "float16"))
    y = pl.empty_like(x, dtype="s32")
    assert (y.shape, y.dtype) == ((2, 3), "s32") and not y.numpy().any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_as_methods(rng, layout):
    values = random(rng, (2, 3, 4, 5))
    x = pl.asarray(values, layout=layout)
    for name, got, wanted in [
        ("reshape", x.reshape(6, -1), values.reshape(6, -1)),
        ("reshape of a tuple", x.reshape((4, 3, 2, 5)), values.reshape(4, 3, 2, 5)),
        ("permute", x.permute(2, 0, 3, 1), values.transpose(2, 0, 3, 1)),
        ("transpose", x.transpose(1, -1), values.swapaxes(1, -1)),
        ("T", x.T, values.T),
        ("flatten", x.flatten(1), values.reshape(2, -1)),
        ("unsqueeze", x[:1].squeeze(0).unsqueeze(1), values[0][:, None]),
        ("astype", x.astype("s32"), values.astype("int32")),
    ]:
        numpy.testing.assert_array_equal(got.numpy(), wanted, err_msg=name)


KEYS = st.lists(
    st.one_of(
        st.integers(-3, 2),
        st.builds(
            slice,
            *[st.one_of(st.none(), st.integers(-6, 6))] * 2,
            st.one_of(st.none(), st.integers(-3, 3).filter(bool)),
        ),
        st.none(),
        st.just(Ellipsis),
    ),
    max_size=5,
).filter(lambda keys: sum(key is Ellipsis for key in keys) <= 1 and sum(key is not None for key in keys) <= 5)


@given(KEYS, st.sampled_from(LAYOUTS))
def test_indexing_is_numpy_s(keys, layout):
    values = numpy.arange(3 * 4 * 5 * 3, dtype="float32").reshape(3, 4, 5, 3)
    x = pl.asarray(values, layout=layout)
    try:
        wanted = values[tuple(keys)]
    except IndexError:
        with pytest.raises(IndexError):
            x[tuple(keys)]
        return
    if wanted.ndim > 8:
        with pytest.raises(pl.ShapeError, match="at most 8 dimensions"):
            x[tuple(keys)]
        return
    got = x[tuple(keys)]
    assert got.shape == wanted.shape
    numpy.testing.assert_array_equal(got.numpy(), wanted)


def test_scalars_are_converted_and_read(device):
    x = pl.asarray(numpy.arange(6, dtype="float32").reshape(2, 3), device=device)
    scalar = x[1, 2]
    assert scalar.shape == () and scalar.item() == 5
    assert scalar.to(dtype="s32").item() == 5
    assert scalar.to(device="cpu").item() == 5
    assert pl.ops.sum(scalar).item() == 5
    assert (scalar + scalar[None].squeeze(0)).item() == 10


def test_indexing_errors():
    x = pl.zeros((2, 3))
    for key, error in [((0, 0, 0), IndexError), (2, IndexError), ((..., ...), IndexError), ("a", TypeError)]:
        with pytest.raises(error, match="index"):
            x[key]


def test_iteration_and_len(rng):
    values = random(rng, (3, 2))
    x = pl.asarray(values)
    assert len(x) == 3
    for row, wanted in zip(x, values, strict=True):
        numpy.testing.assert_array_equal(row.numpy(), wanted)
    assert x.tolist() == values.tolist()
    with pytest.raises(TypeError, match="rank 0"):
        len(pl.asarray(1.0))


def test_operators(rng):
    a, b = random(rng, (2, 3, 4, 4)) + 0.5, random(rng, (3, 1, 4)) + 0.5
    x, y = pl.asarray(a, layout="NHWC"), pl.asarray(b)
    for name, got, wanted in [
        ("+", x + y, a + b),
        ("-", x - y, a - b),
        ("*", x * y, a * b),
        ("/", x / y, a / b),
        ("**", x**0.5, a**0.5),
        ("r+", 1 + x, 1 + a),
        ("r-", 1.5 - x, 1.5 - a),
        ("r*", 2 * x, 2 * a),
        ("r/", 1 / x, 1 / a),
        ("r**", 2**y, 2**b),
        ("neg", -x, -a),
        ("abs", abs(-x), a),
        ("array + tensor", a + x, a + a),
        ("tensor - array", x - a, a - a),
        ("@", pl.asarray(a) @ pl.asarray(a).transpose(2, 3), a @ a.swapaxes(2, 3)),
    ]:
        assert isinstance(got, pl.Tensor), name
        numpy.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-4, err_msg=name)
    for name, got, wanted in [
        ("==", x == x, a == a),
        ("!=", x != 1, a != 1),
        ("<", x < y, a < b),
        ("<=", x <= y, a <= b),
        (">", x > y, a > b),
        (">=", x >= y, a >= b),
        ("and", (x > 1) & (x < 5), (a > 1) & (a < 5)),
        ("or", (x < 1) | (x > 5), (a < 1) | (a > 5)),
        ("not", ~(x > 1), ~(a > 1)),
    ]:
        assert got.dtype == "bool", name
        numpy.testing.assert_array_equal(got.numpy(), wanted, err_msg=name)
    assert x != "text" and len({x, y, x}) == 2


def test_operators_refuse_what_is_no_operand():
    x = pl.zeros((2,))
    with pytest.raises(TypeError):
        x + "1"
    with pytest.raises(pl.InvalidArgumentError, match="integer"):
        pl.ops.add(pl.zeros((2,), dtype="s32"), 0.5)
    with pytest.raises(pl.InvalidArgumentError, match="expected -128 to 127"):
        pl.zeros((2,), dtype="s8") + 1000
    with pytest.raises(pl.InvalidArgumentError, match="2 elements"):
        bool(x)
    with pytest.raises(pl.InvalidArgumentError, match="2 elements"):
        x.item()


def test_repr_shows_layout_and_device():
    assert repr(pl.zeros((1, 64, 8, 8), layout="nChw16c")) == "Tensor((1, 64, 8, 8), f32, nChw16c, cpu)"
    assert "[1., 1.]" in repr(pl.full((2,), 1))
    assert repr(pl.asarray(3)).startswith("Tensor((), s64, scalar, cpu")


def test_tensor_class_is_not_called():
    with pytest.raises(TypeError, match="asarray"):
        pl.Tensor()


def test_sizes_are_checked():
    for shape in [(-1, 2), (2**62, 2**62), (2**60, 8), (2**70,), (1,) * 9]:
        with pytest.raises(pl.ShapeError):
            pl.zeros(shape)
    with pytest.raises(TypeError):
        pl.zeros(("a",))
    with pytest.raises(pl.OutOfMemoryError) as caught:
        pl.zeros((2**50,))
    assert isinstance(caught.value, MemoryError)
    assert pl.zeros((0, 3)).numpy().shape == (0, 3)


def test_memory_is_accounted_and_limited(device):
    pl.release_caches()
    gc.collect()
    before = pl.memory(device)["in_use"]
    x = pl.zeros((256, 1024), device=device)
    assert pl.memory(device)["in_use"] - before == x.nbytes
    pl.set_memory_limit(device, pl.memory(device)["in_use"] + 2 * x.nbytes)
    try:
        y = pl.zeros((256, 1024), device=device)
        with pytest.raises(pl.OutOfMemoryError, match="limit"):
            pl.zeros((1024, 1024), device=device)
        del y  # goes to the cache, which is released for what does not fit otherwise
        z = pl.zeros((300, 1024), device=device)
        del z
    finally:
        pl.set_memory_limit(device, None)
    del x
    gc.collect()
    assert pl.memory(device)["in_use"] == before


def test_a_thousand_repetitions_grow_nothing(rng):
    x = pl.asarray(random(rng, (1, 8, 8, 8)))
    array_in = random(rng, (1, 8, 8, 8))

    def step():
        y = pl.ops.relu(x, layout="NHWC")
        y = y[:, 1:5].to(layout="nChw16c") + 1.5
        y = pl.ops.neg(array_in)
        return y.numpy()

    for _ in range(20):
        step()
    gc.collect()
    start = pl.memory("cpu")
    objects = sys.getallocatedblocks()
    for _ in range(1000):
        step()
    gc.collect()
    end = pl.memory("cpu")
    assert end["in_use"] == start["in_use"]
    assert end["allocations"] == start["allocations"]
    assert sys.getallocatedblocks() - objects < 500
