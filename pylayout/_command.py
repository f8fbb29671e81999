"""Ctrl-C while `pylayout` or `python -m pylayout` is still being imported: it ends the process, without a traceback."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

__all__ = ["end"]


def _is_command() -> bool:
    if threading.current_thread() is not threading.main_thread():  # which alone sets handlers
        return False
    module = ("-m", "pylayout") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return module or Path(sys.argv[0] if sys.argv else "").name == "pylayout"


def _begin() -> None:
    """At the package's import: where it is the command's, the system's own handling of Ctrl-C ends the process."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def end() -> None:
    """From here on the command line handles KeyboardInterrupt."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_begin()
