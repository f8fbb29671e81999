"""Quantised ops of com.microsoft against the numbers that their integers stand for."""

from __future__ import annotations

from typing import Any

import numpy
import onnx
import pytest
from onnx_models import helper, model_of, run

import pylayout as pl
from pylayout.onnx.registry import converters

DOMAIN = "com.microsoft"
A = (numpy.float32(0.02), numpy.uint8(100))
B = (numpy.float32(0.031), numpy.uint8(50))
Y = (numpy.float32(0.0457), numpy.uint8(90))


def draw(*shape: int) -> Any:
    return numpy.random.default_rng(shape).integers(0, 256, shape).astype(numpy.uint8)


def real(q: Any, scale: Any, zero: Any) -> Any:
    return (q.astype(numpy.float64) - numpy.float64(zero)) * numpy.float64(scale)


def stored(y: Any, scale: Any, zero: Any) -> Any:
    info = numpy.iinfo(zero.dtype)
    return numpy.clip(numpy.round(y / numpy.float64(scale)) + int(zero), info.min, info.max).astype(zero.dtype)


def averaged(x: Any) -> Any:
    padded = numpy.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    counts = numpy.pad(numpy.ones(x.shape[2:]), 1)
    windows = [(slice(i, i + x.shape[2]), slice(j, j + x.shape[3])) for i in range(3) for j in range(3)]
    return sum(padded[:, :, i, j] for i, j in windows) / sum(counts[i, j] for i, j in windows)


a, b = draw(1, 8, 6, 5), draw(1, 8, 6, 5)[:, ::-1].copy()
x, other = real(a, *A), real(b, *B)
F = numpy.ones(7, "f4")
CASES: dict[str, tuple[list[Any], Any, dict[str, Any]]] = {
    "QLinearAdd": ([a, *A, b, *B, *Y], x + other, {}),
    "QLinearMul": ([a, *A, b, *B, *Y], x * other, {}),
    "QLinearSigmoid": ([a, *A, *Y], 1 / (1 + numpy.exp(-x)), {}),
    "QLinearLeakyRelu": ([a, *A, *Y], numpy.where(x > 0, x, 0.2 * x), {"alpha": 0.2}),
    "QLinearSoftmax": ([a, *A, *Y], numpy.exp(x) / numpy.exp(x).sum(1, keepdims=True), {"axis": 1, "opset": 13}),
    "QLinearAveragePool": ([a, *A, *Y], averaged(x), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "QLinearGlobalAveragePool": ([a, *A, *Y], x.mean((2, 3), keepdims=True), {}),
    "QLinearConcat": ([*Y, a, *A, b, *B], numpy.concatenate([x, other], 1), {"axis": 1}),
    "QuantizeLinear": ([x.astype("f4"), *Y], x, {}),
}


LAST = {
    "QLinearAveragePool": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    "QLinearGlobalAveragePool": {},
    "QLinearConv": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 1]},
}


@pytest.mark.parametrize("op", LAST)
def test_channels_last(op: str) -> None:
    weight = [draw(4, 8, 3, 3), *B] if op == "QLinearConv" else []
    inputs = [a, *A, *weight, *Y]
    (expected,) = run(model(op, inputs, 0, **LAST[op]), a)
    turned = numpy.ascontiguousarray(a.transpose(0, 2, 3, 1))
    (made,) = run(model(op, [turned, *inputs[1:]], 0, channels_last=1, **LAST[op]), turned)
    close(made.transpose(0, 3, 1, 2), expected)


