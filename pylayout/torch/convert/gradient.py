"""Gradients, and what training computes forward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..call import FLOATS, Call, Operand, require
from ..registry import converter
from .pool import overridden


def _each(values: Sequence[int], rank: int) -> list[int]:
    return [int(value) for value in values] * (rank if len(values) == 1 else 1)


@converter("convolution_backward.default")
def convolution_backward(
    call: Call, grad: Operand, x: Operand, weight: Operand, bias_sizes: Any, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
    output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    rank = weight.ndim - 2
    stride, padding, dilation = _each(stride, rank), _each(padding, rank), _each(dilation, rank)
    window = {"stride": stride, "padding": padding, "dilation": dilation, "groups": int(groups)}
    kernel = list(weight.shape[2:])
    dx = dw = db = None
    empty = 0 in x.shape or 0 in grad.shape  # of a batch without images gradients are zeros

    def zeros(like: Operand, shape: list[Any]) -> Any:
        return call.op("expand", call.tensor(0.0, like.dtype.name), shape)

    # With output padding of a whole stride a convolution goes on behind the positions of x; the last dimension first.
    beyond = [(0, o // s) for o, s in zip(_each(output_padding, rank), stride, strict=True)] if transposed else []
    pads = [each for pair in reversed(beyond) for each in pair]
    if output_mask[0]:
        if transposed:
            dx = call.op(f"conv{rank}d", grad, weight, None, **window)
            if any(pads):
                dx = call.op("pad", dx, [-each for each in pads])
        else:
            # What a stride leaves over at the end is not in the sizes of grad.
            extra = [
                x.shape[2 + i] - ((grad.shape[2 + i] - 1) * s - 2 * p + d * (k - 1) + 1)
                for i, (s, p, d, k) in enumerate(zip(stride, padding, dilation, kernel, strict=True))
            ]
            dx = call.op(f"conv_transpose{rank}d", grad, weight, None, **window, output_padding=extra)
    if output_mask[1]:
        one, other = (grad, x) if transposed else (x, grad)
        if any(pads):
            other = call.op("pad", other, pads)
        dw = (
            zeros(weight, list(weight.shape))
            if empty
            else call.op(f"conv{rank}d_backward_weights", one, other, kernel, **window)
        )
    if output_mask[2]:
        db = zeros(grad, [grad.shape[1]]) if empty else call.op("sum", grad, [0, *range(2, grad.ndim)])
    return dx, dw, db


def _of_channels(call: Call, value: Any, default: float, channels: Any) -> Operand:
    """A norm's weight or bias in f32, also where it has none."""
    if value is not None:
        return call.cast(value, "f32")  # type: ignore[no-any-return]
    made: Operand = call.op("expand", call.tensor(default, "f32"), [channels])
    return made


def _normalised(call: Call, x: Operand, weight: Any, bias: Any, eps: float) -> tuple[Operand, Operand, Operand]:
    """By its own mean and variance in each channel, with these, in f32: the op computes in it, whatever x is."""
    channels = x.shape[1]
    weight, bias = _of_channels(call, weight, 1.0, channels), _of_channels(call, bias, 0.0, channels)
    y, mean, variance = call.op("batch_norm_training", x, weight, bias, eps=float(eps))
    return y, mean, variance


