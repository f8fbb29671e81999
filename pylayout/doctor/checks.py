"""Checks: what each fact of a machine means for speed, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from .facts import Facts

__all__ = ["CHECKS", "Finding", "Severity", "examine"]

Severity = Literal["error", "warning", "note"]

# Environment variables that pylayout reads, and what their values look like; any where "". What they mean:
# docs/reference/settings.md.
SETTINGS = {
    "PYLAYOUT_CACHE_DIR": "",
    "PYLAYOUT_COMPILERS": "[0-9]|[1-5][0-9]|6[0-4]",
    "PYLAYOUT_HUGE_PAGES": "[01]",
    "PYLAYOUT_OCL_ANY_TORCH": "[01]",
    "PYLAYOUT_ONEDNN": "",
    "PYLAYOUT_OPENCL": "",
    "PYLAYOUT_OPENCL_AS": "gpu",
    "PYLAYOUT_OPENCL_OPTIONS": "",
    "PYLAYOUT_OPENCL_PATH": "",
    "PYLAYOUT_SUBMIT": "caller|thread",
}
_SAID = {"PYLAYOUT_COMPILERS": "0 to 64", "PYLAYOUT_HUGE_PAGES": "0 or 1", "PYLAYOUT_OCL_ANY_TORCH": "0 or 1"}
# Those that its tests and benchmarks read.
OF_TESTS = (
    "PYLAYOUT_BENCH_BUILD",
    "PYLAYOUT_BUILD_DIR",
    "PYLAYOUT_TEST_DEVICE",
    "PYLAYOUT_TEST_VERBOSE",
    "PYLAYOUT_VERIFY_CHECKS",
    "PYLAYOUT_VERIFY_SECONDS",
    "PYLAYOUT_VERIFY_SEED",
)

# A share of time that a hypervisor gives to others, and a share of the processors that other programs keep busy, from
# which on times vary by more than the differences that choices are made by (1 to 2%).
STEAL_SHARE = 0.02
OTHERS_SHARE = 0.10

# Below this free space on the disk of the cache, new kernels may not fit: compiled ones take up to 2 MB each.
FREE_BYTES = 100 * 2**20


@dataclass(frozen=True)
class Finding:
    """One thing that costs speed. `error`: something does not work; `warning`: it costs time; `note`: it may."""

    severity: Severity
    check: str
    fact: str
    remedy: str

    def to_json(self) -> dict[str, str]:
        return {"severity": self.severity, "check": self.check, "fact": self.fact, "remedy": self.remedy}


Check = Callable[[Facts], Iterator[tuple[Severity, str, str]]]
CHECKS: dict[str, Check] = {}


def _check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def examine(facts: Facts) -> list[Finding]:
    """All findings, the gravest first."""
    found = [Finding(severity, name, *rest) for name, check in CHECKS.items() for severity, *rest in check(facts)]
    return sorted(found, key=lambda finding: ("error", "warning", "note").index(finding.severity))


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _processors(count: float) -> str:
    return f"{count:g} processor" + ("" if count == 1 else "s")


def _threads(count: int, verb: str) -> str:
    return f"{count} thread {verb}s" if count == 1 else f"{count} threads {verb}"


@_check
def governor(facts: Facts) -> Iterator[tuple[Severity, str, str]]:
    """Frequency governors that keep processors slow."""
    remedy = "cpupower frequency-set --governor performance"
    for name, count in facts.governors.items():
        if name == "powersave" and facts.energy_preferences:
            continue  # the driver chooses frequencies by its energy preference
        if name in ("powersave", "ondemand", "conservative", "userspace"):
            yield "warning", f"the frequency governor of {_processors(count)} is {name}", remedy
        elif name == "schedutil":
            yield "note", f"the frequency governor of {_processors(count)} is {name}: the first runs are slower", remedy
    for name, count in facts.energy_preferences.items():
        if name in ("power", "balance_power"):
            fact = f"the energy preference of {_processors(count)} is {name}"
            yield "warning", fact, "cpupower frequency-set --governor performance, or the desktop's power profile"
    if facts.boost is False:
        fact = "frequencies above the nominal one are turned off"
        yield "note", fact, "turn turbo (boost) on in the firmware or in /sys/devices/system/cpu"


@_check
def quota(facts: Facts) -> Iterator[tuple[Severity, str, str]]:
    """A container's limit of processor time below the number of threads."""
    if facts.quota is not None and facts.quota < facts.threads:
        count = max(1, int(facts.quota))
        yield (
            "warning",
            f"{_threads(facts.threads, 'share')} the {_processors(round(facts.quota, 2))} that this container may use: "
            "when its time is spent they stop",
            f"pylayout.configure(threads={count}), --threads {count}, or a higher limit of the container",
        )


