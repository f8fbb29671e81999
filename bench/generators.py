"""Networks that make images by transposed convolutions, for benchmarks.

unet   O. Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation, arXiv 1505.04597,
       smaller: three levels down and up, joined by concatenation; sides have to be multiples of 8
dcgan  the generator of A. Radford et al., Unsupervised Representation Learning with Deep Convolutional Generative
       Adversarial Networks, arXiv 1511.06434: 100 numbers to an image of 64 x 64
"""

from __future__ import annotations

import itertools
from typing import Any

from .torchvision_models import calibrated

NETWORKS = ["unet", "dcgan"]
_CODE = 100  # numbers that an image is made of


def inputs_for(network: str, batch: int) -> Any:
    """Images of 256 x 256, or codes; normally distributed, seeded by the batch."""
    import torch

    torch.manual_seed(batch)
    return torch.randn(batch, 3, 256, 256) if network == "unet" else torch.randn(batch, _CODE, 1, 1)


def unet() -> Any:
    """As PyTorch initialises it."""
    import torch
    from torch import nn

    def level(inputs: int, outputs: int) -> Any:
        layers = []
        for width in (inputs, outputs):
            layers += [nn.Conv2d(width, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [24, 48, 96, 192]
            self.down = nn.ModuleList(level(a, b) for a, b in zip([3, *widths[:-1]], widths, strict=True))
            self.lift = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
            self.up = nn.ModuleList(level(2 * w, w) for w in widths[-2::-1])
            self.head = nn.Conv2d(widths[0], 5, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for k, each in enumerate(self.down):
                x = each(x if k == 0 else nn.functional.max_pool2d(x, 2))
                kept.append(x)
            for lift, each, other in zip(self.lift, self.up, kept[-2::-1], strict=True):
                x = each(torch.cat([lift(x), other], 1))
            return self.head(x)

    return UNet()


def _dcgan() -> Any:
    from torch import nn

    widths = [_CODE, 512, 256, 128, 64]
    layers: list[Any] = []
    for k, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        shape = (4, 1, 0) if k == 0 else (4, 2, 1)
        layers += [nn.ConvTranspose2d(inputs, outputs, *shape, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(widths[-1], 3, 4, 2, 1, bias=False), nn.Tanh())


def build(network: str) -> Any:
    """The network in eval mode, seeded and calibrated."""
    import torch

    torch.manual_seed(1)
    module = unet() if network == "unet" else _dcgan()
    return calibrated(module, inputs_for(network, 4))
