"""Compiled: what runs in the place of a traced graph."""

from __future__ import annotations

import logging
import operator
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ..context import state as context_state
from ..errors import Error, InternalError, UnsupportedError
from ..tensor import Tensor
from .bundle import Opened, is_bundle, is_opened, is_part
from .drawing import is_random
from .dtypes import dense_layout
from .fold import attribute_of, copy_of, folded, is_folded_apart
from .partition import idle_of, is_view, levels, separate_views, writes
from .passed import AsTraced, Passed, may_pass, passed_of
from .program import Step, program
from .registry import name_of
from .report import CompiledGraph, record
from .segment import Segment
from .specialise import copied, is_number, late_of, present, propagated
from .symbols import Evaluation, Symbols, is_symbolic
from .translate import Translator, reason_of
from .watch import Watch

__all__ = ["Compiled"]

logger = logging.getLogger("pylayout.torch")

MAX_SIZES = 32  # sizes for which it is kept which calls they are; what plans keep for them is theirs to say
MAX_DIVISIONS = 8  # of one graph between plans and PyTorch, for sizes that one alone does not serve
DEFECT = "a defect of pylayout, logged as a warning"  # why PyTorch runs all of a graph
FORKED = "in a process that was forked after its parent had used pylayout"
MAX_PACKINGS = 2  # so often weights that changed are packed again; then they are inputs of plans

# A step of `program` whose function `at` may have to bind to sizes first.
_Step = tuple[Callable[..., Any] | Segment | AsTraced | Opened, Sequence[Any], dict[str, Any], Node | list[Node]]


