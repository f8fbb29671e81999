"""Pooling, resizing, windows added up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..call import Call, Operand, require
from ..registry import converter


def _batched(call: Call, x: Operand, rank: int) -> Operand:
    """x with a batch of one where it has none."""
    return call.reshape(x, [1, *x.shape]) if x.ndim == rank + 1 else x


def _pool(call: Call, op: str, x: Operand, rank: int, *arguments: Any, suffix: str = "", **keywords: Any) -> Operand:
    made: Operand = call.op(f"{op}{rank}d{suffix}", _batched(call, x, rank), *arguments, **keywords)
    return call.reshape(made, made.shape[1:]) if x.ndim == rank + 1 else made


def _each(values: Sequence[int], rank: int) -> list[int]:
    return [int(value) for value in values] * (rank if len(values) == 1 else 1)


def _max_pool(
    call: Call,
    x: Operand,
    rank: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Any:
    y = _max_pool_values(call, x, rank, kernel, stride, padding, dilation, ceil_mode) if call.used(0) else None
    if not call.used(1):
        return y, None
    size = _each(kernel, rank)
    return y, _pool(
        call, "max_pool", x, rank, size, _each(stride, rank) if stride else size, _each(padding, rank),
        _each(dilation, rank), bool(ceil_mode), suffix="_indices",
    )  # fmt: skip


def _max_pool_values(
    call: Call, x: Operand, rank: int, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool,
) -> Operand:  # fmt: skip
    size = _each(kernel, rank)
    return _pool(
        call, "max_pool", x, rank, size, _each(stride, rank) if stride else size,
        _each(padding, rank), _each(dilation, rank), bool(ceil_mode),
    )  # fmt: skip


@converter("max_pool2d.default", "max_pool3d.default")
def max_pool(
    call: Call, x: Operand, kernel_size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> Operand:  # fmt: skip
    rank = 3 if "max_pool3d" in str(call.node.target) else 2
    return _max_pool_values(call, x, rank, kernel_size, stride, padding, dilation, ceil_mode)


@converter("max_pool2d_with_indices.default")
def max_pool2d(
    call: Call, x: Operand, kernel_size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> Any:  # fmt: skip
    return _max_pool(call, x, 2, kernel_size, stride, padding, dilation, ceil_mode)


@converter("max_pool3d_with_indices.default")
def max_pool3d(
    call: Call, x: Operand, kernel_size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> Any:  # fmt: skip
    return _max_pool(call, x, 3, kernel_size, stride, padding, dilation, ceil_mode)


def _avg_pool(
    call: Call, x: Operand, rank: int, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    ceil_mode: bool, count_include_pad: bool, divisor: Any,
) -> Operand:  # fmt: skip
    size = _each(kernel, rank)
    scale = overridden(size, ceil_mode, divisor)
    made = _pool(
        call, "avg_pool", x, rank, size, _each(stride, rank) if stride else size,
        _each(padding, rank), bool(ceil_mode), bool(count_include_pad) or divisor is not None,
    )  # fmt: skip
    return made if scale == 1 else call.scaled(made, scale)


def overridden(kernel: Sequence[int], ceil_mode: bool, divisor: int | None) -> float:
    """What a mean over whole windows is to be multiplied by for another divisor than their size."""
    require(divisor is None or not ceil_mode, "divisor_override with ceil_mode")
    return 1.0 if divisor is None else math.prod(kernel) / divisor


@converter("avg_pool1d.default")
def avg_pool1d(
    call: Call, x: Operand, kernel_size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Operand:  # fmt: skip
    return _avg_pool(call, x, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@converter("avg_pool2d.default", note="divisor_override with ceil_mode")
def avg_pool2d(
    call: Call, x: Operand, kernel_size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None,
) -> Operand:  # fmt: skip
    return _avg_pool(call, x, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@converter("avg_pool3d.default", note="divisor_override with ceil_mode")
def avg_pool3d(
    call: Call, x: Operand, kernel_size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None,
) -> Operand:  # fmt: skip
    return _avg_pool(call, x, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@converter("adaptive_avg_pool1d.default")
def adaptive_avg_pool1d(call: Call, x: Operand, output_size: Sequence[int]) -> Operand:
    return _pool(call, "adaptive_avg_pool", x, 1, _each(output_size, 1))


@converter("_adaptive_avg_pool2d.default", "adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(call: Call, x: Operand, output_size: Sequence[int]) -> Operand:
    return _pool(call, "adaptive_avg_pool", x, 2, _each(output_size, 2))


@converter("_adaptive_avg_pool3d.default", "adaptive_avg_pool3d.default")
def adaptive_avg_pool3d(call: Call, x: Operand, output_size: Sequence[int]) -> Operand:
    return _pool(call, "adaptive_avg_pool", x, 3, _each(output_size, 3))


@converter("adaptive_max_pool2d.default")
def adaptive_max_pool2d(call: Call, x: Operand, output_size: Sequence[int]) -> Any:
    return _adaptive_max_pool(call, x, 2, output_size)


@converter("adaptive_max_pool3d.default")
def adaptive_max_pool3d(call: Call, x: Operand, output_size: Sequence[int]) -> Any:
    return _adaptive_max_pool(call, x, 3, output_size)


def _adaptive_max_pool(call: Call, x: Operand, rank: int, output_size: Sequence[int]) -> Any:
    size = _each(output_size, rank)
    return (
        _pool(call, "adaptive_max_pool", x, rank, size) if call.used(0) else None,
        _pool(call, "adaptive_max_pool", x, rank, size, suffix="_indices") if call.used(1) else None,
    )


@converter("col2im.default")
def col2im(
    call: Call, x: Operand, output_size: Sequence[int], kernel_size: Sequence[int], dilation: Sequence[int],
    padding: Sequence[int], stride: Sequence[int],
) -> Operand:  # fmt: skip
    window = [_each(values, 2) for values in (output_size, kernel_size, dilation, padding, stride)]
    made: Operand = call.op("fold", _batched(call, x, 1), *window)
    return call.reshape(made, made.shape[1:]) if x.ndim == 2 else made
