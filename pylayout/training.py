"""Optimizers: what brings a graph from its forward pass and loss to a program that trains; checkpoints of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from .checkpoint import restore, save
from .errors import ArgumentTypeError, InvalidArgumentError
from .graph import Graph, Value
from .sizes import is_integer

__all__ = ["LossScale", "adam", "adamw", "clip_by_norm", "restore", "rmsprop", "save", "sgd"]

_EPS = 1e-6  # added to a norm, as in PyTorch


@dataclass(frozen=True)
class LossScale:
    """What the loss is multiplied by, so that small gradients are not lost where values are held as f16.

    It is `initial` at first, the state "loss_scale". A step whose gradients are not all finite changes nothing but that
    it halves the scale; after `interval` others in a row it doubles.
    """

    initial: float = 65536.0
    interval: int = 2000

    def __post_init__(self) -> None:
        _number("LossScale", "initial", self.initial)
        if not is_integer(self.interval):
            raise ArgumentTypeError(f"LossScale: interval is {self.interval!r}, expected an integer")


def sgd(
    graph: Graph,
    loss: Value,
    lr: float = 0.01,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    parameters: Sequence[Value] | None = None,
    clip_norm: float | None = None,
    loss_scale: LossScale | None = None,
) -> None:
    """Append backward and a step of stochastic gradient descent: each run of the plan then trains.

    The learning rate is the state "lr": `plan.set_state("lr", numpy.float32(0.001))` changes it between runs.
    parameters: those to train; None: all of the graph. clip_norm: the longest that all gradients together may be, see
    `clip_by_norm`. loss_scale: for plans with math="fp16". Raises UnsupportedError where an op has no gradient.

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
    _check("sgd", graph, loss, loss_scale, clip_norm, lr=lr, momentum=momentum, weight_decay=weight_decay)
    if not isinstance(nesterov, bool) or (nesterov and not momentum):
        raise InvalidArgumentError(
            f"sgd: nesterov is {nesterov!r} and momentum {momentum}, expected False, or True with a momentum"
        )

    def step(value: Value, gradient: Value, rate: Value, more: dict[str, Any]) -> None:
        options = {"momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay, **more}
        if not momentum:
            graph.update(value, graph.op("sgd_step", value, gradient, rate, weight_decay=weight_decay, **more))
            return
        velocity = _zeros(graph, value, "velocity")
        weight, moved = graph.op("sgd_step", value, gradient, rate, velocity, **options)
        graph.update(value, weight)
        graph.update(velocity, moved)

    _append(graph, loss, lr, parameters, clip_norm, loss_scale, step)


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
    loss_scale: LossScale | None = None,
) -> None:
    """Append backward and a step of Adam; see `sgd`. The number of steps so far is the state "steps"."""
    options = {"beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
    _adam(graph, loss, "adam_step", lr, parameters, clip_norm, loss_scale, **options)


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
    loss_scale: LossScale | None = None,
) -> None:
    """Append backward and a step of Adam with decoupled weight decay; see `adam`."""
    options = {"beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
    _adam(graph, loss, "adamw_step", lr, parameters, clip_norm, loss_scale, **options)


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
    loss_scale: LossScale | None = None,
) -> None:
    """Append backward and a step of RMSprop; see `sgd`."""
    numbers = {"lr": lr, "alpha": alpha, "eps": eps, "momentum": momentum, "weight_decay": weight_decay}
    _check("rmsprop", graph, loss, loss_scale, clip_norm, **numbers)

    def step(value: Value, gradient: Value, rate: Value, more: dict[str, Any]) -> None:
        kept = {"square": _zeros(graph, value, "square")}
        if centered:
            kept["mean"] = _zeros(graph, value, "mean")
        if momentum:
            kept["buffer"] = _zeros(graph, value, "buffer")
        options: dict[str, Any] = {"alpha": alpha, "eps": eps, "momentum": momentum, "weight_decay": weight_decay}
        results = graph.op("rmsprop_step", value, gradient, rate, **kept, **options, **more)
        for state, result in zip((value, *kept.values()), results, strict=True):
            graph.update(state, result)

    _append(graph, loss, lr, parameters, clip_norm, loss_scale, step)


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
    if not _number("clip_by_norm", "max_norm", max_norm) > 0:
        raise InvalidArgumentError(f"clip_by_norm: max_norm is {max_norm}, expected more than 0")
    if isinstance(gradients, Value) or not isinstance(gradients, Sequence):
        raise ArgumentTypeError(f"clip_by_norm: gradients is {gradients!r}, expected a list of values")
    if not gradients:
        raise InvalidArgumentError("clip_by_norm: there are no gradients, expected one at least")
    norm = _norm(graph, gradients, None)
    share = graph.op("pointwise", [norm], "y0 = min(1, s0 / (x0 + s1))", scalars=[max_norm, _EPS])
    return [graph.op("pointwise", [g, share], "y0 = x0 * x1") for g in gradients], norm


