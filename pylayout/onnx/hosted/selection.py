"""Ops whose results are as long as the data says: NonZero, Unique, Compress, NonMaxSuppression."""

from __future__ import annotations

from typing import Any

import numpy

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


def suppressed(boxes: Any, scores: Any, most: int, overlap: float) -> list[int]:
    """Of boxes (n, 4) by their corners those that remain, the best first; at most so many.

    A box is compared with those alone that lie near it along the first coordinate, by which they are sorted: boxes of
    different classes are often kept apart by moving each class to another place.
    """
    count = len(boxes)
    low, high = numpy.minimum(boxes[:, :2], boxes[:, 2:]), numpy.maximum(boxes[:, :2], boxes[:, 2:])
    along = numpy.argsort(low[:, 0], kind="stable")
    place = numpy.empty(count, "int64")
    place[along] = numpy.arange(count)
    (low_x, low_y), (high_x, high_y) = low[along].T.copy(), high[along].T.copy()
    areas = (high_x - low_x) * (high_y - low_y)
    widest = float((high_x - low_x).max()) if count else 0.0
    first = numpy.searchsorted(low_x, low_x.astype("float64") - widest * 1.001, "left")
    end = numpy.searchsorted(low_x, high_x, "right")
    out = numpy.zeros(count, bool)
    kept: list[int] = []
    with numpy.errstate(divide="ignore", invalid="ignore"):
        for best in numpy.argsort(-scores, kind="stable").tolist():
            if len(kept) >= most:
                break
            at = place[best]
            if out[at]:
                continue
            kept.append(best)
            near = slice(first[at], end[at])
            width = numpy.minimum(high_x[at], high_x[near]) - numpy.maximum(low_x[at], low_x[near])
            height = numpy.minimum(high_y[at], high_y[near]) - numpy.maximum(low_y[at], low_y[near])
            common = numpy.maximum(width, 0) * numpy.maximum(height, 0)
            out[near] |= common / (areas[at] + areas[near] - common) > overlap
    return kept


@host("NonMaxSuppression")
def non_max_suppression(call: Call) -> Any:
    boxes, scores = call.x(0), call.x(1)

    def number(index: int, default: float) -> Any:
        value = call.optional(index)
        return default if value is None or not value.size else value.reshape(-1)[0]

    most, overlap, least = int(number(2, 0)), float(number(3, 0.0)), call.optional(4)
    if call.attribute("center_point_box", 0):
        half = boxes[..., 2:] / 2
        boxes = numpy.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)
    rows = []
    for batch in range(scores.shape[0] if most > 0 else 0):
        for kind in range(scores.shape[1]):
            own = scores[batch, kind]
            candidates = numpy.arange(own.size)
            if least is not None and least.size:
                candidates = numpy.nonzero(own > least.reshape(-1)[0])[0]
            kept = suppressed(boxes[batch, candidates], own[candidates], most, overlap)
            rows += [(batch, kind, int(candidates[at])) for at in kept]
    return numpy.array(rows, "int64").reshape(-1, 3)
