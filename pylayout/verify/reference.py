"""Exact results: what an op must give, in float64, at all elements or at some of them, and how far off it may be.

A reference is a class with `expected(output, where)`: the values of an output at flat positions, and their bounds.
Ops of long sums (convolutions, products) compute just the positions asked for; `sample` picks them: corners, borders,
one channel at least of each block of 16, and random ones. All others compute everything once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounds import UNIT, rounding
from .case import Case
from .post_ops import applied, steps_of

__all__ = ["REFERENCES", "Accuracy", "Full", "Reference", "register"]

Array = NDArray[Any]


class Accuracy:
    """How exact a device's sums are: the unit roundoff, and whether factors are rounded to tf32."""

    def __init__(self, unit: float = UNIT, tf32: bool = False) -> None:
        self.unit = unit
        self.tf32 = tf32


class Reference:
    """The exact results of one case."""

    outputs: list[tuple[tuple[int, ...], str]]  # shape and dtype

    def __init__(self, case: Case, tensors: list[Array | None], accuracy: Accuracy) -> None:
        self.case = case
        self.tensors = tensors
        self.accuracy = accuracy
        first = next((spec for spec in case.specs() if spec), None)
        self.dtype = first[0] if first else "f32"
        self.prepare()

    def prepare(self) -> None:
        """Sets `outputs`."""
        raise NotImplementedError

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self.case.attributes.get(name)
        return default if value is None else value

    def double(self, number: int) -> Array | None:
        """An input in float64; None where it is absent."""
        if number >= len(self.tensors) or self.tensors[number] is None:
            return None
        return np.asarray(self.tensors[number], np.float64)

    def sample(self, output: int, rng: np.random.Generator) -> Array:
        """Flat positions to check."""
        return np.arange(int(np.prod(self.outputs[output][0])))

    def expected(self, output: int, where: Array) -> tuple[Array, Array]:
        """Values and bounds at flat positions."""
        raise NotImplementedError

    def algorithm(self, implementation: str) -> str:
        """What an implementation computes by, where that has bounds of its own; "": by the definition."""
        return "winograd" if "winograd" in implementation else ""

    def expected_by(self, algorithm: str, output: int, where: Array) -> tuple[Array, Array]:
        """The same of an implementation that computes by this."""
        return self.expected(output, where)

    def with_post_ops(self, values: Array, bound: Array, where: Any = ...) -> tuple[Array, Array]:
        """What post-ops make of values and their bounds; `where`: their flat positions in the result."""

        def operand(number: int) -> Array:
            values = self.double(number)
            assert values is not None
            return values if where is ... else values.reshape(-1)[where]

        return applied(self.case, steps_of(self.case), values, bound, self.dtype, operand)


class Full(Reference):
    """All elements at once: `compute` gives for each output its values and the bound before rounding to its dtype."""

    def prepare(self) -> None:
        with np.errstate(all="ignore"):
            found = self.compute()
        results = found if isinstance(found, list) else [found]
        self._values = [np.asarray(value) for value, _, _ in results]
        self._bounds = [np.broadcast_to(np.asarray(bound, np.float64), np.shape(value)) for value, bound, _ in results]
        self.outputs = [(np.shape(value), dtype) for value, _, dtype in results]

    def compute(self) -> Any:
        """(values, bound, dtype) of the output, or a list of them."""
        raise NotImplementedError

    def expected(self, output: int, where: Array) -> tuple[Array, Array]:
        values = self._values[output].reshape(-1)[where]
        bound = self._bounds[output].reshape(-1)[where] + rounding(np.nan_to_num(values), self.outputs[output][1])
        return values, bound


REFERENCES: dict[str, type[Reference]] = {}


def register(*ops: str) -> Callable[[type[Reference]], type[Reference]]:
    """Enters a class as the reference of these ops."""

    def enter(reference: type[Reference]) -> type[Reference]:
        for op in ops:
            REFERENCES[op] = reference
        return reference

    return enter
