"""Bits of integers: the ops in every dtype to the bit, on every device and in plans, and what shifts are."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pylayout as pl
from pylayout import ops

pytestmark = pytest.mark.usefixtures("unoptimised")

DTYPES = ("uint8", "int8", "int32", "int64")
COUNTS = [0, 1, 6, 7, 8, 9, 15, 30, 31, 32, 33, 40, 62, 63, 64, 65, 100, 127, -1, -2, -8, -32, -64, -128]


def some(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    made = np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    made.reshape(-1)[:3] = limits.min, limits.max, 0
    return made


def shifted(x: np.ndarray, by: np.ndarray, left: bool) -> np.ndarray:
    """Python's shifts of whole numbers, one element at a time: what is shifted out is lost, no sign is."""
    bits = 8 * x.dtype.itemsize

    def one(value: int, count: int) -> int:
        if not 0 <= count < bits:
            return 0 if left or value >= 0 else -1
        return value << count if left else value >> count

    pairs = np.broadcast_arrays(x, by)
    wide = [one(int(a), int(b)) & (1 << bits) - 1 for a, b in zip(*(part.reshape(-1) for part in pairs), strict=True)]
    return np.array(wide, f"uint{bits}").view(x.dtype).reshape(pairs[0].shape)


BINARY = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": lambda x, y: shifted(x, y, True),
    "bitwise_right_shift": lambda x, y: shifted(x, y, False),
}
SHIFTS = [name for name in BINARY if "shift" in name]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [*BINARY, "bitwise_not"])
def test_every_dtype(op, dtype, device):
    x = some(dtype, 3, 17, 5)
    if op == "bitwise_not":
        made = ops.bitwise_not(pl.asarray(x, device=device))
        wanted = np.invert(x)
    else:
        y = some(dtype, 17, 1, seed=1)
        if op in SHIFTS:
            y.reshape(-1)[:] = np.array(COUNTS[: y.size]).astype(dtype)
        made = getattr(ops, op)(pl.asarray(x, device=device), pl.asarray(y, device=device))
        wanted = BINARY[op](x, y)
    assert made.dtype == wanted.dtype and made.device == device
    np.testing.assert_array_equal(made.numpy(), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", SHIFTS)
def test_counts_beyond_the_bits_shift_all_of_them_out(op, dtype, device):
    values = some(dtype, 6, 1)
    counts = np.array(COUNTS).astype(dtype)
    made = getattr(ops, op)(pl.asarray(values, device=device), pl.asarray(counts, device=device))
    np.testing.assert_array_equal(made.numpy(), BINARY[op](values, counts))


@pytest.mark.parametrize("op", SHIFTS)
def test_shifts_are_pytorchs(op, device):
    torch = pytest.importorskip("torch")
    for dtype in DTYPES:
        values, counts = some(dtype, 6, 1), np.array(COUNTS).astype(dtype)
        wanted = getattr(torch, op)(torch.from_numpy(values), torch.from_numpy(counts))
        made = getattr(ops, op)(pl.asarray(values, device=device), pl.asarray(counts, device=device))
        np.testing.assert_array_equal(made.numpy(), wanted.numpy())


def test_of_bool_they_are_logical(device):
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    a, b = pl.asarray(x, device=device), pl.asarray(y, device=device)
    for op, wanted in (("and", x & y), ("or", x | y), ("xor", x ^ y)):
        made = getattr(ops, f"bitwise_{op}")(a, b)
        assert made.dtype == "bool"
        np.testing.assert_array_equal(made.numpy(), wanted)
    made = ops.bitwise_not(a)
    assert made.dtype == "bool"
    np.testing.assert_array_equal(made.numpy(), ~x)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c", "nChw8c"])
def test_layouts_keep_their_padding_zero(layout, device):
    x = some("int32", 2, 19, 3, 4)
    there = pl.asarray(x, device=device, layout=layout)
    inverted = ops.bitwise_not(there, layout=layout)
    np.testing.assert_array_equal(inverted.numpy(), ~x)
    # A sum over all channels, padding among them where a kernel reads whole blocks.
    total = ops.sum(ops.cast(inverted, "s64", layout=layout), 1)
    np.testing.assert_array_equal(total.numpy(), (~x).astype("int64").sum(1))
    channels = some("int32", 19, 1, 1, seed=2)
    made = ops.bitwise_xor(there, pl.asarray(channels, device=device), layout=layout)
    np.testing.assert_array_equal(made.numpy(), x ^ channels)


def test_views_and_the_results_of_views(device):
    x = some("int64", 4, 6)
    there = pl.asarray(x, device=device)
    made = ops.bitwise_or(ops.permute(there, [1, 0]), ops.permute(there, [1, 0])[:1])
    np.testing.assert_array_equal(made.numpy(), x.T | x.T[:1])


@pytest.mark.parametrize("op", [*BINARY, "bitwise_not"])
def test_empty_tensors(op, device):
    x, y = (pl.asarray(np.zeros(shape, "int32"), device=device) for shape in ((3, 0, 2), (2,)))
    made = getattr(ops, op)(*([x] if op == "bitwise_not" else [x, y]))
    assert made.shape == (3, 0, 2) and made.dtype == "int32" and made.numpy().size == 0


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_values_shapes_and_counts(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    op = data.draw(st.sampled_from([*BINARY]))
    shape = data.draw(st.lists(st.integers(0, 4), max_size=4))
    other = [data.draw(st.sampled_from([size, 1])) for size in shape][data.draw(st.integers(0, len(shape))) :]
    limits = np.iinfo(dtype)
    anything = st.integers(int(limits.min), int(limits.max))
    near = st.integers(max(-9, int(limits.min)), 70) if op in SHIFTS else anything

    def array(sizes, numbers):
        count = int(np.prod(sizes, dtype=int))
        return np.array(data.draw(st.lists(numbers, min_size=count, max_size=count)), dtype).reshape(sizes)

    x, y = array(shape, anything), array(other, near)
    made = getattr(ops, op)(pl.asarray(x), pl.asarray(y))
    np.testing.assert_array_equal(made.numpy(), BINARY[op](x, y))


def test_operators_of_tensors(device):
    x, y = some("int64", 5), np.array([1, 2, 3, 63, 64])
    a, b = pl.asarray(x, device=device), pl.asarray(y, device=device)
    for sign in (operator.and_, operator.or_, operator.xor):
        np.testing.assert_array_equal(sign(a, b).numpy(), sign(x, y))
        np.testing.assert_array_equal(sign(a, 12).numpy(), sign(x, 12))
        np.testing.assert_array_equal(sign(12, a).numpy(), sign(12, x))
    np.testing.assert_array_equal((~a).numpy(), ~x)
    np.testing.assert_array_equal((a << 3).numpy(), shifted(x, np.array(3), True))
    np.testing.assert_array_equal((a >> b).numpy(), shifted(x, y, False))
    np.testing.assert_array_equal((1 << b).numpy(), shifted(np.ones_like(y), y, True))
    np.testing.assert_array_equal((1024 >> b).numpy(), shifted(np.full_like(y, 1024), y, False))
    # Numbers that no double holds.
    odd = (1 << 62) + 1
    np.testing.assert_array_equal((a & odd).numpy(), x & odd)
    # What is of several dtypes is computed in the wider one; true and false as 1 and 0.
    narrow = some("uint8", 5)
    made = a ^ pl.asarray(narrow, device=device)
    assert made.dtype == "int64"
    np.testing.assert_array_equal(made.numpy(), x ^ narrow)
    np.testing.assert_array_equal((a & (b > 2)).numpy(), x & (y > 2))
    both = (a > 0) & (b > 2)
    assert both.dtype == "bool"
    np.testing.assert_array_equal(both.numpy(), (x > 0) & (y > 2))
    np.testing.assert_array_equal(np.left_shift(a, b).numpy(), shifted(x, y, True))
    np.testing.assert_array_equal(np.invert(a).numpy(), ~x)


def test_of_floats_they_are_refused():
    x, whole = pl.ones((2,)), pl.ones((2,), dtype="int32")
    for op in ("bitwise_and", *SHIFTS):
        with pytest.raises(pl.UnsupportedError, match=f"{op}: x has dtype f32, expected one of s8, u8, s32, s64"):
            getattr(ops, op)(x, x)
    with pytest.raises(pl.UnsupportedError, match="bitwise_and: x has dtype f32"):
        _ = x & x
    with pytest.raises(pl.UnsupportedError, match="bitwise_not: x has dtype f32"):
        _ = ~x
    with pytest.raises(pl.UnsupportedError, match="bitwise_not: x has dtype f32"):
        ops.bitwise_not(x)
    with pytest.raises(pl.UnsupportedError, match="bitwise_left_shift: x has dtype bool"):
        ops.bitwise_left_shift(x > 0, x > 0)
    with pytest.raises(pl.InvalidArgumentError, match=r"bitwise_xor: y.dtype is s64, expected s32"):
        ops.bitwise_xor(whole, pl.ones((2,), dtype="int64"))
    with pytest.raises(pl.InvalidArgumentError, match="activation is bitwise_not"):
        ops.add(whole, whole, activation="bitwise_not")


EXPRESSIONS = {
    "y0 = bitand(x0, x1)": lambda x, y: x & y,
    "y0 = bitor(x0, bitnot(x1))": lambda x, y: x | ~y,
    "y0 = bitxor(x0, s0)": lambda x, y: x ^ 21,
    "y0 = bitxor(x0, x1) + 1": lambda x, y: (x ^ y) + np.int64(1),
    "y0 = lshift(x0, x1)": lambda x, y: shifted(x, y, True),
    "y0 = rshift(x0, x1)": lambda x, y: shifted(x, y, False),
    "y0 = lshift(x0, -1) + rshift(x0, 64) + rshift(x0, -5)": lambda x, y: np.where(x < 0, np.int64(-2), 0),
    # The bits of a byte after each other, as those of quantised weights are.
    "y0 = bitand(rshift(x0, 4), 15) - 8": lambda x, y: ((x >> 4) & 15) - 8,
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_functions_of_pointwise(text, device):
    x, y = some("int64", 5, 24), np.array(COUNTS)
    tensors = [pl.asarray(x, device=device), pl.asarray(y, device=device)]
    made = ops.pointwise(tensors, text, scalars=[21])
    np.testing.assert_array_equal(made.numpy(), EXPRESSIONS[text](x, y))


def test_what_pointwise_stores_is_the_lowest_bits(device):
    x = some("int32", 40)
    made = ops.pointwise([pl.asarray(x, device=device)], "y0 = rshift(x0, 5)", dtype="u8")
    np.testing.assert_array_equal(made.numpy(), (x >> 5).astype("uint8"))


def test_a_reduction_of_bits(device):
    x = some("int64", 6, 40)
    made = ops.pointwise(
        [pl.asarray(x, device=device)], "y0 = bitand(rshift(x0, 17), 1)", reductions="reduce_y0 += y0", dim=[1]
    )
    np.testing.assert_array_equal(made.numpy(), ((x >> 17) & 1).sum(1))


@pytest.mark.parametrize("function", ["bitand(x0, 1)", "bitnot(x0)", "lshift(x0, 1)"])
def test_pointwise_of_reals_has_no_bits(function):
    name = function.split("(")[0]
    with pytest.raises(pl.InvalidArgumentError, match=rf"position 5: {name} needs integers, but the arithmetic is f32"):
        ops.pointwise([pl.ones((2,))], f"y0 = {function}")
    with pytest.raises(pl.InvalidArgumentError, match=f"{name} needs integers"):
        ops.pointwise([pl.ones((2,), dtype="int32")], f"y0 = {function}", arithmetic="f32")


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_plans(dtype, device):
    """A hash: what overflows is cut off in the dtype of each step, whatever a plan makes one kernel."""
    x = some(dtype, 3, 33)
    g = pl.Graph()
    a = g.input("x", x.shape, dtype=dtype)
    b = (a ^ (a >> 3)) << 2
    g.output(~(b | (a << 1)) & ((b * 5) >> 1))
    g.output((a > 3) & ~(a > 60))
    made, mask = pl.compile(g, device=device, tune="off").run(x)
    with np.errstate(all="ignore"):
        first = ((x ^ (x >> 3)) << 2).astype(dtype)
        wanted = (~(first | (x << 1).astype(dtype)) & ((first * np.asarray(5, dtype)).astype(dtype) >> 1)).astype(dtype)
    np.testing.assert_array_equal(np.asarray(made), wanted)
    np.testing.assert_array_equal(np.asarray(mask), (x > 3) & ~(x > 60))


def test_masks_of_operators_are_the_ops_that_passes_know():
    g = pl.Graph()
    x = g.input("x", (3,))
    g.output(~((x > 0) & (x < 2) | True) ^ (x > 1))
    assert "logical_xor" in str(g) and "bitwise" not in str(g)


def test_there_are_no_gradients():
    g = pl.Graph()
    x = g.input("x", (3,), dtype="int32")
    with pytest.raises(pl.Error):
        g.gradients(ops.sum(g.op("bitwise_and", x, 3)), [x])
