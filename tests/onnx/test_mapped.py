"""Weights that are left in a model's file: the same results, errors and graphs as with the bytes, and less memory."""

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import pylayout as pl

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from pylayout.onnx.mapped import without_weights  # noqa: E402

RNG = numpy.random.default_rng(3)


def model(width=64, padding=""):
    """y = x @ w + b with a large w and a small b; `padding` moves w in the file."""
    w = numpy_helper.from_array(RNG.standard_normal((width, width)).astype("float32"), "w")
    b = numpy_helper.from_array(RNG.standard_normal(width).astype("float32"), "b")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Add", ["z", "b"], ["y"])],
        "g" + padding,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", width])],
        [w, b],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def compiled(given, n=2):
    return pl.compile(given, device="cpu", tune="off", sizes={"n": n})


@pytest.mark.parametrize("padding", ["", "1", "22", "333"])
def test_the_same_results_wherever_weights_lie(tmp_path, padding):
    proto, path = model(padding=padding), tmp_path / "model.onnx"
    onnx.save(proto, path)
    content = path.read_bytes()
    small = without_weights(content)
    assert small is not None and len(small) < len(content) - 4 * 64 * 64 + 200
    onnx.ModelProto().ParseFromString(small)
    x = RNG.standard_normal((2, 64)).astype("float32")
    numpy.testing.assert_array_equal(compiled(path).run(x)[0], compiled(content).run(x)[0])
    numpy.testing.assert_array_equal(compiled(path).run(x)[0], compiled(proto).run(x)[0])


def test_other_sizes_read_the_file_that_was_compiled(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model(), path)
    plan = compiled(path)
    x = RNG.standard_normal((3, 64)).astype("float32")
    numpy.testing.assert_allclose(plan.run(x)[0], compiled(path, 3).run(x)[0])
    onnx.save(model(width=68), tmp_path / "other")
    (tmp_path / "other").replace(path)
    y = plan.run(x[:2])[0]  # the file that the plan was made of goes on to be there for it
    numpy.testing.assert_allclose(y, plan.run(x)[0][:2], rtol=1e-5, atol=1e-5)


def outcome(given):
    try:
        return compiled(given).inputs
    except pl.Error as error:
        return type(error)


def test_damaged_files_say_what_bytes_say(tmp_path):
    whole = model().SerializeToString()
    random = numpy.random.default_rng(5)
    damaged = [whole[:length] for length in (0, 1, 10, len(whole) // 2, len(whole) - 1)]
    for _ in range(60):
        data = bytearray(whole)
        data[int(random.integers(0, 200))] = int(random.integers(0, 256))
        damaged.append(bytes(data))
    for data in damaged:
        path = tmp_path / "model.onnx"
        path.write_bytes(data)
        assert outcome(str(path)) == outcome(data), data[:200]


def test_a_reference_beyond_the_file_is_refused(tmp_path):
    """A model may not claim the location that stands for its own file, and reach out of it."""
    proto = model()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "\0"), ("offset", "100000"), ("length", str(4 * 64 * 64))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(pl.InvalidArgumentError, match=r"expected a file inside|which has"):
        compiled(path)


MEMORY = """
import sys
import numpy, pylayout as pl, pylayout.onnx
def resident():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
pl.compile(sys.argv[1], device="cpu", deterministic=True, sizes={"n": 1})  # libraries and rates
before = resident()
plan = pl.compile(sys.argv[2], device="cpu", deterministic=True, sizes={"n": 1})
plan.run(numpy.ones(plan.inputs[0]["shape"], "float32"))
print(resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the resident memory is read from /proc")
def test_weights_are_held_once(tmp_path):
    small, large = tmp_path / "small.onnx", tmp_path / "large.onnx"
    onnx.save(model(512), small)
    onnx.save(model(4096), large)  # 64 MiB
    root = str(Path(pl.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(small), str(large)],
        env={
            **os.environ,
            "PYLAYOUT_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": root,
            "PYLAYOUT_OPENCL": "none",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert float(done.stdout) < 1.25 * 64
