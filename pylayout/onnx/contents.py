"""Contents: a parsed ONNX file, checked as far as that is possible without converting it, and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from ..errors import InvalidArgumentError, ShapeError, UnsupportedError
from ..sizes import axis_sizes
from .operand import Known, is_alike
from .registry import FIRST_OPSET, LAST_OPSET
from .tensors import ExternalData, array_of, checked_sizes, dense_of, dtype_name, numpy_dtype
from .weights import Weights, joined_uses, scope_of, turned_copies

__all__ = ["Contents", "Input", "array_type", "check_texts", "domain_of", "initialisers_of", "opsets_of"]


@dataclass(frozen=True)
class Input:
    """An input of a model: name, ONNX element type, and its sizes: numbers, names, None where nothing is said.

    `dims` is None where not even the rank is said.
    """

    name: str
    element_type: int
    dims: tuple[int | str | None, ...] | None
    kind: str = "tensor_type"

    def __str__(self) -> str:
        sizes = "?" if self.dims is None else ", ".join("?" if dim is None else str(dim) for dim in self.dims)
        return f"{self.name}: {dtype_name(self.element_type).lower()} ({sizes})"


class Contents:
    """What an ONNX model holds; weights are read once and shared by all graphs that are made of it."""

    def __init__(self, proto: Any, folder: Path | None = None, own: Any = None) -> None:
        check_texts(proto)
        self.proto = proto
        self.files = ExternalData(folder, own)
        self.opsets = opsets_of(proto.opset_import)
        if not proto.HasField("graph") or not proto.graph.output:
            raise InvalidArgumentError("onnx: the model has no graph, or one without outputs")
        self._functions: dict[tuple[str, str, str], Any] = {}
        for function in proto.functions:
            key = (domain_of(function.domain), function.name, _overload(function))
            if key in self._functions:
                raise InvalidArgumentError(f"onnx: the function {function.name} is defined twice")
            self._functions[key] = function
        self.loaded_bytes = 0  # of the weights that were asked for so far
        self._known: dict[int, Known] = {}  # by identity of the TensorProto, all of which `proto` keeps alive
        self.initialisers = initialisers_of(proto.graph)
        self.weights = Weights(proto)
        self._joined = joined_uses(proto.graph)
        self._apart: dict[tuple[str, str], Known] = {}  # by initialiser and module
        self._turned = turned_copies(self.initialisers, self.weights)
        self.inputs = self._inputs()
        self.outputs = [value.name for value in proto.graph.output]
        if len(set(self.outputs)) != len(self.outputs):
            raise InvalidArgumentError(f"onnx: outputs are {self.outputs[:100]}, expected different names")

    def function(self, node: Any) -> Any:
        """The model's function that a node calls, of several of one name by its overload; None where it calls none."""
        return self._functions.get((domain_of(node.domain), node.op_type, _overload(node)))

    def _inputs(self) -> list[Input]:
        inputs: dict[str, Input] = {}
        names = set()
        for value in self.proto.graph.input:
            if not value.name or value.name in names:
                raise InvalidArgumentError(f"onnx: two inputs are called {value.name!r}, expected different names")
            names.add(value.name)
            if value.name in self.initialisers:  # in old files weights are inputs too
                continue
            kind = value.type.WhichOneof("value")
            if kind != "tensor_type":
                inputs[value.name] = Input(value.name, 0, (), kind or "")
                continue
            tensor = value.type.tensor_type
            dims: tuple[int | str | None, ...] | None = None
            if tensor.HasField("shape"):
                dims = tuple(_size(dim, value.name) for dim in tensor.shape.dim)
            inputs[value.name] = Input(value.name, tensor.elem_type, dims)
        return list(inputs.values())

    def array(self, tensor: Any, what: str) -> Any:
        """The elements of a TensorProto."""
        array = array_of(tensor, self.files, what)
        self.loaded_bytes += array.nbytes
        return array

    def known(self, tensor: Any) -> Known:
        """An initialiser; one object for all graphs that are made from this model."""
        found = self._known.get(id(tensor))
        if found is None:
            array = self.array(tensor, f"initialiser {tensor.name!r}")
            found = Known(array, tensor.name, trained=self.weights.of(tensor))
            if tensor is self.initialisers.get(tensor.name):
                found = self._turned_back(found)
            self._known[id(tensor)] = found
        return found

    def of_module(self, known: Known, node: Any) -> Known:
        """The initialiser that a node reads: where all elements are alike, one for each module that does.

        Of others it is one tensor used twice, as the tables of tied embeddings are.
        """
        if known.name not in self._joined or known.made is not None or not known.may_be_trained:
            return known
        scope, (owner, _, last) = scope_of(node), known.name.rpartition(".")
        owners = self._joined[known.name]
        if scope == (owner if owner in owners else min(owners)) or not is_alike(known.array):
            return known
        key = (known.name, scope)
        if key not in self._apart:
            self._apart[key] = Known(known.array.copy(), f"{scope}.{last}", trained=known.trained)
        return self._apart[key]

    def _turned_back(self, known: Known) -> Known:
        """A matrix that an exporter made, as the weight of the file that it is a turned copy of: one parameter.

        Exporters turn the weights of linear layers, those of embeddings too, whose tables stay in the file as well.
        """
        for tensor in self._turned.get(known.name, ()):
            own = self.known(tensor)
            array = own.array
            if (array[:, 0] == known.array[0]).all() and (known.array == array.T).all() and not is_alike(array):
                return Known(array.T, known.name, made=("permute", (own, [1, 0]), {}))
        return known

    def is_open(self, shapes: Mapping[str, Sequence[int]], sizes: Mapping[str, int], fixed: Mapping[str, Any]) -> bool:
        """Whether some axis other than a first one has no size."""
        return any(
            not isinstance(dim, int) and dim not in sizes
            for entry in self._entries_without(shapes, fixed)
            for dim in (entry.dims or ())[1:]
        )

    def open_axes(
        self, shapes: Mapping[str, Sequence[int]], sizes: Mapping[str, int], fixed: Mapping[str, Any]
    ) -> list[str]:
        """The names of axes that have no size, but of those that are first ones somewhere."""
        entries = self._entries_without(shapes, fixed)
        first = {entry.dims[0] for entry in entries if entry.dims}
        named = [dim for entry in entries for dim in (entry.dims or ())[1:] if isinstance(dim, str)]
        return [dim for dim in dict.fromkeys(named) if dim not in sizes and dim not in first]

    def batch_axes(
        self, shapes: Mapping[str, Sequence[int]], sizes: Mapping[str, int], fixed: Mapping[str, Any]
    ) -> list[str]:
        """The names of first axes that have no size."""
        named = [entry.dims[0] for entry in self._entries_without(shapes, fixed) if entry.dims]
        return [dim for dim in dict.fromkeys(named) if isinstance(dim, str) and dim not in sizes]

    def _entries_without(self, shapes: Mapping[str, Sequence[int]], fixed: Mapping[str, Any]) -> list[Any]:
        """The inputs of which no shape is given."""
        return [entry for entry in self.inputs if entry.name not in shapes and entry.name not in fixed]

    def bind(
        self,
        shapes: Mapping[str, Sequence[int]],
        sizes: Mapping[str, int],
        fixed: Mapping[str, Any],
        open_size: int = 1,
    ) -> dict[str, tuple[int, ...]]:
        """A shape for each input: as given, or as the model has it.

        Of what nothing is said, first axes have size 1, others `open_size`.
        """
        names = [entry.name for entry in self.inputs]
        for name in (*shapes, *fixed):
            if name not in names:
                raise InvalidArgumentError(f"onnx: there is no input {name!r}, expected one of {', '.join(names)}")
        axes = {dim for entry in self.inputs for dim in entry.dims or () if isinstance(dim, str)}
        bound = axis_sizes("onnx", sizes)
        for axis in bound:
            if axis not in axes:
                known = ", ".join(sorted(axes)) or "(none)"
                raise InvalidArgumentError(f"onnx: no input has an axis {axis!r}, expected one of {known}")
        given = {**shapes, **{name: array.shape for name, array in fixed.items()}}
        for entry in self.inputs:  # what is given first: it may name an axis of an input that comes earlier
            if entry.name in given:
                _check_given(entry, tuple(int(size) for size in given[entry.name]), bound)
        result = {}
        for entry in self.inputs:
            what = f"onnx: input {entry.name!r}"
            if entry.name in given:
                result[entry.name], _ = checked_sizes(given[entry.name], what)
                continue
            if entry.dims is None:
                raise ShapeError(f"{what} has no rank in the model; give its shape")
            found = [_bound_size(entry, i, bound, open_size) for i in range(len(entry.dims))]
            result[entry.name], _ = checked_sizes(found, what)
        return result


