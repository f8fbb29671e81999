"""Functions of one tensor."""

from __future__ import annotations

import numpy as np

from .case import X4, Case, integers, into, normal, positive

CASES: list[Case] = []
add = into(CASES)

for _op in (
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "selu",
    "silu",
    "hardswish",
    "hardsigmoid",
    "sigmoid",
    "tanh",
    "softplus",
    "mish",
    "softsign",
    "gelu",
):
    add(_op, normal(X4))
add("gelu", normal(X4), approximate="tanh")
add("leaky_relu", normal(X4), negative_slope=0.2)
add("elu", normal(X4), alpha=0.5)
add("softplus", normal(X4), beta=2.0, threshold=3.0)
add("clip", normal(X4), min=-0.5, max=0.7)
add("clip", normal(X4), lambda torch, f, t, a: torch.clip(t[0], min=0.1), min=0.1)
for _op in ("abs", "neg", "exp", "reciprocal", "square", "sin", "cos", "erf", "floor", "ceil", "round", "sign"):
    add(_op, positive(X4) if _op == "reciprocal" else normal(X4))
for _op in ("log", "sqrt", "rsqrt"):
    add(_op, positive(X4))
for _op in ("trunc", "tan", "atan", "sinh", "cosh", "asinh", "celu"):
    add(_op, normal(X4), tolerance=1e-4 if _op == "tan" else 2e-5)
for _op in ("asin", "acos", "atanh"):
    add(_op, lambda rng: [rng.uniform(-0.95, 0.95, X4).astype(np.float32)])
add("acosh", lambda rng: [rng.uniform(1.05, 9, X4).astype(np.float32)])
add("celu", normal(X4), alpha=-1.5)
add("threshold", normal(X4), threshold=0.3, value=-7.0)
for _op in ("isnan", "isinf"):
    add(_op, lambda rng: [rng.choice([0, 1, np.nan, np.inf, -np.inf], X4).astype(np.float32)])
add("logical_not", lambda rng: [rng.random(X4) < 0.5])
add("bitwise_not", lambda rng: [rng.random(X4) < 0.5], name="bool")
for _dtype in ("uint8", "int32"):
    add("bitwise_not", integers(_dtype, X4), name=_dtype)
add("prelu", normal(X4, (19,)), lambda torch, f, t, a: f.prelu(*t))
add("prelu", normal(X4, (1,)), lambda torch, f, t, a: f.prelu(*t))


def cast_to(dtype: str):
    return lambda torch, f, t, a: t[0].to(getattr(torch, dtype))


add("cast", lambda rng: [rng.uniform(-100, 100, X4).astype("f4")], cast_to("int8"), dtype="s8")
add("cast", lambda rng: [rng.uniform(-2, 2, X4).astype("f4")], cast_to("int64"), dtype="s64")
add("cast", lambda rng: [rng.choice([0.0, 0.3, -2.0], X4).astype("f4")], cast_to("bool"), dtype="bool")
add("cast", normal(X4), cast_to("float16"), dtype="f16", tolerance=1e-3)
add("cast", lambda rng: [rng.integers(-(2**40), 2**40, X4)], cast_to("int32"), dtype="s32")
add("cast", lambda rng: [rng.integers(-(2**20), 2**20, X4)], cast_to("float32"), dtype="f32")
add("cast", lambda rng: [rng.random(X4) < 0.5], cast_to("float32"), dtype="f32", name="bool")
