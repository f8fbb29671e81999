"""What became of each traced graph: how many plans, and which ops were left to PyTorch and why."""

from __future__ import annotations

import logging
import threading
import weakref
from collections import Counter, deque
from dataclasses import dataclass, field

from ..plan import Plan

__all__ = ["CompiledGraph", "Report", "record", "report", "reset"]

logger = logging.getLogger("pylayout.torch")

MAX_GRAPHS = 1024  # in a report; of more the oldest are forgotten


@dataclass(frozen=True)
class CompiledGraph:
    """One traced graph, for all sizes that its plans serve."""

    kind: str  # "inference", "forward" or "backward"
    _plans: tuple[weakref.ref[Plan], ...]  # which a report does not keep alive
    planned: int  # ops that plans run
    left: tuple[tuple[str, str], ...]  # (op, reason) for each op that PyTorch runs
    seconds: float  # that it took to compile
    axes: tuple[str, ...] = ()  # sizes that calls decide, by PyTorch's names: the plans serve any
    _again: tuple[list[str], ...] = ()

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Its plans; none once PyTorch has let go of the graph (`torch._dynamo.reset()`)."""
        return tuple(plan for plan in (kept() for kept in self._plans) if plan is not None)

    @property
    def partitions(self) -> int:
        """How many plans the graph was divided into."""
        return len(self._plans)

    @property
    def again(self) -> tuple[str, ...]:
        """For which sizes the graph of a plan was made again, since it did not hold for them, and why."""
        return tuple(text for texts in self._again for text in texts)

    def __str__(self) -> str:
        text = f"{self.kind}: {self.planned} ops in {self.partitions} plan{'s' * (self.partitions != 1)}"
        if self.axes:
            text += f" for any {', '.join(self.axes)}"
        if self.again:
            text += f", made again for {len(self.again)} sizes (the last: {self.again[-1]})"
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
