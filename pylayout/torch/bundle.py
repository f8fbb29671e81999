"""What forward keeps for backward on the device ocl, as one tensor of PyTorch's.

A step of MobileNetV2 keeps 210 tensors that plans make and plans read. Each is a storage, a tensor, an object of
Python, and a saved variable of autograd, made and freed in every step, for nobody who looks at it. So forward ends in
one tensor of bytes that carries them all, and backward begins with it. The plan's results stay as they are, memory of
their own; whoever does look at the bytes, as a hook for saved tensors may, gets them in one piece, and backward reads
such a copy as well.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .dtypes import NAMES, dense_layout
from .passed import passed_of
from .symbols import Evaluation, is_symbolic

__all__ = ["Opened", "bundle_up", "described", "is_bundle", "is_opened", "is_part"]

LEAST = 8  # tensors: fewer are as well handed over one by one
_PASSED = "pylayout_passed_parts"  # of the meta of what opens a bundle: how each of its tensors lies, or None
_ALIGNED = 256  # bytes; of the shim's place_parts()


def is_bundle(node: Node) -> bool:
    """Whether the node makes such a tensor of bytes."""
    return node.op == "call_function" and node.target is _op("bundle")


def is_opened(node: Node) -> bool:
    """Whether the node gives the tensors out of one."""
    return node.op == "call_function" and node.target is _op("unbundle")


def is_part(node: Node) -> bool:
    """Whether the node is a tensor out of one."""
    if node.target is not operator.getitem:
        return False
    source = node.args[0]
    return isinstance(source, Node) and is_opened(source)


def described(opened: Node) -> list[torch.Tensor]:
    """Tensors of the meta device as the tensors of a bundle are."""
    made = []
    for value, passed in zip(opened.meta["val"], opened.meta[_PASSED], strict=True):
        shape, strides = tuple(value.shape), tuple(value.stride())
        if passed is not None and passed.layout is not None:
            shape, strides = passed.form(shape, value.dtype)
        made.append(torch.empty_strided(shape, strides, dtype=value.dtype, device="meta"))
    return made


class Opened:
    """Gives the tensors of a bundle as PyTorch's, for ops that PyTorch runs. `at` binds it to sizes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def at(self, _: Evaluation) -> partial[list[torch.Tensor]]:
        return partial(torch.ops.pylayout_ocl.unbundle, like=described(self._node))


def _op(name: str) -> Any:
    found = getattr(torch.ops.pylayout_ocl, name, None)  # which are there once the device is
    return None if found is None else found.default


def _may_join(node: Node) -> bool:
    """Whether what forward keeps, and gives to nobody else, may be in a bundle."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.device.type != "ocl" or value.dtype not in NAMES:
        return False
    if is_symbolic(value) or value.numel() == 0 or node.meta.get("saved_tensor_with_no_vc_check"):
        return False
    if passed_of(node) is not None:
        return dense_layout(value.shape, value.stride()) is not None
    return value.ndim == 1 and value.stride() == (1,)  # others may lie as PyTorch has them, or not


def bundle_up(forward: GraphModule, backward: GraphModule, results: int, kept: Sequence[Node]) -> None:
    """Join those of the nodes kept, which forward gives behind its results and to nobody else, that may be."""
    output = forward.graph.output_node()
    outputs: list[Any] = list(output.args[0])  # type: ignore[arg-type]
    places = {node.name: node for node in backward.graph.nodes if node.op == "placeholder"}
    allowed = {node for node in kept if _may_join(node)}
    joined = [node for node in outputs[results:] if node in allowed and node.name in places]
    devices = {node.meta["val"].device for node in joined}
    if len(joined) < LEAST or len(devices) > 1:
        return
    inside = {*joined}
    values = [node.meta["val"] for node in joined]
    sizes = (math.prod(value.shape) * value.element_size() for value in values)
    count = sum(-(-size // _ALIGNED) * _ALIGNED for size in sizes)
    with values[0].fake_mode:
        carrier = torch.empty(count, dtype=torch.uint8, device=values[0].device)
    with forward.graph.inserting_before(output):
        bundle = forward.graph.call_function(_op("bundle"), (joined,))
    bundle.meta["val"] = carrier
    at = outputs.index(joined[0])
    outputs[at] = bundle
    output.args = (tuple(node for node in outputs if node not in inside),)
    first = places[joined[0].name]
    with backward.graph.inserting_before(first):
        given = backward.graph.placeholder(bundle.name)
    given.meta["val"] = carrier
    last = [*places.values()][-1]
    with backward.graph.inserting_after(last):
        opened = backward.graph.call_function(_op("unbundle"), (given, []))
    opened.meta["val"] = [places[node.name].meta["val"] for node in joined]
    opened.meta[_PASSED] = [passed_of(places[node.name]) for node in joined]
    behind = opened
    for number, node in enumerate(joined):
        place = places[node.name]
        with backward.graph.inserting_after(behind):
            behind = backward.graph.call_function(operator.getitem, (opened, number))
        behind.meta.update(place.meta)
        place.replace_all_uses_with(behind)
        backward.graph.erase_node(place)
    for module in (forward, backward):
        module.graph.lint()
        module.recompile()