class Compiled:
    """Calls plans and PyTorch's ops for a traced graph. Takes a list of arguments, which it empties.

    The first call divides the graph, when the values of weights are known. Where calls decide sizes, its plans have
    named axes, and a call at further sizes only binds them. A size that they do not serve has a division of its own.
    """

    def __init__(
        self,
        module: GraphModule,
        kind: str,
        options: Mapping[str, Any],
        static: Sequence[int] = (),
        weights: bool = False,
    ) -> None:
        self._boxed_call = True  # of the object, so that PyTorch's wrappers take it over
        self._module = module
        self._kind = kind
        self._options = dict(options)
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._steady = frozenset(static)  # parameters and buffers
        written = {
            node.args[0] for node in module.graph.nodes if node.op == "call_function" and writes(node) and node.args
        }
        # Those that become constants of plans.
        self._constant = {place for place in static if weights and placeholders[place] not in written}
        symbolic = any(is_symbolic(node.meta.get("val")) for node in module.graph.nodes)
        passed = {node for node in placeholders if passed_of(node) is not None}
        self._symbols = Symbols(placeholders, passed) if symbolic else None
        self._divisions: OrderedDict[tuple[int, ...], _Division] = OrderedDict()  # by the sizes they were made with
        self._programs: OrderedDict[tuple[Any, ...], Callable[[list[Any]], Any]] = OrderedDict()
        self._weights: Watch | None = None
        self._packings = 0
        self._changing: set[int] = set()  # places of weights that have changed so far
        self._lock = threading.RLock()
        _every.add(self)

    def __call__(self, arguments: list[Any]) -> Any:
        key = self._symbols.key(arguments) if self._symbols is not None else ()
        weights = self._weights
        run = self._programs.get(key)
        if run is None or (weights is not None and weights.changed(arguments)):
            run = self._made(key, arguments)
        return run(arguments)

    def _made(self, key: tuple[Any, ...], arguments: list[Any]) -> Callable[[list[Any]], Any]:
        with self._lock:
            if self._weights is not None and self._weights.changed(arguments):
                self._packings += 1
                self._changing |= self._weights.those_changed(arguments)
                if self._packings >= MAX_PACKINGS:
                    self._constant -= self._changing
                self._weights = None
                self.forget()
            if self._weights is None and self._constant:
                self._constant = {place for place in self._constant if _is_weight(arguments[place])}
                self._weights = Watch(sorted(self._constant), arguments) if self._constant else None
            run = self._programs.get(key)
            if run is None:
                run = self._programs[key] = self._program(key, arguments)
                if len(self._programs) > MAX_SIZES:
                    self._programs.popitem(last=False)
            return run

    def forget(self) -> None:
        """Let go of what was compiled: the next call compiles anew."""
        with self._lock:
            self._programs.clear()
            self._divisions.clear()

    def leave_to_parent(self) -> None:
        """In a forked child: PyTorch runs the graph from now on. What was compiled is kept, as it is the parent's."""
        _of_parent.append((self._programs, self._divisions, self._weights))
        self._programs, self._divisions, self._weights = OrderedDict(), OrderedDict(), None
        self._constant = set()
        self._lock = threading.RLock()

    # ---- making a program ----

    def _program(self, key: tuple[int, ...], arguments: Sequence[Any]) -> Callable[[list[Any]], Any]:
        evaluation = self._symbols.evaluation(key) if self._symbols is not None else Evaluation({})
        if self._symbols is None:
            return self._divided(evaluation, arguments)[1]
        for made_at, division in self._divisions.items():
            try:
                return division.bound(evaluation)
            except Error as error:  # noqa: PERF203 - few divisions, and seldom more than one is tried
                sizes, others = map(self._symbols.named, (made_at, key))
                logger.info("%s: what was compiled for %s does not serve %s: %s", self._kind, sizes, others, error)
        division, run = self._divided(evaluation, arguments)
        if division.serves_others:
            self._divisions[key] = division
            if len(self._divisions) > MAX_DIVISIONS:
                self._divisions.popitem(last=False)
        return run

    def _divided(
        self, evaluation: Evaluation, arguments: Sequence[Any]
    ) -> tuple[_Division, Callable[[list[Any]], Any]]:
        """A division made with these sizes, and what runs at them."""
        began = time.perf_counter()
        made: _Division
        reasons: tuple[str, ...] = ("", DEFECT)
        if context_state.forked:
            _tell_of_fork()
            reasons = (FORKED,)
        for why in reasons:
            axes: tuple[str, ...] = ()
            known: Evaluation | None = None
            if self._symbols is None:
                graph = copied(self._module)
            elif self._symbols.cover(self._module.graph.nodes):
                graph, axes, known = present(self._module, evaluation), self._symbols.names, evaluation
            else:
                graph = propagated(self._module, arguments)
            try:
                made = _Division(
                    self._module, graph, arguments, self._constant, self._steady, self._options, known, why
                )  # fmt: skip
                run = made.bound(evaluation)
                break
            except Exception as error:
                if why:
                    raise
                logger.warning(
                    "a graph runs in PyTorch as it is, for a defect of pylayout: please report it", exc_info=error
                )
        record(
            CompiledGraph(
                self._kind,
                tuple(weakref.ref(segment.plan) for segment in made.segments),
                sum(len(segment.nodes) for segment in made.segments),
                tuple(made.left),
                time.perf_counter() - began,
                axes,
                tuple(segment.again for segment in made.segments),
            )
        )
        return made, run


_every: weakref.WeakSet[Compiled] = weakref.WeakSet()
_of_parent: list[Any] = []  # of a forked child: what nothing may use or release


def _after_fork() -> None:
    """In a forked child: plans need threads and devices that are the parent's."""
    if context_state.forked:
        for each in [*_every]:
            each.leave_to_parent()


