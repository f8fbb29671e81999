"""What it gives to cut a batch: one model in slices of several sizes, or in chains of layers with sizes of their own.

    python -m bench.slices MODEL.onnx --slice 1 --slice 4 --slice "1,NODE=4" --streams 2
    python -m bench.slices mobilenet_v2 --batch 17 --slice 17 --slice 1 --slice 4

"1,NODE=4" is slices of one image, and of four from NODE (of the simplified graph, as `pylayout explain` names it) on. A
size of which the batch does not hold as many as there are streams is run one at a time, on all threads. A name is
torchvision's network, exported for that batch. Beside the time by the clock stands the processors' time for each
thread: on a busy machine the only one that means something. Programs of one thread each (as many streams as threads)
do not wait for each other within it, those of more threads do.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import pylayout as pl
from pylayout import onnx

from .models import prepare


def parse(text: str) -> int | dict[str, int]:
    first, *others = text.split(",")
    if not others:
        return int(first)
    return {"": int(first), **{node: int(size) for node, _, size in (item.rpartition("=") for item in others)}}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="an ONNX file, or a network of torchvision")
    parser.add_argument("--batch", type=int, default=16, help="for a network of torchvision (default 16)")
    parser.add_argument("--slice", action="append", required=True, help="a size, or sizes by node; may be repeated")
    parser.add_argument("--streams", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="of running (default 60)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        model = options.model
        if not model.endswith(".onnx"):
            model = prepare(model, options.batch, Path(folder))["model"]
        batch = onnx.load(model).describe()["inputs"][0]["shape"][0]
        plans = []
        for size in map(parse, options.slice):
            largest = max(size.values()) if isinstance(size, dict) else size
            streams = options.streams if largest * options.streams <= batch else 1
            plans.append(pl.compile(model, slice=size, streams=streams, seconds=60))
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
            busy[i].append((time.process_time() - used) / pl.get_threads() * 1e3)
    print(
        f"{len(clock[0])} runs each; ms: least and median by the clock, the same of a thread's processor time; memory"
    )
    for text, plan, ms, cpu in zip(options.slice, plans, clock, busy, strict=True):
        arena = plan.summary()["memory"]["arena_bytes"] / 1e6
        times = " ".join(f"{f(values):8.2f}" for values in (ms, cpu) for f in (min, statistics.median))
        print(f"{times} {arena:8.1f} MB  {text}")


if __name__ == "__main__":
    main()
