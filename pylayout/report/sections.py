"""The parts of a report, as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from ..policy_results import Comparison, Event, PolicyRuns, is_reorder
from . import analysis

__all__ = ["cards", "facts_table", "legend", "megabytes", "ms", "panels", "policy_bars", "policy_table", "section"]

_CATEGORIES = {
    "conv": "convolution",
    "matrix": "linear, matmul",
    "pool": "pooling",
    "other": "other ops",
    "reorder": "reorder of activations",
    "weights": "reorder of weights",
    "transfer": "transfer between devices",
}
_LAYOUTS = ("NCHW", "NHWC", "nChw16c")  # have colours; others share one
_OPS_SHOWN = 25


def ms(value: float) -> str:
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f}" if size >= 1e5 or not size else f"{size / 1e6:.3f}"


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole > 0 else "–"


def section(title: str, content: str, note: str = "") -> str:
    noted = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{noted}{content}</section>"


def legend(items: Sequence[tuple[str, str]]) -> str:
    spans = "".join(f'<span><i style="background:var(--{colour})"></i>{escape(name)}</span>' for colour, name in items)
    return f'<div class="legend">{spans}</div>'


def _best(policies: Mapping[str, PolicyRuns]) -> str:
    return min(policies, key=lambda name: policies[name].total_ms)


def cards(comparison: Comparison) -> str:
    """The findings in a few large numbers."""
    policies = comparison.policies
    best = _best(policies)
    main = policies.get("auto", policies[best])
    shown = [
        (f"{ms(main.total_ms)} ms", f"a run under {main.name}"),
        (f"{comparison.batch * 1e3 / main.total_ms:,.1f}", "images a second"),
        (percent(main.reorder_ms, main.total_ms), f"of {main.name} spent in reorders"),
    ]
    forced = {name: runs for name, runs in policies.items() if name not in ("auto", "per-op")}
    if "auto" in policies and forced:
        rival = forced[_best(forced)]
        shown.append((f"{rival.total_ms / main.total_ms:.2f}×", f"as fast as the best forced layout, {rival.name}"))
    if "per-op" in policies and main.name != "per-op":
        shown.append((f"{policies['per-op'].total_ms / main.total_ms:.2f}×", "as fast as without layout tracking"))
    content = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(text)}</span></div>' for value, text in shown
    )
    return f'<div class="cards">{content}</div>'


def policy_bars(comparison: Comparison) -> str:
    """One bar a policy, split into ops, reorders and the rest."""
    policies = comparison.policies
    full = max(runs.total_ms for runs in policies.values())
    rows = []
    for name, runs in policies.items():
        rest = max(0.0, runs.total_ms - runs.op_ms - runs.reorder_ms)
        parts = []
        for value, colour, what in (
            (runs.op_ms, "conv", "ops"),
            (runs.reorder_ms, "reorder", "reorders"),
            (rest, "rest", "Python, dispatch, waiting"),
        ):
            tip = f"{name}: {what}\n{ms(value)} ms, {percent(value, runs.total_ms)}"
            # 80%: the rest of the row holds the value
            width = 80 * value / full
            parts.append(f'<i style="width:{width:.3f}%;background:var(--{colour})" data-tip="{escape(tip)}"></i>')
        mark = ' class="value best"' if name == _best(policies) else ' class="value"'
        rows.append(
            f'<div class="name">{escape(name)}</div><div class="track">{"".join(parts)}'
            f"<span{mark}>{ms(runs.total_ms)} ms</span></div>"
        )
    keys = legend([("conv", "ops"), ("reorder", "reorders"), ("rest", "Python, dispatch, waiting")])
    return keys + f'<div class="bars">{"".join(rows)}</div>'


def policy_table(comparison: Comparison) -> str:
    heads = (
        ("policy", ""),
        ("total ms", "r"),
        ("ops ms", "r"),
        ("reorders ms", "r"),
        ("share", "r"),
        ("activations reordered", "r"),
        ("MB", "r"),
        ("weights reordered", "r"),
        ("MB", "r"),
        ("error", "r"),
        ("spread of total, ms", "r"),
    )
    head = "".join(f'<th class="{kind}">{escape(text)}</th>' for text, kind in heads)
    rows = []
    for name, runs in comparison.policies.items():
        activations, weights = runs.reorders("activations"), runs.reorders("weights")
        error = "not finite" if runs.error is None else "0" if runs.error == 0 else f"{runs.error:.1e}"
        cells = [
            ms(runs.total_ms),
            ms(runs.op_ms),
            ms(runs.reorder_ms),
            percent(runs.reorder_ms, runs.total_ms),
            activations["count"],
            megabytes(activations["bytes"]),
            weights["count"],
            megabytes(weights["bytes"]),
            error,
            f"{ms(min(runs.totals))} to {ms(max(runs.totals))}",
        ]
        mark = ' class="best"' if name == _best(comparison.policies) else ""
        rows.append(
            f"<tr><td{mark}>{escape(name)}</td>" + "".join(f'<td class="r">{cell}</td>' for cell in cells) + "</tr>"
        )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _layout_colour(layout: str) -> str:
    return layout if layout in _LAYOUTS else "layout" if layout else "none"


def _tip(event: Event) -> str:
    lines = [event["op"] + (f" for {event['cause']}" if is_reorder(event) and event["cause"] else "")]
    lines += [f"in   {analysis.parse(text)}" for text in event["inputs"]]
    lines += [f"out  {analysis.parse(text)}" for text in event["outputs"]]
    lines.append(f"{event['provider']} {event['implementation']}".strip())
    rate = f", {event['flops'] / event['ms'] * 1e-6:,.0f} GFLOP/s" if event["flops"] and event["ms"] > 0 else ""
    lines.append(f"{ms(event['ms'])} ms, {megabytes(event['bytes'])} MB{rate}")
    return "\n".join(lines)


def _ticks(full: float) -> list[float]:
    """Round values, about ten of them."""
    step = 10.0**-4
    factors = (2.0, 2.5, 2.0)
    i = 0
    while full / step > 12:
        step *= factors[i % 3]
        i += 1
    return [step * k for k in range(int(full / step) + 1)]


def timeline(events: Sequence[Event], name: str) -> str:
    """What ran when: a lane a device, under it a strip with the layout of each result."""
    drawn = analysis.lanes(events)
    full = max((start + event["ms"] for lane in drawn.values() for start, event in lane), default=0.0)
    if full <= 0:
        return '<p class="note">Nothing was recorded.</p>'
    axis = "".join(f'<span style="left:{100 * tick / full:.3f}%">{tick:g} ms</span>' for tick in _ticks(full * 0.97))
    parts = [f'<div class="axis">{axis}</div>']
    categories, layouts = set(), set()
    for lane, placed in drawn.items():
        blocks, strip = [], []
        for start, event in placed:
            where = f"left:{100 * start / full:.4f}%;width:{100 * event['ms'] / full:.4f}%"
            kind = analysis.category(event)
            categories.add(kind)
            tip = escape(_tip(event), quote=True)
            blocks.append(f'<i style="{where};background:var(--{kind})" data-tip="{tip}"></i>')
            description = analysis.parse(event["outputs"][0]) if event["outputs"] else None
            if description and description.shape.count("×") >= 2 and kind != "weights":
                colour = _layout_colour(description.layout)
                layouts.add(colour)
                strip.append(f'<i style="{where};background:var(--{colour})" data-tip="{tip}"></i>')
        parts.append(
            f'<div class="lane-name">{escape(lane)}</div><div class="lane">{"".join(blocks)}</div>'
            f'<div class="strip">{"".join(strip)}</div>'
        )
    keys = legend([(kind, text) for kind, text in _CATEGORIES.items() if kind in categories])
    names = {**{layout: layout for layout in _LAYOUTS}, "layout": "another layout"}
    strips = legend([(colour, f"result in {text}") for colour, text in names.items() if colour in layouts])
    identity = f"timeline-{name}"
    zoom = (
        f'<label class="zoom">zoom <input type="range" min="0" max="6" step="0.25" value="0" '
        f'data-timeline="{escape(identity)}" aria-label="zoom of the timeline"></label>'
    )
    return (
        f'<h3>Timeline {zoom}</h3>{keys}<div class="timeline" id="{escape(identity)}">'
        f'<div class="canvas">{"".join(parts)}</div></div>{strips}'
    )


def _reorder_table(events: Sequence[Event]) -> str:
    dearest = analysis.dearest_reorders(events)
    total = sum(event["ms"] for event in events)
    count = sum(is_reorder(event) for event in events)
    spent = sum(event["ms"] for event in events if is_reorder(event))
    if not dearest:
        return "<h3>Reorders</h3><p class=note>This run needed none.</p>"
    rows = []
    for reorder in dearest:
        change = (
            escape(reorder.implementation)
            if reorder.kind == "transfer"
            else f"{escape(reorder.source.layout)} → {escape(reorder.target.layout)}"
        )
        if reorder.source.dtype != reorder.target.dtype:
            change += f", {escape(reorder.source.dtype)} → {escape(reorder.target.dtype)}"
        place = f'<br><span class="soft">{escape(reorder.place)}</span>' if reorder.place else ""
        rows.append(
            f'<tr><td><span class="nowrap">{escape(reorder.source.shape)}</span></td><td class="nowrap">{change}</td>'
            f"<td>{escape(reorder.role)}</td><td><code>{escape(reorder.cause) or '–'}</code>{place}</td>"
            f'<td class="r">{megabytes(reorder.bytes)}</td><td class="r">{ms(reorder.ms)}</td>'
            f'<td class="r">{percent(reorder.ms, total)}</td></tr>'
        )
    return (
        f"<h3>The dearest reorders</h3><p class=note>{len(dearest)} of {count}; all together {ms(spent)} ms, "
        f"{percent(spent, total)} of the time in ops and reorders.</p>"
        '<div class="scroll"><table><thead><tr><th>tensor</th><th>change</th><th>role</th><th>needed by</th>'
        '<th class="r">MB</th><th class="r">ms</th><th class="r">share</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _op_row(group: analysis.OpGroup, total: float, most: float) -> str:
    data = group.inputs[0] if group.inputs else analysis.parse("")
    result = group.outputs[0] if group.outputs else analysis.parse("")
    weight = (
        f'<br><span class="soft">weight {escape(group.inputs[1].shape)}</span>'
        if (len(group.inputs) > 1 and group.category in ("conv", "matrix"))
        else ""
    )
    layouts = (
        escape(data.layout) if data.layout == result.layout else f"{escape(data.layout)} → {escape(result.layout)}"
    )
    bar = f'<span class="mini" style="width:{60 * group.ms / most:.1f}px;background:var(--{group.category})"></span>'
    return (
        f"<tr><td><code>{escape(group.op)}</code></td>"
        f'<td><span class="nowrap">{escape(data.shape)} →</span> <span class="nowrap">{escape(result.shape)}</span>'
        f'{weight}</td><td class="nowrap">{layouts}</td>'
        f'<td class="breaks">{escape(group.provider)} <code>{escape(group.implementation)}</code></td>'
        f'<td class="r">{group.count}</td><td class="r">{ms(group.ms)}</td>'
        f'<td class="nowrap">{bar}{percent(group.ms, total)}</td><td class="r">{group.rate}</td></tr>'
    )


def _op_table(events: Sequence[Event]) -> str:
    groups = analysis.ops_by_time(events)
    if not groups:
        return ""
    total = sum(event["ms"] for event in events)
    rows = [_op_row(group, total, groups[0].ms) for group in groups]
    head = (
        "<thead><tr><th>op</th><th>shapes</th><th>layout</th><th>implementation</th>"
        '<th class="r">times</th><th class="r">ms</th><th>share</th><th class="r">rate</th></tr></thead>'
    )
    table = f'<div class="scroll"><table>{head}<tbody>{"".join(rows[:_OPS_SHOWN])}</tbody></table></div>'
    if len(rows) > _OPS_SHOWN:
        more = f'<div class="scroll"><table>{head}<tbody>{"".join(rows[_OPS_SHOWN:])}</tbody></table></div>'
        table += f"<details><summary>{len(rows) - _OPS_SHOWN} more</summary>{more}</details>"
    return f"<h3>Ops by time</h3>{table}"


def panels(recordings: Mapping[str, Sequence[Event]], first: str) -> str:
    """One panel a recording: timeline, reorders, ops; with tabs where there are several."""
    tabs, content = [], []
    for i, (name, events) in enumerate(recordings.items()):
        mark = " data-first" if name == first else ""
        tabs.append(f'<button type="button" role="tab" data-panel="panel-{i}"{mark}>{escape(name)}</button>')
        title = f'<h2 class="printed">{escape(name)}</h2>' if len(recordings) > 1 else ""
        content.append(
            f'<div id="panel-{i}" role="tabpanel">{title}{timeline(events, str(i))}'
            f"{_reorder_table(events)}{_op_table(events)}</div>"
        )
    bar = f'<div class="tabs" role="tablist">{"".join(tabs)}</div>' if len(recordings) > 1 else ""
    return bar + "".join(content)


def facts_table(facts: Mapping[str, str]) -> str:
    rows = "".join(f'<tr><td class="nowrap soft">{escape(k)}</td><td>{escape(v)}</td></tr>' for k, v in facts.items())
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>'
