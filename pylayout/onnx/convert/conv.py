"""Convolutions."""

from __future__ import annotations

from typing import Any

from ...errors import ShapeError, UnsupportedError
from ..node import Node
from ..operand import Operand, Result
from ..registry import converter
from .windows import Window, checked, window_of


def spatial_sizes(x: Operand, weight: Operand) -> list[int]:
    """The spatial sizes of x, checked against the rank of the weights."""
    if x.ndim != weight.ndim:
        raise ShapeError(f"x has rank {x.ndim}, the weights have rank {weight.ndim}, expected the same")
    if not 3 <= x.ndim <= 5:
        raise UnsupportedError(f"x has rank {x.ndim}, expected 3 to 5")
    return list(x.shape[2:])


def cropped(node: Node, x: Operand, window: Window) -> Operand:
    """x with what negative pads cut away, which the window then has no more."""
    if min(window.padding) >= 0:
        return x
    pairs = []
    for i in reversed(range(len(window.begins))):
        pairs += [min(window.begins[i], 0), min(window.ends[i], 0)]
    window.begins = [max(value, 0) for value in window.begins]
    window.ends = [max(value, 0) for value in window.ends]
    made: Operand = node.op("pad", x, pairs)
    return made


def channels_last(node: Node, x: Operand) -> Operand:
    """Channels last."""
    made: Operand = node.op("permute", x, [0, *range(2, x.ndim), 1])
    return made


def channels_first(node: Node, x: Operand) -> Operand:
    """Channels, which are the last dimension, behind the batch."""
    made: Operand = node.op("permute", x, [0, x.ndim - 1, *range(1, x.ndim - 1)])
    return made


def convolution(node: Node, op: str, x: Operand, weight: Operand, *others: Any, **more: Any) -> Result:
    """The op with the node's window and groups; what negative pads cut away is cut from x before."""
    window = window_of(node, spatial_sizes(x, weight), weight.shape[2:])
    x = cropped(node, x, window)
    return node.op(op, x, weight, *others, **window.arguments, groups=node.integer("group", 1), **more)


@converter("Conv", since=1)
def conv(node: Node) -> Result:
    x = node.x(0)
    return convolution(node, f"conv{x.ndim - 2}d", x, node.x(1), node.optional(2))


@converter("ConvTranspose", since=1)
def conv_transpose(node: Node) -> Result:
    x, weight, bias = node.x(0), node.x(1), node.optional(2)
    sizes = spatial_sizes(x, weight)
    rank = len(sizes)
    mode = node.text("auto_pad", "NOTSET", ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", ""))
    window = window_of(node, sizes, weight.shape[2:])
    window.word = ""  # of a transposed convolution the result's sizes are what SAME is about
    extra = checked(node, "output_padding", node.integers("output_padding", [0] * rank), rank, 0)
    wanted = node.integers("output_shape", None)
    if wanted is None and mode.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(sizes, window.strides, strict=True)]
    if wanted is not None:
        wanted = checked(node, "output_shape", wanted[-rank:] if len(wanted) == rank + 2 else wanted, rank, 1)
        for i in range(rank):
            total = window.strides[i] * (sizes[i] - 1) + extra[i] + window.reach[i] - wanted[i]
            small = total // 2
            window.begins[i], window.ends[i] = small, total - small
            if mode != "SAME_UPPER":
                window.begins[i], window.ends[i] = window.ends[i], window.begins[i]
    arguments = {**window.arguments, "groups": node.integer("group", 1)}
    op = f"conv_transpose{rank}d"
    limits = [max(s, d) for s, d in zip(window.strides, window.dilations, strict=True)]
    if min(window.padding) >= 0 and all(e < limit for e, limit in zip(extra, limits, strict=True)):
        return node.op(op, x, weight, bias, output_padding=extra, **arguments)
    # Beyond what the op takes: the whole result, with borders of zeros added or cut, then the bias.
    y = node.op(op, x, weight, None, **{**arguments, "padding": 0})
    pairs = []
    for i in reversed(range(rank)):
        pairs += [-window.begins[i], extra[i] - window.ends[i]]
    y = node.op("pad", y, pairs)
    if bias is None:
        return y
    return node.op("add", y, node.op("reshape", bias, [1, -1, *[1] * rank]))
