"""`pylayout bench`: engines in processes of their own, in turns; peers that are missing, fail, or die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pylayout.cli import main
from pylayout.peers import PEERS, missing, worker
from pylayout.peers.race import relative_error

onnx = pytest.importorskip("onnx", reason="the package onnx is an extra")
from onnx import TensorProto, helper  # noqa: E402

QUICK = ("--tune", "off", "--seconds", "0.1")

# A package that stands where ONNX Runtime would: ONNX's own evaluator behind the calls that the worker makes.
STAND_IN = """
import os, pathlib, sys, time
import onnx, onnx.reference

assert "pylayout" not in sys.modules, "a peer's process holds pylayout"
__version__ = "9.9-stand-in"
runs = 0

class SessionOptions:
    intra_op_num_threads = 0
    def __init__(self):
        self.axes = {}
    def add_free_dimension_override_by_name(self, name, size):
        self.axes[name] = size

class InferenceSession:
    def __init__(self, model, options, providers):
        pathlib.Path("options.txt").write_text(f"{options.intra_op_num_threads} {options.axes}")
        print("a library may print what it likes")
        self.evaluator = onnx.reference.ReferenceEvaluator(onnx.load(model))
        LOADING
    def run(self, names, feed):
        global runs
        runs += 1
        outputs = self.evaluator.run(names, feed)
        RUNNING
        return outputs
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Writes the stand-in for ONNX Runtime, with statements for its loading and its runs."""
    (tmp_path / "packages/onnxruntime").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "packages"), *map(os.path.abspath, sys.path)]))
    monkeypatch.chdir(tmp_path)

    def write(loading: str = "pass", running: str = "pass") -> None:
        text = STAND_IN.replace("LOADING", loading).replace("RUNNING", running)
        (tmp_path / "packages/onnxruntime/__init__.py").write_text(text)

    return write


@pytest.fixture
def model(tmp_path):
    """relu(a + b) over (n, steps); an input is called as numpy.savez calls its own argument."""
    nodes = [helper.make_node("Add", ["file", "b"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "steps"]) for name in ("file", "b")]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "steps"])]
    graph = helper.make_graph(nodes, "sum", inputs, outputs)
    path = tmp_path / "sum.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return str(path)


def bench(capsys, *arguments: str) -> dict:
    code = main(["bench", *arguments, *QUICK, "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


def test_engines_take_turns_on_the_same_inputs(stand_in, model, capsys):
    stand_in()
    found = bench(
        capsys, model, "--against", "onnxruntime", "--shape", "steps=5", "--batch", "2", "3", "--threads", "1",
        "--plot", "plot.svg",
    )  # fmt: skip
    assert (found["model"], found["threads"]) == ("sum.onnx", 1)
    assert [row["batch"] for row in found["rows"]] == [2, 3]
    for row in found["rows"]:
        engines = row["engines"]
        assert set(engines) == {"pylayout", "onnxruntime"} and not row["left_out"]
        assert row["rounds"] >= 3 and all(engine["runs"] >= 9 for engine in engines.values())
        for engine in engines.values():
            low, high = engine["quartiles_ms"]
            assert engine["least_ms"] <= low <= engine["ms"] <= high
        assert row["reference"] == row["best_peer"] == "onnxruntime"
        assert engines["pylayout"]["error"] < 1e-6 and engines["onnxruntime"]["error"] == 0
        ratio = engines["onnxruntime"]["ms"] / engines["pylayout"]["ms"]
        assert row["ratios"]["onnxruntime"] == pytest.approx(ratio, rel=0.02, abs=1e-3)
    product = np.prod([row["ratios"]["onnxruntime"] for row in found["rows"]])
    assert found["geomean_ratio"] == pytest.approx(product**0.5, rel=1e-3, abs=1e-3)
    assert Path("options.txt").read_text() == "1 {'n': 3, 'steps': 5}"
    assert "<svg" in Path("plot.svg").read_text("utf-8")


def test_inputs_from_files_set_the_sizes(stand_in, model, capsys):
    stand_in(running='assert feed["file"].tolist() == [[1.0, 2.0, -3.0]]')
    np.save("given.npy", np.array([[1, 2, -3]], "float32"))
    given = ("--input", "file=given.npy", "--shape", "b=1,3")
    assert main(["bench", model, *given, "--against", "onnxruntime", *QUICK]) == 0
    out = capsys.readouterr().out
    assert "error to onnxruntime" in out and "left out" not in out and "times as fast as" in out


@pytest.mark.parametrize(
    ("loading", "running", "why"),
    [
        ("raise ValueError('no such kernel')", "pass", "ValueError: no such kernel"),
        ("sys.stderr.write('out of luck\\n'); os._exit(7)", "pass", "exit code 7: out of luck"),
        ("os.kill(os.getpid(), 9)", "pass", "signal 9"),
        ("pass", "os._exit(8) if time.monotonic() > START + 2 else None", "exit code 8"),
    ],
    ids=["raises", "exits", "killed", "dies in a turn"],
)
def test_a_peer_that_fails_is_left_out(stand_in, model, capsys, loading, running, why):
    in_a_turn = "START" in running
    stand_in("global START; START = time.monotonic()" if in_a_turn else loading, running)
    seconds = ("--seconds", "6") if in_a_turn else ()
    code = main(["bench", model, "--shape", "steps=5", "--against", "onnxruntime", *QUICK, *seconds])
    out, err = capsys.readouterr()
    assert code == 0, err
    line = next(line for line in out.splitlines() if line.startswith("onnxruntime is left out: "))
    assert why in line


def test_wrong_results_show(stand_in, model, capsys):
    stand_in(running="outputs = [outputs[0] * 2 + 1]")
    (row,) = bench(capsys, model, "--shape", "steps=5", "--against", "onnxruntime")["rows"]
    assert row["engines"]["pylayout"]["error"] > 0.1
    stand_in(running="outputs = [outputs[0][:, 1:]]")
    (row,) = bench(capsys, model, "--shape", "steps=5", "--against", "onnxruntime")["rows"]
    assert row["engines"]["pylayout"]["error"] is None


def test_a_missing_peer_is_named_with_its_package(model, capsys, monkeypatch):
    monkeypatch.setattr(worker.importlib.util, "find_spec", lambda name: None if name != "torch" else object())
    assert main(["bench", model, "--shape", "steps=5", "--against", "openvino", "torch", *QUICK]) == 0
    out = capsys.readouterr().out
    assert "openvino is left out: the package openvino is not installed: pip install openvino" in out
    assert "the package onnx2torch, which reads ONNX files for torch, is not installed: pip install onnx2torch" in out
    assert "times as fast as" not in out
    assert main(["bench", model, "--shape", "steps=5", *QUICK]) == 0
    out = capsys.readouterr().out
    assert "No peer can run here: onnxruntime: the package onnxruntime is not installed" in out
    assert "torch: the package onnx2torch, which reads ONNX files for torch, is not installed" in out


@pytest.mark.parametrize("peer", PEERS)
def test_a_real_peer_agrees(peer, model, capsys):
    if why := missing(peer):
        pytest.skip(why)
    found = bench(capsys, model, "--shape", "steps=5", "--against", peer)
    (row,) = found["rows"]
    if "torchvision" in row["left_out"].get(peer, ""):
        pytest.skip(f"torchvision is of another torch than this one: {row['left_out'][peer]}")
    assert not row["left_out"]
    assert row["engines"]["pylayout"]["error"] < 1e-6


def test_errors_are_usage_errors_before_anything_runs(stand_in, model, capsys):
    stand_in()
    for arguments, said in (
        ((model, "--plot", "plot.bmp"), "expected a name that ends in .svg, .png or .pdf"),
        ((model, "--plot", "nowhere/plot.svg"), "its folder does not exist"),
        (("absent.onnx",), "no such file"),
        ((model,), "steps"),
        ((model, "--against", "caffe"), "caffe"),
    ):
        assert main(["bench", *arguments]) == 2
        assert said in capsys.readouterr().err


def test_what_pylayout_cannot_run_is_an_error(stand_in, tmp_path, capsys):
    stand_in()
    node = helper.make_node("NoSuchOp", ["x"], ["y"], domain="nowhere")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([node], "strange", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), "strange.onnx")
    assert main(["bench", "strange.onnx", "--against", "onnxruntime", *QUICK]) == 1
    err = capsys.readouterr().err
    assert "bench: pylayout does not run the model" in err and "NoSuchOp" in err and err.count("\n") == 1


@pytest.mark.parametrize(("number", "code", "said"), [("SIGINT", 130, "error: interrupted\n"), ("SIGTERM", 143, "")])
def test_an_interrupt_ends_every_engine(stand_in, model, tmp_path, monkeypatch, number, code, said):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    stand_in(loading="pathlib.Path('peer.pid').write_text(str(os.getpid())); time.sleep(120)")
    command = [
        sys.executable,
        "-m",
        "pylayout",
        "bench",
        model,
        "--shape",
        "steps=5",
        "--against",
        "onnxruntime",
        *QUICK,
    ]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True
    )
    try:
        deadline = time.monotonic() + 100
        while not (Path("peer.pid").exists() and Path("peer.pid").read_text()):
            assert running.poll() is None and time.monotonic() < deadline, running.communicate()
            time.sleep(0.05)
        os.killpg(running.pid, getattr(signal, number))  # as a terminal does
        out, err = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            running.kill()
            running.communicate()
    assert (running.returncode, out, err) == (code, "", said)
    assert not list((tmp_path / "temporary").glob("pylayout-bench-*"))
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("peer.pid").read_text()), 0)


def test_errors_are_relative_to_the_reference():
    ones = [np.ones((2, 2), "float32"), np.ones(5, "int64")]
    assert relative_error(ones, ones) == 0
    assert relative_error([ones[0] * 2, ones[1]], ones) == pytest.approx((4 / 9) ** 0.5)
    assert relative_error([np.full(3, 1e-3)], [np.zeros(3)]) == pytest.approx(1e-3 * 3**0.5)
    assert relative_error([np.array([np.nan])], [np.ones(1)]) is None
    assert relative_error([np.ones(2)], [np.ones((2, 1))]) is None
    assert relative_error([], []) == 0
