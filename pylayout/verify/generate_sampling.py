"""Random cases of ops that read images between pixels, put elements by index or window, and choose boxes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from .case import Case

__all__ = ["sampling_case"]


def _text(dtype: str, *shape: int) -> str:
    return f"{dtype}:{'x'.join(map(str, shape))}"


def _scatter(rng: Generator, dtype: str, shape: tuple[int, ...]) -> Case:
    attributes: dict[str, Any] = {}
    if rng.random() < 0.6:
        attributes["reduce"] = str(rng.choice(["sum", "prod", "amax", "amin"]))
    dtype = str(rng.choice([dtype, "s64", "s32"])) if attributes.get("reduce") != "prod" else dtype
    if rng.random() < 0.5:
        dim = int(rng.integers(0, len(shape)))
        src = [int(rng.integers(1, size + 1)) for size in shape]
        src[dim] = int(rng.integers(1, 2 * shape[dim] + 2))
        index = src if rng.random() < 0.6 else [size if d == dim else 1 for d, size in enumerate(src)]
        inputs = (_text(dtype, *shape), _text("s64", *index), _text(dtype, *src))
        return Case("scatter", inputs, {"dim": dim, **attributes})
    depth, count = int(rng.integers(1, len(shape) + 1)), int(rng.integers(1, 200))
    inputs = (_text(dtype, *shape), _text("s64", count, depth), _text(dtype, count, *shape[depth:]))
    return Case("scatter_nd", inputs, attributes)


def _tensor_scatter(rng: Generator, dtype: str, shape: tuple[int, ...]) -> Case:
    dtype = str(rng.choice([dtype, "s64", "u8"]))
    dim = int(rng.integers(0, len(shape)))
    update = [int(rng.integers(1, size + 1)) if d == dim else size for d, size in enumerate(shape)]
    at = _text("s64", *([shape[0]] if dim > 0 and rng.random() < 0.5 else []))
    inputs = (_text(dtype, *shape), _text(dtype, *update), at)
    return Case("tensor_scatter", inputs, {"dim": dim, "circular": bool(rng.random() < 0.3)})


def _fold(rng: Generator, dtype: str, shape: tuple[int, ...]) -> Case | None:
    n, c, *sizes = shape
    kernel = [int(rng.integers(1, min(size, 4) + 1)) for size in sizes]
    stride, padding = ([int(rng.integers(low, low + 3)) for _ in sizes] for low in (1, 0))
    dilation = [2 if rng.random() < 0.3 and 2 * k - 1 <= size else 1 for k, size in zip(kernel, sizes, strict=True)]
    windows = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, p, d, k, s in zip(sizes, padding, dilation, kernel, stride, strict=True)
    ]
    rows, columns = c * math.prod(kernel), math.prod(windows)
    if n * rows * columns > 1 << 20:
        return None
    attributes = {"output_size": sizes, "kernel_size": kernel, "stride": stride, "dilation": dilation}
    return Case("fold", (_text(dtype, n, rows, columns),), {**attributes, "padding": padding * 2})


def sampling_case(rng: Generator, image: Callable[[Generator, int], tuple[int, ...]]) -> Case | None:
    kind = int(rng.integers(0, 4))
    dtype = str(rng.choice(["f32", "f32", "f16", "bf16"]))
    shape = image(rng, 1 << 16)
    if kind == 0:
        generator = (_scatter, _scatter, _scatter, _tensor_scatter, _fold)[int(rng.integers(0, 5))]
        return generator(rng, dtype, shape)
    if kind == 1:
        spatial = len(shape) - 2
        modes = ["bilinear", "nearest", *(["bicubic"] if spatial == 2 else [])]
        places = [int(rng.integers(1, 20 if spatial > 2 else 40)) for _ in range(spatial)]
        attributes: dict[str, Any] = {
            "mode": str(rng.choice(modes)),
            "padding_mode": str(rng.choice(["zeros", "border", "reflection"])),
            "align_corners": bool(rng.random() < 0.5),
        }
        inputs: tuple[str, ...] = (_text(dtype, *shape), _text("f32", shape[0], *places, spatial))
        if rng.random() < 0.5:
            return Case("grid_sample", inputs, attributes)
        return Case("grid_sample_backward", (_text(dtype, *shape[:2], *places), *inputs), attributes)
    if kind == 2:
        if len(shape) != 4:
            return None
        count = int(rng.integers(1, 30))
        attributes = {
            "output_size": [int(rng.integers(1, 15)), int(rng.integers(1, 15))],
            "sampling_ratio": int(rng.integers(0, 4)),
            "spatial_scale": 0.25,
            "aligned": bool(rng.random() < 0.5),
        }
        if rng.random() < 0.2:
            attributes["mode"] = "max"
        inputs = (_text(dtype, *shape), _text("f32", count, 4), _text("s64", count))
        if rng.random() < 0.5:
            return Case("roi_align", inputs, attributes)
        grad = _text(dtype, count, shape[1], *attributes["output_size"])
        return Case("roi_align_backward", (grad, *inputs), attributes)
    images, classes, boxes = int(rng.integers(1, 3)), int(rng.choice([1, 3, 20])), int(rng.choice([1, 7, 64, 300, 700]))
    attributes = {
        "max_boxes": int(rng.choice([1, 5, 100, 1000])),
        "iou_threshold": float(rng.choice([0.25, 0.5, 0.75])),
    }
    if rng.random() < 0.5:
        attributes["score_threshold"] = float(rng.choice([-0.5, 0.0, 0.5]))
    if rng.random() < 0.3:
        attributes["boxes_are"] = "centres"
    inputs = (_text("f32", images, boxes, 4), _text("f32", images, classes, boxes))
    return Case("non_max_suppression", inputs, attributes)
