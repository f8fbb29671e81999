"""Making the device known: its name, the shim, `torch.ocl`, and which ops run by programs."""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
import warnings
from typing import Any

import torch
from torch.utils import backend_registration

from ..errors import Error, InternalError, UnsupportedError
from ..profile import starters
from .shim import MAKER, STARTER, Shim, shim, state

__all__ = ["register"]

_NAME = "ocl"
_logger = logging.getLogger("pylayout.ocl")
_kept: list[Any] = []  # callbacks, which the shim calls as long as the process runs


def _print_from_host() -> None:
    """Tensors are printed from a copy on the CPU, as those of other devices that are slow at many small ops."""
    from torch import _tensor_str

    shown = _tensor_str._tensor_str

    def from_host(tensor: Any, indent: int) -> Any:
        there = tensor.device.type == _NAME
        return shown(tensor.detach().cpu() if there else tensor, indent)  # type: ignore[no-untyped-call]

    _tensor_str._tensor_str = from_host


class _Moving(threading.local):
    def __init__(self) -> None:
        self.now = False


_moving = _Moving()
_apply: Any = torch.nn.Module._apply


def _moved(self: torch.nn.Module, *arguments: Any, **keywords: Any) -> Any:
    """`Module._apply`, by which a parameter that several modules share stays one on its way to the device or back.

    PyTorch puts a new parameter into each place where a device from outside is the source or the target.
    """
    # While dynamo traces, none of what follows, which it would guard. What a closure holds it would wrap before this.
    if torch.compiler.is_compiling() or _moving.now:  # the latter: a part of a module that is moved
        return _apply(self, *arguments, **keywords)
    places: dict[int, list[tuple[torch.nn.Module, str]]] = {}
    kept = []  # so that no other parameter gets the same id
    for module in self.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                places.setdefault(id(parameter), []).append((module, name))
                kept.append(parameter)
    _moving.now = True
    try:
        result = _apply(self, *arguments, **keywords)
    finally:
        _moving.now = False
    for parameter in kept:
        (first, name), *others = places.pop(id(parameter), [(self, "")])
        made = first._parameters[name] if others else None
        if made is not None and made is not parameter and _NAME in (made.device.type, parameter.device.type):
            for module, other in others:
                module._parameters[other] = made
    return result


def _keep_shared_parameters() -> None:
    torch.nn.Module._apply = _moved  # type: ignore[method-assign]


def register() -> None:
    """What `pylayout.ocl.load` does."""
    from .build import library

    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", _NAME):
        raise UnsupportedError(f"PyTorch has room for one device of others, and {taken} has taken it")
    path = library()
    backend_registration.rename_privateuse1_backend(_NAME)
    made = Shim(str(path))
    state.shim = made
    starters.append(lambda: made.call("flush"))
    # Behind a graph break ops call these in frames that torch.compile runs: they and what they call are not traced.
    dynamo = torch._C._dynamo.eval_frame
    untraced = dynamo._FrameExecStrategy(dynamo._FrameAction.SKIP, dynamo._FrameAction.SKIP)
    for function in (_start, _make):
        dynamo.set_code_exec_strategy(function.__code__, untraced)
    _kept.append(STARTER(_start))
    made.set_starter(_kept[-1])
    _kept.append(MAKER(_make))
    made.set_maker(_kept[-1])
    from . import amp, distributed, module

    distributed.register()
    torch._register_device_module(_NAME, module)  # type: ignore[no-untyped-call]
    sys.modules[f"torch.{_NAME}.amp"] = amp
    backend_registration.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    _print_from_host()
    _keep_shared_parameters()
    amp.scale_in_float32()


def _start(use: int) -> None:
    """Called by the shim: gives it the library's context and the names of devices; before the first use, ops, too."""
    try:
        if use:
            from .kernels import register_kernels

            register_kernels(shim())
            return
        from .._load import ffi
        from ..context import handle
        from ..device import devices

        found = [device for device in devices() if device.name.startswith("opencl:")]
        names = [device.name for device in found]
        address = int(ffi.cast("uintptr_t", handle()))
        texts = (ctypes.c_char_p * max(1, len(names)))(*[name.encode() for name in names])
        shim().call("start", address, texts, len(names))
        for index, device in enumerate(found):  # kernels of runtimes for processors go through a head for each row
            shim().gain_by_attention(index, device.capabilities.get("type") != "cpu")
        state.failure = "" if names else "no OpenCL device was found: `pylayout doctor` says what was looked for"
    except Exception as error:
        state.failure = str(error) or type(error).__name__
        if use:
            warnings.warn(f"ocl: ops could not be registered: {state.failure}", stacklevel=2)


def _make(op: bytes, arguments: bytes, device: int, program: int) -> int:
    """Called by the shim for an op with arguments of a kind that it has no program for."""
    try:
        from .programs import make

        make(shim(), program, op.decode(), arguments.decode(), device)
        return 0
    except BaseException as error:  # nothing may be raised through the shim
        reason = str(error)
        if not isinstance(error, Error):
            reason = f"a defect of pylayout, please report it: {type(error).__name__}: {error}"
        if isinstance(error, InternalError) or not isinstance(error, Error):
            # The CPU runs the op, and it is counted, but nobody is to take it for one that is missing.
            _logger.warning("%s runs on the CPU", op.decode(), exc_info=error)
    shim().program_refuse(program, (reason.split("\n", 1)[0] or "no reason given").encode())
    return 1
