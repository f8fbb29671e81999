"""Recurrent layers, each level of them as one op, of exported modules. torch.compile traces steps, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import recurrent as _ops  # noqa: F401  # defines pylayout::recurrent
from ..call import Call, Operand, require
from ..registry import converter

# The order of gates in the library, by PyTorch's places: i, f, g, o and r, z, n there.
_ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}


def _gates(call: Call, cell: str, weight: Operand) -> Operand:
    """Rows of a weight, or a bias, in the library's order."""
    order = _ORDERS[cell]
    if len(order) == 1:
        return weight
    parts = call.op("split", weight, [weight.shape[0] // len(order)] * len(order), 0)
    made: Operand = call.op("concat", [parts[gate] for gate in order], 0)
    return made


def _stacked(call: Call, each: Sequence[Operand]) -> Operand:
    made: Operand = call.op("stack", [*each], 0)
    return made


class _Level:
    """The weights of a level in the library's order and shapes, and what its op is told."""

    def __init__(
        self, call: Call, cell: str, params: Sequence[Operand], has_biases: bool, both: bool, batch_first: bool
    ) -> None:
        self.call, self.batch_first, self.directions = call, batch_first, 2 if both else 1
        self.cell = "rnn" if cell in ("tanh", "relu") else cell
        each = 4 if has_biases else 2
        own = [params[each * at : each * (at + 1)] for at in range(self.directions)]
        self.w, self.r = (_stacked(call, [_gates(call, self.cell, given[place]) for given in own]) for place in (0, 1))
        self.b = None
        if has_biases:
            biases = [[_gates(call, self.cell, given[place]) for place in (2, 3)] for given in own]
            self.b = _stacked(call, [call.op("concat", pair, 0) for pair in biases])
        self.how: dict[str, Any] = {"direction": "bidirectional" if both else "forward", "batch_first": batch_first}
        if cell == "gru":
            self.how["linear_before_reset"] = True
        if self.cell == "rnn":
            self.how["nonlinearity"] = cell

    def turned(self, state: Operand) -> Operand:
        """Of PyTorch's states, (directions, n, hidden), the library's, or the reverse."""
        made: Operand = self.call.op("transpose", state, 0, 1) if self.batch_first else state
        return made

    def run(self, x: Operand, states: Sequence[Operand]) -> tuple[Operand, list[Operand]]:
        begin = [self.turned(state) for state in states]
        y, *after = self.call.op(self.cell, x, self.w, self.r, self.b, None, *begin, **self.how)
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
        level = _Level(call, cell, params[each * at : each * (at + directions)], has_biases, both, batch_first)
        begin = [call.op("slice", state, [at], [at + directions], [0]) for state in states]
        x, after = level.run(x, begin)
        for kept, state in zip(last, after, strict=True):
            kept.append(state)
    return x, *[kept[0] if levels == 1 else call.op("concat", kept, 0) for kept in last]


@converter("pylayout.recurrent.default")
def recurrent(
    call: Call, cell: str, x: Operand, states: Sequence[Operand], params: Sequence[Operand], both: bool,
    batch_first: bool,
) -> list[Operand]:  # fmt: skip
    biases = len(params) == (8 if both else 4)
    y, h, *c = _layers(call, cell, x, states, params, biases, 1, both, batch_first)
    return [y, h, c[0] if c else call.op("slice", h, [0], [0], [0])]


@converter("pylayout.recurrent_backward.default")
def recurrent_backward(
    call: Call, cell: str, x: Operand, states: Sequence[Operand], params: Sequence[Operand], y: Operand,
    grads: Sequence[Operand], both: bool, batch_first: bool,
) -> list[Operand]:  # fmt: skip
    biases = len(params) == (8 if both else 4)
    level = _Level(call, cell, params, biases, both, batch_first)
    directions = level.directions

    def steps(value: Operand) -> Operand:
        """Results of all steps as the library has them."""
        parted = call.op("reshape", value, [*x.shape[:2], directions, -1])
        made: Operand = parted if batch_first else call.op("transpose", parted, 1, 2)
        return made

    begin, after = ([level.turned(state) for state in given] for given in (states, grads[1:]))
    given = [x, level.w, level.r, steps(y), steps(grads[0]), level.b, None, *begin]
    if cell == "lstm":
        given.append(None)  # peepholes
    dx, dw, dr, db, *of_states = call.op(f"{level.cell}_backward", *given, *after, **level.how)

    def gates(value: Operand) -> Operand:
        """Rows, which are the second dimension, in PyTorch's order of gates."""
        order = _ORDERS[level.cell]
        if len(order) == 1:
            return value
        parts = call.op("split", value, [value.shape[1] // len(order)] * len(order), 1)
        made: Operand = call.op("concat", [parts[order.index(gate)] for gate in range(len(order))], 1)
        return made

    of_w, of_r = (gates(value) for value in (dw, dr))
    size = dw.shape[1]
    nothing = [0], [0], [0]
    return [
        dx,
        level.turned(of_states[0]),
        level.turned(of_states[1]) if cell == "lstm" else call.op("slice", level.turned(of_states[0]), *nothing),
        of_w,
        of_r,
        gates(call.op("reshape", db, [2 * directions, size]))
        if biases
        else call.op("slice", call.op("reshape", dw, [-1, 1]), *nothing),
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
