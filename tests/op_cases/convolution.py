"""Convolution."""

from __future__ import annotations

from typing import Any

from .case import Case, into, normal, operands, post_ops

CASES: list[Case] = []
add = into(CASES)


def conv(spatial: int, transposed: bool = False):
    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        own = dict(a)
        activation, padding, steps = own.pop("activation", None), own.pop("padding", 0), own.pop("post_ops", None)
        x, borders = t[0], []
        if isinstance(padding, (list, tuple)) and len(padding) == 2 * spatial:
            begins, ends = padding[:spatial], padding[spatial:]
            borders = [v for i in reversed(range(spatial)) for v in (begins[i], ends[i])]
            padding = 0
        if borders and not transposed:
            x = f.pad(x, borders)
        name = f"conv{'_transpose' if transposed else ''}{spatial}d"
        y = getattr(f, name)(x, t[1], t[2] if len(t) > 2 else None, padding=padding, **own)
        if borders and transposed:
            y = f.pad(y, [-v for v in borders])
        if steps is not None:
            return post_ops(f, y, steps, t)
        if len(t) > 3:
            y = y + t[3]
        return getattr(f, activation)(y) if activation else y

    return reference


add("conv1d", normal((2, 5, 17), (7, 5, 3), (7,)), conv(1), padding=1)
add("conv1d", normal((2, 18, 16), (6, 9, 4)), conv(1), stride=2, groups=2, dilation=2)
add("conv1d", normal((2, 20, 19), (3, 20, 5), (3,)), conv(1), padding=2)  # few channels of y
add("conv1d", normal((2, 20, 19), (24, 20, 3), (24,)), conv(1), activation="relu")
add("conv2d", normal((2, 3, 13, 12), (17, 3, 3, 3), (17,)), conv(2), padding=1, activation="relu")
add("conv2d", normal((1, 19, 9, 10), (33, 19, 1, 1), (33,)), conv(2))
add("conv2d", normal((2, 32, 9, 9), (32, 32, 3, 3), (32,), (2, 32, 9, 9)), conv(2), padding=1, activation="relu")
add("conv2d", normal((3, 19, 9, 10), (33, 19, 3, 3), (33,)), conv(2), padding=(2, 0, 1, 3), activation="silu")
add("conv2d", normal((2, 40, 3, 1), (17, 40, 3, 3)), conv(2), padding=2)
add("conv2d", normal((2, 16, 11, 7), (24, 16, 3, 2)), conv(2), stride=(2, 1), dilation=(1, 2), padding=(1, 0, 2, 3))
add("conv2d", normal((2, 24, 8, 8), (48, 8, 3, 3), (48,)), conv(2), groups=3, padding=1)
add("conv2d", normal((2, 19, 9, 9), (19, 1, 3, 3), (19,)), conv(2), groups=19, padding=1, activation="relu6")
add("conv2d", normal((2, 6, 9, 9), (18, 1, 5, 5)), conv(2), groups=6, stride=2, padding=2)  # depthwise, multiplier 3
_RESIDUAL = normal((2, 18, 7, 6), (35, 18, 1, 1), (35,), (2, 35, 7, 6))
for _steps in ("relu, add(residual)", "silu, add(residual), relu6", "add(residual), leaky_relu(0.2), scale(0.5)"):
    add("conv2d", _RESIDUAL, conv(2), post_ops=_steps)
add("conv2d", normal((2, 32, 9, 8), (32, 32, 3, 3), (32,), (2, 32, 9, 8)), conv(2), padding=1, post_ops=_steps)
add("conv2d", normal((2, 19, 9, 9), (19, 1, 3, 3), (19,)), conv(2), groups=19, padding=1, post_ops="scale(2), tanh")
add(
    "conv2d",
    normal((1, 16, 9, 9), (32, 16, 3, 3), (32,), (1, 32, 9, 9)),
    conv(2),
    padding=1,
    post_ops="hardswish, add(residual)",
)
# Gates: alone, behind a sum, with steps between; by depthwise, direct, 1x1 and Winograd's kernels.
for _steps in ("multiply(gate)", "silu, multiply(gate), scale(0.5)"):
    add("conv2d", operands(_steps, (2, 35, 7, 6), (2, 18, 7, 6), (35, 18, 1, 1), (35,)), conv(2), post_ops=_steps)
