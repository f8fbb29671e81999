"""Weights of 4 and 8 bits behind DequantizeLinear: kept as they are where a product takes them, floats elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

import pylayout as pl  # noqa: E402

KINDS = {"UINT4": (0, 16), "INT4": (-8, 8), "UINT8": (0, 256), "INT8": (-128, 128)}


def tensor(name: str, kind: str, array: Any) -> Any:
    """An initialiser; numbers of 4 bits lie two to a byte."""
    return helper.make_tensor(name, getattr(TensorProto, kind), array.shape, array.reshape(-1).tolist())


class Layer:
    """x @ w + bias with w (k, n) behind DequantizeLinear, in one of the forms that tools write."""

    def __init__(
        self,
        rng: Any,
        kind: str,
        k: int,
        n: int,
        block: int,
        axis: int = 0,
        zero: bool = True,
        form: str = "MatMul",
        shares: int = 1,
    ) -> None:
        """block: 0 for one scale a column (axis 1 of w), -1 for one scale. axis: of w, along which blocks lie."""
        low, high = KINDS[kind]
        self.w = rng.integers(low, high, (k, n))
        blocks = [-(-size // block) if at == axis and block > 0 else size for at, size in enumerate((k, n))]
        scales = blocks if block > 0 else [n] if block == 0 else []
        self.scale = np.asarray(rng.uniform(0.5, 1.0, scales) / (high - low), "f4")
        self.zero = np.asarray(rng.integers(low, high, scales) if zero else np.zeros(scales, "i8"))
        self.k, self.block, self.axis = k, block, axis
        self.bias = rng.standard_normal(n).astype("f4")
        stored, scale, points = self.w, self.scale, self.zero
        attributes: dict[str, Any] = {"block_size": block, "axis": axis} if block > 0 else {"axis": 1}
        if form in ("Transpose", "Gemm turned"):
            stored, scale, points = self.w.T, scale.T, points.T
            attributes["axis"] = 1 - attributes["axis"]
        parts = [tensor("w", kind, stored), helper.make_tensor("s", 1, scale.shape, scale.reshape(-1).tolist())]
        parts += [tensor("z", kind, points)] * zero + [helper.make_tensor("b", 1, (n,), self.bias.tolist())]
        nodes = [helper.make_node("DequantizeLinear", ["w", "s"] + ["z"] * zero, ["real"], **attributes)]
        if form == "Transpose":
            nodes.append(helper.make_node("Transpose", ["real"], ["turned"], perm=[1, 0]))
        weight = nodes[-1].output[0]
        for i in range(shares):
            if form.startswith("Gemm"):
                nodes.append(helper.make_node("Gemm", [f"x{i}", weight, "b"], [f"y{i}"], transB=int("turned" in form)))
            else:
                nodes.append(helper.make_node("MatMul", [f"x{i}", weight], [f"p{i}"]))
                nodes.append(helper.make_node("Add", [f"p{i}", "b"], [f"y{i}"]))
        shape = ["m", k] if form.startswith("Gemm") else ["m", 2, k]
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info(f"x{i}", 1, shape) for i in range(shares)],
            [helper.make_tensor_value_info(f"y{i}", 1, [*shape[:-1], n]) for i in range(shares)],
            parts,
        )
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        self.shape = shape[1:]

    def x(self, rng: Any, m: int) -> Any:
        return rng.standard_normal((m, *self.shape)).astype("f4")

    def weight(self) -> Any:
        scale, zero = self.scale.astype("f8"), self.zero
        if self.block > 0:
            places = np.arange(self.w.shape[self.axis]) // self.block
            scale, zero = scale.take(places, self.axis), zero.take(places, self.axis)
        return (self.w - zero) * scale

    def wanted(self, x: Any) -> Any:
        return x.astype("f8") @ self.weight() + self.bias


def ops_of(plan: Any) -> list[str]:
    return [choice["op"] for choice in plan.summary()["choices"]]


@pytest.mark.parametrize("form", ["MatMul", "Transpose", "Gemm", "Gemm turned"])
@pytest.mark.parametrize(
    ("kind", "k", "n", "block", "zero"),
    [
        ("UINT4", 64, 24, 32, True),
        ("UINT4", 64, 24, 16, False),
        ("INT4", 96, 33, 32, True),
        ("INT4", 70, 17, 32, False),  # the last block is not full
        ("INT4", 37, 5, 16, True),
        ("UINT4", 13, 1, 2, True),
        ("INT4", 33, 7, 0, True),  # one scale a column, an odd number of rows
        ("UINT4", 40, 7, 0, False),
        ("INT4", 21, 6, -1, False),
        ("INT8", 64, 24, 32, False),
        ("UINT8", 50, 9, 16, True),
        ("INT8", 9, 3, 1, True),
    ],
)
def test_products_keep_the_bits(form: str, kind: str, k: int, n: int, block: int, zero: bool, device: str) -> None:
    rng = np.random.default_rng(k * n)
    layer = Layer(rng, kind, k, n, block, zero=zero, form=form)
    plan = pl.compile(layer.model, device=device, tune="off")
    if device == "cpu":
        assert "linear_nbits" in ops_of(plan)
    for m in (1, 3, 40):
        x = layer.x(rng, m)
        np.testing.assert_allclose(plan.run(x)[0], layer.wanted(x), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("kind", "block", "axis", "why"),
    [
        ("INT4", 16, 1, "blocks across the sum"),
        ("INT4", 3, 0, "blocks of no whole bytes"),
        ("INT8", 0, 0, "an op of its own"),
    ],
)
def test_what_is_cut_otherwise_becomes_floats(kind: str, block: int, axis: int, why: str, device: str) -> None:
    rng = np.random.default_rng(3)
    layer = Layer(rng, kind, 48, 32, block, axis)
    plan = pl.compile(layer.model, device=device, tune="off")
    assert "linear_nbits" not in ops_of(plan), why
    x = layer.x(rng, 5)
    np.testing.assert_allclose(plan.run(x)[0], layer.wanted(x), rtol=2e-5, atol=2e-5)


def test_layers_that_share_a_weight_share_its_bytes(tmp_path: Any) -> None:
    rng = np.random.default_rng(4)
    k, n = 256, 512
    layer = Layer(rng, "INT4", k, n, 32, shares=3)
    plan = pl.compile(layer.model, device="cpu", tune="off")
    assert ops_of(plan).count("linear_nbits") == 3
    given = [layer.x(rng, 2) for _ in range(3)]
    for x, y in zip(given, plan.run(*given), strict=True):
        np.testing.assert_allclose(y, layer.wanted(x), rtol=2e-5, atol=2e-5)
    plan.save(str(tmp_path / "few.plan"))
    assert (tmp_path / "few.plan").stat().st_size < k * n  # bytes of the numbers, scales and zero points: 0.7 of it


def test_other_uses_see_floats() -> None:
    """A table of look-ups that is the weight of a product, too."""
    rng = np.random.default_rng(5)
    layer = Layer(rng, "UINT4", 64, 16, 32)
    graph = layer.model.graph
    graph.node.append(helper.make_node("Gather", ["real", "i"], ["rows"], axis=0))
    graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, ["c"]))
    graph.output.append(helper.make_tensor_value_info("rows", 1, ["c", 16]))
    plan = pl.compile(layer.model, device="cpu", tune="off")
    x, places = layer.x(rng, 2), np.array([3, 0, 63])
    y, rows = plan.run(x, places)
    np.testing.assert_allclose(y, layer.wanted(x), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(rows, layer.weight()[places], rtol=1e-6)


def test_a_quantised_other_side() -> None:
    """Between integers on both sides the product stays what it was."""
    rng = np.random.default_rng(6)
    layer = Layer(rng, "INT4", 32, 16, 0, zero=False)
    nodes = layer.model.graph.node
    layer.model.graph.initializer.extend(
        [helper.make_tensor("qs", 1, (), [0.05]), helper.make_tensor("qz", TensorProto.INT8, (), [0])]
    )
    quantise = helper.make_node("QuantizeLinear", ["x0", "qs", "qz"], ["q"])
    real = helper.make_node("DequantizeLinear", ["q", "qs", "qz"], ["xr"])
    next(node for node in nodes if node.op_type == "MatMul").input[0] = "xr"
    nodes.insert(0, real)
    nodes.insert(0, quantise)
    plan = pl.compile(layer.model, device="cpu", tune="off")
    assert "linear_nbits" not in ops_of(plan)
    x = layer.x(rng, 4)
    rounded = np.clip(np.round(x / np.float32(0.05)), -128, 127) * 0.05
    np.testing.assert_allclose(plan.run(x)[0], layer.wanted(rounded), rtol=1e-4, atol=1e-4)
