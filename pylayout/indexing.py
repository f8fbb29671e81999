"""Basic indexing, as NumPy defines it: x[0, 2:5, ..., None]."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from .errors import ArgumentTypeError, UnsupportedError

__all__ = ["BasicIndex", "basic_index"]


class BasicIndex(NamedTuple):
    """A slice along some axes, then a reshape."""

    axes: list[int]
    starts: list[int]
    ends: list[int]
    steps: list[int]
    shape: list[int]


def basic_index(shape: Sequence[int], keys: tuple[Any, ...]) -> BasicIndex:
    """What integers, slices with positive steps, `...` and None take of a tensor of this shape.

    Raises IndexError, UnsupportedError (a negative step), ArgumentTypeError (another kind of index).
    """
    used = sum(key is not None and key is not Ellipsis for key in keys)
    if used > len(shape):
        raise IndexError(f"index: {used} indices given, expected at most {len(shape)} for the shape {shape}")
    if sum(key is Ellipsis for key in keys) > 1:
        raise IndexError("index: `...` is given twice, expected once")
    if not any(key is Ellipsis for key in keys):
        keys = (*keys, Ellipsis)
    axes: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    result: list[int] = []  # the shape that comes out
    dim = 0
    for key in keys:
        if key is None:
            result.append(1)
        elif key is Ellipsis:
            skipped = len(shape) - used  # the dimensions that the other keys leave over
            result.extend(shape[dim : dim + skipped])
            dim += skipped
        elif isinstance(key, slice):
            start, end, step = key.indices(shape[dim])
            if step < 1:
                raise UnsupportedError(f"index: step of dimension {dim} is {step}, expected at least 1")
            if (start, end, step) != (0, shape[dim], 1):
                axes.append(dim)
                starts.append(start)
                ends.append(max(start, end))
                steps.append(step)
            result.append(len(range(start, end, step)))
            dim += 1
        else:
            try:
                at = operator.index(key)
            except TypeError:
                raise ArgumentTypeError(
                    f"index: {key!r} is no integer, slice, `...` or None; ops.index_select and ops.gather take tensors"
                ) from None
            if not -shape[dim] <= at < shape[dim]:
                raise IndexError(f"index: {at} is outside of dimension {dim}, which has size {shape[dim]}")
            at %= shape[dim]
            axes.append(dim)
            starts.append(at)
            ends.append(at + 1)
            steps.append(1)
            dim += 1
    return BasicIndex(axes, starts, ends, steps, result)
