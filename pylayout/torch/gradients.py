"""Gradients of ops by what forward was given, in the place of what it keeps besides its result.

Plans keep no indices of pools, statistics of norms or logarithms of sums: computed again, they cost less than they take
to write and read. PyTorch runs these ops where plans refuse them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from . import norms as _norms  # noqa: F401  # defines pylayout::layer_norm_backward

__all__ = ["ALIASES", "KEPT", "replace_gradients", "unaliased", "uncopied"]

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


# The gradients of functions behind batch norms, by the names of the library's ops: of the gradient by the result, the
# argument, and the function's numbers.
_SLOPES: dict[str, Callable[..., torch.Tensor]] = {
    "relu": lambda grad, y: aten.threshold_backward(grad, y, 0),
    "relu6": lambda grad, y: aten.hardtanh_backward(grad, y, 0, 6),
    "clip": aten.hardtanh_backward,
    "silu": aten.silu_backward,
    "hardswish": aten.hardswish_backward,
    "mish": aten.mish_backward,
    "gelu_erf": aten.gelu_backward,
    "gelu_tanh": lambda grad, y: aten.gelu_backward(grad, y, approximate="tanh"),
    "leaky_relu": lambda grad, y, slope: aten.leaky_relu_backward(grad, y, slope, False),
}


@torch.library.custom_op("pylayout::batch_norm_activation_backward", mutates_args=())
def batch_norm_activation_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    inverse: torch.Tensor,
    eps: float,
    activation: str,
    numbers: Sequence[float],
) -> Three:
    """Of a batch norm of training and of a function behind it, by the gradient of that one's result."""
    scale = x.new_ones(x.shape[1]) if weight is None else weight
    along = [1, -1, *[1] * (x.ndim - 2)]
    y = (x - mean.view(along)) * (inverse * scale).view(along)
    y = y if bias is None else y + bias.view(along)
    before = _SLOPES[activation](grad, y.to(grad.dtype), *numbers)
    made: Three = aten.native_batch_norm_backward(before, x, scale, None, None, mean, inverse, True, eps, [True] * 3)
    return made


@batch_norm_activation_backward.register_fake
def _(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, *_: Any) -> Three:
    like = x if weight is None else weight
    return torch.empty_like(x), like.new_empty(x.shape[1]), like.new_empty(x.shape[1])


# Not written as smaller ops when they are traced: norms, functions behind them and those of squeeze-and-excitation, so
# that they are found; parts of tensors, whose gradients are zeros around them, so that plans join those of one tensor
# (pass join_parts).
KEPT = (
    aten.threshold_backward.default,
    aten.silu_backward.default,
    aten.hardswish_backward.default,
    aten.mish_backward.default,
    aten.gelu_backward.default,
    aten.leaky_relu_backward.default,
    aten.sigmoid_backward.default,
    aten.hardsigmoid_backward.default,
    aten.native_layer_norm_backward.default,
    aten.native_group_norm_backward.default,
    aten.slice_backward.default,
    aten.select_backward.default,
    aten.native_dropout_backward.default,
)


Gradient = tuple[Any, tuple[Any, ...]]  # an op and its arguments


def _max_pool(node: Node, rank: int) -> Gradient:
    grad, x, kernel, stride, padding, dilation, ceil_mode, _ = node.args
    window = [[*values] * (rank if len(values) == 1 else 1) for values in (kernel, stride or kernel, padding, dilation)]  # type: ignore[arg-type, misc]
    return own.max_pool_backward.default, (grad, x, *window, ceil_mode)


def _attention(node: Node) -> Gradient | None:
    grad, q, k, v, _, _, dropout, is_causal = node.args
    mask, scale = (node.kwargs.get(name) for name in ("attn_mask", "scale"))
    return (
        (own.attention_backward.default, (grad, q, k, v, mask, None, 0.0, is_causal, scale)) if dropout == 0 else None
    )


def unaliased(node: Any) -> Any:
    while isinstance(node, Node) and node.target in ALIASES:
        node = node.args[0]
    return node


def uncopied(node: Any) -> Any:
    """Of what is done in place the argument is kept as a copy."""
    while isinstance(node, Node) and node.target is aten.clone.default:
        node = node.args[0]
    return node


def _result_of(node: Any, forward: Any, number: int) -> Node | None:
    """The call of that op whose result of that number the node is; None where it is none."""
    node = unaliased(node)
    if not isinstance(node, Node) or node.target is not operator.getitem or node.args[1] != number:
        return None
    made = node.args[0]
    return made if isinstance(made, Node) and made.target is forward else None


def _layer_norm(node: Node) -> Gradient | None:
    grad, x, shape, mean, _, weight, *_ = node.args
    norm = _result_of(mean, aten.native_layer_norm.default, 1)
    return None if norm is None else (own.layer_norm_backward.default, (grad, x, shape, weight, norm.args[-1]))


def _group_norm(node: Node) -> Gradient | None:
    grad, x, mean, _, weight, _, _, _, groups, *_ = node.args
    norm = _result_of(mean, aten.native_group_norm.default, 1)
    return None if norm is None else (own.group_norm_backward.default, (grad, x, groups, weight, norm.args[-1]))


