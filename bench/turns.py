"""Engines that take turns in one process, and how far their results are from exact ones."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pylayout as pl


def take_turns(engines: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each; in a round each is run once unseen and three times by the clock."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, run in engines.items():
            run()
            for _ in range(3):
                start = time.perf_counter()
                run()
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: round(statistics.median(each), 4) for name, each in times.items()}


def run_until_settled(run: Callable[[], Any], seconds: float = 90) -> None:
    """Runs it until nothing is compiled, measured or tried beside its runs any more, or the time is up."""
    end = time.perf_counter() + seconds
    run()
    while not pl.settled() and time.perf_counter() < end:
        run()


def relative_error(result: Any, exact: Any) -> float:
    """The norm of the difference from `exact` over its norm; `result` is an array, a tensor or PyTorch's."""
    got = result.float().cpu().numpy() if hasattr(result, "cpu") else np.asarray(result, dtype=np.float32)
    return float(f"{np.linalg.norm(got - exact) / max(np.linalg.norm(exact), 1e-30):.2e}")
