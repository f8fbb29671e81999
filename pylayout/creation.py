"""Tensors from nothing: zeros, ones, full, arange, linspace, eye, and those like another tensor."""

from __future__ import annotations

from typing import Any

import numpy

from .arrays import asarray
from .dtypes import dtype_of, f32, s64
from .errors import ArgumentTypeError, InvalidArgumentError
from .tensor import Tensor, zeros

__all__ = ["arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "ones", "ones_like", "zeros_like"]


def _check_number(function: str, name: str, value: Any) -> None:
    if isinstance(value, (str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise ArgumentTypeError(f"{function}: {name} is {value!r}, expected a number")


def _check_integer(function: str, name: str, value: Any) -> None:
    if not hasattr(value, "__index__"):
        raise ArgumentTypeError(f"{function}: {name} is {value!r}, expected an integer")


def empty(shape: Any, dtype: Any = f32, device: Any = None, layout: Any = None) -> Tensor:
    """A tensor to be written to. Its elements are zero: padding must be, and telling it apart would cost as much."""
    return zeros(shape, dtype, device, layout)


def _filled(made: Tensor, value: Any, function: str) -> Tensor:
    if not made.size:
        return made
    try:
        elements = numpy.full(made.shape, value, made.dtype.dtype)
    except (OverflowError, TypeError, ValueError):
        raise InvalidArgumentError(
            f"{function}: value is {value!r}, expected a number that fits {made.dtype}"
        ) from None
    return made.write(elements)


def full(shape: Any, value: float, dtype: Any = f32, device: Any = None, layout: Any = None) -> Tensor:
    """A tensor whose every element is `value`."""
    return _filled(zeros(shape, dtype, device, layout), value, "full")


def ones(shape: Any, dtype: Any = f32, device: Any = None, layout: Any = None) -> Tensor:
    """A tensor of ones.

    >>> import pylayout as pl
    >>> pl.ones((2, 2)).sum().item()
    4.0
    """
    return full(shape, 1, dtype, device, layout)


def zeros_like(tensor: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A tensor of zeros with the shape of another one, and its dtype, device and layout unless given."""
    like = tensor if isinstance(tensor, Tensor) else asarray(tensor)
    order = layout if layout is not None or not like.ndim else like.layout
    return zeros(like.shape, dtype or like.dtype, device or like.device, order)


def full_like(tensor: Any, value: float, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A tensor filled with `value`, with the shape of another one, and its dtype, device and layout unless given."""
    return _filled(zeros_like(tensor, dtype, device, layout), value, "full_like")


def ones_like(tensor: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A tensor of ones with the shape of another one, and its dtype, device and layout unless given."""
    return full_like(tensor, 1, dtype, device, layout)


empty_like = zeros_like


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, device: Any = None) -> Tensor:
    """Numbers from start up to stop, which is not among them: s64 where all are integers, else f32.

    >>> import pylayout as pl
    >>> pl.arange(2, 8, 3).tolist()
    [2, 5]
    """
    if stop is None:
        start, stop = 0, start
    for name, value in (("start", start), ("stop", stop), ("step", step)):
        _check_number("arange", name, value)
    if not step:
        raise InvalidArgumentError(f"arange: step is {step}, expected another number than 0")
    values = numpy.arange(start, stop, step)
    kind = s64 if values.dtype.kind in "iu" else f32
    return asarray(values, dtype=kind if dtype is None else dtype_of(dtype), device=device)


def linspace(start: float, stop: float, num: int, dtype: Any = f32, device: Any = None) -> Tensor:
    """`num` numbers at equal distances, from start to stop, both among them.

    >>> import pylayout as pl
    >>> pl.linspace(0, 1, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    _check_number("linspace", "start", start)
    _check_number("linspace", "stop", stop)
    _check_integer("linspace", "num", num)
    if num < 0:
        raise InvalidArgumentError(f"linspace: num is {num}, expected at least 0")
    return asarray(numpy.linspace(start, stop, num), dtype=dtype, device=device)


def eye(n: int, m: int | None = None, dtype: Any = f32, device: Any = None) -> Tensor:
    """A matrix (n, m) with ones on its diagonal; m: default n."""
    _check_integer("eye", "n", n)
    if m is not None:
        _check_integer("eye", "m", m)
    if n < 0 or (m is not None and m < 0):
        raise InvalidArgumentError(f"eye: n is {n} and m is {m}, expected at least 0")
    return asarray(numpy.eye(n, m, dtype="float32"), dtype=dtype, device=device)
