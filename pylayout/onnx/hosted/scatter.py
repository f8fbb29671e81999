"""Scattering with a reduction of what comes to one place."""

from __future__ import annotations

from typing import Any

import numpy

from ...errors import InvalidArgumentError
from ..host import Call, host

_REDUCTIONS = {"add": numpy.add, "mul": numpy.multiply, "max": numpy.maximum, "min": numpy.minimum}


def _put(call: Call, made: Any, places: Any, updates: Any) -> Any:
    reduction = call.attribute("reduction", "none")
    if reduction == "none":
        made[places] = updates
    elif reduction in _REDUCTIONS:
        _REDUCTIONS[reduction].at(made, places, updates)
    else:
        raise InvalidArgumentError(f"onnx: {call.node.op_type}: reduction is {reduction!r}")
    return made


def _checked(call: Call, indices: Any, size: int) -> Any:
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise InvalidArgumentError(f"onnx: {call.node.op_type}: an index is outside of {size} elements")
    return numpy.where(indices < 0, indices + size, indices)


@host("ScatterElements", "Scatter")
def scatter_elements(call: Call) -> Any:
    made, indices, updates = call.x(0).copy(), call.x(1), call.x(2)
    axis = call.axis(call.attribute("axis", 0), made.ndim)
    places = list(numpy.indices(indices.shape, sparse=True))
    places[axis] = _checked(call, indices, made.shape[axis])
    return _put(call, made, tuple(places), updates)


@host("ScatterND")
def scatter_nd(call: Call) -> Any:
    made, indices, updates = call.x(0).copy(), call.x(1), call.x(2)
    rank = indices.shape[-1]
    places = tuple(_checked(call, indices[..., d], made.shape[d]) for d in range(rank))
    return _put(call, made, places, updates)