@cache
def _tell_of_fork() -> None:
    logger.warning(
        "PyTorch runs compiled graphs %s; expected for speed: a process of its own, multiprocessing's spawn", FORKED
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _is_weight(value: Any) -> bool:
    """Whether a tensor can be a constant: changes of what was made in inference mode are not counted."""
    return (
        isinstance(value, torch.Tensor)
        and not value.is_inference()
        and type(value)
        in (
            torch.Tensor,
            torch.nn.Parameter,
            torch.nn.Buffer,
        )
    )


def _is_like(node: Node, written: Node) -> bool:
    """Whether a result can be written where another tensor lies: all of it, dense, in the same order of memory."""
    made, target = node.meta["val"], written.meta["val"]
    return (
        made.dtype == target.dtype
        and made.device == target.device
        and _form(node) == _form(written)
        and (target.ndim == 0 or dense_layout(target.shape, target.stride()) is not None)
        and not target._is_view()
    )


def _form(node: Node) -> tuple[str, ...]:
    """Shape and strides as they follow from symbols, to be compared without a guard."""
    value = node.meta["val"] if late_of(node) is None else late_of(node)
    return (*map(str, value.shape), *map(str, value.stride()))


def _device_of(arguments: Sequence[Any]) -> torch.device:
    """Where plans run: the device ocl where a tensor is there, else with the CPU's tensors."""
    found = (each.device for each in arguments if isinstance(each, torch.Tensor) and each.device.type == "ocl")
    return next(found, torch.device("cpu"))


class _Division:
    """A graph divided between plans and PyTorch.

    present: of symbols, for the sizes that it is made with; None: it has none. why: PyTorch runs all of it, for this
    reason, if there is one.
    """

    def __init__(
        self,
        module: GraphModule,
        graph: Graph,
        arguments: Sequence[Any],
        constant: set[int],
        steady: frozenset[int],
        options: Mapping[str, Any],
        present: Evaluation | None,
        why: str,
    ) -> None:
        self._options = options
        self._why = why
        self._present = present
        self.serves_others = present is not None  # other sizes than those that it is made with
        self._module = module
        self._views = separate_views(graph)
        self._nodes = [*graph.nodes]
        self._output = graph.output_node()
        self._placeholders = placeholders = [node for node in self._nodes if node.op == "placeholder"]
        self._steady = frozenset(placeholders[place] for place in steady)
        self._device = _device_of(arguments)
        self._constants: dict[Node, torch.Tensor] = {placeholders[place]: arguments[place] for place in constant}
        self._folded = {} if why else folded(module, self._nodes)
        self._constants.update(self._folded)
        self._shared: dict[Node, Tensor] = {}
        self._refused: dict[Node, str] = {}
        self._passed: dict[Node, Passed] = {}  # what plans alone read
        self._between: dict[Node, Passed] = {}  # of these, what one plan of this division hands to another
        self._tried: dict[tuple[Any, ...], Segment] = {}
        self._find_refused()
        while not self._divide():
            pass
        for node in self._nodes:
            if (passed := passed_of(node)) is not None:
                passed.decide(None)  # or it is already
        self._calls = self._steps()
        if present is None:  # plans have what they need of them
            self._shared.clear()

    def bound(self, evaluation: Evaluation) -> Callable[[list[Any]], Any]:
        """What runs where symbols have these values. Raises an Error where a plan does not serve them."""
        numbers = {
            node: node.meta["val"] if late_of(node) is None else evaluation(late_of(node))
            for node in self._nodes
            if is_number(node)
        }
        steps: list[Step] = [
            (called.at(evaluation) if isinstance(called, (Segment, AsTraced, Opened)) else called, given, named, made)
            for called, given, named, made in self._calls
        ]
        written = {copy: copy.args[0] for copy in self._replaced.values()}
        results = [written.get(each, each) for each in self._output.args[0]]  # type: ignore[union-attr, arg-type]
        return program(self._placeholders, steps, results, numbers)

    def _find_refused(self) -> None:
        """What has no converter, or what its converter refuses."""
        if self._why:
            self._refused.update((node, self._why) for node in self._computed())
            return
        translator = Translator(self._constants, device=self._device, present=self._present, shared=self._shared)
        for node in self._computed():
            if node in self._views:
                self._refused[node] = "a view of an input or of another output"
                continue
            if writes(node):
                of_aten = hasattr(node.target, "_schema")
                self._refused[node] = "changes a tensor that it is given" if of_aten else "a function that is no op"
                continue
            try:
                translator.convert(node)
            except UnsupportedError as error:
                self._refused[node] = reason_of(error)

    def _computed(self) -> list[Node]:
        return [node for node in self._called() if node not in self._folded]

    def _called(self) -> list[Node]:
        """Nodes that compute something in a run: numbers that follow from sizes are known before.

        So are the results of some nodes of several.
        """
        nodes = [node for node in self._nodes if node.op == "call_function" and not is_number(node)]
        return [node for node in nodes if not is_folded_apart(node, self._folded)]

    def _divide(self) -> bool:
        """Compile the plans of this division. False: a node turned out not to run, and it was refused."""
        for node in self._computed():  # results of an op are where the op is
            if node.target is operator.getitem and node not in self._refused and node.args[0] in self._refused:
                self._refused[node] = self._refused[node.args[0]]  # type: ignore[index]
        while True:
            self._level = levels(
                self._called(),
                lambda node: node not in self._refused and node not in self._folded,
            )
            groups: dict[int, list[Node]] = {}
            for node in self._computed():
                if self._level[node] % 2:
                    groups.setdefault(self._level[node], []).append(node)
            idle = [node for group in groups.values() for node in idle_of(group)]
            if not idle:
                break
            self._refused.update((node, "moves memory between ops that PyTorch runs") for node in idle)
        self._passed = self._find_passed()
        self.segments: list[Segment] = []
        self._of_level: dict[int, Segment] = {}
        self._replaced: dict[Node, Node] = {}  # copies to tensors that plans write instead, by what is copied
        for at, group in sorted(groups.items()):
            inside = set(group)
            passed = {node: self._passed[node] for node in self._passed if node in inside or inside & {*node.users}}
            outputs = [
                node
                for node in group
                if isinstance(node.meta["val"], torch.Tensor) and any(user not in inside for user in node.users)
            ]
            if not outputs:  # nobody reads what it computes
                continue
            replaced = self._find_replaced(outputs, inside)
            self._replaced.update(replaced)
            written: dict[Node, Node] = {node: copy.args[0] for node, copy in replaced.items()}  # type: ignore[misc]
            bundle = self._bundle_of(outputs, inside)
            try:
                key = (tuple(group), tuple(passed), tuple(written), bundle)
                segment = self._tried.get(key) or Segment(
                    group, outputs, self._constants, self._shared, self._steady, self._options, self._device,
                    self._present, passed, written, bundle,
                )  # fmt: skip
            except InternalError:
                raise
            except Error as error:
                named = [node for node in group if f'"{node.name}"' in str(error)]
                for node in named or group:
                    self._refused[node] = reason_of(error)
                return False
            self._tried[key] = segment
            self.segments.append(segment)
            self._of_level[at] = segment
        return True

    def _bundle_of(self, outputs: Sequence[Node], inside: set[Node]) -> Node | None:
        """What carries outputs of a plan for backward, where it carries no others and nobody else reads these."""
        for node in {user for output in outputs for user in output.users if is_bundle(user)}:
            carried = {*node.all_input_nodes}
            if carried <= {*outputs} and all({*each.users} <= inside | {node} for each in carried):
                return node
        return None

    def _find_replaced(self, outputs: Sequence[Node], inside: set[Node]) -> dict[Node, Node]:
        """Of a plan's outputs that are only copied to an input of the graph, which nothing else reads, the copies."""
        found = {}
        for node in outputs:
            outside = [user for user in node.users if user not in inside]
            if len(outside) != 1 or outside[0].target is not torch.ops.aten.copy_.default:
                continue
            copy = outside[0]
            target, source = copy.args[:2]
            if source is not node or not isinstance(target, Node) or target.op != "placeholder":
                continue
            if not {*copy.users} <= {self._output}:  # which gets the tensor itself
                continue
            if {*target.users} - {copy} <= inside and _is_like(node, target):
                found[node] = copy
        return found

    def _find_passed(self) -> dict[Node, Passed]:
        """What plans make, here or in forward, and plans alone read."""
        found: dict[Node, Passed] = {}
        for node in self._nodes:
            passed, readers = passed_of(node), {*node.users}
            if node.op == "placeholder" or is_part(node):
                if passed is None or passed.layout is None:
                    continue
            elif not self._is_made_by_plan(node) or not may_pass(node.meta["val"]):
                continue
            elif passed is not None:
                if passed.is_decided and passed.layout is None:  # PyTorch made it, in another division
                    continue
                readers = {user for user in readers if user is not self._output and not is_bundle(user)}  # for backward
            elif all(self._level.get(user) == self._level[node] for user in readers):
                continue
            if all(self._is_made_by_plan(user) for user in readers):
                found[node] = passed or self._between.setdefault(node, Passed())
        return found

    def _is_made_by_plan(self, node: Node) -> bool:
        return node in self._level and self._is_planned(node)

    def _steps(self) -> list[_Step]:
        """Calls in the order of levels, without what nobody reads."""
        needed: set[Node] = set(self._output.all_input_nodes)
        for segment in self.segments:
            needed.update(segment.arguments)
        elsewhere = {*self._replaced.values(), *(segment.bundle for segment in self.segments)}
        called = {node for node in self._called() if not self._is_planned(node) and node not in elsewhere}
        # Parts of known values, which share the memory of these, are taken where somebody reads them.
        divided = {node for node in self._nodes if is_folded_apart(node, self._folded) and is_view(node)}
        called |= divided
        level_of = {**self._level, **{node: self._level[node.args[0]] for node in divided}}
        here = [node for node in self._nodes if node.op == "get_attr" or node in called]
        copied: dict[Node, Callable[[], torch.Tensor]] = {}  # whoever gets a known value may write to it
        for node in reversed(here):
            if writes(node) or is_random(node):
                needed.add(node)
            if node not in needed:
                continue
            made = node.op == "call_function" and node in self._folded and not is_view(node)
            copy = copy_of(self._folded[node], node) if made else None
            if copy is not None:
                copied[node] = copy
            else:
                needed.update(node.all_input_nodes)
        self.left = [
            (name_of(node.target), self._refused[node])
            for node in here
            if node in needed and node.target is not operator.getitem and node.op == "call_function"
            and node not in self._views and node not in self._folded and node not in divided and not is_bundle(node)
            and not is_opened(node)
        ]  # fmt: skip
        order: list[tuple[int, int, _Step]] = []
        for at, node in enumerate(here):
            if node not in needed:
                continue
            if node.op == "get_attr":
                order.append((-1, at, (partial(attribute_of, self._module, node), (), {}, node)))
            elif node in copied:
                order.append((level_of[node], at, (copied[node], (), {}, node)))
            elif is_opened(node):
                order.append((level_of[node], at, (Opened(node), node.args[:1], {}, node)))
            else:
                step: _Step = (node.target, node.args, dict(node.kwargs), node)
                order.append((level_of[node], at, step))
        places = [(-1, at, node) for at, node in enumerate(self._placeholders)]
        places += [(self._level[node], at, node) for at, node in enumerate(here) if is_part(node) and node in needed]
        for level, at, node in places:
            passed = passed_of(node)
            if passed is not None and passed.layout is not None and node not in self._passed and node.users:
                step = (AsTraced(node, passed), (node,), {}, node)
                order.append((level, at, step))
        for level, segment in self._of_level.items():
            step = (segment, [*segment.arguments, *segment.written.values()], {}, segment.made)
            order.append((level, 0, step))
        return [step for _, _, step in sorted(order, key=lambda each: each[:2])]

    def _is_planned(self, node: Node) -> bool:
        return node not in self._folded and self._level[node] % 2 == 1
