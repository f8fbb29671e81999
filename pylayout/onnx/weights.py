"""Weights: which initialisers of a file are parameters of the network, by what the file says of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import onnx

from ..graph import Trained

__all__ = ["Weights", "is_counted", "joined_uses", "scope_of", "turned_copies"]

# What PyTorch's exporter by torch.export writes beside an initialiser: what it was in the module, or of what the
# exporter computed it.
_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
_FOLDED = "pkg.onnxscript.optimizer.folded_from"
_SCOPES = "pkg.torch.onnx.name_scopes"  # beside a node: the modules around it, and its own name

# Names that exporters count: of what they computed of weights and of other constants, nobody can say which.
_COUNTED = re.compile(r"(onnx::\w+|/.*_output_\d+|val_\d+|\d+)")

_FLOATS = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
)


class Weights:
    """What becomes of initialisers when their graph is trained: by their names, and by what the file says of these."""

    def __init__(self, model: Any) -> None:
        # PyTorch's exporters write numbers of formulas as Constant, and name what the module holds as it does.
        self._names_scalars = model.producer_name == "pytorch"
        self._said: dict[str, Trained] = {}
        for value in model.graph.value_info:
            said = {entry.key: entry.value for entry in getattr(value, "metadata_props", ())}
            if _KIND in said:
                is_parameter = said[_KIND] == "PARAMETER"
                self._said[value.name] = Trained.ALWAYS if is_parameter else Trained.NEVER
            elif _FOLDED in said:
                self._said[value.name] = _of_parts(said[_FOLDED])

    def of(self, tensor: Any) -> Trained:
        """What is known of an initialiser."""
        if tensor.data_type not in _FLOATS:
            return Trained.NEVER
        said = self._said.get(tensor.name)
        if said is not None:
            return said
        if is_counted(tensor.name):
            return Trained.BY_ROLE
        return Trained.ALWAYS if self._names_scalars and not tensor.dims else Trained.GIVEN


def is_counted(name: str) -> bool:
    """Whether an exporter made this name up."""
    return _COUNTED.fullmatch(name) is not None


def _list_in(text: str) -> list[Any] | None:
    """A list as Python writes it; None where a file says anything else."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return found if isinstance(found, list) else None


def _of_parts(text: str) -> Trained:
    """Of what was computed of the values with these names: a weight perhaps, unless all are numbers of the formula."""
    parts = _list_in(text)
    counted = parts is not None and all(isinstance(part, str) and is_counted(part) for part in parts)
    return Trained.NEVER if counted else Trained.BY_ROLE


def scope_of(node: Any) -> str:
    """The module that a node is of, where the exporter says it: "layers.0.norm"."""
    for entry in getattr(node, "metadata_props", ()):
        if entry.key == _SCOPES:
            scopes = _list_in(entry.value) or []
            if len(scopes) > 1 and isinstance(scopes[-2], str):
                return scopes[-2]
    return ""


def joined_uses(graph: Any) -> dict[str, set[str]]:
    """By name of an initialiser that nodes of several modules use: these modules.

    The exporter by torch.export writes equal initialisers once, as those of fresh norms are.
    """
    names = {tensor.name for tensor in graph.initializer}
    found: dict[str, set[str]] = {}
    for node in graph.node:
        scope = scope_of(node)
        for name in node.input if scope else ():
            if name in names:
                found.setdefault(name, set()).add(scope)
    return {name: scopes for name, scopes in found.items() if len(scopes) > 1}


def turned_copies(initialisers: Mapping[str, Any], weights: Weights) -> dict[str, list[Any]]:
    """By name of a matrix that an exporter made: those of the file's own of which it may be a copy, turned."""
    own: dict[tuple[int, ...], list[Any]] = {}
    made = []
    for tensor in initialisers.values():
        if len(tensor.dims) != 2 or tensor.data_type not in _FLOATS or 1 in tensor.dims:
            continue
        known = weights.of(tensor)
        if known is Trained.BY_ROLE:
            made.append(tensor)
        elif known is not Trained.NEVER:
            own.setdefault((tensor.data_type, *tensor.dims), []).append(tensor)
    found = {tensor.name: own.get((tensor.data_type, *reversed(tensor.dims)), []) for tensor in made}
    return {name: tensors for name, tensors in found.items() if tensors}
