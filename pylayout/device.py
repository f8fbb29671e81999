"""Devices, their memory, and the threads of the CPU."""

from __future__ import annotations

from typing import Any

from ._load import ffi, lib
from .context import configure, handle
from .errors import InvalidArgumentError, check, take_json
from .streams import Stream

__all__ = [
    "Device",
    "calibrate",
    "devices",
    "get_threads",
    "memory",
    "release_caches",
    "reset_memory_peaks",
    "set_memory_limit",
    "set_threads",
    "set_tuning",
    "settled",
    "synchronize",
]


class Device:
    """A device: where memory lives and work is queued. Equal to its name."""

    __slots__ = ("capabilities", "fingerprint", "name", "providers")

    def __init__(self, name: str, providers: list[str], capabilities: dict[str, str], fingerprint: str) -> None:
        self.name = name  # "cpu", "opencl:0"
        self.providers = providers  # who runs ops on it: "onednn", "opencl", "host"
        self.capabilities = capabilities  # model, driver, limits, features
        self.fingerprint = fingerprint  # what measured costs depend on

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (Device, str)):
            return self.name == str(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def stream(self) -> Stream:
        """Another queue of work on the device: `with device.stream(): ...`."""
        return Stream(self.name)

    def __repr__(self) -> str:
        about = self.capabilities.get("model") or self.capabilities.get("name") or ""
        return f"Device({self.name!r}, {about!r}, providers={self.providers})"


def describe() -> dict[str, Any]:
    """Everything known of devices and providers, as the library says it."""
    text = ffi.new("char **")
    check(lib.pl_devices(handle(), text))
    return dict(take_json(text))


def known_faults() -> list[dict[str, Any]]:
    """Faults of libraries and drivers that are avoided: in which versions, and whether one of those is here."""
    handle()  # opens the libraries
    text = ffi.new("char **")
    check(lib.pl_known_faults(text))
    return list(take_json(text))


def devices() -> list[Device]:
    """All devices, `cpu` first.

    >>> import pylayout as pl
    >>> pl.devices()[0].name
    'cpu'
    """
    return [
        Device(item["name"], item["providers"], item["properties"], item["fingerprint"])
        for item in describe()["devices"]
    ]


def _name(device: Any) -> bytes:
    return str(device).encode()


def synchronize(device: Any = None) -> None:
    """Wait for all work queued on a device, on all of its streams, or on all devices."""
    check(lib.pl_synchronize(handle(), ffi.NULL if device is None else _name(device)))


def memory(device: Any = "cpu") -> dict[str, int]:
    """A device's memory in bytes: in_use, cached, peak (of in_use), peak_held (of both); and allocations, a count.

    >>> import pylayout as pl
    >>> sorted(pl.memory("cpu"))
    ['allocations', 'cached', 'in_use', 'peak', 'peak_held']
    """
    info = ffi.new("pl_memory_info *")
    check(lib.pl_memory(handle(), _name(device), info))
    return {
        "in_use": info.in_use,
        "cached": info.cached,
        "peak": info.peak,
        "peak_held": info.peak_held,
        "allocations": info.allocations,
    }


def reset_memory_peaks(device: Any = "cpu") -> None:
    """Let peak and peak_held of `memory` begin from what there is now."""
    check(lib.pl_memory_reset_peaks(handle(), _name(device)))


def set_memory_limit(device: Any, limit: int | None) -> None:
    """An upper bound on a device's memory in bytes; None or 0: none."""
    if limit is not None and not 0 <= limit < 2**63:
        raise InvalidArgumentError(f"set_memory_limit: limit is {limit}, expected bytes, at least 0")
    check(lib.pl_memory_limit(handle(), _name(device), limit or 0))


def release_caches() -> None:
    """Give back memory kept for reuse and prepared kernels that are not in use."""
    check(lib.pl_memory_release_caches(handle()))


def settled() -> bool:
    """Whether programs that repeat run as they will from now on.

    Under `layout="auto"` linked ops that repeat are tried in several layouts during its first twenty to thirty
    runs; then the fastest is kept. On a GPU ops are measured behind their calls. A benchmark warms up until then.
    """
    answer = ffi.new("int32_t *")
    check(lib.pl_context_settled(handle(), answer))
    return bool(answer[0])


def set_threads(threads: int) -> None:
    """How many threads ops on `cpu` use."""
    configure(threads=threads)


def get_threads() -> int:
    """How many threads ops on `cpu` use."""
    return int(describe()["threads"])


def set_tuning(mode: str) -> None:
    """When candidates are measured: "auto" (where it matters), "off" or "full" (every candidate)."""
    configure(tune=mode)


def calibrate(device: Any = "cpu") -> dict[str, Any]:
    """Measure a device's rates (bandwidth, arithmetic, launch overhead) anew."""
    text = ffi.new("char **")
    check(lib.pl_calibrate(handle(), _name(device), text))
    return dict(take_json(text))


def costs() -> dict[str, Any]:
    """What the cost database holds: path, records and its state."""
    text = ffi.new("char **")
    check(lib.pl_costs_describe(handle(), text))
    return dict(take_json(text))


def clear_costs() -> None:
    """Forget all measured costs, imported tables and choices of plans, in memory and on disk."""
    check(lib.pl_costs_clear(handle()))


def export_costs(device: Any = "cpu", threads: int = 0) -> str:
    """What was measured on a device, as a table for other machines of its class; `threads`: of ops on `cpu`."""
    text = ffi.new("char **")
    check(lib.pl_costs_export(handle(), _name(device), threads, text))
    try:
        return str(ffi.string(text[0]).decode())
    finally:
        lib.pl_string_free(text[0])


def import_costs(table: str) -> dict[str, Any]:
    """Keep a table of `export_costs` in the cache; says what is in it, and which devices here are of its class."""
    text = ffi.new("char **")
    check(lib.pl_costs_import(handle(), table.encode(), text))
    return dict(take_json(text))
