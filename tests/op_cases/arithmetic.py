"""Functions of two tensors and more."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import X4, Case, integers, into, normal, positive, post_ops

CASES: list[Case] = []
add = into(CASES)

for _op in ("add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"):
    tensors = positive(X4, (19, 1, 1)) if _op == "div" else normal(X4, (19, 1, 1))
    add(_op, tensors)
add("add", normal(X4, X4), lambda torch, f, t, a: torch.relu(t[0] + t[1]), activation="relu")
add(
    "mul",
    normal(X4, (19, 1, 1)),
    lambda torch, f, t, a: post_ops(f, t[0] * t[1], a["post_ops"], t),
    post_ops="leaky_relu(0.3), scale(0.5), tanh",
)
add("mul", normal((3, 1, 5), (4, 1)))
add("pow", positive(X4, (1, 19, 1, 10)))
add("div", positive(X4, X4), rounding_mode="floor")
for _op, _mode in (("div", "trunc"), ("div", "floor"), ("fmod", None), ("remainder", None)):
    # No quotient close to an integer, where a rounding decides.
    add(
        _op,
        lambda rng: [(3 * rng.integers(-9, 9, X4) + 1).astype("f4"), rng.choice([-3.0, 3.0], (19, 1, 1)).astype("f4")],
        **({"rounding_mode": _mode} if _mode else {}),
    )
    add(
        _op,
        lambda rng: [
            rng.integers(-99, 99, X4).astype(np.int32),
            (rng.integers(1, 9, (1, 19, 1, 10)) * rng.choice([-1, 1], (1, 19, 1, 10))).astype(np.int32),
        ],
        **({"rounding_mode": _mode} if _mode else {}),
        name="integers",
    )
add("pow", lambda rng: [rng.integers(-9, 9, X4), rng.integers(0, 9, (19, 1, 1))], name="integers")
for _op in ("logical_and", "logical_or", "logical_xor"):
    add(_op, lambda rng: [rng.random(X4) < 0.5, rng.random((9, 10)) < 0.5])
# Each in every dtype: test_bits.py.
add("bitwise_and", lambda rng: [rng.random(X4) < 0.5, rng.random((9, 10)) < 0.5], name="bool")
for _op, _dtype in (("and", "int64"), ("or", "uint8"), ("xor", "int32")):
    add(f"bitwise_{_op}", integers(_dtype, X4, (19, 1, 1)), name=_dtype)
for _op in ("bitwise_left_shift", "bitwise_right_shift"):
    for _dtype in ("int8", "int64"):  # by counts, some of which shift all bits out
        add(_op, lambda rng, d=_dtype: [*integers(d, X4)(rng), rng.integers(-2, 70, (19, 1, 1)).astype(d)], name=_dtype)
add(
    "where",
    lambda rng: [
        rng.random((9, 1)) < 0.5,
        rng.standard_normal(X4).astype("f4"),
        rng.standard_normal((19, 1, 1)).astype("f4"),
    ],
)
add(
    "pointwise",
    normal(X4, (19, 1, 1)),
    lambda torch, f, t, a: torch.exp(-t[0] * t[0]) * 0.5 + t[1],
    variadic=True,
    expressions="y0 = exp(-x0 * x0) * s0 + x1",
    scalars=[0.5],
)
add(
    "pointwise",
    normal(X4),
    lambda torch, f, t, a: (t[0].sum((0, 2, 3)), (t[0] * t[0]).amax((0, 2, 3))),
    variadic=True,
    expressions="y0 = x0; y1 = x0 * x0",
    reductions="reduce_y0 += y0; reduce_y1 max= y1",
    dim=[0, 2, 3],
)

add(
    "pointwise",
    lambda rng: [
        rng.uniform(0.2, 2.0, (3, 5, 4)).astype("f4"),
        rng.uniform(0.3, 0.9, (5, 1)).astype("f4"),
        rng.integers(0, 2, (4,)),
    ],
    lambda torch, f, t, a: (
        torch.log1p(t[0]) / torch.sqrt(t[1]) + torch.rsqrt(t[0]) * torch.tanh(t[1] * t[0]),
        torch.where(t[2] != 0, torch.pow(t[0], t[1]), torch.expm1(-t[0].abs()) * torch.erf(t[1])),
        torch.sin(t[0]) * torch.cos(t[1]) - torch.sigmoid(t[0] - t[1]) * t[0].clamp(0.5, 1.5),
        torch.maximum(t[0], t[1]) * torch.minimum(t[0], 2 * t[1]) - torch.log(t[0]) * torch.floor(t[0]),
    ),
    variadic=True,
    name="every function",
    expressions="u = log1p(x0); y0 = u / sqrt(x1) + rsqrt(x0) * tanh(x1 * x0); "
    "y1 = x2 != 0 ? pow(x0, x1) : expm1(-abs(x0)) * erf(x1); "
    "y2 = sin(x0) * cos(x1) - sigmoid(x0 - x1) * clip(x0, 0.5, s0); "
    "y3 = max(x0, x1) * min(x0, 2 * x1) - log(x0) * floor(x0)",
    scalars=[1.5],
)
add(
    "pointwise",
    lambda rng: [rng.standard_normal((3, 5, 4)).astype("f4"), rng.uniform(0.3, 2.9, (5, 1)).astype("f4")],
    lambda torch, f, t, a: (
        torch.erfc(t[0]) + torch.lgamma(t[1]),
        torch.fmod(t[0], t[1]) - torch.atan2(t[0], t[1]),
        torch.copysign(t[1], t[0]),
        torch.lgamma(t[0] - 0.1),
    ),
    variadic=True,
    name="functions that few use",
    expressions="y0 = erfc(x0) + lgamma(x1); y1 = fmod(x0, x1) - atan2(x0, x1); y2 = copysign(x1, x0); "
    "y3 = lgamma(x0 - 0.1)",
)
add(
    "pointwise",
    lambda rng: [
        rng.uniform(-1, 1, (37, 53)).astype("f4") ** 3,
        np.array([0.99, -0.999, 0, -0.0, 1e-30], "f4")[:, None, None],
    ],
    lambda torch, f, t, a: (
        torch.erfinv(t[0]) + 0 * t[1],
        torch.erfinv(t[1]) + 0 * t[0],
    ),
    variadic=True,
    name="erfinv",
    expressions="y0 = erfinv(x0) + 0 * x1; y1 = erfinv(x1) + 0 * x0",
)


def _stored(torch: Any, y: Any, dtype: str) -> Any:
    """Rounded to the even integer and saturated, where that is an integer's dtype."""
    if dtype[0] == "f":
        return y
    low, high, to = (0, 255, torch.uint8) if dtype == "u8" else (-128, 127, torch.int8)
    return y.round().clamp(low, high).to(to)


