"""Random elementwise programs: fused or not, they give what NumPy gives in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pylayout as pl

pytestmark = pytest.mark.usefixtures("unoptimised")

# Smooth or monotone with slopes of at most about 1, so that a rounding before them stays one behind them.
UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "cos": np.cos,
    "neg": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin,
    "tanh": np.tanh,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "sub": np.subtract,
}
SHAPES = [(2, 5, 7, 3), (5, 1, 3), (7, 1), (3,), (1,), (2, 1, 1, 1)]


def random_program(rng: np.random.Generator, dtype: str) -> tuple[pl.Graph, list[np.ndarray], np.ndarray]:
    """A graph of 3 to 10 ops, its inputs and its result in float64."""
    g = pl.Graph()
    arrays: list[np.ndarray] = []
    known: list[tuple[Any, np.ndarray]] = []
    for number, shape in enumerate([SHAPES[0], *(SHAPES[i] for i in rng.integers(0, len(SHAPES), 2))]):
        array = rng.uniform(-2, 2, shape).astype(dtype)
        arrays.append(array)
        known.append((g.input(f"x{number}", shape, dtype=dtype), array.astype(np.float64)))
    value, expected = known[0]
    for _ in range(rng.integers(3, 11)):
        other, with_other = known[rng.integers(0, len(known))]
        kind = rng.integers(0, 5)
        if kind < 2:
            name = str(rng.choice(list(UNARY)))
            value, expected = getattr(g, name)(value), UNARY[name](expected)
        elif kind == 2:
            number = np.asarray(rng.uniform(-1, 1), dtype=dtype)
            value, expected = g.mul(value, number), expected * np.float64(number)
        elif kind == 3:
            name = str(rng.choice(list(BINARY)))
            value, expected = getattr(g, name)(value, other), BINARY[name](expected, with_other)
        else:
            positive = g.greater(other, np.asarray(0, dtype=dtype))
            value, expected = g.where(positive, value, other), np.where(with_other > 0, expected, with_other)
        if rng.integers(0, 3) == 0:
            known.append((value, expected))  # used again perhaps, and then not taken in by one op alone
    g.output(value, "y")
    return g, arrays, expected


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("part", range(2))
def test_random_programs(device: str, dtype: str, part: int, rng: np.random.Generator) -> None:
    fused_ops = separate_ops = 0
    for _ in range(9):
        g, arrays, expected = random_program(rng, dtype)
        fused = pl.compile(g, device=device)
        separate = pl.compile(g, device=device, without=["fuse_pointwise"])
        fused_ops += len(fused.summary()["steps"])
        separate_ops += len(separate.summary()["steps"])
        bound = 12 * np.finfo(dtype).eps * max(1.0, float(np.abs(expected).max()) + 8)
        for plan in (fused, separate):
            (result,) = plan.run(*arrays)
            np.testing.assert_allclose(result, expected, rtol=0, atol=bound, err_msg=plan.explain())
    assert fused_ops < separate_ops * 0.7


def test_it_follows_sizes_known_late(device: str) -> None:
    g = pl.Graph(sizes={"n": 2})
    x, y = g.input("x", ("n", 3)), g.input("y", (3,))
    g.output(g.tanh(g.add(g.mul(x, y), np.float32(0.5))), "z")
    plan = pl.compile(g, device=device)
    weights = np.array([1, -2, 0.5], np.float32)
    for n in (4, 1, 0, 9):
        rows = np.linspace(-2, 2, n * 3, dtype=np.float32).reshape(n, 3)
        (result,) = plan.run(rows, weights)
        np.testing.assert_allclose(result, np.tanh(rows * weights + 0.5), rtol=1e-5, atol=1e-6)


def test_what_is_an_output_stays() -> None:
    g = pl.Graph()
    x = g.input("x", (4, 4))
    middle = g.add(x, np.float32(1))
    g.output(middle, "middle")
    g.output(g.tanh(g.mul(middle, np.float32(2))), "end")
    ones = np.ones((4, 4), np.float32)
    middle_value, end = pl.compile(g, device="cpu").run(ones)
    np.testing.assert_array_equal(middle_value, ones + 1)
    np.testing.assert_allclose(end, np.tanh((ones + 1) * 2), rtol=1e-6)
