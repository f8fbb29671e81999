"""Quantised tables by ONNX Runtime: rows of embeddings that are integers of few bits, in blocks with scales."""

from __future__ import annotations

from ...errors import ShapeError, UnsupportedError
from ..fold import arange
from ..node import Node, dtype_text
from ..operand import Known, Operand, Result
from ..registry import converter
from .fused import DOMAIN
from .math import cast
from .quantized import real_blocks, widened


def _unpacked(node: Node, rows: Operand, bits: int) -> Operand:
    """Numbers of so many bits in f32, of bytes that hold several, the first in the lowest bits."""
    rest = cast(node, rows, "f32")
    if bits == 8:
        return rest
    parts = []
    for _ in range(8 // bits):
        more = node.op("floor", node.op("mul", rest, node.constant(0.5**bits, "float32")))
        parts.append(node.op("sub", rest, node.op("mul", more, node.constant(2.0**bits, "float32"))))
        rest = more
    parts = [node.op("reshape", part, [*rows.shape, 1]) for part in parts]
    joined = node.op("concat", parts, rows.ndim)
    made: Operand = node.op("reshape", joined, [*rows.shape[:-1], rows.shape[-1] * len(parts)])
    return made


def _numbers(node: Node, table: Operand, places: Operand, axis: int, bits: int) -> Operand:
    """The numbers of rows of a table in f32; bits: of how many they are, 0 where each has an element of its own."""
    rows = node.op("index_select", widened(table), axis, places)
    return _unpacked(node, rows, bits) if bits else cast(node, rows, "f32")


@converter("GatherBlockQuantized", domain=DOMAIN, note="constants of int4, uint4 and uint8; no index beyond the table")
def gather_block_quantized(node: Node) -> Result:
    """Rows become numbers after they are taken, so that the table stays as small as it is."""
    table, places, scale, zero = node.x(0), node.x(1), node.x(2), node.optional(3)
    dtype, rank, block = str(node.known(0).dtype), table.ndim, node.integer("block_size", 128)
    if dtype not in ("int4", "uint4", "uint8"):
        raise UnsupportedError(f"data is {dtype}, expected int4, uint4 or uint8")
    axis = node.axis(node.integer("gather_axis", 0), rank, "gather_axis")
    along = node.axis(node.integer("quantize_axis", 1), rank, "quantize_axis")
    bits = node.integer("bits", 4)
    if dtype == "uint8":
        if bits not in (2, 4, 8):
            raise UnsupportedError(f"attribute bits is {bits}, expected 2, 4 or 8")
        if axis != 0 or along != rank - 1 or rank < 2:
            raise UnsupportedError(f"gather_axis is {axis} and quantize_axis {along}, expected the first and the last")
    else:
        bits = 0
    width = table.shape[along] * (8 // bits if bits else 1)
    if block < 1 or scale.ndim != rank or scale.shape[along] != -(-width // block):
        raise ShapeError(f"scales have shape {list(scale.shape)}, which does not fit blocks of {block} of {width}")
    groups = arange(width) // block
    if axis == along:  # blocks are torn apart: the numbers of all of them, then those asked for
        centres = 0 if zero is None else widened(Known(node.known(3))).array
        real = real_blocks(widened(Known(node.known(0))).array, node.known(2), centres, along, groups)
        return node.op("index_select", real, axis, places)
    now = along if along < axis else along + places.ndim - 1  # where the blocks are, once rows are taken
    numbers = _numbers(node, table, places, axis, bits)
    if zero is not None:
        centres = _numbers(node, zero, places, axis, bits)
        centres = node.op("slice", centres, [0], [scale.shape[along]], [now])  # the last byte may be filled up
        numbers = node.op("sub", numbers, node.op("index_select", centres, now, Known(groups)))
    elif bits:
        numbers = node.op("sub", numbers, node.constant(2.0 ** (bits - 1), "float32"))
    scales = cast(node, node.op("index_select", scale, axis, places), "f32")
    numbers = node.op("mul", numbers, node.op("index_select", scales, now, Known(groups)))
    return cast(node, numbers, dtype_text(scale))
