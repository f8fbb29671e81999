"""MobileNetV2, width 1.0: inverted residuals around depthwise convolutions (Sandler et al., arXiv 1801.04381)."""

from __future__ import annotations

from typing import Any

from .layers import Layers

__all__ = ["mobilenet_v2"]

# expansion, channels, blocks, stride of the first block
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _inverted_residual(layers: Layers, x: Any, name: str, expansion: int, channels: int, stride: int) -> Any:
    c = layers.shape(x)[1]
    width = c * expansion
    y, part = x, 0
    if expansion != 1:
        y = layers.conv(y, f"{name}.{part}.0", width, 1, norm=f"{name}.{part}.1", activation="relu6")
        part += 1
    depthwise = f"{name}.{part}"
    y = layers.conv(
        y,
        f"{depthwise}.0",
        width,
        3,
        stride=stride,
        padding=1,
        groups=width,
        norm=f"{depthwise}.1",
        activation="relu6",
    )
    residual = x if stride == 1 and c == channels else None
    return layers.conv(y, f"{name}.{part + 1}", channels, 1, norm=f"{name}.{part + 2}", residual=residual)


def mobilenet_v2(layers: Layers, x: Any) -> Any:
    """Images (n, 3, h, w) to logits (n, 1000)."""
    x = layers.conv(x, "features.0.0", 32, 3, stride=2, padding=1, norm="features.0.1", activation="relu6")
    index = 1
    for expansion, channels, blocks, stride in _STAGES:
        for block in range(blocks):
            name = f"features.{index}.conv"
            x = _inverted_residual(layers, x, name, expansion, channels, stride if block == 0 else 1)
            index += 1
    x = layers.conv(x, f"features.{index}.0", 1280, 1, norm=f"features.{index}.1", activation="relu6")
    x = layers.average_pool(x, 1)
    return layers.linear(layers.flatten(x), "classifier.1", 1000)
