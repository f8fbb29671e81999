"""Dropout by a seed."""

from __future__ import annotations

from collections.abc import Sequence

from ..call import FLOATS, Call, Operand, require
from ..registry import converter

__all__: list[str] = []


@converter("pylayout.dropout.default")
def dropout(call: Call, x: Operand, seed: Operand, p: float) -> Operand:
    require(x.dtype in FLOATS, f"dtype {x.dtype}")
    made: Operand = call.op("random_dropout", x, seed, p=float(p))
    return made


@converter("pylayout.dropout_mask.default")
def dropout_mask(call: Call, seed: Operand, shape: Sequence[int], p: float) -> Operand:
    made: Operand = call.op("random_bernoulli", seed, shape=[*shape], p=float(p), dtype="bool")
    return call.op("logical_not", made)  # type: ignore[no-any-return]


@converter("native_dropout_backward.default")
def native_dropout_backward(call: Call, grad: Operand, mask: Operand, scale: float) -> Operand:
    require(grad.dtype in FLOATS, f"dtype {grad.dtype}")
    kept = call.op("mul", grad, call.cast(mask, grad.dtype.name))
    return call.op("mul", kept, float(scale))  # type: ignore[no-any-return]
