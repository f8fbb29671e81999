"""Steps of a model that is run by segments: some nodes as a plan, or one node on the host."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from ..._load import lib
from ...errors import Error, InvalidArgumentError, ShapeError, UnsupportedError, check
from ...late import LateGraph
from ...plan import Plan, compile_graph
from ..contents import domain_of
from ..errors import ValueNeeded
from ..host import HOST, Call, Prepared, prepared
from ..importer import prefixed, used_names
from ..operand import safe_name
from .importing import Around, KnownImporter, SegmentImporter
from .values import Arrays, Form, form_of, given, is_few
from .walk import Walk, walk_of

__all__ = ["HostStep", "Program", "Rebuild", "Segment", "Variant"]

# For values and sizes for which a segment was not made it is imported again, so often.
MAX_VARIANTS = 32
MOST_RENEWED = 3  # with so many imports for other values a segment is made without these, where it can be
# So often sizes are walked at least before a plan is bound to them; how many of them are remembered.
WALKS, MOST_MET = 2, 4096
# So many more of the plan's runs that took longer than walks of the same sizes, than such that did not, and it is not
# asked again.
SLOWER_RUNS = 4

clock = time.perf_counter


class Program(Around, Protocol):
    """What steps need of the graph, or subgraph, that they are steps of."""

    proto: Any
    options: dict[str, Any]  # of compile
    making: threading.RLock  # held while a segment is imported
    values_change: bool  # those that segments were imported for: they are made without where they can be

    def array(self, name: str, arrays: Arrays) -> Any:
        """What a name stands for in a run."""

    def run(self, arrays: Arrays) -> list[Any]:
        """The outputs, of arrays by name."""

    def inner(self, proto: Any) -> Program:
        """That of a subgraph of a node."""

    def all_steps(self) -> Iterator[Any]:
        """The steps that were found, with those of subgraphs."""


class Variant:
    """A plan with the arrays that it takes, or the elements of them, and the forms of those known by elements."""

    def __init__(self, plan: Plan, order: list[tuple[str, int]], forms: dict[str, Form], walk: Walk | None) -> None:
        self.plan = plan
        self.order = order
        self.forms = forms
        self.walk = walk
        self._met: dict[Any, _Met] = {}  # by the shapes of inputs
        self._binding = 0.0  # seconds that the plan took for sizes that it was not bound to
        self._slower = 0

    def run(self, inputs: list[Any]) -> list[Any] | None:
        """None where neither the plan nor the walk is for these sizes or values."""
        if self.walk is None:
            return self._planned(inputs)
        if self.walk.is_light or self._slower >= SLOWER_RUNS:
            return self.walk.run(inputs) or self._planned(inputs)
        met = self._met_of(tuple(array.shape for array in inputs))
        began = clock()
        # To bind a plan is worth while where the walks that it saves take longer. How many more there will be is not
        # known: as many as there were is the guess that is never far worse than the best one.
        if met.walks < WALKS or met.seconds < self._binding:
            results = self.walk.run(inputs)
            if results is not None:
                met.walks += 1
                met.seconds += clock() - began
                return results
        results = self._planned(inputs)
        if results is not None and met.walks:
            took = clock() - began
            if not met.bound:
                met.bound, self._binding = True, took
            else:
                self._slower = max(self._slower + (1 if took > met.seconds / met.walks else -1), 0)
        return results

    def _planned(self, inputs: list[Any]) -> list[Any] | None:
        try:
            return self.plan.run(*inputs)
        except UnsupportedError:
            return None

    def _met_of(self, key: Any) -> _Met:
        met = self._met.get(key)
        if met is None:
            if len(self._met) >= MOST_MET:
                self._met.clear()
            met = self._met[key] = _Met()
        return met


class _Met:
    """Sizes that were met: how often they were walked, for how long, and whether the plan was bound to them."""

    __slots__ = ("bound", "seconds", "walks")

    def __init__(self) -> None:
        self.walks = 0
        self.seconds = 0.0
        self.bound = False


class Segment:
    """Some nodes as a plan; several where values differ that a graph was made for."""

    def __init__(self, around: Program, nodes: list[Any], known: set[str]) -> None:
        self.around = around
        self.nodes = nodes
        self.known = known
        self.outputs: list[str] = []
        self.variants: list[Variant] = []
        self._renewed = 0  # how often it was imported for other values

    def run(self, arrays: Arrays) -> None:
        results = self._run_known(arrays)
        if results is None:
            results = self._run_new(arrays)
        arrays.update(zip(self.outputs, results, strict=True))

    def _run_known(self, arrays: Arrays) -> list[Any] | None:
        for variant in list(self.variants):
            if any(not is_few(arrays[name]) or form_of(arrays[name]) != form for name, form in variant.forms.items()):
                continue
            try:
                results = variant.run([given(arrays, name, k) for name, k in variant.order])
            except (InvalidArgumentError, ShapeError):
                self._refuse(arrays)
                raise
            if results is not None:
                return results
        return None

    def _refuse(self, arrays: Arrays) -> None:
        """Raise what an import for values that make no sense raises: it names the node and its input."""
        with self.around.making:
            segment = SegmentImporter(self.around, arrays, self.known, False)
            for node in self.nodes:
                segment._convert(node, segment.scope)

    def _run_new(self, arrays: Arrays) -> list[Any]:
        with self.around.making:
            problem: Error | None = None
            self._renewed += 1
            if self._renewed == MOST_RENEWED and not self.around.values_change and self._goes_without(arrays):
                self.around.values_change = True
                raise Rebuild(UnsupportedError("onnx: the values that a segment was made for keep changing"))
            known = {name for name in self.known if is_few(arrays[name])}  # of others values may not be needed here
            for late in (True, False):
                segment = SegmentImporter(self.around, arrays, known, late)
                try:
                    for node in self.nodes:
                        segment._convert(node, segment.scope)
                    plan = self.add(segment)
                    return plan.run(*(given(arrays, name, k) for name, k in segment.order))
                except Error as error:
                    problem = error
            assert problem is not None
            raise Rebuild(problem)

    def _goes_without(self, arrays: Arrays) -> bool:
        """Whether what needs values needs such as are computed here, in a segment of their own where none are known."""
        segment, gone, needs = SegmentImporter(self.around, arrays, set(), True), set[str](), False
        for node in self.nodes:
            if gone.isdisjoint(used_names(node)):
                try:
                    segment._convert(node, segment.scope)
                    continue
                except ValueNeeded as error:
                    if not set(error.inputs).isdisjoint(node.input):
                        return False
                    needs = True
                except Error:
                    return False
            gone.update(node.output)
        return needs

    def add(self, segment: SegmentImporter) -> Plan:
        """A plan for what was imported."""
        for name in self.outputs:
            operand = segment.scope.values[name]
            assert operand is not None
            segment._output(name, operand)
        if isinstance(segment.graph, LateGraph):
            segment.graph.is_building = False
        for variant in self.variants:
            if (variant.order, variant.forms) == (segment.order, segment.forms) and any(
                any(entry["axes"]) for entry in variant.plan.inputs
            ):
                check(lib.pl_plan_extend(variant.plan._handle, segment.graph._handle))
                segment.graph._let_go()
                return variant.plan
        made = Plan(compile_graph(segment.graph, self.around.options))
        walk = walk_of(segment.graph, [segment.graph.outputs[safe_name(name)]._id for name in self.outputs])
        segment.graph._let_go()
        self.variants = [Variant(made, segment.order, segment.forms, walk), *self.variants][:MAX_VARIANTS]
        return made


class Rebuild(Exception):
    """A segment that was imported once cannot be for these values."""

    def __init__(self, error: Error) -> None:
        super().__init__(str(error))
        self.error = error


class HostStep:
    """A node that is computed on the host: by the op's function there, else by NumPy, as constants are."""

    def __init__(self, around: Program, node: Any) -> None:
        self.around = around
        self.node = node
        self.function = HOST.get((domain_of(node.domain), node.op_type))
        self.prepared = prepared(domain_of(node.domain), node) if self.function else Prepared()
        self.programs: dict[str, Program] = {}

    def run(self, arrays: Arrays) -> None:
        inputs = [self.around.array(name, arrays) if name else None for name in self.node.input]
        opset = self.around.opsets.get(domain_of(self.node.domain), 0)
        call = Call(
            self.node,
            inputs,
            opset,
            lambda name, given: self._run_subgraph(name, given, arrays),
            self.around.model,
            self.prepared.notes,
        )
        try:
            results = (
                self.function(call) if self.function else tuple(KnownImporter(self.around, arrays).results(self.node))
            )
        except (Rebuild, KeyboardInterrupt):
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

    def program(self, name: str) -> Program:
        """Of a subgraph of the node."""
        if name not in self.programs:
            own = next(attribute.g for attribute in self.node.attribute if attribute.name == name)
            self.programs[name] = self.around.inner(self.prepared.subgraphs.get(name, own))
        return self.programs[name]

    def _run_subgraph(self, name: str, given: Sequence[Any], arrays: Arrays) -> list[Any]:
        program = self.program(name)
        proto = program.proto
        if len(given) != len(proto.input):
            raise InvalidArgumentError(
                f"onnx: the subgraph {name} has {len(proto.input)} inputs, is given {len(given)}"
            )
        return program.run({**arrays, **dict(zip((entry.name for entry in proto.input), given, strict=True))})
