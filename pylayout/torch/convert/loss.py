"""Losses, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..call import Call, Operand
from ..registry import converter


@converter("pylayout.cross_entropy.default")
def cross_entropy(
    call: Call, x: Operand, target: Operand, weight: Operand | None, reduction: str, ignore_index: int,
    label_smoothing: float,
) -> Operand:  # fmt: skip
    made: Operand = call.op(
        "cross_entropy", x, call.cast(target, "s64"), weight, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip
    return made


@converter("pylayout.cross_entropy_backward.default")
def cross_entropy_backward(
    call: Call, grad: Operand, x: Operand, target: Operand, weight: Operand | None, reduction: str, ignore_index: int,
    label_smoothing: float,
) -> Operand:  # fmt: skip
    made: Operand = call.op(
        "cross_entropy_backward", x, call.cast(target, "s64"), grad, weight, ignore_index=ignore_index,
        reduction=reduction, label_smoothing=label_smoothing,
    )  # fmt: skip
    return made


_MEAN = 1  # of PyTorch's numbers of reductions


@converter("nll_loss_backward.default", "nll_loss2d_backward.default")
def nll_loss_backward(
    call: Call, grad: Operand, x: Operand, target: Operand, weight: Any, reduction: int, ignore_index: int,
    total_weight: Operand,
) -> Operand:  # fmt: skip
    """At the class of the target the negative gradient, times its weight; elsewhere 0."""
    dtype, axis = call.dtype(), 1 if x.ndim > 1 else 0
    classes = x.shape[axis]
    along = [1] * x.ndim
    along[axis] = classes
    target = call.cast(target, "s64")
    if x.ndim > target.ndim:
        target = call.op("unsqueeze", target, axis)
    number = call.graph.constant(np.arange(classes, dtype=np.int64).reshape(along))
    hit = call.op("logical_and", call.op("eq", target, number), call.op("ne", target, int(ignore_index)))
    if reduction == _MEAN:
        grad = call.op("div", grad, total_weight)
    if 0 < grad.ndim < x.ndim:
        grad = call.op("unsqueeze", grad, axis)
    value = call.op("neg", grad)
    if weight is not None:
        value = call.op("mul", value, call.reshape(weight, along))
    made: Operand = call.op("where", hit, value, call.tensor(0.0, dtype))
    return made
