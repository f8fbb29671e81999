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
    own = False  # whether x is memory of its own by now, as the result must be
    for at in range(spatial):
        dim, before, behind = x.dim() - 1 - at, padding[2 * at], padding[2 * at + 1]
        size = x.shape[dim]
        if before > size or behind > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if size + before + behind < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
        if before < 0 or behind < 0:
            x = x.narrow(dim, max(-before, 0), size + min(before, 0) + min(behind, 0))
        kept, before, behind = x.shape[dim], max(before, 0), max(behind, 0)
        if kept == 0 and (before or behind):
            sides = f"{padding[2 * at]} and {padding[2 * at + 1]}"
            raise RuntimeError(f"_pad_circular: a padding of {sides} leaves nothing of dimension {dim} to repeat")
        own = own or before > 0 or behind > 0
        if before > kept or behind > kept:  # after a side was cut
            x = x.index_select(dim, torch.arange(-before, kept + behind, device=x.device) % kept)
        elif before or behind:
            x = torch.cat([x.narrow(dim, kept - before, before), x, x.narrow(dim, 0, behind)], dim)
    return x if own else x.clone()


def _traced(input: torch.Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> torch.Tensor:
    if mode != "circular" or len(pad) % 2 or input.dim() - len(pad) // 2 not in (1, 2) or value:
        made: torch.Tensor = _of_pytorch(input, pad, mode, value)
        return made
    return pad_circular(input, pad)


# Functions, and what is traced in their places.
TRACED: dict[Any, Any] = {_of_pytorch: _traced}
