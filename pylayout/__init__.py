"""Layout-aware deep-learning operators over oneDNN and OpenCL."""

from ._load import ffi, lib

__version__: str = ffi.string(lib.pl_version()).decode()

__all__ = ["__version__"]
