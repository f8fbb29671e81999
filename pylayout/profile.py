"""What ran, where and how long: `with pl.profile() as p: ...`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._load import ffi, lib
from .context import handle
from .errors import ArgumentTypeError, InvalidArgumentError, check, take_json
from .files import write_text

__all__ = ["Profile", "profile"]

starters: list[Callable[[], None]] = []  # each starts calls of PyTorch's device that wait (ocl/shim.py)


def _start_what_waits() -> None:
    for start in starters:
        start()


class Profile:
    """A recording of every op, reorder and transfer between entering and leaving it.

    events: dicts, in the order of their start: kind ("op", "reorder" or "transfer"), op, provider, implementation,
    device, inputs, outputs, bytes, flops, start_ms, ms, role ("activation", "weights" or "output"), cause (the op and
    argument that needed a reorder), thread. There is one recording at a time.
    """

    def __init__(self, events: list[dict[str, Any]] | None = None) -> None:
        self._events: list[dict[str, Any]] = [] if events is None else events
        self._recording = False

    @property
    def events(self) -> list[dict[str, Any]]:
        """What was recorded; InvalidArgumentError before the block has ended."""
        if self._recording:
            raise InvalidArgumentError("profile: the recording is under way, expected this after its `with` block")
        return self._events

    def __enter__(self) -> Profile:
        _start_what_waits()
        check(lib.pl_profile_start(handle()))
        self._recording = True
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._recording = False
        text = ffi.new("char **")
        try:
            _start_what_waits()
        finally:
            status = lib.pl_profile_stop(handle(), text)
            if not status:
                self._events = sorted(take_json(text)["events"], key=lambda event: event["start_ms"])
        if kind is None:
            check(status)

    def summary(self) -> dict[str, Any]:
        """Totals, in ms and bytes.

        total_ms, op_ms, reorder_ms, transfer_ms; span_ms, from the first start to the last end by the host's clock;
        ops: {name: {"count", "ms", "flops", "bytes"}}; providers: {name: ms};
        layouts: {layout of an op's first output: {"count", "ms"}};
        reorders: {"activations" or "weights": {"count", "bytes", "ms"}}; causes: {cause: {"count", "bytes", "ms"}}.
        """
        total = {"op": 0.0, "reorder": 0.0, "transfer": 0.0}
        ops: dict[str, Any] = {}
        providers: dict[str, float] = {}
        layouts: dict[str, Any] = {}
        reorders = {name: {"count": 0, "bytes": 0, "ms": 0.0} for name in ("activations", "weights")}
        causes: dict[str, Any] = {}
        for event in self.events:
            total[event["kind"]] += event["ms"]
            providers[event["provider"]] = providers.get(event["provider"], 0.0) + event["ms"]
            if event["kind"] == "op":
                entry = ops.setdefault(event["op"], {"count": 0, "ms": 0.0, "flops": 0.0, "bytes": 0})
                entry["flops"] += event["flops"]
                layout = layouts.setdefault(layout_of(event["outputs"]), {"count": 0, "ms": 0.0})
                layout["count"] += 1
                layout["ms"] += event["ms"]
            else:
                entry = causes.setdefault(event["cause"], {"count": 0, "bytes": 0, "ms": 0.0})
                if event["kind"] == "reorder":
                    weights = reorders["weights" if event["role"] == "weights" else "activations"]
                    weights["count"] += 1
                    weights["bytes"] += int(event["bytes"])
                    weights["ms"] += event["ms"]
            entry["count"] += 1
            entry["ms"] += event["ms"]
            entry["bytes"] += int(event["bytes"])
        ends = [event["start_ms"] + event["ms"] for event in self.events]
        return {
            "total_ms": sum(total.values()),
            "op_ms": total["op"],
            "reorder_ms": total["reorder"],
            "transfer_ms": total["transfer"],
            "span_ms": max(ends) - self.events[0]["start_ms"] if ends else 0.0,
            "ops": ops,
            "providers": providers,
            "layouts": layouts,
            "reorders": reorders,
            "causes": causes,
        }

    def phases(self, plan: Any) -> dict[str, float]:
        """The ms of forward pass, backward pass and update in a recording of runs of a plan that trains."""
        if not hasattr(plan, "summary"):
            raise ArgumentTypeError(f"Profile.phases: plan is {type(plan).__name__}, expected a Plan")
        steps = plan.summary()["steps"]
        phase_of = {step["node"]: step["phase"] for step in steps if "phase" in step}
        sums = dict.fromkeys(("forward", "backward", "update"), 0.0)
        for event in self.events:
            node = event["cause"] if event["kind"] == "op" else event["cause"].split(": ")[0]
            if node in phase_of:
                sums[phase_of[node]] += event["ms"]
        return sums

    def trace(self) -> dict[str, Any]:
        """The events in Chrome's trace event format: a row for each device and host thread."""
        devices = {name: i + 1 for i, name in enumerate(dict.fromkeys(event["device"] for event in self.events))}
        threads = {name: i + 1 for i, name in enumerate(dict.fromkeys(event["thread"] for event in self.events))}
        shown = ("provider", "implementation", "inputs", "outputs", "bytes", "flops", "role", "cause")
        rows: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": number, "tid": 0, "args": {"name": name}}
            for name, number in devices.items()
        ]
        for event in self.events:
            name = event["op"] if event["kind"] == "op" else f"{event['kind']} for {event['cause']}"
            rows.append(
                {
                    "ph": "X",
                    "name": name,
                    "cat": event["kind"],
                    "pid": devices[event["device"]],
                    "tid": threads[event["thread"]],
                    "ts": event["start_ms"] * 1000,  # microseconds
                    "dur": event["ms"] * 1000,
                    "args": {key: event[key] for key in shown},
                }
            )
        return {"traceEvents": rows, "displayTimeUnit": "ms"}

    def save_trace(self, path: Any) -> None:
        """Write the events for chrome://tracing or Perfetto."""
        import json

        write_text("Profile.save_trace", path, json.dumps(self.trace()))

    def report(self, path: Any, **options: Any) -> None:
        """Write an HTML report: a timeline, the dearest reorders and who needed them, ops by time."""
        from . import report

        report.write_profile_report(self, path, **options)

    def __repr__(self) -> str:
        if self._recording:
            return "Profile(recording)"
        summary = self.summary()
        return (
            f"Profile({len(self.events)} events, {summary['total_ms']:.3f} ms: {summary['op_ms']:.3f} ops, "
            f"{summary['reorder_ms']:.3f} reorders, {summary['transfer_ms']:.3f} transfers)"
        )


def layout_of(descriptions: list[str]) -> str:
    """The layout in a tensor's description, "f32 (1, 64, 56, 56) nChw16c"; "" where there is none."""
    if not descriptions:
        return ""
    rest = descriptions[0].rpartition(")")[2].split()
    return rest[0] if rest else ""


def profile() -> Profile:
    """Records every op and reorder of the `with` block that it opens.

    >>> import numpy, pylayout as pl
    >>> with pl.profile() as p:
    ...     y = pl.ops.relu(numpy.ones((1, 8, 4, 4), "float32"))
    >>> p.summary()["ops"]["relu"]["count"]
    1
    """
    return Profile()
