"""Size: a size of a graph's value that may be another one when the graph is bound to other sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy

from .errors import ArgumentTypeError, ShapeError

__all__ = [
    "AnySize",
    "Size",
    "axis_sizes",
    "broadcast_sizes",
    "hint_of",
    "is_integer",
    "is_late",
    "late_text",
    "max_size",
    "min_size",
    "same_sizes",
]


def is_integer(size: Any) -> bool:
    """Whether a size is given as an integer, and not as a bool."""
    return not isinstance(size, bool) and hasattr(size, "__index__")


def axis_sizes(what: str, sizes: Any) -> dict[str, int]:
    """Sizes of axes by name, checked; errors begin with `what`."""
    if not isinstance(sizes, Mapping):
        raise ArgumentTypeError(f"{what}: sizes is {sizes!r}, expected a dict of the sizes of axes, by name")
    for axis, size in sizes.items():
        if not isinstance(axis, str):
            raise ArgumentTypeError(f"{what}: sizes has the key {axis!r}, expected the name of an axis")
        if not is_integer(size):
            raise ArgumentTypeError(f'{what}: the size of axis "{axis}" is {size!r}, expected an integer')
        if not 0 <= operator.index(size) < 2**63:
            raise ShapeError(f'{what}: the size of axis "{axis}" is {size}, expected 0 to 2^63 - 1')
    return {axis: operator.index(size) for axis, size in sizes.items()}


class Requiring(Protocol):
    """What holds for some sizes only: a `pylayout.Graph`."""

    def require(self, condition: str) -> None:
        """From here on the graph may be bound only to sizes for which the condition holds."""


class Size:
    """A size as an expression; `hint` is what it is for the sizes that the graph has now.

    Arithmetic with sizes and integers gives sizes. What asks for more than that makes the graph hold for fewer sizes: a
    comparison requires that it come out the same, and taking it as an integer requires that it be that integer.
    """

    __slots__ = ("graph", "hint", "is_natural", "text")

    def __init__(self, graph: Requiring, text: str, hint: int, is_natural: bool = True) -> None:
        self.graph = graph
        self.text = text
        self.hint = hint
        self.is_natural = is_natural  # not negative, whatever the sizes are

    # ---- arithmetic ----

    def __add__(self, other: Any) -> Any:
        return self if _is(other, 0) else _made("({}+{})", self, other, lambda a, b: a + b, True)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if _is(other, 0):
            return self
        if isinstance(other, Size) and other.text == self.text:
            return 0
        return _made("({}-{})", self, other, lambda a, b: a - b, False)

    def __rsub__(self, other: Any) -> Any:
        return _made("({}-{})", other, self, lambda a, b: a - b, False)

    def __neg__(self) -> Any:
        return 0 - self

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, float):
            return float(self) * other
        return self if _is(other, 1) else _made("({}*{})", self, other, lambda a, b: a * b, True)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> float:
        return float(self) / float(other)

    def __rtruediv__(self, other: Any) -> float:
        return float(other) / float(self)

    def __floordiv__(self, other: Any) -> Any:
        return self if _is(other, 1) else self._divided("({}/{})", self, other, lambda a, b: a // b)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._divided("({}/{})", other, self, lambda a, b: a // b)

    def __mod__(self, other: Any) -> Any:
        return self._divided("({}%{})", self, other, lambda a, b: a % b)

    def __rmod__(self, other: Any) -> Any:
        return self._divided("({}%{})", other, self, lambda a, b: a % b)

    def _divided(self, form: str, a: Any, b: Any, function: Any) -> Any:
        if b == 0:
            raise ZeroDivisionError(f"the size {b} is a divisor")
        return _made(form, a, b, function, True)

    # ---- what makes the graph hold for fewer sizes ----

    def __eq__(self, other: object) -> Any:
        if isinstance(other, (float, numpy.floating)):
            if not float(other).is_integer():
                return False
            other = int(other)
        if not _is_number(other):
            return NotImplemented
        if isinstance(other, Size) and other.text == self.text:
            return True
        if self.is_natural and not isinstance(other, Size) and hint_of(other) < 0:
            return False
        equal = self.hint == hint_of(other)
        self.graph.require(f"{self.text} {'==' if equal else '!='} {late_text(other)}")
        return equal

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> bool:
        return _less(self, other)

    def __gt__(self, other: Any) -> bool:
        return _less(other, self)

    def __le__(self, other: Any) -> bool:
        return not _less(other, self)

    def __ge__(self, other: Any) -> bool:
        return not _less(self, other)

    def __index__(self) -> int:
        self.graph.require(f"{self.text} == {self.hint}")
        return self.hint

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __repr__(self) -> str:
        return f"Size({self.text}, now {self.hint})"


AnySize: TypeAlias = int | Size


def _is_number(value: Any) -> bool:
    return isinstance(value, Size) or (hasattr(value, "__index__") and not hasattr(value, "__len__"))


def _is(value: Any, number: int) -> bool:
    return not isinstance(value, Size) and bool(value == number)


def hint_of(size: Any) -> int:
    """What a size, or an integer, is for the present sizes."""
    return size.hint if isinstance(size, Size) else int(size)


def late_text(size: Any) -> str:
    """An expression, as the library reads it."""
    return size.text if isinstance(size, Size) else str(int(size))


def is_late(value: Any) -> bool:
    """Whether a value is a size that may change, or a list with one in it."""
    return isinstance(value, Size) or (isinstance(value, (list, tuple)) and any(isinstance(v, Size) for v in value))


def _natural(size: Any) -> bool:
    return size.is_natural if isinstance(size, Size) else size >= 0


def _made(form: str, a: Any, b: Any, function: Any, keeps_sign: bool) -> Any:
    if not (_is_number(a) and _is_number(b)):
        return NotImplemented
    owner: Size = a if isinstance(a, Size) else b
    text = form.format(late_text(a), late_text(b))
    if len(text) > 4000:  # what grows without bounds is a number from here on
        return function(int(a), int(b))
    return Size(owner.graph, text, function(hint_of(a), hint_of(b)), keeps_sign and _natural(a) and _natural(b))


def _less(a: Any, b: Any) -> bool:
    # Sizes are whole: 3.5 < size says 3 < size, and size < 3.5 says size < 4.
    if not isinstance(a, Size):
        if math.isinf(a):
            return bool(a < 0)
        a = math.floor(a)
    if not isinstance(b, Size):
        if math.isinf(b):
            return bool(b > 0)
        b = math.ceil(b)
    if isinstance(a, Size) and isinstance(b, Size) and a.text == b.text:
        return False
    if not isinstance(b, Size) and _natural(a) and b <= 0:
        return False
    if not isinstance(a, Size) and _natural(b) and a < 0:
        return True
    less = hint_of(a) < hint_of(b)
    owner: Size = a if isinstance(a, Size) else b
    first, second = late_text(a), late_text(b)
    owner.graph.require(f"{first} < {second}" if less else f"{second} <= {first}")
    return less


def same_sizes(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether shapes are equal whatever the sizes are; of sizes that merely are equal now it says no."""
    return len(a) == len(b) and all(map(operator.eq, map(late_text, a), map(late_text, b)))


