"""Sparse initialisers and constants: tensors with all their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import pylayout as pl  # noqa: E402

VALUES = np.asarray([1.5, -2, 3], "f4")
PLACES = np.asarray([1, 5, 11], "i8")
DENSE = np.zeros(12, "f4")
DENSE[PLACES] = VALUES
DENSE = DENSE.reshape(3, 4)


def sparse(values: Any = VALUES, indices: Any = PLACES, dims: Any = (3, 4)) -> Any:
    return helper.make_sparse_tensor(numpy_helper.from_array(values, "w"), numpy_helper.from_array(indices), dims)


def model_of(tensor: Any, as_constant: bool) -> Any:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    if as_constant:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=tensor))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        sparse_initializer=[] if as_constant else [tensor],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("as_constant", [False, True])
@pytest.mark.parametrize("indices", [PLACES, np.stack(np.unravel_index(PLACES, (3, 4)), 1)])
def test_elements(indices: Any, as_constant: bool) -> None:
    x = np.arange(6, dtype="f4").reshape(2, 3)
    plan = pl.compile(model_of(sparse(indices=indices), as_constant), device="cpu")
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
        pl.compile(model_of(sparse(**BAD[message]), as_constant), device="cpu")
    assert "sparse" in str(error.value)
