"""Torch's dtypes beside the library's, and the layouts of dense tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["NAMES", "channels_last", "dense_layout", "may_overlap", "plain_strides", "strides_in"]

# The library's names of the dtypes that both have.
NAMES: dict[torch.dtype, str] = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "s8",
    torch.uint8: "u8",
    torch.int32: "s32",
    torch.int64: "s64",
    torch.bool: "bool",
}

_LETTERS = "abcdefgh"


def plain_strides(shape: Sequence[int], order: Sequence[int] | None = None) -> tuple[int, ...]:
    """Strides, in elements, of a dense tensor whose dimensions lie in that order, the outermost first."""
    strides = [0] * len(shape)
    step = 1
    for dim in reversed(range(len(shape)) if order is None else order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def dense_layout(shape: Sequence[int], strides: Sequence[int]) -> str | None:
    """The layout of a tensor without gaps, such as "acdb"; None where there are gaps or overlaps, and for numbers.

    Strides of dimensions of size 1 mean nothing, so they do not count.
    """
    if not 0 < len(shape) <= len(_LETTERS):
        return None
    if 0 in shape:
        return _LETTERS[: len(shape)]
    larger = sorted((dim for dim, size in enumerate(shape) if size > 1), key=lambda dim: -strides[dim])
    if larger == sorted(larger):
        order = [*range(len(shape))]
    else:
        order = [*larger, *(dim for dim, size in enumerate(shape) if size == 1)]
    expected = plain_strides(shape, order)
    if any(strides[dim] != expected[dim] for dim in larger):
        return None
    return "".join(_LETTERS[dim] for dim in order)


def strides_in(layout: str | None, shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor in a layout such as "acdb"; None: in the order of dimensions."""
    return plain_strides(shape, None if layout is None else [_LETTERS.index(letter) for letter in layout])


def channels_last(rank: int) -> str:
    """That layout: "acdb" of rank 4."""
    return "a" + _LETTERS[2:rank] + "b"


def may_overlap(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements may lie at one place; False is sure."""
    reach = 0  # of the dimensions with smaller strides
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape, strict=True) if size > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False
