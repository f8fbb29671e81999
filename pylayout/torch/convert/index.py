"""Look-up by index."""

from __future__ import annotations

import math
from typing import Any

from ..call import Call, Operand, require
from ..registry import converter


@converter("embedding.default")
def embedding(
    call: Call,
    weight: Operand,
    index: Operand,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Operand:
    made: Operand = call.op("embedding", index, weight)
    return made


@converter("index_select.default")
def index_select(call: Call, x: Operand, dim: int, index: Operand) -> Operand:
    require(x.ndim > 0 and index.ndim == 1, "rank 0")
    made: Operand = call.op("index_select", x, dim, index)
    return made


@converter("gather.default")
def gather(call: Call, x: Operand, dim: int, index: Operand, sparse_grad: bool = False) -> Operand:
    require(x.ndim > 0 and index.ndim == x.ndim, "rank 0")
    made: Operand = call.op("gather", x, dim, index)
    return made


@converter("index.Tensor", note="by bool, and by tensors with other dimensions between theirs")
def index(call: Call, x: Operand, indices: Any) -> Operand:
    dims = [dim for dim, each in enumerate(indices) if each is not None]
    require(all(indices[dim].dtype in ("s64", "s32") for dim in dims), "an index that is no integer")
    require(len(dims) > 0 and dims == [*range(dims[0], dims[-1] + 1)], "dimensions between those that are indexed")
    require(0 not in x.shape, "no elements")
    first, sizes = dims[0], [x.shape[dim] for dim in dims]
    if len(dims) == 1:
        made: Operand = call.op("index_select", x, first, indices[first])
        return made
    # One index into the dimensions made one.
    place = None
    for dim, size in zip(dims, sizes, strict=True):
        each = call.cast(indices[dim], "s64")
        each = call.op("where", call.op("lt", each, 0), call.op("add", each, size), each)
        place = each if place is None else call.op("add", call.op("mul", place, size), each)
    joined = call.op("reshape", x, [*x.shape[:first], math.prod(sizes), *x.shape[dims[-1] + 1 :]])
    made = call.op("index_select", joined, first, place)
    return made
