"""How files are written: whole or not at all where others read them, with errors that name what was to be written."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from .errors import FileError

__all__ = ["place_of_file", "write_text", "written_whole"]


def write_text(what: str, path: str | os.PathLike[str], text: str) -> None:
    """Write a file; FileError where that fails, which names what was to be written, and the file."""
    with _failures_named(what, path):
        Path(path).write_text(text, "utf-8")


@contextlib.contextmanager
def written_whole(what: str, path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file to write in the block, which then takes the place of `path`; after an exception `path` is as it was.

    Raises FileError where that fails, which names what was to be written, and the file.
    """
    with _failures_named(what, path):
        place = place_of_file(path)
        partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
        try:
            yield partial
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)


def place_of_file(path: str | os.PathLike[str]) -> Path:
    """Where a file goes that is put in the place of `path`: where its links lead.

    Raises OSError where something else than a file is there, such as a device, which a file must not replace.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        number = errno.EISDIR if target.is_dir() else errno.ENOTSUP
        raise OSError(number, os.strerror(number), str(target))
    return Path(os.path.realpath(target))


@contextlib.contextmanager
def _failures_named(what: str, path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"{what}: {os.fspath(path)} cannot be written: {error.strerror or error}") from error
