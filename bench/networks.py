"""Whole networks: pylayout's auto policy against the forced ones and against PyTorch's eager mode, in one run.

    python -m bench.networks resnet50 --batch 1 --json out.json

The targets: auto at least 1.3 times as fast as channels-last eager (ResNet-50, batch 1), never more than 3% slower than
the best forced policy, and at most 3% of its time in reorders. PyTorch's engines need torchvision; where it is missing
they are left out and the table says so.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from pylayout.cli.terminal import Table, ms_text
from pylayout.networks import NETWORKS

from .engines import Engine, prepare, take_turns
from .record import write

ENGINES = [
    "pylayout:auto",
    "pylayout:NCHW",
    "pylayout:NHWC",
    "pylayout:nChw16c",
    "pylayout:per-op",
    "torch:NCHW",
    "torch:channels_last",
]


def measure(network: str, batch: int, options: argparse.Namespace) -> tuple[dict[str, Any], list[Engine]]:
    with tempfile.TemporaryDirectory() as folder:
        shared = prepare(network, batch, Path(folder))
        shared.update(threads=options.threads, device=options.device, warm_up_seconds=options.warm_up)
        engines = take_turns(options.engines, shared, options.rounds, options.seconds)
    row: dict[str, Any] = {
        "network": network,
        "batch": batch,
        "device": options.device,
        "threads": options.threads,
        "engines": {},
    }
    for engine in engines:
        if engine.problem:
            row["engines"][engine.name] = {"problem": engine.problem}
        else:
            row["engines"][engine.name] = {
                "ms": round(engine.ms, 4),
                "least_ms": round(min(engine.times), 4),
                "error": float(f"{engine.error:.2e}"),
                **engine.details,
            }
    return row, engines


def judge(row: dict[str, Any]) -> dict[str, float]:
    """How auto stands: ratios above 1 mean that auto is faster."""
    times = {name: entry["ms"] for name, entry in row["engines"].items() if "ms" in entry}
    auto = times.get("pylayout:auto")
    if auto is None:
        return {}
    verdict = {}
    forced = [ms for name, ms in times.items() if name.startswith("pylayout:") and name[9:] not in ("auto", "per-op")]
    if forced:
        verdict["over_best_forced"] = round(min(forced) / auto, 3)
    if "torch:channels_last" in times:
        verdict["over_channels_last"] = round(times["torch:channels_last"] / auto, 3)
    verdict["reorder_share"] = round(row["engines"]["pylayout:auto"]["reorder_ms"] / auto, 4)
    return verdict


def show(row: dict[str, Any]) -> None:
    print(f"\n{row['network']}, batch {row['batch']}, {row['device']}, {row['threads']} threads")
    table = Table(
        ("engine", "ms", "least ms", "reorders", "reorder ms", "error"),
        ("ms", "least ms", "reorders", "reorder ms", "error"),
    )
    for name, entry in row["engines"].items():
        if "problem" in entry:
            print(f"  left out: {name}: {entry['problem'][:200]}")
            continue
        moved = [entry.get("reorders", ""), ms_text(entry["reorder_ms"]) if "reorder_ms" in entry else ""]
        table.add(name, ms_text(entry["ms"]), ms_text(entry["least_ms"]), *moved, f"{entry['error']:.1e}")
    table.print()
    for key, value in row["verdict"].items():
        print(f"  {key.replace('_', ' ')}: {value}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=["resnet50"], help=", ".join(NETWORKS))
    parser.add_argument("--batch", type=int, nargs="+", default=[1])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES, metavar="ENGINE")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=60.0, help="start no round after so many (default 60)")
    parser.add_argument("--warm-up", type=float, default=5.0, help="seconds of each engine's warm-up (default 5)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    for name in options.networks:
        if name not in NETWORKS:
            parser.error(f"no network named {name!r}, expected {', '.join(NETWORKS)}")
    rows = []
    for name in options.networks:
        for batch in options.batch:
            row, _ = measure(name, batch, options)
            row["verdict"] = judge(row)
            show(row)
            rows.append(row)
    if options.json:
        write(options.json, "networks", rows, device=options.device, threads=options.threads)


if __name__ == "__main__":
    main()
