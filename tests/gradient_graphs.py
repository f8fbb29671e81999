"""Graphs that give the gradients of the calls of op_cases, and the same calls in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_cases import Case, tensor_parameters

import pylayout as pl

# Gradients by these inputs are not given, as documented.
NOT_BY = {"batch_norm": {"running_mean", "running_var"}, "cross_entropy": {"weight"}, "roi_align": {"boxes"}}
# Results beyond the first take no part in gradients.
FIRST_ONLY = {"batch_norm_training"}


def is_real(tensor: np.ndarray | None) -> bool:
    return tensor is not None and tensor.dtype == np.float32


def derived_by(case: Case, tensors: list[np.ndarray | None]) -> list[int]:
    """The places of the tensors that a loss is derived by."""
    names = tensor_parameters(case.op)
    return [
        i
        for i, tensor in enumerate(tensors)
        if is_real(tensor) and (case.variadic or names[i] not in NOT_BY.get(case.op, ()))
    ]


def call_in_pytorch(case: Case, tensors: list[Any]) -> list[Any]:
    """The results; `tensors` are PyTorch's, None where there is none."""
    import torch
    import torch.nn.functional as f

    present = [t for t in tensors if t is not None]
    if case.reference:
        results = case.reference(torch, f, present, case.attributes)
    else:
        results = (getattr(f, case.op, None) or getattr(torch, case.op))(*present, **case.attributes)
    return list(results) if isinstance(results, (tuple, list)) else [results]


def build(
    case: Case, tensors: list[np.ndarray | None], by: list[int], rng: np.random.Generator
) -> tuple[pl.Graph, list[np.ndarray]]:
    """A graph that gives the gradients by the tensors `by`, of a sum weighted by the arrays that come with it.

    Of results that are no floating numbers, and that take no part in gradients, the weights are zeros.
    """
    graph = pl.Graph()
    values: list[Any] = list(tensors)
    for i in by:
        values[i] = graph.parameter(f"t{i}", tensors[i])
    if case.variadic:
        results = graph.op(case.op, values, **case.attributes)
    else:
        named = dict(zip(tensor_parameters(case.op), values, strict=False))
        results = graph.op(case.op, **named, **case.attributes)
    results = results if isinstance(results, tuple) else (results,)
    weights, loss = [], None
    for y in results:
        if y.dtype.name not in ("f32", "f16", "bf16") or (case.op in FIRST_ONLY and weights):
            weights.append(np.zeros(y.shape, "f4"))
            continue
        weights.append(rng.standard_normal(y.shape).astype("f4"))
        wide = y if y.dtype.name == "f32" else graph.op("cast", y, dtype="f32")
        part = graph.op("sum", graph.op("mul", wide, weights[-1]))
        loss = part if loss is None else loss + part
    for i, gradient in zip(by, graph.gradients(loss, [values[i] for i in by]), strict=True):
        graph.output(gradient, f"d{i}")
    return graph, weights
