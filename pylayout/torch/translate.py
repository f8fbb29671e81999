"""From a part of a traced graph to a `pylayout.Graph`, op by op."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import sympy
import torch
from torch.fx import Node
from torch.fx.node import map_arg

from .._load import ffi
from ..arrays import as_input
from ..errors import ArgumentTypeError, Error, InternalError, UnsupportedError
from ..graph import MAX_AXIS_NAME, Graph
from ..late import LateGraph
from ..sizes import Size
from ..tensor import Tensor, adopt
from ..value import Value
from .call import Call, dtype_name
from .dtypes import dense_layout
from .registry import complex_converters, converters, name_of
from .specialise import late_of
from .symbols import Evaluation, expression_of

__all__ = ["Translator", "is_plain_tensor", "reason_of"]


DEVICES = ("cpu", "ocl")
_NARROWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}


def is_plain_tensor(value: Any, device: torch.device | None = None) -> TypeGuard[torch.Tensor]:
    """Whether this is a strided tensor on the CPU or the device ocl, or on that device, with sizes that are known."""
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and (value.device.type in DEVICES if device is None else value.device == device)
        and not value.is_quantized
        and all(isinstance(size, int) for size in (*value.shape, *value.stride()))
    )


def is_complex(value: Any) -> bool:
    """Whether this is a tensor that graphs hold as pairs of float32."""
    return isinstance(value, torch.Tensor) and value.dtype == torch.complex64


def _converter_of(node: Node) -> Callable[..., Any]:
    """What converts a node. Raises UnsupportedError where there is nothing."""
    name = name_of(node.target)
    if is_complex(node.meta.get("val")) or any(is_complex(each.meta.get("val")) for each in node.all_input_nodes):
        made = complex_converters().get(name)
        if made is None:
            raise UnsupportedError("no converter for complex numbers")
        return made
    found = converters().get(name)
    if found is None:
        raise UnsupportedError("no converter")
    return found.function


def reason_of(error: Exception) -> str:
    """An error of a converter in one line."""
    return str(error).split("\n", 1)[0] or type(error).__name__


def _refusal(node: Node, error: Exception) -> Error:
    """What an error in a converter means: a call that the library refuses, or a defect.

    The library refuses shapes, dtypes and attributes that its ops do not take, and sizes may be refused as numbers are:
    a divisor of 0, say. Arguments of a wrong type are another thing: the converter is what passes them.
    """
    refused = (Error, ArithmeticError, ValueError)
    if isinstance(error, refused) and not isinstance(error, (ArgumentTypeError, InternalError)):
        return UnsupportedError(reason_of(error))
    return InternalError(
        f"a defect of pylayout, please report it: the converter of {name_of(node.target)} failed with "
        f"{type(error).__name__}: {reason_of(error)}"
    )


class Translator:
    """Appends nodes to a graph. What they read from outside becomes an input, or a constant where it is known.

    Sizes that follow from symbols become axes of the graph's inputs, and expressions of these.
    """

    def __init__(
        self,
        constants: Mapping[Node, torch.Tensor],
        plain: bool = False,
        graph: Graph | None = None,
        device: torch.device | None = None,
        one_by_one: bool = False,
        present: Evaluation | None = None,
        shared: dict[Node, Tensor] | None = None,
        layouts: dict[Node, str | None] | None = None,
        names: Mapping[Any, str] | None = None,
    ) -> None:
        self.graph = graph or (Graph() if present is None else LateGraph())
        self._device = device or torch.device("cpu")  # where all tensors are
        self._one_by_one = one_by_one  # the ops are run one after another, not as a plan
        self._plain = plain  # inputs and outputs are row-major, whatever was traced
        self.inputs: list[Node | str] = []  # in the order of the graph's; the name of an axis for one without elements
        self.axes: dict[str, Any] = {}  # by name: the expression that gives an axis its size
        self._present = present  # of symbols, for the sizes that the graph is made with; None: it has none
        self._late = Evaluation({}, self._found)  # the same as sizes of the graph
        self._names = names or {}  # of axes, by symbol, where they are not to be called as PyTorch calls it
        self._layouts = {} if layouts is None else layouts  # of inputs and outputs; those that are given stay
        self._constants = constants
        self._shared = {} if shared is None else shared  # constants as tensors of the library
        self._operands: dict[Node, Any] = {}
        self._begun: set[Node] = set()  # whose converter gave up: it may have taken the node's name
        self._reshaped: dict[int, Value] = {}

    def convert(self, node: Node) -> None:
        """Append one node. Raises UnsupportedError with the reason why it is left to PyTorch; InternalError for what a
        converter does not raise on purpose, a defect of it.
        """
        if isinstance(self.graph, LateGraph):
            self.graph.asking = name_of(node.target)
        self._begun.add(node)
        self._operands[node] = self._converted(node)
        self._begun.discard(node)

    def _converted(self, node: Node) -> Any:
        if node.target is operator.getitem:
            source, place = node.args
            assert isinstance(source, Node) and isinstance(place, int)
            operands = self.operand(source)
            if not isinstance(operands, (tuple, list)) or operands[place] is None:
                raise UnsupportedError(f"result {place} of {name_of(source.target)}")
            return operands[place]
        found = _converter_of(node)
        for argument in node.all_input_nodes:
            if argument not in self._constants:
                self._check(argument.meta.get("val"))
        self._check(node.meta.get("val"))
        call = Call(self.graph, node, self._at_hand, self._reshaped, self._one_by_one, self._late)
        try:
            arguments = map_arg(node.args, self.operand)
            keywords = map_arg(dict(node.kwargs), self.operand)
            result = found(call, *arguments, **keywords)
            self._compare(call, result)
        except UnsupportedError:
            raise
        except Exception as error:
            raise _refusal(node, error) from error
        return result

    def _check(self, value: Any) -> None:
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(each, torch.Tensor):
                if not is_plain_tensor(each, self._device):
                    raise UnsupportedError("a tensor on another device, sparse, or of a size that depends on data")
                if not is_complex(each) or self._device.type != "cpu":
                    dtype_name(each.dtype)
            elif isinstance(each, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise UnsupportedError("a number known only in a run")

    def _compare(self, call: Call, result: Any) -> None:
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
            pair = (2,) if is_complex(expected) else ()
            if not isinstance(made, Value) or made._shape != (*expected.shape, *pair):
                readers = [user for user in call.node.users if user.args[1:2] == (place,) and user.users]
                if isinstance(made, Value) and several and not readers:
                    continue  # PyTorch 2.11 takes an LSTM's states for (layers, 1, n, h)
                raise UnsupportedError(f"made {made!r}, expected shape {tuple(expected.shape)}")
            if made.dtype != ("f32" if pair else dtype_name(expected.dtype)):
                raise UnsupportedError(f"made {made!r}, expected dtype {expected.dtype}")
            if isinstance(self.graph, LateGraph):
                self.graph.know_shape(made, (*call.shape(place if several else None), *pair))

    # ---- what nodes read ----

    def operand(self, node: Node) -> Any:
        """What stands for a node's result; from outside of this part it becomes an input or a constant."""
        if node in self._operands:
            return self._operands[node]
        value = node.meta.get("val")
        made: Any
        if isinstance(value, (bool, int, float)):
            made = value if late_of(node) is None else self._number(node)
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
        made = self._shared.get(node)
        if made is None:
            value = self._constants[node].detach()
            if value.ndim == 0:  # beside tensors of fewer bits it is a number of theirs
                value = value.to(_NARROWER.get(value.dtype, value.dtype))
            if is_complex(value):
                value = torch.view_as_real(value.resolve_conj())
            made = self._shared[node] = self._tensor(value)
        return self.graph.constant(made, name=node.name)

    @staticmethod
    def _tensor(tensor: torch.Tensor) -> Tensor:
        if dense_layout(tensor.shape, tensor.stride()) is None or tensor.is_neg() or tensor.is_conj():
            tensor = tensor.resolve_neg().resolve_conj().contiguous()
        if tensor.device.type != "cpu":
            return adopt(ffi.cast("pl_tensor", torch.ops.pylayout_ocl.handle(tensor)))
        return as_input(tensor, "graph", "constant")

    def _input(self, node: Node) -> Value:
        self._check(node.meta.get("val"))
        value, late = node.meta["val"], late_of(node)
        if not isinstance(value, torch.Tensor):
            raise UnsupportedError(f"argument {node.name} is {type(value).__name__}, expected a tensor")
        layout = self._layout(node, value)
        # What an export calls an input is its target: Python's own names, such as "input", are changed in the node's.
        name = str(node.target) if node.op == "placeholder" else node.name
        if node in self._begun:
            name += " (of PyTorch)"
        shape: list[int | str] = [int(size) for size in value.shape]
        expressions = [expression_of(size) for size in (() if late is None else late.shape)]
        for dim, expression in enumerate(expressions):
            if isinstance(expression, sympy.Basic):
                shape[dim] = self._axis(expression, f"{name}.{dim}", int(value.shape[dim]))
        pair = (2,) if is_complex(value) else ()
        made = self.graph.input(name, [*shape, *pair], "f32" if pair else dtype_name(value.dtype), layout=layout)
        if isinstance(self.graph, LateGraph):
            for dim, expression in enumerate(expressions):
                if isinstance(expression, sympy.Basic):
                    self._late.learn(expression, Size(self.graph, f"#{made._id}.{dim}", int(value.shape[dim])))
            self.graph.know_shape(made, [*map(self._late, value.shape if late is None else late.shape), *pair])
        self.inputs.append(node)
        return made

    def output(self, node: Node, name: str | None = None) -> None:
        """Make a node's result one of the graph's."""
        layout = self._layout(node, node.meta["val"])
        self.graph.output(self.operand(node), name or node.name, layout=layout)

    def _layout(self, node: Node, value: torch.Tensor) -> str | None:
        if self._plain and is_complex(value):
            raise UnsupportedError(f"{node.name} is complex, expected real numbers: torch.view_as_real gives them")
        if node not in self._layouts:
            plain = self._plain or is_complex(value)
            self._layouts[node] = None if plain else dense_layout(value.shape, value.stride())
        return self._layouts[node]

    # ---- sizes that follow from symbols ----

    def size(self, expression: Any) -> Any:
        """An expression of symbols as a size of the graph."""
        return self._late(expression)

    def knows(self, expression: Any) -> bool:
        """Whether inputs say what an expression is."""
        return self._late.knows(expression)

    def _axis(self, expression: Any, place: str, size: int) -> str:
        """The name of an axis of an input: a symbol's where it is one by itself, so that equal ones are one axis."""
        is_symbol = isinstance(expression, sympy.Symbol)
        name = self._names.get(expression, str(expression)) if is_symbol else place
        name = name.replace(",", "_")[-MAX_AXIS_NAME:]
        self.axes[name] = expression
        self.graph._sizes[name] = size
        return name

    def _found(self, symbol: Any) -> Any:
        """The size of a symbol that is no size of an input so far: one more input, without elements, has it."""
        if self._present is None or self._plain:
            raise UnsupportedError(f"{symbol}, which is no size of an input")
        size = self._present(symbol)
        axis = self._axis(symbol, "", size)
        carrier = self.graph.input(f"{axis} (no elements)", (axis, 0))
        self.inputs.append(axis)
        return Size(self.graph, f"#{carrier._id}.0", size)

    def _number(self, node: Node) -> Any:
        """A number that follows from sizes: whole ones as a size, others as they are for the present ones alone."""
        late = late_of(node)
        if isinstance(late, torch.SymInt) or self._present is None:
            return self._late(late)
        for symbol in expression_of(late).free_symbols:
            int(self._late(symbol))
        return self._present(late)
