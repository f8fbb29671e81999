"""From a part of a traced graph to a `pylayout.Graph`, op by op."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, TypeGuard

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from .._load import ffi
from ..errors import ArgumentTypeError, Error, InternalError, UnsupportedError
from ..graph import Graph
from ..tensor import adopt
from ..value import Value
from .call import Call, dtype_name
from .dtypes import dense_layout
from .registry import converters, name_of

__all__ = ["Translator", "is_plain_tensor", "reason_of"]


DEVICES = ("cpu", "ocl")


def is_plain_tensor(value: Any, device: torch.device | None = None) -> TypeGuard[torch.Tensor]:
    """Whether this is a strided tensor on the CPU or the device ocl, or on that device, with sizes that are known."""
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and (value.device.type in DEVICES if device is None else value.device == device)
        and not value.is_quantized
        and all(isinstance(size, int) for size in (*value.shape, *value.stride()))
    )


def reason_of(error: Exception) -> str:
    """An error of a converter in one line."""
    return str(error).split("\n", 1)[0] or type(error).__name__


def _refusal(node: Node, error: Exception) -> Error:
    """What an error in a converter means: a call that the library refuses, or a defect.

    The library refuses shapes, dtypes and attributes that its ops do not take. Arguments of a wrong type are another
    thing: the converter is what passes them.
    """
    if isinstance(error, Error) and not isinstance(error, (ArgumentTypeError, InternalError)):
        return UnsupportedError(reason_of(error))
    return InternalError(
        f"a defect of pylayout, please report it: the converter of {name_of(node.target)} failed with "
        f"{type(error).__name__}: {reason_of(error)}"
    )


class Translator:
    """Appends nodes to a graph. What they read from outside becomes an input, or a constant where it is known."""

    def __init__(
        self,
        constants: Mapping[Node, torch.Tensor],
        plain: bool = False,
        graph: Graph | None = None,
        device: torch.device | None = None,
        one_by_one: bool = False,
    ) -> None:
        self.graph = graph or Graph()
        self._device = device or torch.device("cpu")  # where all tensors are
        self._one_by_one = one_by_one  # the ops are run one after another, not as a plan
        self._plain = plain  # inputs and outputs are row-major, whatever was traced
        self.inputs: list[Node] = []  # in the order of the graph's
        self._constants = constants
        self._operands: dict[Node, Any] = {}
        self._reshaped: dict[int, Value] = {}

    def convert(self, node: Node) -> None:
        """Append one node. Raises UnsupportedError with the reason why it is left to PyTorch; InternalError for what a
        converter does not raise on purpose, a defect of it.
        """
        self._operands[node] = self._converted(node)

    def _converted(self, node: Node) -> Any:
        if node.target is operator.getitem:
            source, place = node.args
            assert isinstance(source, Node) and isinstance(place, int)
            operands = self.operand(source)
            if not isinstance(operands, (tuple, list)) or operands[place] is None:
                raise UnsupportedError(f"result {place} of {name_of(source.target)}")
            return operands[place]
        found = converters().get(name_of(node.target))
        if found is None:
            raise UnsupportedError("no converter")
        for argument in node.all_input_nodes:
            if argument not in self._constants:
                self._check(argument.meta.get("val"))
        self._check(node.meta.get("val"))
        call = Call(self.graph, node, self._at_hand, self._reshaped, self._one_by_one)
        try:
            arguments = map_arg(node.args, self.operand)
            keywords = map_arg(dict(node.kwargs), self.operand)
            result = found.function(call, *arguments, **keywords)
        except UnsupportedError:
            raise
        except Exception as error:
            raise _refusal(node, error) from error
        self._compare(call, result)
        return result

    def _check(self, value: Any) -> None:
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(each, torch.Tensor):
                if not is_plain_tensor(each, self._device):
                    raise UnsupportedError("a tensor on another device, sparse, or of a size that depends on data")
                dtype_name(each.dtype)
            elif isinstance(each, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise UnsupportedError("a number known only in a run")

    @staticmethod
    def _compare(call: Call, result: Any) -> None:
        """Hold what a converter gave against what PyTorch expects."""
        wanted = call.expected
        several = isinstance(wanted, (tuple, list))
        if several != isinstance(result, (tuple, list)):
            raise UnsupportedError("another number of results")
        for place, expected in enumerate(wanted if several else (wanted,)):
            made = result[place] if several else result
            if expected is None:  # it is not wanted
                continue
            if made is None:
                if call.used(place):
                    raise UnsupportedError(f"result {place} is used")
                continue
            if not isinstance(made, Value) or made.shape != tuple(expected.shape):
                raise UnsupportedError(f"made {made!r}, expected shape {tuple(expected.shape)}")
            if made.dtype != dtype_name(expected.dtype):
                raise UnsupportedError(f"made {made!r}, expected dtype {expected.dtype}")

    # ---- what nodes read ----

    def operand(self, node: Node) -> Any:
        """What stands for a node's result; from outside of this part it becomes an input or a constant."""
        if node in self._operands:
            return self._operands[node]
        value = node.meta.get("val")
        made: Any
        if isinstance(value, (bool, int, float)):
            made = value
        elif node in self._constants:
            made = self._constant(node)
        elif isinstance(value, (tuple, list)):  # getitem is run by whoever ran this node
            raise UnsupportedError(f"several results of {name_of(node.target)}")
        else:
            made = self._input(node)
        self._operands[node] = made
        return made

    def _at_hand(self, node: Node) -> Any:
        """The operand of a node that the one being converted does not read itself; None where another part makes it."""
        return self.operand(node) if node in self._operands or node.op == "placeholder" else None

    def _constant(self, node: Node) -> Value:
        tensor = self._constants[node].detach()
        if dense_layout(tensor.shape, tensor.stride()) is None or tensor.is_neg() or tensor.is_conj():
            tensor = tensor.resolve_neg().resolve_conj().contiguous()
        if tensor.device.type != "cpu":
            handle = ffi.cast("pl_tensor", torch.ops.pylayout_ocl.handle(tensor))
            return self.graph.constant(adopt(handle), name=node.name)
        return self.graph.constant(tensor, name=node.name)

    def _input(self, node: Node) -> Value:
        self._check(node.meta.get("val"))
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            raise UnsupportedError(f"argument {node.name} is {type(value).__name__}, expected a tensor")
        layout = None if self._plain else dense_layout(value.shape, value.stride())
        # What an export calls an input is its target: Python's own names, such as "input", are changed in the node's.
        name = str(node.target) if node.op == "placeholder" else node.name
        made = self.graph.input(name, tuple(value.shape), dtype_name(value.dtype), layout=layout)
        self.inputs.append(node)
        return made

    def output(self, node: Node, name: str | None = None) -> None:
        """Make a node's result one of the graph's."""
        expected = node.meta["val"]
        layout = None if self._plain else dense_layout(expected.shape, expected.stride())
        self.graph.output(self.operand(node), name or node.name, layout=layout)
