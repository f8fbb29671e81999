"""Recurrent layers of one level as one op, forward and backward, where PyTorch has a chain of ops for each step.

PyTorch runs these ops where programs refuse them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["OF_PYTORCH", "OF_SEQUENCES", "Rows"]

aten = torch.ops.aten
OF_PYTORCH = {"lstm": aten.lstm.input, "gru": aten.gru.input, "tanh": aten.rnn_tanh.input, "relu": aten.rnn_relu.input}
# The same of sequences of different lengths, whose steps that take part lie one after another.
OF_SEQUENCES = {"lstm": aten.lstm.data, "gru": aten.gru.data, "tanh": aten.rnn_tanh.data, "relu": aten.rnn_relu.data}


class Rows(torch.autograd.Function):
    """Rows of x by their numbers, no one more than once where it counts; `back`: the numbers that bring them back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(there, back)
        return x.index_select(0, there)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        there, back = ctx.saved_tensors
        return Rows.apply(grad, back, there), None, None  # type: ignore[no-untyped-call]


def _by_pytorch(
    cell: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], both: bool, batch_first: bool,
    lengths: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    biases = len(params) == (8 if both else 4)
    given = list(states) if cell == "lstm" else states[0]
    if lengths is None:
        y, *last = OF_PYTORCH[cell].decompose(x, given, list(params), biases, 1, 0.0, False, both, batch_first)
    else:  # steps outermost, sequences in the order of their lengths
        takes_part = torch.arange(x.shape[0])[:, None] < lengths.cpu()
        places = takes_part.flatten().nonzero().flatten().to(x.device)
        rows = x.flatten(0, 1).index_select(0, places)
        made, *last = OF_SEQUENCES[cell].decompose(
            rows, takes_part.sum(1), given, list(params), biases, 1, 0.0, False, both
        )
        y = made.new_zeros(takes_part.numel(), made.shape[1]).index_copy(0, places, made).unflatten(0, x.shape[:2])
    # PyTorch 2.11 gives the last states of an LSTM a dimension more.
    return [y, *(each.reshape(state.shape) for each, state in zip(last, states, strict=True))]


def _gradients_by_pytorch(
    cell: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], grads: Sequence[Tensor], both: bool,
    batch_first: bool, lengths: Tensor | None, create_graph: bool,
) -> list[Tensor]:  # fmt: skip
    inputs = [
        each if create_graph and each.requires_grad else each.detach().requires_grad_()
        for each in (x, *states, *params)
    ]
    at = 1 + len(states)
    # The kernel of an op is below autograd, which is wanted here.
    autograd = torch._C.DispatchKey.AutogradFunctionality
    with torch._C._SetExcludeDispatchKeyGuard(autograd, False), torch.enable_grad():
        made = _by_pytorch(cell, inputs[0], inputs[1:at], inputs[at:], both, batch_first, lengths)
    found: tuple[Tensor, ...] = torch.autograd.grad(made, inputs, list(grads), create_graph=create_graph)
    return list(found)


@torch.library.custom_op("pylayout::recurrent", mutates_args=())
def recurrent(
    cell: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], both: bool, batch_first: bool,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The results of all steps and the last states, in PyTorch's shapes; of one state the second is empty.

    lengths: of sequences, descending, steps outermost; of steps behind them the results are 0.
    """
    plain = torch.contiguous_format
    made = _by_pytorch(cell, x, states, params, both, batch_first, lengths)
    y, h, *c = (each.clone(memory_format=plain) for each in made)
    return y, h, c[0] if c else h[:0].clone()


@recurrent.register_fake
def _(
    cell: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], both: bool, batch_first: bool,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    h = states[0]
    y = x.new_empty((*x.shape[:2], h.shape[2] * (2 if both else 1)))
    return y, h.new_empty(h.shape), h.new_empty((h.shape[0] if len(states) > 1 else 0, *h.shape[1:]))


@torch.library.custom_op("pylayout::recurrent_backward", mutates_args=())
def recurrent_backward(
    cell: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], y: Tensor, grads: Sequence[Tensor],
    both: bool, batch_first: bool, lengths: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of x, of the first states, and of the weights of x, of the state and the biases, those of both
    directions, and of both biases, side by side. `grads`: of the results of all steps and of the last states. What
    there is none of is empty."""
    dx, *rest = _gradients_by_pytorch(cell, x, states, params, grads, both, batch_first, lengths, False)
    dh, *dc = rest[: len(states)]
    of_params = rest[len(states) :]
    each = len(params) // (2 if both else 1)
    dw, dr = (torch.stack(of_params[place::each]) for place in (0, 1))
    db = (
        torch.stack([given for at, given in enumerate(of_params) if at % each > 1]) if each == 4 else dw.new_empty(0, 1)
    )
    return dx.contiguous(), dh.contiguous(), dc[0].contiguous() if dc else dh[:0].clone(), dw, dr, db


@recurrent_backward.register_fake
def _(
    cell: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], y: Tensor, grads: Sequence[Tensor],
    both: bool, batch_first: bool, lengths: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    h, (w, r, *biases) = states[0], params[: len(params) // (2 if both else 1)]
    directions = 2 if both else 1
    return (
        x.new_empty(x.shape),
        h.new_empty(h.shape),
        h.new_empty((h.shape[0] if len(states) > 1 else 0, *h.shape[1:])),
        w.new_empty((directions, *w.shape)),
        r.new_empty((directions, *r.shape)),
        w.new_empty((2 * directions, w.shape[0]) if biases else (0, 1)),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.cell, x, states, params, ctx.both, ctx.batch_first, lengths = inputs
    ctx.states = len(states)
    ctx.save_for_backward(x, *states, *params, output[0], lengths)


def _gradient(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
    x, *rest, y, lengths = ctx.saved_tensors
    states, params = rest[: ctx.states], rest[ctx.states :]
    grads = grads[: 1 + ctx.states]
    if torch.is_grad_enabled():  # a gradient of the gradient is asked for
        made = _gradients_by_pytorch(ctx.cell, x, states, params, grads, ctx.both, ctx.batch_first, lengths, True)
        at = 1 + ctx.states
        return None, made[0], made[1:at], made[at:], None, None, None
    dx, *of_states, dw, dr, db = torch.ops.pylayout.recurrent_backward(
        ctx.cell, x, states, params, y, grads, ctx.both, ctx.batch_first, lengths
    )
    of_params: list[Tensor] = []
    for at in range(len(dw)):
        of_params += [dw[at], dr[at], *db[2 * at : 2 * at + 2].unbind()]
    return None, dx, of_states[: ctx.states], of_params, None, None, None


recurrent.register_autograd(_gradient, setup_context=_keep)
