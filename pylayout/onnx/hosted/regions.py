"""Images read at places between pixels: RoiAlign, GridSample."""

from __future__ import annotations

import itertools
from typing import Any

import numpy

from ...errors import UnsupportedError
from ..host import Call, host


def _sides(at: Any, size: int) -> tuple[Any, Any, Any]:
    """Of places along an axis: the pixels before and behind, and the share of the one behind. Outside is the border."""
    at = numpy.clip(at, 0, max(size - 1, 0))
    before = numpy.floor(at).astype("int64")
    return before, numpy.minimum(before + 1, size - 1), (at - before).astype("float32")


@host("RoiAlign")
def roi_align(call: Call) -> Any:
    x, boxes, images = call.x(0), call.x(1), call.x(2)
    height, width = call.attribute("output_height", 1), call.attribute("output_width", 1)
    samples, scale = call.attribute("sampling_ratio", 0), call.attribute("spatial_scale", 1.0)
    half = call.attribute("coordinate_transformation_mode", "half_pixel" if call.opset >= 16 else "output_half_pixel")
    largest = call.attribute("mode", "avg") == "max"
    out = numpy.zeros((boxes.shape[0], x.shape[1], height, width), x.dtype)
    shift = 0.5 if half == "half_pixel" else 0.0

    def line(first: float, end: float, bins: int, size: int) -> tuple[Any, ...]:
        length = end - first if shift else max(end - first, 1.0)
        each = samples if samples > 0 else max(int(numpy.ceil(length / bins)), 1)
        steps = (numpy.arange(bins)[:, None] + (numpy.arange(each)[None] + 0.5) / each).reshape(-1)
        at = first + steps * (length / bins)
        return (*_sides(at, size), (at >= -1.0) & (at <= size), each)

    for k, (box, image) in enumerate(zip(numpy.asarray(boxes, "float32"), images, strict=True)):
        x1, y1, x2, y2 = (float(v) for v in box * numpy.float32(scale) - numpy.float32(shift))
        rows, columns = line(y1, y2, height, x.shape[2]), line(x1, x2, width, x.shape[3])
        out[k] = (_largest if largest else _mean)(x[int(image)], rows, columns)
    return out


def _weights(line: tuple[Any, ...]) -> tuple[slice, Any]:
    """The pixels that the samples along an axis read, and by bin and pixel its share of the bin's mean."""
    before, behind, share, inside, each = line
    low = int(before.min())
    bins = numpy.arange(len(before)) // each
    weights = numpy.zeros((len(before) // each, int(behind.max()) - low + 1), "float32")
    numpy.add.at(weights, (bins, before - low), (1 - share) * inside / each)
    numpy.add.at(weights, (bins, behind - low), share * inside / each)
    return slice(low, low + weights.shape[1]), weights


def _mean(picture: Any, rows: tuple[Any, ...], columns: tuple[Any, ...]) -> Any:
    """Means of bilinear samples (c, height, width): linear along each axis, so two products."""
    (y, down), (x, across) = _weights(rows), _weights(columns)
    return down @ (picture[:, y, x] @ across.T)


def _largest(picture: Any, rows: tuple[Any, ...], columns: tuple[Any, ...]) -> Any:
    """The largest of the weighted pixels of all samples."""
    top, bottom, down, in_y, each_y = rows
    left, right, across, in_x, each_x = columns
    down, across = down[None, :, None], across[None, None, :]
    parts = [
        picture[:, top[:, None], left[None]] * ((1 - down) * (1 - across)),
        picture[:, top[:, None], right[None]] * ((1 - down) * across),
        picture[:, bottom[:, None], left[None]] * (down * (1 - across)),
        picture[:, bottom[:, None], right[None]] * (down * across),
    ]
    found = numpy.where((in_y[:, None] & in_x[None])[None], numpy.maximum.reduce(parts), 0)
    return found.reshape(-1, len(top) // each_y, each_y, len(left) // each_x, each_x).max((2, 4))


def _reflected(at: Any, size: int, corners: bool) -> Any:
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return numpy.zeros_like(at)
    away = numpy.mod(numpy.abs(at - low), 2 * span)
    return low + numpy.where(away > span, 2 * span - away, away)


def _within(place: Any, weight: Any, size: int) -> tuple[Any, Any]:
    """Pixels, the nearest ones for those outside, whose weight is 0."""
    outside = (place < 0) | (place > size - 1)
    return numpy.clip(place, 0, size - 1).astype("int64"), numpy.where(outside, 0, weight)


def _cubic(share: Any) -> list[Any]:
    a = -0.75
    weights = []
    for k, d in enumerate((1 + share, share, 1 - share, 2 - share)):
        inner = ((a + 2) * d - (a + 3)) * d * d + 1
        outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        weights.append(outer if k in (0, 3) else inner)
    return weights


@host("GridSample")
def grid_sample(call: Call) -> Any:
    x, grid = call.x(0), call.x(1)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(
        call.attribute("mode", "linear"), call.attribute("mode", "linear")
    )
    padding, corners = call.attribute("padding_mode", "zeros"), bool(call.attribute("align_corners", 0))
    if mode not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise UnsupportedError(f"onnx: GridSample: mode is {mode!r} and padding_mode {padding!r}")
    sizes = x.shape[2:]
    images = numpy.arange(x.shape[0]).reshape(-1, *[1] * (grid.ndim - 2))
    axes = []  # by axis: pixels with their weights, and which of them are inside
    for d, size in enumerate(sizes):
        at = grid[..., len(sizes) - 1 - d].astype("float64")
        at = (at + 1) / 2 * (size - 1) if corners else ((at + 1) * size - 1) / 2

        def bring(place: Any, size: int = size) -> Any:
            if padding == "reflection":
                place = _reflected(place, size, corners)
            return numpy.clip(place, 0, size - 1) if padding != "zeros" else place

        if mode == "nearest":
            pixels = [(numpy.rint(bring(at)), numpy.ones_like(at))]
        elif mode == "linear":
            at = bring(at)
            before = numpy.floor(at)
            pixels = [(before, before + 1 - at), (before + 1, at - before)]
        else:
            before = numpy.floor(at)
            weights = _cubic(at - before)
            pixels = [(bring(before + k - 1), weights[k]) for k in range(4)]
        axes.append([_within(place, weight, size) for place, weight in pixels])
    total: Any = 0
    for corner in itertools.product(*axes):
        weight = numpy.prod([w for _, w in corner], axis=0)
        index = (images, slice(None), *(place for place, _ in corner))
        picked = x[index]  # (n, ..., c)
        total = total + picked * weight[..., None]
    return numpy.moveaxis(total, -1, 1).astype(x.dtype)
