"""Value: what stands for a tensor while a graph is built. It knows the graph by `Builder` alone, which is above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy

from ._load import ffi, lib
from .dtypes import BY_CODE, DType
from .errors import ArgumentTypeError, check
from .tensor import Tensor, adopt, sort_conversion
from .tensor_methods import Methods

__all__ = ["Builder", "Value", "graph_of"]


class Builder(Protocol):
    """What appends ops: a `pylayout.Graph`, as its values and the ops see it."""

    _handle: Any

    def constant(self, value: Any, name: str | None = None, dtype: Any = None) -> Value:
        """The Value of an array, a tensor or a number."""

    def op(self, op: str, /, *arguments: Any, name: str | None = None, **keywords: Any) -> Any:
        """Append an op; its Value, or a tuple of them."""


class Value(Methods):
    """What an op, an input or a constant of a graph gives: `shape`, `dtype`, `name`. Made by the methods of Graph.

    Operators and the methods that tensors have append to the graph, as do the functions of `pylayout.ops`:
    `ops.relu(v)`, `v.relu()` and `g.relu(v)` are the same.
    """

    __slots__ = ("_dtype", "_id", "_shape", "graph", "name")

    def __init__(self, graph: Builder, identifier: int, name: str) -> None:
        self.graph = graph
        self.name = name
        self._id = identifier
        info = ffi.new("pl_tensor_info *")
        check(lib.pl_graph_value(graph._handle, identifier, info))
        self._shape = tuple(info.shape[0 : info.rank])
        self._dtype = BY_CODE[info.dtype]

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical sizes, (n, c, h, w)."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self._shape)

    def to(self, layout: Any = None, device: Any = None, dtype: Any = None) -> Value:
        """The same values in another dtype, as `Tensor.to`. A plan chooses layouts and devices: they are not taken."""
        layout, device, dtype = sort_conversion(layout, device, dtype)
        if layout is not None or device is not None:
            raise ArgumentTypeError("to: layout or device is given for a graph's value, expected dtype alone")
        cast: Value = self if dtype is None else self.astype(dtype)
        return cast

    def view(self, *shape: Any) -> Value:
        """The same elements in another shape, as `reshape`."""
        made: Value = self.reshape(*shape)
        return made

    def contiguous(self) -> Value:
        """This value itself: layouts are the plan's."""
        return self

    def __bool__(self) -> bool:
        raise ArgumentTypeError(
            f"graph: {self!r} has no elements before the graph runs, so it is neither true nor false"
        )

    if not TYPE_CHECKING:  # for which a value is no array

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            raise ArgumentTypeError(f"graph: {self!r} has no elements before the graph runs, so it is no array")

    @property
    def tensor(self) -> Tensor | None:
        """The tensor of a constant, else None."""
        out = ffi.new("pl_tensor *")
        check(lib.pl_graph_value_tensor(self.graph._handle, self._id, out))
        return adopt(out[0]) if out[0] else None

    @property
    def array(self) -> numpy.ndarray[Any, Any] | None:
        """The elements of a constant as a NumPy array, else None."""
        tensor = self.tensor
        return None if tensor is None else numpy.asarray(tensor)

    def __repr__(self) -> str:
        return f"Value({self.name!r}, {self._dtype.name}, {self._shape})"


def graph_of(values: Any) -> Builder | None:
    """The graph of the first Value among arguments, lists among them looked through; None where there is none."""
    for value in values:
        if isinstance(value, Value):
            return value.graph
        if isinstance(value, (list, tuple)):
            found = graph_of(value)
            if found is not None:
                return found
    return None
