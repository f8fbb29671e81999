"""Matrix products: MatMul, Gemm, Einsum."""

from __future__ import annotations

import math

from ...einsum import contract
from ...errors import ShapeError, UnsupportedError
from ...sizes import same_sizes
from ..node import Node, dtype_text, is_float, numpy_of
from ..operand import Few, Known, Operand, Result
from ..registry import converter
from .quantized import few_bits


@converter("MatMul", since=1)
def matmul(node: Node) -> Result:
    a, b = node.x(0), node.x(1)
    made = few_bits(node, a, b) if isinstance(b, Few) else None
    if made is None:
        made = node.op("matmul", a, b) if is_float(a) else _of_integers(node, a, b)
    return made


def _of_integers(node: Node, a: Operand, b: Operand) -> Operand:
    """Sums of products in as many bits as the elements have; a column is not made for them, nor a row."""
    if numpy_of(a) != numpy_of(b) or numpy_of(a).kind not in "iu":
        raise UnsupportedError(f"A is {numpy_of(a)} and B {numpy_of(b)}, expected the same numbers")
    if 0 in (a.ndim, b.ndim) or not same_sizes(a.shape[-1:], b.shape[-2:][:1]):
        raise ShapeError(f"A has shape {list(a.shape)} and B {list(b.shape)}, expected as many columns as rows")
    is_row, is_column = a.ndim == 1, b.ndim == 1
    a = node.op("unsqueeze", node.op("unsqueeze", a, 0) if is_row else a, -1)
    b = node.op("unsqueeze", node.op("unsqueeze", b, 1) if is_column else b, -3)
    rank = max(a.ndim, b.ndim)
    sums: Operand = node.op(
        "pointwise", [a, b], "y0 = x0 * x1", reductions="reduce_y0 += y0", dim=[rank - 2], dtype=dtype_text(a)
    )
    for wanted, dim in ((is_column, -1), (is_row, rank - 3)):
        sums = node.op("squeeze", sums, dim) if wanted else sums
    return sums


def scaled(node: Node, x: Operand, factor: float) -> Operand:
    """x * factor, in the dtype of x; of a constant at once."""
    if factor == 1:
        return x
    made: Operand = node.op("mul", x, node.scalar_like(factor, x))
    return made


def product_sum(node: Node) -> Operand:
    """alpha * A @ B + beta * C, as the attributes and the inputs of a node say."""
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
    few = b if isinstance(b, Few) and alpha == 1 and not transpose_a else None
    if few is None and (isinstance(b, Known) or math.prod(b.shape) <= m * n):
        b = scaled(node, b, alpha)
        alpha = 1.0
    c = scaled(node, c, beta) if c is not None and beta != 0 else None
    bias = None
    if c is not None and alpha == 1 and c.shape in ((n,), (1, n)):
        bias, c = node.broadcastable(c, (n,)), None
    made = None if few is None else few_bits(node, a, few.transposed() if transpose_b else few, bias)
    if made is not None:
        y = made
    elif transpose_b and not transpose_a:
        y = node.op("linear", a, b, bias)
    else:
        y = node.op("matmul", a, b, bias, transpose_a=transpose_a, transpose_b=transpose_b)
    y = scaled(node, y, alpha)
    return y if c is None else node.op("add", y, c)


@converter("Gemm", since=7)
def gemm(node: Node) -> Result:
    return product_sum(node)


@converter("Einsum", since=12)
def einsum(node: Node) -> Result:
    return contract(node.op, node.text("equation"), [node.x(i) for i in range(len(node.inputs))])
