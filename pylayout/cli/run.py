"""`pylayout run`: a model file on an input: what comes out, and how long it takes."""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from ..report.plan import batch_text
from .common import check_folder, positive, writing
from .errors import UsageError
from .model import add_model, compile_plan, picture_size, read_inputs
from .progress import Progress
from .terminal import Table, bytes_text, ms_text, style, threads_text

__all__ = ["add", "print_plan", "run"]

_EPILOG = """\
examples:
  pylayout run model.onnx --input photo.jpg
  pylayout run model.onnx --input array.npy --output result.npz --runs 100
  pylayout run encoder.onnx --shape tokens=1,128 --input tokens=ids.npy --threads 4
The first run on a machine measures the ways to run each op, which takes a while; later runs start from those times.
`pylayout explain model.onnx` says why it runs as it does."""


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="run an ONNX model on a picture or an array",
        description="Compile an ONNX model into a plan, run it on a picture or on arrays, and time it.",
        epilog=_EPILOG,
    )
    add_model(parser)
    parser.add_argument("--output", metavar="FILE.npz", help="write the outputs, by name (.npy: the only one)")
    parser.add_argument("--runs", type=positive, default=20, metavar="N", help="how often to run (default 20)")
    parser.set_defaults(run=run)


def print_plan(model: str, plan: Any, summary: dict[str, Any]) -> None:
    """What a plan is, in a few lines."""
    reorders, memory = summary["reorders"], summary["memory"]
    threads = f", {threads_text(summary['threads'])}" if plan.device == "cpu" else ""
    print(style(f"{Path(model).name} on {plan.device}", "bold") + threads)
    moved = f" ({bytes_text(reorders['bytes'])}, {ms_text(reorders['ms'])} ms)" if reorders["count"] else ""
    count = "1 reorder" if reorders["count"] == 1 else f"{reorders['count'] or 'no'} reorders"
    print(f"{summary['ops']} ops, {count} of activations{moved}")
    for widened in summary["widened"]:
        print(widened["why"])
    if cut := batch_text(summary):
        print(f"the batch {cut}")
    print(
        f"activations {bytes_text(memory['arena_bytes'])} (at least {bytes_text(memory['lower_bound_bytes'])} are "
        f"alive at once), weights {bytes_text(memory['constant_bytes'])}"
    )


def _print_outputs(plan: Any, outputs: list[Any]) -> None:
    import numpy as np

    table = Table(("output", "dtype", "shape", "least", "mean", "most"), right=("least", "mean", "most"))
    for item, array in zip(plan.outputs, outputs, strict=True):
        numbers: tuple[str, ...] = ("", "", "")
        if array.size:
            values = np.asarray(array, np.float64)
            numbers = tuple(f"{value:.4g}" for value in (values.min(), values.mean(), values.max()))
        table.add(item["name"], item["dtype"], " x ".join(map(str, array.shape)) or "scalar", *numbers)
    table.print()


def _likely(inputs: list[dict[str, Any]], outputs: list[Any]) -> list[dict[str, Any]]:
    """The five likeliest classes of the first of a batch, if the model seems to tell pictures apart."""
    import numpy as np

    if len(inputs) != 1 or picture_size(inputs[0]["shape"]) is None:
        return []
    if len(outputs) != 1 or outputs[0].ndim != 2 or outputs[0].shape[1] < 10 or outputs[0].dtype.kind != "f":
        return []
    first = np.asarray(outputs[0][0], np.float64)
    if not np.isfinite(first).all():
        return []
    if first.min() < 0 or abs(first.sum() - 1) > 1e-3:  # logits rather than probabilities
        first = np.exp(first - first.max())
        first /= first.sum()
    return [{"class": int(index), "probability": float(first[index])} for index in np.argsort(-first)[:5]]


def _save(path: str, plan: Any, outputs: list[Any]) -> None:
    import numpy as np

    with writing("--output", path), Path(path).open("wb") as file:
        if Path(path).suffix == ".npy":
            np.save(file, outputs[0])
        else:
            np.savez(file, **{item["name"]: array for item, array in zip(plan.outputs, outputs, strict=True)})


def run(options: argparse.Namespace) -> dict[str, Any]:
    import numpy as np

    check_folder("--output", options.output)
    with Progress(options.progress) as progress:
        plan = compile_plan(options, progress)
        if options.output and Path(options.output).suffix == ".npy" and len(plan.outputs) != 1:
            raise UsageError(f"--output {options.output}: there are {len(plan.outputs)} outputs, expected FILE.npz")
        arrays, words = read_inputs(options, plan.inputs)
        from .. import asarray, synchronize

        outputs = plan.run(*arrays)
        tensors = [asarray(array, device=plan.device) for array in arrays]
        times = []
        for number in range(options.runs):
            progress.update(f"run {number + 1}", number, options.runs)
            synchronize(plan.device)
            start = time.perf_counter()
            plan(*tensors)
            synchronize(plan.device)
            times.append((time.perf_counter() - start) * 1e3)
    summary = plan.summary()
    print_plan(options.model, plan, summary)
    middle = statistics.median(times)
    print(
        f"input: {words}\ntime: {ms_text(middle)} ms a run, median of {len(times)} (least {ms_text(min(times))}, "
        f"most {ms_text(max(times))})\n"
    )
    _print_outputs(plan, outputs)
    likely = _likely(plan.inputs, outputs)
    if likely:
        named = ", ".join(f"{item['class']} ({100 * item['probability']:.1f}%)" for item in likely)
        print(f"\ntop 5 classes: {named}")
    if options.output:
        _save(options.output, plan, outputs)
    finite = [bool(np.isfinite(array).all()) if array.dtype.kind == "f" else True for array in outputs]
    return {
        "model": Path(options.model).name,
        "device": plan.device,
        "input": words,
        "ms": {"median": middle, "least": min(times), "most": max(times), "runs": len(times)},
        "outputs": [
            {"name": item["name"], "dtype": item["dtype"], "shape": list(array.shape), "finite": ok}
            for item, array, ok in zip(plan.outputs, outputs, finite, strict=True)
        ],
        "top": likely,
        "summary": summary,
    }
