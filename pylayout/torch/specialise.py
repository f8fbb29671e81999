"""Traced graphs with symbolic sizes, for the sizes of one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

__all__ = ["copied", "is_symbolic", "sizes_of", "specialised"]

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def is_symbolic(value: Any) -> bool:
    """Whether a traced value has a size, or is a number, that calls decide."""
    if isinstance(value, torch.Tensor):
        sizes = value.shape if value.layout != torch.strided else (*value.shape, *value.stride())
        return any(isinstance(size, _SYMBOLIC) for size in sizes)
    return isinstance(value, _SYMBOLIC)


def sizes_of(arguments: Sequence[Any], places: Sequence[int]) -> tuple[Any, ...]:
    """What of a call's arguments decides the sizes of a graph whose inputs at `places` are symbolic."""
    return tuple(
        (value.shape, value.stride()) if isinstance(value, torch.Tensor) else value
        for value in map(arguments.__getitem__, places)
    )


def copied(module: GraphModule) -> Graph:
    """A graph of the same nodes, which may be changed."""
    graph = Graph(tracer_cls=None)
    nodes: dict[Node, Node] = {}
    for node in module.graph.nodes:
        nodes[node] = graph.node_copy(node, nodes.__getitem__)
    return graph


def specialised(module: GraphModule, arguments: Sequence[Any]) -> Graph:
    """A copy of a module's graph whose nodes' meta["val"] are those of a call with these arguments."""
    twin = GraphModule(module, copied(module))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        fakes = [mode.from_tensor(value) if isinstance(value, torch.Tensor) else value for value in arguments]
    FakeTensorProp(twin, mode).propagate_dont_convert_inputs(*fakes)
    return twin.graph
