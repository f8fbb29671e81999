"""What the importer raises besides the errors of `pylayout.errors`."""

from __future__ import annotations

from ..errors import UnsupportedError

__all__ = ["RefusedError", "ValueNeeded"]


class RefusedError(UnsupportedError):
    """What no sizes and no values of inputs mend: an attribute or an element type that pylayout has not."""


class ValueNeeded(UnsupportedError):
    """An op needs the value of an input of the model when the model is imported: a shape, axes, a condition.

    `inputs` names the model's inputs that the value comes from. Given to `load(..., values={name: array})` they
    are constants of the graph.
    """

    def __init__(self, message: str, inputs: tuple[str, ...]) -> None:
        super().__init__(message)
        self.inputs = inputs
