"""The joint graph of AOTAutograd before it is cut into forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.partitioners import default_partition
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .fold import known
from .gradients import ALIASES, replace_gradients
from .partition import base_of, is_view, view_again, writes
from .registry import converters, name_of

__all__ = ["partition"]


def _see_again(graph: Graph, forward_results: int) -> None:
    """Have backward make itself what it reads of views, from what they are views of, and of values known beforehand.

    Otherwise forward keeps each view, which a plan writes as a tensor of its own. Where the views are a small part of
    what they are taken from, they are kept. What depends on no input is a constant of either plan: kept, it would be
    computed in each call.
    """
    results = graph.output_node().args[0]
    assert isinstance(results, (list, tuple))
    needed: set[Node] = set()
    pending = [node for node in results[:forward_results] if isinstance(node, Node)]
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending.extend(node.all_input_nodes)
    # PyTorch takes for forward what stands before the last node that is tagged so.
    nodes = [*graph.nodes]
    tagged = (at for at, node in enumerate(nodes) if node in needed or node.meta.get("partitioner_tag") == "is_forward")
    end = max(tagged, default=-1) + 1
    forward, behind = set(nodes[:end]), nodes[end]
    constant = known(nodes[:end])
    readers = {
        node: [user for user in node.users if user not in forward]
        for node in nodes[:end]
        if is_view(node) or node in constant
    }
    size: dict[Node, int] = {}  # of the views of each tensor that backward reads
    for node, users in readers.items():
        if users and node not in constant:
            base = base_of(node)
            size[base] = size.get(base, 0) + node.meta["val"].numel()
    copies: dict[Node, Node] = {}

    def is_seen_again(base: Node) -> bool:
        if base.op == "placeholder":
            return not any(writes(user) for user in base.users)
        value = base.meta.get("val")
        return isinstance(value, torch.Tensor) and statically_known_true(size[base] >= value.numel())

    for node, users in readers.items():
        if not users or not (node in constant or is_seen_again(base_of(node))):
            continue
        for user in users:
            if user.op != "output":
                user.replace_input_with(node, view_again(node, behind, copies, constant))
    for copy in copies.values():
        copy.meta["partitioner_tag"] = "is_backward"


aten = torch.ops.aten

# Ops whose gradients kernels of the CPU compute with channels last, and what they read of forward.
_OF_IMAGES = {
    aten.convolution_backward.default: 1,
    aten.native_batch_norm_backward.default: 1,
    torch.ops.pylayout.max_pool_backward.default: 1,
    aten.threshold_backward.default: 1,
}


def _aliases(node: Node) -> list[Node]:
    """The node, and those that give the same tensor."""
    return [node, *(each for user in node.users if user.target in ALIASES for each in _aliases(user))]


def _channels_last(value: Any) -> Any:
    """The same fake tensor with channels last; None where there is nothing to change, whatever its sizes are."""
    if not (isinstance(value, FakeTensor) and value.ndim == 4 and value.device.type == "cpu"):
        return None
    _, c, h, w = shape = value.shape
    wanted = (h * w * c, 1, w * c, c)

    def lies(strides: tuple[Any, ...]) -> bool:
        return all(
            statically_known_true(size == 1) or statically_known_true(own == stride)
            for size, own, stride in zip(shape, value.stride(), strides, strict=True)
        )

    if lies(wanted) or not lies((c * h * w, h * w, w, 1)):
        return None
    with value.fake_mode:
        return torch.empty_strided(shape, wanted, dtype=value.dtype, device=value.device)


def _keep_channels_last(forward: GraphModule, backward: GraphModule, results: int) -> None:
    """Have forward keep images for backward with channels last, as its kernels give them and backward's take them.

    Otherwise plans write each of them to rows of channels, and read it back: in a step of ResNet-18 with 8 images that
    are 40 reorders each way. Views depend on strides, and so may PyTorch's kernels of gradients; what is read by any
    stays as it is.
    """
    if not any(node.target is aten.convolution.default for node in forward.graph.nodes):
        return
    outputs = forward.graph.output_node().args[0]
    assert isinstance(outputs, (list, tuple))
    given = {node for node in outputs[:results] if isinstance(node, Node)}
    kept = {node.name: node for node in outputs[results:] if isinstance(node, Node) and node.op == "call_function"}
    for place in backward.graph.nodes:
        node = kept.get(place.name) if place.op == "placeholder" else None
        if node is None or node in given or is_view(node):
            continue
        same = [*_aliases(node), *_aliases(place)]
        readers = {user for each in same for user in each.users} - {*same}
        of_images = any(user.target in _OF_IMAGES and user.args[_OF_IMAGES[user.target]] in same for user in readers)
        planned = all(user.op == "output" or name_of(user.target) in converters() for user in readers)
        value = _channels_last(place.meta.get("val"))
        if value is None or not (of_images and planned) or given & {*same} or any(map(is_view, readers)):
            continue
        for each in same:
            each.meta["val"] = value


def partition(module: GraphModule, inputs: Any, **keywords: Any) -> tuple[GraphModule, GraphModule]:
    """Cut a joint graph so that backward keeps what plans can give it."""
    replace_gradients(module.graph)
    _see_again(module.graph, keywords["num_fwd_outputs"])
    module.graph.eliminate_dead_code()
    module.recompile()
    cut: tuple[GraphModule, GraphModule] = default_partition(module, inputs, **keywords)
    _keep_channels_last(*cut, keywords["num_fwd_outputs"])
    return cut
