"""OpenCL on the CPU against oneDNN: 3x3 and 1x1 convolutions on every OpenCL CPU device of this machine.

    python -m bench.opencl_cpu --batch 1 16 --cores 1
    python -m bench.opencl_cpu --networks resnet50 --batch 1 --space whole --json out.json

For each distinct 3x3 and 1x1 convolution of the networks (bench/shapes.py, with bias and ReLU) the candidates of each
OpenCL CPU device, of oneDNN and of the host provider take turns in one process, each in the layouts that suit it, the
threads of one asleep while another runs. A ratio is oneDNN's time over the device's, each by its fastest candidate:
above 1 the device is faster, and the target is 0.6. The last column is what dispatch picks for `cpu` where it knows
nothing beforehand. `--clock processor` compares the time of all threads of the process, which other programs disturb
less; it is the default on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from pylayout.cli.terminal import Table

from .programs import program, stream_shapes
from .shapes import CONVOLUTIONS

TARGET = 0.6

Shape = tuple[int, ...]


def cases(networks: list[str], batches: list[int], kernels: list[int]) -> dict[Shape, list[str]]:
    """Shapes (n, c, h, w, oc, k, stride, padding), each with the networks that have it."""
    found: dict[Shape, list[str]] = {}
    for batch in batches:
        for network in networks:
            for _, c, h, w, oc, k, stride, padding, groups in CONVOLUTIONS[network]:
                if groups == 1 and k in kernels:
                    found.setdefault((batch, c, h, w, oc, k, stride, padding), []).append(network)
    return found


def measure(shapes: list[Shape], options: argparse.Namespace) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The devices (name: what it is) and a result for each shape, from a process on `options.cores` processors."""
    processors = sorted(os.sched_getaffinity(0))[: options.cores]
    answers = stream_shapes(
        program("opencl_cpu", options.build),
        [str(len(processors)), str(options.seconds), options.space, options.filter],
        shapes,
        head=1,
        env={**os.environ, "OMP_NUM_THREADS": str(len(processors)), "POCL_MAX_PTHREAD_COUNT": str(len(processors))},
        preexec_fn=lambda: os.sched_setaffinity(0, processors),
    )
    return answers[0], answers[1:]


def text_of(shape: Shape) -> str:
    n, c, h, w, oc, k, stride, _ = shape
    return f"{n}x {c}->{oc} {k}x{k}/{stride} at {h}x{w}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["resnet50", "vgg16", "mobilenet_v2"]
    parser.add_argument("--networks", nargs="+", default=names, choices=list(CONVOLUTIONS))
    parser.add_argument("--batch", type=int, nargs="+", default=[1])
    parser.add_argument("--kernels", type=int, nargs="+", default=[1, 3], help="sizes (default 1 3)")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--clock", choices=("wall", "processor"), help="default: processor on one core, else wall")
    parser.add_argument("--space", choices=("start", "whole"), default="start", help="points of the tuning spaces")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only OpenCL candidates whose key has it")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each shape (default 0.5)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th shape, for a quick look")
    parser.add_argument("--build", metavar="FOLDER", help="a CMake build folder (default: build/bench)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    clock = options.clock or ("processor" if options.cores == 1 else "wall")
    field = "processor_ms" if clock == "processor" else "ms"
    users = cases(options.networks, options.batch, options.kernels)
    shapes = list(users)[:: options.every]
    known, rows = measure(shapes, options)
    devices = [name for name in known if any(way["runner"] == name for row in rows for way in row["ways"])]
    if not devices:
        sys.exit("no OpenCL CPU device; `pylayout devices` says how to add one")
    for name in devices:
        print(f"{name}: {known[name]}")
    columns = ["layer", "oneDNN us", "GFLOP/s", "host us"]
    for name in devices:
        columns += [f"{name} us", "GFLOP/s", "ratio", "layout", "by"]
    left = {0, len(columns)} | {i for i, column in enumerate(columns) if column in ("layout", "by")}
    columns.append("dispatch picks")
    table = Table(columns, tuple(column for i, column in enumerate(columns) if i not in left))
    ratios: dict[str, dict[str, list[float]]] = {name: {} for name in devices}
    for row in rows:
        best = {way["runner"]: way for way in row["ways"]}
        us = {runner: 1e3 * way[field] for runner, way in best.items()}
        cells = [text_of(tuple(row["shape"])), f"{us['onednn']:.1f}", f"{row['flops'] / us['onednn'] / 1e3:.0f}"]
        cells.append(f"{us['host']:.1f}" if "host" in us else "-")
        for name in devices:
            if name not in us:
                cells += ["-"] * 5
                continue
            ratio = row.setdefault("ratios", {})[name] = us["onednn"] / us[name]
            kernel = f"{row['shape'][5]}x{row['shape'][5]}, batch {row['shape'][0]}"
            for key in (kernel, "all"):
                ratios[name].setdefault(key, []).append(ratio)
            by = best[name]["key"].split("/")[1].replace("conv_fwd_", "").replace("TILE_", "")
            cells += [f"{us[name]:.1f}", f"{row['flops'] / us[name] / 1e3:.0f}", f"{ratio:.2f}"]
            cells += [best[name]["layout"], by]
        cells.append("/".join(row["chosen"].split("/")[:2]))
        table.add(*cells)
    table.print()
    summary: dict[str, Any] = {}
    for name in devices:
        for key, values in sorted(ratios[name].items()):
            low = sum(value < TARGET for value in values)
            mean = statistics.geometric_mean(values)
            summary.setdefault(name, {})[key] = {"mean": mean, "least": min(values), "below": low}
            print(
                f"{name}, {key}: geometric mean {mean:.2f}, least {min(values):.2f}, "
                f"{low} of {len(values)} below {TARGET}, {sum(value > 1 for value in values)} above 1"
            )
    worst = max(way["error"] for row in rows for way in row["ways"] if way["runner"] in devices)
    print(f"by the {clock}'s time on {options.cores} cores; largest error {worst:.1e}")
    if options.json:
        result = {"devices": known, "cores": options.cores, "clock": clock, "summary": summary, "rows": rows}
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
