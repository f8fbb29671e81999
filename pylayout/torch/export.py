"""Modules exported by `torch.export`, as graphs: for plans that need no PyTorch when they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from torch.utils._pytree import tree_map

from ..errors import ArgumentTypeError, UnsupportedError
from ..graph import Graph, PinnedGraph
from .fold import folded
from .registry import converters, name_of
from .specialise import copied, specialised
from .translate import Translator, reason_of

__all__ = ["Exported", "export"]


class Exported:
    """A module as PyTorch exported it. `graph` makes the graph for the sizes of given inputs."""

    def __init__(self, program: ExportedProgram, dynamic: bool) -> None:
        self.dynamic = dynamic
        self._program = program
        for spec in program.graph_signature.output_specs:
            if spec.kind not in (OutputKind.USER_OUTPUT,):
                raise UnsupportedError(f"compile: the module changes {spec.target or 'its inputs'} when it runs")
        self._constants: dict[str, torch.Tensor] = {}
        self._inputs: list[str] = []
        for spec in program.graph_signature.input_specs:
            name = spec.arg.name
            if spec.kind == InputKind.USER_INPUT:
                self._inputs.append(name)
            else:
                found = program.state_dict.get(spec.target or "")
                self._constants[name] = program.constants[spec.target or ""] if found is None else found

    def graph(self, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
        """The graph for the example's sizes, or for inputs of these shapes.

        Raises UnsupportedError naming each op that the library does not run.
        """
        module = self._program.graph_module
        if shapes is None and not self.dynamic:
            graph = copied(module)
        else:
            graph = specialised(module, [self._argument(node, shapes or {}) for node in _placeholders(module.graph)])
        nodes = [*graph.nodes]
        constants = {
            node: self._constants[str(node.target)] for node in _placeholders(graph) if node.target in self._constants
        }
        known = folded(module, nodes)
        constants.update(known)
        translator = Translator(constants, plain=True, graph=PinnedGraph() if self.dynamic else Graph())
        for node in _placeholders(graph):
            if node.target in self._inputs and isinstance(node.meta["val"], torch.Tensor):
                translator.operand(node)
        refused: dict[str, str] = {}
        for node in nodes:
            if node.op != "call_function" or node in known or not _computes(node):
                continue
            try:
                translator.convert(node)
            except UnsupportedError as error:
                refused.setdefault(name_of(node.target), reason_of(error))
        if refused:
            named = ", ".join(f"{op} ({reason})" for op, reason in refused.items())
            raise UnsupportedError(f"compile: the module has ops that no plan runs: {named}")
        for place, node in enumerate(graph.output_node().args[0]):  # type: ignore[arg-type]
            if not isinstance(node, Node) or not isinstance(node.meta["val"], torch.Tensor):
                raise UnsupportedError(f"compile: output {place} of the module is no tensor")
            translator.output(node, f"output{place}")
        return translator.graph

    def _argument(self, node: Node, shapes: Mapping[str, Sequence[int]]) -> Any:
        """A value for an input: its elements do not matter, constants apart."""
        if node.target in self._constants:
            return self._constants[str(node.target)]
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            return value
        example = [size.node.hint if isinstance(size, torch.SymInt) else size for size in value.shape]
        return torch.empty(tuple(shapes.get(str(node.target), example)), dtype=value.dtype)


def _placeholders(graph: Any) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _computes(node: Node) -> bool:
    """Whether a node makes a tensor: numbers are known, and checks of sizes have been made by PyTorch."""
    value = node.meta.get("val")
    return not isinstance(value, (bool, int, float)) and value is not None


def export(module: torch.nn.Module, example: Any, dynamic: Any = None) -> Exported:
    """Export a module for an example of its arguments: a tuple, a dict of keywords, or the only one.

    dynamic: None for the example's sizes, True for any, or what `torch.export.export` calls dynamic_shapes.
    """
    if example is None:
        raise ArgumentTypeError(
            "compile: no example is given for the module, expected a tuple of tensors such as it is called with"
        )
    keywords = dict(example) if isinstance(example, Mapping) else {}
    arguments = () if keywords else tuple(example) if isinstance(example, (tuple, list)) else (example,)
    shapes: Any = dynamic if dynamic not in (None, False, True) else None
    if dynamic is True:

        def any_size(value: Any) -> Any:
            return {dim: Dim.AUTO for dim in range(value.ndim)} if isinstance(value, torch.Tensor) else None

        shapes = tree_map(any_size, keywords or arguments)
    with torch.no_grad():
        program = torch.export.export(module, arguments, keywords, dynamic_shapes=shapes)
        table = torch.export.default_decompositions()
        kept = {name for name, found in converters().items() if found.keeps}
        for op in [op for op in table if name_of(op) in kept]:
            table.pop(op)  # type: ignore[no-untyped-call]
        return Exported(program.run_decompositions(table), shapes is not None)
