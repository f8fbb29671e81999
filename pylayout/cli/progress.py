"""How far a command is: on standard error, drawn by the package rich where it is installed."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import time
from typing import Protocol, TextIO

from .terminal import has_unicode, style

__all__ = ["MODES", "Progress"]

# auto: a bar where standard error is a terminal, else nothing. lines: a line for each stage, for logs.
MODES = ("auto", "lines", "none")

# Drawn at most so often. Nothing is drawn between updates, and no thread draws: commands measure meanwhile.
BAR_SECONDS = 0.05
LINE_SECONDS = 2.0


class _Display(Protocol):
    def show(self, label: str, share: float | None) -> None: ...
    def close(self) -> None: ...


class _Lines:
    """A line for a stage that is new, at most one each two seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._last: tuple[str, float] = ("", float("-inf"))

    def show(self, label: str, share: float | None) -> None:
        now = time.monotonic()
        if label == self._last[0] or now - self._last[1] < LINE_SECONDS:
            return
        self._last = (label, now)
        percent = "" if share is None else f" {share:4.0%}"
        self._stream.write(f"[{now - self._began:6.1f} s]{percent} {label}\n")
        self._stream.flush()

    def close(self) -> None:
        """Lines stay."""


class _Bar:
    """One line of a terminal, drawn over itself; wiped at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, label: str, share: float | None) -> None:
        width = 30
        filled = 0 if share is None else min(width, round(width * share))
        full, empty = ("━", "─") if has_unicode(self._stream) else ("#", "-")
        columns = shutil.get_terminal_size().columns
        text = f" {label}"[: max(0, columns - width - 8)]
        drawn = style(full * filled, "green", stream=self._stream) + style(
            empty * (width - filled), "dim", stream=self._stream
        )
        percent = "" if share is None else f"{share:4.0%}"
        self._stream.write(f"\r\x1b[K{drawn} {percent}{text}")
        self._stream.flush()

    def close(self) -> None:
        self._stream.write("\r\x1b[K")
        self._stream.flush()


class _Rich:
    """A bar with the time that has passed and the time that is left, by the package rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._progress = Progress(
            SpinnerColumn(),
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.description}", markup=False),
            console=Console(file=stream, force_terminal=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._progress.start()
        self._task = self._progress.add_task("", total=None)

    def show(self, label: str, share: float | None) -> None:
        total = None if share is None else 1.0
        self._progress.update(self._task, description=label, completed=share or 0.0, total=total, refresh=True)

    def close(self) -> None:
        self._progress.stop()


class Progress:
    """What a command shows while it works; a context manager. Nothing of it stays on a terminal."""

    def __init__(self, mode: str = "auto", stream: TextIO | None = None) -> None:
        stream = stream or sys.stderr
        self._display: _Display | None = None
        self._drawn = float("-inf")
        self._label = ""
        if mode == "lines":
            self._display = _Lines(stream)
        elif mode == "auto" and stream.isatty():
            rich = importlib.util.find_spec("rich") is not None
            self._display = _Rich(stream) if rich else _Bar(stream)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._display is not None:
            self._display.close()

    def update(self, label: str, done: float, total: float) -> None:
        """Show that `done` of `total` of what the label says is done; a total of 0: nobody knows."""
        now = time.monotonic()
        if self._display is None or (now - self._drawn < BAR_SECONDS and label == self._label):
            return
        self._drawn, self._label = now, label
        self._display.show(label, done / total if total else None)
