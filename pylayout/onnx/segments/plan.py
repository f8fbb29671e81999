"""SegmentedPlan: a plan of a model in which a size is known only after a value."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy

from ...arrays import asarray
from ...dtypes import dtype_of
from ...errors import ArgumentTypeError, Error, InvalidArgumentError, ShapeError, UnsupportedError
from ...plan import Plan
from ...tensor import Tensor
from ..contents import domain_of
from ..host import is_hosted
from ..importer import schema_of
from ..registry import find
from ..tensors import any_numbers
from .rounds import Rounds
from .saved import Loaded, load, save
from .steps import HostStep, Segment

__all__ = ["SegmentedPlan", "missing_op"]


class SegmentedPlan(Plan):
    """A plan of a model that is run by segments, which are planned in the first run.

    `summary` says how many there are, and which nodes run on the host. What belongs to one plan (graph, state) raises
    UnsupportedError.
    """

    def __init__(self, model: Any, options: dict[str, Any], values: Mapping[str, Any] | None = None) -> None:
        self.model = model
        self._options = options
        self.device = str(options.get("device") or "auto")
        self._values = {name: numpy.asarray(array) for name, array in (values or {}).items()}
        self._rounds = Rounds(model, options)
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
        return self._rounds.run({**self._values, **given})

    def __call__(self, *tensors: Any) -> Any:
        """Run on tensors; returns a Tensor, or a tuple where there are several outputs."""
        results = tuple(
            asarray(result) if isinstance(result, numpy.ndarray) else result
            for result in self.run(*(numpy.asarray(t) if isinstance(t, Tensor) else t for t in tensors))
        )
        return results[0] if len(results) == 1 else results

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and the segments that were found to a file, whole or not at all; `load_plan` reads it.

        Segments are found in runs: what none has met is found by the plan that is loaded. Raises FileError where it
        cannot be written.
        """
        save(path, self.model, self._options, self._values, self._rounds)

    @staticmethod
    def load(path: str | os.PathLike[str], replan: bool, options: Mapping[str, Any]) -> SegmentedPlan:
        """What `save` wrote; see `load_plan`."""

        def made(found: Loaded) -> SegmentedPlan:
            plan = SegmentedPlan(found.model, found.options, found.values)
            found.fill(plan._rounds)
            return plan

        return load(path, replan, options, made)  # type: ignore[no-any-return]

    def summary(self) -> dict[str, Any]:
        """How many segments there are, the summaries of their plans, and the nodes on the host by op."""
        steps = list(self._rounds.all_steps())
        hosted: dict[str, int] = {}
        for step in steps:
            if isinstance(step, HostStep):
                hosted[step.node.op_type] = hosted.get(step.node.op_type, 0) + 1
        segments = [step for step in steps if isinstance(step, Segment)]
        plans = [variant.plan.summary() for step in segments for variant in step.variants]
        return {"device": self.device, "segments": len(segments), "host": hosted, "plans": plans}

    def explain(self, html: Any = None) -> str:
        """In words: the segments with what their plans chose, and the nodes on the host between them."""
        if html is not None:
            raise UnsupportedError("plan: a model that is run by segments is explained in words only, html is given")
        texts = []
        for step in self._rounds.all_steps():
            if isinstance(step, HostStep):
                texts.append(f"on the host: {step.node.name or step.node.output[0]} ({step.node.op_type})")
            else:
                texts += [f"segment of {len(step.nodes)} nodes: {variant.plan.explain()}" for variant in step.variants]
        return "\n".join(texts) or "nothing was run yet: segments are planned in the first run"

    def settled(self) -> bool:
        """Whether no run changes the choices any more."""
        steps = [step for step in self._rounds.all_steps() if isinstance(step, Segment)]
        return bool(steps) and all(variant.plan.settled() for step in steps for variant in step.variants)

    def freeze(self) -> None:
        """Keep what was chosen so far."""
        for step in self._rounds.all_steps():
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
    dtype = _name_of(_dtype_of(entry)) if entry.kind == "tensor_type" else entry.kind
    return {"name": entry.name, "dtype": dtype, "shape": list(entry.dims or ()), "axes": axes}


def _name_of(dtype: Any) -> str:
    """As plans call it; NumPy's name of what no plan has."""
    try:
        return dtype_of(dtype).name
    except Error:
        return str(dtype)


def _dtype_of(entry: Any) -> Any:
    """The NumPy dtype of an input: of any numbers, since the host may take what no plan does."""
    return any_numbers(entry.element_type, f"onnx: input {entry.name!r}")


def _checked(entry: Any, value: Any) -> Any:
    """An input as an array; a sequence as a list of them."""
    if entry.kind != "tensor_type":
        if isinstance(value, (list, tuple)):  # none at all is how ONNX writes an optional without a value
            return [numpy.asarray(item) for item in value] if value or entry.kind != "optional_type" else None
        return value if value is None else numpy.asarray(value)
    array, wanted = numpy.asarray(value), _dtype_of(entry)
    if value is None or array.dtype.kind in "OSU":
        raise ArgumentTypeError(f'plan: input "{entry.name}" is {value!r}, expected an array of {_name_of(wanted)}')
    fixed = [size if isinstance(size, int) else None for size in entry.dims or ()]
    if entry.dims is not None and not _fits(array.shape, fixed):
        raise ShapeError(f'plan: input "{entry.name}" has shape {list(array.shape)}, expected {entry}')
    if array.dtype == wanted:
        return array
    if isinstance(value, (bool, int, float, list, tuple)) or (array.dtype.name, wanted.name) == ("float64", "float32"):
        return array.astype(wanted)
    raise InvalidArgumentError(f'plan: input "{entry.name}" is {_name_of(array.dtype)}, expected {_name_of(wanted)}')


def _fits(shape: Sequence[int], fixed: Sequence[int | None]) -> bool:
    return len(shape) == len(fixed) and all(f in (None, size) for size, f in zip(shape, fixed, strict=True))


def missing_op(model: Any) -> str | None:
    """An op of a model that neither a plan nor the host may have; None where it can be planned by segments."""
    missing = (node for node in _all_nodes(model.proto.graph) if not _has_op(model, node))
    node = next(missing, None)
    return None if node is None else f"{domain_of(node.domain) or 'ai.onnx'} {node.op_type}"


def _all_nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _all_nodes(inner)


def _has_op(model: Any, node: Any) -> bool:
    domain = domain_of(node.domain)
    key = (domain, node.op_type)
    if is_hosted(node) or model.function(node) is not None:
        return True
    opset = model.opsets.get(domain, 0)
    if find(*key, opset) is not None:
        return True
    schema = schema_of(*key, opset)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)
