"""Whole models from ONNX files: pylayout's plans against ONNX Runtime, OpenVINO and PyTorch, in one run.

    python -m bench.models resnet50 mobilenet_v2 --batch 1 16 --json out.json
    python -m bench.models espcn_x3 srcnn
    python -m bench.models model.onnx

A network of torchvision is exported with seeded weights, its batch norms calibrated by one forward pass, so that
activations stay near unit scale; those of super_resolution.py are seeded too; or give an ONNX file of your own. Peers
that are not installed are left out, and the table says so. The last line is the geometric mean of the best peer's
time over pylayout's: above 1, pylayout is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pylayout.cli.terminal import Table, ms_text

from . import super_resolution, torchvision_models
from .engines import Engine, take_turns
from .record import write
from .torchvision_models import NETWORKS, write_onnx

ENGINES = ["plan", "onnxruntime", "openvino", "torch:channels_last"]


def export(network: str, batch: int, folder: Path) -> dict[str, Any]:
    """The files that engines read: the model, its input and PyTorch's output. Runs in a process of its own."""
    import torch

    models = super_resolution if network in super_resolution.NETWORKS else torchvision_models
    module, x = models.build(network), models.images_for(network, batch)
    files = {key: str(folder / f"{key}{suffix}") for key, suffix in _FILES.items()}
    write_onnx(module, x, Path(files["model"]))
    with torch.no_grad():
        np.save(files["images"], x.numpy())
        np.save(files["reference"], module(x).numpy())
    return {**files, "network": network}


_FILES = {"model": ".onnx", "images": ".npy", "reference": ".npy"}


def prepare(network: str, batch: int, folder: Path) -> dict[str, Any]:
    if not network.endswith(".onnx"):
        import multiprocessing

        # PyTorch's threads must not live on beside the engines.
        process = multiprocessing.get_context("spawn").Process(target=export, args=(network, batch, folder))
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(f"{network}: could not be exported")
        return {**{key: str(folder / f"{key}{suffix}") for key, suffix in _FILES.items()}, "network": network}
    import pylayout as pl

    plan = pl.compile(network, device="cpu", tune="off")
    rng = np.random.default_rng(batch)
    images = rng.standard_normal(plan.inputs[0]["shape"]).astype("float32")
    np.save(folder / "images.npy", images)
    np.save(folder / "reference.npy", plan.run(images)[0])
    return {"model": network, "images": str(folder / "images.npy"), "reference": str(folder / "reference.npy")}


def measure(network: str, batch: int, options: argparse.Namespace) -> tuple[dict[str, Any], list[Engine]]:
    with tempfile.TemporaryDirectory() as folder:
        shared = prepare(network, batch, Path(folder))
        shared.update(threads=options.threads, device=options.device, warm_up_seconds=0.0)
        engines = take_turns(options.engines, shared, options.rounds, options.seconds)
    row: dict[str, Any] = {"network": network, "batch": batch, "threads": options.threads, "engines": {}}
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
    return row, engines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK|FILE.onnx", default=NETWORKS)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--engines", nargs="+", default=ENGINES, metavar="ENGINE", help=", ".join(ENGINES))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=20.0, help="start no round after so many (default 20)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    for name in options.networks:
        known = NETWORKS + super_resolution.NETWORKS
        if name not in known and not name.endswith(".onnx"):
            parser.error(f"no network named {name!r}, expected an ONNX file or one of {', '.join(known)}")
    rows = []
    table = Table(
        ("network", "batch", *options.engines, "ratio", "error"), ("batch", *options.engines, "ratio", "error")
    )
    for name in options.networks:
        for batch in [1] if name.endswith(".onnx") else options.batch:
            row, _ = measure(name, batch, options)
            rows.append(row)
            for engine, entry in row["engines"].items():
                if "problem" in entry:
                    print(f"  left out: {name}: {engine}: {entry['problem'][:200]}")
            print(json.dumps(row), flush=True)
            times = [ms_text(row["engines"][engine].get("ms")) for engine in options.engines]
            error = row["engines"].get("plan", {}).get("error")
            table.add(name, str(batch), *times, str(row.get("ratio", "-")), "-" if error is None else f"{error:.1e}")
    table.print()
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(
            f"geometric mean of best peer / pylayout over {len(ratios)} rows: {statistics.geometric_mean(ratios):.3f}"
        )
    if options.json:
        write(options.json, "models", rows, device=options.device, threads=options.threads)


if __name__ == "__main__":
    main()
