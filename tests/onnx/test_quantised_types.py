"""QuantizeLinear and DequantizeLinear of 16-bit integers and of floats of 8 bits, as quantisers write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx_models import helper, model_of

import pylayout as pl


def quantising(
    nodes: list[Any], constants: dict[str, Any], dims: Any = (2, 3, 4), kind: int = TensorProto.FLOAT
) -> Any:
    return model_of(nodes, {"x": (kind, dims)}, ["y"], 21, constants, domains={"com.microsoft": 1})


def quantised(x: Any, scale: Any, zero: Any) -> Any:
    """As ONNX defines it, in double precision; the same integers where no quotient is a tie in one of both."""
    info = np.iinfo(zero.dtype)
    return np.clip(np.rint(x / scale) + zero.astype(np.float64), info.min, info.max)


def column(parameter: Any, axis: int) -> Any:
    shape = [1, 1, 1]
    shape[axis] = parameter.size
    return parameter.astype(np.float64).reshape(shape if parameter.ndim else ())


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_numbers_that_go_through_16_bits(dtype: str, axis: int | None, domain: str) -> None:
    rng = np.random.default_rng(axis)
    x = (rng.standard_normal((2, 3, 4)) * 3).astype("f4")
    x.flat[:4] = [1e9, -1e9, 0, -0.0]
    sizes = () if axis is None else x.shape[axis]
    scale = np.asarray(rng.uniform(1e-4, 2e-4, sizes), "f4")
    zero = np.asarray(rng.integers(0, 30000, sizes), dtype)
    attributes = {} if axis is None else {"axis": axis}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], domain=domain, **attributes),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], domain=domain, **attributes),
    ]
    plan = pl.compile(quantising(nodes, {"s": scale, "z": zero}), device="cpu")
    s, z = column(scale, axis or 0), column(zero, axis or 0)
    expected = (quantised(x.astype(np.float64), s, z.astype(dtype)) - z) * s
    np.testing.assert_allclose(plan.run(x)[0], expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("blocks", [False, True])
def test_weights_of_16_bits(blocks: bool, zero: bool) -> None:
    rng = np.random.default_rng(3)
    w = rng.integers(-32768, 32768, (4, 6)).astype("int16")
    shape = (2, 6) if blocks else (6,)
    scale = rng.uniform(1e-5, 1e-4, shape).astype("f4")
    points = rng.integers(-99, 99, shape).astype("int16")
    inputs, constants = ["w", "s"], {"w": w, "s": scale}
    if zero:
        inputs.append("z")
        constants["z"] = points
    attributes = {"axis": 0, "block_size": 2} if blocks else {"axis": 1}
    nodes = [
        helper.make_node("DequantizeLinear", inputs, ["real"], **attributes),
        helper.make_node("MatMul", ["x", "real"], ["y"]),
    ]
    plan = pl.compile(quantising(nodes, constants), device="cpu")
    s, z = (np.repeat(each, 2, 0) if blocks else each for each in (scale.astype("f8"), points.astype("f8") * zero))
    x = rng.standard_normal((2, 3, 4)).astype("f4")
    np.testing.assert_allclose(plan.run(x)[0], x @ ((w - z) * s), rtol=1e-5, atol=1e-5)


def test_a_network_of_16_bit_activations_and_8_bit_weights() -> None:
    """Every value between its layers goes through 16 bits."""
    rng = np.random.default_rng(4)
    constants: dict[str, Any] = {"s": np.float32(2e-4), "z": np.uint16(30000)}
    constants["w"] = rng.integers(-128, 128, (5, 3, 3, 3)).astype("int8")
    constants["ws"] = np.float32(0.01)
    nodes = []
    for i, name in enumerate(["x", "c", "r"]):
        nodes.append(helper.make_node("QuantizeLinear", [name, "s", "z"], [f"q{i}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}" if i < 2 else "y"]))
    nodes.insert(2, helper.make_node("DequantizeLinear", ["w", "ws"], ["dw"]))
    nodes.insert(3, helper.make_node("Conv", ["d0", "dw"], ["c"], pads=[1, 1, 1, 1]))
    nodes.insert(6, helper.make_node("Relu", ["d1"], ["r"]))
    x = rng.standard_normal((1, 3, 8, 8)).astype("f4")
    made = pl.compile(quantising(nodes, constants, dims=("n", 3, 8, 8)), device="cpu").run(x)[0]

    def through(v: Any) -> Any:
        s, z = float(constants["s"]), constants["z"]
        return (quantised(np.asarray(v, "f8"), s, z) - float(z)) * s

    padded = np.pad(through(x), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    expected = np.einsum("ncijhw,ochw->noij", windows, constants["w"] * float(constants["ws"]))
    expected = through(np.maximum(through(expected), 0))
    assert np.abs(made - expected).max() < 3 * float(constants["s"])  # ties round to either side


@pytest.mark.parametrize("blocks", [False, True])
def test_16_bits_that_others_read(blocks: bool) -> None:
    """As results, and as inputs: the host computes them."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 3, 4)).astype("f4")
    scale = rng.uniform(1e-4, 2e-4, (2, 3, 2) if blocks else 3).astype("f4")
    zero = rng.integers(0, 30000, scale.shape).astype("uint16")
    attributes = {"axis": 2, "block_size": 2} if blocks else {"axis": 1}
    s, z = (np.repeat(each, 2, 2) if blocks else each.reshape(1, 3, 1) for each in (scale, zero))
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], **attributes)
    made = pl.compile(quantising([node], {"s": scale, "z": zero}), device="cpu").run(x)[0]
    expected = quantised(x.astype("f8"), s.astype("f8"), z)
    assert np.asarray(made).dtype == "uint16"
    assert np.abs(np.asarray(made, "f8") - expected).max() <= 1  # ties round to either side
    assert (made == expected).mean() > 0.9
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], **attributes)
    model = quantising([node], {"s": scale, "z": zero}, kind=TensorProto.UINT16)
    real = pl.compile(model, device="cpu").run(made)[0]
    np.testing.assert_allclose(real, (np.asarray(made, "f8") - z) * s, rtol=1e-6)


