"""Ops on small arrays of sizes that are known at import as expressions: what exporters leave of a shape's arithmetic.

They work on arrays of objects, integers and `Size`s, by the names and signatures of `fold.FOLDS`. A comparison gives
what it is for the present sizes, and makes the graph hold only where it is the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from ..sizes import Size, is_late, max_size, min_size
from .fold import FOLDS

__all__ = ["fold_sizes"]

# Moving elements, which needs no arithmetic.
_MOVES = {"reshape", "permute", "concat", "slice", "expand", "tile"}


def _each(function: Callable[..., Any], dtype: Any = object) -> Callable[..., Any]:
    def folded(x: Any, y: Any) -> Any:
        made = numpy.frompyfunc(function, 2, 1)(x, y)
        return numpy.asarray(made, dtype)

    return folded


def _divided(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    """Quotients of natural numbers, which all ways of rounding down agree on."""
    if any(not bool(size >= 0) for size in (*x.reshape(-1), *y.reshape(-1))):
        return None
    return _each(operator.floordiv)(x, y)


def _selected(x: Any, dim: int, index: Any) -> Any:
    return FOLDS["index_select"](x, dim, index.astype("int64"))


def _where(condition: Any, x: Any, y: Any) -> Any:
    return numpy.where(condition.astype(bool), x, y)


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def folded(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        axes = tuple(range(x.ndim)) if dim is None or (not isinstance(dim, int) and not len(dim)) else dim
        axes = axes if isinstance(axes, int) else tuple(axes)
        return numpy.asarray(function(x, axis=axes, keepdims=keepdim), object)

    return folded


def _cast(x: Any, dtype: Any) -> Any:
    return x if str(dtype) in ("int64", "s64", "int32", "s32", "float32", "f32") else None


_SIZES: dict[str, Callable[..., Any]] = {
    "add": _each(operator.add),
    "sub": _each(operator.sub),
    "mul": _each(operator.mul),
    "div": _divided,
    "maximum": _each(max_size),
    "minimum": _each(min_size),
    "eq": _each(operator.eq, bool),
    "ne": _each(operator.ne, bool),
    "lt": _each(operator.lt, bool),
    "le": _each(operator.le, bool),
    "gt": _each(operator.gt, bool),
    "ge": _each(operator.ge, bool),
    "index_select": _selected,
    "where": _where,
    "sum": _reduced(numpy.sum),
    "prod": _reduced(numpy.prod),
    "neg": lambda x: numpy.asarray(numpy.negative(x), object),
    "cast": _cast,
}


def fold_sizes(name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """The result of an op on arrays of objects; None where its elements have to be numbers."""
    if any(is_late(a) for a in (*arguments, *keywords.values())):
        return None
    if any(isinstance(a, numpy.ndarray) and any(isinstance(v, float) for v in a.reshape(-1)) for a in arguments):
        return None
    if name == "index_select" and any(isinstance(v, Size) for v in arguments[2].reshape(-1)):
        return None
    function = FOLDS[name] if name in _MOVES else _SIZES.get(name)
    made = None if function is None else function(*arguments, **keywords)
    if made is None or isinstance(made, numpy.ndarray):
        return made
    one = numpy.empty((), object)  # NumPy gives the element itself where an array of rank 0 is meant
    one[()] = made
    return one
