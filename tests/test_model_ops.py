"""Ops that whole models need beside layers: bad input, empty tensors and special values of each.

Values against float64, in every layout and on every device, are tested with the cases of op_cases.
"""

import numpy as np
import pytest

import pylayout as pl
from pylayout import ops

pytestmark = pytest.mark.usefixtures("unoptimised")
NAN, INFINITY = float("nan"), float("inf")
SHAPE, ARGUMENT, UNSUPPORTED = pl.ShapeError, pl.InvalidArgumentError, pl.UnsupportedError


def ones(*shape, dtype="float32"):
    return pl.asarray(np.ones(shape, dtype))


def sdpa(q, k, v, *mask, **attributes):
    return ops.scaled_dot_product_attention(ones(*q), ones(*k), ones(*v), *mask, **attributes)


def layer(op, x, w, r, **more):
    return getattr(ops, op)(ones(*x), ones(*w), ones(*r), **more)


X, W = (1, 4, 5, 5), (8, 4, 3, 3)


def bytes8(*shape):
    return ones(*shape, dtype="int8")


BAD = {
    "matmul with a residual of another shape": (
        lambda: ops.matmul(ones(2, 3), ones(3, 4), residual=ones(4)),
        SHAPE,
        r"matmul: residual.shape is \(4,\), expected \(2, 4\)",
    ),
    "matmul with a residual of another dtype": (
        lambda: ops.matmul(ones(2, 3), ones(3, 4), residual=ones(2, 4, dtype="float16")),
        ARGUMENT,
        "matmul: residual.dtype is f16, expected f32",
    ),
    "expand to fewer dimensions": (lambda: ops.expand(ones(2, 3), [3]), ARGUMENT, "shape has 1 values, expected 2"),
    "expand of another size": (lambda: ops.expand(ones(2, 3), [2, 4]), SHAPE, r"shape\[1\] is 4, expected 3"),
    "expand of a new dimension by -1": (lambda: ops.expand(ones(3), [-1, 3]), ARGUMENT, r"shape\[0\] is -1"),
    "expand beyond 8 dimensions": (lambda: ops.expand(ones(3), [1] * 8 + [3]), ARGUMENT, "shape has 9 values"),
    "expand too far": (lambda: ops.expand(ones(1, 1), [2**40, 2**40]), SHAPE, "expand: .*too large"),
    "tile by a negative count": (lambda: ops.tile(ones(3), [-2]), ARGUMENT, r"dims\[0\] is -2, expected at least 0"),
    "tile beyond 8 dimensions": (lambda: ops.tile(ones(3), [1] * 9), ARGUMENT, "dims has 9 values"),
    "tile too far": (lambda: ops.tile(ones(3, 3), [2**62, 2**62]), SHAPE, "tile: "),
    "cast to an unknown dtype": (lambda: ops.cast(ones(3), "f7"), ARGUMENT, 'cast: dtype "f7"'),
    "celu with alpha 0": (lambda: ops.celu(ones(3), alpha=0), ARGUMENT, "celu: alpha is 0"),
    "threshold NaN": (lambda: ops.threshold(ones(3), NAN, 0), ARGUMENT, "threshold: threshold is nan"),
    "isnan of integers": (lambda: ops.isnan(ones(3, dtype="int32")), UNSUPPORTED, "isnan: x has dtype s32"),
    "tan of integers": (lambda: ops.tan(ones(3, dtype="int32")), UNSUPPORTED, "tan: x has dtype s32"),
    "div of integers without rounding": (
        lambda: ops.div(ones(3, dtype="int32"), ones(3, dtype="int32")),
        UNSUPPORTED,
        "div: x has dtype s32, expected one of f32, f16, bf16 with rounding_mode=none",
    ),
    "div with an unknown rounding": (
        lambda: ops.div(ones(3), ones(3), rounding_mode="up"),
        ARGUMENT,
        "div: rounding_mode is up, expected one of trunc, floor",
    ),
    "remainder of bool": (
        lambda: ops.remainder(ones(3, dtype="bool"), ones(3, dtype="bool")),
        UNSUPPORTED,
        "remainder: x has dtype bool",
    ),
    "attention of vectors": (lambda: sdpa((3,), (3,), (3,)), SHAPE, "q has rank 1"),
    "attention of other heads": (
        lambda: sdpa((2, 3, 4), (1, 3, 4), (1, 3, 4)),
        SHAPE,
        r"k.shape is \(1, 3, 4\), expected 2 along dimension 0",
    ),
    "attention of other widths": (lambda: sdpa((3, 4), (3, 5), (3, 4)), SHAPE, "expected 4 as the last size"),
    "attention without width": (lambda: sdpa((3, 0), (3, 0), (3, 4)), SHAPE, "expected at least 1 as the last size"),
    "attention of other keys and values": (lambda: sdpa((3, 4), (5, 4), (6, 4)), SHAPE, "v.shape is .* expected 5"),
    "attention with another rank": (lambda: sdpa((1, 3, 4), (5, 4), (5, 4)), SHAPE, "k has rank 2"),
    "attention with a mask that does not fit": (
        lambda: sdpa((3, 4), (5, 4), (5, 4), ones(3, 4)),
        SHAPE,
        r"attn_mask has shape \(3, 4\), which does not broadcast to \(3, 5\)",
    ),
    "attention with an integer mask": (
        lambda: sdpa((3, 4), (5, 4), (5, 4), ones(3, 5, dtype="int32")),
        ARGUMENT,
        "attn_mask.dtype is s32, expected bool or f32",
    ),
    "attention with an infinite scale": (
        lambda: sdpa((3, 4), (5, 4), (5, 4), scale=INFINITY),
        ARGUMENT,
        "scale is inf, expected a finite number",
    ),
    "lstm of a matrix": (lambda: layer("lstm", (3, 4), (1, 20, 4), (1, 20, 5)), SHAPE, "lstm: x has rank 2"),
    "lstm with rows that are no gates": (
        lambda: layer("lstm", (2, 3, 4), (1, 20, 4), (1, 15, 5)),
        SHAPE,
        r"lstm: r.shape is \(1, 15, 5\), expected \(1, 20, 5\)",
    ),
    "gru in two directions with weights of one": (
        lambda: layer("gru", (2, 3, 4), (1, 15, 4), (1, 15, 5), direction="bidirectional"),
        SHAPE,
        r"gru: r.shape is \(1, 15, 5\), expected \(2, 15, 5\)",
    ),
    "rnn with weights of other features": (
        lambda: layer("rnn", (2, 3, 4), (1, 5, 3), (1, 5, 5)),
        SHAPE,
        r"rnn: w.shape is \(1, 5, 3\), expected \(1, 5, 4\)",
    ),
    "rnn with half a bias": (
        lambda: layer("rnn", (2, 3, 4), (1, 5, 4), (1, 5, 5), b=ones(1, 5)),
        SHAPE,
        r"rnn: b.shape is \(1, 5\), expected \(1, 10\)",
    ),
    "lstm with a state of another batch": (
        lambda: layer("lstm", (2, 3, 4), (1, 20, 4), (1, 20, 5), initial_c=ones(1, 2, 5)),
        SHAPE,
        r"lstm: initial_c.shape is \(1, 2, 5\), expected \(1, 3, 5\)",
    ),
    "lstm with other peepholes": (
        lambda: layer("lstm", (2, 3, 4), (1, 20, 4), (1, 20, 5), p=ones(1, 20)),
        SHAPE,
        r"lstm: p.shape is \(1, 20\), expected \(1, 15\)",
    ),
    "gru with floating lengths": (
        lambda: layer("gru", (2, 3, 4), (1, 15, 4), (1, 15, 5), sequence_lens=ones(3)),
        UNSUPPORTED,
        "gru: sequence_lens has dtype f32, expected one of s32, s64",
    ),
    "gru with lengths beyond the steps": (
        lambda: layer("gru", (2, 3, 4), (1, 15, 4), (1, 15, 5), sequence_lens=pl.asarray(np.array([1, 2, 3]))),
        ARGUMENT,
        "gru: sequence_lens is 3 at element 2, expected 0 to 2",
    ),
    "rnn with another function": (
        lambda: layer("rnn", (2, 3, 4), (1, 5, 4), (1, 5, 5), nonlinearity="sine"),
        ARGUMENT,
        "rnn: nonlinearity is sine, expected one of tanh, relu",
    ),
    "lstm without hidden units": (lambda: layer("lstm", (2, 3, 4), (1, 0, 4), (1, 0, 0)), SHAPE, "r.shape is"),
    "lstm without features": (lambda: layer("lstm", (2, 3, 0), (1, 20, 0), (1, 20, 5)), SHAPE, "x.shape is"),
    "quantize with scales of another number": (
        lambda: ops.quantize_linear(ones(2, 3), ones(4)),
        SHAPE,
        r"quantize_linear: scale.shape is \(4,\), expected \(3,\)",
    ),
    "quantize along an axis there is not": (
        lambda: ops.quantize_linear(ones(2, 3), ones(3), axis=2),
        ARGUMENT,
        "quantize_linear: axis is 2, expected -2 to 1",
    ),
    "quantize with zero points of another number": (
        lambda: ops.quantize_linear(ones(2, 3), ones(3), ones(2, dtype="uint8")),
        SHAPE,
        r"quantize_linear: zero_point.shape is \(2,\)",
    ),
    "quantize to 32 bits": (
        lambda: ops.quantize_linear(ones(2, 3), ones(1), dtype="s32"),
        UNSUPPORTED,
        "quantize_linear: dtype is s32, expected one of s8, u8",
    ),
    "quantize to two dtypes": (
        lambda: ops.quantize_linear(ones(2, 3), ones(1), ones(1, dtype="uint8"), dtype="s8"),
        UNSUPPORTED,
        "quantize_linear: zero_point has dtype u8, expected one of s8 with dtype=s8",
    ),
    "dequantize floats": (lambda: ops.dequantize_linear(ones(2), ones(1)), UNSUPPORTED, "x has dtype f32"),
    "qlinear_conv of floats": (
        lambda: ops.qlinear_conv(ones(*X), ones(*W, dtype="int8"), ones(), ones(), ones()),
        UNSUPPORTED,
        "qlinear_conv: x has dtype f32, expected one of s8, u8",
    ),
    "qlinear_conv of other channels": (
        lambda: ops.qlinear_conv(bytes8(*X), bytes8(8, 5, 3, 3), ones(), ones(), ones()),
        SHAPE,
        "qlinear_conv: weight.ic is 5, expected 4",
    ),
    "qlinear_conv with two scales of x": (
        lambda: ops.qlinear_conv(bytes8(*X), bytes8(*W), ones(2), ones(), ones()),
        SHAPE,
        r"qlinear_conv: x_scale.shape is \(2,\), expected one value",
    ),
    "qlinear_conv with too many scales": (
        lambda: ops.qlinear_conv(bytes8(*X), bytes8(*W), ones(), ones(9), ones()),
        SHAPE,
        r"weight_scale.shape is \(9,\), expected one value or 8 \(weight.oc\)",
    ),
    "qlinear_conv with a bias of f16": (
        lambda: ops.qlinear_conv(bytes8(*X), bytes8(*W), ones(), ones(), ones(), bias=ones(8, dtype="float16")),
        UNSUPPORTED,
        "qlinear_conv: bias has dtype f16, expected one of f32, s32",
    ),
    "conv_integer with a zero point of another dtype": (
        lambda: ops.conv_integer(bytes8(*X), bytes8(*W), ones(dtype="uint8")),
        ARGUMENT,
        "conv_integer: x_zero_point.dtype is u8, expected s8",
    ),
    "conv_integer of a matrix": (lambda: ops.conv_integer(bytes8(2, 3), bytes8(2, 3)), SHAPE, "x has rank 2"),
    "matmul_integer of other columns": (
        lambda: ops.matmul_integer(bytes8(2, 3), bytes8(4, 5)),
        SHAPE,
        r"matmul_integer: b has shape \(4, 5\), expected 3 rows",
    ),
    "matmul_integer of stacks that do not broadcast": (
        lambda: ops.matmul_integer(bytes8(2, 3, 3), bytes8(4, 3, 3)),
        SHAPE,
        "matmul_integer: b has shape .* expected batch dimensions that broadcast",
    ),
    "qlinear_matmul with zero points of another number": (
        lambda: ops.qlinear_matmul(bytes8(2, 3), bytes8(3, 4), ones(), ones(), ones(), b_zero_point=bytes8(3)),
        SHAPE,
        r"b_zero_point.shape is \(3,\), expected one value or 4",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, error, message = BAD[name]
    with pytest.raises(error, match=message):
        call()


EMPTY = {
    "expand": (lambda x: ops.expand(x, [4, 0, 3]), (0, 3), (4, 0, 3)),
    "expand to nothing": (lambda x: ops.expand(x, [0, 3]), (1, 3), (0, 3)),
    "tile": (lambda x: ops.tile(x, [2, 2]), (0, 3), (0, 6)),
    "tile to nothing": (lambda x: ops.tile(x, [0, 2]), (2, 3), (0, 6)),
    "cast": (lambda x: ops.cast(x, "s8"), (0, 3), (0, 3)),
    "tan": (ops.tan, (2, 0), (2, 0)),
    "isnan": (ops.isnan, (2, 0), (2, 0)),
    "attention without queries": (lambda x: ops.scaled_dot_product_attention(x, x, x), (2, 0, 3), (2, 0, 3)),
    "attention without heads": (lambda x: ops.scaled_dot_product_attention(x, x, x), (0, 2, 3), (0, 2, 3)),
    "quantize_linear": (lambda x: ops.quantize_linear(x, ones(1)), (0, 3), (0, 3)),
    "dequantize_linear": (lambda x: ops.dequantize_linear(ops.cast(x, "s8"), ones(3)), (0, 3), (0, 3)),
    "conv_integer": (lambda x: ops.conv_integer(ops.cast(x, "s8"), bytes8(*W)), (0, 4, 5, 5), (0, 8, 3, 3)),
    "matmul_integer": (lambda x: ops.matmul_integer(ops.cast(x, "s8"), bytes8(3, 4)), (0, 3), (0, 4)),
    "fmod": (lambda x: ops.fmod(x, x), (0, 3), (0, 3)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_tensors(name):
    call, before, after = EMPTY[name]
    results = call(ones(*before))
    for result in results if isinstance(results, (list, tuple)) else [results]:
        assert result.shape == after and np.asarray(result).size == 0


def test_expand_copies_nothing():
    x = pl.asarray(np.arange(3, dtype="float32").reshape(3, 1))
    y = ops.broadcast_to(x, [1000, 3, 1000])
    assert not y.is_dense
    np.testing.assert_array_equal(np.asarray(y), np.broadcast_to(np.asarray(x), (1000, 3, 1000)))
    # What is computed from it sees the repeated elements, through other views as well.
    np.testing.assert_array_equal(np.asarray(ops.sum(ops.permute(y, [2, 1, 0]), dim=[0, 2])), [0, 1e6, 2e6])


def test_cast_limits_and_wraps(device):
    x = np.array([-INFINITY, -1e30, -129.9, -0.9, 0.9, 127.9, 300, 1e30, INFINITY, NAN], "float32")
    x = pl.asarray(x, device=device)
    np.testing.assert_array_equal(ops.cast(x, "s8"), [-128, -128, -128, 0, 0, 127, 127, 127, 127, 0])
    np.testing.assert_array_equal(ops.cast(x, "u8"), [0, 0, 0, 0, 0, 127, 255, 255, 255, 0])
    wide = np.array([-(2**31) - 5, -129, 130, 2**40 + 7], "int64")
    for name, dtype in {"s8": "int8", "u8": "uint8", "s32": "int32"}.items():
        np.testing.assert_array_equal(ops.cast(pl.asarray(wide, device=device), name), wide.astype(dtype))


@pytest.mark.parametrize("half", [False, True])
def test_casts_that_limit_nothing(device, half):
    """What an integer cannot hold, and NaN, becomes the least of 64 bits, or of 32, of which bytes are the low bits."""
    x = np.array(
        [0.9, -1.9, 300, -129, 255, 256, -(2.0**31), 3e9, -3e9, 1e19, -1e19, INFINITY, -INFINITY, NAN], "float32"
    )
    with np.errstate(over="ignore"):
        x = x.astype("float16") if half else x
    for name, dtype, bits in (("s8", "int8", 32), ("u8", "uint8", 32), ("s32", "int32", 32), ("s64", "int64", 64)):
        fits = np.abs(x.astype("float64")) < 2.0 ** (bits - 1)
        cut = np.where(fits, np.trunc(np.where(fits, x, 0)).astype("int64"), -(2 ** (bits - 1)))
        given = pl.asarray(x, device=device)
        np.testing.assert_array_equal(ops.cast(given, name, limited=False), cut.astype(dtype), err_msg=name)


def test_special_values(device):
    x = pl.asarray(np.array([NAN, INFINITY, -INFINITY, -0.0, 2.5, -2.5], "float32"), device=device)
    np.testing.assert_array_equal(ops.isnan(x), [True, False, False, False, False, False])
    np.testing.assert_array_equal(ops.isinf(x), [False, True, True, False, False, False])
    np.testing.assert_array_equal(ops.trunc(x), [NAN, INFINITY, -INFINITY, 0, 2, -2])
    np.testing.assert_array_equal(ops.threshold(x, 0.0, 7.0), [NAN, INFINITY, 7, 7, 2.5, 7])
    np.testing.assert_array_equal(np.asarray(ops.celu(x))[:3], [NAN, INFINITY, -1])


def test_integer_division(device):
    def of(values):
        return pl.asarray(np.array(values, "int32"), device=device)

    x, y = of([7, -7, 7, -7, 5, -(2**31)]), of([2, 2, -2, -2, 0, -1])
    np.testing.assert_array_equal(ops.div(x, y, rounding_mode="trunc"), [3, -3, -3, 3, 0, -(2**31)])
    np.testing.assert_array_equal(ops.div(x, y, rounding_mode="floor"), [3, -4, -4, 3, 0, -(2**31)])
    np.testing.assert_array_equal(ops.fmod(x, y), [1, -1, 1, -1, 5, 0])
    np.testing.assert_array_equal(ops.remainder(x, y), [1, 1, -1, -1, 5, 0])
    np.testing.assert_array_equal(ops.pow(of([2, -3, 1, -1, 2]), of([10, 3, -5, -5, -1])), [1024, -27, 1, -1, 0])
    np.testing.assert_array_equal(ops.div(of([1]), of([1]), rounding_mode="floor"), [1])


def test_floor_of_the_exact_quotient():
    """1 / 0.1 rounds to 10, but 0.1 in f32 is larger than a tenth, so that the floor is 9, as in torch."""
    np.testing.assert_array_equal(ops.div(ones(1), np.array([0.1], "f4"), rounding_mode="floor"), [9])
    np.testing.assert_array_equal(ops.remainder(np.array([-1.0], "f4"), np.array([3.0], "f4")), [2])


def reference_attention(q, k, v, hidden):
    """In float64; hidden[i, j]: query i does not see key j."""
    scores = q.astype("f8") @ np.swapaxes(k, -1, -2).astype("f8") / np.sqrt(q.shape[-1])
    scores = np.where(hidden, -INFINITY, scores)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(largest), 0, largest))
    total = weights.sum(-1, keepdims=True)
    return np.where(total > 0, weights @ v.astype("f8") / np.where(total > 0, total, 1), 0)


def test_attention_hides(device, rng):
    """Rows that see nothing are zeros, in several blocks of keys; what is hidden may be anything finite."""
    q, k, v = (rng.standard_normal((1, 1, n, 8)).astype("f4") for n in (40, 1200, 1200))
    hidden = rng.random((40, 1200)) < 0.5
    hidden[3] = True
    hidden[5, :700] = True
    hidden[:, 600] = True
    v[..., 600, :] = 3e38
    expected = reference_attention(q, k, np.where(v == np.float32(3e38), 0, v), hidden)
    for mask in (~hidden, np.where(hidden, -INFINITY, 0).astype("f4")):
        result = ops.scaled_dot_product_attention(*(pl.asarray(t, device=device) for t in (q, k, v, mask)))
        np.testing.assert_allclose(np.asarray(result), expected, atol=2e-6)
        assert not np.asarray(result)[0, 0, 3].any()


def test_attention_of_no_keys():
    result = sdpa((2, 3, 4), (2, 0, 4), (2, 0, 5))
    np.testing.assert_array_equal(np.asarray(result), np.zeros((2, 3, 5)))


def test_attention_shows_nan(rng):
    q, k, v = (rng.standard_normal((2, 50, 16)).astype("f4") for _ in range(3))
    k[1, 7, 3] = NAN
    result = np.asarray(ops.scaled_dot_product_attention(q, k, v))
    assert np.isfinite(result[0]).all() and np.isnan(result[1]).all()


@pytest.mark.parametrize("op", [ops.l2_normalize, ops.rms_norm])
@pytest.mark.parametrize("shape", [(3, 64), (3, 7), (3, 9000)])
def test_rows_by_their_length_show_what_is_no_number(op, shape, device, rng):
    x = rng.standard_normal(shape).astype("f4")
    x[1, 3], x[2, 5] = NAN, INFINITY
    result = np.asarray(op(pl.asarray(x, device=device), shape[1]))
    assert np.isfinite(result[0]).all() and np.isnan(result[1]).all()
    assert np.isnan(result[2, 5]) and not np.delete(result[2], 5).any()  # an infinite length


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("units", [5, 96])
def test_rnn_shows_nan(nonlinearity, units, device, rng):
    x, w, r = (rng.standard_normal(shape).astype("f4") for shape in ((4, 2, 3), (1, units, 3), (1, units, units)))
    x[1, 0, 1] = NAN
    y, last = ops.rnn(*(pl.asarray(t, device=device) for t in (x, w, r)), nonlinearity=nonlinearity)
    seen = np.isnan(np.asarray(y)).all(-1)[:, 0]
    np.testing.assert_array_equal(seen, [[False, False], [True, False], [True, False], [True, False]])
    np.testing.assert_array_equal(np.isnan(np.asarray(last)).all(-1), [[True, False]])


@pytest.mark.parametrize("mode", ["mean", "max"])
def test_roi_align_takes_nothing_of_pixels_without_weight(mode, device):
    """Samples more than a pixel outside are 0, whatever lies in the image's corner."""
    x = np.ones((1, 1, 6, 6), "f4")
    x[0, 0, 0, 0] = INFINITY
    boxes, images = np.array([[-9, -9, -4, -4], [2, 2, 9, 9]], "f4"), np.zeros(2, "i8")
    result = np.asarray(ops.roi_align(*(pl.asarray(t, device=device) for t in (x, boxes, images)), 1, mode=mode))
    assert result[0].item() == 0 and 0 < result[1].item() <= 1


def test_attention_of_large_scores(rng):
    """The largest score grows from block to block: earlier blocks are scaled down, to nothing in the end."""
    q = np.full((1, 1, 4), 30, "f4")
    k = np.linspace(-1, 1, 1500, dtype="f4")[None, :, None] * np.ones((1, 1, 4), "f4")
    v = rng.standard_normal((1, 1500, 3)).astype("f4")
    expected = reference_attention(q, k, v, np.zeros((1, 1500), bool))
    np.testing.assert_allclose(np.asarray(ops.scaled_dot_product_attention(q, k, v)), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_attention_in_half_precision(dtype, device, rng):
    tensors = [
        pl.asarray(rng.standard_normal((2, 2, 37, 24)).astype("f4"), device=device).to(dtype=dtype) for _ in "qkv"
    ]
    exact = [np.asarray(t.to(dtype="f32")) for t in tensors]
    result = np.asarray(ops.scaled_dot_product_attention(*tensors).to(dtype="f32"))
    expected = reference_attention(*exact, np.zeros((37, 37), bool))
    np.testing.assert_allclose(result, expected, atol=4e-3 if dtype == "bf16" else 5e-4)


def test_attention_reads_heads_where_they_lie(rng):
    """(n, l, heads, e), as a linear layer gives it, and a view of it: no copies, and the same way back."""
    q, k, v = (pl.asarray(rng.standard_normal((2, 50, 3, 16)).astype("f4")) for _ in range(3))
    heads = [ops.permute(t, [0, 2, 1, 3]) for t in (q, k, v)]
    with pl.profile() as profile:
        y = ops.scaled_dot_product_attention(*heads, layout=heads[0].layout)
    assert y.layout == heads[0].layout
    summary = profile.summary()
    assert summary["reorders"]["activations"]["count"] == 0
    plain = [np.ascontiguousarray(np.asarray(t)) for t in heads]
    expected = np.asarray(ops.scaled_dot_product_attention(*plain))  # perhaps by another kernel
    np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["lstm", "gru", "rnn"])
def test_recurrent_layers_are_torchs(op, device, rng):
    """Two directions, long enough that errors would add up; torch orders gates otherwise."""
    torch = pytest.importorskip("torch", reason="the comparison is with torch")
    steps, batch, features, hidden = 40, 3, 24, 40
    made = getattr(torch.nn, op.upper())(features, hidden, bidirectional=True).double()
    # torch's gates in ONNX's order: lstm i f g o -> i o f g, gru r z n -> z r n.
    order = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2], "rnn": [0]}[op]

    def gates(name):
        parts = [getattr(made, name + end).detach().numpy() for end in ("_l0", "_l0_reverse")]
        return np.stack([p.reshape(len(order), hidden, *p.shape[1:])[order].reshape(p.shape) for p in parts])

    bias = np.concatenate([gates("bias_ih"), gates("bias_hh")], 1)
    x = rng.standard_normal((steps, batch, features))
    states = [rng.standard_normal((2, batch, hidden)) for _ in range(2 if op == "lstm" else 1)]
    torch_states = tuple(torch.from_numpy(s) for s in states)
    y, last = made(torch.from_numpy(x), torch_states if op == "lstm" else torch_states[0])
    y = y.detach().numpy().reshape(steps, batch, 2, hidden).transpose(0, 2, 1, 3)
    expected = [y, *(s.detach().numpy() for s in (last if op == "lstm" else [last]))]
    arrays = [a.astype("f4") for a in (x, gates("weight_ih"), gates("weight_hh"), bias, *states)]
    tensors = [pl.asarray(a, device=device) for a in arrays]
    names = ["x", "w", "r", "b", "initial_h", "initial_c"]
    attributes = {"linear_before_reset": True} if op == "gru" else {}
    results = getattr(ops, op)(**dict(zip(names, tensors, strict=False)), direction="bidirectional", **attributes)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.asarray(result), wanted, atol=3e-6)


