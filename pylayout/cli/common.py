"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import UsageError

__all__ = [
    "add_device",
    "add_threads",
    "apply_threads",
    "check_device",
    "check_file",
    "check_folder",
    "ending_in_order",
    "writing",
]

MOST_THREADS = 4096  # as the library has it


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", default="cpu", metavar="NAME", help="cpu (default), opencl:0, …: see `pylayout devices`"
    )


def add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        type=threads,
        metavar="N",
        help="threads on the cpu (default: OMP_NUM_THREADS, at most this process's processors)",
    )


def positive(text: str) -> int:
    """A whole number above zero, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return value


def threads(text: str) -> int:
    """A number of threads, for argparse."""
    value = positive(text)
    if value > MOST_THREADS:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {MOST_THREADS}")
    return value


def seed(text: str) -> int:
    """A whole number from zero on, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from zero on")
    return value


def seconds(text: str, unit: str = "seconds") -> float:
    """A finite time above zero, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of {unit} above zero")
    return value


def minutes(text: str) -> float:
    return seconds(text, "minutes")


def check_folder(option: str, path: str | None) -> None:
    """Raise UsageError for a file that could not be written: now, rather than after minutes of measuring."""
    if path is None or path == "-":
        return
    if not path:
        raise UsageError(f"{option}: the name of the file is empty")
    if Path(path).is_dir():
        raise UsageError(f"{option} {path}: is a folder, expected a file")
    if not os.access(Path(path).resolve().parent, os.W_OK):
        raise UsageError(f"{option} {path}: its folder does not exist or cannot be written")


def check_file(option: str, path: str, text: str | None = None) -> None:
    """Raise UsageError for a file that is not there; `text`: the option's value as it was given."""
    if not Path(path).is_file():
        why = "is a folder, expected a file" if Path(path).is_dir() else "no such file"
        raise UsageError(f"{option} {text or path}: {why}")


@contextlib.contextmanager
def writing(option: str, path: str) -> Iterator[None]:
    """What is written in its block; an OSError then names the option and the file."""
    try:
        yield
    except OSError as error:
        why = error.__cause__ if isinstance(error.__cause__, OSError) else error  # of a FileError
        raise OSError(f"{option} {path}: cannot be written: {why.strerror or why}") from error


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """SIGTERM in its block ends the command as an exception does: what clean-up there is, is done."""

    def stop(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    former = signal.getsignal(signal.SIGTERM)
    if former is not signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def apply_threads(options: argparse.Namespace) -> None:
    if options.threads:
        import pylayout

        pylayout.configure(threads=options.threads)


def check_device(name: str) -> None:
    """Raise UsageError for a device that is not there."""
    import pylayout

    names = [device.name for device in pylayout.devices()]
    if name not in names:
        raise UsageError(f"--device: there is no device {name!r} here, expected one of {', '.join(names)}")
