"""Dropout by random numbers that depend on a seed alone, so that backward draws them again and no mask is kept.

PyTorch draws the numbers of a mask on the CPU one after another, 15 ns each, and keeps the mask. Here each call draws a
seed, and an element is dropped by its number (the library's op random_dropout). In attention the weights that are
dropped are never a tensor. PyTorch runs these ops where plans refuse them, with the same numbers.

Of few elements the numbers are eager mode's: drawing them costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .. import ops

__all__ = ["TRACED", "join_seeds", "native_dropout", "own_dropout"]

FEW = 1 << 16  # elements whose numbers PyTorch draws on the CPU

aten = torch.ops.aten
own = torch.ops.pylayout
Tensor = torch.Tensor

_of_pytorch = torch.nn.functional.scaled_dot_product_attention


# ---- seeds

torch.library.define(
    "pylayout::dropout_seeds",
    "(SymInt[] counters, Device device) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag),
)


@torch.library.impl("pylayout::dropout_seeds", "CompositeExplicitAutograd")
def _draw(counters: Sequence[int], device: torch.device) -> Tensor:
    """A seed for each of several dropouts, as (n, 2): a key and a first counter; `counters`: how many each uses."""
    if device.type != "ocl":
        return torch.randint(2**63 - 1, (len(counters), 2))
    from ..ocl.shim import take_counters  # there is such a device only with it

    return torch.tensor([take_counters(device, int(count)) for count in counters], dtype=torch.int64).to(device)


@torch.library.register_fake("pylayout::dropout_seeds")
def _(counters: Sequence[Any], device: torch.device) -> Tensor:
    return torch.empty((len(counters), 2), dtype=torch.int64, device=device)


def _seed(elements: Any, device: torch.device) -> Tensor:
    # The host's numbers need no counters; where it says none, sizes that are late do not matter to it.
    counters = (elements + 3) // 4 if device.type == "ocl" else 0
    made: Tensor = own.dropout_seeds([counters], device)[0]
    return made


def join_seeds(graph: torch.fx.Graph) -> None:
    """Have all seeds of a graph drawn at once, where nothing else draws numbers between them.

    Checkpoints keep seeds, instead of the generator's state to draw them again by.
    """
    random = [node for node in graph.nodes if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())]
    target = own.dropout_seeds.default
    for node in random:
        if node.target is target:
            node.meta.pop("recompute", None)
    if len(random) < 2 or any(node.target is not target for node in random):
        return
    first = random[0]
    counters = [count for node in random for count in node.args[0]]
    if any(node.args[1] != first.args[1] for node in random) or not all(isinstance(each, int) for each in counters):
        return
    with graph.inserting_before(first):
        made = graph.call_function(target, (counters, first.args[1]))
    with first.meta["val"].fake_mode:
        made.meta["val"] = torch.empty((len(counters), 2), dtype=torch.int64, device=first.args[1])
    for number, node in enumerate(random):
        for user in [*node.users]:  # each takes its one row
            assert user.target is aten.select.int and user.args[1:] == (0, 0), user.format_node()
            user.args = (made, 0, number)
        graph.erase_node(node)


# ---- dropout


def _factors(seed: Tensor, shape: Sequence[int], p: float) -> Tensor:
    """What elements are multiplied by, in f32."""
    ones = np.ones([int(size) for size in shape], np.float32)
    return torch.from_numpy(np.array(ops.random_dropout(ones, seed.cpu().numpy(), p))).to(seed.device)


@torch.library.custom_op("pylayout::dropout", mutates_args=())
def dropout(x: Tensor, seed: Tensor, p: float) -> Tensor:
    """x / (1 - p), or 0 where an element is dropped."""
    kept = _factors(seed, x.shape, p) != 0
    return torch.where(kept, x / (1 - p), torch.zeros((), dtype=x.dtype, device=x.device)).contiguous()


@dropout.register_fake
def _(x: Tensor, seed: Tensor, p: float) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("pylayout::dropout_mask", mutates_args=())
def dropout_mask(seed: Tensor, shape: Sequence[int], p: float) -> Tensor:
    """Which elements `dropout` keeps."""
    return _factors(seed, shape, p) != 0


@dropout_mask.register_fake
def _(seed: Tensor, shape: Sequence[int], p: float) -> Tensor:
    return torch.empty(tuple(shape), dtype=torch.bool, device=seed.device)


def _is_drawn_by_pytorch(elements: Any, device: torch.device) -> bool:
    return device.type == "cpu" and statically_known_true(elements <= FEW)


def own_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """What native_dropout is traced as. Backward, which reads the mask, draws it again (gradients.py)."""
    if train is False or p in (0, 1) or x.numel() == 0 or _is_drawn_by_pytorch(x.numel(), x.device):
        return native_dropout(x, p, train)
    seed = _seed(x.numel(), x.device)
    return own.dropout(x, seed, p), own.dropout_mask(seed, x.shape, p)


def native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout as eager mode computes it, from the same random numbers.

    The mask is drawn apart from x, so that it is drawn before a plan and does not divide it.
    """
    if train is False or x.numel() == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    if x.device.type == "ocl":  # numbers are drawn in the order of dimensions, for what is dropped
        blank = torch.empty(x.shape, dtype=torch.bool, device=x.device)
        mask = aten.bernoulli.p(blank, p).logical_not()
        return x * mask * scale, mask
    # Numbers are drawn in the order of memory, that of a tensor made like x.
    strides = torch.empty_like(x, dtype=torch.bool).stride()
    order = sorted(range(x.ndim), key=lambda dim: -strides[dim])
    blank = torch.empty([x.shape[dim] for dim in order], dtype=torch.bool, device=x.device)
    mask = aten.bernoulli.p(blank, 1.0 - p).permute([order.index(dim) for dim in range(x.ndim)])
    return x * mask * scale, mask


