"""Optimizers: what brings a graph from its forward pass and loss to a program that trains; checkpoints of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from .checkpoint import restore, save
from .errors import InvalidArgumentError
from .graph import Graph, Value

__all__ = ["LossScale", "adam", "adamw", "restore", "save", "sgd"]


@dataclass(frozen=True)
class LossScale:
    """What the loss is multiplied by, so that small gradients are not lost where values are held as f16.

    It is `initial` at first, the state "loss_scale". A step whose gradients are not all finite changes nothing but that
    it halves the scale; after `interval` others in a row it doubles.
    """

    initial: float = 65536.0
    interval: int = 2000


def sgd(
    graph: Graph,
    loss: Value,
    lr: float = 0.01,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    parameters: Sequence[Value] | None = None,
    loss_scale: LossScale | None = None,
) -> None:
    """Append backward and a step of stochastic gradient descent: each run of the plan then trains.

    The learning rate is the state "lr": `plan.set_state("lr", numpy.float32(0.001))` changes it between runs.
    parameters: those to train; None: all of the graph. loss_scale: for plans with math="fp16". Raises UnsupportedError
    where an op has no gradient.

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

    def step(value: Value, gradient: Value, rate: Value, more: dict[str, Any]) -> None:
        options = {"momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay, **more}
        if not momentum:
            graph.update(value, graph.op("sgd_step", value, gradient, rate, weight_decay=weight_decay, **more))
            return
        velocity = _zeros(graph, value, "velocity")
        weight, moved = graph.op("sgd_step", value, gradient, rate, velocity, **options)
        graph.update(value, weight)
        graph.update(velocity, moved)

    _append(graph, loss, lr, parameters, loss_scale, step)


def adam(
    graph: Graph,
    loss: Value,
    lr: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    parameters: Sequence[Value] | None = None,
    loss_scale: LossScale | None = None,
) -> None:
    """Append backward and a step of Adam; see `sgd`. The number of steps so far is the state "steps"."""
    options = {"beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
    _adam(graph, loss, "adam_step", lr, parameters, loss_scale, **options)


def adamw(
    graph: Graph,
    loss: Value,
    lr: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    parameters: Sequence[Value] | None = None,
    loss_scale: LossScale | None = None,
) -> None:
    """Append backward and a step of Adam with decoupled weight decay; see `adam`."""
    options = {"beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
    _adam(graph, loss, "adamw_step", lr, parameters, loss_scale, **options)


def _adam(
    graph: Graph,
    loss: Value,
    op: str,
    lr: float,
    parameters: Sequence[Value] | None,
    loss_scale: LossScale | None,
    **options: Any,
) -> None:
    steps = graph.state("steps", numpy.zeros((), numpy.float32))
    number = graph.op("add", steps, numpy.ones((), numpy.float32))
    graph.update(steps, number)

    def step(value: Value, gradient: Value, rate: Value, more: dict[str, Any]) -> None:
        mean, square = _zeros(graph, value, "mean"), _zeros(graph, value, "square")
        results = graph.op(op, value, gradient, rate, mean, square, number, **options, **more)
        for state, result in zip((value, mean, square), results, strict=True):
            graph.update(state, result)

    _append(graph, loss, lr, parameters, loss_scale, step)


def _append(
    graph: Graph,
    loss: Value,
    lr: float,
    parameters: Sequence[Value] | None,
    loss_scale: LossScale | None,
    step: Callable[[Value, Value, Value, dict[str, Any]], None],
) -> None:
    values = list(graph.parameters.values()) if parameters is None else list(parameters)
    if not values:
        raise InvalidArgumentError(
            "training: the graph has no parameters, expected some from Graph.parameter or trainable"
        )
    more: dict[str, Any] = {}
    if loss_scale is None:
        gradients = graph.gradients(loss, values)
    else:
        gradients, more["grad_scale"] = graph.scaled_gradients(loss, values, loss_scale.initial, loss_scale.interval)
    rate = graph.state("lr", numpy.array(lr, numpy.float32))
    for value, gradient in zip(values, gradients, strict=True):
        step(value, gradient, rate, more)


def _zeros(graph: Graph, value: Value, what: str) -> Any:
    return graph.state(f"{value.name}/{what}", numpy.zeros(value.shape, numpy.float32), dtype=value.dtype)
