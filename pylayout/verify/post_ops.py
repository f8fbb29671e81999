"""What the post-ops of a case make of exact results, and of the bounds on them; see bounds.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..calls import schemas
from . import functions
from .bounds import FUNCTION, UNIT, rounding
from .case import Case

__all__ = ["Step", "applied", "operand_of", "steps_of"]

Array = NDArray[Any]

# Of exp(x) - 1 and log(1 + exp(x)) as oneDNN has them: they round at 1, however small x and the result are.
_AT_ONE = {"elu": FUNCTION * UNIT, "selu": FUNCTION * UNIT, "softplus": 2 * FUNCTION * UNIT}
_EXACT = frozenset(("relu", "relu6", "clip", "abs", "neg", "floor", "ceil", "round", "sign", "trunc"))


@dataclass(frozen=True)
class Step:
    """`name` of a function; of add and multiply the input."""

    kind: str  # "function", "scale", "add", "multiply"
    name: str
    parameters: tuple[float, ...] = ()


def operand_of(op: str, step: Step) -> int:
    """The number of the input that a step reads."""
    names = [p["name"] for p in schemas()[op]["parameters"] if p["kind"] != "attribute"]
    return names.index(step.name)


def steps_of(case: Case) -> list[Step]:
    """The list of a case, of one that is given in short too."""
    attributes = case.attributes
    listed = attributes.get("post_ops")
    if listed is not None:
        text = listed if isinstance(listed, str) else ", ".join(listed)
        return [_step(word, given) for word, given in re.findall(r"(\w+)(?:\(([^)]*)\))?", text)]
    steps = []
    for text in schemas()[case.op]["post_ops"]["operands"]:
        step = _step(*re.fullmatch(r"(\w+)\((\w+)\)", text).groups())  # type: ignore[union-attr]
        number = operand_of(case.op, step)
        if step.kind == "add" and number < len(case.inputs) and case.inputs[number] is not None:
            steps.append(step)
    if name := attributes.get("activation"):
        steps.append(Step("function", name, functions.parameters(name, attributes, "activation_")))
    limits = [attributes.get("low"), attributes.get("high")]
    if schemas()[case.op]["post_ops"]["taken"] and limits != [None, None]:
        low, high = (
            inf if limit is None else float(limit) for limit, inf in zip(limits, (-np.inf, np.inf), strict=True)
        )
        steps.append(Step("function", "clip", (low, high)))
    return steps


def _step(word: str, given: str) -> Step:
    if word in ("add", "multiply"):
        return Step(word, given.strip())
    numbers = tuple(float(number) for number in given.split(",") if number.strip())
    if word == "scale":
        return Step(word, word, numbers)
    return Step("function", word, (*numbers, *functions.parameters(word, {})[len(numbers) :]))


def applied(
    case: Case, steps: list[Step], values: Array, bound: Array, dtype: str, operand: Callable[[int], Array]
) -> tuple[Array, Array]:
    """The steps applied to exact values, and what becomes of their bound; operand(number): an input there."""
    for step in steps:
        bound = bound + rounding(values, dtype)  # what is before a step may be rounded
        if step.kind == "function":
            alpha, beta = step.parameters
            y = functions.apply(step.name, values, alpha, beta)
            moved = [np.abs(functions.apply(step.name, values + sign * bound, alpha, beta) - y) for sign in (-1, 1)]
            own = functions.error(step.name, values, y) if step.name not in _EXACT else 0.0
            own = own + _AT_ONE.get(step.name, 0.0)
            values, bound = y, np.maximum(*moved) + own
            continue
        if step.kind == "add":
            y, moved_by = values + operand(operand_of(case.op, step)), 1.0
        else:
            factor: Any = step.parameters[0] if step.kind == "scale" else operand(operand_of(case.op, step))
            y, moved_by = values * factor, np.abs(factor)
        values, bound = y, bound * moved_by + UNIT * np.abs(y)
    return values, bound
