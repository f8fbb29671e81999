"""The shim's C functions, through ctypes (shim/exports.cpp)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ..errors import DeviceError, UnsupportedError

__all__ = ["MAKER", "STARTER", "Shim", "ints", "longs", "shim", "state", "take_counters"]

STARTER = ctypes.CFUNCTYPE(None, ctypes.c_int)
MAKER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p)

_int, _text, _pointer = ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p
_ints, _longs = ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int64)

_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "ocl_error": (_text, []),
    "ocl_free": (None, [_pointer]),
    "ocl_set_starter": (None, [STARTER]),
    "ocl_start": (_int, [_pointer, ctypes.POINTER(_text), _int]),
    "ocl_device_count": (_int, []),
    "ocl_is_started": (_int, []),
    "ocl_is_forked": (_int, []),
    "ocl_current_device": (_int, []),
    "ocl_set_device": (_int, [_int]),
    "ocl_flush": (_int, []),
    "ocl_synchronize": (_int, [_int]),
    "ocl_gain_by_attention": (None, [_int, _int]),
    "ocl_take_counters": (_int, [_int, ctypes.c_int64, _longs]),
    "ocl_current_stream": (_int, [_int, _longs]),
    "ocl_set_stream": (_int, [_int, ctypes.c_int64]),
    "ocl_set_maker": (None, [MAKER]),
    "ocl_forget_programs": (None, []),
    "ocl_register": (_int, [_text]),
    "ocl_register_list": (_int, [_text]),
    "ocl_program_refuse": (None, [_pointer, _text]),
    "ocl_program_numbers": (None, [_pointer, _int]),
    "ocl_program_constant": (_int, [_pointer, _pointer]),
    "ocl_program_step": (_int, [_pointer, _text, _text, _ints, _int, _int, _int]),
    "ocl_program_slots": (None, [_pointer, _int]),
    "ocl_program_output": (None, [_pointer, _int, _int, _int, _int, _int, _int, _longs, _longs]),
    "ocl_spare_bytes": (ctypes.c_size_t, [_int]),
    "ocl_release_spare": (None, []),
    "ocl_set_fallback": (None, [_int]),
    "ocl_fallbacks": (_pointer, []),
    "ocl_clear_fallbacks": (None, []),
}


class Shim:
    """The open library; `call` raises what a function says went wrong."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, f"ocl_{name}")

    def call(self, name: str, *arguments: Any) -> None:
        if getattr(self._library, f"ocl_{name}")(*arguments):
            raise DeviceError(self._library.ocl_error().decode("utf-8", "replace"))

    def text(self, name: str) -> str:
        address = getattr(self._library, f"ocl_{name}")()
        try:
            return ctypes.string_at(address).decode("utf-8", "replace")
        finally:
            self._library.ocl_free(address)


def ints(values: Sequence[int]) -> Any:
    return (ctypes.c_int * max(1, len(values)))(*values)


def longs(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def take_counters(device: Any, counters: int) -> tuple[int, int]:
    """Of the default generator of a device: its key, and the first of so many counters that nobody else uses."""
    index = device.index if device.index is not None else shim().current_device()
    seed = longs((0, 0))
    shim().call("take_counters", index, counters, seed)
    return seed[0], seed[1]


class _State:
    """The shim of this process, and why there are no devices; "" where there are, or nobody has asked yet."""

    def __init__(self) -> None:
        self.shim: Shim | None = None
        self.failure = ""


state = _State()


def shim() -> Shim:
    """The shim of this process. Raises UnsupportedError where there is none."""
    if state.shim is None:
        raise UnsupportedError("PyTorch has no device ocl in this process; pylayout.ocl.load() says why")
    return state.shim
