"""OpenCL on the CPU against oneDNN and the host provider, on every OpenCL CPU device of this machine.

    python -m bench.opencl_cpu --batch 1 16 --cores 1
    python -m bench.opencl_cpu --networks resnet50 --space whole --json out.json
    python -m bench.opencl_cpu --families

For each distinct 1x1, 3x3 and depthwise convolution of the networks (bench/shapes.py, with bias and the network's
activation) the candidates of each OpenCL CPU device, of oneDNN and of the host provider take turns in one process, each
in the layouts that suit it, the threads of one asleep while another runs: what a program gets that uses this device. A
ratio is oneDNN's time over the device's, each by its fastest candidate: above 1 the device is faster, and the target is
0.6. With `--families` it is one op of each other kind, layout by layout, and the ratio is that to the faster of oneDNN
and the host provider.

Dispatch for `cpu`, knowing nothing beforehand, picks the last column; below the table stand the ops for which an OpenCL
kernel is faster on the memory of `cpu` than all that oneDNN and the host provider have, and what dispatch took there.
On `cpu` an OpenCL kernel runs amid ops of OpenMP's threads, which spin for milliseconds after each, so it is timed with
these awake; the line "opencl on cpu" has its ratios.

`--clock processor` compares the time of all threads of the process, which other programs disturb less; it is the
default on one core. On several cores one thread that is held up holds up all: samples during which the process lost
a processor do not count, and a line below the table says in how many ops every fastest candidate had five or more that
do. Ratios of the others hold other programs' time: repeat it on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections import defaultdict
from typing import Any

from pylayout.cli.terminal import Table

from .programs import program, stream_shapes
from .record import write
from .shapes import CONVOLUTIONS, Convolution

TARGET = 0.6
ENOUGH = 5  # undisturbed samples, as in bench/internals/opencl_cpu.cpp
ACTIVATIONS = {"mobilenet_v2": "relu6", "efficientnet_b0": "silu"}  # of the networks; of others relu

# A line for the program, and what it is: (kind, text).
Cases = dict[str, tuple[str, str]]

# What networks are made of besides convolutions, in sizes of ResNet-50, MobileNetV2 and ViT-B/16.
FAMILIES: list[tuple[str, str]] = [
    ("max_pool2d 3x3/2", "max_pool2d kernel_size=3 stride=2 padding=1;{n},64,112,112"),
    ("avg_pool2d 2x2/2", "avg_pool2d kernel_size=2 stride=2;{n},256,28,28"),
    ("global_avg_pool2d", "adaptive_avg_pool2d output_size=1;{n},1280,7,7"),
    ("softmax, last axis", "softmax dim=-1;{n},12,197,197"),
    ("softmax, channels", "softmax dim=1;{n},64,56,56"),
    ("layer_norm", "layer_norm normalized_shape=[768];{n},197,768;768;768"),
    ("batch_norm", "batch_norm;{n},128,28,28;128;128;128;128"),
    ("group_norm", "group_norm num_groups=8;{n},128,28,28;128;128"),
    ("sum, last axis", "sum dim=[-1];{n},197,768"),
    ("mean, height and width", "mean dim=[2,3] keepdim=true;{n},256,28,28"),
    ("argmax", "argmax dim=1;{n},1000"),
    ("relu", "relu;{n},64,56,56"),
    ("gelu", "gelu;{n},197,3072"),
    ("add", "add;{n},64,56,56;{n},64,56,56"),
    ("mul by channel", "mul;{n},96,56,56;{n},96,1,1"),
    ("matmul", "matmul;{n},12,197,64;{n},12,64,197"),
    ("linear", "linear;{n},197,768;768,768;768"),
    ("concat", "concat dim=1;{n},64,28,28;{n},96,28,28"),
    ("resize", "interpolate size=[56,56] mode=bilinear;{n},64,28,28"),
    ("reorder of matrices", "reorder target=acb;{n},197,768"),
    ("reorder NCHW to NHWC", "reorder target=NHWC;{n},64,56,56"),
    ("reorder NHWC to NCHW", "reorder target=NCHW;{n},64,56,56@NHWC"),
    ("reorder NCHW to nChw16c", "reorder target=nChw16c;{n},64,56,56"),
    ("reorder nChw16c to NHWC", "reorder target=NHWC;{n},64,56,56@nChw16c"),
]


def line_of(layer: Convolution, batch: int, activation: str) -> str:
    """A convolution for the program: "conv2d padding=1 ...;1,64,56,56;64,64,3,3;64"."""
    _, c, h, w, oc, k, stride, padding, groups = layer
    attributes = f"activation={activation} groups={groups} padding={padding} stride={stride}"
    return f"conv2d {attributes};{batch},{c},{h},{w};{oc},{c // groups},{k},{k};{oc}"


def convolutions(networks: list[str], batches: list[int], kinds: list[str]) -> Cases:
    """The distinct convolutions of these kinds."""
    found: Cases = {}
    for batch in batches:
        for network in networks:
            for layer in CONVOLUTIONS[network]:
                if layer.h == 1 or layer.groups not in (1, layer.c):  # squeeze and excitation: not worth a table
                    continue
                size = f"{layer.k}x{layer.k}"
                kind = "depthwise" if layer.groups > 1 else size
                if kind not in kinds:
                    continue
                activation = ACTIVATIONS.get(network, "relu")
                text = f"{batch}x {layer.c}->{layer.oc} {size}/{layer.stride} at {layer.h}x{layer.w} {activation}"
                if kind == "depthwise":
                    text = text.replace(f"{layer.c}->{layer.oc}", f"{layer.c} depthwise")
                found.setdefault(line_of(layer, batch, activation), (f"{kind}, batch {batch}", text))
    return found


def families(batches: list[int]) -> Cases:
    """One op of each other kind."""
    return {
        line.format(n=batch): (f"{name.split(',')[0].split(' ')[0]}, batch {batch}", f"{batch}x {name}")
        for batch in batches
        for name, line in FAMILIES
    }


def measure(lines: list[str], options: argparse.Namespace) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The devices (name: what it is) and a result for each op, from a process on `options.cores` processors."""
    processors = sorted(os.sched_getaffinity(0))[: options.cores]
    threads = str(len(processors))
    layouts = "layouts" if options.families else "fastest"
    answers = stream_shapes(
        program("opencl_cpu", options.build),
        [threads, str(60 * options.minutes), options.space, layouts, options.filter],
        [(line,) for line in lines],
        head=1,
        env={**os.environ, "OMP_NUM_THREADS": threads, "POCL_MAX_PTHREAD_COUNT": threads},
        preexec_fn=lambda: os.sched_setaffinity(0, processors),
    )
    return answers[0], answers[1:]


