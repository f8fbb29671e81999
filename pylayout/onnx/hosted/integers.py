"""Bits of integers: BitShift, Bitwise*, BitCast."""

from __future__ import annotations

from typing import Any

import numpy

from ...errors import InvalidArgumentError
from ..host import Call, host


@host("BitShift")
def shift(call: Call) -> Any:
    x, by = call.x(0), call.x(1)
    bits = 8 * x.dtype.itemsize
    beyond = (by < 0) | (by >= bits) if by.dtype.kind == "i" else by >= bits
    amount = numpy.where(beyond, 0, by).astype(x.dtype)
    if call.attribute("direction") == "LEFT":
        return numpy.where(beyond, x.dtype.type(0), numpy.left_shift(x, amount)).astype(x.dtype)
    rest = numpy.where(x < 0, -1, 0).astype(x.dtype) if x.dtype.kind == "i" else x.dtype.type(0)
    return numpy.where(beyond, rest, numpy.right_shift(x, amount)).astype(x.dtype)


@host("BitwiseAnd")
def bitwise_and(call: Call) -> Any:
    return numpy.bitwise_and(call.x(0), call.x(1))


@host("BitwiseOr")
def bitwise_or(call: Call) -> Any:
    return numpy.bitwise_or(call.x(0), call.x(1))


@host("BitwiseXor")
def bitwise_xor(call: Call) -> Any:
    return numpy.bitwise_xor(call.x(0), call.x(1))


@host("BitwiseNot")
def bitwise_not(call: Call) -> Any:
    return numpy.bitwise_not(call.x(0))


@host("BitCast")
def bit_cast(call: Call) -> Any:
    x, dtype = numpy.ascontiguousarray(call.x(0)), call.dtype("to", 0)
    if x.dtype.itemsize != dtype.itemsize:
        raise InvalidArgumentError(f"onnx: BitCast: {x.dtype} and {dtype} have different sizes")
    return x.view(dtype).reshape(call.x(0).shape)
