"""The search for the fastest kernel parameters on a device: `pl.tune_device`, and tables of what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ._load import ffi, lib
from .callbacks import Callbacks
from .context import handle
from .errors import check, keep_raised, take_json, take_raised

__all__ = ["table_text", "tune_device", "tuned_values"]

# Called now and then during a search: what is done, how far all is (0 to 1). False: stop, and keep what was found.
TuneProgress = Callable[[str, float], bool | None]

_running = Callbacks()


@ffi.def_extern(error=1, onerror=keep_raised)  # type: ignore[untyped-decorator]
def pyl_python_tune_progress(user: Any, what: Any, fraction: float) -> int:
    callback = _running.find(int(ffi.cast("uintptr_t", user)))
    return int(callback is not None and callback(ffi.string(what).decode("utf-8", "replace"), fraction) is False)


def tune_device(device: str, *, seconds: float = 300.0, progress: TuneProgress | None = None) -> dict[str, Any]:
    """Search the tuning spaces of kernels for every op met so far on a device, the dearest first.

    Ops are met by running, querying or compiling them, with tune="off" too. Times are kept as they come: another call,
    in another process too, goes on where this one stopped. Returns {"device", "seconds", "ops"}, ops as dicts: op,
    before_ms, after_ms, before, after, points, measured, finished, found.

    >>> import pylayout as pl
    >>> pl.tune_device("cpu", seconds=0.01)["device"]
    'cpu'
    """
    text = ffi.new("char **")
    with _running.number_of(progress, "tune_device: progress") as number:
        report = ffi.addressof(lib, "pyl_tune_progress") if number else ffi.NULL
        check(lib.pl_tune(handle(), device.encode(), float(seconds), report, ffi.cast("void *", number), text))
    result = dict(take_json(text))
    raised = take_raised()
    if raised is not None and (progress is None or not isinstance(raised, KeyboardInterrupt)):
        raise raised
    result["interrupted"] = raised is not None
    return result


def tuned_values(device: str) -> list[dict[str, Any]]:
    """What searches on this device found: dicts of family, shapes (their class), values, op and ms."""
    text = ffi.new("char **")
    check(lib.pl_tuned(handle(), device.encode(), text))
    return list(take_json(text))


def table_text(rows: Iterable[dict[str, Any]], device: str) -> str:
    """A table of tuned values as the library reads it (docs/howto/tune.md): for each class the values that won.

    device: words that the device's vendor and name contain.
    """
    fastest: dict[tuple[str, str, str], dict[str, Any]] = {}  # by family, class and op: the last search's winner
    for row in rows:
        key = (row["family"], row["shapes"], row["op"])
        if key not in fastest or row["ms"] < fastest[key]["ms"]:
            fastest[key] = row
    classes: dict[tuple[str, str], dict[str, list[float]]] = {}
    for (family, shapes, _), row in fastest.items():
        classes.setdefault((family, shapes), {}).setdefault(row["values"], []).append(row["ms"])
    lines = [f"device {device}"]
    for (family, shapes), found in sorted(classes.items()):
        # Where ops of one class disagree: most of them, then the dearest.
        values = max(found, key=lambda text: (len(found[text]), sum(found[text]), text))
        lines.append(f"{family} {shapes}: {values}")
    return "\n".join(lines) + "\n"
