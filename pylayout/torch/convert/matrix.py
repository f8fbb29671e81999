"""Matrix products and attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...sizes import same_sizes
from ..call import FLOATS, Call, Operand, require
from ..registry import converter


def _product(
    call: Call, a: Operand, b: Operand, place: int, bias: Operand | None, added: Operand | None = None, **steps: Any
) -> Operand:
    """a @ b + bias, both of rank 2; `place`: a's among the arguments, before b's; `added`: the residual of post-ops."""
    require(a.dtype in FLOATS, f"dtype {a.dtype}")
    columns, weight = call.transposed(place), call.transposed(place + 1)
    if columns is not None:
        # The gradient of a weight: read by columns, the first matrix need not be transposed. f32, two cores, ms of
        # processor time with and without: 1024 x 3072 by 1024 x 768 21 and 29, 1024 x 30522 by 1024 x 768 195 and 222.
        made: Operand = call.op(
            "matmul", columns, b if weight is None else weight, bias, residual=added, transpose_a=True,
            transpose_b=weight is not None, **steps,
        )  # fmt: skip
        return made
    # A linear layer is traced as products of rows; as it was written, what follows can be fused with it.
    rows = call.unreshaped(a)
    if not (rows.ndim >= 2 and rows.shape[-1] == a.shape[-1]):
        rows = a
    if added is not None:
        added = call.reshape(added, [*rows.shape[:-1], b.shape[1]])
    made = call.op(
        *(("matmul", rows, b) if weight is None else ("linear", rows, weight)), bias, residual=added, **steps
    )
    return call.reshape(made, [a.shape[0], b.shape[1]])


def _in_one(call: Call, whole: bool) -> bool:
    """Whether a product takes what is added to it, and the factors of both, as post-ops: in f32, without roundings
    between. In a plan of f32 passes decide that; of f32 what is not `whole`, a row or column, is added by an op of its
    own, which repeats it.
    """
    return call.dtype() != "f32" or (call.one_by_one and whole)


def _weighted_sum(
    call: Call, product: Callable[..., Operand], c: Operand, shape: Sequence[Any], beta: float, alpha: float
) -> Operand:
    """beta * c + alpha * product; with beta = 0, what c holds does not count."""
    whole = same_sizes(c.shape, shape)
    if not _in_one(call, whole):
        made = product() if alpha == 1 else call.op("mul", product(), float(alpha))
        if beta != 0:
            made = call.op("add", made, c if beta == 1 else call.op("mul", c, float(beta)))
        return made
    if beta == 0:
        return product(post_ops=[f"scale({float(alpha)!r})"]) if alpha != 1 else product()
    steps = [f"scale({alpha / beta!r})"] if alpha != beta else []
    steps.append("add(residual)")
    if beta != 1:
        steps.append(f"scale({float(beta)!r})")
    return product(added=c if whole else call.op("expand", c, list(shape)), post_ops=steps)


@converter("mm.default")
def mm(call: Call, a: Operand, b: Operand) -> Operand:
    return _product(call, a, b, 0, None)


@converter("addmm.default")
def addmm(call: Call, c: Operand, a: Operand, b: Operand, beta: float = 1, alpha: float = 1) -> Operand:
    n = b.shape[1]
    if beta == alpha == 1 and (c.shape == (n,) or (c.shape == (1, n) and call.one_by_one)):
        return _product(call, a, b, 1, call.reshape(c, [n]))
    return _weighted_sum(call, partial(_product, call, a, b, 1, None), c, [a.shape[0], n], beta, alpha)


@converter("baddbmm.default", keeps=False)
def baddbmm(call: Call, c: Operand, a: Operand, b: Operand, beta: float = 1, alpha: float = 1) -> Operand:
    require(a.dtype in FLOATS, f"dtype {a.dtype}")
    return _weighted_sum(call, partial(_matmul, call, a, b), c, [*a.shape[:2], b.shape[2]], beta, alpha)


@converter("bmm.default")
def bmm(call: Call, a: Operand, b: Operand) -> Operand:
    require(a.dtype in FLOATS, f"dtype {a.dtype}")
    made: Operand = call.op("matmul", a, b)
    return made


def _by_groups(call: Call, x: Operand, weight: Operand, ends: Any) -> Operand:
    """Rows times the matrices of their groups; `weight` is the call's second argument."""
    matrices = call.transposed(1)
    made: Operand = call.op(
        "grouped_mm", x, weight if matrices is None else matrices, ends, transpose_weight=matrices is not None
    )
    return made


@converter("_grouped_mm.default", note="groups of columns, or of stacks; a bias; another dtype of the result")
def grouped_mm(
    call: Call, a: Operand, b: Operand, offs: Operand | None = None, bias: Operand | None = None, out_dtype: Any = None
) -> Operand:
    require(
        a.dtype in FLOATS and a.ndim == 2 and offs is not None and bias is None, "groups are not of rows, or a bias"
    )
    if b.ndim == 3:
        return _by_groups(call, a, b, offs)
    columns = call.transposed(0)  # the gradient of weights: a has rows as columns
    x = call.op("permute", a, [1, 0]) if columns is None else columns
    made: Operand = call.op("grouped_mm_backward_weights", x, b, offs)
    return made


