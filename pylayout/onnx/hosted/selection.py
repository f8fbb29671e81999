"""Ops whose results are as long as the data says: NonZero, Unique, Compress, NonMaxSuppression."""

from __future__ import annotations

from typing import Any

import numpy

from ... import ops
from ..host import Call, host


@host("NonZero")
def nonzero(call: Call) -> Any:
    x = call.x(0)
    if x.ndim == 0:
        return numpy.zeros((0, int(x != 0)), "int64")
    return numpy.stack(numpy.nonzero(x)).astype("int64")


@host("Compress")
def compress(call: Call) -> Any:
    x, condition = call.x(0), call.x(1).astype(bool)
    axis = call.attribute("axis")
    if axis is None:
        return numpy.compress(condition, x.reshape(-1))
    return numpy.compress(condition, x, call.axis(axis, x.ndim))


@host("Unique")
def unique(call: Call) -> Any:
    x, axis = call.x(0), call.attribute("axis")
    values, first, inverse, counts = numpy.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not call.attribute("sorted", 1):  # in the order in which they come first
        order = numpy.argsort(first, kind="stable")
        place = numpy.empty_like(order)
        place[order] = numpy.arange(len(order))
        values, first = numpy.take(values, order, axis or 0), first[order]
        inverse, counts = place[inverse], counts[order]
    return values, first.astype("int64"), inverse.astype("int64"), counts.astype("int64")


@host("NonMaxSuppression")
def non_max_suppression(call: Call) -> Any:
    def number(index: int, default: Any) -> Any:
        value = call.optional(index)
        return default if value is None or not value.size else value.reshape(-1)[0].item()

    rows, count = ops.non_max_suppression(
        numpy.ascontiguousarray(call.x(0)),
        numpy.ascontiguousarray(call.x(1)),
        max_boxes=min(max(number(2, 0), 0), call.x(1).shape[-1]),
        iou_threshold=number(3, 0.0),
        score_threshold=number(4, None),
        boxes_are="centres" if call.attribute("center_point_box", 0) else "corners",
        device="cpu",
    )
    return numpy.asarray(rows)[: int(count)]
