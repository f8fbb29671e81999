"""Functions of two tensors of narrow integers and truth values as NumPy has them: wrapped, broadcast, strided."""

from __future__ import annotations

import numpy as np
import pytest

import pylayout as pl

pytestmark = pytest.mark.usefixtures("unoptimised")

FUNCTIONS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
}  # fmt: skip
TRUTH = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
SHAPES = [
    ((7, 37), (7, 37)),
    ((7, 37), (37,)),
    ((7, 1), (7, 37)),
    ((2, 3, 5, 4), (3, 1, 1)),
    ((), (9,)),
    ((0, 4), (4,)),
]


def drawn(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    kind = np.dtype(dtype)
    info = np.iinfo(kind)
    values = rng.integers(info.min, info.max, shape, endpoint=True, dtype=kind)
    return np.where(rng.random(shape) < 0.2, rng.choice([info.min, info.max], shape), values).astype(kind)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bool"])
def test_as_numpy_has_them(dtype: str, shapes: tuple, rng: np.random.Generator, device: str) -> None:
    a, b = (drawn(rng, dtype, shape) for shape in shapes)
    for name, function in (TRUTH if dtype == "bool" else FUNCTIONS).items():
        found = getattr(pl.ops, name)(pl.asarray(a, device=device), pl.asarray(b, device=device))
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(np.asarray(found.numpy()), function(a, b), err_msg=name)


@pytest.mark.parametrize("dtype", ["int8", "int32", "bool"])
def test_strided_and_in_place(dtype: str, rng: np.random.Generator) -> None:
    whole = drawn(rng, dtype, (6, 10, 8))
    x, y = pl.asarray(whole)[:, ::2, 1:], pl.asarray(whole)[:, 1::2, :7]
    name, function = ("logical_xor", np.logical_xor) if dtype == "bool" else ("sub", np.subtract)
    wanted = function(whole[:, ::2, 1:], whole[:, 1::2, :7])
    np.testing.assert_array_equal(np.asarray(getattr(pl.ops, name)(x, y).numpy()), wanted)
    turned = getattr(pl.ops, name)(pl.asarray(whole.transpose(2, 0, 1)), pl.asarray(whole).permute(2, 0, 1))
    np.testing.assert_array_equal(np.asarray(turned.numpy()), function(whole, whole).transpose(2, 0, 1))
