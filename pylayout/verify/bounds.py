"""How far a result may be from the exact one: every bound of `pylayout verify` is made here.

The yardstick is a loop that adds float32 products one after the other. Let p_1 ... p_K be the terms of one result and
s_k the sum of the first k. Each addition rounds s_k, by an error that is spread evenly over half a unit of the last
place of s_k to either side: at most u |s_k| (u = 2^-24, the unit roundoff), and u |s_k| / sqrt(6) as a standard
deviation, since s_k is anywhere between two powers of two. So the loop's error has the standard deviation

    u / sqrt(6) * sqrt(sum over k of s_k^2),    for terms in no special order    sum of s_k^2 = K S2 / 2 + K S1^2 / 3

with S1 the sum of all terms and S2 that of their squares: a random walk (S2) plus a drift (S1). `deviation` is this
figure. It is exact enough that the largest error of such a loop over thousands of results is 4 to 5 times it (normal
distribution). A result passes within `LOOP * SPREAD` times it: 4 times what the worst result of the loop shows.

- Terms that a candidate transforms first (Winograd) mix neighbouring results, so no result is held to less than the
  mean deviation of all.
- Where factors are rounded first (math modes tf32 and fp16 on matrix units), each term moves by up to 2 * 2^-12 of
  itself: a deviation of 2^-12 * sqrt(2/3 * S2), with the same factors.
- Matrix units cut off what lies below the largest term of a group, in place of rounding: on devices with them u is 4
  times as large.
- The result is rounded to its dtype, and so may be what a post-op is applied to: `ROUNDINGS` units.
- A function f among the post-ops turns an error e of its argument x into |f(x + e) - f(x)|, plus that of computing f:
  FUNCTION units of f(x), and of 1 (times x for gelu and its like) for functions made of exponentials that cancel, as
  float32 libraries state theirs.  elu, selu and softplus may round at 1 there, however small their argument: behind a
  gate arguments are small and exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .case import PRECISION

__all__ = [
    "FUNCTION",
    "LOGARITHM",
    "LOOP",
    "ROUNDINGS",
    "SPREAD",
    "UNIT",
    "deviation",
    "rounding",
    "sum_bound",
    "unit_of",
]

Array = NDArray[Any]

UNIT = 2.0**-24  # unit roundoff of f32
LOOP = 4.0  # times the error of the loop
SPREAD = 4.5  # the largest of some thousand normal errors, in standard deviations
ROUNDINGS = 2.0  # of a result in its own dtype
FUNCTION = 8.0  # units of the last place that an elementary function may be off
LOGARITHM = 32.0  # the same of the logarithm of log_softmax: oneDNN 3.2's is off by 4e-6 at 4
_TF32 = 2.0**-12


def deviation(terms: float, total: Array, squares: Array, unit: float = UNIT, tf32: bool = False) -> Array:
    """The standard deviation of the error of such a loop, by result."""
    drift = terms * total * total / 3
    variance = (unit * unit / 6) * (terms * squares / 2 + drift)
    if tf32:
        variance = variance + (2 / 3) * _TF32 * _TF32 * squares
    found: Array = np.sqrt(np.maximum(variance, 0))
    return found


def sum_bound(terms: float, total: Array, squares: Array, unit: float = UNIT, tf32: bool = False) -> Array:
    """How far a sum of products may be off."""
    each = deviation(terms, total, squares, unit, tf32)
    floor = float(np.mean(each)) if each.size else 0.0
    bound: Array = LOOP * SPREAD * np.maximum(each, floor) + 2 * unit * np.abs(total)
    return bound


def unit_of(matrix_units: bool) -> float:
    """The unit roundoff of sums on a device."""
    return UNIT * (4 if matrix_units else 1)


def rounding(values: Array, dtype: str) -> Array:
    """How far rounding to a dtype may move values; the smallest number of f16 counts, too."""
    if dtype not in PRECISION:
        return np.zeros(np.shape(values))
    smallest = 2.0**-24 if dtype == "f16" else 2.0**-126
    units: Array = ROUNDINGS * (2.0 ** -PRECISION[dtype] * np.abs(values) + smallest)
    return units
