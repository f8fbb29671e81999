"""Attention as one op, forward and backward, whose scores and weights are never a tensor, with dropout or without.

PyTorch traces its own op on the CPU where nothing is dropped, and products, a softmax and dropout elsewhere. It runs
these ops where plans refuse them.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Sequence
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import math_attention

from .dropout import factors, is_drawn_by_pytorch, seed_for

__all__ = ["TRACED", "attend"]

aten = torch.ops.aten
own = torch.ops.pylayout
Tensor = torch.Tensor

_of_pytorch = torch.nn.functional.scaled_dot_product_attention
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _scale(q: Tensor, scale: float | None) -> float:
    return float(q.shape[-1] ** -0.5) if scale is None else scale


def _repeated(q: Tensor, x: Tensor) -> Tensor:
    return x.repeat_interleave(q.shape[1] // x.shape[1], 1)


def _weights(q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None) -> Tensor:
    scores = q @ _repeated(q, k).mT * _scale(q, scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    made: Tensor = aten._safe_softmax(scores, -1)
    return made


def _by_words(x: Tensor) -> Tensor:
    """As (n, l, heads, e) in memory, as plans give what a product reads next."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _like_attended(q: Tensor, k: Tensor, v: Tensor, seed: Tensor | None) -> Tensor:
    """As results of PyTorch's function lie in memory: as q does, where PyTorch has one op for it, else row by row.

    It has none for dropout, for a v of other columns, and for rows whose elements are not side by side.
    """
    one_op = seed is None and q.shape[3] == v.shape[3] and all(each.stride(3) == 1 for each in (q, k, v))
    return torch.empty_like(q) if one_op else q.new_empty((*q.shape[:3], v.shape[3]))


def _kept(weights: Tensor, seed: Tensor | None, p: float) -> Tensor:
    """What weights are multiplied by in dropout."""
    return torch.ones_like(weights) if seed is None else factors(seed, weights.shape, p).to(weights.dtype)


@torch.library.custom_op("pylayout::attention", mutates_args=())
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, seed: Tensor | None, p: float, is_causal: bool,
    scale: float | None,
) -> Tensor:  # fmt: skip
    """Of (n, heads, words, columns); k and v may have fewer heads. seed: of dropout, None where nothing is dropped."""
    weights = _weights(q, k, mask, is_causal, scale)
    return _like_attended(q, k, v, seed).copy_(weights * _kept(weights, seed, p) @ _repeated(q, v))


@attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, seed: Tensor | None, *_: Any) -> Tensor:
    return _like_attended(q, k, v, seed)


@torch.library.custom_op("pylayout::attention_backward", mutates_args=())
def attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, seed: Tensor | None, p: float, is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    weights = _weights(q, k, mask, is_causal, scale)
    kept = _kept(weights, seed, p)
    of_weights = grad @ _repeated(q, v).mT * kept
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True)) * _scale(q, scale)

    def shared(x: Tensor, like: Tensor) -> Tensor:
        return _by_words(x.reshape(x.shape[0], like.shape[1], -1, *x.shape[2:]).sum(2))

    dq, dk, dv = of_scores @ _repeated(q, k), of_scores.mT @ q, (weights * kept).mT @ grad
    return _by_words(dq), shared(dk, k), shared(dv, v)


@attention_backward.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    made = (each.new_empty([each.shape[dim] for dim in (0, 2, 1, 3)]).transpose(1, 2) for each in (q, k, v))
    return next(made), next(made), next(made)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    q, k, v, mask, seed, *ctx.attributes = inputs
    ctx.save_for_backward(q, k, v, mask, seed)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    made = own.attention_backward(grad, *ctx.saved_tensors, *ctx.attributes)
    return *made, None, None, None, None, None


attention.register_autograd(_gradient, setup_context=_keep)


def _suits(q: Any, k: Any, v: Any, mask: Any, is_causal: bool, enable_gqa: bool = False) -> bool:
    given = (q, k, v)
    if not all(each.ndim == 4 and each.device == q.device and each.dtype == q.dtype for each in given):
        return False
    if q.dtype not in _FLOATS or any(each.numel() == 0 for each in given):
        return False
    if not (q.shape[0] == k.shape[0] == v.shape[0] and q.shape[3] == k.shape[3] and k.shape[1:3] == v.shape[1:3]):
        return False
    shares = enable_gqa or k.shape[1] == 1  # one head is broadcast
    if q.shape[1] != k.shape[1] and not (shares and q.shape[1] % k.shape[1] == 0):
        return False
    if mask is None:
        return True
    return mask.ndim <= 4 and mask.dtype in (torch.bool, q.dtype) and not (is_causal or mask.requires_grad)


def _lowered(*given: Any) -> tuple[Any, ...]:
    """As autocast gives them to a product."""
    device = given[0].device.type
    if not torch.is_autocast_enabled(device):
        return given
    dtype = torch.get_autocast_dtype(device)
    return tuple(each.to(dtype) if each is not None and each.dtype in _FLOATS else each for each in given)


