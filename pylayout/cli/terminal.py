"""What the commands print: tables and stacked bars, in colour where a terminal shows it."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

__all__ = ["Table", "bar", "bytes_text", "has_unicode", "ms_text", "style", "threads_text"]

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def _has_colour(stream: TextIO) -> bool:
    """https://no-color.org, and no escape codes in files and pipes."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def style(text: str, *names: str, stream: TextIO | None = None) -> str:
    """The text in bold, dim or a colour, where the stream (standard output by default) is a terminal."""
    if not names or not _has_colour(stream or sys.stdout):
        return text
    return f"\x1b[{';'.join(_STYLES[name] for name in names)}m{text}\x1b[0m"


def has_unicode(stream: TextIO) -> bool:
    """Whether lines and blocks may be drawn with other characters than those of ASCII."""
    return (stream.encoding or "").lower().replace("-", "") in ("utf8", "utf16", "utf32")


def _width(text: str) -> int:
    """Columns on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


@dataclass
class Table:
    """Rows under headings; columns named in `right` are aligned to the right.

    A table wider than the terminal breaks the cells of its widest left-aligned column over several lines.
    """

    headings: Sequence[str]
    right: Iterable[str] = ()
    rows: list[tuple[list[str], tuple[str, ...]]] = field(default_factory=list)

    def add(self, *cells: Any, styles: tuple[str, ...] = ()) -> None:
        texts = ["" if cell is None else str(cell) for cell in cells]
        if len(texts) != len(self.headings):
            raise ValueError(f"{len(texts)} cells under {len(self.headings)} headings")
        self.rows.append((texts, styles))

    def render(self, stream: TextIO | None = None, columns: int | None = None) -> str:
        stream = stream or sys.stdout
        right = set(self.right)
        widths = [
            max([_width(heading), *(_width(cells[i]) for cells, _ in self.rows)])
            for i, heading in enumerate(self.headings)
        ]
        if columns is None and stream.isatty():
            columns = shutil.get_terminal_size().columns
        excess = sum(widths) + 2 * (len(widths) - 1) - columns if columns else 0
        if excess > 0:
            left = [i for i, heading in enumerate(self.headings) if heading not in right] or [0]
            widest = max(left, key=lambda i: widths[i])
            widths[widest] = max(12, widths[widest] - excess)

        def line(cells: Sequence[str]) -> str:
            padded = []
            for cell, width, heading in zip(cells, widths, self.headings, strict=True):
                gap = " " * (width - _width(cell))
                padded.append(gap + cell if heading in right else cell + gap)
            return "  ".join(padded).rstrip()

        rule = ("─" if has_unicode(stream) else "-") * min(sum(widths) + 2 * (len(widths) - 1), columns or 100)
        lines = [style(line(self.headings), "bold", stream=stream), style(rule, "dim", stream=stream)]
        for cells, styles in self.rows:
            broken = [_break(cell, width) for cell, width in zip(cells, widths, strict=True)]
            for i in range(max(map(len, broken))):
                text = line([part[i] if i < len(part) else "" for part in broken])
                lines.append(style(text, *styles, stream=stream))
        return "\n".join(lines)

    def print(self) -> None:
        print(self.render())


def _break(text: str, width: int) -> list[str]:
    """The text in pieces of at most `width`, cut at spaces where there are any."""
    pieces = []
    while _width(text) > width:
        cut = text.rfind(" ", 1, width + 1)
        cut = cut if cut > 0 else width
        pieces.append(text[:cut])
        text = text[cut:].lstrip()
    return [*pieces, text]


def bar(parts: Sequence[tuple[float, str]], full: float, width: int = 30, stream: TextIO | None = None) -> str:
    """A horizontal bar of (value, colour) parts, `width` columns for the value `full`; parts differ in shade too."""
    stream = stream or sys.stdout
    marks = "█▒░" if has_unicode(stream) else "#=-"
    text, shown, total = "", 0, 0.0
    for (value, colour), mark in zip(parts, marks, strict=False):
        total += value
        end = round(width * total / full) if full > 0 else 0
        text += style(mark * (end - shown), colour, stream=stream)
        shown = max(shown, end)
    return text


def bytes_text(count: float) -> str:
    """1536 -> '1.5 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def threads_text(count: int) -> str:
    return f"{count} thread" if count == 1 else f"{count} threads"


def ms_text(ms: float) -> str:
    """Three significant digits, at least."""
    return f"{ms:.0f}" if ms >= 1000 else f"{ms:.1f}" if ms >= 100 else f"{ms:.2f}" if ms >= 1 else f"{ms:.4f}"
