"""What a case is, and the tensors that cases are made of."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pylayout.calls import schemas


@dataclass
class Case:
    op: str
    tensors: Callable[[np.random.Generator], list[np.ndarray | None]]
    attributes: dict[str, Any] = field(default_factory=dict)
    # The call in PyTorch: (torch, F, tensors in float64, attributes) -> tensor or tuple; default: the same name.
    reference: Callable[..., Any] | None = None
    tolerance: float = 2e-5  # of the largest difference, relative to the largest value; f32 arithmetic
    variadic: bool = False
    label: str = ""  # tells apart cases with equal attributes

    @property
    def name(self) -> str:
        text = ",".join([f"{key}={value}" for key, value in self.attributes.items()] + [self.label] * bool(self.label))
        return f"{self.op}({text})" if text else self.op

    def make(self, seed: int = 0) -> list[np.ndarray | None]:
        return self.tensors(np.random.default_rng(zlib.crc32(self.name.encode()) + seed))

    def call(self, ops: Any, tensors: Sequence[Any], **common: Any) -> Any:
        function = getattr(ops, self.op)
        if self.variadic:
            return function(list(tensors), **self.attributes, **common)
        named = dict(zip(tensor_parameters(self.op), tensors, strict=False))
        return function(**named, **self.attributes, **common)


def tensor_parameters(op: str) -> list[str]:
    return [p["name"] for p in schemas()[op]["parameters"] if p["kind"] != "attribute"]


def normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[np.ndarray | None]]:
    return lambda rng: [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def integers(dtype: str, *shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[np.ndarray | None]]:
    """Values of all bits of the dtype."""
    limits = np.iinfo(dtype)
    return lambda rng: [rng.integers(limits.min, limits.max, shape, dtype, endpoint=True) for shape in shapes]


def operands(steps: str, y: tuple[int, ...], *shapes: tuple[int, ...]) -> Callable[..., list[np.ndarray | None]]:
    """Tensors of these shapes, and what the steps of post_ops read: a residual, a gate, of the shape of y."""

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        read = zip(("residual", "gate"), normal(y, y)(rng), strict=True)
        return [*normal(*shapes)(rng), *(tensor if f"({name})" in steps else None for name, tensor in read)]

    return make


def post_ops(f: Any, y: Any, steps: str, tensors: list[Any]) -> Any:
    """The steps of post_ops in PyTorch; `tensors`: those of the case that are given, the last of which they read."""
    named = [name for name in ("residual", "gate", "addend") if f"({name})" in steps]
    operands = dict(zip(named, tensors[len(tensors) - len(named) :], strict=True))
    for name, given in re.findall(r"(\w+)(?:\(([^)]*)\))?", steps):
        numbers = [] if name in ("add", "multiply") else [float(word) for word in given.split(",") if word.strip()]
        if name == "add":
            y = y + operands[given]
        elif name == "multiply":
            y = y * operands[given]
        elif name == "scale":
            y = y * numbers[0]
        else:
            y = y.clamp(*numbers) if name == "clip" else y.round() if name == "round" else getattr(f, name)(y, *numbers)
    return y


def positive(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[np.ndarray | None]]:
    return lambda rng: [rng.uniform(0.5, 2.0, shape).astype(np.float32) for shape in shapes]


def indexed(shape: tuple[int, ...], index: tuple[int, ...], size: int, first: bool = False):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        table = rng.standard_normal(shape).astype(np.float32)
        chosen = rng.integers(-size, size, index).astype(np.int64)
        return [chosen, table] if first else [table, chosen]

    return make


def wrapped(index: Any, size: int) -> Any:  # PyTorch has no negative indices here
    return index % size


X4 = (2, 19, 9, 10)  # two blocks of 8 and a tail, one of 16 and a tail


def into(cases: list[Case]) -> Callable[..., None]:
    """The function that adds a case to a family's list."""

    def add(
        op: str,
        tensors: Any,
        reference: Any = None,
        tolerance: float = 2e-5,
        variadic: bool = False,
        name: str = "",
        **attributes: Any,
    ) -> None:
        cases.append(Case(op, tensors, attributes, reference, tolerance, variadic, name))

    return add
