"""einsum as other ops: each step takes two operands to one, by a product of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from .errors import InvalidArgumentError, ShapeError

__all__ = ["contract"]

Call: TypeAlias = Callable[..., Any]  # call("matmul", a, b)


def _is_one(size: Any) -> bool:
    """Of a size that calls decide nothing is asked: a graph would be for one answer alone."""
    return isinstance(size, int) and size == 1


def _diagonal(call: Call, x: Any, labels: str) -> tuple[Any, str]:
    """x with repeated labels made one: of `ii` the elements [i, i]."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, second = labels.index(label), labels.index(label, labels.index(label) + 1)
            size = x.shape[first]
            if x.shape[second] != size:
                raise ShapeError(f"einsum: label {label} has sizes {size} and {x.shape[second]}, expected the same")
            order = [i for i in range(x.ndim) if i not in (first, second)]
            rest = [x.shape[i] for i in order]
            x = call("permute", x, [*order, first, second])
            x = call("reshape", x, [*rest, size * size])
            x = call("slice", x, [0], [size * size], [len(rest)], [size + 1])
            labels = "".join(labels[i] for i in order) + label
    return x, labels


def _summed(call: Call, x: Any, labels: str, kept: str) -> tuple[Any, str]:
    """x summed over the labels that are in no other operand and not in the result."""
    axes = [i for i, label in enumerate(labels) if label not in kept]
    if axes:
        x = call("sum", x, axes)
    return x, "".join(label for label in labels if label in kept)


def _arranged(call: Call, x: Any, labels: str, order: str) -> Any:
    dims = [labels.index(label) for label in order]
    return x if dims == list(range(len(dims))) else call("permute", x, dims)


def _contracted(
    call: Call, left: tuple[Any, str], right: tuple[Any, str], kept: str, sizes: dict[str, int]
) -> tuple[Any, str]:
    """The product of two operands, summed over the labels of both that are not kept."""
    (a, in_a), (b, in_b) = left, right
    shared = [label for label in in_a if label in in_b]
    batch = "".join(label for label in shared if label in kept)
    inner = "".join(label for label in shared if label not in kept)
    only_a = "".join(label for label in in_a if label not in in_b)
    only_b = "".join(label for label in in_b if label not in in_a)

    def shape(labels: str) -> list[int]:
        return [sizes[label] for label in labels]

    if not inner:
        # Nothing is summed: an ordinary product with broadcasting.
        order = batch + only_a + only_b
        a = call("reshape", _arranged(call, a, in_a, batch + only_a), [*shape(batch + only_a), *[1] * len(only_b)])
        b = _arranged(call, b, in_b, batch + only_b)
        b = call("reshape", b, [*shape(batch), *[1] * len(only_a), *shape(only_b)])
        return call("mul", a, b), order
    product = math.prod
    a = _arranged(call, a, in_a, batch + only_a + inner)
    b = _arranged(call, b, in_b, batch + inner + only_b)
    a = call("reshape", a, [*shape(batch), product(shape(only_a)), product(shape(inner))])
    b = call("reshape", b, [*shape(batch), product(shape(inner)), product(shape(only_b))])
    order = batch + only_a + only_b
    return call("reshape", call("matmul", a, b), shape(order)), order


def _terms(equation: str, operands: Sequence[Any]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, with letters of their own in place of `...`."""
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise InvalidArgumentError(f"einsum: equation {equation!r} has {len(terms)} terms, expected {len(operands)}")
    if len(equation) > 1000 or any(t.count("...") > 1 for t in (*terms, right)):
        raise InvalidArgumentError(
            f"einsum: equation {equation[:100]!r} is not valid: expected at most 1000 characters, `...` once in a term"
        )
    letters = [chr(0x100 + i) for i in range(64)]  # none that an equation may use
    most = max(
        (x.ndim - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True) if "..." in t), default=0
    )
    dots = "".join(letters[: max(most, 0)])
    made = []
    for term, operand in zip(terms, operands, strict=True):
        count = operand.ndim - len(term.replace("...", ""))
        if count < 0 or ("..." not in term and count):
            raise ShapeError(f"einsum: term {term!r} of the equation does not fit rank {operand.ndim}")
        made.append(term.replace("...", dots[len(dots) - count :]))
    if arrow:
        result = right.replace("...", dots)
    else:
        once = sorted({label for term in made for label in term if label not in dots})
        result = dots + "".join(label for label in once if "".join(made).count(label) == 1)
    known = set("".join(made))
    for label in (*known, *result):
        fault = (
            "which is no letter"
            if not label.isalpha()
            else "which no operand has"
            if label not in known
            else "twice"
            if result.count(label) > 1
            else None
        )
        if fault:
            place = "its result" if label in result else "a term"
            raise InvalidArgumentError(f"einsum: equation {equation!r} names {label!r} in {place}, {fault}")
    return made, result


def contract(call: Call, equation: str, operands: Sequence[Any]) -> Any:
    """The sums of products that the equation names, by permutations, sums and products of matrices, two at a time.

    `call(op, *arguments)` runs an op, or appends it to a graph; operands have `shape` and `ndim`.
    """
    terms, result = _terms(equation, operands)
    sizes: dict[str, int] = {}
    for term, operand in zip(terms, operands, strict=True):
        for label, size in zip(term, operand.shape, strict=True):
            if sizes.setdefault(label, size) != size and 1 not in (sizes[label], size):
                raise ShapeError(f"einsum: label {label} has sizes {sizes[label]} and {size}, expected the same")
            if _is_one(sizes[label]):
                sizes[label] = size
    pairs: list[tuple[Any, str]] = []
    for term, operand in zip(terms, operands, strict=True):
        x, labels = _diagonal(call, operand, term)
        # A size of 1 that others broadcast is summed away, as it counts for each index.
        ones = "".join(label for i, label in enumerate(labels) if _is_one(x.shape[i]) and not _is_one(sizes[label]))
        x, labels = _summed(call, x, labels, "".join(label for label in labels if label not in ones))
        pairs.append((x, labels))
    while len(pairs) > 1:
        elsewhere = result + "".join(labels for _, labels in pairs[2:])
        left = _summed(call, *pairs[0], elsewhere + pairs[1][1])
        right = _summed(call, *pairs[1], elsewhere + pairs[0][1])
        pairs[:2] = [_contracted(call, left, right, elsewhere, sizes)]
    x, labels = _summed(call, *pairs[0], result)
    return _arranged(call, x, labels, result)
