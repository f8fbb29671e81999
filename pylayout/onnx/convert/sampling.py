"""Images read at places between pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ...errors import ShapeError, UnsupportedError
from ..node import Node, dtype_text
from ..operand import Known, Operand, Result
from ..registry import converter
from .math import cast
from .windows import window_of


def _aligned(node: Node, x: Operand, aligned: bool) -> Result:
    size = [node.integer("output_height", 1), node.integer("output_width", 1)]
    mode = {"avg": "mean", "max": "max"}[node.text("mode", "avg", ("avg", "max"))]
    return node.op(
        "roi_align",
        x,
        cast(node, node.x(1), "f32"),
        node.x(2),
        size,
        spatial_scale=node.number("spatial_scale", 1.0),
        sampling_ratio=node.integer("sampling_ratio", 0),
        aligned=aligned,
        mode=mode,
    )


@converter("RoiAlign", since=10)
def roi_align_10(node: Node) -> Result:
    return _aligned(node, node.x(0), False)


@converter("RoiAlign", since=16)
def roi_align(node: Node) -> Result:
    half = node.text("coordinate_transformation_mode", "half_pixel", ("half_pixel", "output_half_pixel"))
    return _aligned(node, node.x(0), half == "half_pixel")


@converter("GridSample", since=16)
def grid_sample(node: Node) -> Result:
    modes = ("linear", "bilinear", "nearest", "cubic", "bicubic")
    return node.op(
        "grid_sample",
        node.x(0),
        cast(node, node.x(1), "f32"),
        mode=node.text("mode", "linear", modes),
        padding_mode=node.text("padding_mode", "zeros", ("zeros", "border", "reflection")),
        align_corners=bool(node.integer("align_corners", 0)),
    )


def _line(node: Node, size: Any, aligned: bool, dtype: str) -> Operand:
    """Places of so many pixels from -1 to 1: of their centres or, aligned, of corners; one pixel lies at 0."""
    places = node.op("cast", node.arange(0, size), dtype)
    count = node.op("cast", Known.of_sizes(size), dtype)
    text = "y0 = x1 > 1 ? 2 * x0 / (x1 - 1) - 1 : 0" if aligned else "y0 = (2 * x0 + 1) / x1 - 1"
    made: Operand = node.op("pointwise", [places, count], text, dtype=dtype)
    return made


@converter("AffineGrid", since=20)
def affine_grid(node: Node) -> Result:
    theta, aligned = node.x(0), bool(node.integer("align_corners", 0))
    spatial = node.integers_at(1)[2:]
    rank = len(spatial)
    if rank not in (2, 3) or [*theta.shape[1:]] != [rank, rank + 1]:
        raise ShapeError(
            f"theta has shape {[*theta.shape]} and size has {rank + 2} elements, expected (n, 2, 3) and 4, or "
            "(n, 3, 4) and 5"
        )
    dtype = dtype_text(theta)
    batch = theta.shape[0]
    parts = node.parts(theta, [1] * (rank + 1), 2)  # of x, y (and z), and what is added
    columns = [node.op("reshape", part, [batch, *[1] * rank, rank]) for part in parts]
    lines = []
    for axis, size in enumerate(reversed(spatial)):  # x goes along the last one
        shape = [1] * (rank + 2)
        shape[rank - axis] = size
        lines.append(node.op("reshape", _line(node, size, aligned, dtype), shape))
    text = " + ".join(f"x{i} * x{rank + 1 + i}" for i in range(rank))
    return node.op("pointwise", [*columns, *lines], f"y0 = {text} + x{rank}", dtype=dtype)


@converter("DeformConv", since=19, note="of images")
def deform_conv(node: Node) -> Result:
    """A convolution whose taps are read where offsets say: all of them as one image, a tap below another."""
    x, weight, offset = node.x(0), node.x(1), node.x(2)
    if x.ndim != 4 or weight.ndim != 4 or offset.ndim != 4:
        raise UnsupportedError(f"x has rank {x.ndim} and W rank {weight.ndim}, expected 4: images")
    groups = node.integer("offset_group", 1)
    window = window_of(node, x.shape[2:], weight.shape[2:])
    batch, channels, height, width = x.shape
    rows, columns = offset.shape[2:]
    taps = math.prod(window.kernel)
    if groups < 1 or channels % groups or offset.shape[1] != 2 * taps * groups:
        raise ShapeError(
            f"offset has {offset.shape[1]} channels and x {channels}, expected {2 * taps} and a divisor for each of "
            f"{groups} groups"
        )
    parts = node.parts(node.op("reshape", offset, [batch * groups, taps, 2, rows, columns]), [1, 1], 2)
    places = []
    for i, (size, count) in enumerate(((height, rows), (width, columns))):
        first = numpy.indices(window.kernel)[i].reshape(taps, 1) * window.dilations[i] - window.begins[i]
        steps = node.op("reshape", node.arange(0, count), [1, count])
        at = node.op("add", Known(first), node.op("mul", steps, Known(numpy.int64(window.strides[i]))))
        at = node.op("reshape", node.op("cast", at, "f32"), [taps, count, 1] if i == 0 else [taps, 1, count])
        by = node.op("reshape", cast(node, parts[i], "f32"), [batch * groups, taps, rows, columns])
        length = node.op("cast", Known.of_sizes(size), "f32")
        places.append(node.op("pointwise", [by, at, length], "y0 = (2 * (x0 + x1) + 1) / x2 - 1"))
    places = [node.op("reshape", each, [batch * groups, taps * rows, columns, 1]) for each in reversed(places)]
    images = node.op("reshape", x, [batch * groups, channels // groups, height, width])
    read = node.op("grid_sample", images, node.op("concat", places, 3), mode="bilinear", padding_mode="zeros")
    if node.has(4):
        mask = node.op("reshape", node.x(4), [batch * groups, 1, taps * rows, columns])
        read = node.op("mul", read, mask)
    read = node.op("reshape", read, [batch, channels, taps, rows * columns])
    flat = node.op("reshape", weight, [*weight.shape[:2], taps, 1])
    bias = node.x(3) if node.has(3) else None
    made = node.op("conv2d", read, flat, bias, groups=node.integer("group", 1))
    return node.op("reshape", made, [batch, weight.shape[0], rows, columns])
