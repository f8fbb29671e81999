"""HTML reports of profiles: one file, nothing loaded from elsewhere, light or dark as the reader's system is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from importlib import resources
from typing import Any

from ..files import write_text
from ..machine import facts as machine_facts
from ..policy_results import Comparison, Event, is_reorder
from . import sections

__all__ = ["write_comparison", "write_profile_report"]

_METHOD = """
<p>Each policy ran several times in a row, the policies in a new random order every round, so that a machine whose speed
drifts slows all alike. The total is the median of runs without the profiler; ops and reorders are the medians of
profiled runs, scaled down together where they add up to more than the total. What is left of the total is Python,
dispatch and waiting. Weights are prepacked before the first run that counts, except under <code>per-op</code>, which
reorders in and out around every op as a framework without layout tracking does. Panels show one run: the profiled one
nearest to the median.</p>
<p>A reorder is a change of layout, dtype or device. The error is the relative L2 distance to the NCHW run.</p>
"""


def _page(title: str, facts: Mapping[str, str], body: Sequence[str]) -> str:
    files = resources.files(__package__)
    css, script = ((files / name).read_text("utf-8") for name in ("style.css", "script.js"))
    line = "".join(f"<span>{escape(key)} <b>{escape(value)}</b></span>" for key, value in facts.items())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>\n{css}</style></head>\n<body><main>\n"
        f'<h1>{escape(title)}</h1>\n<div class="facts">{line}</div>\n'
        + "\n".join(body)
        + f"\n</main>\n<script>\n{script}</script>\n</body></html>\n"
    )


def write_comparison(
    path: str | os.PathLike[str],
    comparison: Comparison,
    facts: Mapping[str, str] | None = None,
    machine: Mapping[str, str] | None = None,
) -> None:
    """Write the report of a network under several policies.

    facts: shown under the title. machine: a table of names and values.
    """
    policies = comparison.policies
    body = [
        sections.cards(comparison),
        sections.section(
            "Time by policy",
            sections.policy_bars(comparison) + sections.policy_table(comparison),
            note="A policy is how the layout of each op is chosen: forced to one, or by measured cost (auto).",
        ),
        sections.section(
            "One run in detail",
            sections.panels({name: runs.events for name, runs in policies.items()}, first="auto"),
        ),
    ]
    if machine:
        body.append(sections.section("Machine", sections.facts_table(machine)))
    body.append(sections.section("How this was measured", _METHOD))
    shown = {
        "device": comparison.device,
        "batch": str(comparison.batch),
        **(facts or {}),
        "at": f"{datetime.now():%Y-%m-%d %H:%M}",
    }
    page = _page(f"{comparison.network} under {len(policies)} layout policies", shown, body)
    write_text("report", path, page)


def write_profile_report(profile: Any, path: str | os.PathLike[str], title: str = "pylayout profile") -> None:
    """Write the report of one recording, a `pylayout.Profile`: timeline, dearest reorders, ops by time."""
    events: Sequence[Event] = profile.events
    moved = [event for event in events if is_reorder(event)]
    reorder_ms = sum(event["ms"] for event in moved)
    op_ms = sum(event["ms"] for event in events) - reorder_ms
    facts = {
        "ops": str(len(events) - len(moved)),
        "reorders": str(len(moved)),
        "time in ops": f"{op_ms:.2f} ms",
        "time in reorders": f"{reorder_ms:.2f} ms",
        "at": f"{datetime.now():%Y-%m-%d %H:%M}",
    }
    body = [
        sections.section("The recording", sections.panels({"recording": events}, first="recording")),
        sections.section("Machine", sections.facts_table(machine_facts())),
    ]
    write_text("report", path, _page(title, facts, body))
