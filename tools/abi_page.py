"""Write docs/reference/abi.md, the C interface, from the comments and declarations of src/pylayout.h.

python tools/abi_page.py           writes it
python tools/abi_page.py --check   fails if it is not current

A comment documents the declarations that follow it up to the next blank line or comment. `/* ---- name ---- */` begins
a section. Within a comment, lines that are indented by two blanks keep their line breaks: they are lists of options.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from generated import write_or_check

ROOT = Path(__file__).parent.parent
HEADER = ROOT / "src" / "pylayout.h"
PATH = ROOT / "docs" / "reference" / "abi.md"

HEAD = """# C ABI

Made by `tools/abi_page.py` from `src/pylayout.h`: do not edit. To build and link: [Embed in C](../howto/embed-in-c.md).
"""

_SECTION = re.compile(r"/\* ---- (.+?) ---- \*/")


def text_of(comment: str) -> str:
    """A comment without its marks."""
    inner = comment.strip().removeprefix("/*").removesuffix("*/")
    return "\n".join(re.sub(r"^ \* ?", "", line) for line in inner.split("\n")).strip()


def markdown(text: str) -> str:
    """A comment's text: paragraphs, and lists of options as they are."""
    lines: list[str] = []
    options = False
    for line in text.split("\n"):
        indented = line.startswith("  ")
        if indented != options:
            lines += ["```text"] if indented else ["```"]
            options = indented
        lines.append(line if options else re.sub(r"\bpl_\w+(?!\*)|NULL|PL_[A-Z_0-9]+", r"`\g<0>`", line.strip()))
    return "\n".join([*lines, "```"] if options else lines)


def declared(code: str) -> str:
    """The name that a declaration introduces."""
    found = re.search(r"#define (\w+)|(?:enum|struct) (\w+) \{|\(\*(\w+)\)|(\w+)\(|(\w+);", code)
    return next(name for name in found.groups() if name) if found else ""


def blocks(text: str) -> list[tuple[str, str]]:
    """The header after its first comment as (kind, text) in order; kind: "section", "comment" or "code"."""
    found: list[tuple[str, str]] = []
    lines = text.split("\n")
    i = 0
    while i < len(lines):
        line = lines[i]
        if _SECTION.match(line):
            found.append(("section", _SECTION.match(line).group(1)))  # type: ignore[union-attr]
        elif line.startswith("/*"):
            begin = i
            while "*/" not in lines[i]:
                i += 1
            found.append(("comment", "\n".join(lines[begin : i + 1])))
        elif line.strip():
            begin = i
            depth = 0
            while True:  # one declaration
                depth += lines[i].count("{") + lines[i].count("(") - lines[i].count("}") - lines[i].count(")")
                if depth == 0 and (lines[i].rstrip().endswith(";") or lines[i].startswith("#") or ";  /*" in lines[i]):
                    break
                i += 1
            found.append(("code", "\n".join(lines[begin : i + 1])))
        else:
            found.append(("blank", ""))
        i += 1
    return found


def page() -> str:
    text = HEADER.read_text("utf-8")
    first, _, rest = text.partition("*/")
    _title, _, general = text_of(first + "*/").partition("\n\n")
    begin = rest.index("#define PL_MAX_RANK")
    end = rest.index("#ifdef __cplusplus", begin)
    lines = [HEAD, markdown(general), "", "## types", ""]
    comment, open_code = "", False

    def close() -> None:
        nonlocal open_code
        if open_code:
            lines.extend(["```", ""])
            open_code = False

    for kind, part in blocks(rest[begin:end]):
        if kind == "blank":
            close()
            comment = ""
        elif kind == "section":
            close()
            lines.extend([f"## {part}", ""])
        elif kind == "comment":
            close()
            comment = markdown(text_of(part))
        else:
            if not open_code or comment:
                close()
                lines.extend([f"### {declared(part)}", ""])
                lines.extend([comment, ""] if comment else [])
                lines.append("```c")
                open_code, comment = True, ""
            lines.append(re.sub(r"^PL_API ", "", part))
    close()
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PATH: page()}, "abi_page.py"))