@converter("transformers.grouped_mm_fallback.default")
def transformers_grouped_mm(call: Call, input: Operand, weight: Operand, offs: Operand) -> Operand:
    require(input.dtype in FLOATS, f"dtype {input.dtype}")
    return _by_groups(call, input, weight, offs)


@converter("transformers.grouped_mm_fallback_backward.default")
def transformers_grouped_mm_backward(
    call: Call, input: Operand, weight: Operand, offs: Operand, grad_output: Operand
) -> tuple[Operand, Operand]:
    require(input.dtype in FLOATS, f"dtype {input.dtype}")
    matrices = call.transposed(1)
    turned = matrices is not None  # its gradient is turned likewise
    dx = call.op("grouped_mm", grad_output, matrices if turned else weight, offs, transpose_weight=not turned)
    factors = (grad_output, input) if turned else (input, grad_output)
    dw = call.op("grouped_mm_backward_weights", *factors, offs)
    return dx, call.op("permute", dw, [0, 2, 1]) if turned else dw


@converter("mv.default")
def mv(call: Call, a: Operand, b: Operand) -> Operand:
    require(a.dtype in FLOATS, f"dtype {a.dtype}")
    made: Operand = call.op("matmul", a, b)
    return made


def _matmul(call: Call, a: Operand, b: Operand, added: Operand | None = None, **steps: Any) -> Operand:
    made: Operand = call.op("matmul", a, b, residual=added, **steps)
    return made


@converter("addmv.default")
def addmv(call: Call, c: Operand, a: Operand, b: Operand, beta: float = 1, alpha: float = 1) -> Operand:
    require(a.dtype in FLOATS and a.size > 0, f"dtype {a.dtype}, or no elements")
    return _weighted_sum(call, partial(_matmul, call, a, b), c, [a.shape[0]], beta, alpha)


@converter("addbmm.default")
def addbmm(call: Call, c: Operand, a: Operand, b: Operand, beta: float = 1, alpha: float = 1) -> Operand:
    require(a.dtype in FLOATS and a.size > 0 and b.size > 0, f"dtype {a.dtype}, or no elements")
    batch, n, inner = a.shape  # the sum over the batch is one of the product: its inner dimension gets longer
    rows = call.reshape(call.op("permute", a, [1, 0, 2]), [n, batch * inner])
    product = partial(_matmul, call, rows, call.reshape(b, [batch * inner, b.shape[2]]))
    return _weighted_sum(call, product, c, [n, b.shape[2]], beta, alpha)


@converter("dot.default")
def dot(call: Call, a: Operand, b: Operand) -> Operand:
    require(a.dtype in FLOATS, f"dtype {a.dtype}")
    return call.sum_of_products([a, b], 0, False, call.dtype())


def _mask_of(call: Call, q: Operand, mask: Operand | None) -> Operand | None:
    return mask if mask is None or mask.dtype == "bool" else call.cast(mask, q.dtype.name)


def _attention(
    call: Call, q: Operand, k: Operand, v: Operand, mask: Any, causal: bool, scale: Any, seed: Any = None, p: float = 0
) -> Operand:
    made: Operand = call.op(
        "scaled_dot_product_attention", q, k, v, _mask_of(call, q, mask), seed,
        scale=None if scale is None else float(scale), is_causal=causal, enable_gqa=q.shape[1] != k.shape[1],
        dropout_p=float(p),
    )  # fmt: skip
    return made


@converter("_scaled_dot_product_flash_attention_for_cpu.default", note="dropout; where logsumexp is used")
def flash_attention(
    call: Call,
    q: Operand,
    k: Operand,
    v: Operand,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Operand | None = None,
    scale: float | None = None,
) -> Any:
    require(dropout_p == 0, "random")
    return _attention(call, q, k, v, attn_mask, is_causal, scale), None


@converter("pylayout.attention.default")
def attention(
    call: Call, q: Operand, k: Operand, v: Operand, mask: Operand | None, seed: Operand | None, p: float,
    is_causal: bool, scale: float | None,
) -> Operand:  # fmt: skip
    return _attention(call, q, k, v, mask, is_causal, scale, seed, p)


@converter("pylayout.attention_backward.default")
def attention_backward(
    call: Call, grad: Operand, q: Operand, k: Operand, v: Operand, mask: Operand | None, seed: Operand | None,
    p: float, is_causal: bool, scale: float | None,
) -> Any:  # fmt: skip
    made = call.op(
        "scaled_dot_product_attention_backward", q, k, v, grad, _mask_of(call, q, mask), seed,
        scale=None if scale is None else float(scale), is_causal=is_causal, enable_gqa=q.shape[1] != k.shape[1],
        dropout_p=float(p),
    )  # fmt: skip
    return tuple(made)