def _check_given(entry: Input, shape: tuple[int, ...], bound: dict[str, int]) -> None:
    expected = f"expected {entry}"
    if any(size < 0 for size in shape):
        raise ShapeError(f"onnx: input {entry.name!r} is given shape {shape}, expected sizes of at least 0")
    if entry.dims is None:
        return
    if len(entry.dims) != len(shape):
        raise ShapeError(f"onnx: input {entry.name!r} is given shape {shape}, {expected}")
    for dim, size in zip(entry.dims, shape, strict=True):
        wanted = bound.setdefault(dim, size) if isinstance(dim, str) else size if dim is None else dim
        if wanted != size:
            also = f" with {dim} = {wanted}" if isinstance(dim, str) else ""
            raise ShapeError(f"onnx: input {entry.name!r} is given shape {shape}, {expected}{also}")


def _bound_size(entry: Input, axis: int, bound: dict[str, int], open_size: int) -> int:
    assert entry.dims is not None
    dim = entry.dims[axis]
    if isinstance(dim, int):
        return dim
    if dim is not None and dim in bound:
        return bound[dim]
    size = 1 if axis == 0 else open_size
    if dim is not None:
        bound[dim] = size
    return size


def _size(dim: Any, name: str) -> int | str | None:
    kind = dim.WhichOneof("value")
    if kind == "dim_param":
        return dim.dim_param or None
    if kind != "dim_value":
        return None
    if not 0 <= dim.dim_value < 2**40:
        raise ShapeError(f"onnx: input {name!r} has a size of {dim.dim_value}, expected 0 to {2**40 - 1}")
    return int(dim.dim_value)