def min_size(a: Any, b: Any) -> Any:
    """The lesser of two sizes, whichever that is."""
    if not isinstance(a, Size) and not isinstance(b, Size):
        return min(a, b)
    return a if late_text(a) == late_text(b) else _made("min({},{})", a, b, min, True)


def max_size(a: Any, b: Any) -> Any:
    """The greater of two sizes, whichever that is."""
    if not isinstance(a, Size) and not isinstance(b, Size):
        return max(a, b)
    if _is(a, 0) and _natural(b):
        return b
    if _is(b, 0) and _natural(a):
        return a
    return a if late_text(a) == late_text(b) else _made("max({},{})", a, b, max, True)


def broadcast_sizes(*shapes: Sequence[Any]) -> list[Any]:
    """The shape to which shapes broadcast. Raises ValueError where they do not."""
    made: list[Any] = []
    for i in range(max(map(len, shapes), default=0)):
        size: Any = 1
        for shape in shapes:
            if i >= len(shape):
                continue
            other = shape[len(shape) - 1 - i]
            if _is(size, 1):
                size = other
            elif _is(other, 1) or late_text(size) == late_text(other):
                continue
            elif isinstance(size, Size) or isinstance(other, Size):
                size = _made("broadcast({},{})", size, other, _broadcast, True)
            else:
                size = _broadcast(size, other)
        made.append(size)
    return made[::-1]


def _broadcast(a: int, b: int) -> int:
    if a != b and 1 not in (a, b):
        raise ValueError(f"sizes {a} and {b} do not broadcast")
    return b if a == 1 else a
