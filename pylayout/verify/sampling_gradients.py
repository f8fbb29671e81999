"""Exact gradients of ops that read images between pixels, and of the selective scan, by their formulas in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounds import UNIT
from .reference import Full, register
from .sampling import POSITION, RoiAlign, sloped_taps

Array = NDArray[Any]


@register("grid_sample_backward")
class GridSampleBackward(Full):
    def compute(self) -> Any:
        grad, x, grid = (self.double(i) for i in range(3))
        assert grad is not None and x is not None and grid is not None
        aligned = bool(self.attribute("align_corners", False))
        sizes = x.shape[2:]
        dx, dgrid = np.zeros_like(x), np.zeros_like(grid)
        off_x, off_grid = np.zeros_like(x), np.zeros_like(grid)
        signs = list(itertools.product((-1, 0, 1), repeat=len(sizes)))
        for n in range(x.shape[0]):
            at, off = [], []
            for d, size in enumerate(sizes):
                given = grid[n, ..., len(sizes) - 1 - d].reshape(-1)
                at.append((given + 1) / 2 * (size - 1) if aligned else ((given + 1) * size - 1) / 2)
                off.append(POSITION * (size + np.abs(at[-1])))
            g = grad[n].reshape(x.shape[1], -1)
            exact = self._at(at, x[n], g, off)
            dx[n], dgrid[n], off_x[n] = exact[0], exact[1].reshape(grid.shape[1:]), exact[2]
            largest = exact[3].reshape(grid.shape[1:])
            moved_grid = np.zeros_like(exact[1])
            for sign in signs:
                found = self._at([p + s * o for p, s, o in zip(at, sign, off, strict=True)], x[n], g, off)
                off_x[n] = np.maximum(off_x[n], exact[2] + len(sizes) * np.abs(found[0] - exact[0]))
                moved_grid = np.maximum(moved_grid, np.abs(found[1] - exact[1]))
            off_grid[n] = len(sizes) * moved_grid.reshape(grid.shape[1:]) + (32 + x.shape[1]) * UNIT * largest
        return [(dx, off_x, self.dtype), (dgrid, off_grid, "f32")]

    def _at(self, at: list[Array], x: Array, grad: Array, off: list[Array]) -> tuple[Array, Array, Array, Array]:
        """By x, by the grid (p, d), what the first may be off by, and the sums of magnitudes of the second."""
        mode, padding = str(self.attribute("mode", "bilinear")), str(self.attribute("padding_mode", "zeros"))
        aligned, sizes = bool(self.attribute("align_corners", False)), x.shape[1:]
        taps = [sloped_taps(p, size, mode, padding, aligned) for p, size in zip(at, sizes, strict=True)]
        dx, error, count = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        dgrid, largest = np.zeros((grad.shape[1], len(sizes))), np.zeros((grad.shape[1], len(sizes)))
        for choice in itertools.product(*(range(pixels.shape[1]) for pixels, _, _ in taps)):
            where: Any = (slice(None), *(pixels[:, k] for k, (pixels, _, _) in zip(choice, taps, strict=True)))
            weights = [weights[:, k] for k, (_, weights, _) in zip(choice, taps, strict=True)]
            weight = np.prod(weights, axis=0)
            np.add.at(dx, where, grad * weight)
            np.add.at(count, where, np.ones_like(grad))
            np.add.at(error, where, 16 * UNIT * np.abs(grad * weight))
            product, magnitude = (grad * x[where]).sum(0), np.abs(grad * x[where]).sum(0)
            for d, (k, (_, _, slopes)) in enumerate(zip(choice, taps, strict=True)):
                slope = slopes[:, k] * np.prod([w for e, w in enumerate(weights) if e != d], axis=0)
                scale = (sizes[d] - 1 if aligned else sizes[d]) / 2
                dgrid[:, len(sizes) - 1 - d] += product * slope * scale
                largest[:, len(sizes) - 1 - d] += np.abs(magnitude * slope * scale)
                np.add.at(error, where, np.abs(grad * slope * off[d]))
        return dx, dgrid, error * (1 + count / 16), largest


@register("roi_align_backward")
class RoiAlignBackward(RoiAlign):
    def compute(self) -> Any:
        grad, x, boxes = (self.double(i) for i in range(3))
        images = self.tensors[3]
        assert grad is not None and x is not None and boxes is not None and images is not None
        scale, aligned = float(self.attribute("spatial_scale", 1.0)), bool(self.attribute("aligned", False))
        dx, bound = np.zeros_like(x), np.zeros_like(x)
        for k, box in enumerate(boxes):
            image = int(images[k])
            axes = [
                self.samples(box[1 - d], box[3 - d], scale, aligned, grad.shape[2 + d], x.shape[2 + d])
                for d in range(2)
            ]
            if self.attribute("mode", "mean") == "max":
                self._largest(axes, grad[k], x[image], dx[image], bound[image])
                continue
            count = max(1, axes[0][0].shape[1] * axes[1][0].shape[1])
            (rows, of_rows), (columns, of_columns) = (
                self._matrix(at, off, size) for (at, off), size in zip(axes, x.shape[2:], strict=True)
            )
            dx[image] += np.einsum("cij,ih,jw->chw", grad[k], rows, columns) / count
            error = np.einsum("cij,ih,jw->chw", np.abs(grad[k]), rows + of_rows, columns + of_columns)
            exact = np.einsum("cij,ih,jw->chw", np.abs(grad[k]), rows, columns)
            bound[image] += (error - exact + (32 + 4 * len(boxes)) * UNIT * exact) / count
        return dx, bound, self.dtype

    def _matrix(self, at: Array, off: Array, size: int) -> tuple[Array, Array]:
        """(bins, pixels): sums of weights, and what they may be off by."""
        made, error = np.zeros((at.shape[0], size)), np.zeros((at.shape[0], size))
        exact = self._spread(at, size)
        for sign in (-1, 1):
            error = np.maximum(error, np.abs(self._spread(at + sign * off, size) - exact).sum(1))
        made += exact.sum(1)
        return made, 2 * error

    def _spread(self, at: Array, size: int) -> Array:
        """(bins, samples, pixels): the weights of each sample."""
        pixels, weights = self.pixels(at.reshape(-1), size)
        spread = np.zeros((at.size, size))
        for k in range(2):
            spread[np.arange(at.size), pixels[:, k]] += weights[:, k]
        return spread.reshape(*at.shape, size)

    def _largest(self, axes: Any, grad: Array, x: Array, dx: Array, bound: Array) -> None:
        """Adds what one box gives; pixels that are within rounding of the largest may get it in its place."""
        for i, j in np.ndindex(*grad.shape[1:]):
            taps = [self.pixels(at[b], size) for (at, _), b, size in zip(axes, (i, j), x.shape[1:], strict=True)]
            (rows, of_row), (columns, of_column) = taps
            samples = rows.shape[0], columns.shape[0]
            if 0 in samples:
                continue
            # In the order of samples down and across, then of their pixels.
            shape = (*samples, 2, 2)
            row = np.broadcast_to(rows[:, None, :, None], shape).reshape(-1)
            column = np.broadcast_to(columns[None, :, None, :], shape).reshape(-1)
            weight = (of_row[:, None, :, None] * of_column[None, :, None, :]).reshape(-1)
            found = x[:, row, column] * weight
            first = found.argmax(1)
            channels = np.arange(x.shape[0])
            np.add.at(dx, (channels, row[first], column[first]), grad[:, i, j] * weight[first])
            reach = sum(float(off.max(initial=0)) for _, off in axes) + 8 * UNIT
            near = found >= found.max(1, keepdims=True) - 4 * reach * np.abs(x).max(initial=0)
            for c in channels:
                at = np.nonzero(near[c])[0]
                alone = len({(int(row[k]), int(column[k])) for k in at}) == 1
                doubt = abs(grad[c, i, j]) * (4 * reach if alone else 1.0)
                for h, w in {(int(row[k]), int(column[k])) for k in at}:
                    bound[c, h, w] += doubt


@register("selective_scan_backward")
class SelectiveScanBackward(Full):
    """The bound follows from the same sums of magnitudes, of which each step and each term may lose some units."""

    def compute(self) -> Any:
        tensors = [self.double(i) for i in range(6)]
        assert all(t is not None for t in tensors)
        u, delta, a = tensors[:3]
        assert u is not None and delta is not None and a is not None
        decay = np.exp(delta[..., None] * a[:, None])  # (n, d, t, i)
        exact = self._gradients(tensors, decay)
        sums = self._gradients([np.abs(t) for t in tensors if t is not None], decay)
        exponent = float(np.abs(delta[..., None] * a[:, None]).max(initial=0))
        terms = u.shape[0] * u.shape[2] + u.shape[1] + a.shape[1]
        return [
            (value, UNIT * (64 + 8 * exponent + 4 * terms + 8 * u.shape[2] * (1 + exponent)) * most, self.dtype)
            for value, most in zip(exact, sums, strict=True)
        ]

    @staticmethod
    def _gradients(tensors: Any, decay: Array) -> list[Array]:
        u, delta, a, b, c, grad = tensors
        shape = (*u.shape, a.shape[1])
        h, m = np.zeros(shape), np.zeros(shape)
        taken = delta[..., None] * b[:, None] * u[..., None]
        given = grad[..., None] * c[:, None]
        for t in range(u.shape[2]):
            h[:, :, t] = taken[:, :, t] + (decay[:, :, t] * h[:, :, t - 1] if t else 0)
        for t in reversed(range(u.shape[2])):
            later = t + 1 < u.shape[2]
            m[:, :, t] = given[:, :, t] + (decay[:, :, t + 1] * m[:, :, t + 1] if later else 0)
        before = np.concatenate([np.zeros_like(h[:, :, :1]), h[:, :, :-1]], 2)
        kept = m * decay * before
        return [
            (m * b[:, None]).sum(-1) * delta,
            (kept * a[:, None] + m * b[:, None] * u[..., None]).sum(-1),
            (kept * delta[..., None]).sum((0, 2)),
            (m * (delta * u)[..., None]).sum(1),
            (grad[..., None] * h).sum(1),
        ]
