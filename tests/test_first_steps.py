"""What a first-time user meets: names of other libraries, slips, and what the message says to them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import pylayout as pl
from pylayout import ops


def ones(*shape: int) -> pl.Tensor:
    return pl.ones(shape)


def test_a_device_or_a_dtype_may_come_first() -> None:
    x = ones(1, 3, 4, 4)
    assert x.to("cpu").device == "cpu"
    assert x.to("f16").dtype == pl.f16
    assert x.to(numpy.float16).dtype == pl.float16
    assert x.to(pl.int32, device="cpu").dtype == pl.s32
    assert x.to("NHWC").layout == "NHWC"
    with pytest.raises(pl.ArgumentTypeError, match="two dtypes are given, f16 and f32"):
        x.to("f16", dtype="f32")
    with pytest.raises(pl.ArgumentTypeError, match="two devices are given"):
        x.to("cpu", device="opencl:0")
    with pytest.raises(pl.LayoutError, match='layout "cuda"'):
        x.to("cuda")


def test_a_function_written_for_tensors_runs_on_graph_values() -> None:
    def program(x):
        return x.to("f32").contiguous().view(3, 4).to(dtype="s32")

    graph = pl.Graph()
    graph.output(program(graph.input("x", (2, 6))), "y")
    values = numpy.arange(12, dtype="float32").reshape(2, 6)
    expected = program(pl.asarray(values)).numpy()
    numpy.testing.assert_array_equal(pl.compile(graph, tune="off").run(values)[0], expected)
    with pytest.raises(pl.ArgumentTypeError, match="expected dtype alone"):
        graph.input("z", (1,)).to("cpu")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ops.Conv2d, AttributeError, "no op 'Conv2d'; did you mean conv2d"),
        (lambda: ops.avgpool2d, AttributeError, "did you mean avg_pool2d"),
        (lambda: ops.zzzzqq, AttributeError, "lists those there are"),
        (lambda: pl.Graph().con2d, AttributeError, "did you mean conv2d"),
        (lambda: pl.Graph().op("con2d"), pl.InvalidArgumentError, "did you mean conv2d"),
        (lambda: pl.query("conv2", ones(1)), pl.InvalidArgumentError, "did you mean conv2d"),
        (lambda: pl.query(ops.conv2d, ones(1)), pl.ArgumentTypeError, "op is function, expected an op's name"),
        (lambda: pl.query("einsum", ones(1)), pl.InvalidArgumentError, "made of several ops"),
        (lambda: pl.asarray([[1, 2], [3]]), pl.ArgumentTypeError, "asarray: value is no array: .*inhomogeneous"),
        (lambda: ops.relu([[1, 2], [3]]), pl.ArgumentTypeError, "relu: x is no array"),
        (lambda: pl.from_dlpack(3), pl.ArgumentTypeError, "value is int, expected an object with __dlpack__"),
        (lambda: ops.einsum("ij->ijk", ones(2, 3)), pl.InvalidArgumentError, "names 'k' in its result, which no opera"),
        (lambda: ops.einsum("ij->ii", ones(2, 3)), pl.InvalidArgumentError, "names 'i' in its result, twice"),
        (lambda: ops.einsum("i1->i", ones(2, 3)), pl.InvalidArgumentError, "names '1' in a term, which is no letter"),
        (lambda: pl.set_memory_limit("cpu", -1), pl.InvalidArgumentError, "limit is -1"),
        (
            lambda: pl.Tensor.from_cl_buffer(numpy.ones(3), (3,), "f4", queue=3),
            pl.ArgumentTypeError,
            "buffer is ndarray, expected a pyopencl.Buffer",
        ),
        (lambda: pl.Tensor.from_cl_buffer(None, (3,), "f4"), pl.ArgumentTypeError, "buffer is None"),
    ],
)
def test_what_slips_say(call, error, words) -> None:
    with pytest.raises(error, match=words):
        call()


def test_a_tensor_that_cannot_be_exported_is_named() -> None:
    class Exporter:
        def __dlpack__(self, **keywords):
            raise BufferError("it needs a gradient")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(pl.InvalidArgumentError, match="linear: weight is Exporter and cannot be exported: it needs"):
        ops.linear(ones(2, 3), Exporter())


def test_a_profile_is_read_after_its_block() -> None:
    with pl.profile() as p:
        ops.relu(ones(1, 2, 3, 3))
        assert repr(p) == "Profile(recording)"
        for read in (p.summary, p.trace, lambda: p.events):
            with pytest.raises(pl.InvalidArgumentError, match="under way, expected this after its `with` block"):
                read()
    assert p.summary()["ops"]["relu"]["count"] == 1


def test_a_tensor_sent_to_a_forked_worker_says_why_it_cannot_be_used(tmp_path: Path) -> None:
    """The worker must not end in the midst of its queue: the pool would wait for it forever."""
    program = (
        "import multiprocessing, pylayout as pl\n"
        "def use(x): return x.shape\n"
        "x = pl.ones((2, 3)) + 1\n"
        "with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "    try: print(pool.map(use, [x]))\n"
        "    except pl.DeviceError as error: print(error)\n"
    )
    environment = {**os.environ, "PYLAYOUT_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("pylayout was used before this process was forked"), done.stdout + done.stderr


def test_files_of_the_command_line_are_refused_before_the_work(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pylayout", "query", "relu", "--input", "1,2,3,3", "--json"]
    done = subprocess.run([*command, str(tmp_path / "none" / "x.json")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "its folder does not exist" in done.stderr


def test_refusals_are_listed_once() -> None:
    command = [sys.executable, "-m", "pylayout", "query", "conv2d", "--input", "1,64,9,9", "--input", "64,64,3,3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    refused = done.stdout.partition("refused:")[2].splitlines()
    assert len(refused) > 1
    assert len(set(refused)) == len([line for line in refused if line]) + ("" in refused)
