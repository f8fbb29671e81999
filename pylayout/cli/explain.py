"""`pylayout explain`: why a model's plan is as it is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .common import check_folder, writing
from .model import add_model, compile_plan
from .progress import Progress
from .run import print_plan
from .terminal import Table, bytes_text, ms_text, style

__all__ = ["add", "run"]

_DESCRIPTION = """\
Compile an ONNX model into a plan and say why it is as it is: for each op what was chosen, the runner-up and how much
slower the whole would be with it; each reorder, its bytes and time, and which op made it necessary."""

_EPILOG = """\
examples:
  pylayout explain model.onnx
  pylayout explain model.onnx --html plan.html    a picture of it
  pylayout explain model.onnx --layout NHWC       the plan with a layout forced
The first run on a machine measures the ways to run each op, which takes a while; later runs start from those times."""


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "explain",
        help="say why a model runs as it does: each choice, the next best, each reorder (change of layout), its cause",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add_model(parser)
    parser.add_argument("--html", metavar="FILE.html", help="write the plan as a picture too")
    parser.add_argument("--dot", metavar="FILE.dot", help="write the graph after the passes in Graphviz's language")
    parser.set_defaults(run=run)


def _way(choice: dict[str, Any]) -> str:
    if "provider" in choice:
        return f"{choice['provider']}/{choice['implementation']}"
    return str(choice.get("kind", "in place"))


def _layouts(choice: dict[str, Any], op: str) -> str:
    """Of the inputs that are not weights as far as that matters: the first, and the result's."""
    first = next((layout for layout in choice["inputs"] if layout), "")
    parts = [layout for layout in choice["inputs"] if layout]
    if op == "concat" and len(set(parts)) > 1:
        first = " ".join(parts)
    outputs = list(dict.fromkeys(layout for layout in choice["outputs"] if layout))
    return f"{first} → {' '.join(outputs)}" if outputs != [first] else first


def _print_choices(summary: dict[str, Any]) -> None:
    table = Table(
        ("op", "node", "chosen", "layout", "ms", "next best", "its layout", "margin ms"), right=("ms", "margin ms")
    )
    reorders: dict[str, list[dict[str, Any]]] = {}
    for step in summary["steps"]:
        if step["kind"] != "op":
            reorders.setdefault(step["node"], []).append(step)

    def add_reorders(node: str) -> None:
        for step in reorders.get(node, []):
            layouts = f"{' '.join(step['inputs'])} → {' '.join(step['outputs'])}"
            what = f"{bytes_text(step['bytes'])}, for {step['cause']}"
            table.add(step["kind"], "", what, layouts, ms_text(step["ms"]), "", "", "", styles=("yellow",))

    for choice in summary["choices"]:
        add_reorders(choice["node"])
        following = choice["next"]
        ms = ms_text(choice["ms"]) + ("?" if not choice["measured"] else "*" if choice["marked"] else "")
        table.add(
            choice["op"],
            choice["node"],
            _way(choice),
            _layouts(choice, choice["op"]),
            ms if choice["kind"] == "op" else "",
            _way(following) if following else "",
            _layouts(following, choice["op"]) if following else "",
            f"{following['margin_ms']:+.4f}" if following and following["margin_ms"] is not None else "",
            styles=() if choice["kind"] == "op" else ("dim",),
        )
    add_reorders("")
    table.print()
    if any(choice["kind"] == "op" and not choice["measured"] for choice in summary["choices"]):
        print("?: estimated, not measured")
    if any(choice["marked"] for choice in summary["choices"]):
        print("*: measured beside other programs; measured again once a compilation finds the machine quiet")


def _print_elsewhere(summary: dict[str, Any]) -> None:
    """The ops that do not run on the plan's device, and what its providers say about each."""
    refused = [choice for choice in summary["choices"] if choice["refusals"]]
    if not refused:
        return
    table = Table(("op", "node", "runs on", "provider", f"why not on {summary['device']}"))
    for choice in refused:
        for refusal in choice["refusals"]:
            table.add(choice["op"], choice["node"], choice["device"], refusal["provider"], refusal["reason"])
    print()
    table.print()


def _print_disagreements(summary: dict[str, Any]) -> None:
    """Candidates that are not used because the others' results are other ones."""
    table = Table(("op", "node", "provider", "not used"))
    found = [(choice, each) for choice in summary["choices"] for each in choice["disagreements"]]
    for choice, each in found:
        table.add(choice["op"], choice["node"], each["provider"], each["reason"], styles=("red",))
    if found:
        print()
        table.print()


def _print_contestants(summary: dict[str, Any]) -> None:
    if not summary["contestants"]:
        return
    table = Table(("tried", "ms"), right=("ms",))
    best = min(contestant["ms"] for contestant in summary["contestants"])
    for contestant in summary["contestants"]:
        table.add(
            contestant["name"], ms_text(contestant["ms"]), styles=("green", "bold") if contestant["ms"] == best else ()
        )
    print()
    table.print()


def run(options: argparse.Namespace) -> dict[str, Any]:
    check_folder("--html", options.html)
    check_folder("--dot", options.dot)
    with Progress(options.progress) as progress:
        plan = compile_plan(options, progress)
    summary = plan.summary()
    print_plan(options.model, plan, summary)
    gap = summary["expected_ms"] - summary["lower_bound_ms"]
    proof = "the best there is by these costs" if summary["exact"] else f"at most {ms_text(gap)} ms above the best"
    print(f"expected {ms_text(summary['expected_ms'])} ms: {style(proof, 'bold')}\n")
    _print_choices(summary)
    _print_elsewhere(summary)
    _print_disagreements(summary)
    _print_contestants(summary)
    if options.dot:
        with writing("--dot", options.dot):
            Path(options.dot).write_text(plan.graph("dot"), "utf-8")
        print(f"\ngraph: {options.dot}")
    if options.html:
        from ..report.plan import write_plan

        with writing("--html", options.html):
            write_plan(options.html, plan, Path(options.model).name)
        print(f"\npicture: {options.html}")
    return {"model": Path(options.model).name, "device": plan.device, **summary}
