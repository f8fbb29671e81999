"""Engines that take turns on one model: a process for each, medians, ratios, errors.

In every round each engine takes one turn, in a new random order. A machine whose speed drifts slows all alike, so that
the ratio of two medians repeats where a time alone does not. Between turns is a pause, in which the threads of the
engine that ran last stop spinning.
"""

from __future__ import annotations

import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TextIO

import numpy
from numpy.typing import NDArray

from ..errors import Error
from . import worker

__all__ = ["Engine", "Row", "race"]

PAUSE_SECONDS = 0.06  # ONNX Runtime 1.32 spins for 40 to 50 ms after a run
LEAST_ROUNDS = 3
MOST_ROUNDS = 200
# Of a turn: at least so many runs, more until they took so long.
LEAST_RUNS = 3
TURN_MS = 20.0
MOST_RUNS = 50

Progress = Callable[[str, float, float], None]


@dataclass
class Engine:
    """What one engine did."""

    name: str
    version: str = ""
    load_seconds: float = 0.0  # to the end of the first run
    times: list[float] = field(default_factory=list)  # ms
    error: float | None = None  # relative L2 distance to the reference; None: no number, or nothing to compare with

    @property
    def ms(self) -> float:
        return statistics.median(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        """A quarter of the runs took at most the first, a quarter at least the second; ms."""
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return low, high

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "ms": round(self.ms, 4),
            "quartiles_ms": [round(value, 4) for value in self.quartiles],
            "least_ms": round(min(self.times), 4),
            "runs": len(self.times),
            "load_seconds": round(self.load_seconds, 3),
            "error": self.error,
        }


@dataclass
class Row:
    """One model at one size: the engines that ran, those that did not and why, and whose outputs the errors are to."""

    engines: dict[str, Engine]
    left_out: dict[str, str]
    reference: str | None
    rounds: int

    def ratios(self) -> dict[str, float]:
        """Peers' medians over pylayout's: above 1, pylayout is faster."""
        own = self.engines["pylayout"].ms
        return {name: engine.ms / own for name, engine in self.engines.items() if name != "pylayout"}

    def to_json(self) -> dict[str, Any]:
        ratios = {name: round(ratio, 4) for name, ratio in self.ratios().items()}
        return {
            "engines": {name: engine.to_json() for name, engine in self.engines.items()},
            "ratios": ratios,
            "best_peer": min(ratios, key=lambda name: ratios[name]) if ratios else None,
            "left_out": self.left_out,
            "reference": self.reference,
            "rounds": self.rounds,
        }


