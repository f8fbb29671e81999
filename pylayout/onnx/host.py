"""Host ops: what no plan holds, since the sizes of its results follow from data, or its values are no tensors.

A function of a file of `hosted/` takes a Call and returns the results as NumPy arrays; a sequence is a list of arrays,
an optional that is empty None. Being there is all that it takes to be found.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import onnx

from ..errors import InvalidArgumentError
from .contents import domain_of
from .tensors import any_numbers

__all__ = ["HOST", "Call", "Prepared", "host", "is_hosted", "prepared"]

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Prepared:
    """What is seen of a node once, before its calls."""

    subgraphs: Mapping[str, Any] = field(default_factory=dict)  # by attribute: those that run in place of the node's
    notes: Any = None  # for the function of the op


class Call:
    """One node with its inputs: arrays, lists of arrays for sequences, None for what is absent."""

    def __init__(
        self,
        node: Any,
        inputs: list[Any],
        opset: int,
        run: Callable[[str, Any], Any],
        model: Any,
        notes: Any = None,
    ) -> None:
        self.node = node
        self.notes = notes
        self.inputs = inputs
        self.opset = opset
        self._run = run
        self._model = model
        self._attributes = {attribute.name: attribute for attribute in node.attribute}

    def __len__(self) -> int:
        return len(self.inputs)

    def x(self, index: int) -> Any:
        """An input that must be there."""
        value = self.optional(index)
        if value is None:
            raise InvalidArgumentError(f"onnx: {self.node.op_type}: input {index} is missing")
        return value

    def optional(self, index: int) -> Any:
        return self.inputs[index] if index < len(self.inputs) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """A number, a text, a list of them, or an array."""
        found = self._attributes.get(name)
        if found is None:
            return default
        if found.type == onnx.AttributeProto.TENSOR:
            return self._model.array(found.t, f"attribute {name}")
        value = onnx.helper.get_attribute_value(found)
        return value.decode() if isinstance(value, bytes) else value

    def dtype(self, name: str, default: int) -> Any:
        return any_numbers(self.attribute(name, default), f"attribute {name}")

    def axis(self, axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(f"onnx: {self.node.op_type}: axis is {axis}, expected {-rank} to {rank - 1}")
        return axis % rank

    def subgraph(self, name: str, inputs: Sequence[Any] = ()) -> list[Any]:
        """The results of a subgraph of the node."""
        return list(self._run(name, inputs))

    def wants(self, index: int) -> bool:
        return index < len(self.node.output) and bool(self.node.output[index])


class _Table(Mapping[tuple[str, str], Callable[[Call], Any]]):
    """The functions by (domain, op), which are looked for when one is asked for."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, str], Callable[[Call], Any]] = {}
        self.preparations: dict[tuple[str, str], Callable[[Any], Prepared]] = {}
        self._found = False

    def _all(self) -> dict[tuple[str, str], Callable[[Call], Any]]:
        if not self._found:
            self._found = True
            package = importlib.import_module(f"{__package__}.hosted")
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{package.__name__}.{module.name}")
        return self.functions

    def __getitem__(self, key: tuple[str, str]) -> Callable[[Call], Any]:
        return self._all()[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


_table = _Table()
HOST: Mapping[tuple[str, str], Callable[[Call], Any]] = _table


def is_hosted(node: Any) -> bool:
    """Whether the host has the op of an ONNX node."""
    return (domain_of(node.domain), node.op_type) in HOST


def host(
    *ops: str, domain: str = "", prepare: Callable[[Any], Prepared] | None = None
) -> Callable[[Function], Function]:
    """Registers the decorated function for ops. `prepare` is given the node before its first call."""

    def register(function: Function) -> Function:
        for op in ops:
            if (domain, op) in _table.functions:
                raise RuntimeError(f"two functions of {op} on the host")
            _table.functions[(domain, op)] = function
            if prepare is not None:
                _table.preparations[(domain, op)] = prepare
        return function

    return register


def prepared(domain: str, node: Any) -> Prepared:
    """What the op of a node wants to see of it once."""
    _table[(domain, node.op_type)]
    prepare = _table.preparations.get((domain, node.op_type))
    return Prepared() if prepare is None else prepare(node)
