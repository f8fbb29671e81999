"""Write docs/reference/ci.md, what runs where, from tools/ci_parts.py and the marks of the tests.

python tools/ci_page.py           writes it
python tools/ci_page.py --check   fails if it is not current
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from ci_parts import ALL_KERNELS, PARTS
from generated import write_or_check

ROOT = Path(__file__).parent.parent
PATH = ROOT / "docs" / "reference" / "ci.md"

HEAD = """# What CI runs

Made by `tools/ci_page.py` from `tools/ci_parts.py`, `tests/c/support/slow_cases.txt` and the marks of the tests: do not
edit.

`.ci/run` builds everything, makes the site of `docs/` and runs `make test` each time. Of the parts below it runs those
that cover what changed since `CI_BASE` (else since the branch left `origin/main`), and one a day, in turns: {days} days
are a round. A part is left out where programs that it takes are not installed. So that an answer comes in about
20 minutes, parts that would begin later than after 12 (`CI_MINUTES`) are left out, and named; each day begins with
another part of those that are due.
`CI_PARTS=all .ci/run` runs all of them, `CI_PARTS="{first}" .ci/run` those named, however long they take.
"""


def c_cases() -> list[str]:
    """FILE.CASE of every case of tests/c."""
    found = []
    for path in sorted((ROOT / "tests" / "c").glob("test_*.c*")):
        name = path.stem.removeprefix("test_")
        found += [f"{name}.{case}" for case in re.findall(r'^TEST\("(\w+)"\)', path.read_text("utf-8"), re.MULTILINE)]
    return found


def slow_patterns() -> list[tuple[str, str]]:
    """Families of kernels with the patterns of their slow cases."""
    lines = (ROOT / "tests" / "c" / "support" / "slow_cases.txt").read_text("utf-8").splitlines()
    split = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(family, pattern) for family, _, pattern in split]


def marked(mark: str) -> dict[str, list[str]]:
    """By file: the functions of tests/ whose decorators hold pytest.mark.MARK, for all or some of their parameters."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        for node in ast.parse(text).body:
            decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
            uses = [ast.unparse(each) for each in decorators]
            uses = [use for use in uses if f"mark.{mark}" in use or (mark == "slow" and "mark.one_in" in use)]
            if uses:
                some = not any(use == f"pytest.mark.{mark}" for use in uses)
                names = found.setdefault(path.relative_to(ROOT).as_posix(), [])
                names.append(node.name + (" (some of its cases)" if some else ""))
    return found


def page() -> str:
    lines = [HEAD.format(days=len(PARTS), first=PARTS[0].target)]
    lines += ["| part | covers | runs where these changed | takes programs named |", "|---|---|---|---|"]
    for part in PARTS:
        own = [path for path in part.paths if path not in ALL_KERNELS]
        changed, needs = (", ".join(f"`{text}`" for text in texts) for texts in (own, part.needs))
        lines.append(f"| `make {part.target}` | {part.covers} | {changed} | {needs.replace('|', chr(92) + '|')} |")
    shared = ", ".join(f"`{path}`" for path in ALL_KERNELS)
    lines += ["", f"Every `test-kernels-…` runs where these changed, too: {shared}."]
    cases = c_cases()
    slow = [(case, family) for case in cases for family, pattern in slow_patterns() if re.search(pattern, case)]
    lines += ["", f"## Slow cases of tests/c: {len(slow)} of {len(cases)}", ""]
    lines += ["In `make test-kernels`, and in the part of their family.", ""]
    lines += ["| case | part |", "|---|---|"]
    lines += [f"| `{case}` | `make test-kernels-{family}` |" for case, family in slow]
    marks = {
        "slow": "In `make test-candidates`, `make test-networks`, `make test-torch`, `make test-text` and "
        "`make test-sizes`.",
        "exhaustive": "By hand: `pytest -m exhaustive`.",
    }
    for mark, where in marks.items():
        lines += ["", f"## Python tests marked {mark}", "", where, "", "| file | tests |", "|---|---|"]
        lines += [f"| `{path}` | {', '.join(names)} |" for path, names in marked(mark).items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PATH: page()}, "ci_page.py"))
