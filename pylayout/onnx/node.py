"""Node: what a converter sees of one ONNX node."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import onnx

from ..calls import schemas
from ..dtypes import DType, dtype_of
from ..errors import InvalidArgumentError, ShapeError, UnsupportedError
from ..sizes import is_late, same_sizes
from ..value import Value
from .errors import RefusedError
from .fold import DOUBLE_FOLDS, FOLDS, arange, room
from .fold_sizes import fold_sizes
from .operand import Known, Members, Operand, Stands, safe_name
from .scope import Import, Scope
from .tensors import dense_array, dtype_name, numpy_dtype

__all__ = ["Node"]

_A = onnx.AttributeProto


class Node:
    """One ONNX node while it is converted: inputs, attributes, and `op` to append to the graph.

    Each attribute that a converter asks for counts as understood; the importer refuses the node if one is left over.
    """

    def __init__(self, importer: Import, scope: Scope, proto: Any, opset: int, domain: str) -> None:
        self.importer = importer
        self.scope = scope
        self.proto = proto
        self.op_type: str = proto.op_type
        self.domain = domain
        self.opset = opset
        self.name = safe_name(proto.name) or safe_name(f"{proto.op_type}_{proto.output[0] if proto.output else ''}")
        self.inputs: list[Stands | None] = [scope.find(name) if name else None for name in proto.input]
        self.inputs = [importer.model.of_module(x, proto) if isinstance(x, Known) else x for x in self.inputs]
        self.attributes: dict[str, Any] = {}
        for attribute in proto.attribute:
            resolved = scope.attribute(attribute)
            if attribute.name in self.attributes:
                raise InvalidArgumentError(f"attribute {attribute.name} is given twice")
            if resolved is not None:
                self.attributes[attribute.name] = resolved
        self._asked: set[str] = set()

    # ---- inputs ----

    def has(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def given(self, index: int) -> Stands:
        """An input that must be there: a tensor or a sequence."""
        operand = self.inputs[index] if index < len(self.inputs) else None
        if operand is None:
            raise InvalidArgumentError(f"input {index} is missing")
        return operand

    def x(self, index: int) -> Operand:
        """A tensor that must be there."""
        operand = self.given(index)
        if isinstance(operand, Members):
            raise InvalidArgumentError(f"input {index} is a sequence, expected a tensor")
        return operand

    def members(self, index: int) -> Members:
        """A sequence that must be there."""
        operand = self.given(index)
        if not isinstance(operand, Members):
            raise InvalidArgumentError(f"input {index} is a tensor, expected a sequence")
        return operand

    def optional(self, index: int) -> Operand | None:
        return self.x(index) if self.has(index) else None

    def known(self, index: int) -> Any:
        """The elements of an input, as an array. Raises ValueNeeded where they are not known at import."""
        return self.elements(self.x(index), f"input {index}")

    def elements(self, operand: Operand, what: str) -> Any:
        if isinstance(operand, Known):
            return operand.array
        raise self.importer.value_needed(operand, what)

    def integers_at(self, index: int) -> list[Any]:
        """An input as a list of integers: a shape, axes. Sizes may be among them."""
        operand = self.x(index)
        if not isinstance(operand, Known):
            raise self.importer.value_needed(operand, f"input {index}")
        if operand.dtype.kind not in "iu" or operand.ndim > 1:
            raise InvalidArgumentError(
                f"input {index} is {operand.dtype} of shape {list(operand.shape)}, expected integers of rank 1"
            )
        if math.prod(operand.shape) > 2**16:
            raise InvalidArgumentError(f"input {index} has {math.prod(operand.shape)} elements, expected a few")
        if operand.sizes is not None:
            return list(operand.sizes.reshape(-1))
        return [int(value) for value in operand.array.reshape(-1)]

    def size_at(self, index: int) -> Any:
        """An input of one integer, which may be a size."""
        operand = self.x(index)
        if isinstance(operand, Known) and operand.sizes is not None and operand.sizes.size == 1:
            return operand.sizes.reshape(-1)[0]
        return self.number_at(index)

    def unrolled(self, size: Any, what: str) -> int:
        """A size as the number of parts that something is taken apart into: the graph holds for this one alone."""
        return self.importer.unrolled(size, what)

    def number_at(self, index: int) -> Any:
        """An input of one element, as a Python number."""
        array = self.known(index)
        if array.size != 1:
            raise InvalidArgumentError(f"input {index} has shape {list(array.shape)}, expected one element")
        return array.reshape(-1)[0].item() if array.dtype.kind != "V" else float(array.reshape(-1)[0])

    def wants(self, index: int) -> bool:
        """Whether an output is used at all."""
        return index < len(self.proto.output) and bool(self.proto.output[index])

    # ---- attributes ----

    def _attribute(self, name: str, kind: int, default: Any) -> Any:
        self._asked.add(name)
        attribute = self.attributes.get(name)
        if attribute is None:
            if default is ...:
                raise InvalidArgumentError(f"attribute {name} is missing")
            return default
        # Files by old exporters leave the type out; an empty one is only right where nothing else is set.
        if attribute.type != kind and attribute.type != _A.UNDEFINED:
            expected = _A.AttributeType.Name(kind)
            raise InvalidArgumentError(f"attribute {name} has type {_kind_name(attribute.type)}, expected {expected}")
        return attribute

    def integer(self, name: str, default: Any = ...) -> Any:
        attribute = self._attribute(name, _A.INT, default)
        return int(attribute.i) if isinstance(attribute, _A) else attribute

    def number(self, name: str, default: Any = ...) -> Any:
        attribute = self._attribute(name, _A.FLOAT, default)
        return float(attribute.f) if isinstance(attribute, _A) else attribute

    def text(self, name: str, default: Any = ..., choices: Sequence[str] = ()) -> Any:
        attribute = self._attribute(name, _A.STRING, default)
        if not isinstance(attribute, _A):
            return attribute
        text = attribute.s.decode("utf-8", "replace")
        if choices and text not in choices:
            expected = ", ".join(choice or "none" for choice in choices)
            raise RefusedError(f"attribute {name} is {text!r}, expected one of {expected}")
        return text

    def integers(self, name: str, default: Any = ...) -> Any:
        attribute = self._attribute(name, _A.INTS, default)
        return [int(value) for value in attribute.ints] if isinstance(attribute, _A) else attribute

    def numbers(self, name: str, default: Any = ...) -> Any:
        attribute = self._attribute(name, _A.FLOATS, default)
        return [float(value) for value in attribute.floats] if isinstance(attribute, _A) else attribute

    def texts(self, name: str, default: Any = ...) -> Any:
        attribute = self._attribute(name, _A.STRINGS, default)
        return [s.decode("utf-8", "replace") for s in attribute.strings] if isinstance(attribute, _A) else attribute

    def tensor(self, name: str, default: Any = ...) -> Any:
        """A tensor attribute as an array."""
        attribute = self._attribute(name, _A.TENSOR, default)
        if not isinstance(attribute, _A):
            return attribute
        return self.importer.model.array(attribute.t, f"attribute {name}")

    def sparse_tensor(self, name: str) -> Any:
        """A sparse tensor attribute as an array of all its elements."""
        attribute = self._attribute(name, _A.SPARSE_TENSOR, ...)
        return dense_array(attribute.sparse_tensor, f"attribute {name}")

    def subgraph(self, name: str) -> Any:
        attribute = self._attribute(name, _A.GRAPH, ...)
        return attribute.g

    def dtype(self, name: str, default: Any = ...) -> str:
        """An element type attribute, as NumPy's name of it."""
        return str(numpy_dtype(self.integer(name, default), f"attribute {name}").name)

    def ignore(self, *names: str) -> None:
        """These attributes have no effect on the result."""
        self._asked.update(names)

    def unread(self) -> list[str]:
        return sorted(set(self.attributes) - self._asked)

    # ---- building ----

    def op(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        """The result of an op of `pylayout.ops`: computed at once where all tensors are known, else appended.

        Operands may be given as such, in lists (`concat`), or as arrays.
        """
        operands = [a for group in (*arguments, *keywords.values()) for a in _operands(group)]
        late = any(isinstance(a, Known) and a.sizes is not None for a in operands)
        quotient = name == "div" and any(is_float(a) for a in operands)  # which is no whole number
        if operands and late and not quotient and all(isinstance(a, Known) for a in operands):
            sizes = fold_sizes(name, _each(arguments, _objects), _each_of(keywords, _objects))
            if sizes is not None:
                kind = arguments[1] if name == "cast" else operands[1 if name == "where" else 0].dtype
                return Known(sizes) if sizes.dtype != object else Known.of_sizes(sizes, kind)
        changes = any(is_late(a) for a in (*arguments, *keywords.values()))
        known = bool(operands) and not changes and all(isinstance(a, Known) for a in operands)
        fold = FOLDS.get(name) or (DOUBLE_FOLDS.get(name) if known and operands[0].dtype == "float64" else None)
        if known and fold is not None:
            result = fold(*_each(arguments, _array), **_each_of(keywords, _array))
            self.importer.spend(result)
            if is_float(Known(result)) and any(a.may_be_trained and is_float(a) for a in operands):
                self.importer.count_ops()
                return Known(result, made=(name, arguments, keywords))
            return Known(result)
        if name not in schemas():
            raise UnsupportedError(f"needs the op {name}, which this version of pylayout has not")
        graph = self.importer.graph
        self.importer.count_ops()

        def value(operand: Any) -> Any:
            if isinstance(operand, Value):
                return operand
            known = _known(operand)
            if (
                known.made is None
                and known.tensor is None
                and known.sizes is None
                and not known.array.flags.c_contiguous
            ):
                room(known.shape, known.array.dtype, "constant")
                copy = numpy.ascontiguousarray(known.array)
                self.importer.spend(copy)
                known = Known(copy, known.name, trained=known.trained)
            return known.value(graph)

        return graph.op(name, *_each(arguments, value), name=self.name, **_each_of(keywords, value))

    def parts(self, x: Operand, sections: list[Any], axis: int) -> list[Operand]:
        """An operand cut along an axis; the sizes are those of all of it."""
        if any(size < 0 for size in sections) or sum(sections) != x.shape[axis]:
            raise ShapeError(f"split is {sections}, expected sizes whose sum is {x.shape[axis]}")
        if len(sections) < 2:
            return [x] * len(sections)
        if not isinstance(x, Known):
            return list(self.op("split", x, sections, axis))
        starts = [0, *itertools.accumulate(sections)]
        return [self.op("slice", x, [a], [b], [axis]) for a, b in itertools.pairwise(starts)]

    def joined(self, parts: list[Operand], axis: int) -> Operand:
        """Operands one behind another along an axis; at least one."""
        made: Operand = parts[0] if len(parts) == 1 else self.op("concat", parts, axis)
        return made

    def stacked(self, parts: list[Operand], axis: int) -> Operand:
        """Operands of one shape along a new axis of the result; at least one."""
        axis = self.axis(axis, parts[0].ndim + 1)
        return self.joined([self.op("reshape", x, [*x.shape[:axis], 1, *x.shape[axis:]]) for x in parts], axis)

    def arange(self, first: Any, end: Any, step: Any = 1) -> Operand:
        """Whole numbers as the op of that name gives them; known, unless they follow from sizes."""
        if is_late([first, end, step]):
            made: Value = self.importer.graph.arange(first, end, step)
            return made
        return Known(arange(first, end, step))

    def backwards(self, size: Any) -> Operand:
        """The places of an axis from the last to the first."""
        return self.arange(size - 1, -1, -1)

    def diagonals(self, rows: Any, columns: Any) -> Operand:
        """Of each place of a matrix its diagonal: its column less its row. The sizes follow from others."""
        made: Operand = self.op("sub", self.arange(0, columns), self.op("reshape", self.arange(0, rows), [rows, 1]))
        return made

    def constant(self, array: Any, dtype: Any = None) -> Known:
        return Known(numpy.asarray(array, dtype))

    def scalar_like(self, value: Any, operand: Operand) -> Known:
        """A constant of rank 0 in the dtype of an operand."""
        return Known(numpy.asarray(value).astype(numpy_of(operand)))

    def broadcastable(self, operand: Operand, shape: Sequence[int]) -> Operand:
        """The operand under another shape with the same elements."""
        return operand if same_sizes(operand.shape, shape) else self.op("reshape", operand, shape=list(shape))

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """An axis in [-rank, rank), made non-negative."""
        if not -rank <= axis < max(rank, 1):
            raise ShapeError(f"{what} is {axis}, expected {-rank} to {max(rank, 1) - 1}")
        return axis + rank if axis < 0 else axis

    def axes(self, axes: Sequence[int], rank: int, what: str = "axes") -> list[int]:
        """Axes made non-negative, each once."""
        made = [self.axis(axis, rank, what) for axis in axes]
        if len(set(made)) != len(made):
            raise ShapeError(f"{what} is {list(axes)}, expected each axis once")
        return made


def numpy_of(operand: Operand) -> Any:
    """The NumPy dtype of an operand."""
    return operand.dtype if isinstance(operand, Known) else operand.dtype.dtype


def is_float(operand: Operand) -> bool:
    """Whether the elements are floating-point numbers (bfloat16 is of kind V or f, as its package likes)."""
    return numpy_of(operand).kind not in "biu"


def dtype_text(operand: Operand) -> str:
    """The name of an operand's dtype that ops take: "f32"."""
    dtype: DType = dtype_of(numpy_of(operand))
    return dtype.name


def _is_operand(value: Any) -> bool:
    return isinstance(value, (Known, Value, numpy.ndarray))


def _operands(value: Any) -> list[Any]:
    if _is_operand(value):
        return [_known(value) if isinstance(value, numpy.ndarray) else value]
    if isinstance(value, (list, tuple)) and value and all(_is_operand(item) for item in value):
        return [_known(item) if isinstance(item, numpy.ndarray) else item for item in value]
    return []


def _known(value: Any) -> Any:
    return Known(value) if isinstance(value, numpy.ndarray) else value


def _array(operand: Any) -> Any:
    return operand.array if isinstance(operand, Known) else operand


def _objects(operand: Any) -> Any:
    return operand.objects if isinstance(operand, Known) else operand.astype(object)


def _each(values: Sequence[Any], function: Any) -> list[Any]:
    """The values, operands among them (also within lists) replaced."""
    made = []
    for value in values:
        if _is_operand(value):
            made.append(function(value))
        elif isinstance(value, (list, tuple)) and value and all(_is_operand(item) for item in value):
            made.append([function(item) for item in value])
        else:
            made.append(value)
    return made


def _each_of(values: Mapping[str, Any], function: Any) -> dict[str, Any]:
    return dict(zip(values, _each(list(values.values()), function), strict=True))


def _kind_name(kind: int) -> str:
    try:
        return str(_A.AttributeType.Name(kind))
    except ValueError:
        return str(kind)


__all__ += ["dtype_name", "dtype_text", "is_float", "numpy_of"]
