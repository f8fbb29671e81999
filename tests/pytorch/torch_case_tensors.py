"""Tensors that the arguments of converters are made of (torch_cases.py), by one generator."""

from __future__ import annotations

from typing import Any

import torch

_generator = torch.Generator().manual_seed(7)


def r(*shape: int) -> torch.Tensor:
    """Normally distributed values."""
    return torch.randn(*shape, generator=_generator)


def p(*shape: int) -> torch.Tensor:
    """Values between 0.1 and 0.9."""
    return torch.rand(*shape, generator=_generator) * 0.8 + 0.1


def i(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=_generator)


SEED = torch.tensor([7, 2**40])
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)


def ints(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Values of all bits of the dtype."""
    limits = torch.iinfo(dtype)
    made = torch.randint(limits.min, limits.max, shape or (3, 4), generator=_generator, dtype=dtype)
    made.view(-1)[:2] = torch.tensor([limits.min, limits.max], dtype=dtype)
    return made


def b(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=_generator) > 0.5


def once(high: int, *shape: int) -> torch.Tensor:
    """Indices along dimension 1, of which none comes twice."""
    return torch.rand(shape[0], high, *shape[2:], generator=_generator).argsort(1)[:, : shape[1]]


def halves(*shape: int) -> torch.Tensor:
    """Small whole numbers, of which sums are exact."""
    return (i(7, *shape) - 3).bfloat16()


LEVELS = [
    ("lstm", True, False, True), ("lstm", False, True, False), ("gru", True, True, True), ("gru", False, False, False),
    ("tanh", True, False, False), ("relu", False, True, True),
]  # fmt: skip


def level(cell: str, both: bool, batch_first: bool, bias: bool) -> tuple[Any, ...]:
    """Of a recurrent layer: of both directions, of which dimensions, with biases; lengths where steps are outermost."""
    of = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(cell, torch.nn.RNN)
    with torch.random.fork_rng():
        torch.manual_seed(len(cell))
        params = [each.detach() for each in of(5, 7, bidirectional=both, bias=bias).parameters()]
        states = [torch.randn(1 + both, 4 if not batch_first else 3, 7) for _ in range(2 if cell == "lstm" else 1)]
        lengths = None if batch_first or not bias else torch.tensor([3, 3, 2, 1])
        return cell, torch.randn(3, 4, 5), states, params, both, batch_first, lengths


def level_backward(*how: Any) -> tuple[Any, ...]:
    cell, x, states, params, both, batch_first, lengths = level(*how)
    y, *_ = torch.ops.pylayout.recurrent(cell, x, states, params, both, batch_first, lengths)
    return cell, x, states, params, y, [y.cos(), *map(torch.sin, states)], both, batch_first, lengths


X = r(2, 3, 4)
COUNTS = torch.tensor([0, 1, 6, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 255, -1, -2, -64, -128])  # of shifts
A, B = r(2, 5, 3), r(2, 4, 3)
ENDS = torch.tensor([4, 4, 9], dtype=torch.int32)  # of groups of 9 rows
MANY = r(64, 64) * 3
# Halves, and numbers that they do not hold, which PyTorch takes in float32.
BY_NUMBERS = [
    (MANY.half(), 0.1), (MANY.bfloat16(), 0.1), (b(9).half(), -1e9), (MANY.half(), 65536.0), (MANY.half(), 1e-9),
    (MANY.half(), torch.tensor(0.3)), (MANY.bfloat16(), torch.tensor(4097)),
]  # fmt: skip
BYTES = torch.tensor([0, 1, 4, 9, 255], dtype=torch.uint8)
EDGES = torch.tensor([0.0, -0.0, 1.0, -2.5, 3.0, float("inf"), -float("inf"), float("nan")])
WIDE = torch.cat([EDGES, torch.tensor([-0.9, 1.9, 300, -129, 3e9, -(2.0**31), 1e19, -1e19])])  # by far for integers
IMAGE = r(2, 8, 7, 6)
CLOSED = [(p(3, 4),)]  # of functions that are defined between 0 and 1
ANY = [(X,), (IMAGE.to(memory_format=torch.channels_last),)]

FUNCTIONS = (
    "acos", "asin", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "reciprocal", "rsqrt", "sigmoid", "sin",
    "sinh", "sqrt", "tan", "tanh", "asinh", "exp2", "expm1", "log1p", "log2", "log10", "mish", "silu", "hardsigmoid",
    "hardswish", "square",
)  # fmt: skip
