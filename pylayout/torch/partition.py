"""Which nodes of a traced graph plans run and which PyTorch runs, and in what order.

Nodes are put on levels: even ones are PyTorch's, odd ones are plans', and a node's level is the least that is not below
those of what it reads. So all nodes of an odd level can be one plan, and no other division has fewer levels.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch.fx import Graph, Node

from .drawing import is_of_checkpoint, is_random
from .dtypes import dense_layout
from .registry import converters, name_of
from .translate import is_plain_tensor

__all__ = ["base_of", "idle_of", "is_view", "levels", "separate_views", "view_again", "writes"]


def is_view(node: Node) -> bool:
    """Whether the result shares the memory of what the node reads."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        source = node.args[0]
        return isinstance(source, Node) and is_view(source)
    return bool(getattr(node.target, "is_view", False))


def writes(node: Node) -> bool:
    """Whether the node may change something beside making its result. What is not an ATen op may."""
    if node.op != "call_function" or node.target is operator.getitem or is_of_checkpoint(node):
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return getattr(node.target, "__module__", "") not in ("_operator", "math", "torch")
    return bool(schema.is_mutable)


def moves_only(node: Node) -> bool:
    """Whether a node computes nothing, so that a plan of such nodes alone is not worth its call."""
    if node.target is operator.getitem:
        return True
    found = converters().get(name_of(node.target))
    return found is not None and found.moves


def idle_of(group: Collection[Node]) -> list[Node]:
    """The nodes of a plan that PyTorch may as well run: all, if none computes; else what is joined to no other node."""
    if all(map(moves_only, group)):
        return list(group)
    inside = set(group)
    return [
        node
        for node in group
        if moves_only(node) and inside.isdisjoint(node.all_input_nodes) and inside.isdisjoint(node.users)
    ]


def base_of(node: Node) -> Node:
    """The node whose memory this one's result lies in."""
    while is_view(node):
        source = node.args[0]
        assert isinstance(source, Node)
        node = source
    return node


def view_again(
    node: Node,
    before: Node,
    copies: dict[Node, Node],
    others: Collection[Node] = (),
    instead: Mapping[Node, Node] = MappingProxyType({}),
) -> Node:
    """A view made anew in front of `before`, by copies of all that leads to it from its base; a base itself.

    others: nodes that are made anew besides views. instead: bases that the copies are of in place of others.
    """

    def is_copied(source: Node) -> bool:
        return is_view(source) or source in others

    pending = [node] if is_copied(node) else []
    while pending:  # chains may be thousands of nodes long
        last = pending[-1]
        missing = [source for source in last.all_input_nodes if is_copied(source) and source not in copies]
        if missing and last not in copies:
            pending.extend(missing)
            continue
        pending.pop()
        if last not in copies:
            with before.graph.inserting_before(before):
                copies[last] = before.graph.node_copy(last, lambda s: copies[s] if is_copied(s) else instead.get(s, s))
    return copies[node] if is_copied(node) else node


def separate_views(graph: Graph) -> set[Node]:
    """Give outputs that share memory with an input or another output views of their own, which PyTorch runs.

    PyTorch reads offsets and bases from such outputs. A view of what an input is changed to is one of the input to the
    caller. Views of their own have those with gaps or overlaps, too: they need no memory. The nodes that were views
    before stay, for those that read them.
    """
    output = graph.output_node()
    results = [node for node in output.args[0] if isinstance(node, Node)]  # type: ignore[union-attr]
    bases = [base_of(node) for node in results]
    inputs = {  # by what they are changed to
        node.args[1]: node.args[0]
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
        if all(isinstance(each, Node) for each in node.args[:2])
        and node.args[0].op == "placeholder"
        and node.args[0].meta["val"].stride() == node.args[1].meta["val"].stride()
        and node.args[0].meta["val"].shape == node.args[1].meta["val"].shape
    }
    copies: dict[Node, Node] = {}

    def placed(node: Any) -> Any:
        if not isinstance(node, Node):
            return node
        base = base_of(node)
        of_input = base.op != "call_function" or base in inputs
        shared = of_input or len({r for r, b in zip(results, bases, strict=True) if b is base}) > 1
        value = node.meta.get("val")
        spread = is_plain_tensor(value) and value.ndim and not dense_layout(value.shape, value.stride())
        return view_again(node, output, copies, instead=inputs) if shared or spread else node

    output.args = (tuple(placed(node) for node in output.args[0]),)  # type: ignore[union-attr]
    return set(copies.values())


def levels(nodes: Collection[Node], is_planned: Callable[[Node], bool]) -> dict[Node, int]:
    """The level of each node; random nodes and those that write keep their order."""
    level: dict[Node, int] = {}
    highest = floor = last_random = 0
    for node in nodes:
        planned = is_planned(node)
        lowest = max([floor, *(level[source] for source in node.all_input_nodes if source in level)])
        if is_random(node):
            lowest = max(lowest, last_random)
        elif writes(node):
            lowest = max(lowest, highest)
        level[node] = lowest + (lowest % 2 != planned)
        highest = max(highest, level[node])
        if is_random(node):
            last_random = level[node]
        elif writes(node):
            floor = level[node]
    return level
