"""Detection networks beside ONNX Runtime: pictures that come again, and pictures never seen.

    python -m bench.detection ssdlite fasterrcnn maskrcnn retinanet ssd yolo

How many boxes are found follows from the picture, and with it sizes within the network. `again` are four pictures in
turn, after each was seen; `new` are others each time. Ratios are ONNX Runtime's median time over pylayout's. `agree` is
the share of boxes that both find, with label, score and mask; of boxes with nearly equal scores rounding decides which
one is left out.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pylayout as pl
from pylayout.cli.terminal import Table, ms_text

from .detectors import DETECTORS, export
from .record import write

AGAIN = 4  # pictures in turn


def picture(seed: int) -> Any:
    """Smooth shapes on a background, so that what is found differs from one to the next."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:240, 0:320].astype("f4")
    image = np.zeros((1, 3, 240, 320), "f4") + rng.random((1, 3, 1, 1), "f4")
    for _ in range(12):
        y, x, size = rng.uniform(0, 240), rng.uniform(0, 320), rng.uniform(10, 60)
        spot = np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / size**2)
        image += rng.normal(size=(1, 3, 1, 1)).astype("f4") * spot
    return image + rng.normal(scale=0.05, size=image.shape).astype("f4")


def agreement(got: list[Any], wanted: list[Any]) -> tuple[int, int]:
    """How many boxes the other one found too, of how many.

    The same box: to 1e-2 pixels, of the same label, with the score to 1e-3 and, where there are masks, with one that
    differs by 1e-3 in the mean.
    """
    a, b = ({_part(each): np.asarray(each) for each in parts} for parts in (got, wanted))
    most = max(len(a["boxes"]), len(b["boxes"]))
    if not len(a["boxes"]) or not len(b["boxes"]):
        return 0, most
    same = np.abs(a["boxes"][:, None, :4] - b["boxes"][None, :, :4]).max(-1) < 1e-2
    same &= a["labels"][:, None] == b["labels"]
    same &= np.abs(a["scores"][:, None] - b["scores"]) < 1e-3
    if "masks" in a:
        for one, other in zip(*np.nonzero(same), strict=True):
            same[one, other] = np.abs(a["masks"][one] - b["masks"][other]).mean() < 1e-3
    return int(same.any(1).sum()), most


def _part(array: Any) -> str:
    """What an output of a detector is, by its rank and dtype: exporters do not keep names."""
    array = np.asarray(array)
    if array.ndim == 1:
        return "labels" if array.dtype.kind == "i" else "scores"
    return "boxes" if array.ndim == 2 else "masks"


def measure(path: Path, threads: int, rounds: int) -> dict[str, Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    began = time.perf_counter()
    plan = pl.compile(str(path), device="cpu", threads=threads, tune="off")
    engines: dict[str, Callable[[Any], Any]] = {
        "onnxruntime": lambda image: session.run(None, {name: image}),
        "pylayout": plan.run,
    }
    plan.run(picture(0))
    first = time.perf_counter() - began
    times: dict[str, dict[str, list[float]]] = {kind: {engine: [] for engine in engines} for kind in ("again", "new")}
    found = np.zeros(2, int)

    def turn(kind: str, images: list[Any]) -> None:
        """Each engine runs all pictures, after one that does not count: the other's threads may still spin."""
        results: dict[str, list[Any]] = {}
        for engine, run in engines.items():
            run(pictures[0])
            results[engine] = []
            for image in images:
                start = time.perf_counter()
                results[engine].append(run(image))
                times[kind][engine].append(1e3 * (time.perf_counter() - start))
        if kind == "new":
            for pair in zip(*results.values(), strict=True):
                found[:] += agreement(*pair)

    pictures = [picture(seed) for seed in range(AGAIN)]
    for image in pictures:
        for run in engines.values():
            run(image)
    for k in range(rounds):
        turn("again", pictures)
        turn("new", [picture(100 + AGAIN * k + i) for i in range(AGAIN)])
    row: dict[str, Any] = {"first_s": first, "boxes": int(found[1]), "agree": found[0] / max(found[1], 1)}
    for kind, both in times.items():
        medians = {engine: statistics.median(each) for engine, each in both.items()}
        row |= {f"{kind}_{engine}_ms": median for engine, median in medians.items()}
        row[f"{kind}_ratio"] = medians["onnxruntime"] / medians["pylayout"]
    summary = plan.summary()
    return row | {"segments": summary.get("segments", 0), "host": summary.get("host", {})}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", default=DETECTORS, metavar="|".join(DETECTORS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=Path, help="a folder that keeps the ONNX files")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    rows = []
    table = Table(["network", "again", "ONNX Runtime", "ratio", "new", "ONNX Runtime", "ratio", "agree", "segments"])
    with tempfile.TemporaryDirectory() as folder:
        for network in options.networks:
            path = (options.files or Path(folder)) / f"{network}.onnx"
            if not path.exists():
                export(network, path)
            row = {"network": network, **measure(path, options.threads, options.rounds)}
            rows.append(row)
            cells = []
            for kind in ("again", "new"):
                cells += [ms_text(row[f"{kind}_pylayout_ms"]), ms_text(row[f"{kind}_onnxruntime_ms"])]
                cells.append(f"{row[f'{kind}_ratio']:.2f}")
            table.add(network, *cells, f"{row['agree']:.3f}", str(row["segments"]))
    print(table.render())
    if options.json:
        write(options.json, "detection", rows, device="cpu")


if __name__ == "__main__":
    main()
