"""Reductions, running sums and selection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...sizes import Size
from ..call import FLOATS, Call, Operand, require
from ..registry import converter


def _dims(x: Operand, dim: Any) -> list[int] | None:
    """Dimensions as the library wants them: None for all of them."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    return [int(d) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]


def _reduced(call: Call, op: str, x: Operand, dim: Any, keepdim: bool) -> Operand:
    if x.ndim == 0:  # PyTorch lets a number have a dimension here
        x, dim = call.op("reshape", x, [1]), [0]
        made: Operand = call.op("reshape", call.op(op, x, [0], False), [])
        return made
    made = call.op(op, x, _dims(x, dim), bool(keepdim))
    return made


@converter("sum.dim_IntList", "sum.default")
def sum_(call: Call, x: Operand, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Operand:
    return _reduced(call, "sum", call.cast(x, call.dtype()), dim, keepdim)


@converter("mean.dim", "mean.default")
def mean(call: Call, x: Operand, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Operand:
    return _reduced(call, "mean", call.cast(x, call.dtype()), dim, keepdim)


@converter("prod.dim_int", "prod.default", note="of integers")
def prod(call: Call, x: Operand, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Operand:
    require(call.dtype() in FLOATS, f"dtype {call.dtype()}")
    return _reduced(call, "prod", call.cast(x, call.dtype()), dim, keepdim)


@converter("amax.default")
def amax(call: Call, x: Operand, dim: Sequence[int] = (), keepdim: bool = False) -> Operand:
    return _reduced(call, "amax", x, dim, keepdim)


@converter("amin.default")
def amin(call: Call, x: Operand, dim: Sequence[int] = (), keepdim: bool = False) -> Operand:
    return _reduced(call, "amin", x, dim, keepdim)


@converter("max.default")
def max_all(call: Call, x: Operand) -> Operand:
    return _reduced(call, "amax", x, None, False)


@converter("min.default")
def min_all(call: Call, x: Operand) -> Operand:
    return _reduced(call, "amin", x, None, False)


@converter("max.dim")
def max_dim(call: Call, x: Operand, dim: int, keepdim: bool = False) -> Any:
    return _found(call, x, dim, keepdim, "amax", "argmax")


@converter("min.dim")
def min_dim(call: Call, x: Operand, dim: int, keepdim: bool = False) -> Any:
    return _found(call, x, dim, keepdim, "amin", "argmin")


def _found(call: Call, x: Operand, dim: int, keepdim: bool, value: str, place: str) -> Any:
    require(x.ndim > 0, "rank 0")
    return (
        call.op(value, x, [dim], bool(keepdim)) if call.used(0) else None,
        call.op(place, x, dim, bool(keepdim)) if call.used(1) else None,
    )


@converter("argmax.default")
def argmax(call: Call, x: Operand, dim: int | None = None, keepdim: bool = False) -> Operand:
    require(x.ndim > 0, "rank 0")
    made: Operand = call.op("argmax", x, dim, bool(keepdim))
    return made


@converter("argmin.default")
def argmin(call: Call, x: Operand, dim: int | None = None, keepdim: bool = False) -> Operand:
    require(x.ndim > 0, "rank 0")
    made: Operand = call.op("argmin", x, dim, bool(keepdim))
    return made


@converter("any.default", "any.dim", "any.dims")
def any_(call: Call, x: Operand, dim: Any = None, keepdim: bool = False) -> Operand:
    return _truth(call, "any", x, dim, keepdim)


@converter("all.default", "all.dim", "all.dims", keeps=False)
def all_(call: Call, x: Operand, dim: Any = None, keepdim: bool = False) -> Operand:
    return _truth(call, "all", x, dim, keepdim)


def _truth(call: Call, op: str, x: Operand, dim: Any, keepdim: bool) -> Operand:
    require(x.ndim > 0, "rank 0")
    made: Operand = call.op(op, x, _dims(x, dim), bool(keepdim))
    return call.cast(made, call.dtype())  # type: ignore[no-any-return]


@converter("var.correction")
def var(call: Call, x: Operand, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Operand:
    return _variance(call, x, dim, correction, keepdim)[0]


@converter("var_mean.correction")
def var_mean(call: Call, x: Operand, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    return _variance(call, x, dim, correction, keepdim)


def _variance(call: Call, x: Operand, dim: Any, correction: Any, keepdim: bool) -> tuple[Operand, Operand]:
    dims = _dims(x, dim)
    require(x.ndim > 0 and x.dtype in FLOATS, f"{x.dtype} of rank {x.ndim}")
    count = math.prod(x.shape[d] for d in {d % x.ndim for d in (range(x.ndim) if dims is None else dims)})
    correction = 1 if correction is None else correction
    require(count > correction, "as many elements as the correction takes away, or fewer")
    mean = call.op("mean", x, dims, bool(keepdim))
    if not isinstance(count, Size) or int(correction) != correction:
        return call.op("var", x, dims, float(correction), bool(keepdim)), mean
    along = mean if keepdim else call.op("mean", x, dims, True)
    spread = call.op("mean", call.op("square", call.op("sub", x, along)), dims, bool(keepdim))
    return call.op("mul", spread, call.ratio(count, count - int(correction), x.dtype.name)), mean


@converter("linalg_vector_norm.default", note="of other orders than 1, 2 and infinity")
def vector_norm(
    call: Call, x: Operand, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Operand:
    x = call.cast(x, call.dtype())
    require(x.dtype in FLOATS, f"dtype {x.dtype}")
    if ord == float("inf"):
        return _reduced(call, "amax", call.op("abs", x), dim, keepdim)
    require(ord in (1, 2), f"order {ord}")
    return _reduced(call, "reduce_l1" if ord == 1 else "reduce_l2", x, dim, keepdim)


@converter("cumsum.default")
def cumsum(call: Call, x: Operand, dim: int, dtype: Any = None) -> Operand:
    require(x.ndim > 0, "rank 0")
    made: Operand = call.op("cumsum", call.cast(x, call.dtype()), dim)
    return made


def _any_order(call: Call, x: Operand) -> bool:
    """Whether equal elements may come in another order than PyTorch's own: where they are rare, and off the CPU."""
    return bool(x.dtype == "f32" or call.device().type != "cpu")


# Equal elements are in the order of their indices here, in PyTorch in any.
@converter("topk.default", note="on the CPU of other dtypes than float32, which likely have equal elements")
def topk(call: Call, x: Operand, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    require(x.ndim > 0 and k > 0 and _any_order(call, x), f"{k} of {x.dtype}, rank {x.ndim}")
    return call.op("topk", x, k, dim, bool(largest))


@converter("sort.default", "sort.stable", note="on the CPU of other dtypes than float32 where it need not be stable")
def sort(call: Call, x: Operand, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    require(x.ndim > 0 and x.shape[dim] > 0, "rank 0, or nothing to sort")
    require(bool(stable) or _any_order(call, x), f"equal elements of {x.dtype}")
    return call.op("topk", x, x.shape[dim], dim, bool(descending))


def _at(call: Call, x: Operand, dim: int, place: int) -> Operand:
    made: Operand = call.op("slice", x, [place], [place + 1], [dim])
    return made


@converter("kthvalue.default", note="on the CPU of other dtypes than float32")
def kthvalue(call: Call, x: Operand, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    require(x.ndim > 0 and k > 0 and _any_order(call, x), f"{k} of {x.dtype}, rank {x.ndim}")
    found = [_at(call, each, dim, k - 1) for each in call.op("topk", x, k, dim, False)]
    return tuple(each if keepdim else call.op("squeeze", each, dim) for each in found)


@converter("median.dim", note="on the CPU of other dtypes than float32")
def median(call: Call, x: Operand, dim: int, keepdim: bool = False) -> Any:
    require(x.ndim > 0 and x.shape[dim] > 0 and _any_order(call, x), f"{x.dtype} of rank {x.ndim}")
    size = x.shape[dim]
    ordered = call.op("topk", x, size, dim, False)
    found = [_at(call, each, dim, (size - 1) // 2) for each in ordered]
    if x.dtype in FLOATS:  # NaN comes last, and is the median wherever there is one
        last = _at(call, ordered[0], dim, size - 1)
        missing = call.op("isnan", last)
        first = call.op("argmax", x, dim, True)
        found = [call.op("where", missing, last, found[0]), call.op("where", missing, first, found[1])]
    return tuple(each if keepdim else call.op("squeeze", each, dim) for each in found)
