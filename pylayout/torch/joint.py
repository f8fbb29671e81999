"""The joint graph of AOTAutograd before it is cut into forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.partitioners import default_partition
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .bundle import bundle_up
from .drawing import describe_drawing, name_undrawn, rename_undrawn
from .dropout import join_seeds
from .fold import known
from .gradients import ALIASES, replace_gradients
from .partition import base_of, is_view, view_again, writes
from .passed import Passed, may_pass
from .squeeze_excite import fuse_squeeze_excite
from .symbols import Symbols

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


def _aliases(node: Node) -> list[Node]:
    """The node, and those that give the same tensor."""
    return [node, *(each for user in node.users if user.target in ALIASES for each in _aliases(user))]


def _pass_on(forward: GraphModule, backward: GraphModule, results: int) -> None:
    """Mark what forward keeps for backward and gives to nobody else: it may lie as plans like (passed.py).

    Views share the memory of what they are of, and so do aliases of what is given. On the device ocl it is handed over
    as one tensor (bundle.py), without what others see by a view.
    """
    outputs = forward.graph.output_node().args[0]
    assert isinstance(outputs, (list, tuple))
    given = {node for node in outputs[:results] if isinstance(node, Node)}
    kept = {
        node.name: node
        for node in outputs[results:]
        if isinstance(node, Node) and node.op == "call_function" and not (is_view(node) or given & {*_aliases(node)})
    }
    places = [node for node in backward.graph.nodes if node.op == "placeholder"]
    found = {
        place: node for place in places if (node := kept.get(place.name)) is not None and may_pass(node.meta.get("val"))
    }
    sizes = Symbols(places, found.keys())
    for place, node in found.items():
        if sizes.cover([place], late=False):
            passed = Passed()
            passed.mark(node)
            passed.mark(place)
    seen = {base_of(node) for node in given}
    bundle_up(forward, backward, results, [node for node in kept.values() if not seen & {*_aliases(node)}])


def partition(module: GraphModule, inputs: Any, **keywords: Any) -> tuple[GraphModule, GraphModule]:
    """Cut a joint graph so that backward keeps what plans can give it."""
    fuse_squeeze_excite(module.graph)
    replace_gradients(module.graph)
    join_seeds(module.graph)
    _see_again(module.graph, keywords["num_fwd_outputs"])
    module.graph.eliminate_dead_code()
    name_undrawn(module.graph)
    module.recompile()
    cut: tuple[GraphModule, GraphModule] = default_partition(module, inputs, **keywords)
    for each in cut:
        rename_undrawn(each.graph)
        each.recompile()
    describe_drawing(*cut)
    if not torch._dynamo.config.compiled_autograd:  # which traces backward again, with the tensors that it is given
        _pass_on(*cut, keywords["num_fwd_outputs"])
    return cut
