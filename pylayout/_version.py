"""The version, as the library has it."""

from ._load import ffi, lib

__all__ = ["__version__"]

__version__: str = ffi.string(lib.pl_version()).decode()
