"""Networks that enlarge images, for benchmarks: few channels, large images, activations that are functions.

espcn_xN  W. Shi et al., Real-Time Single Image and Video Super-Resolution, arXiv 1609.05158
srcnn     C. Dong et al., Image Super-Resolution Using Deep Convolutional Networks, arXiv 1501.00092
fsrcnn_x3 C. Dong et al., Accelerating the Super-Resolution Convolutional Neural Network, arXiv 1608.00367
"""

from __future__ import annotations

from typing import Any

NETWORKS = ["espcn_x2", "espcn_x3", "espcn_x4", "srcnn", "fsrcnn_x3"]


def images_for(network: str, batch: int) -> Any:
    """Brightness of frames of 320 x 180, normally distributed, seeded by the batch."""
    import torch

    torch.manual_seed(batch)
    return torch.randn(batch, 1, 180, 320)


def build(network: str) -> Any:
    """The network in eval mode, seeded."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    scale = int(network[-1]) if "_x" in network else 1
    if network.startswith("espcn"):
        layers = [
            nn.Conv2d(1, 64, 5, padding=2),
            nn.Tanh(),
            nn.Conv2d(64, 32, 3, padding=1),
            nn.Tanh(),
            nn.Conv2d(32, scale * scale, 3, padding=1),
            nn.PixelShuffle(scale),
        ]
    elif network == "srcnn":
        layers = [
            nn.Conv2d(1, 64, 9, padding=4),
            nn.ReLU(),
            nn.Conv2d(64, 32, 1),
            nn.ReLU(),
            nn.Conv2d(32, 1, 5, padding=2),
        ]
    else:
        layers = [nn.Conv2d(1, 56, 5, padding=2), nn.PReLU(56), nn.Conv2d(56, 12, 1), nn.PReLU(12)]
        for _ in range(4):
            layers += [nn.Conv2d(12, 12, 3, padding=1), nn.PReLU(12)]
        layers += [nn.Conv2d(12, 56, 1), nn.PReLU(56)]
        layers += [nn.ConvTranspose2d(56, 1, 9, scale, 4, output_padding=scale - 1)]
    return nn.Sequential(*layers).eval()