# From the softmax back to the product: what is added to the scores (number None), or a mask and the number that is the
# score where the mask does not hold (True) or where it does (False).
Masks = Sequence[tuple[Tensor, float | None, bool]]


def _shown(masks: Masks) -> Tensor:
    """Where the scores are no number of a mask."""
    shown = [mask if shows else mask.logical_not() for mask, number, shows in masks if number is not None]
    return functools.reduce(torch.logical_and, shown)


def _masked(scores: Tensor | None, masks: Masks) -> Tensor | None:
    """The scores with all masks; None: what these make of zeros."""
    for mask, number, shows in reversed(masks):
        if number is None:
            scores = mask if scores is None else scores + mask
        else:
            rest = 0.0 if scores is None else scores
            scores = torch.where(mask, rest, number) if shows else torch.where(mask, number, rest)
    return scores


def _one_mask(masks: Masks, dtype: torch.dtype) -> Tensor | None:
    if masks and all(number == -math.inf for _, number, _ in masks):
        return _shown(masks)
    made = _masked(None, masks)
    return None if made is None else made.to(dtype)


def _seen(q: Tensor, masks: Masks) -> Tensor:
    """Queries; zeros for those whose scores are all numbers of masks, no product, so that no gradient is of them."""
    if all(number in (None, -math.inf) for _, number, _ in masks):
        return q
    return torch.where(_shown(masks).any(-1, keepdim=True), q, 0.0)


def attend(q: Tensor, k: Tensor, v: Tensor, masks: Masks, p: float, scale: float) -> Tensor:
    """What is traced in the place of attention that a model spells (spelled_attention.py).

    Of q (..., l, e), k (..., s, e) and v (..., s, ev), of which k and v may have one head.
    """
    rank, elements = q.ndim, math.prod((*q.shape[:-1], k.shape[-2]))
    drops = p > 0 and not is_drawn_by_pytorch(elements, q.device)
    fits = rank in (3, 4) or (rank > 4 and not masks)
    fits = fits and torch._C._functorch.peek_interpreter_stack() is None  # transforms know no op of torch.library
    if fits and p < 1 and (drops or p == 0) and q.device.type in ("cpu", "ocl"):
        low = _lowered(_seen(q, masks), k, v)
        mask = _one_mask(masks, low[0].dtype)
        if rank == 3:
            mask = mask[:, None] if mask is not None and mask.ndim == 3 else mask
        stacks = [each[:, None] if rank == 3 else each.flatten(0, rank - 4) for each in low]
        if _suits(stacks[0], stacks[1], stacks[2], mask, False):
            seed = seed_for(elements, q.device) if drops else None
            made: Tensor = own.attention(*stacks, mask, seed, p, False, scale).contiguous()  # as products are
            return made[:, 0] if rank == 3 else made.reshape(*q.shape[:-1], v.shape[-1]) if rank > 4 else made
    scores = _masked(q @ k.mT * scale, masks)
    assert scores is not None
    return torch.nn.functional.dropout(scores.softmax(-1), p) @ v


def _traced(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """What is traced in the place of attention: PyTorch's own where that is one op, or this one does not suit.

    Of half precision PyTorch makes products in float32 else, with keys and values as often as queries have heads.
    """
    device = query.device
    elements = math.prod((*query.shape[:-1], key.shape[-2]))
    drops = 0 < dropout_p < 1 and not is_drawn_by_pytorch(elements, device)
    # PyTorch's own op takes heads as many as there are of queries.
    one_op = device.type == "cpu" and query.ndim == key.ndim == 4 and query.shape[1] == key.shape[1]
    if drops or (dropout_p == 0 and not one_op):
        q, k, v, mask = _lowered(query, key, value, attn_mask)
        if device.type in ("cpu", "ocl") and _suits(q, k, v, mask, is_causal, enable_gqa):
            seed = seed_for(elements, device) if drops else None
            return own.attention(q, k, v, mask, seed, float(dropout_p), is_causal, scale)
    return _of_pytorch(
        query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale,
        enable_gqa=enable_gqa,
    )  # fmt: skip


_heads = torch.nn.functional.multi_head_attention_forward
# PyTorch's function, which dynamo leaves whole, but that the attention in it is the one above.
_traced_heads = types.FunctionType(
    _heads.__code__,
    {**vars(torch.nn.functional), "scaled_dot_product_attention": _traced},
    argdefs=_heads.__defaults__,
    closure=_heads.__closure__,
)
_traced_heads.__globals__[_heads.__name__] = _traced_heads  # what modes of torch functions are told to call

# Functions, and what is traced in their places. `flex_attention` is one op with graphs of its own inside, which no plan
# runs; as PyTorch's eager mode computes it it is attention as models spell it.
TRACED: dict[Any, Any] = {
    _of_pytorch: _traced, _heads: _traced_heads, torch.ops.higher_order.flex_attention: math_attention
}  # fmt: skip
