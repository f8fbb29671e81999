"""Joining, copying and look-up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .case import X4, Case, indexed, into, normal, wrapped

CASES: list[Case] = []
add = into(CASES)

add(
    "concat",
    normal(X4, (2, 3, 9, 10), (2, 16, 9, 10)),
    lambda torch, f, t, a: torch.cat(t, a["dim"]),
    variadic=True,
    dim=1,
)
add("concat", normal((3, 4), (2, 4)), lambda torch, f, t, a: torch.cat(t, a["dim"]), variadic=True, dim=0)
add("pad", normal(X4), pad=[1, 2, 0, 3], value=1.5)
add("pad", normal(X4), lambda torch, f, t, a: f.pad(t[0], a["pad"], mode="reflect"), pad=[1, 2, 3, 0], mode="reflect")
add(
    "pad",
    normal(X4),
    lambda torch, f, t, a: f.pad(t[0], a["pad"], mode="replicate"),
    pad=[1, 2, 3, 0],
    mode="replicate",
)
add("pad", normal(X4), pad=[0, 0, -1, 2, 1, 1])
add("index_select", indexed(X4, (5,), 19), lambda torch, f, t, a: t[0].index_select(1, wrapped(t[1], 19)), dim=1)
add("embedding", indexed((11, 7), (2, 3), 11, first=True), lambda torch, f, t, a: f.embedding(wrapped(t[0], 11), t[1]))
add("gather", indexed(X4, (2, 4, 9, 10), 19), lambda torch, f, t, a: torch.gather(t[0], 1, wrapped(t[1], 19)), dim=1)


def put(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    y, src = t[0].clone(), t[1]
    places = [slice(None)] * y.ndim
    axes = a.get("axes", range(len(a["starts"])))
    for axis, start, step in zip(axes, a["starts"], a.get("steps", [1] * y.ndim), strict=False):
        start = start + y.shape[axis] if start < 0 else start
        places[axis] = slice(
            start, start + max(0, (src.shape[axis] - 1) * step + 1) if src.shape[axis] else start, step
        )
    y[tuple(places)] = src
    return y


add("slice_scatter", normal(X4, (2, 3, 9, 10)), put, starts=[4], axes=[1])
add("slice_scatter", normal(X4, (1, 7, 9, 3)), put, starts=[-1, 2, 1], axes=[0, 1, -1], steps=[1, 2, 4])
add("slice_scatter", normal((5, 33), (5, 33)), put, starts=[0, 0], name="all")
add("slice_scatter", normal((5, 33), (2, 0)), put, starts=[1, 33], name="nothing")
add(
    "slice_scatter",
    lambda rng: [rng.integers(-9, 9, s).astype("i8") for s in ((7, 4, 5), (3, 4, 5))],
    put,
    starts=[1],
    steps=[2],
)
add(
    "slice_scatter",
    lambda rng: [rng.integers(-9, 9, s).astype("i1") for s in ((64, 37), (64, 5))],
    put,
    starts=[9],
    axes=[1],
    steps=[3],
)
add("slice_scatter", normal((8, 512, 64), (8, 300, 64)), put, starts=[0], axes=[1], name="as in networks")


def bags(rows: int, width: int, ends: list[int], count: int, dtype: str = "i8", scaled: bool = False):
    """Indices from both ends of the table; each row comes several times."""

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        table = rng.standard_normal((rows, width)).astype("f4")
        given = [rng.integers(-rows, rows, count).astype(dtype), table, np.array(ends, dtype)]
        return [*given, rng.standard_normal(count).astype("f4")] if scaled else given  # type: ignore[list-item]

    return make


def in_bags(torch: Any, f: Any, t: list[Any], a: dict[str, Any], mode: str = "mean") -> Any:
    index, weight, ends, *scales = t
    offsets = torch.cat([ends.new_zeros(1), ends]).long()
    index = index[: offsets[-1]]  # what is behind them is in no bag
    given = {"padding_idx": a["padding_idx"]} if a.get("padding_idx", -1) >= 0 else {}
    return torch.embedding_bag(
        weight, wrapped(index, len(weight)).long(), offsets, False, ["sum", "mean", "max"].index(a.get("mode", mode)),
        False, scales[0] if scales else None, True, **given or {"padding_idx": None},
    )  # fmt: skip


for _mode in ("sum", "mean", "max"):
    add("embedding_bag", bags(11, 83, [3, 3, 9, 10, 17], 17), lambda *g: in_bags(*g)[0], mode=_mode)
    add("embedding_bag", bags(7, 13, [0, 30, 33], 40, "i4"), lambda *g: in_bags(*g)[0], mode=_mode, padding_idx=2)
add("embedding_bag", bags(300, 64, [*range(32, 2049, 32)], 2048), lambda *g: in_bags(*g)[0], name="as in networks")
add("embedding_bag", bags(9, 21, [4, 7, 7, 12], 12, scaled=True), lambda *g: in_bags(*g)[0], mode="sum", name="scaled")
add("embedding_bag", bags(9, 1, [5], 5, "i4", True), lambda *g: in_bags(*g)[0], mode="sum", padding_idx=0, name="one")
add("embedding_bag", bags(9, 4, [], 0), lambda *g: in_bags(*g)[0], name="no bags")
add("embedding_bag", bags(9, 4, [0, 0], 0), lambda *g: in_bags(*g)[0], mode="max", name="empty bags")
add("embedding_bag_rows", bags(11, 83, [3, 3, 9, 10, 17], 17), lambda *g: in_bags(*g, "max")[3])
add("embedding_bag_rows", bags(7, 13, [0, 30, 33], 40, "i4"), lambda *g: in_bags(*g, "max")[3], padding_idx=2)
add(
    "embedding_bag_rows",
    lambda rng: [rng.integers(0, 40, 60), rng.integers(0, 3, (40, 21)).astype("f4"), np.array([25, 60])],
    lambda *g: in_bags(*g, "max")[3],
    name="equal ones",
)

add("tile", normal((2, 19, 3, 5)), dims=[1, 2, 3, 2])
add("tile", normal((5, 3)), dims=[2, 3, 1, 7])
add("tile", normal((2, 3, 1, 2, 2)), dims=[3, 2, 4, 2, 3])  # each dimension: ten of factors and sizes
add("tile", lambda rng: [rng.integers(-9, 9, (2, 3, 4)).astype(np.int8)], dims=[3])
add("channel_shuffle", normal((2, 38, 3, 5)), groups=2)
add("channel_shuffle", normal((1, 33, 4, 4)), groups=3)
add("channel_shuffle", normal((3, 20, 7)), groups=5)
add("channel_shuffle", normal((2, 3, 4, 4)), groups=1)
add("channel_shuffle", lambda rng: [rng.integers(-9, 9, (2, 24, 3, 3)).astype(np.int8)], groups=4)


def interleaved(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    z = torch.cat(t, 1).unflatten(1, (a.get("groups", 2), -1)).transpose(1, 2).flatten(1, 2)
    return z.split(a.get("sections", [z.shape[1]]), 1)


add("interleave", normal((2, 19, 3, 5), (2, 19, 3, 5)), interleaved, sections=[18, 20])
add("interleave", normal((2, 19, 3, 5), (2, 19, 3, 5)), interleaved, sections=[7, 30, 1])
add("interleave", normal((1, 6, 4), (1, 6, 4)), interleaved)
add("interleave", normal((2, 20, 3, 5), (2, 20, 3, 5)), interleaved, groups=20, sections=[20, 20])
add("interleave", normal((2, 9, 3, 5), (2, 9, 3, 5)), interleaved, groups=9, sections=[7, 11])
add("interleave", normal((2, 9, 7), (2, 9, 7)), interleaved, groups=3)
add("interleave", lambda rng: [rng.integers(-9, 9, (2, 24, 3)).astype(np.int8) for _ in range(2)], interleaved)

add("reorder", normal(X4), lambda torch, f, t, a: t[0], target="nChw16c")
add("reorder", normal(X4), lambda torch, f, t, a: t[0], target="NHWC", dtype="f16", tolerance=1e-3)


def put_to(shape: tuple[int, ...], index: tuple[int, ...], size: int, src: tuple[int, ...] | None = None):
    return lambda rng: [
        rng.standard_normal(shape).astype("f4"),
        rng.integers(-size, size, index),
        rng.standard_normal(src or index).astype("f4"),
    ]


def put_once(shape: tuple[int, ...], dim: int, count: int):
    """Places of which none comes twice, the same ones along the other dimensions."""

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        src = list(shape)
        src[dim] = count
        index = rng.permutation(shape[dim])[:count].reshape([count if i == dim else 1 for i in range(len(shape))])
        return [rng.standard_normal(shape).astype("f4"), index, rng.standard_normal(src).astype("f4")]

    return make


def last_put(torch: Any, f: Any, x: Any, dim: int, index: Any, src: Any) -> Any:
    """The definition, in PyTorch: there it is open which of several elements that are put to one place stays."""
    shape = [n if d == dim else m for d, (n, m) in enumerate(zip(src.shape, x.shape, strict=True))]
    last = np.full(x.shape, -1)
    inside = last[tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(src.shape))]
    for j in range(src.shape[dim]):
        np.put_along_axis(inside, np.take(index.numpy(), [j], dim), j, dim)
    missing = [(0, n - m) for n, m in zip(shape, src.shape, strict=True)]
    padded = f.pad(src, [each for pair in reversed(missing) for each in pair])
    if src.shape[dim] == 0:
        return x + 0
    there = torch.from_numpy(last)
    return torch.where(there >= 0, padded.gather(dim, there.clamp(min=0)), x)


def scattered(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    dim = a["dim"] % t[0].dim()
    index = wrapped(t[1], t[0].shape[dim]).expand(t[2].shape)
    reduce = a.get("reduce", "none")
    if reduce == "none":
        return last_put(torch, f, t[0], dim, index, t[2])
    if t[0].is_floating_point():
        return t[0].scatter_reduce(dim, index.long(), t[2], reduce, include_self=True)
    wide = t[0].long().scatter_reduce(dim, index.long(), t[2].long(), reduce, include_self=True)
    return wide.to(t[0].dtype)  # integers wrap around


def scattered_nd(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """As scatter, with the dimensions that are indexed made one."""
    x, index, src = t
    depth = index.shape[-1]
    place = torch.zeros(index.shape[:-1], dtype=torch.int64)
    for d in range(depth):
        place = place * x.shape[d] + wrapped(index[..., d], x.shape[d])
    flat = x.reshape(math.prod(x.shape[:depth]), -1)
    made = scattered(torch, f, [flat, place.reshape(-1, 1), src.reshape(place.numel(), flat.shape[1])], {**a, "dim": 0})
    return made.reshape(x.shape)


add("scatter", put_once((3, 19, 5), 1, 7), scattered, dim=1, name="rows")
add("scatter", put_once((40, 8, 3, 3), 0, 30), scattered, dim=0, name="images")
add("scatter", put_once((6, 5), -1, 1), scattered, dim=-1, name="one")
for _reduce in ("sum", "prod", "amax", "amin"):
    add("scatter", put_to((4, 6, 5), (4, 9, 3), 6), scattered, dim=1, reduce=_reduce)
    add("scatter_nd", put_to((4, 6, 5), (7, 2), 4, (7, 5)), scattered_nd, reduce=_reduce)
add("scatter", put_to((5, 70), (9, 1), 5, (9, 70)), scattered, dim=0, reduce="sum", name="broadcast")
add("scatter", put_to((2, 3, 70), (0, 9, 1), 3, (0, 9, 70)), scattered, dim=1, reduce="sum", name="nothing")
add("scatter_nd", put_to((300, 70), (2, 3, 1), 300, (2, 3, 70)), scattered_nd)
add("scatter_nd", put_to((4, 5), (3, 2), 4, (3,)), scattered_nd, name="elements")
add("scatter_nd", put_to((4, 5), (0, 2), 4, (0,)), scattered_nd, name="nothing")


def folded(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """Element by element of the windows, in any number of dimensions and with different padding on both sides."""
    sizes, spatial = a["output_size"], len(a["output_size"])
    kernel, stride, dilation = ([a.get(k, 1)] * spatial if isinstance(a.get(k, 1), int) else a[k] for k in
                                ("kernel_size", "stride", "dilation"))  # fmt: skip
    pads = a.get("padding", [0] * 2 * spatial)
    begins, ends = pads[:spatial], pads[spatial:]
    padded = [size + b + e for size, b, e in zip(sizes, begins, ends, strict=True)]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    windows = [(size - r) // s + 1 for size, r, s in zip(padded, reach, stride, strict=True)]
    x = t[0].reshape(t[0].shape[0], -1, *kernel, *windows)
    y = torch.zeros(*x.shape[:2], *padded, dtype=x.dtype)
    for k in np.ndindex(*kernel):
        at = [slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, n, s in zip(k, dilation, windows, stride, strict=True)]
        y[(..., *at)] += x[(slice(None), slice(None), *k)]
    return y[(..., *[slice(b, b + size) for b, size in zip(begins, sizes, strict=True)])]


add("fold", normal((2, 19 * 6, 8 * 8)), output_size=[9, 10], kernel_size=[2, 3])
add("fold", normal((2, 17 * 9, 4 * 4)), output_size=[9, 10], kernel_size=3, dilation=2, padding=1, stride=2)
add("fold", normal((1, 33 * 4, 2 * 3)), output_size=[7, 8], kernel_size=2, stride=3)  # rows that no window has
add("fold", normal((3, 5 * 3, 6)), folded, output_size=[11], kernel_size=[3], stride=2, padding=[1, 1])
add(
    "fold",
    normal((2, 9 * 12, 3 * 2 * 4)),
    folded,
    output_size=[4, 5, 6],
    kernel_size=[2, 3, 2],
    stride=[1, 2, 2],
    padding=[0, 1, 0, 0, 0, 2],
)
add("fold", normal((0, 3 * 4, 3 * 3)), output_size=[4, 4], kernel_size=2)


def run_of(shape: tuple[int, ...], dim: int, count: int, at: list[int] | int, dtype: str = "f4"):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        update = [count if i == dim % len(shape) else size for i, size in enumerate(shape)]
        x, y = (rng.integers(-99, 99, s).astype(dtype) for s in (shape, update))
        return [x, y, np.array(at)]

    return make


def run_written(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    x, dim = t[0].clone(), a.get("dim", -2) % t[0].dim()
    for n, row in enumerate(x if t[2].dim() else [x]):
        along, update = (dim - 1, t[1][n]) if t[2].dim() else (dim, t[1])
        places = int(t[2].flatten()[n]) + torch.arange(update.shape[along])
        row.index_copy_(along, places % row.shape[along] if a.get("circular") else places, update)
    return x


add("tensor_scatter", run_of((2, 3, 11, 8), -2, 1, 7), run_written, name="one")
add("tensor_scatter", run_of((2, 3, 11, 8), -2, 4, [7, 0]), run_written, name="images")
add("tensor_scatter", run_of((2, 3, 11, 7), -2, 5, [9, 3]), run_written, circular=True, name="wrapped")
add("tensor_scatter", run_of((9, 19, 3), 0, 9, 0), run_written, dim=0, name="whole")
add("tensor_scatter", run_of((4, 70), -1, 13, 57), run_written, dim=-1, name="last")
add("tensor_scatter", run_of((4, 6, 5), 1, 2, 3, "i1"), run_written, dim=1, name="integers")
add("tensor_scatter", run_of((4, 6, 5), 1, 0, 3), run_written, dim=1, name="nothing")


def zeros_among(shape: tuple[int, ...], index: tuple[int, ...], size: int, src: tuple[int, ...] | None = None):
    """Small whole numbers, of which many are zero or equal."""

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        made = put_to(shape, index, size, src)(rng)
        return [rng.integers(-2, 3, each.shape).astype("f4") if each.dtype == "f4" else each for each in made]

    return make


def of_integers(dtype: str, shape: tuple[int, ...], index: tuple[int, ...], size: int, index_dtype: str = "i8"):
    return lambda rng: [
        rng.integers(-100, 100, shape).astype(dtype),
        rng.integers(-size, size, index).astype(index_dtype),
        rng.integers(-100, 100, index).astype(dtype),
    ]


# Places that come often, in rows of an index that is longer than a tile of a sort, and in part of x alone.
add("scatter", put_to((4, 6, 5), (4, 9, 3), 6), scattered, dim=-2, name="last")
add("scatter", put_to((9, 37), (9, 50), 37), scattered, dim=-1, reduce="sum", name="along rows")
add("scatter", put_to((2, 3, 37), (2, 3, 5), 37), scattered, dim=-1, reduce="amax", name="along rows")
add("scatter", put_to((9, 37), (7, 50), 37), scattered, dim=-1, reduce="sum", name="along some of the rows")
add("scatter", put_to((50, 8), (5000, 1), 50, (5000, 8)), scattered, dim=0, reduce="sum", name="rows of a table")
add("scatter", put_to((7, 3), (2500, 3), 7), scattered, dim=0, name="long")
add("scatter", put_to((2, 19, 3, 5), (1, 30, 2, 5), 19), scattered, dim=1, reduce="amax", name="images")
add("scatter_nd", put_to((6, 5, 3), (40, 2), 5, (40, 3)), scattered_nd, name="last")
for _reduce in ("prod", "amax", "amin"):
    add("scatter", zeros_among((4, 6, 5), (4, 9, 3), 6), scattered, dim=1, reduce=_reduce, name="equal")
    add("scatter_nd", zeros_among((6, 5), (9, 1), 6, (9, 5)), scattered_nd, reduce=_reduce, name="equal")
add("scatter", of_integers("i8", (6, 5), (9, 5), 6, "i4"), scattered, dim=0, reduce="prod", name="s64")
add("scatter", of_integers("i1", (6, 5), (4, 7), 5), scattered, dim=1, reduce="sum", name="s8")
add("scatter", of_integers("i4", (6, 5), (9, 5), 6), scattered, dim=0, reduce="amin", name="s32")
add("scatter", lambda rng: [np.zeros((3, 9), "?"), rng.integers(0, 9, (3, 4)), np.ones((3, 4), "?")], scattered, dim=1)
