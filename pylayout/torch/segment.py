"""Segment: the nodes of one level as a plan, called with tensors of PyTorch."""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.fx import Node

from .._load import ffi, lib
from ..compilation import compile
from ..errors import UnsupportedError, check
from ..graph import Graph
from ..late import LateGraph
from ..layout import Layout
from ..plan import GraphFor, Plan
from ..tensor import Tensor
from .bundle import described, is_part
from .dtypes import channels_last, may_overlap, strides_in
from .memory import empty
from .passed import Form, Passed, passed_of
from .specialise import bring, form_of
from .symbols import Evaluation
from .translate import Translator

__all__ = ["BoundSegment", "Segment"]

logger = logging.getLogger("pylayout.torch")

_NEW, _PART = -1, -2  # results of run_plan: a new tensor, one that a bundle carries


class Segment:
    """A plan over nodes, for all sizes that follow from symbols. `at` gives what runs at certain ones.

    written: of some outputs the tensor, an input of the graph, that is to hold it: a call takes these tensors behind
    its inputs, writes into them, and gives the other outputs alone.
    bundle: what carries some of the outputs (bundle.py); a call gives it, as the last of its results, in their place.
    A call also takes what carries some of the inputs, as the last of its `arguments`.

    Raises UnsupportedError where the nodes cannot be a plan; the message names the node.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        outputs: Sequence[Node],
        constants: Mapping[Node, torch.Tensor],
        shared: dict[Node, Tensor],
        steady: frozenset[Node],
        options: Mapping[str, Any],
        device: torch.device,
        present: Evaluation | None,
        passed: Mapping[Node, Passed],
        written: Mapping[Node, Node],
        bundle: Node | None,
    ) -> None:
        self.nodes = tuple(nodes)
        self.outputs = tuple(outputs)
        self.device = device
        self.steady = steady
        self.passed = passed
        self.written = written
        self.bundle = bundle
        self.bundled = frozenset(() if bundle is None else bundle.all_input_nodes)
        self.layouts: dict[Node, str | None] = {}  # of inputs and outputs
        self.again: list[str] = []  # for which sizes the graph was made again, and why
        self._constants, self._shared, self._present = constants, shared, present
        self.layouts.update((node, each.layout or "any") for node, each in self.passed.items())
        translator = self._translated()
        self.given = tuple(translator.inputs)
        self.inputs = tuple(node for node in self.given if isinstance(node, Node))
        # Parts that do not lie as the plan that made them left them are made by PyTorch.
        parts = {
            node for node in self.inputs
            if is_part(node) and (node in passed or (found := passed_of(node)) is None or found.layout is None)
        }  # fmt: skip
        opened: Any = next((node.args[0] for node in parts), None)
        self.opened: Node | None = opened
        self.arguments: list[Node] = [node for node in self.inputs if node not in parts]
        self.arguments += [] if opened is None else [opened.args[0]]
        self.made = [node for node in outputs if node not in written and node not in self.bundled]
        self.made += [] if bundle is None else [bundle]
        if device.type == "ocl":  # where the tensors are; PyTorch goes on to its next op
            options = {**options, "device": f"opencl:{device.index or 0}", "submit": "thread"}
        self.plan: Plan = compile(translator.graph, **options)
        if self._decide():
            translator = self._translated()
            self.plan = compile(translator.graph, **options)
        named = dict.fromkeys(axis for item in self.plan.inputs for axis in item["axes"] if axis)
        self.axes = {axis: translator.axes[axis] for axis in named}
        self._graph = translator.graph if self.axes else None
        if self.axes:
            self.plan._graph_for = _graph_of(weakref.ref(self))

    def _translated(self) -> Translator:
        translator = Translator(
            self._constants, device=self.device, present=self._present, shared=self._shared, layouts=self.layouts
        )
        for node in self.nodes:
            translator.convert(node)
        for node in self.outputs:
            translator.output(node)
        if isinstance(translator.graph, LateGraph):
            translator.graph.is_building = False
        return translator

    def _decide(self) -> bool:
        """Settle in which layouts the plan gives what is passed. True: it is to be made again, for others."""
        again = False
        for node, item in zip(self.outputs, self.plan.outputs, strict=True):
            passed = self.passed.get(node)
            if passed is None or passed.is_decided:
                continue
            layout = Layout(item["layout"])
            if layout.is_blocked and self.device.type == "ocl":  # whose tensors are not made of bytes
                layout, again = Layout(channels_last(layout.rank)), True
            passed.decide(layout.generic)
            self.layouts[node] = layout.generic
        return again

    def graph_again(self, reason: str) -> Graph:
        """The graph for sizes for which the plan's was not made; its constants are the same tensors."""
        assert self._present is not None and isinstance(self._graph, LateGraph)
        by = self._graph.asked_by(reason)  # the graph that was made last is the last one that is asked
        sizes = ", ".join(f"{axis} = {self._present(expression)}" for axis, expression in self.axes.items())
        self.again.append(f"{sizes}: {reason}{f', as {by} wants it' if by else ''}")
        logger.info("a plan's graph is made again for %s", self.again[-1])
        bring((*self.inputs, *self.nodes), self._present)
        self._graph = self._translated().graph
        return self._graph

    def carried(self, node: Node, traced: Form) -> Form:
        """Shape and strides of the tensor that the plan takes or gives for a node, of that form in PyTorch."""
        shape, wanted = traced
        if node in self.passed:
            return self.passed[node].form(shape, node.meta["val"].dtype)
        return shape, _strides_of_plan(shape, wanted, self.layouts[node])

    def at(self, evaluation: Evaluation) -> BoundSegment:
        """The segment where symbols have these values. Raises an Error where the plan does not serve them."""
        sizes = {axis: evaluation(expression) for axis, expression in self.axes.items()}
        if sizes:
            self._present = evaluation
            self.plan.prepare(**sizes)
        return BoundSegment(self, evaluation, [*sizes.values()])


