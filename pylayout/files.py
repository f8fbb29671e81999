"""Files that are written whole or not at all: under another name first, which then takes the place of the old file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

__all__ = ["place_of_file"]


def place_of_file(path: str | os.PathLike[str]) -> Path:
    """Where a file goes that is put in the place of `path`: where its links lead.

    Raises OSError where something else than a file is there, such as a device, which a file must not replace.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        number = errno.EISDIR if target.is_dir() else errno.ENOTSUP
        raise OSError(number, os.strerror(number), str(target))
    return Path(os.path.realpath(target))
