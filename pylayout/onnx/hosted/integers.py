"""Bits of integers that plans have no dtype for: BitShift, Bitwise*; BitCast."""

from __future__ import annotations

from typing import Any

import numpy

from ...errors import InvalidArgumentError
from ..fold import shifted
from ..host import Call, host


@host("BitShift")
def shift(call: Call) -> Any:
    return shifted(call.x(0), call.x(1), call.attribute("direction") == "LEFT")


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
