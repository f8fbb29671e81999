"""Quantised tensors by ONNX Runtime: ops of its domain com.microsoft, as its quantiser writes them.

Each is the op of the numbers that the integers stand for, rounded to integers again; passes make it one of integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ...errors import ShapeError, UnsupportedError
from ..node import Node
from ..operand import Operand, Result
from ..registry import converter
from .conv import channels_first, channels_last
from .math import cast
from .pool import average
from .quantized import (
    dequantize_linear,
    integer_product,
    qlinear_convolution,
    quantize_linear,
    real_blocks,
    result_dtype,
    zero_point,
)
from .recurrent import long_short_term

DOMAIN = "com.microsoft"

converter("DequantizeLinear", domain=DOMAIN, note="from uint8, int8 and int32, and from constants of uint4 and int4")(
    dequantize_linear
)
converter("QuantizeLinear", domain=DOMAIN, note="to uint8 and int8")(quantize_linear)


def _real(node: Node, at: int) -> Operand:
    """The numbers that a tensor stands for: inputs `at`, its scale and its zero point."""
    made: Operand = node.op("dequantize_linear", node.x(at), node.x(at + 1), zero_point(node, at + 2), axis=0)
    return made


def _quantised(node: Node, y: Operand, at: int) -> Result:
    """As integers by the scale and the zero point at inputs `at` and `at + 1`."""
    dtype = result_dtype(node, at + 1)
    return node.op("quantize_linear", y, node.x(at), zero_point(node, at + 1), axis=0, dtype=dtype)


def _single(node: Node, *at: int) -> None:
    for i in at:
        if node.x(i).shape not in ((), (1,)):
            raise UnsupportedError(f"input {i} has shape {list(node.x(i).shape)}, expected one scale")


def _binary(op: str) -> Callable[[Node], Result]:
    def convert(node: Node) -> Result:
        _single(node, 1, 4, 6)
        return _quantised(node, node.op(op, _real(node, 0), _real(node, 3)), 6)

    return convert


def _unary(build: Callable[[Node, Operand], Operand]) -> Callable[[Node], Result]:
    def convert(node: Node) -> Result:
        _single(node, 1, 3)
        return _quantised(node, build(node, _real(node, 0)), 3)

    return convert


def _average(node: Node, x: Operand) -> Operand:
    return _by_channels(node, x, lambda x: average(node, x))


def _global_average(node: Node, x: Operand) -> Operand:
    return _by_channels(node, x, lambda x: node.op("mean", x, list(range(2, x.ndim)), True))


def _by_channels(node: Node, x: Operand, function: Callable[[Operand], Operand]) -> Operand:
    """A function that wants channels behind the batch, where they may be the last dimension."""
    if not node.integer("channels_last", 0):
        return function(x)
    return channels_last(node, function(channels_first(node, x)))


def _softmax(node: Node, x: Operand) -> Operand:
    if node.integer("opset", 13) < 13:
        raise UnsupportedError(f"opset is {node.integer('opset', 13)}, expected 13 or later")
    made: Operand = node.op("softmax", x, node.axis(node.integer("axis", -1), x.ndim))
    return made


def _leaky_relu(node: Node, x: Operand) -> Operand:
    made: Operand = node.op("leaky_relu", x, node.number("alpha", 0.01))
    return made


def _sigmoid(node: Node, x: Operand) -> Operand:
    made: Operand = node.op("sigmoid", x)
    return made


converter("QLinearAdd", domain=DOMAIN)(_binary("add"))
converter("QLinearMul", domain=DOMAIN)(_binary("mul"))
converter("QLinearSigmoid", domain=DOMAIN)(_unary(_sigmoid))
converter("QLinearLeakyRelu", domain=DOMAIN)(_unary(_leaky_relu))
converter("QLinearSoftmax", domain=DOMAIN, note="of opset 13 or later")(_unary(_softmax))
converter("QLinearAveragePool", domain=DOMAIN)(_unary(_average))
converter("QLinearGlobalAveragePool", domain=DOMAIN)(_unary(_global_average))


@converter("QLinearConv", domain=DOMAIN)
def qlinear_conv(node: Node) -> Result:
    return _by_channels(node, node.x(0), lambda x: qlinear_convolution(node, x))


@converter("QLinearConcat", domain=DOMAIN)
def qlinear_concat(node: Node) -> Result:
    if len(node.inputs) < 5 or len(node.inputs) % 3 != 2:
        raise ShapeError(f"{len(node.inputs)} inputs, expected a scale, a zero point and three for each part")
    parts = [_real(node, at) for at in range(2, len(node.inputs), 3)]
    axis = node.axis(node.integer("axis"), parts[0].ndim)
    return _quantised(node, node.joined(parts, axis), 0)


@converter("QGemm", domain=DOMAIN, note="A with one scale")
def qgemm(node: Node) -> Result:
    a, b = node.x(0), node.x(3)
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(f"A has rank {a.ndim} and B rank {b.ndim}, expected 2 and 2")
    _single(node, 1)
    turned = bool(node.integer("transB", 0))
    columns = b.shape[0 if turned else 1]
    real_b = node.op("dequantize_linear", b, node.x(4), zero_point(node, 5), axis=0 if turned else 1)
    bias, c = None, node.optional(6)
    if c is not None:  # in units of the sums
        bias = node.op(
            "dequantize_linear", node.broadcastable(c, (columns,)), node.op("mul", node.x(1), node.x(4)), axis=0
        )
    alpha = node.number("alpha", 1.0)
    y = node.op("matmul", _real(node, 0), real_b, bias, transpose_a=bool(node.integer("transA", 0)), transpose_b=turned)
    if alpha != 1:  # also of the units of C
        y = node.op("mul", y, alpha)
    return y if node.optional(7) is None else _quantised(node, y, 7)


def _real_product(
    node: Node, a: Operand, a_scale: Operand, a_zero: Operand | None, b_scale: int, b_zero: int, bias: int
) -> Operand:
    """The integers `a` times those of input 1, as the numbers that they stand for; the last three are inputs."""
    product = cast(node, integer_product(node, a, node.x(1), a_zero, zero_point(node, b_zero)), "f32")
    y = node.op("mul", product, node.op("mul", a_scale, node.x(b_scale)))
    made: Operand = node.op("add", y, node.x(bias)) if node.has(bias) else y
    return made


@converter("MatMulIntegerToFloat", domain=DOMAIN, note="A with one scale")
def matmul_integer_to_float(node: Node) -> Result:
    _single(node, 2)
    return _real_product(node, node.x(0), node.x(2), zero_point(node, 4), 3, 5, 6)


@converter("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(node: Node) -> Result:
    """The range of A, with 0 in it, is that of u8."""
    a = node.x(0)
    axes = list(range(a.ndim))
    zero = numpy.zeros((), "f4")
    low, high = (
        node.op(within, node.op(end, a, axes), zero) for within, end in (("minimum", "amin"), ("maximum", "amax"))
    )
    scale = node.op("pointwise", [low, high], "y0 = x0 == x1 ? 1 : (x1 - x0) / 255")
    point = cast(node, node.op("pointwise", [low, scale], "y0 = clip(round(-x0 / x1), 0, 255)"), "u8")
    integers = node.op("quantize_linear", a, scale, point, axis=0, dtype="u8")
    return _real_product(node, integers, scale, point, 2, 3, 4)


@converter("DynamicQuantizeLSTM", domain=DOMAIN, note="states and x stay floats; constant weights")
def dynamic_quantize_lstm(node: Node) -> Result:
    """`LSTM` of the numbers that the weights stand for, which are given turned."""
    weights = []
    for at, scale in ((1, 8), (2, 10)):
        q, scales, zeros = (node.known(i) for i in (at, scale, scale + 1))
        directions, gates = q.shape[0], q.shape[-1]
        columns = [values.reshape(directions, 1, -1) for values in (scales, zeros)]
        if any(values.shape[-1] not in (1, gates) for values in columns):
            raise ShapeError(
                f"input {scale} has shape {list(scales.shape)}, expected {directions} or {directions} x {gates}"
            )
        numbers = (q.astype("f4") - columns[1].astype("f4")) * columns[0]
        weights.append(numpy.ascontiguousarray(numbers.transpose(0, 2, 1)))
    return long_short_term(node, *weights)


def _unpacked(packed: Any, bits: int) -> Any:
    """Numbers of so many bits, the first in the lowest ones of its byte; a row for each row of bytes."""
    values = [packed >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
    return numpy.stack(values, axis=-1).reshape(packed.shape[0], -1)


@converter("MatMulNBits", domain=DOMAIN, note="of 2, 4 or 8 bits, constant weights")
def matmul_nbits(node: Node) -> Result:
    """Weights stay as they are; those that `linear_nbits` does not take become the floats that they stand for."""
    k, n = node.integer("K"), node.integer("N")
    bits, block = node.integer("bits", 4), node.integer("block_size")
    node.ignore("accuracy_level", "weight_prepacked")  # the least accurate arithmetic that would do
    if bits not in (2, 4, 8):
        raise UnsupportedError(f"bits is {bits}, expected 2, 4 or 8")
    if k < 1 or n < 1 or block < 1 or block * bits % 8:
        raise ShapeError(f"K is {k}, N {n} and block_size {block}, expected positive, blocks of whole bytes")
    blocks = -(-k // block)
    packed, scale = node.known(1), node.known(2)
    if packed.dtype != "uint8" or packed.size != n * blocks * (block * bits // 8):
        raise ShapeError(
            f"B has {packed.size} elements of {packed.dtype}, expected {n} * {blocks} * {block * bits // 8} of uint8"
        )
    if scale.size != n * blocks:
        raise ShapeError(f"scales has {scale.size} elements, expected {n} * {blocks}")
    zero: Any = None
    if node.has(3):
        zero = node.known(3)
        width = -(-blocks * bits // 8) if zero.dtype == "uint8" else blocks
        if zero.size != n * width:
            raise ShapeError(f"zero_points has {zero.size} elements, expected {n} * {width}")
        zero = zero.reshape(n, width)
        zero = _unpacked(zero, bits)[:, :blocks] if zero.dtype == "uint8" else zero
    if not node.has(4) and (zero is None or zero.dtype == "uint8"):
        rows, scales = packed.reshape(n, -1), scale.reshape(n, blocks)
        return node.op("linear_nbits", node.x(0), rows, scales, zero, node.optional(5), bits=bits, block_size=block)
    if zero is None:
        zero = 1 << bits - 1
    groups = numpy.asarray(node.known(4)) if node.has(4) else numpy.arange(k) // block
    if groups.shape != (k,) or groups.dtype.kind not in "iu" or groups.min() < 0 or groups.max() >= blocks:
        raise ShapeError(f"g_idx has shape {list(groups.shape)}, expected {k} indices of {blocks} blocks")
    weight = real_blocks(_unpacked(packed.reshape(n, -1), bits)[:, :k], scale.reshape(n, blocks), zero, 1, groups)
    return node.op("linear", node.x(0), weight, node.optional(5))
