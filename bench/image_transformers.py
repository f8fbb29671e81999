"""Transformers over images, of the package transformers, for benchmarks: seeded modules and images.

clip: the vision half of CLIP ViT-B/32, images of 224 x 224. swinv2: Swin v2 Tiny with windows of 8, images of 256.
"""

from __future__ import annotations

from typing import Any

from .torchvision_models import import_torchvision

NETWORKS = ["clip", "swinv2"]
SIDES = {"clip": 224, "swinv2": 256}


def build(network: str) -> Any:
    """The network in eval mode with random weights; it takes images (n, 3, side, side) and gives hidden states."""
    import torch

    import_torchvision()  # which transformers imports
    import transformers

    class FirstResult(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, images: Any) -> Any:
            return self.model(pixel_values=images)[0]

    torch.manual_seed(1)
    if network == "clip":
        model = transformers.CLIPVisionModel(transformers.CLIPVisionConfig())
    else:
        model = transformers.Swinv2Model(transformers.Swinv2Config(image_size=SIDES[network], window_size=8))
    return FirstResult(model).eval()


def images_for(network: str, batch: int) -> Any:
    """Images (batch, 3, side, side), normally distributed, seeded by the batch."""
    import torch

    torch.manual_seed(batch)
    return torch.randn(batch, 3, SIDES[network], SIDES[network])
