"""What CI leaves to other days: each part has its day, and each rule of what is slow names something."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import ci_page  # noqa: E402
from ci_parts import PARTS, due  # noqa: E402

TARGETS = [part.target for part in PARTS]


@pytest.fixture(autouse=True)
def programs(tmp_path, monkeypatch) -> Path:
    """A folder with the programs that parts need, alone on PATH."""
    for name in ("clang++-19", "aarch64-linux-gnu-g++", "qemu-aarch64"):
        (tmp_path / name).touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{tmp_path / 'none'}")
    return tmp_path


def test_each_part_has_its_day() -> None:
    days = [due([], day) for day in range(700_000, 700_000 + len(PARTS))]
    assert sorted(days) == sorted([target] for target in TARGETS)


def test_what_changed_runs_on_any_day() -> None:
    for day in range(1, len(PARTS)):
        assert set(due(["test-kernels-conv"], day)) == {"test-kernels-conv", TARGETS[day]}
    # As what comes last may be left out, each has days on which it comes first.
    changed = ["test-networks", "test-torch", "test-text"]
    assert {due(changed, day)[0] for day in range(len(PARTS))} >= set(changed)
    assert due(["test-kernels-conv"], 1, "all") == TARGETS
    assert due(["test-kernels-conv"], 1, "test-sizes") == ["test-sizes"]
    with pytest.raises(ValueError, match="CI_PARTS names nothing, expected all or some of test-kernels-conv"):
        due([], 1, "nothing")


def test_kernels_of_one_family_are_tested_by_its_part(monkeypatch) -> None:
    """By git's own rules for paths, of files that are there."""
    import subprocess

    def due_for(path: str) -> set[str]:
        assert (ROOT / path).exists(), path
        listed = {
            part.target: subprocess.run(
                ["git", "ls-files", "--", *part.paths], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.split()
            for part in PARTS
        }
        return {target for target, paths in listed.items() if path in paths and target.startswith("test-kernels")}

    monkeypatch.undo()  # git is on PATH
    assert due_for("kernels/pool/pool_direct.cl") == {"test-kernels-pool"}
    assert due_for("src/providers/opencl/attention/attention_mma.cpp") == {
        *("test-kernels-attention", "test-kernels-local", "test-kernels-units"),
    }
    assert due_for("kernels/common/tensor.clh") == {target for target in TARGETS if target.startswith("test-kernels")}
    assert due_for("kernels/cumsum/cumsum_rows.cl") == set()


def test_a_part_without_its_programs_is_left_out(programs, capsys) -> None:
    today = due([], 0)
    assert set(due(["test-aarch64"], 0)) == {*today, "test-aarch64"}
    (programs / "qemu-aarch64").unlink()
    assert due(["test-aarch64"], 0) == today
    assert capsys.readouterr().err == "make test-aarch64: left out, no program is named qemu-aarch64(-static)?\n"
    assert due([], 0, "test-aarch64") == ["test-aarch64"]


@pytest.mark.parametrize("part", PARTS, ids=TARGETS)
def test_a_part_is_a_target_and_covers_files(part) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    rules = re.findall(r"^([a-z0-9- ]+):(?!=)|^KERNEL_PARTS :=(.+)", makefile, re.MULTILINE)
    assert part.target in " ".join(first + second for first, second in rules).split()
    for path in part.paths:
        assert any(ROOT.glob(path)), f"{part.target}: there is no {path}"


def test_every_slow_test_is_in_a_part() -> None:
    """Cases of tests/c by their patterns, each of which names one; Python tests by their mark."""
    cases = ci_page.c_cases()
    for _, pattern in ci_page.slow_patterns():
        assert any(re.search(pattern, case) for case in cases), f"slow_cases.txt: no case is {pattern}"
    for case in cases:  # ctest would run it in one part alone
        assert sum(bool(re.search(pattern, case)) for _, pattern in ci_page.slow_patterns()) <= 1, case
    families = {target.removeprefix("test-kernels-") for target in TARGETS if target.startswith("test-kernels-")}
    assert families == set(dict(ci_page.slow_patterns()))
    assert ci_page.marked("slow").keys() >= {"tests/test_real_sizes.py", "tests/test_real_networks.py"}
    for path in (ROOT / "tests").rglob("test_*.py"):  # the page lists marks of functions
        assert not re.search(r"^pytestmark = .*(slow|exhaustive)", path.read_text("utf-8"), re.MULTILINE), path
