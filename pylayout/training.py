"""Optimizers: what brings a graph from its forward pass and loss to a program that trains; checkpoints of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from .checkpoint import restore, save
from .errors import InvalidArgumentError
from .graph import Graph, Value

__all__ = ["adam", "adamw", "clip_by_norm", "restore", "rmsprop", "save", "sgd"]

_EPS = 1e-6  # added to a norm, as in PyTorch


def sgd(
    graph: Graph,
    loss: Value,
    lr: float = 0.01,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    parameters: Sequence[Value] | None = None,
    clip_norm: float | None = None,
) -> None:
    """Append backward and a step of stochastic gradient descent: each run of the plan then trains.

    The learning rate is the state "lr": `plan.set_state("lr", numpy.float32(0.001))` changes it between runs.
    parameters: those to train; None: all of the graph. clip_norm: the longest that all gradients together may be, see
    `clip_by_norm`. Raises UnsupportedError where an op has no gradient.

    >>> import numpy, pylayout as pl
    >>> g = pl.Graph()
    >>> w = g.parameter("w", numpy.array([3.0, 4.0], "float32"))
    >>> loss = (w * w).sum()
    >>> g.output(loss, "loss")
    >>> pl.training.sgd(g, loss, lr=0.25)
    >>> plan = pl.compile(g, tune="off")
    >>> [float(plan.run()[0]) for _ in range(3)], plan.state("w").tolist()
    ([25.0, 6.25, 1.5625], [0.375, 0.5])
    """

    def step(value: Value, gradient: Value, rate: Value) -> None:
        options: dict[str, Any] = {"momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay}
        if not momentum:
            graph.update(value, graph.op("sgd_step", value, gradient, rate, weight_decay=weight_decay))
            return
        velocity = _zeros(graph, value, "velocity")
        weight, moved = graph.op("sgd_step", value, gradient, rate, velocity, **options)
        graph.update(value, weight)
        graph.update(velocity, moved)

    _append(graph, loss, lr, parameters, clip_norm, step)


def adam(
    graph: Graph,
    loss: Value,
    lr: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    parameters: Sequence[Value] | None = None,
    clip_norm: float | None = None,
) -> None:
    """Append backward and a step of Adam; see `sgd`. The number of steps so far is the state "steps"."""
    _adam(
        graph,
        loss,
        "adam_step",
        lr,
        parameters,
        clip_norm,
        beta1=beta1,
        beta2=beta2,
        eps=eps,
        weight_decay=weight_decay,
    )


def adamw(
    graph: Graph,
    loss: Value,
    lr: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    parameters: Sequence[Value] | None = None,
    clip_norm: float | None = None,
) -> None:
    """Append backward and a step of Adam with decoupled weight decay; see `adam`."""
    _adam(
        graph,
        loss,
        "adamw_step",
        lr,
        parameters,
        clip_norm,
        beta1=beta1,
        beta2=beta2,
        eps=eps,
        weight_decay=weight_decay,
    )


def rmsprop(
    graph: Graph,
    loss: Value,
    lr: float = 0.01,
    alpha: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    centered: bool = False,
    weight_decay: float = 0.0,
    parameters: Sequence[Value] | None = None,
    clip_norm: float | None = None,
) -> None:
    """Append backward and a step of RMSprop; see `sgd`."""

    def step(value: Value, gradient: Value, rate: Value) -> None:
        kept = {"square": _zeros(graph, value, "square")}
        if centered:
            kept["mean"] = _zeros(graph, value, "mean")
        if momentum:
            kept["buffer"] = _zeros(graph, value, "buffer")
        options: dict[str, Any] = {"alpha": alpha, "eps": eps, "momentum": momentum, "weight_decay": weight_decay}
        results = graph.op("rmsprop_step", value, gradient, rate, **kept, **options)
        for state, result in zip((value, *kept.values()), results, strict=True):
            graph.update(state, result)

    _append(graph, loss, lr, parameters, clip_norm, step)


def clip_by_norm(graph: Graph, gradients: Sequence[Value], max_norm: float) -> tuple[list[Value], Value]:
    """The gradients, all made smaller alike where together they are longer than max_norm; and their norm before.

    Source: semantics of torch.nn.utils.clip_grad_norm_; R. Pascanu et al., arXiv 1211.5063.

    >>> import numpy, pylayout as pl
    >>> g = pl.Graph()
    >>> w = g.parameter("w", numpy.array([3.0, 4.0], "float32"))
    >>> (short,), norm = pl.training.clip_by_norm(g, g.gradients((w * w * 0.5).sum(), [w]), 1.0)
    >>> g.output(short)
    >>> g.output(norm)
    >>> [(100 * a).round().tolist() for a in pl.compile(g, tune="off").run()]
    [[60.0, 80.0], 500.0]
    """
    if not max_norm > 0:
        raise InvalidArgumentError(f"clip_by_norm: max_norm is {max_norm}, expected more than 0")
    if not gradients:
        raise InvalidArgumentError("clip_by_norm: there are no gradients, expected one at least")
    squares = [graph.op("reshape", graph.op("reduce_sum_square", _as_f32(graph, g)), [1]) for g in gradients]
    together = squares[0] if len(squares) == 1 else graph.op("concat", squares, 0)
    norm = graph.op("sqrt", graph.op("sum", together))
    share = graph.op("pointwise", [norm], "y0 = min(1, s0 / (x0 + s1))", scalars=[max_norm, _EPS])
    return [graph.op("pointwise", [g, share], "y0 = x0 * x1") for g in gradients], norm


def _as_f32(graph: Graph, value: Value) -> Any:
    return value if value.dtype.name == "f32" else graph.op("cast", value, "f32")


def _adam(
    graph: Graph,
    loss: Value,
    op: str,
    lr: float,
    parameters: Sequence[Value] | None,
    clip_norm: float | None,
    **options: Any,
) -> None:
    steps = graph.state("steps", numpy.zeros((), numpy.float32))
    number = graph.op("add", steps, numpy.ones((), numpy.float32))
    graph.update(steps, number)

    def step(value: Value, gradient: Value, rate: Value) -> None:
        mean, square = _zeros(graph, value, "mean"), _zeros(graph, value, "square")
        results = graph.op(op, value, gradient, rate, mean, square, number, **options)
        for state, result in zip((value, mean, square), results, strict=True):
            graph.update(state, result)

    _append(graph, loss, lr, parameters, clip_norm, step)


def _append(
    graph: Graph,
    loss: Value,
    lr: float,
    parameters: Sequence[Value] | None,
    clip_norm: float | None,
    step: Callable[[Value, Value, Value], None],
) -> None:
    values = list(graph.parameters.values()) if parameters is None else list(parameters)
    if not values:
        raise InvalidArgumentError(
            "training: the graph has no parameters, expected some from Graph.parameter or trainable"
        )
    gradients = graph.gradients(loss, values)
    if clip_norm is not None:
        gradients, _ = clip_by_norm(graph, gradients, clip_norm)
    rate = graph.state("lr", numpy.array(lr, numpy.float32))
    for value, gradient in zip(values, gradients, strict=True):
        step(value, gradient, rate)


def _zeros(graph: Graph, value: Value, what: str) -> Any:
    return graph.state(f"{value.name}/{what}", numpy.zeros(value.shape, numpy.float32), dtype=value.dtype)
