"""Times of whole networks that dlprimitives' benchmark printed, to stand beside ours of the same batch.

A line "== resnet18 infer" or "== resnet18 train adam" comes before each network's, whose "TOT time per batch" counts.
"""

from __future__ import annotations

import re
from pathlib import Path

_TITLE = re.compile(r"== (\S+) (infer|train adam)")
_TOTAL = re.compile(r"TOT time per batch:\s*([\d.]+) ms")


def network_times(path: Path) -> dict[tuple[str, str], float]:
    """Milliseconds by network and work: "inference", or "training" with Adam."""
    found: dict[tuple[str, str], float] = {}
    title = None
    for line in path.read_text("utf-8").splitlines():
        if match := _TITLE.match(line):
            title = match[1], "inference" if match[2] == "infer" else "training"
        elif (match := _TOTAL.match(line)) and title:
            found[title] = float(match[1])
    return found
