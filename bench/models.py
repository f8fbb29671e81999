"""Whole models from ONNX files: pylayout's plans against ONNX Runtime, OpenVINO and PyTorch, in one run.

    python -m bench.models resnet50 mobilenet_v2 --batch 1 16 --json out.json
    python -m bench.models espcn_x3 srcnn
    python -m bench.models resnet50 bert --batch 1 32 --threads 1 2 4 8 16 --rounds 5
    python -m bench.models model.onnx

A network of torchvision is exported with seeded weights, its batch norms calibrated by one forward pass, so that
activations stay near unit scale; those of super_resolution.py and text_models.py are seeded too; or give an ONNX file
of your own. Peers that are not installed are left out, and the table says so. The last line is the geometric mean of
the best peer's time over pylayout's: above 1, pylayout is faster. Of several numbers of threads, beginning with 1, the
column `limits` names the kinds of op that keep the plan from scaling, and what part of its time they lose.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from pylayout.cli.terminal import Table, ms_text

from .engines import Engine, take_turns
from .model_files import NETWORKS, prepare
from .record import write
from .torchvision_models import NETWORKS as OF_TORCHVISION

ENGINES = ["plan", "onnxruntime", "openvino", "torch:channels_last"]


def _row(network: str, batch: int, threads: int, engines: list[Engine]) -> dict[str, Any]:
    row: dict[str, Any] = {"network": network, "batch": batch, "threads": threads, "engines": {}}
    for engine in engines:
        row["engines"][engine.name] = (
            {"problem": engine.problem}
            if engine.problem
            else {"ms": round(engine.ms, 4), "error": float(f"{engine.error:.2e}"), **engine.details}
        )
    times = {name: entry["ms"] for name, entry in row["engines"].items() if "ms" in entry}
    peers = {name: ms for name, ms in times.items() if name != "plan"}
    if "plan" in times and peers:
        row["best_peer"] = min(peers, key=lambda name: peers[name])
        row["ratio"] = round(peers[row["best_peer"]] / times["plan"], 3)
    return row


def measure(network: str, batch: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each number of threads."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        shared = prepare(network, batch, Path(folder))
        shared.update(device=options.device, warm_up_seconds=0.0, compile_seconds=options.compile_seconds)
        for threads in options.threads:
            engines = take_turns(options.engines, {**shared, "threads": threads}, options.rounds, options.seconds)
            rows.append(_row(network, batch, threads, engines))
            if rows[0]["threads"] == 1 and threads > 1:
                rows[-1]["limits"] = what_limits(rows[0], rows[-1])
    return rows


def what_limits(alone: dict[str, Any], row: dict[str, Any]) -> dict[str, float]:
    """The kinds of op that keep the plan from `threads` times its speed on one thread, and their part of its time.

    What a kind loses is its time less that on one thread divided by the threads; "between ops" is what no op took.
    """
    before, now = alone["engines"].get("plan", {}), row["engines"].get("plan", {})
    if "kinds_ms" not in before or "kinds_ms" not in now:
        return {}
    kinds = dict(now["kinds_ms"], **{"between ops": now["ms"] - sum(now["kinds_ms"].values())})
    lost = {kind: ms - before["kinds_ms"].get(kind, 0.0) / row["threads"] for kind, ms in kinds.items()}
    most = sorted(lost, key=lambda kind: -lost[kind])[:3]
    return {kind: round(lost[kind] / now["ms"], 2) for kind in most if lost[kind] > 0.02 * now["ms"]}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK|FILE.onnx", default=OF_TORCHVISION)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--threads", type=int, nargs="+", default=[len(os.sched_getaffinity(0))])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--engines", nargs="+", default=ENGINES, metavar="ENGINE", help=", ".join(ENGINES))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=20.0, help="start no round after so many (default 20)")
    parser.add_argument("--compile-seconds", type=float, default=60.0, help="of measuring, for plans (default 60)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    for name in options.networks:
        if name not in NETWORKS and not name.endswith(".onnx"):
            parser.error(f"no network named {name!r}, expected an ONNX file or one of {', '.join(NETWORKS)}")
    rows: list[dict[str, Any]] = []
    figures = ("batch", "threads", *options.engines, "ratio", "error")
    table = Table(("network", *figures, "limits"), figures)
    for name in options.networks:
        for batch in [1] if name.endswith(".onnx") else options.batch:
            for row in measure(name, batch, options):
                rows.append(row)
                for engine, entry in row["engines"].items():
                    if "problem" in entry:
                        print(f"  left out: {name}: {engine}: {entry['problem'][:200]}")
                print(json.dumps(row), flush=True)
                times = [ms_text(row["engines"][engine].get("ms")) for engine in options.engines]
                error = row["engines"].get("plan", {}).get("error")
                limits = ", ".join(f"{kind} {part:.0%}" for kind, part in row.get("limits", {}).items())
                table.add(
                    name,
                    str(batch),
                    str(row["threads"]),
                    *times,
                    str(row.get("ratio", "-")),
                    "-" if error is None else f"{error:.1e}",
                    limits,
                )
    table.print()
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(
            f"geometric mean of best peer / pylayout over {len(ratios)} rows: {statistics.geometric_mean(ratios):.3f}"
        )
    if options.json:
        write(options.json, "models", rows, device=options.device, threads=max(options.threads))


if __name__ == "__main__":
    main()
