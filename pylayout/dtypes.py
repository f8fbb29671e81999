"""Element types: `pl.f32`, `pl.f16`, `pl.bf16`, `pl.s8`, `pl.u8`, `pl.s32`, `pl.s64`, `pl.bool_`; `pl.float32` too.

A `DType` equals its name ("f32"), its NumPy name ("float32") and its NumPy dtype, and can be given wherever NumPy
takes a dtype. NumPy itself has no bfloat16: with the package ml_dtypes, bf16 is its `bfloat16`; without it, values
of bf16 tensors are handed to NumPy as float32, which holds each of them exactly.
"""

from __future__ import annotations

from typing import Any

import numpy

from ._load import lib
from .errors import ArgumentTypeError, UnsupportedError

__all__ = [
    "DType",
    "bf16",
    "bfloat16",
    "bool_",
    "dtype_of",
    "f16",
    "f32",
    "float16",
    "float32",
    "int8",
    "int32",
    "int64",
    "is_dtype",
    "s8",
    "s32",
    "s64",
    "u8",
    "uint8",
]


class DType:
    """One element type; there is one object for each.

    It equals its names and NumPy's dtype, but in dictionaries and sets only its short name ("f32") is the same key:
    ask them for `dtype_of(...)`.

    >>> import pylayout as pl
    >>> pl.f32 == "float32", "float32" in {pl.f32}, pl.dtype_of("float32") in {pl.f32}
    (True, False, True)
    """

    __slots__ = ("_numpy", "code", "itemsize", "name", "numpy_name")

    def __init__(self, name: str, numpy_name: str, code: int, itemsize: int) -> None:
        self.name = name
        self.numpy_name = numpy_name
        self.code = code
        self.itemsize = itemsize
        self._numpy: Any = None if name == "bf16" else numpy.dtype(numpy_name)

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of arrays that hold these values (NumPy looks for this name)."""
        if self._numpy is None:
            try:
                import ml_dtypes
            except ImportError:
                return numpy.dtype(numpy.float32)
            self._numpy = numpy.dtype(ml_dtypes.bfloat16)
        return self._numpy

    @property
    def is_integer(self) -> bool:
        """Whether it is s8, u8, s32 or s64."""
        return self.name in ("s8", "u8", "s32", "s64")

    @property
    def is_exact_in_numpy(self) -> bool:
        """False for bf16 without ml_dtypes: NumPy then holds its values as float32."""
        return bool(self.dtype.itemsize == self.itemsize)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        if isinstance(other, str):
            return other in (self.name, self.numpy_name)
        try:
            return self.is_exact_in_numpy and bool(numpy.dtype(other) == self.dtype)  # type: ignore[call-overload]
        except (TypeError, ValueError):  # ValueError: of dictionaries and lists that describe no structured dtype
            return str(other) == f"torch.{self.numpy_name}"

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"pylayout.{'bool_' if self.name == 'bool' else self.name}"

    def __reduce__(self) -> Any:
        return dtype_of, (self.name,)


f32 = DType("f32", "float32", lib.PL_F32, 4)
f16 = DType("f16", "float16", lib.PL_F16, 2)
bf16 = DType("bf16", "bfloat16", lib.PL_BF16, 2)
s8 = DType("s8", "int8", lib.PL_S8, 1)
u8 = DType("u8", "uint8", lib.PL_U8, 1)
s32 = DType("s32", "int32", lib.PL_S32, 4)
s64 = DType("s64", "int64", lib.PL_S64, 8)
bool_ = DType("bool", "bool", lib.PL_BOOL, 1)

# NumPy's and torch's names of them.
float32, float16, bfloat16 = f32, f16, bf16
int8, uint8, int32, int64 = s8, u8, s32, s64

ALL = (f32, f16, bf16, s8, u8, s32, s64, bool_)
BY_CODE = {dtype.code: dtype for dtype in ALL}
_BY_NAME = {name: dtype for dtype in ALL for name in (dtype.name, dtype.numpy_name)}


def is_dtype(value: Any) -> bool:
    """Whether this stands for an element type: a name, a DType, or NumPy's or torch's dtype."""
    known = isinstance(value, (DType, numpy.dtype)) or (isinstance(value, str) and value in _BY_NAME)
    return known or (isinstance(value, type) and issubclass(value, numpy.generic)) or str(value).startswith("torch.")


def dtype_of(value: Any) -> DType:
    """The DType that a name ("f32", "float32"), a NumPy, torch or ml_dtypes dtype or a DType stands for.

    Raises UnsupportedError for other element types, ArgumentTypeError for what is none.

    >>> import pylayout as pl
    >>> pl.dtype_of("float16")
    pylayout.f16
    """
    if isinstance(value, DType):
        return value
    names = ", ".join(dtype.name for dtype in ALL)
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    text = str(value)
    if text.startswith("torch."):
        name = text[len("torch.") :]
    else:
        try:
            name = numpy.dtype(value).name
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"dtype is {value!r}, expected one of {names}, or NumPy's name of it") from None
    if name not in _BY_NAME:
        raise UnsupportedError(f"dtype is {name}, expected one of {names}")
    return _BY_NAME[name]
