"""Arithmetic, comparisons and logic, element by element."""

from __future__ import annotations

import functools

import numpy

from ...dtypes import dtype_of
from ..node import Node, dtype_text, is_float, numpy_of
from ..operand import Known, Operand, Result
from ..registry import converter

# ONNX ops of one tensor that are one op of the library.
_UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "isnan",
    "Log": "log",
    "Neg": "neg",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Round": "round",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
}

_BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
}

_BITWISE = {"BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor"}

_VARIADIC = {"Sum": "add", "Max": "maximum", "Min": "minimum"}


@converter(*_UNARY)
def unary(node: Node) -> Result:
    return node.op(_UNARY[node.op_type], node.x(0))


@converter(*_BINARY, since=7)
def binary(node: Node) -> Result:
    return node.op(_BINARY[node.op_type], node.x(0), node.x(1))


@converter(*_BITWISE, since=18)
def bitwise(node: Node) -> Result:
    return node.op(_BITWISE[node.op_type], node.x(0), node.x(1))


@converter("BitwiseNot", since=18)
def bitwise_not(node: Node) -> Result:
    return node.op("bitwise_not", node.x(0))


@converter("BitShift", since=11)
def shift(node: Node) -> Result:
    way = node.text("direction", choices=("LEFT", "RIGHT"))
    return node.op(f"bitwise_{way.lower()}_shift", node.x(0), node.x(1))


@converter("Div", since=7)
def div(node: Node) -> Result:
    x, y = node.x(0), node.x(1)
    if is_float(x):
        return node.op("div", x, y)
    return node.op("div", x, y, rounding_mode="trunc")


@converter("Mod", since=10)
def mod(node: Node) -> Result:
    x, y = node.x(0), node.x(1)
    truncated = bool(node.integer("fmod", 0))
    return node.op("fmod" if truncated else "remainder", x, y)


@converter("Pow", since=7)
def power(node: Node) -> Result:
    x, y = node.x(0), node.x(1)
    if isinstance(y, Known) and y.array.size == 1 and y.ndim <= x.ndim:
        exponent = float(y.array.reshape(-1)[0])
        if exponent == 1:
            return x
        if exponent == 2:
            return node.op("square", x)
        if exponent == 0.5 and is_float(x):
            return node.op("sqrt", x)
        if exponent == -1 and is_float(x):
            return node.op("reciprocal", x)
    if numpy_of(y) == numpy_of(x):
        return node.op("pow", x, y)
    if is_float(x):
        return node.op("pow", x, cast(node, y, dtype_text(x)))
    if is_float(y):
        # An integer to the power of a float is computed as a float, and cut.
        return cast(node, node.op("pow", cast(node, x, "f32"), y), dtype_text(x))
    return node.op("pow", x, cast(node, y, dtype_text(x)))


def cast(node: Node, x: Operand, dtype: str) -> Operand:
    """x, which may be a constant of another element type, in one of the library's dtypes."""
    made: Operand = x if numpy_of(x) == dtype_of(dtype).dtype else node.op("cast", x, dtype)
    return made


def _several(node: Node, op: str) -> Operand:
    operands = [node.x(i) for i in range(len(node.inputs))]
    return functools.reduce(lambda x, y: node.op(op, x, y), operands)


@converter(*_VARIADIC, since=6)
def variadic(node: Node) -> Result:
    return _several(node, _VARIADIC[node.op_type])


@converter("Mean", since=6)
def mean(node: Node) -> Result:
    total = _several(node, "add")
    return node.op("mul", total, node.scalar_like(1 / len(node.inputs), total))


@converter("IsInf", since=10)
def is_inf(node: Node) -> Result:
    x = node.x(0)
    below, above = bool(node.integer("detect_negative", 1)), bool(node.integer("detect_positive", 1))
    if below and above:
        return node.op("isinf", x)
    if not (below or above):
        return node.op("ne", x, x) if not is_float(x) else node.op("lt", node.op("abs", x), node.scalar_like(0, x))
    return node.op("eq", x, node.scalar_like(numpy.inf if above else -numpy.inf, x))


@converter("Where", since=9)
def where(node: Node) -> Result:
    return node.op("where", node.x(0), node.x(1), node.x(2))


@converter("CumSum", since=11, note="the axis known")
def cum_sum(node: Node) -> Result:
    x = node.x(0)
    axis = node.axis(int(node.number_at(1)), x.ndim)
    size = x.shape[axis]
    backwards = bool(node.integer("reverse", 0))
    if node.integer("exclusive", 0):
        # The sum before each element: a zero goes in at the front, the last element leaves.
        pairs = [0, 0] * (x.ndim - 1 - axis)
        if size:
            kept = [1, size] if backwards else [0, size - 1]
            part = node.op("slice", x, [kept[0]], [kept[1]], [axis])
            x = node.op("pad", part, [*pairs, *([0, 1] if backwards else [1, 0])])
    if backwards:
        back = node.backwards(size)
        turned = node.op("cumsum", node.op("index_select", x, axis, back), axis)
        return node.op("index_select", turned, axis, back)
    return node.op("cumsum", x, axis)
