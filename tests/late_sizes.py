"""Which axes of an op's input may have sizes that are known late: found by trying the cases of op_cases."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_cases import Case, tensor_parameters

import pylayout as pl


def grown(array: np.ndarray, axis: int, size: int) -> np.ndarray:
    """The array with another size of one axis; what is there is repeated."""
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
    found: list[dict[int, int]] = []
    for each in (alike, from_end, {0: axis}, {0: axis, **anywhere}):
        if each not in found:
            found.append(each)
    return found


def run_late(case: Case, arrays: list[Any], axes: dict[int, int], size: int, device: str) -> bool:
    """Whether a plan made for the case's sizes gives what the op gives where these axes have another size."""
    others = [grown(a, axes[i], size) if i in axes else a for i, a in enumerate(arrays)]
    expected = case.call(pl.ops, others)
    expected = expected if isinstance(expected, tuple) else (expected,)
    graph = pl.Graph(sizes={"s": arrays[0].shape[axes[0]]})
    values: list[Any] = []
    given = []
    for i, array in enumerate(arrays):
        if i in axes:
            shape = tuple("s" if d == axes[i] else n for d, n in enumerate(array.shape))
            values.append(graph.input(f"x{i}", shape, dtype=str(array.dtype)))
            given.append(others[i])
        else:
            values.append(array)
    if case.variadic:
        results = graph.op(case.op, values, **case.attributes)
    else:
        results = graph.op(case.op, **dict(zip(tensor_parameters(case.op), values, strict=False)), **case.attributes)
    results = results if isinstance(results, tuple) else (results,)
    for i, result in enumerate(results):
        graph.output(result, f"y{i}")
    found = pl.compile(graph, device=device, tune="off").run(*given)
    for y, want in zip(found, map(np.asarray, expected), strict=True):
        if y.shape != want.shape:
            return False
        if not np.allclose(y.astype(np.float64), want.astype(np.float64), rtol=1e-3, atol=1e-3, equal_nan=True):
            return False
    return True


def late_axes(case: Case, device: str = "cpu") -> set[int]:
    """The axes of the case's first tensor whose size may come with the call."""
    arrays = case.make()
    if arrays[0] is None or any(a is not None and a.size == 0 for a in arrays):
        return set()
    found = set()
    for axis, size in enumerate(arrays[0].shape):
        for axes in sharing(arrays, axis):
            # What an attribute or a group asks for may hold for one of them alone.
            for other in (size + 1, 2 * size, max(1, size - 1)):
                try:
                    if run_late(case, arrays, axes, other, device):
                        found.add(axis)
                        break
                except (pl.Error, ValueError, TypeError):
                    continue
            if axis in found:
                break
    return found