@pytest.mark.parametrize("op,gates", [("lstm", 4), ("gru", 3), ("rnn", 1)])
def test_recurrent_layers_of_no_steps(op, gates, rng):
    """The last state is the first one."""
    h = rng.standard_normal((1, 2, 5)).astype("f4")
    y, y_h, *_ = getattr(ops, op)(ones(0, 2, 4), ones(1, gates * 5, 4), ones(1, gates * 5, 5), initial_h=h)
    assert y.shape == (0, 1, 2, 5)
    np.testing.assert_array_equal(np.asarray(y_h), h)
    y, y_h, *_ = getattr(ops, op)(ones(3, 0, 4), ones(1, gates * 5, 4), ones(1, gates * 5, 5))
    assert y.shape == (3, 1, 0, 5) and y_h.shape == (1, 0, 5)


def test_quantize_rounds_and_saturates(device):
    """Halves to the even integer, before the zero point is added."""
    x = pl.asarray(np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, INFINITY, NAN], "f4"), device=device)
    one, zero = (pl.asarray(a, device=device) for a in (np.array([1], "f4"), np.array([3], "i1")))
    result = np.asarray(ops.quantize_linear(x, one, zero))
    np.testing.assert_array_equal(result, [3, 5, 5, 3, 1, 127, -128, 127, 0])
    np.testing.assert_array_equal(np.asarray(ops.quantize_linear(x, one)), [0, 2, 2, 0, 0, 255, 0, 255, 0])
    # An axis other than 1, negative.
    y = ops.quantize_linear(np.full((2, 3), 6, "f4"), np.array([1, 2, 3], "f4"), axis=-1)
    np.testing.assert_array_equal(np.asarray(y), [[6, 3, 2]] * 2)
    back = ops.dequantize_linear(y, np.array([1, 2], "f2"), axis=0)
    assert back.dtype == "f16"
    np.testing.assert_array_equal(np.asarray(back), [[6, 3, 2], [12, 6, 4]])


