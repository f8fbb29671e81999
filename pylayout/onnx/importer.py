"""Importer: walks the nodes of a model and builds a graph of them."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy
import onnx

from ..dtypes import dtype_of
from ..errors import Error, InternalError, InvalidArgumentError, OutOfMemoryError, UnsupportedError
from ..graph import MAX_AXIS_NAME, Graph, Trained
from ..late import LateGraph
from ..value import Value
from .contents import Contents, array_type, check_texts, domain_of, initialisers_of, opsets_of
from .errors import RefusedError, ValueNeeded
from .fold import BASE_BYTES, BYTES_PER_BYTE, MAX_BYTES, budget
from .host import is_hosted
from .node import Node
from .operand import Known, Members, Operand, Stands, safe_name
from .registry import LAST_OPSET, find
from .scope import Scope

__all__ = ["Importer", "ordered", "prefixed", "schema_of", "used_names"]

# Ops that one model may become; loops are unrolled and functions put in place, so a small file can ask for many.
MAX_OPS = 50_000
# Functions and subgraphs within each other.
MAX_DEPTH = 32

_A = onnx.AttributeProto


class Importer:
    """One import of a model: for the given sizes, or, `late`, for all sizes of named axes that it can be made for.

    Without `late`, what the model computes of sizes is computed at once, and the graph holds for these sizes only.
    """

    def __init__(
        self,
        model: Contents,
        shapes: Mapping[str, Sequence[int]],
        sizes: Mapping[str, int],
        values: Mapping[str, Any],
        late: bool = False,
        open_size: int = 1,
    ) -> None:
        fixed = {name: numpy.asarray(array) for name, array in values.items()}
        self._begin(model, late, LateGraph() if late else Graph(), fixed, model.bind(shapes, sizes, fixed, open_size))
        self.graph._trained_else = Trained.NEVER  # constants that are none of the file's are of its formulas

    def _begin(
        self,
        model: Contents,
        late: bool,
        graph: Graph,
        fixed: Mapping[str, Any],
        shapes: Mapping[str, Sequence[int]],
    ) -> None:
        """What every import has, of a model or of some nodes."""
        self.model = model
        self._late = late
        self.graph = graph
        self._ops = 0
        self._depth = 0
        self._spent = 0
        self.dequantised: dict[int, Operand] = {}
        self._streams: dict[str, tuple[Value, Value]] = {}  # of random numbers: the state, and where it is now
        self._parents: dict[int, tuple[Value, ...]] = {}  # by the result: the inputs of the node that gave it
        self._input_names: dict[int, str] = {}
        self._fixed = fixed
        self._shapes = shapes

    def run(self) -> Graph:
        try:
            with budget(self._budget_left()):
                return self._run()
        except Error:
            raise
        except Exception as error:
            raise prefixed(error, "onnx: the model") from error

    def _run(self) -> Graph:
        model = self.model
        scope = Scope(self, model.opsets, model.initialisers)
        # Graphs for other sizes share the plan's states, also where no number is drawn for these.
        for seed in dict.fromkeys(_seeds(model.proto.graph.node)):
            self._stream(seed)
        for entry in model.inputs:
            if entry.kind != "tensor_type":
                raise UnsupportedError(f"onnx: input {entry.name!r} is of {entry.kind or 'no type'}, expected a tensor")
            if entry.name in self._fixed:
                array = self._fixed[entry.name]
                if array.dtype != array_type(entry):
                    raise InvalidArgumentError(
                        f"onnx: the value of input {entry.name!r} is {array.dtype}, expected {array_type(entry)}"
                    )
                scope.values[entry.name] = Known(array, entry.name)
                continue
            value = self._input(entry)
            self._input_names[value._id] = entry.name
            scope.values[entry.name] = value
        outputs = self.run_graph(model.proto.graph, scope)
        for name, operand in zip(model.outputs, outputs, strict=True):
            self._output(name, operand)
        if isinstance(self.graph, LateGraph):
            self.graph.is_building = False
        self.graph._trained_else = None
        return self.graph

    def _input(self, entry: Any) -> Value:
        """An input whose open axes are named, so that a plan serves all sizes; those of one name are equal."""
        shape: list[int | str] = list(self._shapes[entry.name])
        names = [f"{entry.name}.{i}" if dim is None else dim for i, dim in enumerate(entry.dims or [None] * len(shape))]
        for i, name in enumerate(names):
            if isinstance(name, str):
                axis = safe_name(name).replace(",", "_")[:MAX_AXIS_NAME]
                self.graph._sizes[axis] = self._shapes[entry.name][i]
                shape[i] = axis
        value = self.graph.input(safe_name(entry.name), shape, _graph_dtype(entry))
        if isinstance(self.graph, LateGraph):
            self.graph.know_fixed(value, [isinstance(size, int) for size in shape])
        else:
            for i, size in enumerate(shape):
                if isinstance(size, str):
                    self.graph.require(f"#{value._id}.{i} == {self._shapes[entry.name][i]}")
        return value

    def _output(self, name: str, operand: Stands) -> None:
        if isinstance(operand, Members):
            raise UnsupportedError(f"onnx: output {name!r} is a sequence, expected a tensor")
        try:
            value = operand.value(self.graph) if isinstance(operand, Known) else operand
            self.graph.output(value, safe_name(name))
        except Error as error:
            raise prefixed(error, f"onnx: output {name!r}") from error

    # ---- graphs ----

    def unrolled(self, size: Any, what: str) -> int:
        """A size as the number of parts that something is taken apart into."""
        return int(size)

    def run_graph(self, proto: Any, scope: Scope) -> list[Stands]:
        """Converts the nodes that the outputs of a graph need; returns its outputs."""
        names = [output.name for output in proto.output]
        return self._run_nodes(proto.node, names, scope)

    def run_subgraph(self, proto: Any, outer: Node, inputs: Sequence[Stands], label: str) -> list[Stands]:
        """The outputs of a subgraph of a node, given the subgraph's inputs."""
        if len(proto.input) != len(inputs):
            raise InvalidArgumentError(f"subgraph has {len(proto.input)} inputs, expected {len(inputs)}")
        scope = Scope(self, outer.scope.opsets, initialisers_of(proto), outer.scope, prefix=f"{outer.name}/{label}")
        scope.values.update({value.name: x for value, x in zip(proto.input, inputs, strict=True)})
        with self._nested(outer):
            return self.run_graph(proto, scope)

    def run_function(self, proto: Any, node: Node) -> list[Stands | None]:
        """The outputs of a function, called by a node."""
        if len(node.inputs) > len(proto.input):
            raise InvalidArgumentError(f"function has {len(proto.input)} inputs, but is given {len(node.inputs)}")
        attributes = {attribute.name: attribute for attribute in proto.attribute_proto}
        attributes.update(node.attributes)
        node.ignore(*proto.attribute, *(attribute.name for attribute in proto.attribute_proto))
        opsets = {**self.model.opsets, **opsets_of(proto.opset_import)}
        scope = Scope(self, opsets, {}, attributes=attributes, prefix=node.name)
        given = [*node.inputs, *[None] * (len(proto.input) - len(node.inputs))]
        scope.values.update(zip(proto.input, given, strict=True))
        wanted = [name for i, name in enumerate(proto.output) if node.wants(i)]
        with self._nested(node):
            found = dict(zip(wanted, self._run_nodes(proto.node, wanted, scope), strict=True))
        return [found.get(name) for name in proto.output]

    def _nested(self, node: Node) -> Any:
        return _Depth(self, node)

    def _run_nodes(self, nodes: Any, outputs: Sequence[str], scope: Scope) -> list[Stands]:
        scope.read_by = readers_of(nodes, outputs)
        for proto in ordered(nodes, outputs, scope):
            self._convert(proto, scope)
        results = []
        for name in outputs:
            operand = scope.find(name) if scope.has(name) else None
            if operand is None:
                raise InvalidArgumentError(f"onnx: nothing gives the output {name!r}")
            results.append(operand)
        return results

    # ---- random numbers ----

    def drawn_by(self, seed: float | None, counters: Any) -> Value:
        """What an op draws random numbers by, of whose counters it uses so many; no seed: one of the import.

        Each seed is a state of the plan. A loop draws by one however often it is unrolled.
        """
        state, now = self._stream(seed)
        self.count_ops()
        after = self.graph.op("add", now, Known.of_sizes([0, counters]).value(self.graph))
        self.graph.update(state, after)
        self._streams[_stream_name(seed)] = state, after
        return now

    def _stream(self, seed: float | None) -> tuple[Value, Value]:
        """The state of a seed, and where the stream is now."""
        name = _stream_name(seed)
        if name not in self._streams:
            key = secrets.randbits(63) if seed is None else _key(seed)
            state = self.graph.state(name, numpy.array([key, self.first_counter(name)], "int64"))
            self.graph.update(state, state)
            self._streams[name] = state, state
        return self._streams[name]

    def first_counter(self, stream: str) -> int:
        """Where a stream of random numbers begins."""
        return 0

    # ---- nodes ----

    def count_ops(self) -> None:
        self._ops += 1
        if self._ops > MAX_OPS:
            raise UnsupportedError(f"the model becomes more than {MAX_OPS} ops, expected fewer")

    def _budget_left(self) -> int:
        """Bytes that the next arrays computed at import may take."""
        return min(BASE_BYTES + BYTES_PER_BYTE * self.model.loaded_bytes, MAX_BYTES) - self._spent

    def spend(self, array: Any) -> None:
        """Counts an array that was computed at import, unless it is a view."""
        if array.base is None:
            self._spent += array.nbytes
        if self._budget_left() < 0:
            raise InvalidArgumentError(f"more than {self._spent} bytes are computed from constants, expected fewer")

    def _convert(self, proto: Any, scope: Scope) -> None:
        check_texts(proto)
        domain = domain_of(proto.domain)
        opset = scope.opsets.get(domain, 0)
        try:
            with budget(self._budget_left()):
                self._convert_within(proto, scope, domain, opset)
        except Exception as error:
            if getattr(error, "_located", False):
                raise
            name = safe_name(proto.name) or ", ".join(proto.output)
            where = f'onnx: node "{name}" ({domain or "ai.onnx"} {proto.op_type}, opset {opset})'
            if isinstance(error, RefusedError) and is_hosted(proto):
                error = UnsupportedError(str(error))  # of a graph; the host's may know it
            raise prefixed(error, where) from error

    def _convert_within(self, proto: Any, scope: Scope, domain: str, opset: int) -> None:
        self.count_ops()
        node = Node(self, scope, proto, opset, domain)
        if scope.prefix:
            node.name = safe_name(f"{scope.prefix}/{node.name}")
        self._store(node, self._results(node))

    def _results(self, node: Node) -> list[Any]:
        function = self.model.function(node.proto)
        if function is None:
            if node.opset == 0:
                raise UnsupportedError(f"the model imports no opset of the domain {node.domain or 'ai.onnx'}")
            schema = schema_of(node.domain, node.op_type, node.opset)
            _check_against(node, schema)
            entry = find(node.domain, node.op_type, node.opset)
            if entry is not None:
                made = entry.function(node)
                results = list(made) if isinstance(made, (list, tuple)) else [made]
                unread = node.unread()
                if unread:
                    raise RefusedError(f"attribute {', '.join(unread)} is given, which pylayout does not know")
                return results
            function = _body(node, schema)
            if function is None:
                raise UnsupportedError("pylayout has not this op")
            for name, attribute in schema.attributes.items():
                if attribute.default_value.type != _A.UNDEFINED:
                    node.attributes.setdefault(name, attribute.default_value)
        results = list(self.run_function(function, node))
        if node.domain not in ("",) and node.unread():
            raise InvalidArgumentError(f"attribute {', '.join(node.unread())} is given, which the function has not")
        return results

    def _store(self, node: Node, results: list[Any]) -> None:
        parents = tuple(one for x in node.inputs for one in _tensors(x) if isinstance(one, Value))
        for i, name in enumerate(node.proto.output):
            if not name:
                continue
            result = results[i] if i < len(results) else None
            if result is None:
                raise UnsupportedError(f"output {i} ({name!r}) is used, which pylayout does not compute")
            if isinstance(result, (numpy.ndarray, numpy.generic)):
                result = Known(numpy.asarray(result))
                self.spend(result.array)
            if isinstance(result, Known) and not result.name:
                result.name = name
            for one in _tensors(result):
                if isinstance(one, Value) and all(parent is not one for parent in parents):
                    self._parents.setdefault(one._id, parents)
            node.scope.values[name] = result
            if not node.domain:
                node.scope.makers[name] = node.proto

    def value_needed(self, operand: Value, what: str) -> ValueNeeded:
        """The error for a value that is not known at import: it says from which inputs of the model it comes."""
        seen, names, stack = {operand._id}, [], [operand]
        while stack:
            value = stack.pop()
            if value._id in self._input_names:
                names.append(self._input_names[value._id])
            for parent in self._parents.get(value._id, ()):
                if parent._id not in seen:
                    seen.add(parent._id)
                    stack.append(parent)
        shown = ", ".join(repr(name) for name in sorted(names))
        return ValueNeeded(
            f"{what} must be known when the model is imported, but depends on the input {shown}; "
            "values={name: array} makes an input a constant",
            tuple(sorted(names)),
        )


