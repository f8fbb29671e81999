"""Programs of calls that differ in sizes alone: what two of them were made of serves the others.

Fake tensors and converters take one to four milliseconds for an op with sizes that were not met before, and a text that
grows has tens of such ops a word. Most programs have nothing of sizes in their steps. Where two calls with other sizes
were made of the same steps, further calls take these steps. PyTorch's kernels for tensors without memory say what the
results are like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..tensor import Tensor

__all__ = ["MOST_CONSTANT", "Calls", "Kind", "Made", "Output", "Step", "serves_others"]

Step = tuple[str, str, tuple[int, ...], int, int]  # op, attributes, slots that it reads, first result, how many

# Ops, beside those that go element by element, whose converters ask no more of a size than whether it is 0, 1 or that
# of another dimension.
_ALIKE = frozenset({
    "aten.cat.default", "aten.stack.default", "aten.mm.default", "aten.bmm.default", "aten.addmm.default",
    "aten.baddbmm.default", "aten._softmax.default", "aten._log_softmax.default", "aten._softmax_backward_data.default",
    "aten._log_softmax_backward_data.default", "aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default",
    "aten.cumsum.default", "aten.amax.default", "aten.amin.default", "aten.argmax.default", "aten.all.default",
    "aten.all.dim", "aten.any.default", "aten.any.dim", "aten.isin.Tensor_Tensor", "aten.isin.Tensor_Scalar",
    "aten.masked_fill.Scalar", "aten._to_copy.default", "aten.index.Tensor", "aten.index_put.default",
    "aten._index_put_impl.default", "aten.index_select.default", "aten.index_add.default", "aten.gather.default",
    "aten.scatter.src", "aten.scatter_add.default", "aten.embedding.default", "aten.embedding_dense_backward.default",
    "pylayout.attention.default", "pylayout.attention_backward.default", "pylayout.layer_norm.default",
    "pylayout.layer_norm_backward.default", "pylayout.cross_entropy.default", "pylayout.cross_entropy_backward.default",
})  # fmt: skip
MOST_CONSTANT = 16  # elements of a constant that is compared
_MOST_KINDS = 4096
_MOST_SERVED = 4  # programs of a kind: steps of which more are made have sizes in them


@dataclass(frozen=True)
class Output:
    slot: int  # -1: it has no elements, and nothing computes it
    target: int  # the argument that it is written into; -1: none
    returned: bool
    own: bool  # a tensor of its own, which may lie as its kernel gives it


@dataclass
class Made:
    """What the shim is told of a program, but for the sizes of results."""

    numbers: int
    constants: list[tuple[Tensor, bytes | None]]  # with what is compared; None: too long for that
    steps: list[Step]
    slots: int
    outputs: list[Output | None]  # None: nobody asked for it

    def is_like(self, other: Made) -> bool:
        def told(made: Made) -> tuple[Any, ...]:
            return made.numbers, [held for _, held in made.constants], made.steps, made.slots, made.outputs

        same: bool = told(self) == told(other)
        return same


@dataclass
class _Served:
    """Calls of one kind that one program serves: from which to which size, by the places of sizes in the kind."""

    made: Made
    least: list[int]
    most: list[int]

    def fits(self, sizes: Sequence[int]) -> bool:
        """Sizes that never differed are as they were; others are not far from those that were met."""
        return all(
            size == low if low == high else low // 2 <= size <= 2 * high
            for size, low, high in zip(sizes, self.least, self.most, strict=True)
        )

    def take(self, sizes: Sequence[int]) -> None:
        self.least = [*map(min, self.least, sizes)]
        self.most = [*map(max, self.most, sizes)]


class _Exact(Exception):
    """A call whose program serves no other."""


class Kind:
    """What calls have in common that differ in sizes alone, and the sizes of one."""

    def __init__(self, name: str, device: int, values: Any) -> None:
        self._places: dict[int, int] = {}
        self.key = name, device, torch.get_default_dtype(), self._read(values)
        self.sizes = [*self._places]

    def _read(self, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(self._read, value))
        if isinstance(value, float):  # 0.0 and -0.0 are equal, and NaN is not
            return value.hex()
        if not isinstance(value, dict):
            return type(value), value
        if "t" not in value:  # a number that may change, or one of the CPU
            raise _Exact
        slot, dtype, sizes, strides = value["t"]
        return slot, dtype, tuple(map(self._place, sizes)), _order(sizes, strides)

    def _place(self, size: int) -> int:
        if size == 0:
            raise _Exact
        return -1 if size == 1 else self._places.setdefault(size, len(self._places))


def _order(sizes: Sequence[int], strides: Sequence[int]) -> Any:
    """How dimensions follow each other in memory, which are repeated, and whether there are gaps."""
    moving = sorted((dim for dim, size in enumerate(sizes) if size > 1), key=lambda dim: (strides[dim], dim))
    step, gaps = 1, False
    for dim in moving:
        gaps |= strides[dim] != step
        step *= sizes[dim]
    return tuple(moving), tuple(strides[dim] == 0 for dim in moving), gaps


class Calls:
    """The programs that were made, by kinds of calls."""

    def __init__(self) -> None:
        self._served: dict[Any, list[_Served]] = {}

    def kind(self, name: str, device: int, values: Any) -> Kind | None:
        """Of a call of the op `name` with these arguments (shim/arguments.h); None: its program serves no other."""
        try:
            return Kind(name, device, values)
        except _Exact:
            return None

    def clear(self) -> None:
        self._served.clear()

    def find(self, kind: Kind) -> Made | None:
        return next((each.made for each in self._served.get(kind.key, ()) if each.fits(kind.sizes)), None)

    def keep(self, kind: Kind, made: Made) -> None:
        if len(self._served) >= _MOST_KINDS:
            self._served.clear()
        served = self._served.setdefault(kind.key, [])
        for each in served:
            if each.made.is_like(made):
                return each.take(kind.sizes)
        if len(served) < _MOST_SERVED:
            served.append(_Served(made, kind.sizes, kind.sizes))


def serves_others(op: Any) -> bool:
    return torch.Tag.pointwise in op.tags or f"{op.namespace}.{op._opname}.{op._overloadname}" in _ALIKE
