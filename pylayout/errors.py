"""Errors: one class for each status of the C ABI, all under `Error`.

Each message names the op, the argument, what was expected and what came; `status` is the number in pylayout.h.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from ._load import ffi, lib

__all__ = [
    "ArgumentTypeError",
    "DeviceError",
    "Error",
    "FileError",
    "InternalError",
    "InvalidArgumentError",
    "LayoutError",
    "OutOfMemoryError",
    "QueueFullError",
    "ShapeError",
    "UnsupportedError",
]


class Error(RuntimeError):
    """What every error of pylayout is."""

    status: int = lib.PL_ERROR_INTERNAL


class InvalidArgumentError(Error, ValueError):
    """An unknown attribute, a value out of range, a released tensor."""

    status = lib.PL_ERROR_INVALID_ARGUMENT


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument of a type that the function does not take."""


class ShapeError(Error, ValueError):
    """A tensor's rank or size does not fit."""

    status = lib.PL_ERROR_SHAPE


class LayoutError(Error, ValueError):
    """A layout that does not parse, or does not fit the rank."""

    status = lib.PL_ERROR_LAYOUT


class DeviceError(Error):
    """An unknown device, a device that failed, or tensors on the wrong device."""

    status = lib.PL_ERROR_DEVICE


class UnsupportedError(Error, NotImplementedError):
    """Valid, but nothing here can do it."""

    status = lib.PL_ERROR_UNSUPPORTED


class OutOfMemoryError(Error, MemoryError):
    """No memory, after every cache was released."""

    status = lib.PL_ERROR_OUT_OF_MEMORY


class FileError(Error, OSError):
    """A file could not be read or written."""

    status = lib.PL_ERROR_IO


class QueueFullError(Error):
    """A `Plan.batched` has as many requests waiting as it may."""


class InternalError(Error):
    """A defect of pylayout: please report it."""

    status = lib.PL_ERROR_INTERNAL


_BY_STATUS: dict[int, type[Error]] = {
    error.status: error
    for error in (
        InvalidArgumentError,
        ShapeError,
        LayoutError,
        DeviceError,
        UnsupportedError,
        OutOfMemoryError,
        FileError,
        InternalError,
    )
}


# What a callback raised inside a call of the library, by thread: the callback asks for the call's end, and who called
# raises it again.  KeyboardInterrupt is the usual one: Python runs its signal handlers only between its own
# instructions, so the core is given one to run now and then.
_raised: dict[int, BaseException] = {}


def keep_raised(kind: Any, error: BaseException, trace: Any) -> None:
    """For `onerror` of a callback: the call that is under way in this thread raises this error when it returns."""
    _raised.setdefault(threading.get_ident(), error)
    lib.pyl_set_raised(len(_raised))


@ffi.def_extern(error=1, onerror=keep_raised)  # type: ignore[untyped-decorator]
def pyl_python_interrupted(user: Any) -> int:
    return threading.get_ident() in _raised


def take_raised() -> BaseException | None:
    """What a callback of this thread's last call raised."""
    if not _raised:
        return None
    raised = _raised.pop(threading.get_ident(), None)
    lib.pyl_set_raised(len(_raised))
    return raised


_ending = threading.Event()


def begin_end() -> None:
    """The interpreter ends: what daemon threads call from now on fails, as the context is gone."""
    _ending.set()


def stop_daemon() -> None:
    """In a daemon thread while the interpreter ends: wait for that, as Python's own calls do, and raise nothing."""
    while _ending.is_set() and threading.current_thread().daemon:
        time.sleep(60)


def error_of(status: int) -> Error:
    """The error of this thread's call that has just failed with `status`; raises what a callback raised instead."""
    stop_daemon()
    raised = take_raised()
    if raised is not None:
        raise raised
    return _BY_STATUS.get(status, InternalError)(ffi.string(lib.pl_last_error()).decode("utf-8", "replace"))


def check(status: int) -> None:
    """Raise the error of a call that returned another status than PL_OK."""
    if status:
        raise error_of(status)


def take_json(text: Any) -> Any:
    """The value of a JSON string that the library gave (char **), which is freed."""
    import json

    try:
        return json.loads(ffi.string(text[0]))
    finally:
        lib.pl_string_free(text[0])
