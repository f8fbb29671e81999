"""Small models for the tests, how to run them, and what they should give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import onnx
import onnx.reference
from onnx.reference.op_run import RuntimeTypeError

import pylayout as pl
import pylayout.onnx

helper = onnx.helper


def tensor_type(array: Any) -> int:
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def model_of(
    nodes: Sequence[Any],
    inputs: dict[str, Any],
    outputs: Sequence[str],
    opset: int,
    initialisers: dict[str, Any] | None = None,
    functions: Sequence[Any] = (),
    domains: dict[str, int] | None = None,
) -> onnx.ModelProto:
    """A model; `inputs` are arrays, or (element type, sizes) where sizes may be names or None."""
    sources = []
    for name, value in inputs.items():
        kind, sizes = value if isinstance(value, tuple) else (tensor_type(value), value.shape)
        sources.append(helper.make_tensor_value_info(name, kind, sizes))
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in (initialisers or {}).items()]
    graph = helper.make_graph(list(nodes), "graph", sources, results, weights)
    imports = [helper.make_opsetid(domain, version) for domain, version in {"": opset, **(domains or {})}.items()]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def run(model: Any, *arrays: Any, **bindings: Any) -> list[Any]:
    """The outputs by a plan."""
    graph = pylayout.onnx.load(model, **bindings)
    return list(pl.compile(graph, device="cpu", tune="off").run(*arrays))


def reference(model: Any, feeds: dict[str, Any], float64: bool = True) -> list[Any]:
    """The outputs by ONNX's own evaluator, in float64 (in f32 where that has constants of f32 in its definitions)."""
    if not float64:
        return list(onnx.reference.ReferenceEvaluator(model).run(None, feeds))
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in wide.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(_wide(onnx.numpy_helper.to_array(tensor)), tensor.name))
    try:
        return list(onnx.reference.ReferenceEvaluator(wide).run(None, {name: _wide(x) for name, x in feeds.items()}))
    except RuntimeTypeError:
        return list(onnx.reference.ReferenceEvaluator(model).run(None, feeds))


def _wide(array: Any) -> Any:
    return array.astype("float64") if array.dtype == numpy.float32 else array


def close(actual: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    """Equal shapes, and values within `tolerance` of the largest."""
    assert actual.shape == numpy.shape(wanted)
    if actual.dtype.kind in "iub":
        numpy.testing.assert_array_equal(actual, wanted)
        return
    wanted = numpy.asarray(wanted, "float64")
    finite = wanted[numpy.isfinite(wanted)]
    largest = float(numpy.abs(finite).max(initial=0.0))
    numpy.testing.assert_allclose(actual.astype("float64"), wanted, rtol=tolerance, atol=tolerance * max(largest, 1e-6))
