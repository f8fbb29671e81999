"""Recurrent layers, each level of them as one op, of exported modules. torch.compile traces steps, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def _layers(
    call: Call, cell: str, x: Operand, states: Sequence[Operand], params: Sequence[Operand], has_biases: bool,
    levels: int, both: bool, batch_first: bool, options: dict[str, Any],
) -> tuple[Operand, ...]:  # fmt: skip
    """The last level's results, and the states of all levels after the last step."""
    directions, each = 2 if both else 1, 4 if has_biases else 2
    require(x.ndim == 3 and len(params) == levels * directions * each, "projections, or no batch")
    n, steps = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
    last: list[list[Operand]] = [[] for _ in states]
    for level in range(levels):
        first = level * directions
        own = [params[each * at : each * (at + 1)] for at in range(first, first + directions)]
        w, r = (_stacked(call, [_gates(call, cell, given[place]) for given in own]) for place in (0, 1))
        b = None
        if has_biases:
            b = _stacked(
                call, [call.op("concat", [_gates(call, cell, given[place]) for place in (2, 3)], 0) for given in own]
            )
        begin = [call.op("slice", state, [first], [first + directions], [0]) for state in states]
        if batch_first:
            begin = [call.op("transpose", state, 0, 1) for state in begin]
        y, *after = call.op(
            cell, x, w, r, b, None, *begin, direction="bidirectional" if both else "forward", batch_first=batch_first,
            **options,
        )  # fmt: skip
        for kept, state in zip(last, after, strict=True):
            kept.append(call.op("transpose", state, 0, 1) if batch_first else state)
        if not batch_first:
            y = call.op("transpose", y, 1, 2)
        x = call.op("reshape", y, [n, steps, -1] if batch_first else [steps, n, -1])
    return x, *[kept[0] if levels == 1 else call.op("concat", kept, 0) for kept in last]


@converter("lstm.input", keeps=False, note="with projections; of one sequence without a batch; with dropout")
def lstm(
    call: Call, x: Operand, hx: Sequence[Operand], params: Sequence[Operand], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    require(not (train and dropout > 0), "random")
    return _layers(call, "lstm", x, hx, params, has_biases, num_layers, bidirectional, batch_first, {})


def _register(name: str, cell: str, options: dict[str, Any]) -> None:
    def convert(
        call: Call, x: Operand, hx: Operand, params: Sequence[Operand], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        require(not (train and dropout > 0), "random")
        return _layers(call, cell, x, [hx], params, has_biases, num_layers, bidirectional, batch_first, options)

    converter(f"{name}.input", keeps=False, note="of one sequence without a batch; with dropout")(convert)


_register("gru", "gru", {"linear_before_reset": True})
_register("rnn_tanh", "rnn", {"nonlinearity": "tanh"})
_register("rnn_relu", "rnn", {"nonlinearity": "relu"})