PRODUCTS = {"MatMulIntegerToFloat", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"}


def test_every_converter_has_a_case() -> None:
    entries = [entry for group in converters().values() for entry in group if entry.domain == DOMAIN]
    fused = "pylayout.onnx.convert.fused"  # test_fused_ops.py
    named = {entry.op for entry in entries if not entry.function.__module__.startswith(fused)}
    elsewhere = {"Trilu", "GatherBlockQuantized"}  # test_fused_ops.py, test_quantised_tables.py
    assert named == {*CASES, *elsewhere, "QGemm", "QLinearConv", "DequantizeLinear", "MatMulNBits", *PRODUCTS}


def model(op: str, inputs: list[Any], given: int | None, **attributes: Any) -> Any:
    """Of one node; input `given` is the model's, the others are initialisers. None: all are."""
    names = [f"i{k}" for k in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], domain=DOMAIN, **attributes)
    constants = {name: value for k, (name, value) in enumerate(zip(names, inputs, strict=True)) if k != given}
    feeds = {} if given is None else {names[given]: inputs[given]}
    return model_of([node], feeds, ["y"], 17, {k: numpy.asarray(v) for k, v in constants.items()}, domains={DOMAIN: 1})


def close(made: Any, expected: Any) -> None:
    away = numpy.abs(made.astype("i8") - expected.astype("i8"))
    assert made.dtype == expected.dtype and made.shape == expected.shape
    assert away.max() <= 1 and (away > 0).mean() < 0.01, away.max()


@pytest.mark.parametrize("op", CASES)
def test_against_numbers(op: str) -> None:
    inputs, expected, attributes = CASES[op]
    given = 2 if op == "QLinearConcat" else 0
    (made,) = run(model(op, inputs, given, **attributes), inputs[given])
    close(made, stored(expected, *Y))


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_qgemm(transposed: int, quantised: bool, alpha: float) -> None:
    q = draw(5, 24)
    w = numpy.random.default_rng(1).integers(-128, 128, (24, 16)).astype(numpy.int8)
    scale = numpy.random.default_rng(2).uniform(0.001, 0.003, 16).astype(numpy.float32)
    bias = numpy.random.default_rng(3).integers(-2000, 2000, 16).astype(numpy.int32)
    expected = real(q, *A) @ (w * scale.astype("f8")) + bias * (numpy.float64(A[0]) * scale)
    expected = alpha * expected  # C is in units of alpha, too
    inputs = [
        q,
        *A,
        w.T.copy() if transposed else w,
        scale,
        numpy.zeros(16, numpy.int8),
        bias,
        *(Y if quantised else ()),
    ]
    (made,) = run(model("QGemm", inputs, 0, transB=transposed, alpha=alpha), q)
    if quantised:
        close(made, stored(expected, *Y))
    else:
        numpy.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)


def test_dequantised() -> None:
    (made,) = run(model("DequantizeLinear", [a, *A], 0), a)
    numpy.testing.assert_allclose(made, x, rtol=1e-6)


def packed(values: Any, bits: int) -> Any:
    """Rows of numbers of so many bits, in bytes; the last byte of a row is filled with zeros."""
    each = 8 // bits
    filled = numpy.pad(values, [(0, 0), (0, -values.shape[1] % each)]).reshape(values.shape[0], -1, each)
    parts = [filled[:, :, i].astype("u1") << (bits * i) for i in range(each)]
    return numpy.sum(parts, axis=0).astype("u1")


