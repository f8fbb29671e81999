"""The options of `torch.compile(..., backend="pylayout", options={...})`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..calls import did_you_mean
from ..device import devices
from ..errors import ArgumentTypeError, InvalidArgumentError

__all__ = ["compile_options"]

_MATHS = ("fp32", "tf32", "fp16", "bf16")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_flag(value: Any) -> bool:
    return value is None or isinstance(value, bool)


# By name: what is told of a value that is not such a one, and whether it is. None is the default of all but the device.
_EXPECTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "device": ("the name of a device", lambda value: value is not None),
    "math": (", ".join(_MATHS), lambda value: value is None or value in _MATHS),
    "threads": (
        "an integer from 1 to 4096",
        lambda value: value is None or (isinstance(value, int) and _is_number(value) and 1 <= value <= 4096),
    ),
    "seconds": (
        "a number of at least 0",
        lambda value: value is None or (_is_number(value) and value >= 0 and math.isfinite(value)),
    ),
    "deterministic": ("True or False", _is_flag),
    "fallback_random": ("True or False", _is_flag),
}
NAMES = tuple(_EXPECTED)


def compile_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of `pylayout.compile`. Raises InvalidArgumentError for an option or a value that there is not."""
    if not isinstance(given, (Mapping, type(None))):
        raise ArgumentTypeError(f"torch.compile: options is {given!r}, expected a dict")
    options: dict[str, Any] = {"device": "cpu"}
    for name, value in (given or {}).items():
        if name not in NAMES:
            hint = did_you_mean(name, NAMES) or f"expected one of {', '.join(NAMES)}"
            raise InvalidArgumentError(f'torch.compile: there is no option "{name}"; {hint}')
        expected, suits = _EXPECTED[name]
        if not suits(value):
            raise InvalidArgumentError(f"torch.compile: {name} is {value!r}, expected {expected}")
        options[name] = value
    device = str(options["device"])
    if device.startswith("ocl"):  # the device's name in PyTorch
        device = options["device"] = "opencl" + device[len("ocl") :]
    if device != "cpu" and device not in (names := [each.name for each in devices()]):
        raise InvalidArgumentError(f'torch.compile: device is "{device}", expected one of {", ".join(names)}')
    return options
