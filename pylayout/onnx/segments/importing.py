"""The import of some nodes over arrays that are there, as one graph with all its axes named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy

from ...errors import UnsupportedError
from ...graph import MAX_AXIS_NAME, Graph
from ...sizes import Size
from ..contents import Contents
from ..importer import Importer
from ..operand import Known, safe_name
from ..scope import Scope
from .values import Arrays, Form, form_of, integers_of
from .walk import NotedGraph

__all__ = ["Around", "SegmentImporter"]


class Around(Protocol):
    """What a segment sees of the graph that it is a part of, or of the subgraph of a node."""

    model: Contents
    opsets: Mapping[str, int]
    initialisers: dict[str, Any]
    static: dict[str, Known]  # by name: what follows from constants alone
    dims: Mapping[str, Any]  # by name of an input: its declared axes
    streams: dict[str, int]  # of random numbers: how many were begun
    read_by: Callable[[], Mapping[str, Sequence[str]]]  # as of a Scope


class _Open(dict[str, Any]):
    """The names of a segment: an array that is there becomes an input of its graph when a node asks for it."""

    def __init__(self, segment: SegmentImporter) -> None:
        super().__init__()
        self.segment = segment

    def __contains__(self, name: object) -> bool:
        here = super().__contains__(name) or name in self.segment.arrays
        return here or name in self.segment.around.static

    def __missing__(self, name: str) -> Any:
        self[name] = self.segment.open(name)
        return self[name]


class SegmentImporter(Importer):
    """The import of some nodes, over arrays that are there."""

    def __init__(self, around: Around, arrays: Arrays, known: set[str], late: bool) -> None:
        self._begin(around.model, late, NotedGraph() if late else Graph(), {}, {})
        self.around = around
        self.arrays = arrays
        self.known = known
        self.order: list[tuple[str, int]] = []  # of the inputs: the array, and which of its elements, or -1: all
        self.forms: dict[str, Form] = {}  # of the arrays known by their elements, of which there may be none
        self.scope = Scope(self, around.opsets, around.initialisers)
        self.scope.values = _Open(self)
        self.scope.read_by = around.read_by

    def open(self, name: str) -> Any:
        if name not in self.arrays:
            return self.around.static[name]
        array = self.arrays[name]
        if not isinstance(array, numpy.ndarray):
            raise UnsupportedError(f"{name!r} is {'a sequence' if isinstance(array, list) else 'an empty optional'}")
        if name in self.known:
            return self._as_sizes(name, array)
        label, declared = safe_name(name), self.around.dims.get(name)
        shape: list[int | str] = []
        for i, size in enumerate(array.shape):
            fixed = declared is not None and len(declared) == array.ndim and isinstance(declared[i], int)
            shape.append(int(size) if fixed else self._axis(f"{len(self.order)}.{i}", int(size)))
        value = self.graph.input(label or "x", shape, array.dtype)
        self.order.append((name, -1))
        self._input_names[value._id] = name
        self._pin(value._id, array.shape, shape)
        return value

    def unrolled(self, size: Any, what: str) -> int:
        """A number alone: to import a segment anew for each of the sizes that data give is slower than the host is."""
        if isinstance(size, Size) or not self._late:
            raise UnsupportedError(f"{what} may follow from data")
        return int(size)

    def first_counter(self, stream: str) -> int:
        """Far from those of other segments, and of this one for other sizes: each has a state of its own."""
        number = self.around.streams.get(stream, 0)
        self.around.streams[stream] = number + 1
        return number << 40

    def _axis(self, name: str, size: int) -> str:
        axis = name[:MAX_AXIS_NAME]
        self.graph._sizes[axis] = size
        return axis

    def _pin(self, identifier: int, sizes: Sequence[int], shape: Sequence[int | str]) -> None:
        if not self._late:
            for i, size in enumerate(shape):
                if isinstance(size, str):
                    self.graph.require(f"#{identifier}.{i} == {sizes[i]}")

    def _as_sizes(self, name: str, array: Any) -> Known:
        """Elements as sizes of inputs of shape (0, if positive, if negative), without memory; far ones as they are."""
        elements = numpy.array(integers_of(array), object).reshape(array.shape)
        self.forms[name] = form_of(array)
        far = {k for k, _ in self.forms[name][1]}
        for k, number in enumerate(integers_of(array)):
            if k in far:
                continue
            shape = (0, max(number, 0), max(-number, 0))
            axes = [self._axis(f"{len(self.order)}.{i}", size) for i, size in enumerate(shape[1:])]
            value = self.graph.input(safe_name(f"{name}/{k}"), [0, *axes], "u8")
            self.order.append((name, k))
            self._pin(value._id, shape, [0, *axes])
            elements.reshape(-1)[k] = Size(self.graph, f"(#{value._id}.1-#{value._id}.2)", number, False)
        made = Known(array, name, elements if array.size and self._late else None)
        if array.dtype.kind not in "iu":
            _ = made.array  # flags and fractions are these in all runs of the graph
        return made


class KnownImporter(SegmentImporter):
    """The import of a node of which all is known, which NumPy computes: also in element types that no plan has."""

    def __init__(self, around: Around, arrays: Arrays) -> None:
        super().__init__(around, arrays, set(), False)

    def open(self, name: str) -> Any:
        array = self.arrays.get(name)
        return Known(array, name) if isinstance(array, numpy.ndarray) else super().open(name)

    def results(self, node: Any) -> list[Any]:
        """None for what is left out. Raises UnsupportedError for an op that NumPy has not, or of sequences."""
        with numpy.errstate(all="ignore"):
            self._convert(node, self.scope)
        results: list[Any] = []
        for name in node.output:
            made = self.scope.values[name] if name else None
            if made is not None and not isinstance(made, Known):
                raise UnsupportedError(f"output {name!r} is of an element type that pylayout has not for this op")
            results.append(None if made is None else made.array)
        return results
