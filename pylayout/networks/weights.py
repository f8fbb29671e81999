"""Parameters of a network: seeded, or read from a safetensors file with torchvision's names; and folding."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .layers import EPS, Layer, Layers
from .reference import ReferenceLayers, activate, convolve

__all__ = ["check", "fold", "read_safetensors", "seeded"]

Array = NDArray[Any]
Definition = Callable[[Layers, Any], Any]

# The images whose statistics the batch norms take. One image would not do: in the last stage its features vary little
# from place to place, and those of another image would be far outside.
_CALIBRATION_IMAGES = 8
_CALIBRATION_SIZE = 112  # pixels a side


class _Seeding(ReferenceLayers):
    """Draws each layer's parameters as the network reaches it, so that activations keep unit scale.

    Weights are He-normal. A batch norm's running statistics are those of the pass itself; a layer without batch norm
    has its weights divided by the standard deviation of what it computes.
    """

    def __init__(self, parameters: dict[str, Array], seed: int, progress: Callable[[], None]) -> None:
        super().__init__(parameters)
        self._drawn = parameters
        self._random = np.random.default_rng(seed)
        self._progress = progress

    def _he_normal(self, *shape: int) -> Array:
        weight = self._random.standard_normal(shape, dtype=np.float32)
        weight *= np.float32(np.sqrt(2.0 / np.prod(shape[1:])))
        return weight

    def _uniform(self, low: float, high: float, count: int) -> Array:
        return self._random.uniform(low, high, count).astype(np.float32)

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
        p = self._drawn
        weight = self._he_normal(channels, x.shape[1] // groups, kernel, kernel)
        y = convolve(x, weight, stride, padding, groups)
        if norm:
            p[f"{norm}.weight"] = self._uniform(0.5, 1.0, channels)
            p[f"{norm}.bias"] = self._uniform(-0.1, 0.1, channels)
            p[f"{norm}.running_mean"] = y.mean(axis=(0, 2, 3), dtype=np.float64).astype(np.float32)
            p[f"{norm}.running_var"] = y.var(axis=(0, 2, 3), dtype=np.float64).astype(np.float32)
        else:
            p[f"{name}.bias"] = self._uniform(-0.1, 0.1, channels)
            y = _normalise(y, weight)
        p[f"{name}.weight"] = weight
        self._progress()
        return self._finish(y, name, norm, activation, residual)

    def linear(self, x: Array, name: str, features: int, *, activation: str | None = None) -> Array:
        weight = self._he_normal(features, x.shape[-1])
        y = _normalise(x @ weight.T, weight)
        p = self._drawn
        p[f"{name}.weight"], p[f"{name}.bias"] = weight, self._uniform(-0.1, 0.1, features)
        self._progress()
        return activate(y + p[f"{name}.bias"], activation)


def _normalise(y: Array, weight: Array) -> Array:
    """Divide y, and the weight that gave it, by y's standard deviation."""
    deviation = np.float32(y.std(dtype=np.float64))
    weight /= deviation
    y /= deviation
    return y


def seeded(network: Definition, seed: int = 0, progress: Callable[[], None] = lambda: None) -> dict[str, Array]:
    """Parameters drawn from a seed: the same ones for the same seed, up to rounding in NumPy's matrix product.

    `progress` is called after each layer.
    """
    from ..image import synthetic

    parameters: dict[str, Array] = {}
    images = np.concatenate([synthetic(_CALIBRATION_SIZE, seed=i) for i in range(_CALIBRATION_IMAGES)])
    network(_Seeding(parameters, seed, progress), images)
    return parameters


def check(parameters: Mapping[str, Array], layers: Sequence[Layer], source: str) -> None:
    """Raise ValueError unless every parameter that the layers read is there, in its shape."""
    for layer in layers:
        for name, shape in layer.parameters().items():
            if name not in parameters:
                raise ValueError(f"{source}: no parameter {name}, expected one of shape {shape}")
            if parameters[name].shape != shape:
                raise ValueError(f"{source}: {name} has shape {parameters[name].shape}, expected {shape}")


def fold(parameters: Mapping[str, Array], layers: Sequence[Layer]) -> dict[str, Array]:
    """Weights and biases alone: each batch norm folded into the convolution before it.

    norm(w x) = (scale / sqrt(variance + eps)) w x + shift - mean scale / sqrt(variance + eps)
    """
    folded: dict[str, Array] = {}
    for layer in layers:
        weight = parameters[f"{layer.name}.weight"]
        if layer.norm is None:
            folded[f"{layer.name}.weight"] = weight
            folded[f"{layer.name}.bias"] = parameters[f"{layer.name}.bias"]
            continue
        mean, variance, scale, shift = (
            parameters[f"{layer.norm}.{part}"].astype(np.float64)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        factor = scale / np.sqrt(variance + EPS)
        column = factor.reshape(-1, *(1,) * (weight.ndim - 1))
        folded[f"{layer.name}.weight"] = (weight * column).astype(np.float32)
        folded[f"{layer.name}.bias"] = (shift - mean * factor).astype(np.float32)
    return folded


_SAFETENSORS_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The tensors of a safetensors file, floating ones as float32; other dtypes than these are left out.

    The format: an 8-byte little-endian length, so many bytes of JSON {name: {dtype, shape, data_offsets}}, the data
    (https://github.com/huggingface/safetensors#format).
    """
    data = Path(path).read_bytes()
    damaged = ValueError(f"{path}: not a safetensors file, or a damaged one")
    if len(data) < 8:
        raise damaged
    start = 8 + int.from_bytes(data[:8], "little")
    if start > len(data):
        raise damaged
    try:
        header = json.loads(data[8:start])
    except ValueError as error:
        raise damaged from error
    if not isinstance(header, dict):
        raise damaged
    tensors: dict[str, Array] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            if dtype not in _SAFETENSORS_DTYPES:
                continue
            if not 0 <= begin <= end <= len(data) - start:
                raise damaged
            array = np.frombuffer(data[start + begin : start + end], _SAFETENSORS_DTYPES[dtype]).reshape(shape)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: tensor {name} is damaged") from error
        if dtype == "BF16":  # the upper half of a float32
            array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        tensors[name] = array if array.dtype.kind == "i" else array.astype(np.float32)
    return tensors
