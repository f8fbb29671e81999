"""Gradients of look-ups: every dtype, indices out of range, and the same bits for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import pylayout as pl

pytestmark = pytest.mark.usefixtures("unoptimised")

SLICES = [  # grad, index, dim, size
    ((300, 40), (300,), 0, 50),
    ((300, 1030), (300,), 0, 1),
    ((20, 30, 17), (20, 30), 0, 5000),
    ((5, 40, 3), (40,), 1, 7),
    ((9, 200), (200,), 1, 31),
    ((4000,), (4000,), 0, 3),
    ((6, 5, 70), (70,), 2, 66),
]
ELEMENTS = [((40, 1), 1, 700), ((3, 60, 90), 1, 6), ((3000,), 0, 11), ((2, 50, 600), 2, 9), ((1, 600), 1, 600)]


def _rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    return np.asarray(pl.asarray(values).to(dtype).to("f32").numpy())


def _indices(rng: np.random.Generator, shape: tuple[int, ...], size: int) -> np.ndarray:
    """Half of them in range; others lie just outside of it, and far."""
    index = rng.integers(-size - 2, size + 2, shape)
    index.reshape(-1)[::17] = 2**40 if size % 2 else -(2**40)
    return index


def _sums(grad: np.ndarray, index: np.ndarray, dim: int, size: int, elements: bool) -> tuple[np.ndarray, np.ndarray]:
    """The gradient in float64, and the sum of magnitudes that bounds its rounding."""
    if elements:
        at = [*np.indices(grad.shape)]
        at[dim] = index
    else:
        grad = grad.reshape(*grad.shape[:dim], index.size, *grad.shape[dim + index.ndim :])
        at = [*np.indices(grad.shape)]
        along = [1] * grad.ndim
        along[dim] = index.size
        at[dim] = np.broadcast_to(index.reshape(along), grad.shape)
    valid = (at[dim] >= -size) & (at[dim] < size)
    made = np.zeros((2, *grad.shape[:dim], size, *grad.shape[dim + 1 :]))
    where = tuple(each[valid] for each in at)
    np.add.at(made[0], where, grad[valid])
    np.add.at(made[1], where, np.abs(grad[valid]))
    return made[0], made[1]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("case", [*SLICES, *ELEMENTS], ids=str)
def test_values_and_indices_out_of_range(case: tuple, dtype: str, device: str) -> None:
    shape, *index_shape, dim, size = case
    rng = np.random.default_rng(3)
    grad = _rounded(rng.standard_normal(shape).astype("f4"), dtype)
    index = _indices(rng, index_shape[0] if index_shape else shape, size)
    name = "index_select_backward" if index_shape else "gather_backward"
    exact, magnitude = _sums(grad.astype("f8"), index, dim, size, not index_shape)
    found = [
        np.asarray(
            getattr(pl.ops, name)(pl.asarray(grad, device=device).to(dtype), pl.asarray(i, device=device), dim, size)
            .to("f32")
            .numpy()
        )
        for i in (index, np.clip(index, -(2**31), 2**31 - 1).astype("i4"))
    ]
    unit = {"f32": 2**-24, "bf16": 2**-8, "f16": 2**-11}[dtype]
    count = index.size * 2.0**-24
    assert np.all(np.abs(found[0] - exact) <= 2 * unit * np.abs(exact) + count * magnitude + 1e-7 * (dtype == "f16"))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("equal", [False, True])
def test_the_same_bits_for_any_number_of_threads(equal: bool) -> None:
    rng = np.random.default_rng(4)
    grad = pl.asarray(rng.standard_normal((3000, 200)).astype("f4"))
    index = pl.asarray(np.zeros(3000, "i8") if equal else rng.integers(0, 40, 3000))
    found = []
    before = pl.get_threads()
    try:
        for threads in (1, 2, 3, 5):
            pl.set_threads(threads)
            found.append(np.asarray(pl.ops.index_select_backward(grad, index, 0, 40).numpy()).tobytes())
    finally:
        pl.set_threads(before)
    assert len(set(found)) == 1
