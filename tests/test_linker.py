"""tests/linker/ld: what PoCL links has no libraries, what others link has its own."""

import subprocess
from pathlib import Path

import pytest

LINKER = Path(__file__).parent / "linker" / "ld"


@pytest.fixture
def linked(tmp_path):
    """What the system's linker, here one that prints its words, is given."""
    program = tmp_path / "ld"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)

    def run(*words: str) -> list[str]:
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run([LINKER, *words], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return run


def test_kernels_have_no_libraries(linked):
    made = ["-shared", "-o", "/a folder/tempfile_a1.so", "/a folder/tempfile_b2.so.o"]
    searched = ["-L/usr/lib", *made, "-lm", "-lgcc", "--as-needed", "-lgcc_s", "--no-as-needed", "-lc"]
    assert linked("--build-id", *searched) == ["--build-id", *made]


def test_programs_keep_theirs(linked):
    words = ["-o", "a out", "/tmp/tempfile.o", "-L.", "-lm", "--as-needed", "-lc", "$HOME"]
    assert linked(*words) == words
