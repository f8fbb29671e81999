"""ONNX models as graphs: opset 9 to the newest that this version knows.

>>> import pylayout.onnx, onnx.parser
>>> model = onnx.parser.parse_model('''
...     <ir_version: 9, opset_import: ["" : 17]>
...     agraph (float[n, 8] x) => (float[n, 8] y) { y = Relu(x) }''')
>>> graph = pylayout.onnx.load(model, sizes={"n": 3})
>>> graph.outputs["y"].shape
(3, 8)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

try:
    import onnx as _onnx  # noqa: F401
except ImportError:
    raise ImportError("pylayout.onnx needs the package onnx: pip install '.[onnx]' in the clone") from None

from ..graph import Graph
from .errors import ValueNeeded
from .model import Input, Model, read

__all__ = ["Backend", "Input", "Model", "ValueNeeded", "load", "read"]


def load(
    model: Any,
    shapes: Mapping[str, Sequence[int]] | None = None,
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Graph:
    """The graph of an ONNX model: a path, a file's bytes, an onnx.ModelProto, or a Model from `read`.

    Args:
        shapes: the shapes of inputs by name, where the model leaves sizes open or the model's are not wanted.
        sizes: the sizes of named axes. An open first axis that is given neither way has size 1.
        values: inputs that are to be constants, by name: those on which shapes depend, for instance.
        folder: where external data lies; default, the model's folder. Files outside of it are refused.

    Raises:
        FileError: the file cannot be read, or is damaged; InvalidArgumentError, ShapeError: the model makes no sense;
        UnsupportedError: valid, but pylayout cannot do it. Messages name the node, its op, domain and opset.
    """
    return read(model, folder).graph(shapes, sizes, values)


def __getattr__(name: str) -> Any:
    if name == "Backend":  # imports much of onnx that nothing else needs
        from .backend import Backend

        return Backend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
