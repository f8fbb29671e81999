"""Facts: what the checks need to know of the machine, read from /proc, /sys, the environment and the library.

A file that is not there leaves its fact unknown (None, or empty): containers and virtual machines hide many.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..device import costs, describe, known_faults

__all__ = ["Facts", "gather"]

SAMPLE_SECONDS = 0.5

# Environment variables of OpenMP, oneDNN and pylayout that change speed; others are no concern.
_PREFIXES = ("OMP_", "GOMP_", "ONEDNN_", "DNNL_", "PYLAYOUT_")

# The header of a compiled kernel on disk: a mark, then the sizes of key and binary, then two checksums.
_KERNEL_MARK = b"PLCLBIN1"
_KERNEL_HEADER = struct.Struct("<8sQQQQ")

# Distributions whose versions are among the facts.
_DISTRIBUTIONS = ("onednn-cpu-gomp", "pocl-binary-distribution", "intel-opencl-rt", "intel-cmplr-lib-rt")


@dataclass
class Facts:
    """Of this process and its machine. The defaults are those of a machine at which nothing is wrong."""

    threads: int = 1  # that ops on the CPU use
    processors: int = 1  # online
    allowed: tuple[int, ...] = (0,)  # processors that this process may use
    cores: int | None = None  # physical ones among the allowed
    quota: float | None = None  # processors' worth of time that the container may use; None: no limit
    governors: Mapping[str, int] = field(default_factory=dict)  # frequency governor: processors that have it
    energy_preferences: Mapping[str, int] = field(default_factory=dict)  # of drivers that choose frequencies themselves
    boost: bool | None = None  # whether frequencies above the nominal one are permitted
    steal: float | None = None  # share of time that a hypervisor gave to others
    others: float | None = None  # processors that other programs kept busy
    environment: Mapping[str, str] = field(default_factory=dict)
    opencl_platforms: tuple[str, ...] = ()
    opencl_notes: tuple[str, ...] = ()
    graphics: tuple[str, ...] = ()  # device files of GPUs
    gpu_devices: tuple[str, ...] = ()  # OpenCL devices that are no CPU
    versions: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Mapping[str, Any], ...] = ()  # known ones of all libraries, as pl_known_faults has them
    cache: str = ""  # the folder; "": in memory only
    cache_writable: bool = True
    cache_free: int | None = None  # bytes on its disk
    costs: int = 1  # records
    stale: int = 0  # of another device, driver, version or number of processors
    damaged: int = 0
    damaged_kernels: tuple[str, ...] = ()
    estimated: tuple[str, ...] | None = None  # nodes of a model whose choice rests on no measurement; None: no model
    marked: tuple[str, ...] = ()  # nodes of that model whose cost was measured while other programs were busy
    nodes: int = 0  # of that model


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None


def _counted(texts: Iterable[str | None]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in texts:
        if text:
            counts[text] = counts.get(text, 0) + 1
    return counts


def physical_cores(root: Path, allowed: Iterable[int]) -> int | None:
    """Cores of the allowed processors: those whose first sibling differs."""
    siblings = [_text(root / f"sys/devices/system/cpu/cpu{i}/topology/thread_siblings_list") for i in allowed]
    if not siblings or None in siblings:
        return None
    return len(set(siblings))


def cpu_quota(root: Path) -> float | None:
    """The least limit of the control groups around this process, in processors; None where there is none."""
    limits: list[float] = []
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        places = [root / "sys/fs/cgroup"] if not controllers else [root / "sys/fs/cgroup/cpu"]
        for place in places:
            folder = place / path.lstrip("/")
            for group in (folder, *folder.parents):
                limits += _limit(group)
                if group == place:
                    break
    return min(limits, default=None)


def _limit(group: Path) -> list[float]:
    """What one control group permits: version 2's cpu.max, or version 1's quota and period."""
    unified = (_text(group / "cpu.max") or "").split()
    if len(unified) == 2 and unified[0] != "max":
        return [int(unified[0]) / int(unified[1])]
    quota, period = _text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")
    if quota and period and int(quota) > 0:
        return [int(quota) / int(period)]
    return []


def _boost(root: Path) -> bool | None:
    turbo = _text(root / "sys/devices/system/cpu/intel_pstate/no_turbo")
    if turbo is not None:
        return turbo == "0"
    boost = _text(root / "sys/devices/system/cpu/cpufreq/boost")
    return None if boost is None else boost == "1"


def processor_times(root: Path) -> list[int] | None:
    """user, nice, system, idle, iowait, irq, softirq, steal of all processors, in ticks."""
    first = (_text(root / "proc/stat") or "").split("\n")[0].split()
    return [int(word) for word in first[1:9]] if len(first) >= 9 and first[0] == "cpu" else None


def load_between(before: list[int], after: list[int], processors: int) -> tuple[float, float]:
    """(share of time stolen, processors busy) between two readings of `processor_times`."""
    spent = [late - early for early, late in zip(before, after, strict=True)]
    total = sum(spent)
    if total <= 0:
        return 0.0, 0.0
    idle, stolen = spent[3] + spent[4], spent[7]
    return stolen / total, (total - idle - stolen) / total * processors


def damaged_kernels(folder: Path) -> list[str]:
    """Compiled kernels whose file is cut off or no such file: the library replaces them when it needs them."""
    found = []
    for path in sorted(folder.rglob("*.clbin")) if folder.is_dir() else []:
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                head = file.read(_KERNEL_HEADER.size)
        except OSError:
            continue  # another process has cleared it
        if len(head) == _KERNEL_HEADER.size:
            mark, key, binary, *_ = _KERNEL_HEADER.unpack(head)
            if mark == _KERNEL_MARK and size == _KERNEL_HEADER.size + key + binary:
                continue
        found.append(str(path))
    return found


def _versions(providers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    versions = {provider["name"]: str(provider["version"]).partition(" ")[0] for provider in providers}
    for name in _DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def gather(root: Path = Path("/"), sample_seconds: float = SAMPLE_SECONDS) -> Facts:
    """Read the machine. `root` holds proc, sys and dev; the sample of how busy it is takes that long."""
    before = processor_times(root)
    if before is not None:
        time.sleep(sample_seconds)  # in which this program does nothing: what is busy are others
    after = processor_times(root)
    found, state = describe(), costs()
    opencl = [device for device in found["devices"] if "platform" in device["properties"]]
    allowed = tuple(sorted(os.sched_getaffinity(0)))
    processors = os.cpu_count() or len(allowed)
    steal, others = load_between(before, after, processors) if before and after else (None, None)
    frequency = [root / f"sys/devices/system/cpu/cpu{i}/cpufreq" for i in allowed]
    cache = found["cache_dir"]
    devices = root / "dev"
    return Facts(
        threads=found["threads"],
        processors=processors,
        allowed=allowed,
        cores=physical_cores(root, allowed),
        quota=cpu_quota(root),
        governors=_counted(_text(folder / "scaling_governor") for folder in frequency),
        energy_preferences=_counted(_text(folder / "energy_performance_preference") for folder in frequency),
        boost=_boost(root),
        steal=steal,
        others=others,
        environment={name: value for name, value in os.environ.items() if name.startswith(_PREFIXES)},
        opencl_platforms=tuple(dict.fromkeys(device["properties"]["platform"] for device in opencl)),
        opencl_notes=tuple(note for item in found["providers"] if item["name"] == "opencl" for note in item["notes"]),
        graphics=tuple(
            f"/dev/{path.relative_to(devices)}"
            for pattern in ("nvidia[0-9]*", "kfd", "dri/renderD*")
            for path in sorted(devices.glob(pattern))
        ),
        gpu_devices=tuple(device["name"] for device in opencl if device["properties"].get("type") != "cpu"),
        versions=_versions(found["providers"]),
        faults=tuple(known_faults()),
        cache=cache,
        cache_writable=bool(state["writable"]),
        cache_free=shutil.disk_usage(cache).free if cache and Path(cache).is_dir() else None,
        costs=state["records"],
        stale=state["stale"],
        damaged=state["damaged"],
        damaged_kernels=tuple(damaged_kernels(Path(cache) / "programs")) if cache else (),
    )
