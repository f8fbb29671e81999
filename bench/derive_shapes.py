"""Write bench/shapes.py: the distinct convolutions of five networks.

    python -m bench.derive_shapes

Needs torchvision, whose definitions they are.
"""

from __future__ import annotations

import pprint
from collections import Counter
from pathlib import Path

from .torchvision_models import import_torchvision

NETWORKS = ("resnet50", "mobilenet_v2", "densenet161", "efficientnet_b0", "vgg16")

HEAD = '''"""The distinct convolutions of five networks at 224 x 224, with how often each occurs.

Written by `python -m bench.derive_shapes` from torchvision's definitions; do not edit.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CONVOLUTIONS", "Convolution"]


class Convolution(NamedTuple):
    """One convolution: input (n, c, h, w), weight (oc, c / groups, k, k)."""

    times: int
    c: int
    h: int
    w: int
    oc: int
    k: int
    stride: int
    padding: int
    groups: int


CONVOLUTIONS: dict[str, list[Convolution]] = {
'''


def convolutions(name: str) -> list[tuple[int, ...]]:
    import torch

    module = getattr(import_torchvision(), name)().eval()
    seen: Counter[tuple[int, ...]] = Counter()

    def note(layer, inputs, output) -> None:
        _, c, h, w = inputs[0].shape
        square = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        if any(a != b for a, b in square) or layer.dilation != (1, 1):
            raise SystemExit(f"{name}: {layer} is not square")
        seen[(c, h, w, layer.out_channels, layer.kernel_size[0], layer.stride[0], layer.padding[0], layer.groups)] += 1

    for layer in module.modules():
        if isinstance(layer, torch.nn.Conv2d):
            layer.register_forward_hook(note)
    with torch.no_grad():
        module(torch.zeros(1, 3, 224, 224))
    return [(times, *shape) for shape, times in seen.items()]


def main() -> None:
    text = HEAD
    for name in NETWORKS:
        text += f'    "{name}": [\n'
        for row in convolutions(name):
            text += f"        Convolution({pprint.pformat(row)[1:-1]}),\n"
        text += "    ],\n"
    path = Path(__file__).with_name("shapes.py")
    path.write_text(text + "}\n", "utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
