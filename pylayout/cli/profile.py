"""`pylayout profile`: a network or a model file under each layout policy; where its time and its reorders are."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from .common import (
    add_device,
    add_threads,
    apply_threads,
    check_device,
    check_file,
    check_folder,
    positive,
    seconds,
    seed,
    writing,
)
from .errors import UsageError
from .model import add_shapes, add_tuning, read_inputs, read_model
from .progress import Progress
from .terminal import Table, bar, bytes_text, ms_text, style

__all__ = ["add", "run"]

_NETWORKS = ("resnet50", "mobilenet_v2", "vgg16")
_POLICIES = ("per-op", "NCHW", "NHWC", "nChw16c", "auto")

_DESCRIPTION = """\
Run a network, built from pylayout's ops, or an ONNX model, compiled into a plan for each policy, under several layout
policies, and show what each costs:
  per-op                 every op works in its best layout, and its result is reordered back to NCHW, as in a
                         framework that does not track layouts
  NCHW, NHWC, nChw16c    every op works in that layout
  auto                   pylayout chooses by measured cost: for each op of a network, for a whole model at once"""

_EPILOG = """\
examples:
  pylayout profile resnet50
  pylayout profile mobilenet_v2 --batch 16 --policies NCHW,NHWC,auto --report report.html --json out.json
  pylayout profile vgg16 --weights vgg16.safetensors --image cat.jpg
  pylayout profile model.onnx --batch 16 --input cat.jpg
