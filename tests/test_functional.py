"""value_and_grad, RMSprop and clipping of gradients, against PyTorch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import pylayout as pl
from pylayout import ops

torch = pytest.importorskip("torch", reason="results are compared with PyTorch's")

OPTIONS: dict[str, Any] = {"device": "cpu", "tune": "off"}


class Layer(NamedTuple):
    w: Any
    b: Any


def network(layers: list[Layer], x: Any, target: Any) -> Any:
    for layer in layers[:-1]:
        x = ops.tanh(ops.linear(x, layer.w, layer.b))
    scores = ops.linear(x, layers[-1].w, layers[-1].b)
    return ops.cross_entropy(scores, target), {"scores": scores}


def made_layers(rng: np.random.Generator) -> list[Layer]:
    sizes = [(7, 5), (4, 7)]
    return [Layer(rng.standard_normal(s).astype("f4"), rng.standard_normal(s[0]).astype("f4")) for s in sizes]


def test_nested_arguments_and_other_results(rng: np.random.Generator) -> None:
    calls = 0

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return network(*arguments)

    step = pl.value_and_grad(counted, has_aux=True, **OPTIONS)
    layers = made_layers(rng)
    for batch in (3, 6, 3):
        x, target = rng.standard_normal((batch, 5)).astype("f4"), rng.integers(0, 4, batch)
        (loss, aux), gradients = step(layers, x, target)
        own = [Layer(*(torch.from_numpy(a).requires_grad_() for a in layer)) for layer in layers]
        y = torch.tanh(torch.from_numpy(x) @ own[0].w.T + own[0].b) @ own[1].w.T + own[1].b
        wanted = torch.nn.functional.cross_entropy(y, torch.from_numpy(target))
        wanted.backward()
        np.testing.assert_allclose(np.asarray(loss), wanted.detach().numpy(), rtol=1e-5)
        np.testing.assert_allclose(np.asarray(aux["scores"]), y.detach().numpy(), rtol=1e-4, atol=1e-5)
        assert isinstance(gradients, list) and isinstance(gradients[0], Layer)
        for made, layer in zip(gradients, own, strict=True):
            for got, want in zip(made, layer, strict=True):
                np.testing.assert_allclose(np.asarray(got), want.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert calls == 2  # a plan for each batch size


def test_several_arguments_constants_and_keywords() -> None:
    def loss(x: Any, power: int, y: Any, *, factor: float, mean: bool = False) -> Any:
        z = (x**power) * y * factor
        return z.mean() if mean else z.sum()

    step = pl.value_and_grad(loss, argnums=(0, 2), **OPTIONS)
    x, y = np.array([1.0, 2.0], "f4"), np.array([3.0, 5.0], "f4")
    for power, factor, mean in ((2, 1.5, False), (3, 1.5, False), (3, 0.5, True)):
        value, (dx, dy) = step(x, power, y, factor=factor, mean=mean)
        share = factor / (2 if mean else 1)
        assert float(value) == pytest.approx(float((x**power * y).sum() * share), rel=1e-5)
        np.testing.assert_allclose(np.asarray(dx), power * x ** (power - 1) * y * share, rtol=1e-5)
        np.testing.assert_allclose(np.asarray(dy), x**power * share, rtol=1e-5)


def test_plans_of_a_function_are_bounded() -> None:
    from pylayout.functional import _MOST_PLANS, _Function

    made = _Function(lambda x: (x * x).sum(), 0, False, OPTIONS)
    for size in range(1, _MOST_PLANS + 4):
        made(np.ones(size, "f4"))
    assert len(made._plans) == _MOST_PLANS


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: pl.value_and_grad(lambda a: a)(x), pl.ShapeError, r"returned shape \(3,\), expected a scalar"),
        (lambda x: pl.value_and_grad(lambda a: 1.0)(x), pl.ArgumentTypeError, "returned float, expected a Value"),
        (lambda x: pl.value_and_grad(lambda a: a.sum(), 1)(x), pl.ArgumentTypeError, "expected at least 2"),
        (
            lambda x: pl.value_and_grad(lambda a, b: a.sum(), 1)(x, 2),
            pl.ArgumentTypeError,
            "2 among what is derived by",
        ),
        (lambda x: pl.value_and_grad(lambda a: a.sum(), -1), pl.InvalidArgumentError, "argnums is -1"),
        (lambda x: pl.value_and_grad(lambda a: a.sum(), has_aux=True)(x), pl.ArgumentTypeError, "has_aux is true"),
        (
            lambda x: pl.value_and_grad(lambda a: a.sum())(np.ones(3, "i4")),
            pl.InvalidArgumentError,
            "s32, expected f32",
        ),
    ],
)
def test_errors_of_value_and_grad(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(np.ones(3, "f4"))


# ---- steps ----


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize(
    "options", [{}, {"momentum": 0.9}, {"centered": True}, {"momentum": 0.8, "centered": True, "weight_decay": 0.1}]
)
def test_rmsprop_and_clipping(options: dict[str, Any], clip: float | None, rng: np.random.Generator) -> None:
    w, b = rng.standard_normal((4, 6)).astype("f4"), rng.standard_normal(4).astype("f4")
    x, t = rng.standard_normal((5, 8, 6)).astype("f4"), rng.standard_normal((5, 8, 4)).astype("f4")
    graph = pl.Graph()
    values = graph.parameter("w", w), graph.parameter("b", b)
    loss = graph.mse_loss(graph.linear(graph.input("x", (8, 6)), *values), graph.input("t", (8, 4)))
    graph.output(loss, "loss")
    pl.training.rmsprop(graph, loss, lr=0.05, clip_norm=clip, **options)
    plan = pl.compile(graph, **OPTIONS)
    own = [torch.from_numpy(a.copy()).requires_grad_() for a in (w, b)]
    optimizer = torch.optim.RMSprop(own, lr=0.05, **options)
    for images, targets in zip(x, t, strict=True):
        (got,) = plan.run(images, targets)
        optimizer.zero_grad()
        want = torch.nn.functional.mse_loss(torch.from_numpy(images) @ own[0].T + own[1], torch.from_numpy(targets))
        want.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(own, clip)
        optimizer.step()
        assert float(got) == pytest.approx(float(want.detach()), rel=1e-4)
    np.testing.assert_allclose(plan.state("w"), own[0].detach().numpy(), rtol=0, atol=2e-4)
    np.testing.assert_allclose(plan.state("b"), own[1].detach().numpy(), rtol=0, atol=2e-4)


def test_errors_of_steps() -> None:
    graph = pl.Graph()
    w = graph.parameter("w", np.ones(3, "f4"))
    rate = np.array(0.1, "f4")
    with pytest.raises(pl.InvalidArgumentError, match=r"momentum is 0\.9, expected a buffer"):
        graph.rmsprop_step(w, w, rate, w, momentum=0.9)
    with pytest.raises(pl.ShapeError, match=r"tensor 3 has shape \(2,\), expected \(3,\)"):
        graph.rmsprop_step(w, w, rate, np.ones(2, "f4"))
    with pytest.raises(pl.InvalidArgumentError, match="max_norm is 0, expected more than 0"):
        pl.training.clip_by_norm(graph, [w], 0)
    with pytest.raises(pl.InvalidArgumentError, match="no gradients"):
        pl.training.clip_by_norm(graph, [], 1.0)
