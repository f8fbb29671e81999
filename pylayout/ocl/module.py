"""`torch.ocl`: devices, memory, random numbers and fallbacks of the device `ocl`, named as in `torch.cuda`."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch

from ..errors import ArgumentTypeError, DeviceError
from . import amp
from .shim import longs, shim, state

__all__ = [
    "DeviceProperties", "Event", "Fallback", "Stream", "StreamContext", "amp", "can_device_access_peer",
    "clear_fallbacks", "current_device", "current_stream", "default_stream", "device", "device_count", "device_of",
    "empty_cache", "fallbacks", "get_amp_supported_dtype", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "get_rng_state_all", "init", "initial_seed", "is_available",
    "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_fallback", "set_rng_state", "set_rng_state_all",
    "set_stream", "stream", "synchronize",
]  # fmt: skip

_MODES = ("warn", "silent", "error")


# ---- devices ----


def device_count() -> int:
    """How many there are; 0 in a child that was forked after the device was used."""
    return int(shim().device_count())


def is_available() -> bool:
    return device_count() > 0


def is_initialized() -> bool:
    """Whether OpenCL was started: by the first use of a device, or by counting devices. Not in a forked child."""
    return bool(shim().is_started())


def __getattr__(name: str) -> Any:
    """What PyTorch reads as a variable: by `_initialized` checkpoints know that there are random numbers to keep."""
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _lazy_init() -> None:
    init()


def init() -> None:
    """Start OpenCL now. Raises DeviceError where there is no device."""
    _index(None)


def _is_in_bad_fork() -> bool:
    return bool(shim().is_forked())


def _index(device: Any) -> int:
    """The index of a device: a number, "ocl:0", torch.device, or None for the current one. Raises DeviceError."""
    if device is None:
        index = current_device()
    elif isinstance(device, int):
        index = device
    else:
        given = torch.device(device)
        if given.type != "ocl":
            raise DeviceError(f"torch.ocl: device is {given}, expected ocl or ocl:INDEX")
        index = current_device() if given.index is None else given.index
    if _is_in_bad_fork():
        shim().call("set_device", index)  # says so
    count = device_count()
    if not 0 <= index < count:
        why = f" ({state.failure})" if count == 0 and state.failure else ""
        raise DeviceError(f"torch.ocl: device index is {index}, expected 0 to {count - 1}, of {count} devices{why}")
    return index


def _name(device: Any) -> str:
    return f"opencl:{_index(device)}"


def current_device() -> int:
    return int(shim().current_device())


def set_device(device: Any) -> None:
    shim().call("set_device", _index(device))


class device:
    """A context in which another device is the current one."""

    def __init__(self, device: Any) -> None:
        self._index = _index(device)
        self._before = 0

    def __enter__(self) -> None:
        self._before = current_device()
        set_device(self._index)

    def __exit__(self, *_: Any) -> None:
        set_device(self._before)


class device_of(device):
    """A context in which the device of a tensor or storage is the current one; no change for others."""

    def __init__(self, value: Any) -> None:
        where = value.device
        super().__init__(where if where.type == "ocl" else None)


@dataclass(frozen=True)
class DeviceProperties:
    """What a device is. `capabilities`: what its driver says of it, as the library reads it."""

    name: str
    total_memory: int
    multi_processor_count: int
    capabilities: dict[str, str] = field(repr=False)


def get_device_properties(device: Any = None) -> DeviceProperties:
    from ..device import devices

    name = _name(device)
    found = next(each for each in devices() if each.name == name)
    known = found.capabilities

    def number(key: str) -> int:
        match = re.match(r"\d+", str(known.get(key, "")))
        return int(match.group()) if match else 0

    return DeviceProperties(
        str(known.get("name", name)),
        number("memory_bytes"),
        number("compute_units"),
        {key: str(value) for key, value in known.items()},
    )


def get_device_name(device: Any = None) -> str:
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The version of OpenCL that the device has, such as (3, 0). What a number says on `cuda` it does not say here."""
    said = get_device_properties(device).capabilities.get("version", "")
    found = re.search(r"(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Tensors of bfloat16 are computed with on every device, in float32 inside of kernels."""
    return including_emulation


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a device reads another one's memory: copies between two go through the host."""
    return _index(device) == _index(peer_device)


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16, torch.float32]


def synchronize(device: Any = None) -> None:
    """Wait for all work that was given to the device."""
    shim().call("synchronize", _index(device))


# ---- memory ----


def _memory(device: Any) -> dict[str, int]:
    from ..device import memory

    return memory(_name(device))


def memory_allocated(device: Any = None) -> int:
    """Bytes of tensors, and of the library's own on the device."""
    return _memory(device)["in_use"] - int(shim().spare_bytes(_index(device)))


def memory_reserved(device: Any = None) -> int:
    """The same, and what is kept for reuse."""
    held = _memory(device)
    return held["in_use"] + held["cached"]


def max_memory_allocated(device: Any = None) -> int:
    """The most that `memory_allocated` was since the start or `reset_peak_memory_stats`.

    Blocks of at most 1 MiB that are kept for the next tensors of their sizes count here: up to 32 MiB.
    """
    return _memory(device)["peak"]


