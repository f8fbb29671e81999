"""Reductions, running sums and selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .case import X4, Case, into, normal, positive

CASES: list[Case] = []
add = into(CASES)


def reduced(function: Callable[..., Any]):
    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        dims = a.get("dim")
        dims = tuple(range(t[0].dim())) if dims is None else tuple(np.atleast_1d(dims).tolist())
        return function(torch, t[0], dims, a.get("keepdim", False))

    return reference


def _prod(torch: Any, x: Any, dims: tuple[int, ...], keep: bool) -> Any:
    for dim in sorted((d % x.dim() for d in dims), reverse=True):
        x = x.prod(dim, keepdim=keep)
    return x


for _op, _function in {
    "sum": lambda torch, x, d, k: x.sum(d, keepdim=k),
    "mean": lambda torch, x, d, k: x.mean(d, keepdim=k),
    "amax": lambda torch, x, d, k: x.amax(d, keepdim=k),
    "amin": lambda torch, x, d, k: x.amin(d, keepdim=k),
    "prod": _prod,
    "reduce_l1": lambda torch, x, d, k: x.abs().sum(d, keepdim=k),
    "reduce_l2": lambda torch, x, d, k: (x * x).sum(d, keepdim=k).sqrt(),
    "reduce_sum_square": lambda torch, x, d, k: (x * x).sum(d, keepdim=k),
}.items():
    add(_op, positive(X4), reduced(_function), dim=1, tolerance=1e-4)
    add(_op, positive((2, 19, 3, 4)), reduced(_function), dim=[0, 2, 3], keepdim=True, tolerance=1e-4)
    add(_op, positive((3, 5)), reduced(_function), tolerance=1e-4)
for _op in ("argmax", "argmin"):
    add(_op, normal(X4), dim=1)
    add(_op, normal(X4), dim=-1, keepdim=True)
    add(_op, normal((3, 5)))

add("cumsum", normal(X4), dim=1, tolerance=1e-4)
add("cumsum", normal((3, 7)), dim=-1)
add("cumsum", lambda rng: [rng.integers(-(2**40), 2**40, X4)], dim=1, name="s64")
for _dtype in ("int64", "int32"):
    add("cumsum", lambda rng, to=_dtype: [rng.integers(-1000, 1000, (5, 700)).astype(to)], dim=1, name=_dtype)
add("cumsum", normal((6, 1100)), dim=1, tolerance=1e-4, name="long")
add("cumprod", positive(X4), dim=1, tolerance=1e-4)
add("cumprod", normal((3, 7)), dim=-1)
add("cumprod", normal((0, 7)), dim=0)
add("cumprod", lambda rng: [rng.integers(-(2**40), 2**40, X4)], dim=1, name="s64")
add("logcumsumexp", lambda rng: [rng.uniform(-90, 90, X4).astype("f4")], dim=1)
add("logcumsumexp", normal((3, 7)), dim=-1)
add("logcumsumexp", normal((5, 0)), dim=0)


def _topk(torch, F, t, attributes):
    """In numpy: PyTorch leaves open which of equal elements comes first."""
    x, k, dim, skip = t[0].numpy(), attributes["k"], attributes.get("dim", -1), attributes.get("skip", 0)
    if attributes.get("largest", True):  # from the end, with NaN last, elements of equal value in reverse
        order = x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), dim, kind="stable"), dim)
    else:
        order = np.argsort(x, dim, kind="stable")
    order = order.take(range(skip, k), dim)
    return torch.from_numpy(np.take_along_axis(x, order, dim)), torch.from_numpy(order)


def _holes(shape: tuple[int, ...]):
    """Numbers that are often equal, zeros of both signs, and NaN."""

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        x = rng.integers(-40, 40, shape).astype("f4")
        x[..., ::9] = np.nan
        x[x == 7] = -0.0
        return [x]

    return make


add("topk", normal(X4), _topk, k=5, dim=1)
add("topk", normal(X4), _topk, k=19, dim=1, largest=False)
add("topk", normal((3, 70)), _topk, k=3)
add("topk", normal((3, 7)), _topk, k=2, dim=0, sorted=False)
add("topk", lambda rng: [rng.integers(0, 3, X4).astype(np.float32)], _topk, k=17, dim=1, name="ties")
add("topk", lambda rng: [rng.integers(-2, 2, (4, 33))], _topk, k=30, largest=False, name="s64")
add("topk", normal((2, 5)), _topk, k=0)
add("topk", normal((0, 5)), _topk, k=2)
add("topk", normal((1, 8400)), _topk, k=300)  # boxes of a detector
add("topk", normal((2, 50257)), _topk, k=50)  # words of a vocabulary
add("topk", normal((120000,)), _topk, k=1000, dim=0)  # anchors
add("topk", normal((300, 8)), _topk, k=2)  # experts
add("topk", normal((3, 2100)), _topk, k=2100)  # a sort, of more than a tile
add("topk", normal((2, 3000, 5)), _topk, k=2999, dim=-2, largest=False)
for _largest in (True, False):
    add("topk", _holes((2, 4500)), _topk, k=4500, largest=_largest, name="NaN")
    add("topk", _holes((2, 3, 33)), _topk, k=33, largest=_largest, name="NaN")
add("topk", lambda rng: [rng.integers(-(2**62), 2**62, (2, 3000))], _topk, k=3000, name="s64")
add("topk", lambda rng: [rng.integers(0, 256, (3, 2500)).astype("u1")], _topk, k=70, name="u8")
for _k, _skip in ((36, 35), (70, 69), (12, 3), (5, 5), (69, 2)):
    add("topk", normal((4, 70)), _topk, k=_k, skip=_skip, largest=False)
    add("topk", _holes((2, 3, 70)), _topk, k=_k, skip=_skip, name="NaN")
add("topk", normal(X4), _topk, k=10, dim=1, largest=False, skip=9)
add("topk", normal((2, 50257)), _topk, k=25129, largest=False, skip=25128)
add("topk", normal((2, 3000)), _topk, k=2990, skip=7)
add("topk", lambda rng: [rng.integers(-(2**62), 2**62, (2, 301))], _topk, k=151, skip=150, name="s64")
add("topk", lambda rng: [rng.integers(0, 4, (5, 33)).astype("u1")], _topk, k=17, largest=False, skip=16, name="u8")


def found_boxes(images: int, classes: int, count: int, spread: float = 1.0):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        first = rng.uniform(0, spread, (images, count, 2))
        boxes = np.concatenate([first, first + rng.uniform(0.02, 0.5, (images, count, 2))], -1).astype("f4")
        scores = rng.integers(0, 1000, (images, classes, count)).astype("f4") / np.float32(1000)
        return [boxes, scores]

    return make


def suppressed(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """The definition, one box after the other."""
    boxes, scores = t[0].numpy(), t[1].numpy()
    if a.get("boxes_are") == "centres":
        boxes = np.concatenate([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], -1)
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    areas = np.prod(high - low, -1)
    rows: list[tuple[int, int, int]] = []
    for image, kind in np.ndindex(*scores.shape[:2]):
        kept: list[int] = []
        for k in np.argsort(-scores[image, kind], kind="stable"):
            least = a.get("score_threshold")
            if len(kept) == a["max_boxes"] or (least is not None and scores[image, kind, k] <= np.float32(least)):
                continue
            sides = np.minimum(high[image, k], high[image, kept]) - np.maximum(low[image, k], low[image, kept])
            common = np.prod(np.maximum(sides, 0), -1)
            if not (common > a.get("iou_threshold", 0.0) * (areas[image, k] + areas[image, kept] - common)).any():
                kept.append(int(k))
        rows += [(image, kind, k) for k in kept]
    room = scores.shape[0] * scores.shape[1] * min(a["max_boxes"], scores.shape[2])
    made = np.full((room, 3), -1)
    made[: len(rows)] = np.reshape(rows, (-1, 3))
    return [torch.from_numpy(made), torch.tensor(len(rows))]


add("non_max_suppression", found_boxes(2, 3, 40), suppressed, max_boxes=7, iou_threshold=0.4, score_threshold=0.2)
add("non_max_suppression", found_boxes(1, 1, 300, 40.0), suppressed, max_boxes=300, iou_threshold=0.3)
add("non_max_suppression", found_boxes(1, 2, 30), suppressed, max_boxes=30, iou_threshold=0.5, boxes_are="centres")
add("non_max_suppression", found_boxes(1, 2, 0), suppressed, max_boxes=3)


def in_order(*shape: int, values: tuple[int, ...], dtype: str = "f4"):
    """Rows in order, of few numbers, and values: some of these numbers, some beyond them."""

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        return [np.sort(rng.integers(-20, 20, shape).astype(dtype)), rng.integers(-25, 25, values).astype(dtype)]

    return make


def searched(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    return torch.searchsorted(t[0], t[1], right=a.get("right", False))


for _right in (False, True):
    add("searchsorted", in_order(1000, values=(3, 100)), searched, right=_right, name=f"one row {_right}")
    add("searchsorted", in_order(3, 2, 17, values=(3, 2, 33)), searched, right=_right, name=f"rows {_right}")
    add("searchsorted", in_order(5, 64, values=(5, 9), dtype="i8"), searched, right=_right, name=f"integers {_right}")
add("searchsorted", in_order(33, values=(), dtype="i1"), searched, name="one value")
add("searchsorted", in_order(4, 0, values=(4, 3)), searched, name="no elements")
add("searchsorted", in_order(0, 4, values=(0, 3)), searched, name="no rows")
add("searchsorted", in_order(4, values=(0, 3)), searched, name="no values")