@_check
def affinity(facts: Facts) -> Iterator[tuple[Severity, str, str]]:
    """More threads than processors for them, or fewer processors than the machine has."""
    allowed = len(facts.allowed)
    if facts.threads > allowed:
        yield (
            "warning",
            f"{facts.threads} threads share {_processors(allowed)}: each op waits for its slowest thread",
            f"pylayout.configure(threads={allowed}), or --threads {allowed}",
        )
    if allowed < facts.processors:
        listed = ",".join(map(str, facts.allowed))
        yield (
            "note",
            f"this process may use {allowed} of the {_processors(facts.processors)}: {listed}",
            "taskset, the scheduler's or the container's set of processors, where more are wanted",
        )
    elif facts.threads < (facts.cores or allowed) and (facts.quota is None or facts.quota > facts.threads):
        cores = facts.cores or allowed
        fact = f"{_threads(facts.threads, 'leave')} {_processors(cores - facts.threads)} idle"
        yield "note", fact, f"pylayout.configure(threads={cores}), or --threads {cores}"


@_check
def hyperthreads(facts: Facts) -> Iterator[tuple[Severity, str, str]]:
    """Two threads on one core, which share its arithmetic units."""
    if facts.cores is not None and facts.cores < facts.threads <= len(facts.allowed):
        yield (
            "note",
            f"{facts.threads} threads share {facts.cores} cores, two on a core: its arithmetic units are shared",
            f"compare with --threads {facts.cores}; convolutions and matrix products are often faster so",
        )


@_check
def opencl(facts: Facts) -> Iterator[tuple[Severity, str, str]]:
    """OpenCL runtimes that are missing, refuse to open, or are slower than another one."""
    if facts.environment.get("PYLAYOUT_OPENCL") == "none":
        yield "note", "PYLAYOUT_OPENCL=none turns OpenCL off", "unset PYLAYOUT_OPENCL"
        return
    for note in facts.opencl_notes:
        if "could not be opened" in note or "lists no platform" in note:
            yield "error", note, "mend or remove that runtime; `pylayout devices` shows what remains"
    if facts.graphics and not facts.gpu_devices:
        yield (
            "warning",
            f"a GPU is here ({facts.graphics[0]}), but OpenCL lists none: its work runs on the processor",
            "install OpenCL of the GPU's driver (a file in /etc/OpenCL/vendors names it), and permit its device files",
        )
    if not facts.opencl_platforms:
        yield (
            "note",
            "there is no OpenCL runtime: oneDNN alone runs convolutions, and no fused kernels of our own are tried",
            "pip install '.[opencl]' in the clone, or Debian's pocl-opencl-icd",
        )
    elif all(platform == "Portable Computing Language" for platform in facts.opencl_platforms):
        yield (
            "note",
            "the only OpenCL runtime is PoCL, which takes 35 us for a launch where Intel's takes 3",
            "pip install intel-opencl-rt intel-cmplr-lib-rt (it serves AMD's processors too)",
        )


@_check
def cache(facts: Facts) -> Iterator[tuple[Severity, str, str]]:
    """Files of measured costs and kernels that are damaged or cannot be kept."""
    if not facts.cache:
        yield "warning", "there is no folder for the cache: each process measures anew", "set PYLAYOUT_CACHE_DIR"
    elif not facts.cache_writable:
        fact = f"{facts.cache} cannot be written: each process measures anew"
        yield "error", fact, "permit writing there, or set PYLAYOUT_CACHE_DIR to another folder"
    if facts.damaged:
        fact = f"{facts.damaged} records of measured costs are damaged and are skipped"
        yield "warning", fact, "pylayout cache clear --only costs"
    if facts.damaged_kernels:
        count, first = len(facts.damaged_kernels), facts.damaged_kernels[0]
        fact = f"{count} compiled kernels are damaged and are compiled anew when they are needed: {first}"
        yield "warning", fact, "pylayout cache clear --only kernels; then look at the disk"
    if facts.cache_free is not None and facts.cache_free < FREE_BYTES:
        fact = f"the disk of {facts.cache} has {facts.cache_free / 2**20:.0f} MiB left"
        yield "warning", fact, "make room, or set PYLAYOUT_CACHE_DIR to another disk"


