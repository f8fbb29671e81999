"""Fourier transforms at sizes known late, and what exporters write of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811

import pylayout as pl  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")


def compiled(nodes: str, shape: str = "n, m, k", opset: int = 20, parts: int = 1, device: str = "cpu") -> Any:
    """A plan that may not be made again for other sizes."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : {opset}]>
        agraph (float[{shape}, {parts}] x) => (float[a, b, c, d] y) {{ {nodes} }}"""
    )
    plan = pl.compile(model, device=device, tune="off")
    plan._graph_for = None
    return plan


def randn(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def complex_of(x: Any) -> Any:
    return x[..., 0].astype("f8") + (1j * x[..., 1] if x.shape[-1] == 2 else 0)


def assert_close(got: Any, wanted: Any) -> None:
    real = np.stack([wanted.real, wanted.imag], -1) if np.iscomplexobj(wanted) else wanted[..., None]
    assert got.shape == real.shape
    np.testing.assert_allclose(got, real, rtol=0, atol=5e-6 * max(1.0, np.abs(real).max()))


LENGTHS = [(1, 4, 5), (2, 3, 64), (3, 1, 31), (1, 2, 1), (1, 1, 300)]


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("inverse", [0, 1])
def test_lengths_known_late(parts: int, inverse: int, device: str) -> None:
    plan = compiled(f"y = DFT<inverse = {inverse}>(x)", parts=parts, device=device)
    along = compiled(f"a = Constant<value_int = 0>() y = DFT<inverse = {inverse}>(x, , a)", parts=parts, device=device)
    for shape in LENGTHS:
        x = randn(*shape, parts)
        transform = np.fft.ifft if inverse else np.fft.fft
        assert_close(plan.run(x)[0], transform(complex_of(x)))
        x = x.transpose(2, 1, 0, 3).copy()
        assert_close(along.run(x)[0], transform(complex_of(x), axis=0))


def test_halves_of_lengths_known_late(device: str) -> None:
    plan = compiled("y = DFT<onesided = 1>(x)", device=device)
    back = compiled("y = DFT<onesided = 1, inverse = 1>(x)", parts=2, device=device)
    given = compiled(
        "s = Shape<start = 1, end = 2>(x) o = Constant<value_ints = [1]>() q = Squeeze(s) "
        "y = DFT<onesided = 1, inverse = 1>(x, q)",
        parts=2,
        device=device,
    )
    for shape in LENGTHS:
        x = randn(*shape, 1)
        assert_close(plan.run(x)[0], np.fft.rfft(x[..., 0].astype("f8")))
        if shape[-1] > 1:
            x = randn(*shape, 2)
            assert_close(back.run(x)[0], np.fft.irfft(complex_of(x)))
        for length in (shape[1], shape[1] + 7):  # fewer numbers than there are, and more
            x = randn(shape[0], length, shape[2], 2)
            assert_close(given.run(x)[0], np.fft.irfft(complex_of(x), length))


@pytest.mark.parametrize("length", [1, 13, 400, 512, 1000, 1536, 4999, 8192, 16000])
def test_any_known_length(length: int) -> None:
    """Products, products of parts, and convolutions: as exact for all."""
    x = randn(2, 1, length, 2)
    k = f"k = Constant<value_int = {length}>()"
    for parts in (1, 2):
        plan = compiled(f"{k} y = DFT(x, k)", f"n, 1, {length}", parts=parts)
        assert_close(plan.run(x[..., :parts])[0], np.fft.fft(complex_of(x[..., :parts])))
    plan = compiled(f"{k} y = DFT<inverse = 1>(x, k)", f"n, 1, {length}", parts=2)
    assert_close(plan.run(x)[0], np.fft.ifft(complex_of(x)))


def test_a_long_transform_on_every_device(device: str) -> None:
    x = randn(2, 1, 1536, 1)
    assert_close(compiled("y = DFT(x)", "2, 1, 1536", device=device).run(x)[0], np.fft.fft(complex_of(x)))


def test_a_long_transform_takes_no_matrix_of_its_square() -> None:
    plan = compiled("y = DFT(x)", "1, 1, 16384", parts=1)
    assert plan.summary()["memory"]["constant_bytes"] < 1 << 21


@pytest.mark.parametrize("window", ["", "w"])
def test_frames_of_signals_of_any_length(window: str, device: str) -> None:
    w = np.hanning(48).astype("f4") if window else np.ones(48, "f4")
    text = "{" + ", ".join(map(str, w)) + "}"
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 17]>
        agraph (float[n, m, 1] x) => (float[n, f, 25, 2] y) <float[48] w = {text}> {{
            step = Constant<value_int = 20>()
            length = Constant<value_int = 48>()
            y = STFT<onesided = 1>(x, step, {window}, length)
        }}"""
    )
    plan = pl.compile(model, device=device, tune="off")
    for n, length in ((1, 48), (2, 67), (3, 68), (1, 1000), (2, 501)):
        x = randn(n, length, 1)
        frames = np.lib.stride_tricks.sliding_window_view(x[..., 0].astype("f8"), 48, 1)[:, ::20]
        assert_close(plan.run(x)[0], np.fft.rfft(frames * w))


@pytest.mark.parametrize(
    ("nodes", "parts", "why"),
    [
        ("y = DFT<onesided = 1>(x)", 2, "input has last size 2, expected 1"),
        ("y = DFT<onesided = 1, inverse = 1>(x)", 1, "input has last size 1, expected 2"),
        ("y = DFT(x)", 3, "input has last size 3, expected 1 or 2"),
        ("a = Constant<value_int = 3>() y = DFT(x, , a)", 1, "axis is 3 of shape .*, expected one before the last"),
        ("k = Constant<value_int = 0>() y = DFT(x, k)", 1, "dft_length is 0, expected at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(nodes: str, parts: int, why: str) -> None:
    with pytest.raises(pl.Error, match=why):
        compiled(nodes, "2, 3, 8", parts=parts)
