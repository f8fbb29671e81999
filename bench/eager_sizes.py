"""Eager calls at lengths that change: what a call at a length never seen costs beside the same length again.

    python -m bench.eager_sizes

Each op runs at lengths drawn from 8 to 384 (images: from 32 to 128 a side), first those of a warm-up, then `--lengths`
others. `new` is a call at a length that none had before, `again` a second round over the same lengths, both medians,
with the 95th percentile of `new`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pylayout as pl
from pylayout import ops
from pylayout.cli.terminal import Table

from .record import write

CASES = ["matmul", "linear", "scores", "softmax", "block", "conv2d"]


def _array(*shape: int) -> Any:
    return pl.asarray(np.random.default_rng(0).standard_normal(shape, dtype="f4"))


def _block(width: int) -> Callable[[Any], Any]:
    """Six ops linked by their results: a contest of layouts is held over them."""
    first, second = _array(4 * width, width), _array(width, 4 * width)
    scale, shift = _array(width), _array(width)

    def run(x: Any) -> Any:
        y = ops.layer_norm(x, (width,), scale, shift)
        y = ops.linear(ops.gelu(ops.linear(y, first)), second)
        return ops.softmax(ops.add(x, y), -1)

    return run


def cases() -> dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]]:
    """By name: what makes the input of a length, and what runs."""
    weight, filters = _array(256, 256), _array(32, 32, 3, 3)
    return {
        "matmul": (lambda n: _array(1, n, 256), lambda x: ops.matmul(x, weight)),
        "linear": (lambda n: _array(1, n, 256), lambda x: ops.linear(x, weight)),
        "scores": (lambda n: _array(4, n, 64), lambda x: ops.matmul(x, x, transpose_b=True)),
        "softmax": (lambda n: _array(4, n, n), lambda x: ops.softmax(x, -1)),
        "block": (lambda n: _array(1, n, 256), _block(256)),
        "conv2d": (
            lambda n: _array(1, 32, 32 + n // 4, 32 + n // 4 + n % 4),
            lambda x: ops.conv2d(x, filters, padding=1),
        ),
    }


def measure(make: Callable[[int], Any], run: Callable[[Any], Any], warm_up: int, lengths: int) -> dict[str, float]:
    drawn = np.random.default_rng(1).permutation(np.arange(8, 385)).tolist()

    def timed(some: list[int]) -> list[float]:
        times = []
        for length in some:
            x = make(length)
            start = time.perf_counter()
            np.asarray(run(x))
            times.append(1e6 * (time.perf_counter() - start))
        return times

    began = time.perf_counter()
    for _ in range(3):
        timed(drawn[:warm_up])
    warm_up_s = time.perf_counter() - began
    some = drawn[warm_up : warm_up + lengths]
    new, again = timed(some), [min(pair) for pair in zip(timed(some), timed(some), strict=True)]
    return {
        "warm_up_s": warm_up_s,
        "new_us": statistics.median(new),
        "new_95_us": sorted(new)[int(0.95 * len(new))],
        "again_us": statistics.median(again),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("cases", nargs="*", default=CASES, metavar="|".join(CASES))
    parser.add_argument("--warm-up", type=int, default=24, help="lengths, each run three times")
    parser.add_argument("--lengths", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    table = Table(["case", "warm-up s", "new us", "95th", "again us", "new / again"])
    with tempfile.TemporaryDirectory() as folder:
        pl.configure(cache_dir=folder)  # where no length is known from before
        pl.set_threads(options.threads)
        known = cases()
        rows = [{"case": name, **measure(*known[name], options.warm_up, options.lengths)} for name in options.cases]
    for row in rows:
        cells = [f"{row[key]:.0f}" for key in ("new_us", "new_95_us", "again_us")]
        table.add(row["case"], f"{row['warm_up_s']:.2f}", *cells, f"{row['new_us'] / row['again_us']:.1f}")
    print(table.render())
    if options.json:
        write(options.json, "eager_sizes", rows, device="cpu")


if __name__ == "__main__":
    main()
