"""Sparse initialisers and constants: tensors with all their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx_models import helper, model_of

import pylayout as pl

VALUES = np.asarray([1.5, -2, 3], "f4")
PLACES = np.asarray([1, 5, 11], "i8")
DENSE = np.zeros(12, "f4")
DENSE[PLACES] = VALUES
DENSE = DENSE.reshape(3, 4)


def sparse(values: Any = VALUES, indices: Any = PLACES, dims: Any = (3, 4)) -> Any:
    return helper.make_sparse_tensor(numpy_helper.from_array(values, "w"), numpy_helper.from_array(indices), dims)


def product_with(tensor: Any, as_constant: bool) -> Any:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    if as_constant:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=tensor))
    model = model_of(nodes, {"x": (TensorProto.FLOAT, [2, 3])}, ["y"], 17)
    if not as_constant:
        model.graph.sparse_initializer.append(tensor)
    return model


@pytest.mark.parametrize("as_constant", [False, True])
@pytest.mark.parametrize("indices", [PLACES, np.stack(np.unravel_index(PLACES, (3, 4)), 1)])
def test_elements(indices: Any, as_constant: bool) -> None:
    x = np.arange(6, dtype="f4").reshape(2, 3)
    plan = pl.compile(product_with(sparse(indices=indices), as_constant), device="cpu")
    np.testing.assert_allclose(plan.run(x)[0], x @ DENSE)


BAD = {
    "beyond its shape, \\[3, 4\\]": {"indices": np.asarray([1, 5, 12], "i8")},
    "beyond its shape": {"indices": np.asarray([[0, 0], [1, 1], [3, 0]], "i8")},
    "indices of shape \\[2\\]": {"indices": np.asarray([1, 5], "i8")},
    "indices of shape \\[3, 3\\]": {"indices": np.zeros((3, 3), "i8")},
    "int32 indices": {"indices": PLACES.astype("i4")},
    "expected at most 1073741824": {"dims": (2**20, 2**15)},
    "shape \\[-3, 4\\]": {"dims": (-3, 4)},
}


@pytest.mark.parametrize("as_constant", [False, True])
@pytest.mark.parametrize("message", BAD)
def test_errors(message: str, as_constant: bool) -> None:
    with pytest.raises(pl.Error, match=message) as error:
        pl.compile(product_with(sparse(**BAD[message]), as_constant), device="cpu")
    assert "sparse" in str(error.value)
