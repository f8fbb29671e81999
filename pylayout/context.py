"""The context that all of a program's tensors and ops share. It is made by the first call that needs it."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any

from ._load import ffi, lib
from .errors import DeviceError, InvalidArgumentError, begin_end, check, stop_daemon

__all__ = ["configure", "handle"]


class _State:
    __slots__ = ("forked", "handle", "lock", "options")

    def __init__(self) -> None:
        self.handle: Any = None
        self.lock = threading.Lock()
        self.options: dict[str, Any] = {}
        self.forked = False

    def make(self) -> Any:
        """The handle; made now if this is the first need of it."""
        if self.forked:
            raise DeviceError(
                "pylayout was used before this process was forked; its threads and devices are the parent's, expected "
                'a process of its own: multiprocessing.get_context("spawn")'
            )
        stop_daemon()
        with self.lock:
            if self.handle is None:
                made = ffi.new("pl_context *")
                check(lib.pl_context_create(_option_text(self.options), made))
                interrupted = ffi.addressof(lib, "pyl_interrupted")  # Ctrl-C ends long calls
                check(lib.pl_context_interrupt(made[0], interrupted, ffi.NULL))
                self.handle = made[0]
        return self.handle


def _option_text(options: dict[str, Any]) -> bytes:
    def text(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'

    return " ".join(f"{key}={text(value)}" for key, value in options.items()).encode()


state = _State()


def _after_fork() -> None:
    """In a forked child: the OpenMP and OpenCL threads are gone, and waiting for them would never end."""
    state.forked = state.handle is not None
    state.handle = None
    state.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def handle() -> Any:
    """The shared context as a `pl_context`."""
    return state.handle or state.make()


def configure(**options: Any) -> None:
    """Set how the library works: `threads`, `tune`, `math`; before the first op or tensor also `cache_dir`, `opencl`,
    `choice_memory`, `cost_tables`.

    threads: int, for ops on `cpu`. tune: "auto" (measure where it matters), "off" or "full" (every candidate).
    math: "fp32" (default); "tf32" lets matrix units round the factors of f32 products to 11 bits; "fp16" and "bf16"
    also let plans hold values so, where the device gains by it.
    cache_dir: where measured costs and compiled kernels are kept. opencl: False leaves OpenCL devices alone.
    choice_memory: bytes that choices and prepared kernels of calls may take (default 256 MiB); the least recently used
    are let go, and made again when they are needed. cost_tables: False leaves alone what other machines measured.

    Raises InvalidArgumentError for an unknown option, a bad value, or a late `cache_dir`, `opencl`, `choice_memory` or
    `cost_tables`.

    >>> import pylayout as pl
    >>> pl.configure(threads=2)
    """
    late_options = {"cache_dir", "opencl", "choice_memory", "cost_tables"}
    known = {"threads", "tune", "math", *late_options}
    for key in options:
        if key not in known:
            raise InvalidArgumentError(
                f'configure: there is no option "{key}"; expected one of {", ".join(sorted(known))}'
            )
    if state.forked:
        state.make()  # raises
    with state.lock:
        if state.handle is None:
            # A context over nothing but the CPU checks the values without starting OpenCL.
            probe = ffi.new("pl_context *")
            check(lib.pl_context_create(_option_text({**state.options, **options, "opencl": False}), probe))
            lib.pl_context_release(probe[0])
            if not isinstance(options.get("opencl", True), bool):
                raise InvalidArgumentError(f"configure: opencl is {options['opencl']!r}, expected True or False")
            state.options.update(options)
            return
    late = sorted(set(options) & late_options)
    if late:
        raise InvalidArgumentError(
            f"configure: {late[0]} is set after the first use of the library, expected before it"
        )
    check(lib.pl_context_set(state.handle, _option_text(options)))


lib.pyl_set_main_thread(threading.main_thread().ident)


@atexit.register
def _release() -> None:
    begin_end()
    lib.pyl_end_callbacks()
    if state.handle is not None:
        lib.pl_context_release(state.handle)
        state.handle = None
