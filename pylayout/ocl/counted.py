"""Ops whose results are as large as values say: the device counts, and the host reads the number."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["COUNTED"]

Tensor = torch.Tensor


def _found(mask: Tensor) -> Tensor:
    """The places of a flat mask where it holds, in order."""
    if mask.numel() == 0:
        return mask.new_empty((0,), dtype=torch.int64)
    upto = mask.cumsum(0)
    count = int(upto[-1].item())
    # Each place goes to its number; those where the mask does not hold go to one that is cut off. No op is given the
    # count, as one with other numbers is another program.
    numbers = torch.where(mask, upto - 1, mask.numel())
    places = torch.arange(mask.numel(), device=mask.device)
    made = torch.zeros(mask.numel() + 1, dtype=torch.int64, device=mask.device).scatter_(0, numbers, places)
    return made.narrow(0, 0, count)


def _nonzero(x: Tensor) -> Tensor:
    rest = _found((x if x.dtype == torch.bool else x != 0).reshape(-1))
    if x.dim() == 0:
        return rest.new_empty((rest.numel(), 0))
    columns = []
    for size in reversed(x.shape[1:]):
        columns.append(rest % size)
        rest = torch.div(rest, size, rounding_mode="floor")
    return torch.stack([rest, *columns[::-1]], 1)


def _nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    found = _nonzero(x)[:size]
    return torch.cat([found, found.new_full((size - found.shape[0], found.shape[1]), fill_value)])


def _masked_select(x: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    x, mask = torch.broadcast_tensors(x, mask)  # type: ignore[no-untyped-call]
    return x.reshape(-1).index_select(0, _found(mask.reshape(-1)))


def _runs(x: Tensor) -> tuple[Tensor, Tensor]:
    """Where runs of equal elements, or of equal rows, begin, and for each the number of its run."""
    differs = x[1:] != x[:-1]
    first = torch.cat([x.new_ones((1,), dtype=torch.bool), differs if x.dim() == 1 else differs.any(1)])
    return _found(first), first.cumsum(0) - 1


def _lengths(starts: Tensor, size: int) -> Tensor:
    return torch.cat([starts[1:], starts.new_full((1,), size)]) - starts


def _unique(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    none = x.new_empty((0,), dtype=torch.int64)
    if x.numel() == 0:
        return x.new_empty((0,)), none.reshape(x.shape) if return_inverse else none, none
    ordered, order = x.reshape(-1).sort()
    starts, numbers = _runs(ordered)
    inverse = torch.empty_like(order).scatter_(0, order, numbers).reshape(x.shape) if return_inverse else none
    return ordered.index_select(0, starts), inverse, _lengths(starts, x.numel()) if return_counts else none


def _unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    none = x.new_empty((0,), dtype=torch.int64)
    if x.numel() == 0 and dim is None:
        return x.new_empty((0,)), none.reshape(x.shape) if return_inverse else none, none
    if dim is not None and x.dim() > 1:
        return _unique_slices(x, return_inverse, return_counts, dim)
    flat = x.reshape(-1)
    starts, numbers = _runs(flat)
    inverse = numbers.reshape(x.shape) if return_inverse else none
    return flat.index_select(0, starts), inverse, _lengths(starts, flat.numel()) if return_counts else none


def _unique_slices(x: Tensor, return_inverse: bool, return_counts: bool, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of neighbouring slices, of which each is one element of the result."""
    none = x.new_empty((0,), dtype=torch.int64)
    rows = x.movedim(dim, 0).reshape(x.shape[dim], -1)
    if rows.numel() == 0:
        raise RuntimeError("unique_consecutive: there are no elements along dim")
    starts, numbers = _runs(rows)
    return (
        x.index_select(dim, starts),
        numbers if return_inverse else none,
        _lengths(starts, rows.shape[0]) if return_counts else none,
    )


# By PyTorch's name.
COUNTED: dict[str, Any] = {
    "nonzero": _nonzero,
    "nonzero_static": _nonzero_static,
    "masked_select": _masked_select,
    "_unique2": _unique,
    "unique_consecutive": _unique_consecutive,
}
