"""What `--json` of a benchmark writes: its rows, with the machine, the versions, the date and the command.

`tools/results_page.py` makes pages and plots of such files in docs/results/data/.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

__all__ = ["record", "write"]

# Distributions whose versions matter to a benchmark once their modules are imported.
_LIBRARIES = {
    "numpy": "numpy",
    "torch": "torch",
    "transformers": "transformers",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "onnx": "onnx",
}


def _command(benchmark: str) -> str:
    """The command that repeats this run, without where its result went."""
    words = sys.argv[1:]
    if words[:1] == [benchmark]:  # python -m bench NAME …
        words = words[1:]
    if "--json" in words:
        at = words.index("--json")
        words = words[:at] + words[at + 2 :]
    return shlex.join(["python", "-m", f"bench.{benchmark}", *words])


def _machine(device: str) -> dict[str, Any]:
    """What ran: the device's name and what it says of itself, the processors, how busy they are."""
    import pylayout
    from pylayout.device import describe

    found = next((one for one in describe()["devices"] if one["name"] == device), None)
    properties = dict(found["properties"]) if found else {}
    result: dict[str, Any] = {
        "name": properties.get("model") or properties.get("name") or (found["fingerprint"] if found else device),
        "device": device,
        "processors": len(os.sched_getaffinity(0)),
        "threads": pylayout.get_threads(),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 1),  # processes that run or wait, over the last minute
    }
    return result | {key: properties[key] for key in ("isa", "driver") if properties.get(key)}


def _versions() -> dict[str, str]:
    """Of pylayout, its providers, Python and the libraries that were imported."""
    import pylayout
    from pylayout.device import describe

    found = {"pylayout": pylayout.__version__, "python": platform.python_version()}
    providers = describe()["providers"]
    found |= {one["name"]: one["version"] for one in providers if one["name"] == "onednn" and one["version"]}
    for module, distribution in _LIBRARIES.items():
        if module in sys.modules or any(name.startswith(f"{module}.") for name in sys.modules):
            found[module] = importlib.metadata.version(distribution)
    return found


def record(benchmark: str, rows: list[dict[str, Any]], *, device: str = "cpu", **more: Any) -> dict[str, Any]:
    """The whole of it. `more`: what a benchmark says beside its rows; `threads` replaces those of this process."""
    machine = _machine(device)
    if "threads" in more:
        machine["threads"] = more.pop("threads")
    return {
        "benchmark": benchmark,
        "title": more.pop("title", benchmark.replace("_", " ")),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "command": _command(benchmark),
        "machine": machine,
        "versions": _versions(),
        **more,
        "rows": rows,
    }


def write(path: str | Path, benchmark: str, rows: list[dict[str, Any]], *, device: str = "cpu", **more: Any) -> None:
    """Write the record to a file, as JSON."""
    text = json.dumps(record(benchmark, rows, device=device, **more), indent=1, ensure_ascii=False)
    Path(path).write_text(text + "\n", "utf-8")
