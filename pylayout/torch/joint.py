"""The joint graph of AOTAutograd before it is cut into forward and backward: what backward needs is changed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._functorch.partitioners import default_partition
from torch.fx import GraphModule

__all__ = ["partition"]

aten = torch.ops.aten


# The gradient of max pooling by the pool's input in the place of its indices: plans keep no indices.
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


_RANKS = {aten.max_pool2d_with_indices_backward.default: 2, aten.max_pool3d_with_indices_backward.default: 3}


def partition(module: GraphModule, inputs: Any, **keywords: Any) -> tuple[GraphModule, GraphModule]:
    """Cut a joint graph so that backward keeps what plans can give it."""
    for node in [*module.graph.nodes]:
        rank = _RANKS.get(node.target)
        if rank is None:
            continue
        grad, x, kernel, stride, padding, dilation, ceil_mode, _ = node.args
        window = [
            [*values] * (rank if len(values) == 1 else 1) for values in (kernel, stride or kernel, padding, dilation)
        ]
        node.target = torch.ops.pylayout.max_pool_backward.default
        node.args = (grad, x, *window, ceil_mode)
    module.graph.eliminate_dead_code()
    module.recompile()
    cut: tuple[GraphModule, GraphModule] = default_partition(module, inputs, **keywords)
    return cut
