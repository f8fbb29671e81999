"""The options of `torch.compile(..., backend="pylayout", options={...})`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..calls import did_you_mean
from ..errors import InvalidArgumentError

__all__ = ["compile_options"]

NAMES = ("device", "math", "threads", "seconds", "deterministic", "fallback_random")


def compile_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of `pylayout.compile`. Raises InvalidArgumentError for an option that there is not."""
    options: dict[str, Any] = {"device": "cpu"}
    for name, value in (given or {}).items():
        if name not in NAMES:
            hint = did_you_mean(name, NAMES) or f"expected one of {', '.join(NAMES)}"
            raise InvalidArgumentError(f'torch.compile: there is no option "{name}"; {hint}')
        options[name] = value
    device = str(options["device"])
    if device.startswith("ocl"):  # the device's name in PyTorch
        options["device"] = "opencl" + device[len("ocl") :]
    return options