def test_within_segments() -> None:
    """A plan by segments knows who reads a value, too."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Cast", ["places"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("QuantizeLinear", ["floats", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    plan = pl.compile(quantising(nodes, {"s": np.float32(0.5), "z": np.int16(-7)}, dims=(3, 4)), device="cpu")
    x = np.eye(3, 4, dtype="f4")
    np.testing.assert_array_equal(plan.run(x)[0], np.stack(np.nonzero(x)).astype("f4"))


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT8E4M3FNUZ", "FLOAT8E5M2FNUZ"])
def test_floats_of_8_bits(name: str) -> None:
    """Weights as constants, in the file's bytes and in numbers; activations on the host."""
    data_type = getattr(TensorProto, name)
    dtype = helper.tensor_dtype_to_np_dtype(data_type)
    rng = np.random.default_rng(6)
    w = rng.standard_normal((4, 6)).astype(dtype)
    scale = rng.uniform(0.1, 0.2, 6).astype("f4")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["real"], axis=1),
        helper.make_node("MatMul", ["d", "real"], ["y"]),
    ]
    x = (rng.standard_normal((2, 3, 4)) * 9).astype("f4")
    x.flat[0] = 1e9
    through = np.clip(x / np.float32(0.03), *(float(each) for each in limits_of(dtype))).astype(dtype).astype("f8")
    expected = through * np.float32(0.03) @ (w.astype("f8") * scale)
    for raw in (True, False):
        model = quantising(nodes, {"s": scale, "xs": np.float32(0.03)})
        for given, array in (("w", w), ("xz", np.zeros((), dtype))):
            bits = array.view("uint8")
            stored = helper.make_tensor(given, data_type, array.shape, bits.tobytes(), raw=True)
            if not raw:
                stored.ClearField("raw_data")
                stored.int32_data.extend(bits.reshape(-1).tolist())
            model.graph.initializer.append(stored)
        made = pl.compile(model, device="cpu").run(x)[0]
        np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-4 * np.abs(expected).max())


def limits_of(dtype: Any) -> tuple[Any, Any]:
    limits = pytest.importorskip("ml_dtypes").finfo(dtype)
    return limits.min, limits.max