for _given, _made in ((np.uint8, "u8"), (np.int8, "u8"), (np.uint8, "s8"), (np.int8, "f32"), (np.uint8, "f16")):
    add(  # over 2048 elements the host takes a table
        "pointwise",
        lambda rng, d=_given: [rng.integers(np.iinfo(d).min, np.iinfo(d).max + 1, (3, 19, 7, 11)).astype(d)],
        lambda torch, f, t, a: _stored(torch, f.silu((t[0].double() - 100) * 0.06) / 0.05 + 7.25, a["dtype"]),
        variadic=True,
        expressions="v = (x0 - s0) * s1; y0 = v * sigmoid(v) / 0.05 + 7.25",
        scalars=[100, 0.06],
        dtype=_made,
        arithmetic="f32",
        name=f"a table of {_given.__name__}",
        **({"tolerance": 1e-3} if _made == "f16" else {}),
    )
add(
    "pointwise",
    lambda rng: [rng.integers(0, 256, (2, 19, 7, 11)).astype("u1"), rng.integers(-128, 128, (19, 1, 1)).astype("i1")],
    lambda torch, f, t, a: _stored(
        torch, ((((t[0].double() - 3) * 0.02 + (t[1].double() + 5) * 0.031) / 0.041).round() + 9).clamp(0, 255), "u8"
    ),
    variadic=True,
    name="quantised tensors",
    expressions="y0 = clip(round(((x0 - 3) * s0 + (x1 + 5) * s1) / 0.041) + 9, 0, 255)",
    scalars=[0.02, 0.031],
    dtype="u8",
    arithmetic="f32",
)
add(
    "pointwise",
    lambda rng: [rng.integers(-9, 9, (7, 5)), rng.integers(-3, 3, (5,))],
    lambda torch, f, t, a: torch.where(t[1] == 0, t[0], torch.fmod(t[0], torch.where(t[1] == 0, 1, t[1]))),
    variadic=True,
    name="remainder of integers",
    expressions="y0 = fmod(x0, x1)",
)
add(
    "pointwise",
    lambda rng: [*integers("int64", (7, 5))(rng), rng.integers(-2, 70, (5,))],
    lambda torch, f, t, a: ((t[0] & ~t[1]) ^ (t[0] >> t[1])) | (t[1] << 3),
    variadic=True,
    name="bits",
    expressions="a = bitand(x0, bitnot(x1)); y0 = bitor(bitxor(a, rshift(x0, x1)), lshift(x1, s0))",
    scalars=[3],
)
add(
    "pointwise",
    positive((3, 5, 4), (5, 4)),
    lambda torch, f, t, a: (
        torch.sqrt((t[0] * t[1]).square().sum(1) / 5),
        t[0].amax(1) * (t[0] + t[1]).amin(1),
        (t[0] + t[1]).amin(1),
        (t[0] / t[1]).prod(1),
    ),
    variadic=True,
    name="expressions of reductions",
    expressions="y0 = x0 * x1 * x0 * x1; y1 = x0; y2 = x0 + x1; y3 = x0 / x1",
    reductions="reduce_y0 += y0; reduce_y1 max= y1; reduce_y2 min= y2; reduce_y3 *= y3; "
    "y0 = sqrt(reduce_y0 / count); y1 = reduce_y1 * reduce_y2",
    dim=[1],
)
