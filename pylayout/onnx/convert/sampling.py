"""Images read at places between pixels."""

from __future__ import annotations

from ..node import Node, dtype_text
from ..operand import Operand, Result
from ..registry import converter


def _as_f32(node: Node, operand: Operand) -> Operand:
    return operand if dtype_text(operand) == "f32" else node.op("cast", operand, "f32")


def _aligned(node: Node, x: Operand, aligned: bool) -> Result:
    size = [node.integer("output_height", 1), node.integer("output_width", 1)]
    mode = {"avg": "mean", "max": "max"}[node.text("mode", "avg", ("avg", "max"))]
    return node.op(
        "roi_align",
        x,
        _as_f32(node, node.x(1)),
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
        _as_f32(node, node.x(1)),
        mode=node.text("mode", "linear", modes),
        padding_mode=node.text("padding_mode", "zeros", ("zeros", "border", "reflection")),
        align_corners=bool(node.integer("align_corners", 0)),
    )
