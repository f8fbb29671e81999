"""Ops bound by memory on a GPU, layout by layout: how fast they move the bytes that must be read and written once.

    python -m bench.gpu_memory --batch 64 --json out.json
    python -m bench.gpu_memory --only reorder softmax --dtypes f32

Images are (batch, 256, 56, 56), of f16 twice as many, so that every row moves as many bytes: with half of them, what a
launch costs and its last work-groups weigh twice (a copy had 3.68 TB/s on an H200, where it has 4.14 in f32). Matrices
have as many numbers. At batch 64 they are 205 MB, well beyond the caches. TB/s counts every input and the result once
(of what is selected or cut out: as many bytes as the result has). It stands beside the rate of a copy, and beside what
a copy has on an H200 (`--peak`). Norms in training count what they read twice, as their sums are of whole channels:
no result can be written before all is read. The first and last image, or 64 rows, of each result are checked against
double precision. "runs" is what the profile saw: an op that did not run alone, as where an argument was reordered, is
marked, and ends the benchmark with an error.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import pylayout as pl
from pylayout import ops
from pylayout.cli.terminal import Table, ms_text

from .gpu import add_device, device_of, milliseconds
from .record import write

CHANNELS, HEIGHT, COLUMNS = 256, 56, 1024
LAYOUTS = ("NCHW", "NHWC", "nChw16c")
NUMPY = {"f32": np.float32, "f16": np.float16}


class Case(NamedTuple):
    """An op on tensors of one dtype and layout."""

    name: str
    dtype: str
    layout: str
    run: Callable[[], Any]
    exact: Callable[[Any], Any]  # of `some` images or rows in double precision
    moved: int  # bytes that it must read, and write beside its result


class Tensors:
    """The inputs of one dtype, made once for all ops."""

    def __init__(self, batch: int, dtype: str, device: str) -> None:
        rng = np.random.default_rng(1)
        shape = (batch * 4 // np.dtype(NUMPY[dtype]).itemsize, CHANNELS, HEIGHT, HEIGHT)
        self.device, self.dtype = device, dtype
        x = rng.random(shape, dtype=np.float32) * 2 - 1
        self.array = x.astype(NUMPY[dtype])
        self.image = {"NCHW": pl.asarray(self.array, device=device)}
        self.other = {"NCHW": pl.asarray(self.array[:, ::-1].copy(), device=device)}
        for layout in LAYOUTS[1:]:
            for which in (self.image, self.other):
                which[layout] = ops.reorder(which["NCHW"], layout)
        self.rows = self.array.reshape(-1, COLUMNS)
        self.matrix = pl.asarray(self.rows, device=device)
        self.order = rng.permutation(len(self.rows))
        self.constants = rng.random((4, CHANNELS), dtype=np.float32).astype(NUMPY[dtype]) + NUMPY[dtype](0.5)

    @functools.cached_property
    def moments(self) -> tuple[Any, Any, Any]:
        """Of a channel over all images: mean, 1 / standard deviation, and the mean of x * other, each (c, 1, 1)."""
        mean, square, product = (np.zeros((CHANNELS, 1, 1)) for _ in range(3))
        for image in self.array:
            a = image.astype(np.float64)
            mean += a.mean((1, 2), keepdims=True)
            square += (a * a).mean((1, 2), keepdims=True)
            product += (a * a[::-1]).mean((1, 2), keepdims=True)
        mean, square, product = (sum_ / len(self.array) for sum_ in (mean, square, product))
        return mean, 1 / np.sqrt(square - mean * mean + 1e-5), product

    def standard(self, a: Any) -> Any:
        """Some images with mean 0 and deviation 1 in each channel of all images."""
        mean, inverse, _ = self.moments
        return (a - mean) * inverse

    def slope(self, a: Any) -> Any:
        """The gradient by some images of what `standard` gives, where that by the result is `other`."""
        mean, inverse, product = self.moments
        of_both = (product - mean * mean[::-1]) * inverse
        return inverse * (a[:, ::-1] - mean[::-1] - self.standard(a) * of_both)

    def on_device(self, array: Any) -> Any:
        return pl.asarray(np.ascontiguousarray(array), device=self.device)


def some(array: Any) -> Any:
    """The first and last image, or about 64 rows: what is checked."""
    return array[:: max((len(array) - 1) // (1 if array.ndim > 2 else 63), 1)]


def softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def standard(x: Any, axis: int | tuple[int, ...], eps: float = 1e-5) -> Any:
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)


def slope_of_rows(x: Any, g: Any) -> Any:
    """The gradient by x of `standard(x, -1)`, where that by the result is g."""
    h = standard(x, -1)
    inverse = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return inverse * (g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True))


def adam(x: Any) -> Any:
    """The third step by its gradient in reverse, with x and its squares as the averages so far."""
    g = x[:, ::-1]
    mean, square = 0.9 * x + 0.1 * g, 0.999 * x * x + 0.001 * g * g
    return x - 0.001 * mean / (1 - 0.9**3) / (np.sqrt(square / (1 - 0.999**3)) + 1e-8)


def max_pool(x: Any) -> Any:
    """3x3, stride 2, padding 1."""
    size = (x.shape[2] - 1) // 2 + 1
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    parts = [
        padded[:, :, i : i + 2 * size : 2, j : j + 2 * size : 2][:, :, :size, :size] for i in range(3) for j in range(3)
    ]
    return np.max(parts, axis=0)


def twice(x: Any, axis: int) -> Any:
    """Linear interpolation to twice the size along an axis: a quarter of the one neighbour, three of the other."""
    x = np.moveaxis(x, axis, 0)
    before, after = np.concatenate([x[:1], x[:-1]]), np.concatenate([x[1:], x[-1:]])
    pairs = np.stack([(before + 3 * x) / 4, (3 * x + after) / 4], axis=1)
    return np.moveaxis(pairs.reshape(-1, *x.shape[1:]), 0, axis)


def image_cases(t: Tensors, layout: str) -> Iterator[Case]:
    """What is done to images, in a layout that arguments and result share."""
    x, y = t.image[layout], t.other[layout]
    weight, bias, mean, variance = (t.on_device(row) for row in t.constants)
    w, b, m, v = (row.astype(np.float64)[:, None, None] for row in t.constants)
    column = t.on_device(t.constants[0][:, None, None])
    read = x.nbytes

    def case(name: str, run: Callable[..., Any], exact: Callable[[Any], Any], moved: int = read) -> Case:
        return Case(name, t.dtype, layout, lambda: run(layout=layout), exact, moved)

    yield case("relu", lambda **k: ops.relu(x, **k), lambda a: np.maximum(a, 0))
    yield case("add", lambda **k: ops.add(x, y, **k), lambda a: a + a[:, ::-1], 2 * read)
    yield case("add per channel", lambda **k: ops.add(x, column, **k), lambda a: a + w)
    yield case(
        "batch_norm",
        lambda **k: ops.batch_norm(x, mean, variance, weight, bias, **k),
        lambda a: (a - m) / np.sqrt(v + 1e-5) * w + b,
    )
    yield case("max_pool 3x3/2", lambda **k: ops.max_pool2d(x, 3, 2, 1, **k), max_pool)
    yield case(
        "avg_pool 2x2/2",
        lambda **k: ops.avg_pool2d(x, 2, 2, **k),
        lambda a: a.reshape(*a.shape[:2], HEIGHT // 2, 2, HEIGHT // 2, 2).mean((3, 5)),
    )
    yield case("global_avg_pool", lambda **k: ops.global_avg_pool(x, **k), lambda a: a.mean((2, 3), keepdims=True))
    yield case("sum over channels", lambda **k: ops.sum(x, 1, **k), lambda a: a.sum(1))
    yield case("argmax over channels", lambda **k: ops.argmax(x, 1, **k), lambda a: a.argmax(1))
    yield case("softmax over channels", lambda **k: ops.softmax(x, 1, **k), lambda a: softmax(a, 1))
    yield case(
        "group_norm 32",
        lambda **k: ops.group_norm(x, 32, weight, bias, **k),
        lambda a: standard(a.reshape(len(a), 32, -1), 2).reshape(a.shape) * w + b,
    )
    yield case(
        "group_norm_backward 32",
        lambda **k: ops.group_norm_backward(x, y, 32, weight, **k)[0],
        lambda a: slope_of_rows(*(v.reshape(len(a), 32, -1) for v in (a, a[:, ::-1] * w))).reshape(a.shape),
        4 * read,
    )
    yield case("concat", lambda **k: ops.concat([x, y], 1, **k), lambda a: np.concatenate([a, a[:, ::-1]], 1), 2 * read)
    yield case(
        "slice of channels",
        lambda layout: ops.reorder(ops.slice(x, [0], [CHANNELS // 2], [1]), layout),
        lambda a: a[:, : CHANNELS // 2],
        read // 2,
    )
    yield case(
        "pad 1", lambda **k: ops.pad(x, [1, 1, 1, 1], **k), lambda a: np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
    )
    yield case(
        "nearest x2",
        lambda **k: ops.interpolate(x, scale_factor=2, **k),
        lambda a: a.repeat(2, axis=2).repeat(2, axis=3),
    )
    yield case(
        "bilinear x2",
        lambda **k: ops.interpolate(x, scale_factor=2, mode="bilinear", **k),
        lambda a: twice(twice(a, 2), 3),
    )
    yield case("cumsum over channels", lambda **k: ops.cumsum(x, 1, **k), lambda a: a.cumsum(1))
    _, of_batch, squares = ops.batch_norm_training(x, weight, bias)
    yield case(
        "batch_norm_training",
        lambda **k: ops.batch_norm_training(x, weight, bias, **k)[0],
        lambda a: t.standard(a) * w + b,
        2 * read,
    )
    yield case(
        "batch_norm_backward",
        lambda **k: ops.batch_norm_backward(x, y, of_batch, squares, weight, **k)[0],
        lambda a: t.slope(a) * w,
        4 * read,
    )


def matrix_cases(t: Tensors) -> Iterator[Case]:
    """What is done to rows of a matrix: tokens, classes."""
    x, order = t.matrix, t.on_device(t.order)
    weight, bias = (t.on_device(np.resize(row, COLUMNS)) for row in t.constants[:2])
    w, b = (np.resize(row, COLUMNS).astype(np.float64) for row in t.constants[:2])
    squares, flipped = ops.mul(x, x), t.on_device(t.rows[:, ::-1])
    rate, step = t.on_device(np.array(0.001, np.float32)), t.on_device(np.array(3, np.float32))
    more = {  # bytes, beside one reading and one writing of x
        "gather of rows": order.nbytes,
        "layer_norm_backward": x.nbytes,
        "sgd_step with momentum": 3 * x.nbytes,
        "adam_step": 5 * x.nbytes,
    }
    every: list[tuple[str, Callable[[], Any], Callable[[Any], Any]]] = [
        ("softmax", lambda: ops.softmax(x, -1), lambda a: softmax(a, -1)),
        ("log_softmax", lambda: ops.log_softmax(x, -1), lambda a: np.log(softmax(a, -1))),
        ("layer_norm", lambda: ops.layer_norm(x, COLUMNS, weight, bias), lambda a: standard(a, -1) * w + b),
        ("mean", lambda: ops.mean(x, -1), lambda a: a.mean(-1)),
        ("argmax", lambda: ops.argmax(x, -1), lambda a: a.argmax(-1)),
        ("cumsum", lambda: ops.cumsum(x, -1), lambda a: a.cumsum(-1)),
        ("gather of rows", lambda: ops.index_select(x, 0, order), lambda a: t.rows[some(t.order)]),
        ("transpose", lambda: ops.reorder(ops.transpose(x, 0, 1), "ab"), lambda a: some(t.rows.T)),
        (
            "layer_norm_backward",
            lambda: ops.layer_norm_backward(x, flipped, COLUMNS, weight)[0],
            lambda a: slope_of_rows(a, a[:, ::-1] * w),
        ),
        (
            "sgd_step with momentum",
            lambda: ops.sgd_step(x, flipped, rate, squares, momentum=0.9)[0],
            lambda a: a - 0.001 * (0.9 * a * a + a[:, ::-1]),
        ),
        ("adam_step", lambda: ops.adam_step(x, flipped, rate, x, squares, step)[0], adam),
    ]
    for name, run, exact in every:
        yield Case(name, t.dtype, "rows", run, exact, x.nbytes + more.get(name, 0))


def reorder_cases(t: Tensors, target_dtype: str) -> Iterator[Case]:
    """From every layout to every other; where nothing moves it is a copy."""
    dtype = t.dtype if t.dtype == target_dtype else f"{t.dtype} to {target_dtype}"
    for source in LAYOUTS:
        for target in LAYOUTS:
            if target == source != "NCHW":
                continue
            x, name = t.image[source], "copy" if target == source else f"reorder to {target}"

            def run(x: Any = x, target: str = target) -> Any:
                return ops.reorder(x, target, dtype=target_dtype)

            yield Case(name, dtype, source, run, lambda a: a, x.nbytes)


def all_cases(t: Tensors) -> Iterator[Case]:
    """The copy first, the layouts of an op side by side."""
    yield from reorder_cases(t, t.dtype)
    if t.dtype == "f32":
        yield from reorder_cases(t, "f16")
    yield from matrix_cases(t)
    for layouts in zip(*(image_cases(t, layout) for layout in LAYOUTS), strict=True):
        yield from layouts


def measure(case: Case, exact: Any, options: argparse.Namespace) -> dict[str, Any]:
    result = case.run()
    got, written = some(result).numpy().astype(np.float64), result.nbytes
    row: dict[str, Any] = {"op": case.name, "dtype": case.dtype, "layout": case.layout}
    row["error"] = float(np.linalg.norm(got - exact) / np.linalg.norm(exact))
    del result
    for _ in range(5):  # built and chosen on first sight, and learned from repetition
        case.run()
    with pl.profile() as recording:
        case.run()
    row["runs"] = [event["implementation"].partition("[")[0] for event in recording.events]
    times = [milliseconds(case.run, lambda: pl.synchronize(options.device)) for _ in range(options.rounds)]
    row["ms"] = statistics.median(times)
    row["bytes"] = case.moved + written
    row["tb_s"] = row["bytes"] / row["ms"] / 1e9
    return row


def largest_error(dtype: str) -> float:
    """Norm of the difference over that of the result: sums in f32, results rounded to their dtype."""
    return 1e-5 if dtype == "f32" else 1e-3


def faults(row: dict[str, Any]) -> str:
    wrong = "" if row["error"] <= largest_error(row["dtype"]) else f"WRONG by {row['error']:.1e}"
    return " ".join(filter(None, [wrong, f"{len(row['runs'])} ops" if len(row["runs"]) != 1 else ""]))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="bench.gpu_memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_device(parser)
    parser.add_argument("--batch", type=int, default=64, help="of f32; of f16 twice as many (default 64)")
    parser.add_argument("--dtypes", nargs="+", default=["f32", "f16"], choices=list(NUMPY))
    parser.add_argument("--only", nargs="+", metavar="WORD", help="ops whose name has one of these words, and the copy")
    parser.add_argument("--peak", type=float, default=4.2, metavar="TB/S", help="of the device (default 4.2)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    options.device = device_of(options)
    rows: list[dict[str, Any]] = []
    copy = 0.0  # TB/s
    table = Table(("op", "dtype", "layout", "ms", "TB/s", "of peak", "of copy", "runs", ""), right=("ms", "TB/s"))
    for dtype in options.dtypes:
        tensors = Tensors(options.batch, dtype, options.device)
        images, matrix = (some(array).astype(np.float64) for array in (tensors.array, tensors.rows))
        known: dict[str, Any] = {}  # results of the op at hand, which its layouts share
        for case in all_cases(tensors):
            if options.only and case.name != "copy" and not any(word in case.name for word in options.only):
                continue
            if case.name not in known:
                known = {case.name: np.asarray(case.exact(matrix if case.layout == "rows" else images), np.float64)}
            row = measure(case, known[case.name], options)
            copy = max(copy, row["tb_s"] if case.name == "copy" else 0.0)
            row["of_peak"], row["of_copy"] = row["tb_s"] / options.peak, row["tb_s"] / copy
            rows.append(row)
            cells = [f"{row['tb_s']:.3g}", f"{row['of_peak']:.2f}", f"{row['of_copy']:.2f}", " ".join(row["runs"])]
            table.add(row["op"], row["dtype"], row["layout"], ms_text(row["ms"]), *cells, faults(row))
            if options.json:  # after each, for whom it is ended early
                write(options.json, "gpu_memory", rows, device=options.device, peak_tb_s=options.peak)
    table.print()
    low = [row for row in rows if row["of_peak"] < 0.8]
    print(f"{len(low)} of {len(rows)} below 0.8 of {options.peak:g} TB/s; a copy has {copy:.3g}")
    if any(map(faults, rows)):
        sys.exit("results that are wrong, or ops that did not run alone")


if __name__ == "__main__":
    main()
