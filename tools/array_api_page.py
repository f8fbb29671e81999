"""Write docs/reference/array-api.md: which names of the Python array API standard `pylayout.array_api` has.

python tools/array_api_page.py           writes it
python tools/array_api_page.py --check   fails if it is not current

The standard's names are those of the package array-api-strict; without it the page cannot be made, and --check passes.
"""

import sys
from pathlib import Path

from generated import write_or_check

from pylayout import array_api

PATH = Path(__file__).parent.parent / "docs" / "reference" / "array-api.md"

HEAD = """# Array API

Made by `tools/array_api_page.py`: do not edit. Which names of the
[Python array API standard](https://data-apis.org/array-api/{version}) `pylayout.array_api` has. Those that are there
agree with the package array-api-strict in values and dtypes (`tests/test_array_api.py`). How to use it:
[Write to the array API](../howto/write-to-the-array-api.md).
"""


def standard_names() -> list[str]:
    """What array-api-strict has, without what is its own."""
    import array_api_strict

    own = ("ArrayAPIStrictFlags", "Device", "ModuleType")
    names = (name for name in dir(array_api_strict) if not name.startswith("_") and name not in own)
    return sorted(name for name in names if "strict_flags" not in name)


def page() -> str:
    """The whole page."""
    names = standard_names()
    there = [name for name in names if hasattr(array_api, name)]
    lines = [HEAD.format(version=array_api.__array_api_version__), "| name | what it is |", "|---|---|"]
    for name in there:
        member = getattr(array_api, name)
        text = (member.__doc__ or "").split("\n")[0] if callable(member) else f"`{member!r}`"
        lines.append(f"| `{name}` | {text.replace('|', chr(92) + '|')} |")
    absent = ", ".join(f"`{name}`" for name in names if name not in there)
    lines += ["", f"{len(there)} of {len(names)} names are there. Absent: {absent}.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        content = page()
    except ImportError:
        print("array-api-strict is not installed: the page is neither made nor checked", file=sys.stderr)
        sys.exit(0 if "--check" in sys.argv[1:] else 1)
    sys.exit(write_or_check({PATH: content}, "array_api_page.py"))
