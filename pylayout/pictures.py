"""Labelled pictures to train on: scikit-learn's handwritten digits, or a file of NumPy."""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import FileError, InvalidArgumentError

__all__ = ["Pictures", "digits", "read", "shifted"]

_DARKEST = 16  # of a pixel of the digits


@dataclass(frozen=True)
class Pictures:
    """images: (n, c, h, w), of mean 0 and deviation 1 all together. labels: (n), classes from 0 on."""

    name: str
    images: NDArray[np.float32]
    labels: NDArray[np.int64]

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    def __len__(self) -> int:
        return len(self.labels)

    def fingerprint(self) -> str:
        """Equal for equal pictures and labels."""
        digest = hashlib.sha256(repr(self.images.shape).encode())
        for array in (self.images, self.labels):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def split(self, share: float, seed: int) -> tuple[Pictures, Pictures]:
        """A random part to train on, and the rest, `share` of all, to test with; both have every label if they can."""
        order = np.random.default_rng(seed).permutation(len(self))
        tested = max(1, round(share * len(self)))
        return self._taken(order[tested:]), self._taken(order[:tested])

    def _taken(self, places: NDArray[np.int64]) -> Pictures:
        return Pictures(self.name, np.ascontiguousarray(self.images[places]), self.labels[places])


def _normalised(name: str, pixels: NDArray[Any], labels: NDArray[Any]) -> Pictures:
    images = pixels.astype(np.float32)
    deviation = float(images.std())
    images = (images - images.mean()) / np.float32(deviation or 1.0)
    return Pictures(name, np.ascontiguousarray(images), labels.astype(np.int64))


def digits() -> Pictures:
    """The 1,797 digits, 8 by 8 pixels, that come with scikit-learn (E. Alpaydin, C. Kaynak, 1998).

    Raises ImportError where that is missing.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("the digits come with scikit-learn: pip install '.[train]' in the clone") from error
    found = load_digits()
    return _normalised("digits", found.images[:, None] / _DARKEST, found.target)


def read(path: str | os.PathLike[str]) -> Pictures:
    """Pictures of a file that numpy.savez wrote: `images` (n, h, w) or (n, c, h, w), `labels` (n), classes from 0 on.

    Raises FileError, and InvalidArgumentError naming what does not fit.
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            missing = [name for name in ("images", "labels") if name not in arrays]
            if missing:
                raise InvalidArgumentError(f"pictures: {path} has no {' and no '.join(missing)}, expected both")
            images, labels = arrays["images"], arrays["labels"]
    except OSError as error:
        raise FileError(f"pictures: {path} cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"pictures: {path} is no file of numpy.savez ({error})") from error
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or images.dtype.kind not in "uif" or 0 in images.shape:
        raise InvalidArgumentError(
            f"pictures: images has shape {images.shape} of {images.dtype}, expected numbers (n, h, w) or (n, c, h, w)"
        )
    if labels.shape != images.shape[:1] or labels.dtype.kind not in "ui":
        raise InvalidArgumentError(
            f"pictures: labels has shape {labels.shape} of {labels.dtype}, expected {len(images)} integers"
        )
    if labels.min() < 0 or labels.max() > len(labels):
        raise InvalidArgumentError(
            f"pictures: labels are {labels.min()} to {labels.max()}, expected classes numbered from 0 on"
        )
    if not np.isfinite(images).all():
        raise InvalidArgumentError("pictures: images has values that are not finite")
    return _normalised(Path(path).name, images, labels)


def shifted(images: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Each picture moved by up to one pixel in both directions; what comes in is what the border has."""
    height, width = images.shape[2:]
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    rows = rng.integers(0, 3, len(images))[:, None] + np.arange(height)
    columns = rng.integers(0, 3, len(images))[:, None] + np.arange(width)
    moved = padded[np.arange(len(images))[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return np.ascontiguousarray(moved.transpose(0, 3, 1, 2))
