"""The converters: which function turns which ONNX op into ops of a graph, from which opset on.

A file of `convert/` defines converters; being there is all that it takes to be found:

    @converter("Relu", since=6)
    def relu(node: Node) -> Result:
        return node.op("relu", node.x(0))
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["FIRST_OPSET", "LAST_OPSET", "Converter", "converter", "converters", "find"]

FIRST_OPSET = 7
# The newest opset whose changes the converters were read against. An op that changes later is refused.
LAST_OPSET = 28

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Converter:
    """One function, for one op from one opset on (up to the next converter of the same op)."""

    op: str
    domain: str
    since: int
    function: Callable[..., Any]
    note: str  # for the documentation: what is not supported


_table: dict[tuple[str, str], list[Converter]] = {}


def converter(*ops: str, since: int = 1, domain: str = "", note: str = "") -> Callable[[Function], Function]:
    """Registers the decorated function for ops from opset `since` on; `note` says what of them it does not do."""

    def register(function: Function) -> Function:
        for op in ops:
            entries = _table.setdefault((domain, op), [])
            if any(entry.since == since for entry in entries):
                raise RuntimeError(f"two converters of {op} since opset {since}")
            entries.append(Converter(op, domain, since, function, note))
            entries.sort(key=lambda entry: entry.since)
        return function

    return register


def converters() -> dict[tuple[str, str], list[Converter]]:
    """Every converter, by (domain, op), those for older opsets first."""
    if not _table:
        package = importlib.import_module(f"{__package__}.convert")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    return _table


def find(domain: str, op: str, opset: int) -> Converter | None:
    """The converter of an op in an opset, or None."""
    found = None
    for entry in converters().get((domain, op), ()):
        if entry.since <= opset:
            found = entry
    return found
