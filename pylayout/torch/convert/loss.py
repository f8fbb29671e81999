"""Losses, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..call import Call, Operand, require
from ..registry import converter

_MEAN = 1  # of PyTorch's numbers of reductions
_REDUCTIONS = ("none", "mean", "sum")


def _cross_entropy(
    call: Call, op: str, tensors: Sequence[Operand | None], reduction: int, ignore_index: int, label_smoothing: float
) -> Operand:
    made: Operand = call.op(
        op, *tensors, ignore_index=int(ignore_index), reduction=_REDUCTIONS[reduction],
        label_smoothing=float(label_smoothing),
    )  # fmt: skip
    return made


@converter("cross_entropy_loss.default", note="shares of classes in the place of a class")
def cross_entropy(
    call: Call, x: Operand, target: Operand, weight: Operand | None, reduction: int, ignore_index: int,
    label_smoothing: float,
) -> Operand:  # fmt: skip
    require(x.ndim > 1 and target.ndim == x.ndim - 1, f"x of rank {x.ndim} for a target of rank {target.ndim}")
    return _cross_entropy(call, "cross_entropy", [x, target, weight], reduction, ignore_index, label_smoothing)


@converter("pylayout.cross_entropy_backward.default")
def cross_entropy_backward(
    call: Call, grad: Operand, x: Operand, target: Operand, weight: Operand | None, reduction: int, ignore_index: int,
    label_smoothing: float,
) -> Operand:  # fmt: skip
    given = [x, target, grad, weight]
    return _cross_entropy(call, "cross_entropy_backward", given, reduction, ignore_index, label_smoothing)


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
