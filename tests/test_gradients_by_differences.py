"""Gradients of ops that add to places that values name, against differences of what the op itself gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_cases import CASES, Case, tensor_parameters

import pylayout as pl
from pylayout import ops

pytestmark = pytest.mark.usefixtures("unoptimised")

# By op: the tensors that a loss is derived by.
BY = {
    "scatter": {"x", "src"},
    "scatter_nd": {"x", "src"},
    "grid_sample": {"x", "grid"},
    "roi_align": {"x"},
    "grouped_mm": {"x", "weight"},
    "grouped_mm_backward_weights": {"x", "grad"},
    "selective_scan": {"u", "delta", "a", "b", "c"},
}
# Calls whose results have no corners.
CHOSEN = [
    case
    for case in CASES
    if case.op in BY
    and case.attributes.get("reduce", "none") in ("none", "sum", "prod")
    and case.attributes.get("mode", "bilinear" if case.op == "grid_sample" else "mean") in ("mean", "bicubic")
    and case.attributes.get("padding_mode", "zeros") == "zeros"
    and all(a.size for a in case.make())
    and case.make()[0].dtype == np.float32
]


@pytest.mark.parametrize("case", CHOSEN, ids=[case.name for case in CHOSEN])
def test_along_a_line(case: Case, device: str, rng: np.random.Generator) -> None:
    """The loss is a sum of results times weights: its slope along a random direction of each tensor."""
    tensors, names = case.make(seed=5), tensor_parameters(case.op)
    by = [i for i, t in enumerate(tensors) if t is not None and t.dtype == np.float32 and names[i] in BY[case.op]]
    graph = pl.Graph()
    values: list[Any] = list(tensors)
    for i in by:
        values[i] = graph.parameter(f"t{i}", tensors[i])
    y = graph.op(case.op, **dict(zip(names, values, strict=False)), **case.attributes)
    weights = rng.standard_normal(y.shape).astype("f4")
    for i, gradient in zip(by, graph.gradients((y * weights).sum(), [values[i] for i in by]), strict=True):
        graph.output(gradient, f"d{i}")
    found = pl.compile(graph, tune="off", device=device).run()

    def loss(i: int, moved: np.ndarray) -> float:
        given = [moved if k == i else tensor for k, tensor in enumerate(tensors)]
        result = np.asarray(case.call(ops, [pl.asarray(t) for t in given]))
        return float((result.astype("f8") * weights).sum())

    for i, gradient in zip(by, found, strict=True):
        step = 1e-3 if names[i] in ("grid", "delta") else 1e-2
        direction = rng.standard_normal(tensors[i].shape).astype("f4")
        slope = (loss(i, tensors[i] + step * direction) - loss(i, tensors[i] - step * direction)) / (2 * step)
        scale = float((np.abs(gradient.astype("f8")) * np.abs(direction)).sum()) + 1
        assert abs(float((gradient.astype("f8") * direction).sum()) - slope) < 2e-3 * scale, (
            f"{case.name} by {names[i]}"
        )
