"""`pylayout bench`: a model in pylayout and in other engines, in turns: medians, ratios, errors."""

from __future__ import annotations

import argparse
import importlib.util
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..peers import PEERS, Row, missing, race
from .common import (
    add_device,
    add_threads,
    check_device,
    check_folder,
    ending_in_order,
    positive,
    seconds,
    seed,
    writing,
)
from .errors import UsageError
from .model import add_layout, add_shapes, add_tuning, read_inputs, read_model
from .progress import Progress
from .terminal import Table, ms_text, style, threads_text

__all__ = ["add", "run"]

_EPILOG = """\
examples:
  pylayout bench model.onnx                                    against every engine that is installed
  pylayout bench model.onnx --against onnxruntime openvino --batch 1 16 --plot speed.svg
  pylayout bench encoder.onnx --shape tokens=1,128 --threads 4 --json result.json
Each engine runs in a process of its own, on the same inputs and as many threads. They take turns in a new random order
each round, so that a machine whose speed drifts slows all alike. `ratio` is a peer's median over pylayout's: above 1,
pylayout is faster. `error` is the relative L2 distance of all outputs to those of the first peer that runs.
torch runs ONNX files by the package onnx2torch."""


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "bench",
        help="a model's speed beside ONNX Runtime, OpenVINO and PyTorch",
        description="Measure an ONNX model in pylayout and in other engines, in turns, on the same inputs.",
        epilog=_EPILOG,
    )
    parser.add_argument("model", metavar="FILE.onnx", help="the model")
    parser.add_argument(
        "--against",
        nargs="+",
        choices=tuple(PEERS),
        metavar="ENGINE",
        help=f"some of: {' '.join(PEERS)} (default: those that are installed)",
    )
    add_shapes(parser)
    parser.add_argument(
        "--batch",
        nargs="+",
        type=positive,
        metavar="N",
        help="the first size of every input; several are measured in turn",
    )
    add_device(parser)
    add_threads(parser)
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=20.0,
        metavar="S",
        help="start no round after S seconds, a batch (default 20)",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the times: .svg, .png or .pdf (needs matplotlib)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the order of turns (default 0)")
    add_layout(parser)
    add_tuning(parser)
    parser.set_defaults(run=run)


def _check_plot(path: str | None) -> None:
    check_folder("--plot", path)
    if path and Path(path).suffix not in (".svg", ".png", ".pdf"):
        raise UsageError(f"--plot {path}: expected a name that ends in .svg, .png or .pdf")
    if path and importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot: matplotlib is not installed: pip install '.[report]' in the clone")


def _measure(options: argparse.Namespace, batch: int | None, peers: Sequence[str], progress: Progress) -> Row:
    """The model at one batch size."""
    from ..dtypes import dtype_of
    from ..onnx.contents import array_type

    chosen = argparse.Namespace(**{**vars(options), "batch": batch})
    progress.update("reading the model", 0, 1)
    model, shapes = read_model(chosen)
    bound = model.bind(shapes, {}, {})
    inputs = [
        {"name": entry.name, "dtype": dtype_of(array_type(entry)).name, "shape": list(bound[entry.name])}
        for entry in model.inputs
    ]
    arrays, _ = read_inputs(chosen, inputs)
    for item, array in zip(inputs, arrays, strict=True):
        if list(array.shape) != item["shape"]:
            raise UsageError(f"--input: {item['name']} has shape {list(array.shape)}, expected {item['shape']}")
    axes = {
        dim: size
        for entry in model.inputs
        for dim, size in zip(entry.dims or (), bound[entry.name], strict=False)
        if isinstance(dim, str)
    }
    request = {
        "model": str(Path(options.model).resolve()),
        "shapes": {name: list(shape) for name, shape in bound.items()},
        "axes": axes,
        "threads": options.threads,
        "device": options.device,
        "layout": options.layout,
        "tune": options.tune,
        "tune_seconds": options.tune_seconds,
    }
    label = f"batch {batch}, " if batch else ""
    return race(
        request,
        {item["name"]: array for item, array in zip(inputs, arrays, strict=True)},
        peers,
        seconds=options.seconds,
        seed=options.seed,
        progress=lambda stage, done, total: progress.update(label + stage, done, total),
    )


