"""Photographs as network input: read, resized, cropped and normalised as torchvision's ImageNet presets do."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["load", "photograph", "synthetic"]

Array = NDArray[np.float32]

_MEAN = np.array([0.485, 0.456, 0.406], np.float32)  # of ImageNet, as torchvision normalises
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
_DISCS = 400  # of the synthetic picture


def photograph() -> Path | None:
    """A photograph that is probably on this machine: matplotlib's portrait of Grace Hopper (public domain), or None.

    None too where Pillow, which reads it, is missing.
    """
    if importlib.util.find_spec("PIL") is None:
        return None
    found = importlib.util.find_spec("matplotlib")
    for folder in (found and found.submodule_search_locations) or []:
        path = Path(folder) / "mpl-data" / "sample_data" / "grace_hopper.jpg"
        if path.is_file():
            return path
    return None


def _normalise(pixels: NDArray[Any]) -> Array:
    """(h, w, 3) in 0..1 to (1, 3, h, w)."""
    image = (pixels.astype(np.float32) - _MEAN) / _DEVIATION
    return np.ascontiguousarray(image.transpose(2, 0, 1)[None])


def load(path: str | os.PathLike[str], size: int = 224) -> Array:
    """The picture in a file as (1, 3, size, size): shorter side resized to 8/7 of size, the middle cut out.

    Raises ImportError where Pillow is missing, OSError where the file is no picture that it reads.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(f"reading {path} needs Pillow: pip install pillow") from error
    with Image.open(path) as file:
        picture = file.convert("RGB")
    short = size * 256 // 224
    scale = short / min(picture.size)
    width, height = (max(short, int(side * scale)) for side in picture.size)
    picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - size) / 2), round((height - size) / 2)
    picture = picture.crop((left, top, left + size, top + size))
    return _normalise(np.asarray(picture, np.float32) / np.float32(255))


def synthetic(size: int = 224, seed: int = 0) -> Array:
    """A picture of overlapping discs as (1, 3, size, size), the same for the same seed.

    Discs of all sizes that hide one another have edges, even areas and a spectrum like those of photographs (Lee,
    Mumford and Huang, "Occlusion models for natural images", 2001).
    """
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size
    pixels = np.empty((size, size, 3), np.float32)
    pixels[:] = random.uniform(0, 1, 3)
    for _ in range(_DISCS):
        # Between 1/100 and 1/2 of the side, with a density that falls with the radius's cube.
        radius = random.uniform(4.0, 1e4) ** -0.5
        cx, cy = random.uniform(-0.1, 1.1, 2)
        colour, shade = random.uniform(0, 1, 3), random.normal(0, 0.5, 2)
        inside = (x - cx) ** 2 + (y - cy) ** 2 < radius**2
        light = 1 + shade[0] * (x[inside] - cx) + shade[1] * (y[inside] - cy)
        pixels[inside] = light[:, None] * colour
    pixels += random.normal(0, 0.02, pixels.shape).astype(np.float32)
    return _normalise(np.clip(pixels, 0, 1))
