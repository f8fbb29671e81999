"""What a comparison of layout policies measured: runs, their events, their times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

__all__ = ["Comparison", "Event", "PolicyRuns", "Split", "is_reorder", "split_events"]

Event = dict[str, Any]


@dataclass(frozen=True)
class Split:
    """One profiled run: milliseconds by kind, and its reorders."""

    op_ms: float
    reorder_ms: float
    activations: tuple[int, float]  # count, bytes
    weights: tuple[int, float]


def is_reorder(event: Event) -> bool:
    """Whether an event moved data only; the op `reorder`, which a program asked for, is one too."""
    return event["kind"] in ("reorder", "transfer") or event["op"] == "reorder"


def split_events(events: Sequence[Event]) -> Split:
    """Add up one run's events."""
    op_ms = reorder_ms = 0.0
    counts = {"activations": [0, 0.0], "weights": [0, 0.0]}
    for event in events:
        if is_reorder(event):
            reorder_ms += event["ms"]
            what = counts["weights" if event["role"] == "weights" else "activations"]
            what[0] += 1
            what[1] += event["bytes"]
        else:
            op_ms += event["ms"]
    activations, weights = ((int(count), size) for count, size in counts.values())
    return Split(op_ms, reorder_ms, activations, weights)


@dataclass
class PolicyRuns:
    """What was measured under one policy."""

    name: str
    totals: list[float] = field(default_factory=list)  # ms
    splits: list[Split] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)  # of the profiled run nearest to the median
    error: float | None = None  # None: not a finite number
    warm_up: int = 0  # runs before the first that counts

    @property
    def total_ms(self) -> float:
        return statistics.median(self.totals)

    def _scaled(self) -> tuple[float, float]:
        op_ms = statistics.median(split.op_ms for split in self.splits)
        reorder_ms = statistics.median(split.reorder_ms for split in self.splits)
        together = op_ms + reorder_ms
        scale = min(1.0, self.total_ms / together) if together > 0 else 1.0
        return op_ms * scale, reorder_ms * scale

    @property
    def op_ms(self) -> float:
        return self._scaled()[0]

    @property
    def reorder_ms(self) -> float:
        return self._scaled()[1]

    def reorders(self, what: str) -> dict[str, int]:
        """Count and bytes of the reorders of "activations" or "weights" in one run."""
        pairs = [getattr(split, what) for split in self.splits]
        return {
            "count": int(statistics.median_low([count for count, _ in pairs])),
            "bytes": int(statistics.median_low([size for _, size in pairs])),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "total_ms": round(self.total_ms, 4),
            "op_ms": round(self.op_ms, 4),
            "reorder_ms": round(self.reorder_ms, 4),
            "reorders": {what: self.reorders(what) for what in ("activations", "weights")},
            "error": self.error,
        }


@dataclass
class Comparison:
    """A network, and what each policy cost it."""

    network: str
    device: str
    batch: int
    policies: dict[str, PolicyRuns]
    logits: NDArray[Any]  # of the auto run, or of the last policy

    def to_json(self) -> dict[str, Any]:
        return {
            "network": self.network,
            "device": self.device,
            "batch": self.batch,
            "policies": {name: runs.to_json() for name, runs in self.policies.items()},
        }
