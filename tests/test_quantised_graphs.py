"""Graphs of quantised tensors, as exporters write them: what stays integers, on which device, with which values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pylayout as pl

Array = NDArray[Any]
X, Y = (np.float32(0.02), np.uint8(100)), (np.float32(0.0513), np.uint8(117))


def draw(*shape: int) -> Array:
    rng = np.random.default_rng(shape)
    return rng.integers(0, 256, shape).astype(np.uint8)


def weights(*shape: int) -> Array:
    return np.random.default_rng(shape).integers(-128, 128, shape).astype(np.int8)


def scales(count: int) -> Array:
    return np.random.default_rng(count).uniform(0.001, 0.004, count).astype(np.float32)


def real(q: Array, scale: Any, zero: Any = 0) -> Array:
    return (q.astype(np.float64) - np.float64(zero)) * np.float64(scale)


def stored(y: Array, scale: Any, zero: Any) -> Array:
    info = np.iinfo(np.asarray(zero).dtype)
    return np.clip(np.round(y / np.float64(scale)) + np.float64(zero), info.min, info.max).astype(info.dtype)


class Builder:
    """Ops of a graph, with scales and zero points as constants."""

    def __init__(self) -> None:
        self.g = pl.Graph()

    def constant(self, value: Any) -> Any:
        return self.g.constant(np.asarray(value))

    def given(self, q: Array, by: tuple[Any, Any] = X) -> Any:
        name = f"x{len(self.g.inputs)}"
        return self.back(self.g.input(name, q.shape, "u8" if q.dtype == np.uint8 else "s8"), by)

    def back(self, x: Any, by: tuple[Any, Any]) -> Any:
        return self.g.dequantize_linear(x, *(self.constant(each) for each in by))

    def quantised(self, x: Any, by: tuple[Any, Any] = Y) -> Any:
        dtype = "u8" if np.asarray(by[1]).dtype == np.uint8 else "s8"
        return self.g.quantize_linear(x, *(self.constant(each) for each in by), dtype=dtype)

    def weight(self, w: Array, scale: Any, axis: int = 0) -> Any:
        return self.g.dequantize_linear(self.constant(w), self.constant(scale), axis=axis)

    def plan(self, y: Any, device: str = "cpu", without: str | None = None) -> pl.Plan:
        self.g.output(y, "y")
        return pl.compile(self.g, device=device, tune="off", without=without)


def ops_in(plan: pl.Plan) -> list[str]:
    return [step["op"] for step in plan.summary()["steps"] if step["kind"] == "op"]


def serves_integers(by: str = "") -> bool:
    """Whether a fast kernel of this processor takes integers of 8 bits: by AVX2, or what came after it; or a provider's
    own, as stacks of matrices are for oneDNN alone, with VNNI."""
    found = pl.query("qlinear_conv", draw(1, 16, 8, 8), weights(16, 16, 3, 3), *[np.ones((), "f4")] * 3, device="cpu")
    fast = [each["provider"] for each in found.candidates if "reference" not in each["implementation"]]
    return by in fast if by else bool(fast)


def close(made: Array, expected: Array) -> None:
    """Equal but where f32 and f64 round a value at a half differently."""
    away = np.abs(made.astype(np.int64) - expected.astype(np.int64))
    assert made.dtype == expected.dtype and away.max(initial=0) <= 1, away.max()
    assert (away > 0).mean() < 0.002, (away > 0).mean()


def convolved(x: Array, w: Array, bias: Array | None, **attributes: Any) -> Array:
    torch = pytest.importorskip("torch")
    given = [torch.from_numpy(each) for each in (x, w)]
    y = torch.nn.functional.conv2d(*given, None if bias is None else torch.from_numpy(bias), **attributes)
    made: Array = y.numpy()
    return made


CONVOLUTIONS = {
    "3x3": ((2, 19, 9, 10), (24, 19, 3, 3), {"padding": 1}),
    "strided": ((1, 16, 15, 13), (32, 16, 3, 3), {"stride": 2, "padding": 1}),
    "1x1": ((2, 64, 7, 7), (32, 64, 1, 1), {}),
    "depthwise": ((1, 32, 14, 14), (32, 1, 3, 3), {"groups": 32, "padding": 1}),
}
FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Array], Array]]] = {
    "none": (lambda g, y: y, lambda y: y),
    "relu": (lambda g, y: g.relu(y), lambda y: np.maximum(y, 0)),
    "relu6": (lambda g, y: g.clip(y, 0, 6), lambda y: np.clip(y, 0, 6)),
    "silu": (lambda g, y: g.silu(y), lambda y: y / (1 + np.exp(-y))),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_is_one_op(name: str, function: str) -> None:
    shape, kernel, attributes = CONVOLUTIONS[name]
    q, w, scale = draw(*shape), weights(*kernel), scales(kernel[0])
    bias = np.random.default_rng(1).uniform(-2, 2, kernel[0]).astype(np.float32)
    build, reference = FUNCTIONS[function]

    def make(**how: Any) -> pl.Plan:
        b = Builder()
        y = b.g.conv2d(b.given(q), b.weight(w, scale), b.constant(bias), **attributes)
        return b.plan(b.quantised(build(b.g, y)), **how)

    expected = stored(
        reference(convolved(real(q, *X), real(w, scale.reshape(-1, 1, 1, 1)), bias.astype("f8"), **attributes)), *Y
    )
    plan, apart = make(), make(without="quantize_products")
    assert ops_in(plan) == ["qlinear_conv"] or not serves_integers()
    assert "qlinear_conv" not in ops_in(apart)
    for each in (plan, apart):
        close(np.asarray(each.run(q)[0]), expected)


@pytest.mark.parametrize("kind", ["linear", "linear without bias", "matmul", "transposed", "bias added", "stack"])
def test_a_matrix_product_is_one_op(kind: str) -> None:
    q, w, scale = draw(3, 7, 48), weights(40, 48), scales(40)
    bias = np.random.default_rng(1).uniform(-2, 2, 40).astype(np.float32)
    b = Builder()
    x = b.given(q)
    turned = np.ascontiguousarray(w.T)
    if kind.startswith("linear"):
        y = b.g.linear(x, b.weight(w, scale), None if "without" in kind else b.constant(bias))
    elif kind == "transposed":
        y = b.g.matmul(x, b.weight(w, scale), b.constant(bias), transpose_b=True)
    elif kind == "bias added":
        y = b.g.add(b.constant(bias), b.g.matmul(x, b.weight(turned, scale, axis=1)))
    elif kind == "stack":  # one scale: each matrix has its own columns
        scale = scale[:1]
        stack = np.stack([turned, turned, turned])
        y = b.g.add(b.g.matmul(x, b.weight(stack, scale[0])), b.constant(bias))
    else:
        y = b.g.matmul(x, b.weight(turned, scale, axis=1), b.constant(bias))
    plan = b.plan(b.quantised(b.g.relu(y)))
    expected = real(q, *X) @ real(w, scale.reshape(-1, 1)).T + (0 if "without" in kind else bias.astype("f8"))
    serves = serves_integers("onednn" if kind == "stack" else "")
    assert "qlinear_matmul" in ops_in(plan) or not serves
    assert len(ops_in(plan)) == 1 or not serves
    close(np.asarray(plan.run(q)[0]), stored(np.maximum(expected, 0), *Y))


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("zero", ["centred", "one", "each"])
@pytest.mark.parametrize("rounds", [True, False])
def test_weights_with_zero_points(name: str, zero: str, rounds: bool) -> None:
    """u8 weights: s8 where they fit, else the zero point is applied to the sums of x."""
    shape, kernel, attributes = CONVOLUTIONS[name]
    q, scale = draw(*shape), scales(kernel[0])
    rng = np.random.default_rng(3)
    zeros = rng.integers(90, 160, kernel[0] if zero == "each" else ()).astype(np.uint8)
    if zero == "centred":
        zeros = np.uint8(128)
    elif zero == "one":
        scale = scale[0]
    w = draw(*kernel)
    bias = np.random.default_rng(1).uniform(-2, 2, kernel[0]).astype(np.float32)
    each = (np.asarray(scale).reshape(-1, 1, 1, 1), np.asarray(zeros).reshape(-1, 1, 1, 1))
    expected = np.maximum(convolved(real(q, *X), real(w, *each), bias.astype("f8"), **attributes), 0)
    for op in ("quantised tensors", "quantised op"):
        b = Builder()
        points = np.broadcast_to(zeros, np.shape(scale)).copy()
        if op == "quantised op":
            y = b.g.qlinear_conv(
                b.g.input("x", q.shape, "u8"),
                b.constant(w),
                b.constant(X[0]),
                b.constant(scale),
                b.constant(Y[0]) if rounds else None,
                b.constant(X[1]),
                b.constant(points),
                b.constant(Y[1]) if rounds else None,
                b.constant(bias),
                post_ops="relu",
                dtype="u8" if rounds else "f32",
                **attributes,
            )
        else:
            weight = b.g.dequantize_linear(b.constant(w), b.constant(scale), b.constant(points), axis=0)
            y = b.g.relu(b.g.conv2d(b.given(q), weight, b.constant(bias), **attributes))
            y = b.quantised(y) if rounds else y
        plan = b.plan(y)
        made = np.asarray(plan.run(q)[0])
        # Depthwise, with a real result, floats may well cost less.
        if zero == "centred" and serves_integers("" if rounds or name != "depthwise" else "onednn"):
            assert ops_in(plan) == ["qlinear_conv"], ops_in(plan)
        if rounds:
            close(made, stored(expected, *Y))
        else:
            np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["u8", "s8"])
@pytest.mark.parametrize("zero", ["none", "one", "each"])
@pytest.mark.parametrize("kind", ["conv", "matmul"])
def test_dynamic_products_are_one_op(kind: str, zero: str, dtype: str) -> None:
    """The scale of x is known in the run; scale and bias stand behind the sums of integers."""
    conv = kind == "conv"
    q, w = draw(2, 24, 7, 9) if conv else draw(2, 5, 48), draw(32, 24, 3, 3) if conv else draw(48, 32)
    zeros = np.random.default_rng(1).integers(90, 160, () if zero == "one" else 32).astype(np.uint8)
    if dtype == "s8":
        w, zeros = w.view(np.int8), (zeros - 128).astype(np.int8)
    scale, factor = np.array([0.02], np.float32), scales(32)
    bias = np.random.default_rng(2).uniform(-1, 1, 32).astype(np.float32)
    by_channel = (32, 1, 1) if conv else (32,)
    b = Builder()
    given = [b.g.input("x", q.shape, "u8"), b.constant(w), b.constant(X[1])]
    given += [] if zero == "none" else [b.constant(zeros)]
    sums = b.g.conv_integer(*given, padding=1) if conv else b.g.matmul_integer(*given)
    both = b.g.mul(b.g.input("scale", (1,), "f32"), b.constant(factor.reshape(by_channel)))
    y = b.g.add(b.g.mul(b.g.cast(sums, "f32"), both), b.constant(bias.reshape(by_channel)))
    plan = b.plan(b.g.relu(y))
    wide = w.astype("f8") - (0 if zero == "none" else zeros.reshape((-1, 1, 1, 1) if conv else -1).astype("f8"))
    x = real(q, scale, X[1])
    total = convolved(x, wide, None, padding=1) if conv else x @ wide
    expected = np.maximum(total * factor.reshape(by_channel) + bias.reshape(by_channel), 0)
    np.testing.assert_allclose(np.asarray(plan.run(q, scale)[0]), expected, rtol=1e-4, atol=1e-4)
    if serves_integers():
        found = ops_in(plan)
        # One zero point of a matrix is for oneDNN alone.
        one = (dtype == "s8" and zero == "none") or (not conv and zero != "each" and serves_integers("onednn"))
        assert found.count("qlinear_conv" if conv else "qlinear_matmul") >= 1, found
        assert found.count("cast") == 0, found
        assert ("pointwise" not in found and "sub" not in found) == one or not one, found


@pytest.mark.parametrize(("columns", "shape"), [(1, (9,)), (9, (1, 1, 9)), (1, (1, 1, 1))])
def test_what_makes_a_product_larger_is_no_bias(columns: int, shape: tuple[int, ...]) -> None:
    q, w, bias = draw(3, 40), weights(40, columns), np.linspace(-1, 1, int(np.prod(shape)), dtype="f4").reshape(shape)
    b = Builder()
    sums = b.g.matmul_integer(b.g.input("x", q.shape, "u8"), b.constant(w), b.constant(X[1]))
    y = b.g.add(b.g.mul(b.g.cast(sums, "f32"), b.constant(X[0])), b.constant(bias))
    expected = real(q, *X) @ w.astype("f8") + bias
    np.testing.assert_allclose(np.asarray(b.plan(y).run(q)[0]), expected, rtol=1e-4, atol=1e-4)


def test_sums_with_zero_points_stay_integers() -> None:
    q, w, zeros = draw(3, 40), draw(40, 9), np.arange(100, 109).astype(np.uint8)
    b = Builder()
    y = b.g.matmul_integer(b.g.input("x", q.shape, "u8"), b.constant(w), b.constant(X[1]), b.constant(zeros))
    made = np.asarray(b.plan(y).run(q)[0])
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, (q.astype("i4") - int(X[1])) @ (w.astype("i4") - zeros.astype("i4")))


def test_products_of_two_quantised_tensors() -> None:
    """Neither is a constant: u8 of the second becomes s8, with one zero point."""
    q, k = draw(2, 3, 16, 24), draw(2, 3, 24, 20)
    b = Builder()
    plan = b.plan(b.quantised(b.g.matmul(b.given(q), b.given(k, Y)), (np.float32(0.4), np.uint8(128))))
    expected = stored(real(q, *X) @ real(k, *Y), 0.4, np.uint8(128))
    close(np.asarray(plan.run(q, k)[0]), expected)


@pytest.mark.parametrize("kind", ["conv", "linear"])
def test_products_with_real_results(kind: str) -> None:
    """No quantize_linear behind: the product of integers gives real numbers, and takes in what follows."""
    conv = kind == "conv"
    q, w, scale = draw(1, 64, 14, 14) if conv else draw(6, 256), weights(64, 64, 3, 3) if conv else None, scales(64)
    w = weights(64, 256) if w is None else w
    b = Builder()
    x = b.given(q)
    y = b.g.conv2d(x, b.weight(w, scale), None, padding=1) if conv else b.g.linear(x, b.weight(w, scale))
    bias = np.random.default_rng(1).uniform(-2, 2, 64).astype(np.float32)
    plan = b.plan(b.g.relu(b.g.add(y, b.constant(bias.reshape(-1, 1, 1) if conv else bias))))
    assert ops_in(plan) == ["qlinear_conv" if conv else "qlinear_matmul"] or not serves_integers(), ops_in(plan)
    each = real(w, scale.reshape(-1, *[1] * (w.ndim - 1)))
    total = convolved(real(q, *X), each, None, padding=1) if conv else real(q, *X) @ each.T
    expected = np.maximum(total + (bias.reshape(-1, 1, 1) if conv else bias), 0)
    np.testing.assert_allclose(np.asarray(plan.run(q)[0]), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("function", ["none", "relu"])
@pytest.mark.parametrize("form", ["product first", "product second", "two products", "signed"])
def test_a_sum_is_part_of_the_product(form: str, function: str) -> None:
    """Rounded to 8 bits before the sum, as the model says."""
    q, w, v = draw(1, 32, 10, 9), weights(48, 32, 1, 1), weights(48, 32, 3, 3)
    between, of_other = (np.float32(0.04), np.uint8(121)), (np.float32(0.031), np.uint8(60))
    if form == "signed":
        q = (q.astype(np.int16) - 128).astype(np.int8)
        between, of_other = (between[0], np.int8(-7)), (of_other[0], np.int8(19))
    by = X if form != "signed" else (X[0], np.int8(-28))
    to = Y if form != "signed" else (Y[0], np.int8(-11))
    other = draw(1, 48, 10, 9).view(q.dtype)
    scale = scales(48)
    build, apply = FUNCTIONS[function]

    def make(**how: Any) -> pl.Plan:
        b = Builder()
        x = b.given(q, by)
        product = b.back(b.quantised(b.g.conv2d(x, b.weight(w, scale)), between), between)
        if form == "two products":
            added = b.back(b.quantised(b.g.conv2d(x, b.weight(v, scale), padding=1), of_other), of_other)
        else:
            added = b.given(other, of_other)
        total = b.g.add(added, product) if form == "product second" else b.g.add(product, added)
        return b.plan(b.quantised(build(b.g, total), to), **how)

    each = scale.reshape(-1, 1, 1, 1)
    product = real(stored(convolved(real(q, *by), real(w, each), None), *between), *between)
    if form == "two products":
        total = convolved(real(q, *by), real(v, each), None, padding=1)
        added, given = real(stored(total, *of_other), *of_other), [q]
    else:
        added, given = real(other, *of_other), [q, other]
    expected = stored(apply(product + added), *to)
    plan, apart = make(), make(without="fuse_addend")
    count = 2 if form == "two products" else 1
    assert ops_in(plan) == ["qlinear_conv"] * count or not serves_integers(), ops_in(plan)
    assert ops_in(apart) == ["qlinear_conv"] * count + ["pointwise"] or not serves_integers(), ops_in(apart)
    for each_plan in (plan, apart):
        # A product that rounds the other way, at a half, moves the sum by its scale: at most one of the result's.
        close(np.asarray(each_plan.run(*given)[0]), expected)


@pytest.mark.parametrize("kind", ["conv", "linear"])
def test_real_sums_stay_real(kind: str) -> None:
    """A product whose result nothing quantises, plus a tensor of f32: no addend, which has 8 bits."""
    conv = kind == "conv"
    q, w = (draw(1, 64, 10, 9), weights(48, 64, 1, 1)) if conv else (draw(6, 64), weights(48, 64))
    other = np.random.default_rng(5).uniform(-3, 3, (1, 48, 10, 9) if conv else (6, 48)).astype(np.float32)
    b = Builder()
    x, weight = b.given(q), b.weight(w, scales(48))
    y = b.g.conv2d(x, weight) if conv else b.g.linear(x, weight)
    added = b.g.input("other", other.shape, "f32")
    plan = b.plan(b.g.relu(b.g.add(y, added)))
    each = real(w, scales(48).reshape(-1, *[1] * (w.ndim - 1)))
    total = (convolved(real(q, *X), each, None) if conv else real(q, *X) @ each.T) + other
    np.testing.assert_allclose(np.asarray(plan.run(q, other)[0]), np.maximum(total, 0), rtol=1e-4, atol=1e-4)


def test_a_sum_that_others_read_stays() -> None:
    q, w, other = draw(1, 32, 10, 9), weights(48, 32, 1, 1), draw(1, 48, 10, 9)
    b = Builder()
    integers = b.quantised(b.g.conv2d(b.given(q), b.weight(w, scales(48))), X)
    b.g.output(integers, "product")
    plan = b.plan(b.quantised(b.g.add(b.back(integers, X), b.given(other))))
    product, total = (np.asarray(each) for each in plan.run(q, other))
    expected = stored(convolved(real(q, *X), real(w, scales(48).reshape(-1, 1, 1, 1)), None), *X)
    close(product, expected)
    close(total, stored(real(product, *X) + real(other, *X), *Y))


@pytest.mark.parametrize(
    "given, message",
    [
        ({"addend": draw(2, 3)}, "addend_scale is missing, expected one value, as addend is given"),
        ({"addend_scale": np.ones((), "f4")}, "addend_scale is given, expected none, as addend is missing"),
        ({"addend_zero_point": np.ones((), "u1")}, "addend_zero_point is given, expected none, as addend is missing"),
        ({"addend": draw(2, 4), "addend_scale": np.ones((), "f4")}, r"addend.shape is \(2, 4\)"),
        ({"addend": weights(2, 3), "addend_scale": np.ones((), "f4")}, r"addend.dtype is s8, expected u8 \(a.dtype\)"),
    ],
)
def test_addends_come_with_scales(given: dict[str, Any], message: str) -> None:
    one = np.ones((), "f4")
    with pytest.raises(pl.Error, match=message):
        pl.ops.qlinear_matmul(draw(2, 4), weights(4, 3), one, one, one, **given)


def test_scales_of_results_are_asked_for() -> None:
    one = np.ones((), "f4")
    given: list[Any] = [draw(2, 4), weights(4, 3), one, one]
    with pytest.raises(pl.Error, match="y_scale is missing, expected one value, as y is u8"):
        pl.ops.qlinear_matmul(*given)
    with pytest.raises(pl.Error, match="y_scale is given, expected none, as y is f32"):
        pl.ops.qlinear_matmul(*given, one, dtype="f32")


def test_what_is_not_one_op() -> None:
    """Scales along another axis, results that others read."""
    q, w = draw(1, 16, 6, 6), weights(16, 16, 1, 1)
    expected = convolved(real(q, *X), real(w, 0.002), None)

    def check(build: Callable[[Builder, Any], Any], wanted: Array = expected) -> None:
        b = Builder()
        plan = b.plan(b.quantised(build(b, b.given(q))))
        assert "qlinear_conv" not in ops_in(plan)
        close(np.asarray(plan.run(q)[0]), stored(wanted, *Y))

    by_input = scales(16)
    check(
        lambda b, x: b.g.conv2d(x, b.weight(w, by_input, axis=1)),
        convolved(real(q, *X), real(w, by_input.reshape(1, -1, 1, 1)), None),
    )

    def read_twice(b: Builder, x: Any) -> Any:
        y = b.g.conv2d(x, b.weight(w, np.float32(0.002)))
        b.g.output(y, "as it is")
        return y

    b = Builder()
    x = b.given(q)
    read = read_twice(b, x)
    plan = b.plan(b.quantised(read))
    as_it_is, integers = (np.asarray(each) for each in plan.run(q))
    np.testing.assert_allclose(as_it_is, expected, rtol=1e-4, atol=1e-4)
    close(integers, stored(expected, *Y))


def test_sums_and_functions_are_one_op(device: str) -> None:
    a, c = draw(2, 32, 9, 11), draw(2, 32, 9, 11)[::-1].copy()
    b = Builder()
    total = b.g.add(b.given(a), b.given(c, Y))
    plan = b.plan(b.quantised(b.g.relu(total), X), device)
    assert ops_in(plan) == ["pointwise"]
    close(np.asarray(plan.run(a, c)[0]), stored(np.maximum(real(a, *X) + real(c, *Y), 0), *X))

    b = Builder()  # x * sigmoid(x), rounded between: a function of x alone
    x = b.given(a)
    gate = b.back(b.quantised(b.g.sigmoid(x), (np.float32(1 / 255), np.uint8(0))), (np.float32(1 / 255), np.uint8(0)))
    plan = b.plan(b.quantised(b.g.mul(x, gate)), device)
    assert ops_in(plan) == ["pointwise"] and len(plan.summary()["steps"][-1]["inputs"]) == 1
    rounded = real(stored(1 / (1 + np.exp(-real(a, *X))), 1 / 255, np.uint8(0)), 1 / 255)
    close(np.asarray(plan.run(a)[0]), stored(real(a, *X) * rounded, *Y))


def test_slow_functions_of_bytes_stay_tables() -> None:
    """What makes the bytes is an op of its own before a silu, and a part of a relu."""
    x = np.random.default_rng(3).normal(0, 3, (4, 900)).astype(np.float32)
    for function, count in (("silu", 2), ("relu", 1)):
        b = Builder()
        y = b.back(b.quantised(b.g.mul(b.g.input("x", x.shape), b.constant(np.float32(0.7))), X), X)
        plan = b.plan(b.quantised(getattr(b.g, function)(y), Y))
        assert ops_in(plan) == ["pointwise"] * count
        rounded = real(stored((x * np.float32(0.7)).astype("f8"), *X), *X)
        close(np.asarray(plan.run(x)[0]), stored(FUNCTIONS[function][1](rounded), *Y))


def test_sums_of_integers_are_no_reals() -> None:
    """An add of u8 wraps around, and is not taken in by one of real numbers."""
    a, c = draw(4, 600), draw(4, 600)[::-1].copy()
    b = Builder()
    wrapped = b.g.add(b.g.input("a", a.shape, "u8"), b.g.input("c", a.shape, "u8"))
    plan = b.plan(b.quantised(b.g.relu(b.back(wrapped, X))))
    close(np.asarray(plan.run(a, c)[0]), stored(np.maximum(real(a + c, *X), 0), *Y))


@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_sums_of_products_become_reals_in_one_op(dtype: str) -> None:
    """The cast of a product of integers, its scale and its bias; integers that f32 does not hold are rounded once."""
    x = np.array([[2**24 + 1, 2**24 + 3, -(2**24) - 1, 7], [0, -1, 3, 2**31 - 1]], dtype)
    factor, bias = np.float32([0.5, 2, 3, 1]), np.float32([1, -1, 0.25, 0])
    b = Builder()
    sums = b.g.input("x", x.shape, "s32" if dtype == "i4" else "s64")
    plan = b.plan(b.g.add(b.g.mul(b.g.cast(sums, "f32"), b.constant(factor)), b.constant(bias)))
    assert ops_in(plan) == ["pointwise"]
    np.testing.assert_allclose(np.asarray(plan.run(x)[0]), x.astype(np.float32) * factor + bias, rtol=2e-7)


def test_signed_activations_become_unsigned() -> None:
    zeros = {"relu": -128, "any": -5, "symmetric": 0}
    by = {name: (np.float32(2.0**-4), np.int8(zero)) for name, zero in zeros.items()}  # so that all sums are exact
    x = np.random.default_rng(3).uniform(-4, 4, (1, 16, 16, 16)).astype(np.float32)

    def plan(without: str | None) -> pl.Plan:
        b = Builder()

        def step(y: Any, name: str) -> Any:
            return b.back(b.quantised(y, by[name]), by[name])

        def conv(y: Any) -> Any:
            return b.g.conv2d(y, b.weight(weights(16, 16, 3, 3), np.float32(2.0**-9)), padding=1)

        y = step(b.g.input("x", x.shape), "any")
        y = step(b.g.max_pool2d(step(b.g.relu(conv(y)), "relu"), 2), "relu")
        y = step(conv(y), "symmetric")
        y = step(b.g.max_pool2d(step(b.g.relu(conv(y)), "symmetric"), 2), "symmetric")
        y = step(b.g.relu(b.g.add(step(conv(y), "symmetric"), y)), "symmetric")
        y = step(b.g.clip(conv(y), 0.0, 3.0), "symmetric")
        flat = step(b.g.reshape(conv(y), [16, 16]), "any")
        return b.plan(b.g.matmul(flat, flat), without=without)

    made, expected = plan(None), plan("unsigned_integers")
    np.testing.assert_array_equal(made.run(x)[0], expected.run(x)[0])

    def activations(run: pl.Plan) -> list[str]:
        with pl.profile() as profile:
            run.run(x)
        return [event["inputs"][0].split()[0] for event in profile.events if event["op"] == "qlinear_conv"]

    if serves_integers("onednn"):
        # What has no zero point and may be below zero stays as it is.
        assert activations(made) == ["u8", "u8", "s8", "u8", "u8", "u8"]
        assert activations(expected) == ["s8"] * 6


@pytest.mark.parametrize("dtype", ["u8", "s8"])
@pytest.mark.parametrize("function", ["relu", "relu6", "silu"])
def test_limits_behind_a_rounding_are_part_of_the_product(function: str, dtype: str) -> None:
    """As quantisers with symmetric scales write them: the product is rounded, limited, and rounded again."""
    zero = np.dtype({"u8": "uint8", "s8": "int8"}[dtype]).type(0 if dtype == "s8" else 100)
    first, second = (np.float32(2.0**-5), zero), (np.float32(0.021), zero)
    x, w = draw(1, 16, 6, 6), weights(16, 16, 3, 3)

    def plan(without: str | None) -> pl.Plan:
        b = Builder()
        sums = b.g.conv2d(b.given(x, (np.float32(2.0**-6), np.uint8(100))), b.weight(w, np.float32(2.0**-9)), padding=1)
        y = getattr(b.g, function)(b.back(b.quantised(sums, first), first))
        return b.plan(b.quantised(y, second), without=without)

    made, expected = plan(None), plan("fuse_addend")
    off = np.asarray(made.run(x)[0], "i4") - np.asarray(expected.run(x)[0], "i4")
    assert np.abs(off).max() <= 1 and np.count_nonzero(off) < off.size // 100  # 1 / scale is rounded
    if serves_integers("onednn"):
        assert ops_in(expected) == ["qlinear_conv", "pointwise"]
        assert ops_in(made) == (["qlinear_conv", "pointwise"] if function == "silu" else ["qlinear_conv"])


def test_elements_move_as_integers() -> None:
    """Maximum pools, concats and views of quantised tensors; one of them to another scale."""
    a, c = draw(1, 16, 8, 8), draw(1, 8, 8, 8)
    b = Builder()
    parts = [b.given(a), b.given(c, Y)]
    joined = b.back(b.quantised(b.g.concat(parts, 1), X), X)
    pooled = b.back(b.quantised(b.g.max_pool2d(joined, 3, 2, padding=1), X), X)
    plan = b.plan(b.quantised(b.g.reshape(b.g.permute(pooled, [0, 2, 3, 1]), [1, -1]), X))
    assert not [step for step in plan.summary()["steps"] if "f32" in str(step["outputs"])], plan.explain()
    assert set(ops_in(plan)) <= {"concat", "pointwise", "max_pool2d", "permute"}, ops_in(plan)
    both = np.concatenate([a, stored(real(c, *Y), *X)], 1)
    padded = np.pad(both, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = [padded[:, :, i : i + 7 : 2, j : j + 7 : 2] for i in range(3) for j in range(3)]
    expected = np.max(windows, 0).transpose(0, 2, 3, 1).reshape(1, -1)
    np.testing.assert_array_equal(np.asarray(plan.run(a, c)[0]), expected)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
def test_special_values_in_joined_loops(special: float) -> None:
    """What is one loop in a kernel gives what its functions give."""
    x = np.array([special, 0.5, 1.5, 2.5, -1e30, 3e38], np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for text, expected in (
            ("y0 = clip(round(x0 / s0) + 3, 0, 255)", np.clip(np.round(x / np.float32(0.5)) + 3, 0, 255)),
            ("y0 = clip(round(x0 / s0), -1, inf)", np.clip(np.round(x / np.float32(0.5)), -1, np.inf)),
            ("y0 = (x0 - 7) * s0", (x - np.float32(7)) * np.float32(0.5)),
            ("a = x0 - 7; y0 = a * s0 + a", (x - np.float32(7)) * np.float32(0.5) + (x - np.float32(7))),
        ):
            made = np.asarray(pl.ops.pointwise([x], text, scalars=[0.5]))
            np.testing.assert_array_equal(made, expected.astype(np.float32))