def short_key(key: str) -> str:
    """rows[VECTOR=16,VECTORS=2,PIXELS=14] of opencl/conv_fwd_rows[...]/layouts."""
    return key.split("/")[1].replace("conv_fwd_", "").replace("TILE_", "")


class Comparison:
    """The results as tables."""

    def __init__(self, known: dict[str, str], cases: Cases, field: str) -> None:
        self.devices = list(known)
        self.cases = cases
        self.field = field
        self.ratios: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in known}
        self.amid_others: dict[str, list[float]] = defaultdict(list)  # ratios of OpenCL on `cpu`
        self.wins: list[tuple[str, float, float, str]] = []
        self.losses: list[tuple[str, float, str]] = []
        columns = ["op", "layout", "oneDNN us", "GFLOP/s", "host us"]
        for name in self.devices:
            columns += [f"{name} us", "ratio", "to host", "by"]
        columns.append("dispatch picks")
        left = {0, 1, len(columns) - 1} | {i for i, column in enumerate(columns) if column == "by"}
        self.table = Table(columns, tuple(column for i, column in enumerate(columns) if i not in left))

    def add(self, row: dict[str, Any], by_layout: bool) -> None:
        """Adds an op's rows: one, or one for each layout that an OpenCL device has candidates in."""
        ways = [way for way in row["ways"] if way["runner"] != "chosen"]
        chosen = next((way for way in row["ways"] if way["runner"] == "chosen"), None)
        layouts = sorted({way["layout"] for way in ways if way["runner"] in self.devices}) if by_layout else [""]
        for layout in layouts:
            best = {way["runner"]: way for way in ways if not by_layout or way["layout"] == layout}
            self.add_row(row, layout, best, chosen)
        self.judge(row, ways, chosen, by_layout)

    def add_row(self, row: dict[str, Any], layout: str, best: dict[str, Any], chosen: dict[str, Any] | None) -> None:
        kind, text = self.cases[row["op"]]
        us = {runner: 1e3 * way[self.field] for runner, way in best.items()}
        onednn, host = us.get("onednn"), us.get("host")
        native = min((time for time in (onednn, host) if time), default=None)
        cells = [text, layout, f"{onednn:.1f}" if onednn else "-"]
        cells.append(f"{row['flops'] / onednn / 1e3:.0f}" if onednn else "-")
        cells.append(f"{host:.1f}" if host else "-")
        for name in self.devices:
            # Other ops than convolutions are compared with the faster of oneDNN and host.
            reference = native if layout else onednn
            if name not in us:
                cells += ["-"] * 4
                continue
            cells.append(f"{us[name]:.1f}")
            if reference:
                ratio = reference / us[name]
                row.setdefault("ratios", {}).setdefault(name, {})[layout] = ratio
                for key in (kind, "all"):
                    self.ratios[name][key].append(ratio)
            cells.append(f"{reference / us[name]:.2f}" if reference else "-")
            cells.append(f"{host / us[name]:.2f}" if host else "-")
            cells.append(("" if layout else best[name]["layout"] + " ") + short_key(best[name]["key"]))
        cells.append("/".join(chosen["key"].split("/")[:2]) if chosen else "-")
        self.table.add(*cells)

    def judge(
        self, row: dict[str, Any], ways: list[dict[str, Any]], chosen: dict[str, Any] | None, by_layout: bool
    ) -> None:
        """What dispatch picked for `cpu`, beside the fastest there is."""
        if not chosen:
            return
        kind, text = self.cases[row["op"]]
        times = {
            runner: min((way[self.field] for way in ways if way["runner"] == runner), default=float("inf"))
            for runner in ("onednn", "host", "opencl")
        }
        native = min(times["onednn"], times["host"])
        reference = native if by_layout else times["onednn"]
        if max(reference, times["opencl"]) < float("inf"):
            self.amid_others[kind].append(reference / times["opencl"])
        if times["opencl"] < native < float("inf"):
            loss = chosen[self.field] / times["opencl"]
            self.wins.append((text, native / times["opencl"], loss, chosen["key"].split("/")[0]))
        loss = chosen[self.field] / min(times.values())
        if loss > 1.1:
            self.losses.append((text, loss, "/".join(chosen["key"].split("/")[:2])))

    def print(self) -> dict[str, Any]:
        """The table and what it sums up to."""
        self.table.print()
        summary: dict[str, Any] = {}
        for name in self.devices:
            for key, values in sorted(self.ratios[name].items()):
                low = sum(value < TARGET for value in values)
                mean = statistics.geometric_mean(values)
                summary.setdefault(name, {})[key] = {"mean": mean, "least": min(values), "below": low}
                print(
                    f"{name}, {key}: geometric mean {mean:.2f}, least {min(values):.2f}, "
                    f"{low} of {len(values)} below {TARGET}, {sum(value > 1 for value in values)} above 1"
                )
        for key, values in sorted(self.amid_others.items()):
            print(
                f"opencl on cpu, {key}: geometric mean {statistics.geometric_mean(values):.2f}, least {min(values):.2f}"
            )
        print(f"\nOpenCL on cpu is faster than oneDNN and host in {len(self.wins)} of {len(self.cases)} ops:")
        for text, gain, loss, provider in self.wins:
            print(f"  {text}: {gain:.2f} times as fast; dispatch took {provider}, at {loss:.2f} of OpenCL's time")
        print(f"dispatch took more than 1.1 times the fastest's time in {len(self.losses)} ops:")
        for text, loss, key in self.losses:
            print(f"  {text}: {loss:.2f}, by {key}")
        return summary


