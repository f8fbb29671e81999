"""Copies of traced graphs whose nodes say what they give for the sizes of one call, and how that follows from symbols.

In a copy, meta["val"] has the sizes of one call. Where they are symbolic, meta["late"] is what PyTorch traced: a tensor
with symbols among its sizes, or a number. What is known only in a run keeps its symbols in meta["val"], too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from ..errors import UnsupportedError
from .symbols import Evaluation, is_symbolic

__all__ = ["bring", "copied", "form_of", "is_number", "late_of", "present", "propagated"]


def late_of(node: Node) -> Any:
    """What a node gives with symbols among its sizes; None where all of them are known."""
    return node.meta.get("late")


def is_number(node: Node) -> bool:
    """Whether a node gives a number that is known when its graph is called: a size, or what follows from some."""
    return isinstance(node.meta.get("val"), (bool, int, float))


def form_of(node: Node, evaluation: Callable[[Any], Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of what a node gives."""
    late, value = late_of(node), node.meta["val"]
    if late is None:
        return tuple(value.shape), tuple(value.stride())
    return tuple(map(evaluation, late.shape)), tuple(map(evaluation, late.stride()))


def copied(module: GraphModule) -> Graph:
    """A graph of the same nodes, which may be changed."""
    graph = Graph(tracer_cls=None)
    nodes: dict[Node, Node] = {}
    for node in module.graph.nodes:
        nodes[node] = graph.node_copy(node, nodes.__getitem__)
    return graph


def present(module: GraphModule, evaluation: Evaluation) -> Graph:
    """A copy for the sizes of one call."""
    graph = copied(module)
    for node in graph.nodes:
        if is_symbolic(node.meta.get("val")):
            node.meta["late"] = node.meta["val"]
    bring(graph.nodes, evaluation)
    return graph


def bring(nodes: Iterable[Node], evaluation: Evaluation) -> None:
    """Let nodes of such a copy have the sizes of this call."""
    for node in nodes:
        late = late_of(node)
        if late is None:
            continue
        try:
            node.meta["val"] = _present(late, evaluation)
        except UnsupportedError:  # known only in a run
            del node.meta["late"]


def _present(value: Any, evaluation: Evaluation) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_present(each, evaluation) for each in value)
    if not isinstance(value, torch.Tensor):
        return evaluation(value)
    if not (is_symbolic(value) and isinstance(value, FakeTensor) and value.layout == torch.strided):
        return value
    shape, strides = [*map(evaluation, value.shape)], [*map(evaluation, value.stride())]
    first = evaluation(value.storage_offset())
    with value.fake_mode:
        if first == 0:
            return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)
        room = first + 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        whole = torch.empty(max(room, 1), dtype=value.dtype, device=value.device)
        return whole.as_strided(shape, strides, first)


def propagated(module: GraphModule, arguments: Sequence[Any]) -> Graph:
    """A copy for one call, without symbols: for graphs whose sizes do not follow from those of their inputs."""
    twin = GraphModule(module, copied(module))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        fakes = [mode.from_tensor(value) if isinstance(value, torch.Tensor) else value for value in arguments]
    FakeTensorProp(twin, mode).propagate_dont_convert_inputs(*fakes)
    return twin.graph
