"""Recurrent layers on the device: on GPUs an op a level, not a chain of ops for each step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..torch.recurrent import OF_PYTORCH, OF_SEQUENCES, Rows
from ..torch.registry import name_of
from . import module

__all__ = ["LAYERS"]


@lru_cache
def _takes_levels(device: torch.device) -> bool:
    """Whether kernels that go through all steps are faster: not those of an OpenCL runtime for processors, where the
    gradients of two levels of 256 units took 1.3 s, by PyTorch's steps 0.12 s."""
    return module.get_device_properties(device).capabilities.get("type") != "cpu"


def _layers(
    cell: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, levels: int,
    dropout: float, train: bool, both: bool, batch_first: bool = False, *, batch_sizes: Tensor | None = None,
) -> tuple[Tensor, ...] | None:  # fmt: skip
    """All levels; None where PyTorch's steps are taken. `batch_sizes`: how many sequences take part in each step, whose
    elements lie one after another in x."""
    directions, each = 2 if both else 1, 4 if has_biases else 2
    tensors = (x, *states, *params)
    kind = x.device.type
    lowered = torch.is_autocast_enabled(kind)
    dtype = torch.get_autocast_dtype(kind) if lowered else x.dtype
    if (
        not _takes_levels(x.device)
        or x.ndim != (3 if batch_sizes is None else 2)
        or len(params) != levels * directions * each  # projections
        or dtype not in (torch.float32, torch.float16, torch.bfloat16)
        or any(given.device != x.device for given in tensors)
        or any(not given.is_floating_point() if lowered else given.dtype != dtype for given in tensors)
        or any(not given.numel() for given in tensors)
        or any(state.ndim != 3 or state.shape[0] != levels * directions for state in states)
        or torch._C._functorch.peek_interpreter_stack() is not None
        or any(torch._C._functorch.is_functorch_wrapped_tensor(given) for given in tensors)
        or torch.autograd.forward_ad._current_level >= 0
    ):
        return None
    if lowered:  # all of it: products are most of the work, and sums are of float32 anyway
        x, *rest = (given.to(dtype) for given in tensors)
        states, params = rest[: len(states)], rest[len(states) :]
    how = (directions, each, dropout if train else 0.0, batch_first)
    with torch.autocast(kind, enabled=False) if lowered else nullcontext():
        if batch_sizes is None:
            return _levels(cell, x, states, params, *how, None)
        taken, places, lengths = (each.to(x.device) for each in _places(batch_sizes))
        padded = Rows.apply(x, taken, places).unflatten(0, (len(batch_sizes), -1))  # type: ignore[no-untyped-call]
        y, *last = _levels(cell, padded, states, params, *how, lengths)
        return Rows.apply(y.flatten(0, 1), places, taken), *last  # type: ignore[no-untyped-call]


def _places(batch_sizes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each step of each sequence its row, any where it takes no part; for each row its step; lengths."""
    takes_part = torch.arange(int(batch_sizes[0])) < batch_sizes[:, None]
    rows = (takes_part.flatten().cumsum(0) - 1).clamp(min=0)
    return rows, takes_part.flatten().nonzero().flatten(), takes_part.sum(0)


def _levels(
    cell: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], directions: int, each: int,
    dropout: float, batch_first: bool, lengths: Tensor | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    levels = len(params) // (directions * each)
    last: list[list[Tensor]] = [[] for _ in states]
    for level in range(levels):
        at = level * directions
        own = params[at * each : (at + directions) * each]
        begin = [state[at : at + directions] for state in states]
        x, *after = torch.ops.pylayout.recurrent(cell, x, begin, own, directions > 1, batch_first, lengths)
        for kept, state in zip(last, after):  # noqa: B905  # one state, or two
            kept.append(state)
        if dropout > 0 and level + 1 < levels:
            x = torch.dropout(x, dropout, True)
    return x, *[kept[0] if levels == 1 else torch.cat(kept) for kept in last]


def _layer(cell: str, op: Any, of_sequences: bool) -> Any:
    def layer(x: Tensor, *given: Any) -> Any:
        batch_sizes, hx, params, *how = given if of_sequences else (None, *given)
        made = _layers(cell, x, hx if cell == "lstm" else [hx], params, *how, batch_sizes=batch_sizes)
        return op.decompose(x, *given) if made is None else made

    return layer


# What runs in the place of PyTorch's layers, by the name of the op.
LAYERS = {
    name_of(op): _layer(cell, op, ops is OF_SEQUENCES) for ops in (OF_PYTORCH, OF_SEQUENCES) for cell, op in ops.items()
}