def max_memory_reserved(device: Any = None) -> int:
    """The most that `memory_reserved` was since then."""
    return _memory(device)["peak_held"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the two begin from what there is now."""
    from ..device import reset_memory_peaks

    shim().release_spare()
    reset_memory_peaks(_name(device))


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """What is known of `torch.cuda.memory_stats`, under its names."""
    held = _memory(device)
    return OrderedDict(
        {
            "allocated_bytes.all.current": memory_allocated(device),
            "allocated_bytes.all.peak": held["peak"],
            "num_device_alloc": held["allocations"],
            "reserved_bytes.all.current": held["in_use"] + held["cached"],
            "reserved_bytes.all.peak": held["peak_held"],
        }
    )


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes that are free, as far as this process knows, and all of the device's."""
    total = get_device_properties(device).total_memory
    return max(0, total - memory_reserved(device)), total


def empty_cache() -> None:
    """Give memory that is kept for reuse back to the device, and programs of ops with it."""
    from ..device import release_caches

    shim().forget_programs()
    shim().release_spare()
    release_caches()


# ---- streams ----

Stream = torch.Stream
Event = torch.Event
_PRIVATE_USE_1 = 20  # c10::DeviceType


def _stream(index: int, number: int) -> torch.Stream:
    return torch.Stream(stream_id=number, device_index=index, device_type=_PRIVATE_USE_1)


def current_stream(device: Any = None) -> torch.Stream:
    """The stream to which the thread's work goes."""
    index, number = _index(device), longs([0])
    shim().call("current_stream", index, number)
    return _stream(index, number[0])


def default_stream(device: Any = None) -> torch.Stream:
    """The stream that the device has of itself."""
    return _stream(_index(device), 0)


def set_stream(stream: torch.Stream | None) -> None:
    """From now on the thread's work on the stream's device goes there; None: nothing changes."""
    if stream is None:
        return
    _check_stream(stream)
    shim().call("set_stream", stream.device_index, stream.stream_id)


def _check_stream(stream: Any) -> None:
    if not isinstance(stream, torch.Stream) or stream.device.type != "ocl":
        raise ArgumentTypeError(f"torch.ocl: stream is {stream!r}, expected a stream of the device ocl, or None")


class StreamContext:
    """The same as long as it is entered, with the stream's device as the current one; None: nothing changes."""

    def __init__(self, stream: torch.Stream | None) -> None:
        if stream is not None:
            _check_stream(stream)
        self.stream = stream
        self._before: list[tuple[int, torch.Stream]] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before.append((current_device(), current_stream(self.stream.device)))
            set_device(self.stream.device)
            set_stream(self.stream)

    def __exit__(self, *_: Any) -> None:
        if self.stream is not None:
            device, stream = self._before.pop()
            set_stream(stream)
            set_device(device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """A context in which the thread's work on the stream's device goes there."""
    return StreamContext(stream)


# ---- random numbers ----


def manual_seed(seed: int, device: Any = None) -> None:
    torch.ops.pylayout_ocl.seed(_index(device), _as_signed(seed))


def manual_seed_all(seed: int) -> None:
    """Of all devices, also where none was used yet: that stays so, as `torch.manual_seed` calls this in any program."""
    torch.ops.pylayout_ocl.seed_all(_as_signed(seed))


def _as_signed(seed: int) -> int:
    seed = int(seed) % 2**64
    return seed - 2**64 if seed >= 2**63 else seed


def seed(device: Any = None) -> None:
    """Begin from a seed that nobody knows."""
    import secrets

    manual_seed(secrets.randbits(63), device)


def seed_all() -> None:
    import secrets

    manual_seed_all(secrets.randbits(63))


def initial_seed(device: Any = None) -> int:
    state: int = torch.ops.pylayout_ocl.initial_seed(_index(device)) % 2**64
    return state


def get_rng_state(device: Any = "ocl") -> torch.Tensor:
    state: torch.Tensor = torch.ops.pylayout_ocl.random_state(_index(device))
    return state


def set_rng_state(new_state: torch.Tensor, device: Any = "ocl") -> None:
    torch.ops.pylayout_ocl.set_random_state(_index(device), new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, kept in enumerate(new_states):
        set_rng_state(kept, index)


# ---- what runs on the CPU ----


@dataclass(frozen=True)
class Fallback:
    """An op that ran on the CPU: how often, and why."""

    op: str
    count: int
    reason: str


def fallbacks() -> list[Fallback]:
    """The ops that ran on the CPU since the start or `clear_fallbacks`, the most frequent first."""
    found = []
    for line in shim().text("fallbacks").splitlines():
        count, rest = line.split(" ", 1)
        op, reason = rest.split(": ", 1)
        found.append(Fallback(op, int(count), reason))
    return sorted(found, key=lambda each: -each.count)


def clear_fallbacks() -> None:
    """Count from zero, and warn again."""
    shim().clear_fallbacks()


def set_fallback(mode: str) -> None:
    """What happens with an op that the device has not: "warn" once (default), "silent", or "error"."""
    if mode not in _MODES:
        raise ValueError(f"torch.ocl.set_fallback: mode is {mode!r}, expected one of {', '.join(_MODES)}")
    shim().set_fallback(_MODES.index(mode))


def _keep_from_dynamo() -> None:
    """`torch.compile` does not look into these functions, as it does not into those of `torch.cuda`.

    `torch.compiler.disable` says the same, but loads all of Dynamo, which `import torch` does not.
    """
    dynamo = torch._C._dynamo.eval_frame
    skip = dynamo._FrameExecStrategy(dynamo._FrameAction.SKIP, dynamo._FrameAction.SKIP)
    for found in list(globals().values()):
        if isinstance(found, FunctionType) and found.__module__ == __name__:
            found._torchdynamo_disable = True  # type: ignore[attr-defined]
            dynamo.set_code_exec_strategy(found.__code__, skip)


_keep_from_dynamo()
