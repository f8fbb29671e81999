"""Exact results of Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from .bounds import UNIT
from .reference import Full, register


@register("fft", "rfft", "irfft")
class Fourier(Full):
    def compute(self) -> Any:
        x, scale = self.double(0), float(self.attribute("scale", 1.0))
        assert x is not None
        op = self.case.op
        if op == "rfft":
            hop, window = int(self.attribute("hop", 0)), self.double(1)
            if hop:
                windows = np.lib.stride_tricks.sliding_window_view(x, int(self.attribute("size")), axis=-1)
                x = windows[..., ::hop, :]
            x = x if window is None else x * window
            made: Any = np.fft.rfft(x, axis=-1)
            n, given = x.shape[-1], np.square(x).sum(-1)[..., None]
        else:
            pairs, given = x[..., 0] + 1j * x[..., 1], np.square(x).sum((-1, -2))[..., None]
            n = int(self.attribute("size", x.shape[-2]))
            if not pairs.size:
                made = pairs
            elif op == "irfft":
                made, given = np.fft.irfft(pairs, n, axis=-1) * n, 2 * given
            else:
                made = np.fft.ifft(pairs, axis=-1) * n if self.attribute("inverse", False) else np.fft.fft(pairs)
        if op != "irfft":
            made, given = np.stack([made.real, made.imag], -1), given[..., None]
        # Each number is as far off as the root of all squares tells; steps are as many as the length has factors.
        bound = 16 * UNIT * np.sqrt(given) * max(1.0, np.log2(max(n, 2))) * abs(scale)
        return made * scale, bound + 0 * made, "f32"
