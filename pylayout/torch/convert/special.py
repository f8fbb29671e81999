"""Special functions and distances, as expressions."""

from __future__ import annotations

import math
from typing import Any

from ..call import FLOATS, Call, Operand, require
from ..registry import converter


def _expression(*names: str, text: str) -> None:
    def convert(call: Call, x: Operand) -> Operand:
        return call.pointwise([x], text)

    converter(*names)(convert)


_expression("erfc.default", "special_erfc.default", text="erfc(x0)")
_expression("erfinv.default", text="erfinv(x0)")
_expression("lgamma.default", text="lgamma(x0)")


@converter("signbit.default")
def signbit(call: Call, x: Operand) -> Operand:
    require(x.dtype != "bool", "dtype bool")
    if x.dtype not in FLOATS:
        made: Operand = call.op("lt", x, 0)
        return made
    made = call.op("pointwise", [x], "y0 = copysign(1, x0) < 0", dtype="bool")
    return made


@converter("angle.default")
def angle(call: Call, x: Operand) -> Operand:
    return call.pointwise([x], "x0 < 0 ? pi : x0 == 0 ? 0 : 0 * sign(x0)")


@converter("round.decimals")
def round_decimals(call: Call, x: Operand, *, decimals: int) -> Operand:
    require(x.dtype in FLOATS, f"dtype {x.dtype}")
    text = "round(x0 * s0) / s0" if decimals >= 0 else "round(x0 / s0) * s0"
    return call.pointwise([x], text, [10.0 ** abs(decimals)])


# Up to 1 / (x + 7) by recurrence, from x + 8 on by the asymptotic series; below 1/2 by reflection.
_SHIFTED = "z0 = x0 < 0.5 ? 1 - x0 : x0; z = z0 + 8; i = 1 / z; q = i * i; "
# cot(pi * x0) and 1 / sin(pi * x0)^2, of what x0 has beside an integer, so that large arguments are exact.
_COTANGENT = "f = pi * (x0 - round(x0)); c = cos(f) / sin(f); d = 1 + c * c; "


def _terms(power: int) -> str:
    return " + ".join(f"1 / {'(' + ' * '.join([f'(z0 + {k})'] * power) + ')'}" for k in range(8))


# By order: the value at z0, and what reflection adds below 1/2: the derivative of pi * cot(pi * x) of that order.
_POLYGAMMA = {
    0: (f"log(z) - i / 2 - q * (1 / 12 - q * (1 / 120 - q / 252)) - ({_terms(1)})", "where(x0 < 0.5, v - pi * c, v)"),
    1: (
        f"i + q / 2 + i * q * (1 / 6 - q * (1 / 30 - q / 42)) + ({_terms(2)})",
        "where(x0 < 0.5, pi * pi * d - v, v)",
    ),
    2: (
        f"-(q + i * q + q * q * (0.5 - q * (1 / 6 - q / 6)) + 2 * ({_terms(3)}))",
        "where(x0 < 0.5, v - 2 * pi * pi * pi * c * d, v)",
    ),
    3: (
        f"2 * i * q + 3 * q * q + i * q * q * (2 - q * (1 - q * 4 / 3)) + 6 * ({_terms(4)})",
        "where(x0 < 0.5, 2 * pi * pi * pi * pi * d * (1 + 3 * c * c) - v, v)",
    ),
}


def _polygamma(call: Call, order: int, x: Operand) -> Operand:
    dtype = call.dtype()
    require(dtype in FLOATS and order in _POLYGAMMA, f"order {order}, dtype {dtype}")
    value, reflected = _POLYGAMMA[order]
    # At zero and the negative integers psi has no value, but the side of zero tells its sign; the others are infinite.
    if order == 0:
        poles = "x0 == 0 ? copysign(inf, -x0) : x0 < 0 && x0 == floor(x0) ? nan"
    elif order % 2:
        poles = "x0 <= 0 && x0 == floor(x0) ? inf"
    else:
        poles = "x0 <= 0 && x0 == floor(x0) ? -inf"
    limit = {0: "x0", 1: "0"}.get(order, "0")
    text = f"{_SHIFTED}{_COTANGENT}v = {value}; y0 = {poles} : x0 == inf ? {limit} : {reflected}"
    made: Operand = call.op("pointwise", [call.cast(x, dtype)], text, dtype=dtype)
    return made


