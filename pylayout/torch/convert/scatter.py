"""Elements put to places that indices say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..call import FLOATS, Call, Operand, require
from ..registry import converter
from .index import indexed, joined_index, neighbours

_SMALLEST = {"sum": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}  # what joins without a trace


def _filled(call: Call, value: Any, shape: Sequence[int]) -> Operand:
    """Of a number, or of an operand without dimensions."""
    made: Operand = call.op("expand", call.tensor(call.cast(value, call.dtype()), call.dtype()), list(shape))
    return made


def _put(call: Call, x: Operand, dim: int, index: Operand, source: Any, reduce: str = "none") -> Operand:
    """Of the source, a number or an operand, what the index is for."""
    if 0 in index.shape:  # nothing is put
        return x
    if not isinstance(source, Operand):
        source = _filled(call, source, index.shape)
    if x.ndim == 0:  # PyTorch lets numbers have a dimension here
        index, source = call.reshape(index, [1]), call.reshape(source, [1])
        return call.reshape(_put(call, call.reshape(x, [1]), 0, index, source, reduce), [])
    require(index.ndim == x.ndim == source.ndim, "numbers among tensors")
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


_Join = Callable[[Operand, Any, str], Operand]  # of what was there, with what comes, by a reduction


def _reduced(call: Call, x: Operand, source: Operand, reduce: str, include_self: bool, put: _Join) -> Operand:
    mean = reduce == "mean"
    reduce = "sum" if mean else reduce
    require(reduce in _SMALLEST and x.dtype != "bool", f"{reduce} of {x.dtype}")
    require(not mean or x.dtype in FLOATS, f"mean of {x.dtype}")
    before = x
    if not include_self:
        none = _SMALLEST[reduce]
        require(x.dtype in FLOATS or math.isfinite(none), f"{reduce} of {x.dtype}")
        before = put(x, none, "none")
    made = put(before, source, reduce)
    if not mean:
        return made
    given = call.op("expand", call.tensor(1.0 if include_self else 0.0, x.dtype.name), list(x.shape))
    return call.pointwise([made, put(given, 1, "sum")], "x0 / max(x1, 1)")


@converter("scatter_reduce.two", note="means of integers; their largest and smallest without what was there")
def scatter_reduce(
    call: Call, x: Operand, dim: int, index: Operand, src: Operand, reduce: str, *, include_self: bool = True
) -> Operand:
    def put(x: Operand, source: Any, how: str) -> Operand:
        return _put(call, x, dim, index, source, how)

    return _reduced(call, x, src, reduce, include_self, put)


def _along(call: Call, x: Operand, dim: int, index: Operand) -> Operand:
    """An index of one dimension, for whole slices."""
    if index.ndim == 1:  # without its size, so that a program serves others
        for other in range(x.ndim):
            index = index if other == dim % x.ndim else call.op("unsqueeze", index, other)
        return index
    shape = [1] * x.ndim
    shape[dim] = math.prod(index.shape)
    return call.reshape(index, shape)


def _put_slices(call: Call, x: Operand, dim: int, index: Operand, source: Operand, reduce: str) -> Operand:
    if x.ndim == 0:  # a number is a slice of itself
        return call.reshape(_put_slices(call, call.reshape(x, [1]), 0, index, call.reshape(source, [1]), reduce), [])
    require(source.dtype == x.dtype and source.ndim == x.ndim, f"dtype {source.dtype}, rank {source.ndim}")
    if 0 in index.shape or 0 in source.shape:  # nothing is put
        return x
    made: Operand = call.op("scatter", x, dim, _along(call, x, dim, index), source, reduce)
    return made


@converter("index_reduce.default", note="means of integers; their largest and smallest without what was there")
def index_reduce(
    call: Call, x: Operand, dim: int, index: Operand, source: Operand, reduce: str, *, include_self: bool = True
) -> Operand:
    def put(x: Operand, source: Any, how: str) -> Operand:
        if not isinstance(source, Operand):
            source = _filled(call, source, shape)
        return _put_slices(call, x, dim, index, source, how)

    shape = source.shape
    return _reduced(call, x, source, reduce, include_self, put)


@converter("put.default")
def put(call: Call, x: Operand, index: Operand, source: Operand, accumulate: bool = False) -> Operand:
    require(index.size > 0 and source.dtype == x.dtype, f"no indices, or dtype {source.dtype}")
    require(not accumulate or x.dtype != "bool", "dtype bool")
    flat, place, values = (call.reshape(each, [each.size]) for each in (x, index, source))
    made = call.op("scatter", flat, 0, place, values, "sum" if accumulate else "none")
    return call.reshape(made, x.shape)


def _among(call: Call, mask: Operand) -> Operand:
    """The number of each place of a flat mask among those where it holds; 0 before the first."""
    counted = call.op("cumsum", call.cast(mask, "s64"), 0)
    made: Operand = call.op("maximum", call.op("sub", counted, 1), 0)
    return made


@converter("masked_scatter.default")
def masked_scatter(call: Call, x: Operand, mask: Operand, source: Operand) -> Operand:
    require(mask.dtype == "bool" and source.dtype == x.dtype, f"mask of {mask.dtype}, values of {source.dtype}")
    require(source.size > 0, "nothing to put")
    shape = list(call.shape())
    flat = call.reshape(call.op("expand", mask, shape), [math.prod(shape)])
    taken = call.op("index_select", call.reshape(source, [source.size]), 0, _among(call, flat))
    made = call.op("where", flat, taken, call.reshape(call.op("expand", x, shape), [math.prod(shape)]))
    return call.reshape(made, shape)


def _put_by_mask(call: Call, x: Operand, mask: Operand, values: Operand, accumulate: bool) -> Operand:
    """A slice, the same for each place of the first dimensions where the mask holds."""
    inner = list(x.shape[mask.ndim :])
    if values.ndim > len(inner):
        require(values.ndim == len(inner) + 1 and values.shape[0] == 1, "a value for each place of a mask")
        values = call.reshape(values, values.shape[1:])
    wide = call.reshape(mask, [*mask.shape, *[1] * len(inner)])
    made: Operand = call.op("where", wide, call.op("add", x, values) if accumulate else values, x)
    return made


@converter("index_add.default")
def index_add(call: Call, x: Operand, dim: int, index: Operand, source: Operand, *, alpha: Any = 1) -> Operand:
    require(x.dtype != "bool", "dtype bool")
    if alpha != 1:
        source = call.op("mul", source, call.cast(alpha, source.dtype.name))
    return _put_slices(call, x, dim, index, source, "sum")


@converter("index_copy.default")
def index_copy(call: Call, x: Operand, dim: int, index: Operand, source: Operand) -> Operand:
    alone = isinstance(index.size, int) and index.size == 1
    if alone and source.ndim == x.ndim > 0 and source.dtype == x.dtype:  # a cache of keys takes one more
        made: Operand = call.op("tensor_scatter", x, source, call.reshape(index, []), dim=dim)
        return made
    return _put_slices(call, x, dim, index, source, "none")


@converter("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(call: Call, x: Operand, dim: int, index: Operand, value: Any) -> Operand:
    shape = list(x.shape)
    if shape:
        shape[dim] = index.size
    return _put_slices(call, x, dim, index, _filled(call, value, shape), "none")


@converter(
    "index_put.default",
    "_unsafe_index_put.default",
    "_index_put_impl.default",
    note="by a mask with values for each of its places, and by several masks",
)
def index_put(
    call: Call, x: Operand, indices: Any, values: Operand, accumulate: bool = False, unsafe: bool = False
) -> Operand:
    dims = [dim for dim, each in enumerate(indices) if each is not None]
    if len(indices) == 1 and dims and indices[0].dtype == "bool":
        require(values.dtype == x.dtype and 0 not in x.shape, f"no elements, or values of {values.dtype}")
        require(not accumulate or x.dtype != "bool", "dtype bool")
        return _put_by_mask(call, x, indices[0], values, accumulate)
    dims = indexed(indices)
    require(0 not in x.shape and values.dtype == x.dtype, f"no elements, or values of {values.dtype}")
    require(not accumulate or x.dtype != "bool", "dtype bool")
    if any(0 in indices[dim].shape for dim in dims):  # nothing is put
        return x
    x, order = neighbours(call, x, dims)
    given = [indices[dim] for dim in dims]
    dims = [order.index(dim) for dim in dims]
    sizes = [x.shape[dim] for dim in dims]
    place = joined_index(call, given, sizes) if len(dims) > 1 else given[0]
    before, behind, count = x.shape[: dims[0]], x.shape[dims[-1] + 1 :], math.prod(place.shape)
    joined = [*before, math.prod(sizes), *behind]
    wanted = [*before, *place.shape, *behind]
    values = values if [*values.shape] == wanted else call.op("expand", values, wanted)
    source = call.reshape(values, [*before, count, *behind])
    index = call.reshape(place, [1] * len(before) + [count] + [1] * len(behind))
    made = call.op("scatter", call.reshape(x, joined), len(before), index, source, "sum" if accumulate else "none")
    made = call.reshape(made, x.shape)
    if order == [*range(x.ndim)]:
        return made
    moved: Operand = call.op("permute", made, [order.index(dim) for dim in range(x.ndim)])
    return moved
