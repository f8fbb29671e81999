"""What the tools that make files have in common: writing the file, or with --check saying whether it is current."""

import sys
from pathlib import Path


def write_or_check(path: Path, text: str, tool: str) -> int:
    """The tool's exit code: 0, or 1 where --check finds that `path` does not hold `text`."""
    if "--check" not in sys.argv[1:]:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"{path.name} is not current: run `python tools/{tool}`", file=sys.stderr)
    return 1
