"""Every reference: importing this module makes them known."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from . import (  # noqa: F401  (they register)
    elementwise,
    fourier,
    gradients,
    movement,
    norms,
    products,
    quantized,
    random,
    recurrent,
    sampling,
    sampling_gradients,
    training,
)
from .case import Case
from .reference import REFERENCES, Accuracy, Reference

__all__ = ["REFERENCES", "Accuracy", "Reference", "reference_of"]


def reference_of(case: Case, tensors: list[NDArray[Any] | None], accuracy: Accuracy) -> Reference:
    return REFERENCES[case.op](case, tensors, accuracy)
