"""What the report says about a recording: its ops by time, its reorders and who needed them, its lanes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..policy_results import Event, is_reorder

__all__ = ["Description", "OpGroup", "Reorder", "category", "dearest_reorders", "lanes", "ops_by_time", "parse"]

_DESCRIPTION = re.compile(r"^(?P<dtype>\w+) \((?P<shape>[\d, ]*)\) (?P<layout>\S*)")


@dataclass(frozen=True)
class Description:
    """A tensor of an event, from its text: "f32 (1, 64, 56, 56) nChw16c"."""

    dtype: str
    shape: str  # 1×64×56×56
    layout: str

    def __str__(self) -> str:
        return f"{self.shape} {self.layout} {self.dtype}"


def parse(text: str) -> Description:
    """A description's parts; one that is written otherwise is kept whole as the shape."""
    match = _DESCRIPTION.match(text)
    if not match:
        return Description("", text, "")
    sizes = [size.strip() for size in match["shape"].split(",") if size.strip()]
    return Description(match["dtype"], "×".join(sizes) or "scalar", match["layout"])


def category(event: Event) -> str:
    """Which colour an event has: conv, matrix, pool, other; reorder, weights, transfer."""
    if event["kind"] == "transfer":
        return "transfer"
    if is_reorder(event):
        return "weights" if event["role"] == "weights" else "reorder"
    op = event["op"]
    if op.startswith("conv"):
        return "conv"
    if op in ("linear", "matmul"):
        return "matrix"
    return "pool" if "pool" in op else "other"


@dataclass
class OpGroup:
    """Ops of one kind, shape and implementation."""

    op: str
    inputs: tuple[Description, ...]
    outputs: tuple[Description, ...]
    provider: str
    implementation: str
    device: str
    category: str
    count: int = 0
    ms: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0

    @property
    def rate(self) -> str:
        """How fast it computes, or, where it does not compute much, moves bytes."""
        if self.ms <= 0:
            return ""
        if self.flops > 4 * self.bytes:
            return f"{self.flops / self.ms * 1e-6:,.0f} GFLOP/s"
        return f"{self.bytes / self.ms * 1e-6:,.1f} GB/s"


def ops_by_time(events: Sequence[Event]) -> list[OpGroup]:
    """The ops of a run, equal ones together, the dearest first."""
    groups: dict[tuple[Any, ...], OpGroup] = {}
    for event in events:
        if is_reorder(event):
            continue
        key = (event["op"], *event["inputs"], "to", *event["outputs"], event["provider"], event["implementation"])
        group = groups.get(key)
        if group is None:
            group = groups[key] = OpGroup(
                event["op"],
                tuple(map(parse, event["inputs"])),
                tuple(map(parse, event["outputs"])),
                event["provider"],
                event["implementation"],
                event["device"],
                category(event),
            )
        group.count += 1
        group.ms += event["ms"]
        group.flops += event["flops"]
        group.bytes += event["bytes"]
    return sorted(groups.values(), key=lambda group: -group.ms)


@dataclass(frozen=True)
class Reorder:
    """One reorder or transfer, and the op that it was made for."""

    source: Description
    target: Description
    role: str
    kind: str
    implementation: str
    bytes: float
    ms: float
    cause: str  # "conv2d: x"
    place: str  # "op 12 of 71, 1×64×56×56 → 1×256×56×56"


def dearest_reorders(events: Sequence[Event], count: int = 10) -> list[Reorder]:
    """The reorders of a run that took longest.

    A reorder lies before the op that needs it, unless it is of that op's output.
    """
    ops = [i for i, event in enumerate(events) if not is_reorder(event)]
    found = []
    for i, event in enumerate(events):
        if not is_reorder(event):
            continue
        op = event["cause"].split(":")[0]
        of_output = event["cause"].endswith(": output")
        nearest = [j for j in (reversed(ops) if of_output else ops) if (j < i if of_output else j > i)]
        place = ""
        if nearest and events[nearest[0]]["op"] == op:
            user = events[nearest[0]]
            place = f"op {ops.index(nearest[0]) + 1} of {len(ops)}"
            if user["inputs"] and user["outputs"]:
                place += f", {parse(user['inputs'][0]).shape} → {parse(user['outputs'][0]).shape}"
        found.append(
            Reorder(
                parse(event["inputs"][0]) if event["inputs"] else parse("?"),
                parse(event["outputs"][0]) if event["outputs"] else parse("?"),
                event["role"] or "asked for",
                event["kind"],
                event["implementation"],
                event["bytes"],
                event["ms"],
                event["cause"],
                place,
            )
        )
    return sorted(found, key=lambda reorder: -reorder.ms)[:count]


def lanes(events: Sequence[Event]) -> dict[str, list[tuple[float, Event]]]:
    """The events by where they ran, each with its start in ms; lanes are named by device, and thread if several.

    Work for an OpenCL device is queued long before it runs, and its start is the time of queueing: it is moved to the
    end of the work before it in the same lane.
    """
    threads = sorted({event["thread"] for event in events if event["thread"]})
    result: dict[str, list[tuple[float, Event]]] = {}
    ends: dict[str, float] = {}
    origin = min((event["start_ms"] for event in events), default=0.0)
    for event in sorted(events, key=lambda event: event["start_ms"]):
        lane = event["device"]
        if event["device"] == "cpu" and len(threads) > 1 and event["thread"]:
            lane += f", thread {threads.index(event['thread']) + 1}"
        start = max(event["start_ms"] - origin, ends.get(lane, 0.0))
        ends[lane] = start + event["ms"]
        result.setdefault(lane, []).append((start, event))
    return result
