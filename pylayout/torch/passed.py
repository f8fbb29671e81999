"""Tensors that plans alone read: what one plan hands to another, forward to backward above all.

Such a tensor lies as the plan that makes it likes, often in blocks of channels. PyTorch has no strides for blocks: the
memory then travels as a tensor of one dimension. Written as PyTorch has it, rows of channels or channels last, each
would be reordered twice: 143 reorders in a step of MobileNetV2 with 8 images, a quarter of its time.

The layout is decided once, as the first plan that makes the tensor is compiled. Those that read it are compiled later.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from .._load import ffi, lib
from ..context import handle as context
from ..dtypes import dtype_of
from ..errors import check
from ..layout import Layout, shape_array
from ..tensor import Tensor, adopt
from .dtypes import NAMES, strides_in
from .specialise import form_of
from .symbols import Evaluation

__all__ = ["AsTraced", "Form", "Passed", "may_pass", "passed_of"]

LEAST_RANK = 3  # matrices lie in rows everywhere

_KEY = "pylayout_passed"  # of a node's meta, in forward and in backward

Form = tuple[tuple[int, ...], tuple[int, ...]]


class Passed:
    """How a tensor lies that plans alone read."""

    def __init__(self) -> None:
        self.is_decided = False
        self.layout: str | None = None  # "aBcd16b"; None: as PyTorch has it

    def __deepcopy__(self, _: Any) -> Passed:
        return self  # of forward and of backward, however these are copied

    def mark(self, node: Node) -> None:
        node.meta[_KEY] = self

    def decide(self, layout: str | None) -> None:
        if not self.is_decided:
            self.is_decided, self.layout = True, layout

    @property
    def is_blocked(self) -> bool:
        return self.layout is not None and Layout(self.layout).is_blocked

    def form(self, shape: Sequence[int], dtype: torch.dtype) -> Form:
        """Shape and strides of the tensor of PyTorch's that carries it."""
        assert self.layout is not None
        if not self.is_blocked:
            return tuple(shape), strides_in(self.layout, shape)
        return (Layout(self.layout).storage_bytes(shape, NAMES[dtype]) // dtype.itemsize,), (1,)

    def over(self, tensor: torch.Tensor, shape: Sequence[int]) -> Tensor:
        """The library's tensor over one that carries it, or over one that lies as PyTorch has it."""
        carries = self.is_blocked and tuple(tensor.shape) == self.form(shape, tensor.dtype)[0]
        rank, sizes = shape_array(shape)
        made = ffi.new("pl_tensor *")
        layout = self.layout.encode() if carries and self.layout else ffi.NULL
        strides = ffi.NULL if carries else ffi.new("int64_t[]", tensor.stride())
        memory = ffi.cast("void *", tensor.data_ptr())
        code = dtype_of(NAMES[tensor.dtype]).code
        check(lib.pl_tensor_borrow(context(), code, rank, sizes, layout, strides, memory, ffi.NULL, ffi.NULL, made))
        return adopt(made[0])

    def moved(self, tensor: torch.Tensor, shape: Sequence[int], form: Form) -> torch.Tensor:
        """The same values in a tensor of this shape and these strides."""
        if (tuple(tensor.shape), tensor.stride()) == form:
            return tensor
        made = torch.empty_strided(*form, dtype=tensor.dtype, device=tensor.device)
        if len(form[0]) == tensor.ndim == len(shape):
            return made.copy_(tensor)
        source, target = self.over(tensor, shape), self.over(made, shape)
        check(lib.pl_tensor_copy(source._handle, target._handle))
        return made


def passed_of(node: Node) -> Passed | None:
    """What a node was marked as; None where PyTorch may read it."""
    return node.meta.get(_KEY)


def may_pass(value: Any) -> bool:
    """Whether a traced tensor may lie as a plan likes."""
    return isinstance(value, torch.Tensor) and value.dtype in NAMES and value.ndim >= LEAST_RANK


class AsTraced:
    """Gives a tensor that was passed as PyTorch has it, for ops that PyTorch runs. `at` binds it to sizes."""

    def __init__(self, node: Node, passed: Passed) -> None:
        self._node, self._passed = node, passed

    def at(self, evaluation: Evaluation) -> partial[torch.Tensor]:
        form = form_of(self._node, evaluation)
        return partial(self._passed.moved, shape=form[0], form=form)
