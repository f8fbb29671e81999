"""Exact convolutions, transposed convolutions, matrix products and attention, at the positions asked for."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounds import LOOP, SPREAD, deviation, rounding, sum_bound, winograd_bound
from .random import dropout_factors
from .reference import Reference, register

__all__ = ["Convolution", "convolved_geometry", "spread"]

Array = NDArray[Any]

_ROWS, _COLUMNS = 96, 160  # at most, of a sample
_MOST_PRODUCTS = 4e8  # of a sample


def spread(count: int, most: int, rng: np.random.Generator, block: int = 16) -> Array:
    """Up to `most` of `count` indices: both ends, one in each block as far as they go, and random ones."""
    if count <= most:
        return np.arange(count)
    chosen = {0, 1, count - 2, count - 1}
    starts = np.arange(0, count, block)
    if len(starts) > most - 4:
        starts = rng.choice(starts, most - 4, replace=False)
    chosen.update(np.minimum(starts + rng.integers(0, block, len(starts)), count - 1).tolist())
    if len(chosen) < most:
        chosen.update(rng.integers(0, count, most - len(chosen)).tolist())
    return np.array(sorted(chosen))


class _Products(Reference):
    """Sums of products as a matrix of rows and columns within groups.

    A result's flat position belongs to a group, a row and a column; `factors(group, rows, columns)` gives the matrices
    whose product they are, (rows, terms) and (columns, terms).
    """

    shape: tuple[int, ...]

    def finish(self) -> None:
        self.outputs = [(self.shape, self.dtype)]

    def split(self, where: Array) -> tuple[Array, Array, Array]:
        """Group, row and column of flat positions."""
        raise NotImplementedError

    def factors(self, group: int, rows: Array, columns: Array) -> tuple[Array, Array]:
        raise NotImplementedError

    def extra(self, where: Array) -> list[Array]:
        """What is added to the sums at these positions: biases."""
        return []

    def sums(self, where: Array) -> tuple[Array, Array, int]:
        """Sums, sums of squares, and how many terms there are."""
        total, squares, terms = np.zeros(len(where)), np.zeros(len(where)), 1
        groups, rows, columns = self.split(where)
        order = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        for members in np.split(order, starts[1:]):
            own_rows, row = np.unique(rows[members], return_inverse=True)
            own_columns, column = np.unique(columns[members], return_inverse=True)
            left, right = self.factors(int(groups[members[0]]), own_rows, own_columns)
            terms = max(terms, left.shape[1])
            total[members] = (left.astype(np.float64) @ right.astype(np.float64).T)[row, column]
            squares[members] = ((left * left) @ (right * right).T)[row, column]
        return total, squares, terms

    def own_bound(self, algorithm: str, squares: Array) -> float:
        """How far results of an algorithm may be off, whatever a loop's are."""
        return 0.0

    def expected(self, output: int, where: Array) -> tuple[Array, Array]:
        return self.expected_by("", output, where)

    def expected_by(self, algorithm: str, output: int, where: Array) -> tuple[Array, Array]:
        total, squares, terms = self.sums(where)
        own = self.own_bound(algorithm, squares)
        # Biases are one term.
        for addend in self.extra(where):
            total, squares, terms = total + addend, squares + addend * addend, terms + 1
        bound = np.maximum(own, sum_bound(terms, total, squares, self.accuracy.unit, self.accuracy.tf32))
        y, bound = self.with_post_ops(total, bound, where)
        return y, bound + rounding(y, self.dtype)