class _Depth:
    """Counts functions and subgraphs within each other."""

    def __init__(self, importer: Importer, node: Node) -> None:
        self.importer = importer

    def __enter__(self) -> None:
        self.importer._depth += 1
        if self.importer._depth > MAX_DEPTH:
            self.importer._depth -= 1
            raise UnsupportedError(f"functions and subgraphs lie more than {MAX_DEPTH} deep in each other")

    def __exit__(self, *_: object) -> None:
        self.importer._depth -= 1


# What arithmetic with the numbers and texts of a model raises where these make no sense, and what a model does whose
# parts lie too deep within each other. Everything else that is no Error of the library is a defect of the importer.
_DAMAGE = (ValueError, IndexError, OverflowError, ZeroDivisionError, RecursionError)


def prefixed(error: BaseException, where: str) -> Error:
    """The same error with the place before the message: an Error of its class, else one that says whose fault it is."""
    made: Error
    if isinstance(error, ValueNeeded):
        made = ValueNeeded(f"{where}: {error}", error.inputs)
    elif isinstance(error, Error):
        made = type(error)(f"{where}: {error}")
    elif isinstance(error, MemoryError):
        made = OutOfMemoryError(f"{where}: {error}")
    elif isinstance(error, _DAMAGE):
        made = InvalidArgumentError(f"{where}: is not valid: {type(error).__name__}: {error}")
    else:
        made = InternalError(
            f"{where}: a defect of pylayout's importer, not of the model; please report it with the model: "
            f"{type(error).__name__}: {error}"
        )
    made._located = True  # type: ignore[attr-defined]
    return made


