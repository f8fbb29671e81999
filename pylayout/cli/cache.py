"""`pylayout cache`: measured costs, choices of plans and compiled kernels, kept between runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..device import clear_costs, costs, export_costs, import_costs
from .common import check_folder, threads, writing
from .errors import UsageError
from .terminal import Table, bytes_text

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "cache",
        help="show, clear, export or import the measured costs and compiled kernels kept on disk",
        description="Show where pylayout keeps measured costs, the choices of plans that rest on them, and compiled\n"
        "OpenCL kernels, and how much, and which tables of other machines' costs there are; "
        "or clear them. Clearing is safe at any time: what is needed is measured and compiled again.\n"
        "`export` writes what was measured on a device as a table, `import` keeps such a table of another machine:\n"
        "where the device is of the same class it serves until something is measured, if a few of its ops agree.",
        epilog="The place is $PYLAYOUT_CACHE_DIR, else $XDG_CACHE_HOME/pylayout, else ~/.cache/pylayout.",
    )
    parser.add_argument(
        "action",
        nargs="?",
        choices=("show", "clear", "export", "import"),
        default="show",
        help="show (default); clear everything; export costs to a file; import them from one",
    )
    parser.add_argument("file", nargs="?", help="of export and import")
    parser.add_argument("--device", default="cpu", help="whose costs are exported (default: cpu)")
    parser.add_argument(
        "--threads", type=threads, default=0, help="of the exported costs on cpu (default: the processors)"
    )
    parser.add_argument("--only", choices=("costs", "kernels"), help="costs with choices, or kernels, not both")
    parser.set_defaults(run=run)


def _files(directory: str, kind: str) -> list[Path]:
    folder = Path(directory) / kind
    return sorted(path for path in folder.rglob("*") if path.is_file()) if directory and folder.is_dir() else []


def _folder(directory: str, kind: str, files: list[Path]) -> dict[str, Any]:
    return {
        "path": str(Path(directory) / kind) if directory else "",
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
    }


def _describe() -> dict[str, Any]:
    state = costs()
    path = Path(state["path"]) if state["path"] else None
    size = path.stat().st_size if path and path.is_file() else 0
    files = _files(state["cache_dir"], "programs")
    plans = _files(state["cache_dir"], "plans")
    return {
        "directory": state["cache_dir"],
        "costs": {**state, "bytes": size},
        "plans": _folder(state["cache_dir"], "plans", plans),
        "kernels": _folder(state["cache_dir"], "programs", files),
    }


def _print(state: dict[str, Any]) -> None:
    table = Table(("what", "where", "entries", "size"), right=("entries", "size"))
    known, plans, kernels = state["costs"], state["plans"], state["kernels"]
    table.add("measured costs", known["path"] or "in memory only", known["records"], bytes_text(known["bytes"]))
    table.add("choices of plans", plans["path"] or "nowhere", plans["files"], bytes_text(plans["bytes"]))
    table.add("compiled kernels", kernels["path"] or "in memory only", kernels["files"], bytes_text(kernels["bytes"]))
    table.print()
    _print_tables(known["tables"], known["cost_tables"])
    if known.get("environments", 0) > 1:
        print(f"Costs of {known['environments']} environments (device, driver, library versions, threads).")
    if known.get("damaged"):
        print(f"Damaged records that were skipped: {known['damaged']}; `pylayout cache clear --only costs` drops them.")
    if not known.get("writable", True):
        print("The place cannot be written: costs are kept in memory only.")


def _print_tables(tables: list[dict[str, Any]], wanted: bool) -> None:
    """Those of other machines; of those that may serve a device here, what was found out about them."""
    if not tables:
        return
    table = Table(("table of costs", "for", "ops", "machine", "here"), right=("ops",))
    for entry in tables:
        origin = "imported" if entry["imported"] else "package"
        name = f"{Path(entry['path']).name} ({origin})"
        for device in entry["devices"]:
            about = f"{device['about'].get('machine', '')}, {device['about'].get('day', '')}".strip(", ")
            table.add(name, device["device"], device["ops"], about, device["found"] if wanted else "switched off")
        if not entry["devices"]:
            table.add(name, "no device here", "", entry["class"], "")
    table.print()


def _export(options: argparse.Namespace) -> dict[str, Any]:
    check_folder("cache export", options.file)
    text = export_costs(options.device, options.threads)
    lines = [line.split("\t") for line in text.splitlines()]
    ops = [line for line in lines[2:] if line[0] not in ("about", "way")]
    if not ops:
        raise UsageError(
            f"cache export: nothing was measured on {options.device} yet, or all of it while other programs had the "
            "processors: `pylayout tune` measures"
        )
    with writing("cache export", options.file):
        Path(options.file).write_text(text, "utf-8")
    candidates = sum(len(line) - 2 for line in ops)
    made_for = "|threads=".join(part for part in lines[1][1:] if part != "0")
    print(f"{options.file}: {candidates} candidates of {len(ops)} ops, for machines of the class {made_for}")
    return {"file": options.file, "class": made_for, "ops": len(ops), "candidates": candidates}


def _import(options: argparse.Namespace) -> dict[str, Any]:
    try:
        text = Path(options.file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cache import: {options.file} cannot be read: {error}") from error
    found = import_costs(text)
    print(f"{found['path']}: {found['candidates']} candidates of {found['ops']} ops")
    if found["damaged"]:
        print(f"Lines that were skipped: {found['damaged']}.")
    if found["devices"]:
        print(f"For {', '.join(found['devices'])}, once a few of its ops were measured and agree.")
    else:
        print(f"No device here is of its class ({found['class']}): it changes nothing.")
    return found


def run(options: argparse.Namespace) -> dict[str, Any]:
    if options.action in ("export", "import"):
        if options.file is None:
            raise UsageError(f"cache {options.action}: the name of a file is missing")
        return (_export if options.action == "export" else _import)(options)
    if options.file:
        raise UsageError(f"cache {options.action}: takes no file, given {options.file}")
    state = _describe()
    if options.action == "show":
        _print(state)
        return state
    cleared = {}
    if options.only != "kernels":
        cleared["costs"] = state["costs"]["records"]  # and the choices that rest on them
        clear_costs()
    if options.only != "costs":
        files = _files(state["directory"], "programs")
        for path in files:
            path.unlink(missing_ok=True)  # another process may clear too
        cleared["kernels"] = len(files)
    print(", ".join(f"{count} {what}" for what, count in cleared.items()) + " cleared")
    return {"cleared": cleared, **_describe()}
