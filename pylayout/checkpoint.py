"""Checkpoints: what a plan keeps between its runs, in a file that any plan with the same states takes.

`Plan.save` writes states with the choices of the plan, for the same hardware. A checkpoint has the states alone, by
name: a plan for another batch, device or version goes on from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from .arrays import asarray
from .errors import ArgumentTypeError, FileError, InvalidArgumentError
from .files import written_whole
from .plan import Plan

__all__ = ["Saved", "read", "restore", "save"]

_FORMAT = 1
_HEADER = "header"
_STATE = "state/"  # before the names of states, which may be any text


def save(path: str | os.PathLike[str], plan: Plan, notes: Any = None) -> None:
    """Write the states of a plan to a file, whole or not at all. `notes`: what JSON can hold, given back by `restore`.

    Whoever reads while this writes, or after it was killed, finds the file that was there before.
    Raises FileError where it cannot be written.

    >>> import numpy, pylayout as pl, tempfile
    >>> g = pl.Graph()
    >>> count = g.state("count", numpy.zeros((), "float32"))
    >>> g.update(count, count + 1)
    >>> g.output(count)
    >>> first, second = (pl.compile(g, tune="off") for _ in range(2))
    >>> for _ in range(3): _ = first.run()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pl.training.save(f"{folder}/count", first, notes={"epoch": 3})
    ...     pl.training.restore(f"{folder}/count", second), float(second.state("count"))
    ({'epoch': 3}, 3.0)
    """
    if not isinstance(plan, Plan):
        raise ArgumentTypeError(f"checkpoint: plan is {type(plan).__name__}, expected a Plan")
    kept = [{key: state[key] for key in ("name", "dtype", "shape")} for state in plan.states]
    try:
        header = json.dumps({"format": _FORMAT, "states": kept, "notes": notes}, allow_nan=False).encode()
    except TypeError as error:
        raise ArgumentTypeError(f"checkpoint: notes is {notes!r}, expected what JSON holds ({error})") from None
    except ValueError as error:
        raise InvalidArgumentError(f"checkpoint: notes is {notes!r}, expected what JSON holds ({error})") from None
    arrays = {_HEADER: numpy.frombuffer(header, numpy.uint8)}
    for state in kept:
        values = plan.state(state["name"])
        # Files of NumPy have no bf16; float32 holds its values.
        arrays[_STATE + state["name"]] = values.astype("float32") if state["dtype"] == "bf16" else values
    with written_whole("checkpoint", path) as partial, partial.open("wb") as file:
        numpy.savez(file, **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    _synchronise(partial.parent)


def _synchronise(folder: Path) -> None:
    """Make the file's new name last beyond a loss of power, on systems where folders can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def restore(path: str | os.PathLike[str], plan: Plan) -> Any:
    """Give a plan the states that `save` wrote; returns the notes. All of them, or none where something does not fit.

    Raises FileError where the file cannot be read, InvalidArgumentError where it is no checkpoint or of other states.
    """
    if not isinstance(plan, Plan):
        raise ArgumentTypeError(f"checkpoint: restore is given {type(plan).__name__}, expected a Plan")
    saved = read(path)
    saved.give(plan)
    return saved.notes


@dataclass
class Saved:
    """What a checkpoint holds."""

    path: str | os.PathLike[str]
    notes: Any
    states: dict[str, tuple[str, tuple[int, ...]]]  # dtypes and shapes
    values: dict[str, Any]

    def give(self, plan: Plan) -> None:
        """Give a plan the states, as `restore` does."""
        wanted = {state["name"]: (state["dtype"], tuple(state["shape"])) for state in plan.states}
        for name in sorted({*self.states, *wanted}):
            there, here = self.states.get(name), wanted.get(name)
            if there != here:
                raise InvalidArgumentError(
                    f'checkpoint: state "{name}" is {_words(there)} in {self.path}, expected {_words(here)} '
                    "(the plan's)"
                )
        for name, value in self.values.items():
            plan.set_state(name, asarray(value, dtype=wanted[name][0]))


def read(path: str | os.PathLike[str]) -> Saved:
    """What `save` wrote, for who looks at the notes before a plan changes. Raises what `restore` does of the file."""
    try:
        with Path(path).open("rb") as file, numpy.load(file, allow_pickle=False) as arrays:
            header = json.loads(arrays[_HEADER].tobytes())
            if header["format"] != _FORMAT:
                raise InvalidArgumentError(
                    f"checkpoint: {path} has format {header['format']}, expected {_FORMAT}: another version wrote it"
                )
            found = {state["name"]: (state["dtype"], tuple(state["shape"])) for state in header["states"]}
            # By the names of files in the archive: of "a" and "a.npy" else the first is found for both.
            values = {name: arrays[f"{_STATE}{name}.npy"] for name in found}
    except OSError as error:
        raise FileError(f"checkpoint: {path} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"checkpoint: {path} is no checkpoint, or damaged ({error})") from error
    return Saved(path, header["notes"], found, values)


def _words(state: tuple[str, tuple[int, ...]] | None) -> str:
    return "missing" if state is None else f"{state[0]} {state[1]}"
