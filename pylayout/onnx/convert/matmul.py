"""Matrix products: MatMul, Gemm, Einsum."""

from __future__ import annotations

import math
from typing import Any

from ...errors import InvalidArgumentError, ShapeError, UnsupportedError
from ..node import Known, Node, Operand, Result, is_float, numpy_of
from ..registry import converter


@converter("MatMul", since=1)
def matmul(node: Node) -> Result:
    return node.op("matmul", node.x(0), node.x(1))


def _scaled(node: Node, x: Operand, factor: float) -> Operand:
    """x * factor, in the dtype of x; of a constant at once."""
    if factor == 1:
        return x
    made: Operand = node.op("mul", x, node.scalar_like(factor, x))
    return made


@converter("Gemm", since=7)
def gemm(node: Node) -> Result:
    a, b, c = node.x(0), node.x(1), node.optional(2)
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    transpose_a, transpose_b = bool(node.integer("transA", 0)), bool(node.integer("transB", 0))
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(f"A has rank {a.ndim} and B rank {b.ndim}, expected 2 and 2")
    if not (is_float(a) and is_float(b)):
        raise UnsupportedError(f"A is {numpy_of(a)}, expected floating-point numbers")
    m = a.shape[1 if transpose_a else 0]
    n = b.shape[0 if transpose_b else 1]
    # The factor goes where it costs least: into a constant, else into the smaller tensor.
    if isinstance(b, Known) or math.prod(b.shape) <= m * n:
        b = _scaled(node, b, alpha)
        alpha = 1.0
    c = _scaled(node, c, beta) if c is not None and beta != 0 else None
    bias = None
    if c is not None and alpha == 1 and c.shape in ((n,), (1, n)):
        bias, c = node.broadcastable(c, (n,)), None
    if transpose_b and not transpose_a:
        y = node.op("linear", a, b, bias)
    else:
        y = node.op("matmul", a, b, bias, transpose_a=transpose_a, transpose_b=transpose_b)
    y = _scaled(node, y, alpha)
    return y if c is None else node.op("add", y, c)


# ---- Einsum: each step takes two operands to one, by a product of matrices ----


def _diagonal(node: Node, x: Operand, labels: str) -> tuple[Operand, str]:
    """x with repeated labels made one: of `ii` the elements [i, i]."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, second = labels.index(label), labels.index(label, labels.index(label) + 1)
            size = x.shape[first]
            if x.shape[second] != size:
                raise ShapeError(f"label {label} has sizes {size} and {x.shape[second]}, expected the same")
            order = [i for i in range(x.ndim) if i not in (first, second)]
            rest = [x.shape[i] for i in order]
            x = node.op("permute", x, [*order, first, second])
            x = node.op("reshape", x, [*rest, size * size])
            x = node.op("slice", x, [0], [size * size], [len(rest)], [size + 1])
            labels = "".join(labels[i] for i in order) + label
    return x, labels


def _summed(node: Node, x: Operand, labels: str, kept: str) -> tuple[Operand, str]:
    """x summed over the labels that are in no other operand and not in the result."""
    axes = [i for i, label in enumerate(labels) if label not in kept]
    if axes:
        x = node.op("sum", x, axes)
    return x, "".join(label for label in labels if label in kept)


def _arranged(node: Node, x: Operand, labels: str, order: str) -> Operand:
    dims = [labels.index(label) for label in order]
    made: Operand = x if dims == list(range(len(dims))) else node.op("permute", x, dims)
    return made


def _contracted(
    node: Node, left: tuple[Operand, str], right: tuple[Operand, str], kept: str, sizes: dict[str, int]
) -> tuple[Operand, str]:
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
        a = node.op("reshape", _arranged(node, a, in_a, batch + only_a), [*shape(batch + only_a), *[1] * len(only_b)])
        b = _arranged(node, b, in_b, batch + only_b)
        b = node.op("reshape", b, [*shape(batch), *[1] * len(only_a), *shape(only_b)])
        return node.op("mul", a, b), order
    product = math.prod
    a = _arranged(node, a, in_a, batch + only_a + inner)
    b = _arranged(node, b, in_b, batch + inner + only_b)
    a = node.op("reshape", a, [*shape(batch), product(shape(only_a)), product(shape(inner))])
    b = node.op("reshape", b, [*shape(batch), product(shape(inner)), product(shape(only_b))])
    order = batch + only_a + only_b
    return node.op("reshape", node.op("matmul", a, b), shape(order)), order


def _terms(equation: str, operands: list[Operand]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, with letters of their own in place of `...`."""
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise InvalidArgumentError(f"equation {equation!r} has {len(terms)} terms, expected {len(operands)}")
    if len(equation) > 1000 or any(t.count("...") > 1 for t in (*terms, right)):
        raise InvalidArgumentError(f"equation {equation[:100]!r} is not valid")
    letters = [chr(0x100 + i) for i in range(64)]  # none that an equation may use
    most = max(
        (x.ndim - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True) if "..." in t), default=0
    )
    dots = "".join(letters[: max(most, 0)])
    made = []
    for term, operand in zip(terms, operands, strict=True):
        count = operand.ndim - len(term.replace("...", ""))
        if count < 0 or ("..." not in term and count):
            raise ShapeError(f"term {term!r} of the equation does not fit rank {operand.ndim}")
        made.append(term.replace("...", dots[len(dots) - count :]))
    if arrow:
        result = right.replace("...", dots)
    else:
        once = sorted({label for term in made for label in term if label not in dots})
        result = dots + "".join(label for label in once if "".join(made).count(label) == 1)
    known = set("".join(made))
    if any(not label.isalpha() for label in known) or len(set(result)) != len(result) or not set(result) <= known:
        raise InvalidArgumentError(f"equation {equation!r} is not valid")
    return made, result


@converter("Einsum", since=12)
def einsum(node: Node) -> Result:
    operands = [node.x(i) for i in range(len(node.inputs))]
    terms, result = _terms(node.text("equation"), operands)
    sizes: dict[str, int] = {}
    for term, operand in zip(terms, operands, strict=True):
        for label, size in zip(term, operand.shape, strict=True):
            if sizes.setdefault(label, size) != size and 1 not in (sizes[label], size):
                raise ShapeError(f"label {label} has sizes {sizes[label]} and {size}, expected the same")
            sizes[label] = max(sizes[label], size)
    pairs: list[tuple[Any, str]] = []
    for term, operand in zip(terms, operands, strict=True):
        x, labels = _diagonal(node, operand, term)
        # A size of 1 that others broadcast is summed away, as it counts for each index.
        ones = "".join(label for i, label in enumerate(labels) if x.shape[i] == 1 and sizes[label] != 1)
        x, labels = _summed(node, x, labels, "".join(label for label in labels if label not in ones))
        pairs.append((x, labels))
    while len(pairs) > 1:
        elsewhere = result + "".join(labels for _, labels in pairs[2:])
        left = _summed(node, *pairs[0], elsewhere + pairs[1][1])
        right = _summed(node, *pairs[1], elsewhere + pairs[0][1])
        pairs[:2] = [_contracted(node, left, right, elsewhere, sizes)]
    x, labels = _summed(node, *pairs[0], result)
    return _arranged(node, x, labels, result)
