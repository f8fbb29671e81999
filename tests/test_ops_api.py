"""The functions of pylayout.ops: signatures equal the schemas, help, cached attributes, inputs; query and profile."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import pylayout as pl
from pylayout import calls, op_functions, ops

pytestmark = pytest.mark.usefixtures("unoptimised")  # the interface is in question, not which implementation wins

ROOT = Path(__file__).parent.parent
SCHEMAS = calls.schemas()


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_signature_is_the_schema_s(name):
    schema = SCHEMAS[name]
    signature = inspect.signature(getattr(ops, name))
    parameters = list(signature.parameters.values())
    assert [p.name for p in parameters] == [p["name"] for p in schema["parameters"]] + ["layout", "device", "out"]
    for parameter, described in zip(parameters, schema["parameters"], strict=False):
        assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        if described["kind"] == "optional_tensor":
            assert parameter.default is None
        elif described["kind"] == "attribute" and not described["required"]:
            assert parameter.default == op_functions.default_of(described)
        else:
            assert parameter.default is inspect.Parameter.empty
    assert [p.kind for p in parameters[-3:]] == [inspect.Parameter.KEYWORD_ONLY] * 3
    assert [p.default for p in parameters[-3:]] == ["auto", None, None]


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_help_is_complete(name):
    function = getattr(ops, name)
    text = function.__doc__
    assert function.__name__ == name
    for word in ["Args:", "Raises:", "Example:", *(p["name"] for p in SCHEMAS[name]["parameters"])]:
        assert word in text
    assert all(p["doc"] for p in SCHEMAS[name]["parameters"])


def test_names_are_listed_and_made_once():
    assert set(SCHEMAS) <= set(dir(ops))
    assert ops.relu is ops.relu
    from pylayout.ops import clamp, clip

    assert clamp is clip
    for alias, target in ops.ALIASES.items():
        assert getattr(ops, alias) is getattr(ops, target)
    assert not hasattr(ops, "no_such_op")


def test_stub_is_current():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "ops_stub.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_equal_calls_share_their_attributes():
    x = numpy.ones((1, 3, 8, 8), "float32")
    kept = ops.max_pool2d.__globals__["_kept"]
    ops.max_pool2d(x, (3, 2))
    before = len(kept)
    for _ in range(3):
        ops.max_pool2d(x, (3, 2))
        ops.max_pool2d(x, [3, 2])
        ops.max_pool2d(x, kernel_size=(3, 2), stride=None)
    assert len(kept) == before
    ops.max_pool2d(x, (2, 3))
    assert len(kept) == before + 1
    for size in range(2 * calls.MAX_KEPT):
        ops.leaky_relu(x, size / 1000)
    assert len(ops.leaky_relu.__globals__["_kept"]) <= calls.MAX_KEPT


def test_values_of_all_types_are_attributes():
    x = numpy.arange(24, dtype="float32").reshape(1, 2, 3, 4)
    for dim in [1, numpy.int64(1), (1,), [1], numpy.array([1])]:
        numpy.testing.assert_array_equal(ops.sum(x, dim=dim).numpy(), x.sum(1))
    for keepdim in [True, numpy.True_, 1]:
        assert ops.sum(x, 1, keepdim).shape == (1, 1, 3, 4)
    for slope in [0.5, numpy.float32(0.5)]:
        numpy.testing.assert_array_equal(ops.leaky_relu(-x, slope).numpy(), -x * 0.5)
    assert ops.relu(x, layout=pl.Layout("NHWC")).layout == "NHWC"
    assert ops.relu(x, device=pl.devices()[0]).device == "cpu"


def test_inputs_of_all_kinds():
    x = numpy.array([[-1.0, 2.0]], "float32")
    for value in [x, pl.asarray(x), x.tolist(), memoryview(x)]:
        numpy.testing.assert_array_equal(ops.relu(value).numpy(), [[0, 2]])
    numpy.testing.assert_array_equal(ops.add(x, 1).numpy(), x + 1)
    numpy.testing.assert_array_equal(ops.maximum(0.5, pl.asarray(x)).numpy(), [[0.5, 2]])
    numpy.testing.assert_array_equal(ops.concat([x, pl.asarray(x)], 1).numpy(), numpy.concatenate([x, x], 1))


def test_numbers_take_the_dtype_of_the_other_input():
    for dtype in ["f32", "f16", "s32", "s64"]:
        x = pl.asarray([1, 2, 3], dtype=dtype)
        assert (x + 1).dtype == dtype
        numpy.testing.assert_array_equal((x + 1).numpy(), [2, 3, 4])


def test_views_of_arrays_do_not_follow_them():
    x = numpy.ones((2, 3), "float32")
    outputs = [ops.reshape(x, (3, 2)), ops.flatten(x), ops.reorder(x, "ab"), ops.identity(x), *ops.split(x, 1)]
    x[...] = 7
    for y in outputs:
        assert not (y.numpy() == 7).any()


def test_lists_of_results():
    x = numpy.arange(6, dtype="float32").reshape(3, 2)
    parts = ops.split(x, 1)
    assert isinstance(parts, tuple) and len(parts) == 3
    numpy.testing.assert_array_equal(parts[2].numpy(), x[2:])
    assert isinstance(ops.split(x, 3), tuple), "one part is a list as well"
    assert len(ops.split(numpy.zeros((600, 1), "float32"), 1)) == 600


def test_forced_layouts_and_devices(device):
    x = pl.asarray(numpy.arange(-8, 8, dtype="float32").reshape(1, 4, 2, 2), device=device)
    for layout in ["NCHW", "NHWC", "nChw8c", "per-op", "auto"]:
        y = ops.relu(x, layout=layout)
        assert y.device == device
        if layout not in ("auto", "per-op"):
            assert y.layout == layout
        numpy.testing.assert_array_equal(y.numpy(), numpy.maximum(x.numpy(), 0))


def test_query_lists_candidates_and_refusals():
    x = pl.asarray(numpy.ones((1, 16, 8, 8), "float32"))
    w = numpy.ones((16, 16, 3, 3), "float32")
    q = pl.query("conv2d", x, w, padding=1)
    assert q.op == "conv2d" and q.device == "cpu" and q.candidates
    assert q.chosen is q.candidates[0]
    for candidate in q.candidates:
        assert {
            "provider",
            "implementation",
            "inputs",
            "outputs",
            "op_ms",
            "reorder_ms",
            "total_ms",
            "measured",
        } <= set(candidate)
    assert q.candidates[0]["total_ms"] == min(candidate["total_ms"] for candidate in q.candidates)
    assert q.candidates[0]["implementation"] in str(q)
    assert q.candidates[0]["implementation"] in q.explain()
    view = pl.query("reshape", x, (16, 64))
    assert view.candidates == [] and "view" in view.explain()


def test_tune_measures_every_candidate():
    x = pl.asarray(numpy.ones((1, 8, 5, 5), "float32"))
    q = pl.tune("relu", x, seconds=5)
    assert q.candidates and all(candidate["measured"] for candidate in q.candidates)


def test_profile_counts_ops_and_reorders(tmp_path):
    x = pl.asarray(numpy.ones((1, 16, 8, 8), "float32"))
    with pl.profile() as p:
        y = ops.relu(x, layout="nChw16c")
        ops.neg(y, layout="nChw16c")
    summary = p.summary()
    assert summary["ops"]["relu"]["count"] == 1 and summary["ops"]["neg"]["count"] == 1
    assert summary["layouts"] == {"nChw16c": {"count": 2, "ms": pytest.approx(summary["op_ms"])}}
    assert summary["reorders"]["activations"]["count"] == 1
    assert summary["reorders"]["weights"]["count"] == 0
    assert summary["total_ms"] == pytest.approx(summary["op_ms"] + summary["reorder_ms"] + summary["transfer_ms"])
    assert any("relu" in cause for cause in summary["causes"])
    p.save_trace(tmp_path / "trace.json")
    import json

    trace = json.loads((tmp_path / "trace.json").read_text())
    spans = [row for row in trace["traceEvents"] if row["ph"] == "X"]
    assert len(spans) == len(p.events) and {row["cat"] for row in spans} == {"op", "reorder"}
