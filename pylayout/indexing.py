"""Indexing, as NumPy defines it: x[0, 2:5, ..., None, ::-1, [0, 2]], with at most one list of indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy

from .errors import ArgumentTypeError, UnsupportedError

__all__ = ["BasicIndex", "basic_index"]


class BasicIndex(NamedTuple):
    """A slice along some axes; some of them reversed; indices along one; then a reshape."""

    axes: list[int]
    starts: list[int]
    ends: list[int]
    steps: list[int]
    reversed: list[int]
    gathered: tuple[int, Any] | None
    shape: list[int]


def basic_index(shape: Sequence[int], keys: tuple[Any, ...]) -> BasicIndex:
    """What integers, slices, `...`, None and one list or array of integers take of a tensor of this shape.

    Raises IndexError, UnsupportedError (two lists, or one of bool), ArgumentTypeError (another kind of index).
    """
    keys = tuple(_list_index(key) for key in keys)
    used = sum(key is not None and key is not Ellipsis for key in keys)
    if used > len(shape):
        raise IndexError(f"index: {used} indices given, expected at most {len(shape)} for the shape {shape}")
    if sum(key is Ellipsis for key in keys) > 1:
        raise IndexError("index: `...` is given twice, expected once")
    pointed = [i for i, key in enumerate(keys) if not (key is None or key is Ellipsis or isinstance(key, slice))]
    if any(hasattr(keys[i], "shape") for i in pointed) and pointed[-1] - pointed[0] != len(pointed) - 1:
        raise UnsupportedError("index: a list and an integer with something between them, expected them side by side")
    if not any(key is Ellipsis for key in keys):
        keys = (*keys, Ellipsis)
    axes: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    reversed: list[int] = []
    gathered: tuple[int, Any] | None = None
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
            length = len(range(start, end, step))
            if step < 0:  # the same elements forward, then reversed
                start, end, step = (start + (length - 1) * step, start + 1, -step) if length else (0, 0, 1)
                reversed.append(dim)
            if (start, end, step) != (0, shape[dim], 1):
                axes.append(dim)
                starts.append(start)
                ends.append(max(start, end))
                steps.append(step)
            result.append(length)
            dim += 1
        elif hasattr(key, "shape"):
            if gathered is not None:
                raise UnsupportedError("index: two lists or arrays are given, expected one; see ops.gather")
            gathered = (dim, key)
            result.extend(key.shape)
            dim += 1
        else:
            try:
                at = operator.index(key)
            except TypeError:
                raise ArgumentTypeError(
                    f"index: {key!r} is no integer, slice, `...`, None or list of integers"
                ) from None
            if not -shape[dim] <= at < shape[dim]:
                raise IndexError(f"index: {at} is outside of dimension {dim}, which has size {shape[dim]}")
            at %= shape[dim]
            axes.append(dim)
            starts.append(at)
            ends.append(at + 1)
            steps.append(1)
            dim += 1
    return BasicIndex(axes, starts, ends, steps, reversed, gathered, result)


def _list_index(key: Any) -> Any:
    """A list or an array of indices as what ops.index_select takes; other kinds of index as they are."""
    if isinstance(key, list):
        key = numpy.asarray(key, None if key else "int64")
    if not hasattr(key, "shape") or not hasattr(key, "dtype") or isinstance(key, numpy.generic):
        return key
    if str(key.dtype) in ("bool", "torch.bool"):
        raise UnsupportedError(
            "index: a mask is given, whose result would have a shape that depends on values; ops.where and masked_fill "
            "keep the shape"
        )
    if isinstance(key, numpy.ndarray):
        if key.dtype.kind not in "iu":
            raise ArgumentTypeError(f"index: an array of {key.dtype} is given, expected integers")
        key = key.astype("int64") if key.dtype not in ("int32", "int64") else key
    return key
