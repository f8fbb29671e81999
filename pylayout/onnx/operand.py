"""Operand: what a name in an ONNX graph stands for: a Value, or Known, a tensor with elements known at import."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy

from ..arrays import as_input
from ..dtypes import dtype_of
from ..errors import UnsupportedError
from ..graph import Graph
from ..tensor import Tensor
from ..value import Value

__all__ = ["Known", "Operand", "Result", "safe_name"]


def safe_name(name: str) -> str:
    """A name from a file, as a name in a graph."""
    return name.replace("\0", "")[:200].encode("utf-8", "replace").decode()


class Known:
    """A tensor whose elements are known at import. It becomes a constant of the graph when an op there needs it."""

    __slots__ = ("array", "name", "tensor")

    def __init__(self, array: Any, name: str = "") -> None:
        self.array = array
        self.name = name
        self.tensor: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        return int(self.array.ndim)

    def value(self, graph: Graph) -> Value:
        """The constant in the graph: one for all uses, over the array's own memory."""
        if self.tensor is None:
            what = f'constant "{self.name}"' if self.name else "a constant"
            try:
                dtype_of(self.array.dtype)
            except UnsupportedError as error:
                raise UnsupportedError(f"{what}: {error}") from None
            if self.array.ndim > 8:
                raise UnsupportedError(f"{what} has rank {self.array.ndim}, expected at most 8")
            self.tensor = as_input(numpy.require(self.array, requirements="C"), "onnx", what)
        return graph.constant(self.tensor, safe_name(self.name) or None)

    def __repr__(self) -> str:
        return f"Known({self.name!r}, {self.array.dtype}, {self.shape})"


Operand: TypeAlias = Known | Value
Result: TypeAlias = Any  # an Operand, an array, or a list of them: one for each output
