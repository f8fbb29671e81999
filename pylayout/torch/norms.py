"""Norms as one op each way, which keep no statistics: those are computed again for less than it takes to keep them.

PyTorch runs these ops where plans refuse them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._prims_common import suggest_memory_format

__all__ = ["group_norm", "group_norm_backward", "layer_norm", "layer_norm_backward"]

aten = torch.ops.aten

Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@torch.library.custom_op("pylayout::layer_norm", mutates_args=())
def layer_norm(
    x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> torch.Tensor:
    made: torch.Tensor = aten.native_layer_norm(x, shape, weight, bias, eps)[0]
    return made


@layer_norm.register_fake
def _(
    x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("pylayout::layer_norm_backward", mutates_args=())
def layer_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, eps: float
) -> Three:
    weight = x.new_ones(shape) if weight is None else weight
    _, mean, inverse = aten.native_layer_norm(x, shape, weight, None, eps)
    made: Three = aten.native_layer_norm_backward(grad, x, shape, mean, inverse, weight, weight, [True] * 3)
    return made


@layer_norm_backward.register_fake
def _(grad: torch.Tensor, x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, eps: float) -> Three:
    like = x if weight is None else weight
    return torch.empty_like(x), like.new_empty(shape), like.new_empty(shape)


def _sizes(x: torch.Tensor, groups: int) -> tuple[int, int, int, int]:
    return x.shape[0], x.shape[1], x[0, 0].numel() if x.numel() else 0, groups


@torch.library.custom_op("pylayout::group_norm", mutates_args=())
def group_norm(
    x: torch.Tensor, groups: int, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> torch.Tensor:
    x = x.contiguous(memory_format=suggest_memory_format(x))
    made: torch.Tensor = aten.native_group_norm(x, weight, bias, *_sizes(x, groups), eps)[0]
    return made


@group_norm.register_fake
def _(x: torch.Tensor, groups: int, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    return torch.empty_like(x, memory_format=suggest_memory_format(x))


@torch.library.custom_op("pylayout::group_norm_backward", mutates_args=())
def group_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, groups: int, weight: torch.Tensor | None, eps: float
) -> Three:
    form = suggest_memory_format(x)  # PyTorch's kernel reads both as one of them lies
    grad, x = grad.contiguous(memory_format=form), x.contiguous(memory_format=form)
    weight = x.new_ones(x.shape[1]) if weight is None else weight
    _, mean, inverse = aten.native_group_norm(x, weight, None, *_sizes(x, groups), eps)
    made: Three = aten.native_group_norm_backward(grad, x, mean, inverse, weight, *_sizes(x, groups), [True] * 3)
    return made


@group_norm_backward.register_fake
def _(grad: torch.Tensor, x: torch.Tensor, groups: int, weight: torch.Tensor | None, eps: float) -> Three:
    like = x if weight is None else weight
    return torch.empty_like(x), like.new_empty(x.shape[1]), like.new_empty(x.shape[1])
