"""Numbers that dynamo makes tensors of float64 without dimensions: what NumPy computed, as `x / numpy.sqrt(2)`."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from .spelled_attention import traced_value

__all__ = ["narrow_numbers"]

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_NAMES = ("add", "sub", "mul", "div", "true_divide", "multiply", "divide", "subtract", "pow")
_FUNCTIONS = (
    *(getattr(torch, name) for name in _NAMES),
    *(getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "pow", "iadd", "isub", "imul", "itruediv")),
)


def _is_wide_number(node: Node) -> bool:
    value = traced_value(node)
    return value is not None and value.dtype == torch.float64 and value.ndim == 0 and not value.requires_grad


def _takes_its_value(user: Node) -> bool:
    """Arithmetic on elements of fewer bits, which gives their dtype: it computes in that, or in float32."""
    known = user.target in _FUNCTIONS or (user.op == "call_method" and str(user.target).rstrip("_") in _NAMES)
    value = traced_value(user)
    return known and value is not None and value.dtype in _FLOATS


def narrow_numbers(graph: Graph) -> None:
    """Make those that arithmetic on float32, float16 and bfloat16 reads float32, as it would itself."""
    for node in [*graph.nodes]:
        if node.op not in ("placeholder", "get_attr") or not _is_wide_number(node):
            continue
        users = [user for user in node.users if _takes_its_value(user)]
        if not users:
            continue
        value = traced_value(node)
        before = next(each for each in graph.nodes if each.op not in ("placeholder", "get_attr"))
        with graph.inserting_before(before):
            narrow = graph.call_method("to", (node, torch.float32))
        narrow.meta["example_value"] = value.to(torch.float32)
        for user in users:
            user.replace_input_with(node, narrow)
