"""What it gives to cut a batch: one model in slices of several sizes, or in chains of layers with sizes of their own.

    python -m bench.slices MODEL.onnx --slice 1 --slice 4 --slice "1,NODE=4" --streams 2

"1,NODE=4" is slices of one image, and of four from NODE (of the simplified graph, as `pylayout explain` names it) on.
Beside the time by the clock stands the processors' time for each stream: on a busy machine the only one that means
something. Programs of one thread each (as many streams as threads) do not wait for each other within it.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import pylayout as pl


def parse(text: str) -> int | dict[str, int]:
    first, *others = text.split(",")
    if not others:
        return int(first)
    return {"": int(first), **{node: int(size) for node, _, size in (item.rpartition("=") for item in others)}}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--slice", action="append", required=True, help="a size, or sizes by node; may be repeated")
    parser.add_argument("--streams", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="of running (default 60)")
    options = parser.parse_args(arguments)
    plans = [pl.compile(options.model, slice=parse(text), streams=options.streams) for text in options.slice]
    rng = np.random.default_rng(1)
    inputs = [pl.asarray(rng.standard_normal(item["shape"]).astype("float32")) for item in plans[0].inputs]
    clock: list[list[float]] = [[] for _ in plans]
    busy: list[list[float]] = [[] for _ in plans]
    end = time.monotonic() + options.seconds
    while time.monotonic() < end or len(clock[0]) < 3:
        for i, plan in enumerate(plans):
            began, used = time.perf_counter(), time.process_time()
            plan(*inputs)
            clock[i].append((time.perf_counter() - began) * 1e3)
            busy[i].append((time.process_time() - used) / options.streams * 1e3)
    print(
        f"{len(clock[0])} runs each; ms: least and median by the clock, the same of a stream's processor time; memory"
    )
    for text, plan, ms, cpu in zip(options.slice, plans, clock, busy, strict=True):
        arena = plan.summary()["memory"]["arena_bytes"] / 1e6
        times = " ".join(f"{f(values):8.2f}" for values in (ms, cpu) for f in (min, statistics.median))
        print(f"{times} {arena:8.1f} MB  {text}")


if __name__ == "__main__":
    main()
