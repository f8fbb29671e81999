"""Calls that take long because they measure, search or compile: Ctrl-C ends them, and so do callbacks that raise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import pylayout as pl
from pylayout import ops

# Each would take minutes: there is far more to measure than the signal gives it time for.
SCRIPT = """
import os, signal, sys, threading, time
import numpy, pylayout as pl
from pylayout import ops
x = pl.asarray(numpy.ones((8, 64, 56, 56), "float32"))
weights = [pl.asarray(numpy.ones((64 + i, 64, 3, 3), "float32")) for i in range(200)]
def tune():
    for w in weights: pl.tune("conv2d", x, w, padding=1, seconds=600)
def compile():
    g = pl.Graph()
    v = g.input("x", x.shape)
    for w in weights: g.output(g.conv2d(v, w))
    pl.compile(g, device="cpu", seconds=600)
def run():
    for w in weights: ops.conv2d(x, w)
def calibrate():
    while True: pl.calibrate("cpu")
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.process_time()
try:
    globals()[sys.argv[1]]()
    print("ended by itself")
except KeyboardInterrupt:
    print("interrupted")
print(ops.sum(x[:1, :1]).item())
print(time.process_time() - began)
"""


@pytest.mark.parametrize("what", ["tune", "compile", "run", "calibrate"])
def test_ctrl_c_ends_what_measures(what: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYLAYOUT_CACHE_DIR": str(tmp_path), "PYLAYOUT_OPENCL": "none"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, what], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    outcome, value, seconds = done.stdout.split()
    assert outcome == "interrupted"
    assert float(value) == 56 * 56  # the library works on
    assert float(seconds) < 20  # of processors' time: it was not worked through
    assert done.stderr == ""


@pytest.mark.parametrize(("program", "imported"), [("/usr/bin/pylayout", "SIG_DFL"), ("mine.py", "interrupt")])
def test_ctrl_c_ends_the_command_while_it_is_imported(program: str, imported: str) -> None:
    code = f"""if True:
        import signal, sys
        sys.argv = [{program!r}]
        import pylayout.cli
        handler = signal.getsignal(signal.SIGINT)
        print("interrupt" if handler is signal.default_int_handler else handler.name)
        pylayout.cli.main(["--version"])
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    first, _, last = done.stdout.splitlines()
    assert (first, last) == (imported, "True")


def one_op_graph() -> pl.Graph:
    graph = pl.Graph()
    graph.output(graph.relu(graph.input("x", (1, 4, 4, 4))), "y")
    return graph


class Mine(Exception):
    pass


@pytest.mark.parametrize("tune", ["off", "auto"])
@pytest.mark.parametrize("stage", ["simplifying", "done"])
def test_what_progress_raises_ends_compile(tune: str, stage: str, capfd: pytest.CaptureFixture[str]) -> None:
    def progress(now: str, fraction: float) -> None:
        if now == stage:
            raise Mine(now)

    with pytest.raises(Mine, match=stage):
        pl.compile(one_op_graph(), device="cpu", tune=tune, progress=progress)
    assert capfd.readouterr().err == ""
    assert pl.compile(one_op_graph(), device="cpu", tune="off").run(numpy.ones((1, 4, 4, 4), "float32"))[0].max() == 1


def test_what_progress_raises_ends_a_search() -> None:
    ops.relu(numpy.ones((1, 4, 4, 5), "float32"))

    def progress(what: str, fraction: float) -> None:
        raise Mine(what)

    with pytest.raises(Mine):
        pl.tune_device("cpu", seconds=60, progress=progress)
    assert pl.tune_device("cpu", seconds=60, progress=lambda what, fraction: False)["interrupted"] is False
