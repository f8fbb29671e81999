"""The cache of built OpenCL programs on disk: reuse, damage, stale entries, concurrent writers, kills in mid-write.

PoCL keeps its own cache and is left out of this one, so all tests but the last need another runtime; Intel's comes by
pip.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest

import pylayout as pl

WORK = """
import sys, numpy, pylayout as pl
from pylayout import ops
pl.set_tuning("off")
x = numpy.arange(24, dtype="f4").reshape(2, 3, 4)
for k in range(int(sys.argv[2])):
    y = ops.pointwise([pl.asarray(x, device=sys.argv[1])], f"y0 = x0 * {k}.5 + 1")
    assert numpy.array_equal(numpy.asarray(y), x * (k + 0.5) + 1), k
print("done", flush=True)
"""


def cached_device() -> str:
    for device in pl.devices():
        if device.name != "cpu" and device.capabilities.get("platform") != "Portable Computing Language":
            return str(device.name)
    pytest.skip("no OpenCL runtime besides PoCL (which has a cache of its own); pip install intel-opencl-rt")


def run(device: str, cache: Path, count: int = 3) -> None:
    """Runs `count` programs in a process of its own."""
    subprocess.run(
        [sys.executable, "-c", WORK, device, str(count)], env=environment(cache), check=True, stdout=subprocess.DEVNULL
    )


def environment(cache: Path) -> dict[str, str]:
    root = str(Path(pl.__file__).parent.parent)
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
    return {**os.environ, "PYLAYOUT_CACHE_DIR": str(cache), "PYTHONPATH": path}


def entries(cache: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (cache / "programs").glob("*.clbin")}


def stamps(cache: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (cache / "programs").glob("*.clbin")}


def test_programs_are_built_once(tmp_path: Path) -> None:
    device = cached_device()
    run(device, tmp_path)
    first = stamps(tmp_path)
    assert len(first) >= 3
    run(device, tmp_path)
    assert stamps(tmp_path) == first  # nothing was written again: all was loaded


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[: len(data) // 2], id="cut"),
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 1]), id="last bit"),
        pytest.param(lambda data: data[:45] + bytes([data[45] ^ 1]) + data[46:], id="another key"),
        pytest.param(lambda data: data[:8] + b"\xff" * 16 + data[24:], id="absurd sizes"),
        pytest.param(lambda data: numpy.random.default_rng(1).bytes(len(data)), id="noise"),
    ],
)
def test_a_damaged_entry_is_rebuilt(tmp_path: Path, damage) -> None:
    device = cached_device()
    run(device, tmp_path)
    good = entries(tmp_path)
    for name, data in good.items():
        (tmp_path / "programs" / name).write_bytes(damage(data))
    run(device, tmp_path)
    assert {name: len(data) for name, data in entries(tmp_path).items()}.keys() == good.keys()
    for name, data in entries(tmp_path).items():
        assert data[:8] == good[name][:8] and len(data) > 100, f"{name} was not rebuilt"
    before = stamps(tmp_path)
    run(device, tmp_path)
    assert stamps(tmp_path) == before


def test_an_entry_under_another_name_is_not_believed(tmp_path: Path) -> None:
    device = cached_device()
    run(device, tmp_path)
    names = sorted(entries(tmp_path))
    data = [(tmp_path / "programs" / name).read_bytes() for name in names]
    for name, wrong in zip(names, data[1:] + data[:1], strict=True):  # a hash that collides, as it were
        (tmp_path / "programs" / name).write_bytes(wrong)
    run(device, tmp_path)  # checks its results


def test_many_processes_share_a_cache(tmp_path: Path) -> None:
    device = cached_device()
    command = [sys.executable, "-c", WORK, device, "4"]
    running = [subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE) for _ in range(3)]
    for process in running:
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 0 and b"done" in output
    before = stamps(tmp_path)
    run(device, tmp_path, 4)
    assert stamps(tmp_path) == before


def test_a_killed_writer_loses_nothing(tmp_path: Path) -> None:
    device = cached_device()
    for delay in (0.5, 0.7, 0.9, 1.2):
        process = subprocess.Popen(
            [sys.executable, "-c", WORK, device, "40"], env=environment(tmp_path), stdout=subprocess.DEVNULL
        )
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
    run(device, tmp_path)  # whatever the killed ones left, results are right and entries are whole
    before = stamps(tmp_path)
    run(device, tmp_path)
    assert {name: before[name] for name in stamps(tmp_path)} == before


def test_configure_moves_the_cache(tmp_path: Path) -> None:
    device = cached_device()
    code = f"import pylayout as pl\npl.configure(cache_dir={str(tmp_path / 'here')!r})\n" + WORK
    subprocess.run([sys.executable, "-c", code, device, "2"], env=environment(tmp_path / "there"), check=True)
    assert len(entries(tmp_path / "here")) >= 2 and not entries(tmp_path / "there")


def test_an_unwritable_cache_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    run(cached_device(), file)
    assert file.read_text() == "not a directory"


def test_programs_are_built_with_the_options_that_are_asked_for(opencl_device: str, monkeypatch) -> None:
    """PYLAYOUT_OPENCL_OPTIONS: one that no compiler has is an error, which names it."""
    x = pl.asarray(numpy.arange(30, dtype="i4").reshape(5, 1, 3, 2), device=opencl_device)
    monkeypatch.setenv("PYLAYOUT_OPENCL_OPTIONS", "-not-an-option")
    assert numpy.array_equal(pl.ops.cumsum(x, 0).numpy(), numpy.cumsum(x.numpy(), 0))  # the host takes it
    refusals = pl.query("cumsum", x, dim=0, device=opencl_device).refusals
    assert any("building" in r["reason"] and "-not-an-option" in r["reason"] for r in refusals), refusals