def convolved_geometry(
    attributes: dict[str, Any], sizes: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Stride, dilation, padding before, and output sizes of a convolution or pool."""

    def each(name: str, default: int) -> list[int]:
        value = attributes.get(name)
        value = default if value is None else value
        listed = list(value) if isinstance(value, (list, tuple)) else [value]
        return [int(v) for v in (listed * len(sizes) if len(listed) == 1 else listed)]

    stride, dilation = each("stride", 1), each("dilation", 1)
    padding: Any = attributes.get("padding", 0)
    if isinstance(padding, str):
        begin, end = [], []
        for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
            needed = max(0, (-(-size // s) - 1) * s + d * (k - 1) + 1 - size) if padding != "valid" else 0
            small = needed // 2
            begin.append(needed - small if padding == "same_lower" else small)
            end.append(needed - begin[-1])
    else:
        given = each("padding", 0)
        begin, end = given[: len(sizes)], given[-len(sizes) :]
    output = [
        (size + b + e - d * (k - 1) - 1) // s + 1
        for size, b, e, d, k, s in zip(sizes, begin, end, dilation, kernel, stride, strict=True)
    ]
    return stride, dilation, begin, output


@register("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
class Convolution(_Products):
    def prepare(self) -> None:
        x, weight = self.tensors[0], self.tensors[1]
        assert x is not None and weight is not None
        self.x, self.transposed = x, "transpose" in self.case.op
        self.groups = int(self.attribute("groups", 1))
        sizes, kernel = x.shape[2:], weight.shape[2:]
        if self.transposed:
            self.stride, self.dilation, self.begin, _ = convolved_geometry(self.case.attributes, sizes, kernel)
            extra = self.attribute("output_padding", 0)
            extras = list(extra) if isinstance(extra, (list, tuple)) else [extra]
            extras = extras * len(sizes) if len(extras) == 1 else extras
            padding = self.attribute("padding", 0)
            given = list(padding) if isinstance(padding, (list, tuple)) else [padding] * len(sizes)
            end = given[-len(sizes) :]
            self.positions = [
                (size - 1) * s - b - e + d * (k - 1) + o + 1
                for size, s, b, e, d, k, o in zip(
                    sizes, self.stride, self.begin, end, self.dilation, kernel, extras, strict=True
                )
            ]
            channels = weight.shape[1] * self.groups
            # (oc, ic / groups, ...), as the other way round.
            grouped = weight.reshape(self.groups, weight.shape[0] // self.groups, *weight.shape[1:])
            self.weight = np.swapaxes(grouped, 1, 2).reshape(channels, -1, *kernel)
        else:
            self.stride, self.dilation, self.begin, self.positions = convolved_geometry(
                self.case.attributes, sizes, kernel
            )
            channels = weight.shape[0]
            self.weight = weight
        self.shape = (x.shape[0], channels, *self.positions)
        self.finish()

    def own_bound(self, algorithm: str, squares: Array) -> float:
        return winograd_bound(self.weight.shape[1], squares, self.accuracy.unit) if algorithm else 0.0

    def split(self, where: Array) -> tuple[Array, Array, Array]:
        pixels = int(np.prod(self.positions))
        image, rest = np.divmod(where, self.shape[1] * pixels)
        channel, pixel = np.divmod(rest, pixels)
        return channel // (self.shape[1] // self.groups), image * pixels + pixel, channel

    def factors(self, group: int, rows: Array, columns: Array) -> tuple[Array, Array]:
        depth, kernel = self.weight.shape[1], self.weight.shape[2:]
        pixels = int(np.prod(self.positions))
        image, pixel = np.divmod(rows, pixels)
        at = np.unravel_index(pixel, self.positions)
        channels = self.x[:, group * depth : (group + 1) * depth]
        patches = np.zeros((len(rows), depth, int(np.prod(kernel))), np.float32)
        for number, offset in enumerate(itertools.product(*(range(k) for k in kernel))):
            inside = np.ones(len(rows), bool)
            source: list[Array] = []
            for d, k in enumerate(offset):
                if self.transposed:
                    spread_position = at[d] + self.begin[d] - k * self.dilation[d]
                    inside &= spread_position % self.stride[d] == 0
                    position = spread_position // self.stride[d]
                else:
                    position = at[d] * self.stride[d] - self.begin[d] + k * self.dilation[d]
                inside &= (position >= 0) & (position < self.x.shape[2 + d])
                source.append(position)
            chosen = tuple(position[inside] for position in source)
            at_images: Any = (image[inside], slice(None), *chosen)
            patches[inside, :, number] = channels[at_images]
        return patches.reshape(len(rows), -1), self.weight[columns].reshape(len(columns), -1)

    def extra(self, where: Array) -> list[Array]:
        bias = self.double(2)
        channel = where // int(np.prod(self.positions)) % self.shape[1]
        return [bias[channel]] if bias is not None else []

    def sample(self, output: int, rng: np.random.Generator) -> Array:
        pixels = int(np.prod(self.positions))
        terms = int(np.prod(self.weight.shape[1:]))
        columns = spread(self.shape[1], _COLUMNS if self.groups == 1 else 64, rng)
        most = int(max(16, min(_ROWS, _MOST_PRODUCTS / (terms * len(columns)))))
        rows = self._pixels(most, rng)
        image, pixel = np.divmod(rows, pixels)
        where: Array = (image[:, None] * self.shape[1] + columns[None]) * pixels + pixel[:, None]
        return where.reshape(-1)

    def _pixels(self, most: int, rng: np.random.Generator) -> Array:
        """Rows: corners and borders of images, and random positions."""
        images, pixels = self.shape[0], int(np.prod(self.positions))
        if images * pixels <= most:
            return np.arange(images * pixels)
        edges = [sorted({0, 1, size // 2, size - 2, size - 1} & set(range(size))) for size in self.positions]
        border = list(itertools.product(*edges))
        chosen = [
            int(np.ravel_multi_index(border[number], tuple(self.positions)) + pixels * rng.integers(images))
            for number in rng.permutation(len(border))[: most // 2]
        ]
        chosen += [0, images * pixels - 1]
        chosen += rng.integers(0, images * pixels, most - len(chosen)).tolist()
        return np.unique(np.array(chosen))


@register("linear", "matmul")
class MatrixProduct(_Products):
    def prepare(self) -> None:
        a, b = self.tensors[0], self.tensors[1]
        assert a is not None and b is not None
        linear = self.case.op == "linear"
        if self.attribute("transpose_a", False) and a.ndim > 1:
            a = np.swapaxes(a, -1, -2)
        if (linear or self.attribute("transpose_b", False)) and b.ndim > 1:
            b = np.swapaxes(b, -1, -2)
        row, column = a.ndim == 1, b.ndim == 1
        a, b = (a[None] if row else a), (b[:, None] if column else b)
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        self.m, self.n = a.shape[-2], b.shape[-1]
        self.a = np.broadcast_to(a, batch + a.shape[-2:])
        self.b = np.broadcast_to(b, batch + b.shape[-2:])
        self.batch = batch
        self.shape = batch + ((self.m,) if not row else ()) + ((self.n,) if not column else ())
        self.finish()

    def split(self, where: Array) -> tuple[Array, Array, Array]:
        group, rest = np.divmod(where, self.m * self.n)
        return (group, *np.divmod(rest, self.n))

    def factors(self, group: int, rows: Array, columns: Array) -> tuple[Array, Array]:
        at = np.unravel_index(group, self.batch) if self.batch else ()
        return self.a[at][rows], self.b[at][:, columns].T

    def extra(self, where: Array) -> list[Array]:
        bias = self.double(2)
        return [] if bias is None else [np.broadcast_to(bias.reshape(-1), (self.n,))[where % self.n]]

    def sample(self, output: int, rng: np.random.Generator) -> Array:
        groups = spread(int(np.prod(self.batch)) if self.batch else 1, 6, rng)
        most = _COLUMNS if len(groups) < 4 else 48
        columns = spread(self.n, most, rng)
        terms = self.a.shape[-1]
        budget = _MOST_PRODUCTS / max(1, terms * len(columns) * len(groups))
        rows = spread(self.m, int(max(8, min(_ROWS, budget))), rng)
        where: Array = (groups[:, None, None] * self.m + rows[:, None]) * self.n + columns
        return where.reshape(-1)


@register("linear_nbits")
class FewBits(_Products):
    """Weights of a few bits. Zero points may be taken off sums of x: bounds count numbers and them apart."""

    def prepare(self) -> None:
        x, packed, scale = self.tensors[:3]
        assert x is not None and packed is not None and scale is not None
        bits, block = int(self.attribute("bits", 4)), int(self.attribute("block_size", 32))
        numbers = np.stack([packed >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)], axis=-1)
        numbers = numbers.reshape(len(packed), -1)[:, : x.shape[-1]].astype(np.float64)
        zero = self.tensors[3] if len(self.tensors) > 3 else None
        points = np.full(scale.shape, 1 << bits - 1) if zero is None else zero
        of_block = np.arange(x.shape[-1]) // block
        wide = np.asarray(scale, np.float64)[:, of_block]
        self.weight = (numbers - points[:, of_block]) * wide
        self.apart = (numbers + points[:, of_block]) * np.abs(wide)
        self.x = x.reshape(-1, x.shape[-1])
        self.shape = (*x.shape[:-1], len(packed))
        self.finish()

    def split(self, where: Array) -> tuple[Array, Array, Array]:
        return (np.zeros_like(where), *np.divmod(where, self.shape[-1]))

    def factors(self, group: int, rows: Array, columns: Array) -> tuple[Array, Array]:
        return self.x[rows], self.weight[columns]

    def sums(self, where: Array) -> tuple[Array, Array, int]:
        total, _, terms = super().sums(where)
        weight, self.weight = self.weight, self.apart
        _, squares, _ = super().sums(where)
        self.weight = weight
        return total, squares, terms

    def extra(self, where: Array) -> list[Array]:
        bias = self.double(4)
        return [] if bias is None else [bias.reshape(-1)[where % self.shape[-1]]]

    def sample(self, output: int, rng: np.random.Generator) -> Array:
        rows = spread(len(self.x), _ROWS, rng)
        where: Array = rows[:, None] * self.shape[-1] + spread(self.shape[-1], _COLUMNS, rng)
        return where.reshape(-1)


@register("grouped_mm", "grouped_mm_backward_weights")
class GroupedProduct(_Products):
    def prepare(self) -> None:
        x, other, offsets = self.tensors[:3]
        assert x is not None and other is not None and offsets is not None
        self.of_weights = self.case.op == "grouped_mm_backward_weights"
        self.x, self.ends = x, np.asarray(offsets, np.int64)
        self.other = np.swapaxes(other, 1, 2) if self.attribute("transpose_weight", False) else other
        rows = (len(self.ends), x.shape[1]) if self.of_weights else (x.shape[0],)
        self.shape = (*rows, self.other.shape[-1])
        self.finish()

    def split(self, where: Array) -> tuple[Array, Array, Array]:
        row, column = np.divmod(where, self.shape[-1])
        if self.of_weights:
            return (*np.divmod(row, self.shape[1]), column)
        return np.searchsorted(self.ends, row, "right"), row, column

    def factors(self, group: int, rows: Array, columns: Array) -> tuple[Array, Array]:
        if self.of_weights:
            part = slice(self.ends[group - 1] if group else 0, self.ends[group])
            return self.x[part, rows].T, self.other[part, columns].T
        if group == len(self.ends):  # behind the last offset
            return np.zeros((len(rows), 1)), np.zeros((len(columns), 1))
        return self.x[rows], self.other[group][:, columns].T

    def sample(self, output: int, rng: np.random.Generator) -> Array:
        rows = spread(int(np.prod(self.shape[:-1])), 4 * _ROWS, rng)
        where: Array = rows[:, None] * self.shape[-1] + spread(self.shape[-1], _COLUMNS, rng)
        return where.reshape(-1)


@register("scaled_dot_product_attention")
class Attention(Reference):
    def prepare(self) -> None:
        q, k, v = (self.tensors[i] for i in range(3))
        assert q is not None and k is not None and v is not None
        self.heads = q.shape[:-2]
        self.outputs = [((*q.shape[:-1], v.shape[-1]), self.dtype)]

    def sample(self, output: int, rng: np.random.Generator) -> Array:
        shape = self.outputs[0][0]
        heads = spread(int(np.prod(self.heads)) if self.heads else 1, 8, rng)
        rows = spread(shape[-2], 40, rng)
        where: Array = (heads[:, None, None] * shape[-2] + rows[:, None]) * shape[-1] + np.arange(shape[-1])
        return where.reshape(-1)

    def expected(self, output: int, where: Array) -> tuple[Array, Array]:
        shape = self.outputs[0][0]
        head, rest = np.divmod(where, shape[-2] * shape[-1])
        row, column = np.divmod(rest, shape[-1])
        y, bound = np.zeros(len(where)), np.zeros(len(where))
        for number in np.unique(head):
            members = np.flatnonzero(head == number)
            rows, own = np.unique(row[members], return_inverse=True)
            values, bounds = self._rows(int(number), rows)
            y[members] = values[own, column[members]]
            bound[members] = bounds[own, column[members]]
        return y, bound + rounding(y, self.dtype)

    def _rows(self, head: int, rows: Array) -> tuple[Array, Array]:
        """Some queries of one head: results and bounds."""
        at = np.unravel_index(head, self.heads) if self.heads else ()
        q, k, v = (self.double(i) for i in range(3))
        assert q is not None and k is not None and v is not None
        shared = at
        if self.attribute("enable_gqa", False):  # several heads of q share one of k and v
            shared = (*at[:-1], at[-1] // (q.shape[-3] // k.shape[-3]))
        q, k, v = q[at][rows], k[shared], v[shared]
        scale = float(self.attribute("scale", q.shape[-1] ** -0.5))
        scores = q @ k.T
        unit = self.accuracy.unit
        error = (
            abs(scale) * LOOP * SPREAD * deviation(q.shape[-1], scores, (q * q) @ (k * k).T, unit, self.accuracy.tf32)
        )
        scores = scores * scale
        softcap = self.attribute("softcap")
        if softcap is not None:
            scores = softcap * np.tanh(scores / softcap)
            error = error + 16 * unit * np.abs(softcap)
        mask = self.tensors[3] if len(self.tensors) > 3 else None
        if mask is not None:
            full = np.broadcast_to(mask, (*self.heads, self.outputs[0][0][-2], k.shape[0]))[at][rows]
            scores = np.where(full, scores, -np.inf) if mask.dtype == bool else scores + full
        if self.attribute("is_causal", False):
            scores = np.where(np.arange(k.shape[0]) <= rows[:, None], scores, -np.inf)
        largest = scores.max(axis=1, keepdims=True)
        sinks = self.tensors[5] if len(self.tensors) > 5 else None
        if sinks is not None:
            column = np.broadcast_to(sinks, (*self.heads, self.outputs[0][0][-2], 1))[at][rows].astype(np.float64)
            largest = np.maximum(largest, column)
        p = np.exp(scores - np.where(np.isinf(largest), 0, largest))
        total = p.sum(axis=1, keepdims=True)
        if sinks is not None:
            total = total + np.exp(column - np.where(np.isinf(largest), 0, largest))
        p = np.divide(p, total, out=np.zeros_like(p), where=total > 0)
        dropped = float(self.attribute("dropout_p", 0.0))
        if dropped:
            numbers = (head * self.outputs[0][0][-2] + rows[:, None]) * k.shape[0] + np.arange(k.shape[0])
            p = p * dropout_factors(self.tensors[4], dropped, numbers)
        y = p @ v
        # Scores that are off by e change p by a factor exp(e), and y by the mean of (v - y) times it.  A matrix unit
        # gets p in the dtype of v.
        relative = error.max(axis=1, keepdims=True) + 16 * unit * (1 + np.abs(np.where(p > 0, scores, 0)).max())
        relative = relative + (0 if self.dtype == "f32" else rounding(np.ones(1), self.dtype))
        if self.accuracy.tf32:
            relative = relative + 2.0**-11
        deviations = p @ np.abs(v) + np.abs(y)
        squares = (p * p) @ (v * v)
        return y, relative * deviations + sum_bound(k.shape[0], y, squares, unit, self.accuracy.tf32)
