"""What a network is written against: a handful of layers, each named as torchvision names its parameters.

A network is a function `network(layers, x)`. What `layers` is decides what happens: `OpLayers` runs pylayout's ops,
`Trace` follows shapes alone, and the tests and the seeding of weights run it in NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .. import ops

__all__ = ["EPS", "Layer", "Layers", "OpLayers", "Trace"]

EPS = 1e-5  # torchvision's batch norms, in all three networks


class Layers(Protocol):
    """The layers of a network over some kind of tensor: shapes are logical, (n, c, h, w)."""

    def conv(
        self,
        x: Any,
        name: str,
        channels: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        norm: str | None = None,
        activation: str | None = None,
        residual: Any = None,
    ) -> Any:
        """activation(norm(conv(x)) + residual); without a norm the convolution has a bias."""

    def linear(self, x: Any, name: str, features: int, *, activation: str | None = None) -> Any: ...
    def max_pool(self, x: Any, kernel: int, stride: int, padding: int = 0) -> Any: ...
    def average_pool(self, x: Any, size: int) -> Any:
        """Adaptive average pooling to (size, size)."""

    def flatten(self, x: Any) -> Any: ...
    def shape(self, x: Any) -> tuple[int, ...]: ...


class OpLayers:
    """Runs a network through the public ops.

    `parameters` are tensors. Folded ones (see `fold`) have a bias for every convolution; otherwise each batch norm,
    residual sum and activation is an op of its own.
    """

    def __init__(self, parameters: Mapping[str, Any], *, layout: str = "auto", folded: bool = True) -> None:
        self._parameters = parameters
        self._layout = layout
        self._folded = folded

    def conv(
        self,
        x: Any,
        name: str,
        channels: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        norm: str | None = None,
        activation: str | None = None,
        residual: Any = None,
    ) -> Any:
        p, layout = self._parameters, self._layout
        weight = p[f"{name}.weight"]
        if self._folded:
            return ops.conv2d(
                x,
                weight,
                p[f"{name}.bias"],
                stride=stride,
                padding=padding,
                groups=groups,
                activation=activation,
                residual=residual,
                layout=layout,
            )
        bias = None if norm else p[f"{name}.bias"]
        x = ops.conv2d(x, weight, bias, stride=stride, padding=padding, groups=groups, layout=layout)
        if norm:
            mean, variance = p[f"{norm}.running_mean"], p[f"{norm}.running_var"]
            scale, shift = p[f"{norm}.weight"], p[f"{norm}.bias"]
            x = ops.batch_norm(x, mean, variance, scale, shift, eps=EPS, layout=layout)
        if residual is not None:
            x = ops.add(x, residual, layout=layout)
        return getattr(ops, activation)(x, layout=layout) if activation else x

    def linear(self, x: Any, name: str, features: int, *, activation: str | None = None) -> Any:
        weight, bias = self._parameters[f"{name}.weight"], self._parameters[f"{name}.bias"]
        return ops.linear(x, weight, bias, activation=activation, layout=self._layout)

    def max_pool(self, x: Any, kernel: int, stride: int, padding: int = 0) -> Any:
        return ops.max_pool2d(x, kernel, stride=stride, padding=padding, layout=self._layout)

    def average_pool(self, x: Any, size: int) -> Any:
        return ops.adaptive_avg_pool2d(x, size, layout=self._layout)

    def flatten(self, x: Any) -> Any:
        return ops.flatten(x, 1)

    def shape(self, x: Any) -> tuple[int, ...]:
        return tuple(x.shape)


@dataclass(frozen=True)
class Layer:
    """A convolution or linear layer as `Trace` saw it."""

    kind: str  # "conv" or "linear"
    name: str
    norm: str | None
    x: tuple[int, ...]
    weight: tuple[int, ...]
    y: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    groups: int = 1
    activation: str | None = None
    residual: bool = False

    @property
    def flops(self) -> int:
        """Two for each multiply-add."""
        total = 2
        for size in self.y + self.weight[1:]:
            total *= size
        return total

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what the layer reads, by torchvision's names."""
        shapes = {f"{self.name}.weight": self.weight}
        if self.norm:
            for part in ("weight", "bias", "running_mean", "running_var"):
                shapes[f"{self.norm}.{part}"] = self.weight[:1]
        else:
            shapes[f"{self.name}.bias"] = self.weight[:1]
        return shapes


class Trace:
    """Follows shapes through a network; a tensor is a tuple of sizes."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []

    def conv(
        self,
        x: tuple[int, ...],
        name: str,
        channels: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        norm: str | None = None,
        activation: str | None = None,
        residual: tuple[int, ...] | None = None,
    ) -> tuple[int, ...]:
        n, c, h, w = x
        y = (n, channels, *((size + 2 * padding - kernel) // stride + 1 for size in (h, w)))
        weight = (channels, c // groups, kernel, kernel)
        self.layers.append(
            Layer("conv", name, norm, x, weight, y, stride, padding, groups, activation, residual is not None)
        )
        return y

    def linear(self, x: tuple[int, ...], name: str, features: int, *, activation: str | None = None) -> tuple[int, ...]:
        y = (*x[:-1], features)
        self.layers.append(Layer("linear", name, None, x, (features, x[-1]), y, activation=activation))
        return y

    def max_pool(self, x: tuple[int, ...], kernel: int, stride: int, padding: int = 0) -> tuple[int, ...]:
        n, c, h, w = x
        return (n, c, *((size + 2 * padding - kernel) // stride + 1 for size in (h, w)))

    def average_pool(self, x: tuple[int, ...], size: int) -> tuple[int, ...]:
        return (*x[:2], size, size)

    def flatten(self, x: tuple[int, ...]) -> tuple[int, ...]:
        features = 1
        for size in x[1:]:
            features *= size
        return (x[0], features)

    def shape(self, x: tuple[int, ...]) -> tuple[int, ...]:
        return x
