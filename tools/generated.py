"""What the tools that make files have in common: writing the files, or with --check saying whether they are current."""

import sys
from pathlib import Path


def write_or_check(files: dict[Path, str], tool: str, stale: list[Path] | None = None) -> int:
    """Write each text to its path and remove the files of `stale`; with --check compare only.

    Returns the tool's exit code: 0, or 1 where --check finds a file that differs, is missing or should not be there.
    """
    stale = stale or []
    if "--check" not in sys.argv[1:]:
        for path in stale:
            path.unlink()
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return 0
    wrong = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in [*wrong, *stale]:
        print(f"{path.name} is not current: run `python tools/{tool}`", file=sys.stderr)
    return 1 if wrong or stale else 0