def _norm(graph: Graph, gradients: Sequence[Value], scale: Value | None) -> Any:
    """Of all gradients together, each times `scale`: squares of what is not scaled back might be too large for f32."""
    squares = []
    for gradient in gradients:
        given, text = ([gradient], "y0 = x0 * x0") if scale is None else ([gradient, scale], "v = x0 * x1; y0 = v * v")
        made = graph.op("pointwise", given, text, reductions="reduce_y0 += y0", dtype="f32")
        squares.append(graph.op("reshape", made, [1]))
    together = squares[0] if len(squares) == 1 else graph.op("concat", squares, 0)
    return graph.op("sqrt", graph.op("sum", together))


# Of an optimizer's numbers: what is expected, and whether a finite one is that.
_NATURAL = ("a finite number of at least 0", lambda number: number >= 0)
_SHARE = ("0 to less than 1", lambda number: 0 <= number < 1)
_EXPECTED: dict[str, tuple[str, Callable[[float], bool]]] = {
    "lr": _NATURAL,
    "eps": _NATURAL,
    "weight_decay": _NATURAL,
    "momentum": _SHARE,
    "beta1": _SHARE,
    "beta2": _SHARE,
    "alpha": ("0 to 1", lambda number: 0 <= number <= 1),
}


def _check(optimizer: str, graph: Any, loss: Any, loss_scale: Any, clip_norm: Any, **numbers: Any) -> None:
    """Raises for arguments that make no sense, before anything is appended to the graph."""
    if not isinstance(graph, Graph):
        raise ArgumentTypeError(f"{optimizer}: graph is {type(graph).__name__}, expected a Graph")
    if not isinstance(loss, Value) or loss.graph is not graph:
        raise ArgumentTypeError(f"{optimizer}: loss is {loss!r}, expected a Value of the graph")
    if loss_scale is not None and not isinstance(loss_scale, LossScale):
        raise ArgumentTypeError(f"{optimizer}: loss_scale is {loss_scale!r}, expected a LossScale or None")
    for name, value in numbers.items():
        expected, fits = _EXPECTED[name]
        number = _number(optimizer, name, value)
        if not math.isfinite(number) or not fits(number):
            raise InvalidArgumentError(f"{optimizer}: {name} is {value}, expected {expected}")
    if clip_norm is not None and not _number(optimizer, "clip_norm", clip_norm) > 0:
        raise InvalidArgumentError(f"{optimizer}: clip_norm is {clip_norm}, expected more than 0")
    if any(state["name"] == "lr" for state in graph.describe()["states"]):
        raise InvalidArgumentError(
            f'{optimizer}: the graph has the state "lr", an optimizer\'s, already, expected one optimizer for a graph'
        )


def _number(optimizer: str, name: str, value: Any) -> float:
    if not isinstance(value, (str, bytes, bool)):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise ArgumentTypeError(f"{optimizer}: {name} is {value!r}, expected a number")


def _adam(
    graph: Graph,
    loss: Value,
    op: str,
    lr: float,
    parameters: Sequence[Value] | None,
    clip_norm: float | None,
    loss_scale: LossScale | None,
    **options: Any,
) -> None:
    _check(op.removesuffix("_step"), graph, loss, loss_scale, clip_norm, lr=lr, **options)
    steps = graph.state("steps", numpy.zeros((), numpy.float32))
    number = graph.op("add", steps, numpy.ones((), numpy.float32))
    graph.update(steps, number)

    def step(value: Value, gradient: Value, rate: Value, more: dict[str, Any]) -> None:
        mean, square = _zeros(graph, value, "mean"), _zeros(graph, value, "square")
        results = graph.op(op, value, gradient, rate, mean, square, number, **options, **more)
        for state, result in zip((value, mean, square), results, strict=True):
            graph.update(state, result)

    _append(graph, loss, lr, parameters, clip_norm, loss_scale, step)


def _append(
    graph: Graph,
    loss: Value,
    lr: float,
    parameters: Sequence[Value] | None,
    clip_norm: float | None,
    loss_scale: LossScale | None,
    step: Callable[[Value, Value, Value, dict[str, Any]], None],
) -> None:
    if isinstance(parameters, Value) or not isinstance(parameters, (Sequence, type(None))):
        raise ArgumentTypeError(f"training: parameters is {parameters!r}, expected a list of values, or None: all")
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
    if clip_norm is not None and loss_scale is None:
        gradients, _ = clip_by_norm(graph, gradients, clip_norm)
    elif clip_norm is not None:
        scale = more["grad_scale"]
        text = "y0 = where(x1 > 0, x1 * min(1, s0 / (x0 + s1)), 0)"
        norm = _norm(graph, gradients, scale)
        more["grad_scale"] = graph.op("pointwise", [norm, scale], text, scalars=[clip_norm, _EPS])
    rate = graph.state("lr", numpy.array(lr, numpy.float32))
    for value, gradient in zip(values, gradients, strict=True):
        step(value, gradient, rate, more)


def _zeros(graph: Graph, value: Value, what: str) -> Any:
    # NumPy's zeros are borrowed where no conversion is needed: pages that nobody writes take no memory.
    exact = value.dtype.is_exact_in_numpy
    zeros = numpy.zeros(value.shape, value.dtype.dtype if exact else numpy.float32)
    return graph.state(f"{value.name}/{what}", zeros, dtype=None if exact else value.dtype)
