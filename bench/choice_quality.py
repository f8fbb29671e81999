"""How often dispatch's measured choice is within 5% of the fastest candidate, over the convolutions of five networks.

    python -m bench.choice_quality --batch 1 16 --json out.json

For each distinct convolution (with bias and ReLU; bench/shapes.py) the tuner measures its candidates from nothing, as
it does in a program. Then a race finds the choice's fastest rival, and both take turns anew: a choice is good if the
median of the ratios of their times is at most 1.05. The target is 95% of the cases. "floor" is the same ratio of the
choice to itself, a second copy: where it is above 1.05, so may be a ratio that means nothing. "surely lost" counts the
cases whose 95% confidence interval lies above 1.05 (bench/internals/choice_quality.cpp).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from typing import Any

from pylayout.cli.terminal import Table, ms_text

from .programs import program, stream_shapes
from .record import write
from .shapes import CONVOLUTIONS

GOOD = 1.05


def cases(networks: list[str], batches: list[int]) -> dict[tuple[int, ...], list[str]]:
    """Shapes (n, c, h, w, oc, k, stride, padding, groups), each with the networks that have it."""
    found: dict[tuple[int, ...], list[str]] = {}
    for batch in batches:
        for network in networks:
            for _, *shape in CONVOLUTIONS[network]:
                found.setdefault((batch, *shape), []).append(network)
    return found


def run(shapes: list[tuple[int, ...]], options: argparse.Namespace) -> list[dict[str, Any]]:
    return stream_shapes(
        program("choice_quality", options.build), [options.tune, str(options.threads), str(options.seconds)], shapes
    )


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    losses = [row["loss"] for row in rows]
    return {
        "cases": len(rows),
        "good": sum(loss <= GOOD for loss in losses),
        "good_share": round(sum(loss <= GOOD for loss in losses) / len(rows), 4),
        "median_loss": round(statistics.median(losses), 4),
        "worst_loss": round(max(losses), 3),
        "surely_lost": sum(row["loss_low"] > GOOD for row in rows),
        "floor_good_share": round(sum(row["floor"] <= GOOD for row in rows) / len(rows), 4),
        "floor_median": round(statistics.median(row["floor"] for row in rows), 4),
    }


def columns(found: dict[str, Any]) -> list[Any]:
    """A summary as a row of the table."""
    return [
        found["cases"],
        f"{100 * found['good_share']:.1f}%",
        found["surely_lost"],
        found["median_loss"],
        found["worst_loss"],
        f"{100 * found['floor_good_share']:.1f}%",
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=list(CONVOLUTIONS), choices=list(CONVOLUTIONS))
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tune", choices=("auto", "full"), default="auto", help="as programs tune (default), or all")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a shape's last turns (default 1)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th shape, for a quick look")
    parser.add_argument("--build", metavar="FOLDER", help="a CMake build folder (default: build/bench)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    users = cases(options.networks, options.batch)
    shapes = list(users)[:: options.every]
    rows = run(shapes, options)
    for row, shape in zip(rows, shapes, strict=True):
        if "problem" in row:
            sys.exit(f"{shape}: {row['problem']}")
        row["networks"] = users[shape]
    table = Table(
        ("network", "batch", "cases", "within 5%", "surely lost", "median loss", "worst", "floor within 5%"),
        ("batch", "cases", "within 5%", "surely lost", "median loss", "worst", "floor within 5%"),
    )
    summary: dict[str, Any] = {}
    for network in options.networks:
        for batch in options.batch:
            chosen = [row for row in rows if network in row["networks"] and row["shape"][0] == batch]
            if not chosen:
                continue
            found = summary[f"{network}, batch {batch}"] = summarise(chosen)
            table.add(network, batch, *columns(found))
    found = summary["all"] = summarise(rows)
    table.add("all distinct", "", *columns(found), styles=("bold",))
    table.print()
    worst = sorted((row for row in rows if row["loss"] > GOOD), key=lambda row: -row["loss"])[:10]
    for row in worst:
        sizes = " ".join(map(str, row["shape"]))
        print(f"  {row['loss']:.2f}x at n c h w oc k stride padding groups = {sizes}:")
        for name in ("chosen", "rival"):
            tuned, now = ms_text(row[f"{name}_tuned_ms"]), ms_text(row[f"{name}_ms"])
            print(f"    {row[name]} {now} ms, {tuned} when it was tuned")
    if options.json:
        more = {"threads": options.threads, "tune": options.tune, "summary": summary}
        write(options.json, "choice_quality", rows, **more)


if __name__ == "__main__":
    main()
