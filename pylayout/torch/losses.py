"""Losses that are traced in the place of PyTorch's.

Cross entropy is one op, forward and backward, in the place of softmax, look-ups and sums. PyTorch's own ops write
log-softmax and two gradients of the size of the logits; a plan reads the logits once forward, and once backward, where
it writes their gradient. PyTorch runs these ops where plans refuse them.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["COMPOSED", "TRACED"]

_of_pytorch = torch.nn.functional.cross_entropy


@torch.library.custom_op("pylayout::cross_entropy", mutates_args=())
def cross_entropy(
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
) -> torch.Tensor:
    """Of logits (n, c) and classes (n)."""
    return _of_pytorch(
        x, target, weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing
    )


@cross_entropy.register_fake
def _(
    x: torch.Tensor, target: torch.Tensor, weight: Any, reduction: str, ignore_index: int, label_smoothing: float
) -> torch.Tensor:
    return x.new_empty(target.shape if reduction == "none" else ())


@torch.library.custom_op("pylayout::cross_entropy_backward", mutates_args=())
def cross_entropy_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
) -> torch.Tensor:
    classes = x.shape[1]
    counts = target != ignore_index
    known = target.where(counts, 0)
    wide = torch.promote_types(x.dtype, torch.float32)  # halves are summed as float32
    each = x.new_ones(classes, dtype=wide) if weight is None else weight.to(wide)
    weights = each[known] * counts
    own, even = weights * (1 - label_smoothing), counts.to(wide) * (label_smoothing / classes)
    made = x.to(wide).softmax(1) * (own + even * each.sum())[:, None] - even[:, None] * each
    made.scatter_add_(1, known[:, None], -own[:, None])
    grad = grad.to(wide) / weights.sum() if reduction == "mean" else grad.to(wide)
    result: torch.Tensor = made * (grad[:, None] if grad.ndim else grad)
    return torch.where(counts[:, None], result, 0).to(x.dtype)


@cross_entropy_backward.register_fake
def _(grad: torch.Tensor, x: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, target, weight, *ctx.attributes = inputs
    ctx.save_for_backward(x, target, weight)


def _gradient(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    made = torch.ops.pylayout.cross_entropy_backward(grad, *ctx.saved_tensors, *ctx.attributes)
    return made, None, None, None, None, None


cross_entropy.register_autograd(_gradient, setup_context=_keep)


def _traced(
    input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
    reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """What is traced in the place of `torch.nn.functional.cross_entropy`: that one where the op does not suit."""
    device = input.device.type
    lowered = torch.is_autocast_enabled(device) and input.dtype != torch.float32
    if lowered and device == "ocl":  # whose autocast computes losses in float32
        input, weight, lowered = input.float(), None if weight is None else weight.float(), False
    if (
        size_average is None
        and reduce is None
        and reduction in ("none", "mean", "sum")
        and input.ndim == 2  # of images PyTorch's ops are faster: their classes are no neighbours in memory
        and target.ndim == 1
        and not target.dtype.is_floating_point
        and input.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and device == target.device.type
        and device in ("cpu", "ocl")
        and not lowered
        and (weight is None or (weight.dtype == input.dtype and not weight.requires_grad))
        and 0 <= label_smoothing <= 1
        and target.shape[0] == input.shape[0]
    ):
        made = torch.ops.pylayout.cross_entropy(
            input, target, weight, reduction, int(ignore_index), float(label_smoothing)
        )
        return made
    return _of_pytorch(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)


_multilabel_of_pytorch = torch.nn.functional.multilabel_margin_loss


def multilabel_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As eager mode has it: labels after the first -1 count for nothing, and the loss of a vector has no dimension.

    PyTorch's decomposition counts them, and gives [1] (2.13). PyTorch takes it for all backends of torch.compile before
    a table of others is asked, so that the function is replaced there.
    """
    classes = x.shape[-1]
    samples, labels = x.reshape(-1, classes), target.reshape(-1, classes)
    places = torch.arange(classes, device=target.device)
    counts = places < torch.where(labels == -1, places, classes).amin(-1, keepdim=True)
    chosen = samples.gather(1, torch.where(counts, labels, 0))
    wanted = ((places == labels[:, :, None]) & counts[:, :, None]).any(1)  # by sample and class
    margins = (1 - chosen[:, :, None] + samples[:, None, :]).clamp_min(0)
    losses = torch.where(counts[:, :, None] & ~wanted[:, None, :], margins, 0).sum((1, 2)) / classes
    reduced = [losses.reshape(x.shape[:-1]), losses.mean(), losses.sum()][reduction]
    return reduced, wanted.to(x.dtype).reshape(target.shape)


def _traced_multilabel(
    input: torch.Tensor, target: torch.Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    suits = size_average is None and reduce is None and reduction in _REDUCTIONS
    if not suits or input.shape != target.shape or input.ndim not in (1, 2) or 0 in input.shape:
        return _multilabel_of_pytorch(input, target, size_average, reduce, reduction)
    return multilabel_margin_loss(input, target, _REDUCTIONS.index(reduction))[0]


_REDUCTIONS = ("none", "mean", "sum")  # by PyTorch's numbers

# Ops as others.
COMPOSED: dict[Any, Any] = {torch.ops.aten.multilabel_margin_loss_forward.default: multilabel_margin_loss}
# Functions, and what is traced in their places.
TRACED: dict[Any, Any] = {_of_pytorch: _traced, _multilabel_of_pytorch: _traced_multilabel}