def _dropout(node: Node) -> Gradient | None:
    grad, mask, _ = node.args
    drawn = unaliased(mask)
    if not isinstance(drawn, Node) or drawn.target is not own.dropout_mask.default:
        return None
    seed, _, p = drawn.args
    return own.dropout.default, (grad, seed, p)


def _hardtanh(node: Node) -> Gradient | None:
    """Read of the result, which the next op reads anyway: it is at a limit where what it was made of is."""
    grad, x, *limits = node.args
    x = uncopied(x)
    users = x.users if isinstance(x, Node) else ()
    made = (user for user in users if user.target is aten.hardtanh.default)
    result = next((user for user in made if _limits(user)[1:] == tuple(limits)), None)
    return None if result is None else (aten.hardtanh_backward.default, (grad, result, *limits))


def _limits(node: Node) -> tuple[Any, Any, Any]:
    """Of a relu or hardtanh what it is given, and between which values it gives that."""
    if node.target is aten.relu.default:
        return node.args[0], 0.0, math.inf
    low, high = (node.args[i] if len(node.args) > i else (-1.0, 1.0)[i - 1] for i in (1, 2))
    return node.args[0], low, high


Behind = tuple[Any, Any, str, tuple[float, ...]]  # the gradient by a function's result, its argument, name and numbers


def _rectifier(node: Node) -> Behind | None:
    """A relu or clip whose gradient reads the result."""
    of_result, result, *limits = node.args
    result = unaliased(result)
    if not isinstance(result, Node) or result.target not in (aten.relu.default, aten.hardtanh.default):
        return None
    y, low, high = _limits(result)
    if (*limits, math.inf)[:2] != (low, high):
        return None
    named: dict[Any, tuple[str, tuple[float, ...]]] = {(0.0, math.inf): ("relu", ()), (0.0, 6.0): ("relu6", ())}
    return of_result, y, *named.get((low, high), ("clip", (low, high)))


def _by_argument(name: str) -> Callable[[Node], Behind]:
    return lambda node: (node.args[0], node.args[1], name, ())


def _gelu(node: Node) -> Behind:
    name = "gelu_tanh" if node.kwargs.get("approximate") == "tanh" else "gelu_erf"
    return node.args[0], node.args[1], name, ()


def _leaky_relu(node: Node) -> Behind | None:
    of_result, y, slope, by_result = node.args
    return None if by_result else (of_result, y, "leaky_relu", (slope,))  # type: ignore[return-value]


# By the gradient of a function: what it is of.
_FUNCTIONS: dict[Any, Callable[[Node], Behind | None]] = {
    aten.hardtanh_backward.default: _rectifier,
    aten.threshold_backward.default: _rectifier,
    aten.silu_backward.default: _by_argument("silu"),
    aten.hardswish_backward.default: _by_argument("hardswish"),
    aten.mish_backward.default: _by_argument("mish"),
    aten.gelu_backward.default: _gelu,
    aten.leaky_relu_backward.default: _leaky_relu,
}


def _batch_norm(node: Node) -> Gradient | None:
    """Without running statistics, which it does not read in training; with the gradient of a function behind it.

    That gradient is read by nothing else; the norm computes the function's argument again from what it is given.
    """
    grad, x, weight, _, _, mean, inverse, train, eps, mask = node.args
    if train is not True:
        return None
    plain = aten.native_batch_norm_backward.default, (grad, x, weight, None, None, mean, inverse, train, eps, mask)
    norm = next(filter(None, (_result_of(mean, forward, 1) for forward in _BATCH_NORMS)), None)
    if norm is None or norm.args[0] is not x or norm.args[1] is not weight:
        return plain
    if not isinstance(grad, Node) or len(grad.users) != 1 or grad.target not in _FUNCTIONS:
        return plain
    behind = _FUNCTIONS[grad.target](grad)
    if behind is None:
        return plain
    of_result, y, name, numbers = behind
    if _result_of(uncopied(y), norm.target, 0) is not norm:
        return plain
    gradient = own.batch_norm_activation_backward.default
    return gradient, (of_result, x, weight, norm.args[2], mean, inverse, eps, name, [*map(float, numbers)])


_BATCH_NORMS = (aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit.no_stats)

_REPLACED: dict[Any, Callable[[Node], Gradient | None]] = {
    aten.max_pool2d_with_indices_backward.default: lambda node: _max_pool(node, 2),
    aten.max_pool3d_with_indices_backward.default: lambda node: _max_pool(node, 3),
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _attention,
    aten.native_dropout_backward.default: _dropout,
    aten.hardtanh_backward.default: _hardtanh,
    aten.native_layer_norm_backward.default: _layer_norm,
    aten.native_group_norm_backward.default: _group_norm,
    aten.native_batch_norm_backward.default: _batch_norm,
}


def replace_gradients(graph: Graph) -> None:
    """Put these ops in the place of PyTorch's."""
    for node in [*graph.nodes]:
        gradient = _REPLACED[node.target](node) if node.target in _REPLACED else None
        if gradient is not None:
            node.target, node.args = gradient
            node.kwargs = {}
    graph.eliminate_dead_code()
