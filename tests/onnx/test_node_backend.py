"""ONNX's own tests of each op, through `pylayout.onnx.Backend`; exclusions.py says which are not for us, and why."""

import re
import warnings
from unittest import mock

import numpy
import pytest

onnx = pytest.importorskip("onnx")

import exclusions  # noqa: E402
from exclusions import EXCLUSIONS, LISTED_FOR  # noqa: E402
from onnx.backend.test.runner import Runner  # noqa: E402
from onnx_cases import randn  # noqa: E402
from onnx_models import close, helper, model_of  # noqa: E402

import pylayout as pl  # noqa: E402
import pylayout.onnx  # noqa: E402


def pool_by_windows(padded, x_shape, kernel, strides, out_shape, kind, *padding, p=1, **more):
    """onnx's reference, whose loops take seconds for each pool of 32x32x32 pixels: those without borders by NumPy."""
    if padding or more or any(stride != 1 for stride in strides or ()):
        return onnx_pool(padded, x_shape, kernel, strides, out_shape, kind, *padding, p=p, **more)
    axes = tuple(range(2, padded.ndim))
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, kernel, axes)
    inner = tuple(axis - len(axes) for axis in range(len(axes)))
    if kind == "LPPOOL":
        return ((abs(windows) ** p).sum(inner) ** (1 / p)).astype(padded.dtype)
    return {"AVG": windows.mean, "MAX": windows.max}[kind](inner)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the cases are made by NumPy, with overflows and divisions by zero
    import onnx.backend.test.case.base
    from onnx.backend.test.loader import load_model_tests
    from onnx.reference.ops import op_pool_common

    onnx_pool = getattr(op_pool_common, "pool", None)  # not of every release
    with (
        mock.patch.object(op_pool_common, "pool", pool_by_windows, create=True),
        # The text of each case, for ONNX's documents.
        mock.patch.object(onnx.backend.test.case.base, "process_snippet", lambda *_: ("", "")),
    ):
        TESTS = {test.name: test for test in load_model_tests(kind="node")}

EXCLUDED = {name: group for group in EXCLUSIONS for name in group.names.split()}
# With another onnx than the list was made for, an op or a type that is not supported is no failure.
IS_LISTED = onnx.__version__ == LISTED_FOR

Backend = pylayout.onnx.Backend


def array_of(value):
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def check(name):
    test = TESTS[name]
    backend = Backend.prepare(test.model, tune="off")
    for inputs, outputs in test.data_sets:
        results = backend.run([array_of(value) for value in inputs])
        wanted = [array_of(value) for value in outputs]
        flat = [part for pair in zip(wanted, results, strict=True) for part in flattened(*pair)]
        Runner.assert_similar_outputs(flat[::2], flat[1::2], test.rtol, test.atol)


def flattened(wanted, result):
    """An output as pairs of arrays, those of a sequence one after the other."""
    if not isinstance(wanted, list):
        return [wanted, result]
    assert isinstance(result, list) and len(result) == len(wanted)
    return [part for pair in zip(wanted, result, strict=True) for part in flattened(*pair)]


@pytest.mark.parametrize("name", [name for name in TESTS if name not in EXCLUDED])
def test_node(name):
    try:
        check(name)
    except pl.UnsupportedError as error:
        if IS_LISTED:
            raise
        pytest.skip(f"not in the list for onnx {LISTED_FOR}: {error}")


@pytest.mark.skipif(not IS_LISTED, reason=f"the list is for onnx {LISTED_FOR}")
def test_the_page_says_how_many_there_are():
    assert len(TESTS) == exclusions.TESTS


@pytest.mark.skipif(not IS_LISTED, reason=f"the list is for onnx {LISTED_FOR}")
@pytest.mark.parametrize("name", EXCLUDED)
def test_excluded(name):
    """An exclusion fails, and for the reason given: else it is one no more."""
    assert name in TESTS
    failure = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check(name)
        except (pl.Error, AssertionError) as found:
            failure = str(found)
    if failure is None and EXCLUDED[name].by_processor:
        return
    assert failure is not None, "it passes"
    assert re.search(EXCLUDED[name].error, failure), f"{EXCLUDED[name].reason}: but {failure}"


def test_no_test_is_excluded_twice():
    names = [name for group in EXCLUSIONS for name in group.names.split()]
    assert len(names) == len(set(names))


# ---- the interface ----


def test_devices():
    assert Backend.supports_device("CPU")
    assert Backend.supports_device("cpu")
    assert not Backend.supports_device("CUDA")
    assert not Backend.supports_device("nonsense")
    with pytest.raises(pl.UnsupportedError, match="'CUDA'"):
        Backend.prepare(model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": randn(2)}, ["y"], 17), "CUDA")


def test_a_prepared_model_runs_on_any_shape():
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Sub", ["a", "b"], ["d"])]
    sizes = (onnx.TensorProto.FLOAT, ["n", "m"])
    prepared = Backend.prepare(model_of(nodes, {"a": sizes, "b": sizes}, ["s", "d"], 17), tune="off")
    for shape in ((2, 3), (4, 5), (2, 3)):
        a, b = randn(*shape), randn(*shape)
        results = prepared.run([a, b])
        close(results.s, a + b)
        close(results["d"], a - b)
        close(prepared.run({"b": b, "a": a})[1], a - b)
    assert len(prepared._plans) == 2
    with pytest.raises(pl.InvalidArgumentError, match="1 inputs are given, expected 2: a, b"):
        prepared.run([a])
    with pytest.raises(pl.InvalidArgumentError, match=r"inputs \['a', 'c'\] are given"):
        prepared.run({"a": a, "c": b})


def test_inputs_that_shapes_depend_on_become_constants():
    prepared = Backend.prepare(
        model_of(
            [helper.make_node("Reshape", ["x", "shape"], ["y"])],
            {"x": (onnx.TensorProto.FLOAT, [12]), "shape": (onnx.TensorProto.INT64, [2])},
            ["y"],
            17,
        ),
        tune="off",
    )
    x = randn(12)
    for shape in ((3, 4), (2, 6)):
        assert prepared.run([x, numpy.array(shape)])[0].shape == shape


def test_run_node():
    x, y = randn(2, 3), randn(2, 3)
    node = helper.make_node("Max", ["x", "y"], ["z"])
    close(Backend.run_node(node, [x, y], tune="off")[0], numpy.maximum(x, y))
    softmax = helper.make_node("Softmax", ["x"], ["y"])
    assert not numpy.allclose(
        Backend.run_node(softmax, [randn(2, 3, 4)], opset_version=11, tune="off")[0].sum(-1), 1
    )  # of old over the last two axes


def test_run_model_and_compatibility():
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (onnx.TensorProto.FLOAT, ["n", "m"])}, ["y"], 17)
    assert Backend.is_compatible(model)
    assert not Backend.is_compatible(model, "CUDA")
    x = randn(3, 4)
    close(Backend.run_model(model, [x], tune="off")[0], numpy.maximum(x, 0))
    model.graph.node[0].op_type = "Unique"
    assert not Backend.is_compatible(model)