class _Lane:
    """The process of one engine."""

    def __init__(self, name: str, folder: Path, request: Mapping[str, Any]) -> None:
        self.name = name
        self.outputs = folder / f"{name}.npz"
        self._log = folder / f"{name}.log"
        file = folder / f"{name}.json"
        file.write_text(json.dumps({**request, "outputs": str(self.outputs)}), "utf-8")
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).resolve().parents[2])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
        with theirs, self._log.open("w") as log:
            self._process = self._spawn(theirs.fileno(), file, environment, log)
        self._pipe = Connection(ours.detach())

    def _spawn(self, descriptor: int, file: Path, environment: dict[str, str], log: TextIO) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C is for the parent alone, which ends its workers.
        return subprocess.Popen(
            [sys.executable, worker.__file__, self.name, str(descriptor), str(file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            pass_fds=[descriptor],
            start_new_session=True,
        )

    def ask(self, *message: Any) -> None:
        try:
            self._pipe.send(message)
        except OSError as error:
            raise _Ended(self._last_words()) from error

    def answer(self) -> Any:
        """What comes next from the process. Raises _Ended where it failed or died."""
        try:
            kind, content = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise _Ended(self._last_words()) from error
        if kind == "failed":
            raise _Ended(content)
        return content

    def _last_words(self) -> str:
        code = self._process.wait()
        lines = self._log.read_text("utf-8", "replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"its process ended with {how}" + (f": {said}" if said else "")

    def close(self) -> None:
        self._pipe.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class _Ended(Exception):
    """An engine cannot go on; the message says why."""


def race(
    request: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    peers: Sequence[str],
    *,
    seconds: float = 20.0,
    seed: int = 0,
    progress: Progress = lambda label, done, total: None,
) -> Row:
    """Run a model in pylayout and in those of its peers that can, for about so many seconds.

    request: as `worker` reads it, but for inputs and outputs. A peer that cannot run is left out, with its reason;
    where pylayout itself cannot, Error says why. The errors are to the outputs of the first peer that runs.
    """
    left_out = {name: why for name in peers if (why := worker.missing(name)) is not None}
    wanted = ["pylayout", *(name for name in peers if name not in left_out)]
    lanes: dict[str, _Lane] = {}
    engines: dict[str, Engine] = {}

    def end(name: str, why: str) -> None:
        if name == "pylayout":
            raise Error(f"bench: pylayout does not run the model: {why}")
        left_out[name] = " ".join(why.split())[:400]
        lanes.pop(name).close()
        engines.pop(name, None)

    with tempfile.TemporaryDirectory(prefix="pylayout-bench-") as temporary:
        folder = Path(temporary)
        numpy.savez(folder / "inputs.npz", *arrays.values())
        complete = {**request, "inputs": str(folder / "inputs.npz"), "order": list(arrays)}
        try:
            for number, name in enumerate(wanted):  # one after the other: pylayout measures while it compiles
                progress(f"{name}: loading", number, 2 * len(wanted))
                lanes[name] = _Lane(name, folder, complete)
                try:
                    facts = lanes[name].answer()
                    engines[name] = Engine(name, facts["version"], facts["load_seconds"])
                except _Ended as ended:
                    end(name, str(ended))
            outputs = {name: _outputs(lane.outputs) for name, lane in lanes.items()}
            rounds = _rounds(lanes, engines, end, seconds, random.Random(seed), progress)
        finally:
            for lane in lanes.values():
                lane.close()
    reference = next((name for name in peers if name in engines), None)
    if reference is not None:
        for name, engine in engines.items():
            engine.error = relative_error(outputs[name], outputs[reference])
    return Row(engines, left_out, reference, rounds)


def _rounds(
    lanes: dict[str, _Lane],
    engines: dict[str, Engine],
    end: Callable[[str, str], None],
    seconds: float,
    shuffle: random.Random,
    progress: Progress,
) -> int:
    began, done = time.monotonic(), 0
    while done < LEAST_ROUNDS or (done < MOST_ROUNDS and time.monotonic() - began < seconds):
        share = max(done / MOST_ROUNDS, min(1.0, (time.monotonic() - began) / seconds))
        for name in shuffle.sample(list(lanes), len(lanes)):
            progress(f"{name}: round {done + 1}", 1 + share, 2)
            time.sleep(PAUSE_SECONDS)
            try:
                lanes[name].ask("turn", LEAST_RUNS, TURN_MS, MOST_RUNS)
                engines[name].times += lanes[name].answer()
            except _Ended as ended:
                end(name, str(ended))
        done += 1
    return done


def _outputs(path: Path) -> list[NDArray[Any]]:
    with numpy.load(path) as file:
        return [file[f"arr_{i}"] for i in range(len(file.files))]


def relative_error(outputs: Sequence[NDArray[Any]], reference: Sequence[NDArray[Any]]) -> float | None:
    """L2 distance over the reference's length, all outputs together; None where shapes or numbers do not permit it."""
    if [array.shape for array in outputs] != [array.shape for array in reference]:
        return None
    ours, theirs = (
        numpy.concatenate([numpy.zeros(0), *(array.astype(numpy.float64).ravel() for array in arrays)])
        for arrays in (outputs, reference)
    )
    length = float(numpy.linalg.norm(theirs))
    with numpy.errstate(all="ignore"):
        distance = float(numpy.linalg.norm(ours - theirs))
        error = distance / length if length else distance
    return error if numpy.isfinite(error) else None
