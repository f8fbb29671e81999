"""Activations."""

from __future__ import annotations

import math

from ...errors import ShapeError
from ..node import Node, dtype_text
from ..operand import Known, Operand, Result
from ..registry import converter

# ONNX ops that are one op of the library, without attributes.
_PLAIN = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Softsign": "softsign",
    "HardSwish": "hardswish",
    "Mish": "mish",
    "Erf": "erf",
}


@converter(*_PLAIN)
def plain(node: Node) -> Result:
    return node.op(_PLAIN[node.op_type], node.x(0))


@converter("LeakyRelu")
def leaky_relu(node: Node) -> Result:
    return node.op("leaky_relu", node.x(0), node.number("alpha", 0.01))


@converter("Elu")
def elu(node: Node) -> Result:
    return node.op("elu", node.x(0), node.number("alpha", 1.0))


@converter("Celu", since=12)
def celu(node: Node) -> Result:
    return node.op("celu", node.x(0), node.number("alpha", 1.0))


_ALPHA, _GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


@converter("Selu", since=6)
def selu(node: Node) -> Result:
    x, alpha, gamma = node.x(0), node.number("alpha", _ALPHA), node.number("gamma", _GAMMA)
    if math.isclose(alpha, _ALPHA, rel_tol=1e-6) and math.isclose(gamma, _GAMMA, rel_tol=1e-6):
        return node.op("selu", x)
    return node.op("mul", node.op("elu", x, alpha), node.scalar_like(gamma, x))


def clipped_line(node: Node, x: Operand, alpha: float, beta: float) -> Operand:
    """alpha * x + beta between 0 and 1, by the op that has a name where that is it."""
    made: Operand
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        made = node.op("hardsigmoid", x)
    else:
        text = "y0 = clip(x0 * s0 + s1, 0, 1)"
        made = node.op("pointwise", [x], text, scalars=[alpha, beta], dtype=dtype_text(x))
    return made


@converter("HardSigmoid", since=6)
def hard_sigmoid(node: Node) -> Result:
    return clipped_line(node, node.x(0), node.number("alpha", 0.2), node.number("beta", 0.5))


@converter("ThresholdedRelu", since=10)
def thresholded_relu(node: Node) -> Result:
    x = node.x(0)  # NaN is above nothing
    return node.op("pointwise", [x], "y0 = x0 > s0 ? x0 : 0", scalars=[node.number("alpha", 1.0)], dtype=dtype_text(x))


@converter("Softplus")
def softplus(node: Node) -> Result:
    return node.op("softplus", node.x(0))


@converter("Gelu", since=20)
def gelu(node: Node) -> Result:
    return node.op("gelu", node.x(0), node.text("approximate", "none", ("none", "tanh")))


def sigmoid_linear(node: Node, x: Operand, alpha: float) -> Operand:
    """x * sigmoid(alpha * x)."""
    made: Operand
    if alpha == 1:
        made = node.op("silu", x)
    else:
        made = node.op("pointwise", [x], "y0 = x0 * sigmoid(s0 * x0)", scalars=[alpha], dtype=dtype_text(x))
    return made


@converter("Swish", since=24)
def swish(node: Node) -> Result:
    return sigmoid_linear(node, node.x(0), node.number("alpha", 1.0))


@converter("Shrink", since=9)
def shrink(node: Node) -> Result:
    x = node.x(0)
    scalars = [node.number("lambd", 0.5), node.number("bias", 0.0)]
    text = "y0 = x0 < -s0 ? x0 + s1 : (x0 > s0 ? x0 - s1 : 0)"
    return node.op("pointwise", [x], text, scalars=scalars, dtype=dtype_text(x))


@converter("PRelu", since=7)
def prelu(node: Node) -> Result:
    x, slope = node.x(0), node.x(1)
    own = [*[1] * (x.ndim - slope.ndim), *slope.shape]
    if len(own) != x.ndim:
        raise ShapeError(f"slope has shape {list(slope.shape)}, expected one that broadcasts to {list(x.shape)}")
    by_channel = x.ndim >= 2 and all(size == 1 for i, size in enumerate(own) if i != 1)
    if by_channel and own[1] in (1, x.shape[1]):
        return node.op("prelu", x, node.broadcastable(slope, (own[1],)))
    return node.op("pointwise", [x, slope], "y0 = x0 < 0 ? x0 * x1 : x0", dtype=dtype_text(x))


def over_rest(node: Node, op: str, x: Operand) -> Result:
    """Before opset 13 the axis splits the dimensions in two groups; the op runs over all of the second group."""
    axis = node.integer("axis", 1)
    axis = x.ndim if axis == x.ndim else node.axis(axis, x.ndim)
    rest = math.prod(x.shape[axis + 1 :])
    if axis < x.ndim and (rest == 1 or x.shape[axis] == 0):
        return node.op(op, x, axis)
    flat = node.op("reshape", x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])
    return node.op("reshape", node.op(op, flat, 1), list(x.shape))


@converter("Softmax", since=1)
def softmax_1(node: Node) -> Result:
    return over_rest(node, "softmax", node.x(0))


@converter("LogSoftmax", since=1)
def log_softmax_1(node: Node) -> Result:
    return over_rest(node, "log_softmax", node.x(0))


@converter("Softmax", since=13)
def softmax(node: Node) -> Result:
    x = node.x(0)
    return node.op("softmax", x, node.axis(node.integer("axis", -1), x.ndim))


@converter("LogSoftmax", since=13)
def log_softmax(node: Node) -> Result:
    x = node.x(0)
    return node.op("log_softmax", x, node.axis(node.integer("axis", -1), x.ndim))


def _limited(node: Node, x: Operand, low: Operand | None, high: Operand | None) -> Result:
    """x between two tensors of one element."""
    limits = []
    for limit in (low, high):
        if limit is not None and not isinstance(limit, Known):
            break
        limits.append(None if limit is None else limit.array.reshape(-1)[0].item())
        if isinstance(limits[-1], int) and abs(limits[-1]) > 1 << 53:  # which no number of an op holds
            break
    else:
        if limits == [None, None]:
            return x
        return node.op("clip", x, *limits)
    if low is not None:
        x = node.op("maximum", x, low)
    return x if high is None else node.op("minimum", x, high)


@converter("Clip", since=6)
def clip_6(node: Node) -> Result:
    x = node.x(0)
    low, high = node.number("min", None), node.number("max", None)
    # The defaults are the ends of the range of f32: no limit but for infinities.
    return x if low is None and high is None else node.op("clip", x, low, high)


@converter("Clip", since=11)
def clip(node: Node) -> Result:
    return _limited(node, node.x(0), node.optional(1), node.optional(2))
