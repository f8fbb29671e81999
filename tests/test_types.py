"""The package's types in a user's file, as mypy --strict sees them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pylayout

PROGRAM = Path(__file__).parent / "data" / "typed_program.py"


def errors_in(path: Path, folder: Path) -> tuple[dict[int, str], str]:
    """The code of each error by its line, and all that mypy said."""
    pytest.importorskip("mypy", reason="mypy is an extra")
    package = Path(pylayout.__file__).resolve().parents[1]
    environment = dict(os.environ)
    if package.name not in (
        "site-packages",
        "dist-packages",
    ):  # else mypy finds it by itself
        environment["MYPYPATH"] = str(package)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(folder), str(path)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,  # where no settings of a project lie
        timeout=500,
    )
    found = re.findall(r"^[^:\n]*:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    return {int(line): code for line, code in found}, done.stdout + done.stderr


def test_a_users_program_has_the_errors_that_it_says_and_no_others(tmp_path):
    lines = PROGRAM.read_text("utf-8").splitlines()
    marks = [(number, line.partition("# error: ")[2]) for number, line in enumerate(lines, 1)]
    expected = {number: code for number, code in marks if code}
    found, said = errors_in(PROGRAM, tmp_path)
    assert found == expected, said


def test_the_package_says_that_it_has_types():
    assert (Path(pylayout.__file__).parent / "py.typed").is_file()
