"""Segments: models in which a size is known only after a value: what a plan can hold, then steps on the host.

A graph is run in rounds. Each round imports what can be computed from the arrays that are there, as one graph with all
its axes named, and a plan of it runs at any sizes (docs/howto/sizes-known-late.md). A node that needs the value of
something that this round computes, or that follows such a node, waits for the next round, in which the value is an
array. Integers that shapes follow from come to a plan as sizes of inputs without elements, so that they may be others
in each run. What no plan can hold is a step on the host (host.py). Rounds are found in the first run and kept.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import onnx

from .._load import lib
from ..arrays import asarray
from ..errors import Error, InvalidArgumentError, UnsupportedError, check
from ..graph import MAX_AXIS_NAME, Graph
from ..plan import Plan, compile_graph
from ..sizes import Size
from ..tensor import Tensor
from .contents import array_type, domain_of, initialisers_of
from .errors import ValueNeeded
from .host import HOST, Call
from .importer import Importer, LateGraph, ordered, prefixed, schema_of, used_names
from .operand import Known, safe_name
from .registry import find
from .scope import Scope
from .tensors import dtype_name

__all__ = ["SegmentedPlan", "can_segment"]

# Integers, flags and numbers that shapes or choices follow from are few.
MAX_KNOWN = 64
# For values and sizes for which a segment was not made it is imported again, so often.
MAX_VARIANTS = 32

Arrays = dict[str, Any]


class _Open(dict[str, Any]):
    """The names of a segment: an array that is there becomes an input of its graph when a node asks for it."""

    def __init__(self, segment: _SegmentImporter) -> None:
        super().__init__()
        self.segment = segment

    def __contains__(self, name: object) -> bool:
        here = super().__contains__(name) or name in self.segment.arrays
        return here or name in self.segment.program.static

    def __missing__(self, name: str) -> Any:
        self[name] = self.segment.open(name)
        return self[name]


class _SegmentImporter(Importer):
    """The import of some nodes, over arrays that are there."""

    def __init__(self, program: _Program, arrays: Arrays, known: set[str], late: bool) -> None:
        self.model = program.plan.model
        self._late = late
        self.graph = LateGraph() if late else Graph()
        self._ops = self._depth = self._spent = 0
        self._parents = {}
        self._input_names = {}
        self._fixed = {}
        self._shapes = {}
        self.program = program
        self.arrays = arrays
        self.known = known
        self.order: list[tuple[str, int]] = []  # of the inputs: the array, and which of its elements, or -1: all
        self.scope = Scope(self, program.opsets, program.initialisers, attributes=program.attributes)
        self.scope.values = _Open(self)

    def open(self, name: str) -> Any:
        if name not in self.arrays:
            return self.program.static[name]
        array = self.arrays[name]
        if not isinstance(array, numpy.ndarray):
            raise UnsupportedError(f"{name!r} is {'a sequence' if isinstance(array, list) else 'an empty optional'}")
        if name in self.known:
            return self._as_sizes(name, array)
        label, declared = safe_name(name), self.program.dims.get(name)
        shape: list[int | str] = []
        for i, size in enumerate(array.shape):
            fixed = declared is not None and len(declared) == array.ndim and isinstance(declared[i], int)
            shape.append(int(size) if fixed else self._axis(f"{len(self.order)}.{i}", int(size)))
        value = self.graph.input(label or "x", shape, array.dtype)
        self.order.append((name, -1))
        self._input_names[value._id] = name
        self._pin(value._id, array.shape, shape)
        return value

    def _axis(self, name: str, size: int) -> str:
        axis = name[:MAX_AXIS_NAME]
        self.graph._sizes[axis] = size
        return axis

    def _pin(self, identifier: int, sizes: Sequence[int], shape: Sequence[int | str]) -> None:
        if not self._late:
            for i, size in enumerate(shape):
                if isinstance(size, str):
                    self.graph.require(f"#{identifier}.{i} == {sizes[i]}")

    def _as_sizes(self, name: str, array: Any) -> Known:
        """Elements as sizes of inputs of shape (0, if positive, if negative), which hold no memory."""
        elements = numpy.empty(array.shape, object)
        for k, number in enumerate(_integers(array)):
            shape = (0, max(number, 0), max(-number, 0))
            axes = [self._axis(f"{len(self.order)}.{i}", size) for i, size in enumerate(shape[1:])]
            value = self.graph.input(safe_name(f"{name}/{k}"), [0, *axes], "u8")
            self.order.append((name, k))
            self._pin(value._id, shape, [0, *axes])
            elements.reshape(-1)[k] = Size(self.graph, f"(#{value._id}.1-#{value._id}.2)", number, False)
        made = Known(array, name, elements if array.size and self._late else None)
        if array.dtype.kind not in "iu":
            _ = made.array  # flags and fractions are these in all runs of the graph
        return made


def _integers(array: Any) -> list[int]:
    """The elements of a small array as integers; of fractions the bits."""
    if array.dtype.kind not in "iub":
        array = numpy.array(array, order="C").view(f"i{array.itemsize}")
    return [int(number) for number in array.reshape(-1)]


@dataclass(frozen=True)
class _Variant:
    """A plan with the arrays that it takes, or the elements of them, and the shapes of those known by elements."""

    plan: Plan
    order: list[tuple[str, int]]
    shapes: dict[str, tuple[int, ...]]


class _Segment:
    """Some nodes as a plan; several where values differ that a graph was made for."""

    def __init__(self, program: _Program, nodes: list[Any], known: set[str]) -> None:
        self.program = program
        self.nodes = nodes
        self.known = known
        self.outputs: list[str] = []
        self.variants: list[_Variant] = []

    def run(self, arrays: Arrays) -> None:
        results = self._run_known(arrays)
        if results is None:
            results = self._run_new(arrays)
        arrays.update(zip(self.outputs, results, strict=True))

    def _run_known(self, arrays: Arrays) -> list[Any] | None:
        for variant in list(self.variants):
            if any(arrays[name].shape != shape or not _is_few(arrays[name]) for name, shape in variant.shapes.items()):
                continue
            results = _tried(variant.plan, [_given(arrays, name, k) for name, k in variant.order])
            if results is not None:
                return results
        return None

    def _run_new(self, arrays: Arrays) -> list[Any]:
        with self.program.plan.making:
            problem: Error | None = None
            for late in (True, False):
                segment = _SegmentImporter(self.program, arrays, self.known, late)
                try:
                    for node in self.nodes:
                        segment._convert(node, segment.scope)
                    plan = self.add(segment)
                    return plan.run(*(_given(arrays, name, k) for name, k in segment.order))
                except Error as error:
                    problem = error
            assert problem is not None
            raise _Rebuild(problem)

    def add(self, segment: _SegmentImporter) -> Plan:
        """A plan for what was imported."""
        for name in self.outputs:
            operand = segment.scope.values[name]
            assert operand is not None
            segment._output(name, operand)
        if isinstance(segment.graph, LateGraph):
            segment.graph.is_importing = False
        shapes = {name: segment.arrays[name].shape for name, k in segment.order if k >= 0}
        for variant in self.variants:
            if (variant.order, variant.shapes) == (segment.order, shapes) and any(
                any(entry["axes"]) for entry in variant.plan.inputs
            ):
                check(lib.pl_plan_extend(variant.plan._handle, segment.graph._handle))
                segment.graph._let_go()
                return variant.plan
        made = Plan(compile_graph(segment.graph, self.program.plan.options))
        segment.graph._let_go()
        self.variants = [_Variant(made, segment.order, shapes), *self.variants][:MAX_VARIANTS]
        return made


def _tried(plan: Plan, inputs: list[Any]) -> list[Any] | None:
    """The results of a run; None where the plan was made for other sizes or values."""
    try:
        return plan.run(*inputs)
    except UnsupportedError:
        return None


class _Rebuild(Exception):
    """A segment that was imported once cannot be for these values."""

    def __init__(self, error: Error) -> None:
        super().__init__(str(error))
        self.error = error


def _given(arrays: Arrays, name: str, k: int) -> Any:
    array = arrays[name]
    if k < 0:
        return array
    number = _integers(array)[k]
    return numpy.empty((0, max(number, 0), max(-number, 0)), "uint8")


class _HostStep:
    """A node that is computed on the host."""

    def __init__(self, program: _Program, node: Any) -> None:
        self.program = program
        self.node = node
        self.function = HOST[(domain_of(node.domain), node.op_type)]
        self._programs: dict[str, _Program] = {}

    def run(self, arrays: Arrays) -> None:
        inputs = [self.program.array(name, arrays) if name else None for name in self.node.input]
        opset = self.program.opsets.get(domain_of(self.node.domain), 0)
        call = Call(self.node, inputs, opset, lambda name, given: self._run_subgraph(name, given, arrays), self.program)
        try:
            results = self.function(call)
        except (_Rebuild, KeyboardInterrupt):
            raise
        except Exception as error:
            if getattr(error, "_located", False):
                raise
            if isinstance(error, TypeError):  # of NumPy, for types that make no sense together
                error = InvalidArgumentError(str(error))
            name = self.node.name or ", ".join(self.node.output)
            raise prefixed(error, f'onnx: node "{safe_name(name)}" ({self.node.op_type}, on the host)') from error
        results = list(results) if isinstance(results, tuple) else [results]
        for name, result in zip(self.node.output, results, strict=False):
            if name:
                arrays[name] = result

    def _run_subgraph(self, name: str, given: Sequence[Any], arrays: Arrays) -> list[Any]:
        if name not in self._programs:
            proto = next(attribute.g for attribute in self.node.attribute if attribute.name == name)
            self._programs[name] = _Program(self.program.plan, proto, self.program.opsets, self.program)
        program = self._programs[name]
        proto = program.proto
        if len(given) != len(proto.input):
            raise InvalidArgumentError(
                f"onnx: the subgraph {name} has {len(proto.input)} inputs, is given {len(given)}"
            )
        return program.run({**arrays, **dict(zip((entry.name for entry in proto.input), given, strict=True))})


class _Program:
    """The rounds of a graph, or of a subgraph of a node."""

    def __init__(self, plan: SegmentedPlan, proto: Any, opsets: Mapping[str, int], outer: _Program | None) -> None:
        self.plan = plan
        self.proto = proto
        self.opsets = opsets
        self.attributes = None
        own = plan.model.initialisers if outer is None else initialisers_of(proto)
        self.initialisers: dict[str, Any] = {**(outer.initialisers if outer else {}), **own}
        self.static: dict[str, Known] = dict(outer.static) if outer else {}
        self.dims = {entry.name: entry.dims for entry in plan.model.inputs} if outer is None else {}
        self.outputs = [output.name for output in proto.output]
        self._steps: dict[Any, list[Any]] = {}
        self._nodes: list[Any] | None = None
        self._uses: list[str] = []

    def array(self, name: str, arrays: Arrays) -> Any:
        if name in arrays:
            return arrays[name]
        if name in self.static:
            return self.static[name].array
        if name in self.initialisers:
            return self.plan.model.known(self.initialisers[name]).array
        raise InvalidArgumentError(f"onnx: the value {name!r} is used, but nothing gives it")

    def run(self, arrays: Arrays) -> list[Any]:
        """The outputs, of arrays by name, which are added to."""
        if self._nodes is None:
            scope = Scope(_SegmentImporter(self, {}, set(), False), self.opsets, {})
            self._nodes = ordered(self.proto.node, self.outputs, scope)
            self._uses = sorted({name for node in self._nodes for name in used_names(node)})
        signature = tuple(_signature(arrays.get(name)) for name in self._uses if name in arrays)
        steps = self._steps.get(signature)
        own = dict(arrays)
        if steps is not None:
            try:
                for step in steps:
                    step.run(own)
                return [self.array(name, own) for name in self.outputs]
            except _Rebuild:
                own = dict(arrays)
        try:
            self._steps[signature] = list(self._found(own))
        except _Rebuild as problem:
            raise problem.error from None
        return [self.array(name, own) for name in self.outputs]

    def _found(self, arrays: Arrays) -> Iterator[Any]:
        """The steps, each run as it is found."""
        assert self._nodes is not None
        pending, hosted, problems = list(self._nodes), set[int](), dict[int, Error]()
        while pending:
            with self.plan.making:
                segment, rest = self._segment(pending, arrays, hosted, problems)
            progress = segment is not None
            if segment is not None and segment.outputs:
                segment.run(arrays)
                yield segment
            waiting = []
            for node in rest:
                there = all(not name or self._has(name, arrays) for name in used_names(node))
                if id(node) not in hosted or not there:
                    waiting.append(node)
                    continue
                if (domain_of(node.domain), node.op_type) not in HOST:
                    raise problems[id(node)]
                step = _HostStep(self, node)
                step.run(arrays)
                progress = True
                yield step
            if not progress:
                raise problems.get(id(waiting[0])) or InvalidArgumentError(
                    f"onnx: node {waiting[0].name!r} uses what nothing gives"
                )
            pending = waiting

    def _has(self, name: str, arrays: Arrays) -> bool:
        return name in arrays or name in self.static or name in self.initialisers

    def _segment(
        self, pending: list[Any], arrays: Arrays, hosted: set[int], problems: dict[int, Error]
    ) -> tuple[_Segment | None, list[Any]]:
        """The nodes that a graph can hold now, as a segment with a plan, and those that are left."""
        known: set[str] = set()
        late = True
        while True:
            segment = _SegmentImporter(self, arrays, known, late)
            made: list[Any] = []
            rest: list[Any] = []
            blocked: set[str] = set()
            computed: dict[str, Any] = {}  # by name: the node that gives it
            static: dict[str, Known] = {}
            again = False
            for node in pending:
                used = set(used_names(node))
                problem: Error | None = None
                if id(node) not in hosted and not used & blocked:
                    try:
                        segment._convert(node, segment.scope)
                    except ValueNeeded as error:
                        wanted = {n for n in error.inputs if _is_few(arrays.get(n))} - known
                        hosts = (domain_of(node.domain), node.op_type) in HOST  # which takes values as they come
                        if wanted and not hosts and all(_is_few(arrays.get(n)) for n in error.inputs):
                            known |= wanted
                            again = True
                            break
                        problem = error
                    except UnsupportedError as error:
                        if late and (domain_of(node.domain), node.op_type) not in HOST:
                            late, again = False, True  # perhaps for these sizes and values alone
                            break
                        problem = error
                    except Error:
                        if not late:
                            raise
                        late, again = False, True
                        break
                    if problem is None:
                        made.append(node)
                        constant = all(n in self.initialisers or n in self.static or n in static for n in used if n)
                        for name in filter(None, node.output):
                            value = segment.scope.values[name]
                            if constant and isinstance(value, Known) and value.sizes is None:
                                static[name] = value
                            else:
                                computed[name] = node
                        continue
                if problem is not None:
                    problems[id(node)] = problem
                    if not used & set(computed):
                        hosted.add(id(node))
                rest.append(node)
                blocked.update(filter(None, node.output))
            if again:
                continue
            self.static.update(static)
            wanted = {name for node in rest for name in used_names(node)} | set(self.outputs)
            outputs = [name for name in computed if name in wanted]
            if not made:
                return None, rest
            result = _Segment(self, made, known)
            result.outputs = outputs
            if outputs:
                try:
                    result.add(segment)
                except UnsupportedError as error:
                    bad = self._without_graph(segment, outputs, computed, hosted)
                    if bad is None:
                        if not late:
                            raise
                        late = False
                        continue
                    problems[id(bad)] = error
                    continue
                except Error:
                    if not late:
                        raise
                    late = False
                    continue
            return result, rest

    def _without_graph(
        self, segment: _SegmentImporter, outputs: list[str], computed: dict[str, Any], hosted: set[int]
    ) -> Any:
        """The node of an output that no graph can give, which is computed on the host from now on."""
        for name in outputs:
            operand = segment.scope.values[name]
            if not isinstance(operand, Known):
                continue
            try:
                operand.value(Graph())
            except UnsupportedError:
                hosted.add(id(computed[name]))
                return computed[name]
        return None


def _is_few(array: Any) -> bool:
    if not isinstance(array, numpy.ndarray) or array.size > MAX_KNOWN or array.dtype.itemsize > 8:
        return False
    return (array.dtype.kind in "iubf" or array.dtype.name == "bfloat16") and all(
        abs(number) < 2**40 for number in _integers(array)
    )


def _signature(value: Any) -> Any:
    if isinstance(value, numpy.ndarray):
        return value.dtype.str, value.ndim
    return type(value).__name__


class SegmentedPlan(Plan):
    """A plan of a model that is run by segments, which are planned in the first run.

    `summary` says how many there are, and which nodes run on the host. What belongs to one plan (save, graph, state)
    raises UnsupportedError.
    """

    def __init__(self, model: Any, options: dict[str, Any], values: Mapping[str, Any] | None = None) -> None:
        self.model = model
        self.options = options
        self.making = threading.RLock()  # held while a segment is imported
        self.device = str(options.get("device") or "auto")
        self._values = {name: numpy.asarray(array) for name, array in (values or {}).items()}
        self._program = _Program(self, model.proto.graph, model.opsets, None)
        self._entries = [entry for entry in model.inputs if entry.name not in self._values]
        for entry in self._entries:
            if entry.kind == "tensor_type":
                _dtype_of(entry)  # raises for texts
        self.states = []
        self.inputs = [_described(entry) for entry in self._entries]
        self.outputs = [{"name": name} for name in model.outputs]

    def run(self, *arrays: Any) -> list[Any]:
        """Run on NumPy arrays, in the order of `inputs`, or by name in one dict. Returns a list of NumPy arrays.

        An output that is a sequence is a list of arrays, an optional that is empty None.
        """
        names = [entry.name for entry in self._entries]
        given = dict(arrays[0]) if len(arrays) == 1 and isinstance(arrays[0], Mapping) else None
        if given is None:
            if len(arrays) != len(names):
                raise InvalidArgumentError(
                    f"plan: {len(arrays)} inputs given, expected {len(names)}: {', '.join(names)}"
                )
            given = dict(zip(names, arrays, strict=True))
        for name in given:
            if name not in names:
                raise InvalidArgumentError(f'plan: there is no input "{name}", expected {", ".join(names)}')
        for entry in self._entries:
            if entry.name not in given:
                raise InvalidArgumentError(f'plan: input "{entry.name}" is missing')
            given[entry.name] = _checked(entry, given[entry.name])
        return self._program.run({**self._values, **given})

    def __call__(self, *tensors: Any) -> Any:
        """Run on tensors; returns a Tensor, or a tuple where there are several outputs."""
        results = tuple(
            asarray(result) if isinstance(result, numpy.ndarray) else result
            for result in self.run(*(numpy.asarray(t) if isinstance(t, Tensor) else t for t in tensors))
        )
        return results[0] if len(results) == 1 else results

    def _all_steps(self) -> Iterator[Any]:
        programs = [self._program]
        while programs:
            program = programs.pop()
            for steps in program._steps.values():
                for step in steps:
                    yield step
                    programs += getattr(step, "_programs", {}).values()

    def summary(self) -> dict[str, Any]:
        """How many segments there are, the summaries of their plans, and the nodes on the host by op."""
        steps = list(self._all_steps())
        hosted: dict[str, int] = {}
        for step in steps:
            if isinstance(step, _HostStep):
                hosted[step.node.op_type] = hosted.get(step.node.op_type, 0) + 1
        segments = [step for step in steps if isinstance(step, _Segment)]
        plans = [variant.plan.summary() for step in segments for variant in step.variants]
        return {"device": self.device, "segments": len(segments), "host": hosted, "plans": plans}

    def explain(self, html: Any = None) -> str:
        """In words: the segments with what their plans chose, and the nodes on the host between them."""
        if html is not None:
            raise UnsupportedError("plan: a model that is run by segments is explained in words only, html is given")
        texts = []
        for step in self._all_steps():
            if isinstance(step, _HostStep):
                texts.append(f"on the host: {step.node.name or step.node.output[0]} ({step.node.op_type})")
            else:
                texts += [f"segment of {len(step.nodes)} nodes: {variant.plan.explain()}" for variant in step.variants]
        return "\n".join(texts) or "nothing was run yet: segments are planned in the first run"

    def settled(self) -> bool:
        """Whether no run changes the choices any more."""
        steps = [step for step in self._all_steps() if isinstance(step, _Segment)]
        return bool(steps) and all(variant.plan.settled() for step in steps for variant in step.variants)

    def freeze(self) -> None:
        """Keep what was chosen so far."""
        for step in self._all_steps():
            for variant in getattr(step, "variants", ()):
                variant.plan.freeze()

    def __getattr__(self, name: str) -> Any:
        if name == "_handle":
            raise UnsupportedError("plan: the model is run by segments, expected one that is a plan as a whole")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __del__(self, release: Any = None) -> None:
        """There is nothing to release: segments are."""

    def __repr__(self) -> str:
        return f"<SegmentedPlan: {', '.join(str(entry) for entry in self._entries)}>"


def _described(entry: Any) -> dict[str, Any]:
    axes = ["" if isinstance(dim, int) else str(dim or f"{entry.name}.{i}") for i, dim in enumerate(entry.dims or ())]
    dtype = dtype_name(entry.element_type).lower() if entry.kind == "tensor_type" else entry.kind
    return {"name": entry.name, "dtype": dtype, "shape": entry.dims, "axes": axes}


def _dtype_of(entry: Any) -> Any:
    """The NumPy dtype of an input: of any numbers, since the host may take what no plan does."""
    try:
        return array_type(entry)
    except UnsupportedError:
        dtype = numpy.dtype(onnx.helper.tensor_dtype_to_np_dtype(entry.element_type))
        if dtype.kind in "OSUc":
            raise
        return dtype


def _checked(entry: Any, value: Any) -> Any:
    """An input as an array; a sequence as a list of them."""
    if entry.kind != "tensor_type":
        if isinstance(value, (list, tuple)):  # none at all is how ONNX writes an optional without a value
            return [numpy.asarray(item) for item in value] if value or entry.kind != "optional_type" else None
        return value if value is None else numpy.asarray(value)
    array, wanted = numpy.asarray(value), _dtype_of(entry)
    if array.dtype == wanted:
        return array
    if isinstance(value, (bool, int, float, list, tuple)) or (array.dtype.name, wanted.name) == ("float64", "float32"):
        return array.astype(wanted)
    raise InvalidArgumentError(f'plan: input "{entry.name}" is {array.dtype}, expected {wanted}')


def can_segment(model: Any) -> bool:
    """Whether every op of a model is one that a plan or the host may have."""
    return all(_has_op(model, node) for node in _all_nodes(model.proto.graph))


def _all_nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _all_nodes(inner)


def _has_op(model: Any, node: Any) -> bool:
    domain = domain_of(node.domain)
    key = (domain, node.op_type)
    if key in HOST or key in model.functions:
        return True
    opset = model.opsets.get(domain, 0)
    if find(*key, opset) is not None:
        return True
    schema = schema_of(*key, opset)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)
