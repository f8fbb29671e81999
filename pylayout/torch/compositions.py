"""Ops of PyTorch made of others, where PyTorch itself has no way to write them so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .fast_paths import encoder_layer, multi_head_attention

__all__ = ["COMPOSED"]

aten = torch.ops.aten
Tensor = torch.Tensor
SUM, MEAN, MAX = 0, 1, 2


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
    """`aten::_embedding_bag`. By how often a row is read PyTorch's CPU scales gradients of others: left to it."""
    if sparse or scale_grad_by_freq:
        return NotImplemented
    bags = _bags(indices, offsets)
    rows = weight.index_select(0, indices)
    counts = _counting(indices, weight.dtype, padding_idx)
    each = weight.new_ones(indices.shape[0]) if counts is None else counts[:, 0]
    sizes = weight.new_zeros(offsets.shape[0]).index_add(0, bags, each)
    chosen = offsets.new_zeros(offsets.shape[0])
    if mode == MAX:
        made, chosen = _largest(rows, indices, bags, sizes, counts)
    else:
        if counts is not None:
            rows = rows * counts
        if per_sample_weights is not None:
            rows = rows * per_sample_weights[:, None]
        made = weight.new_zeros((offsets.shape[0], weight.shape[1])).index_add(0, bags, rows)
    if include_last_offset:  # what lies behind it is in no bag
        made, sizes, chosen = made[:-1], sizes[:-1], chosen[:-1]
    if mode == MEAN:
        made = made / sizes.clamp(min=1)[:, None]
    return made, bags, sizes.to(torch.int64), chosen


def _largest(
    rows: Tensor, indices: Tensor, bags: Tensor, sizes: Tensor, counts: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The largest of each column in each bag, and of which row of the table it is: the first of equal ones."""
    if counts is not None:
        rows = rows.masked_fill(counts == 0, -math.inf)
    into, width = bags[:, None].expand(rows.shape), rows.shape[1]
    made = rows.new_full((sizes.shape[0], width), -math.inf).scatter_reduce(0, into, rows, "amax")
    places = torch.arange(rows.shape[0], device=rows.device)[:, None].expand(rows.shape)
    behind = torch.full_like(made, rows.shape[0], dtype=torch.int64)
    places = torch.where(rows == made.index_select(0, bags), places, rows.shape[0])
    first = behind.scatter_reduce(0, into, places, "amin")
    found = torch.cat([indices.to(torch.int64), indices.new_zeros(1, dtype=torch.int64)])
    filled = (sizes > 0)[:, None]
    chosen = found.index_select(0, first.reshape(-1)).reshape(first.shape)
    return torch.where(filled, made, 0), torch.where(filled, chosen, 0)


def embedding_bag_backward(
    grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor, maximum_indices: Tensor,
    num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    if sparse or scale_grad_by_freq:
        return NotImplemented
    none = grad.new_zeros((num_weights, grad.shape[1]))
    if mode == MAX:
        filled = (bag_size > 0).to(grad.dtype)[:, None]
        return none.scatter_add(0, maximum_indices.to(torch.int64), grad * filled)
    if mode == MEAN:
        grad = grad / bag_size.clamp(min=1).to(grad.dtype)[:, None]
    rows = torch.cat([grad, grad.new_zeros((1, grad.shape[1]))]).index_select(0, offset2bag)
    counts = _counting(indices, grad.dtype, padding_idx)
    if counts is not None:
        rows = rows * counts
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    return none.index_add(0, indices, rows)


def embedding_bag_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    """The gradient of `per_sample_weights`."""
    if mode != SUM:
        return NotImplemented
    rows = torch.cat([grad, grad.new_zeros((1, grad.shape[1]))]).index_select(0, offset2bag)
    counts = _counting(indices, grad.dtype, padding_idx)
    made = (rows * weight.index_select(0, indices)).sum(1)
    return made if counts is None else made * counts[:, 0]


def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """`aten::embedding_renorm`: rows that are read are shortened to a norm."""
    places = indices.reshape(-1)
    rows = weight.index_select(0, places)
    norms = torch.linalg.vector_norm(rows, norm_type, 1, True)
    return weight.index_copy(0, places, torch.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows))


def unfold_backward(grad: Tensor, input_sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    """Windows added up where they lie, as images of one column: PyTorch adds each place of a window by itself."""
    if not input_sizes or not grad.is_floating_point():
        return NotImplemented
    dim %= len(input_sizes)
    windows = grad.movedim(dim, -2)
    length = input_sizes[dim]
    columns = windows.reshape(-1, windows.shape[-2], size).mT
    sums = aten.col2im(columns, [length, 1], [size, 1], [1, 1], [0, 0], [step, 1])
    return sums.reshape(*windows.shape[:-2], length).movedim(-1, dim)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool) -> Any:
    """Each coordinate by itself, since sums of products of two or three numbers are slow."""

    def places(dim: int) -> Tensor:
        steps = size[dim]
        if steps <= 1:
            return theta.new_zeros(1)
        last = 1.0 if align_corners else (steps - 1) / steps
        return torch.linspace(-last, last, steps, dtype=theta.dtype, device=theta.device)

    spatial = len(size) - 2
    axes = []
    for axis in range(spatial):  # x is the last one
        shape = [1] * (spatial + 1)
        shape[spatial - axis] = -1
        axes.append(places(len(size) - 1 - axis).reshape(shape))
    made = []
    for row in range(spatial):
        factors = [theta[:, row, column].reshape(-1, *[1] * spatial) for column in range(spatial + 1)]
        rest: Any = factors[-1]
        for axis in range(spatial):
            rest = rest + axes[axis] * factors[axis]
        made.append(rest)
    return torch.stack(made, -1)


# By op; one that gives NotImplemented stays as it is.
COMPOSED: dict[Any, Callable[..., Any]] = {
    aten._trilinear.default: trilinear,
    aten._embedding_bag.default: embedding_bag,
    aten._embedding_bag_forward_only.default: embedding_bag,
    aten._embedding_bag_backward.default: embedding_bag_backward,
    aten._embedding_bag_per_sample_weights_backward.default: embedding_bag_weights_backward,
    aten.embedding_renorm.default: embedding_renorm,
    aten.unfold_backward.default: unfold_backward,
    aten.affine_grid_generator.default: affine_grid,
    aten._native_multi_head_attention.default: multi_head_attention,
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
