"""Casts to and from numbers of few bits, and quantised numbers of widths that the library has not, by ml_dtypes."""

from __future__ import annotations

import importlib
from typing import Any

import numpy

from ...errors import UnsupportedError
from ..fold import FOLDS
from ..host import Call, host


@host("Cast")
def cast(call: Call) -> Any:
    return _cast(call, call.dtype("to", 1))


@host("CastLike")
def cast_like(call: Call) -> Any:
    return _cast(call, call.x(1).dtype)


def _cast(call: Call, dtype: Any) -> Any:
    """The first input in another dtype: also in one of ml_dtypes."""
    x = call.x(0)
    if dtype.kind in "OSUc" or dtype.name == "float8_e8m0fnu":  # powers of two, to which there are ways to round
        raise UnsupportedError(f"onnx: {call.node.op_type}: the result is {dtype}, which pylayout has not")
    if dtype.isbuiltin == 1 or dtype.name == "bfloat16":
        return FOLDS["cast"](x, dtype)
    whole, low, high = _range(dtype)
    made = x.astype("float32")
    with numpy.errstate(all="ignore"):
        if whole:
            made = numpy.trunc(made).astype("int64")  # whose low bits are kept
        elif call.attribute("saturate", 1):
            made = numpy.clip(made, low, high)
        return made.astype(dtype)


def _along(call: Call, x: Any, parameter: Any) -> Any:
    """Scales or zero points in the shape of x: one for all, for each index along the axis or for each block of them."""
    block = call.attribute("block_size", 0)
    if not block and parameter.size == 1:
        return parameter.reshape(())
    axis = call.axis(call.attribute("axis", 1), x.ndim)
    if block:
        return numpy.take(parameter, numpy.arange(x.shape[axis]) // block, axis)
    return parameter.reshape([-1 if at == axis else 1 for at in range(x.ndim)])


@host("QuantizeLinear")
def quantize_linear(call: Call) -> Any:
    x, zero = call.x(0), call.optional(2)
    if zero is None and call.attribute("output_dtype", 0):
        dtype = call.dtype("output_dtype", 0)
    else:
        dtype = numpy.dtype("uint8") if zero is None else zero.dtype
    whole, low, high = _range(dtype)
    with numpy.errstate(all="ignore"):
        made = x.astype("float32") / _along(call, x, call.x(1)).astype("float32")
        if whole:
            made = numpy.rint(made)
        if zero is not None:
            made += _along(call, x, zero).astype("float32")
        if whole or call.attribute("saturate", 1):
            made = numpy.clip(made, low, high)
        return made.astype(dtype)


@host("DequantizeLinear")
def dequantize_linear(call: Call) -> Any:
    x, scale = call.x(0), call.x(1)
    made = x.astype("float32")
    if call.optional(2) is not None:
        made -= _along(call, x, call.x(2)).astype("float32")
    return (made * _along(call, x, scale).astype("float32")).astype(scale.dtype)


def _range(dtype: Any) -> tuple[bool, float, float]:
    """Whether a dtype is one of integers, and the least and the greatest of its finite values."""
    if dtype.kind in "iu":
        limits: Any = numpy.iinfo(dtype)
        return True, limits.min, limits.max
    ml_dtypes: Any = importlib.import_module("ml_dtypes")  # which defines the others

    try:
        limits = ml_dtypes.iinfo(dtype)
        return True, limits.min, limits.max
    except ValueError:
        limits = ml_dtypes.finfo(dtype)
        return False, float(limits.min), float(limits.max)
