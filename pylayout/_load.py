"""Opens the compiled core: `lib` holds the functions of pylayout.h, `ffi` its types.

libpylayout finds libdnnl by its run path when both were installed into one environment. When oneDNN's package lies in
another place of the Python path (a virtual environment over system packages, say), it is opened here first.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
from pathlib import Path
from typing import Any

ffi: Any
lib: Any

__all__ = ["ffi", "lib"]

_ONEDNN_PACKAGE = "onednn-cpu-gomp"
_ONEDNN_SONAME = "libdnnl.so.3"


def _open_onednn() -> str:
    """Open the packaged libdnnl; say what stood in the way, or nothing."""
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
