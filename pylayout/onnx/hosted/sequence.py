"""Sequences are lists of arrays, optionals a value or None."""

from __future__ import annotations

from typing import Any

import numpy

from ...errors import InvalidArgumentError
from ..host import Call, host


def _place(call: Call, sequence: list[Any], value: Any, end: int) -> int:
    place = int(numpy.asarray(value).reshape(-1)[0])
    if not -end <= place <= end or (end == len(sequence) and place == end and call.node.op_type != "SequenceInsert"):
        raise InvalidArgumentError(f"onnx: {call.node.op_type}: position is {place}, of {len(sequence)} elements")
    return place


@host("SequenceConstruct")
def construct(call: Call) -> Any:
    return [call.x(i) for i in range(len(call))]


@host("SequenceEmpty")
def empty(call: Call) -> Any:
    return []


@host("SequenceInsert")
def insert(call: Call) -> Any:
    made = list(call.x(0))
    at = call.optional(2)
    made.insert(len(made) if at is None else _place(call, made, at, len(made)), call.x(1))
    return made


@host("SequenceErase")
def erase(call: Call) -> Any:
    made = list(call.x(0))
    at = call.optional(1)
    del made[-1 if at is None else _place(call, made, at, len(made))]
    return made


@host("SequenceAt")
def at(call: Call) -> Any:
    sequence = call.x(0)
    return sequence[_place(call, sequence, call.x(1), len(sequence))]


@host("SequenceLength")
def length(call: Call) -> Any:
    return numpy.asarray(len(call.x(0)), "int64")


@host("SplitToSequence")
def split(call: Call) -> Any:
    x, sizes = call.x(0), call.optional(1)
    axis = call.axis(call.attribute("axis", 0), x.ndim)
    if sizes is None:
        parts = numpy.split(x, x.shape[axis], axis) if x.shape[axis] else []
        return [part if call.attribute("keepdims", 1) else numpy.squeeze(part, axis) for part in parts]
    step = int(sizes) if sizes.ndim == 0 else 0
    if sizes.ndim == 0 and step < 1:
        raise InvalidArgumentError(f"onnx: SplitToSequence: split is {step}, expected at least 1")
    places = numpy.cumsum(sizes)[:-1] if sizes.ndim else numpy.arange(step, x.shape[axis], step)
    return numpy.split(x, places, axis)


@host("ConcatFromSequence")
def join(call: Call) -> Any:
    parts, axis = call.x(0), call.attribute("axis")
    return numpy.stack(parts, axis) if call.attribute("new_axis", 0) else numpy.concatenate(parts, axis)


@host("SequenceMap")
def each(call: Call) -> Any:
    first = call.x(0)
    results: list[list[Any]] = [[] for _ in call.node.output]
    for i in range(len(first)):
        given = [x[i] if isinstance(x, list) else x for x in call.inputs]
        for rows, row in zip(results, call.subgraph("body", given), strict=True):
            rows.append(row)
    return tuple(results)


@host("Optional")
def optional(call: Call) -> Any:
    return (call.optional(0),)


@host("OptionalHasElement")
def has_element(call: Call) -> Any:
    return numpy.asarray(call.optional(0) is not None)


@host("OptionalGetElement")
def get_element(call: Call) -> Any:
    return (call.x(0),)
