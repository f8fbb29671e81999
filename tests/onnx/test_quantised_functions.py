"""Quantised ops of com.microsoft against the numbers that their integers stand for."""

from __future__ import annotations

from typing import Any

import numpy
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


def test_every_converter_has_a_case() -> None:
    named = {entry.op for entries in converters().values() for entry in entries if entry.domain == DOMAIN}
    assert named == {*CASES, "QGemm", "DequantizeLinear"}


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
def test_qgemm(transposed: int, quantised: bool) -> None:
    q = draw(5, 24)
    w = numpy.random.default_rng(1).integers(-128, 128, (24, 16)).astype(numpy.int8)
    scale = numpy.random.default_rng(2).uniform(0.001, 0.003, 16).astype(numpy.float32)
    bias = numpy.random.default_rng(3).integers(-2000, 2000, 16).astype(numpy.int32)
    expected = real(q, *A) @ (w * scale.astype("f8")) + bias * (numpy.float64(A[0]) * scale)
    inputs = [
        q,
        *A,
        w.T.copy() if transposed else w,
        scale,
        numpy.zeros(16, numpy.int8),
        bias,
        *(Y if quantised else ()),
    ]
    (made,) = run(model("QGemm", inputs, 0, transB=transposed), q)
    if quantised:
        close(made, stored(expected, *Y))
    else:
        numpy.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)


def test_dequantised() -> None:
    (made,) = run(model("DequantizeLinear", [a, *A], 0), a)
    numpy.testing.assert_allclose(made, x, rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("QLinearAdd", [a, numpy.full(8, 0.1, "f4"), A[1], b, *B, *Y], {}, "input 1 has shape .8., expected one scale"),
        ("QLinearGlobalAveragePool", [a, *A, *Y], {"channels_last": 1}, "channels_last is 1, expected 0"),
        ("QLinearSoftmax", [a, *A, *Y], {"opset": 11}, "opset is 11, expected 13 or later"),
        ("QLinearConcat", [*Y, a, A[0]], {"axis": 1}, "4 inputs, expected"),
        ("QGemm", [a, *A, b, *B], {}, "A has rank 4 and B rank 4"),
        ("QGemm", [draw(4, 4), *A, draw(4, 4), *B], {"alpha": 2.0}, "alpha is 2.0, expected 1"),
        ("QLinearSigmoid", [a, A[0]], {}, "input 3 is missing"),
    ],
)
def test_what_is_refused(op: str, inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(pl.Error, match=message):
        run(model(op, inputs, None if op == "QLinearConcat" else 0, **attributes), *inputs[:1])
