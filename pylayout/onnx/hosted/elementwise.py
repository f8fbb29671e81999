"""Arithmetic in element types that the library has not: float64, and integers of 16 bits or without a sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ..fold import FOLDS
from ..host import Call, host


def _quotient(x: Any, y: Any) -> Any:
    return FOLDS["div"](x, y, "trunc" if x.dtype.kind == "i" else None)


def _chain(function: Callable[..., Any]) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        made = call.x(0)
        for k in range(1, len(call)):
            made = function(made, call.x(k)).astype(made.dtype, copy=False)
        return made

    return run


_CHAINS: dict[str, Callable[..., Any]] = {
    "Add": numpy.add, "Sub": numpy.subtract, "Mul": numpy.multiply, "Div": _quotient,
    "Max": numpy.maximum, "Min": numpy.minimum, "Sum": numpy.add,
}  # fmt: skip
for _name, _function in _CHAINS.items():
    host(_name)(_chain(_function))


def _relation(function: Callable[..., Any]) -> Callable[[Call], Any]:
    return lambda call: function(call.x(0), call.x(1))


for _name, _function in {
    "Equal": numpy.equal, "Greater": numpy.greater, "GreaterOrEqual": numpy.greater_equal,
    "Less": numpy.less, "LessOrEqual": numpy.less_equal,
}.items():  # fmt: skip
    host(_name)(_relation(_function))


def _folded(name: str, count: int) -> Callable[[Call], Any]:
    return lambda call: FOLDS[name](*map(call.x, range(count)))


for _name in (
    "Abs", "Ceil", "Cos", "Exp", "Floor", "IsNaN", "Log", "Neg", "Reciprocal", "Round", "Sign", "Sin", "Sqrt",
):  # fmt: skip
    host(_name)(_folded(_name.lower(), 1))
host("Where")(_folded("where", 3))


@host("IsInf")
def is_inf(call: Call) -> Any:
    x = call.x(0)
    below, above = call.attribute("detect_negative", 1), call.attribute("detect_positive", 1)
    return (x == numpy.inf) & bool(above) | (x == -numpy.inf) & bool(below)


@host("Pow")
def power(call: Call) -> Any:
    with numpy.errstate(all="ignore"):
        return numpy.power(call.x(0), call.x(1)).astype(call.x(0).dtype)


@host("Mod")
def modulo(call: Call) -> Any:
    function = numpy.fmod if call.attribute("fmod", 0) else numpy.mod
    with numpy.errstate(all="ignore"):
        return function(call.x(0), call.x(1)).astype(call.x(0).dtype)


@host("Identity")
def identity(call: Call) -> Any:
    return (call.x(0),)


@host("Einsum")
def einsum(call: Call) -> Any:
    return numpy.einsum(call.attribute("equation"), *(call.x(i) for i in range(len(call))))


def _running(function: Any) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        x, axis = call.x(0), call.axis(int(call.x(1).reshape(-1)[0]), call.x(0).ndim)
        backwards = bool(call.attribute("reverse", 0))
        x = numpy.flip(x, axis) if backwards else x
        made = function.accumulate(x, axis, dtype=x.dtype)
        if call.attribute("exclusive", 0) and made.shape[axis]:
            first = numpy.full_like(numpy.take(made, [0], axis), function.identity)
            made = numpy.concatenate([first, numpy.delete(made, -1, axis)], axis)
        return numpy.flip(made, axis) if backwards else made

    return run


host("CumSum")(_running(numpy.add))
host("CumProd")(_running(numpy.multiply))


@host("Det")
def determinant(call: Call) -> Any:
    return numpy.linalg.det(call.x(0)).astype(call.x(0).dtype)
