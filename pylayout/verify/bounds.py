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
- Winograd's algorithm has an error of its own, `winograd_deviation`, by which its candidates alone are judged where
  it is more than the loop's: of few channels, whose short sums a loop rounds little.  With filters g and windows d of
  standard deviations s_g and s_d, the product of point (p, q) of the transformed domain has the variance
  |G_p|^2 |G_q|^2 |B_p|^2 |B_q|^2 s_g^2 s_d^2, where G_p and B_p are rows of the transforms.  Relative to itself it is
  off by the roundings of both factors and of a loop over C channels, a variance of u^2 / 6 * (C / 2 + 2 T).  Output
  (i, j) is the sum of these products by A_ip A_jq, so its error has the variance

      k_i k_j C s_g^2 s_d^2 * u^2 / 6 * (C / 2 + 2 T),    k_i = sum over p of A_ip^2 |G_p|^2 |B_p|^2

  and 9 C s_g^2 s_d^2 is the mean of S2.  T is how many roundings transforming a factor is worth: of two passes of three
  or four each, whose intermediate values may cancel, 7 as measured; of a factor that is made in double, 1.  The largest
  k of a tile counts for all, and 7 for both factors.  (B. Barabasz et al., arXiv 1803.10986, bound the same parts.)
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

import math
from collections.abc import Sequence
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
    "winograd_bound",
    "winograd_deviation",
    "winograd_weights_bound",
]

Array = NDArray[Any]

UNIT = 2.0**-24  # unit roundoff of f32
LOOP = 4.0  # times the error of the loop
SPREAD = 4.5  # the largest of some thousand normal errors, in standard deviations
ROUNDINGS = 2.0  # of a result in its own dtype
FUNCTION = 8.0  # units of the last place that an elementary function may be off
LOGARITHM = 32.0  # the same of the logarithm of log_softmax: oneDNN 3.2's is off by 4e-6 at 4
_TF32 = 2.0**-12

# F(4x4, 3x3) over the points 0, +-5/8, +-3/2 and infinity (src/providers/host/conv/winograd.h), whose error is more
# than that of F(2x2, 3x3).
_POINTS = (0.0, 0.625, -0.625, 1.5, -1.5)
_OUTPUTS, _TAPS = 4, 3
_TRANSFORM = 7.0


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


def _winograd_gains() -> tuple[float, float]:
    """The largest k of an output of the tile, and of a tap of the filter's gradient by one output."""
    window = _OUTPUTS + _TAPS - 1
    terms = np.zeros((_OUTPUTS, window))
    of_weights = np.zeros((_OUTPUTS, _TAPS, window))
    powers = 2.0 * np.arange(_OUTPUTS)
    for p, point in enumerate(_POINTS):
        others = [other for other in _POINTS if other != point]
        # The row of B^T: coefficients of the product of (t - q) over the other points q; of G: powers over its value.
        b = np.poly(others)
        g = point ** np.arange(_TAPS) / np.prod([point - other for other in others])
        terms[:, p] = point**powers * (g @ g) * (b @ b)
        of_weights[:, :, p] = np.outer(point**powers, g * g) * (b @ b)
    last = np.poly(_POINTS)
    terms[-1, -1] = of_weights[-1, -1, -1] = last @ last
    return float(terms.sum(1).max()), float(of_weights.sum(2).max())


_GAIN, _GAIN_OF_WEIGHTS = _winograd_gains()


def winograd_deviation(terms: float, squares: float, unit: float = UNIT, gain: float = _GAIN / _TAPS) -> float:
    """The standard deviation of the error of Winograd's algorithm; terms: of the sums in between, channels, or tiles
    of a gradient by weights; squares: the mean over results of S2."""
    return gain * unit * float(np.sqrt(squares * (terms / 2 + 2 * _TRANSFORM) / 6))


def winograd_bound(terms: float, squares: Array, unit: float = UNIT, gain: float = _GAIN / _TAPS) -> float:
    """How far a result may be off that Winograd's algorithm makes."""
    return LOOP * SPREAD * winograd_deviation(terms, float(np.mean(squares)), unit, gain) if squares.size else 0.0


def winograd_weights_bound(images: int, sizes: Sequence[int], squares: Array, unit: float = UNIT) -> float:
    """The same of a gradient by weights, a sum over tiles of outputs of these sizes. Some tiles have few: the worst
    output alone counts."""
    tiles = images * math.prod(-(-size // _OUTPUTS) for size in sizes)
    return winograd_bound(tiles, squares, unit, _GAIN_OF_WEIGHTS)


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
