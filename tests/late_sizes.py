"""Which axes of an op's input may have sizes that are known late: found by trying the cases of op_cases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from op_cases import Case, tensor_parameters

import pylayout as pl

REFUSED = (pl.Error, ValueError, TypeError, IndexError)


def grown(array: np.ndarray, axis: int, size: int) -> np.ndarray:
    """The array with another size of one axis; what is there is repeated."""
    if not array.shape[axis]:
        return np.ones((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
    return np.take(array, np.arange(size) % array.shape[axis], axis)


def sharing(arrays: list[Any], axis: int) -> list[dict[int, int]]:
    """By input the axis that has the size of axis `axis` of the first: alike in all, in the first alone, anywhere."""
    size = arrays[0].shape[axis]
    alike = {
        i: axis for i, a in enumerate(arrays) if a is not None and a.ndim == arrays[0].ndim and a.shape[axis] == size
    }
    anywhere = {i: list(a.shape).index(size) for i, a in enumerate(arrays[1:], 1) if a is not None and size in a.shape}
    ends = {i: a.ndim - arrays[0].ndim + axis for i, a in enumerate(arrays) if a is not None}
    from_end = {i: d for i, d in ends.items() if d >= 0 and arrays[i].shape[d] == size}
    # The last axis of that size: batches stand behind directions.
    last = {i: a.ndim - 1 - a.shape[::-1].index(size) for i, a in enumerate(arrays[1:], 1) if i in anywhere}
    alone = {i: d for i, d in anywhere.items() if arrays[i].shape.count(size) == 1}
    found: list[dict[int, int]] = []
    for each in (alike, from_end, {0: axis}, {0: axis, **anywhere}, {0: axis, **last}, {0: axis, **alone}):
        if each not in found:
            found.append(each)
    return found


@dataclass
class Found:
    """What a case did at other sizes than a plan was made for."""

    axes: set[int] = field(default_factory=set)  # of the first tensor, whose size came with the call
    faults: list[str] = field(default_factory=list)  # the op took the sizes by itself, the plan did not or gave others


def plan_of(case: Case, arrays: list[Any], axes: dict[int, int], device: str) -> pl.Plan:
    """A plan whose inputs are what has the late axis; all else is constant."""
    graph = pl.Graph(sizes={"s": arrays[0].shape[axes[0]]})
    values: list[Any] = []
    for i, array in enumerate(arrays):
        if i in axes:
            shape = tuple("s" if d == axes[i] else n for d, n in enumerate(array.shape))
            values.append(graph.input(f"x{i}", shape, dtype=str(array.dtype)))
        else:
            values.append(array)
    if case.variadic:
        results = graph.op(case.op, values, **case.attributes)
    else:
        results = graph.op(case.op, **dict(zip(tensor_parameters(case.op), values, strict=False)), **case.attributes)
    for i, result in enumerate(results if isinstance(results, tuple) else (results,)):
        graph.output(result, f"y{i}")
    return pl.compile(graph, device=device, tune="off")


def differs(found: Any, expected: Any) -> str:
    """How the plan's results are not the op's; empty where they are."""
    expected = expected if isinstance(expected, tuple) else (expected,)
    for y, want in zip(found, map(np.asarray, expected), strict=True):
        if y.shape != want.shape:
            return f"shape {y.shape}, expected {want.shape}"
        if not np.allclose(y.astype(np.float64), want.astype(np.float64), rtol=1e-3, atol=1e-3, equal_nan=True):
            return f"values differ by up to {np.abs(y.astype(np.float64) - want.astype(np.float64)).max()}"
    return ""


def at_other_sizes(case: Case, device: str = "cpu") -> Found:
    """One plan for each axis of the case's first tensor, run at every other size that the op itself takes."""
    arrays = case.make()
    found = Found()
    if arrays[0] is None:
        return found
    for axis, size in enumerate(arrays[0].shape):
        # What an attribute or a group asks for may hold for one size alone; 1 is repeated up to what stands beside it.
        beside = {a.shape[d] for a in arrays if a is not None and (d := axis + a.ndim - arrays[0].ndim) >= 0}
        sizes = sorted({size + 1, 2 * size, max(size - 1, 0), 1, 0, *beside} - {size})
        for axes in sharing(arrays, axis):
            taken = []
            for other in sizes:
                others = [grown(a, axes[i], other) if i in axes else a for i, a in enumerate(arrays)]
                try:
                    taken.append((other, others, case.call(pl.ops, others)))
                except REFUSED:
                    continue
            if not taken:
                continue
            where = f"{case.name}: axis {axis} of {size}, late in inputs {sorted(axes)}"
            try:
                plan = plan_of(case, arrays, axes, device)
            except REFUSED as error:
                found.faults.append(f"{where}: {error}")
                continue
            for other, others, expected in taken:
                try:
                    wrong = differs(plan.run(*(others[i] for i in sorted(axes))), expected)
                except REFUSED as error:
                    wrong = str(error)
                if wrong:
                    found.faults.append(f"{where}, at {other}: {wrong}")
                else:
                    found.axes.add(axis)
    return found


def late_axes(case: Case, device: str = "cpu") -> set[int]:
    """The axes of the case's first tensor whose size may come with the call."""
    return at_other_sizes(case, device).axes
