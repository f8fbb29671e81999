"""Exact results of ops that read images between pixels, put elements by index, and choose boxes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounds import UNIT, sum_bound
from .reference import Full, register

Array = NDArray[Any]
Taps = tuple[Array, Array]  # pixels along one dimension, and their weights; the taps are the last axis

POSITION = 12 * UNIT  # of a position in f32, relative to the largest number that takes part in it


# ---- between pixels ----


def _reflected(at: Array, low: float, high: float) -> Array:
    """Mirrored at both bounds until it lies within them."""
    if high <= low:
        return np.zeros_like(at)
    span = high - low
    folded = np.mod(at - low, 2 * span)
    return low + np.where(folded > span, 2 * span - folded, folded)


def _inside(at: Array, size: int, padding: str, aligned: bool) -> Array:
    """Positions after padding modes that move them."""
    if padding == "zeros":
        return at
    if padding == "reflection":
        at = _reflected(at, 0.0, size - 1.0) if aligned else _reflected(at, -0.5, size - 0.5)
    return np.clip(at, 0, size - 1)


def _cubic(t: Array) -> Array:
    """Weights of the four pixels from the one before the position on; a = -3/4."""
    a = -0.75
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (1 + t, 2 - t)]
    return np.stack([far[0], near[0], near[1], far[1]], -1)


def cubic_slopes(t: Array) -> Array:
    """How fast those weights change with the position."""
    a = -0.75
    near = [(3 * (a + 2) * d - 2 * (a + 3)) * d for d in (t, 1 - t)]
    far = [(3 * a * d - 10 * a) * d + 8 * a for d in (1 + t, 2 - t)]
    return np.stack([far[0], near[0], -near[1], -far[1]], -1)


def _turned(at: Array, size: int, padding: str, aligned: bool) -> Array:
    """What _inside does to a small step: 1, -1 where positions are mirrored, 0 where they are held at a border."""
    if padding == "zeros":
        return np.ones_like(at)
    turn, last = np.ones_like(at), size - 1.0
    if padding == "reflection":
        low, span = (0.0, last) if aligned else (-0.5, last + 1)
        folds = np.floor((at - low) / span) if span > 0 else np.zeros_like(at)
        turn = np.where(folds % 2 != 0, -1.0, 1.0)
        at = _reflected(at, low, low + span)
    return np.where((at <= 0) | (at >= last), 0.0, turn)


def sloped_taps(at: Array, size: int, mode: str, padding: str, aligned: bool) -> tuple[Array, Array, Array]:
    """Pixels along one dimension, their weights, and the slopes of these."""
    if mode in ("cubic", "bicubic"):  # its pixels are moved, not its position
        low = np.floor(at)
        pixels = low[..., None] + np.arange(-1, 3)
        weights, slopes = _cubic(at - low), cubic_slopes(at - low)
        pixels = np.rint(_inside(pixels, size, padding, aligned))
    else:
        turn = _turned(at, size, padding, aligned)[..., None]
        at = _inside(at, size, padding, aligned)
        if mode == "nearest":
            pixels, weights, slopes = np.rint(at)[..., None], np.ones((*at.shape, 1)), np.zeros((*at.shape, 1))
        else:
            low = np.floor(at)
            pixels, weights = low[..., None] + np.arange(2), np.stack([1 - (at - low), at - low], -1)
            slopes = turn * np.array([-1.0, 1.0])
    known = (pixels >= 0) & (pixels < size)
    return np.where(known, pixels, 0).astype(np.int64), np.where(known, weights, 0.0), np.where(known, slopes, 0.0)


def _taps(at: Array, size: int, mode: str, padding: str, aligned: bool) -> Taps:
    pixels, weights, _ = sloped_taps(at, size, mode, padding, aligned)
    return pixels, weights


def _read(image: Array, taps: list[Taps]) -> Array:
    """(c, p): the image (c, ...) at p positions, with the taps (p, k) of each of its dimensions."""
    total = np.zeros((image.shape[0], taps[0][0].shape[0]))
    for choice in itertools.product(*(range(pixels.shape[1]) for pixels, _ in taps)):
        at: tuple[Any, ...] = (slice(None), *(pixels[:, k] for k, (pixels, _) in zip(choice, taps, strict=True)))
        total += image[at] * np.prod([weights[:, k] for k, (_, weights) in zip(choice, taps, strict=True)], axis=0)
    return total


@register("grid_sample")
class GridSample(Full):
    def compute(self) -> Any:
        x, grid = self.double(0), self.double(1)
        assert x is not None and grid is not None
        mode, padding = str(self.attribute("mode", "bilinear")), str(self.attribute("padding_mode", "zeros"))
        aligned = bool(self.attribute("align_corners", False))
        sizes, places = x.shape[2:], grid.shape[1:-1]
        y = np.zeros((*x.shape[:2], math.prod(places)))
        bound = np.zeros_like(y)
        for n in range(x.shape[0]):
            at, off = [], []
            for d, size in enumerate(sizes):
                given = grid[n, ..., len(sizes) - 1 - d].reshape(-1)
                at.append((given + 1) / 2 * (size - 1) if aligned else ((given + 1) * size - 1) / 2)
                off.append(POSITION * (size + np.abs(at[-1])))

            def read(signs: tuple[int, ...], image: Array, at: list[Array] = at, off: list[Array] = off) -> Array:
                moved = [p + sign * o for p, sign, o in zip(at, signs, off, strict=True)]
                taps = [_taps(p, s, mode, padding, aligned) for p, s in zip(moved, sizes, strict=True)]
                return _read(image, taps)

            y[n] = read((0,) * len(sizes), x[n])
            # A position that is a little off changes the result by so much, a jump of `nearest` included.
            for signs in itertools.product((-1, 0, 1), repeat=len(sizes)):
                bound[n] = np.maximum(bound[n], np.abs(read(signs, x[n]) - y[n]))
            bound[n] = len(sizes) * bound[n] + 32 * UNIT * np.abs(x[n]).max(initial=0)
        return y.reshape(*x.shape[:2], *places), bound.reshape(*x.shape[:2], *places), self.dtype


@register("roi_align")
class RoiAlign(Full):
    def compute(self) -> Any:
        x, boxes = self.double(0), self.double(1)
        images = self.tensors[2]
        assert x is not None and boxes is not None and images is not None
        size = self.attribute("output_size")
        bins = list(size) if isinstance(size, (list, tuple)) else [size]
        bins = [int(b) for b in bins * (2 if len(bins) == 1 else 1)]
        scale, aligned = float(self.attribute("spatial_scale", 1.0)), bool(self.attribute("aligned", False))
        largest = self.attribute("mode", "mean") == "max"
        y = np.zeros((len(boxes), x.shape[1], *bins))
        bound = np.zeros_like(y)
        for k, box in enumerate(boxes):
            image = x[int(images[k])]
            axes = [self.samples(box[1 - d], box[3 - d], scale, aligned, bins[d], x.shape[2 + d]) for d in range(2)]
            shape = (image.shape[0], bins[0], axes[0][0].shape[1], bins[1], axes[1][0].shape[1])

            def parts(signs: tuple[int, ...], image: Array = image, axes: Any = axes) -> list[Array]:
                """Of every sample the weighted pixels: four arrays (c, rows, columns)."""
                taps = [
                    self.pixels((at + sign * off).reshape(-1), s)
                    for (at, off), sign, s in zip(axes, signs, x.shape[2:], strict=True)
                ]
                (rows, of_row), (columns, of_column) = taps
                return [
                    image[:, rows[:, i]][:, :, columns[:, j]] * of_row[:, None, i] * of_column[None, :, j]
                    for i, j in itertools.product(range(2), repeat=2)
                ]

            exact = np.stack(parts((0, 0)))
            error = np.zeros_like(exact)
            for signs in itertools.product((-1, 0, 1), repeat=2):
                error = np.maximum(error, np.abs(np.stack(parts(signs)) - exact))
            error = 2 * error + 8 * UNIT * np.abs(exact)
            if largest and exact.size:
                y[k] = exact.max(0).reshape(shape).max((2, 4))
                bound[k] = error.max(0).reshape(shape).max((2, 4))
                continue
            samples, count = exact.sum(0).reshape(shape), max(1, shape[2] * shape[4])
            squares = (exact**2).sum(0).reshape(shape).sum((2, 4))
            total = samples.sum((2, 4))
            y[k] = total / count
            bound[k] = (sum_bound(4 * count, total, squares) + error.sum(0).reshape(shape).sum((2, 4))) / count
        return y, bound, self.dtype

    def samples(
        self, low: float, high: float, scale: float, aligned: bool, bins: int, size: int
    ) -> tuple[Array, Array]:
        """Positions (bins, samples) along one dimension, and what they may be off by."""
        shift = 0.5 if aligned else 0.0
        begin, end = low * scale - shift, high * scale - shift
        length = end - begin if aligned else max(end - begin, 1.0)
        count = int(self.attribute("sampling_ratio", 0)) or max(0, math.ceil(length / bins))
        at = begin + (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / max(1, count)) * (length / bins)
        return at, POSITION * (np.abs(at) + abs(begin) + abs(length))

    @staticmethod
    def pixels(at: Array, size: int) -> Taps:
        outside = (at < -1) | (at > size)
        at = np.maximum(at, 0)
        low = np.minimum(np.floor(at).astype(np.int64), size - 1)
        share = np.where(low == size - 1, 0.0, at - low)
        weights = np.where(outside[:, None], 0.0, np.stack([1 - share, share], -1))
        return np.stack([low, np.minimum(low + 1, size - 1)], -1), weights


# ---- by index ----


@register("scatter", "scatter_nd")
class Scatter(Full):
    def compute(self) -> Any:
        x, index, src = self.tensors[0], self.tensors[1], self.tensors[2]
        assert x is not None and index is not None and src is not None
        at = self._places(x, index, src)
        reduce = str(self.attribute("reduce", "none"))
        exact = x.dtype.kind in "iub"
        y = x.copy() if exact else x.astype(np.float64)
        if reduce == "none":
            np.ravel(y)[self._last(at, x.shape)] = np.broadcast_to(src, at[0].shape).reshape(-1)
            return y, 0.0, self.dtype
        join = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
        join.at(y, at, src)
        if exact or reduce in ("amax", "amin"):
            return y, 0.0, self.dtype
        counts = np.ones(x.shape)
        np.add.at(counts, at, 1.0)
        # The 16-bit sums of a place are kept in its own dtype, rounded for each element that joins.
        unit = UNIT if self.dtype == "f32" else 2.0 ** -(11 if self.dtype == "f16" else 8)
        if reduce == "prod":
            return y, 2 * unit * counts * np.abs(y), self.dtype
        squares = x.astype(np.float64) ** 2
        np.add.at(squares, at, np.asarray(src, np.float64) ** 2)
        return y, sum_bound(float(counts.max(initial=1)), y, squares, unit), self.dtype

    def _places(self, x: Array, index: Array, src: Array) -> tuple[Any, ...]:
        """For each element of src its index in x, by dimension."""
        if self.case.op == "scatter":
            dim = int(self.attribute("dim")) % x.ndim
            at = [*np.indices(src.shape)]
            at[dim] = np.broadcast_to(index, src.shape) % x.shape[dim]
            return tuple(at)
        depth, lead = index.shape[-1], index.shape[:-1]
        rest = x.shape[depth:]
        outer = [(index[..., d] % x.shape[d]).reshape(*lead, *(1,) * len(rest)) for d in range(depth)]
        inner = [*np.indices(rest)] if rest else []
        return tuple(np.broadcast_to(places, (*lead, *rest)) for places in [*outer, *inner])

    @staticmethod
    def _last(at: tuple[Array, ...], shape: tuple[int, ...]) -> Array:
        return np.ravel_multi_index([a.reshape(-1) for a in at], shape)


@register("tensor_scatter")
class TensorScatter(Full):
    def compute(self) -> Any:
        x, update, at = self.tensors[0], self.tensors[1], self.tensors[2]
        assert x is not None and update is not None and at is not None
        dim = int(self.attribute("dim", -2)) % x.ndim
        y = np.moveaxis(x.copy(), dim, -1)
        for place in np.ndindex(y.shape[:-1]):
            first = int(at[place[0]] if at.ndim else at)
            y[place][(first + np.arange(update.shape[dim])) % x.shape[dim]] = np.moveaxis(update, dim, -1)[place]
        return np.moveaxis(y, -1, dim), 0.0, self.dtype


@register("non_max_suppression")
class NonMaxSuppression(Full):
    """Boxes of `verify` have integer corners, so that no quotient lies within rounding of a threshold."""

    def compute(self) -> Any:
        boxes, scores = self.double(0), self.double(1)
        assert boxes is not None and scores is not None
        if self.attribute("boxes_are", "corners") == "centres":
            middle, half = boxes[..., :2], boxes[..., 2:] / 2
            low, high = middle - half, middle + half
        else:
            low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
        areas = (high - low).prod(-1)
        threshold, least = float(self.attribute("iou_threshold", 0.0)), self.attribute("score_threshold")
        n, classes, k = scores.shape
        most = int(self.attribute("max_boxes"))
        rows: list[tuple[int, int, int]] = []
        for image, kind in itertools.product(range(n), range(classes)):
            taken: list[int] = []
            for box in np.argsort(-scores[image, kind], kind="stable"):
                if len(taken) >= most or (least is not None and scores[image, kind, box] <= least):
                    break
                others = np.array(taken, np.int64)
                sides = np.minimum(high[image, others], high[image, box]) - np.maximum(
                    low[image, others], low[image, box]
                )
                shared = np.maximum(sides, 0).prod(-1)
                union = areas[image, others] + areas[image, box] - shared
                if not np.any((union > 0) & (shared > threshold * union)):
                    taken.append(int(box))
            rows += [(image, kind, box) for box in taken]
        found = np.full((n * classes * min(most, k), 3), -1, np.int64)
        found[: len(rows)] = np.array(rows, np.int64).reshape(-1, 3)
        return [(found, 0.0, "s64"), (np.array(len(rows), np.int64), 0.0, "s64")]


__all__ = ["GridSample", "NonMaxSuppression", "RoiAlign", "Scatter"]
