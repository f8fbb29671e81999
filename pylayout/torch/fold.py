"""Values of a traced graph that depend on no input: masks and positions made of numbers, tensors of the trace."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from .drawing import is_random
from .partition import writes
from .registry import name_of
from .specialise import is_number, late_of
from .translate import is_plain_tensor

__all__ = ["attribute_of", "copy_of", "folded", "is_folded_apart", "known"]

MAX_ELEMENTS = 1 << 22  # of a value that is computed when compiling


def attribute_of(module: GraphModule, node: Node) -> Any:
    """What a get_attr node reads."""
    value: Any = module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def folded(
    module: GraphModule, nodes: Iterable[Node], given: Mapping[Node, torch.Tensor] | None = None
) -> dict[Node, torch.Tensor]:
    """The values of nodes that are known when compiling, computed by PyTorch; `given` are known before.

    Of nodes with several results each result has its value, they have none.
    """
    values: dict[Node, torch.Tensor] = {**(given or {})}
    several: dict[Node, Sequence[torch.Tensor]] = {}

    def value_of(node: Node) -> Any:
        return values[node] if node in values else node.meta["val"]

    with torch.no_grad():
        for node in nodes:
            if node.op == "get_attr":
                value = attribute_of(module, node)
                if isinstance(value, torch.Tensor) and is_plain_tensor(value):
                    values[node] = value
                    node.meta.setdefault("val", value)
            elif node.target is operator.getitem and node.args[0] in several:
                values[node] = several[node.args[0]][node.args[1]]  # type: ignore[index]
            elif isinstance(node.meta.get("val"), (tuple, list)) and _is_known(node, values):
                several[node] = node.target(*map_arg(node.args, value_of), **map_arg(node.kwargs, value_of))  # type: ignore[operator]
            elif _is_known(node, values):
                value = node.target(*map_arg(node.args, value_of), **map_arg(node.kwargs, value_of))  # type: ignore[operator]
                values[node] = value.clone() if value._is_zerotensor() else value  # which has no memory
    return values


def is_folded_apart(node: Node, known: Container[Node]) -> bool:
    """Whether a node gives several results, which are all known."""
    return isinstance(node.meta.get("val"), (tuple, list)) and bool(node.users) and all(u in known for u in node.users)


def known(nodes: Iterable[Node]) -> set[Node]:
    """The nodes whose values would be known when their graph is compiled, tensors of the trace apart."""
    found: set[Node] = set()
    for node in nodes:
        if isinstance(node.meta.get("val"), torch.Tensor) and _is_known(node, found):
            found.add(node)
    return found


def copy_of(value: torch.Tensor, node: Node) -> Callable[[], torch.Tensor] | None:
    """Gives copies of a node's known value, as PyTorch expects it in memory; None where a copy would lie otherwise."""
    strides = value.clone().stride()
    return value.clone if strides == value.stride() == tuple(node.meta["val"].stride()) else None


def _is_known(node: Node, known: Container[Node]) -> bool:
    value = node.meta.get("val")
    results: Sequence[Any] = value if isinstance(value, (tuple, list)) and value else [value]
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    if late_of(node) is not None or not all(is_plain_tensor(result) for result in results):
        return False
    if sum(result.numel() for result in results) > MAX_ELEMENTS:
        return False
    if is_random(node) or writes(node) or "empty" in name_of(node.target):
        return False
    return all(source in known or (is_number(source) and late_of(source) is None) for source in node.all_input_nodes)