@pytest.mark.parametrize("zeros", ["default", "packed", "real"])
@pytest.mark.parametrize(("bits", "k", "block"), [(2, 48, 16), (4, 64, 32), (4, 80, 16), (4, 70, 16), (8, 40, 32)])
def test_products_of_few_bits(bits: int, k: int, block: int, zeros: str) -> None:
    rng = numpy.random.default_rng(k)
    n, blocks = 19, -(-k // block)
    w = rng.integers(0, 1 << bits, (n, blocks * block))
    scale = rng.uniform(0.01, 0.02, (n, blocks)).astype("f4")
    zero = rng.integers(0, 1 << bits, (n, blocks))
    given: list[Any] = []
    if zeros == "default":
        zero[:] = 1 << (bits - 1)
    else:
        given = [packed(zero, bits) if zeros == "packed" else zero.astype("f4")]
    q = rng.standard_normal((2, 3, k)).astype("f4")
    inputs = [q, packed(w, bits).reshape(n, blocks, -1), scale, *given]
    (made,) = run(model("MatMulNBits", inputs, 0, K=k, N=n, bits=bits, block_size=block), q)
    groups = numpy.arange(k) // block
    real_w = (w[:, :k] - zero[:, groups]) * scale.astype("f8")[:, groups]
    numpy.testing.assert_allclose(made, q.astype("f8") @ real_w.T, rtol=1e-5, atol=1e-5)


def test_groups_and_bias_of_products_of_few_bits() -> None:
    rng = numpy.random.default_rng(5)
    w, scale = rng.integers(0, 16, (6, 32)), rng.uniform(0.01, 0.02, (6, 2)).astype("f4")
    groups, bias = rng.integers(0, 2, 32).astype("i4"), rng.standard_normal(6).astype("f4")
    q = rng.standard_normal((4, 32)).astype("f4")
    zero = numpy.full((6, 2), 5)
    inputs = [q, packed(w, 4).reshape(6, 2, 8), scale, packed(zero, 4), groups, bias]
    (made,) = run(model("MatMulNBits", inputs, 0, K=32, N=6, bits=4, block_size=16), q)
    expected = q.astype("f8") @ ((w - 5) * scale.astype("f8")[:, groups]).T + bias
    numpy.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", ["raw", "field"])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("block", [0, 3])
def test_dequantised_from_four_bits(signed: bool, block: int, form: str) -> None:
    """Constants of odd length, in pairs to a byte; scales by column, or for blocks of rows."""
    rng = numpy.random.default_rng(block)
    low = -8 if signed else 0
    q, zero = rng.integers(low, low + 16, (7, 5)), rng.integers(low, low + 16, (3, 5) if block else (5,))
    scale = rng.uniform(0.1, 0.2, zero.shape).astype("f4")
    kind = onnx.TensorProto.INT4 if signed else onnx.TensorProto.UINT4
    tensors = []
    for name, values in (("q", q), ("z", zero)):
        data = packed(values.reshape(1, -1) & 15, 4).tobytes() if form == "raw" else values.reshape(-1).tolist()
        tensors.append(helper.make_tensor(name, kind, values.shape, data, raw=form == "raw"))
    attributes: dict[str, Any] = {"axis": 0, "block_size": block} if block else {"axis": 1}
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], **attributes),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    x = rng.standard_normal((2, 7)).astype("f4")
    made_model = model_of(nodes, {"x": x}, ["y"], 21, {"s": scale})
    made_model.graph.initializer.extend(tensors)
    (made,) = run(made_model, x)
    rows = numpy.arange(7) // block if block else slice(None)
    real_w = (q - zero[rows]) * scale.astype("f8")[rows] if block else (q - zero) * scale.astype("f8")
    numpy.testing.assert_allclose(made, x.astype("f8") @ real_w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("QLinearAdd", [a, numpy.full(8, 0.1, "f4"), A[1], b, *B, *Y], {}, "input 1 has shape .8., expected one scale"),
        ("QLinearSoftmax", [a, *A, *Y], {"opset": 11}, "opset is 11, expected 13 or later"),
        ("QLinearConcat", [*Y, a, A[0]], {"axis": 1}, "4 inputs, expected"),
        ("QGemm", [a, *A, b, *B], {}, "A has rank 4 and B rank 4"),
        ("QLinearSigmoid", [a, A[0]], {}, "input 3 is missing"),
        ("MatMulNBits", [F, a, F], {"K": 4, "N": 2, "bits": 3, "block_size": 16}, "bits is 3, expected 2, 4 or 8"),
        (
            "MatMulNBits",
            [F, a, F],
            {"K": 4, "N": 2, "block_size": 16},
            r"B has 240 elements of uint8, expected 2 . 1 . 8",
        ),
        (
            "MatMulNBits",
            [F, a[0, 0, :4, :4], F],
            {"K": 4, "N": 2, "block_size": 16},
            "scales has 7 elements, expected 2",
        ),
    ],
)
def test_what_is_refused(op: str, inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(pl.Error, match=message):
        run(model(op, inputs, None if op == "QLinearConcat" else 0, **attributes), *inputs[:1])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("columns", [False, True])
def test_products_of_integers_in_floats(rank: int, columns: bool) -> None:
    p, q, bias = draw(2, 3, 8)[(0,) * (3 - rank)], draw(8, 5), numpy.arange(5, dtype="f4")
    scale, zero = (numpy.linspace(0.01, 0.05, 5, dtype="f4"), draw(5)) if columns else B
    expected = real(p, *A) @ real(q, scale, zero) + bias
    made = run(model("MatMulIntegerToFloat", [p, q, A[0], scale, A[1], zero, bias], 0), p)[0]
    numpy.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)
    made = run(model("MatMulIntegerToFloat", [p, q, A[0], scale], 0), p)[0]  # no zero points
    numpy.testing.assert_allclose(made, real(p, A[0], 0) @ real(q, scale, 0), rtol=1e-5, atol=1e-5)


