"""Recurrent layers."""

from __future__ import annotations

from typing import Any

from ...errors import UnsupportedError
from ..node import Node
from ..operand import Result
from ..registry import converter

# The activations that each op of the library has, for one direction.
_ACTIVATIONS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"]}


def _arguments(node: Node, r: Any, kind: str) -> dict[str, Any]:
    """What the three have in common; refuses what the library has not. r: the weights of the states."""
    x = node.x(0)
    direction = node.text("direction", "forward", ("forward", "reverse", "bidirectional"))
    hidden = node.integer("hidden_size", r.shape[-1])
    if hidden != r.shape[-1]:
        raise UnsupportedError(f"attribute hidden_size is {hidden}, expected {r.shape[-1]} (of the weights)")
    if node.number("clip", None) is not None:
        raise UnsupportedError("attribute clip is given, expected no limit")
    if node.numbers("activation_alpha", []) or node.numbers("activation_beta", []):
        raise UnsupportedError("attribute activation_alpha or activation_beta is given, expected none")
    arguments = {
        "b": node.optional(3),
        "sequence_lens": node.optional(4),
        "initial_h": node.optional(5),
        "direction": direction,
        "batch_first": bool(node.integer("layout", 0)),
    }
    directions = 2 if direction == "bidirectional" else 1
    given = [name.lower() for name in node.texts("activations", [])]
    if kind == "RNN":
        kinds = set(given) or {"tanh"}
        if len(kinds) != 1 or not kinds <= {"tanh", "relu"} or len(given) not in (0, directions):
            raise UnsupportedError(f"attribute activations is {given}, expected Tanh or Relu for all directions")
        arguments["nonlinearity"] = kinds.pop()
    elif given and given != _ACTIVATIONS[kind] * directions:
        expected = ", ".join(_ACTIVATIONS[kind] * directions)
        raise UnsupportedError(f"attribute activations is {given}, expected {expected}")
    if x.ndim != 3:
        raise UnsupportedError(f"x has rank {x.ndim}, expected 3")
    return arguments


def long_short_term(node: Node, w: Any, r: Any) -> Result:
    """`LSTM` with these weights, operands or arrays."""
    if node.integer("input_forget", 0):
        raise UnsupportedError("attribute input_forget is 1, expected 0")
    arguments = _arguments(node, r, "LSTM")
    return list(node.op("lstm", node.x(0), w, r, initial_c=node.optional(6), p=node.optional(7), **arguments))


@converter("LSTM", since=7, note="Sigmoid and Tanh, no clip, no input_forget")
def lstm(node: Node) -> Result:
    return long_short_term(node, node.x(1), node.x(2))


@converter("GRU", since=7, note="Sigmoid and Tanh, no clip")
def gru(node: Node) -> Result:
    before = bool(node.integer("linear_before_reset", 0))
    arguments = _arguments(node, node.x(2), "GRU")
    return list(node.op("gru", node.x(0), node.x(1), node.x(2), linear_before_reset=before, **arguments))


@converter("RNN", since=7, note="Tanh or Relu, no clip")
def rnn(node: Node) -> Result:
    return list(node.op("rnn", node.x(0), node.x(1), node.x(2), **_arguments(node, node.x(2), "RNN")))
