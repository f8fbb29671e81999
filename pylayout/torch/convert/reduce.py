"""Reductions, running sums and selection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...sizes import Size
from ..call import FLOATS, Call, Operand, require
from ..registry import converter


def _dims(x: Operand, dim: Any) -> list[int] | None:
    """Dimensions as the library wants them: None for all of them."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    return [int(d) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]


def _reduced(call: Call, op: str, x: Operand, dim: Any, keepdim: bool) -> Operand:
    if x.dtype == "bool" and op in ("amax", "amin"):
        return call.cast(_reduced(call, op, call.cast(x, "u8"), dim, keepdim), "bool")  # type: ignore[no-any-return]
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


@converter("prod.dim_int", "prod.default")
def prod(call: Call, x: Operand, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Operand:
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
    return (
        _reduced(call, value, x, [dim], keepdim) if call.used(0) else None,
        _place(call, place, x, dim, keepdim) if call.used(1) else None,
    )


def _place(call: Call, op: str, x: Operand, dim: int | None, keepdim: bool) -> Operand:
    x = call.cast(x, "u8") if x.dtype == "bool" else x
    if x.ndim == 0:
        return call.reshape(call.op(op, call.reshape(x, [1]), 0, False), [])
    made: Operand = call.op(op, x, dim, bool(keepdim))
    return made


@converter("argmax.default")
def argmax(call: Call, x: Operand, dim: int | None = None, keepdim: bool = False) -> Operand:
    return _place(call, "argmax", x, dim, keepdim)


@converter("argmin.default")
def argmin(call: Call, x: Operand, dim: int | None = None, keepdim: bool = False) -> Operand:
    return _place(call, "argmin", x, dim, keepdim)


@converter("any.default", "any.dim", "any.dims")
def any_(call: Call, x: Operand, dim: Any = None, keepdim: bool = False) -> Operand:
    return _truth(call, "any", x, dim, keepdim)


@converter("all.default", "all.dim", "all.dims", keeps=False)
def all_(call: Call, x: Operand, dim: Any = None, keepdim: bool = False) -> Operand:
    return _truth(call, "all", x, dim, keepdim)


def _truth(call: Call, op: str, x: Operand, dim: Any, keepdim: bool) -> Operand:
    return call.cast(_reduced(call, op, x, dim, keepdim), call.dtype())  # type: ignore[no-any-return]


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
    wide = call.cast(x, "f32")
    along = call.op("mean", wide, dims, True)
    spread = call.op("mean", call.op("square", call.op("sub", wide, along)), dims, bool(keepdim))
    made = call.op("mul", spread, call.ratio(count, count - int(correction), "f32"))
    return call.cast(made, x.dtype.name), mean


@converter("linalg_vector_norm.default")
def vector_norm(
    call: Call, x: Operand, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Operand:
    x = call.cast(x, call.dtype())
    require(x.dtype in FLOATS, f"dtype {x.dtype}")
    if math.isinf(ord):
        return _reduced(call, "amax" if ord > 0 else "amin", call.op("abs", x), dim, keepdim)
    if ord in (1, 2):
        return _reduced(call, "reduce_l1" if ord == 1 else "reduce_l2", x, dim, keepdim)
    lined = x if x.ndim else call.reshape(x, [1])
    text = ("x0 != 0", "reduce_y0") if ord == 0 else ("pow(abs(x0), s0)", "pow(reduce_y0, s1)")
    made = call.op(
        "pointwise", [lined], f"y0 = {text[0]}", scalars=[float(ord), 1 / ord] if ord else [],
        reductions=f"reduce_y0 += y0; y0 = {text[1]}", dim=_dims(lined, dim) or list(range(lined.ndim)),
        keepdim=bool(keepdim), dtype=x.dtype.name,
    )  # fmt: skip
    return call.reshape(made, call.shape())


def _running(call: Call, op: str, x: Operand, dim: int) -> Operand:
    x = call.cast(x, call.dtype())
    if x.ndim == 0 or 0 in x.shape:
        return x
    made: Operand = call.op(op, x, dim)
    return made


@converter("cumsum.default")
def cumsum(call: Call, x: Operand, dim: int, dtype: Any = None) -> Operand:
    return _running(call, "cumsum", x, dim)


@converter("cumprod.default")
def cumprod(call: Call, x: Operand, dim: int, dtype: Any = None) -> Operand:
    return _running(call, "cumprod", x, dim)


@converter("_logcumsumexp.default", "logcumsumexp.default")
def logcumsumexp(call: Call, x: Operand, dim: int) -> Operand:
    require(x.dtype in FLOATS, f"dtype {x.dtype}")
    return _running(call, "logcumsumexp", x, dim)


@converter("cummax.default", note="on the CPU")
def cummax(call: Call, x: Operand, dim: int) -> Any:
    return _extreme_so_far(call, x, dim, "ge")


@converter("cummin.default", note="on the CPU")
def cummin(call: Call, x: Operand, dim: int) -> Any:
    return _extreme_so_far(call, x, dim, "le")


def _extreme_so_far(call: Call, x: Operand, dim: int, replaces: str) -> Any:
    """The largest or smallest so far, and the last place of it: of 2, 4, 8, ... elements in turn. NaN stays.

    PyTorch's kernel for the CPU is a loop, for which so many steps are no match.
    """
    require(not call.on_cpu(), "on the CPU")
    given = x.dtype.name
    if x.ndim == 0:
        return x, call.tensor(0, "s64")
    dim, size = dim % x.ndim, x.shape[dim]
    require(not isinstance(size, Size), "a size that calls decide")
    values = call.cast(x, "u8") if given == "bool" else x
    numbers = np.arange(size, dtype=np.int64).reshape([size if d == dim else 1 for d in range(x.ndim)])
    places = call.op("expand", call.graph.constant(numbers), list(x.shape))
    step = 1
    while step < size:
        (early, late), (early_place, late_place) = (
            (call.op("slice", each, [0], [size - step], [dim]), call.op("slice", each, [step], [size], [dim]))
            for each in (values, places)
        )
        later = call.op(replaces, late, early)
        if given in FLOATS:
            kept = call.op("logical_and", later, call.op("logical_not", call.op("isnan", early)))
            later = call.op("logical_or", call.op("isnan", late), kept)
        values, places = (
            call.op("concat", [call.op("slice", each, [0], [step], [dim]), call.op("where", later, new, old)], dim)
            for each, new, old in ((values, late, early), (places, late_place, early_place))
        )
        step *= 2
    return call.cast(values, given), places


def _any_order(call: Call, x: Operand) -> bool:
    """Whether equal elements may come in another order than PyTorch's own: where they are rare, and off the CPU."""
    return bool(x.dtype == "f32" or not call.on_cpu())


def _ordered(call: Call, x: Operand, k: int, dim: int, largest: bool, skip: int = 0) -> list[Operand]:
    """The first k but for those that are left out, and their places; PyTorch lets a number have a dimension."""
    numbers = call.cast(x, "u8") if x.dtype == "bool" else x
    if x.ndim == 0:
        values, places = (call.reshape(each, []) for each in call.op("topk", call.reshape(numbers, [1]), k, 0, largest))
    else:
        values, places = call.op("topk", numbers, k, dim, largest, skip=skip)
    return [call.cast(values, x.dtype.name), places]


# Equal elements are in the order of their indices here, in PyTorch in any.
@converter("topk.default", note="on the CPU of other dtypes than float32, which likely have equal elements")
def topk(call: Call, x: Operand, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    require(k > 0 and _any_order(call, x), f"{k} of {x.dtype}")
    return _ordered(call, x, k, dim, bool(largest))


@converter("sort.default", "sort.stable")
def sort(call: Call, x: Operand, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    require(x.size > 0, "nothing to sort")
    return _ordered(call, x, x.shape[dim] if x.ndim else 1, dim, bool(descending))


def _picked(call: Call, found: list[Operand], dim: int, keepdim: bool) -> Any:
    return tuple(each if keepdim else call.op("squeeze", each, dim) for each in found)


@converter("kthvalue.default", note="on the CPU of other dtypes than float32")
def kthvalue(call: Call, x: Operand, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    require(k > 0 and _any_order(call, x), f"{k} of {x.dtype}")
    found = _ordered(call, x, k, dim, False, k - 1)
    return _picked(call, found, dim, keepdim) if x.ndim else found


@converter("median.dim", note="on the CPU of other dtypes than float32")
def median(call: Call, x: Operand, dim: int, keepdim: bool = False) -> Any:
    require(x.size > 0 and _any_order(call, x), f"{x.dtype}, or no elements")
    return _picked(call, _median(call, x, dim), dim, keepdim) if x.ndim else _ordered(call, x, 1, 0, False)


@converter("median.default")
def median_of_all(call: Call, x: Operand) -> Operand:
    require(x.size > 0, "no elements")
    return call.reshape(_median(call, call.reshape(x, [x.size]), 0)[0], [])


def _median(call: Call, x: Operand, dim: int) -> list[Operand]:
    middle = (x.shape[dim] - 1) // 2
    found = _ordered(call, x, middle + 1, dim, False, middle)
    if x.dtype in FLOATS:  # NaN is the median wherever there is one
        largest = call.op("amax", x, [dim], True)
        missing = call.op("isnan", largest)
        first = call.op("argmax", x, dim, True)
        found = [call.op("where", missing, largest, found[0]), call.op("where", missing, first, found[1])]
    return found


@converter("nanmedian.dim", note="on the CPU of other dtypes than float32")
def nanmedian(call: Call, x: Operand, dim: int, keepdim: bool = False) -> Any:
    require(x.size > 0 and _any_order(call, x), f"{x.dtype}, or no elements")
    return _picked(call, _nanmedian(call, x, dim), dim, keepdim) if x.ndim else _ordered(call, x, 1, 0, False)


@converter("nanmedian.default")
def nanmedian_of_all(call: Call, x: Operand) -> Operand:
    require(x.size > 0, "no elements")
    return call.reshape(_nanmedian(call, call.reshape(x, [x.size]), 0)[0], [])


def _nanmedian(call: Call, x: Operand, dim: int) -> list[Operand]:
    """Of the numbers, which come before NaN; the first NaN where there is no number."""
    if x.dtype not in FLOATS:
        return _median(call, x, dim)
    dim = dim % x.ndim
    ordered = call.op("topk", x, x.shape[dim], dim, False)
    place = call.op(
        "pointwise", [x], "y0 = isnan(x0) ? 0 : 1",
        reductions="reduce_y0 += y0; y0 = max(floor((reduce_y0 - 1) / 2), 0)", dim=[dim], keepdim=True, dtype="s64",
    )  # fmt: skip
    return [call.op("gather", each, dim, place) for each in ordered]


@converter("histc.default")
def histc(call: Call, x: Operand, bins: int = 100, min: Any = 0, max: Any = 0) -> Operand:
    """Elements counted by their bins; those that are in none have one more, which is left out."""
    require(x.dtype == "f32" and x.size > 0, f"dtype {x.dtype}, or no elements")
    flat = call.reshape(x, [x.size])
    least, largest = float(min), float(max)
    ends: list[Any] = [call.tensor(each, "f32") for each in (least, largest)]
    if least == largest:  # the least and the largest element, or one more each way
        ends = [call.op(which, flat, dim=[0]) for which in ("amin", "amax")]
        beside = [f"x0 == x1 ? x{n} {sign} 1 : x{n}" for n, sign in enumerate("-+")]
        ends = [call.op("pointwise", ends, f"y0 = {text}", dtype="f32") for text in beside]
    place = call.op(
        "pointwise", [flat, *ends],
        "place = min(floor((x0 - x1) * s0 / (x2 - x1)), s0 - 1); y0 = x0 >= x1 && x0 <= x2 ? place : s0",
        scalars=[float(bins)], dtype="f32",
    )  # fmt: skip
    one, none = (call.op("expand", call.tensor(n, "f32"), [size]) for n, size in ((1.0, x.size), (0.0, bins + 1)))
    counted = call.op("scatter", none, 0, call.cast(place, "s64"), one, "sum")
    made: Operand = call.op("slice", counted, [0], [bins], [0])
    return made
