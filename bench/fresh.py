"""Processes of their own, whose caches are empty."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

__all__ = ["run_fresh"]


def run_fresh(benchmark: str, arguments: Sequence[str]) -> str:
    """The last line that a benchmark prints in such a process; "" where it prints none.

    Empty are pylayout's cache and the drivers' own (NVIDIA's, PoCL's).
    """
    with tempfile.TemporaryDirectory() as cache:
        caches = {
            "PYLAYOUT_CACHE_DIR": f"{cache}/own",
            "CUDA_CACHE_PATH": f"{cache}/driver",
            "POCL_CACHE_DIR": f"{cache}/pocl",
        }
        command = [sys.executable, "-m", f"bench.{benchmark}", *arguments]
        done = subprocess.run(command, env={**os.environ, **caches}, stdout=subprocess.PIPE, text=True, check=True)
    return next(iter(done.stdout.splitlines()[-1:]), "")
