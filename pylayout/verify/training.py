"""Exact results of what training adds: gradients of convolutions, norms, pools and look-ups, losses, steps, dropout."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import functions
from .bounds import UNIT, sum_bound, winograd_weights_bound
from .products import convolved_geometry
from .reference import Full, register

Array = NDArray[Any]


def _sizes(value: Any, count: int) -> list[int]:
    given = list(value) if isinstance(value, (list, tuple)) else [value]
    return [int(v) for v in (given * count if len(given) == 1 else given)]


@register("conv1d_backward_weights", "conv2d_backward_weights", "conv3d_backward_weights")
class ConvolutionWeights(Full):
    def compute(self) -> Any:
        x, grad = self.double(0), self.double(1)
        assert x is not None and grad is not None
        sizes, groups = x.shape[2:], int(self.attribute("groups", 1))
        kernel = _sizes(self.attribute("kernel_size"), len(sizes))
        stride, dilation, begin, output = convolved_geometry(self.case.attributes, sizes, tuple(kernel))
        n, channels, oc = x.shape[0], x.shape[1], grad.shape[1]
        pad = [(0, 0), (0, 0)]
        for size, s, d, k, b, p in zip(sizes, stride, dilation, kernel, begin, output, strict=True):
            pad.append((b, max(0, (p - 1) * s + d * (k - 1) + 1 - size - b)))
        padded = np.pad(x, pad)
        g = grad.reshape(n, groups, oc // groups, -1).transpose(1, 2, 0, 3).reshape(groups, oc // groups, -1)
        total = np.zeros((oc, channels // groups, *kernel))
        squares = np.zeros_like(total)
        for offset in itertools.product(*(range(k) for k in kernel)):
            cut = [
                slice(k * d, k * d + (p - 1) * s + 1, s)
                for k, d, s, p in zip(offset, dilation, stride, output, strict=True)
            ]
            every: tuple[Any, ...] = (slice(None), slice(None))
            part = padded[every + tuple(cut)].reshape(n, groups, channels // groups, -1)
            part = part.transpose(1, 0, 3, 2).reshape(groups, -1, channels // groups)
            total[every + offset] = (g @ part).reshape(oc, -1)
            squares[every + offset] = (g * g @ (part * part)).reshape(oc, -1)
        terms = g.shape[2]
        self._winograd = winograd_weights_bound(n, output, squares, self.accuracy.unit)
        return total, sum_bound(terms, total, squares, self.accuracy.unit, self.accuracy.tf32), self.dtype

    def expected_by(self, algorithm: str, output: int, where: Array) -> tuple[Array, Array]:
        values, bound = self.expected(output, where)
        return values, np.maximum(bound, self._winograd) if algorithm else bound


# ---- norms ----


@register("batch_norm_training")
class BatchNormTraining(Full):
    def compute(self) -> Any:
        from .norms import normalised

        x, weight, bias = (self.double(i) for i in range(3))
        assert x is not None and weight is not None and bias is not None
        axes = (0, *range(2, x.ndim))
        column = (1, -1, *(1,) * (x.ndim - 2))
        y, bound = normalised(x, axes, float(self.attribute("eps", 1e-5)), weight.reshape(column), bias.reshape(column))
        y, bound = self.with_post_ops(y, bound)
        count = x.size // x.shape[1]
        mean, variance, squares = x.mean(axes), x.var(axes), (x * x).sum(axes)
        of_mean = sum_bound(count, mean * count, squares) / count
        of_variance = sum_bound(count, squares, squares * squares * (3 / count)) / count
        return [(y, bound, self.dtype), (mean, of_mean, "f32"), (variance, of_variance, "f32")]


def _gradients(
    x: Array,
    g: Array,
    weight: Array,
    mean: Array,
    inverse: Array,
    axes: tuple[int, ...],
    others: tuple[int, ...],
    of_h: Array,
    centred: bool = True,
) -> list[tuple[Array, Array]]:
    """Of a norm over `axes`, by x, by its weight and by its bias, which lie along the rest of `others`."""
    count = int(np.prod([x.shape[axis] for axis in axes]))
    h = (x - mean) * inverse
    gw = g * weight
    of_sum = sum_bound(count, gw.sum(axes, keepdims=True), (gw * gw).sum(axes, keepdims=True)) / count
    products = gw * h
    of_products = sum_bound(count, products.sum(axes, keepdims=True), (products**2).sum(axes, keepdims=True)) / count
    of_products = of_products + (np.abs(gw) * of_h).mean(axes, keepdims=True)
    mean_g, mean_gh = gw.mean(axes, keepdims=True) * centred, products.mean(axes, keepdims=True)
    dx = inverse * (gw - mean_g - h * mean_gh)
    bound = inverse * (
        of_sum
        + np.abs(h) * of_products
        + np.abs(mean_gh) * of_h
        + 16 * UNIT * (np.abs(gw) + np.abs(mean_g) + np.abs(h * mean_gh))
    )
    rows = int(np.prod([x.shape[axis] for axis in others]))
    gh = g * h
    of_weight = sum_bound(rows, gh.sum(others), (gh * gh).sum(others)) + (np.abs(g) * of_h).sum(others)
    of_bias = sum_bound(rows, g.sum(others), (g * g).sum(others))
    return [(dx, bound), (gh.sum(others), of_weight), (g.sum(others), of_bias)]


def _slopes(name: str, at: Array, off: Array, given: tuple[Any, ...] = ()) -> tuple[Array, Array]:
    """A function's slope at arguments that may be off by so much, and the slope's bound: at a kink, what it jumps."""
    alpha, beta = (
        default if number is None else float(number)
        for number, default in itertools.zip_longest(given, functions.parameters(name, {}))
    )
    step = 1e-5 * np.maximum(1.0, np.abs(at))

    def slope(x: Array) -> Array:
        made: Array = functions.apply(name, x + step, alpha, beta) - functions.apply(name, x - step, alpha, beta)
        return made / (2 * step)

    made, reach = slope(at), np.maximum(off, 2 * step)
    moved = np.maximum(*(np.abs(slope(at + sign * reach) - made) for sign in (-1, 1)))
    moved = np.where(moved > 0.01, moved, moved * off / reach)  # but for a kink in proportion
    return made, moved + 16 * UNIT * (1 + np.abs(made))


@register("batch_norm_backward")
class BatchNormBackward(Full):
    def compute(self) -> Any:
        x, g, mean, variance, weight = (self.double(i) for i in range(5))
        assert x is not None and g is not None and mean is not None and variance is not None and weight is not None
        axes = (0, *range(2, x.ndim))
        column = (1, -1, *(1,) * (x.ndim - 2))
        inverse = variance.reshape(column)
        if not self.attribute("inverted", False):
            inverse = 1 / np.sqrt(inverse + float(self.attribute("eps", 1e-5)))
        mean = mean.reshape(column)
        of_h = 6 * UNIT * (np.abs(x) + np.abs(mean)) * inverse
        bias = self.double(5) if len(self.tensors) > 5 else None
        if bias is not None:
            y = (x - mean) * inverse * weight.reshape(column) + bias.reshape(column)
            numbers = self.attribute("activation_alpha", None), self.attribute("activation_beta", None)
            name = str(self.attribute("activation", ""))
            slope, of_slope = _slopes(name, y, of_h * np.abs(weight.reshape(column)) * 4, numbers)
            doubt, g = np.abs(g) * of_slope, g * slope
        made = _gradients(x, g, weight.reshape(column), mean, inverse, axes, axes, of_h)
        if bias is not None:
            h = np.abs((x - mean) * inverse)
            mean_doubt, mean_h = doubt.mean(axes, keepdims=True), (doubt * h).mean(axes, keepdims=True)
            of_x = np.abs(weight.reshape(column)) * inverse * (doubt + mean_doubt + h * mean_h)
            more = (of_x, (doubt * h).sum(axes), doubt.sum(axes))
            made = [(value, bound + extra) for (value, bound), extra in zip(made, more, strict=True)]
        weight_spec = self.case.specs()[4]
        assert weight_spec is not None
        dtypes = (self.dtype, weight_spec[0], weight_spec[0])
        return [(value, bound, dtype) for (value, bound), dtype in zip(made, dtypes, strict=True)]


@register("squeeze_excite_backward")
class SqueezeExciteBackward(Full):
    def compute(self) -> Any:
        x, g, w1, b1, w2, b2 = (self.double(i) for i in range(6))
        assert x is not None and g is not None and w1 is not None and b1 is not None
        assert w2 is not None and b2 is not None
        of_w1, of_w2, w1, w2 = w1.shape, w2.shape, w1.reshape(w1.shape[:2]), w2.reshape(w2.shape[:2])
        positions, axes = int(np.prod(x.shape[2:])), tuple(range(2, x.ndim))
        pixel = (*x.shape[:2], *(1,) * (x.ndim - 2))
        hidden_name, gate_name = str(self.attribute("hidden", "relu")), str(self.attribute("gate", "sigmoid"))
        mean = x.mean(axes)
        a = mean @ w1.T + b1
        hidden = functions.apply(hidden_name, a)
        b = hidden @ w2.T + b2
        gate = functions.apply(gate_name, b)
        of_mean = sum_bound(positions, x.sum(axes), (x * x).sum(axes)) / positions
        of_a = of_mean @ np.abs(w1).T + 16 * UNIT * (np.abs(mean) @ np.abs(w1).T + np.abs(b1) + 1)
        of_hidden = 1.1 * of_a + 4 * UNIT
        of_b = of_hidden @ np.abs(w2).T + 16 * UNIT * (np.abs(hidden) @ np.abs(w2).T + np.abs(b2) + 1)
        products = (g * x).sum(axes)
        of_products = sum_bound(positions, products, (g * x * g * x).sum(axes))
        slope, of_slope = _slopes(gate_name, b, of_b)
        db, of_db = slope * products, np.abs(products) * of_slope + np.abs(slope) * of_products
        back = db @ w2
        of_back = of_db @ np.abs(w2) + 16 * UNIT * (np.abs(db) @ np.abs(w2))
        slope, of_slope = _slopes(hidden_name, a, of_a)
        da, of_da = slope * back, np.abs(back) * of_slope + np.abs(slope) * of_back
        by_mean = da @ w1 / positions
        of_by_mean = (of_da @ np.abs(w1) + 16 * UNIT * (np.abs(da) @ np.abs(w1))) / positions
        dx = g * gate.reshape(pixel) + by_mean.reshape(pixel)
        of_dx = np.abs(g) * (of_b + 4 * UNIT).reshape(pixel) + of_by_mean.reshape(pixel) + 4 * UNIT * np.abs(dx)

        def outer(left: Array, of_left: Array, right: Array, of_right: Array) -> tuple[Array, Array]:
            of_both = of_left.T @ np.abs(right) + np.abs(left).T @ (of_right + 16 * UNIT * np.abs(right))
            return left.T @ right, of_both

        dw1, of_dw1 = outer(da, of_da, mean, of_mean)
        dw2, of_dw2 = outer(db, of_db, hidden, of_hidden)
        made = [
            (dx, of_dx),
            (dw1.reshape(of_w1), of_dw1.reshape(of_w1)),
            (da.sum(0), (of_da + 16 * UNIT * np.abs(da)).sum(0)),
            (dw2.reshape(of_w2), of_dw2.reshape(of_w2)),
            (db.sum(0), (of_db + 16 * UNIT * np.abs(db)).sum(0)),
        ]
        return [(value, bound, self.dtype) for value, bound in made]


def _own_statistics(x: Array, axes: tuple[int, ...], eps: float, centred: bool) -> tuple[Array, Array, Array, Array]:
    """Mean, inverse deviation, the bound of (x - mean) times it, and the relative one of the inverse."""
    count = int(np.prod([x.shape[axis] for axis in axes]))
    mean = x.mean(axes, keepdims=True) * centred
    squares = (x * x).sum(axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(variance + eps)
    of_mean = sum_bound(count, x.sum(axes, keepdims=True), squares) / count * inverse * centred
    of_variance = sum_bound(count, squares, squares * squares * (3 / count)) / count * inverse**2
    h = (x - mean) * inverse
    return (
        mean,
        inverse,
        of_mean + np.abs(h) * of_variance + 8 * UNIT * (np.abs(h) + np.abs(mean) * inverse),
        of_variance,
    )


@register("layer_norm_backward", "rms_norm_backward")
class LayerNormBackward(Full):
    def compute(self) -> Any:
        x, g, weight = (self.double(i) for i in range(3))
        assert x is not None and g is not None
        shape = self.attribute("normalized_shape")
        first = x.ndim - (len(shape) if isinstance(shape, (list, tuple)) else 1)
        axes, others = tuple(range(first, x.ndim)), tuple(range(first))
        centred = self.case.op == "layer_norm_backward"
        eps = float(self.attribute("eps", 1e-5 if centred else 1e-6))
        mean, inverse, of_h, relative = _own_statistics(x, axes, eps, centred)
        one = np.ones((1,) * x.ndim)
        made = _gradients(x, g, one if weight is None else weight, mean, inverse, axes, others, of_h, centred)
        made[0] = (made[0][0], made[0][1] + np.abs(made[0][0]) * relative)
        return [(value, bound, self.dtype) for value, bound in (made if centred else made[:2])]


@register("group_norm_backward")
class GroupNormBackward(Full):
    def compute(self) -> Any:
        x, g, weight = (self.double(i) for i in range(3))
        assert x is not None and g is not None
        groups = int(self.attribute("num_groups"))
        shape = (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
        column = (1, groups, -1, *(1,) * (x.ndim - 2))
        own = np.ones((1,) * len(shape)) if weight is None else weight.reshape(column)
        axes, others = tuple(range(2, len(shape))), (0, *range(3, len(shape)))
        mean, inverse, of_h, relative = _own_statistics(
            x.reshape(shape), axes, float(self.attribute("eps", 1e-5)), True
        )
        made = _gradients(x.reshape(shape), g.reshape(shape), own, mean, inverse, axes, others, of_h)
        made[0] = (made[0][0], made[0][1] + np.abs(made[0][0]) * relative)
        results = zip(made, (x.shape, (x.shape[1],), (x.shape[1],)), strict=True)
        return [(value.reshape(wanted), bound.reshape(wanted), self.dtype) for (value, bound), wanted in results]


# ---- pools ----


@register(
    *(
        f"{adaptive}{mode}_pool{spatial}d_backward"
        for adaptive in ("", "adaptive_")
        for mode in ("max", "avg")
        for spatial in (1, 2, 3)
    )
)
class PoolBackward(Full):
    def windows(self, axis: int, size: int, out: int) -> list[tuple[list[int], int]]:
        """For each position of the result: what it sees, and how many positions an average with padding counts."""
        if self.case.op.startswith("adaptive"):
            ranges = [range(o * size // out, -(-(o + 1) * size // out)) for o in range(out)]
            return [(list(r), len(r)) for r in ranges]
        spatial = int(self.case.op.split("pool")[1][0])
        kernel = _sizes(self.attribute("kernel_size"), spatial)
        stride = _sizes(self.attribute("stride", kernel), spatial)[axis]
        dilation = _sizes(self.attribute("dilation", 1), spatial)[axis]
        padding = _sizes(self.attribute("padding", 0), spatial)
        begin, end = padding[axis], padding[axis - spatial]
        found = []
        for o in range(out):
            start = o * stride - begin
            seen = [start + k * dilation for k in range(kernel[axis])]
            found.append(([p for p in seen if 0 <= p < size], min(start + kernel[axis], size + end) - start))
        return found

    def compute(self) -> Any:
        average = "avg" in self.case.op
        g = self.double(0 if average else 1)
        assert g is not None
        shape = (*g.shape[:2], *_sizes(self.attribute("input_size"), g.ndim - 2)) if average else self.specs_shape()
        x = None if average else self.double(0)
        axes = [self.windows(a, shape[2 + a], g.shape[2 + a]) for a in range(g.ndim - 2)]
        total, absolute = np.zeros(shape), np.zeros(shape)
        padded = not self.case.op.startswith("adaptive") and self.attribute("count_include_pad", True)
        planes = np.ix_(range(shape[0]), range(shape[1]))
        for position in itertools.product(*(range(size) for size in g.shape[2:])):
            seen = [axes[a][p][0] for a, p in enumerate(position)]
            at_position: tuple[Any, ...] = (slice(None), slice(None), *position)
            value = g[at_position]
            where = np.ix_(range(shape[0]), range(shape[1]), *seen)
            if x is None:
                count = np.prod([axes[a][p][1] if padded else len(seen[a]) for a, p in enumerate(position)])
                value = (value / count).reshape(*value.shape, *(1,) * len(position))
                total[where] += value
                absolute[where] += np.abs(value)
                continue
            first = x[where].reshape(*value.shape, -1).argmax(-1)
            places = np.unravel_index(first, [len(s) for s in seen])
            at = tuple(np.asarray(s)[p] for s, p in zip(seen, places, strict=True))
            np.add.at(total, (*planes, *at), value)
            np.add.at(absolute, (*planes, *at), np.abs(value))
        return total, 8 * UNIT * absolute, self.dtype

    def specs_shape(self) -> tuple[int, ...]:
        spec = self.case.specs()[0]
        assert spec is not None
        return spec[1]


# ---- losses, look-ups, steps ----


@register("cross_entropy", "cross_entropy_backward")
class CrossEntropy(Full):
    def compute(self) -> Any:
        backward = self.case.op.endswith("backward")
        x, weight = self.double(0), self.double(3 if backward else 2)
        target = self.tensors[1]
        assert x is not None and target is not None
        classes, smoothing = x.shape[1], float(self.attribute("label_smoothing", 0.0))
        weight = np.ones(classes) if weight is None else weight
        column = weight.reshape(1, -1, *(1,) * (x.ndim - 2))
        counts = target != int(self.attribute("ignore_index", -100))
        known = np.where(counts, target, 0)
        shifted = x - x.max(1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        share = (np.arange(classes).reshape(1, -1, *(1,) * (x.ndim - 2)) == known[:, None]) * (1 - smoothing) * column
        share = (share + smoothing / classes * column) * counts[:, None]
        reduction = self.attribute("reduction", "mean")
        divisor = (weight[known] * counts).sum() if reduction == "mean" else 1.0
        if backward:
            grad = self.double(2)
            assert grad is not None
            grad = grad[:, None] if reduction == "none" else grad
            dx = grad / divisor * (np.exp(logs) * share.sum(1, keepdims=True) - share)
            return dx, 64 * UNIT * np.abs(grad / divisor) * (share.sum(1, keepdims=True) + 0 * dx), self.dtype
        losses = -(share * logs).sum(1)
        bound = 64 * UNIT * (share * np.abs(logs) + share).sum(1)
        if reduction == "none":
            return losses, bound, self.dtype
        return losses.sum() / divisor, bound.sum() / divisor, self.dtype


@register("index_select_backward", "gather_backward")
class AddedByIndex(Full):
    def compute(self) -> Any:
        grad, index = self.double(0), self.tensors[1]
        assert grad is not None and index is not None
        dim, size = int(self.attribute("dim")), int(self.attribute("size"))
        index = np.where(index < 0, index + size, index)
        index = np.where((index < 0) | (index >= size), size, index)  # what adds to nothing adds to one more
        if self.case.op == "gather_backward":
            at: list[Any] = list(np.indices(grad.shape))
            at[dim] = index
            where: Any = tuple(at)
        else:
            grad = grad.reshape(*grad.shape[:dim], index.size, *grad.shape[dim + index.ndim :])
            where = (*(slice(None),) * dim, index.reshape(-1))
        shape = (*grad.shape[:dim], size + 1, *grad.shape[dim + 1 :])
        total, squares, count = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for sums, values in ((total, grad), (squares, grad * grad), (count, np.ones_like(grad))):
            np.add.at(sums, where, values)
        total, squares, count = (each[(slice(None),) * dim + (slice(size),)] for each in (total, squares, count))
        terms = max(1.0, float(count.max(initial=0)))
        return total, sum_bound(terms, total, squares), self.dtype


@register("all_finite")
class AllFinite(Full):
    def compute(self) -> Any:
        tensors = [self.double(i) for i in range(len(self.tensors))]
        finite = all(bool(np.isfinite(tensor).all()) for tensor in tensors if tensor is not None)
        return np.array(float(finite)), np.zeros(()), "f32"


@register("sgd_step")
class SgdStep(Full):
    def compute(self) -> Any:
        w, g, lr, velocity, scale = (self.double(i) for i in range(5))
        assert w is not None and g is not None and lr is not None
        if scale is not None and scale == 0:
            kept = [(w, np.zeros_like(w), self.dtype)]
            return kept[0] if velocity is None else [*kept, (velocity, np.zeros_like(w), self.dtype)]
        g = g if scale is None else g * scale
        momentum, decay = float(self.attribute("momentum", 0.0)), float(self.attribute("weight_decay", 0.0))
        g = g + decay * w
        v = g if velocity is None else momentum * velocity + (1 - float(self.attribute("dampening", 0.0))) * g
        step = g + momentum * v if self.attribute("nesterov", False) else v
        size = np.abs(g) + np.abs(decay * w) + (0 if velocity is None else np.abs(velocity)) + np.abs(v)
        moved = (w - lr * step, 8 * UNIT * (np.abs(w) + lr * size), self.dtype)
        return moved if velocity is None else [moved, (v, 8 * UNIT * size, self.dtype)]


@register("adam_step", "adamw_step")
class AdamStep(Full):
    def compute(self) -> Any:
        w, g, lr, m, v, step, scale = (self.double(i) for i in range(7))
        assert w is not None and g is not None and lr is not None
        assert m is not None and v is not None and step is not None
        if scale is not None and scale == 0:
            return [(kept, np.zeros_like(w), self.dtype) for kept in (w, m, v)]
        g = g if scale is None else g * scale
        beta1, beta2 = float(self.attribute("beta1", 0.9)), float(self.attribute("beta2", 0.999))
        decoupled = self.case.op == "adamw_step"
        decay = float(self.attribute("weight_decay", 0.01 if decoupled else 0.0))
        g = g if decoupled else g + decay * w
        size = np.abs(m) + np.abs(g) + np.abs(decay * w)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        root = np.sqrt(v / (1 - beta2**step)) + float(self.attribute("eps", 1e-8))
        moved = w * (1 - lr * decay if decoupled else 1) - lr * m / (1 - beta1**step) / root
        of_move = lr / (1 - beta1**step) / root * 24 * UNIT * size
        return [
            (moved, 8 * UNIT * np.abs(w) + of_move, self.dtype),
            (m, 8 * UNIT * size, self.dtype),
            (v, 8 * UNIT * v + 8 * UNIT * np.abs(decay * w) * (np.abs(g) + np.abs(decay * w)), self.dtype),
        ]
