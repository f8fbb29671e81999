"""Ops on lists of tensors (`_foreach_*`), which compiled steps of optimizers are made of, as ops on their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["COMPOSED"]

aten = torch.ops.aten

_PREFIX = "_foreach_"

# Elements of those that PyTorch has no function of the same name and arguments for.
_ELEMENTS: dict[str, Callable[..., Any]] = {
    "addcdiv": lambda x, a, b, value=1: torch.addcdiv(x, a, b, value=value),
    "addcmul": lambda x, a, b, value=1: torch.addcmul(x, a, b, value=value),
    "maximum.Scalar": torch.clamp_min,
    "maximum.ScalarList": torch.clamp_min,
    "minimum.Scalar": torch.clamp_max,
    "minimum.ScalarList": torch.clamp_max,
    "norm": lambda x, ord=2, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
}


_UNTRACED = ("addcdiv.Tensor", "addcmul.Tensor")  # they want numbers of the CPU, which no traced tensor holds


def _composed(element: Callable[..., Any]) -> Callable[..., list[torch.Tensor]]:
    def of_lists(*arguments: Any, **keywords: Any) -> list[torch.Tensor]:
        count = next(len(each) for each in arguments if isinstance(each, (list, tuple)))

        def at(value: Any, place: int) -> Any:
            return value[place] if isinstance(value, (list, tuple)) else value

        return [element(*(at(each, place) for each in arguments), **keywords) for place in range(count)]

    return of_lists


def _ops() -> dict[Any, Callable[..., Any]]:
    found: dict[Any, Callable[..., Any]] = {}
    for packet_name in dir(aten):
        name = packet_name.removeprefix(_PREFIX)
        if name == packet_name or name.endswith("_"):
            continue
        packet = getattr(aten, packet_name)
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if [str(result.type) for result in op._schema.returns] != ["List[Tensor]"]:
                continue
            if any(argument.is_out for argument in op._schema.arguments):
                continue
            full = f"{name}.{overload}"
            element = _ELEMENTS.get(full) or _ELEMENTS.get(name) or getattr(torch, name, None)
            if element is not None and full not in _UNTRACED:
                found[op] = _composed(element)
    return found


COMPOSED = _ops()
