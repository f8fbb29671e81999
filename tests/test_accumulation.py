"""Results in tensors that exist, `out=`, and products that are added to what such a tensor holds: residual=y, out=y."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pylayout as pl
from pylayout import ops

pytestmark = pytest.mark.usefixtures("unoptimised")

RNG = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def reference(name: str, tensors: list[np.ndarray], attributes: dict[str, Any]) -> np.ndarray:
    torch = pytest.importorskip("torch")
    x, w = (torch.from_numpy(t.astype(np.float64)) for t in tensors)
    if name == "matmul":
        return np.asarray((x.mT if attributes.get("transpose_a") else x) @ w)
    return np.asarray(getattr(torch.nn.functional, name)(x, w, **attributes))


# Each kind of kernel: 1x1, windows, Winograd's, one filter for each channel, groups; products; gradients by weights.
PRODUCTS: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("conv2d", (2, 19, 9, 10), (33, 19, 1, 1), {}),
    ("conv2d", (2, 16, 9, 10), (32, 16, 3, 3), {"padding": 1}),
    ("conv2d", (2, 3, 9, 10), (18, 3, 5, 3), {"stride": 2}),
    ("conv2d", (2, 19, 9, 10), (19, 1, 3, 3), {"padding": 1, "groups": 19}),
    ("conv2d", (2, 24, 7, 6), (48, 8, 3, 3), {"groups": 3}),
    ("conv1d", (2, 5, 17), (7, 5, 3), {}),
    ("conv3d", (1, 5, 4, 5, 6), (9, 5, 2, 3, 3), {}),
    ("conv_transpose2d", (2, 17, 5, 6), (17, 20, 3, 3), {"stride": 2, "padding": 1}),
    ("conv_transpose2d", (2, 18, 9, 10), (18, 35, 3, 3), {"padding": 1}),
    ("linear", (37, 33), (19, 33), {}),
    ("linear", (2, 3, 64), (128, 64), {}),
    ("matmul", (33, 34), (34, 35), {}),
    ("matmul", (3, 64, 34), (34, 35), {}),
    ("matmul", (40, 33), (40, 64), {"transpose_a": True}),  # the gradient of linear by its weight
]


def in_layouts() -> list[Any]:
    """Images in each layout, others as they are."""
    return [
        (*case, layout)
        for case in PRODUCTS
        for layout in (("NCHW", "NHWC", "nChw16c", "auto") if len(case[1]) == 4 else ("NCHW", "auto"))
    ]


@pytest.mark.parametrize(("name", "x", "w", "attributes", "layout"), in_layouts())
def test_products_are_added_to_what_is_there(
    name: str, x: Any, w: Any, attributes: dict[str, Any], layout: str, device: str
) -> None:
    tensors = [draw(*x), draw(*w)]
    product = reference(name, tensors, attributes)
    held = draw(*product.shape)
    y = pl.asarray(held, device=device)
    if layout not in ("NCHW", "auto"):
        y = y.to(layout=layout)
    given = [pl.asarray(t, device=device) for t in tensors]
    op: Callable[..., Any] = getattr(ops, name)
    expected = held.astype(np.float64)
    for activation in (None, "relu", "tanh"):
        result = op(*given, **attributes, residual=y, activation=activation, out=y, layout=layout)
        assert result is y
        expected = expected + product
        if activation:
            expected = np.maximum(expected, 0) if activation == "relu" else np.tanh(expected)
        np.testing.assert_allclose(np.asarray(y), expected, atol=2e-5 * max(1, np.abs(product).max()))


@pytest.mark.parametrize(
    ("name", "x", "w", "layout"),
    [
        ("conv2d", (1, 32, 64, 64), (64, 32, 1, 1), "NHWC"),
        ("conv2d", (1, 32, 64, 64), (64, 32, 3, 3), "NHWC"),
        ("conv_transpose2d", (1, 32, 62, 62), (32, 64, 3, 3), "NHWC"),
        ("linear", (1024, 64), (256, 64), None),
        ("matmul", (1024, 64), (64, 256), None),
        ("matmul", (64, 1024), (64, 256), None),
    ],
)
def test_no_copy_and_no_further_memory(name: str, x: Any, w: Any, layout: str | None) -> None:
    attributes: dict[str, Any] = {"transpose_a": True} if x == (64, 1024) else {}
    tensors = [pl.asarray(draw(*x)), pl.asarray(draw(*w))]
    op: Callable[..., Any] = getattr(ops, name)
    y = op(*tensors, **attributes)
    if layout:
        tensors[0], y = (t.to(layout=layout) for t in (tensors[0], y))
    given = {**attributes, "layout": layout or "auto", "residual": y, "out": y}  # else another layout may cost less
    before = np.asarray(y).astype(np.float64)
    op(*tensors, **given)  # packs weights
    pl.device.reset_memory_peaks("cpu")
    in_use = pl.memory("cpu")["in_use"]
    with pl.profile() as recording:
        op(*tensors, **given)
    assert [event["kind"] for event in recording.events] == ["op"]
    ran = recording.events[0]
    workspace = max(
        candidate["workspace_bytes"]
        for candidate in pl.query(name, *tensors, **attributes, residual=y).candidates
        if candidate["implementation"] == ran["implementation"]
    )
    assert pl.memory("cpu")["peak"] - in_use <= 1.1 * workspace + 4096  # and not the result's, beside the sum's
    np.testing.assert_allclose(np.asarray(y), 3 * before, atol=1e-3)


def test_gradients_of_micro_batches_add_up(device: str) -> None:
    """dw of a batch is that of its parts, each added to the tensor that holds the sum."""
    x, gradient = draw(24, 33), draw(24, 17)
    whole = gradient.astype(np.float64).T @ x
    dw = ops.matmul(gradient[:6], x[:6], transpose_a=True, device=device)
    for first in range(6, 24, 6):
        part = slice(first, first + 6)
        ops.matmul(gradient[part], x[part], transpose_a=True, residual=dw, out=dw, device=device)
    np.testing.assert_allclose(np.asarray(dw), whole, atol=1e-4)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c"])
@pytest.mark.parametrize("trains", [False, True])
def test_norms_are_added_to_what_is_there(trains: bool, layout: str, device: str) -> None:
    x, held = draw(2, 19, 9, 10), draw(2, 19, 9, 10)
    weight, bias = draw(19), draw(19)
    mean = x.mean((0, 2, 3), dtype=np.float64) if trains else draw(19).astype(np.float64)
    variance = x.var((0, 2, 3), dtype=np.float64) if trains else np.abs(draw(19)).astype(np.float64) + 0.5
    scale = weight / np.sqrt(variance + 1e-5)
    norm = x * scale.reshape(-1, 1, 1) + (bias - mean * scale).reshape(-1, 1, 1)
    y = pl.asarray(held, device=device).to(layout=layout)
    given = [pl.asarray(np.asarray(part, np.float32), device=device) for part in (x, mean, variance, weight, bias)]
    expected = held.astype(np.float64)
    for steps in ("add(residual)", "tanh, add(residual), relu"):
        named: dict[str, Any] = {"residual": y, "post_ops": steps, "layout": layout}
        if trains:
            empty = [pl.empty((19,), device=device) for _ in range(2)]
            ops.batch_norm_training(given[0], *given[3:], **named, out=(y, *empty))
        else:
            ops.batch_norm(*given, **named, out=y)
        made = norm if steps == "add(residual)" else np.tanh(norm)
        expected = expected + made if steps == "add(residual)" else np.maximum(expected + made, 0)
        np.testing.assert_allclose(np.asarray(y), expected, atol=2e-5 * np.abs(norm).max())


def test_out_of_other_ops(device: str) -> None:
    x = pl.asarray(draw(2, 3, 4), device=device)
    own = np.asarray(x).copy()
    y = pl.empty((2, 3, 4), device=device)
    assert ops.exp(x, out=y) is y
    np.testing.assert_allclose(np.asarray(y), np.exp(own), rtol=1e-5)
    ops.add(x, y, out=x)
    np.testing.assert_allclose(np.asarray(x), own + np.exp(own), rtol=1e-5)
    flat = pl.empty((24,), device=device)
    ops.reshape(x, (24,), out=flat)
    np.testing.assert_array_equal(np.asarray(flat), np.asarray(x).reshape(-1))
    parts = (pl.empty((1, 3, 4), device=device), pl.empty((1, 3, 4), device=device))
    assert ops.split(x, 1, out=parts) is parts
    np.testing.assert_array_equal(np.asarray(parts[1]), np.asarray(x)[1:])
    joined = pl.empty((2, 3, 4), device=device)
    ops.concat(parts, 0, out=joined)
    np.testing.assert_array_equal(np.asarray(joined), np.asarray(x))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: ops.relu(x, out=np.zeros((2, 3), "f4")),
            pl.ArgumentTypeError,
            "relu: out is ndarray, expected a py",
        ),
        (lambda x: ops.split(x, 1, out=(x, None)), pl.ArgumentTypeError, r"split: out\[1\] is NoneType, expected a"),
        (lambda x: ops.relu(x, out=pl.empty((3, 2))), pl.ShapeError, r"relu: output 0 is f32 \(3, 2\).*expected f32"),
        (lambda x: ops.relu(x, out=pl.empty((2, 3), "s32")), pl.ShapeError, r"relu: output 0 is s32 .*expected f32"),
        (
            lambda x: ops.linear(x, x, residual=pl.empty((2, 3)), out=pl.empty((2, 2))),
            pl.ShapeError,
            r"linear: residual.shape is \(2, 3\), expected \(2, 2\)",
        ),
        (
            lambda x: ops.relu(pl.Graph().input("x", (2, 3)), out=x),
            pl.InvalidArgumentError,
            "relu: out is given, expected None: in a graph",
        ),
    ],
)
def test_what_is_refused(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call(pl.asarray(draw(2, 3)))


def residual_network(o: Any, x: Any, weights: list[np.ndarray]) -> Any:
    for first, second in zip(weights[::2], weights[1::2], strict=True):
        x = o.relu(o.add(o.conv2d(o.relu(o.conv2d(x, first)), second), x))
    return o.max_pool2d(x, 2)


@pytest.mark.parametrize("layout", ["NHWC", "nChw16c"])
def test_sums_of_plans_lie_where_their_operand_did(layout: str, untuned: None) -> None:
    """Of a residual block's sum and its operand, which is read for the last time there."""
    weights = [draw(32, 32, 1, 1) / 6 for _ in range(6)]
    g = pl.Graph()
    x = g.input("x", (1, 8, 32, 32))
    stem = draw(32, 8, 1, 1)
    g.output(residual_network(g, g.conv2d(x, stem), weights), "y")
    plan, apart = (
        pl.compile(g, device="cpu", layout=layout, tune="off", without=without) for without in (None, "in_place")
    )
    image = draw(1, 8, 32, 32)
    np.testing.assert_allclose(plan.run(image)[0], apart.run(image)[0], atol=1e-4)
    summary = plan.summary()
    assert summary["passes"]["fuse_post_ops"] >= 6
    assert not any(step["kind"] == "copy" for step in summary["steps"])
    # The block's input, which becomes its result, and what lies between: two values instead of three.
    one = 32 * 32 * 32 * 4
    assert summary["memory"]["arena_bytes"] < 2.5 * one
    assert apart.summary()["memory"]["arena_bytes"] >= 3 * one


