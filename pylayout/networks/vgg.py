"""VGG-16, without batch norm (Simonyan and Zisserman, arXiv 1409.1556, configuration D)."""

from __future__ import annotations

from typing import Any

from .layers import Layers

__all__ = ["vgg16"]

_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels, convolutions before the pooling


def vgg16(layers: Layers, x: Any) -> Any:
    """Images (n, 3, h, w) to logits (n, 1000)."""
    index = 0  # torchvision numbers convolutions, activations and poolings alike
    for channels, convolutions in _STAGES:
        for _ in range(convolutions):
            x = layers.conv(x, f"features.{index}", channels, 3, padding=1, activation="relu")
            index += 2
        x = layers.max_pool(x, 2, 2)
        index += 1
    x = layers.flatten(layers.average_pool(x, 7))
    x = layers.linear(x, "classifier.0", 4096, activation="relu")
    x = layers.linear(x, "classifier.3", 4096, activation="relu")
    return layers.linear(x, "classifier.6", 1000)
