"""Pools, and windows added up."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ...errors import ShapeError, UnsupportedError
from ..fold import room
from ..node import Node, is_float, numpy_of
from ..operand import Known, Operand, Result
from ..registry import converter
from .windows import Window, window_of


def _reached(window: Window) -> bool:
    """Whether the library's pools take the padding: at most half of what a window reaches."""
    return all(0 <= p <= r // 2 for p, r in zip(window.padding, window.reach * 2, strict=True))


def _pairs(window: Window) -> list[int]:
    """The padding as `pad` takes it."""
    pairs = []
    for begin, end in reversed(list(zip(window.begins, window.ends, strict=True))):
        pairs += [begin, end]
    return pairs


def _ceil_ends(window: Window, sizes: list[int]) -> list[int]:
    """Elements beyond the end padding that the last window of ceil_mode reaches."""
    out = window.out(sizes, ceil=True)
    return [
        max((out[i] - 1) * window.strides[i] + window.reach[i] - (size + window.begins[i] + window.ends[i]), 0)
        for i, size in enumerate(sizes)
    ]


@converter("MaxPool", since=1)
def max_pool(node: Node) -> Result:
    x = node.x(0)
    window = window_of(node, x.shape[2:])
    ceil = bool(node.integer("ceil_mode", 0))
    by_columns = bool(node.integer("storage_order", 0))
    places = _places_of_maxima(node, x, window, ceil, by_columns) if node.wants(1) else None
    return [_maxima(node, x, window, ceil), places]


def _places_of_maxima(node: Node, x: Operand, window: Window, ceil: bool, by_columns: bool) -> Operand:
    """Places of the maxima, counted through all elements of x; by_columns: of each plane column by column."""
    if not _reached(window):
        raise UnsupportedError("output 1 (Indices) is used, and the padding is more than half of what a window reaches")
    rank = len(window.kernel)
    if by_columns and rank > 2:
        raise UnsupportedError("attribute storage_order is 1 with 3 spatial dimensions, expected at most 2")
    places = node.op(f"max_pool{rank}d_indices", x, window.kernel, **window.arguments, ceil_mode=ceil)
    if by_columns and rank == 2:
        *_, rows, columns = map(Known.of_sizes, x.shape)
        turned = "y = x0 / x1; y0 = (x0 - y * x1) * x2 + y"
        places = node.op("pointwise", [places, columns, rows], turned, dtype="s64")
    planes = node.op("reshape", node.arange(0, x.shape[0] * x.shape[1]), [*x.shape[:2], *[1] * rank])
    size = Known.of_sizes(math.prod(x.shape[2:]))
    made: Operand = node.op("pointwise", [places, planes, size], "y0 = x0 + x1 * x2", dtype="s64")
    return made


def _maxima(node: Node, x: Operand, window: Window, ceil: bool) -> Operand:
    if not _reached(window):
        dtype = numpy_of(x)
        lowest = -math.inf if is_float(x) else int(numpy.iinfo(dtype).min)
        x = node.op("pad", x, _pairs(window), value=float(lowest))
        out = window.out(list(node.x(0).shape[2:]), ceil)
        window.begins, window.ends = [0] * len(out), [0] * len(out)
        if window.out(list(x.shape[2:]), ceil) != out:
            # Windows that begin in the end padding count no more; without padding they would.
            ends = [(o - 1) * s + r for o, s, r in zip(out, window.strides, window.reach, strict=True)]
            rank = len(out)
            ends = [min(end, size) for end, size in zip(ends, x.shape[2:], strict=True)]
            x = node.op("slice", x, [0] * rank, ends, list(range(2, rank + 2)))
    made: Operand = node.op(f"max_pool{len(window.kernel)}d", x, window.kernel, **window.arguments, ceil_mode=ceil)
    return made


@converter("MaxUnpool", since=9)
def max_unpool(node: Node) -> Result:
    x, places = node.x(0), node.x(1)
    window = window_of(node, x.shape[2:])
    if places.shape != x.shape:
        raise ShapeError(f"I has shape {list(places.shape)}, expected {list(x.shape)}, that of X")
    lost = [begin + end for begin, end in zip(window.begins, window.ends, strict=True)]
    shape = [*x.shape[:2]]
    for i, size in enumerate(x.shape[2:]):
        shape.append((size - 1) * window.strides[i] + window.kernel[i] - lost[i])
    total = math.prod(shape)
    none = node.op("expand", node.scalar_like(0, x), [total])
    flat = [node.op("reshape", each, [math.prod(x.shape)]) for each in (places, x)]
    made = node.op("reshape", node.op("scatter", none, 0, *flat, "none"), shape)
    if not node.has(2):
        return made
    # Places are counted in what the window says; what the given shape has beyond it is 0.
    pairs: list[Any] = []
    for given, size in reversed(list(zip(node.integers_at(2)[2:], shape[2:], strict=True))):
        pairs += [0, given - size]
    return node.op("pad", made, pairs)


def _window_sums(node: Node, x: Operand, window: Window, ceil: bool) -> Operand:
    """The sum of each window, by a convolution of each channel with ones."""
    extra = _ceil_ends(window, list(x.shape[2:])) if ceil else [0] * len(window.kernel)
    ends = [end + more for end, more in zip(window.ends, extra, strict=True)]
    channels = x.shape[1]
    ones = numpy.ones(room((channels, 1, *window.kernel), numpy_of(x), node.op_type), numpy_of(x))
    made: Operand = node.op(
        f"conv{len(window.kernel)}d",
        x,
        Known(ones),
        stride=window.strides,
        padding=[*window.begins, *ends],
        dilation=window.dilations,
        groups=channels,
    )
    return made


def _counts(window: Window, sizes: list[int], ceil: bool, padded: bool) -> numpy.ndarray:
    """How many elements each window of an average has: those inside of the input, or of input and padding."""
    room([*window.out(sizes, ceil), max(window.kernel)], "float64", "AveragePool")
    result = numpy.ones((), "float64")
    for i, (size, out) in enumerate(zip(sizes, window.out(sizes, ceil), strict=True)):
        first = numpy.arange(out)[:, None] * window.strides[i] - window.begins[i]
        at = first + numpy.arange(window.kernel[i])[None, :] * window.dilations[i]
        low, high = (-window.begins[i], size + window.ends[i]) if padded else (0, size)
        result = result[..., None] * ((at >= low) & (at < high)).sum(1)
    return result


def average(node: Node, x: Operand) -> Operand:
    """The averages of windows of x, as a node of AveragePool states them."""
    window = window_of(node, x.shape[2:])
    ceil = bool(node.integer("ceil_mode", 0))
    padded = bool(node.integer("count_include_pad", 0))
    made: Operand
    if _reached(window) and max(window.dilations) == 1:
        made = node.op(
            f"avg_pool{len(window.kernel)}d",
            x,
            window.kernel,
            stride=window.strides,
            padding=window.word or window.padding,
            ceil_mode=ceil,
            count_include_pad=padded,
        )
        return made
    counts = _counts(window, list(x.shape[2:]), ceil, padded)
    if counts.min(initial=1) < 1:
        raise UnsupportedError("a window lies in the padding as a whole, expected one element of x in each")
    made = node.op("mul", _window_sums(node, x, window, ceil), Known((1 / counts)[None, None].astype(numpy_of(x))))
    return made


@converter("AveragePool", since=7)
def average_pool(node: Node) -> Result:
    return average(node, node.x(0))


def _root(node: Node, sums: Operand, p: float) -> Result:
    """sums ** (1 / p)"""
    if p == 1:
        return sums
    if p == 2:
        return node.op("sqrt", sums)
    return node.op("pow", sums, node.scalar_like(1 / p, sums))


def _powers(node: Node, x: Operand, p: float) -> Operand:
    """|x| ** p"""
    made: Operand
    if p == 2:
        made = node.op("square", x)
    else:
        made = node.op("abs", x)
        if p != 1:
            made = node.op("pow", made, node.scalar_like(p, x))
    return made


@converter("LpPool", since=2)
def lp_pool(node: Node) -> Result:
    x = node.x(0)
    p = node.integer("p", 2)
    window = window_of(node, x.shape[2:])
    ceil = bool(node.integer("ceil_mode", 0))
    return _root(node, _window_sums(node, _powers(node, x, p), window, ceil), p)


@converter("GlobalAveragePool", since=1)
def global_average_pool(node: Node) -> Result:
    x = node.x(0)
    if 3 <= x.ndim <= 5:
        return node.op("global_avg_pool", x)
    return node.op("mean", x, list(range(2, x.ndim)), True)


@converter("GlobalMaxPool", since=1)
def global_max_pool(node: Node) -> Result:
    x = node.x(0)
    if 3 <= x.ndim <= 5:
        return node.op("global_max_pool", x)
    return node.op("amax", x, list(range(2, x.ndim)), True)


@converter("GlobalLpPool", since=2)
def global_lp_pool(node: Node) -> Result:
    x = node.x(0)
    p = node.integer("p", 2)
    return _root(node, node.op("sum", _powers(node, x, p), list(range(2, x.ndim)), True), p)


@converter("Col2Im", since=18, note="1 to 3 dimensions; image_shape and block_shape known")
def col2im(node: Node) -> Result:
    x, sizes, kernel = node.x(0), node.integers_at(1), node.integers_at(2)
    spatial = len(sizes)
    dilations, strides = (node.integers(name, [1] * spatial) for name in ("dilations", "strides"))
    pads = node.integers("pads", [0] * 2 * spatial)
    if not 1 <= spatial <= 3:
        raise UnsupportedError(f"image_shape has {spatial} values, expected 1 to 3")
    return node.op("fold", x, sizes, kernel, dilations, pads, strides)
