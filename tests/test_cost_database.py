"""The database of measured costs across processes: damage, concurrent writers, kills, places that cannot be written."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy
import pytest

import pylayout as pl

# How many records a process adds depends on what else the machine does: what was disturbed is not written, and may be
# measured by the next one. So these tests look at which costs were measured, not at how many.

# Measures a few ops, checks their results, and prints what the database holds.
WORK = """
import json, sys, numpy, pylayout as pl
from pylayout import ops
pl.configure(opencl=False, **json.loads(sys.argv[1]))
x = numpy.arange(2 * 16 * 6 * 6, dtype="float32").reshape(2, 16, 6, 6) % 7
def work():
    for k in range(int(sys.argv[2])):
        y = ops.relu(ops.add(x[:, : k + 1], numpy.float32(-3))).numpy()
        assert numpy.array_equal(y, numpy.maximum(x[:, : k + 1] - 3, 0)), k
work()
if len(sys.argv) > 3:
    exec(sys.argv[3])
print(json.dumps(pl.device.costs()), flush=True)
"""


def command(count: int = 3, then: str = "", **options: object) -> list[str]:
    return [sys.executable, "-c", WORK, json.dumps(options), str(count), *([then] if then else [])]


def environment(cache: Path, **changes: str) -> dict[str, str]:
    root = str(Path(pl.__file__).parent.parent)
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
    return {**os.environ, "PYLAYOUT_CACHE_DIR": str(cache), "PYTHONPATH": path, **changes}


def run(cache: Path, count: int = 3, then: str = "", **options: object) -> dict:
    done = subprocess.run(
        command(count, then, **options), env=environment(cache), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def database(cache: Path) -> Path:
    (path,) = cache.glob("costs-*.log")
    return path


def keys(lines: Iterable[bytes]) -> set[bytes]:
    """Of what the cost of each line is: environment, op and candidate, between the checksum and the figure."""
    return {line.split(b"\t", 1)[1].rsplit(b"\t", 1)[0] for line in lines if line.count(b"\t") == 4}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """The name of the database's file, and what it holds after a process has measured."""
    cache = tmp_path_factory.mktemp("measured")
    run(cache)
    return database(cache).name, database(cache).read_bytes()


def test_what_one_process_measured_the_next_one_uses(tmp_path: Path) -> None:
    first = run(tmp_path)
    known = database(tmp_path).read_bytes().splitlines()
    assert first["records"] == len(keys(known)) == len(known) > 0  # none was measured twice
    assert (first["damaged"], first["writable"]) == (0, True)
    again = run(tmp_path)
    lines = database(tmp_path).read_bytes().splitlines()
    assert lines[: len(known)] == known
    assert again["records"] == len(keys(lines)) == len(lines)


def test_costs_belong_to_a_number_of_threads(tmp_path: Path) -> None:
    run(tmp_path, 2, "pl.set_threads(1); work()", threads=2)
    known = database(tmp_path).read_bytes().splitlines()
    # What was measured after the number had changed is what a process with that number from the start finds.
    run(tmp_path, 2, threads=1)
    lines = database(tmp_path).read_bytes().splitlines()
    assert len(keys(lines)) == len(lines)
    assert {key.split(b"\t")[0] for key in keys(lines)} == {key.split(b"\t")[0] for key in keys(known)}


