"""Ops of PyTorch made of others, where PyTorch itself has no way to write them so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .fast_paths import encoder_layer, multi_head_attention

__all__ = ["COMPOSED"]

aten = torch.ops.aten
Tensor = torch.Tensor
SUM, MEAN = 0, 1


def trilinear(
    i1: Tensor, i2: Tensor, i3: Tensor, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int],
    sumdim: Sequence[int], unroll_dim: int = 1,
) -> Tensor:  # fmt: skip
    """The product of three tensors, each without some of the dimensions, summed over others: of `nn.Bilinear`."""
    rank = i1.dim() + len(expand1)
    names = "abcdefgh"[:rank]
    given = [
        "".join(name for dim, name in enumerate(names) if dim not in {each % rank for each in expanded})
        for expanded in (expand1, expand2, expand3)
    ]
    left = "".join(name for dim, name in enumerate(names) if dim not in {each % rank for each in sumdim})
    between = "".join(name for name in names if name in left + given[2] and name in given[0] + given[1])
    return torch.einsum(f"{between},{given[2]}->{left}", torch.einsum(f"{given[0]},{given[1]}->{between}", i1, i2), i3)


def _bags(indices: Tensor, starts: Tensor) -> Tensor:
    """The bag of each index; bags without any begin where the next one does."""
    marks = torch.zeros(indices.shape[0] + 1, dtype=torch.int64, device=indices.device)
    ones = torch.ones_like(starts, dtype=torch.int64)
    return marks.scatter_add(0, starts.to(torch.int64), ones).cumsum(0)[:-1] - 1


def _counting(indices: Tensor, dtype: torch.dtype, padding_idx: int) -> Tensor | None:
    return None if padding_idx < 0 else (indices != padding_idx).to(dtype)[:, None]


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = SUM,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    """`aten::_embedding_bag` of sums and means."""
    if mode not in (SUM, MEAN) or sparse or scale_grad_by_freq:
        return NotImplemented
    bags = _bags(indices, offsets)
    rows = weight.index_select(0, indices)
    counts = _counting(indices, weight.dtype, padding_idx)
    if counts is not None:
        rows = rows * counts
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    made = weight.new_zeros((offsets.shape[0], weight.shape[1])).index_add(0, bags, rows)
    each = weight.new_ones(indices.shape[0]) if counts is None else counts[:, 0]
    sizes = weight.new_zeros(offsets.shape[0]).index_add(0, bags, each)
    if include_last_offset:  # what lies behind it is in no bag
        made, sizes = made[:-1], sizes[:-1]
    if mode == MEAN:
        made = made / sizes.clamp(min=1)[:, None]
    return made, bags, sizes.to(torch.int64), offsets.new_zeros(made.shape[0])


def embedding_bag_backward(
    grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor, maximum_indices: Tensor,
    num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    if mode not in (SUM, MEAN) or sparse or scale_grad_by_freq:
        return NotImplemented
    if mode == MEAN:
        grad = grad / bag_size.clamp(min=1).to(grad.dtype)[:, None]
    rows = torch.cat([grad, grad.new_zeros((1, grad.shape[1]))]).index_select(0, offset2bag)
    counts = _counting(indices, grad.dtype, padding_idx)
    if counts is not None:
        rows = rows * counts
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    return grad.new_zeros((num_weights, grad.shape[1])).index_add(0, indices, rows)


# By op; one that gives NotImplemented stays as it is.
COMPOSED: dict[Any, Callable[..., Any]] = {
    aten._trilinear.default: trilinear,
    aten._embedding_bag.default: embedding_bag,
    aten._embedding_bag_backward.default: embedding_bag_backward,
    aten._native_multi_head_attention.default: multi_head_attention,
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
