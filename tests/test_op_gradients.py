"""Gradients of every op, in every case of op_cases, against PyTorch in float64."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from gradient_graphs import build, call_in_pytorch, derived_by, is_real
from op_cases import CASES, Case

import pylayout as pl
from pylayout.calls import schemas

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from support_page import NO_GRADIENT, PARTS_OF_STEPS

torch = pytest.importorskip("torch", reason="gradients are compared with PyTorch's")

pytestmark = pytest.mark.usefixtures("unoptimised")

# topk has a test of its own: the reference of its cases goes through NumPy.
DIFFERENTIABLE = [case for case in CASES if schemas()[case.op]["differentiable"] and case.op != "topk"]


def expected_gradients(
    case: Case, tensors: list[np.ndarray | None], by: list[int], weights: list[np.ndarray]
) -> list[np.ndarray]:
    """Of the sum of results times `weights`, by PyTorch in float64."""
    given = [None if t is None else torch.from_numpy(t.astype("f8") if is_real(t) else t) for t in tensors]
    for i in by:
        given[i].requires_grad_()
    results = call_in_pytorch(case, given)
    loss = sum((y * torch.from_numpy(w)).sum() for y, w in zip(results, weights, strict=True) if y.is_floating_point())
    made = torch.autograd.grad(loss, [given[i] for i in by], allow_unused=True)
    return [np.zeros(tensors[i].shape) if g is None else g.numpy() for i, g in zip(by, made, strict=True)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=[case.name for case in DIFFERENTIABLE])
def test_gradients_of_every_op(case: Case, device: str, rng: np.random.Generator) -> None:
    tensors = case.make(seed=3)
    by = derived_by(case, tensors)
    if not by or case.attributes.get("dtype") in ("s8", "s64", "bool", "f16"):
        pytest.skip("no floating input and result")
    graph, weights = build(case, tensors, by, rng)
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


def test_gradient_of_topk(rng: np.random.Generator) -> None:
    x, weights = rng.standard_normal((3, 9, 4)).astype("f4"), rng.standard_normal((3, 5, 4)).astype("f4")
    graph = pl.Graph()
    value = graph.parameter("x", x)
    values, _ = graph.topk(value, 5, dim=1)
    graph.output(graph.gradients((values * weights).sum(), [value])[0])
    wide = torch.from_numpy(x).requires_grad_()
    (wide.topk(5, dim=1)[0] * torch.from_numpy(weights)).sum().backward()
    np.testing.assert_allclose(pl.compile(graph, tune="off").run()[0], wide.grad.numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_rounded_quotients_of_any_numbers_have_slopes_of_zero(mode: str) -> None:
    graph = pl.Graph()
    x = graph.parameter("x", np.array([[np.inf, np.nan, 3], [-np.inf, 1, 0]], "f4"))
    y = graph.parameter("y", np.array([2, np.inf, 0], "f4"))
    quotient = graph.div(x, y, rounding_mode=mode)
    for gradient in graph.gradients(quotient.sum(), [x, y]):
        graph.output(gradient)
    for got, shape in zip(pl.compile(graph, tune="off", device="cpu").run(), ((2, 3), (3,)), strict=True):
        np.testing.assert_array_equal(got, np.zeros(shape))


@pytest.mark.parametrize("zeros", [(), (2,), (0, 3), (4,), (0, 1, 2, 3, 4)])
@pytest.mark.parametrize("op", ["prod", "cumprod"])
def test_products_of_zeros(op: str, zeros: tuple[int, ...], rng: np.random.Generator) -> None:
    x, weights = rng.standard_normal((2, 3, 5)).astype("f4")
    x[1, list(zeros)] = 0
    graph = pl.Graph()
    parameter = graph.parameter("x", x)
    y = parameter.prod(1, keepdim=True) if op == "prod" else graph.cumprod(parameter, dim=1)
    graph.output(graph.gradients((y * weights).sum(), [parameter])[0])
    given = torch.from_numpy(x.astype("f8")).requires_grad_()
    made = given.prod(1, keepdim=True) if op == "prod" else given.cumprod(1)
    want = torch.autograd.grad((made * torch.from_numpy(weights)).sum(), given)[0]
    got = pl.compile(graph, tune="off", device="cpu").run()[0]
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


def test_quotients_of_numbers_whose_squares_are_out_of_range() -> None:
    numbers = np.array([[3e25, 4e20], [-5e-25, 8e-30]], "f4")  # x and y of each
    graph = pl.Graph()
    x, y = (graph.parameter(name, column) for name, column in zip("xy", numbers.T, strict=True))
    graph.output(graph.gradients((x / y).sum(), [y])[0])
    got = pl.compile(graph, tune="off", device="cpu").run()[0]
    wide = numbers.astype("f8")
    np.testing.assert_allclose(got, (-wide[:, 0] / wide[:, 1] ** 2).astype("f4"), rtol=1e-5)


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
