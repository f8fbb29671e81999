"""Arrays between segments: which of them are small enough to be known by their elements, and those as sizes."""

from __future__ import annotations

from typing import Any

import numpy

from ...dtypes import dtype_of
from ...errors import Error

__all__ = ["Arrays", "Form", "form_of", "given", "integers_of", "is_few", "is_of_plans", "signature_of"]

# Integers, flags and numbers that shapes or choices follow from are few.
MAX_KNOWN = 64
# Integers from here on stand for an end that is never reached, such as the largest of all, and are no sizes.
FAR = 2**40

Arrays = dict[str, Any]
# What a graph fixes of an array that it knows by its elements: the shape, and its far elements, with their places.
Form = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]


def integers_of(array: Any) -> list[int]:
    """The elements of a small array as integers; of fractions the bits."""
    if array.dtype.kind not in "iub":
        array = numpy.array(array, order="C").view(f"i{array.itemsize}")
    return [int(number) for number in array.reshape(-1)]


def is_few(array: Any) -> bool:
    if not isinstance(array, numpy.ndarray) or array.size > MAX_KNOWN or array.dtype.itemsize > 8:
        return False
    if array.dtype.kind in "iub":
        return True
    return (array.dtype.kind == "f" or array.dtype.name == "bfloat16") and not form_of(array)[1]


def form_of(array: Any) -> Form:
    return array.shape, tuple((k, n) for k, n in enumerate(integers_of(array)) if abs(n) >= FAR)


def given(arrays: Arrays, name: str, k: int) -> Any:
    """What a plan is given of an array: all of it, or element k as the size of a tensor without elements."""
    array = arrays[name]
    if k < 0:
        return array
    number = integers_of(array)[k]
    return numpy.empty((0, max(number, 0), max(-number, 0)), "uint8")


def signature_of(value: Any) -> Any:
    if isinstance(value, numpy.ndarray):
        return value.dtype.str, value.ndim
    return type(value).__name__


def is_of_plans(value: Any) -> bool:
    """Whether plans have the element type of an array; of what is no array nothing else is known."""
    if not isinstance(value, numpy.ndarray):
        return True
    try:
        dtype_of(value.dtype)
    except Error:
        return False
    return True
