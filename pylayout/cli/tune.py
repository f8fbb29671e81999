"""`pylayout tune`: search the kernels' parameters for an op, a network or a model, and keep what was found."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from . import query
from .common import (
    add_device,
    add_threads,
    apply_threads,
    check_device,
    check_file,
    check_folder,
    positive,
    seconds,
    writing,
)
from .errors import UsageError
from .progress import Progress
from .terminal import Table, ms_text, style

__all__ = ["add", "run"]

_NETWORKS = ("resnet50", "mobilenet_v2", "vgg16")
_MORE_LINES = re.compile(r": (\d+) more lines")

_DESCRIPTION = """\
Measure every way to run one op, or every op of a network or a model, on a device, and search the tuning spaces of the
kernels (docs/howto/tune.md): first the values a program would start from, then all others that the device can run.
Every time is kept in the cost database at once: a search that is interrupted goes on where it was, and programs take
the fastest from then on. What won also goes into a table in the cache directory, for shapes like those searched."""

_EXAMPLES = """\
examples:
  pylayout tune resnet50 --device opencl:0 --batch 16
  pylayout tune model.onnx --device opencl:0 --shape input=8,3,224,224 --seconds 600
  pylayout tune conv2d --input 1,64,56,56 --input 64,64,3,3 --set padding=1 --device opencl:0
  pylayout tune --export mine.tuned --device opencl:0     what was found so far, as a table
  pylayout tune --import mine.tuned                       use somebody's table here
  pylayout tune --list
"""


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "tune",
        help="search the kernels' parameters for an op, a network or a model, and remember them",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "op",
        nargs="?",
        metavar="OP | NETWORK | FILE.onnx",
        help=f"an op's name (see --list), {', '.join(_NETWORKS)}, or a model file",
    )
    add_device(parser)
    add_threads(parser)
    parser.add_argument(
        "--seconds", type=seconds, metavar="S", help="begin no measurement after S seconds (default 10 for an op, 300)"
    )
    parser.add_argument("--math", choices=("fp32", "tf32"), help="how f32 products may be computed (default fp32)")
    parser.add_argument("--export", metavar="FILE", help="write what was found on this device as a table")
    parser.add_argument(
        "--import",
        dest="import_",
        metavar="FILE",
        help="put a table into the cache directory, to start from its values",
    )
    network = parser.add_argument_group("networks and model files only")
    network.add_argument("--batch", type=positive, metavar="N", help="images a run (default 1, or the model's)")
    network.add_argument(
        "--shape", action="append", default=[], metavar="NAME=N,C,H,W", help="the shape of a model's input"
    )
    query.add_call(parser.add_argument_group("ops only"))
    parser.set_defaults(run=run)


def _meet_network(options: argparse.Namespace, progress: Progress) -> None:
    """Runs the network once without measuring, so that its ops are known."""
    import numpy as np

    import pylayout

    from ..networks import Network

    network = Network(
        options.op, device=options.device, progress=lambda done, total: progress.update("weights", done, total)
    )
    progress.update("first run", 1, 1)
    images = np.zeros((options.batch or 1, 3, 224, 224), np.float32)
    np.asarray(network(pylayout.asarray(images, device=options.device)))


def _meet_model(options: argparse.Namespace, progress: Progress) -> None:
    import pylayout

    from .model import read_model

    options.model = options.op
    model, shapes = read_model(options)
    pylayout.compile(
        model,
        device=options.device,
        tune="off",
        shapes=shapes or None,
        progress=lambda stage, fraction: progress.update(stage, fraction, 1),
    )


def _device_words(name: str) -> str:
    """The device's name, as a table's `device` line has it."""
    import pylayout

    device = next(device for device in pylayout.devices() if device.name == name)
    words: list[str] = str(device.capabilities.get("name", name)).split()
    return " ".join(words)


def _table_folder() -> Path | None:
    from ..device import costs

    directory = costs()["cache_dir"]
    return Path(directory) / "tuned" if directory else None


def _write_table(path: Path, device: str) -> int:
    """Writes the device's table; returns how many classes it has."""
    from ..tuner import table_text, tuned_values

    text = table_text(tuned_values(device), _device_words(device))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# Written by `pylayout tune`; format: docs/howto/tune.md.\n" + text, "utf-8")
    return text.count("\n") - 1


