"""ResNet-50, version 1.5: the stride of a bottleneck lies in its 3x3 (He et al., arXiv 1512.03385)."""

from __future__ import annotations

from typing import Any

from .layers import Layers

__all__ = ["resnet50"]

_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first block


def _bottleneck(layers: Layers, x: Any, name: str, width: int, stride: int, project: bool) -> Any:
    shortcut = x
    if project:
        shortcut = layers.conv(x, f"{name}.downsample.0", 4 * width, 1, stride=stride, norm=f"{name}.downsample.1")
    y = layers.conv(x, f"{name}.conv1", width, 1, norm=f"{name}.bn1", activation="relu")
    y = layers.conv(y, f"{name}.conv2", width, 3, stride=stride, padding=1, norm=f"{name}.bn2", activation="relu")
    return layers.conv(y, f"{name}.conv3", 4 * width, 1, norm=f"{name}.bn3", activation="relu", residual=shortcut)


def resnet50(layers: Layers, x: Any) -> Any:
    """Images (n, 3, h, w) to logits (n, 1000)."""
    x = layers.conv(x, "conv1", 64, 7, stride=2, padding=3, norm="bn1", activation="relu")
    x = layers.max_pool(x, 3, 2, 1)
    for stage, (width, blocks, stride) in enumerate(_STAGES, start=1):
        for block in range(blocks):
            first = block == 0
            x = _bottleneck(layers, x, f"layer{stage}.{block}", width, stride if first else 1, project=first)
    x = layers.average_pool(x, 1)
    return layers.linear(layers.flatten(x), "fc", 1000)