@_check
def measurements(facts: Facts) -> Iterator[tuple[Severity, str, str]]:
    """Costs that were measured elsewhere, not at all, or not for a model's ops."""
    if not facts.costs:
        yield (
            "note",
            "nothing has been measured here yet: the first compilation of a model takes up to a minute longer",
            "compile the model once; for GPUs: pylayout tune MODEL --device opencl:0",
        )
    elif facts.stale == facts.costs:
        yield (
            "warning",
            f"all {facts.costs} measured costs are of another device, driver, version or number of processors: "
            "models are measured anew",
            "compile each model once more; pylayout cache clear --only costs drops the old ones",
        )
    elif facts.stale > facts.costs / 2:
        fact = f"{facts.stale} of {facts.costs} measured costs are of another device, driver, version or affinity"
        yield "note", fact, "pylayout cache clear --only costs drops them, and those that hold too"
    if facts.estimated:
        yield (
            "warning",
            f"{len(facts.estimated)} of {facts.nodes} ops of the model rest on estimates: {_first(facts.estimated)}",
            "compile it with tune='auto' or 'full' (pylayout run --tune full --tune-seconds 0)",
        )
    if facts.marked:
        yield (
            "note",
            f"{len(facts.marked)} of {facts.nodes} ops of the model were measured while other programs were busy: "
            f"{_first(facts.marked)}",
            "compile it while the machine is quiet: they are measured again (pylayout run --tune full)",
        )


@_check
def busy(facts: Facts) -> Iterator[tuple[Severity, str, str]]:
    """Time that other programs or other virtual machines take."""
    if facts.steal is not None and facts.steal > STEAL_SHARE:
        fact = f"the hypervisor gave {facts.steal:.0%} of the processors' time to other machines"
        yield (
            "warning",
            fact,
            "a machine with processors of its own; compare runs in turns, never single times",
        )
    if facts.others is not None and facts.others > OTHERS_SHARE * facts.processors:
        yield (
            "warning",
            f"other programs keep {facts.others:.1f} of {_processors(facts.processors)} busy: an op waits until all of "
            "its threads have run",
            "end them, or leave them processors of their own: taskset, and fewer --threads",
        )


@_check
def openmp(facts: Facts) -> Iterator[tuple[Severity, str, str]]:
    """Settings of OpenMP, whose threads run the ops on the CPU."""
    given = facts.environment

    def is_set(name: str, *values: str) -> bool:
        return given.get(name, "").strip().lower() in values

    limit = given.get("OMP_THREAD_LIMIT", "")
    if limit.isdigit() and int(limit) < facts.threads:
        fact = f"OMP_THREAD_LIMIT={limit} is below the {facts.threads} threads that ops ask for"
        yield "warning", fact, "unset OMP_THREAD_LIMIT"
    if is_set("OMP_WAIT_POLICY", "passive") or is_set("GOMP_SPINCOUNT", "0"):
        name = "OMP_WAIT_POLICY" if is_set("OMP_WAIT_POLICY", "passive") else "GOMP_SPINCOUNT"
        fact = f"{name}={given[name]}: threads sleep between ops, and waking them costs tens of microseconds each time"
        yield "warning", fact, f"unset {name}, unless other programs need the processors"
    if is_set("OMP_DYNAMIC", "true", "1"):
        fact = f"OMP_DYNAMIC={given['OMP_DYNAMIC']}: OpenMP may give ops fewer threads than they were measured with"
        yield "warning", fact, "unset OMP_DYNAMIC"
    for name in ("GOMP_CPU_AFFINITY", "OMP_PLACES"):
        if name in given:
            fact = f"{name}={given[name]} pins threads: other programs on those processors stop them"
            yield "note", fact, f"unset {name}, unless the processors are this program's own"


@_check
def settings(facts: Facts) -> Iterator[tuple[Severity, str, str]]:
    """Settings of oneDNN that forbid instructions or print, and names and values that nothing reads."""
    for name, value in facts.environment.items():
        if name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA") and value.upper() not in ("", "ALL", "DEFAULT"):
            yield "warning", f"{name}={value} forbids oneDNN newer instructions", f"unset {name}"
        if name in ("ONEDNN_VERBOSE", "DNNL_VERBOSE") and value not in ("", "0", "none"):
            yield "warning", f"{name}={value} prints a line for each primitive", f"unset {name}"
        if name.startswith("PYLAYOUT_") and name not in (*SETTINGS, *OF_TESTS):
            yield "warning", f"{name} is set, but nothing reads it", f"expected one of {', '.join(SETTINGS)}"
        form = SETTINGS.get(name)
        if form and value and not re.fullmatch(form, value):
            expected = _SAID.get(name, form.replace("|", " or "))
            yield "warning", f"{name}={value} is not taken: it says nothing that is known", f"expected {expected}"


@_check
def faults(facts: Facts) -> Iterator[tuple[Severity, str, str]]:
    """Known faults of libraries here that cannot be avoided without loss; the others are listed by --faults."""
    for fault in facts.faults:
        if fault["applies"] and fault["remedy"]:
            fact = f"{fault['library']} {', '.join(fault['here'])}: {fault['effect']}; {fault['instead']}"
            yield "error", fact, fault["remedy"]
