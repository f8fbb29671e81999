"""Networks built from pylayout's public ops, with torchvision's parameter names.

>>> from pylayout.networks import trace
>>> len(trace("resnet50")), sum(layer.flops for layer in trace("resnet50")) // 10**6
(54, 8178)

`Network("resnet50")` holds seeded weights, `Network("resnet50", "resnet50.safetensors")` those of a file; called with
images (n, 3, 224, 224), a Tensor, and maybe a layout policy, it returns the logits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .layers import Layer, OpLayers, Trace
from .mobilenet import mobilenet_v2
from .resnet import resnet50
from .vgg import vgg16
from .weights import Array, check, fold, read_safetensors, seeded

__all__ = ["NETWORKS", "Network", "trace"]

NETWORKS = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2, "vgg16": vgg16}


def trace(name: str, shape: tuple[int, ...] = (1, 3, 224, 224)) -> list[Layer]:
    """The convolutions and linear layers of a network, with their shapes, in the order they run."""
    if name not in NETWORKS:
        raise ValueError(f"no network named {name!r}, expected one of {', '.join(NETWORKS)}")
    layers = Trace()
    NETWORKS[name](layers, shape)
    return layers.layers


class Network:
    """A network and its parameters on one device.

    weights: a safetensors file, or a dict of arrays, with torchvision's names; None draws them from `seed`.
    folded: fold each batch norm into its convolution, and fuse activations and residual sums.
    progress: called with (done, total) while weights are drawn and copied.
    """

    def __init__(
        self,
        name: str,
        weights: str | os.PathLike[str] | dict[str, Array] | None = None,
        *,
        seed: int = 0,
        device: str = "cpu",
        folded: bool = True,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        from .. import asarray

        self.name = name
        self.layers = trace(name)
        self.device = device
        self.folded = folded
        done, total = 0, len(self.layers) + 1

        def advance() -> None:
            nonlocal done
            done += 1
            progress(done, total)

        if weights is None:
            parameters = seeded(NETWORKS[name], seed, advance)
        else:
            source = "weights" if isinstance(weights, dict) else os.fspath(weights)
            parameters = weights if isinstance(weights, dict) else read_safetensors(weights)
            check(parameters, self.layers, source)
        if folded:
            parameters = fold(parameters, self.layers)
        self.parameters = {
            key: asarray(np.ascontiguousarray(value, np.float32), device=device)
            for key, value in parameters.items()
            if not key.endswith("num_batches_tracked")
        }
        progress(total, total)

    @property
    def flops(self) -> int:
        """Of one image's convolutions and linear layers."""
        return sum(layer.flops for layer in self.layers)

    def __call__(self, x: Any, layout: str = "auto") -> Any:
        """Logits (n, 1000) of images x (n, 3, h, w), a Tensor; `layout` is passed to every op."""
        return NETWORKS[self.name](OpLayers(self.parameters, layout=layout, folded=self.folded), x)
