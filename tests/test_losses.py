"""Losses and their gradients, against PyTorch in float64, with weights, reductions and ignored positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pylayout as pl
from pylayout import ops

torch = pytest.importorskip("torch", reason="losses are compared with PyTorch's")

pytestmark = pytest.mark.usefixtures("unoptimised")

SHAPE = (4, 5, 3)
REDUCTIONS = ["mean", "sum", "none"]


def check(name: str, arrays: list[np.ndarray | None], by: list[int], rng: np.random.Generator, **options: Any) -> None:
    """The loss at once and in a graph, and the gradients by the arrays numbered in `by`."""
    import torch.nn.functional as f

    tensors = [None if a is None else torch.from_numpy(a.astype("f8") if a.dtype.kind == "f" else a) for a in arrays]
    for i in by:
        tensors[i].requires_grad_()
    third = {"weight": tensors[2]} if len(tensors) > 2 and tensors[2] is not None else {}
    fourth = {"pos_weight": tensors[3]} if len(tensors) > 3 else {}
    wanted = getattr(f, name)(tensors[0], tensors[1], **third, **fourth, **options)
    scale = rng.standard_normal(tuple(wanted.shape)).astype("f4")
    gradients = torch.autograd.grad((wanted * torch.from_numpy(scale)).sum(), [tensors[i] for i in by])

    names = ["x", "target", "weight", "pos_weight"]
    given = {n: a for n, a in zip(names, arrays, strict=False) if a is not None}
    at_once = np.asarray(getattr(ops, name)(**given, **options))
    np.testing.assert_allclose(at_once, wanted.detach().numpy(), rtol=2e-5, atol=2e-5)

    graph = pl.Graph()
    values: dict[str, Any] = dict(given)
    for i in by:
        values[names[i]] = graph.parameter(names[i], arrays[i])
    loss = getattr(graph, name)(**values, **options)
    graph.output(loss, "loss")
    for i, made in zip(by, graph.gradients((loss * scale).sum(), [values[names[i]] for i in by]), strict=True):
        graph.output(made, f"d{names[i]}")
    got, *derived = pl.compile(graph, tune="off", device="cpu").run()
    np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=2e-5, atol=2e-5)
    for found, want in zip(derived, gradients, strict=True):
        np.testing.assert_allclose(found, want.numpy(), rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mse_loss", {}),
        ("l1_loss", {}),
        ("smooth_l1_loss", {}),
        ("smooth_l1_loss", {"beta": 0.25}),
        ("smooth_l1_loss", {"beta": 0.0}),
        ("huber_loss", {"delta": 0.4}),
    ],
)
def test_regression(name: str, options: dict[str, Any], reduction: str, rng: np.random.Generator) -> None:
    x, target = (rng.standard_normal(SHAPE).astype("f4") for _ in range(2))
    check(name, [x, target], [0, 1], rng, reduction=reduction, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_binary_cross_entropy(weighted: bool, reduction: str, rng: np.random.Generator) -> None:
    x, target = (rng.uniform(0.02, 0.98, SHAPE).astype("f4") for _ in range(2))
    weight = rng.uniform(0.5, 2, (5, 1)).astype("f4") if weighted else None
    check("binary_cross_entropy", [x, target, weight], [0], rng, reduction=reduction)
    x[0, 0], target[0, 0] = (0, 1, 0), (0, 1, 1)  # certain, and once wrong
    got = np.asarray(ops.binary_cross_entropy(x, target, reduction="none"))
    np.testing.assert_array_equal(got[0, 0], [0, 0, 100])


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_binary_cross_entropy_with_logits(
    weighted: bool, positive: bool, reduction: str, rng: np.random.Generator
) -> None:
    x = (3 * rng.standard_normal(SHAPE)).astype("f4")
    x[0, 0] = (0, 90, -90)
    target = rng.uniform(0, 1, SHAPE).astype("f4")
    weight = rng.uniform(0.5, 2, SHAPE).astype("f4") if weighted else None
    more = [rng.uniform(0.5, 2, (3,)).astype("f4")] if positive else []
    check("binary_cross_entropy_with_logits", [x, target, weight, *more], [0], rng, reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(6, 5), (2, 5, 3, 4)])
@pytest.mark.parametrize("dtype", ["i8", "i4"])
def test_negative_log_likelihood(
    dtype: str, shape: tuple[int, ...], weighted: bool, reduction: str, rng: np.random.Generator
) -> None:
    x = rng.standard_normal(shape).astype("f4")
    target = rng.integers(0, 5, (shape[0], *shape[2:]))
    target.flat[::4] = 3
    weight = rng.uniform(0.5, 2, 5).astype("f4") if weighted else None
    if dtype == "i8":  # the only one that PyTorch takes
        check("nll_loss", [x, target, weight], [0], rng, reduction=reduction, ignore_index=3)
        check("nll_loss", [x, target, weight], [0], rng, reduction=reduction)
    else:
        both = [np.asarray(ops.nll_loss(x, t, weight, 3, reduction)) for t in (target, target.astype("i4"))]
        np.testing.assert_array_equal(*both)


def test_cross_entropy_is_the_likelihood_of_log_softmax(rng: np.random.Generator) -> None:
    x, target = rng.standard_normal((6, 5)).astype("f4"), rng.integers(0, 5, 6)
    target[2] = -100
    apart = ops.nll_loss(ops.log_softmax(x, 1), target)
    np.testing.assert_allclose(np.asarray(apart), np.asarray(ops.cross_entropy(x, target)), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: ops.mse_loss(x, x[:1]),
            pl.ShapeError,
            r"mse_loss: target has shape \(1, 5, 3\), expected \(4, 5, 3\)",
        ),
        (lambda x: ops.l1_loss(x, x, "max"), pl.InvalidArgumentError, "reduction is 'max', expected 'mean', 'sum' or"),
        (lambda x: ops.huber_loss(x, x, delta=0), pl.InvalidArgumentError, "delta is 0, expected more than 0"),
        (lambda x: ops.smooth_l1_loss(x, x, beta=-1), pl.InvalidArgumentError, "beta is -1, expected at least 0"),
        (lambda x: ops.nll_loss(x, np.zeros(4, "i8")), pl.ShapeError, r"target has shape \(4,\), expected \(4, 3\)"),
        (
            lambda x: ops.nll_loss(x, np.zeros((4, 3), "i8"), np.ones(3, "f4")),
            pl.ShapeError,
            r"weight has shape \(3,\)",
        ),
        (lambda x: ops.binary_cross_entropy(x, x, np.ones((2, 4, 5, 3), "f4")), pl.ShapeError, "does not broadcast to"),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str, rng: np.random.Generator) -> None:
    with pytest.raises(error, match=message):
        call(rng.uniform(0.1, 0.9, SHAPE).astype("f4"))


def test_classes_that_there_are_not(rng: np.random.Generator) -> None:
    for shape in [(6, 5), (2, 5, 3)]:
        x, target = rng.standard_normal(shape).astype("f4"), np.zeros((shape[0], *shape[2:]), np.int64)
        target.flat[1] = 5
        grad = np.ones((), "f4")
        message = r"target is 5 at element 1, expected 0 to 4 or -100 \(ignore_index\)"
        with pytest.raises(pl.InvalidArgumentError, match=f"cross_entropy: {message}"):
            ops.cross_entropy(x, target)
        with pytest.raises(pl.InvalidArgumentError, match=f"cross_entropy_backward: {message}"):
            ops.cross_entropy_backward(x, target, grad)
        assert np.isfinite(np.asarray(ops.cross_entropy(x, target, ignore_index=5)))
        for beside in (-1, 5):
            target.flat[1] = beside
            with pytest.raises(pl.InvalidArgumentError, match="expected"):
                ops.nll_loss(x, target)
