"""Backend: pylayout as ONNX's test suite and programs written against `onnx.backend.base` call it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import onnx
from onnx.backend.base import Backend as _Backend
from onnx.backend.base import BackendRep as _BackendRep
from onnx.backend.base import Device as _Device
from onnx.backend.base import DeviceType, namedtupledict

from ..compilation import compile as compile_graph
from ..device import devices
from ..errors import Error, InvalidArgumentError, UnsupportedError
from .errors import ValueNeeded
from .model import Input, Model, read
from .segments import SegmentedPlan, missing_op

__all__ = ["Backend", "BackendRep"]


class BackendRep(_BackendRep):
    """A model that runs on inputs of any shapes: a plan is made for each combination that comes."""

    def __init__(self, model: Model, **options: Any) -> None:
        self.model = model
        self._options = options
        self._plans: dict[Any, tuple[Any, list[str]]] = {}
        self._segmented: SegmentedPlan | None = None  # of a model that no one plan can hold

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, for inputs in the model's order or by name."""
        if kwargs:
            raise InvalidArgumentError(f"run: {', '.join(kwargs)} is given, expected inputs only")
        names = [entry.name for entry in self.model.inputs]
        given = inputs if isinstance(inputs, dict) else dict(zip(names, _listed(inputs, names), strict=True))
        if set(given) != set(names):
            raise InvalidArgumentError(f"run: inputs {sorted(given)} are given, expected {sorted(names)}")
        arrays = {entry.name: _array(entry, given[entry.name]) for entry in self.model.inputs}
        plan, rest = self._plan(arrays)
        results = plan.run(*(arrays[name] for name in rest))
        made: tuple[Any, ...] = namedtupledict("Outputs", self.model.outputs)(*results)
        return made

    def _plan(self, arrays: dict[str, Any]) -> tuple[Any, list[str]]:
        """The plan for these inputs, and which of them it takes."""
        if self._segmented is not None:
            return self._segmented, list(arrays)
        tensors = [entry.name for entry in self.model.inputs if entry.kind == "tensor_type"]
        shapes = {name: arrays[name].shape for name in tensors}
        key = tuple(shapes.items())
        if key not in self._plans:
            try:
                graph = self.model.graph(shapes)
            except UnsupportedError:
                if missing_op(self.model) is not None:
                    raise
                self._segmented = SegmentedPlan(self.model, self._options)
                return self._segmented, list(arrays)
            self._plans[key] = compile_graph(graph, **self._options), list(shapes)
        return self._plans[key]


def _listed(inputs: Any, names: list[str]) -> Sequence[Any]:
    """Inputs in order: one alone may come without a list."""
    values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if len(values) != len(names):
        raise InvalidArgumentError(f"run: {len(values)} inputs are given, expected {len(names)}: {', '.join(names)}")
    return values


def _array(entry: Input, value: Any) -> Any:
    if isinstance(value, (numpy.ndarray, numpy.generic, int, float, bool)):
        return numpy.asarray(value)
    if entry.kind != "tensor_type":
        return value
    if value is None or isinstance(value, (list, tuple)):
        raise UnsupportedError(f"run: input {entry.name!r} is {type(value).__name__}, expected an array")
    return numpy.asarray(value)


def _device_name(device: str) -> str | None:
    """The library's device for ONNX's "CPU" or "CUDA:1"; None where there is none. "cpu", "opencl:0" stay."""
    names = [found.name for found in devices()]
    if device in names:
        return device
    try:
        wanted = _Device(device)
    except (AttributeError, ValueError):
        return None
    return "cpu" if wanted.type == DeviceType.CPU else None


class Backend(_Backend):
    """The interface `onnx.backend.base.Backend`, with pylayout's devices besides "CPU": "opencl:0", ..."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return _device_name(device) is not None

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be imported; for open sizes, with sizes of 1."""
        if not cls.supports_device(device):
            return False
        try:
            parsed = read(model)
            open_axes = {dim for entry in parsed.inputs for dim in entry.dims or () if isinstance(dim, str)}
            parsed.graph(sizes=dict.fromkeys(open_axes, 1))
        except ValueNeeded:
            return True
        except Error:
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """A model ready to run. Keywords are those of `pylayout.compile`: tune, threads, layout, ...

        Raises what `pylayout.onnx.read` raises; what depends on shapes is found when it is run.
        """
        name = _device_name(device)
        if name is None:
            raise UnsupportedError(f"Backend: device is {device!r}, expected one that supports_device() accepts")
        return BackendRep(read(model), device=name, **kwargs)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """The outputs of a single node; opset_version: its opset, default the newest."""
        arrays = [numpy.asarray(value) for value in inputs]
        names = [name for name in dict.fromkeys(node.input) if name]
        if len(names) != len(arrays):
            raise InvalidArgumentError(f"run_node: {len(arrays)} inputs are given, expected {len(names)}")
        describe = onnx.helper.make_tensor_value_info
        element_type = onnx.helper.np_dtype_to_tensor_dtype
        sources = [describe(n, element_type(a.dtype), a.shape) for n, a in zip(names, arrays, strict=True)]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        graph = onnx.helper.make_graph([node], "node", sources, results)
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        return cls.run_model(onnx.helper.make_model(graph, opset_imports=imports), arrays, device, **kwargs)
