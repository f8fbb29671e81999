"""The layers in plain NumPy: slow, and independent of pylayout's ops.

Seeds weights (one forward pass sets the batch norms' statistics) and serves the tests as a reference, in the dtype of
the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from .layers import EPS

__all__ = ["ReferenceLayers", "activate", "convolve"]

Array = NDArray[Any]


def _windows(x: Array, kernel: int, stride: int, padding: int, fill: float) -> Array:
    """Every window of x (n, c, h, w), as a view (n, c, oh, ow, kernel, kernel)."""
    if padding:
        edge = (padding, padding)
        x = np.pad(x, ((0, 0), (0, 0), edge, edge), constant_values=fill)
    view: Array = sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    return view[:, :, ::stride, ::stride]


def convolve(x: Array, weight: Array, stride: int, padding: int, groups: int) -> Array:
    """Convolution of x (n, c, h, w) with weight (oc, c / groups, k, k)."""
    n, c = x.shape[:2]
    channels, depth, kernel, _ = weight.shape
    windows = _windows(x, kernel, stride, padding, 0.0)
    oh, ow = windows.shape[2:4]
    if depth == 1 and groups == channels == c:  # depthwise: no matrix to multiply
        depthwise: Array = np.einsum("nchwij,cij->nchw", windows, weight[:, 0])
        return depthwise
    columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, groups, depth * kernel * kernel, oh * ow)
    y: Array = weight.reshape(groups, channels // groups, -1) @ columns
    return y.reshape(n, channels, oh, ow)


def activate(x: Array, activation: str | None) -> Array:
    """x through relu, relu6 or nothing."""
    if activation is None:
        return x
    high = {"relu": None, "relu6": 6.0}[activation]
    return np.clip(x, 0.0, high)


class ReferenceLayers:
    """Runs a network in NumPy over parameters that are not folded."""

    def __init__(self, parameters: Mapping[str, Array]) -> None:
        self._parameters = parameters

    def conv(
        self,
        x: Array,
        name: str,
        channels: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        norm: str | None = None,
        activation: str | None = None,
        residual: Array | None = None,
    ) -> Array:
        y = convolve(x, self._parameters[f"{name}.weight"], stride, padding, groups)
        return self._finish(y, name, norm, activation, residual)

    def _finish(self, y: Array, name: str, norm: str | None, activation: str | None, residual: Array | None) -> Array:
        """What follows the bare convolution."""
        column = (slice(None), None, None)
        if norm:
            mean, variance, scale, shift = (
                self._parameters[f"{norm}.{part}"][column] for part in ("running_mean", "running_var", "weight", "bias")
            )
            y = (y - mean) / np.sqrt(variance + EPS) * scale + shift
        else:
            y = y + self._parameters[f"{name}.bias"][column]
        return activate(y if residual is None else y + residual, activation)

    def linear(self, x: Array, name: str, features: int, *, activation: str | None = None) -> Array:
        y = x @ self._parameters[f"{name}.weight"].T + self._parameters[f"{name}.bias"]
        return activate(y, activation)

    def max_pool(self, x: Array, kernel: int, stride: int, padding: int = 0) -> Array:
        y: Array = _windows(x, kernel, stride, padding, -np.inf).max(axis=(4, 5))
        return y

    def average_pool(self, x: Array, size: int) -> Array:
        h, w = x.shape[2:]
        rows = [slice(i * h // size, -(-(i + 1) * h // size)) for i in range(size)]
        columns = [slice(j * w // size, -(-(j + 1) * w // size)) for j in range(size)]
        return np.stack([np.stack([x[:, :, r, c].mean(axis=(2, 3)) for c in columns], axis=-1) for r in rows], axis=-2)

    def flatten(self, x: Array) -> Array:
        return x.reshape(len(x), -1)

    def shape(self, x: Array) -> tuple[int, ...]:
        return x.shape
