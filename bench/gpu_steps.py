"""Where the time of a network's plan goes on a GPU: every step by the device's own clock, and what enqueueing costs.

    python -m bench.gpu_steps densenet161 efficientnet_b0 --batch 16 --math fp16 tf32 --json out.json

For each network and math: steps summed up by what runs them, the dearest ones, the bytes that they move, their rates;
the sum of all; the time of a run until the device is done, and of its enqueueing alone (by the host's clock). Where the
last two are near each other the network is bound by launches.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pylayout as pl
from pylayout.cli.terminal import Table

from .gpu import add_device
from .gpu_models import complete, theirs
from .model_files import input_of, module_of
from .record import write
from .torchvision_models import write_onnx


def steps_of(run: Any, times: int = 5) -> list[dict[str, Any]]:
    """The events of a run, their times the medians of several."""
    recordings = []
    for _ in range(times):
        with pl.profile() as recording:
            run()
        recordings.append(recording.events)
    steps = recordings[0]
    for i, step in enumerate(steps):
        step["ms"] = statistics.median(events[i]["ms"] for events in recordings)
    return steps


def seconds(run: Any, device: str, wait: bool, rounds: int = 30) -> float:
    samples = []
    for _ in range(rounds):
        pl.synchronize(device)
        start = time.perf_counter()
        run()
        if wait:
            pl.synchronize(device)
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def report(row: dict[str, Any], steps: list[dict[str, Any]], most: int) -> None:
    totals: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0])
    for step in steps:
        total = totals[f"{step['op']} {step['implementation'].partition('[')[0]}"]
        for i, value in enumerate((1, step["ms"], step["bytes"], step["flops"])):
            total[i] += value
    table = Table(("by", "steps", "us", "GB/s", "TFLOP/s"))
    for name, (count, ms, moved, flops) in sorted(totals.items(), key=lambda item: -item[1][1]):
        table.add(name, str(int(count)), f"{1e3 * ms:.1f}", f"{moved / ms / 1e6:.0f}", f"{flops / ms / 1e9:.1f}")
    table.print()
    dearest = sorted(steps, key=lambda step: -step["ms"])[:most]
    table = Table(("us", "GB/s", "TFLOP/s", "step", "implementation", "of", "to"))
    for step in dearest:
        ms = max(step["ms"], 1e-6)
        cells = [f"{1e3 * ms:.1f}", f"{step['bytes'] / ms / 1e6:.0f}", f"{step['flops'] / ms / 1e9:.1f}"]
        table.add(*cells, f"{step['op']} {step['cause']}"[:40], step["implementation"], " ".join(step["inputs"][:2]),
                  " ".join(step["outputs"]))  # fmt: skip
    table.print()
    print(json.dumps({key: value for key, value in row.items() if key != "steps"}), flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["resnet50"])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--math", nargs="+", default=["fp32"], choices=("fp32", "tf32", "fp16"))
    add_device(parser)
    parser.add_argument("--seconds", type=float, default=60.0, help="for measuring, of one compilation (default 60)")
    parser.add_argument("--without", nargs="+", default=[], metavar="PASS", help="passes of the graph to leave out")
    parser.add_argument("--most", type=int, default=25, help="dearest steps shown (default 25)")
    parser.add_argument("--peers", action="store_true", help="PyTorch's cuDNN as well")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    complete(parser, options)
    device = options.device
    import torch

    torch.set_grad_enabled(False)
    rows = []
    for network in options.networks:
        module, x = module_of(network), input_of(network, options.batch)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            write_onnx(module, x, path)
            for math in options.math:
                start = time.perf_counter()
                plan = pl.compile(path, device=device, math=math, seconds=options.seconds, without=options.without)
                row: dict[str, Any] = {"network": network, "batch": options.batch, "math": math}
                row["compile_s"] = round(time.perf_counter() - start, 1)
                given = pl.asarray(x.numpy(), device=device)
                for _ in range(5):
                    plan(given)
                steps = steps_of(lambda plan=plan, given=given: plan(given))
                row["steps_ms"] = round(sum(step["ms"] for step in steps), 4)
                row["count"] = len(steps)
                row["wall_ms"] = round(1e3 * seconds(lambda plan=plan, given=given: plan(given), device, True), 4)
                row["enqueue_ms"] = round(1e3 * seconds(lambda plan=plan, given=given: plan(given), device, False), 4)
                row["contestants"] = plan.summary()["contestants"]
                if options.peers:
                    engines = theirs(torch, copy.deepcopy(module), x, math)
                    row["peers"] = {name: round(1e3 * seconds(run, device, False), 4) for name, run in engines.items()}
                print(f"\n{network}, batch {options.batch}, {math}")
                report(row, steps, options.most)
                rows.append({**row, "steps": steps})
                del plan
        if options.json:
            write(options.json, "gpu_steps", rows, device=device)


if __name__ == "__main__":
    main()
