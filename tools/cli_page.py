"""Write docs/reference/cli.md, the command line, from its argument parsers.

python tools/cli_page.py           writes it
python tools/cli_page.py --check   fails if it is not current
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from generated import write_or_check

from pylayout.cli import _parser

PATH = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"

HEAD = """# Command line

Made by `tools/cli_page.py` from the commands' own descriptions: do not edit. `python -m pylayout` is the same command.
Exit codes: 0 done; 1 an error (one line on standard error), or wrong results that `pylayout verify` found; 2 wrong
usage; 3 errors or warnings that `pylayout doctor` found; 130 interrupted.
"""


def cell(text: str) -> str:
    """Text inside of a table."""
    for mark in "\\|*<":
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.split())


def value_of(action: argparse.Action) -> str:
    """What follows an option: FILE, {a,b}, nothing for a flag."""
    if action.nargs == 0:
        return ""
    word = action.metavar if isinstance(action.metavar, str) else None
    if action.choices is not None and word is None:
        word = "{" + ",".join(map(str, action.choices)) + "}"
    word = word or action.dest.upper()
    return {"?": f"[{word}]", "*": f"[{word} ...]", "+": f"{word} [{word} ...]"}.get(str(action.nargs), word)


def help_of(action: argparse.Action, prog: str) -> str:
    """An argument's help with its defaults filled in."""
    text = action.help or ""
    return cell(text % {**vars(action), "prog": prog}) if "%" in text else cell(text)


def section(name: str, parser: argparse.ArgumentParser, summary: str) -> list[str]:
    """One command."""
    positional = [action for action in parser._actions if not action.option_strings]
    named = [action for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS]
    usage = " ".join(["pylayout", name, *(value_of(action) for action in positional), "[options]"])
    description = (parser.description or summary).strip()
    lines = [f"## {name}", "", f"`{usage}`", "", "```text", description, "```", ""]
    lines += ["| argument | meaning |", "|---|---|"]
    for action in [*positional, *named]:
        words = ", ".join(action.option_strings) or value_of(action)
        value = value_of(action) if action.option_strings else ""
        name_and_value = f"{words} {value}".strip().replace("|", "or")  # no table can hold `|` in code
        lines.append(f"| `{name_and_value}` | {help_of(action, parser.prog)} |")
    if parser.epilog:
        lines += ["", "```text", parser.epilog.strip(), "```"]
    return [*lines, ""]


def page() -> str:
    parser = _parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    lines = [HEAD, "| command | does |", "|---|---|"]
    lines += [f"| [{name}](#{name}) | {cell(summaries[name])} |" for name in commands.choices]
    lines += ["", "```text", (parser.epilog or "").strip(), "```", ""]
    for name, command in commands.choices.items():
        lines += section(name, command, summaries[name])
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PATH: page()}, "cli_page.py"))
