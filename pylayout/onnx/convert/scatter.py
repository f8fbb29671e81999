"""Elements put to places that indices say."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ...errors import InvalidArgumentError, ShapeError
from ..fold import arange
from ..node import Node
from ..operand import Known, Operand, Result
from ..registry import converter

_REDUCTIONS = {"none": "none", "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _chosen(node: Node, x: Operand, updates: Operand, places: Any, put: Any, rest: list[int]) -> Result:
    """Where the places are known: rows of x and of the updates joined, of which each is chosen."""
    rows = len(places)
    places[put] = rows + arange(len(put))
    both = [node.op("reshape", x, [rows, *rest]), node.op("reshape", updates, [len(put), *rest])]
    chosen = node.op("index_select", node.op("concat", both, 0), 0, Known(places))
    return node.op("reshape", chosen, list(x.shape))


def _within(index: Any, sizes: Any) -> Any:
    index = numpy.where(index < 0, index + sizes, index).astype("int64")
    if index.size and ((index < 0) | (index >= sizes)).any():
        raise InvalidArgumentError("an index is outside of x")
    return index


@converter("ScatterND", since=11)
def scatter_nd(node: Node) -> Result:
    x, index, updates = node.x(0), node.x(1), node.x(2)
    reduce = _REDUCTIONS[node.text("reduction", "none", tuple(_REDUCTIONS))]
    depth = index.shape[-1] if index.ndim else 0
    if not 1 <= depth <= x.ndim or tuple(updates.shape) != (*index.shape[:-1], *x.shape[depth:]):
        raise ShapeError(f"updates have shape {list(updates.shape)}, which does not fit indices and x")
    if reduce != "none" or not isinstance(index, Known):
        return node.op("scatter_nd", x, index, updates, reduce)
    sizes = [int(size) for size in x.shape[:depth]]
    known = _within(index.array.reshape(-1, depth), numpy.asarray(sizes))
    put = numpy.ravel_multi_index(tuple(known.T), sizes)
    return _chosen(node, x, updates, arange(math.prod(sizes)), put, list(x.shape[depth:]))


@converter("Scatter", since=9)  # the first name of ScatterElements
@converter("ScatterElements", since=11)
def scatter_elements(node: Node) -> Result:
    x, index, updates = node.x(0), node.x(1), node.x(2)
    reduce = _REDUCTIONS[node.text("reduction", "none", tuple(_REDUCTIONS))]
    axis = node.axis(node.integer("axis", 0), x.ndim)
    if index.ndim != x.ndim or tuple(updates.shape) != tuple(index.shape):
        raise ShapeError(f"indices {list(index.shape)}, updates {list(updates.shape)} and x {list(x.shape)} do not fit")
    if reduce != "none" or not isinstance(index, Known):
        return node.op("scatter", x, axis, index, updates, reduce)
    sizes = [int(size) for size in x.shape]
    grid = list(numpy.indices(index.shape))
    grid[axis] = _within(index.array, sizes[axis])
    if any(part.size and not part.max() < size for part, size in zip(grid, sizes, strict=True)):
        raise InvalidArgumentError("an index is outside of x")
    put = numpy.ravel_multi_index([part.reshape(-1) for part in grid], sizes)
    return _chosen(node, x, updates, arange(math.prod(sizes)), put, [])


@converter("TensorScatter", since=24)
def tensor_scatter(node: Node) -> Result:
    x, update = node.x(0), node.x(1)
    axis = node.axis(node.integer("axis", -2), x.ndim)
    at = node.x(2) if node.has(2) else Known(numpy.int64(0))
    circular = node.text("mode", "linear", ("linear", "circular")) == "circular"
    return node.op("tensor_scatter", x, update, at, dim=axis, circular=circular)
