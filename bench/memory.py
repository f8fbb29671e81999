"""Memory of a process that compiles a model and runs it: pylayout and ONNX Runtime, each in a process of its own.

    python -m bench.memory resnet50 vit_b_16 bert.onnx --runs 1 60 --json out.json
    python -m bench.memory resnet50 vgg16 --device opencl:0 --work inference training --batch 1 16 --json out.json

A process imports the engine, compiles with empty caches and runs the model so many times. `resident` is what it holds
then, `peak` the most that it held. Ratios are pylayout's over ONNX Runtime's: below 1, pylayout needs less.

With `--device` it is the memory of that OpenCL device, of torchvision's networks, in inference or in a step of
training, beside PyTorch's on CUDA where there is that (bench/device_memory.py). Steps of training on the processor:
`python -m bench.training_memory`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pylayout.cli.terminal import Table

from . import device_memory
from .engines import onnxruntime_session
from .first_result import exported
from .record import write
from .training_memory import status

ENGINES = ("pylayout", "onnxruntime")  # on the processor


def of_pylayout(model: str, runs: int, threads: int) -> object:
    import pylayout as pl

    plan = pl.compile(model, device="cpu", threads=threads)
    inputs = [np.ones(x["shape"], np.int64 if x["dtype"] == "s64" else np.float32) for x in plan.inputs]
    for _ in range(runs):
        plan.run(*inputs)
    return plan


def of_onnxruntime(model: str, runs: int, threads: int) -> object:
    session = onnxruntime_session(model, threads)
    inputs = {
        x.name: np.ones(
            [size if isinstance(size, int) else 1 for size in x.shape], np.int64 if "int64" in x.type else np.float32
        )
        for x in session.get_inputs()
    }
    for _ in range(runs):
        session.run(None, inputs)
    return session


def child(engine: str, model: str, runs: int, threads: int) -> dict[str, int]:
    words = [sys.executable, "-m", "bench.memory", model, "--engine", engine]
    words += ["--runs", str(runs), "--threads", str(threads)]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYLAYOUT_CACHE_DIR": cache}
        text = subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout
    result: dict[str, int] = json.loads(text.splitlines()[-1])
    return result


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["resnet50", "vit_b_16"], help="of torchvision, or FILE.onnx")
    parser.add_argument("--runs", type=int, nargs="+", default=[1])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cpu, or opencl:0 for the memory of that device")
    parser.add_argument("--work", nargs="+", default=["inference"], choices=device_memory.WORK, help="on a device")
    parser.add_argument("--batch", type=int, nargs="+", default=[1], help="on a device")
    parser.add_argument("--tune", default="auto", choices=["off", "auto", "live", "full"], help="on a device")
    parser.add_argument("--memory-limit", type=int, metavar="BYTES", help="of the plan, on a device")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--engine", choices=[*ENGINES, "torch"], help=argparse.SUPPRESS)  # one process
    options = parser.parse_args(arguments)
    if options.device != "cpu":
        if options.engine:
            device_memory.print_one(options)
            return
        rows_of_device = device_memory.measure(options)
        if options.json:
            write(options.json, "memory", rows_of_device, device=options.device)
        return
    if options.engine:
        run = of_pylayout if options.engine == "pylayout" else of_onnxruntime
        held = run(options.models[0], options.runs[0], options.threads)
        print(json.dumps({"resident": status("VmRSS"), "peak": status("VmHWM")}))
        del held  # not before
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            model = exported(name, Path(folder))
            for runs in options.runs:
                own, peer = (child(engine, model, runs, options.threads) for engine in ENGINES)
                row: dict[str, Any] = {"model": Path(name).stem, "runs": runs}
                for key in ("resident", "peak"):
                    row |= {f"{key}_mb": round(own[key] / 1e6), f"onnxruntime_{key}_mb": round(peer[key] / 1e6)}
                    row[f"{key}_ratio"] = round(own[key] / peer[key], 2)
                rows.append(row)
                print(json.dumps(rows[-1]), flush=True)
    headings = ["model", "runs", "resident MB", "of ONNX Runtime", "ratio", "peak MB", "of ONNX Runtime", "ratio"]
    table = Table(headings, right=headings[1:])
    for row in rows:
        table.add(*(str(value) for value in row.values()))
    print(table.render())
    if options.json:
        write(options.json, "memory", rows, threads=options.threads)


if __name__ == "__main__":
    main()
