"""Quantised tensors: integers that stand for floats, and products of them."""

from __future__ import annotations

from typing import Any

import numpy

from ...errors import ShapeError, UnsupportedError
from ..fold import arange
from ..node import Node, dtype_text, numpy_of
from ..operand import Few, Known, Operand, Result
from ..registry import converter
from .conv import convolution
from .math import cast


def zero_point(node: Node, index: int) -> Operand | None:
    """A zero point, or None for one that is known to be zero: without it faster ways are open."""
    given = node.optional(index)
    return None if isinstance(given, Known) and not given.array.any() else given


def _scale(node: Node, index: int) -> Operand:
    """A scale, in f32."""
    return cast(node, node.x(index), "f32")


def _check_blocks(parameter: Operand, x: Operand, axis: int, block: int) -> None:
    count = -(-x.shape[axis] // block)
    if parameter.ndim != x.ndim or parameter.shape[axis] != count:
        raise ShapeError(f"scales have shape {list(parameter.shape)}, which does not fit blocks of {block} of x")


def _along(node: Node, parameter: Operand, x: Operand, axis: int, block: int) -> Operand:
    """Scales or zero points, one for all, for each index along the axis or for each block of them, to go with x."""
    if block:
        _check_blocks(parameter, x, axis, block)
        made: Operand = node.op("index_select", parameter, axis, Known(arange(x.shape[axis]) // block))
        return made
    if parameter.ndim == 0 or x.ndim < 2:
        return parameter
    if parameter.shape not in ((1,), (x.shape[axis],)):
        raise ShapeError(f"scales have shape {list(parameter.shape)}, expected [{x.shape[axis]}]")
    made = node.op("reshape", parameter, [-1 if at == axis else 1 for at in range(x.ndim)])
    return made


def widened(operand: Operand) -> Operand:
    """Integers of 4 bits as such of 8; anything else as it is."""
    name = str(numpy_of(operand))
    if isinstance(operand, Known) and name in ("int4", "uint4"):
        return Known(operand.array.astype("int8" if name == "int4" else "uint8"), operand.name)
    return operand


def real_blocks(q: Any, scale: Any, zero: Any, axis: int, groups: Any) -> Known:
    """Integers known at import as the numbers that they stand for, in the dtype of the scale.

    groups: for each index along the axis, that of its scale and its zero point; zero may be one number.
    """
    made = q.astype("float32")
    made -= numpy.take(zero, groups, axis).astype("float32") if numpy.ndim(zero) else numpy.float32(zero)
    made *= numpy.take(scale, groups, axis).astype("float32")
    return Known(made.astype(scale.dtype))


_WIDE = ("int16", "uint16")  # in the graph they are s32
_OF_OP = ("int8", "uint8", "int32", "int4", "uint4")  # what the op dequantize_linear takes, if need be widened
_BITS = {"int4": 4, "uint4": 4, "int8": 8, "uint8": 8}


def _few(node: Node, axis: int, block: int) -> Few | None:
    """A constant matrix in blocks, or of 4 bits, which stays integers for whom can use them.

    What is of 8 bits without blocks stays an op: with integers on its other side it becomes a product of integers.
    """
    parts = [node.optional(i) for i in range(3)]
    x, scale, zero = parts
    if any(part is not None and (not isinstance(part, Known) or part.sizes is not None) for part in parts):
        return None
    assert isinstance(x, Known) and isinstance(scale, Known)
    bits = _BITS.get(str(x.dtype), 0)
    if x.ndim != 2 or not bits or (bits == 8 and not block) or 0 in x.shape or scale.dtype.kind not in "fV":
        return None
    if block:
        for parameter in (scale, zero):
            if parameter is not None:
                _check_blocks(parameter, x, axis, block)
        if zero is not None and zero.shape != scale.shape:
            return None
    elif scale.shape not in ((), (1,), (x.shape[axis],)) or (zero is not None and zero.shape != scale.shape):
        return None
    scales, zeros = scale.array, None if zero is None else widened(zero).array
    if not block:  # one for each row or column, or for all: one block
        column = [-1, 1] if axis == 0 else [1, -1]
        scales, zeros = (None if given is None else given.reshape(column) for given in (scales, zeros))
        axis = 1 - axis
        block = _whole_bytes(x.shape[axis], bits)
    return Few(widened(x).array, scales, zeros, axis, block, bits)


def few_bits(node: Node, x: Operand, weight: Few, bias: Operand | None = None) -> Operand | None:
    """x @ weight + bias with the weight's integers; None where they are cut otherwise, or x stands for integers too."""
    block = weight.block
    if weight.axis != 0:
        if weight.scale.size != 1:
            return None
        block = _whole_bytes(weight.shape[0], weight.bits)
    if block * weight.bits % 8 or block > _MOST_BLOCK:
        return None
    if (
        numpy_of(x) != weight.dtype
        or x.ndim < 1
        or x.shape[-1] != weight.shape[0]
        or id(x) in node.importer.dequantised
    ):
        return None
    if weight.packed is None:
        weight.packed = _packed(weight, block)
    rows, scale, zero = weight.packed
    made: Operand = node.op("linear_nbits", x, rows, scale, zero, bias, bits=weight.bits, block_size=block)
    return made


_MOST_BLOCK = 65536  # of linear_nbits


def _whole_bytes(count: int, bits: int) -> int:
    """So many numbers, or a few more that fill a byte."""
    return count + -count % (8 // bits)


def _packed(weight: Few, block: int) -> tuple[Known, Known, Known | None]:
    """A row of bytes for each column, scales, and zero points of numbers without sign."""
    (depth, columns), bits = weight.shape, weight.bits
    middle = 1 << bits - 1 if weight.q.dtype == "int8" else 0
    blocks = -(-depth // block)
    numbers = numpy.zeros((columns, blocks * block), "uint8")
    numbers[:, :depth] = weight.q.T
    numbers[:, :depth] += numpy.uint8(middle)  # which wraps around
    if bits == 4:
        numbers = numbers[:, ::2] | numbers[:, 1::2] << 4
    if weight.zero is None:
        zero = None if middle else Known(numpy.zeros((columns, blocks), "uint8"))
    else:
        zero = weight.zero.T.astype("uint8") + numpy.uint8(middle)
        zero = Known(numpy.ascontiguousarray(numpy.broadcast_to(zero, (columns, blocks))))
    scale = numpy.broadcast_to(weight.scale.T, (columns, blocks))
    return Known(numbers), Known(numpy.ascontiguousarray(scale)), zero


def _axis_of(node: Node, x: Operand, scale: Operand) -> int:
    """The axis that the scales are given for; any, where there is one scale."""
    axis = node.integer("axis", 1)
    return 0 if scale.ndim == 0 or scale.shape == (1,) else node.axis(axis, x.ndim)


def _ignored(node: Node) -> None:
    node.ignore("saturate", "precision")  # of 8-bit floats; divisions are in f32 at least


def _real(node: Node, x: Operand, scale: Operand, axis: int, block: int) -> Operand:
    """Integers as the numbers that they stand for, computed in f32."""
    made = cast(node, x, "f32")
    if node.has(2):
        made = node.op("sub", made, _along(node, cast(node, widened(node.x(2)), "f32"), x, axis, block))
    made = node.op("mul", made, _along(node, cast(node, scale, "f32"), x, axis, block))
    return cast(node, made, dtype_text(scale))


@converter(
    "DequantizeLinear",
    since=10,
    note="from uint8, int8 and int32, and from constants of any numbers; the host from others",
)
def dequantize_linear(node: Node) -> Result:
    x, scale = widened(node.x(0)), node.x(1)
    _ignored(node)
    if node.integer("output_dtype", 0) and node.dtype("output_dtype") != numpy_of(scale).name:
        raise UnsupportedError(f"attribute output_dtype differs from the scale's, {numpy_of(scale)}")
    block = node.integer("block_size", 0)
    if block:
        axis = node.axis(node.integer("axis", 1), x.ndim)
        zero = widened(node.x(2)) if node.has(2) else None
        few = _few(node, axis, block)
        if few is not None:
            return few
        if isinstance(x, Known) and isinstance(scale, Known) and (zero is None or isinstance(zero, Known)):
            for parameter in (scale, zero):
                if parameter is not None:
                    _check_blocks(parameter, x, axis, block)
            groups = arange(x.shape[axis]) // block
            return real_blocks(x.array, scale.array, 0 if zero is None else zero.array, axis, groups)
        return _real(node, x, scale, axis, block)
    axis = _axis_of(node, x, scale)
    if any(numpy_of(node.x(i)).name not in _OF_OP for i in (0, 2) if node.has(i)):
        return _real(node, x, scale, axis, 0)
    few = _few(node, axis, 0)
    if few is not None:
        return few
    zero = zero_point(node, 2)
    made = node.op("dequantize_linear", x, scale, None if zero is None else widened(zero), axis=axis)
    node.importer.dequantised[id(made)] = made
    return made


def _result_name(node: Node, index: int) -> str:
    """NumPy's name of a quantised result's dtype: that of its zero point, else as an attribute says, else uint8."""
    given = node.optional(index)
    if given is not None:
        return str(numpy_of(given).name)
    return node.dtype("output_dtype") if node.integer("output_dtype", 0) else "uint8"


def result_dtype(node: Node, index: int) -> str:
    """The dtype of a quantised result."""
    name = _result_name(node, index)
    if name not in ("uint8", "int8"):
        raise UnsupportedError(f"the result is {name}, expected uint8 or int8")
    return "u8" if name == "uint8" else "s8"


def _is_only_dequantised(node: Node) -> bool:
    """Whether the result is read by DequantizeLinear alone, for which it need not be of its own dtype."""
    readers = node.scope.readers(node.proto.output[0])
    return readers is not None and all(op == "DequantizeLinear" for op in readers)


@converter(
    "QuantizeLinear",
    since=10,
    note="to uint8 and int8; to uint16 and int16 what is dequantised next; the host to others",
)
def quantize_linear(node: Node) -> Result:
    x, scale = node.x(0), node.x(1)
    _ignored(node)
    name = _result_name(node, 2)
    node.ignore("output_dtype")
    wide = name in _WIDE and _is_only_dequantised(node)
    dtype = "s32" if wide else result_dtype(node, 2)
    block = node.integer("block_size", 0)
    if block or wide:
        axis = node.axis(node.integer("axis", 1), x.ndim) if block else _axis_of(node, x, scale)
        parts = [x, _along(node, scale, x, axis, block)]
        text = "y0 = clip(round(x0 / x1), s0, s1)"
        if node.has(2):
            parts.append(_along(node, cast(node, node.x(2), "f32"), x, axis, block))
            text = "y0 = clip(round(x0 / x1) + x2, s0, s1)"
        limits = numpy.iinfo(name)
        return node.op("pointwise", parts, text, scalars=[limits.min, limits.max], dtype=dtype)
    axis = _axis_of(node, x, scale)
    return node.op("quantize_linear", x, scale, zero_point(node, 2), axis=axis, dtype=dtype)


@converter("QLinearConv", since=10)
def qlinear_conv(node: Node) -> Result:
    return qlinear_convolution(node, node.x(0))


def qlinear_convolution(node: Node, x: Operand) -> Result:
    """Of x in the place of the node's own."""
    return convolution(
        node,
        "qlinear_conv",
        x,
        node.x(3),
        _scale(node, 1),
        _scale(node, 4),
        _scale(node, 6),
        zero_point(node, 2),
        zero_point(node, 5),
        zero_point(node, 7),
        node.optional(8),
        dtype=result_dtype(node, 7),
    )


@converter("ConvInteger", since=10)
def conv_integer(node: Node) -> Result:
    return convolution(node, "conv_integer", node.x(0), node.x(1), zero_point(node, 2), zero_point(node, 3))


def _matrices(node: Node, a: Operand, b: Operand) -> tuple[Operand, Operand, list[int]]:
    """Both as matrices, and the shape of the result: vectors lose their dimension."""
    shape = [*numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *a.shape[-2:-1], *b.shape[1:][-1:]]
    if a.ndim < 1 or b.ndim < 1:
        raise ShapeError(f"a has rank {a.ndim} and b rank {b.ndim}, expected at least 1")
    if a.ndim == 1:
        a = node.op("reshape", a, [1, *a.shape])
    if b.ndim == 1:
        b = node.op("reshape", b, [*b.shape, 1])
    return a, b, shape


def integer_product(node: Node, a: Operand, b: Operand, zero_a: Operand | None, zero_b: Operand | None) -> Operand:
    a, b, shape = _matrices(node, a, b)
    return node.broadcastable(node.op("matmul_integer", a, b, zero_a, zero_b), shape)


@converter("MatMulInteger", since=10)
def matmul_integer(node: Node) -> Result:
    return integer_product(node, node.x(0), node.x(1), zero_point(node, 2), zero_point(node, 3))


@converter("QLinearMatMul", since=10)
def qlinear_matmul(node: Node) -> Result:
    a, b, shape = _matrices(node, node.x(0), node.x(3))
    y = node.op(
        "qlinear_matmul",
        a,
        b,
        _scale(node, 1),
        _scale(node, 4),
        _scale(node, 6),
        zero_point(node, 2),
        zero_point(node, 5),
        zero_point(node, 7),
        dtype=result_dtype(node, 7),
    )
    return node.broadcastable(y, shape)