@converter("_native_batch_norm_legit.no_stats")
def batch_norm_without_running_statistics(
    call: Call, x: Operand, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    given = x.dtype.name
    require(training is True and given in FLOATS, f"statistics for {given}")
    y, mean, variance = _normalised(call, x, weight, bias, eps)
    inverse = call.op("rsqrt", call.op("add", variance, float(eps)))
    return call.cast(y, given), call.cast(mean, call.dtype(1)), call.cast(inverse, call.dtype(2))


@converter("_native_batch_norm_legit_functional.default", note="of less than two values in a channel")
def batch_norm_training(
    call: Call, x: Operand, weight: Any, bias: Any, mean: Operand, variance: Operand, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    given, channels = x.dtype.name, x.shape[1]
    require(training is True and given in FLOATS, f"dtype {given}, or no training")
    mean, variance = call.cast(mean, "f32"), call.cast(variance, "f32")
    y, found, spread = _normalised(call, x, weight, bias, eps)
    values = x.size // channels
    unbiased = call.ratio(values, values - 1, "f32")
    tensors, scalars, factor = [found, spread, mean, variance], [float(eps), 1 - momentum, momentum], "s3"
    if isinstance(unbiased, Operand):
        tensors, factor = [*tensors, unbiased], "(s2 * x4)"
    else:
        scalars.append(momentum * unbiased)
    inverse, *running = call.op(
        "pointwise", tensors,
        f"y0 = rsqrt(x1 + s0); y1 = x2 * s1 + x0 * s2; y2 = x3 * s1 + x1 * {factor}", scalars=scalars, dtype="f32",
    )  # fmt: skip
    return tuple(call.cast(each, call.dtype(i)) for i, each in enumerate([y, found, inverse, *running]))


def _spread(call: Call, inverse: Operand, eps: float) -> Operand:
    """What `batch_norm_backward` takes for the variance, which was kept as 1 / sqrt(variance + eps).

    In a plan that is undone: oneDNN takes the variance itself.
    """
    inverse = call.cast(inverse, "f32")
    if call.one_by_one:
        return inverse
    expression = "y0 = max(1 / (x0 * x0) - s0, 0)"
    made: Operand = call.op("pointwise", [inverse], expression, scalars=[float(eps)], dtype="f32")
    return made


@converter("native_batch_norm_backward.default")
def batch_norm_backward(
    call: Call, grad: Operand, x: Operand, weight: Any, running_mean: Any, running_var: Any, save_mean: Any,
    save_invstd: Any, train: bool, eps: float, output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    given, channels = x.dtype.name, x.shape[1]
    of_weight = given if weight is None else weight.dtype.name
    weight = _of_channels(call, weight, 1.0, channels)
    mean = call.cast(save_mean if train else running_mean, "f32")
    if train:
        grad, spread = call.cast(grad, given), _spread(call, save_invstd, eps)
        made = call.op("batch_norm_backward", x, grad, mean, spread, weight, eps=float(eps), inverted=call.one_by_one)
    else:  # the statistics are constants
        grad, x = call.cast(grad, "f32"), call.cast(x, "f32")
        along, others = [channels, *[1] * (x.ndim - 2)], [0, *range(2, x.ndim)]
        inverse = call.op("rsqrt", call.op("add", call.cast(running_var, "f32"), float(eps)))
        scale, shift, factor = (call.op("reshape", v, along) for v in (inverse, mean, call.op("mul", inverse, weight)))
        standard = call.op("mul", call.op("sub", x, shift), scale)
        dw = call.op("sum", call.op("mul", grad, standard), others) if output_mask[1] else None
        made = call.op("mul", grad, factor), dw, call.op("sum", grad, others)
    dtypes = (given, of_weight, of_weight)
    return tuple(
        call.cast(each, dtype) if wanted else None
        for each, dtype, wanted in zip(made, dtypes, output_mask, strict=True)
    )


@converter("pylayout.batch_norm_activation_backward.default")
def batch_norm_activation_backward(
    call: Call, grad: Operand, x: Operand, weight: Any, bias: Any, mean: Operand, inverse: Operand, eps: float,
    activation: str, numbers: Sequence[float],
) -> Any:  # fmt: skip
    given, channels = x.dtype.name, x.shape[1]
    of_weight = given if weight is None else weight.dtype.name
    weight, bias = _of_channels(call, weight, 1.0, channels), _of_channels(call, bias, 0.0, channels)
    made = call.op(
        "batch_norm_backward", x, call.cast(grad, given), call.cast(mean, "f32"),
        _spread(call, inverse, eps), weight, bias, eps=float(eps), inverted=call.one_by_one, activation=activation,
        **dict(zip(("activation_alpha", "activation_beta"), numbers, strict=False)),
    )  # fmt: skip
    return tuple(call.cast(each, dtype) for each, dtype in zip(made, (given, of_weight, of_weight), strict=True))


@converter("threshold_backward.default", keeps=False)
def threshold_backward(call: Call, grad: Operand, x: Operand, threshold: float) -> Operand:
    return call.pointwise([grad, x], "x1 <= s0 ? 0.0 : x0", [float(threshold)])


@converter("hardtanh_backward.default")
def hardtanh_backward(call: Call, grad: Operand, x: Operand, min_val: float, max_val: float) -> Operand:
    return call.pointwise([grad, x], "x1 <= s0 || x1 >= s1 ? 0.0 : x0", [float(min_val), float(max_val)])


def _slope(text: str) -> Callable[[Call, Operand, Operand], Operand]:
    return lambda call, grad, x: call.pointwise([grad, x], text)


# The gradient is x0, the function's argument x1, if nothing else is said.
for _name, _text in {
    "silu_backward.default": "x0 * sigmoid(x1) * (1 + x1 * (1 - sigmoid(x1)))",
    "hardswish_backward.default": "x1 <= -3 ? 0 : x1 < 3 ? x0 * (x1 / 3 + 0.5) : x0",
    "hardsigmoid_backward.default": "x1 > -3 && x1 < 3 ? x0 / 6 : 0",
    "sigmoid_backward.default": "x0 * x1 * (1 - x1)",  # x1 is the result
    "mish_backward.default": (
        "x0 * (tanh(log1p(exp(min(x1, 30))))"
        " + x1 * (1 - tanh(log1p(exp(min(x1, 30)))) * tanh(log1p(exp(min(x1, 30))))) * sigmoid(x1))"
    ),
}.items():
    converter(_name, keeps=False)(_slope(_text))


@converter("gelu_backward.default", keeps=False)
def gelu_backward(call: Call, grad: Operand, x: Operand, approximate: str = "none") -> Operand:
    if approximate == "tanh":
        tangent = "tanh(0.7978845608028654 * (x1 + 0.044715 * x1 * x1 * x1))"
        inner = f"x1 * (1 - {tangent} * {tangent}) * 0.7978845608028654 * (1 + 0.134145 * x1 * x1)"
        return call.pointwise([grad, x], f"x0 * 0.5 * (1 + {tangent} + {inner})")
    density = "exp(-0.5 * x1 * x1) * 0.3989422804014327"
    return call.pointwise([grad, x], f"x0 * (0.5 * (1 + erf(x1 * 0.7071067811865476)) + x1 * {density})")


@converter("leaky_relu_backward.default", keeps=False)
def leaky_relu_backward(call: Call, grad: Operand, x: Operand, slope: float, by_result: bool) -> Operand:
    return call.pointwise([grad, x], "x1 > 0 ? x0 : x0 * s0", [float(slope)])


@converter("hardshrink_backward.default", "softshrink_backward.default")
def shrink_backward(call: Call, grad: Operand, x: Operand, lambd: float) -> Operand:
    return call.pointwise([grad, x], "x1 >= -s0 && x1 <= s0 ? 0.0 : x0", [float(lambd)])


def _pool_backward(call: Call, op: str, grad: Operand, x: Operand, rank: int, average: bool, **window: Any) -> Operand:
    shape = x.shape
    if x.ndim == rank + 1:
        grad, x = (call.reshape(each, [1, *each.shape]) for each in (grad, x))
    made: Operand
    if average:
        made = call.op(f"{op}{rank}d_backward", grad, list(shape[-rank:]), **window)
    else:
        made = call.op(f"{op}{rank}d_backward", x, grad, **window)
    return call.reshape(made, shape)


def _average(
    call: Call, grad: Operand, x: Operand, rank: int, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool, divisor: Any,
) -> Operand:  # fmt: skip
    size = _each(kernel, rank)
    scale = overridden(size, ceil_mode, divisor)
    made = _pool_backward(
        call, "avg_pool", grad, x, rank, True, kernel_size=size, stride=_each(stride, rank) if stride else size,
        padding=_each(padding, rank), ceil_mode=bool(ceil_mode),
        count_include_pad=bool(count_include_pad) or divisor is not None,
    )  # fmt: skip
    return made if scale == 1 else call.scaled(made, scale)


@converter("avg_pool2d_backward.default", note="divisor_override with ceil_mode")
def avg_pool2d_backward(
    call: Call, grad: Operand, x: Operand, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    ceil_mode: bool, count_include_pad: bool, divisor_override: Any,
) -> Operand:  # fmt: skip
    return _average(call, grad, x, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@converter("avg_pool3d_backward.default", note="divisor_override with ceil_mode")
def avg_pool3d_backward(
    call: Call, grad: Operand, x: Operand, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    ceil_mode: bool, count_include_pad: bool, divisor_override: Any,
) -> Operand:  # fmt: skip
    return _average(call, grad, x, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@converter("_adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool2d_backward(call: Call, grad: Operand, x: Operand) -> Operand:
    return _pool_backward(call, "adaptive_avg_pool", grad, x, 2, True)


@converter("_adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool3d_backward(call: Call, grad: Operand, x: Operand) -> Operand:
    return _pool_backward(call, "adaptive_avg_pool", grad, x, 3, True)


@converter("pylayout.max_pool_backward.default")
def max_pool_backward(
    call: Call, grad: Operand, x: Operand, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool,
) -> Operand:  # fmt: skip
    rank = len(kernel_size)
    return _pool_backward(
        call, "max_pool", grad, x, rank, False, kernel_size=list(kernel_size), stride=list(stride),
        padding=list(padding), dilation=list(dilation), ceil_mode=bool(ceil_mode),
    )  # fmt: skip


def _to_maxima(rank: int) -> Callable[..., Operand]:
    """The gradient of a pool that said where the maxima lie: added up there, plane by plane."""

    def convert(call: Call, grad: Operand, x: Operand, *others: Any) -> Operand:
        require(grad.size > 0, "no elements")
        planes, inside = x.shape[:-rank], math.prod(x.shape[-rank:])
        flat = [*planes, math.prod(grad.shape[-rank:])]
        nothing = call.op("expand", call.tensor(0.0, grad.dtype.name), [*planes, inside])
        source, index = call.reshape(grad, flat), call.reshape(others[-1], flat)
        made = call.op("scatter", nothing, len(planes), index, source, "sum")
        return call.reshape(made, x.shape)

    return convert


for _rank in (2, 3):
    for _name in (
        "max_pool{}d_with_indices_backward",
        "adaptive_max_pool{}d_backward",
        "fractional_max_pool{}d_backward",
    ):
        converter(f"{_name.format(_rank)}.default")(_to_maxima(_rank))


@converter("pylayout.layer_norm_backward.default")
def layer_norm_backward(
    call: Call, grad: Operand, x: Operand, shape: Sequence[int], weight: Operand | None, eps: float
) -> Any:
    return _norm_backward(call, "layer_norm_backward", grad, x, weight, [*shape], eps)


@converter("pylayout.group_norm_backward.default")
def group_norm_backward(call: Call, grad: Operand, x: Operand, groups: int, weight: Operand | None, eps: float) -> Any:
    return _norm_backward(call, "group_norm_backward", grad, x, weight, int(groups), eps)


def _norm_backward(
    call: Call, op: str, grad: Operand, x: Operand, weight: Operand | None, over: Any, eps: float
) -> Any:
    given = x.dtype.name
    if weight is not None and weight.dtype != given:  # of mixed precision
        grad, x, weight = (call.cast(each, "f32") for each in (grad, x, weight))
    made = call.op(op, x, grad, over, weight, eps=float(eps))
    return tuple(call.cast(each, call.dtype(place)) if call.used(place) else None for place, each in enumerate(made))


def _by_statistics(
    call: Call, grad: Operand, x: Operand, mean: Operand, inverse: Operand, weight: Operand | None, inner: list[int],
    outer: list[int], mask: Sequence[bool],
) -> Any:  # fmt: skip
    """Of a norm over the dimensions `inner`, with a weight and a bias that repeat along `outer`; all in f32."""
    standard = call.op("mul", call.op("sub", x, mean), inverse)
    dx = dw = db = None
    if mask[0]:
        weighted = grad if weight is None else call.op("mul", grad, weight)
        along = call.op("mean", call.op("mul", weighted, standard), inner, True)
        tensors = [weighted, call.op("mean", weighted, inner, True), standard, along, inverse]
        dx = call.op("pointwise", tensors, "y0 = x4 * (x0 - x1 - x2 * x3)", dtype="f32")
    if mask[1]:
        product = call.op("mul", grad, standard)
        dw = call.op("sum", product, outer) if outer else product
    if mask[2]:
        db = call.op("sum", grad, outer) if outer else grad
    return dx, dw, db


def _shaped(call: Call, made: Sequence[Any]) -> Any:
    return tuple(
        None if each is None else call.cast(call.reshape(each, call.shape(place)), call.dtype(place))
        for place, each in enumerate(made)
    )


@converter("native_layer_norm_backward.default")
def layer_norm_backward_by_statistics(
    call: Call, grad: Operand, x: Operand, shape: Sequence[int], mean: Operand, inverse: Operand,
    weight: Operand | None, bias: Operand | None, mask: Sequence[bool],
) -> Any:  # fmt: skip
    """Where no call of the norm was found that the statistics are of: they were repeated by `vmap`, say."""
    outer = [*range(x.ndim - len(shape))]
    inner = [*range(len(outer), x.ndim)]
    grad, x, mean, inverse = (call.cast(each, "f32") for each in (grad, x, mean, inverse))
    weight = None if weight is None else call.cast(weight, "f32")
    return _shaped(call, _by_statistics(call, grad, x, mean, inverse, weight, inner, outer, mask))


@converter("native_group_norm_backward.default")
def group_norm_backward_by_statistics(
    call: Call, grad: Operand, x: Operand, mean: Operand, inverse: Operand, weight: Operand | None, n: int,
    channels: int, positions: int, groups: int, mask: Sequence[bool],
) -> Any:  # fmt: skip
    shape = [n, groups, channels // groups, positions]
    grad, x = (call.reshape(call.cast(each, "f32"), shape) for each in (grad, x))
    mean, inverse = (call.reshape(call.cast(each, "f32"), [n, groups, 1, 1]) for each in (mean, inverse))
    if weight is not None:
        weight = call.reshape(call.cast(weight, "f32"), [1, groups, channels // groups, 1])
    return _shaped(call, _by_statistics(call, grad, x, mean, inverse, weight, [2, 3], [0, 3], mask))


@converter("embedding_dense_backward.default")
def embedding_backward(
    call: Call, grad: Operand, index: Operand, rows: int, padding_idx: int, scale_grad_by_freq: bool
) -> Operand:
    require(all(size > 0 for size in index.shape), "no index")
    if scale_grad_by_freq:  # by how often each row is read
        ones = call.op("expand", call.tensor(1.0, grad.dtype.name), [index.size])
        counts = call.op("index_select_backward", ones, call.reshape(index, [index.size]), 0, int(rows))
        grad = call.op("div", grad, call.op("index_select", counts, 0, call.reshape(index, [*index.shape, 1])))
    made: Operand = call.op("index_select_backward", grad, index, 0, int(rows))
    if not 0 <= padding_idx < rows:
        return made
    parts = call.op("split", made, [size for size in (padding_idx, 1, rows - padding_idx - 1) if size], 0)
    at = 1 if padding_idx else 0
    zero = call.op("expand", call.tensor(0.0, made.dtype.name), list(parts[at].shape))
    joined: Operand = call.op("concat", [*parts[:at], zero, *parts[at + 1 :]], 0)
    return joined


@converter("_weight_norm_interface_backward.default")
def weight_norm_backward(call: Call, grad: Operand, v: Operand, g: Operand, norms: Operand, dim: int) -> Any:
    """Of g * v / |v|, the norm being that of all dimensions but `dim`: gradients of v and of g."""
    given = v.dtype.name
    grad, v, g, norms = (call.cast(each, "f32") for each in (grad, v, g, norms))
    others = [each for each in range(v.ndim) if each != dim % v.ndim]
    along = call.op("sum", call.op("mul", grad, v), others, True)
    dv = call.op("pointwise", [grad, v, g, norms, along], "y0 = x2 / x3 * (x0 - x1 * (x4 / (x3 * x3)))", dtype="f32")
    return call.cast(dv, given), call.cast(call.op("div", along, norms), call.dtype(1))


@converter("pylayout.squeeze_excite.default")
def squeeze_excite(call: Call, x: Operand, *others: Any) -> Operand:
    *weights, hidden, gate = others
    made: Operand = call.op("squeeze_excite", x, *weights, hidden=hidden, gate=gate)
    return made


@converter("pylayout.squeeze_excite_backward.default")
def squeeze_excite_backward(call: Call, grad: Operand, x: Operand, *others: Any) -> Any:
    *weights, hidden, gate = others
    return call.op("squeeze_excite_backward", x, grad, *weights, hidden=hidden, gate=gate)
