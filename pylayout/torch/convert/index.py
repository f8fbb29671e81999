"""Look-up by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...sizes import Size
from ..call import FLOATS, Call, Operand, require
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


_BAGS = ("sum", "mean", "max")  # by PyTorch's number


@converter("pylayout.embedding_bag.default")
def embedding_bag(
    call: Call, weight: Operand, indices: Operand, ends: Operand, mode: int, scales: Operand | None, padding_idx: int
) -> Operand:
    made: Operand = call.op(
        "embedding_bag", indices, weight, ends, scales, mode=_BAGS[mode], padding_idx=max(-1, padding_idx)
    )
    return made


@converter("pylayout.embedding_bag_rows.default")
def embedding_bag_rows(call: Call, weight: Operand, indices: Operand, ends: Operand, padding_idx: int) -> Operand:
    made: Operand = call.op("embedding_bag_rows", indices, weight, ends, padding_idx=max(-1, padding_idx))
    return made


@converter("index_select.default")
def index_select(call: Call, x: Operand, dim: int, index: Operand) -> Operand:
    if x.ndim == 0:  # there is one place
        return x
    made: Operand = call.op("index_select", x, dim, call.reshape(index, [index.size]))
    return made


@converter("gather.default")
def gather(call: Call, x: Operand, dim: int, index: Operand, sparse_grad: bool = False) -> Operand:
    if x.ndim == 0 or index.ndim == 0:  # PyTorch lets numbers have a dimension here
        made = call.op("gather", x if x.ndim else call.reshape(x, [1]), 0, call.reshape(index, [index.size]))
        return call.reshape(made, index.shape)
    made = call.op("gather", x, dim, index)
    return made  # type: ignore[no-any-return]


@converter("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    call: Call, sequence: Operand, values: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Operand | None = None,
) -> Operand:  # fmt: skip
    if sorter is not None:
        sequence = call.op("gather", sequence, sequence.ndim - 1, sorter)
    return _places(call, sequence, values, right or side == "right")


@converter("bucketize.Tensor", "bucketize.Scalar")
def bucketize(call: Call, values: Any, boundaries: Operand, *, out_int32: bool = False, right: bool = False) -> Operand:
    return _places(call, boundaries, values, right)


def _places(call: Call, sequence: Operand, values: Any, right: bool) -> Operand:
    if isinstance(values, Operand):  # in the dtype that holds both
        dtype = call.common_dtype()
    else:
        dtype = "f32" if isinstance(values, float) and sequence.dtype not in FLOATS else sequence.dtype.name
    places = call.op("searchsorted", call.cast(sequence, dtype), call.tensor(values, dtype), right=right)
    return call.cast(places, call.dtype())  # type: ignore[no-any-return]


@converter("index.Tensor", note="by bool")
def index(call: Call, x: Operand, indices: Any) -> Operand:
    dims = indexed(indices)
    require(0 not in x.shape, "no elements")
    x, order = neighbours(call, x, dims)
    given = [indices[dim] for dim in dims]
    dims = [order.index(dim) for dim in dims]
    first, sizes = dims[0], [x.shape[dim] for dim in dims]
    if len(dims) == 1:
        made: Operand = call.op("index_select", x, first, given[0])
        return made
    place = joined_index(call, given, sizes)
    joined = call.op("reshape", x, [*x.shape[:first], math.prod(sizes), *x.shape[dims[-1] + 1 :]])
    made = call.op("index_select", joined, first, place)
    return made


def indexed(indices: Any) -> list[int]:
    """The dimensions that have an index, which is one of integers."""
    dims = [dim for dim, each in enumerate(indices) if each is not None]
    require(len(dims) > 0, "no index")
    require(all(indices[dim].dtype in ("s64", "s32") for dim in dims), "an index that is no integer")
    return dims


def joined_index(call: Call, indices: Sequence[Operand], sizes: Sequence[Any]) -> Operand:
    """Of indices into neighbouring dimensions the one into these dimensions made one.

    Where one of them is out of range, so is the result.
    """
    count = len(sizes)
    given = [call.cast(each, "s64") for each in indices]
    scalars = [*sizes, math.prod(sizes)]
    if any(isinstance(size, Size) for size in sizes):  # then they are tensors
        given += [call.graph.number(size, "s64") for size in scalars]
        size_of = [f"x{count + n}" for n in range(count + 1)]
        scalars = []
    else:
        size_of = [f"s{n}" for n in range(count + 1)]
    counted = [f"i{n} = x{n} < 0 ? x{n} + {size_of[n]} : x{n}" for n in range(count)]  # from the start
    within = " && ".join(f"i{n} >= 0 && i{n} < {size_of[n]}" for n in range(count))
    place = "i0"
    for n in range(1, count):
        place = f"({place}) * {size_of[n]} + i{n}"
    expressions = "; ".join([*counted, f"y0 = {within} ? {place} : {size_of[count]}"])
    made: Operand = call.op("pointwise", given, expressions, scalars=scalars, dtype="s64")
    return made


def neighbours(call: Call, x: Operand, dims: list[int]) -> tuple[Operand, list[int]]:
    """x with these dimensions beside each other, and the order that its dimensions then have.

    Where others lie between them PyTorch's result has theirs first, and so they are moved there.
    """
    order = [*range(x.ndim)]
    if dims == order[dims[0] : dims[-1] + 1]:
        return x, order
    order = [*dims, *(dim for dim in order if dim not in dims)]
    return call.op("permute", x, order), order
