"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from .errors import UsageError

__all__ = ["add_device", "add_threads", "apply_threads", "check_device", "check_folder"]


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", default="cpu", metavar="NAME", help="cpu (default), opencl:0, …: see `pylayout devices`"
    )


def add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        type=positive,
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
    if path and path != "-" and not os.access(Path(path).resolve().parent, os.W_OK):
        raise UsageError(f"{option} {path}: its folder does not exist or cannot be written")


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