_DRAWING = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


def _seeds(nodes: Any) -> Iterator[float | None]:
    """Of nodes that draw random numbers, those in subgraphs too."""
    for node in nodes:
        if node.op_type in _DRAWING and not domain_of(node.domain):
            given = [attribute.f for attribute in node.attribute if attribute.name == "seed"]
            yield given[0] if given else None
        elif node.op_type in ("If", "Loop", "Scan"):
            for attribute in node.attribute:
                yield from _seeds(attribute.g.node)


def _stream_name(seed: float | None) -> str:
    return "random numbers" if seed is None else f"random numbers of seed {seed}"


def _key(seed: float) -> int:
    """A whole seed is itself, another one its bits as f32."""
    whole = float(seed).is_integer() and abs(seed) < 2**63
    return int(seed) if whole else int(numpy.float32(seed).view(numpy.int32))


def _graph_dtype(entry: Any) -> Any:
    try:
        return dtype_of(array_type(entry))
    except UnsupportedError as error:
        text = str(error)
        where = f"onnx: input {entry.name!r}"
        raise UnsupportedError(text if text.startswith(where) else f"{where}: {text}") from None


@functools.lru_cache(maxsize=4096)
def schema_of(domain: str, op: str, opset: int) -> Any:
    """ONNX's own description of an op in an opset; None for domains of which onnx knows nothing."""
    try:
        return onnx.defs.get_schema(op, max(min(opset, 2**31 - 1), -(2**31)), domain)  # 32 bits, files hold 64
    except onnx.defs.SchemaError:
        return None


