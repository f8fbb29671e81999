"""How much the plans of first compilations differ: each made in a process of its own from an empty cost database.

    python -m bench.first_compile efficientnet_b0.onnx googlenet.onnx --compilations 10
    python -m bench.first_compile model.onnx --hog 1

The plans are saved, then loaded into one process and run in turns. A plan's ratio is its time over that of the best
plan seen; the time is the sum over the steps of the second least that each took in all runs, which other programs
disturb less than whole runs. The worst ratio of a network is what a first compilation may cost. With
--hog, so many processes that do nothing but count run beside every second compilation (not beside the turns). --keep
FOLDER keeps the plans and their summaries; plans that lie there already take part in the turns, older ones too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pylayout.cli.terminal import Table, ms_text

from .record import write


def typical(values: list[float]) -> float:
    """On a busy machine most runs are disturbed; the least alone would reward a single lucky run."""
    return sorted(values)[1]


def compile_here(model: str, target: str, seconds: float, threads: int) -> None:
    """In a process of its own: compiles, saves the plan and what `summary()` says about it."""
    import pylayout as pl

    begin = time.perf_counter()
    plan = pl.compile(model, device="cpu", threads=threads, seconds=seconds)
    took = time.perf_counter() - begin
    plan.save(target)
    Path(target + ".json").write_text(json.dumps({"seconds": took, **plan.summary()}) + "\n", "utf-8")


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """So many processes that keep a processor busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def make_plans(model: str, folder: Path, options: argparse.Namespace) -> None:
    for number in range(options.compilations):
        hogged = options.hog > 0 and number % 2 == 1
        target = folder / f"{Path(model).stem}-{options.label}{number}{'h' if hogged else ''}.plan"
        with tempfile.TemporaryDirectory() as cache, hogs(options.hog if hogged else 0):
            arguments = [model, "--worker", str(target), "--seconds", str(options.seconds)]
            arguments += ["--threads", str(options.threads)]
            subprocess.run(
                [sys.executable, "-m", "bench.first_compile", *arguments],
                env={**os.environ, "PYLAYOUT_CACHE_DIR": cache},
                check=True,
            )


def take_turns(model: str, folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    import pylayout as pl

    files = sorted(folder.glob(f"{Path(model).stem}-*.plan"))
    plans = [pl.load_plan(str(file)) for file in files]
    rng = np.random.default_rng(1)
    tensors = [pl.asarray(rng.standard_normal(entry["shape"]).astype("float32")) for entry in plans[0].inputs]
    times: list[list[list[float]]] = [[] for _ in plans]  # by plan and run, of each step
    for turn in range(options.rounds + 1):
        for plan, own in zip(plans, times, strict=True):
            plan(*tensors)  # brings its weights nearer
            for _ in range(3):
                with pl.profile() as profile:
                    plan(*tensors)
                if turn:
                    own.append([event["ms"] for event in profile.events])
    typically = [sum(typical(list(step)) for step in zip(*own, strict=True)) for own in times]
    rows = []
    for file, ms in zip(files, typically, strict=True):
        summary = json.loads(Path(f"{file}.json").read_text("utf-8"))
        rows.append(
            {
                "plan": file.stem,
                "ms": ms,
                "ratio": ms / min(typically),
                "seconds": summary["seconds"],
                "reorders": summary["reorders"]["count"],
            }
        )
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="FILE.onnx")
    parser.add_argument("--compilations", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60, help="for each compilation (default 60)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--hog", type=int, default=0, metavar="PROCESSES")
    parser.add_argument("--keep", metavar="FOLDER")
    parser.add_argument("--label", default="", help="put into the names of the plans made")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        compile_here(options.models[0], options.worker, options.seconds, options.threads)
        return
    every: list[dict[str, Any]] = []
    table = Table(("plan", "ms", "ratio", "compiled in s", "reorders"), ("ms", "ratio", "compiled in s", "reorders"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for model in options.models:
            make_plans(model, folder, options)
            rows = take_turns(model, folder, options)
            for row in rows:
                table.add(
                    row["plan"], ms_text(row["ms"]), f"{row['ratio']:.3f}", f"{row['seconds']:.1f}", row["reorders"]
                )
            every += rows
            worst = max(row["ratio"] for row in rows)
            print(f"{Path(model).stem}: the worst of {len(rows)} plans takes {worst:.3f} times the best", flush=True)
    table.print()
    if options.json:
        write(options.json, "first_compile", every, threads=options.threads)


if __name__ == "__main__":
    main()
