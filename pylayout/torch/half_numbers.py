"""Numbers that tensors of f16 and bf16 are multiplied or divided by, which PyTorch keeps in float32.

The library's ops of arithmetic take constants of the dtype of the tensor, and so do the passes that recognise what
models spell out. So a number that the dtype does not hold is a constant of it next to what they recognise, where it is
rounded as everything is; elsewhere it stays as it is, in an expression.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

from ..sizes import Size
from ..value import Value
from .registry import converters, name_of

__all__ = ["exact_number", "is_held"]

_HALVES = {"f16": torch.float16, "bf16": torch.bfloat16}

# Passes fold factors of what these give or read into weights, or into the scale of attention.
_PRODUCTS = {"addmm", "baddbmm", "bmm", "convolution", "mm"}
# By number: the functions by which activations that are spelled out are known (pass recognise_activation).
_OF_ACTIVATIONS = (
    (math.sqrt(2), {"erf"}),
    (math.sqrt(0.5), {"erf"}),
    (math.sqrt(2 / math.pi), {"mul", "tanh"}),
    (0.044715, {"add", "mul"}),
    (1 / 6, {"clamp", "clamp_max", "clamp_min", "hardtanh", "mul"}),
)


def _rounded(number: float, dtype: str) -> float:
    return torch.tensor(number, dtype=torch.float64).to(_HALVES[dtype]).item()


def is_held(number: float, dtype: str) -> bool:
    """Whether a dtype holds a number as PyTorch multiplies by it."""
    return dtype not in _HALVES or _rounded(number, dtype) == number or math.isnan(number)


def exact_number(node: Node, y: Any, dtype: str, one_by_one: bool) -> Any:
    """What the node's first argument, of that dtype, is multiplied or divided by, where it is to stay as it is.

    A number, a size, or an operand without dimensions. None: y is a tensor, or a constant of the dtype serves as well.
    """
    if dtype not in _HALVES:
        return None
    if isinstance(y, Value):
        if y.ndim or y.dtype == dtype:
            return None
        known = None if one_by_one else y.tensor
        number = None if known is None else float(known.item())
    else:
        number = None if isinstance(y, Size) else float(y)
    if number is None:
        return y
    serves = is_held(number, dtype) or (not one_by_one and _is_recognised(node, number, dtype))
    return None if serves else y if isinstance(y, Value) else number


def _is_recognised(node: Node, number: float, dtype: str) -> bool:
    """Whether passes may know a product or quotient by its number, which rounding leaves close to itself."""
    if not math.isclose(_rounded(number, dtype), number, rel_tol=2.0**-8):
        return False
    around = {*_around(node)}
    return bool(_PRODUCTS & around) or any(
        math.isclose(number, known, rel_tol=1e-5) and around & functions for known, functions in _OF_ACTIVATIONS
    )


def _around(node: Node) -> Iterator[str]:
    """The ops that make the node's first argument and that read its result, but for views and copies between them.

    A product's scores are scaled, then limited: other numbers and the limit count as nothing between, either.
    """
    source = node.args[0]
    while isinstance(source, Node) and (_moves(source) or _scales(source) or _op_of(source) == "tanh"):
        source = source.args[0]
    if isinstance(source, Node):
        yield _op_of(source)
    following = [*node.users]
    while following:
        user = following.pop()
        if _moves(user):
            following += user.users
        else:
            yield _op_of(user)


def _moves(node: Node) -> bool:
    known = converters().get(name_of(node.target))
    return node.target is operator.getitem or (known is not None and known.moves)


def _scales(node: Node) -> bool:
    return _op_of(node) in ("div", "mul") and isinstance(node.args[1], (int, float))


def _op_of(node: Node) -> str:
    return name_of(node.target).partition(".")[0] if node.op == "call_function" else ""
