"""Many checks in an order that a seed gives, their state in a file, and what is said of them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Error
from ..files import written_whole
from .case import Case
from .check import Checked, Outcome, check_case
from .generate import random_case
from .networks import network_cases

__all__ = ["Session", "Settings", "family_of", "summary_rows"]

Progress = Callable[[str, float], None]


@dataclass
class Settings:
    """What a session checks."""

    device: str = "cpu"
    seed: int = 0
    ops: tuple[str, ...] = ()  # empty: all
    providers: tuple[str, ...] = ()  # empty: all
    every_point: bool = False
    sources: str = "all"  # networks, random or all: which cases


def family_of(implementation: str) -> str:
    """An implementation without the values of its tunables and the sizes in its name."""
    return re.sub(r"\[.*\]", "", implementation)


@dataclass
class _Row:
    """One implementation's figures."""

    checks: int = 0
    wrong: int = 0
    unprepared: int = 0
    ratio: float = 0.0
    error: float = 0.0
    case: str = ""


@dataclass
class Session:
    """Checks one case after the other; `to_json` is its state, from which another goes on."""

    settings: Settings
    next: int = 0  # number of the next case
    checks: int = 0  # runs of candidates
    positions: int = 0
    seconds: float = 0.0
    without: int = 0  # cases that nothing here can run
    rows: dict[str, _Row] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    path: Path | None = None
    _networks: list[Case] | None = None
    _ended: dict[str, Any] | None = None  # what was run when the process before this one ended

    # ---- the order of cases ----

    def case(self, number: int) -> Case:
        """Cases of networks in a random order, in turns with random ones until the first are used up."""
        if self._networks is None:
            ops = frozenset(self.settings.ops)
            listed = [] if self.settings.sources == "random" else network_cases()
            listed = [case for case in listed if not ops or case.op in ops]
            order = np.random.default_rng(self.settings.seed).permutation(len(listed))
            self._networks = [listed[i] for i in order]
        known = self._networks
        if self.settings.sources == "networks" or (number % 2 == 0 and number // 2 < len(known)):
            return known[number if self.settings.sources == "networks" else number // 2]
        left = number - min(len(known), number // 2 + 1) if known else number
        return random_case(self.settings.seed, left, frozenset(self.settings.ops))

    def count(self) -> int | None:
        """How many cases there are; None: as many as there is time for."""
        if self.settings.sources != "networks":
            return None
        self.case(0)
        assert self._networks is not None
        return len(self._networks)

    # ---- state ----

    def to_json(self, running: dict[str, Any] | None = None) -> dict[str, Any]:
        rows = {key: dict(vars(row)) for key, row in self.rows.items()}
        for row in rows.values():
            for name in ("ratio", "error"):
                row[name] = row[name] if np.isfinite(row[name]) else str(row[name])
        return {
            "settings": {
                name: list(value) if isinstance(value, tuple) else value for name, value in vars(self.settings).items()
            },
            "environment": environment(self.settings.device),
            "next": self.next,
            "checks": self.checks,
            "positions": self.positions,
            "seconds": round(self.seconds, 3),
            "without": self.without,
            "rows": rows,
            "failures": self.failures,
            "running": running,
        }

    def save(self, running: dict[str, Any] | None = None) -> None:
        """Writes the state whole or not at all; `running` is what would have ended the process, if it does now."""
        if self.path is None:
            return
        text = json.dumps(self.to_json(running))
        with written_whole("verify: state", self.path) as partial:
            partial.write_text(text, "utf-8")

    @classmethod
    def resume(cls, settings: Settings, path: Path) -> Session:
        """The session that the file holds, if it was one of the same settings on the same libraries; else a new one.

        Raises ValueError where the file is of another session.
        """
        session = cls(settings, path=path)
        if not path.exists():
            return session
        data = json.loads(path.read_text("utf-8"))
        expected = session.to_json()
        for name in ("settings", "environment"):
            if data.get(name) != expected[name]:
                raise ValueError(
                    f"{path}: its {name} are {data.get(name)}, expected {expected[name]}: take another file"
                )
        for name in ("next", "checks", "positions", "seconds", "without", "failures"):
            setattr(session, name, data[name])
        for key, row in data["rows"].items():
            session.rows[key] = _Row(**{**row, "ratio": float(row["ratio"]), "error": float(row["error"])})
        running = data["running"]
        session._ended = running
        if running and running["again"]:  # at the same run as before: no accident
            session.next += 1
            session._ended = None
            session.failures.append({**running, "problem": "the process ended while this was run, twice"})
            session._row(
                running["op"], running["candidate"]["provider"], running["candidate"]["implementation"]
            ).wrong += 1
        return session

    # ---- checks ----

    def run(
        self,
        minutes: float = float("inf"),
        checks: int | None = None,
        progress: Progress = lambda what, share: None,
    ) -> None:
        """Check until the time is up, so many runs were made, or no case is left."""
        began, before, count = time.monotonic(), self.checks, self.count()
        saved = self.seconds
        while count is None or self.next < count:
            elapsed = time.monotonic() - began
            self.seconds = saved + elapsed
            share = elapsed / (60 * minutes)
            if checks is not None:
                share = max(share, (self.checks - before) / checks)
            if count is not None:
                share = max(share, self.next / count)
            if elapsed >= 60 * minutes or (checks is not None and self.checks - before >= checks):
                break
            case = self.case(self.next)
            progress(f"{self.checks} checks, {len(self.failures)} wrong: {case.op}", share)
            self.add(self._check(case))
            self.next += 1
        self.seconds = saved + time.monotonic() - began
        self.save()

    def _check(self, case: Case) -> Checked:
        def began(candidate: dict[str, Any]) -> None:
            described = {name: candidate[name] for name in ("provider", "implementation", "inputs", "outputs")}
            running = {"op": case.op, "case": case.to_json(), "candidate": described}
            again = self._ended is not None and all(self._ended[name] == value for name, value in running.items())
            self.save({**running, "again": again})

        def wanted(candidate: dict[str, Any]) -> bool:
            return not self.settings.providers or candidate["provider"] in self.settings.providers

        try:
            return check_case(case, self.settings.device, self.settings.every_point, wanted, began)
        except Error as error:
            self.failures.append({"op": case.op, "case": case.to_json(), "problem": f"{type(error).__name__}: {error}"})
            return Checked(case)

    def _row(self, op: str, provider: str, implementation: str) -> _Row:
        return self.rows.setdefault(f"{provider}\t{family_of(implementation)}\t{op}", _Row())

    def add(self, checked: Checked) -> None:
        case = checked.case
        self.positions += checked.positions
        self.without += not checked.outcomes
        for outcome in checked.outcomes:
            row = self._row(case.op, outcome.provider, outcome.implementation)
            row.unprepared += not outcome.prepared
            if not outcome.prepared:
                continue
            self.checks += 1
            row.checks += 1
            row.wrong += outcome.wrong
            row.error = max(row.error, outcome.error)
            if outcome.ratio > row.ratio or not row.case:
                row.ratio, row.case = outcome.ratio, case.key
            if outcome.wrong:
                self.failures.append(_failure(case, outcome))


def _failure(case: Case, outcome: Outcome) -> dict[str, Any]:
    data = outcome.to_json()
    candidate = {name: data.pop(name) for name in ("provider", "implementation", "inputs", "outputs")}
    problem = "; ".join(outcome.damage)
    if not outcome.ratio <= 1:
        where = tuple(outcome.at[1:])
        problem = (
            f"output {outcome.at[0]} at {where} is {outcome.found:.9g}, expected {outcome.exact:.9g}: "
            f"{outcome.ratio:.3g} times the bound" + (f"; {problem}" if problem else "")
        )
    return {"op": case.op, "case": case.to_json(), "candidate": candidate, "problem": problem, **data}


def environment(device: str) -> dict[str, Any]:
    """The libraries and the device that results depend on."""
    from .. import __version__
    from ..device import describe

    data = describe()
    found: dict[str, Any] = next((each for each in data["devices"] if each["name"] == device), {})
    versions = {provider["name"]: provider["version"] for provider in data["providers"]}
    return {"pylayout": __version__, "fingerprint": found.get("fingerprint", ""), "providers": versions}


def summary_rows(session: Session) -> list[dict[str, Any]]:
    """A dict for each implementation and op, the worst first."""
    rows = []
    for key, row in session.rows.items():
        provider, implementation, op = key.split("\t")
        rows.append({"provider": provider, "implementation": implementation, "op": op, **vars(row)})
    return sorted(rows, key=lambda row: (-row["wrong"], -row["ratio"], row["op"], row["implementation"]))
