"""DLPack capsules: made and taken with CPython's own functions.

A capsule named "dltensor" owns a DLManagedTensor; who consumes it renames it to "used_dltensor". One that nobody
consumed frees what it owns when it goes (a C function of the extension does that).
"""

from __future__ import annotations

import ctypes
from typing import Any

from ._load import ffi, lib
from .errors import ArgumentTypeError, InvalidArgumentError

__all__ = ["CPU", "OPENCL", "capsule_of", "make_capsule", "mark_used", "pointer_of"]

CPU = 1
OPENCL = 4

# A capsule keeps the pointer to its name only, so these live as long as the module.
_NAME = ctypes.c_char_p(b"dltensor")
_USED = ctypes.c_char_p(b"used_dltensor")

_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype = ctypes.c_int
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.restype = ctypes.c_int
_set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]


def make_capsule(managed: Any) -> Any:
    """A capsule that owns a DLManagedTensor * of the library."""
    return _new(int(ffi.cast("uintptr_t", managed)), _NAME, lib.pyl_capsule_destructor())


def capsule_of(value: Any, what: str) -> Any:
    """The capsule that an object gives of itself. `what`: the argument, for messages."""
    if not hasattr(value, "__dlpack__"):
        raise ArgumentTypeError(f"{what} is {type(value).__name__}, expected an object with __dlpack__")
    # PyTorch refuses conjugates, and exports what is negated later as if it were not.
    if getattr(value, "is_neg", bool)():
        raise InvalidArgumentError(
            f"{what} is {type(value).__name__} and cannot be exported: its negative bit is set, "
            "expected tensor.resolve_neg()"
        )
    try:
        capsule = value.__dlpack__()
    except (BufferError, RuntimeError) as error:
        raise InvalidArgumentError(f"{what} is {type(value).__name__} and cannot be exported: {error}") from error
    if not _is_valid(capsule, _NAME):
        raise ArgumentTypeError(
            f"{what} is {type(value).__name__}, whose capsule is of another kind, expected an unused dltensor"
        )
    return capsule


def pointer_of(capsule: Any) -> int:
    """The address of the DLManagedTensor."""
    address = _pointer(capsule, _NAME)
    if address is None:
        raise InvalidArgumentError("from_dlpack: the capsule is empty")
    return int(address)


def mark_used(capsule: Any) -> None:
    """Says that the library took over what the capsule owned."""
    _set_name(capsule, _USED)
