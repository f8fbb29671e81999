"""How long making a plan takes with what is known, and how good plan and memory are by their own bounds.

    python -m bench.planning model.onnx
    python -m bench.planning --ops 1000

Nothing is measured (tune="off"): the plan's time is that of the passes, of listing and assigning layouts, of making
kernels and of placing memory, beside it that of packing weights, the medians of a few times. Besides the models given,
a graph of convolutions, sums and activations over 14 x 14 pixels is planned, in which every sum reads a result of up to
five ops before.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from pylayout.cli.terminal import Table, ms_text

from .record import write


def random_graph(ops: int, seed: int = 0) -> Any:
    """A graph of so many steps; weights are shared, so that packing them is no part of what is timed."""
    import pylayout as pl

    rng = np.random.default_rng(seed)
    weights = [0.05 * rng.standard_normal((32, 32, k, k)).astype("float32") for k in (1, 3)]
    graph = pl.Graph()
    made = [graph.input("x", (1, 32, 14, 14))]
    for _ in range(ops):
        kind = rng.integers(0, 4)
        if kind == 0:
            y = graph.add(made[-1], made[-int(rng.integers(1, min(6, len(made)) + 1))])
        elif kind == 1:
            y = graph.tanh(made[-1])
        else:
            w = weights[kind - 2]
            y = graph.conv2d(made[-1], w, padding=w.shape[2] // 2)
        made.append(y)
    graph.output(made[-1], "y")
    return graph


def measure(name: str, graph: Any, options: argparse.Namespace) -> dict[str, Any]:
    import pylayout as pl

    seconds, packing = [], []
    for _ in range(options.repeat):
        start = time.perf_counter()
        plan = pl.compile(graph, device="cpu", tune="off", threads=options.threads)
        seconds.append(time.perf_counter() - start)
        summary = plan.summary()
        packing.append(summary["packing_seconds"])
    bound = summary["memory"]["lower_bound_bytes"]
    return {
        "name": name,
        "ms": 1e3 * statistics.median(s - p for s, p in zip(seconds, packing, strict=True)),
        "packing_ms": 1e3 * statistics.median(packing),
        "ops": summary["ops"],
        "reorders": summary["reorders"]["count"],
        "gap_ms": 0.0 if summary["exact"] else summary["expected_ms"] - summary["lower_bound_ms"],
        "arena_over_bound": summary["memory"]["arena_bytes"] / bound if bound else 1.0,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="FILE.onnx")
    parser.add_argument("--ops", type=int, nargs="*", default=[150, 1000], help="sizes of graphs (default 150 1000)")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    rows = [measure(f"{ops} random ops", random_graph(ops), options) for ops in options.ops]
    for path in options.models:
        from pylayout import onnx

        rows.append(measure(Path(path).name, onnx.load(path), options))
    headings = ("graph", "plan ms", "packing ms", "ops", "reorders", "gap ms", "arena / bound")
    table = Table(headings, headings[1:])
    for row in rows:
        table.add(
            row["name"],
            ms_text(row["ms"]),
            ms_text(row["packing_ms"]),
            row["ops"],
            row["reorders"],
            f"{row['gap_ms']:.4f}" if row["gap_ms"] else "proven",
            f"{row['arena_over_bound']:.3f}",
        )
    table.print()
    if options.json:
        write(options.json, "planning", rows)


if __name__ == "__main__":
    main()
