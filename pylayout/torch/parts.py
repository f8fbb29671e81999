"""Parts of parts that are written, joined: `x[:, 1:-1, ::2, 0] = y` is one op, where a chain of ops is traced.

What is traced writes no tensor. So a part is taken for each dimension, the last one is replaced in the one before it,
and so on: each is a copy of all that it is a part of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

__all__ = ["join_written_parts"]

aten = torch.ops.aten


@torch.library.custom_op("pylayout::slice_scatter", mutates_args=())
def slice_scatter(
    x: torch.Tensor, source: torch.Tensor, starts: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> torch.Tensor:
    """x with the source, of the same rank, at places that begin with `starts` along `axes`, `steps` apart."""
    made = x.clone(memory_format=torch.contiguous_format)
    part = made
    for axis, start, step in zip(axes, starts, steps, strict=True):
        part = part[(slice(None),) * axis + (slice(start, None, step),)].narrow(axis, 0, source.shape[axis])
    part.copy_(source)
    return made


@slice_scatter.register_fake
def _(
    x: torch.Tensor, source: torch.Tensor, starts: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> torch.Tensor:
    return x.new_empty(x.shape)


class _Part:
    """What a node writes to a tensor: how the part lies, and what is written."""

    def __init__(self, base: Any, source: Any, starts: list[int], axes: list[int], steps: list[int]) -> None:
        self.base, self.source, self.starts, self.axes, self.steps = base, source, starts, axes, steps
        self.selected: list[int] = []  # dimensions that the source has not, in ascending order


def _arguments(node: Any, op: Any) -> tuple[Any, list[Any]] | None:
    """What the first argument of a call of `op` is like, and the others; None where it is no such call."""
    if not isinstance(node, Node) or node.op != "call_function" or node.target is not op or node.kwargs:
        return None
    base: Any = node.args[0]
    like = base.meta.get("val") if isinstance(base, Node) else None
    return None if like is None else (like, [*node.args[1:]])


def _slice_of(node: Any, op: Any, given: int = 0) -> tuple[int, int, int] | None:
    """The dimension, the start and the step of a slice, all known, that stand behind `given` other arguments."""
    found = _arguments(node, op)
    if found is None:
        return None
    like, arguments = found
    own = arguments[given:]
    every: list[Any] = [*own, *(0, None, None, 1)[len(own) :]]
    dim, start, end, step = every
    if not all(each is None or isinstance(each, int) for each in (dim, start, end, step, like.shape[dim])):
        return None
    return dim % like.dim(), slice(start, end).indices(like.shape[dim])[0], step


def _select_of(node: Any, op: Any, given: int = 0) -> tuple[int, int] | None:
    found = _arguments(node, op)
    if found is None:
        return None
    like, arguments = found
    dim, index = arguments[given:]
    if not all(isinstance(each, int) for each in (dim, index, like.shape[dim])):
        return None
    return dim % like.dim(), index % like.shape[dim]


def _joined(node: Any, parts: dict[Node, _Part]) -> _Part | None:
    """What the node writes to its first argument, with what was written to the part before."""
    sliced = _slice_of(node, aten.slice_scatter.default, 1)
    selected = _select_of(node, aten.select_scatter.default, 1)
    if sliced is None and selected is None:
        return None
    base, source = node.args[:2]
    inner = parts.get(source) if len(source.users) == 1 else None
    if inner is not None:  # if it was written to that very part
        same = _slice_of(inner.base, aten.slice.Tensor) == sliced if sliced else False
        same = same or (selected is not None and _select_of(inner.base, aten.select.int) == selected)
        # A slice that ends elsewhere has another size.
        like = inner.base.meta["val"].shape == source.meta["val"].shape
        inner = inner if same and like and inner.base.args[0] is base else None
    before = inner or _Part(node, source, [], [], [])
    dim, first, step = sliced or (*selected, 1)  # type: ignore[misc]
    made = _Part(base, before.source, [*before.starts], [*before.axes], [*before.steps])
    made.selected = before.selected
    if selected is not None:  # which the part before has no dimension for
        made.axes = [axis + (axis >= dim) for axis in before.axes]
        made.selected = sorted([*(axis + (axis >= dim) for axis in before.selected), dim])
    if dim in made.axes:
        at = made.axes.index(dim)
        made.starts[at], made.steps[at] = first + step * made.starts[at], step * made.steps[at]
        return made
    made.starts.append(first)
    made.axes.append(dim)
    made.steps.append(step)
    return made


def join_written_parts(graph: Graph) -> None:
    """Write chains of `slice_scatter` and `select_scatter` as one op each."""
    parts: dict[Node, _Part] = {}
    for node in [*graph.nodes]:
        part = _joined(node, parts) if node.op == "call_function" else None
        if part is None:
            continue
        parts[node] = part
        if part.source is node.args[1]:  # no chain, as far as it goes
            continue
        with graph.inserting_before(node):
            source = part.source
            for dim in part.selected:
                before = source
                source = graph.call_function(aten.unsqueeze.default, (before, dim))
                source.meta["val"] = before.meta["val"].unsqueeze(dim)
            made = graph.call_function(
                torch.ops.pylayout.slice_scatter.default, (part.base, source, part.starts, part.axes, part.steps)
            )
            made.meta.update(node.meta)
        node.replace_all_uses_with(made)
        parts[made] = part
    # What was joined, and the parts that were taken for it alone.
    left = {*parts, *(part.base for part in parts.values())}
    for node in reversed(graph.nodes):
        if node in left and node.op == "call_function" and not node.users:
            graph.erase_node(node)
