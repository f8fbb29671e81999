"""Builds the shim, the C++ between PyTorch and the library, for the PyTorch that is installed, and keeps it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .._version import __version__
from ..errors import UnsupportedError

__all__ = ["UnknownVersionError", "library"]

VERSIONS = ("2.11", "2.12", "2.13", "2.14", "2.15")  # of PyTorch, with which the tests of the device pass
_HERE = Path(__file__).parent
_SHIM = _HERE / "shim"
_PACKAGE = _HERE.parent
_INSTEAD = 'torch.compile(model, backend="pylayout") works without the device'


def _cache_folder() -> Path:
    """The user's cache: not PYLAYOUT_CACHE_DIR, since what is built depends on nothing that is kept there."""
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "pylayout"
    return Path.home() / ".cache" / "pylayout"


class UnknownVersionError(UnsupportedError):
    """A PyTorch for which the device is not made."""


def _header_folder() -> Path:
    """Where pylayout.h is: beside the sources in an installed package, in src/ of the project's own folder."""
    for folder in (_SHIM, _PACKAGE.parent / "src"):
        if (folder / "pylayout.h").exists():
            return folder
    raise UnsupportedError(f"pylayout.h is neither in {_SHIM} nor in {_PACKAGE.parent / 'src'}")


def _libpylayout() -> Path:
    found = sorted(_PACKAGE.glob("libpylayout.so.[0-9]"))
    if not found:
        raise UnsupportedError(f"there is no libpylayout.so in {_PACKAGE}")
    return found[-1]


def _key(version: str, compiler: str) -> str:
    """Names what a build depends on."""
    made = hashlib.sha256()
    for part in (version, __version__, compiler, str(_PACKAGE)):
        made.update(part.encode() + b"\0")
    for file in sorted([*_SHIM.glob("*.cpp"), *_SHIM.glob("*.h"), _header_folder() / "pylayout.h"]):
        made.update(file.name.encode() + b"\0" + file.read_bytes())
    return made.hexdigest()[:20]


def library() -> Path:
    """The shim's shared library for this PyTorch; built now if it was not before, which takes half a minute.

    Raises UnsupportedError, with what works instead, for a PyTorch that is not known and where there is no compiler.
    """
    import torch

    version = str(torch.__version__)
    known = version.startswith(tuple(f"{each}." for each in VERSIONS))
    if not known and os.environ.get("PYLAYOUT_OCL_ANY_TORCH", "0") in ("", "0"):
        raise UnknownVersionError(
            f"the device ocl is made for PyTorch {', '.join(VERSIONS)}, this is {version}; {_INSTEAD}. "
            "PYLAYOUT_OCL_ANY_TORCH=1 tries it"
        )
    compiler = os.environ.get("CXX", "g++")
    folder = _cache_folder() / "ocl" / f"torch-{version}-{_key(version, compiler)}"
    target = folder / "libpylayout_ocl.so"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be building it
        if not target.exists():
            _build(Path(torch.__file__).parent, compiler, target)
    return target


def _build(torch_folder: Path, compiler: str, target: Path) -> None:
    if shutil.which(compiler) is None:
        raise UnsupportedError(
            f"the device ocl is compiled once for each PyTorch, and there is no C++ compiler {compiler!r} "
            f"(Debian: apt-get install g++; or name one in CXX); {_INSTEAD}"
        )
    print("pylayout: compiling the device ocl for this PyTorch, once (half a minute)...", file=sys.stderr, flush=True)
    began = time.monotonic()
    flags = [
        "-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-DAT_PER_OPERATOR_HEADERS", "-D_GLIBCXX_USE_CXX11_ABI=1",
        f"-I{_header_folder()}", f"-isystem{torch_folder / 'include'}",
        f"-isystem{torch_folder / 'include' / 'torch' / 'csrc' / 'api' / 'include'}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(dir=target.parent) as work:

        def compiled(number: int, sources: list[Path]) -> str:
            unit = Path(work) / f"part{number}.cpp"
            unit.write_text("".join(f'#include "{source}"\n' for source in sources), "utf-8")
            _run([compiler, *flags, "-c", str(unit), "-o", str(unit.with_suffix(".o"))])
            return str(unit.with_suffix(".o"))

        parts = _parts(sorted(_SHIM.glob("*.cpp")))
        with ThreadPoolExecutor(min(len(parts), len(os.sched_getaffinity(0)))) as pool:
            objects = [*pool.map(compiled, range(len(parts)), parts)]
        linked = Path(work) / target.name
        libraries = torch_folder / "lib"
        _run(
            [
                compiler, "-shared", "-o", str(linked), *objects, str(_libpylayout()), f"-L{libraries}", "-lc10",
                "-ltorch_cpu", f"-Wl,-rpath,{_PACKAGE}:{libraries}",
                # Of a C++ library that the compiler links statically, nothing is mixed with PyTorch's own.
                "-Wl,--exclude-libs,ALL",
            ]
        )  # fmt: skip
        linked.replace(target)
    print(f"pylayout: done in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _parts(sources: list[Path]) -> list[list[Path]]:
    """Two lists of about as many bytes: what one compiler reads reads PyTorch's headers once, most of its time.

    The same lists on every machine, so that names which two sources both have are found on each.
    """
    parts: list[list[Path]] = [[], []]
    for source in sorted(sources, key=lambda source: (-source.stat().st_size, source.name)):
        min(parts, key=lambda part: sum(each.stat().st_size for each in part)).append(source)
    return parts


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        wrong = [line for line in done.stderr.splitlines() if "error" in line][:5] or done.stderr.splitlines()[-5:]
        raise UnsupportedError(f"the device ocl did not compile: {' | '.join(wrong)}; {_INSTEAD}")
