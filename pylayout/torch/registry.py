"""The converters: which function turns which ATen op into ops of a graph.

A file of `convert/` defines converters; being there is all that it takes to be found:

    @converter("relu.default")
    def relu(call: Call, x: Operand) -> Operand:
        return call.op("relu", x)

A converter takes the arguments of the ATen op, in its order and by its names, tensors as operands. What it gives is
held against the shapes and dtypes that PyTorch expects. `require` leaves the op to PyTorch, and so does an error of the
library's ops; another error is a defect, and is raised as one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeVar

__all__ = ["Converter", "complex_converter", "complex_converters", "converter", "converters", "name_of"]

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Converter:
    """One function, for one overload of an op."""

    op: str  # "add.Tensor"; ops outside of aten with their namespace, "prims.iota.default"
    function: Callable[..., Any]
    moves: bool  # renames or copies memory and computes nothing: not worth a plan by itself
    keeps: bool  # traced as it is, though PyTorch would write it as other ops
    numbers: bool  # takes operands without dimensions in the place of real numbers
    note: str  # for the documentation: what is left to PyTorch


_table: dict[str, Converter] = {}


def converter(
    *ops: str, moves: bool = False, keeps: bool = True, numbers: bool = False, note: str = ""
) -> Callable[[Function], Function]:
    """Registers the decorated function for overloads of ATen ops; `note` says what of them is left to PyTorch.

    keeps=False: where PyTorch has a decomposition of the op, that is traced in its place.
    numbers=True: real numbers among the arguments may also come as operands of float32.
    """

    def register(function: Function) -> Function:
        for op in ops:
            if op in _table:
                raise RuntimeError(f"two converters of {op}")
            _table[op] = Converter(op, function, moves, keeps, numbers, note)
        return function

    return register


_complex: dict[str, Callable[..., Any]] = {}


def complex_converter(*ops: str) -> Callable[[Function], Function]:
    """Registers the decorated function for overloads of which an argument or the result is complex."""

    def register(function: Function) -> Function:
        for op in ops:
            if op in _complex:
                raise RuntimeError(f"two converters of complex {op}")
            _complex[op] = function
        return function

    return register


def converters() -> dict[str, Converter]:
    """Every converter, by the name of its op; of real numbers."""
    if not _table:
        package = importlib.import_module(f"{__package__}.convert")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    return _table


def complex_converters() -> dict[str, Callable[..., Any]]:
    """What converts ops on complex numbers, by the name of the op."""
    converters()
    return _complex


def name_of(target: Any) -> str:
    """The name by which the converter of an overload is found: without "aten."; of a function of Python, its own."""
    return target.__name__ if isinstance(target, FunctionType) else str(target).removeprefix("aten.")
