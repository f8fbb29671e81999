"""Ops of PyTorch made of others, where PyTorch itself has no way to write them so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import lists
from .bags import MAX, MEAN, SUM, ends_of
from .bags import embedding_bag as joined_rows
from .bags import embedding_bag_rows as chosen_rows
from .fast_paths import encoder_layer, multi_head_attention

__all__ = ["COMPOSED"]

aten = torch.ops.aten
Tensor = torch.Tensor


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
    ends = ends_of(indices, offsets, include_last_offset)
    bags = _bags(indices, offsets)
    counts = _counting(indices, weight.dtype, padding_idx)
    each = weight.new_ones(indices.shape[0]) if counts is None else counts[:, 0]
    sizes = weight.new_zeros(offsets.shape[0]).index_add(0, bags, each)
    if include_last_offset:  # what lies behind it is in no bag
        sizes = sizes[:-1]
    made = joined_rows(weight, indices, ends, mode, per_sample_weights, padding_idx)
    chosen = chosen_rows(weight, indices, ends, padding_idx) if mode == MAX else torch.zeros_like(ends)
    return made, bags, sizes.to(torch.int64), chosen


def embedding_bag_backward(
    grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor, maximum_indices: Tensor,
    num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    if sparse or scale_grad_by_freq:
        return NotImplemented
    if mode == MAX:
        filled = (bag_size > 0).to(grad.dtype)[:, None]
        none = grad.new_zeros((num_weights, grad.shape[1]))
        return none.scatter_add(0, maximum_indices.to(torch.int64), grad * filled)
    if mode == MEAN:
        grad = grad / bag_size.clamp(min=1).to(grad.dtype)[:, None]
    rows = torch.cat([grad, grad.new_zeros((1, grad.shape[1]))]).index_select(0, offset2bag)
    counts = _counting(indices, grad.dtype, padding_idx)
    if counts is not None:
        rows = rows * counts
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    return aten.embedding_dense_backward(rows, indices, num_weights, -1, False)


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


FEW = 8  # steps of a window that are added up one after the other


def unfold_backward(grad: Tensor, input_sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    """Windows added up where they lie, by parts as long as a step; PyTorch adds each place of a window by itself.

    Of windows of many steps: as images of one column.
    """
    if not input_sizes or not grad.is_floating_point():
        return NotImplemented
    dim %= len(input_sizes)
    windows = grad.movedim(dim, -2)
    length, steps = input_sizes[dim], -(-size // step)
    if steps > FEW:
        columns = windows.reshape(-1, windows.shape[-2], size).mT
        sums = aten.col2im(columns, [length, 1], [size, 1], [1, 1], [0, 0], [step, 1])
        return sums.reshape(*windows.shape[:-2], length).movedim(-1, dim)
    pad = torch.nn.functional.pad
    if size < steps * step:
        windows = pad(windows, (0, steps * step - size))
    parts = windows.reshape(*windows.shape[:-1], steps, step).unbind(-2)
    made: Any = None  # part k of a window lies where the first one of the k-th window after it does
    for k, part in enumerate(parts):
        shifted = pad(part, (0, 0, k, steps - 1 - k)) if steps > 1 else part
        made = shifted if made is None else made + shifted
    sums = made.reshape(*made.shape[:-2], made.shape[-2] * step)
    missing = length - sums.shape[-1]
    return (pad(sums, (0, missing)) if missing else sums).movedim(-1, dim)


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
    **lists.COMPOSED,
}