def _export(options: argparse.Namespace) -> int:
    with writing("--export", options.export):
        return _write_table(Path(options.export), options.device)


def _keep_table(device: str) -> None:
    folder = _table_folder()
    if folder is None or device == "cpu":
        return
    name = "".join(c if c.isalnum() else "-" for c in _device_words(device))
    _write_table(folder / f"{name}.tuned", device)


def _import_table(source: str) -> dict[str, Any]:
    path = Path(source)
    check_file("--import", source)
    folder = _table_folder()
    if folder is None:
        raise UsageError("--import: there is no cache directory that can be written")
    from ..device import describe

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / (path.stem + ".tuned")
    former = target.read_bytes() if target.is_file() else None
    content = path.read_bytes()
    target.write_bytes(content)
    # The library reads tables once, when it is first asked about them: now.
    notes = [note for provider in describe()["providers"] for note in provider["notes"]]
    problems = [note.replace(str(target), source, 1) for note in notes if note.startswith(f"{target}:")]
    refused = sum(int(more[1]) if (more := _MORE_LINES.search(problem)) else 1 for problem in problems)
    lines = [line.split("#")[0].split() for line in content.decode("latin-1").split("\n")]
    if sum(bool(line) and line[0] != "device" for line in lines) <= refused:
        target.unlink() if former is None else target.write_bytes(former)
        raise UsageError("\n  ".join([f"--import {source}: no line of it can be used", *problems]))
    for problem in problems:
        print(style(problem, "yellow"))
    print(f"{target}: programs started from now on begin with its values")
    return {"imported": str(target), "problems": problems}


def _implementation(key: str) -> str:
    return key.split("/")[1] if "/" in key else key


def _print_result(result: dict[str, Any]) -> None:
    table = Table(
        ("op", "before ms", "after ms", "gain", "points", "now"), right=("before ms", "after ms", "gain", "points")
    )
    before = after = 0.0
    for item in result["ops"]:
        before += item["before_ms"]
        after += item["after_ms"]
        gain = item["before_ms"] / item["after_ms"] if item["after_ms"] else 1.0
        table.add(
            item["op"],
            ms_text(item["before_ms"]),
            ms_text(item["after_ms"]),
            f"{gain:.2f}",
            f"{item['measured']}/{item['points']}",
            _implementation(item["after"]),
            styles=("green",) if gain > 1.02 else () if item["finished"] else ("dim",),
        )
    if result["ops"]:
        table.print()
        print(
            f"\n{len(result['ops'])} different ops, each once: {ms_text(before)} ms before, {ms_text(after)} ms now, "
            f"in {result['seconds']:.0f} s"
        )
    left = sum(not item["finished"] for item in result["ops"])
    if left or result.get("interrupted"):
        print(style(f"{left} ops are not finished: the same command goes on from here.", "yellow"))


def run(options: argparse.Namespace) -> Any:
    check_folder("--export", options.export)
    if options.import_:
        return _import_table(options.import_)
    if options.math:
        import pylayout

        pylayout.configure(math=options.math)
    network = options.op in _NETWORKS
    model = bool(options.op) and not network and (options.op.endswith(".onnx") or Path(options.op).is_file())
    if options.op is None and options.export and not options.list:
        check_device(options.device)
        count = _export(options)
        print(f"{options.export}: {count} classes of shapes on {_device_words(options.device)}")
        return {"exported": options.export, "classes": count}
    if not network and not model:
        options.seconds = options.seconds or 10.0
        answer = query.run(options)
        if options.export:
            _export(options)
        return answer
    if options.input or options.set:
        raise UsageError("--input and --set are for ops; for a network: --batch, for a model file: --shape")
    import pylayout

    apply_threads(options)
    check_device(options.device)
    with Progress(options.progress) as progress:
        pylayout.configure(tune="off")
        try:
            _meet_network(options, progress) if network else _meet_model(options, progress)
        finally:
            pylayout.configure(tune="auto")
        result = pylayout.tune_device(
            options.device,
            seconds=options.seconds or 300.0,
            progress=lambda what, fraction: progress.update(what, fraction, 1),
        )
    _keep_table(options.device)
    if options.export:
        _export(options)
    print(style(f"{Path(options.op).name} on {options.device}", "bold") + f", batch {options.batch or 1}\n")
    _print_result(result)
    return result