def test_a_scale_for_each_row_of_a_is_refused() -> None:
    scales = numpy.ones(3, "f4")
    with pytest.raises(pl.UnsupportedError, match=r"MatMulIntegerToFloat.*input 2 has shape \[3\], expected one scale"):
        run(model("MatMulIntegerToFloat", [draw(3, 8), draw(8, 5), scales, B[0]], 0))


@pytest.mark.parametrize("moved", [-3.0, 0.0, 4.0, None])
def test_products_of_floats_quantised_in_the_run(moved: float | None) -> None:
    x = numpy.random.default_rng(3).standard_normal((2, 3, 8)).astype("f4") + (moved or 0)
    x = x * (moved is not None)  # else zeros
    q, bias = draw(8, 5), numpy.arange(5, dtype="f4")
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = (high - low) / 255 if high > low else 1
    zero = numpy.round(-low / scale)
    stored = numpy.clip(numpy.round(x / scale) + zero, 0, 255)
    made = run(model("DynamicQuantizeMatMul", [x, q, *B, bias], 0), x)[0]
    expected = (stored - zero) * scale @ real(q, *B) + bias
    numpy.testing.assert_allclose(made, expected, rtol=1e-4, atol=scale * numpy.abs(real(q, *B)).max() * 1.01)
    assert numpy.abs(made - expected).mean() < 1e-3  # a number half way between two integers may go either way


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("columns", [False, True])
def test_lstm_of_quantised_weights(directions: int, columns: bool) -> None:
    random = numpy.random.default_rng(5)
    x, b = random.standard_normal((4, 2, 6)).astype("f4"), random.standard_normal((directions, 40)).astype("f4")
    way = {"hidden_size": 5, "direction": "bidirectional" if directions == 2 else "forward"}
    inputs, plain = [x], [x]
    parameters = []
    for rows in (6, 5):
        q = draw(directions, rows, 20).astype("i2").astype("i1") if rows == 5 else draw(directions, rows, 20)
        shape = (directions, 20) if columns else (directions,)
        scale, zero = random.uniform(0.001, 0.004, shape).astype("f4"), random.integers(0, 9, shape).astype(q.dtype)
        inputs.append(q)
        column = (directions, 1, -1)
        plain.append(real(q, scale.reshape(column), zero.reshape(column)).astype("f4").transpose(0, 2, 1).copy())
        parameters += [scale, zero]
    state = numpy.zeros((directions, 2, 5), "f4")
    names = ["x", "w", "r", "b", "", "h", "c", "", "sw", "zw", "sr", "zr"]
    given = dict(zip([n for n in names if n], [*inputs, b, state, state, *parameters], strict=True))
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y"], domain=DOMAIN, **way)
    made = run(model_of([node], {"x": given.pop("x")}, ["y"], 17, given, domains={DOMAIN: 1}), x)[0]
    node = helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], **way)
    weights = {"w": plain[1], "r": plain[2], "b": b}
    numpy.testing.assert_allclose(made, run(model_of([node], {"x": x}, ["y"], 17, weights), x)[0], rtol=1e-5, atol=1e-6)
