"""Process groups for tensors of the device: gloo, which knows those of the CPU, on copies.

    torch.distributed.init_process_group("ocl")          # or without a name: tensors of the CPU and of ocl

`register` says so to PyTorch; a group is made where one is asked for.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
from torch import distributed

__all__ = ["register"]

_NAME = "ocl"
# What process groups are asked for, and what gloo calls it where PyTorch's names have changed.
_METHODS = {
    name: name
    for name in (
        "allgather", "allgather_coalesced", "allgather_into_tensor_coalesced", "allreduce", "allreduce_coalesced",
        "alltoall", "alltoall_base", "broadcast", "gather", "recv", "recv_anysource", "reduce", "reduce_scatter",
        "reduce_scatter_tensor_coalesced", "scatter", "send", "_allgather_base", "_reduce_scatter_base",
    )
} | {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
}  # fmt: skip
# Of several tensors at once: gloo's of one, which is called for each.
_OF_EACH = {
    "allgather_into_tensor_coalesced": "_allgather_base",
    "reduce_scatter_tensor_coalesced": "_reduce_scatter_base",
}

# Work is done on the tensors of a method's first argument. Most write them whatever they held, others read them first.
_UPDATES = frozenset({"allreduce", "allreduce_coalesced", "broadcast", "reduce"})
_READS = frozenset({"send"})


def register() -> None:
    """Tell PyTorch that groups of this name are for the CPU and the device."""
    if not distributed.is_available() or _NAME in distributed.Backend.backend_list:
        return
    distributed.Backend.register_backend(_NAME, _group, devices=["cpu", _NAME])


def _group(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    return _class()(store, rank, size, timeout)


def _class() -> Any:
    """The group's class; made once, when it is asked for, as not every PyTorch has its base."""
    if not _made:
        members = {name: _through(name, inner) for name, inner in _METHODS.items()}
        _made.append(type("Group", (_Group, distributed.ProcessGroup), members))
    return _made[0]


_made: list[Any] = []


class _Group:
    """gloo for tensors of the CPU, and on copies for those of the device, waiting for both."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]
        self._name = self._description = ""
        self._gloo: Any = distributed.ProcessGroupGloo(store, rank, size, timeout)

    # What PyTorch keeps with the backends of a group, which this one has none of.
    @property
    def group_name(self) -> str:
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_desc(self) -> str:
        return self._description

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    def getGroupName(self) -> str:
        return self._name

    def barrier(self, opts: Any = None) -> Any:
        return self._gloo.barrier() if opts is None else self._gloo.barrier(opts)

    def getBackendName(self) -> str:
        return _NAME


def _done(result: Any) -> Any:
    """A work that is done."""
    future: Any = torch.futures.Future()
    future.set_result(result)
    internals: Any = torch._C._distributed_c10d
    return internals._create_work_from_future(future)


def _through(name: str, inner: str) -> Any:
    def call(self: Any, first: Any, *others: Any, **keywords: Any) -> Any:
        read: list[torch.Tensor] = []
        written: list[tuple[torch.Tensor, torch.Tensor]] = []

        def moved(value: Any, writes: bool = False) -> Any:
            if not isinstance(value, torch.Tensor):
                return [moved(each, writes) for each in value] if isinstance(value, (list, tuple)) else value
            if value.device.type != _NAME:
                return value
            if not writes:
                read.append(value.detach().cpu())
                return read[-1]
            here = value.detach().cpu() if inner in _UPDATES else torch.empty_like(value, device="cpu")
            written.append((value, here))
            return here

        given = [moved(first, inner not in _READS), *map(moved, others)]
        named = {key: moved(value) for key, value in keywords.items()}
        if inner in _OF_EACH:
            method = getattr(self._gloo, _OF_EACH[inner])
            for result, source in zip(*given[:2], strict=True):
                method(result, source, *given[2:], **named).wait()
        else:
            work = getattr(self._gloo, inner)(*given, **named)
            if not read and not written:
                return work
            work.wait()
        with torch.no_grad():
            for there, here in written:
                there.copy_(here)
        return _done(first)

    call.__name__ = name
    return call
