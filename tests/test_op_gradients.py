"""Gradients of every op, in every case of op_cases, against PyTorch in float64."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_cases import CASES, Case, tensor_parameters

import pylayout as pl
from pylayout.calls import schemas

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from support_page import NO_GRADIENT, PARTS_OF_STEPS

torch = pytest.importorskip("torch", reason="gradients are compared with PyTorch's")

pytestmark = pytest.mark.usefixtures("unoptimised")

# topk has a test of its own: the reference of its cases goes through NumPy.
DIFFERENTIABLE = [case for case in CASES if schemas()[case.op]["differentiable"] and case.op != "topk"]


def is_real(tensor: np.ndarray | None) -> bool:
    return tensor is not None and tensor.dtype == np.float32


def expected_gradients(
    case: Case, tensors: list[np.ndarray | None], by: list[int], weights: list[np.ndarray]
) -> list[np.ndarray]:
    """Of the sum of results times `weights`, by PyTorch in float64."""
    import torch.nn.functional as f

    given = [None if t is None else torch.from_numpy(t.astype("f8") if is_real(t) else t) for t in tensors]
    for i in by:
        given[i].requires_grad_()
    present = [t for t in given if t is not None]
    if case.reference:
        results = case.reference(torch, f, present, case.attributes)
    else:
        results = (getattr(f, case.op, None) or getattr(torch, case.op))(*present, **case.attributes)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    loss = sum((y * torch.from_numpy(w)).sum() for y, w in zip(results, weights, strict=True) if y.is_floating_point())
    made = torch.autograd.grad(loss, [given[i] for i in by], allow_unused=True)
    return [np.zeros(tensors[i].shape) if g is None else g.numpy() for i, g in zip(by, made, strict=True)]


def build(
    case: Case, tensors: list[np.ndarray | None], by: list[int], rng: np.random.Generator
) -> tuple[pl.Graph, list[np.ndarray]]:
    """A graph that gives the gradients by the tensors `by`, of a sum weighted by the arrays that come with it."""
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
        weights.append(rng.standard_normal(y.shape).astype("f4"))
        if y.dtype.name == "f32":
            part = graph.op("sum", graph.op("mul", y, weights[-1]))
            loss = part if loss is None else loss + part
    for i, gradient in zip(by, graph.gradients(loss, [values[i] for i in by]), strict=True):
        graph.output(gradient, f"d{i}")
    return graph, weights


# Gradients by these inputs are not given, as documented.
NOT_BY = {"batch_norm": {"running_mean", "running_var"}, "cross_entropy": {"weight"}, "roi_align": {"boxes"}}
# Results beyond the first take no part in gradients.
FIRST_ONLY = {"batch_norm_training"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=[case.name for case in DIFFERENTIABLE])
def test_gradients_of_every_op(case: Case, device: str, rng: np.random.Generator) -> None:
    tensors = case.make(seed=3)
    names = tensor_parameters(case.op)
    by = [
        i
        for i, tensor in enumerate(tensors)
        if is_real(tensor) and (case.variadic or names[i] not in NOT_BY.get(case.op, ()))
    ]
    if not by or case.attributes.get("dtype") in ("s8", "s64", "bool", "f16"):
        pytest.skip("no floating input and result")
    graph, weights = build(case, tensors, by, rng)
    if case.op in FIRST_ONLY:
        graph, weights = first_only(case, tensors, by, weights)
    expected = expected_gradients(case, tensors, by, weights)
    results = pl.compile(graph, tune="off", device=device).run()
    for i, got, want in zip(by, results, expected, strict=True):
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        tolerance = max(case.tolerance, 5e-5) * scale
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance, err_msg=f"{case.name} by {i}")


def test_every_op_has_a_gradient_or_a_reason() -> None:
    """No op of floating data with a floating result is left without a gradient unseen; the support page says why."""
    missing = set()
    for case in CASES:
        if schemas()[case.op]["differentiable"] or case.op in NO_GRADIENT or case.op.endswith(PARTS_OF_STEPS):
            continue
        tensors = case.make()
        if not any(is_real(tensor) for tensor in tensors):
            continue
        graph = pl.Graph()
        values = [tensors] if case.variadic else tensors
        results = graph.op(case.op, *values, **case.attributes)
        if any(y.dtype.name == "f32" for y in (results if isinstance(results, tuple) else (results,))):
            missing.add(case.op)
    assert not missing, "a Schema::gradient, or a reason in NO_GRADIENT"
    assert not [name for name in NO_GRADIENT if schemas()[name]["differentiable"]]


def first_only(
    case: Case, tensors: list[np.ndarray | None], by: list[int], weights: list[np.ndarray]
) -> tuple[pl.Graph, list[np.ndarray]]:
    graph = pl.Graph()
    values = [graph.parameter(f"t{i}", t) for i, t in enumerate(tensors)]
    named = dict(zip(tensor_parameters(case.op), values, strict=False))
    result = graph.op(case.op, **named, **case.attributes)[0]
    loss = graph.op("sum", graph.op("mul", result, weights[0]))
    for i, gradient in zip(by, graph.gradients(loss, values), strict=True):
        graph.output(gradient, f"d{i}")
    return graph, [weights[0], *(np.zeros_like(w) for w in weights[1:])]


def test_gradient_of_topk(rng: np.random.Generator) -> None:
    x, weights = rng.standard_normal((3, 9, 4)).astype("f4"), rng.standard_normal((3, 5, 4)).astype("f4")
    graph = pl.Graph()
    value = graph.parameter("x", x)
    values, _ = graph.topk(value, 5, dim=1)
    graph.output(graph.gradients((values * weights).sum(), [value])[0])
    wide = torch.from_numpy(x).requires_grad_()
    (wide.topk(5, dim=1)[0] * torch.from_numpy(weights)).sum().backward()
    np.testing.assert_allclose(pl.compile(graph, tune="off").run()[0], wide.grad.numpy(), rtol=0, atol=1e-6)


def test_every_activation_has_a_slope() -> None:
    choices = next(p for p in schemas()["conv2d"]["parameters"] if p["name"] == "activation")["choices"]
    tested = {case.op for case in DIFFERENTIABLE}
    assert {"gelu" if name.startswith("gelu") else name for name in choices} <= tested


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu", "clip", "leaky_relu", "hardswish"])
def test_activation_and_residual_of_an_op(activation: str, rng: np.random.Generator) -> None:
    import torch.nn.functional as f

    x, w, b, r = (rng.standard_normal(s).astype("f4") for s in ((2, 8, 6, 6), (8, 8, 3, 3), (8,), (2, 8, 6, 6)))
    options = {"activation_alpha": -0.5, "activation_beta": 0.5} if activation == "clip" else {}
    graph = pl.Graph()
    values = [graph.parameter(name, t) for name, t in zip("xwbr", (x, w, b, r), strict=True)]
    y = graph.conv2d(*values[:3], padding=1, residual=values[3], activation=activation, **options)
    for gradient in graph.gradients((y * y).sum(), values):
        graph.output(gradient)
    results = pl.compile(graph, tune="off", device="cpu").run()
    tensors = [torch.from_numpy(t.astype("f8")).requires_grad_() for t in (x, w, b, r)]
    z = f.conv2d(*tensors[:3], padding=1) + tensors[3]
    z = z.clamp(-0.5, 0.5) if activation == "clip" else getattr(f, activation)(z)
    for got, want in zip(results, torch.autograd.grad((z * z).sum(), tensors), strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=1e-4 * float(want.abs().max()))
