"""The tuner: searches that find, remember, stop, go on, and tables of what they found."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# One convolution on the first OpenCL device, searched for at most `seconds` (all of it, where that is long enough).
PROGRAM = """
import json, sys
import numpy as np
import pylayout as pl
from pylayout import ops
seconds, stop_after = float(sys.argv[1]), int(sys.argv[2])
device = next((d.name for d in pl.devices() if d.name.startswith("opencl")), None)
if device is None:
    print(json.dumps(None))
    sys.exit()
pl.configure(tune="off")
random = np.random.default_rng(0)
x = pl.asarray(random.standard_normal((1, 8, 2, 3), dtype="float32"), device=device)
w = pl.asarray(random.standard_normal((8, 8, 1, 1), dtype="float32"), device=device)
before = np.asarray(ops.conv2d(x, w))
said = []
def progress(what, fraction):
    said.append((what, fraction))
    return len(said) < stop_after
result = pl.tune_device(device, seconds=seconds, progress=progress)
after = np.asarray(ops.conv2d(x, w))
query = pl.query("conv2d", x, w)
print(json.dumps({
    "result": result,
    "said": said,
    "error": float(np.abs(before - after).max()),
    "chosen": query.chosen["implementation"],
    "measured": query.chosen["measured"],
    "candidates": len(query.candidates),
    "values": pl.tuned_values(device),
}))
"""


def search(folder: Path, seconds: float = 200, stop_after: int = 10**6) -> "dict[str, object]":
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(seconds), str(stop_after)],
        env={**os.environ, "PYLAYOUT_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    if answer is None:
        pytest.skip("no OpenCL device here")
    return answer


def conv(answer: "dict[str, object]") -> "dict[str, object]":
    return next(item for item in answer["result"]["ops"] if item["op"].startswith("conv2d"))


@pytest.mark.slow
def test_search_goes_on_where_it_stopped_and_its_winner_is_used(tmp_path: Path) -> None:
    first = search(tmp_path, stop_after=1)  # before the first measurement
    assert all(not item["finished"] for item in first["result"]["ops"])
    assert first["chosen"]  # whatever was known serves

    whole = search(tmp_path)
    found = conv(whole)
    assert found["finished"] and 2 < found["measured"] <= found["points"]
    assert found["after_ms"] <= found["before_ms"] * 1.5  # a tiny op: mostly the launch
    assert whole["measured"] and whole["error"] < 1e-4
    fractions = [fraction for _, fraction in whole["said"]]
    assert fractions[-1] == 1 and all(0 <= fraction <= 1 for fraction in fractions)

    again = search(tmp_path)  # in another process: what was measured is known
    assert conv(again)["measured"] >= 0.9 * found["measured"] and conv(again)["finished"]
    assert len(again["said"]) <= len(whole["said"])
    assert again["candidates"] < found["points"]  # of each family and layout only the winners are listed

    families = {row["family"] for row in again["values"]}
    assert families & {"conv_fwd_rows", "conv_fwd_tiled", "conv_fwd_local"}


def test_table_has_the_values_most_ops_of_a_class_agree_on() -> None:
    from pylayout.tuner import table_text

    rows = [
        {"family": "f", "shapes": "f32 product rows=2^1 columns=2^2 terms=2^3", "op": op, "values": values, "ms": ms}
        for op, values, ms in (("a", "T=1", 1.0), ("b", "T=2", 5.0), ("c", "T=1", 1.0), ("c", "T=2", 2.0))
    ]
    assert table_text(rows, "Some Device").splitlines() == [
        "device Some Device",
        "f f32 product rows=2^1 columns=2^2 terms=2^3: T=1",
    ]


def run_cli(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pylayout", *arguments],
        env={**os.environ, "PYLAYOUT_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=250,
    )


def test_tables_are_exported_imported_and_complained_about(tmp_path: Path) -> None:
    file = tmp_path / "mine.tuned"
    assert run_cli(tmp_path, "tune", "--export", str(file)).returncode == 0
    assert "device " in file.read_text("utf-8")
    line = "conv_fwd_local * * rows=* columns=* terms=*: LOCAL_X=8 LOCAL_Y=8 TILE_X=4 TILE_Y=4 TILE_K=8"
    file.write_text(f"device Some\nconv_fwd_local f32 nonsense: TILE_X=4\n{line}\n", "utf-8")
    imported = run_cli(tmp_path, "tune", "--import", str(file))
    assert imported.returncode == 0 and "mine.tuned:2: expected FAMILY" in imported.stdout
    kept = tmp_path / "tuned" / "mine.tuned"
    assert kept.is_file()
    shown = run_cli(tmp_path, "devices")
    assert shown.returncode == 0
    assert "mine.tuned:2" in shown.stdout or "OpenCL is turned off" in shown.stdout + shown.stderr
    assert run_cli(tmp_path, "tune", "--import", str(tmp_path / "none.tuned")).returncode == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(range(256)) * 40,
        b"device Some\nconv_fwd_local f32 nonsense: T=4\n" * 20,
        b"device Some\nf f32 k rows",
    ],
    ids=["empty", "binary", "wrong", "cut"],
)
def test_a_damaged_table_is_refused_and_the_former_one_kept(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "tuned"
    folder.mkdir()
    former = (
        "device Some\nconv_fwd_local * * rows=* columns=* terms=*: LOCAL_X=8 LOCAL_Y=8 TILE_X=4 TILE_Y=4 TILE_K=8\n"
    )
    (folder / "mine.tuned").write_text(former, "utf-8")
    file = tmp_path / "mine.tuned"
    file.write_bytes(content)
    done = run_cli(tmp_path, "tune", "--import", str(file))
    assert done.returncode == 2 and "no line of it can be used" in done.stderr
    assert (folder / "mine.tuned").read_text("utf-8") == former


def test_damaged_tables_in_the_cache_do_no_harm(tmp_path: Path) -> None:
    folder = tmp_path / "tuned"
    (folder / "folder.tuned").mkdir(parents=True)
    (folder / "binary.tuned").write_bytes(bytes(range(256)) * 40)
    os.mkfifo(folder / "pipe.tuned")
    program = "import numpy as np, pylayout as pl; print(np.asarray(pl.ops.relu(pl.asarray(np.float32([-1, 2])))))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYLAYOUT_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0 and done.stdout.split() == ["[0.", "2.]"], done.stderr
    shown = run_cli(tmp_path, "devices")
    assert shown.returncode == 0
    for name in ("folder", "pipe"):
        assert f"{name}.tuned: is not a table" in shown.stdout
    assert shown.stdout.count("binary.tuned") in range(1, 7)


def test_a_model_file_is_tuned_on_the_cpu(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    helper = onnx.helper
    shape = [1, 4, 6, 6]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)],
    )
    path = tmp_path / "relu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    done = run_cli(tmp_path, "tune", str(path), "--seconds", "20", "--json")
    assert done.returncode == 0, done.stderr
    assert any(item["op"].startswith("relu") for item in json.loads(done.stdout)["ops"])
