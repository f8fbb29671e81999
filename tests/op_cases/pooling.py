"""Pooling and resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import X4, Case, into, normal

CASES: list[Case] = []
add = into(CASES)

for _op in ("max_pool", "avg_pool"):
    add(f"{_op}1d", normal((2, 17, 11)), kernel_size=3, stride=2, padding=1)
    add(f"{_op}2d", normal(X4), kernel_size=(3, 2), stride=2, padding=1)
    add(f"{_op}2d", normal(X4), kernel_size=3, stride=2, ceil_mode=True)
    add(f"{_op}3d", normal((1, 5, 6, 7, 8)), kernel_size=2)
add("max_pool2d", normal(X4), kernel_size=3, stride=1, dilation=2, padding=1)
add("avg_pool2d", normal(X4), kernel_size=3, stride=2, padding=1, count_include_pad=False)
for _op in ("adaptive_avg_pool", "adaptive_max_pool"):
    add(f"{_op}1d", normal((2, 17, 11)), output_size=4)
    add(f"{_op}2d", normal(X4), output_size=(3, 5))
    add(f"{_op}2d", normal(X4), output_size=(4, 3))
    add(f"{_op}3d", normal((1, 5, 6, 7, 8)), output_size=(2, 3, 4))


def places(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    rank = t[0].dim() - 2
    name = "adaptive_max_pool" if "output_size" in a else "max_pool"
    return getattr(f, f"{name}{rank}d")(t[0], **a, return_indices=True)[1]


def equals(shape: tuple[int, ...], holes: float = 0.0):
    """Numbers that are often equal, and NaN."""

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        x = rng.integers(-3, 3, shape).astype("f4")
        x[rng.random(shape) < holes] = np.nan
        return [x]

    return make


add("max_pool1d_indices", normal((2, 17, 11)), places, kernel_size=3, stride=2, padding=1)
add("max_pool2d_indices", normal(X4), places, kernel_size=(3, 2), stride=2, padding=1)
add("max_pool2d_indices", equals(X4), places, kernel_size=3, stride=1, dilation=2, padding=1)
add("max_pool2d_indices", normal(X4), places, kernel_size=3, stride=2, ceil_mode=True)
add("max_pool2d_indices", equals((2, 5, 9, 10), 0.3), places, kernel_size=3, stride=2, name="NaN")
add("max_pool2d_indices", normal((0, 5, 9, 10)), places, kernel_size=3)
add("max_pool3d_indices", normal((1, 5, 6, 7, 8)), places, kernel_size=2)
add("adaptive_max_pool1d_indices", normal((2, 17, 11)), places, output_size=4)
add("adaptive_max_pool2d_indices", equals(X4), places, output_size=(4, 3))
add("adaptive_max_pool3d_indices", normal((1, 5, 6, 7, 8)), places, output_size=(2, 3, 4))
add("global_avg_pool", normal(X4), lambda torch, f, t, a: f.adaptive_avg_pool2d(t[0], 1))
add("global_max_pool", normal(X4), lambda torch, f, t, a: f.adaptive_max_pool2d(t[0], 1))

add("interpolate", normal(X4), size=(18, 7))
add("interpolate", normal(X4), scale_factor=2.0, mode="bilinear")
add("interpolate", normal(X4), size=(5, 17), mode="bilinear", align_corners=True)
add("interpolate", normal((1, 5, 9)), size=4, mode="linear")
add("interpolate", normal((1, 5, 4, 5, 6)), size=(5, 4, 9), mode="trilinear")


def gridded(shape: tuple[int, ...], out: tuple[int, ...]):
    """Some of the places lie outside of the image."""
    return lambda rng: [
        rng.standard_normal(shape).astype("f4"),
        rng.uniform(-1.3, 1.3, (shape[0], *out, len(shape) - 2)).astype("f4"),
    ]


def grid_sampled(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    x, grid = t[0], t[1]
    if x.dim() == 3:  # PyTorch has no lines: images of one row
        grid = torch.stack([grid[..., 0], torch.zeros_like(grid[..., 0])], -1)
        return f.grid_sample(x[:, :, None], grid[:, None], **{"align_corners": False, **a})[:, :, 0]
    return f.grid_sample(x, grid, **{"align_corners": False, **a})


for _mode in ("bilinear", "nearest", "bicubic"):
    for _padding in ("zeros", "border", "reflection"):
        add("grid_sample", gridded((2, 19, 9, 10), (7, 6)), grid_sampled, 1e-4, mode=_mode, padding_mode=_padding)
    add("grid_sample", gridded((1, 5, 6, 7), (4, 9)), grid_sampled, 1e-4, mode=_mode, align_corners=True)
    for _channels in (1, 2, 3, 5, 13, 19):  # as many places as pixels, or more
        add("grid_sample", gridded((2, _channels, 9, 7), (8, 9)), grid_sampled, 1e-4, mode=_mode)
add("grid_sample", gridded((1, 3, 41, 39), (20, 43)), grid_sampled, 1e-4, padding_mode="reflection")
add("grid_sample", gridded((2, 4, 3, 4, 5), (4, 6, 3)), grid_sampled, 1e-4, name="few channels")
add("grid_sample", gridded((2, 3, 11), (17,)), grid_sampled, 1e-4, padding_mode="border", name="few channels")
add("grid_sample", gridded((2, 17, 3, 4, 5), (2, 6, 3)), grid_sampled, 1e-4)
add("grid_sample", gridded((2, 5, 11), (8,)), grid_sampled, 1e-4, padding_mode="border")


def boxed(shape: tuple[int, ...], count: int, large: float = 1.0):
    """Boxes with corners in and around images; of the last one the corners are exchanged."""

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        sizes = np.float32([shape[3], shape[2]] * 2) * np.float32(large)
        first = rng.uniform(-0.1, 0.7, (count, 2))
        boxes = np.concatenate([first, first + rng.uniform(0.05, 0.5, (count, 2))], 1).astype("f4") * sizes
        if count:
            boxes[-1] = boxes[-1][[2, 3, 0, 1]]
        return [rng.standard_normal(shape).astype("f4"), boxes, rng.integers(0, shape[0], count)]

    return make


def roi_aligned(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """The definition, one sample after the other."""
    x, boxes, images = t[0], t[1].numpy(), t[2].numpy()
    height, width = a["output_size"]
    aligned, ratio, largest = a.get("aligned", False), a.get("sampling_ratio", 0), a.get("mode") == "max"
    made = []

    def sample(image: int, v: float, u: float) -> list[Any]:
        if not (-1 <= v <= x.shape[2] and -1 <= u <= x.shape[3]):
            return [torch.zeros(x.shape[1], dtype=x.dtype)] * 4
        v, u = min(max(v, 0), x.shape[2] - 1), min(max(u, 0), x.shape[3] - 1)
        parts = []
        for row, down in ((int(v), 1 - v + int(v)), (min(int(v) + 1, x.shape[2] - 1), v - int(v))):
            for column, across in ((int(u), 1 - u + int(u)), (min(int(u) + 1, x.shape[3] - 1), u - int(u))):
                parts.append(down * across * x[image, :, row, column])
        return parts

    for k, box in enumerate(boxes * a.get("spatial_scale", 1.0) - 0.5 * aligned):
        sizes = [box[3] - box[1], box[2] - box[0]]
        sizes = sizes if aligned else [max(size, 1) for size in sizes]
        bins = [sizes[0] / height, sizes[1] / width]
        counts = [ratio or max(int(np.ceil(size)), 0) for size in bins]
        for i, j in np.ndindex(height, width):
            samples = [
                sample(
                    int(images[k]),
                    box[1] + (i + (p + 0.5) / counts[0]) * bins[0],
                    box[0] + (j + (q + 0.5) / counts[1]) * bins[1],
                )
                for p, q in np.ndindex(*counts)
            ]
            all_parts = torch.stack([part for parts in samples for part in parts] or [x[0, :, 0, 0] * 0])
            made.append(all_parts.amax(0) if largest else all_parts.sum(0) / max(1, len(samples)))
    return torch.stack(made).reshape(len(boxes), height, width, -1).permute(0, 3, 1, 2)


for _aligned in (False, True):
    add("roi_align", boxed((2, 19, 9, 10), 6), roi_aligned, 1e-4, output_size=(3, 2), aligned=_aligned)
    add(
        "roi_align", boxed((2, 33, 9, 10), 5, 4.0), roi_aligned, 1e-4, output_size=(2, 3), spatial_scale=0.25,
        sampling_ratio=2, aligned=_aligned,
    )  # fmt: skip
    add("roi_align", boxed((1, 5, 9, 10), 4), roi_aligned, 1e-4, output_size=(2, 2), mode="max", aligned=_aligned)
add(
    "roi_align",
    boxed((1, 5, 9, 10), 0),
    lambda torch, f, t, a: t[0].sum() * torch.zeros(0, 5, 2, 2),
    output_size=(2, 2),
)
