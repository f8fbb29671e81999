"""Tensors made of numbers: where calls decide sizes, or the numbers. Others are known when a graph is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...sizes import Size
from ..call import Call, Operand, require
from ..registry import converter


def _filled(call: Call, value: Any, options: dict[str, Any]) -> Operand:
    require(options.get("device") in (None, call.device()), "another device")
    dtype = call.dtype()
    made: Operand = call.op("expand", call.tensor(call.cast(value, dtype), dtype), list(call.shape()))
    return made


@converter("full.default", moves=True)
def full(call: Call, size: Sequence[Any], value: Any, **options: Any) -> Operand:
    return _filled(call, value, options)


@converter("zeros.default", moves=True, keeps=False)
def zeros(call: Call, size: Sequence[Any], **options: Any) -> Operand:
    return _filled(call, 0, options)


@converter("ones.default", moves=True, keeps=False)
def ones(call: Call, size: Sequence[Any], **options: Any) -> Operand:
    return _filled(call, 1, options)


@converter("fill.Scalar", "fill.Tensor", keeps=False, numbers=True)
def fill(call: Call, x: Operand, value: Any) -> Operand:
    return _filled(call, value, {})


@converter("scalar_tensor.default", moves=True)
def scalar_tensor(call: Call, value: Any, **options: Any) -> Operand:
    return _filled(call, value, options)


# Of what is in new memory nothing is read: so that it divides no plan where it is written to in parts.
@converter("empty.memory_format", "empty_permuted.default", "empty_strided.default", moves=True, keeps=False)
def empty(call: Call, size: Sequence[Any], *order: Any, **options: Any) -> Operand:
    return _filled(call, 0, options)


@converter("new_empty_strided.default", moves=True, keeps=False)
def new_empty(call: Call, x: Operand, size: Sequence[Any], strides: Sequence[Any], **options: Any) -> Operand:
    return _filled(call, 0, options)


def _counted(call: Call, first: Any, end: Any, step: Any) -> Operand:
    dtype = call.dtype()
    first, end, step = (
        int(each) if isinstance(each, float) and each.is_integer() else each for each in (first, end, step)
    )
    whole = all(isinstance(each, (int, Size)) for each in (first, end, step))
    require(whole and dtype in ("s64", "s32", "f32"), f"numbers of {dtype} that are counted by fractions")
    made: Operand = call.graph.arange(first, end, step, dtype)
    return made


@converter("arange.start_step", moves=True, keeps=False, note="by fractions")
def arange(call: Call, start: Any, end: Any, step: Any = 1, **options: Any) -> Operand:
    require(options.get("device") in (None, call.device()), "another device")
    return _counted(call, start, end, step)


@converter("prims.iota.default", moves=True)
def iota(call: Call, length: Any, *, start: Any, step: Any, **options: Any) -> Operand:
    require(options.get("device") in (None, call.device()), "another device")
    return _counted(call, start, start + length * step, step)
