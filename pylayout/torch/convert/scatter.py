"""Elements put to places that indices say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..call import FLOATS, Call, Operand, require
from ..registry import converter

_SMALLEST = {"sum": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}  # what joins without a trace


def _filled(call: Call, value: Any, shape: Sequence[int]) -> Operand:
    """Of a number, or of an operand without dimensions."""
    made: Operand = call.op("expand", call.tensor(call.cast(value, call.dtype()), call.dtype()), list(shape))
    return made


def _put(call: Call, x: Operand, dim: int, index: Operand, source: Any, reduce: str = "none") -> Operand:
    """Of the source, a number or an operand, what the index is for."""
    require(x.ndim > 0 and index.ndim == x.ndim, "rank 0")
    require(0 not in index.shape, "no indices")
    if not isinstance(source, Operand):
        source = _filled(call, source, index.shape)
    require(source.dtype == x.dtype, f"dtype {source.dtype}")
    for d, size in enumerate(index.shape):
        if source.shape[d] != size:
            source = call.op("slice", source, [0], [size], [d])
    made: Operand = call.op("scatter", x, dim, index, source, reduce)
    return made


@converter("scatter.src")
def scatter(call: Call, x: Operand, dim: int, index: Operand, src: Operand) -> Operand:
    return _put(call, x, dim, index, src)


@converter("scatter.value")
def scatter_value(call: Call, x: Operand, dim: int, index: Operand, value: Any) -> Operand:
    return _put(call, x, dim, index, value)


_JOINS = {"add": "sum", "multiply": "prod"}


@converter("scatter.reduce")
def scatter_joined(call: Call, x: Operand, dim: int, index: Operand, src: Operand, *, reduce: str) -> Operand:
    require(x.dtype != "bool", "dtype bool")
    return _put(call, x, dim, index, src, _JOINS[reduce])


@converter("scatter.value_reduce")
def scatter_joined_value(call: Call, x: Operand, dim: int, index: Operand, value: Any, *, reduce: str) -> Operand:
    require(x.dtype != "bool", "dtype bool")
    return _put(call, x, dim, index, value, _JOINS[reduce])


@converter("scatter_add.default")
def scatter_add(call: Call, x: Operand, dim: int, index: Operand, src: Operand) -> Operand:
    require(x.dtype != "bool", "dtype bool")
    return _put(call, x, dim, index, src, "sum")


@converter("scatter_reduce.two", note="means; largest and smallest of integers without what was there")
def scatter_reduce(
    call: Call, x: Operand, dim: int, index: Operand, src: Operand, reduce: str, *, include_self: bool = True
) -> Operand:
    require(reduce in _SMALLEST and x.dtype != "bool", f"{reduce} of {x.dtype}")
    if not include_self:
        none = _SMALLEST[reduce]
        require(x.dtype in FLOATS or math.isfinite(none), f"{reduce} of {x.dtype}")
        x = _put(call, x, dim, index, none)
    return _put(call, x, dim, index, src, reduce)


def _along(call: Call, x: Operand, dim: int, index: Operand) -> Operand:
    """An index of one dimension, for whole slices."""
    require(x.ndim > 0 and index.ndim <= 1, "rank 0")
    shape = [1] * x.ndim
    shape[dim] = math.prod(index.shape)
    return call.reshape(index, shape)


def _put_slices(call: Call, x: Operand, dim: int, index: Operand, source: Operand, reduce: str) -> Operand:
    require(source.dtype == x.dtype and source.ndim == x.ndim, f"dtype {source.dtype}, rank {source.ndim}")
    require(0 not in index.shape and 0 not in source.shape, "no indices")
    made: Operand = call.op("scatter", x, dim, _along(call, x, dim, index), source, reduce)
    return made


@converter("index_add.default")
def index_add(call: Call, x: Operand, dim: int, index: Operand, source: Operand, *, alpha: Any = 1) -> Operand:
    require(x.dtype != "bool", "dtype bool")
    if alpha != 1:
        source = call.op("mul", source, call.cast(alpha, source.dtype))
    return _put_slices(call, x, dim, index, source, "sum")


@converter("index_copy.default")
def index_copy(call: Call, x: Operand, dim: int, index: Operand, source: Operand) -> Operand:
    return _put_slices(call, x, dim, index, source, "none")


@converter("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(call: Call, x: Operand, dim: int, index: Operand, value: Any) -> Operand:
    require(x.ndim > 0, "rank 0")
    shape = list(x.shape)
    shape[dim] = math.prod(index.shape)
    return _put_slices(call, x, dim, index, _filled(call, value, shape), "none")


@converter(
    "index_put.default",
    "_unsafe_index_put.default",
    note="by bool, and by tensors with other dimensions between theirs",
)
def index_put(call: Call, x: Operand, indices: Any, values: Operand, accumulate: bool = False) -> Operand:
    dims = [dim for dim, each in enumerate(indices) if each is not None]
    require(all(indices[dim].dtype in ("s64", "s32") for dim in dims), "an index that is no integer")
    require(len(dims) > 0 and dims == [*range(dims[0], dims[-1] + 1)], "dimensions between those that are indexed")
    require(0 not in x.shape and values.dtype == x.dtype, f"no elements, or values of {values.dtype}")
    require(not accumulate or x.dtype != "bool", "dtype bool")
    # One index into the dimensions made one.
    sizes = [x.shape[dim] for dim in dims]
    place = call.cast(indices[dims[0]], "s64")
    for number, size in enumerate(sizes[1:], 1):
        if number == 1:
            place = _counted(call, place, sizes[0])
        each = _counted(call, call.cast(indices[dims[number]], "s64"), size)
        place = call.op("add", call.op("mul", place, size), each)
    require(0 not in place.shape, "no indices")
    before, behind, count = x.shape[: dims[0]], x.shape[dims[-1] + 1 :], math.prod(place.shape)
    joined = [*before, math.prod(sizes), *behind]
    values = call.op("expand", values, [*before, *place.shape, *behind])
    source = call.reshape(values, [*before, count, *behind])
    index = call.reshape(place, [1] * len(before) + [count] + [1] * len(behind))
    made = call.op("scatter", call.reshape(x, joined), len(before), index, source, "sum" if accumulate else "none")
    return call.reshape(made, x.shape)


def _counted(call: Call, index: Operand, size: int) -> Operand:
    """Negative indices counted from the start."""
    made: Operand = call.op("where", call.op("lt", index, 0), call.op("add", index, size), index)
    return made
