"""Sequences whose length and members are known at import: the members are values, and no op on sequences is left.

A length that follows from a size makes the graph hold for this size, as the count of a loop does. Where a place or a
size follows from data, the model is run by segments, in which sequences are lists on the host (`hosted/sequence.py`).
"""

from __future__ import annotations

import numpy

from ...errors import InvalidArgumentError, UnsupportedError
from ..node import Node
from ..operand import Members, Operand, Result, Stands
from ..registry import converter

# More members become more nodes than a plan is good for.
MAX_MEMBERS = 1000


def _place(node: Node, index: int, count: int, beyond: int = 0) -> int:
    """Where in a sequence: from its end where negative; `beyond`: 1 where the place behind the last is one, too."""
    place = int(node.number_at(index))
    if not -count <= place < count + beyond:
        raise InvalidArgumentError(f"position is {place}, of {count} elements")
    return place + count if place < 0 else place


@converter("SequenceConstruct", since=11)
def construct(node: Node) -> Result:
    return Members(node.x(i) for i in range(len(node.inputs)))


@converter("SequenceEmpty", since=11)
def empty(node: Node) -> Result:
    node.ignore("dtype")
    return Members()


@converter("SequenceInsert", since=11, note="position known")
def insert(node: Node) -> Result:
    items = list(node.members(0).items)
    if len(items) >= MAX_MEMBERS:
        raise UnsupportedError(f"the sequence has {len(items)} elements, expected fewer")
    at = _place(node, 2, len(items), 1) if node.has(2) else len(items)
    return Members([*items[:at], node.x(1), *items[at:]])


@converter("SequenceErase", since=11, note="position known")
def erase(node: Node) -> Result:
    items = list(node.members(0).items)
    if not items and not node.has(1):
        raise InvalidArgumentError("position is -1, of 0 elements")
    del items[_place(node, 1, len(items)) if node.has(1) else -1]
    return Members(items)


@converter("SequenceAt", since=11, note="position known")
def at(node: Node) -> Result:
    items = node.members(0).items
    return items[_place(node, 1, len(items))]


@converter("SequenceLength", since=11)
def length(node: Node) -> Result:
    return numpy.int64(len(node.members(0).items))


@converter("SplitToSequence", since=11, note="sizes known")
def split(node: Node) -> Result:
    x = node.x(0)
    axis = node.axis(node.integer("axis", 0), x.ndim)
    keeps = bool(node.integer("keepdims", 1)) or node.has(1)
    if node.has(1) and node.x(1).ndim == 1:
        sections = node.integers_at(1)
        if len(sections) > MAX_MEMBERS:
            raise UnsupportedError(f"there are {len(sections)} parts, expected at most {MAX_MEMBERS}")
    else:
        each = int(node.size_at(1)) if node.has(1) else 1
        if each < 1:
            raise InvalidArgumentError(f"split is {each}, expected at least 1")
        size = node.unrolled(x.shape[axis], "the size of the axis that is split")
        if size > each * MAX_MEMBERS:
            raise UnsupportedError(f"there are {-(-size // each)} parts, expected at most {MAX_MEMBERS}")
        sections = [min(each, size - begin) for begin in range(0, size, each)]
    parts = node.parts(x, sections, axis)
    if keeps:
        return Members(parts)
    return Members(node.op("reshape", part, [*x.shape[:axis], *x.shape[axis + 1 :]]) for part in parts)


@converter("ConcatFromSequence", since=11)
def join(node: Node) -> Result:
    parts: list[Operand] = list(node.members(0).items)
    if not parts:
        raise InvalidArgumentError("the sequence is empty, expected an element at least")
    axis = node.integer("axis")
    if node.integer("new_axis", 0):
        return node.stacked(parts, axis)
    return node.joined(parts, node.axis(axis, parts[0].ndim))


@converter("SequenceMap", since=17)
def each(node: Node) -> Result:
    """The body's results for each element; what else is given as a sequence is taken element by element too."""
    body, count = node.subgraph("body"), len(node.members(0).items)
    rows: list[list[Operand]] = [[] for _ in body.output]
    given = [node.given(i) for i in range(len(node.inputs))]
    for x in given:
        if isinstance(x, Members) and len(x.items) != count:
            raise InvalidArgumentError(f"sequences have {count} and {len(x.items)} elements, expected as many")
    for i in range(count):
        inputs: list[Stands] = [x.items[i] if isinstance(x, Members) else x for x in given]
        for row, result in zip(rows, node.importer.run_subgraph(body, node, inputs, f"body{i}"), strict=True):
            if isinstance(result, Members):
                raise InvalidArgumentError("the body gives a sequence, expected tensors")
            row.append(result)
    return [Members(row) for row in rows]
