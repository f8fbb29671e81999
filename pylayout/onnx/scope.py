"""Scope: the names that nodes see. Import: what scopes and nodes need of the importer, which is above them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ..errors import InvalidArgumentError
from ..graph import Graph
from ..value import Value
from .contents import Contents
from .errors import ValueNeeded
from .operand import Operand, Stands

__all__ = ["Import", "Scope"]


class Import(Protocol):
    """One import of a model."""

    model: Contents
    graph: Graph
    dequantised: dict[int, Operand]  # by id: what stands for integers that are in the graph

    def run_subgraph(self, proto: Any, outer: Any, inputs: Sequence[Stands], label: str) -> list[Stands]:
        """The outputs of a subgraph of a node, given the subgraph's inputs."""

    def unrolled(self, size: Any, what: str) -> int:
        """A size as the number of parts that something is taken apart into."""

    def value_needed(self, operand: Value, what: str) -> ValueNeeded:
        """The error for a value that is not known at import."""

    def spend(self, array: Any) -> None:
        """Counts an array that was computed at import."""

    def drawn_by(self, seed: float | None, counters: Any) -> Value:
        """What an op draws random numbers by, of whose counters it uses so many; no seed: one of the import."""

    def count_ops(self) -> None:
        """Counts an op that is appended."""


class Scope:
    """The names that nodes see: of a graph, of a subgraph (and of the graphs around it), or of a function's body."""

    def __init__(
        self,
        importer: Import,
        opsets: Mapping[str, int],
        initialisers: Mapping[str, Any],
        parent: Scope | None = None,
        attributes: Mapping[str, Any] | None = None,
        prefix: str = "",
    ) -> None:
        self.importer = importer
        self.opsets = opsets
        self.initialisers = initialisers
        self.parent = parent
        # Of a function's body: the attributes of the call. Subgraphs within it see them too.
        self.attributes: Mapping[str, Any] | None = attributes
        if attributes is None and parent is not None:
            self.attributes = parent.attributes
        self.prefix = prefix
        self.values: dict[str, Stands | None] = {}
        self.makers: dict[str, Any] = {}  # by name: the node that gave it, of ONNX's own domain
        # By name: the ops that read it, "" for an output. Few ask, so it is found when one does.
        self.read_by: Callable[[], Mapping[str, Sequence[str]]] | None = None

    def find(self, name: str) -> Stands | None:
        """What a name stands for; None for an optional input that a function's caller left out."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            tensor = scope.initialisers.get(name)
            if tensor is not None:
                known = scope.values[name] = self.importer.model.known(tensor)
                return known
            scope = scope.parent
        raise InvalidArgumentError(f"the value {name!r} is used, but no input, initialiser or node before gives it")

    def maker(self, name: str) -> Any:
        """The node of ONNX's own domain that gave a name; None for inputs, initialisers, and what others gave.

        What the node reads has the same names here: None where a scope between has one of them for something else.
        """
        scope: Scope | None = self
        hidden = []
        while scope is not None and not scope.gives(name):
            hidden.append(scope)
            scope = scope.parent
        made = None if scope is None else scope.makers.get(name)
        if made is not None and any(inner.gives(read) for inner in hidden for read in made.input):
            return None
        return made

    def readers(self, name: str) -> Sequence[str] | None:
        """The ops that read what a node of this scope gives, "" for an output; None where it is not known."""
        return None if self.read_by is None else self.read_by().get(name, ())

    def gives(self, name: str) -> bool:
        """Whether a name stands for something of this scope itself."""
        return name in self.values or name in self.initialisers

    def has(self, name: str) -> bool:
        return self.gives(name) or (self.parent is not None and self.parent.has(name))

    def attribute(self, attribute: Any) -> Any:
        """The attribute itself, or what it refers to in the call of the function around; None if that is absent."""
        if not attribute.ref_attr_name:
            return attribute
        if self.attributes is None:
            raise InvalidArgumentError(
                f"attribute {attribute.name} refers to {attribute.ref_attr_name}, expected that in functions only"
            )
        return self.attributes.get(attribute.ref_attr_name)
