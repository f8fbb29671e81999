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
    require(dtype in FLOATS, f"dtype {dtype}")
    # The statistics of the batch, which are not computed: backward is given them, and reads others.
    none = [call.graph.constant(np.zeros(call.shape(i)), dtype=call.dtype(i)) if call.used(i) else None for i in (1, 2)]
    given: tuple[Operand | None, ...] = (mean, variance, weight, bias)
    if dtype != "f32" and any(each is not None and each.dtype != dtype for each in given):
        if call.one_by_one:
            return _batch_norm_by_channels(call, x, mean, variance, weight, bias, eps), *none
        given, eps = _as_halves(call, dtype, mean, variance, weight, bias, eps), 0.0
    parameters = [None if each is None else call.cast(each, dtype) for each in given]
    return call.op("batch_norm", x, *parameters, eps=float(eps)), *none


def _batch_norm_by_channels(
    call: Call, x: Operand, mean: Operand, variance: Operand, weight: Operand | None, bias: Operand | None, eps: float
) -> Operand:
    """Of halves by statistics of more bits, which the library's op does not take: in f32, rounded once."""
    tensors, expression = [mean, variance], "(x0 - x1) * rsqrt(x2 + s0)"
    for sign, each in (("*", weight), ("+", bias)):
        if each is not None:
            tensors.append(each)
            expression += f" {sign} x{len(tensors)}"
    along = [x.shape[1], *[1] * (x.ndim - 2)]
    made: Operand = call.op(
        "pointwise", [x, *(call.reshape(each, along) for each in tensors)], f"y0 = {expression}", scalars=[float(eps)],
        dtype=x.dtype.name,
    )  # fmt: skip
    return made


# The largest finite number that a mean is limited to, by dtype.
_LARGEST = {"f16": 65504.0, "bf16": 3.38e38}


def _as_halves(
    call: Call, dtype: str, mean: Operand, variance: Operand, weight: Operand | None, bias: Operand | None, eps: float
) -> tuple[Operand, ...]:
    """Mean, variance, weight and bias for the library's op, which takes those of x's dtype, and for eps = 0.

    Passes fold that op into convolutions. What rounding takes from the mean and the variance, the bias and the weight
    are given: (x - m') / sqrt(v') * w' + b' with w' = w * sqrt(v' / (v + eps)), b' = b - (m - m') * w / sqrt(v + eps).
    """
    limits = [_LARGEST[dtype], float(eps), 2.0**-24, 65504.0]
    rounded = call.op(
        "pointwise", [mean, variance], "y0 = clip(x0, -s0, s0); y1 = clip(x1 + s1, s2, s3)", scalars=limits, dtype=dtype
    )
    tensors, names = [mean, variance, *rounded], {}
    for name, each in (("weight", weight), ("bias", bias)):
        if each is not None:
            names[name] = f"x{len(tensors)}"
            tensors.append(each)
    scale, shift = names.get("weight", "1"), names.get("bias", "0")
    text = f"scale = {scale} * rsqrt(x1 + s0); y0 = scale * sqrt(x3); y1 = {shift} - (x0 - x2) * scale"
    return *rounded, *call.op("pointwise", tensors, text, scalars=[float(eps)], dtype=dtype)


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
    total = _total(call, [dy, y], dim)
    made: Operand = call.op("pointwise", [dy, y, total], "y0 = x1 * (x0 - x2)", dtype=y.dtype.name)
    return made


@converter("_log_softmax_backward_data.default")
def log_softmax_backward(call: Call, dy: Operand, y: Operand, dim: int, input_dtype: Any) -> Operand:
    require(y.dtype == call.dtype(), f"dtype {y.dtype}")
    total = _total(call, [dy], dim)
    made: Operand = call.op("pointwise", [dy, y, total], "y0 = x0 - exp(x1) * x2", dtype=y.dtype.name)
    return made


def _total(call: Call, factors: list[Operand], dim: int) -> Operand:
    """The sum along a dimension, which is kept; of numbers the product."""
    if factors[0].ndim:
        return call.sum_of_products(factors, dim % factors[0].ndim, True)
    return factors[0] if len(factors) == 1 else call.op("mul", *factors)