def _check_against(node: Node, schema: Any) -> None:
    """Number of inputs and outputs, and whether the op is one that the converters were written for."""
    if schema is None:
        return
    if node.domain == "" and schema.since_version > LAST_OPSET:
        raise UnsupportedError(f"the op changed in opset {schema.since_version}, pylayout knows opsets to {LAST_OPSET}")
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        raise InvalidArgumentError(
            f"there are {len(node.inputs)} inputs, expected {schema.min_input} to {schema.max_input}"
        )
    if not schema.min_output <= len(node.proto.output) <= schema.max_output:
        raise InvalidArgumentError(
            f"there are {len(node.proto.output)} outputs, expected {schema.min_output} to {schema.max_output}"
        )


def _body(node: Node, schema: Any) -> Any:
    """The definition of an op by other ops, where ONNX has one."""
    if schema is None:
        return None
    content = b""
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= node.opset]
        if versions:
            content = schema.get_function_with_opset_version(max(versions))
    elif schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
        if versions:
            proto = onnx.NodeProto()
            proto.CopyFrom(node.proto)
            del proto.attribute[:]
            proto.attribute.extend(node.attributes.values())
            types = [_type_of(operand) for operand in node.inputs]
            try:
                content = schema.get_context_dependent_function_with_opset_version(
                    max(versions), proto.SerializeToString(), types
                )
            except RuntimeError as error:  # onnx cannot make a body for these types and attributes
                raise InvalidArgumentError(f"is not valid: {error}") from None
    if not content:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(content)
    return function


