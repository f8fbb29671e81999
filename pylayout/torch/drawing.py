"""Ops that draw random numbers, and how the backward pass of a checkpoint draws those of forward again.

Dropout of many elements draws a seed, which a checkpoint keeps (dropout.py). Of all else PyTorch keeps the generator's
state: forward saves it beside drawing, and backward draws with it, by two functions that take the op.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

__all__ = ["COMPOSED", "describe_drawing", "is_of_checkpoint", "is_random", "name_undrawn", "rename_undrawn"]

aten = torch.ops.aten

_flash = aten._scaled_dot_product_flash_attention_for_cpu.default


def is_random(node: Node) -> bool:
    """Whether the node draws numbers from a generator, and leaves that changed."""
    if is_of_checkpoint(node):
        return node.target in (run_and_save_rng_state, save_and_draw)
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and not _draws_nothing(node)


def is_of_checkpoint(node: Node) -> bool:
    """Whether the node saves the generator's state beside drawing, or draws with such a state alone."""
    return node.target in (run_and_save_rng_state, run_with_rng_state, save_and_draw, draw_again)


def _draws_nothing(node: Node) -> bool:
    p = node.args[3] if len(node.args) > 3 else node.kwargs.get("dropout_p", 0)
    return node.target is _flash and isinstance(p, (int, float)) and p == 0


def _attention_without_dropout(*arguments: Any, **keywords: Any) -> Any:
    return _flash(*arguments, **keywords)


def name_undrawn(graph: Graph) -> None:
    """Give ops that draw nothing, though PyTorch says of them that they may, other names while a graph is cut.

    Else it would save the generator's state for them.
    """
    for node in graph.nodes:
        if _draws_nothing(node):
            node.target = _attention_without_dropout


def rename_undrawn(graph: Graph) -> None:
    """Give them their own names again."""
    for node in graph.nodes:
        if node.target is _attention_without_dropout:
            node.target = _flash


def _like(op: Any) -> Any:
    """How an op is written that makes a tensor like another one: by its sizes, so that no plan ends to give it."""

    def drawn(x: torch.Tensor, *numbers: Any, memory_format: Any = None, **how: Any) -> Any:
        made = torch.empty_like(x, memory_format=memory_format or torch.preserve_format)
        if how.get("layout") not in (None, torch.strided) or not made.is_contiguous():
            return NotImplemented  # numbers are drawn in the order of memory
        how["dtype"] = x.dtype if how.get("dtype") is None else how["dtype"]
        how["device"] = x.device if how.get("device") is None else how["device"]
        return op(*numbers, x.shape, **how)

    return drawn


class _OfNothing:
    """How an op is written that draws what another tensor says nothing of but its sizes: of one without values."""

    def __init__(self, op: Any) -> None:
        self._op, self._within = op, threading.local()

    def __call__(self, x: torch.Tensor, *numbers: Any, **how: Any) -> Any:
        if getattr(self._within, "now", False) or not x.is_contiguous():
            return NotImplemented  # numbers are drawn in the order of memory
        self._within.now = True
        try:
            return self._op(torch.empty(x.shape, dtype=x.dtype, device=x.device), *numbers, **how)
        finally:
            self._within.now = False


# Ops as others.
COMPOSED: dict[Any, Any] = {
    aten.rand_like.default: _like(aten.rand.default),
    aten.randn_like.default: _like(aten.randn.default),
    aten.randint_like.default: _like(aten.randint.default),
    aten.randint_like.low_dtype: _like(aten.randint.low),
    aten.bernoulli.p: _OfNothing(aten.bernoulli.p),
}


def save_and_draw(op: Any, *arguments: Any, **keywords: Any) -> tuple[torch.Tensor, Any]:
    """`run_and_save_rng_state`, which knows the devices of PyTorch alone."""
    device = _device_of(arguments, keywords)
    return torch.get_device_module(device).get_rng_state(device), op(*arguments, **keywords)


def draw_again(state: torch.Tensor, op: Any, *arguments: Any, **keywords: Any) -> Any:
    """`run_with_rng_state`, which knows the devices of PyTorch alone."""
    device = _device_of(arguments, keywords)
    random = torch.get_device_module(device)
    present = random.get_rng_state(device)
    random.set_rng_state(state, device)
    try:
        return op(*arguments, **keywords)
    finally:
        random.set_rng_state(present, device)


def _device_of(arguments: Any, keywords: Any) -> torch.device:
    given = [keywords.get("device"), *arguments]
    devices = (each.device if isinstance(each, torch.Tensor) else each for each in given)
    return next(torch.device(each) for each in devices if isinstance(each, (torch.device, str)))


def describe_drawing(forward: GraphModule, backward: GraphModule) -> None:
    """Say what nodes give by which backward draws the numbers of a checkpoint again; PyTorch leaves that out.

    Of the generator's state it says a symbol for its size, which no input has. On other devices than PyTorch's own the
    nodes are ours.
    """
    for node in (*forward.graph.nodes, *backward.graph.nodes):
        if node.target not in (run_and_save_rng_state, run_with_rng_state):
            continue
        saves = node.target is run_and_save_rng_state
        op, *arguments = node.args if saves else node.args[1:]
        drawn = op(*map_arg(arguments, _value_of), **map_arg(node.kwargs, _value_of))
        device = (drawn[0] if isinstance(drawn, (tuple, list)) else drawn).device
        if device.type == "ocl":
            node.target = save_and_draw if saves else draw_again
        size = (torch if device.type == "cpu" else torch.get_device_module(device)).get_rng_state().numel()
        state = next((user for user in node.users if user.args[1] == 0), None) if saves else node.args[0]
        if state is not None:
            with state.meta["val"].fake_mode:
                state.meta["val"] = torch.empty(size, dtype=torch.uint8)
        node.meta["val"] = (None if state is None else state.meta["val"], drawn) if saves else drawn


def _value_of(node: Node) -> Any:
    return node.meta["val"]
