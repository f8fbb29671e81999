"""The benchmarks that are C++ programs: found in a build folder, or built."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["program"]

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
