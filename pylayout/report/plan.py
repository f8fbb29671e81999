"""A plan as a picture: one row an op in the order of execution, lines for the tensors between them, reorders marked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from ..files import write_text
from ..machine import facts as machine_facts
from . import _page, sections

__all__ = ["write_plan"]

_ROW = 21  # pixels
_LANE = 7  # between lines that run beside each other
_MOST_LANES = 48
_NAME = 330  # width of the column of names
_WAY = 240
_LAYOUTS = 170
_BAR = 150
_SHORTENED = 46  # characters of a name that fit

_NOTE = (
    "Each row is an op, in the order of execution; each line a tensor, in the colour of its layout. Orange rows are "
    "reorders: what was moved, and which op made it necessary. Point at a row for the runner-up: the margin is what "
    "the whole would cost more with it, all else being as it is."
)


def batch_text(summary: dict[str, Any]) -> str:
    """How a plan runs a batch, from its summary; empty where it runs it at once."""

    def cut(chain: dict[str, Any]) -> str:
        if chain["slices"] == 1:
            return "at once"
        text = f"in {chain['slices']} slices of {chain['slice']}, {chain['streams']} at the same time"
        return text if chain["last"] == chain["slice"] else f"{text}, the last of {chain['last']}"

    first, *others = summary["chains"]
    if not others:
        return cut(first) if first["slices"] > 1 else ""
    return "; ".join([cut(first), *(f"from {chain['first']} on {cut(chain)}" for chain in others)])


def _colour(layout: str) -> str:
    return f"var(--{layout})" if layout in ("NCHW", "NHWC", "nChw16c") else "var(--layout)"


def _short(name: str) -> str:
    return name if len(name) <= _SHORTENED else "…" + name[1 - _SHORTENED :]


def _way(choice: Mapping[str, Any]) -> str:
    if "provider" in choice:
        return f"{choice['provider']}/{choice['implementation']}"
    return str(choice.get("kind", "in place"))


def _layouts(choice: Mapping[str, Any]) -> str:
    def text(key: str) -> str:
        return " ".join(layout or "–" for layout in choice[key])

    return f"{text('inputs')} → {text('outputs')}"


def _tip(choice: Mapping[str, Any], shape: Sequence[int]) -> str:
    lines = [f"{choice['node']} ({choice['op']})", f"result {tuple(shape)}", f"{_way(choice)}: {_layouts(choice)}"]
    if choice["kind"] == "op":
        lines.append(f"{sections.ms(choice['ms'])} ms, {'measured' if choice['measured'] else 'estimated'}")
    following = choice["next"]
    if following:
        margin = following["margin_ms"]
        cost = "" if margin is None else f", {margin:+.4f} ms"
        lines.append(f"next: {_way(following)}: {_layouts(following)}{cost}")
    where = f"runs on {choice['device']}"
    lines += [f"{where}; {refusal['provider']} refuses: {refusal['reason']}" for refusal in choice["refusals"]]
    lines += [f"not used: {each['provider']} {each['reason']}" for each in choice["disagreements"]]
    return "\n".join(lines)


def _lanes(edges: Sequence[tuple[int, int]]) -> list[int]:
    """A lane for each (first row, last row), in ascending order of first rows, such that lines in a lane are apart."""
    free_from: list[int] = []
    lanes = []
    for first, last in edges:
        lane = next((at for at, row in enumerate(free_from) if row <= first), len(free_from))
        lane = min(lane, _MOST_LANES - 1)
        if lane == len(free_from):
            free_from.append(last)
        else:
            free_from[lane] = max(free_from[lane], last)
        lanes.append(lane)
    return lanes


def _drawing(summary: Mapping[str, Any], graph: Mapping[str, Any]) -> str:
    choices, nodes = summary["choices"], graph["nodes"]
    moved: dict[str, list[Mapping[str, Any]]] = {}
    for step in summary["steps"]:
        if step["kind"] != "op":
            moved.setdefault(step["node"], []).append(step)

    # Rows: inputs, then each op after its reorders, then reorders for outputs.
    rows: list[tuple[str, Any]] = [("input", item) for item in graph["inputs"]]
    place: dict[str, int] = {item["name"]: row for row, item in enumerate(graph["inputs"])}
    layout = {item["name"]: item["layout"] for item in graph["inputs"]}
    edges: list[tuple[int, int, str]] = []
    for choice, node in zip(choices, nodes, strict=True):
        rows += [("moved", step) for step in moved.pop(node["name"], [])]
        here = len(rows)
        edges += [(place[name], here, layout[name]) for name in dict.fromkeys(node["inputs"]) if name in place]
        for value, given in zip(node["outputs"], choice["outputs"], strict=True):
            place[value["name"]], layout[value["name"]] = here, given or ""
        rows.append(("op", (choice, node["outputs"][0]["shape"])))
    rows += [("moved", step) for steps in moved.values() for step in steps]
    edges.sort()
    far = [edge for edge in edges if edge[1] > edge[0] + 1]
    lanes = _lanes([edge[:2] for edge in far])
    left = 14 + _LANE * (max(lanes, default=-1) + 1)

    def y(row: int) -> float:
        return _ROW * row + _ROW / 2

    parts = []
    for first, last, name in edges:
        if last == first + 1:
            line = f"M{left} {y(first)}V{y(last)}"
            parts.append(f'<path d="{line}" stroke="{_colour(name)}" fill="none" stroke-width="2"/>')
    for (first, last, name), lane in zip(far, lanes, strict=True):
        x = left - 10 - _LANE * lane
        line = f"M{left} {y(first)}C{x} {y(first)} {x} {y(first)} {x} {y(first) + 12}"
        line += f"V{y(last) - 12}C{x} {y(last)} {x} {y(last)} {left} {y(last)}"
        parts.append(f'<path d="{line}" stroke="{_colour(name)}" fill="none" stroke-width="1.5" opacity=".8"/>')
    dearest = max((choice["ms"] for choice in choices), default=0) or 1
    columns = [left + 14, left + 14 + _NAME, left + 14 + _NAME + _WAY, left + 14 + _NAME + _WAY + _LAYOUTS]
    width = columns[3] + _BAR + 70

    def text(column: int, row: int, words: str, extra: str = "") -> str:
        return f'<text x="{columns[column]}" y="{y(row) + 4}" {extra}>{escape(words)}</text>'

    for row, (kind, what) in enumerate(rows):
        if kind == "input":
            parts.append(f'<circle cx="{left}" cy="{y(row)}" r="4" fill="{_colour(what["layout"])}"/>')
            parts.append(text(0, row, f"input {what['name']}") + text(2, row, what["layout"]))
            continue
        if kind == "moved":
            tip = f"{what['kind']} for {what['cause']}\n{sections.megabytes(what['bytes'])} MB"
            parts.append(
                f'<g data-tip="{escape(tip)}"><rect x="{left + 8}" y="{_ROW * row + 2}" '
                f'width="{width - left - 8}" height="{_ROW - 4}" rx="3" fill="var(--reorder)" opacity=".22"/>'
                + text(0, row, what["kind"])
                + text(1, row, f"for {what['cause']}"[:38])
                + text(2, row, _layouts(what))
                + text(3, row, f"{sections.ms(what['ms'])} ms")
                + "</g>"
            )
            continue
        choice, shape = what
        bar = _BAR * choice["ms"] / dearest if choice["kind"] == "op" else 0
        parts.append(
            f'<g data-tip="{escape(_tip(choice, shape))}">'
            f'<rect x="{left + 8}" y="{_ROW * row}" width="{width - left - 8}" height="{_ROW}" fill="transparent"/>'
            f'<circle cx="{left}" cy="{y(row)}" r="4" fill="{_colour((choice["outputs"] or [""])[0] or "")}"/>'
            + text(
                0, row, f"{choice['op']}  {_short(choice['node'])}", "" if choice["kind"] == "op" else 'opacity=".6"'
            )
            + text(1, row, _way(choice), "" if choice["kind"] == "op" else 'opacity=".6"')
            + text(2, row, " → ".join(dict.fromkeys(_ends(choice))))
            + f'<rect x="{columns[3]}" y="{_ROW * row + 5}" width="{bar:.2f}" height="{_ROW - 10}" rx="2" '
            f'fill="var(--conv)"/>'
            + (
                f'<text x="{columns[3] + bar + 6:.1f}" y="{y(row) + 4}">{sections.ms(choice["ms"])} ms</text>'
                if choice["kind"] == "op"
                else ""
            )
            + "</g>"
        )
    return (
        f'<div class="scroll"><svg width="{width}" height="{_ROW * len(rows) + 4}" '
        'style="font-size:12px;fill:var(--text);white-space:pre">' + "".join(parts) + "</svg></div>"
    )


def _ends(choice: Mapping[str, Any]) -> list[str]:
    """The layouts of the first input and of the results."""
    return [*[name for name in choice["inputs"] if name][:1], *[name for name in choice["outputs"] if name]]


def _elsewhere(summary: Mapping[str, Any]) -> str:
    """The ops that do not run on the plan's device, with the reasons of its providers."""
    rows = "".join(
        f"<tr><td><code>{escape(choice['op'])}</code></td><td>{escape(choice['node'])}</td>"
        f'<td class="nowrap">{escape(choice["device"])}</td><td>{escape(refusal["provider"])}</td>'
        f"<td>{escape(refusal['reason'])}</td></tr>"
        for choice in summary["choices"]
        for refusal in choice["refusals"]
    )
    head = "<tr><th>op</th><th>node</th><th>runs on</th><th>provider</th><th>reason</th></tr>"
    return f'<div class="scroll"><table>{head}{rows}</table></div>'


