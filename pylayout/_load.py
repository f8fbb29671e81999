"""Opens the compiled core: `lib` holds the functions of pylayout.h, `ffi` its types.

libpylayout finds libdnnl by its run path when both were installed into one environment. When oneDNN's package lies in
another place of the Python path (a virtual environment over system packages, say), it is opened here first.
PYLAYOUT_ONEDNN=/path/to/libdnnl.so.3 puts another oneDNN 3.x in its place: what is loaded first under that name stays.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

ffi: Any
lib: Any

__all__ = ["ffi", "lib"]

_ONEDNN_PACKAGE = "onednn-cpu-gomp"
_ONEDNN_SONAME = "libdnnl.so.3"


def _open_onednn() -> str:
    """Open the packaged libdnnl; say what stood in the way, or nothing."""
    import ctypes
    import importlib.metadata

    try:
        files = importlib.metadata.files(_ONEDNN_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return f"the package {_ONEDNN_PACKAGE} is not installed: pip install {_ONEDNN_PACKAGE}"
    for file in files:
        if file.name == _ONEDNN_SONAME:
            try:
                ctypes.CDLL(str(file.locate()))
            except OSError as error:
                return str(error)
            return ""
    return f"the package {_ONEDNN_PACKAGE} holds no {_ONEDNN_SONAME}"


def _open_replacement(path: str) -> None:
    """Open the user's own libdnnl before libpylayout asks for one by name."""
    import ctypes

    try:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ImportError(f"PYLAYOUT_ONEDNN is {path!r}, expected a libdnnl.so.3 that loads: {error}") from error


# Where the OpenCL provider looks for runtimes that loaders do not find (intel-opencl-rt puts its own there).
os.environ.setdefault("PYLAYOUT_OPENCL_PATH", str(Path(sys.prefix) / "lib"))

if os.environ.get("PYLAYOUT_ONEDNN"):
    _open_replacement(os.environ["PYLAYOUT_ONEDNN"])

try:
    from ._core import ffi, lib  # type: ignore[import-not-found, no-redef, unused-ignore]
except ModuleNotFoundError as error:
    if error.name != "pylayout._core":
        raise
    raise ImportError(
        f"pylayout in {Path(__file__).parent} holds no compiled core: build it there with `make build`, "
        "or leave that folder to import an installed pylayout"
    ) from error
except ImportError as error:
    if _ONEDNN_SONAME not in str(error):
        raise
    problem = _open_onednn()
    if problem:
        raise ImportError(f"pylayout cannot load oneDNN ({_ONEDNN_SONAME}): {problem}") from error
    from ._core import ffi, lib  # type: ignore[import-not-found, no-redef, unused-ignore]
