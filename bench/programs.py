"""The benchmarks that are C++ programs: found in a build folder, or built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pylayout.cli.progress import Progress

__all__ = ["program", "stream_shapes"]

_ROOT = Path(__file__).resolve().parent.parent


def program(name: str, build: str | None = None) -> Path:
    """The program of bench/, in the CMake build folder `build` (default: build/bench), which is made if it is missing.

    Compilers and oneDNN's headers are needed for that, as for building pylayout itself.
    """
    folder = Path(build) if build else _ROOT / "build" / "bench"
    if not (folder / "CMakeCache.txt").exists():
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        configure = ["cmake", "-S", str(_ROOT), "-B", str(folder), "-DPYLAYOUT_PYTHON=OFF", *generator]
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "-DPYLAYOUT_BENCH=ON", str(folder)], check=True, stdout=subprocess.DEVNULL)
    jobs = str(len(os.sched_getaffinity(0)))
    subprocess.run(
        ["cmake", "--build", str(folder), "--target", name, "-j", jobs], check=True, stdout=subprocess.DEVNULL
    )
    return folder / "bench" / name


def stream_shapes(
    binary: Path, arguments: list[str], shapes: Sequence[tuple[object, ...]], head: int = 0, **process: Any
) -> list[dict[str, Any]]:
    """Give a program one shape a line; returns its answers, one line of JSON each, with progress. Exits if it fails.

    head: answers before that of the first shape; process: further arguments of subprocess.Popen.
    """
    worker = subprocess.Popen(
        [str(binary), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **process
    )
    assert worker.stdin and worker.stdout
    worker.stdin.write("".join(" ".join(map(str, shape)) + "\n" for shape in shapes))
    worker.stdin.close()
    results: list[dict[str, Any]] = []
    with Progress() as progress:
        for line in worker.stdout:
            results.append(json.loads(line))
            done = len(results) - head
            progress.update(f"{done} of {len(shapes)} shapes", done, len(shapes))
    if worker.wait() or len(results) != head + len(shapes):
        done = max(0, len(results) - head)
        sys.exit(f"{binary.name} ended with code {worker.returncode} after {done} of {len(shapes)} shapes")
    return results
