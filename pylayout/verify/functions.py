"""The functions of single elements in float64, by the names that ops have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounds import FUNCTION, UNIT

__all__ = ["BINARY", "BITS", "UNARY", "apply", "erf", "error", "parameters"]

Array = NDArray[Any]
Function = Callable[[Array, float, float], Array]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Array) -> Array:
    values: Array = _erf(x) if x.size else np.zeros(x.shape)
    return values


def _sigmoid(x: Array) -> Array:
    values: Array = 1 / (1 + np.exp(-x))
    return values


def _softplus(x: Array, a: float = 1.0, b: float = 20.0) -> Array:
    return np.where(a * x > b, x, np.log1p(np.exp(np.minimum(a * x, b))) / a)


def _hardsigmoid(x: Array) -> Array:
    values: Array = np.clip(x / 6 + 0.5, 0, 1)
    return values


UNARY: dict[str, Function] = {
    "relu": lambda x, a, b: np.maximum(x, 0),
    "relu6": lambda x, a, b: np.clip(x, 0, 6),
    "leaky_relu": lambda x, a, b: np.where(x > 0, x, a * x),
    "elu": lambda x, a, b: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0))),
    "celu": lambda x, a, b: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0) / a)),
    "selu": lambda x, a, b: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    "gelu_erf": lambda x, a, b: x / 2 * (1 + erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x, a, b: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x, a, b: x * _sigmoid(x),
    "hardswish": lambda x, a, b: x * _hardsigmoid(x),
    "hardsigmoid": lambda x, a, b: _hardsigmoid(x),
    "sigmoid": lambda x, a, b: _sigmoid(x),
    "tanh": lambda x, a, b: np.tanh(x),
    "clip": lambda x, a, b: np.clip(x, a, b),
    "softplus": lambda x, a, b: _softplus(x, a, b),
    "mish": lambda x, a, b: x * np.tanh(_softplus(x)),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "abs": lambda x, a, b: np.abs(x),
    "neg": lambda x, a, b: -x,
    "exp": lambda x, a, b: np.exp(x),
    "log": lambda x, a, b: np.log(x),
    "sqrt": lambda x, a, b: np.sqrt(x),
    "rsqrt": lambda x, a, b: 1 / np.sqrt(x),
    "reciprocal": lambda x, a, b: 1 / x,
    "square": lambda x, a, b: x * x,
    "sin": lambda x, a, b: np.sin(x),
    "cos": lambda x, a, b: np.cos(x),
    "erf": lambda x, a, b: erf(x),
    "floor": lambda x, a, b: np.floor(x),
    "ceil": lambda x, a, b: np.ceil(x),
    "round": lambda x, a, b: np.round(x),
    "sign": lambda x, a, b: np.sign(x),
    "trunc": lambda x, a, b: np.trunc(x),
    "tan": lambda x, a, b: np.tan(x),
    "asin": lambda x, a, b: np.arcsin(x),
    "acos": lambda x, a, b: np.arccos(x),
    "atan": lambda x, a, b: np.arctan(x),
    "sinh": lambda x, a, b: np.sinh(x),
    "cosh": lambda x, a, b: np.cosh(x),
    "asinh": lambda x, a, b: np.arcsinh(x),
    "acosh": lambda x, a, b: np.arccosh(x),
    "atanh": lambda x, a, b: np.arctanh(x),
    "threshold": lambda x, a, b: np.where(x <= a, b, x),
    "logical_not": lambda x, a, b: x == 0,
    "isnan": lambda x, a, b: np.isnan(x),
    "isinf": lambda x, a, b: np.isinf(x),
}
# The parameters alpha and beta of functions that have some: their defaults, and the attributes of the op of that name.
_DEFAULTS = {
    "leaky_relu": (0.01, 0.0),
    "elu": (1.0, 0.0),
    "celu": (1.0, 0.0),
    "clip": (-math.inf, math.inf),
    "softplus": (1.0, 20.0),
}
_ATTRIBUTES = {
    "leaky_relu": ("negative_slope", ""),
    "elu": ("alpha", ""),
    "celu": ("alpha", ""),
    "clip": ("min", "max"),
    "softplus": ("beta", "threshold"),
    "threshold": ("threshold", "value"),
}

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


def _shifted(x: Array, by: Array, left: bool) -> Array:
    """Shifts by counts of which those outside of the dtype's bits shift all bits out, as PyTorch's do."""
    inside = (by >= 0) & (by < 8 * x.dtype.itemsize)
    count = np.where(inside, by, 0).astype(x.dtype)
    if left:
        return np.where(inside, np.left_shift(x, count), 0).astype(x.dtype)
    return np.where(inside, np.right_shift(x, count), np.where(x < 0, -1, 0)).astype(x.dtype)


# Of integers and bool, in their own dtypes.
BITS: dict[str, Callable[..., Array]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert,
    "bitwise_left_shift": lambda x, y: _shifted(x, y, True),
    "bitwise_right_shift": lambda x, y: _shifted(x, y, False),
}


def parameters(name: str, attributes: dict[str, Any], prefix: str = "") -> tuple[float, float]:
    """alpha and beta of a function: of an activation with the prefix "activation_", else of the op itself."""
    found = list(_DEFAULTS.get(name, (0.0, 0.0)))
    keys = ("activation_alpha", "activation_beta") if prefix else _ATTRIBUTES.get(name, ("", ""))
    for i, key in enumerate(keys):
        if attributes.get(key) is not None:
            found[i] = float(attributes[key])
    return found[0], found[1]


def error(name: str, x: Array, y: Array) -> Array:
    """How far off y = f(x) may be computed: some units of y, and of 1 where exponentials cancel; see bounds.py."""
    times_x = name in ("gelu", "gelu_erf", "gelu_tanh", "silu", "mish")  # x times a function whose values reach 1
    units: Array = FUNCTION * UNIT * (np.abs(y) + (np.abs(x) if times_x else np.minimum(1.0, np.abs(x))))
    return units


def apply(name: str, x: Array, alpha: float = 0.0, beta: float = 0.0) -> Array:
    with np.errstate(all="ignore"):
        values: Array = np.asarray(UNARY["gelu_erf" if name == "gelu" else name](x, alpha, beta))
    return values
