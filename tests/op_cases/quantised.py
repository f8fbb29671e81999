"""Quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import X4, Case, into, positive, post_ops

CASES: list[Case] = []
add = into(CASES)

QCONV = ("x", "weight", "x_scale", "weight_scale", "y_scale", "x_zero_point", "weight_zero_point", "y_zero_point")
ADDEND = ("addend", "addend_scale", "addend_zero_point")
QMATMUL = tuple(name.replace("x", "a").replace("weight", "b") for name in QCONV)


def _vector(torch: Any, g: dict[str, Any], name: str, fallback: float) -> Any:
    return g[name].double().reshape(-1) if name in g else torch.tensor([fallback], dtype=torch.float64)


def quantized(
    op: str, names: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], dtypes: str, **attributes: Any
) -> None:
    """A case of qlinear_conv, conv_integer, qlinear_matmul or matmul_integer.

    `names` are those of the optional tensors; "each" among them asks for one weight scale (and zero point) a column,
    "real" for a bias of f32.  With dtype "f32" the result is real.
    """
    conv, linear = "conv" in op, op.startswith("qlinear")
    known = [*(QCONV if conv else QMATMUL), "bias", *ADDEND]
    if not linear:
        known = [name for name in known if name[:2] != "y_" and "scale" not in name and name not in ADDEND]
    given = {name for name in known if name in names.split() or name[-5:] == "scale"} | set(known[:2])
    if "addend" not in given:
        given -= set(ADDEND)
    if attributes.get("dtype") == "f32":
        given.discard("y_scale")
    columns = shapes[1][0 if conv else -1]
    result = (*shapes[0][:-1], columns)
    if conv and "addend" in given:  # of a window that leaves the size as it is
        result = (shapes[0][0], columns, *shapes[0][2:])

    def values(rng: np.random.Generator, name: str) -> np.ndarray:
        if name == "bias" and "real" in names:
            return rng.uniform(-9, 9, columns).astype(np.float32)
        if name == "bias":
            return rng.integers(-3000, 3000, columns).astype(np.int32)
        of_x = name in ADDEND or name == known[0] or name.startswith(known[0] + "_")
        part = 2 if name.startswith("y_") else 0 if of_x else 1
        size: Any = columns if "each" in names and part == 1 else ()
        if "scale" in name:
            usual = 0.2 if name in ADDEND else [0.01, 0.02, 0.5][part]
            return rng.uniform(0.7, 1.3, size).astype(np.float32) * np.float32(usual)
        info = np.iinfo({"u": np.uint8, "s": np.int8}[dtypes[part]])
        if name.endswith("zero_point"):
            return rng.integers(info.min // 2, info.max // 2, size).astype(info.dtype)
        shape = result if name == "addend" else shapes[part]
        return rng.integers(info.min, info.max + 1, shape).astype(info.dtype)

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        return [np.asarray(values(rng, name)) if name in given else None for name in known]

    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        g = dict(zip([name for name in known if name in given], t, strict=True))
        shape = (-1,) + (1,) * (t[1].dim() - 1) if conv else (-1,)
        x = t[0].double() - _vector(torch, g, known[0] + "_zero_point", 0)
        weight = t[1].double() - _vector(torch, g, known[1] + "_zero_point", 0).reshape(shape)
        own = {name: value for name, value in a.items() if name not in ("dtype", "post_ops")}
        shape = (-1,) + (1,) * (x.dim() - 2) if conv else (-1,)
        sums = getattr(f, f"conv{x.dim() - 2}d")(x, weight, **own) if conv else x @ weight
        if not linear:
            return sums.to(torch.int32)
        scales = [_vector(torch, g, known[i] + "_scale", 1) for i in (0, 1)]
        bias = _vector(torch, g, "bias", 0).reshape(shape)
        real = "real" in names
        y = (sums + (0 if real else bias)) * (scales[0] * scales[1]).reshape(shape) + (bias if real else 0)
        added = []
        if "addend" in g:
            added.append((g["addend"].double() - _vector(torch, g, ADDEND[2], 0)) * g["addend_scale"].double())
        y = post_ops(f, y, a.get("post_ops", "add(addend)" if added else ""), added)
        if a.get("dtype") == "f32":
            return y
        y = (y / g["y_scale"].double()).round() + _vector(torch, g, "y_zero_point", 0)
        low, high, dtype = (0, 255, torch.uint8) if dtypes[2] == "u" else (-128, 127, torch.int8)
        return y.clamp(low, high).to(dtype)

    add(op, make, reference, name=f"{names} {dtypes} {shapes[0]}", **attributes)


_SHAPES = (((2, 19, 9, 10), (24, 19, 3, 3)), ((1, 8, 11), (6, 4, 3)), ((2, 16, 7, 7), (16, 1, 3, 3)))
for _dtypes in ("usu", "sss", "uss"):
    quantized("qlinear_conv", "bias y_zero_point", _SHAPES[0], _dtypes, padding=1)
quantized("qlinear_conv", "bias each x_zero_point y_zero_point", _SHAPES[0], "usu", padding=1, stride=2)
quantized("qlinear_conv", "bias each x_zero_point weight_zero_point y_zero_point", _SHAPES[0], "uus", padding=(1, 0))
quantized("qlinear_conv", "each x_zero_point", _SHAPES[1], "usu", groups=2, dilation=2)
quantized("qlinear_conv", "bias each x_zero_point y_zero_point", _SHAPES[2], "usu", groups=16, padding=1)
quantized("qlinear_conv", "", ((1, 3, 4, 5, 6), (5, 3, 2, 2, 2)), "usu")
quantized("qlinear_conv", "", _SHAPES[0], "uss", dtype="s8")
quantized("qlinear_conv", "bias real each x_zero_point y_zero_point", _SHAPES[0], "usu", padding=1)
for _steps in ("relu", "leaky_relu(0.2), scale(0.5)", "clip(-2, 3)", "scale(0.05), silu"):
    quantized("qlinear_conv", "bias each x_zero_point y_zero_point", _SHAPES[0], "usu", padding=1, post_ops=_steps)
    quantized("qlinear_conv", "bias real y_zero_point", _SHAPES[2], "sss", groups=16, post_ops=_steps)
    quantized("qlinear_matmul", "bias each a_zero_point y_zero_point", ((5, 17), (17, 24)), "usu", post_ops=_steps)
    quantized("qlinear_matmul", "bias real", ((2, 3, 9, 16), (16, 7)), "sss", post_ops=_steps)
    quantized("qlinear_conv", "bias real each x_zero_point", _SHAPES[0], "us-", dtype="f32", post_ops=_steps)
    quantized("qlinear_matmul", "bias a_zero_point", ((2, 3, 9, 16), (16, 7)), "us-", dtype="f32", post_ops=_steps)
for _steps in ("add(addend)", "add(addend), relu", "scale(2), round, clip(-90, 165), scale(0.5), add(addend), relu"):
    _names = "each x_zero_point y_zero_point addend"
    quantized("qlinear_conv", f"bias addend_zero_point {_names}", _SHAPES[0], "usu", padding=1, post_ops=_steps)
    quantized("qlinear_conv", _names, ((1, 32, 5, 7), (16, 32, 1, 1)), "sss", post_ops=_steps)
    _names = "bias real each x_zero_point addend"
    quantized("qlinear_conv", _names, _SHAPES[2], "us-", padding=1, groups=16, dtype="f32", post_ops=_steps)
    quantized("qlinear_matmul", "addend addend_zero_point bias", ((5, 17), (17, 24)), "usu", post_ops=_steps)
quantized("qlinear_conv", "addend x_zero_point", _SHAPES[0], "usu", padding=1)
quantized("qlinear_conv", "x_zero_point weight_zero_point", _SHAPES[2], "uu-", dtype="f32", groups=16)
quantized("qlinear_matmul", "a_zero_point b_zero_point", ((5, 17), (17, 24)), "us-", dtype="f32")
quantized("qlinear_matmul", "each a_zero_point b_zero_point", ((5, 17), (17, 24)), "us-", dtype="f32")
quantized("conv_integer", "x_zero_point", _SHAPES[0], "us-", padding=1)
quantized("conv_integer", "", _SHAPES[2], "ss-", groups=16)
quantized("conv_integer", "x_zero_point weight_zero_point each", _SHAPES[0], "uu-", stride=2)
for _shapes in (((5, 17), (17, 24)), ((2, 3, 9, 16), (16, 7)), ((2, 1, 4, 8), (3, 8, 5))):
    quantized("qlinear_matmul", "", _shapes, "usu")
    quantized("qlinear_matmul", "each a_zero_point y_zero_point", _shapes, "uss")
    quantized("qlinear_matmul", "a_zero_point b_zero_point y_zero_point", _shapes, "uuu")
    quantized("qlinear_matmul", "a_zero_point b_zero_point y_zero_point", _shapes, "usu")
    quantized("matmul_integer", "a_zero_point", _shapes, "us-")
    quantized("matmul_integer", "a_zero_point b_zero_point", _shapes, "ss-")
    quantized("matmul_integer", "a_zero_point b_zero_point each", _shapes, "su-")


def quantize(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """Both ways; with more than one scale along dimension 1."""
    shape = (-1,) + (1,) * (t[0].dim() - 2)
    scale = t[1].double().reshape(shape)
    zero = t[2].double().reshape(shape) if len(t) > 2 else 0
    if not t[0].is_floating_point():
        return (t[0].double() - zero) * scale
    dtype = t[2].dtype if len(t) > 2 else torch.uint8
    info = torch.iinfo(dtype)
    return ((t[0] / scale).round() + zero).clamp(info.min, info.max).to(dtype)


for _scales in (None, 19):
    for _dtype in (np.uint8, np.int8):
        add(
            "quantize_linear",
            # No multiple of the scale lies near a half, where arithmetic in f32 decides.
            lambda rng, n=_scales, d=_dtype: [
                (rng.integers(-900, 900, X4) + rng.uniform(-0.4, 0.4, X4)).astype("f4") * np.float32(0.25),
                np.full(n or (), 0.25, "f4"),
                np.asarray(rng.integers(0, 100, n or ()), d),
            ],
            quantize,
            name=f"{_dtype.__name__} {_scales}",
        )
    for _dtype in (np.uint8, np.int8, np.int32):
        add(
            "dequantize_linear",
            lambda rng, n=_scales, d=_dtype: [
                rng.integers(0, 100, X4).astype(d),
                np.asarray(rng.uniform(0.1, 2, n or ()), "f4"),
                np.asarray(rng.integers(0, 100, n or ()), d),
            ],
            quantize,
            name=f"{_dtype.__name__} {_scales}",
        )
add("quantize_linear", lambda rng: [*positive(X4)(rng), np.array(0.3, "f4")], quantize)
add("dequantize_linear", lambda rng: [rng.integers(-9, 9, X4).astype("i1"), np.float32([0.5])], quantize)