def _contestants(summary: Mapping[str, Any]) -> str:
    if not summary["contestants"]:
        return '<p class="note">Nothing was timed: tuning was off.</p>'
    least = min(contestant["ms"] for contestant in summary["contestants"])
    rows = "".join(
        f"<tr><td{' class=best' if contestant['ms'] == least else ''}>{escape(contestant['name'])}</td>"
        f'<td class="r">{sections.ms(contestant["ms"])}</td></tr>'
        for contestant in summary["contestants"]
    )
    return f'<table><tr><th>program</th><th class="r">ms</th></tr>{rows}</table>'


def write_plan(path: str | os.PathLike[str], plan: Any, title: str = "plan") -> None:
    """Write the picture of a `pylayout.Plan` as one HTML file that loads nothing from elsewhere."""
    summary = plan.summary()
    reorders, memory = summary["reorders"], summary["memory"]
    megabytes, ms = sections.megabytes, sections.ms
    facts = {
        "device": plan.device,
        "ops": str(summary["ops"]),
        "reorders": f"{reorders['count']}, {megabytes(reorders['bytes'])} MB, {ms(reorders['ms'])} ms",
        "expected": f"{ms(summary['expected_ms'])} ms",
        "choice": "proven best by these costs"
        if summary["exact"]
        else f"at most {ms(summary['expected_ms'] - summary['lower_bound_ms'])} ms above the best",
        "activations": f"{megabytes(memory['arena_bytes'])} MB "
        f"(liveness bound {megabytes(memory['lower_bound_bytes'])})",
        "weights": f"{megabytes(memory['constant_bytes'])} MB",
        "at": f"{datetime.now():%Y-%m-%d %H:%M}",
    }
    if len(summary["chains"]) > 1:
        facts["choice"] = "chains of several plans, joined by times measured within them"
    if summary["widened"]:
        facts["widened"] = "; ".join(widened["why"] for widened in summary["widened"])
    if cut := batch_text(summary):
        facts["batch"] = cut
    legend = sections.legend(
        [
            ("NCHW", "NCHW"),
            ("NHWC", "NHWC"),
            ("nChw16c", "nChw16c"),
            ("layout", "another layout"),
            ("reorder", "reorder"),
        ]
    )
    elsewhere = []
    if any(choice["refusals"] for choice in summary["choices"]):
        elsewhere = [sections.section(f"Ops that do not run on {plan.device}", _elsewhere(summary))]
    body = [
        sections.section("The plan", legend + _drawing(summary, json.loads(plan.graph("json"))), note=_NOTE),
        *elsewhere,
        sections.section("Programs that were timed", _contestants(summary)),
        sections.section("Machine", sections.facts_table(machine_facts())),
    ]
    write_text("report", path, _page(title, facts, body))
