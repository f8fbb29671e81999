"""One network under several layout policies: timed side by side, profiled, compared.

What is measured, for every policy:
- total_ms: the median time of a whole run, not profiled: from the input tensor to the finished result. Every run gets
  a new input tensor, as a program that handles images one by one would give it, so that a reorder of the input counts.
- op_ms and reorder_ms: medians over profiled runs of the time in ops and in reorders (transfers between devices are
  reorders). Where a policy's two add up to more than its total, because recording slows a run down or because the
  device works on several things at once, both are scaled down to add up to it. What is left of the total is the
  program's own: Python, dispatch, waiting.
- reorders: how many and how many bytes in one run, of activations and of weights.
- error: relative L2 distance of the result to that of the NCHW run.

The policies take turns in a new random order each round, so that a machine whose speed drifts slows all alike. A turn
is two runs that are thrown away (they bring the policy's weights into the caches), timed runs, and a profiled one.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import asarray
from .device import settled, synchronize
from .policy_results import Comparison, Event, PolicyRuns, split_events
from .profile import profile

__all__ = ["POLICIES", "Settings", "compare", "relative_error"]

POLICIES = ("per-op", "NCHW", "NHWC", "nChw16c", "auto")

Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Settings:
    """How long to measure; the defaults give medians that repeat within a few percent on a quiet machine."""

    rounds: int = 15  # at most
    least_rounds: int = 3
    seconds: float = 12.0  # for the rounds after the least
    untimed_runs: int = 2  # at the beginning of a turn; after one MobileNetV2 still ran 5% slower than after two
    timed_runs: int = 2  # a turn, at least
    most_timed_runs: int = 10  # a turn: short runs get more of them,
    timed_ms: float = 20.0  # until they took so long
    warm_up: int = 4  # runs of each policy at least
    most_warm_up: int = 200  # at most; `auto` tries linked ops in several layouts in the first 40 to 90
    warm_up_seconds: float = 40.0  # of each policy, after the least
    seed: int = 0


# In one round, at most: a network that packs weights in every run is shown as it is.
_MOST_PROFILED = 4


def _settled(times: Sequence[float]) -> bool:
    """The last three runs brought nothing: none was more than 2% faster than the best before."""
    return len(times) > 3 and min(times[-3:]) > 0.98 * min(times[:-3])


def relative_error(y: NDArray[Any], reference: NDArray[Any]) -> float | None:
    """L2 distance over the reference's length; None if that is no finite number."""
    difference = np.linalg.norm(y.astype(np.float64) - reference)
    length = np.linalg.norm(reference.astype(np.float64))
    with np.errstate(all="ignore"):
        error = float(difference / length) if length or difference else 0.0
    return error if np.isfinite(error) else None


def _read(y: Any) -> NDArray[Any]:
    """A result's elements; of several results, all of them in a row."""
    if isinstance(y, tuple):
        return np.concatenate([np.asarray(part, np.float64).ravel() for part in y])
    return np.asarray(y)


def compare(
    network: Any,
    images: NDArray[Any] | tuple[NDArray[Any], ...],
    policies: Sequence[str] = POLICIES,
    settings: Settings | None = None,
    progress: Progress = lambda label, done, total: None,
) -> Comparison:
    """Run a `networks.Network`, or a `policies.PlannedModel`, on images (n, 3, h, w) under each policy.

    images: one array, or a tuple of all inputs; their first size is the batch. Several results are compared as one.
    progress: called with (what is going on, done, total).
    """
    settings = settings or Settings()
    device = network.device
    inputs = images if isinstance(images, tuple) else (images,)

    def run(policy: str) -> tuple[Any, float]:
        given = [asarray(array, device=device) for array in inputs]
        synchronize(device)
        start = time.perf_counter()
        y = network(*given, layout=policy)
        synchronize(device)
        return y, (time.perf_counter() - start) * 1e3

    runs = {name: PolicyRuns(name) for name in policies}
    outputs: dict[str, NDArray[Any]] = {}
    for number, name in enumerate(dict.fromkeys(["NCHW", *policies])):  # the reference, wanted or not
        if name not in runs:
            outputs[name] = _read(run(name)[0]).astype(np.float64)
            continue
        times: list[float] = []
        start = time.monotonic()
        while len(times) < settings.warm_up or not (
            (_settled(times) and (name != "auto" or settled()))
            or len(times) >= settings.most_warm_up
            or time.monotonic() - start > settings.warm_up_seconds
        ):
            progress(f"{name}: warming up, run {len(times) + 1}", number, len(policies) + settings.rounds)
            y, ms = run(name)
            _read(y)  # so that dispatch learns what the reader pays
            times.append(ms)
        runs[name].warm_up = len(times)

    shuffle = random.Random(settings.seed)
    recordings: dict[str, list[list[Event]]] = {name: [] for name in policies}
    start = time.monotonic()
    for turn in range(settings.rounds):
        elapsed = time.monotonic() - start
        if turn >= settings.least_rounds and elapsed > settings.seconds:
            break
        for name in shuffle.sample(list(policies), len(policies)):
            share = max(turn / settings.rounds, min(1.0, elapsed / settings.seconds))
            done = len(policies) + share * settings.rounds
            progress(f"{name}: round {turn + 1}", done, len(policies) + settings.rounds)
            for _ in range(settings.untimed_runs):
                run(name)
            times = []
            while len(times) < settings.timed_runs or (
                sum(times) < settings.timed_ms and len(times) < settings.most_timed_runs
            ):
                times.append(run(name)[1])
            runs[name].totals += times
            for _ in range(_MOST_PROFILED):
                with profile() as recording:
                    y, _ = run(name)
                events = [dict(event) for event in recording.events]
                split = split_events(events)
                if name == "per-op" or not split.weights[0]:
                    break  # else a choice was made anew in this run, and packed weights: no steady state
            recordings[name].append(events)
            runs[name].splits.append(split)
            outputs[name] = _read(y)

    for name, policy in runs.items():
        times = [split.op_ms + split.reorder_ms for split in policy.splits]
        middle = statistics.median_low(times)
        policy.events = recordings[name][times.index(middle)]
        policy.error = relative_error(outputs[name], outputs["NCHW"])
    progress("done", 1, 1)
    return Comparison(
        network=network.name,
        device=device,
        batch=len(inputs[0]) if inputs[0].ndim else 1,
        policies=runs,
        logits=outputs["auto" if "auto" in runs else list(policies)[-1]],
    )