def test_quantised_products_of_nothing():
    """No columns to sum over: zero, and through the scales the zero point."""
    np.testing.assert_array_equal(np.asarray(ops.matmul_integer(bytes8(2, 0), bytes8(0, 3))), np.zeros((2, 3)))
    y = ops.qlinear_matmul(bytes8(2, 0), bytes8(0, 3), ones(), ones(), ones(), y_zero_point=np.array(7, "u1"))
    np.testing.assert_array_equal(np.asarray(y), np.full((2, 3), 7))


@pytest.mark.parametrize("op", ["conv_integer", "qlinear_conv"])
def test_convolution_pads_with_the_zero_point(op, device, rng):
    """What lies outside is a zero of the quantised tensor, not a stored 0."""
    x = rng.integers(0, 255, (1, 8, 6, 6)).astype("u1")
    w = rng.integers(-128, 127, (8, 8, 3, 3)).astype("i1")
    zero = np.array(200, "u1")
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=200)
    function = getattr(ops, op)

    def place(array):
        return pl.asarray(array, device=device)

    scales = [place(np.array(s, "f4")) for s in (0.013, 0.021, 3.7)] if op == "qlinear_conv" else []
    zero = place(zero)
    expected = np.asarray(function(place(padded), place(w), *scales, x_zero_point=zero))
    for layout in ("auto", "NHWC"):
        result = function(place(x), place(w), *scales, x_zero_point=zero, padding=1, layout=layout)
        np.testing.assert_array_equal(np.asarray(result), expected)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "u1", "i4", "i8"])
def test_topk_orders_equal_elements_by_index_and_nan_above_numbers(dtype, largest, device, rng):
    a = rng.integers(0, 4, (3, 40)).astype(dtype)
    if dtype[0] == "f":
        a[:, 5::7] = NAN
        a[:, 6] = INFINITY if largest else -INFINITY
        a[0] = NAN
    # Sorting is stable, with NaN last: from the end, if the largest come first.
    order = 39 - np.argsort(a[:, ::-1], 1, kind="stable")[:, ::-1] if largest else np.argsort(a, 1, kind="stable")
    for k in (1, 4, 40):
        values, indices = ops.topk(pl.asarray(a, device=device), k, largest=largest)
        assert (values.dtype, indices.dtype) == (pl.asarray(a).dtype, "s64")
        np.testing.assert_array_equal(np.asarray(indices), order[:, :k])
        np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(a, order[:, :k], 1))
