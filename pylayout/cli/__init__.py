"""The command line: `pylayout COMMAND`.

Each command is a module with `add(commands)`, which describes its arguments, and `run(options)`, which returns what
`--json` writes and prints the rest. Exit codes: 0 done, 1 an error (one line on standard error), 2 wrong usage;
a command may set `options.exit_code` to a number of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import _command
from .common import check_folder, writing
from .errors import UsageError
from .progress import MODES
from .terminal import style

__all__ = ["UsageError", "main"]


_EPILOG = """\
examples:
  pylayout devices                                what this machine has, and what is missing
  pylayout profile resnet50 --report report.html  what each layout costs a real network here
  pylayout query conv2d --input 1,64,56,56 --input 64,64,3,3 --set padding=1
                                                  every way to run that convolution, best first
  pylayout tune resnet50 --device opencl:0 --batch 16
                                                  search the kernels' parameters for that network on that device
  pylayout verify --device opencl:0               check every implementation there against exact results
  pylayout run model.onnx --input photo.jpg       run a model of your own
  pylayout explain model.onnx                     why it runs as it does
  pylayout bench model.onnx                       its speed beside ONNX Runtime, OpenVINO and PyTorch
  pylayout train                                  train a small network on handwritten digits
  pylayout doctor                                 what is slow on this machine, and why

`pylayout COMMAND --help` explains each command.
"""


def _parser() -> argparse.ArgumentParser:
    from . import bench, cache, completion, devices, doctor, explain, profile, query, run, train, tune, verify

    parser = argparse.ArgumentParser(
        prog="pylayout",
        description="Deep-learning operators that run in the memory layout in which they are fastest.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in (devices, query, tune, verify, run, explain, profile, bench, train, doctor, cache):
        module.add(commands)
    completion.add(commands, parser_of=_parser)
    for command in commands.choices.values():
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        command.add_argument(
            "--json",
            metavar="FILE",
            nargs="?",
            const="-",
            help="write the result as JSON to FILE; without FILE to standard output, and nothing else there",
        )
        command.add_argument(
            "--progress",
            choices=MODES,
            default="auto",
            help="on standard error: a bar where that is a terminal (auto, default), a line for each stage, or none",
        )
        command.add_argument("--debug", action="store_true", help="on an error, show Python's traceback too")
    return parser


def _write_json(result: Any, target: str) -> None:
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        with writing("--json", target):
            Path(target).write_text(text, "utf-8")


def _open_closed_streams() -> None:
    """Standard streams that the caller has closed (>&-) are None; what is printed goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


def _fail(message: str, code: int) -> int:
    print(style("error: ", "red", "bold", stream=sys.stderr) + " ".join(message.split()), file=sys.stderr)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    _command.end()
    _open_closed_streams()
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)


def _main(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:  # argparse has printed help (0) or what is wrong (2)
        return stop.code if isinstance(stop.code, int) else 2
    if options.version:
        from .._version import __version__

        print(f"pylayout {__version__}")
        return 0
    if options.command is None:
        parser.print_help()
        return 2
    try:
        check_folder("--json", options.json)
        # With JSON on standard output the tables have no place: they are not printed at all.
        with contextlib.redirect_stdout(io.StringIO() if options.json == "-" else sys.stdout):
            result = options.run(options)
        if options.json is not None:
            _write_json(result, options.json)
            sys.stdout.flush()
        return getattr(options, "exit_code", 0)
    except UsageError as error:
        return _fail(str(error), 2)
    except BrokenPipeError:  # the reader of standard output has gone (pylayout query … | head)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if options.debug:
            import traceback

            traceback.print_exc()
        message = str(error) or type(error).__name__
        if not isinstance(error, (OSError, ValueError, ImportError)) and not _is_own(error):
            message = f"{type(error).__name__}: {message} (--debug shows where)"
        return _fail(message, 1)


def _is_own(error: Exception) -> bool:
    from ..errors import Error

    return isinstance(error, Error)