def domain_of(domain: str) -> str:
    """A domain by its one name: ai.onnx is written as nothing."""
    return "" if domain == "ai.onnx" else domain


def _overload(proto: Any) -> str:
    """Which of the functions of one name this is, or is called; onnx knows of several since 1.16."""
    return str(getattr(proto, "overload", ""))


def opsets_of(imports: Any) -> dict[str, int]:
    """The opset of each domain. Raises UnsupportedError for one that is too old or too new."""
    opsets: dict[str, int] = {}
    for entry in imports:
        domain = domain_of(entry.domain)
        if opsets.setdefault(domain, entry.version) != entry.version:
            raise InvalidArgumentError(f"onnx: two opsets of the domain {domain or 'ai.onnx'!r} are imported")
    newest = min(LAST_OPSET, onnx.defs.onnx_opset_version())
    if "" in opsets and not FIRST_OPSET <= opsets[""] <= newest:
        raise UnsupportedError(
            f"onnx: the model is of opset {opsets['']}, expected {FIRST_OPSET} to {newest} (pylayout knows opsets up "
            f"to {LAST_OPSET}, onnx {onnx.__version__} up to {onnx.defs.onnx_opset_version()}); "
            "onnx.version_converter changes a model's opset"
        )
    return opsets


def check_texts(message: Any) -> None:
    """Raises InvalidArgumentError for a text in a message that is no UTF-8: protobuf gives its bytes.

    Of tensors only the name is looked at, and nodes below the message are left out: each is checked when it is
    converted.
    """
    stack = [message]
    while stack:
        message = stack.pop()
        texts = [message.name] if isinstance(message, onnx.TensorProto) else []
        for field, value in () if texts else message.ListFields():
            several = value if field.is_repeated else (value,)
            if field.type == field.TYPE_STRING:
                texts += several
            elif field.message_type is not None and field.message_type is not onnx.NodeProto.DESCRIPTOR:
                stack += several
        for text in texts:
            if not isinstance(text, str):
                raise InvalidArgumentError(f"onnx: the model is damaged: the text {text[:100]!r} is no UTF-8")


def initialisers_of(graph: Any) -> dict[str, Any]:
    """The initialisers of a graph by name."""
    found: dict[str, Any] = {}
    for tensor in graph.initializer:
        if not tensor.name or tensor.name in found:
            raise InvalidArgumentError(f"onnx: two initialisers are called {tensor.name!r}, expected different names")
        found[tensor.name] = tensor
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        if not name or name in found:
            raise InvalidArgumentError(f"onnx: two initialisers are called {name!r}, expected different names")
        found[name] = dense_of(sparse, f"onnx: sparse initialiser {name!r}")
    return found


def array_type(entry: Input) -> Any:
    """The NumPy dtype of an input."""
    return numpy_dtype(entry.element_type, f"onnx: input {entry.name!r}")
