"""Segment: the nodes of one level as a plan, called with tensors of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from .._load import ffi, lib
from ..compilation import compile
from ..errors import check
from ..plan import Plan
from .dtypes import dense_layout, may_overlap, plain_strides
from .memory import empty
from .translate import Translator

__all__ = ["Segment"]


class Segment:
    """A plan over nodes. Calling it takes the tensors of `inputs` and gives those of `outputs`, newly made.

    Raises UnsupportedError where the nodes cannot be a plan; the message names the node.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        outputs: Sequence[Node],
        constants: Mapping[Node, torch.Tensor],
        steady: frozenset[Node],
        options: Mapping[str, Any],
        device: torch.device,
    ) -> None:
        translator = Translator(constants, device=device)
        for node in nodes:
            translator.convert(node)
        for node in outputs:
            translator.output(node)
        self.nodes = tuple(nodes)
        self.inputs = tuple(translator.inputs)
        self.outputs = tuple(outputs)
        if device.type == "ocl":  # where the tensors are
            options = {**options, "device": f"opencl:{device.index or 0}"}
        self.plan: Plan = compile(translator.graph, **options)
        self._handle = self.plan._handle
        self._device = device
        self._address = int(ffi.cast("uintptr_t", self._handle))
        self._made = [
            (tuple(value.shape), _strides_of_plan(value), value.dtype, value.numel() * value.element_size())
            for value in (node.meta["val"] for node in outputs)
        ]
        # Results that PyTorch wants with gaps between elements, which plans do not write. Of those whose elements
        # overlap each has its own here: who reads them does not mind.
        self._spread = [
            (place, tuple(node.meta["val"].stride()))
            for place, node in enumerate(outputs)
            if node.meta["val"].ndim
            and dense_layout(node.meta["val"].shape, node.meta["val"].stride()) is None
            and not may_overlap(node.meta["val"].shape, node.meta["val"].stride())
        ]
        # What may come with other strides than PyTorch expected: all but weights, whose strides are guarded.
        self._checked = [
            (place, _strides_of_plan(node.meta["val"])) for place, node in enumerate(self.inputs) if node not in steady
        ]

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        for place, needed in self._checked:
            tensor = tensors[place]
            if tensor.stride() != needed or tensor.is_neg():
                tensors = self._dense(tensors)
                break
        if self._device.type == "ocl":
            return self._on_device(tensors)
        made = [empty(*each) for each in self._made]
        status = lib.pyl_plan_run(
            self._handle,
            [tensor.data_ptr() for tensor in tensors],
            len(tensors),
            [tensor.data_ptr() for tensor in made],
            len(made),
        )
        if status:
            check(status)
        self._spread_out(made)
        return made

    def _on_device(self, tensors: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """The same with tensors of the device ocl, which are not copied."""
        made = [
            torch.empty_strided(shape, strides, dtype=dtype, device=self._device)
            for shape, strides, dtype, _ in self._made
        ]
        torch.ops.pylayout_ocl.run_plan(self._address, tensors, made)
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
            if tensor.stride() != needed or tensor.is_neg():
                dense = torch.empty_strided(tensor.shape, needed, dtype=tensor.dtype, device=self._device)
                given[place] = dense.copy_(tensor)
        return tuple(given)


def _strides_of_plan(value: torch.Tensor) -> tuple[int, ...]:
    """The strides of a plan's input or output: those that PyTorch expects where they have no gaps."""
    strides = tuple(value.stride())
    return plain_strides(value.shape) if dense_layout(value.shape, strides) is None else strides
