"""Layouts as values: the order and the inner blocking of a tensor's dimensions, parsed from a string."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from ._load import ffi, lib
from .dtypes import dtype_of
from .errors import ArgumentTypeError, InvalidArgumentError, ShapeError, check

__all__ = ["Layout"]


@functools.lru_cache(maxsize=512)
def _parse(text: str) -> tuple[str, str, int]:
    rank = ffi.new("int32_t *")
    name = ffi.new("char[64]")
    generic = ffi.new("char[64]")
    check(lib.pl_layout_parse(text.replace("\0", "?").encode(), rank, name, generic))  # C would stop at a NUL
    return ffi.string(name).decode(), ffi.string(generic).decode(), rank[0]


def shape_array(shape: Sequence[int]) -> tuple[int, Any]:
    """Rank and an int64_t array of a shape; ShapeError for sizes that C cannot hold."""
    try:
        return len(shape), ffi.new("int64_t[]", list(shape))
    except OverflowError:
        raise ShapeError(f"shape is {tuple(shape)}, expected sizes below 2^59") from None
    except TypeError:
        raise ArgumentTypeError(f"shape is {shape!r}, expected a sequence of integers") from None


class Layout:
    """The order and blocking of a tensor's dimensions: `NCHW`, `NHWC`, `nChw16c`, `OIhw16i16o`, `aBcd8b`.

    Equal to every string that means the same: `Layout("NHWC") == "acdb"`.

    Raises LayoutError where the text does not parse.

    >>> import pylayout as pl
    >>> pl.Layout("nChw16c").padded_shape((1, 3, 8, 8))
    (1, 16, 8, 8)
    """

    __slots__ = ("generic", "name", "rank")

    name: str  # canonical: "NHWC", "nChw16c"; the generic spelling where there is no name
    generic: str  # "acdb", "aBcd16b"
    rank: int

    def __init__(self, text: str | Layout) -> None:
        if not isinstance(text, (str, Layout)):
            raise ArgumentTypeError(f"layout is {text!r}, expected a string such as NCHW, NHWC or nChw16c")
        self.name, self.generic, self.rank = _parse(str(text))

    @classmethod
    def parse(cls, text: str) -> Layout:
        """The layout that `text` names."""
        return cls(text)

    @property
    def order(self) -> tuple[int, ...]:
        """Dimensions from the outermost (slowest) to the innermost, inner blocks left out."""
        return tuple(ord(letter) - ord("a") for letter in self.generic[: self.rank].lower())

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Inner blocks as (dimension, size), the outermost first; empty for most layouts."""
        found = re.findall(r"(\d+)([a-h])", self.generic[self.rank :])
        return tuple((ord(letter) - ord("a"), int(size)) for size, letter in found)

    @property
    def is_blocked(self) -> bool:
        """Whether it has inner blocks."""
        return len(self.generic) > self.rank

    @property
    def is_plain(self) -> bool:
        """Whether it is row-major without blocks: NCHW."""
        return self.generic == "abcdefgh"[: self.rank]

    def _describe(self, shape: Sequence[int], dtype: Any) -> tuple[Any, Any]:
        info = ffi.new("pl_tensor_info *")
        padded = ffi.new("int64_t[8]")
        rank, sizes = shape_array(shape)
        check(lib.pl_layout_describe(self.name.encode(), dtype_of(dtype).code, rank, sizes, info, padded))
        return info, padded

    def padded_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Sizes in memory: rounded up to whole blocks."""
        return tuple(self._describe(shape, "f32")[1][0 : self.rank])

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Elements between neighbours along each dimension; between blocks along blocked ones."""
        return tuple(self._describe(shape, "f32")[0].strides[0 : self.rank])

    def storage_bytes(self, shape: Sequence[int], dtype: Any = "f32") -> int:
        """Bytes that a dense tensor takes, padding included."""
        return int(self._describe(shape, dtype)[0].storage_bytes)

    def offset(self, shape: Sequence[int], index: Sequence[int]) -> int:
        """Where the element at `index` lies in a dense tensor of `shape`, in elements.

        Raises InvalidArgumentError for an index outside of the shape.

        >>> import pylayout as pl
        >>> pl.Layout("NHWC").offset((1, 3, 2, 2), (0, 2, 1, 0))
        8
        """
        strides = self.strides(shape)
        if len(index) != self.rank or not all(0 <= i < size for i, size in zip(index, shape, strict=True)):
            raise InvalidArgumentError(f"index is {tuple(index)}, expected one inside of the shape {tuple(shape)}")
        inside = [1] * self.rank
        for dim, size in self.blocks:
            inside[dim] *= size
        rest = [i % block for i, block in zip(index, inside, strict=True)]
        at = sum(i // block * stride for i, block, stride in zip(index, inside, strides, strict=True))
        step = 1
        for dim, size in reversed(self.blocks):
            at += rest[dim] % size * step
            rest[dim] //= size
            step *= size
        return at

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Layout):
            return self.generic == other.generic
        if isinstance(other, str):
            if other == self.name:
                return True
            try:
                return self.generic == _parse(other)[1]
            except ValueError:
                return False
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Layout({self.name!r})"

    def __reduce__(self) -> Any:
        return Layout, (self.name,)
