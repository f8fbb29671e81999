"""`pylayout doctor`: what is slow on this machine, why, and what to do."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from typing import Any

from ..doctor import Facts, examine, gather
from .common import add_threads, apply_threads
from .model import add_shapes, compile_plan
from .progress import Progress
from .terminal import style

__all__ = ["FOUND", "add", "run"]

# The exit code where something costs speed.
FOUND = 3

_EPILOG = """\
examples:
  pylayout doctor                       of the machine, the libraries and the cache
  pylayout doctor model.onnx            whether that model's choices rest on measurements, too
  pylayout doctor --threads 8 --json    for that number of threads, as JSON
  pylayout doctor --faults              with the known faults of libraries and drivers that are avoided
error: something does not work; warning: it costs time; note: it may. Exit code: 0 where there are notes at most,
3 where there are warnings or errors, 1 and 2 where the command itself fails. Run it while the machine is as busy as it
will be."""


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        help="what is slow here and why, and what to do about it",
        description="Examine processors, threads, containers, OpenCL runtimes, caches, settings and library versions.",
        epilog=_EPILOG,
    )
    parser.add_argument("model", nargs="?", metavar="FILE.onnx", help="a model whose choices are examined, too")
    add_shapes(parser)
    add_threads(parser)
    parser.add_argument(
        "--faults", action="store_true", help="list all known faults of libraries and drivers, and which are here"
    )
    parser.set_defaults(run=run, device="cpu", batch=None, layout="auto", tune="off", tune_seconds=0.0)


def _with_model(facts: Facts, options: argparse.Namespace) -> Facts:
    with Progress(options.progress) as progress:
        choices = compile_plan(options, progress).summary()["choices"]
    estimated = tuple(choice["node"] for choice in choices if not choice["measured"])
    marked = tuple(choice["node"] for choice in choices if choice["marked"])
    return replace(facts, estimated=estimated, marked=marked, nodes=len(choices))


def _print_faults(facts: Facts) -> None:
    print(f"\n{style('Known faults of libraries and drivers', 'bold')}")
    for fault in facts.faults:
        versions = f"from {fault['since']}" * bool(fault["since"]) + f" before {fault['fixed']}" * bool(fault["fixed"])
        here = ", ".join(fault["here"])
        state = f"here ({here})" if fault["applies"] else f"not in {here}" if here else "not here"
        print(f"{style(fault['id'], 'cyan')}: {fault['library']} {versions.strip() or 'of all versions'}, {state}")
        for name in ("condition", "effect", "seen", "instead"):
            print(f"    {style(name + ':', 'dim')} {fault[name]}")


def run(options: argparse.Namespace) -> dict[str, Any]:
    apply_threads(options)
    with Progress(options.progress) as progress:
        progress.update("looking at what else runs", 0, 1)
        facts = gather()
    if options.model:
        facts = _with_model(facts, options)
    findings = examine(facts)
    colours = {"error": ("red", "bold"), "warning": ("yellow", "bold"), "note": ("cyan",)}
    for finding in findings:
        print(f"{style(finding.severity, *colours[finding.severity])} [{finding.check}] {finding.fact}")
        print(f"    {style('do:', 'dim')} {finding.remedy}")
    grave = [finding for finding in findings if finding.severity != "note"]
    if not grave:
        print("Nothing was found that costs speed here." if not findings else "\nNothing else was found.")
    if options.faults:
        _print_faults(facts)
    options.exit_code = FOUND if grave else 0
    return {"findings": [finding.to_json() for finding in findings], "facts": asdict(facts)}
