"""Bags of embeddings as one op, which joins rows as it looks them up: what compositions write them as.

PyTorch runs these ops where plans refuse them.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["MAX", "MEAN", "SUM", "embedding_bag", "embedding_bag_rows", "ends_of"]

SUM, MEAN, MAX = 0, 1, 2  # PyTorch's numbers of modes


def ends_of(indices: torch.Tensor, offsets: torch.Tensor, include_last_offset: bool) -> torch.Tensor:
    """Where bags end, of where they begin, as PyTorch has it."""
    if include_last_offset or offsets.shape[0] == 0:
        return offsets[1:]
    return torch.cat([offsets[1:], offsets.new_full((1,), indices.shape[0])])


def _of_pytorch(
    weight: torch.Tensor, indices: torch.Tensor, ends: torch.Tensor, mode: int, scales: Any, padding_idx: int
) -> tuple[torch.Tensor, ...]:
    offsets = torch.cat([ends.new_zeros(1), ends]).to(torch.int64)
    last = int(offsets[-1])  # behind it is what is in no bag, which PyTorch's own kernels have not all
    indices, scales = indices[:last], None if scales is None else scales[:last]
    made: tuple[torch.Tensor, ...] = torch.ops.aten._embedding_bag.default(
        weight, indices.to(torch.int64), offsets, False, mode, False, scales, True, padding_idx
    )
    return made


@torch.library.custom_op("pylayout::embedding_bag", mutates_args=())
def embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    ends: torch.Tensor,
    mode: int,
    scales: torch.Tensor | None,
    padding_idx: int,
) -> torch.Tensor:
    """Rows of `weight` joined: bag b has the indices from ends[b - 1] to ends[b]."""
    return _of_pytorch(weight, indices, ends, mode, scales, padding_idx)[0]


@embedding_bag.register_fake
def _(weight: torch.Tensor, indices: Any, ends: torch.Tensor, *_: Any) -> torch.Tensor:
    return weight.new_empty((ends.shape[0], weight.shape[1]))


@torch.library.custom_op("pylayout::embedding_bag_rows", mutates_args=())
def embedding_bag_rows(
    weight: torch.Tensor, indices: torch.Tensor, ends: torch.Tensor, padding_idx: int
) -> torch.Tensor:
    """Of the largest elements of each bag the rows of `weight`."""
    return _of_pytorch(weight, indices, ends, MAX, None, padding_idx)[3]


@embedding_bag_rows.register_fake
def _(weight: torch.Tensor, indices: Any, ends: torch.Tensor, *_: Any) -> torch.Tensor:
    return ends.new_empty((ends.shape[0], weight.shape[1]), dtype=torch.int64)
