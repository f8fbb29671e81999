"""Look-up by index."""

from __future__ import annotations

from typing import Any

from ..call import Call, Operand, require
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


@converter("index_select.default")
def index_select(call: Call, x: Operand, dim: int, index: Operand) -> Operand:
    require(x.ndim > 0 and index.ndim == 1, "rank 0")
    made: Operand = call.op("index_select", x, dim, index)
    return made


@converter("gather.default")
def gather(call: Call, x: Operand, dim: int, index: Operand, sparse_grad: bool = False) -> Operand:
    require(x.ndim > 0 and index.ndim == x.ndim, "rank 0")
    made: Operand = call.op("gather", x, dim, index)
    return made


@converter("index.Tensor", note="by several tensors, and by bool")
def index(call: Call, x: Operand, indices: Any) -> Operand:
    given = [(dim, each) for dim, each in enumerate(indices) if each is not None]
    require(len(given) == 1 and given[0][1].dtype in ("s64", "s32"), "several tensors, or bool")
    dim, place = given[0]
    made: Operand = call.op("index_select", x, dim, place)
    return made
