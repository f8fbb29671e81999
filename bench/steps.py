"""What a step of a plan costs beside its work, and whether memory grows over many runs.

    python -m bench.steps --steps 200 --runs 10000

A chain of ops on 16 elements: nearly all of the time is the executor's and the kernels' own entry. The target is a
microsecond a step. Memory: the process's and the pool's, before and after the runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

import pylayout as pl


def resident_kilobytes() -> int:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--runs", type=int, default=10000)
    options = parser.parse_args(arguments)
    times = {}
    for steps in (1, options.steps):
        graph = pl.Graph()
        value = graph.input("x", (1, 16))
        for i in range(steps):  # two ops in turn, which no pass makes one
            value = graph.tanh(value) if i % 2 else graph.softmax(value, 1)
        graph.output(value, "y")
        plan = pl.compile(graph, device="cpu", seconds=60)
        x = pl.asarray(np.linspace(-1, 1, 16, dtype="float32").reshape(1, 16))
        samples = []
        for _ in range(50):
            begin = time.perf_counter()
            for _ in range(20):
                plan(x)
            samples.append((time.perf_counter() - begin) / 20 * 1e6)
        times[steps] = statistics.median(samples)
        taken = plan.summary()["ops"]
        print(f"{taken} steps: {times[steps]:.2f} us a run")
    per_step = (times[options.steps] - times[1]) / (options.steps - 1)
    print(f"a step, its work on 16 elements included: {per_step:.3f} us")
    before, pool = resident_kilobytes(), pl.memory("cpu")
    for _ in range(options.runs):
        plan(x)
    after, pool_after = resident_kilobytes(), pl.memory("cpu")
    growth = pool_after["in_use"] - pool["in_use"]
    print(f"{options.runs} runs: resident memory {after - before:+d} KiB, pool {growth:+d} B")


if __name__ == "__main__":
    main()
