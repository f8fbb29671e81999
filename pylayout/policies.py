"""A model under layout policies, for `comparison.compare`: a plan for each, and its ops one by one for `per-op`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .compilation import compile
from .eager import EagerGraph
from .graph import Graph
from .plan import Plan

__all__ = ["PlannedModel"]

Progress = Callable[[str, float], None]


class PlannedModel:
    """A Graph or an ONNX file, compiled once for each policy; called with tensors and `layout`, the policy.

    `per-op` runs the graph's ops as eager calls, each reordered in and out. `plans` holds the plans by policy.
    """

    def __init__(
        self,
        model: Graph | str | os.PathLike[str],
        policies: Sequence[str],
        *,
        device: str = "cpu",
        threads: int | None = None,
        tune: str | None = None,
        seconds: float | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        progress: Callable[[str, float, float], None] = lambda label, done, total: None,
    ) -> None:
        self.name = "graph" if isinstance(model, Graph) else Path(model).name
        self.device = device
        if isinstance(model, Graph):
            graph = model
        else:
            from . import onnx

            graph = onnx.load(model, shapes=shapes)
        self.inputs = graph.describe()["inputs"]
        self.plans: dict[str, Plan] = {}
        self._eager = EagerGraph(graph.simplify()) if "per-op" in policies else None
        planned = [name for name in dict.fromkeys(["NCHW", *policies]) if name != "per-op"]
        for number, name in enumerate(planned):
            if tune in (None, "auto") and seconds is None:
                seconds = 60.0  # each is at its best before the first run

            def tell(stage: str, fraction: float, name: str = name, number: int = number) -> None:
                progress(f"{name}: {stage}", number + fraction, len(planned))

            self.plans[name] = compile(
                graph, device=device, layout=name, threads=threads, tune=tune, seconds=seconds, progress=tell
            )

    def __call__(self, *tensors: Any, layout: str = "auto") -> Any:
        if layout == "per-op" and self._eager is not None:
            return self._eager(*tensors, layout=layout)
        return self.plans[layout](*tensors)
