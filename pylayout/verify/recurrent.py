"""Exact recurrent layers: every step in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounds import FUNCTION, LOOP, SPREAD, UNIT, sum_bound
from .functions import apply
from .reference import Full, register

Array = NDArray[Any]


@register("lstm", "gru", "rnn")
class Recurrent(Full):
    def compute(self) -> Any:
        lstm = self.case.op == "lstm"
        x, w, r, b = (self.double(i) for i in range(4))
        assert x is not None and w is not None and r is not None
        first = bool(self.attribute("batch_first", False))
        if first:
            x = np.swapaxes(x, 0, 1)
        steps, batch, _ = x.shape
        directions, _, hidden = r.shape
        lengths = self.tensors[4] if len(self.tensors) > 4 else None
        if lengths is None:
            lengths = np.full(batch, steps)

        def state(number: int) -> Array:
            given = self.double(number)
            if given is None:
                return np.zeros((directions, batch, hidden))
            return np.swapaxes(given, 0, 1) if first else given

        h0 = state(5)
        c0 = state(6) if lstm else np.zeros_like(h0)
        peephole = self.double(7) if lstm else None
        y = np.zeros((steps, directions, batch, hidden))
        last_h, last_c = np.zeros_like(h0), np.zeros_like(h0)
        for d in range(directions):
            backwards = self.attribute("direction", "forward") == "reverse" or d == 1
            h, c = h0[d].copy(), c0[d].copy()
            bias = np.zeros(2 * w.shape[1]) if b is None else b[d]
            p = np.zeros(3 * hidden) if peephole is None else peephole[d]
            for number in range(steps):
                t = steps - 1 - number if backwards else number
                active = (t < lengths)[:, None]
                new_h, new_c = self._step(x[t], h, c, w[d], r[d], bias, p, hidden)
                h, c = np.where(active, new_h, h), np.where(active, new_c, c)
                y[t, d] = np.where(active, h, 0)
            last_h[d], last_c[d] = h, c
        # Each step's gates are sums of features + hidden products of size 1 together; what a step is off by, the next
        # ones forget about as fast as they forget their state, within some ten steps.
        terms = w.shape[2] + hidden
        off = 10 * LOOP * SPREAD * UNIT * (1 + np.sqrt(terms) / 8)
        if self.dtype != "f32":
            off = off + 10 * 2.0 ** -(11 if self.dtype == "f16" else 8)  # states are kept in that dtype
        if first:
            y, last_h, last_c = y.transpose(2, 0, 1, 3), np.swapaxes(last_h, 0, 1), np.swapaxes(last_c, 0, 1)
        found = [(y, off, self.dtype), (last_h, off, self.dtype)]
        return [*found, (last_c, 4 * off, self.dtype)] if lstm else found

    def _step(
        self, x: Array, h: Array, c: Array, w: Array, r: Array, bias: Array, p: Array, hidden: int
    ) -> tuple[Array, Array]:
        wb, rb = np.split(bias, 2)
        left = x @ w.T + wb
        if self.case.op == "rnn":
            return apply(str(self.attribute("nonlinearity", "tanh")), left + h @ r.T + rb), c
        if self.case.op == "gru":
            right = h @ r[: 2 * hidden].T + rb[: 2 * hidden]
            z, reset = np.split(apply("sigmoid", left[:, : 2 * hidden] + right), 2, axis=1)
            rg, bg = r[2 * hidden :], rb[2 * hidden :]
            late = self.attribute("linear_before_reset", False)
            inner = reset * (h @ rg.T + bg) if late else (reset * h) @ rg.T + bg
            g = np.tanh(left[:, 2 * hidden :] + inner)
            return (1 - z) * g + z * h, c
        i, o, f, g = np.split(left + h @ r.T + rb, 4, axis=1)
        pi, po, pf = np.split(p, 3)
        i, f = apply("sigmoid", i + pi * c), apply("sigmoid", f + pf * c)
        c = f * c + i * np.tanh(g)
        return apply("sigmoid", o + po * c) * np.tanh(c), c


@register("selective_scan")
class SelectiveScan(Full):
    """Step by step; the error of a state decays with it, and each step adds its own roundings."""

    def compute(self) -> Any:
        u, delta, a, b, c = (self.double(i) for i in range(5))
        assert u is not None and delta is not None and a is not None and b is not None and c is not None
        y, bound = np.zeros(u.shape), np.zeros(u.shape)
        h, off = np.zeros((u.shape[0], *a.shape)), np.zeros((u.shape[0], *a.shape))
        for t in range(u.shape[2]):
            exponent = delta[:, :, t, None] * a
            kept, taken = np.exp(exponent) * h, delta[:, :, t, None] * b[:, None, t] * u[:, :, t, None]
            off = np.exp(exponent) * off + UNIT * (
                (FUNCTION + 2 * np.abs(exponent)) * np.abs(kept) + 3 * np.abs(taken) + np.abs(kept + taken)
            )
            h = kept + taken
            terms = h * c[:, None, t]
            y[:, :, t] = terms.sum(-1)
            squares = (terms * terms).sum(-1)
            bound[:, :, t] = (off * np.abs(c[:, None, t])).sum(-1) + sum_bound(
                a.shape[1], y[:, :, t], squares, UNIT, False
            )
        return y, bound, self.dtype


__all__ = ["Recurrent", "SelectiveScan"]
