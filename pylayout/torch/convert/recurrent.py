"""Recurrent layers, each level of them as one op, of exported modules. torch.compile traces steps, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import recurrent as _ops  # noqa: F401  # defines pylayout::recurrent
from ..call import Call, Operand, require
from ..registry import converter

# The order of gates in the library, by PyTorch's places: i, f, g, o and r, z, n there.
_ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}


def _reordered(call: Call, value: Operand, order: Sequence[int], axis: int) -> Operand:
    """Gates, which lie along the axis, in another order."""
    if len(order) == 1:
        return value
    shape = [*value.shape]
    apart = call.op("reshape", value, [*shape[:axis], len(order), shape[axis] // len(order), *shape[axis + 1 :]])
    gates = call.graph.constant(np.array(order, np.int64))
    made: Operand = call.op("reshape", call.op("index_select", apart, axis, gates), shape)
    return made


def _stacked(call: Call, each: Sequence[Operand]) -> Operand:
    made: Operand = call.op("stack", [*each], 0) if len(each) > 1 else call.reshape(each[0], [1, *each[0].shape])
    return made


class _Level:
    """The weights of a level in the library's order and shapes, and what its op is told."""

    def __init__(self, call: Call, cell: str, params: Sequence[Operand], both: bool, batch_first: bool) -> None:
        self.call, self.batch_first, self.directions = call, batch_first, 2 if both else 1
        self.cell = "rnn" if cell in ("tanh", "relu") else cell
        self.order = _ORDERS[self.cell]
        each = len(params) // self.directions
        self.w, self.r = (_reordered(call, _stacked(call, params[place::each]), self.order, 1) for place in (0, 1))
        self.b = None
        if each == 4:
            rows = _stacked(call, [given for at, given in enumerate(params) if at % each > 1])
            self.b = call.op("reshape", _reordered(call, rows, self.order, 1), [self.directions, -1])
        self.how: dict[str, Any] = {"direction": "bidirectional" if both else "forward", "batch_first": batch_first}
        if cell == "gru":
            self.how["linear_before_reset"] = True
        if self.cell == "rnn":
            self.how["nonlinearity"] = cell

    def turned(self, state: Operand) -> Operand:
        """Of PyTorch's states, (directions, n, hidden), the library's, or the reverse."""
        made: Operand = self.call.op("transpose", state, 0, 1) if self.batch_first else state
        return made

    def run(
        self, x: Operand, states: Sequence[Operand], lengths: Operand | None = None
    ) -> tuple[Operand, list[Operand]]:
        begin = [self.turned(state) for state in states]
        y, *after = self.call.op(self.cell, x, self.w, self.r, self.b, lengths, *begin, **self.how)
        if not self.batch_first:
            y = self.call.op("transpose", y, 1, 2)
        return self.call.op("reshape", y, [*x.shape[:2], -1]), [self.turned(state) for state in after]


def _layers(
    call: Call, cell: str, x: Operand, states: Sequence[Operand], params: Sequence[Operand], has_biases: bool,
    levels: int, both: bool, batch_first: bool,
) -> tuple[Operand, ...]:  # fmt: skip
    """The last level's results, and the states of all levels after the last step."""
    directions, each = 2 if both else 1, 4 if has_biases else 2
    require(x.ndim == 3 and len(params) == levels * directions * each, "projections, or no batch")
    last: list[list[Operand]] = [[] for _ in states]
    for at in range(0, levels * directions, directions):
        level = _Level(call, cell, params[each * at : each * (at + directions)], both, batch_first)
        begin = [call.op("slice", state, [at], [at + directions], [0]) for state in states]
        x, after = level.run(x, begin)
        for kept, state in zip(last, after, strict=True):
            kept.append(state)
    return x, *[kept[0] if levels == 1 else call.op("concat", kept, 0) for kept in last]


def _nothing_of(call: Call, value: Operand) -> Operand:
    made: Operand = call.op("slice", value, [0], [0], [0])
    return made


@converter("pylayout.recurrent.default")
def recurrent(
    call: Call, cell: str, x: Operand, states: Sequence[Operand], params: Sequence[Operand], both: bool,
    batch_first: bool, lengths: Operand | None,
) -> list[Operand]:  # fmt: skip
    y, (h, *c) = _Level(call, cell, params, both, batch_first).run(x, states, lengths)
    return [y, h, c[0] if c else _nothing_of(call, h)]


@converter("pylayout.recurrent_backward.default")
def recurrent_backward(
    call: Call, cell: str, x: Operand, states: Sequence[Operand], params: Sequence[Operand], y: Operand,
    grads: Sequence[Operand], both: bool, batch_first: bool, lengths: Operand | None,
) -> list[Operand]:  # fmt: skip
    level = _Level(call, cell, params, both, batch_first)

    def steps(value: Operand) -> Operand:
        """Results of all steps as the library has them."""
        parted = call.op("reshape", value, [*x.shape[:2], level.directions, -1])
        made: Operand = parted if batch_first else call.op("transpose", parted, 1, 2)
        return made

    begin, after = ([level.turned(state) for state in given] for given in (states, grads[1:]))
    given = [x, level.w, level.r, steps(y), steps(grads[0]), level.b, lengths, *begin]
    if cell == "lstm":
        given.append(None)  # peepholes
    dx, dw, dr, db, *of_states = call.op(f"{level.cell}_backward", *given, *after, **level.how)
    dh, *dc = (level.turned(state) for state in of_states[: len(states)])
    back = [level.order.index(gate) for gate in range(len(level.order))]
    size = dw.shape[1]
    return [
        dx,
        dh,
        dc[0] if dc else _nothing_of(call, dh),
        _reordered(call, dw, back, 1),
        _reordered(call, dr, back, 1),
        _nothing_of(call, call.op("reshape", dw, [-1, 1]))
        if level.b is None
        else _reordered(call, call.op("reshape", db, [2 * level.directions, size]), back, 1),
    ]


@converter("lstm.input", keeps=False, note="with projections; of one sequence without a batch; with dropout")
def lstm(
    call: Call, x: Operand, hx: Sequence[Operand], params: Sequence[Operand], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    require(not (train and dropout > 0), "random")
    return _layers(call, "lstm", x, hx, params, has_biases, num_layers, bidirectional, batch_first)


def _register(name: str, cell: str) -> None:
    def convert(
        call: Call, x: Operand, hx: Operand, params: Sequence[Operand], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        require(not (train and dropout > 0), "random")
        return _layers(call, cell, x, [hx], params, has_biases, num_layers, bidirectional, batch_first)

    converter(f"{name}.input", keeps=False, note="of one sequence without a batch; with dropout")(convert)


_register("gru", "gru")
_register("rnn_tanh", "tanh")
_register("rnn_relu", "relu")