def _tensors(operand: Any) -> tuple[Any, ...]:
    """What a name stands for, taken apart."""
    return operand.items if isinstance(operand, Members) else (operand,)


def _type_of(operand: Stands | None) -> bytes:
    """An input's type and shape as a TypeProto; of a sequence nothing."""
    proto = onnx.TypeProto()
    if operand is not None and not isinstance(operand, Members):
        dtype = operand.dtype if isinstance(operand, Known) else operand.dtype.dtype
        proto.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(dtype)
        for size in operand.shape:
            proto.tensor_type.shape.dim.add().dim_value = size
    return bytes(proto.SerializeToString())


# ---- order ----


def used_names(proto: Any, depth: int = 0) -> Iterator[str]:
    """The names that a node uses: its inputs, and what its subgraphs take from around them."""
    yield from proto.input
    if depth > MAX_DEPTH:
        return
    for attribute in proto.attribute:
        for graph in (attribute.g, *attribute.graphs) if attribute.type in (_A.GRAPH, _A.GRAPHS) else ():
            own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            own.update(name for node in graph.node for name in node.output)
            for node in graph.node:
                yield from (name for name in used_names(node, depth + 1) if name not in own)
            yield from (output.name for output in graph.output if output.name not in own)


def readers_of(nodes: Any, outputs: Sequence[str]) -> Callable[[], Mapping[str, Sequence[str]]]:
    """What finds, once, by name the ops of the nodes that use it, in subgraphs too; "" for an output."""

    @functools.cache
    def found() -> dict[str, list[str]]:
        readers: dict[str, list[str]] = {name: [""] for name in outputs}
        for node in nodes:
            for name in used_names(node):
                readers.setdefault(name, []).append(node.op_type)
        return readers

    return found


def ordered(nodes: Any, outputs: Sequence[str], scope: Scope) -> list[Any]:
    """The nodes that the outputs need, each after those that it needs: in the file's order if that is right.

    Takes time linear in the number of nodes. Raises InvalidArgumentError for a cycle, and for a name that two make.
    """
    maker: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            if not name:
                continue
            if name in maker or name in scope.values or name in scope.initialisers:
                raise InvalidArgumentError(f"onnx: the value {name!r} is made twice, the second time by a node")
            maker[name] = index
    needs: dict[int, list[int]] = {}
    stack = [maker[name] for name in outputs if name in maker]
    while stack:
        index = stack.pop()
        if index in needs:
            continue
        needs[index] = sorted({maker[name] for name in used_names(nodes[index]) if name in maker})
        stack.extend(needs[index])
    if len(needs) > MAX_OPS:
        raise UnsupportedError(f"onnx: the model has {len(needs)} nodes that matter, expected at most {MAX_OPS}")
    order = sorted(needs)
    if any(before >= index for index in order for before in needs[index]):
        order = _sorted_by_need(order, needs, nodes)
    return [nodes[index] for index in order]


def _sorted_by_need(order: list[int], needs: dict[int, list[int]], nodes: Any) -> list[int]:
    result: list[int] = []
    state: dict[int, int] = {}  # 1: being visited, 2: done
    for root in order:
        stack = [root]
        while stack:
            index = stack[-1]
            if state.get(index) is None:
                state[index] = 1
                for before in needs[index]:
                    if state.get(before) == 1:
                        name = nodes[index].name or ", ".join(map(str, nodes[index].output))
                        raise InvalidArgumentError(f"onnx: the node {name!r} needs its own result: a cycle")
                    if state.get(before) is None:
                        stack.append(before)
            else:
                stack.pop()
                if state[index] == 1:
                    state[index] = 2
                    result.append(index)
    return result
