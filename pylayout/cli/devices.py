"""`pylayout devices`: what is here, what is loaded, what is missing."""

from __future__ import annotations

import argparse
from typing import Any

from ..device import describe
from .terminal import Table, bytes_text, style

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "devices",
        help="the devices and libraries of this machine, and what is missing",
        description="Show the devices that ops can run on, which providers serve them, and the libraries in use.",
    )
    parser.add_argument("--verbose", "-v", action="store_true", help="show every property of each device")
    parser.set_defaults(run=run)


def _summary(properties: dict[str, str]) -> str:
    """The properties that tell devices apart, in a line."""
    parts = []
    for key, text in (
        ("platform", "{}"),
        ("driver", "driver {}"),
        ("compute units", "{} compute units"),
        ("processors", "{} processors"),
        ("isa", "{}"),
    ):
        if properties.get(key):
            parts.append(text.format(properties[key]))
    memory = properties.get("memory bytes", "")
    if memory.isdigit():
        parts.append(f"{bytes_text(int(memory))} of memory")
    return ", ".join(parts)


def run(options: argparse.Namespace) -> dict[str, Any]:
    found = describe()
    table = Table(("device", "providers", "what it is"))
    for device in found["devices"]:
        properties = {key.replace("_", " "): value for key, value in device["properties"].items()}
        title = properties.pop("model", "") or properties.pop("name", "") or device["fingerprint"]
        table.add(device["name"], ", ".join(device["providers"]), title)
        if options.verbose:
            for key, value in properties.items():
                table.add("", "", f"{key}: {value}", styles=("dim",))
        else:
            table.add("", "", _summary(properties), styles=("dim",))
    table.print()
    print()
    for provider in found["providers"]:
        version = provider["version"] if options.verbose else provider["version"].partition(" ")[0]
        print(style(f"{provider['name']}:", "bold"), version)
        for note in provider["notes"]:
            print(f"  {note}")
    for entry in found["wrong"]:
        print(
            f"wrong on {entry['device']}, not used: {entry['candidate']} for {entry['op']}"
            f" (relative difference from the others {entry['difference']:.1e})"
        )
    place = found["cache_dir"] or "in memory only"
    print(f"\nThreads on the cpu: {found['threads']}. Measured costs and compiled kernels: {place}.")
    return found
