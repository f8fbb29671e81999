"""What became of each traced graph: how many plans, and which ops were left to PyTorch and why."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from dataclasses import dataclass, field

from ..plan import Plan

__all__ = ["CompiledGraph", "Report", "record", "report", "reset"]

logger = logging.getLogger("pylayout.torch")

MAX_GRAPHS = 1024  # in a report; of more the oldest are forgotten


@dataclass(frozen=True)
class CompiledGraph:
    """One traced graph for one set of sizes."""

    kind: str  # "inference", "forward" or "backward"
    plans: tuple[Plan, ...]
    planned: int  # ops that plans run
    left: tuple[tuple[str, str], ...]  # (op, reason) for each op that PyTorch runs
    seconds: float  # that it took to compile

    @property
    def partitions(self) -> int:
        """How many plans the graph was divided into."""
        return len(self.plans)

    def __str__(self) -> str:
        text = f"{self.kind}: {self.planned} ops in {self.partitions} plan{'s' * (self.partitions != 1)}"
        if self.left:
            counts = Counter(self.left)
            named = ", ".join(
                f"{op}{f' x{count}' if count > 1 else ''} ({reason})" for (op, reason), count in counts.most_common()
            )
            text += f"; {len(self.left)} in PyTorch: {named}"
        return f"{text}; compiled in {self.seconds:.2f} s"


@dataclass(frozen=True)
class Report:
    """The graphs compiled since the process began, or since `reset`, the latest last."""

    graphs: tuple[CompiledGraph, ...] = field(default_factory=tuple)

    @property
    def partitions(self) -> int:
        return sum(graph.partitions for graph in self.graphs)

    @property
    def left(self) -> dict[str, int]:
        """How many calls of each op the traced graphs left to PyTorch."""
        return dict(Counter(op for graph in self.graphs for op, _ in graph.left).most_common())

    def __str__(self) -> str:
        return "\n".join(str(graph) for graph in self.graphs) or "no graph was compiled"


_graphs: deque[CompiledGraph] = deque(maxlen=MAX_GRAPHS)
_lock = threading.Lock()


def record(graph: CompiledGraph) -> None:
    with _lock:
        _graphs.append(graph)
    logger.info("%s", graph)


def report() -> Report:
    """What was compiled: `print(pylayout.torch.report())` names the ops that PyTorch runs, and why."""
    with _lock:
        return Report(tuple(_graphs))


def reset() -> None:
    """Forget what was compiled so far."""
    with _lock:
        _graphs.clear()
