"""Which ops run by programs where PyTorch has a kernel made of other ops, and those that are made of others here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..torch import joint as _joint  # noqa: F401  # defines pylayout::max_pool_backward
from ..torch.backend import _dropout
from ..torch.registry import converters
from .shim import Shim

__all__ = ["register_kernels"]

aten = torch.ops.aten
_libraries: list[Any] = []  # registrations last as long as these


def register_kernels(shim: Shim) -> None:
    """Called before the device is used first."""
    if _libraries:
        return
    for name in sorted(converters()):
        if _replaces_composite(name):
            shim.call("register", _full_name(name).encode())
    shim.call("register", b"pylayout::max_pool_backward")
    for pool in ("max_pool2d", "max_pool3d"):  # made of other ops in PyTorch, with indices
        shim.call("register", f"aten::{pool}".encode())
    _implement("AutogradPrivateUse1", {"max_pool2d": _max_pool2d, "max_pool3d": _max_pool3d})
    _implement(
        "PrivateUse1",
        {
            "native_batch_norm": _batch_norm,
            "_native_batch_norm_legit": _batch_norm,
            "_native_batch_norm_legit.no_stats": _batch_norm_without_statistics,
            "native_dropout": _dropout,
            "arange.start_out": _arange,
        },
    )


def _implement(key: str, functions: dict[str, Any]) -> None:
    library: Any = torch.library.Library("aten", "IMPL", key)  # type: ignore[no-untyped-call]
    _libraries.append(library)
    for name, function in functions.items():
        library.impl(name, function)


def _full_name(name: str) -> str:
    full = name if name.count(".") > 1 else f"aten.{name}"
    space, rest = full.split(".", 1)
    return f"{space}::{rest.removesuffix('.default')}"


def _replaces_composite(name: str) -> bool:
    """Whether an op with a converter has a kernel for all devices, which would run in the place of the program."""
    full = _full_name(name)
    if not full.startswith("aten::"):
        return False
    packet, _, overload = full.removeprefix("aten::").partition(".")
    found = getattr(getattr(aten, packet, None), overload or "default", None)
    if found is None or torch._C._dispatch_has_kernel_for_dispatch_key(full, "PrivateUse1"):
        return False
    if not torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeExplicitAutograd"):
        return False
    schema = found._schema
    names = {argument.name for argument in schema.arguments}
    views = any(result.alias_info is not None for result in schema.returns)
    lists = any(str(result.type) != "Tensor" for result in schema.returns)
    return not views and not lists and not names & {"device", "memory_format"}


def _arange(start: Any, end: Any, step: Any = 1, *, out: torch.Tensor) -> torch.Tensor:
    """Numbers that depend on no tensor are counted by the host."""
    made = torch.arange(start, end, step, dtype=out.dtype)
    return out.resize_(made.shape).copy_(made)


def _batch_norm(
    x: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if not training:
        made: Any = aten._native_batch_norm_legit_no_training(x, weight, bias, mean, variance, momentum, eps)
        return made  # type: ignore[no-any-return]
    if mean is None:
        return _batch_norm_without_statistics(x, weight, bias, True, momentum, eps)
    y, found, inverse, new_mean, new_variance = aten._native_batch_norm_legit_functional(
        x, weight, bias, mean, variance, True, momentum, eps
    )
    mean.copy_(new_mean)
    variance.copy_(new_variance)
    return y, found, inverse


def _batch_norm_without_statistics(
    x: torch.Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    like: Sequence[int] = [x.shape[1]]
    mean, variance = torch.zeros(like, device=x.device), torch.ones(like, device=x.device)
    made = aten._native_batch_norm_legit_functional(x, weight, bias, mean, variance, True, momentum, eps)
    return made[0], made[1], made[2]


class _MaxPool(torch.autograd.Function):
    """Max pooling that keeps its input for the gradient, in the place of indices."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, op: Any, window: tuple[Any, ...]) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.window = window
        with torch._C._AutoDispatchBelowAutograd():
            made: torch.Tensor = op(x, *window)
        return made

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        kernel, stride, padding, dilation, ceil_mode = ctx.window
        window = (kernel, stride or kernel, padding, dilation, ceil_mode)
        return torch.ops.pylayout.max_pool_backward(grad, x, *window), None, None


def _max_pool2d(x: torch.Tensor, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
                ceil_mode: bool = False) -> torch.Tensor:  # fmt: skip
    return _max_pool(2, x, kernel, stride, padding, dilation, ceil_mode)


def _max_pool3d(x: torch.Tensor, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
                ceil_mode: bool = False) -> torch.Tensor:  # fmt: skip
    return _max_pool(3, x, kernel, stride, padding, dilation, ceil_mode)


def _max_pool(rank: int, x: torch.Tensor, *window: Any) -> torch.Tensor:
    *sizes, ceil_mode = window
    sizes = [[*each] * (rank if len(each) == 1 else 1) for each in sizes]
    op = aten.max_pool2d.default if rank == 2 else aten.max_pool3d.default
    made: torch.Tensor = _MaxPool.apply(x, op, (*sizes, ceil_mode))  # type: ignore[no-untyped-call]
    return made