def _graph_of(segment: weakref.ref[Segment]) -> GraphFor:
    """Makes further graphs of a plan without keeping its segment, and with it the plan, alive."""

    def graph_for(shapes: Mapping[str, Sequence[int]], reason: str) -> Graph:
        alive = segment()
        if alive is None:
            raise UnsupportedError(reason)
        return alive.graph_again(reason)

    return graph_for


class BoundSegment:
    """A segment at certain sizes: takes the tensors of `inputs` and those to be written, and gives the new outputs."""

    def __init__(self, segment: Segment, evaluation: Evaluation, sizes: Sequence[int]) -> None:
        self._plan = segment.plan
        self._handle = segment.plan._handle
        self._device = segment.device
        self._sizes = ffi.new("int64_t[]", sizes) if sizes else None
        self._count = len(sizes)
        # In the places of the plan's inputs that have no elements, and only say a size.
        self._blanks = [
            (place, torch.empty((evaluation(segment.axes[each]), 0), device=self._device))
            for place, each in enumerate(segment.given)
            if isinstance(each, str)
        ]
        self._made: list[tuple[tuple[int, ...], tuple[int, ...], torch.dtype, int]] = []
        # Results that PyTorch wants with gaps between elements, which plans do not write. Of those whose elements
        # overlap each has its own here: who reads them does not mind.
        self._spread = []
        new = 0
        order = {node: at for at, node in enumerate(segment.written)}
        # Of each result which of the tensors to be written holds it; else it is a new one, or in a bundle.
        self._held = [_PART if node in segment.bundled else order.get(node, _NEW) for node in segment.outputs]
        for node in segment.outputs:
            value = node.meta["val"]
            traced = form_of(node, evaluation)
            shape, strides = segment.carried(node, traced)
            self._made.append((shape, strides, value.dtype, math.prod(shape) * value.element_size()))
            if node in segment.written or node in segment.bundled:
                continue
            if node not in segment.passed and strides != traced[1] and not may_overlap(*traced):
                self._spread.append((new, traced[1]))
            new += 1
        # What may come with other strides than the plan takes: all but weights that lie so, whose strides are guarded.
        self._checked = []
        self._passed: dict[int, tuple[Passed, tuple[int, ...], Form]] = {}
        self._count_of_inputs = len(segment.arguments)
        plain = [node for node in segment.arguments if segment.opened is None or node is not segment.opened.args[0]]
        for place, node in enumerate(plain):
            traced = form_of(node, evaluation)
            form = segment.carried(node, traced)
            if node in segment.steady and form[1] == traced[1] and not node.meta["val"].is_neg():
                continue
            self._checked.append((place, form[1]))
            if node in segment.passed:
                self._passed[place] = (segment.passed[node], traced[0], form)
        self._call = self._call_on_device(segment) if self._device.type == "ocl" else 0
        self._complex = [place for place, node in enumerate(plain) if node.meta["val"].is_complex()]

    def _call_on_device(self, segment: Segment) -> int:
        """The number of the call for `run_plan`."""
        like = [
            torch.empty_strided(shape, strides, dtype=dtype, device="meta") for shape, strides, dtype, _ in self._made
        ]
        address = int(ffi.cast("uintptr_t", self._handle))
        checked = [_with_strides(strides) for _, strides in self._checked]
        carried: list[torch.Tensor] = []
        sources: list[int] = []
        if segment.opened is None:  # the plan's inputs count those too that only say a size
            places = [segment.given.index(segment.arguments[place]) for place, _ in self._checked]
        else:
            assert not self._blanks
            places = [place for place, _ in self._checked]
            carried = described(segment.opened)
            at = {node: place for place, node in enumerate(segment.arguments)}
            part_of: dict[Node, Any] = {node: node.args[1] for node in segment.inputs if node not in at}
            sources = [at[node] if node in at else -1 - part_of[node] for node in segment.inputs]
        call: int = torch.ops.pylayout_ocl.new_plan_call(
            address, self._device.index or 0, like, self._held, checked, places, carried, sources
        )
        weakref.finalize(self, torch.ops.pylayout_ocl.release_plan_call, call)
        return call

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        written = tensors[self._count_of_inputs :]
        tensors = tensors[: self._count_of_inputs]
        for place in self._complex:
            if tensors[place].is_conj():
                tensors = (*tensors[:place], tensors[place].resolve_conj(), *tensors[place + 1 :])
        if self._device.type == "ocl":
            return self._on_device(tensors, written)
        for place, needed in self._checked:
            tensor = tensors[place]
            if tensor.stride() != needed or tensor.is_neg():
                tensors = self._dense(tensors)
                break
        if self._blanks:
            tensors = self._with_blanks(tensors)
        targets = self._straight(written) if written else ()
        made = self._results(targets)
        inputs = [tensor.data_ptr() for tensor in tensors]
        if 0 in inputs:
            tensors = _with_memory(tensors)
            inputs = [tensor.data_ptr() for tensor in tensors]
        status = self._run(inputs, made)
        if status and not all(map(_is_aligned, (*tensors, *targets))):  # then nothing was done
            tensors, targets = map(_aligned, (tensors, targets))
            made = self._results(targets)
            status = self._run([tensor.data_ptr() for tensor in tensors], made)
        if status:
            check(status)
        if written:
            _take_back(written, targets)
            made = [tensor for held, tensor in zip(self._held, made, strict=True) if held < 0]
        if self._spread:
            self._spread_out(made)
        return made

    def _run(self, inputs: list[int], made: list[torch.Tensor]) -> int:
        outputs = [tensor.data_ptr() for tensor in made]
        status: int
        if self._sizes is None:
            status = lib.pyl_plan_run(self._handle, inputs, len(inputs), outputs, len(outputs))
        else:
            status = lib.pyl_plan_run_at(
                self._handle, self._sizes, self._count, inputs, len(inputs), outputs, len(outputs)
            )
        return status

    def _results(self, targets: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Where the plan writes: these tensors, and new ones."""
        if not targets:
            return [empty(*form) for form in self._made]
        return [empty(*form) if held < 0 else targets[held] for held, form in zip(self._held, self._made, strict=True)]

    def _straight(self, written: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Tensors to be written, or others in the places of those that do not lie as was traced."""
        targets = list(written)
        for held, (shape, strides, dtype, _) in zip(self._held, self._made, strict=True):
            if held < 0:
                continue
            given = written[held]
            if given.stride() != strides or given.is_neg() or given.is_conj():
                targets[held] = torch.empty_strided(shape, strides, dtype=dtype, device=self._device)
        return tuple(targets)

    def _with_blanks(self, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        given = list(tensors)
        for place, blank in self._blanks:
            given.insert(place, blank)
        return tuple(given)

    def _on_device(self, tensors: tuple[torch.Tensor, ...], written: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """The same with tensors of the device ocl, which are not copied."""
        run: Any = torch.ops.pylayout_ocl.run_plan
        made: list[torch.Tensor]
        ran, made = run(self._call, self._with_blanks(tensors) if self._blanks else tensors, written)
        if not ran:  # an input, or what is to be written, lies in another way
            tensors, targets = self._dense(tensors), self._straight(written)
            ran, made = run(self._call, self._with_blanks(tensors) if self._blanks else tensors, targets)
            assert ran
            _take_back(written, targets)
        elif written:
            increment_version(written)
        if self._spread:
            self._spread_out(made)
        return made

    def _spread_out(self, made: list[torch.Tensor]) -> None:
        for place, strides in self._spread:
            tensor = made[place]
            spread = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=self._device)
            made[place] = spread.copy_(tensor)

    def _dense(self, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Inputs with the strides that the plan was made for: copied where those are others."""
        given = list(tensors)
        for place, needed in self._checked:
            tensor = given[place]
            if place in self._passed:  # PyTorch made it, in another division of forward
                passed, shape, form = self._passed[place]
                given[place] = passed.moved(tensor, shape, form)
            elif tensor.stride() != needed or tensor.is_neg():
                dense = torch.empty_strided(tensor.shape, needed, dtype=tensor.dtype, device=self._device)
                given[place] = dense.copy_(tensor)
        return tuple(given)


def _with_memory(tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Tensors that have memory in the places of zeros that have none, as forward-mode derivatives make them."""
    return tuple(
        torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).zero_()
        if tensor._is_zerotensor()
        else tensor
        for tensor in tensors
    )


def _is_aligned(tensor: torch.Tensor) -> bool:
    return tensor.data_ptr() % tensor.dtype.itemsize == 0


def _aligned(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Tensors whose memory is aligned to their dtype, which PyTorch does not ask for: arrays within packed files."""
    return tuple(
        tensor
        if _is_aligned(tensor)
        else torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor)
        for tensor in tensors
    )


def _take_back(written: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> None:
    """Tensors get what was written to others in their places; autograd learns that they have changed."""
    for tensor, target in zip(written, targets, strict=True):
        if target is not tensor:
            tensor.copy_(target)
    if written:
        increment_version(written)


def _with_strides(strides: Sequence[int]) -> torch.Tensor:
    return torch.empty_strided((1,) * len(strides), strides, device="meta")


def _strides_of_plan(shape: Sequence[int], wanted: tuple[int, ...], layout: str | None) -> tuple[int, ...]:
    """The strides of a plan's input or output: those that PyTorch expects where they mean the plan's layout."""
    strides = strides_in(layout, shape)
    means = all(a == b for a, b, size in zip(strides, wanted, shape, strict=True) if size > 1)
    return wanted if means or 0 in shape else strides
