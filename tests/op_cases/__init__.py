"""One list of calls for every op, a file a family: what the op tests run in every layout and on every device.

A case is an op, its tensors (NumPy arrays made from a seeded generator), its attributes, and the same call in PyTorch,
which gives the float64 reference. Shapes are chosen to be awkward: odd channels, tails of blocks, broadcasting.
A new op needs a case in the file named as the page of docs/reference/ops that describes it: test_ops.py fails for an op
without one, and for a case in another file.
"""

from . import (
    activation,
    arithmetic,
    convolution,
    fourier,
    fused,
    matrix,
    movement,
    normalisation,
    pooling,
    quantised,
    random,
    recurrent,
    reduction,
    shape,
    training,
)
from .case import Case, tensor_parameters

FAMILIES = {
    module.__name__.rpartition(".")[2]: module.CASES
    for module in (
        convolution,
        matrix,
        pooling,
        normalisation,
        activation,
        arithmetic,
        reduction,
        shape,
        movement,
        fourier,
        recurrent,
        random,
        quantised,
        fused,
        training,
    )
}
CASES = [case for cases in FAMILIES.values() for case in cases]

__all__ = ["CASES", "FAMILIES", "Case", "tensor_parameters"]
