"""What schemas state for passes is true: algebra, weighting, padding, rows, parts; each rule against the op itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pylayout as pl
from pylayout import ops
from pylayout.calls import schemas

RANDOM = np.random.default_rng(5)
OPERATIONS = {
    "sum": np.add,
    "difference": np.subtract,
    "product": np.multiply,
    "quotient": np.divide,
    "power": np.power,
    "larger": np.maximum,
    "smaller": np.minimum,
    "conjunction": np.logical_and,
    "disjunction": np.logical_or,
}


def call(name: str, *tensors: Any, **attributes: Any) -> np.ndarray:
    return np.asarray(getattr(ops, name)(*tensors, **attributes))


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0.5, 2, shape).astype(np.float32)


def stating(rule: str, without: Any) -> list[str]:
    return [name for name, schema in schemas().items() if schema[rule] != without]


ALGEBRAIC = [name for name, schema in schemas().items() if schema["algebra"]["operation"] != "none"]
WEIGHTED = [name for name, schema in schemas().items() if schema["weighting"]["order"] != "none"]


@pytest.fixture(autouse=True)
def whichever_implementation(unoptimised: None) -> None:
    """These are of values."""


def test_each_operation_is_some_op() -> None:
    assert {schemas()[name]["algebra"]["operation"] for name in ALGEBRAIC} == set(OPERATIONS)


@pytest.mark.parametrize("name", ALGEBRAIC)
def test_algebra(name: str) -> None:
    algebra = schemas()[name]["algebra"]
    x, y = numbers(3, 5), numbers(5)
    y[2] = 0.75 if "neutral" in algebra else 0
    expected = OPERATIONS[algebra["operation"]](x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_allclose(call(name, x, y), expected, rtol=1e-6)
    assert algebra["commutes"] == np.array_equal(call(name, x, y), call(name, y, x))
    if "neutral" in algebra:
        odd = np.array([-0.0, 0.0, 1.5, -2.5, np.inf, 1e-40], np.float32)
        neutral = np.array([algebra["neutral"]], np.float32)
        assert call(name, odd, neutral).tobytes() == odd.tobytes()
        if not neutral.any():  # the sign counts, but not in integers
            assert call(name, odd, -neutral).tobytes() != odd.tobytes()
        whole = np.array([-3, 0, 7], np.int32)
        if algebra["operation"] != "quotient":
            np.testing.assert_array_equal(call(name, whole, neutral.astype(np.int32)), whole)


def test_a_rounded_quotient_is_none() -> None:
    """`not_with` says so, and passes keep to it."""
    assert [name for name in ALGEBRAIC if schemas()[name]["algebra"]["not_with"]] == ["div"]
    x = np.array([[1.5, -1.5]], np.float32)
    graph = pl.Graph()
    value = graph.input("x", x.shape)
    rounded = graph.op("div", value, graph.constant(np.ones(1, np.float32)), rounding_mode="floor")
    graph.output(graph.op("div", rounded, graph.constant(np.full(1, 2, np.float32)), rounding_mode="trunc"))
    (made,) = pl.compile(graph, device="cpu").run(x)
    np.testing.assert_array_equal(np.asarray(made), np.trunc(np.floor(x) / 2))


def weighted(name: str) -> tuple[np.ndarray, np.ndarray, int, dict[str, Any]]:
    """Data, weight, the axis of the weight that is the result's channels, attributes."""
    order = schemas()[name]["weighting"]["order"]
    if order == "matrices":
        return numbers(2, 3, 4), numbers(4, 6), 1, {}
    if name == "linear":
        return numbers(2, 3, 4), numbers(6, 4), 0, {}
    spatial = int(name[-2])
    places, kernel = (4, 3, 2)[:spatial], (2,) * spatial
    if order == "outputs_first":
        return numbers(2, 4, *places), numbers(6, 4, *kernel), 0, {}
    return numbers(2, 4, *places), numbers(4, 6, *kernel), 1, {"padding": 0}


