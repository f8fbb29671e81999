"""Callbacks: functions of Python that the library calls with a number by which they are found."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .errors import ArgumentTypeError

__all__ = ["Callbacks"]


class Callbacks:
    """Those of one kind. Each call of the library has a number of its own: several may share a function."""

    def __init__(self) -> None:
        self._running: dict[int, Callable[..., Any]] = {}
        self._numbers = itertools.count(1)

    @contextmanager
    def number_of(self, function: Callable[..., Any] | None, what: str) -> Iterator[int]:
        """The number of a function while the library may call it; 0: there is none. Errors begin with `what`."""
        if function is None:
            yield 0
            return
        if not callable(function):
            raise ArgumentTypeError(f"{what} is {function!r}, expected a function")
        number = next(self._numbers)
        self._running[number] = function
        try:
            yield number
        finally:
            del self._running[number]

    def find(self, number: int) -> Callable[..., Any] | None:
        """The function of this number, while the call that it was given to runs."""
        return self._running.get(number)
