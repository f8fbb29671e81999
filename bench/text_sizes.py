"""One plan of BERT-base for every length, beside plans of fixed lengths, ONNX Runtime and OpenVINO.

    python -m bench.text_sizes --lengths 64

The file has the length as a named axis. Lengths from 8 to 384 come in a random order, each new to all engines. First
calls: the 95th percentile of seconds, and the median of what one takes beyond the least of three more at its length.
Memory: what the process of pylayout alone grows by from the longest one, run first, to the last, and as a part of what
it held. Steady: median times in turns at a few lengths; `static` is a plan compiled for that length alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pylayout as pl
from pylayout.cli.terminal import Table

from . import text_models
from .engines import onnxruntime_session, openvino_model
from .record import write
from .training_memory import status
from .turns import relative_error, take_turns

LONGEST = 384


def export(path: Path) -> None:
    import torch

    with torch.no_grad():
        torch.onnx.export(
            text_models.build("bert"),
            (text_models.tokens_for("bert", 1),),
            str(path),
            dynamo=False,
            opset_version=17,
            input_names=["ids"],
            output_names=["y"],
            dynamic_axes={"ids": {1: "s"}, "y": {1: "s"}},
        )


def tokens(length: int) -> Any:
    return np.random.default_rng(length).integers(0, text_models.WORDS, (1, length))


def lengths_of(count: int) -> list[int]:
    return [int(n) for n in np.random.default_rng(0).permutation(np.linspace(8, LONGEST, count).astype(int))]


def grown(path: Path, count: int, threads: int) -> dict[str, int]:
    """Bytes that this process holds after the longest length, and after all."""
    plan = pl.compile(str(path), device="cpu", threads=threads)
    plan.run(tokens(LONGEST))
    before = status("VmRSS")
    for length in lengths_of(count):
        plan.run(tokens(length))
    return {"before": before, "after": status("VmRSS")}


def seconds_of(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(path: Path, options: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    session = onnxruntime_session(path, options.threads)
    request = openvino_model(path, options.threads).create_infer_request()
    plan = pl.compile(str(path), device="cpu", threads=options.threads)
    engines: dict[str, Callable[[Any], Any]] = {
        "pylayout": lambda x: plan.run(x)[0],
        "onnxruntime": lambda x: session.run(None, {"ids": x})[0],
        "openvino": lambda x: request.infer([x])[0],
    }
    first: dict[str, list[float]] = {name: [] for name in engines}
    beyond: dict[str, list[float]] = {name: [] for name in engines}
    lengths = lengths_of(options.lengths)
    for length in lengths:
        x = tokens(length)
        for name, run in engines.items():
            once = seconds_of(lambda run=run, x=x: run(x))  # type: ignore[misc]
            met = min(seconds_of(lambda run=run, x=x: run(x)) for _ in range(3))  # type: ignore[misc]
            first[name].append(once)
            beyond[name].append(once - met)
    calls: list[dict[str, Any]] = [
        {
            "engine": name,
            "first_s": float(f"{np.percentile(first[name], 95, method='higher'):.4g}"),
            "beyond_s": float(f"{statistics.median(beyond[name]):.4g}"),
        }
        for name in engines
    ]
    steady = []
    for length in lengths[: options.steady]:
        x = tokens(length)
        static = pl.compile(str(path), shapes={"ids": x.shape}, device="cpu", threads=options.threads)
        ms = take_turns(
            {name: lambda run=run, x=x: run(x) for name, run in engines.items()}  # type: ignore[misc]
            | {"static": lambda static=static, x=x: static.run(x)[0]},  # type: ignore[misc]
            options.rounds,
        )
        error = relative_error(engines["pylayout"](x), engines["onnxruntime"](x))
        steady.append({"length": length, "ms": ms, "error": error})
    return calls, steady


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--lengths", type=int, default=64, help="how many, from 8 to 384")
    parser.add_argument("--steady", type=int, default=4, help="of these so many run steadily")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--files", type=Path, help="a folder that keeps the ONNX file")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--grown", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.grown:
        print(json.dumps(grown(options.grown, options.lengths, options.threads)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = (options.files or Path(folder)) / "text_sizes_bert.onnx"
        if not path.exists():
            export(path)
        command = [sys.executable, "-m", "bench.text_sizes", "--grown", str(path), "--lengths", str(options.lengths)]
        held = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        calls, steady = measure(path, options)
    share = held["after"] / held["before"] - 1
    table = Table(["engine", "first ms, 95th", "beyond a met length, median"])
    for row in calls:
        table.add(row["engine"], f"{1e3 * row['first_s']:.0f}", f"{1e3 * row['beyond_s']:.0f}")
    print(table.render())
    print(f"memory: {held['before'] >> 20} MiB after the longest length, {100 * share:+.1f}% after {options.lengths}")
    table = Table(["length", "late ms", "late/static", "peer/late", "error"])
    for row in steady:
        ms = row["ms"]
        peer = min(ms["onnxruntime"], ms["openvino"]) / ms["pylayout"]
        ratio = ms["pylayout"] / ms["static"]
        table.add(str(row["length"]), f"{ms['pylayout']:.1f}", f"{ratio:.2f}", f"{peer:.2f}", f"{row['error']:.0e}")
    print(table.render())
    if options.json:
        write(options.json, "text_sizes", [{"memory": held}, *calls, *steady], device="cpu")


if __name__ == "__main__":
    main()
