"""What this machine and this installation are, for reports."""

from __future__ import annotations

import os
import platform

from ._version import __version__
from .device import describe

__all__ = ["facts"]


def facts() -> dict[str, str]:
    """Names and values: devices, libraries, versions, system."""
    import numpy

    found = describe()
    result = {"pylayout": __version__}
    for device in found["devices"]:
        properties = dict(device["properties"])
        title = properties.pop("model", "") or properties.pop("name", "") or device["fingerprint"]
        details = ", ".join(f"{key} {value}" for key, value in properties.items() if value not in ("", None))
        result[device["name"]] = f"{title} ({details})" if details else title
    for provider in found["providers"]:
        notes = " ".join(provider["notes"])
        result[f"provider {provider['name']}"] = " · ".join(part for part in (provider["version"], notes) if part)
    result["threads"] = str(found["threads"])
    result["system"] = f"{platform.system()} {platform.release()}, {os.cpu_count()} processors"
    result["Python"] = f"{platform.python_version()}, NumPy {numpy.__version__}"
    return result
