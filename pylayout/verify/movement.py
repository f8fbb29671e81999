"""Exact results of ops that move elements, and of resizing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounds import UNIT, sum_bound
from .reference import Full, register

Array = NDArray[Any]


class Moved(Full):
    """Elements as they are, elsewhere."""

    def compute(self) -> Any:
        parts = self.moved([t for t in self.tensors if t is not None])
        dtype = (self.case.specs()[1] or ("", ()))[0] if self.case.op == "embedding" else self.dtype
        return [(part, 0.0, dtype) for part in parts]

    def moved(self, given: list[Array]) -> list[Array]:
        raise NotImplementedError


@register("concat")
class Concat(Moved):
    def moved(self, given: list[Array]) -> list[Array]:
        return [np.concatenate(given, axis=int(self.attribute("dim", 0)))]


@register("interleave")
class Interleave(Moved):
    def moved(self, given: list[Array]) -> list[Array]:
        x, y = given
        t, groups = np.concatenate([x, y], axis=1), int(self.attribute("groups", 2))
        z = np.swapaxes(t.reshape(t.shape[0], groups, -1, *t.shape[2:]), 1, 2).reshape(t.shape)
        sections = self.attribute("sections")
        if sections is None:
            return [z]
        listed = list(sections) if isinstance(sections, (list, tuple)) else [sections]
        return np.split(z, np.cumsum(listed)[:-1], axis=1)


@register("channel_shuffle")
class ChannelShuffle(Moved):
    def moved(self, given: list[Array]) -> list[Array]:
        x, groups = given[0], int(self.attribute("groups"))
        grouped = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
        return [np.swapaxes(grouped, 1, 2).reshape(x.shape)]


@register("gather", "index_select")
class Gather(Moved):
    def moved(self, given: list[Array]) -> list[Array]:
        x, index = given
        dim = int(self.attribute("dim"))
        if self.case.op == "index_select":
            return [np.take(x, index, axis=dim)]
        return [np.take_along_axis(x, np.where(index < 0, index + x.shape[dim], index), axis=dim)]


@register("embedding")
class Embedding(Moved):
    def moved(self, given: list[Array]) -> list[Array]:
        return [given[1][given[0]]]


@register("slice_scatter")
class SliceScatter(Moved):
    def moved(self, given: list[Array]) -> list[Array]:
        x, src = given[0].copy(), given[1]
        starts = self.attribute("starts")
        axes, steps = self.attribute("axes", None) or range(len(starts)), self.attribute("steps", None) or [1] * x.ndim
        places = [np.arange(size) for size in src.shape]
        for axis, start, step in zip(axes, starts, steps, strict=False):
            first = start + x.shape[axis] if start < 0 else start
            places[axis] = first + step * np.arange(src.shape[axis])
        x[np.ix_(*places)] = src
        return [x]


@register("searchsorted")
class SearchSorted(Full):
    """By halves too, as sequences of random numbers are in no order."""

    def compute(self) -> Any:
        sequence, values = self.double(0), self.double(1)
        assert sequence is not None and values is not None
        begin, end = np.zeros(values.shape, np.int64), np.full(values.shape, sequence.shape[-1])
        while (begin < end).any():
            middle = np.minimum((begin + end) // 2, sequence.shape[-1] - 1)
            found = np.take_along_axis(sequence, middle, -1) if sequence.ndim > 1 else sequence[middle]
            before = ~(found > values if self.attribute("right", False) else found >= values)
            searched = begin < end
            begin, end = np.where(searched & before, middle + 1, begin), np.where(searched & ~before, middle, end)
        return begin, 0.0, "s64"


@register("embedding_bag", "embedding_bag_rows")
class EmbeddingBag(Full):
    def compute(self) -> Any:
        index, weight, ends = self.tensors[0], self.double(1), self.tensors[2]
        assert index is not None and weight is not None and ends is not None
        scales, padding = self.double(3), int(self.attribute("padding_idx", -1))
        index, places = np.where(index < 0, index + len(weight), index), self.case.op == "embedding_bag_rows"
        mode = "max" if places else str(self.attribute("mode", "mean"))
        shape = (len(ends), weight.shape[1])
        y, bound, rows, begin = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int64), 0
        for bag, end in enumerate(ends.tolist()):
            where = np.flatnonzero(index[begin:end] != padding) + begin
            own, begin = weight[index[where]], end
            if not len(where):
                continue
            if mode == "max":
                y[bag], rows[bag] = own.max(0), index[where][own.argmax(0)]
                continue
            own = own if scales is None else own * scales[where, None]
            parts = len(where) if mode == "mean" else 1
            y[bag] = own.sum(0) / parts
            bound[bag] = sum_bound(len(where), own.sum(0), (own * own).sum(0)) / parts + UNIT * np.abs(y[bag])
        return (rows, 0.0, "s64") if places else (y, bound, (self.case.specs()[1] or ("f32", ()))[0])


@register("pad")
class Pad(Moved):
    def moved(self, given: list[Array]) -> list[Array]:
        x, pads = given[0], list(self.attribute("pad"))
        width = [(0, 0)] * x.ndim
        for i in range(len(pads) // 2):
            width[x.ndim - 1 - i] = (int(pads[2 * i]), int(pads[2 * i + 1]))
        mode = str(self.attribute("mode", "constant"))
        cut = tuple(
            slice(max(0, -before), size + min(0, after)) for (before, after), size in zip(width, x.shape, strict=True)
        )
        x, width = x[cut], [(max(0, before), max(0, after)) for before, after in width]
        if mode == "constant":
            return [np.pad(x, width, constant_values=self.attribute("value", 0.0))]
        return [np.pad(x, width, mode="edge" if mode == "replicate" else "reflect")]


@register("tile")
class Tile(Moved):
    def moved(self, given: list[Array]) -> list[Array]:
        return [np.tile(given[0], self.attribute("dims"))]


@register("expand")
class Expand(Moved):
    def moved(self, given: list[Array]) -> list[Array]:
        shape = list(self.attribute("shape"))
        rank = given[0].ndim
        sizes = [given[0].shape[i - (len(shape) - rank)] if size == -1 else size for i, size in enumerate(shape)]
        return [np.broadcast_to(given[0], sizes)]


@register("reorder", "identity")
class Same(Moved):
    def moved(self, given: list[Array]) -> list[Array]:
        return [given[0]]


@register("interpolate")
class Interpolate(Full):
    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        sizes = x.shape[2:]

        def listed(name: str) -> list[Any] | None:
            value = self.attribute(name)
            if value is None:
                return None
            each = list(value) if isinstance(value, (list, tuple)) else [value]
            return each * len(sizes) if len(each) == 1 else each

        size, factor = listed("size"), listed("scale_factor")
        output = (
            [int(s) for s in size] if size else [math.floor(n * f) for n, f in zip(sizes, factor or [], strict=True)]
        )
        aligned = bool(self.attribute("align_corners", False))
        linear = str(self.attribute("mode", "nearest")) != "nearest"
        y, bound = x, np.zeros((1,) * x.ndim)
        for d, (n, o) in enumerate(zip(sizes, output, strict=True)):
            p = np.arange(o, dtype=np.float64)
            scale = n / o if size else 1 / float((factor or [])[d])
            if aligned:
                scale = (n - 1) / (o - 1) if o > 1 else 0.0
            if not linear:  # positions are of f32, as PyTorch's are: 29 * (30 / 58) is below 15
                at = np.floor(p.astype("f4") * np.float32(scale)).astype(int)
                y = np.take(y, np.minimum(at, n - 1), axis=2 + d)
                continue
            source = p * scale if aligned else np.maximum((p + 0.5) * scale - 0.5, 0)
            low = np.minimum(np.floor(source).astype(int), n - 1)
            share = (source - low).reshape(-1, *(1,) * (x.ndim - 3 - d))
            first, second = np.take(y, low, axis=2 + d), np.take(y, np.minimum(low + 1, n - 1), axis=2 + d)
            y = first * (1 - share) + second * share
            # A position is off by some units of itself, and the result by the difference of neighbours times that.
            off = 8 * UNIT * (1 + source.reshape(-1, *(1,) * (x.ndim - 3 - d)))
            bound = (
                np.abs(second - first) * off + bound
                if bound.size == 1
                else np.abs(second - first) * off
                + (np.take(bound, low, axis=2 + d) + np.take(bound, np.minimum(low + 1, n - 1), axis=2 + d))
            )
        return y, bound + 8 * UNIT * np.abs(y), self.dtype


__all__ = ["Interpolate", "Moved"]


@register("interpolate_backward")
class InterpolateBackward(Full):
    """Along each dimension a product with the transposed matrix of the weights that interpolate has."""

    def compute(self) -> Any:
        grad = self.double(0)
        assert grad is not None
        sizes, resized = list(self.attribute("input_size")), grad.shape[2:]
        factor = self.attribute("scale_factor")
        factors = None if factor is None else list(factor) * (len(sizes) if len(factor) == 1 else 1)
        aligned = bool(self.attribute("align_corners", False))
        linear = str(self.attribute("mode", "nearest")) != "nearest"
        weights, doubts = [], []  # by dimension: of input positions in output positions, and what these may be off by
        for d, (n, o) in enumerate(zip(sizes, resized, strict=True)):
            scale = 1 / float(factors[d]) if factors else n / o
            if aligned:
                scale = (n - 1) / (o - 1) if o > 1 else 0.0
            p = np.arange(o, dtype=np.float64)
            weight, doubt = np.zeros((o, n)), np.zeros((o, n))
            if linear:
                source = p * scale if aligned else np.maximum((p + 0.5) * scale - 0.5, 0)
                low = np.minimum(np.floor(source).astype(int), n - 1)
                high = np.minimum(low + 1, n - 1)
                for at, share in ((low, 1 - (source - low)), (high, source - low)):
                    np.add.at(weight, (p.astype(int), at), share)
                    np.add.at(doubt, (p.astype(int), at), 8 * UNIT * (1 + source))
            else:
                at = np.floor(p.astype("f4") * np.float32(scale)).astype(int)
                weight[p.astype(int), np.minimum(at, n - 1)] = 1
            weights.append(weight)
            doubts.append(doubt)

        def spread(values: NDArray[Any], matrices: list[NDArray[Any]]) -> NDArray[Any]:
            for d, matrix in enumerate(matrices):
                values = np.moveaxis(np.tensordot(values, matrix, axes=(2 + d, 0)), -1, 2 + d)
            return values

        terms = float(np.prod([max(1.0, (w != 0).sum(0).max()) for w in weights]))
        total, bound = spread(grad, weights), 4 * UNIT * (terms + 4) * spread(np.abs(grad), weights)
        for d in range(len(sizes)):
            bound = bound + spread(np.abs(grad), [*weights[:d], doubts[d], *weights[d + 1 :]])
        return total, bound, self.dtype
