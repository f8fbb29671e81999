"""Resize at sizes that are known late: one graph for all of them where `interpolate` computes what ONNX says."""

import numpy
import pytest

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811
import onnx.reference  # noqa: E402
from onnx_models import helper, model_of  # noqa: E402

import pylayout as pl  # noqa: E402

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64

ATTRIBUTES = {
    "half pixel": {"mode": "linear"},
    "of pytorch": {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    "aligned": {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    "nearest": {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
}


def images(*shape):
    return numpy.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def graphs_of(plan):
    return plan.summary()["sizes"]["graphs"]


@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.parametrize("scale", [2.0, 3.0, 1.5, 0.5])
def test_a_scale_of_sides_known_late(name, scale):
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], **ATTRIBUTES[name])]
    constants = {"scales": numpy.array([1, 1, scale, scale], "float32")}
    model = model_of(nodes, {"x": (FLOAT, ["n", 3, "h", "w"])}, ["y"], 17, constants)
    reference = onnx.reference.ReferenceEvaluator(model)
    plan = pl.compile(model, device="cpu", tune="off", sizes={"n": 1, "h": 8, "w": 8})
    for shape in ((1, 3, 8, 8), (2, 3, 10, 6), (1, 3, 64, 34), (3, 3, 4, 12)):
        x = images(*shape)
        numpy.testing.assert_allclose(plan.run(x)[0], reference.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
    assert graphs_of(plan) == 1
    x = images(1, 3, 7, 9)  # of which a half is no size
    want = reference.run(None, {"x": x})[0]
    assert plan.run(x)[0].shape == want.shape
    numpy.testing.assert_allclose(plan.run(x)[0], want, rtol=1e-4, atol=1e-5)
    assert graphs_of(plan) == (1 if scale in (2.0, 3.0) else 2)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_the_sides_of_another_image(name):
    """As a decoder does that joins an image with a smaller one, of any sides."""
    nodes = [
        helper.make_node("Shape", ["like"], ["sides"], start=2),
        helper.make_node("Shape", ["x"], ["rest"], end=2),
        helper.make_node("Concat", ["rest", "sides"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **ATTRIBUTES[name]),
    ]
    inputs = {"x": (FLOAT, ["n", 2, "h", "w"]), "like": (FLOAT, ["n", 4, "a", "b"])}
    model = model_of(nodes, inputs, ["y"], 17)
    plan = pl.compile(model, device="cpu", tune="off", sizes={"n": 1, "h": 4, "w": 6, "a": 9, "b": 12})
    for x, like in (
        ((1, 2, 4, 6), (9, 12)),
        ((2, 2, 5, 7), (5, 33)),
        ((1, 2, 28, 28), (13, 240)),
        ((1, 2, 3, 2), (2, 2)),
    ):
        x = images(*x)
        want = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x, "like": images(len(x), 4, *like)})[0]
        got = plan.run(x, images(len(x), 4, *like))[0]
        numpy.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert graphs_of(plan) == 1


def test_other_resizes_are_for_their_sizes():
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="cubic")]
    constants = {"scales": numpy.array([1, 1, 2, 2], "float32")}
    model = model_of(nodes, {"x": (FLOAT, [1, 1, "h", "w"])}, ["y"], 17, constants)
    plan = pl.compile(model, device="cpu", tune="off", sizes={"h": 4, "w": 4})
    for side in (4, 6, 9):
        x = images(1, 1, side, side)
        want = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})[0]
        numpy.testing.assert_allclose(plan.run(x)[0], want, rtol=1e-3, atol=1e-4)
    assert graphs_of(plan) == 3


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_walk_resizes_as_a_plan_does(name):
    nodes = [
        helper.make_node("NonZero", ["v"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("GatherND", ["v", "rows"], ["sizes"]),
        helper.make_node("Concat", ["same", "sizes"], ["all"], axis=0),
        helper.make_node("Resize", ["x", "", "", "all"], ["y"], **ATTRIBUTES[name]),
    ]
    model = model_of(
        nodes, {"x": (FLOAT, [1, 1, "h", "w"]), "v": (INT64, ["k"])}, ["y"], 17, {"same": numpy.array([1, 1])}
    )
    plan = pl.compile(model, device="cpu", tune="off")
    x = images(1, 1, 28, 28)
    sides = [(2, 3), (28, 28), (28, 14), (9, 61), (55, 28), (120, 2)]
    results = [plan.run(x, numpy.array([0, a, 0, b]))[0] for a, b in sides]
    (step,) = [step for step in plan._rounds.all_steps() if getattr(step, "outputs", None) == ["y"]]
    assert len(step.variants) == 1 and step.variants[0].walk is not None, "one import serves all sides"
    step.variants[0].walk = None
    for (a, b), got in zip(sides, results, strict=True):
        assert got.shape == (1, 1, a, b)
        numpy.testing.assert_allclose(got, plan.run(x, numpy.array([a, b, 0, 0]))[0], rtol=1e-5, atol=1e-5)
    assert len(step.variants) == 1


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_bytes_are_rounded_and_stay_in_their_range(dtype, mode):
    """As in quantised networks, whose integers are resized."""
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode)]
    constants = {"scales": numpy.array([1, 1, 2, 1.5], "float32")}
    kind = helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
    plan = pl.compile(
        model_of(nodes, {"x": (kind, ["n", 3, "h", "w"])}, ["y"], 18, constants), device="cpu", tune="off"
    )
    wide = model_of(nodes, {"x": (onnx.TensorProto.DOUBLE, ["n", 3, "h", "w"])}, ["y"], 18, constants)
    reference = onnx.reference.ReferenceEvaluator(wide)
    limits = numpy.iinfo(dtype)
    for shape in ((1, 3, 8, 8), (2, 3, 10, 6), (1, 3, 5, 4)):
        x = numpy.random.default_rng(0).choice([limits.min, limits.max, 7], shape).astype(dtype)
        (y,) = plan.run(x)
        there = numpy.clip(reference.run(None, {"x": x.astype("float64")})[0], limits.min, limits.max)
        assert y.dtype == dtype and y.shape == there.shape
        assert abs(y - there).max() <= 0.5 + 1e-3
    if mode == "linear":
        assert graphs_of(plan) == 1
