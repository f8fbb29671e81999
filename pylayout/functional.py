"""value_and_grad: a function of tensors as one that gives its gradients too, each call a plan."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy

from .arrays import as_input
from .compilation import compile
from .errors import ArgumentTypeError, InvalidArgumentError, ShapeError
from .graph import Graph
from .plan import Plan
from .sizes import is_integer
from .tensor import Tensor
from .value import Value

__all__ = ["value_and_grad"]

_MOST_PLANS = 64  # of one function; the least recently used is let go


class _Leaf:
    """Stands for a tensor in a nest: its place among those of the call."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place


def _map(function: Callable[[Any], Any], nest: Any) -> Any:
    """The nest of lists, tuples and dicts with each of its leaves replaced."""
    if isinstance(nest, dict):
        return {key: _map(function, value) for key, value in nest.items()}
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*(_map(function, value) for value in nest))
    if isinstance(nest, (list, tuple)):
        return type(nest)(_map(function, value) for value in nest)
    return function(nest)


def _is_constant(value: Any) -> bool:
    """What a plan is made for: another one makes another plan."""
    return value is None or isinstance(value, (bool, int, str)) or callable(value)


def _key(nest: Any, tensors: Sequence[Tensor]) -> Any:
    """What a plan depends on: structure, constants, shapes, dtypes."""
    if isinstance(nest, _Leaf):
        tensor = tensors[nest.place]
        return (tensor.shape, tensor.dtype.name)
    if isinstance(nest, dict):
        return ("dict", *((key, _key(value, tensors)) for key, value in nest.items()))
    if isinstance(nest, (list, tuple)):
        return (type(nest).__name__, *(_key(value, tensors) for value in nest))
    return (type(nest).__name__, nest)


class _Prepared:
    """A plan, and how its results go back into nests."""

    def __init__(self, plan: Plan, outputs: Any, gradients: Any) -> None:
        self.plan, self.outputs, self.gradients = plan, outputs, gradients


class _Function:
    def __init__(self, function: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, options: Any) -> None:
        if not callable(function):
            raise ArgumentTypeError(f"value_and_grad: function is {function!r}, expected a function")
        self._function, self._has_aux, self._options = function, has_aux, options
        self._single = isinstance(argnums, int)
        given = [argnums] if isinstance(argnums, int) else argnums if isinstance(argnums, Iterable) else []
        self._argnums = tuple(given)
        if not self._argnums or not all(is_integer(n) and n >= 0 for n in self._argnums):
            raise InvalidArgumentError(
                f"value_and_grad: argnums is {argnums!r}, expected places of arguments, from 0 on"
            )
        self._plans: OrderedDict[Any, _Prepared] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if max(self._argnums) >= len(arguments):
            raise ArgumentTypeError(
                f"value_and_grad: {len(arguments)} arguments, expected at least {max(self._argnums) + 1} (argnums)"
            )
        tensors: list[Tensor] = []

        def leaf(value: Any) -> Any:
            if _is_constant(value):
                return value
            given = numpy.float32(value) if isinstance(value, float) else value
            tensors.append(given if isinstance(given, Tensor) else as_input(given, "value_and_grad", "an argument"))
            return _Leaf(len(tensors) - 1)

        nest = _map(leaf, (arguments, keywords))
        key = _key(nest, tensors)
        with self._lock:
            prepared = self._plans.get(key)
            if prepared is None:
                prepared = self._plans[key] = self._prepare(nest, tensors)
                if len(self._plans) > _MOST_PLANS:
                    self._plans.popitem(last=False)
            self._plans.move_to_end(key)
        made = prepared.plan(*tensors)
        results = made if isinstance(made, tuple) else (made,)

        def fill(place: Any) -> Any:
            return results[place.place] if isinstance(place, _Leaf) else place

        return _map(fill, prepared.outputs), _map(fill, prepared.gradients)

    def _prepare(self, nest: Any, tensors: Sequence[Tensor]) -> _Prepared:
        graph = Graph()
        inputs = [graph.input(f"t{i}", tensor.shape, tensor.dtype) for i, tensor in enumerate(tensors)]

        def value_of(leaf: Any) -> Any:
            return inputs[leaf.place] if isinstance(leaf, _Leaf) else leaf

        arguments, keywords = _map(value_of, nest)
        made = self._function(*arguments, **keywords)
        if self._has_aux and not (isinstance(made, tuple) and len(made) == 2):
            raise ArgumentTypeError(
                "value_and_grad: has_aux is true, expected the function to return (loss, other results)"
            )
        loss = made[0] if self._has_aux else made
        if not isinstance(loss, Value):
            raise ArgumentTypeError(
                f"value_and_grad: the function returned {type(loss).__name__}, expected a Value made of its arguments"
            )
        if loss.shape != ():
            raise ShapeError(f"value_and_grad: the function returned shape {loss.shape}, expected a scalar")
        count = 0

        def output(value: Any) -> Any:
            nonlocal count
            if not isinstance(value, Value):
                return value
            graph.output(value, f"y{count}")
            count += 1
            return _Leaf(count - 1)

        outputs = _map(output, made)
        derived: list[int] = []

        def place_of(leaf: Any) -> Any:
            if not isinstance(leaf, _Leaf):
                raise ArgumentTypeError(f"value_and_grad: {leaf!r} among what is derived by, expected tensors")
            derived.append(leaf.place)
            return leaf

        wanted = tuple(_map(place_of, nest[0][n]) for n in self._argnums)
        found = iter(graph.gradients(loss, [inputs[place] for place in derived]))
        gradients = _map(lambda _: output(next(found)), wanted)
        plan = compile(graph, **self._options)
        return _Prepared(plan, outputs, gradients[0] if self._single else gradients)


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False, **options: Any
) -> Callable[..., Any]:
    """A function that returns (value, gradients) of one that returns a scalar.

    function: takes tensors, or lists, tuples and dicts of them, and is made of the ops of pylayout, which see values of
    a graph. It is called once for each set of shapes: forward and backward are one plan from then on. argnums: the
    arguments to derive by; gradients are nested as these are, in a tuple where argnums is a sequence. has_aux: it
    returns (scalar, other results), and so does the value. Numbers that are float are tensors, too; other Python
    objects are constants of the plan. options: as of `compile`.

    Raises what building a graph raises; UnsupportedError naming an op that has no gradient.

    >>> import numpy, pylayout as pl
    >>> def loss(weights, x, target):
    ...     return pl.ops.mse_loss(pl.ops.linear(x, weights["w"], weights["b"]), target)
    >>> step = pl.value_and_grad(loss, device="cpu", tune="off")
    >>> weights = {"w": numpy.ones((1, 2), "f4"), "b": numpy.zeros(1, "f4")}
    >>> value, gradients = step(weights, numpy.array([[1, 2]], "f4"), numpy.array([[1]], "f4"))
    >>> float(value), gradients["w"].tolist(), gradients["b"].tolist()
    (4.0, [[4.0, 8.0]], [4.0])
    """
    made = _Function(function, argnums, has_aux, options)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        return made(*arguments, **keywords)

    return call
