"""Which ops run by programs where PyTorch has a kernel made of other ops, and those that are made of others here."""

from __future__ import annotations

from typing import Any

import torch

from ..torch import attention as _attention  # noqa: F401  # defines pylayout::attention
from ..torch import joint as _joint  # noqa: F401  # defines pylayout::max_pool_backward
from ..torch import losses as _losses  # noqa: F401  # defines pylayout::cross_entropy
from ..torch import norms as _norms  # noqa: F401  # defines pylayout::layer_norm
from ..torch.borders import pad_circular
from ..torch.dropout import native_dropout
from ..torch.fast_paths import encoder_layer, multi_head_attention
from ..torch.registry import converters
from .counted import COUNTED
from .recurrent import LAYERS
from .shim import Shim

__all__ = ["register_kernels"]

# Ops of this package that programs run.
OWN = (
    "max_pool_backward", "cross_entropy", "cross_entropy_backward", "recurrent", "recurrent_backward", "attention",
    "attention_backward", "layer_norm", "layer_norm_backward", "group_norm", "group_norm_backward",
)  # fmt: skip

aten = torch.ops.aten
_libraries: list[Any] = []  # registrations last as long as these


def register_kernels(shim: Shim) -> None:
    """Called before the device is used first."""
    if _libraries:
        return
    for name in sorted(converters()):
        full = _full_name(name)
        for each in (full, _in_place(full)):
            if _replaces_composite(each):
                shim.call("register", each.encode())
    for name in torch._C._dispatch_get_all_op_names():  # lists of tensors, whose loops start few kernels
        if name.startswith("aten::_foreach_") and not name.endswith("out"):
            shim.call("register_list", name.encode())
    # Made of other ops in PyTorch.
    for name in ("aten::max_pool2d", "aten::max_pool3d"):
        shim.call("register", name.encode())
    for name in OWN:
        shim.call("register", f"pylayout::{name}".encode())
    _implement(
        "PrivateUse1",
        {
            "native_dropout": native_dropout,
            "arange.start_out": _arange,
            "linspace.out": _linspace,
            "eye.m_out": _eye,
            "histc": _histc,
            "_efficientzerotensor": _zeros,
            "kaiser_window": _kaiser_window,
            "kaiser_window.periodic": _kaiser_window,
            "kaiser_window.beta": _kaiser_window,
            "_native_multi_head_attention": multi_head_attention,
            "_transformer_encoder_layer_fwd": encoder_layer,
            "_nested_tensor_from_mask_left_aligned": _has_nested_tensors,
        },
    )
    _implement("PrivateUse1", COUNTED)
    for key in ("PrivateUse1", "AutogradPrivateUse1"):
        _implement(key, {**LAYERS, **_LDEXP, "_pad_circular": pad_circular})


def _implement(key: str, functions: dict[str, Any]) -> None:
    library: Any = torch.library.Library("aten", "IMPL", key)  # type: ignore[no-untyped-call]
    _libraries.append(library)
    for name, function in functions.items():
        library.impl(name, function)


def _full_name(name: str) -> str:
    full = name if name.count(".") > 1 else f"aten.{name}"
    space, rest = full.split(".", 1)
    return f"{space}::{rest.removesuffix('.default')}"


def _in_place(full: str) -> str:
    """`aten::add_.Tensor` of `aten::add.Tensor`."""
    packet, _, overload = full.partition(".")
    return f"{packet}_.{overload}" if overload else f"{packet}_"


# Kernels for all devices. The second are those of structured ops: they describe the result by the op of the device
# `meta`, make it, and call the op that writes it.
_COMPOSITES = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def _replaces_composite(full: str) -> bool:
    """Whether an op with a converter has a kernel for all devices, which would run in the place of the program."""
    if not full.startswith("aten::"):
        return False
    packet, _, overload = full.removeprefix("aten::").partition(".")
    found = getattr(getattr(aten, packet, None), overload or "default", None)
    if found is None or torch._C._dispatch_has_kernel_for_dispatch_key(full, "PrivateUse1"):
        return False
    if not any(torch._C._dispatch_has_kernel_for_dispatch_key(full, each) for each in _COMPOSITES):
        return False
    if torch.Tag.inplace_view in found.tags:  # it changes sizes and strides, and no element
        return False
    schema = found._schema
    names = {argument.name for argument in schema.arguments}
    views = any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)
    lists = any(str(result.type) != "Tensor" for result in schema.returns)
    # Ops that may wait for another device are copies between any two.
    return not views and not lists and not names & {"device", "memory_format", "non_blocking"}


def _arange(start: Any, end: Any, step: Any = 1, *, out: torch.Tensor) -> torch.Tensor:
    """Numbers that depend on no tensor are counted by the host."""
    made = torch.arange(start, end, step, dtype=out.dtype)
    return out.resize_(made.shape).copy_(made)


def _eye(n: int, m: int, *, out: torch.Tensor) -> torch.Tensor:
    out.resize_((n, m)).zero_()
    out.diagonal().fill_(1)
    return out


def _linspace(start: Any, end: Any, steps: int, *, out: torch.Tensor) -> torch.Tensor:
    made = torch.linspace(start, end, steps, dtype=out.dtype)
    return out.resize_(made.shape).copy_(made)


def _kaiser_window(*given: Any, device: Any = None, **options: Any) -> torch.Tensor:
    """By the host: PyTorch calls a kernel of the device by no name."""
    return torch.kaiser_window(*given, **options).to(device)


def _zeros(size: Any, **options: Any) -> torch.Tensor:
    """Gradients of forward mode that are zero: in memory, where PyTorch's own devices have tensors without any."""
    return torch.zeros(size, **options)


_MOST_COMPARED = 1 << 28  # pairs of an element and a bin


def _histc(x: torch.Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> torch.Tensor:
    """Integers, too, as devices count them: the CPU has only floats."""
    least, largest = float(min), float(max)
    if bins <= 0 or least > largest:
        raise RuntimeError(f"histc: {bins} bins between {least} and {largest}, expected some, and the least first")
    values = x.reshape(-1).to(torch.float32)
    if least == largest and values.numel():
        least, largest = values.min().item(), values.max().item()
    if least == largest:
        least, largest = least - 1, largest + 1
    places = ((values - least) * bins / (largest - least)).floor().clamp(max=bins - 1)
    # Values out of range, and NaN, have a place behind the last.
    counted = torch.where((values >= least) & (values <= largest), places, bins)
    if bins * values.numel() <= _MOST_COMPARED:  # sums at few places would wait for each other
        every = torch.arange(bins, device=x.device, dtype=torch.float32)
        return (counted == every[:, None]).sum(1).to(x.dtype)
    ends = torch.searchsorted(counted.sort()[0], torch.arange(bins + 1, device=x.device, dtype=torch.float32))
    return ends.diff().to(x.dtype)


def _has_nested_tensors(x: torch.Tensor, mask: torch.Tensor) -> bool:
    """Asked by encoders of PyTorch before they make nested tensors, which the device has not."""
    return False


# PyTorch 2.11 has a kernel of this one for its own devices alone, where others make it of two ops.
_LDEXP = {
    "ldexp.Tensor": lambda x, other: x * torch.pow(2.0, other),
    "ldexp_": lambda x, other: x.mul_(torch.pow(2.0, other)),
    "ldexp.out": lambda x, other, *, out: torch.mul(x, torch.pow(2.0, other), out=out),
}