@converter("digamma.default")
def digamma(call: Call, x: Operand) -> Operand:
    return _polygamma(call, 0, x)


@converter("polygamma.default", note="of higher orders than 3")
def polygamma(call: Call, n: int, x: Operand) -> Operand:
    return _polygamma(call, int(n), x)


def _norm_of(p: float) -> tuple[str, str, list[float]]:
    """A p-norm of what x0 - x1 holds: of one element, of what is reduced, and the numbers of both."""
    if p == 0:
        return "x0 != x1", "reduce_y0 += y0", []
    if p == 1:
        return "abs(x0 - x1)", "reduce_y0 += y0", []
    if p == 2:
        return "(x0 - x1) * (x0 - x1)", "reduce_y0 += y0; y0 = sqrt(reduce_y0)", []
    if math.isinf(p):
        return "abs(x0 - x1)", "reduce_y0 max= y0", []
    return "pow(abs(x0 - x1), s0)", "reduce_y0 += y0; y0 = pow(reduce_y0, s1)", [p, 1 / p]


def _pairs(call: Call, a: Operand, b: Operand) -> list[Operand]:
    """Rows of a and b so that each meets each."""
    return [call.op("unsqueeze", a, a.ndim - 1), call.op("unsqueeze", b, b.ndim - 2)]


@converter("_cdist_forward.default")
def cdist(call: Call, a: Operand, b: Operand, p: float, compute_mode: Any = None) -> Operand:
    require(a.dtype in FLOATS and a.size > 0 and b.size > 0, f"dtype {a.dtype}, or no elements")
    element, reduction, scalars = _norm_of(float(p))
    rank = max(a.ndim, b.ndim) + 1
    order = [*range(b.ndim - 2), b.ndim - 1, b.ndim - 2]
    # The rows of b lie side by side, and so do the results.
    pairs = [call.op("unsqueeze", a, a.ndim), call.op("unsqueeze", call.op("permute", b, order), b.ndim - 2)]
    made: Operand = call.op(
        "pointwise", pairs, f"y0 = {element}", reductions=reduction, dim=[rank - 2],
        scalars=scalars, dtype=a.dtype.name,
    )  # fmt: skip
    return made


@converter("_cdist_backward.default")
def cdist_backward(call: Call, grad: Operand, a: Operand, b: Operand, p: float, distance: Operand) -> Operand:
    """By the rows of a: summed over those of b."""
    p = float(p)
    require(a.dtype in FLOATS and grad.size > 0 and a.size > 0, f"dtype {a.dtype}, or no elements")
    slopes = {
        0.0: "0 * x2",
        1.0: "x2 * sign(x0 - x1)",
        2.0: "x3 == 0 ? 0 : x2 * (x0 - x1) / x3",
        math.inf: "x2 * sign(x0 - x1) * (abs(x0 - x1) == x3)",
    }
    general = "x3 == 0 || x0 == x1 ? 0 : x2 * sign(x0 - x1) * pow(abs(x0 - x1) / x3, s0)"
    pairs = _pairs(call, a, b)
    rows, columns = (call.op("unsqueeze", each, each.ndim) for each in (grad, distance))
    made = call.op(
        "pointwise", [*pairs, rows, columns], f"y0 = {slopes.get(p, general)}", reductions="reduce_y0 += y0",
        dim=[max(each.ndim for each in pairs) - 2], scalars=[] if p in slopes else [p - 1], dtype=a.dtype.name,
    )  # fmt: skip
    return made  # type: ignore[no-any-return]