def _print_row(row: Row) -> None:
    heading = "error" if row.reference is None else f"error to {row.reference}"
    numbers = ("ms", "quarters", "ratio", heading, "runs")
    table = Table(("engine", "version", *numbers), right=numbers)
    ratios = row.ratios()
    best = min(row.engines.values(), key=lambda engine: engine.ms).name
    for name, engine in row.engines.items():
        low, high = engine.quartiles
        compared = row.reference not in (None, name)
        error = "" if not compared else "not finite" if engine.error is None else f"{engine.error:.1e}"
        table.add(
            name,
            engine.version.partition("-")[0],
            ms_text(engine.ms),
            f"{ms_text(low)} to {ms_text(high)}",
            f"{ratios[name]:.3g}" if name in ratios else "",
            error,
            len(engine.times),
            styles=("green", "bold") if name == best else (),
        )
    table.print()
    for name, why in row.left_out.items():
        print(f"{name} is left out: {why}")


def _draw(path: str, title: str, rows: Sequence[tuple[int | None, Row]]) -> None:
    """Bars of the medians, each batch's scaled to pylayout's, with the quartiles as whiskers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(name for _, row in rows for name in row.engines))
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.35 * len(names) * len(rows)), layout="constrained")
    height = 0.8 / len(names)
    for place, name in enumerate(names):
        for group, (_, row) in enumerate(rows):
            if name not in row.engines:
                continue
            engine, own = row.engines[name], row.engines["pylayout"].ms
            low, high = engine.quartiles
            at, length = group + (place - (len(names) - 1) / 2) * height, engine.ms / own
            whiskers = [[(engine.ms - low) / own], [(high - engine.ms) / own]]
            bars = axes.barh(at, length, height * 0.9, xerr=whiskers, color=f"C{place}", ecolor="0.3")
            axes.annotate(
                f" {name} {ms_text(engine.ms)} ms",
                (max(length, high / own), at),
                va="center",
                fontsize=8,
                xytext=(4, 0),
                textcoords="offset points",
            )
            bars.set_label(name if group == 0 else None)
    axes.axvline(1.0, color="0.5", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [f"batch {batch}" if batch else "" for batch, _ in rows])
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlim(left=0)
    axes.set_xlabel("median time, pylayout = 1 (shorter is faster)")
    axes.set_title(title)
    with writing("--plot", path):
        figure.savefig(path)
    pyplot.close(figure)


def run(options: argparse.Namespace) -> dict[str, Any]:
    _check_plot(options.plot)
    check_device(options.device)
    peers = list(dict.fromkeys(options.against or [name for name in PEERS if missing(name) is None]))
    if options.threads is None:
        from ..device import get_threads

        options.threads = get_threads()
    model = Path(options.model).name
    rows: list[tuple[int | None, Row]] = []
    for batch in options.batch or [None]:
        with ending_in_order(), Progress(options.progress) as progress:
            row = _measure(options, batch, peers, progress)
        rows.append((batch, row))
        print(
            style(f"{model} on {options.device}", "bold")
            + f", {threads_text(options.threads)}"
            + f", batch {batch}" * bool(batch)
        )
        _print_row(row)
        print()
    if not peers:
        print("No peer can run here: " + "; ".join(f"{name}: {missing(name)}" for name in PEERS))
    best = [min(ratios.values()) for _, row in rows if (ratios := row.ratios())]
    mean = math.exp(statistics.fmean(map(math.log, best))) if best else None
    if mean is not None:
        several = f", geometric mean of {len(best)} batches" if len(best) > 1 else ""
        print(f"pylayout is {mean:.3g} times as fast as the best of its peers{several}.")
    if options.plot:
        _draw(options.plot, f"{model} on {options.device}, {threads_text(options.threads)}", rows)
        print(f"plot: {options.plot}")
    from .. import machine

    return {
        "model": model,
        "device": options.device,
        "threads": options.threads,
        "machine": machine.facts(),
        "rows": [{"batch": batch, **row.to_json()} for batch, row in rows],
        "geomean_ratio": None if mean is None else round(mean, 4),
    }
