"""`pylayout completion`: what a shell needs to complete commands, options, ops and devices."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["add", "run"]

SHELLS = ("bash", "zsh", "fish")

_EPILOG = """\
examples:
  bash: pylayout completion bash > ~/.local/share/bash-completion/completions/pylayout
  zsh:  pylayout completion zsh > ~/.zfunc/_pylayout      (with fpath+=~/.zfunc before compinit in ~/.zshrc)
  fish: pylayout completion fish > ~/.config/fish/completions/pylayout.fish
Then open a new shell. Write the file anew after an update.
Needs the package shtab: pip install '.[completion]' in the clone."""


def add(commands: Any, parser_of: Callable[[], argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "completion",
        help="print what a shell needs to complete this command",
        description="Print a script that completes commands, options, ops, devices and files in a shell.",
        epilog=_EPILOG,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(run=run, parser_of=parser_of)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The completion script of a parser, which is changed on the way and must not parse any more."""
    try:
        import shtab
    except ImportError:
        raise ImportError(
            "completion: the package shtab is not installed: pip install '.[completion]' in the clone"
        ) from None
    from .. import ops
    from ..device import devices

    values = {"op": dir(ops), "device": [device.name for device in devices()]}
    for action in _actions(parser):
        if action.choices is None and action.dest in values:
            action.choices = values[action.dest]
        elif "FILE" in str(action.metavar):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    text: str = shtab.complete(parser, shell)
    return text


def run(options: argparse.Namespace) -> dict[str, Any]:
    text = script(options.shell, options.parser_of())
    print(text)
    return {"shell": options.shell, "script": text}
