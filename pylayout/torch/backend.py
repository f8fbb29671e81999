"""The backend of `torch.compile`: what PyTorch traced, compiled by AOTAutograd and then by this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any

import torch
from torch._decomp import _core_aten_decompositions_post_autograd
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.fx import GraphModule

from . import attention, borders, drawing, dropout, losses, resizes
from .compiled import Compiled
from .compositions import COMPOSED
from .gradients import KEPT, replace_gradients
from .joint import partition
from .options import compile_options
from .parts import join_written_parts
from .registry import converters, name_of
from .spelled_attention import fuse_spelled_attention
from .wide_numbers import narrow_numbers

__all__ = ["backend", "decompositions"]


def _traced_for(of_pytorch: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    """What is traced in the place of a function: our own, but PyTorch's within transforms of torch.func.

    Ops by torch.library have no gradient within `grad` and `jvp` there, and are looped over by `vmap`.
    """

    @wraps(of_pytorch)
    def traced(*arguments: Any, **keywords: Any) -> Any:
        transformed = torch._C._functorch.peek_interpreter_stack() is not None
        return (of_pytorch if transformed else own)(*arguments, **keywords)

    return traced


# Functions that dynamo leaves whole, and what is traced in their places.
TRACED = {of: _traced_for(of, own) for of, own in {**losses.TRACED, **resizes.TRACED, **borders.TRACED}.items()}
ATTENTION = {of: _traced_for(of, own) for of, own in attention.TRACED.items()}


@lru_cache(maxsize=2)
def decompositions(fallback_random: bool = True) -> dict[Any, Callable[..., Any]]:
    """How PyTorch's ops are written as fewer: as core ATen, but for those that have a converter or draw numbers.

    fallback_random: dropout draws the numbers that it draws in eager mode, on the CPU one after another.
    """
    # Written otherwise, an op would draw other numbers from the generator than it does in eager mode.
    keeping = {name for name, found in converters().items() if found.keeps}
    found = {
        op: function
        for op, function in _core_aten_decompositions_post_autograd().items()
        if name_of(op) not in keeping and torch.Tag.nondeterministic_seeded not in getattr(op, "tags", ())
    }
    found[torch.ops.aten.native_dropout.default] = dropout.native_dropout if fallback_random else dropout.own_dropout
    found.update(COMPOSED)
    found.update(drawing.COMPOSED)
    found.update(losses.COMPOSED)
    return found


def _static_inputs() -> list[int]:
    """Which inputs of the graph being compiled are parameters and buffers of modules."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return list(metadata.static_input_indices or ()) if metadata is not None else []


def _with_checkpoints(module: GraphModule) -> Iterator[GraphModule]:
    """What dynamo traced, and the bodies of the checkpoints in it."""
    yield module
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is tag_activation_checkpoint:
            yield from _with_checkpoints(getattr(module, node.args[0].target))


def backend(
    module: GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """Compile what PyTorch traced: `torch.compile(model, backend="pylayout", options={"threads": 2})`.

    options: device ("cpu", or "ocl:0": inputs and outputs are moved), math, threads, seconds and deterministic, as of
    `pylayout.compile`, and fallback_random (as of inductor: all dropout draws eager mode's numbers). mode is one of
    inductor's: it changes nothing here.
    """
    wanted = compile_options(options)
    fallback_random = bool(wanted.pop("fallback_random", False))
    traced = TRACED if fallback_random else {**TRACED, **ATTENTION}
    for each in _with_checkpoints(module):
        narrow_numbers(each.graph)
        fuse_spelled_attention(each.graph, fallback_random)
        for node in each.graph.nodes:
            if node.op == "call_function" and node.target in traced:
                node.target = traced[node.target]
        each.recompile()

    def inference(graph: GraphModule, examples: Sequence[Any]) -> Compiled:
        join_written_parts(graph.graph)
        replace_gradients(graph.graph)
        dropout.join_seeds(graph.graph)
        graph.recompile()
        return Compiled(graph, "inference", wanted, _static_inputs(), weights=True)

    def forward(graph: GraphModule, examples: Sequence[Any]) -> Compiled:
        join_written_parts(graph.graph)
        graph.recompile()
        return Compiled(graph, "forward", wanted, _static_inputs())

    def backward(graph: GraphModule, examples: Sequence[Any]) -> Compiled:
        join_written_parts(graph.graph)
        graph.recompile()
        return Compiled(graph, "backward", wanted)

    compiler = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=inference,
        decompositions={op: function for op, function in decompositions(fallback_random).items() if op not in KEPT},
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    compiled: Callable[..., Any] = compiler(module, inputs)
    return compiled
