"""Reductions. Axes are an attribute in old opsets, an input in newer ones."""

from __future__ import annotations

import math

import numpy

from ...errors import ShapeError, UnsupportedError
from ..fold import topk
from ..node import Node, dtype_text, is_float, numpy_of
from ..operand import Known, Operand, Result
from ..registry import converter
from .math import cast

_PLAIN = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "amax",
    "ReduceMin": "amin",
    "ReduceProd": "prod",
    "ReduceL1": "reduce_l1",
    "ReduceL2": "reduce_l2",
    "ReduceSumSquare": "reduce_sum_square",
    "ReduceLogSum": "",
    "ReduceLogSumExp": "",
}


def _reduced(node: Node, x: Operand, op: str, axes: list[int], keep: bool) -> Operand:
    """The reduction over axes, where no axis at all leaves each element to itself."""
    made: Operand
    if axes and (is_float(x) or op not in ("reduce_l1", "reduce_sum_square")):
        made = node.op(op, x, axes, keep)
        return made
    if op in ("reduce_l1", "reduce_l2"):
        made = node.op("abs", x)
    elif op == "reduce_sum_square":
        made = node.op("square", x)
    else:
        made = x
    return node.op("sum", made, axes, keep) if axes else made  # of integers, of which the ops of these names are not


def _reduce(node: Node, axes: list[int] | None) -> Result:
    x = node.x(0)
    keep = bool(node.integer("keepdims", 1))
    if axes is None or (not axes and not node.integer("noop_with_empty_axes", 0)):
        axes = list(range(x.ndim))
    node.ignore("noop_with_empty_axes")
    axes = node.axes(axes, x.ndim)
    if node.op_type == "ReduceLogSum":
        return node.op("log", _reduced(node, x, "sum", axes, keep))
    if node.op_type == "ReduceLogSumExp":
        return _log_sum_exp(node, x, axes, keep)
    op = _PLAIN[node.op_type]
    if op == "mean" and axes and not is_float(x):  # whole numbers, rounded towards zero
        count = math.prod(x.shape[axis] for axis in axes)
        sums = _reduced(node, cast(node, x, "s64"), "sum", axes, keep)
        return cast(node, node.op("div", sums, Known.of_sizes(count), rounding_mode="trunc"), dtype_text(x))
    shape = [size if i not in axes else 1 for i, size in enumerate(x.shape) if keep or i not in axes]
    if op in ("amax", "amin") and 0 in x.shape and (0 not in shape or any(x.shape[axis] == 0 for axis in axes)):
        return _extreme(node, op, numpy_of(x), shape)
    if numpy_of(x).kind == "b" and op in ("amax", "amin"):
        wide = _reduced(node, node.op("cast", x, "u8"), op, axes, keep)
        return node.op("cast", wide, "bool")
    return _reduced(node, x, op, axes, keep)


def _extreme(node: Node, op: str, dtype: numpy.dtype, shape: list[int]) -> Result:
    """The maximum or minimum of nothing: the other end of the range."""
    if dtype.kind == "b":
        end: object = op == "amin"
    elif dtype.kind in "iu":
        end = numpy.iinfo(dtype).min if op == "amax" else numpy.iinfo(dtype).max
    else:
        end = -numpy.inf if op == "amax" else numpy.inf
    return node.op("expand", Known(numpy.asarray(end).astype(dtype)), shape)


def _log_sum_exp(node: Node, x: Operand, axes: list[int], keep: bool) -> Result:
    """max + ln(sum of exp(x - max)), which does not overflow."""
    if not axes:
        return x
    if 0 in x.shape or not is_float(x):
        if not is_float(x):
            raise UnsupportedError(f"x is {numpy_of(x)}, expected floating-point numbers")
        return node.op("log", node.op("sum", x, axes, keep))
    top = node.op("amax", x, axes, True)
    # Where the maximum is infinite it is subtracted as 0, or inf - inf would be NaN.
    text = "y0 = exp(x0 - (x1 == inf || x1 == -inf ? 0 : x1))"
    powers = node.op("pointwise", [x, top], text, dtype=dtype_text(x))
    total = node.op("sum", powers, axes, True)
    text = "y0 = log(x0) + (x1 == inf || x1 == -inf ? 0 : x1)"
    result = node.op("pointwise", [total, top], text, dtype=dtype_text(x))
    if keep:
        return result
    return node.op("reshape", result, [size for i, size in enumerate(x.shape) if i not in axes])


@converter(*_PLAIN, since=1)
def reduce_1(node: Node) -> Result:
    return _reduce(node, node.integers("axes", None))


def reduce_18(node: Node) -> Result:
    return _reduce(node, node.integers_at(1) if node.has(1) else [])


converter("ReduceSum", since=13, note="axes known")(reduce_18)
converter(*(op for op in _PLAIN if op != "ReduceSum"), since=18, note="axes known")(reduce_18)


@converter("ArgMax", "ArgMin", since=1)
def arg_reduce(node: Node) -> Result:
    x = node.x(0)
    axis = node.axis(node.integer("axis", 0), x.ndim)
    keep = bool(node.integer("keepdims", 1))
    op = "argmax" if node.op_type == "ArgMax" else "argmin"
    if not node.integer("select_last_index", 0):
        return node.op(op, x, axis, keep)
    size = x.shape[axis]
    back = node.op("index_select", x, axis, node.backwards(size))
    return node.op("sub", Known.of_sizes(size - 1), node.op(op, back, axis, keep))


@converter("Hardmax", since=13)
def hardmax(node: Node) -> Result:
    x = node.x(0)
    axis = node.axis(node.integer("axis", -1), x.ndim)
    size = x.shape[axis]
    if size == 0:
        return x
    best = node.op("argmax", x, axis, True)
    places = node.op("reshape", node.arange(0, size), [size if i == axis else 1 for i in range(x.ndim)])
    return node.op("cast", node.op("eq", places, best), dtype_text(x))


def _top(node: Node, k: int, largest: bool) -> Result:
    x = node.x(0)
    axis = node.axis(node.integer("axis", -1), x.ndim)
    node.ignore("sorted")  # any order will do if it is 0
    size = x.shape[axis] if x.ndim else 1
    if not x.ndim or not 0 <= k <= size:
        raise ShapeError(f"K is {k}, x has shape {list(x.shape)}, expected 0 to {size} of at least one axis")
    return list(topk(x.array, k, axis, largest) if isinstance(x, Known) else node.op("topk", x, k, axis, largest))


@converter("TopK", since=1)
def top_1(node: Node) -> Result:
    return _top(node, node.integer("k"), True)


@converter("TopK", since=10, note="K known")
def top(node: Node) -> Result:
    counts = node.integers_at(1)
    if len(counts) != 1:
        raise ShapeError(f"K has {len(counts)} elements, expected one")
    return _top(node, counts[0], bool(node.integer("largest", 1)))