The first run on a machine measures the ways to run each op, which takes a while; later runs start from those times.
How to read the report: docs/howto/read-a-profile.md."""


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "profile",
        help="run a network under several rules for choosing layouts: what each costs, and where layouts change",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("network", metavar="NETWORK | FILE.onnx", help=", ".join(_NETWORKS) + ", or a model file")
    add_device(parser)
    add_threads(parser)
    parser.add_argument("--batch", type=positive, metavar="N", help="images a run (default 1, or the model's)")
    parser.add_argument("--image", metavar="FILE", help="a picture to run on (default: a photograph)")
    model = parser.add_argument_group("model files only")
    add_shapes(model)
    add_tuning(model)
    parser.add_argument(
        "--weights", metavar="FILE.safetensors", help="weights with torchvision's names (default: seeded weights)"
    )
    parser.add_argument(
        "--policies",
        nargs="+",
        metavar="POLICY",
        help=f"some of: {' '.join(_POLICIES)}, or another layout such as nChw8c (default: those five)",
    )
    parser.add_argument("--report", metavar="FILE.html", help="write an HTML report: timeline, dearest reorders, ops")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the seeded weights (default 0)")
    parser.add_argument("--rounds", type=positive, default=15, metavar="N", help="at most N rounds (default 15)")
    parser.add_argument(
        "--seconds", type=seconds, default=12.0, metavar="S", help="start no round after S seconds (default 12)"
    )
    parser.set_defaults(run=run)


def _policies(texts: list[str] | None) -> list[str]:
    from pylayout import Error, Layout

    names = [name for text in texts or _POLICIES for name in text.split(",") if name]
    for name in names:
        if name not in _POLICIES:
            try:
                rank = Layout(name).rank
            except Error:
                rank = 0
            if rank != 4:
                raise UsageError(f"--policies: {name!r} is neither {', '.join(_POLICIES)} nor a layout of images")
    if len(set(names)) != len(names) or not names:
        raise UsageError(f"--policies: {' '.join(names) or 'none'}, expected each policy once")
    return names


def _images(options: argparse.Namespace) -> tuple[Any, str]:
    """The batch (n, 3, 224, 224), and what is on it."""
    import numpy as np

    from .. import image

    path = Path(options.image) if options.image else image.photograph()
    if path is None:
        picture, name = image.synthetic(), "a drawn picture (with matplotlib and Pillow: a photograph)"
    else:
        picture, name = image.load(path), path.name
    return np.ascontiguousarray(np.repeat(picture, options.batch or 1, axis=0)), name


def _print_table(comparison: Any) -> None:
    policies = comparison.policies
    full = max(runs.total_ms for runs in policies.values())
    best = min(policies, key=lambda name: policies[name].total_ms)
    table = Table(
        ("policy", "total ms", "ops ms", "reorders ms", "share", "reorders: activations", "weights", "error"),
        right=("total ms", "ops ms", "reorders ms", "share", "reorders: activations", "weights", "error"),
    )
    for name, runs in policies.items():
        moved = [runs.reorders(what) for what in ("activations", "weights")]
        error = "not finite" if runs.error is None else "0" if runs.error == 0 else f"{runs.error:.1e}"
        table.add(
            name,
            ms_text(runs.total_ms),
            ms_text(runs.op_ms),
            ms_text(runs.reorder_ms) if runs.reorder_ms else "0",
            f"{100 * runs.reorder_ms / runs.total_ms:.1f}%",
            *(f"{item['count']} ({bytes_text(item['bytes'])})" if item["count"] else "none" for item in moved),
            error,
            styles=("green", "bold") if name == best else (),
        )
    table.print()
    print()
    width = max(map(len, policies))
    for name, runs in policies.items():
        rest = max(0.0, runs.total_ms - runs.op_ms - runs.reorder_ms)
        drawn = bar([(runs.op_ms, "blue"), (runs.reorder_ms, "yellow"), (rest, "dim")], full, 50)
        print(f"{name:>{width}}  {drawn} {ms_text(runs.total_ms)} ms")
    marks = bar([(1, "blue"), (1, "yellow"), (1, "dim")], 3, 3)
    keys = [marks[i * len(marks) // 3 : (i + 1) * len(marks) // 3] for i in range(3)]
    if not os.environ.get("NO_COLOR") and "\x1b" in marks:
        keys = [bar([(0, "blue")] * i + [(1, colour)], 1, 1) for i, colour in enumerate(("blue", "yellow", "dim"))]
    print(" " * width + f"  {keys[0]} ops  {keys[1]} reorders  {keys[2]} Python, dispatch, waiting")


def _print_findings(comparison: Any) -> None:
    policies = comparison.policies
    if "auto" not in policies or len(policies) < 2:
        return
    auto = policies["auto"]
    others = {name: runs for name, runs in policies.items() if name not in ("auto", "per-op")}
    said = []
    if others:
        rival = min(others.values(), key=lambda runs: runs.total_ms)
        said.append(f"{rival.total_ms / auto.total_ms:.2f} times as fast as {rival.name}, the best single layout")
    if "per-op" in policies:
        said.append(f"{policies['per-op'].total_ms / auto.total_ms:.2f} times as fast as per-op")
    print(f"\nauto runs {' and '.join(said)}.")


def _print_top(logits: Any) -> None:
    """The five likeliest classes of the first image."""
    import numpy as np

    first = np.asarray(logits[0], np.float64)
    likely = np.exp(first - first.max())
    likely /= likely.sum()
    order = np.argsort(-likely)[:5]
    print("\ntop 5 classes: " + ", ".join(f"{index} ({100 * likely[index]:.1f}%)" for index in order))


def _settings(options: argparse.Namespace) -> Any:
    from ..comparison import Settings

    return Settings(
        rounds=options.rounds, least_rounds=min(3, options.rounds), seconds=options.seconds, seed=options.seed
    )


def _write_report(options: argparse.Namespace, comparison: Any, facts: dict[str, str]) -> None:
    from .. import machine, report

    if options.report:
        with writing("--report", options.report):
            report.write_comparison(options.report, comparison, facts, machine.facts())
        print(f"\nreport: {options.report}")


def _run_network(options: argparse.Namespace, policies: list[str]) -> Any:
    images, picture = _images(options)
    from ..comparison import compare
    from ..networks import Network

    with Progress(options.progress) as progress:
        network = Network(
            options.network,
            options.weights,
            seed=options.seed,
            device=options.device,
            progress=lambda done, total: progress.update("weights", done, total),
        )
        comparison = compare(network, images, policies, _settings(options), progress.update)
    gflop = network.flops * len(images) / 1e9
    weights = Path(options.weights).name if options.weights else f"seeded ({options.seed})"
    print(style(f"{options.network} on {options.device}", "bold") + f", batch {len(images)}, {picture}")
    print(f"{gflop:.1f} GFLOP in {len(network.layers)} convolutions and linear layers, weights: {weights}\n")
    _print_table(comparison)
    _print_findings(comparison)
    if options.weights:
        _print_top(comparison.logits)
    _write_report(options, comparison, {"image": picture, "weights": weights, "work": f"{gflop:.1f} GFLOP"})
    return comparison


def _run_model(options: argparse.Namespace, policies: list[str]) -> Any:
    options.model = options.network
    for option in ("weights", "image"):
        if getattr(options, option):
            raise UsageError(f"--{option} is for {', '.join(_NETWORKS)}; for a model file: --input")
    model, shapes = read_model(options)
    from .. import onnx
    from ..comparison import compare
    from ..policies import PlannedModel

    with Progress(options.progress) as progress:
        graph = onnx.load(model, shapes=shapes or None)
        network = PlannedModel(
            graph,
            policies,
            device=options.device,
            tune=options.tune,
            seconds=options.tune_seconds,
            progress=progress.update,
        )
        network.name = Path(options.model).name
        arrays, words = read_inputs(options, network.inputs)
        comparison = compare(network, tuple(arrays), policies, _settings(options), progress.update)
    print(style(f"{network.name} on {options.device}", "bold") + f", batch {comparison.batch}, {words}\n")
    _print_table(comparison)
    _print_findings(comparison)
    _write_report(options, comparison, {"input": words})
    return comparison


def run(options: argparse.Namespace) -> dict[str, Any]:
    known = options.network in _NETWORKS
    for option in ("image", "weights"):
        if getattr(options, option) is not None:
            check_file(f"--{option}", getattr(options, option))
    if not known and not Path(options.network).is_file():
        raise UsageError(f"{options.network}: neither a file nor one of {', '.join(_NETWORKS)}")
    policies = _policies(options.policies)
    check_folder("--report", options.report)
    apply_threads(options)
    check_device(options.device)
    if known and (options.input or options.shape):
        raise UsageError("--input and --shape are for model files; for a network: --image")
    comparison = (_run_network if known else _run_model)(options, policies)
    result: dict[str, Any] = comparison.to_json()
    return result