def test_costs_of_other_circumstances_are_not_used(tmp_path: Path) -> None:
    first = run(tmp_path)
    path = database(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    # As after a new driver: the records are whole, but of another environment. Their checksums fit no more either,
    # and a reader must neither use nor trip over them.
    path.write_bytes(b"".join(line.replace(line.split(b"\t")[1], b"0" * 16) for line in lines))
    again = run(tmp_path)
    assert again["damaged"] == len(lines)
    assert again["records"] > 0
    assert first["records"] > 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: bytes(len(data)),
        lambda data: random.Random(1).randbytes(len(data)),
        lambda data: b"\xff" * 100_000 + b"\n" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b""),
        lambda data: data + data[:40],
    ],
    ids=["empty", "cut", "no last newline", "zeros", "noise", "a long line", "other newlines", "one line", "torn end"],
)
def test_a_damaged_database_misleads_nobody(tmp_path: Path, measured: tuple[str, bytes], damage) -> None:
    # Of a file a process finds the lines that are whole, and nothing else.
    name, written = measured
    path = tmp_path / name
    damaged = damage(written)
    path.write_bytes(damaged)
    intact = set(written.split(b"\n")) & set(damaged.split(b"\n"))
    assert run(tmp_path, 0)["records"] == len(keys(intact))
    assert path.read_bytes() == damaged
    # With the right results; of what was lost something is measured again, of what was found nothing.
    run(tmp_path)
    added = path.read_bytes()[len(damaged) :].splitlines()
    assert not keys(added) & keys(intact)
    again = run(tmp_path)
    assert again["records"] >= len(keys(intact) | keys(added)) > 0
    assert again["writable"]


def test_processes_write_at_once(tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    shared = tmp_path / "shared"
    records = run(alone)["records"]
    writers = [
        subprocess.Popen(command(), env=environment(shared), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for writer in writers:
        out, err = writer.communicate(timeout=120)
        assert (writer.returncode, err) == (0, b""), out
    status = run(shared)
    assert status["damaged"] == 0
    assert status["records"] >= records // 2


def test_kills_in_the_middle_of_measuring_lose_nothing(tmp_path: Path) -> None:
    known = run(tmp_path, 1)["records"]
    delays = random.Random(7)
    deadline = time.monotonic() + 10
    for _ in range(8):
        if time.monotonic() > deadline:
            break
        victim = subprocess.Popen(
            command(1, "n = 2\nwhile True:\n    ops.add(numpy.ones(n), 1.0); n += 1"),
            env=environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delays.uniform(0.2, 0.9))
        victim.send_signal(signal.SIGKILL)
        assert victim.wait(timeout=60) == -signal.SIGKILL
        status = run(tmp_path, 1)
        assert status["records"] >= known  # nothing that was there is gone
        assert status["damaged"] <= 8
        known = status["records"]


def test_a_cache_directory_that_is_a_file(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("not a directory")
    status = run(place)
    assert not status["writable"]
    assert status["records"] > 0  # kept in memory
    assert place.read_text() == "not a directory"


def test_a_database_that_is_a_directory(tmp_path: Path) -> None:
    run(tmp_path)
    path = database(tmp_path)
    path.unlink()
    path.mkdir()
    status = run(tmp_path)
    assert (status["writable"], status["records"] > 0) == (False, True)


def test_a_read_only_file_system() -> None:
    status = run(Path("/proc/self/pylayout"))
    assert not status["writable"]


def test_no_home(tmp_path: Path) -> None:
    env = environment(tmp_path)
    for name in ("PYLAYOUT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        env.pop(name, None)
    done = subprocess.run(command(), env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    status = json.loads(done.stdout)
    assert (status["path"], status["writable"], status["records"] > 0) == ("", False, True)
    assert list(tmp_path.iterdir()) == []  # and nothing was left where the program happened to run


@pytest.mark.parametrize("how", ["removed", "cleared"])
def test_the_cache_vanishes_while_it_is_in_use(tmp_path: Path, how: str) -> None:
    cache = tmp_path / "cache"
    with subprocess.Popen(
        command(1, "print('ready', flush=True); input(); x = x + 1; work()"),
        env=environment(cache),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if how == "removed":
            shutil.rmtree(cache)
        else:
            run(cache, 1, "pl.device.clear_costs()")
        out, err = process.communicate("\n", timeout=120)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["records"] > 0
    assert run(cache)["writable"]  # the next process starts anew


def test_clearing_forgets_everywhere() -> None:
    pl.ops.relu(numpy.ones((2, 3), "float32"))
    pl.device.clear_costs()
    assert pl.device.costs()["records"] == 0
    assert numpy.array_equal(pl.ops.relu(numpy.ones((2, 3), "float32")).numpy(), numpy.ones((2, 3)))
