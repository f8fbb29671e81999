"""Exact results of what combines the elements of rows, windows or images: norms, softmax, reductions, pools."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import functions
from .bounds import FUNCTION, LOGARITHM, UNIT, sum_bound
from .products import convolved_geometry
from .reference import Full, register

_ALL: tuple[Any, ...] = (slice(None), slice(None))  # of images and channels

Array = NDArray[Any]


def _column(values: Array | None, rank: int, fallback: float) -> Array:
    """A value for each channel, to be broadcast."""
    if values is None:
        return np.full((1,) * rank, fallback)
    return values.reshape(1, -1, *(1,) * (rank - 2))


def normalised(x: Array, axes: tuple[int, ...], eps: float, weight: Array, bias: Array) -> tuple[Array, Array]:
    """(x - mean) / sqrt(variance + eps) * weight + bias over some axes, and its bound.

    The mean is off like a sum of those elements; the variance, a sum of squares, by a relative part that grows with the
    root of their number (bounds.py, with S1 = K var and S2 = 3 K var^2).
    """
    count = int(np.prod([x.shape[axis] for axis in axes]))
    mean = x.mean(axis=axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    deviation = np.sqrt(variance + eps)
    unit = (x - mean) / deviation
    y = unit * weight + bias
    squares = (x * x).sum(axis=axes, keepdims=True)
    of_mean = sum_bound(count, mean * count, squares) / count / deviation
    # Some take the variance as the mean of squares less the square of the mean: both are then as exact as sums.
    of_variance = sum_bound(count, squares, squares * squares * (3 / count)) / count / (variance + eps)
    bound = np.abs(weight) * (
        of_mean + np.abs(unit) * of_variance + 8 * UNIT * (np.abs(unit) + np.abs(mean) / deviation)
    )
    return y, bound + 4 * UNIT * (np.abs(bias) + np.abs(y))


@register("batch_norm")
class BatchNorm(Full):
    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        mean, variance, weight, bias = (
            _column(self.double(i), x.ndim, fallback) for i, fallback in ((1, 0.0), (2, 1.0), (3, 1.0), (4, 0.0))
        )
        scale = weight / np.sqrt(variance + float(self.attribute("eps", 1e-5)))
        y = (x - mean) * scale + bias
        bound = 8 * UNIT * (np.abs(x * scale) + np.abs(mean * scale) + np.abs(bias))
        return (*self.with_post_ops(y, bound), self.dtype)


@register("layer_norm")
class LayerNorm(Full):
    def compute(self) -> Any:
        x, weight, bias = (self.double(i) for i in range(3))
        assert x is not None
        shape = self.attribute("normalized_shape")
        count = len(shape) if isinstance(shape, (list, tuple)) else 1
        one, none = np.ones((1,) * x.ndim), np.zeros((1,) * x.ndim)
        axes = tuple(range(x.ndim - count, x.ndim))
        eps = float(self.attribute("eps", 1e-5))
        y, bound = normalised(x, axes, eps, one if weight is None else weight, none if bias is None else bias)
        return y, bound, self.dtype


@register("rms_norm", "l2_normalize")
class RmsNorm(Full):
    def compute(self) -> Any:
        x, weight = self.double(0), self.double(1)
        assert x is not None
        shape = self.attribute("normalized_shape")
        axes = tuple(range(x.ndim - (len(shape) if isinstance(shape, (list, tuple)) else 1), x.ndim))
        count = int(np.prod([x.shape[axis] for axis in axes]))
        squares = (x * x).sum(axis=axes, keepdims=True)
        if self.case.op == "rms_norm":
            length = np.sqrt(squares / count + float(self.attribute("eps", 1e-6)))
        else:
            length = np.maximum(np.sqrt(squares), float(self.attribute("eps", 1e-12)))
        y = x / length * (1 if weight is None else weight)
        of_sum = sum_bound(count, squares, (x**4).sum(axis=axes, keepdims=True)) / np.maximum(squares, 1e-300)
        return y, np.abs(y) * (of_sum + FUNCTION * UNIT), self.dtype


@register("group_norm", "instance_norm")
class GroupNorm(Full):
    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        groups = int(self.attribute("num_groups", x.shape[1]))
        shape = (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])

        def per_channel(number: int, fallback: float) -> Array:
            values = self.double(number)
            column = np.full(x.shape[1], fallback) if values is None else values
            return column.reshape(1, groups, -1, *(1,) * (x.ndim - 2))

        eps = float(self.attribute("eps", 1e-5))
        axes = tuple(range(2, len(shape)))
        y, bound = normalised(x.reshape(shape), axes, eps, per_channel(1, 1.0), per_channel(2, 0.0))
        return y.reshape(x.shape), bound.reshape(x.shape), self.dtype


@register("softmax", "log_softmax")
class Softmax(Full):
    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        dim = int(self.attribute("dim"))
        shifted = x - x.max(axis=dim, keepdims=True)
        e = np.exp(shifted)
        total = e.sum(axis=dim, keepdims=True)
        of_sum = sum_bound(x.shape[dim], total, (e * e).sum(axis=dim, keepdims=True)) / total
        relative = of_sum + FUNCTION * UNIT * (1 + np.abs(shifted))
        if self.case.op == "softmax":
            y = e / total
            return y, relative * y + 2.0**-126, self.dtype
        y = shifted - np.log(total)
        return y, relative + LOGARITHM * UNIT * (1 + np.abs(np.log(total))) + 2 * UNIT * np.abs(x), self.dtype


@register("local_response_norm")
class LocalResponseNorm(Full):
    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        size = int(self.attribute("size"))
        squares = np.pad(x * x, [(0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (x.ndim - 2)])
        total = sum(squares[:, i : i + x.shape[1]] for i in range(size))
        base = self.attribute("k", 1.0) + self.attribute("alpha", 1e-4) / size * total
        y = x / base ** float(self.attribute("beta", 0.75))
        return y, 4 * FUNCTION * UNIT * np.abs(y), self.dtype


_REDUCED = ("sum", "mean", "prod", "amax", "amin", "reduce_l1", "reduce_l2", "reduce_sum_square")


@register(*_REDUCED)
class Reduction(Full):
    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        dims = self.attribute("dim")
        listed = list(range(x.ndim)) if dims is None else list(dims) if isinstance(dims, (list, tuple)) else [dims]
        axes, keep = tuple(int(d) % x.ndim for d in listed), bool(self.attribute("keepdim", False))
        name = self.case.op
        if name in ("amax", "amin"):
            return getattr(np, name)(x, axis=axes, keepdims=keep), 0.0, self.dtype
        count = int(np.prod([x.shape[axis] for axis in axes]))
        if name == "prod":
            y = np.prod(x, axis=axes, keepdims=keep)
            return y, LOOSE_PRODUCT * UNIT * np.sqrt(count) * np.abs(y) + 2.0**-126, self.dtype
        terms = {"reduce_l1": np.abs(x), "reduce_l2": x * x, "reduce_sum_square": x * x}.get(name, x)
        total = terms.sum(axis=axes, keepdims=keep)
        bound = sum_bound(count, total, (terms * terms).sum(axis=axes, keepdims=keep))
        if name == "mean":
            return total / count, bound / count, self.dtype
        if name == "reduce_l2":
            y = np.sqrt(total)
            return y, bound / np.maximum(y, 1e-30) + FUNCTION * UNIT * y, self.dtype
        return total, bound, self.dtype


LOOSE_PRODUCT = 8.0  # roundings of a product of K factors are relative: a random walk of K steps


@register("argmax", "argmin")
class ArgReduction(Full):
    def compute(self) -> Any:
        x = self.tensors[0]
        assert x is not None
        function = np.argmax if self.case.op == "argmax" else np.argmin
        dim, keep = self.attribute("dim"), bool(self.attribute("keepdim", False))
        y = function(x, axis=dim, keepdims=keep)
        return np.asarray(y), 0.0, "s64"


@register("topk")
class TopK(Full):
    def compute(self) -> Any:
        x = self.tensors[0]
        assert x is not None
        dim, k, skip = int(self.attribute("dim", -1)), int(self.attribute("k")), int(self.attribute("skip", 0))
        keys = x if x.dtype.kind in "iu" else x.astype(np.float64)
        if self.attribute("largest", True):  # from the end: NaN is larger than any number
            order = x.shape[dim] - 1 - np.flip(np.argsort(np.flip(keys, dim), axis=dim, kind="stable"), dim)
        else:
            order = np.argsort(keys, axis=dim, kind="stable")
        chosen = np.take(order, np.arange(skip, k), axis=dim)
        return [(np.take_along_axis(x, chosen, axis=dim), 0.0, self.dtype), (chosen, 0.0, "s64")]


@register("cumsum", "cumprod", "logcumsumexp")
class Running(Full):
    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        dim = int(self.attribute("dim"))
        if self.case.op == "cumprod":
            if self.dtype not in ("f32", "f16", "bf16"):  # which wrap around
                return np.cumprod(np.asarray(self.tensors[0], np.int64), axis=dim), 0.0, self.dtype
            y = np.cumprod(x, axis=dim)
            return y, np.abs(y) * x.shape[dim] * UNIT, self.dtype
        if self.case.op == "logcumsumexp":
            y = np.logaddexp.accumulate(x, axis=dim)
            return y, (np.abs(y) + 4) * (x.shape[dim] + 4) * UNIT, self.dtype
        y = np.cumsum(x, axis=dim)
        if self.dtype not in ("f32", "f16", "bf16"):
            return y, 0.0, self.dtype
        return y, sum_bound(x.shape[dim], y, np.cumsum(x * x, axis=dim)), self.dtype


@register("fold")
class Fold(Full):
    """Windows, element by element, added to the padded images; the same of the squares for the bound."""

    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        sizes = [int(size) for size in self.attribute("output_size")]
        kernel, stride, dilation = (self._each(name, len(sizes)) for name in ("kernel_size", "stride", "dilation"))
        given = self._each("padding", len(sizes), 0)
        begins, ends = given[: len(sizes)], given[-len(sizes) :]
        padded = [size + b + e for size, b, e in zip(sizes, begins, ends, strict=True)]
        windows = [
            (size - d * (k - 1) - 1) // s + 1 for size, k, s, d in zip(padded, kernel, stride, dilation, strict=True)
        ]
        parts = x.reshape(x.shape[0], x.shape[1] // math.prod(kernel), *kernel, *windows)
        sums, squares = (np.zeros((*parts.shape[:2], *padded)) for _ in range(2))
        for k in np.ndindex(*kernel):
            at = _ALL + tuple(
                slice(i * d, i * d + (n - 1) * s + 1, s)
                for i, d, n, s in zip(k, dilation, windows, stride, strict=True)
            )
            part = parts[_ALL + k]
            sums[at] += part
            squares[at] += part * part
        inside = _ALL + tuple(slice(b, b + size) for b, size in zip(begins, sizes, strict=True))
        return sums[inside], sum_bound(math.prod(kernel), sums[inside], squares[inside]), self.dtype

    def _each(self, name: str, axes: int, default: int = 1) -> list[int]:
        value = self.attribute(name, default)
        listed = [int(each) for each in value] if isinstance(value, (list, tuple)) else [int(value)]
        return listed * axes if len(listed) == 1 else listed


@register("squeeze_excite")
class SqueezeExcite(Full):
    def compute(self) -> Any:
        x, w1, b1, w2, b2 = (self.double(i) for i in range(5))
        assert x is not None and w1 is not None and b1 is not None and w2 is not None and b2 is not None
        w1, w2 = w1.reshape(w1.shape[:2]), w2.reshape(w2.shape[:2])
        mean = x.mean(axis=tuple(range(2, x.ndim)))
        hidden = functions.apply(str(self.attribute("hidden", "relu")), mean @ w1.T + b1)
        sums = hidden @ w2.T + b2
        gate = functions.apply(str(self.attribute("gate", "sigmoid")), sums)
        y = x * gate.reshape(*gate.shape, *(1,) * (x.ndim - 2))
        # Three sums one after the other; the functions' slopes are at most 1.1.
        size = np.abs(mean) @ np.abs(w1).T @ np.abs(w2).T + np.abs(w2) @ np.abs(b1) + np.abs(b2)
        off = 16 * UNIT * (size + 1)
        return y, np.abs(x) * off.reshape(*off.shape, *(1,) * (x.ndim - 2)) + 4 * UNIT * np.abs(y), self.dtype


def _axes(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@register("global_avg_pool", "global_max_pool")
class GlobalPool(Full):
    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        if "max" in self.case.op:
            return x.max(axis=_axes(x), keepdims=True), 0.0, self.dtype
        count = int(np.prod(x.shape[2:]))
        total = x.sum(axis=_axes(x), keepdims=True)
        return total / count, sum_bound(count, total, (x * x).sum(axis=_axes(x), keepdims=True)) / count, self.dtype


@register(*(f"adaptive_{mode}_pool{rank}d" for mode in ("avg", "max") for rank in (1, 2, 3)))
class AdaptivePool(Full):
    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        size = self.attribute("output_size")
        spatial = x.ndim - 2
        sizes = list(size) if isinstance(size, (list, tuple)) else [size]
        sizes = sizes * spatial if len(sizes) == 1 else sizes
        y, bound = np.zeros((*x.shape[:2], *sizes)), np.zeros((*x.shape[:2], *sizes))
        for at in itertools.product(*(range(s) for s in sizes)):
            window = tuple(
                slice(i * n // s, -(-(i + 1) * n // s)) for i, n, s in zip(at, x.shape[2:], sizes, strict=True)
            )
            everything: Any = (slice(None), slice(None), *window)
            place: Any = (Ellipsis, *at)
            part = x[everything]
            axes, count = _axes(part), int(np.prod(part.shape[2:]))
            if "max" in self.case.op:
                y[place] = part.max(axis=axes)
                continue
            total = part.sum(axis=axes)
            y[place] = total / count
            bound[place] = sum_bound(count, total, (part * part).sum(axis=axes)) / count
        return y, bound, self.dtype


@register(*(f"{mode}_pool{rank}d" for mode in ("avg", "max") for rank in (1, 2, 3)))
class Pool(Full):
    def geometry(self, x: Array) -> tuple[list[int], ...]:
        """Kernel, stride, dilation, padding before and behind, and output sizes."""
        spatial = x.ndim - 2
        kernel_size = self.attribute("kernel_size")
        kernel = list(kernel_size) if isinstance(kernel_size, (list, tuple)) else [kernel_size]
        kernel = kernel * spatial if len(kernel) == 1 else kernel
        attributes = dict(self.case.attributes)
        if attributes.get("stride") is None:
            attributes["stride"] = kernel
        sizes = x.shape[2:]
        stride, dilation, begin, output = convolved_geometry(attributes, sizes, tuple(kernel))
        padding = attributes.get("padding", 0)
        given = list(padding) if isinstance(padding, (list, tuple)) else [padding] * spatial
        ends = begin if isinstance(padding, str) else given[-spatial:]
        if self.attribute("ceil_mode", False):
            for d in range(spatial):
                reach = sizes[d] + begin[d] + ends[d] - dilation[d] * (kernel[d] - 1) - 1
                output[d] = -(-reach // stride[d]) + 1
                if (output[d] - 1) * stride[d] >= sizes[d] + begin[d]:
                    output[d] -= 1
        return kernel, stride, dilation, begin, ends, output

    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        sizes = x.shape[2:]
        kernel, stride, dilation, begin, ends, output = self.geometry(x)
        largest = "max" in self.case.op
        reach = [(o - 1) * s + dl * (k - 1) + 1 for o, s, dl, k in zip(output, stride, dilation, kernel, strict=True)]
        after = [max(0, r - n - b) for r, n, b in zip(reach, sizes, begin, strict=True)]
        pads = [(0, 0), (0, 0), *zip(begin, after, strict=True)]
        padded = np.pad(x, pads, constant_values=-np.inf if largest else 0.0)
        # Which positions count: those of x, or with count_include_pad those of the padding that was asked for, too.
        every = bool(self.attribute("count_include_pad", True))
        counted = np.zeros(padded.shape[2:])
        counted[
            tuple(slice(0, b + n + e) if every else slice(b, b + n) for n, b, e in zip(sizes, begin, ends, strict=True))
        ] = 1
        parts, counts, squares = None, np.zeros(output), np.zeros((*x.shape[:2], *output))
        for offset in itertools.product(*(range(k) for k in kernel)):
            window = tuple(
                slice(o * dl, o * dl + (n - 1) * s + 1, s)
                for o, dl, n, s in zip(offset, dilation, output, stride, strict=True)
            )
            everything: Any = (slice(None), slice(None), *window)
            part = padded[everything]
            if largest:
                parts = part if parts is None else np.maximum(parts, part)
                continue
            parts = part if parts is None else parts + part
            squares = squares + part * part
            counts = counts + counted[window]
        assert parts is not None
        if largest:
            return parts, 0.0, self.dtype
        return parts / counts, sum_bound(int(np.prod(kernel)), parts, squares) / counts, self.dtype


@register(*(f"{adaptive}max_pool{rank}d_indices" for adaptive in ("", "adaptive_") for rank in (1, 2, 3)))
class PoolIndices(Pool):
    def seen(self, x: Array) -> list[list[range]]:
        """What the windows see, along each axis."""
        sizes = x.shape[2:]
        if self.case.op.startswith("adaptive"):
            given = self.attribute("output_size")
            wanted = list(given) if isinstance(given, (list, tuple)) else [given] * len(sizes)
            return [
                [range(i * n // o, -(-(i + 1) * n // o)) for i in range(o)] for n, o in zip(sizes, wanted, strict=True)
            ]
        kernel, stride, dilation, begin, _, output = self.geometry(x)
        return [
            [range(i * s - b + max(0, -(-(b - i * s) // d)) * d, min(n, i * s - b + k * d), d) for i in range(o)]
            for n, k, s, d, b, o in zip(sizes, kernel, stride, dilation, begin, output, strict=True)
        ]

    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        axes = self.seen(x)
        y = np.zeros((*x.shape[:2], *map(len, axes)), np.int64)
        for at in itertools.product(*(range(len(axis)) for axis in axes)):
            window = [axis[i] for axis, i in zip(axes, at, strict=True)]
            count = math.prod(len(w) for w in window)
            part = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *window)].reshape(*x.shape[:2], count)
            holes = np.isnan(part)
            first = np.where(holes.any(-1), count - 1 - holes[..., ::-1].argmax(-1), part.argmax(-1))
            inside = np.unravel_index(first, [len(w) for w in window])
            places = [np.asarray(w)[i] for w, i in zip(window, inside, strict=True)]
            y[_ALL + at] = np.ravel_multi_index(places, x.shape[2:])
        return y, 0.0, "s64"


__all__ = ["normalised"]
