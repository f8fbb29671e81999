"""Every reference: importing this module makes them known."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from . import elementwise, movement, norms, products, quantized, recurrent, training  # noqa: F401  (they register)
from .case import Case
from .reference import REFERENCES, Accuracy, Reference

__all__ = ["REFERENCES", "WITHOUT_REFERENCE", "Accuracy", "Reference", "reference_of"]

# Ops that `verify` draws no case of, since their float64 reference is not written yet. tests/test_ops.py compares them
# with PyTorch, at small sizes alone. Entries only go.
WITHOUT_REFERENCE = frozenset(
    {
        "grid_sample",
        "gru_backward",
        "lstm_backward",
        "non_max_suppression",
        "rnn_backward",
        "roi_align",
        "scaled_dot_product_attention_backward",
        "scatter",
        "scatter_nd",
    }
)


def reference_of(case: Case, tensors: list[NDArray[Any] | None], accuracy: Accuracy) -> Reference:
    return REFERENCES[case.op](case, tensors, accuracy)
