"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from ..call import Call, Operand, require
from ..registry import converter


@converter("convolution.default")
def convolution(
    call: Call,
    x: Operand,
    weight: Operand,
    bias: Operand | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Operand:
    rank = weight.ndim - 2
    require(1 <= rank <= 3, f"{rank} spatial dimensions")

    def each(values: Sequence[int]) -> list[int]:
        return [int(value) for value in values] * (rank if len(values) == 1 else 1)

    window = {"stride": each(stride), "padding": each(padding), "dilation": each(dilation), "groups": int(groups)}
    if transposed:
        window["output_padding"] = each(output_padding)
    op = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    made: Operand = call.op(op, x, weight, bias, **window)
    return made
