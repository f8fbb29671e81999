"""The layers of a network one by one: the host provider's own convolutions against oneDNN's best.

    python -m bench.layers mobilenet_v2 --activation relu6
    python -m bench.layers shufflenet_v2_x1_0 regnet_y_400mf      # shapes from torchvision, which this needs

Each distinct convolution runs with bias and activation, first alone, memory warm, the candidates taking turns ("us");
then in a chain of all layers, each with weights of its own and reading what the one before wrote ("chain us"). Both
are the provider's best layout for that layer. "x" counts how often the network has the layer; the last lines sum up
by class of layer, and by chains of one layout.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from typing import Any

from pylayout.cli.terminal import Table

from .programs import program
from .record import write
from .shapes import CONVOLUTIONS

Shape = tuple[int, ...]
PROVIDERS = ("onednn", "host")


def shapes_of(network: str) -> list[Shape]:
    """(times, c, h, w, oc, k, stride, padding, groups) of each distinct convolution."""
    if network in CONVOLUTIONS:
        return [tuple(row) for row in CONVOLUTIONS[network]]
    from .derive_shapes import convolutions

    return convolutions(network)


def class_of(shape: Shape) -> str:
    """What kind of layer it is, as the host provider's kernels are divided."""
    _, c, h, _, oc, k, _, _, groups = shape
    if groups > 1:
        return f"depthwise {k}x{k}" if groups == c == oc else f"grouped {k}x{k}"
    if k == 1:
        return "1x1 of one pixel" if h == 1 else "1x1"
    return f"{k}x{k}"


def text_of(shape: Shape) -> str:
    _, c, h, w, oc, k, stride, _, groups = shape
    return f"{c}->{oc} {k}x{k}/{stride} at {h}x{w}" + (f" groups {groups}" if groups > 1 else "")


def flops_of(shape: Shape, batch: int) -> int:
    _, c, h, w, oc, k, stride, padding, groups = shape
    pixels = ((h + 2 * padding - k) // stride + 1) * ((w + 2 * padding - k) // stride + 1)
    return 2 * batch * pixels * oc * c // groups * k * k


def measure(shapes: list[Shape], options: argparse.Namespace) -> list[dict[str, Any]]:
    command = [str(program("layer_times", options.build)), str(options.threads), str(options.milliseconds)]
    lines = ""
    for times, *shape in shapes:
        lines += f"{' '.join(map(str, (times, options.batch, *shape)))} {options.activation}\n"
    done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or len(results) != len(shapes):
        sys.exit(f"layer_times ended with code {done.returncode} after {len(results)} of {len(shapes)} shapes")
    return results


def best(result: dict[str, Any], what: str, provider: str) -> tuple[float, str] | None:
    """The least time and its layout; None where the provider has no candidate."""
    times = [(us, layout) for layout, us in result[what].get(provider, {}).items() if us is not None]
    return min(times, default=None)


def report(
    network: str, shapes: list[Shape], results: list[dict[str, Any]], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Print a network's layers; returns the sums by class of layer, each layer reading what the one before wrote."""
    names = (
        "x",
        "layer",
        "onednn us",
        "host us",
        "onednn/host",
        "chain: onednn",
        "host",
        "ratio",
        "GFLOP/s",
        "fastest",
    )
    table = Table(names, tuple(name for name in names if name not in ("layer", "fastest")))
    sums: dict[str, dict[str, list[float]]] = defaultdict(lambda: {"alone": [0.0] * 3, "chain": [0.0] * 3})
    for shape, result in zip(shapes, results, strict=True):
        row: list[str] = [str(shape[0]), text_of(shape)]
        for what in ("alone", "chain"):
            found = [best(result, what, provider) for provider in PROVIDERS]
            least = min(entry for entry in found if entry)
            for key in (class_of(shape), "all"):
                for i, entry in enumerate((*found, least)):
                    sums[key][what][i] += shape[0] * (entry or least)[0]
            row += [f"{entry[0]:.1f}" if entry else "-" for entry in found]
            row.append(f"{found[0][0] / found[1][0]:.2f}" if found[0] and found[1] else "-")
        provider = PROVIDERS[found.index(least)]
        row.append(f"{flops_of(shape, options.batch) / least[0] / 1e3:.0f}")
        table.add(*row, f"{provider} {result['names'][provider][least[1]]} {least[1]}")
    print(f"{network}, batch {options.batch}, {options.activation}; microseconds")
    table.print()
    for name, by in sums.items():
        for what, (onednn, host, least_sum) in by.items():
            print(f"  {name}, {what}: oneDNN {onednn:.0f} us, host {host:.0f}, the better of each {least_sum:.0f}")
    for layout in ("NHWC", "nChw16c"):
        totals = []
        for provider in PROVIDERS:
            layers = [
                (shape[0], result["chain"].get(provider, {}).get(layout))
                for shape, result in zip(shapes, results, strict=True)
            ]
            missing = sum(us is None for _, us in layers)
            total = sum(times * us for times, us in layers if us is not None)
            totals.append(f"{provider} {total:.0f} us" + (f" without {missing} layers" if missing else ""))
        print(f"  chain in {layout}: {', '.join(totals)}")
    of_classes = {name: by["chain"] for name, by in sums.items()}
    return [
        {
            "network": network,
            "activation": options.activation,
            "layers": name,
            "onednn_us": round(onednn, 1),
            "host_us": round(host, 1),
            "ratio": round(onednn / host, 3),
        }
        for name, (onednn, host, _) in of_classes.items()
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["mobilenet_v2"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--activation", default="relu6", help="of every layer; none for none")
    parser.add_argument("--milliseconds", type=float, default=60, help="of measurement for a layer alone")
    parser.add_argument("--build", metavar="FOLDER", help="a CMake build folder (default: build/bench)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    everything = {}
    for network in options.networks:
        shapes = shapes_of(network)
        results = measure(shapes, options)
        rows += report(network, shapes, results, options)
        everything[network] = {"shapes": shapes, "results": results}
    if options.json:
        write(options.json, "layers", rows, threads=options.threads, networks=everything)


if __name__ == "__main__":
    main()