_BOTH = "add(residual), tanh, multiply(gate), relu"
for _x, _w, _y in (
    ((2, 18, 7, 6), (35, 18, 1, 1), (2, 35, 7, 6)),
    ((2, 20, 9, 8), (35, 20, 3, 3), (2, 35, 9, 8)),
    ((2, 3, 9, 8), (20, 3, 3, 3), (2, 20, 9, 8)),
    ((2, 19, 5, 9), (19, 1, 3, 3), (2, 19, 5, 9)),
):
    _more = {"padding": _w[2] // 2, "groups": _w[0] if _w[1] == 1 else 1}
    add("conv2d", normal(_x, _w, _w[:1], _y, _y), conv(2), post_ops=_BOTH, name=f"to {_y}", **_more)
add(
    "conv2d",
    normal((1, 16, 9, 9), (32, 16, 3, 3), (32,), (1, 32, 9, 9), (1, 32, 9, 9)),
    conv(2),
    padding=1,
    post_ops="scale(0.5), multiply(gate), hardswish, add(residual), relu",
)
add("conv1d", normal((2, 5, 17), (7, 5, 3), (7,), (2, 7, 15), (2, 7, 15)), conv(1), post_ops=_BOTH)
add("conv3d", normal((1, 5, 6, 7, 8), (9, 5, 2, 3, 3), (9,)), conv(3), padding=1, stride=(1, 2, 1))
add("conv3d", normal((1, 16, 4, 5, 6), (16, 1, 3, 3, 3)), conv(3), groups=16, padding=(1, 1, 1))
add("conv3d", normal((2, 37, 4, 9, 20), (37, 1, 3, 3, 3), (37,)), conv(3), groups=37, padding=1, stride=(1, 2, 2))
add("conv3d", normal((1, 24, 13, 28, 28), (24, 1, 5, 1, 1)), conv(3), groups=24, padding=(2, 0, 0))
add("conv3d", normal((2, 20, 4, 3, 5), (33, 20, 3, 1, 2)), conv(3), padding=(2, 0, 1), stride=(2, 1, 1))
# Strides, dilations and paddings that differ along each dimension, at both ends; groups and channels that are odd.
add(
    "conv3d",
    normal((2, 15, 6, 8, 9), (21, 5, 3, 2, 3), (21,)),
    conv(3),
    stride=(2, 1, 3),
    dilation=(1, 3, 2),
    padding=(1, 0, 2, 0, 2, 3),
    groups=3,
)
add(
    "conv3d",
    normal((3, 13, 4, 5, 6), (13, 1, 2, 3, 3)),
    conv(3),
    groups=13,
    stride=(1, 2, 1),
    padding=(0, 1, 2, 1, 0, 1),
)
add("conv3d", normal((2, 3, 2, 9, 7), (17, 3, 3, 5, 3), (17,)), conv(3), stride=(1, 2, 2), padding=(1, 2, 1))
add(
    "conv3d",
    operands("multiply(gate), tanh, add(residual)", (2, 18, 2, 4, 5), (2, 7, 4, 5, 6), (18, 7, 3, 2, 2), (18,)),
    conv(3),
    post_ops="multiply(gate), tanh, add(residual)",
)
add("conv_transpose1d", normal((2, 6, 9), (6, 4, 3), (4,)), conv(1, True), stride=2, padding=1, output_padding=1)
add("conv_transpose2d", normal((2, 17, 5, 6), (17, 5, 3, 3), (5,)), conv(2, True), stride=2, padding=1)
add("conv_transpose2d", normal((1, 8, 5, 6), (8, 6, 3, 2)), conv(2, True), groups=2, dilation=2)
add("conv_transpose2d", normal((1, 8, 5, 6), (8, 6, 4, 4), (6,)), conv(2, True), stride=2, post_ops="tanh, scale(-2)")
add(  # output padding of a whole stride
    "conv_transpose2d",
    normal((2, 8, 7, 6), (8, 6, 3, 3), (6,)),
    conv(2, True),
    stride=(3, 1),
    padding=2,
    dilation=(1, 2),
    output_padding=(1, 1),
)
# What is added as in the gradient of two branches.
add("conv_transpose1d", normal((2, 6, 9), (6, 4, 3), (4,), (2, 4, 19)), conv(1, True), stride=2)
add("conv_transpose2d", normal((2, 17, 5, 6), (17, 5, 3, 3), (5,), (2, 5, 9, 11)), conv(2, True), stride=2, padding=1)
for _steps in ("add(residual), relu", "tanh, add(residual), scale(0.5)"):
    for _x, _w, _y, _more in (
        ((2, 17, 5, 6), (17, 20, 2, 2), (2, 20, 10, 12), {"stride": 2}),
        ((2, 17, 5, 6), (17, 20, 1, 1), (2, 20, 10, 11), {"stride": 2, "output_padding": (1, 0)}),  # empty phases
        ((2, 18, 9, 10), (18, 35, 3, 3), (2, 35, 9, 10), {"padding": 1}),
        ((2, 19, 5, 6), (19, 1, 3, 3), (2, 19, 9, 11), {"stride": 2, "padding": 1, "groups": 19}),
    ):
        tensors = normal(_x, _w, _y[1:2], _y)
        add("conv_transpose2d", tensors, conv(2, True), post_ops=_steps, name=f"{_w[2]}x{_w[3]}", **_more)
add(
    "conv_transpose3d",
    normal((1, 4, 3, 4, 5), (4, 3, 2, 2, 2), (3,), (1, 3, 4, 8, 10)),
    conv(3, True),
    stride=(1, 2, 2),
)
add(
    "conv_transpose3d",
    normal((2, 15, 3, 4, 3), (15, 7, 3, 2, 3), (21,)),
    conv(3, True),
    stride=(2, 1, 3),
    dilation=(1, 3, 2),
    padding=(1, 0, 2, 0, 2, 1),
    output_padding=(1, 0, 2),
    groups=3,
)
add(
    "conv_transpose3d",
    normal((2, 13, 3, 4, 2), (13, 1, 2, 3, 3)),
    conv(3, True),
    groups=13,
    stride=(1, 2, 1),
    padding=(0, 1, 1),
)
add("conv_transpose2d", normal((2, 17, 5, 6), (17, 5, 3, 3)), conv(2, True), stride=2, padding=(1, 0, 0, 2))
# As Winograd's algorithm does it.
for _padding in (1, 0, 2):
    add("conv_transpose2d", normal((2, 18, 9, 10), (18, 35, 3, 3), (35,)), conv(2, True), padding=_padding)
add("conv_transpose3d", normal((1, 4, 3, 4, 5), (4, 3, 2, 2, 2), (3,)), conv(3, True), stride=(1, 2, 2))
add("conv_transpose3d", normal((1, 17, 3, 2, 4), (17, 18, 3, 3, 2)), conv(3, True), padding=1)
