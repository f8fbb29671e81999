"""How many times as fast Winograd convolutions are as oneDNN's fastest, over the 3x3 convolutions of networks.

    python -m bench.winograd --batch 1 16 --threads 1 --cold

For each distinct convolution of 3x3 with stride 1 and at least 16 channels (bench/shapes.py, with bias and ReLU) all
candidates in NHWC and blocked layouts take turns. The ratio is of the fastest of either, whatever their layouts; the
error is Winograd's, relative to the L2 norm of sums in double, for normally distributed data. With one thread, times
are of its processor's time, which other programs disturb less.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from pylayout.cli.terminal import Table, ms_text

from .programs import program, stream_shapes
from .record import write
from .shapes import CONVOLUTIONS


def cases(networks: list[str], batches: list[int]) -> dict[tuple[int, ...], list[str]]:
    """Shapes (n, c, h, w, oc), each with the networks that have it."""
    found: dict[tuple[int, ...], list[str]] = {}
    for batch in batches:
        for network in networks:
            for _, c, h, w, oc, kernel, stride, padding, groups in CONVOLUTIONS[network]:
                if (kernel, stride, padding, groups) == (3, 1, 1, 1) and min(c, oc) >= 16:
                    users = found.setdefault((batch, c, h, w, oc), [])
                    if network not in users:
                        users.append(network)
    return found


def run(shapes: list[tuple[int, ...]], options: argparse.Namespace) -> list[dict[str, Any]]:
    return stream_shapes(
        program("winograd", options.build),
        [str(options.threads), str(options.seconds), "cold" if options.cold else "warm"],
        shapes,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["resnet50", "vgg16"], choices=list(CONVOLUTIONS))
    parser.add_argument("--batch", type=int, nargs="+", default=[1])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cold", action="store_true", help="evict the weights before each run, as a network does")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each shape (default 1)")
    parser.add_argument("--build", metavar="FOLDER", help="a CMake build folder (default: build/bench)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    users = cases(options.networks, options.batch)
    rows = run(list(users), options)
    table = Table(
        ("n c h w oc", "networks", "oneDNN ms", "Winograd ms", "ratio", "error", "by"),
        ("oneDNN ms", "Winograd ms", "ratio", "error"),
    )
    for row, (shape, networks) in zip(rows, users.items(), strict=True):
        best: dict[str, dict[str, Any]] = {}
        for candidate in row["candidates"]:
            best.setdefault(candidate["key"].split("/")[0], candidate)
        if "host" not in best or "onednn" not in best:
            sys.exit(
                f"{shape}: no candidate of {'oneDNN' if 'host' in best else 'Winograd'} within four times the best"
            )
        row["shape"] = list(shape)
        row["onednn_ms"], row["winograd_ms"] = best["onednn"]["ms"], best["host"]["ms"]
        row["ratio"], row["error"] = row["onednn_ms"] / row["winograd_ms"], best["host"]["error"]
        table.add(
            " ".join(map(str, shape)),
            ", ".join(networks),
            ms_text(best["onednn"]["ms"]),
            ms_text(best["host"]["ms"]),
            f"{row['ratio']:.2f}",
            f"{best['host']['error']:.1e}",
            best["host"]["key"].split("/")[1],
        )
    table.print()
    if options.json:
        write(options.json, "winograd", rows, threads=options.threads)


if __name__ == "__main__":
    main()
