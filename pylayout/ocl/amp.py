"""`torch.ocl.amp`: mixed precision, as `torch.cuda.amp` has it: `torch.amp` for the device `ocl`."""

from __future__ import annotations

import functools
from typing import Any

import torch

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "scale_in_float32"]

_NAME = "ocl"

custom_fwd = functools.partial(torch.amp.custom_fwd, device_type=_NAME)
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type=_NAME)


class autocast(torch.autocast):
    """`torch.autocast("ocl", ...)`."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__(_NAME, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler("ocl", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(_NAME, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


class _Single(torch.Tensor):
    """A tensor that is float32 where PyTorch asks for float64."""

    def double(self, *_: Any, **__: Any) -> torch.Tensor:
        return self.as_subclass(torch.Tensor)


def scale_in_float32() -> None:
    """Let a `GradScaler` take the reciprocal of its scale in float32 on the device, which has no float64.

    PyTorch does so on `mps`. The reciprocal of a power of two, which a scale is by default, is exact.
    """
    unscale = torch.amp.GradScaler.unscale_

    @functools.wraps(unscale)
    def unscale_(self: Any, optimizer: torch.optim.Optimizer) -> None:
        scale = getattr(self, "_scale", None)  # one that is not enabled has none
        if scale is None or scale.device.type != _NAME:
            return unscale(self, optimizer)
        self._scale = scale.as_subclass(_Single)
        try:
            unscale(self, optimizer)
        finally:
            self._scale = scale

    torch.amp.GradScaler.unscale_ = unscale_  # type: ignore[method-assign]
