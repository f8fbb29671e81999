"""Numbers and sizes at the ends of what ops take, where ONNX's evaluator has no say or another one."""

from __future__ import annotations

import numpy
import pytest

onnx = pytest.importorskip("onnx")

from onnx_models import helper, model_of, run  # noqa: E402

import pylayout as pl  # noqa: E402
import pylayout.onnx  # noqa: E402


def test_bits_of_wide_words_that_move() -> None:
    x = numpy.array([2**63 + 3, 2**64 - 1, 38110132842290691 * 4], "uint64")
    by = numpy.array([0, 1, 2], "uint64")
    for direction, wanted in (("RIGHT", x >> by), ("LEFT", x << by)):
        node = helper.make_node("BitShift", ["x", "by"], ["y"], direction=direction)
        plan = pl.compile(model_of([node], {"x": x, "by": by}, ["y"], 20), device="cpu", tune="off")
        numpy.testing.assert_array_equal(plan.run(x, by)[0], wanted)


def test_what_is_cut_off_is_not_wrapped() -> None:
    x = numpy.float32([5, -7, 9, 4])
    pads = numpy.array([1, -1])
    model = model_of([helper.make_node("Pad", ["x", "pads"], ["y"], mode="wrap")], {"x": x}, ["y"], 19, {"pads": pads})
    numpy.testing.assert_array_equal(run(model, x)[0], [9, 5, -7, 9])


@pytest.mark.parametrize("shape", [(1, 1, 1, 2), (2, 1, 3, 1), (1, 1, 1, 2, 1)], ids=str)
def test_grids_of_one_pixel_are_finite(shape: tuple[int, ...]) -> None:
    """PyTorch's corners of one pixel lie at 0; ONNX's own function divides by zero."""
    torch = pytest.importorskip("torch")
    rank = len(shape) - 2
    theta = numpy.random.default_rng(1).standard_normal((shape[0], rank, rank + 1)).astype("float32")
    node = helper.make_node("AffineGrid", ["theta", "size"], ["y"], align_corners=1)
    model = model_of([node], {"theta": theta}, ["y"], 20, {"size": numpy.array(shape)})
    wanted = torch.nn.functional.affine_grid(torch.from_numpy(theta), list(shape), align_corners=True)
    numpy.testing.assert_allclose(run(model, theta)[0], wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_einsum_asks_nothing_of_late_sizes() -> None:
    weight = numpy.random.default_rng(2).standard_normal((4, 3)).astype("float32")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Einsum", ["x", "w"], ["y"], equation="bsc,cd->bsd")], "g",
        [value("x", 1, ["n", "s", 4])], [value("y", 1, ["n", "s", 3])], [onnx.numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    built = pl.onnx.load(model).trainable()
    loss = built.sum(built.outputs["y"])
    built.output(built.gradients(loss, list(built.parameters.values()))[0], "gradient")
    plan = pl.compile(built, device="cpu", tune="off")
    for n, s in ((1, 1), (2, 5), (3, 1), (1, 7)):
        x = numpy.random.default_rng(n + s).standard_normal((n, s, 4)).astype("float32")
        y, gradient = plan.run(x)
        numpy.testing.assert_allclose(y, x @ weight, rtol=1e-5, atol=1e-5)
        numpy.testing.assert_allclose(gradient, x.sum((0, 1))[:, None].repeat(3, 1), rtol=1e-5, atol=1e-5)


EMPTY = {
    "Resize": ((0, 2, 4, 4), {"mode": "nearest"}, {"scales": numpy.float32([1, 1, 2, 2])}, (0, 2, 8, 8)),
    "ReduceMax": ((2, 0, 2, 0), {}, {"axes": numpy.array([3])}, (2, 0, 2, 1)),
    "Hardmax": ((2, 0), {}, {}, (2, 0)),
    "CumSum": ((0, 2), {"exclusive": 1}, {"axis": numpy.array(0)}, (0, 2)),
}


@pytest.mark.parametrize("op", EMPTY)
def test_nothing_gives_nothing(op: str) -> None:
    shape, attributes, weights, wanted = EMPTY[op]
    names = ["x", "", *weights] if op == "Resize" else ["x", *weights]
    x = numpy.zeros(shape, "float64" if op == "CumSum" else "float32")  # the first on the host
    model = model_of([helper.make_node(op, names, ["y"], **attributes)], {"x": x}, ["y"], 20, weights)
    assert pl.compile(model, device="cpu", tune="off").run(x)[0].shape == wanted
