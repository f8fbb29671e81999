"""Exact gradients of attention and of recurrent layers, by their formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounds import LOOP, SPREAD, UNIT, deviation, rounding, sum_bound
from .functions import apply
from .random import dropout_factors
from .reference import Full, register

Array = NDArray[Any]


@register("scaled_dot_product_attention_backward")
class AttentionBackward(Full):
    def compute(self) -> Any:
        q, k, v, grad = (self.double(i) for i in range(4))
        assert q is not None and k is not None and v is not None and grad is not None
        shapes = [t.shape for t in (q, k, v)]
        shared = 1
        if self.attribute("enable_gqa", False):  # several heads of q share one of k and v
            shared = q.shape[-3] // k.shape[-3]
            k, v = np.repeat(k, shared, -3), np.repeat(v, shared, -3)
        unit, tf32 = self.accuracy.unit, self.accuracy.tf32
        scale = float(self.attribute("scale", q.shape[-1] ** -0.5))

        def product(a: Array, b: Array) -> tuple[Array, Array]:
            total = a @ b
            return total, LOOP * SPREAD * deviation(a.shape[-1], total, (a * a) @ (b * b), unit, tf32)

        scores, error = product(q, np.swapaxes(k, -1, -2))
        scores, error = scale * scores, abs(scale) * error
        slope = np.ones_like(scores)
        softcap = self.attribute("softcap")
        if softcap is not None:
            bent = np.tanh(scores / softcap)
            slope, scores = 1 - bent * bent, softcap * bent
            error = error + 16 * unit * abs(softcap)
        p = self._weights(scores, q.shape[-2], k.shape[-2])
        g, of_g = product(grad, np.swapaxes(v, -1, -2))
        kept = self._kept(p.shape)
        g, of_g = g * kept, of_g * kept
        mean = (p * g).sum(-1, keepdims=True)
        ds = scale * p * slope * (g - mean)

        # Scores that are off by e change p by a factor exp(e); matrix units get p and ds in the dtype of v.
        relative = error.max(-1, keepdims=True) + 16 * unit * (1 + np.abs(np.where(p > 0, scores, 0)).max(initial=0))
        relative = 2 * relative + (2 * float(rounding(np.ones(1), self.dtype)[0]) if self.dtype != "f32" else 0.0)
        if tf32:
            relative = relative + 2.0**-10
        of_p = relative * p
        of_mean = (p * of_g + of_p * np.abs(g)).sum(-1, keepdims=True) + 16 * unit * (p * np.abs(g)).sum(
            -1, keepdims=True
        )
        of_ds = abs(scale) * (p * slope * (of_g + of_mean) + of_p * np.abs(g - mean)) + 8 * unit * np.abs(ds)
        of_ds = of_ds + relative * np.abs(ds)
        if softcap is not None:
            of_ds = of_ds + abs(scale) * p * np.abs(g - mean) * (2 * error / softcap + 8 * unit)

        def through(a: Array, off: Array, b: Array) -> tuple[Array, Array]:
            total = a @ b
            return total, off @ np.abs(b) + sum_bound(a.shape[-1], total, (a * a) @ (b * b), unit, tf32)

        dq = through(ds, of_ds, k)
        dk = through(np.swapaxes(ds, -1, -2), np.swapaxes(of_ds, -1, -2), q)
        dv = through(np.swapaxes(p * kept, -1, -2), np.swapaxes(of_p * kept, -1, -2), grad)
        return [
            (_summed(value, shared, shape), _summed(bound, shared, shape), self.dtype)
            for (value, bound), shared, shape in zip((dq, dk, dv), (1, shared, shared), shapes, strict=True)
        ]

    def _kept(self, shape: tuple[int, ...]) -> Array:
        dropped = float(self.attribute("dropout_p", 0.0))
        if not dropped:
            return np.ones(shape)
        return dropout_factors(self.tensors[5], dropped, np.arange(np.prod(shape)).reshape(shape))

    def _weights(self, scores: Array, queries: int, keys: int) -> Array:
        mask = self.tensors[4] if len(self.tensors) > 4 else None
        if mask is not None:
            scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
        if self.attribute("is_causal", False):
            scores = np.where(np.arange(keys) <= np.arange(queries)[:, None], scores, -np.inf)
        largest = scores.max(-1, keepdims=True)
        p = np.exp(scores - np.where(np.isinf(largest), 0, largest))
        total = p.sum(-1, keepdims=True)
        weights: Array = np.divide(p, total, out=np.zeros_like(p), where=total > 0)
        return weights


def _summed(value: Array, shared: int, shape: tuple[int, ...]) -> Array:
    """Heads that share one of k and v, added; and what was broadcast."""
    if shared > 1:
        value = value.reshape(*value.shape[:-3], value.shape[-3] // shared, shared, *value.shape[-2:]).sum(-3)
    return value.reshape(shape)


@register("lstm_backward", "gru_backward", "rnn_backward")
class RecurrentBackward(Full):
    """Back through time: gates are computed again from x and from y, which holds the state before each step."""

    def compute(self) -> Any:
        lstm = self.case.op == "lstm_backward"
        x, w, r, y, grad = (self.double(i) for i in range(5))
        assert x is not None and w is not None and r is not None and y is not None and grad is not None
        first = bool(self.attribute("batch_first", False))
        if first:
            x = np.swapaxes(x, 0, 1)
            y, grad = (np.transpose(t, (1, 2, 0, 3)) for t in (y, grad))
        steps, batch, _ = x.shape
        directions, _, hidden = r.shape
        b, lengths = self.double(5), self.tensors[6] if len(self.tensors) > 6 else None
        if lengths is None:
            lengths = np.full(batch, steps)

        def state(number: int) -> Array:
            given = self.double(number)
            if given is None:
                return np.zeros((directions, batch, hidden))
            return np.swapaxes(given, 0, 1) if first else given

        h0, c0 = state(7), state(8) if lstm else np.zeros((directions, batch, hidden))
        peepholes = self.double(9) if lstm else None
        grad_h, grad_c = state(10 if lstm else 8), state(11) if lstm else np.zeros((directions, batch, hidden))
        self.dx, self.dw, self.dr = np.zeros_like(x), np.zeros_like(w), np.zeros_like(r)
        self.db, self.dp = np.zeros((directions, 2 * w.shape[1])), np.zeros((directions, 3 * hidden))
        dh0, dc0 = np.zeros_like(h0), np.zeros_like(c0)
        for d in range(directions):
            backwards = self.attribute("direction", "forward") == "reverse" or d == 1
            order = list(range(steps))[:: -1 if backwards else 1]
            bias = np.zeros(2 * w.shape[1]) if b is None else b[d]
            p = np.zeros(3 * hidden) if peepholes is None else peepholes[d]
            before, cells, h, c = [], [], h0[d], c0[d]
            for t in order:  # the states that each step begins with
                active = (t < lengths)[:, None]
                before.append(h)
                cells.append(c)
                if lstm:
                    c = np.where(active, self._cell(x[t], h, c, w[d], r[d], bias, p)[4], c)
                h = np.where(active, y[t, d], h)
            dh, dc = grad_h[d], grad_c[d]
            for number in range(steps - 1, -1, -1):
                t = order[number]
                active = (t < lengths)[:, None]
                of_h, of_c = np.where(active, dh + grad[t, d], 0), np.where(active, dc, 0)
                made_h, made_c = self._step(
                    (d, t), x[t], (before[number], cells[number]), (of_h, of_c), [w[d], r[d], bias, p]
                )
                dh, dc = np.where(active, made_h, dh), np.where(active, made_c, dc)
            dh0[d], dc0[d] = dh, dc
        if first:
            self.dx, dh0, dc0 = np.swapaxes(self.dx, 0, 1), np.swapaxes(dh0, 0, 1), np.swapaxes(dc0, 0, 1)
        found = [self.dx, self.dw, self.dr, self.db, dh0, *([dc0, self.dp] if lstm else [])]
        terms = max(w.shape[1], w.shape[2] + hidden, steps * batch)
        off = 10 * LOOP * SPREAD * UNIT * (1 + np.sqrt(terms) / 8)
        if self.dtype != "f32":
            off = off + 10 * 2.0 ** -(11 if self.dtype == "f16" else 8)
        return [(value, off * max(np.abs(value).max(initial=0), 1e-3), self.dtype) for value in found]

    def _cell(self, x: Array, h: Array, c: Array, w: Array, r: Array, bias: Array, p: Array) -> list[Array]:
        """Of lstm: the gates i, o, f, g and the new cell state."""
        wb, rb = np.split(bias, 2)
        i, o, f, g = np.split(x @ w.T + wb + h @ r.T + rb, 4, axis=1)
        pi, po, pf = np.split(p, 3)
        i, f, g = apply("sigmoid", i + pi * c), apply("sigmoid", f + pf * c), np.tanh(g)
        new = f * c + i * g
        return [i, apply("sigmoid", o + po * new), f, g, new]

    def _step(
        self,
        place: tuple[int, int],
        x: Array,
        states: tuple[Array, Array],
        by: tuple[Array, Array],
        weights: list[Array],
    ) -> tuple[Array, Array]:
        """Adds the share of the step at place (direction, time) to the gradients; `by`: the gradients by the states it
        ends with; returns those by the states it began with."""
        (d, t), (h, c), (dh, dc), (w, r, bias, p) = place, states, by, weights
        hidden = h.shape[1]
        if self.case.op == "lstm_backward":
            i, o, f, g, new = self._cell(x, h, c, w, r, bias, p)
            pi, po, pf = np.split(p, 3)
            bent = np.tanh(new)
            do = dh * bent * o * (1 - o)
            dc = dc + dh * o * (1 - bent * bent) + do * po
            di, df, dg = dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g)
            gates = np.concatenate([di, do, df, dg], 1)
            self._add(d, t, gates, gates, x, h, w, gates.T @ h)
            self.dp[d] += np.concatenate([(di * c).sum(0), (do * new).sum(0), (df * c).sum(0)])
            return gates @ r, dc * f + di * pi + df * pf
        wb, rb = np.split(bias, 2)
        left = x @ w.T + wb
        if self.case.op == "rnn_backward":
            sums = left + h @ r.T + rb
            slope = 1 - np.tanh(sums) ** 2 if self.attribute("nonlinearity", "tanh") == "tanh" else (sums > 0) * 1.0
            gates = dh * slope
            self._add(d, t, gates, gates, x, h, w, gates.T @ h)
            return gates @ r, dc
        rg, bg = r[2 * hidden :], rb[2 * hidden :]
        z, reset = np.split(
            apply("sigmoid", left[:, : 2 * hidden] + h @ r[: 2 * hidden].T + rb[: 2 * hidden]), 2, axis=1
        )
        late = self.attribute("linear_before_reset", False)
        product = h @ rg.T + bg if late else (reset * h) @ rg.T + bg
        g = np.tanh(left[:, 2 * hidden :] + (reset * product if late else product))
        dz, dg = dh * (h - g) * z * (1 - z), dh * (1 - z) * (1 - g * g)
        if late:
            dreset, inner = dg * product, dg * reset
            of_h, of_weights = inner @ rg, inner.T @ h
        else:
            inner = dg
            of_reset_h = dg @ rg
            dreset, of_h, of_weights = of_reset_h * h, of_reset_h * reset, dg.T @ (reset * h)
        dreset = dreset * reset * (1 - reset)
        two = np.concatenate([dz, dreset], 1)
        self._add(
            d,
            t,
            np.concatenate([two, dg], 1),
            np.concatenate([two, inner], 1),
            x,
            h,
            w,
            np.concatenate([two.T @ h, of_weights]),
        )
        return dh * z + two @ r[: 2 * hidden] + of_h, dc

    def _add(self, d: int, t: int, left: Array, right: Array, x: Array, h: Array, w: Array, of_weights: Array) -> None:
        """left, right: the gradients by the sums with x and with the state."""
        self.dx[t] += left @ w
        self.dw[d] += left.T @ x
        self.dr[d] += of_weights
        self.db[d] += np.concatenate([left.sum(0), right.sum(0)])


__all__ = ["AttentionBackward", "RecurrentBackward"]
