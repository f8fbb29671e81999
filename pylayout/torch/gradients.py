"""Gradients of ops by what forward was given, in the place of what it keeps besides its result.

Plans keep no indices of pools, statistics of norms or logarithms of sums: computed again, they cost less than they take
to write and read. PyTorch runs these ops where plans refuse them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch.fx import Graph, Node

__all__ = ["ALIASES", "KEPT", "replace_gradients"]

aten = torch.ops.aten
own = torch.ops.pylayout

ALIASES = (aten.alias.default, aten.detach.default)  # ops that give the tensor that they are given

Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@torch.library.custom_op("pylayout::max_pool_backward", mutates_args=())
def max_pool_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> torch.Tensor:
    three = len(kernel_size) == 3
    forward = aten.max_pool3d_with_indices if three else aten.max_pool2d_with_indices
    backward = aten.max_pool3d_with_indices_backward if three else aten.max_pool2d_with_indices_backward
    window = (kernel_size, stride, padding, dilation, ceil_mode)
    made: torch.Tensor = backward(grad, x, *window, forward(x, *window)[1])
    return made


@max_pool_backward.register_fake
def _(grad: torch.Tensor, x: torch.Tensor, *window: Any) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("pylayout::attention_backward", mutates_args=())
def attention_backward(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> Three:
    keywords = {"attn_mask": attn_mask, "scale": scale}
    out, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, is_causal, **keywords)
    made: Three
    made = aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, logsumexp, 0.0, is_causal, **keywords
    )
    return made


@attention_backward.register_fake
def _(grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any) -> Three:
    # As PyTorch's op gives them: (n, s, heads, e) in memory.
    made = (each.new_empty([each.shape[dim] for dim in (0, 2, 1, 3)]).transpose(1, 2) for each in (q, k, v))
    return next(made), next(made), next(made)


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


@torch.library.custom_op("pylayout::group_norm_backward", mutates_args=())
def group_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, groups: int, eps: float
) -> Three:
    form = suggest_memory_format(x)  # PyTorch's kernel reads both as one of them lies
    grad, x = grad.contiguous(memory_format=form), x.contiguous(memory_format=form)
    n, channels, positions = x.shape[0], x.shape[1], x[0, 0].numel() if x.numel() else 0
    weight = x.new_ones(channels) if weight is None else weight
    sizes = (n, channels, positions, groups)
    _, mean, inverse = aten.native_group_norm(x, weight, None, *sizes, eps)
    made: Three = aten.native_group_norm_backward(grad, x, mean, inverse, weight, *sizes, [True] * 3)
    return made


@group_norm_backward.register_fake
def _(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, groups: int, eps: float) -> Three:
    like = x if weight is None else weight
    return torch.empty_like(x), like.new_empty(x.shape[1]), like.new_empty(x.shape[1])


# Not written as smaller ops when they are traced: norms, so that they are found here; parts of tensors, whose gradients
# are zeros around them, so that plans join those of one tensor (pass join_parts).
KEPT = (
    aten.native_layer_norm_backward.default,
    aten.native_group_norm_backward.default,
    aten.slice_backward.default,
    aten.select_backward.default,
)


def _max_pool(node: Node, rank: int) -> tuple[Any, ...]:
    grad, x, kernel, stride, padding, dilation, ceil_mode, _ = node.args
    window = [[*values] * (rank if len(values) == 1 else 1) for values in (kernel, stride or kernel, padding, dilation)]  # type: ignore[arg-type, misc]
    return grad, x, *window, ceil_mode


def _attention(node: Node) -> tuple[Any, ...] | None:
    grad, q, k, v, _, _, dropout, is_causal = node.args
    mask, scale = (node.kwargs.get(name) for name in ("attn_mask", "scale"))
    return (grad, q, k, v, mask, is_causal, scale) if dropout == 0 else None


def _eps(statistics: Any, forward: Any) -> Any:
    """That of the norm which gave statistics; None where it is not in the graph."""
    while isinstance(statistics, Node) and statistics.target in ALIASES:
        statistics = statistics.args[0]
    if not isinstance(statistics, Node) or statistics.target is not operator.getitem:
        return None
    norm = statistics.args[0]
    return norm.args[-1] if isinstance(norm, Node) and norm.target is forward else None


def _layer_norm(node: Node) -> tuple[Any, ...] | None:
    grad, x, shape, mean, _, weight, *_ = node.args
    eps = _eps(mean, aten.native_layer_norm.default)
    return None if eps is None else (grad, x, shape, weight, eps)


def _group_norm(node: Node) -> tuple[Any, ...] | None:
    grad, x, mean, _, weight, _, _, _, groups, *_ = node.args
    eps = _eps(mean, aten.native_group_norm.default)
    return None if eps is None else (grad, x, weight, groups, eps)


def _hardtanh(node: Node) -> tuple[Any, ...] | None:
    """Read of the result, which the next op reads anyway: it is at a limit where what it was made of is."""
    grad, x, *limits = node.args
    while isinstance(x, Node) and x.target is aten.clone.default:  # of what is done in place the argument is kept so
        x = x.args[0]
    users = x.users if isinstance(x, Node) else ()
    made = (user for user in users if user.target is aten.hardtanh.default)
    result = next((user for user in made if [*user.args[1:], *(-1, 1)[len(user.args) - 1 :]] == limits), None)
    return None if result is None else (grad, result, *limits)


def _batch_norm(node: Node) -> tuple[Any, ...] | None:
    """Without running statistics, which it does not read in training: forward need not keep them."""
    grad, x, weight, _, _, mean, inverse, train, *others = node.args
    return (grad, x, weight, None, None, mean, inverse, train, *others) if train is True else None


_REPLACED: dict[Any, tuple[Any, Callable[[Node], tuple[Any, ...] | None]]] = {
    aten.max_pool2d_with_indices_backward.default: (own.max_pool_backward.default, lambda node: _max_pool(node, 2)),
    aten.max_pool3d_with_indices_backward.default: (own.max_pool_backward.default, lambda node: _max_pool(node, 3)),
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: (own.attention_backward.default, _attention),
    aten.native_batch_norm_backward.default: (aten.native_batch_norm_backward.default, _batch_norm),
    aten.hardtanh_backward.default: (aten.hardtanh_backward.default, _hardtanh),
    aten.native_layer_norm_backward.default: (own.layer_norm_backward.default, _layer_norm),
    aten.native_group_norm_backward.default: (own.group_norm_backward.default, _group_norm),
}


def replace_gradients(graph: Graph) -> None:
    """Put these ops in the place of PyTorch's."""
    for node in [*graph.nodes]:
        if node.target in _REPLACED:
            target, arguments_of = _REPLACED[node.target]
            arguments = arguments_of(node)
            if arguments is not None:
                node.target, node.args, node.kwargs = target, arguments, {}
    graph.eliminate_dead_code()