# ---- attention


# By PyTorch's ops, where a plan refuses attention with dropout.


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


@torch.library.custom_op("pylayout::dropout_attention", mutates_args=())
def dropout_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, seed: Tensor, p: float, is_causal: bool, scale: float | None
) -> Tensor:
    weights = _weights(q, k, mask, is_causal, scale)
    return _by_words(weights * _factors(seed, weights.shape, p).to(q.dtype) @ _repeated(q, v))


@dropout_attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return q.new_empty([q.shape[0], q.shape[2], q.shape[1], v.shape[3]]).transpose(1, 2)


@torch.library.custom_op("pylayout::dropout_attention_backward", mutates_args=())
def dropout_attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, seed: Tensor, p: float, is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    weights = _weights(q, k, mask, is_causal, scale)
    factors = _factors(seed, weights.shape, p).to(q.dtype)
    of_weights = grad @ _repeated(q, v).mT * factors
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True)) * _scale(q, scale)

    def shared(x: Tensor, like: Tensor) -> Tensor:
        return _by_words(x.unflatten(1, (like.shape[1], -1)).sum(2))

    dq, dk, dv = of_scores @ _repeated(q, k), of_scores.mT @ q, (weights * factors).mT @ grad
    return _by_words(dq), shared(dk, k), shared(dv, v)


@dropout_attention_backward.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    made = (each.new_empty([each.shape[dim] for dim in (0, 2, 1, 3)]).transpose(1, 2) for each in (q, k, v))
    return next(made), next(made), next(made)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    q, k, v, mask, seed, *ctx.attributes = inputs
    ctx.save_for_backward(q, k, v, mask, seed)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    made = own.dropout_attention_backward(grad, *ctx.saved_tensors, *ctx.attributes)
    return *made, None, None, None, None, None


dropout_attention.register_autograd(_gradient, setup_context=_keep)


def _traced(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """What is traced in the place of attention: PyTorch's where nothing is dropped or the op does not suit."""
    given = (query, key, value)
    device = query.device.type
    lowered = torch.is_autocast_enabled(device)
    weights = math.prod((*query.shape[:-1], key.shape[-2]))
    if (
        0 < dropout_p < 1
        and not _is_drawn_by_pytorch(weights, query.device)
        and device in ("cpu", "ocl")
        and all(each.ndim == 4 and each.device == query.device and each.dtype == query.dtype for each in given)
        and query.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and query.shape[0] == key.shape[0] == value.shape[0]
        and key.shape[1] == value.shape[1]
        and (query.shape[1] == key.shape[1] or (enable_gqa and query.shape[1] % key.shape[1] == 0))
        and key.shape[2] == value.shape[2]
        and query.shape[3] == key.shape[3]
        and not any(each.numel() == 0 for each in given)
        and (attn_mask is None or not (is_causal or attn_mask.requires_grad or attn_mask.ndim > 4))
        and (attn_mask is None or attn_mask.dtype in (torch.bool, query.dtype))
    ):
        if lowered:
            dtype = torch.get_autocast_dtype(device)
            given = tuple(each.to(dtype) for each in given)
            if attn_mask is not None and attn_mask.dtype != torch.bool:
                attn_mask = attn_mask.to(dtype)
        return own.dropout_attention(*given, attn_mask, _seed(weights, query.device), float(dropout_p), is_causal, scale)
    return _of_pytorch(
        query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale,
        enable_gqa=enable_gqa,
    )  # fmt: skip


# Functions, and what is traced in their places.
TRACED: dict[Any, Any] = {_of_pytorch: _traced}
