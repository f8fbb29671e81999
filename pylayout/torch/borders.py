"""Borders that go round, joined for each dimension, in the place of PyTorch's copies of all sides and corners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["TRACED", "pad_circular"]

_of_pytorch = torch._C._nn.pad  # what torch.nn.functional.pad calls, and dynamo traces


def pad_circular(x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor:
    """`aten::_pad_circular`, with its errors; what negative sides cut off is not repeated."""
    spatial = len(padding) // 2
    if len(padding) % 2 or x.dim() - spatial not in (1, 2):  # without batches, or with them
        raise RuntimeError(f"Invalid padding size, expected {2 * (x.dim() - 2)} but got {len(padding)}")
    sides = [padding[2 * at : 2 * at + 2] for at in range(spatial)]  # of the last dimension first
    for at, (before, behind) in enumerate(sides):
        dim = x.dim() - 1 - at
        size = x.shape[dim]
        if before > size or behind > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if size + before + behind < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
        if before < 0 or behind < 0:
            x = x.narrow(dim, max(-before, 0), size + min(before, 0) + min(behind, 0))
        if x.shape[dim] == 0 and (before > 0 or behind > 0):
            raise RuntimeError(
                f"_pad_circular: a padding of {before} and {behind} leaves nothing of dimension {dim} to repeat"
            )
    own = False  # whether x is memory of its own by now, as the result must be
    for at, (before, behind) in enumerate(sides):
        dim, before, behind = x.dim() - 1 - at, max(before, 0), max(behind, 0)
        kept = x.shape[dim]
        own = own or before > 0 or behind > 0
        if before > kept or behind > kept:  # after a side was cut
            x = x.index_select(dim, torch.arange(-before, kept + behind, device=x.device) % kept)
        elif before or behind:
            x = torch.cat([x.narrow(dim, kept - before, before), x, x.narrow(dim, 0, behind)], dim)
    # What is joined lies as its parts do, PyTorch's result by rows.
    return x.contiguous() if own else x.clone(memory_format=torch.contiguous_format)


def _traced(input: torch.Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> torch.Tensor:
    if mode != "circular" or len(pad) % 2 or input.dim() - len(pad) // 2 not in (1, 2) or value:
        made: torch.Tensor = _of_pytorch(input, pad, mode, value)
        return made
    return pad_circular(input, pad)


# Functions, and what is traced in their places.
TRACED: dict[Any, Any] = {_of_pytorch: _traced}
