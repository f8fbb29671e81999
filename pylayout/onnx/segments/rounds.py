"""Rounds: the steps of a graph, found in its first run and kept.

Each round imports what can be computed from the arrays that are there, as one graph with all its axes named, and a
plan of it runs at any sizes (docs/howto/sizes-known-late.md). A node that needs the value of something that this round
computes, or that follows such a node, waits for the next round, in which the value is an array. What no plan can hold
is a step on the host (host.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import Error, InvalidArgumentError, UnsupportedError
from ...graph import Graph
from ..contents import Contents, initialisers_of
from ..errors import ValueNeeded
from ..host import is_hosted
from ..importer import ordered, readers_of, used_names
from ..operand import Known, Members
from ..scope import Scope
from .importing import SegmentImporter
from .steps import HostStep, Rebuild, Segment
from .values import Arrays, is_few, is_of_plans, signature_of

__all__ = ["Rounds"]


class Rounds:
    """The rounds of a graph, or of a subgraph of a node."""

    def __init__(self, model: Contents, options: dict[str, Any]) -> None:
        self.model = model
        self.options = options
        self.making = threading.RLock()
        self.initialisers: dict[str, Any] = dict(model.initialisers)
        self.static: dict[str, Known] = {}
        self.dims: Mapping[str, Any] = {entry.name: entry.dims for entry in model.inputs}
        self.streams: dict[str, int] = {}
        self._begin(model.proto.graph, model.opsets)

    def _begin(self, proto: Any, opsets: Mapping[str, int]) -> None:
        self.proto = proto
        self.opsets = opsets
        self.values_change = False  # those that segments were imported for
        self.outputs = [output.name for output in proto.output]
        self.read_by = readers_of(proto.node, self.outputs)
        self._steps: dict[Any, list[HostStep | Segment]] = {}
        self._nodes: list[Any] | None = None
        self._uses: list[str] = []

    def inner(self, proto: Any) -> Rounds:
        """Those of a subgraph of a node."""
        made = Rounds.__new__(Rounds)
        made.model, made.options, made.making = self.model, self.options, self.making
        made.streams = self.streams
        made.initialisers = {**self.initialisers, **initialisers_of(proto)}
        made.static = dict(self.static)
        made.dims = {}
        made._begin(proto, self.opsets)
        return made

    def all_steps(self) -> Iterator[HostStep | Segment]:
        """Of this graph and of the subgraphs of its nodes."""
        for steps in self._steps.values():
            for step in steps:
                yield step
                for program in getattr(step, "programs", {}).values():
                    yield from program.all_steps()

    def array(self, name: str, arrays: Arrays) -> Any:
        if name in arrays:
            return arrays[name]
        if name in self.static:
            return self.static[name].array
        if name in self.initialisers:
            return self.model.known(self.initialisers[name]).array
        raise InvalidArgumentError(f"onnx: the value {name!r} is used, but nothing gives it")

    def order(self) -> list[Any]:
        """The nodes in the order in which they are taken."""
        if self._nodes is None:
            scope = Scope(SegmentImporter(self, {}, set(), False), self.opsets, {})
            nodes = ordered(self.proto.node, self.outputs, scope)
            self._uses = sorted({name for node in nodes for name in used_names(node)})
            self._nodes = nodes
        return self._nodes

    def run(self, arrays: Arrays) -> list[Any]:
        """The outputs, of arrays by name, which are added to."""
        self.order()
        signature = tuple(signature_of(arrays.get(name)) for name in self._uses if name in arrays)
        steps = self._steps.get(signature)
        own = dict(arrays)
        if steps is not None:
            try:
                for step in steps:
                    step.run(own)
                return [self.array(name, own) for name in self.outputs]
            except Rebuild:
                own = dict(arrays)
        try:
            self._steps[signature] = list(self._found(own))
        except Rebuild as problem:
            raise problem.error from None
        return [self.array(name, own) for name in self.outputs]

    def _found(self, arrays: Arrays) -> Iterator[HostStep | Segment]:
        """The steps, each run as it is found."""
        assert self._nodes is not None
        pending, hosted, problems = list(self._nodes), set[int](), dict[int, Error]()
        while pending:
            with self.making:
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
                hosts = is_hosted(node)
                if not hosts and all(is_of_plans(arrays.get(name)) for name in used_names(node)):
                    raise problems[id(node)]
                step = HostStep(self, node)
                try:
                    step.run(arrays)
                except UnsupportedError:
                    if hosts:
                        raise
                    raise problems[id(node)] from None
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
    ) -> tuple[Segment | None, list[Any]]:
        """The nodes that a graph can hold now, as a segment with a plan, and those that are left."""
        known: set[str] = set()
        asked: dict[int, set[str]] = {}  # by node: what is known for its sake; nothing, where it does not help
        # For any sizes, with values of arrays as sizes; without these, which earlier nodes compute then as a segment of
        # their own; for these sizes and values alone. Without values first, where those that were taken kept changing.
        ways = iter([(True, not self.values_change), (True, self.values_change), (False, True)])
        late, asks = next(ways)
        while True:
            segment = SegmentImporter(self, arrays, known, late)
            made: list[Any] = []
            rest: list[Any] = []
            blocked: set[str] = set()
            computed: dict[str, Any] = {}  # by name: the node that gives it
            static: dict[str, Known] = {}
            refused: set[int] = set()  # nodes that are the host's
            again = False
            for node in pending:
                used = set(used_names(node))
                problem: Error | None = None
                if id(node) not in hosted and id(node) not in refused and not used & blocked:
                    try:
                        segment._convert(node, segment.scope)
                    except ValueNeeded as error:
                        wanted = {n for n in error.inputs if is_few(arrays.get(n))} - known
                        hosts = is_hosted(node)  # which takes values as they come
                        few = asks and not hosts and all(is_few(arrays.get(n)) for n in error.inputs)
                        before = asked.get(id(node))
                        more = wanted and few and before != set()
                        if more or before:  # where no more can be known, what was known did not help
                            asked[id(node)] = wanted | (before or set()) if more else set()
                            again = True
                            break
                        problem = error
                    except UnsupportedError as error:
                        if late and not is_hosted(node):
                            (late, asks), again = next(ways), True
                            break
                        problem = error
                    except Error:
                        if not late:
                            raise
                        late, asks, again = False, True, True
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
                        refused.add(id(node))
                rest.append(node)
                blocked.update(filter(None, node.output))
            if not made and not asks:
                (late, asks), again = next(ways), True
            if again:
                known = set().union(*asked.values()) if asks else set()
                continue
            hosted |= refused
            self.static.update(static)
            wanted = {name for node in rest for name in used_names(node)} | set(self.outputs)
            outputs = [name for name in computed if name in wanted]
            if not made:
                return None, rest
            result = Segment(self, made, known)
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
        self, segment: SegmentImporter, outputs: list[str], computed: dict[str, Any], hosted: set[int]
    ) -> Any:
        """The node of an output that no graph can give, which is computed on the host from now on."""
        for name in outputs:
            operand = segment.scope.values[name]
            if isinstance(operand, Members):  # a list, which is what nodes on the host take and give
                hosted.add(id(computed[name]))
                return computed[name]
            if not isinstance(operand, Known):
                continue
            try:
                operand.value(Graph())
            except UnsupportedError:
                hosted.add(id(computed[name]))
                return computed[name]
        return None
