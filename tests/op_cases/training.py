"""Training: gradients, losses, steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .case import X4, Case, into, normal, post_ops, wrapped
from .convolution import conv
from .matrix import DROPPED, attention_by_formula, decaying, dropped, masked, scanned, with_lowest
from .pooling import boxed, grid_sampled, gridded, roi_aligned

CASES: list[Case] = []
add = into(CASES)


def derivative(call: Callable[..., Any], *by: int, grad: int | None = None):
    """By PyTorch's autograd: of call(torch, f, tensors, attributes); tensors[grad]: the gradient by its result."""

    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        t = [x.detach().clone().requires_grad_() if i in by else x for i, x in enumerate(t)]
        y = call(torch, f, t, a)
        made = torch.autograd.grad(y, [t[i] for i in by], t[grad] if grad is not None else None)
        return made[0] if len(by) == 1 else list(made)

    return reference


def conv_weights(spatial: int):
    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        own = {key: value for key, value in a.items() if key != "kernel_size"}
        sizes = a["kernel_size"] if isinstance(a["kernel_size"], (list, tuple)) else [a["kernel_size"]] * spatial
        weight = torch.zeros((t[1].shape[1], t[0].shape[1] // a.get("groups", 1), *sizes), dtype=t[0].dtype)
        weight.requires_grad_()
        y = conv(spatial)(torch, f, [t[0], weight], own)
        return torch.autograd.grad(y, weight, t[1])[0]

    return reference


def attention_gradients(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    given = [x.detach().clone().requires_grad_() for x in t[:3]]
    return list(torch.autograd.grad(attention_by_formula(torch, given, a, t[4:]), given, t[3]))


def _backward_masked(mask_shape: tuple[int, ...], boolean: bool):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        q, k, v, mask = masked(mask_shape, boolean)(rng)
        grad = rng.standard_normal((2, 3, 37, 19)).astype(np.float32)
        if boolean and mask_shape[-2] > 1:
            mask[..., 5, :] = False  # a query that sees no key
        return [q, k, v, grad, mask]

    return make


def _backward_hidden_by_lowest(rng: np.random.Generator) -> list[np.ndarray | None]:
    q, k, v, grad, mask = _backward_masked((37, 45), False)(rng)
    return [q, k, v, grad, with_lowest(np.zeros_like(mask))]


_SDPAB = "scaled_dot_product_attention_backward"
add(_SDPAB, normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19), (2, 3, 37, 19)), attention_gradients)
add(
    _SDPAB,
    normal((1, 2, 70, 20), (1, 2, 1100, 20), (1, 2, 1100, 32), (1, 2, 70, 32)),
    attention_gradients,
    scale=0.7,
    name="many keys",
)
add(_SDPAB, normal((4, 4, 197, 64), (4, 4, 197, 64), (4, 4, 197, 64), (4, 4, 197, 64)), attention_gradients, name="16")
add(_SDPAB, normal(*[(3, 65, 17)] * 4), attention_gradients, is_causal=True)
add(_SDPAB, normal((2, 2, 3, 5, 7), (2, 2, 3, 9, 7), (2, 2, 3, 9, 1), (2, 2, 3, 5, 1)), attention_gradients)
add(_SDPAB, normal(*[(2, 2, 40, 8)] * 4), attention_gradients, softcap=1.5, is_causal=True)
add(_SDPAB, normal((2, 5, 70), (2, 9, 70), (2, 9, 133), (2, 5, 133)), attention_gradients, name="wide heads")
add(
    _SDPAB,
    normal((2, 6, 37, 16), (2, 2, 45, 16), (2, 2, 45, 19), (2, 6, 37, 19)),
    attention_gradients,
    enable_gqa=True,
)
for _shape, _boolean in (((37, 45), False), ((2, 1, 1, 45), False), ((2, 3, 37, 45), True), ((1, 45), True)):
    _name = f"mask {_shape} {'bool' if _boolean else 'f32'}"
    add(_SDPAB, _backward_masked(_shape, _boolean), attention_gradients, name=_name)
add(_SDPAB, _backward_hidden_by_lowest, attention_gradients, name="hidden by the lowest number")


for _q, _k, _v, _seed, _mask in DROPPED:
    _name, _forward, _a = dropped(_q, _k, _v, _seed, _mask)

    def _make(rng: np.random.Generator, forward: Any = _forward, y: tuple[int, ...] = (*_q[:-1], _v[-1])) -> Any:
        q, k, v, *rest = forward(rng)
        return [q, k, v, rng.standard_normal(y).astype("f4"), *rest]

    add(_SDPAB, _make, attention_gradients, name=_name, **_a)

add("conv1d_backward_weights", normal((2, 5, 17), (2, 7, 17)), conv_weights(1), kernel_size=3, padding=1)
add("conv2d_backward_weights", normal((2, 3, 13, 12), (2, 17, 13, 12)), conv_weights(2), kernel_size=3, padding=1)
add("conv2d_backward_weights", normal((2, 19, 9, 10), (2, 33, 9, 10)), conv_weights(2), kernel_size=1)
add(
    "conv2d_backward_weights", normal((2, 32, 9, 9), (2, 32, 5, 5)), conv_weights(2), kernel_size=3, padding=1, stride=2
)
add("conv2d_backward_weights", normal((2, 32, 10, 10), (2, 16, 5, 5)), conv_weights(2), kernel_size=1, stride=2)
add(
    "conv2d_backward_weights",
    normal((2, 16, 11, 7), (2, 24, 6, 9)),
    conv_weights(2),
    kernel_size=(3, 2),
    stride=(2, 1),
    dilation=(1, 2),
    padding=(1, 0, 2, 4),
)
add(
    "conv2d_backward_weights", normal((2, 24, 8, 8), (2, 48, 8, 8)), conv_weights(2), kernel_size=3, groups=3, padding=1
)
# Depthwise: vectors of channels and what is left of them; windows wider than the image, and that skip pixels.
add(
    "conv2d_backward_weights",
    normal((2, 29, 7, 13), (2, 29, 4, 5)),
    conv_weights(2),
    kernel_size=(7, 5),
    groups=29,
    padding=(3, 2),
    stride=(2, 3),
)
add(
    "conv2d_backward_weights",
    normal((3, 16, 4, 3), (3, 16, 4, 3)),
    conv_weights(2),
    kernel_size=5,
    groups=16,
    padding=4,
    dilation=2,
)
add("conv1d_backward_weights", normal((2, 20, 9), (2, 20, 2)), conv_weights(1), kernel_size=2, groups=20, stride=4)
add(
    "conv2d_backward_weights",
    normal((2, 19, 9, 9), (2, 19, 9, 9)),
    conv_weights(2),
    kernel_size=3,
    groups=19,
    padding=1,
)
add(
    "conv2d_backward_weights",
    normal((2, 6, 9, 9), (2, 18, 5, 5)),
    conv_weights(2),
    kernel_size=5,
    groups=6,
    stride=2,
    padding=2,
)
add(
    "conv3d_backward_weights",
    normal((1, 5, 6, 7, 8), (1, 9, 7, 4, 4)),
    conv_weights(3),
    kernel_size=(2, 3, 3),
    padding=1,
    stride=(1, 2, 2),
)
# Over planes: all that a window may be at once, in odd channels and groups; depthwise; one plane of few.
add(
    "conv3d_backward_weights",
    normal((2, 15, 6, 8, 9), (2, 21, 3, 7, 4)),
    conv_weights(3),
    kernel_size=(3, 2, 3),
    stride=(2, 1, 3),
    dilation=(1, 3, 2),
    padding=(1, 0, 2, 0, 2, 3),
    groups=3,
)
add(
    "conv3d_backward_weights",
    normal((3, 13, 4, 5, 6), (3, 13, 4, 2, 7)),
    conv_weights(3),
    kernel_size=(2, 3, 3),
    groups=13,
    stride=(1, 2, 1),
    padding=(0, 1, 2, 1, 0, 1),
)
add(
    "conv3d_backward_weights",
    normal((2, 3, 2, 9, 7), (2, 17, 2, 5, 4)),
    conv_weights(3),
    kernel_size=(3, 5, 3),
    stride=(1, 2, 2),
    padding=(1, 2, 1),
)
add("conv3d_backward_weights", normal((2, 33, 3, 4, 5), (2, 18, 3, 4, 5)), conv_weights(3), kernel_size=1)


def batch_norm_of(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    dims = [0, *range(2, t[0].dim())]
    y = f.batch_norm(t[0], None, None, t[1], t[2], training=True, eps=a.get("eps", 1e-5))
    residual = t[3] if len(t) > 3 else None
    if steps := a.get("post_ops"):
        y = post_ops(f, y, steps, t)
    elif residual is not None:
        y = y + residual
    if activation := a.get("activation"):
        y = getattr(f, activation)(y)
    y = torch.clamp(y, a.get("low", -math.inf), a.get("high", math.inf))
    return y, t[0].mean(dims), t[0].var(dims, unbiased=False)


def batch_norm_gradients(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """By the formula, since mean and variance are given, rounded to float32."""
    x, grad, mean, variance, weight = t[:5]
    dims, column = [0, *range(2, x.dim())], (1, -1, *(1,) * (x.dim() - 2))
    inverse = variance if a.get("inverted") else (variance + a.get("eps", 1e-5)).rsqrt()
    h = (x - mean.reshape(column)) * inverse.reshape(column)
    if len(t) > 5:
        y = (h * weight.reshape(column) + t[5].reshape(column)).detach().requires_grad_()
        with torch.enable_grad():
            numbers = ", ".join(str(a[name]) for name in ("activation_alpha", "activation_beta") if name in a)
            made = post_ops(f, y, f"{a['activation']}({numbers})", [])
        (grad,) = torch.autograd.grad(made, y, grad)
    centred = grad - grad.mean(dims, keepdim=True) - h * (grad * h).mean(dims, keepdim=True)
    return [(weight * inverse).reshape(column) * centred, (grad * h).sum(dims), grad.sum(dims)]


def with_statistics(shape: tuple[int, ...], biased: bool = False, inverted: bool = False):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        x, grad = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
        dims = (0, *range(2, len(shape)))
        wide = x.astype("f8")
        weight = rng.uniform(0.5, 2, shape[1]).astype("f4")
        bias = [rng.standard_normal(shape[1]).astype("f4")] if biased else []
        variance = wide.var(dims)
        spread = (variance + 1e-5) ** -0.5 if inverted else variance
        return [x, grad, wide.mean(dims).astype("f4"), spread.astype("f4"), weight, *bias]

    return make


add("batch_norm_training", normal(X4, (19,), (19,)), batch_norm_of)
add("batch_norm_training", normal((4, 32, 6, 5), (32,), (32,)), batch_norm_of, eps=1e-3)
add("batch_norm_training", normal((8, 7), (7,), (7,)), batch_norm_of)
add("batch_norm_backward", with_statistics(X4), batch_norm_gradients)
add("batch_norm_backward", with_statistics((4, 32, 6, 5)), batch_norm_gradients, eps=1e-3)
add("batch_norm_backward", with_statistics((8, 7)), batch_norm_gradients)
add("batch_norm_backward", with_statistics((4, 32, 6, 5), inverted=True), batch_norm_gradients, inverted=True)
add("batch_norm_training", normal(X4, (19,), (19,)), batch_norm_of, low=0.0)
add("batch_norm_training", normal((4, 32, 6, 5), (32,), (32,)), batch_norm_of, low=-0.5, high=1.0)
_PLACES = (4, 32, 6, 5)
for _shape in (X4, _PLACES, (8, 7)):
    _c = _shape[1:2]
    add("batch_norm_training", normal(_shape, _c, _c), batch_norm_of, activation="relu", name=f"{_shape}")
    add("batch_norm_training", normal(_shape, _c, _c, _shape), batch_norm_of, activation="relu", name=f"sum {_shape}")
for _activation in ("relu6", "silu", "sigmoid"):
    add("batch_norm_training", normal(X4, (19,), (19,)), batch_norm_of, activation=_activation)
add("batch_norm_training", normal(X4, (19,), (19,), X4), batch_norm_of, name="a sum alone")
add("batch_norm_training", normal(_PLACES, (32,), (32,), _PLACES), batch_norm_of, post_ops="tanh, add(residual)")
add("batch_norm_training", normal(X4, (19,), (19,)), batch_norm_of, post_ops="relu, scale(-0.5)")
_GATED = "multiply(gate), tanh, add(residual), relu"
for _shape in (X4, _PLACES):
    _c = _shape[1:2]
    add("batch_norm_training", normal(_shape, _c, _c, _shape, _shape), batch_norm_of, post_ops=_GATED, name=f"{_shape}")
for _activation in ("relu", "relu6", "silu", "hardswish", "sigmoid", "mish", "gelu"):
    add("batch_norm_backward", with_statistics(X4, biased=True), batch_norm_gradients, activation=_activation)
add("batch_norm_backward", with_statistics((8, 7), biased=True), batch_norm_gradients, activation="silu")
add("batch_norm_backward", with_statistics(X4, True, True), batch_norm_gradients, activation="relu", inverted=True)
for _activation, _alpha, _beta in (("clip", -0.5, 1.0), ("leaky_relu", 0.2, None), ("elu", None, None)):
    _given = {"activation_alpha": _alpha, "activation_beta": _beta}
    add(
        "batch_norm_backward", with_statistics(_PLACES, biased=True), batch_norm_gradients, activation=_activation,
        **{name: number for name, number in _given.items() if number is not None},
    )  # fmt: skip


def layer_norm_gradients(centred: bool):
    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        shape = a["normalized_shape"]
        weight = t[2] if len(t) > 2 and t[2] is not None else torch.ones(shape, dtype=t[0].dtype)

        def call(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
            if centred:
                return f.layer_norm(t[0], shape, t[2], t[3], a.get("eps", 1e-5))
            return f.rms_norm(t[0], shape, t[2], a.get("eps", 1e-6))

        given = [t[0], t[1], weight, torch.zeros_like(weight)]
        return derivative(call, *((0, 2, 3) if centred else (0, 2)), grad=1)(torch, f, given, a)

    return reference


add("layer_norm_backward", normal((3, 5, 37), (3, 5, 37), (37,)), layer_norm_gradients(True), normalized_shape=[37])
add("layer_norm_backward", normal((40, 4, 9), (40, 4, 9)), layer_norm_gradients(True), normalized_shape=[4, 9])
add("rms_norm_backward", normal((3, 5, 37), (3, 5, 37), (37,)), layer_norm_gradients(False), normalized_shape=[37])


def group_norm_gradients(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    def call(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        return f.group_norm(t[0], a["num_groups"], t[2], t[3], a.get("eps", 1e-5))

    channels = t[0].shape[1]
    weight = t[2] if len(t) > 2 and t[2] is not None else torch.ones(channels, dtype=t[0].dtype)
    return derivative(call, 0, 2, 3, grad=1)(torch, f, [t[0], t[1], weight, torch.zeros_like(weight)], a)


add("group_norm_backward", normal((2, 18, 5, 7), (2, 18, 5, 7), (18,)), group_norm_gradients, num_groups=3)
add("group_norm_backward", normal((3, 19, 6), (3, 19, 6)), group_norm_gradients, num_groups=19)


def resize_gradient(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    def call(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        size = {} if "scale_factor" in a else {"size": t[1].shape[2:]}
        return f.interpolate(t[0], **size, **{key: value for key, value in a.items() if key != "input_size"})

    x = torch.zeros((*t[0].shape[:2], *a["input_size"]), dtype=t[0].dtype)
    return derivative(call, 0, grad=1)(torch, f, [x, t[0]], a)


for _sizes, _resized, _options in (
    ((9, 10), (18, 7), {}),
    ((9, 10), (18, 20), {"scale_factor": [2.0, 2.0], "mode": "bilinear"}),
    ((9, 10), (5, 17), {"mode": "bilinear", "align_corners": True}),
    ((9, 10), (1, 1), {"mode": "bilinear", "align_corners": True}),
    ((9,), (4,), {"mode": "linear"}),
    ((4, 5, 6), (5, 4, 9), {"mode": "trilinear"}),
    ((4, 5, 6), (8, 3, 6), {}),
):
    _grad = normal((2, 19, *_resized))
    add("interpolate_backward", _grad, resize_gradient, input_size=list(_sizes), **_options)


def pool_gradient(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    def call(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        own = {key: value for key, value in a.items() if key not in ("input_size", "forward")}
        if a["forward"].startswith("adaptive"):
            own["output_size"] = tuple(t[-1].shape[2:])
        return getattr(f, a["forward"])(t[0], **own)

    if "input_size" in a:
        x = torch.zeros((*t[0].shape[:2], *a["input_size"]), dtype=t[0].dtype)
        return derivative(call, 0, grad=1)(torch, f, [x, t[0]], a)
    return derivative(call, 0, grad=1)(torch, f, t, a)


def add_pool_gradient(forward: str, x: tuple[int, ...], y: tuple[int, ...], **attributes: Any) -> None:
    average = "avg" in forward

    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        return pool_gradient(torch, f, t, {**a, "forward": forward})

    own = dict(attributes, input_size=list(x[2:])) if average else attributes
    add(f"{forward}_backward", normal(y) if average else normal(x, y), reference, **own)


add_pool_gradient("max_pool2d", X4, (2, 19, 5, 5), kernel_size=3, stride=2, padding=1)
add_pool_gradient("max_pool2d", X4, (2, 19, 5, 5), kernel_size=2, ceil_mode=True)
add_pool_gradient("max_pool2d", (2, 32, 8, 8), (2, 32, 4, 4), kernel_size=2)
add_pool_gradient("max_pool1d", (2, 5, 17), (2, 5, 8), kernel_size=3, stride=2)
add_pool_gradient("max_pool3d", (1, 3, 6, 5, 4), (1, 3, 4, 3, 2), kernel_size=3, stride=1)
add_pool_gradient("avg_pool2d", X4, (2, 19, 5, 5), kernel_size=3, stride=2, padding=1)
add_pool_gradient("avg_pool2d", X4, (2, 19, 5, 5), kernel_size=3, stride=2, padding=1, count_include_pad=False)
add_pool_gradient("avg_pool1d", (2, 5, 17), (2, 5, 5), kernel_size=3)
add_pool_gradient("avg_pool3d", (1, 3, 6, 5, 4), (1, 3, 3, 2, 2), kernel_size=2)
add_pool_gradient("adaptive_max_pool1d", (2, 5, 17), (2, 5, 4))
add_pool_gradient("adaptive_max_pool2d", X4, (2, 19, 4, 3))
add_pool_gradient("adaptive_max_pool3d", (1, 3, 6, 5, 4), (1, 3, 3, 2, 1))
add_pool_gradient("adaptive_avg_pool1d", (2, 5, 17), (2, 5, 4))
add_pool_gradient("adaptive_avg_pool2d", X4, (2, 19, 4, 3))
add_pool_gradient("adaptive_avg_pool3d", (1, 3, 6, 5, 4), (1, 3, 3, 2, 1))


def classified(x: tuple[int, ...], ignored: bool = False, weighted: bool = False, grad: tuple[int, ...] | None = None):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        target = rng.integers(0, x[1], (x[0], *x[2:]))
        if ignored:
            target.flat[::3] = -100
        made: list[np.ndarray | None] = [rng.standard_normal(x).astype("f4"), target]
        if grad is not None:
            made.append(rng.standard_normal(grad).astype("f4"))
        return [*made, rng.uniform(0.5, 2, x[1]).astype("f4")] if weighted else made

    return make


def entropy(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    return f.cross_entropy(t[0], t[1], t[2] if len(t) > 2 else None, **a)


def entropy_gradient(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    given = [t[0], t[1], *t[3:], t[2]]
    last = len(given) - 1
    return derivative(lambda torch, f, t, a: entropy(torch, f, t[:last], a), 0, grad=last)(torch, f, given, a)


for options in (
    {},
    {"reduction": "sum", "label_smoothing": 0.1},
    {"label_smoothing": 0.2, "ignore_index": -100},
    {"reduction": "none"},
):
    none = options.get("reduction") == "none"
    weighted = "label_smoothing" in options
    add("cross_entropy", classified((6, 11), True, weighted), entropy, **options)
    add("cross_entropy", classified((2, 5, 4, 3), False, weighted), entropy, **options, name="image")
    add("cross_entropy", classified((13, 1203), True, weighted), entropy, **options, name="many classes")
    add(
        "cross_entropy_backward",
        classified((13, 1203), True, weighted, (13,) if none else ()),
        entropy_gradient,
        **options,
        name="many classes",
    )
    add(
        "cross_entropy_backward", classified((6, 11), True, weighted, (6,) if none else ()), entropy_gradient, **options
    )
    add(
        "cross_entropy_backward",
        classified((2, 5, 4, 3), False, weighted, (2, 4, 3) if none else ()),
        entropy_gradient,
        **options,
        name="image",
    )


def products_by_groups(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    x, grad, offsets = t
    parts, begin = [], 0
    for end in offsets.tolist():
        parts.append(x[begin:end].T @ grad[begin:end])
        begin = end
    return torch.stack(parts)


def rows_of_groups(rows: int, k: int, n: int, offsets: list[int], dtype: str = "i8") -> Any:
    return lambda rng: [*normal((rows, k), (rows, n))(rng), np.array(offsets, dtype)]


_BY_GROUPS = "grouped_mm_backward_weights"
add(_BY_GROUPS, rows_of_groups(37, 33, 19, [9, 9, 10, 31, 37]), products_by_groups, name="an empty group")
add(_BY_GROUPS, rows_of_groups(24, 16, 32, [0, 17, 20], "i4"), products_by_groups, name="rows in no group")
add(_BY_GROUPS, rows_of_groups(300, 70, 50, [290, 300]), products_by_groups, name="a large group")
add(_BY_GROUPS, rows_of_groups(3, 2, 1, [1, 1, 2, 3]), products_by_groups, name="narrow")


def looked_up(grad: tuple[int, ...], index: tuple[int, ...], size: int):
    return lambda rng: [rng.standard_normal(grad).astype("f4"), rng.integers(-size, size, index)]


def added_slices(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    dim, size, index = a["dim"], a["size"], wrapped(t[1], a["size"])
    grad = t[0].flatten(dim, dim + index.dim() - 1)
    result = torch.zeros((*grad.shape[:dim], size, *grad.shape[dim + 1 :]), dtype=grad.dtype)
    return result.index_add(dim, index.flatten(), grad)


def added_elements(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    shape = list(t[0].shape)
    shape[a["dim"]] = a["size"]
    return torch.zeros(shape, dtype=t[0].dtype).scatter_add(a["dim"], wrapped(t[1], a["size"]), t[0])


add("index_select_backward", looked_up((4, 6, 70), (4, 6), 9), added_slices, dim=0, size=9)
add("index_select_backward", looked_up((3, 5, 4), (5,), 7), added_slices, dim=1, size=7)
add("gather_backward", looked_up((3, 8, 4), (3, 8, 4), 5), added_elements, dim=1, size=5)
add("gather_backward", looked_up((6, 3), (6, 3), 4), added_elements, dim=0, size=4)
# As in networks: tables with more rows than indices, one row for most of the indices, look-ups along the last
# dimension, by a matrix too, and one element of each row of a matrix, as of the classes of a loss.
add("index_select_backward", looked_up((5, 67), (5,), 700), added_slices, dim=0, size=700, name="few of many rows")
add("index_select_backward", looked_up((300, 130), (300,), 2), added_slices, dim=0, size=2, name="many equal")
add("index_select_backward", looked_up((300, 1040), (300,), 1), added_slices, dim=0, size=1, name="all equal")
add("index_select_backward", looked_up((33, 90), (90,), 40), added_slices, dim=1, size=40, name="columns")
add("index_select_backward", looked_up((7, 5, 6), (5, 6), 11), added_slices, dim=1, size=11, name="columns of a matrix")
add("gather_backward", looked_up((40, 1), (40, 1), 700), added_elements, dim=1, size=700, name="one a row")
add("gather_backward", looked_up((3, 50, 70), (3, 50, 70), 6), added_elements, dim=1, size=6, name="columns")


def step_of(name: str, steps: int = 1):
    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        weight = t[0].clone().requires_grad_()
        weight.grad = t[1]
        rate = float(t[2])
        if name == "sgd":
            optimizer = torch.optim.SGD([weight], lr=rate, **a)
            if len(t) > 3:
                optimizer.state[weight]["momentum_buffer"] = t[3].clone()
            optimizer.step()
            return [weight.detach(), optimizer.state[weight]["momentum_buffer"]] if len(t) > 3 else weight.detach()
        own = {key: value for key, value in a.items() if not key.startswith("beta")}
        kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
        optimizer = kind([weight], lr=rate, betas=(a.get("beta1", 0.9), a.get("beta2", 0.999)), **own)
        optimizer.state[weight] = {
            "step": torch.tensor(float(t[5]) - 1),
            "exp_avg": t[3].clone(),
            "exp_avg_sq": t[4].clone(),
        }
        optimizer.step()
        state = optimizer.state[weight]
        return [weight.detach(), state["exp_avg"], state["exp_avg_sq"]]

    return reference


def stepped(shape: tuple[int, ...], moments: int, step: float | None = None, scale: float | None = None):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        weight, grad = (rng.standard_normal(shape).astype("f4") for _ in range(2))
        more: list[np.ndarray | None] = [rng.uniform(0.1, 1, shape).astype("f4") for _ in range(moments)]
        last: list[np.ndarray | None] = [np.array(step, "f4")] if step is not None else []
        if scale is not None:
            if step is None and moments == 0:
                last.append(None)  # velocity
            last.append(np.array(scale, "f4"))
            if scale == 0:
                grad.flat[5], grad.flat[7] = np.inf, np.nan
        return [weight, grad, np.array(0.05, "f4"), *more, *last]

    return make


def scaled(name: str, moments: int, at: int):
    """A step by a gradient times t[at]; by none where that is 0."""

    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        scale = float(t[at])
        if scale == 0:
            kept = [t[0], *t[3 : 3 + moments]]
            return kept if moments else kept[0]
        return step_of(name)(torch, f, [t[0], t[1] * scale, *t[2:at]], a)

    return reference


def with_one(value: float, place: int, *shapes: tuple[int, ...]):
    """Tensors, and in that at `place` one element that is `value`."""

    def make(rng: np.random.Generator) -> list[np.ndarray]:
        made = [np.array(rng.standard_normal(shape), "f4") for shape in shapes]
        made[place].flat[made[place].size // 2] = value
        return made

    return make


def all_finite(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    return torch.tensor(float(all(bool(torch.isfinite(each).all()) for each in t)))


add("sgd_step", stepped((7, 301), 0), step_of("sgd"), weight_decay=0.1)
add("sgd_step", stepped((7, 301), 1), step_of("sgd"), momentum=0.9, weight_decay=0.1)
add("sgd_step", stepped((700,), 1), step_of("sgd"), momentum=0.8, nesterov=True)
add("sgd_step", stepped((700,), 1), step_of("sgd"), momentum=0.8, dampening=0.3)
add("adam_step", stepped((7, 301), 2, 3), step_of("adam"), weight_decay=0.1)
add("adam_step", stepped((700,), 2, 100), step_of("adam"), beta1=0.8, beta2=0.9, eps=1e-3)
add("adamw_step", stepped((7, 301), 2, 1), step_of("adamw"))
for _scale in (0.0, 0.25):
    _name = f"gradient times {_scale}"
    add("sgd_step", stepped((7, 301), 0, scale=_scale), scaled("sgd", 0, 3), weight_decay=0.1, name=_name)
    add("sgd_step", stepped((7, 301), 1, scale=_scale), scaled("sgd", 1, 4), momentum=0.9, name=f"velocity, {_name}")
    add("adam_step", stepped((7, 301), 2, 3, _scale), scaled("adam", 2, 6), weight_decay=0.1, name=_name)
    add("adamw_step", stepped((700,), 2, 3, _scale), scaled("adamw", 2, 6), name=_name)
for _value, _place in ((1.0, 0), (np.inf, 0), (-np.inf, 2), (np.nan, 1)):
    _given = with_one(_value, _place, (3, 20000), (), (70, 3, 5))
    add("all_finite", _given, all_finite, variadic=True, name=f"{_value} in tensor {_place}")


def with_grad(make: Callable[[np.random.Generator], list[Any]], shape: tuple[int, ...], first: bool = False):
    """The tensors of a forward case and a gradient by its result, which comes first or last."""

    def both(rng: np.random.Generator) -> list[np.ndarray | None]:
        tensors, grad = make(rng), normal(shape)(rng)
        return [*grad, *tensors] if first else [*tensors, *grad]

    return both


def of_given(call: Callable[..., Any]) -> Callable[..., Any]:
    """A forward case's call, where the gradient by its result comes first."""
    return lambda torch, f, t, a: call(torch, f, t[1:], a)


_GSB = "grid_sample_backward"
_by_x_and_grid = derivative(of_given(grid_sampled), 1, 2, grad=0)
for _mode in ("bilinear", "nearest", "bicubic"):
    _made = with_grad(gridded((2, 19, 9, 10), (7, 6)), (2, 19, 7, 6), first=True)
    for _padding in ("zeros", "border", "reflection"):
        add(_GSB, _made, _by_x_and_grid, 1e-4, mode=_mode, padding_mode=_padding)
    _made = with_grad(gridded((1, 5, 6, 7), (4, 9)), (1, 5, 4, 9), first=True)
    add(_GSB, _made, _by_x_and_grid, 1e-4, mode=_mode, align_corners=True)
add(_GSB, with_grad(gridded((2, 17, 3, 4, 5), (2, 6, 3)), (2, 17, 2, 6, 3), first=True), _by_x_and_grid, 1e-4)
add(
    _GSB,
    with_grad(gridded((2, 5, 11), (8,)), (2, 5, 8), first=True),
    _by_x_and_grid,
    1e-4,
    padding_mode="border",
)
# More places than a tile of a sort has room for; few pixels, each read by many.
add(_GSB, with_grad(gridded((1, 3, 5, 4), (30, 40)), (1, 3, 30, 40), first=True), _by_x_and_grid, 1e-4, name="many")

_by_x = derivative(of_given(roi_aligned), 1, grad=0)
for _aligned in (False, True):
    _made = with_grad(boxed((2, 35, 9, 10), 5, 4.0), (5, 35, 2, 3), first=True)
    add(
        "roi_align_backward", _made, _by_x, 1e-4, output_size=(2, 3), spatial_scale=0.25, sampling_ratio=2,
        aligned=_aligned,
    )  # fmt: skip
    for _mode in ("mean", "max"):
        _made = with_grad(boxed((1, 5, 9, 10), 4), (4, 5, 2, 2), first=True)
        add("roi_align_backward", _made, _by_x, 1e-4, output_size=(2, 2), mode=_mode, aligned=_aligned)

_SSB = "selective_scan_backward"
_by_all = derivative(lambda torch, f, t, a: scanned(torch, f, t[:5], a), 0, 1, 2, 3, 4, grad=5)
add(_SSB, with_grad(decaying(2, 21, 9, 16), (2, 21, 9)), _by_all)
add(_SSB, with_grad(decaying(1, 48, 5, 3), (1, 48, 5)), _by_all, name="few states")
add(_SSB, with_grad(decaying(3, 1, 1, 1), (3, 1, 1)), _by_all, name="one channel, one step")
