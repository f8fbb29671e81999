"""`pylayout cache`: measured costs, choices of plans and compiled kernels, kept between runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..device import clear_costs, costs
from .terminal import Table, bytes_text

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "cache",
        help="show or clear the measured costs and compiled kernels kept on disk",
        description="Show where pylayout keeps measured costs, the choices of plans that rest on them, and compiled\n"
        "OpenCL kernels, and how much; "
        "or clear them. Clearing is safe at any time: what is needed is measured and compiled again.",
        epilog="The place is $PYLAYOUT_CACHE_DIR, else $XDG_CACHE_HOME/pylayout, else ~/.cache/pylayout.",
    )
    parser.add_argument(
        "action", nargs="?", choices=("show", "clear"), default="show", help="show (default), or clear everything"
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
    if known.get("environments", 0) > 1:
        print(f"Costs of {known['environments']} environments (device, driver, library versions, threads).")
    if known.get("damaged"):
        print(f"Damaged records that were skipped: {known['damaged']}; `pylayout cache clear --only costs` drops them.")
    if not known.get("writable", True):
        print("The place cannot be written: costs are kept in memory only.")


def run(options: argparse.Namespace) -> dict[str, Any]:
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
