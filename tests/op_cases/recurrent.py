"""Recurrent layers, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, into

CASES: list[Case] = []
add = into(CASES)

RECURRENT = ("x", "w", "r", "b", "sequence_lens", "initial_h", "initial_c", "p")
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def recurrent(torch: Any, op: str, given: dict[str, Any], attributes: dict[str, Any]) -> list[Any]:
    """ONNX's LSTM, GRU and RNN in float64, one sequence and one step at a time."""
    a = {
        "direction": "forward",
        "batch_first": False,
        "linear_before_reset": False,
        "nonlinearity": "tanh",
    } | attributes
    g = given
    x = g["x"].transpose(0, 1) if a["batch_first"] else g["x"]
    (steps, batch, _), (directions, _, hidden) = x.shape, g["r"].shape
    states = {n: g[n].transpose(0, 1) if a["batch_first"] else g[n] for n in ("initial_h", "initial_c") if n in g}
    zeros = torch.zeros(hidden, dtype=x.dtype)
    y = [[[zeros] * batch for _ in range(directions)] for _ in range(steps)]
    last = [[[zeros] * batch for _ in range(directions)] for _ in range(2)]
    sigma = torch.sigmoid
    for d in range(directions):
        w, r = (g[n][d].reshape(GATES[op], hidden, -1) for n in "wr")
        wb, rb = g["b"][d].reshape(2, GATES[op], hidden) if "b" in g else zeros.expand(2, GATES[op], hidden)
        p = g["p"][d].reshape(3, hidden) if "p" in g else zeros.expand(3, hidden)
        for n in range(batch):
            h, c = (states[s][d, n] if s in states else zeros for s in ("initial_h", "initial_c"))
            order = range(int(g["sequence_lens"][n]) if "sequence_lens" in g else steps)
            for t in reversed(order) if a["direction"] == "reverse" or d else order:
                xs = [w[k] @ x[t, n] + wb[k] for k in range(GATES[op])]
                hs = [r[k] @ h + rb[k] for k in range(GATES[op])]
                if op == "lstm":
                    i, f = sigma(xs[0] + hs[0] + p[0] * c), sigma(xs[2] + hs[2] + p[2] * c)
                    c = f * c + i * torch.tanh(xs[3] + hs[3])
                    h = sigma(xs[1] + hs[1] + p[1] * c) * torch.tanh(c)
                elif op == "gru":
                    z, reset = sigma(xs[0] + hs[0]), sigma(xs[1] + hs[1])
                    new = reset * hs[2] if a["linear_before_reset"] else r[2] @ (reset * h) + rb[2]
                    h = (1 - z) * torch.tanh(xs[2] + new) + z * h
                else:
                    h = xs[0] + hs[0]
                    h = h.relu() if a["nonlinearity"] == "relu" else torch.tanh(h)
                y[t][d][n] = h
            last[0][d][n], last[1][d][n] = h, c

    def stacked(rows: Any) -> Any:
        return torch.stack([stacked(row) for row in rows]) if isinstance(rows, list) else rows

    results = [stacked(y) if steps else torch.zeros(0, directions, batch, hidden), *map(stacked, last)]
    results = results[: 3 if op == "lstm" else 2]
    if a["batch_first"]:
        results = [results[0].permute(2, 0, 1, 3), *(r.transpose(0, 1) for r in results[1:])]
    return results


def recurrent_tensors(op: str, names: str, sizes: tuple[int, ...], attributes: dict[str, Any]):
    """Tensors of the given names, None for the others, for (steps, batch, features, hidden)."""
    steps, batch, features, hidden = sizes
    directions, rows = 2 if attributes.get("direction") == "bidirectional" else 1, GATES[op] * hidden
    first = attributes.get("batch_first", False)
    state = (batch, directions, hidden) if first else (directions, batch, hidden)
    shapes = {
        "x": (batch, steps, features) if first else (steps, batch, features),
        "w": (directions, rows, features),
        "r": (directions, rows, hidden),
        "b": (directions, 2 * rows),
        "initial_h": state,
        "initial_c": state,
        "p": (directions, 3 * hidden),
    }

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        made: list[np.ndarray | None] = []
        for name in RECURRENT[: 8 if op == "lstm" else 6]:
            if name == "sequence_lens":
                made.append(rng.integers(0, steps + 1, batch).astype(np.int32) if name in names.split() else None)
            else:
                made.append(rng.uniform(-1, 1, shapes[name]).astype("f4") if name in names.split() else None)
        return made

    return make


def add_recurrent(op: str, names: str, sizes: tuple[int, ...], **attributes: Any) -> None:
    used = [name for name in RECURRENT if name in names.split()]

    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        return recurrent(torch, op, dict(zip(used, t, strict=True)), a)

    tensors = recurrent_tensors(op, names, sizes, attributes)
    add(op, tensors, reference, name=f"{names} {sizes}", **attributes)

    # The gradients: by all inputs but the lengths, whether they are given or not.
    floating = [name for name in RECURRENT[: 8 if op == "lstm" else 6] if name != "sequence_lens"]

    def backward_tensors(rng: np.random.Generator) -> list[np.ndarray | None]:
        import torch

        made = tensors(rng)
        given = {name: t for name, t in zip(RECURRENT, made, strict=False) if t is not None}
        results = recurrent(torch, op, {k: torch.from_numpy(v).double() for k, v in given.items()}, attributes)
        grads = [rng.uniform(-1, 1, r.shape).astype("f4") for r in results]
        return [*made[:3], results[0].numpy().astype("f4"), grads[0], *made[3:], *grads[1:]]

    def backward_reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        more = [name for name in used if name not in "xwr"]
        given = dict(zip(["x", "w", "r", "y", "grad", *more, "grad_h", "grad_c"], t, strict=False))
        grads = [given.pop(name) for name in ("grad", "grad_h", "grad_c") if name in given]
        del given["y"]
        absent = recurrent_tensors(op, " ".join(RECURRENT), sizes, attributes)(np.random.default_rng(0))
        for name, tensor in zip(RECURRENT, absent, strict=False):
            if name in floating and name not in given:
                given[name] = torch.zeros(tensor.shape, dtype=t[0].dtype)
        by = [given[name].requires_grad_() for name in floating]
        return list(torch.autograd.grad(recurrent(torch, op, given, a), by, grads))

    add(f"{op}_backward", backward_tensors, backward_reference, name=f"{names} {sizes}", **attributes)


for _op in GATES:
    add_recurrent(_op, "x w r", (5, 3, 7, 19))
    add_recurrent(_op, "x w r b initial_h", (6, 2, 4, 5), direction="bidirectional")
    add_recurrent(_op, "x w r b", (4, 1, 3, 32), direction="reverse", batch_first=True)
    add_recurrent(_op, "x w r b sequence_lens initial_h", (6, 5, 3, 17), direction="bidirectional", batch_first=True)
add_recurrent("lstm", "x w r b sequence_lens initial_h initial_c p", (7, 4, 5, 18), direction="bidirectional")
add_recurrent("lstm", "x w r b initial_h initial_c", (3, 2, 5, 16))
add_recurrent("gru", "x w r b sequence_lens initial_h", (7, 4, 5, 18), linear_before_reset=True)
add_recurrent("gru", "x w r b", (3, 2, 5, 33), linear_before_reset=True, direction="bidirectional")
add_recurrent("rnn", "x w r b", (3, 2, 5, 6), nonlinearity="relu")