def at_work(rows: list[dict[str, Any]]) -> list[str]:
    """How many processors each runner kept busy: fewer than there are where others took one, or threads had no work."""
    shares: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for way in row["ways"]:
            shares[way["runner"]].append(way["processors"])
    return [f"{runner} {statistics.median(values):.2f}" for runner, values in shares.items()]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["resnet50", "vgg16", "mobilenet_v2", "efficientnet_b0"]
    parser.add_argument("--networks", nargs="+", default=names, choices=list(CONVOLUTIONS))
    parser.add_argument("--batch", type=int, nargs="+", default=[1])
    parser.add_argument("--kinds", nargs="+", default=["1x1", "3x3", "depthwise"], help="default: 1x1 3x3 depthwise")
    parser.add_argument("--families", action="store_true", help="one op of each other kind instead of convolutions")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--clock", choices=("wall", "processor"), help="default: processor on one core, else wall")
    parser.add_argument("--space", choices=("start", "whole"), default="start", help="points of the tuning spaces")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only OpenCL candidates whose key has it")
    parser.add_argument("--minutes", type=float, default=3, help="for all, without compilations (default 3)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th, for a quick look")
    parser.add_argument("--build", metavar="FOLDER", help="a CMake build folder (default: build/bench)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    clock = options.clock or ("processor" if options.cores == 1 else "wall")
    all_cases = (
        families(options.batch) if options.families else convolutions(options.networks, options.batch, options.kinds)
    )
    cases = dict(list(all_cases.items())[:: options.every])
    known, rows = measure(list(cases), options)
    known = {name: known[name] for name in known if any(way["runner"] == name for row in rows for way in row["ways"])}
    if not known:
        sys.exit("no OpenCL CPU device; `pylayout devices` says how to add one")
    for name in known:
        print(f"{name}: {known[name]}")
    comparison = Comparison(known, cases, "processor_ms" if clock == "processor" else "ms")
    for row in rows:
        comparison.add(row, options.families)
    summary = comparison.print()
    worst = max(way["error"] for row in rows for way in row["ways"])
    sure = sum(all(way["undisturbed"] >= ENOUGH for way in row["ways"]) for row in rows)
    print(f"{sure} of {len(rows)} ops by undisturbed samples alone")
    if options.cores > 1:
        print("processors at work, the median op: " + ", ".join(at_work(rows)))
    print(f"by the {clock}'s time on {options.cores} cores; largest difference between results {worst:.1e}")
    if options.json:
        more = {"devices": known, "clock": clock, "summary": summary}
        write(options.json, "opencl_cpu", rows, threads=options.cores, **more)


if __name__ == "__main__":
    main()