@pytest.mark.parametrize("name", WEIGHTED)
def test_weighting(name: str) -> None:
    x, weight, outputs, attributes = weighted(name)
    channels = schemas()[name]["weighting"]["channels"]
    y = call(name, x, weight, **attributes)
    scale = numbers(weight.shape[outputs])

    def along(values: np.ndarray, rank: int, axis: int) -> np.ndarray:
        return values.reshape([-1 if d == axis % rank else 1 for d in range(rank)])

    scaled = call(name, x, weight * along(scale, weight.ndim, outputs), **attributes)
    np.testing.assert_allclose(scaled, y * along(scale, y.ndim, channels), rtol=1e-5)
    moved = call(name, x, weight, bias=scale, **attributes)
    np.testing.assert_allclose(moved, y + along(scale, y.ndim, channels), rtol=1e-5)
    inputs = numbers(x.shape[channels])
    if outputs == 0 or name != "matmul":
        by_input = weight * along(inputs, weight.ndim, 1 - outputs)
        expected = call(name, x * along(inputs, x.ndim, channels), weight, **attributes)
        np.testing.assert_allclose(call(name, x, by_input, **attributes), expected, rtol=1e-5)


@pytest.mark.parametrize("name", stating("padding", "none"))
def test_padding_is_a_border(name: str) -> None:
    spatial = int(name[-2])
    x = -numbers(1, 3, *(5, 4, 6)[:spatial])
    value = {"zeros": 0.0, "lowest": float(np.finfo(np.float32).min)}[schemas()[name]["padding"]]
    around = np.pad(x, [(0, 0)] * 2 + [(1, 1)] * spatial, constant_values=value)
    rest = (3,) if "pool" in name else (numbers(2, 3, *(3,) * spatial),)
    np.testing.assert_allclose(call(name, x, *rest, padding=1), call(name, around, *rest, padding=0), rtol=1e-6)


@pytest.mark.parametrize("name", stating("by_rows", False))
def test_rows_are_apart(name: str) -> None:
    """Any row of the result follows from that row alone, whatever the others are."""
    x = numbers(4, 6)
    few_bits = (np.arange(48, dtype="u1").reshape(3, 16), numbers(3, 1))
    rest = {"linear": (numbers(3, 6),), "linear_nbits": few_bits}.get(name, ([6],))
    y = call(name, x, *rest)
    for row in range(4):
        np.testing.assert_allclose(call(name, x[row : row + 1], *rest), y[row : row + 1], rtol=1e-6)


def test_same_only_if() -> None:
    """With these numbers a result that is alike is the input; with others it may be alike and another."""
    x = numbers(1, 2, 6, 5)
    pools = [f"{kind}_pool{n}d" for kind in ("avg", "max") for n in (1, 2, 3)]
    stated = {name: schemas()[name]["same_only_if"] for name in stating("same_only_if", {})}
    assert stated == {"pad": {"begins": 0, "ends": 0}} | {name: {"kernel_size": 1, "padding": 0} for name in pools}
    np.testing.assert_array_equal(call("pad", x, [0, 0, 0, 0]), x)
    assert not np.array_equal(call("pad", x, [1, -1]), x)
    for name in ("avg_pool2d", "max_pool2d"):
        np.testing.assert_array_equal(call(name, x, 1), x)
        assert not np.array_equal(call(name, x, 3, stride=1, padding=1), x)


def test_what_is_trained_as_another_op() -> None:
    """With the batch's own statistics both are one function of x, weight and bias."""
    assert stating("trained_as", "") == ["batch_norm"]
    x, weight, bias = numbers(4, 3, 5), numbers(3), numbers(3)
    own = getattr(ops, schemas()["batch_norm"]["trained_as"])(x, weight, bias)
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    given = call("batch_norm", x, mean, variance, weight, bias)
    np.testing.assert_allclose(np.asarray(own[0]), given, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(own[1]), mean, rtol=1e-5)


def test_parts() -> None:
    """`starts` and `steps` of a part, `dim` of a split."""
    assert [name for name, schema in schemas().items() if schema["renaming"] == "part"] == ["slice"]
    assert [name for name, schema in schemas().items() if schema["renaming"] == "split"] == ["split"]
    x = numbers(5, 6)
    np.testing.assert_array_equal(call("slice", x, [1], [5], [1], [2]), x[:, 1:5:2])
    np.testing.assert_array_equal(np.concatenate([np.asarray(p) for p in ops.split(x, 2, 1)], 1), x)


@pytest.mark.parametrize("name", stating("applies_function", False))
def test_functions_are_known_as_activations(name: str) -> None:
    """The completed attribute `function` names a function of the list, which other ops apply as `activation`."""
    schema = schemas()[name]
    assert schema["constants"]["function"] in (name, "gelu_erf")
    assert schema["elementwise"] and [p["kind"] for p in schema["parameters"]].count("tensor") == 1
