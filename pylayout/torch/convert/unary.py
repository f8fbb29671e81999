"""Functions of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...sizes import Size
from ..call import FLOATS, Call, Operand, require
from ..registry import converter

_FLOATING = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "reciprocal", "rsqrt",
    "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_EXACT = ("abs", "ceil", "floor", "neg", "relu", "round", "trunc")  # integers stay what they are
_ACTIVATIONS = ("hardsigmoid", "hardswish", "mish", "silu")


def _unary(op: str) -> Callable[[Call, Operand], Operand]:
    def convert(call: Call, x: Operand) -> Operand:
        made: Operand = call.op(op, call.cast(x, call.dtype()))
        return made

    return convert


for _name in (*_FLOATING, *_EXACT, *_ACTIVATIONS):
    converter(f"{_name}.default")(_unary(_name))


@converter("sign.default")
def sign(call: Call, x: Operand) -> Operand:
    if call.dtype() not in FLOATS:
        return _unary("sign")(call, x)
    return call.pointwise([x], "(x0 > 0) - (x0 < 0)")  # of NaN PyTorch's is 0, the library's NaN


def _as_it_is(op: str) -> Callable[[Call, Operand], Operand]:
    def convert(call: Call, x: Operand) -> Operand:
        made: Operand = call.op(op, x)
        return made

    return convert


for _name in ("isinf", "isnan", "logical_not", "square"):  # of any dtype
    converter(f"{_name}.default")(_as_it_is(_name))


def _expression(text: str) -> Callable[[Call, Operand], Operand]:
    def convert(call: Call, x: Operand) -> Operand:
        return call.pointwise([x], text)

    return convert


for _aten, _text in {
    "exp2": "pow(2, x0)",  # of large numbers a product would round what exp takes
    "expm1": "expm1(x0)",
    "log1p": "log1p(x0)",
    "log2": "log(x0) * 1.44269504088896340736",
    "log10": "log(x0) * 0.43429448190325182765",
}.items():
    converter(f"{_aten}.default")(_expression(_text))


@converter("nan_to_num.default")
def nan_to_num(
    call: Call, x: Operand, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Operand:
    dtype = call.dtype()
    if dtype not in FLOATS:
        whole: Operand = call.cast(x, dtype)
        return whole
    largest = {"f32": "3.4028234663852886e38", "f16": "65504", "bf16": "3.3895313892515355e38"}[dtype]
    text = f"clip(x0, -{largest}, {largest})"
    values = [nan or 0.0]
    for sign, value in (("", posinf), ("-", neginf)):
        if value is not None:
            text = f"x0 == {sign}inf ? s{len(values)} : {text}"
            values.append(value)
    return call.pointwise([x], f"isnan(x0) ? s0 : {text}", [float(value) for value in values])


@converter("bitwise_not.default")
def bitwise_not(call: Call, x: Operand) -> Operand:
    made: Operand = call.op("logical_not" if x.dtype == "bool" else "bitwise_not", x)
    return made


@converter("gelu.default")
def gelu(call: Call, x: Operand, approximate: str = "none") -> Operand:
    made: Operand = call.op("gelu", x, approximate=approximate)
    return made


@converter("elu.default")
def elu(call: Call, x: Operand, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Operand:
    if scale == input_scale == 1:
        made: Operand = call.op("elu", x, alpha=float(alpha))
        return made
    return call.pointwise(
        [x], "x0 > 0 ? x0 * s0 : s1 * expm1(x0 * s2)", [float(scale), float(scale) * float(alpha), float(input_scale)]
    )


@converter("celu.default")
def celu(call: Call, x: Operand, alpha: float = 1.0) -> Operand:
    made: Operand = call.op("celu", x, alpha=float(alpha))
    return made


@converter("leaky_relu.default")
def leaky_relu(call: Call, x: Operand, negative_slope: float = 0.01) -> Operand:
    made: Operand = call.op("leaky_relu", x, negative_slope=float(negative_slope))
    return made


@converter("softplus.default")
def softplus(call: Call, x: Operand, beta: float = 1, threshold: float = 20) -> Operand:
    made: Operand = call.op("softplus", x, beta=float(beta), threshold=float(threshold))
    return made


@converter("threshold.default")
def threshold(call: Call, x: Operand, threshold: float, value: float) -> Operand:
    require(x.dtype in FLOATS, f"dtype {x.dtype}")
    made: Operand = call.op("threshold", x, float(threshold), float(value))
    return made


@converter("hardtanh.default", numbers=True)
def hardtanh(call: Call, x: Operand, min_val: float = -1, max_val: float = 1) -> Operand:
    return _clip(call, x, min_val, max_val)


@converter("clamp.default", numbers=True)
def clamp(call: Call, x: Operand, min: Any = None, max: Any = None) -> Operand:
    return _clip(call, x, min, max)


@converter("clamp.Tensor")
def clamp_tensor(call: Call, x: Operand, min: Any = None, max: Any = None) -> Operand:
    dtype = call.dtype()
    x = call.cast(x, dtype)
    x = x if min is None else call.op("maximum", x, call.cast(min, dtype))
    return x if max is None else call.op("minimum", x, call.cast(max, dtype))


@converter("clamp_min.default", numbers=True)
def clamp_min(call: Call, x: Operand, min: Any) -> Operand:
    return _clip(call, x, min, None)


@converter("clamp_max.default", numbers=True)
def clamp_max(call: Call, x: Operand, max: Any) -> Operand:
    return _clip(call, x, None, max)


def _clip(call: Call, x: Operand, low: Any, high: Any) -> Operand:
    dtype = call.dtype()
    require(dtype != "bool", f"dtype {dtype}")
    if any(isinstance(bound, (Size, Operand)) for bound in (low, high)):  # that calls decide
        return clamp_tensor(call, x, low, high)
    if dtype == "u8":  # a negative bound is taken as the byte that it is in
        low, high = (bound if bound is None else bound % 256 if -256 < bound < 0 else bound for bound in (low, high))
    require(all(bound is None or bound == bound for bound in (low, high)), "a bound that is NaN")
    require(dtype in FLOATS or all(abs(bound or 0) <= 2**53 for bound in (low, high)), "bounds beyond 2^53")
    x = call.cast(x, dtype)
    if (low, high) == (0, 6):
        made: Operand = call.op("relu6", x)
        return made
    made = call.op("clip", x, None if low is None else float(low), None if high is None else float(high))
    return made


@converter("_prelu_kernel.default")
def prelu(call: Call, x: Operand, weight: Operand) -> Operand:
    # The weight has the rank of x here; the library wants a number for each channel.
    if x.ndim >= 2 and weight.size == weight.shape[1] == x.shape[1]:
        made: Operand = call.op("prelu", x, call.op("reshape", weight, [weight.size]))
        return made
    return call.pointwise([x, weight], "x0 > 0 ? x0 : x1 * x0")