def test_accumulated_gradients_of_a_plan_are_one_op_each() -> None:
    """A state to which each run adds its gradient: the product adds it, in the state's memory."""
    size = 384
    g = pl.Graph()
    x, t = g.input("x", (32, size)), g.input("t", (32, size))
    w = g.parameter("w", draw(size, size) / 20)
    total = g.state("total", np.zeros((size, size), "f4"))
    error = g.sub(g.linear(x, w), t)
    loss = g.sum(g.mul(error, error))
    (dw,) = g.gradients(loss, [w])
    g.update(total, g.add(total, dw))
    g.output(loss, "loss")
    plan = pl.compile(g, device="cpu", tune="off")
    made = [step["op"] for step in plan.summary()["steps"] if step["kind"] == "op"]
    assert made.count("matmul") == 1 and "add" not in made
    sums = np.zeros((size, size))
    weight = np.asarray(plan.state("w")).astype(np.float64)
    for step in range(3):
        images, targets = draw(32, size), draw(32, size)
        plan.run(images, targets)
        sums += 2 * (images @ weight.T - targets).T.astype(np.float64) @ images
        np.testing.assert_allclose(plan.state("total"), sums, atol=2e-4 * np.abs(sums).max(), err_msg=str(step))


def two_branches(g: pl.Graph, x: Any, weights: list[np.ndarray]) -> tuple[Any, dict[str, Any]]:
    """A residual block whose input is read by two convolutions and a sum."""
    own = {f"w{i}": g.parameter(f"w{i}", w) for i, w in enumerate(weights)}
    x = g.conv2d(x, own["w0"])
    y = g.conv2d(g.relu(g.conv2d(x, own["w1"], padding=1)), own["w2"])
    x = g.relu(g.add(g.add(y, x), g.conv2d(x, own["w3"])))
    return g.mean(g.mul(x, x)), own


def test_gradients_of_branches_are_added_by_products(device: str, untuned: None) -> None:
    """Of the sums of two gradients only the square's, which no product makes, is an op; values as without passes."""
    weights = [draw(*shape) / 4 for shape in ((20, 3, 1, 1), (18, 20, 3, 3), (20, 18, 1, 1), (20, 20, 1, 1))]
    image = draw(2, 3, 9, 8)
    results = []
    for without, left in (("fuse_pointwise", 1), ("fuse_pointwise,fuse_post_ops,fuse_longer_post_ops", 5)):
        g = pl.Graph()
        loss, own = two_branches(g, g.input("x", image.shape), weights)
        for gradient in g.gradients(loss, list(own.values())):
            g.output(gradient)
        plan = pl.compile(g, device=device, tune="off", without=without)
        sums = [step["op"] for step in plan.summary()["steps"] if step["kind"] == "op"].count("add")
        assert sums == left
        results.append(plan.run(image))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5 * max(1e-2, np.abs(expected).max()))
