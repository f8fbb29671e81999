"""Sums of many terms that have a sign: errors do not grow with their number."""

from __future__ import annotations

import numpy as np
import pytest

import pylayout as pl
from pylayout import ops

pytestmark = pytest.mark.usefixtures("untuned")

LAYOUTS = ["NCHW", "NHWC", "nChw8c", "nChw16c", "auto"]


def error(made: pl.Tensor, wanted: np.ndarray) -> float:
    return float(np.abs(np.asarray(made.numpy(), "float64") - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("op", ["sum", "mean", "reduce_l1", "reduce_l2", "reduce_sum_square"])
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions(op: str, dim: int, rng: np.random.Generator) -> None:
    x = rng.random((1 << 20, 3) if dim == 0 else (3, 1 << 20), "float32") ** 2
    exact = x.astype("float64")
    wanted = {
        "sum": lambda: exact.sum(dim),
        "mean": lambda: exact.mean(dim),
        "reduce_l1": lambda: exact.sum(dim),
        "reduce_l2": lambda: np.sqrt((exact * exact).sum(dim)),
        "reduce_sum_square": lambda: (exact * exact).sum(dim),
    }[op]()
    assert error(getattr(ops, op)(x, dim), wanted) < 5e-7


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batch_norms(layout: str, rng: np.random.Generator) -> None:
    x = rng.random((16, 8, 64, 64), "float32") + 1
    grad = rng.random(x.shape, "float32")
    weight, bias = np.ones(8, "float32"), np.zeros(8, "float32")
    exact, axes = x.astype("float64"), (0, 2, 3)
    mean, variance = exact.mean(axes), exact.var(axes)
    _, of_mean, of_variance = ops.batch_norm_training(x, weight, bias, layout=layout)
    assert error(of_mean, mean) < 1e-6 and error(of_variance, variance) < 2e-6
    given = x, grad, mean.astype("float32"), variance.astype("float32"), weight
    assert error(ops.batch_norm_backward(*given, layout=layout)[2], grad.astype("float64").sum(axes)) < 2e-6
