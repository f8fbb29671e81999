"""Normalisation and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..call import FLOATS, Call, Operand, require
from ..registry import converter


@converter("_native_batch_norm_legit_no_training.default")
def batch_norm(
    call: Call,
    x: Operand,
    weight: Operand | None,
    bias: Operand | None,
    mean: Operand,
    variance: Operand,
    momentum: float,
    eps: float,
) -> Any:
    dtype = x.dtype.name
    mean, variance = call.cast(mean, dtype), call.cast(variance, dtype)
    weight, bias = (value if value is None else call.cast(value, dtype) for value in (weight, bias))
    # The statistics of the batch, which there are none of: backward is given them, without elements.
    none = [call.graph.constant(np.empty(call.shape(i), "float32")) if call.used(i) else None for i in (1, 2)]
    return call.op("batch_norm", x, mean, variance, weight, bias, eps=float(eps)), *none


def _statistics(call: Call, x: Operand, dims: list[int], eps: float) -> tuple[Operand, Operand]:
    """Mean and 1 / sqrt(biased variance + eps), in f32 and with dims kept."""
    x = call.cast(x, "f32")
    mean = call.op("mean", x, dims, True)
    variance = call.op("mean", call.op("square", call.op("sub", x, mean)), dims, True)
    return mean, call.op("rsqrt", call.op("add", variance, float(eps)))


def _alike(call: Call, x: Operand, *weights: Operand | None) -> tuple[Any, ...]:
    """All in f32 where weights have another dtype than x, as in mixed precision."""
    if all(each is None or each.dtype == x.dtype for each in weights):
        return x, *weights
    return tuple(each if each is None else call.cast(each, "f32") for each in (x, *weights))


@converter("pylayout.layer_norm.default")
def layer_norm(
    call: Call, x: Operand, shape: Sequence[int], weight: Operand | None, bias: Operand | None, eps: float
) -> Operand:
    x, weight, bias = _alike(call, x, weight, bias)
    made: Operand = call.cast(call.op("layer_norm", x, list(shape), weight, bias, eps=float(eps)), call.dtype(0))
    return made


@converter("native_layer_norm.default")
def layer_norm_and_statistics(
    call: Call, x: Operand, shape: Sequence[int], weight: Operand | None, bias: Operand | None, eps: float
) -> Any:
    y = layer_norm(call, x, shape, weight, bias, eps)
    if not (call.used(1) or call.used(2)):
        return y, None, None
    mean, inverse = _statistics(call, x, list(range(x.ndim - len(shape), x.ndim)), eps)
    return y, call.cast(mean, call.dtype(1)), call.cast(inverse, call.dtype(2))


@converter("pylayout.group_norm.default")
def group_norm(
    call: Call, x: Operand, groups: int, weight: Operand | None, bias: Operand | None, eps: float
) -> Operand:
    x, weight, bias = _alike(call, x, weight, bias)
    made: Operand = call.cast(call.op("group_norm", x, int(groups), weight, bias, eps=float(eps)), call.dtype(0))
    return made


@converter("native_group_norm.default")
def group_norm_and_statistics(
    call: Call,
    x: Operand,
    weight: Operand | None,
    bias: Operand | None,
    n: int,
    channels: int,
    positions: int,
    groups: int,
    eps: float,
) -> Any:
    y = group_norm(call, x, groups, weight, bias, eps)
    if not (call.used(1) or call.used(2)):
        return y, None, None
    statistics = _statistics(call, call.op("reshape", x, [n, groups, -1]), [2], eps)
    return y, *(call.cast(call.op("reshape", each, [n, groups]), call.dtype(1)) for each in statistics)


@converter("_softmax.default")
def softmax(call: Call, x: Operand, dim: int, half_to_float: bool) -> Operand:
    return _softmax(call, "softmax", x, dim, half_to_float)


@converter("_log_softmax.default")
def log_softmax(call: Call, x: Operand, dim: int, half_to_float: bool) -> Operand:
    return _softmax(call, "log_softmax", x, dim, half_to_float)


def _softmax(call: Call, op: str, x: Operand, dim: int, half_to_float: bool) -> Operand:
    require(x.dtype in FLOATS, f"dtype {x.dtype}")
    lined = x if x.ndim else call.reshape(x, [1])
    made: Operand = call.op(op, call.cast(lined, "f32") if half_to_float else lined, dim)
    return call.reshape(made, x.shape)


@converter("_softmax_backward_data.default")
def softmax_backward(call: Call, dy: Operand, y: Operand, dim: int, input_dtype: Any) -> Operand:
    require(y.dtype == call.dtype(), f"dtype {y.dtype}")
    product = call.op("mul", dy, y)
    total = call.op("sum", product, [dim], True) if y.ndim else product
    made: Operand = call.op("sub", product, call.op("mul", y, total))
    return made


@converter("_log_softmax_backward_data.default")
def log_softmax_backward(call: Call, dy: Operand, y: Operand, dim: int, input_dtype: Any) -> Operand:
    require(y.dtype == call.dtype(), f"dtype {y.dtype}")
    total = call.op("sum", dy, [dim], True) if y.ndim else dy
    made: Operand = call.op("sub", dy, call.op("mul", call.op("exp", y), total))
    return made
