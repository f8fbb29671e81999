"""What a lever gives: plans with and without it, run in turns in one process.

    python -m bench.without strided_views model.onnx --batch 16 --layout NHWC
    python -m bench.without nest_concats fuse_interleave model.onnx

A lever is a pass, or "strided_views" (parts of tensors written and read where they lie), or "in_place" (results in the
memory of what is read for the last time). One thread, by the core's own time, which other programs disturb less. The
ratio is the time without it over the time with it, of the lower quartiles: above 1, it pays.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import pylayout as pl


def lower_quartile(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 4]


def compare(lever: str, model: str, options: argparse.Namespace) -> None:
    fixed: dict[str, Any] = {
        "device": "cpu",
        "threads": 1,
        "layout": options.layout,
        "tune": options.tune,
        "seconds": 60,
    }
    probe = pl.compile(model, device="cpu", tune="off").inputs
    shapes = {entry["name"]: (options.batch or entry["shape"][0], *entry["shape"][1:]) for entry in probe}
    plans = [pl.compile(model, shapes=shapes, without=lever, **fixed), pl.compile(model, shapes=shapes, **fixed)]
    rng = np.random.default_rng(1)
    tensors = [pl.asarray(rng.standard_normal(shape).astype("float32")) for shape in shapes.values()]
    times: list[list[float]] = [[], []]
    for turn in range(options.rounds + 1):
        for plan, own in zip(plans, times, strict=True):
            begin = time.thread_time()
            plan(*tensors)
            if turn:  # the first run of each touches its memory
                own.append((time.thread_time() - begin) * 1e3)
    slow, fast = (lower_quartile(own) for own in times)
    steps = [len(plan.summary()["steps"]) for plan in plans]
    print(
        f"{lever}: {model}, batch {next(iter(shapes.values()))[0]}: {slow:.3f} ms without ({steps[0]} steps), "
        f"{fast:.3f} ms with ({steps[1]} steps), ratio {slow / fast:.3f}",
        flush=True,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("levers", nargs="+", metavar="LEVER")
    parser.add_argument("model", metavar="FILE.onnx")
    parser.add_argument("--batch", type=int, help="default: the file's")
    parser.add_argument("--layout", default="auto")
    parser.add_argument("--tune", default="off", choices=["off", "auto", "full"])
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args(arguments)
    for lever in options.levers:
        compare(lever, options.model, options)


if __name__ == "__main__":
    main()
