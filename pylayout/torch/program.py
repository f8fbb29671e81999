"""A Python function that runs a traced graph: calls of plans and of PyTorch's ops, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx import Node

__all__ = ["Step", "program"]

# What is called, the nodes or values that it is given, and the nodes that take its results: one, or several of a tuple.
Step = tuple[Callable[..., Any], Sequence[Any], dict[str, Any], Node | list[Node]]


class _Writer:
    def __init__(self, numbers: Mapping[Node, Any]) -> None:
        self.names: dict[Node, str] = {}
        self.numbers = numbers
        self.constants: dict[str, Any] = {}

    def name(self, node: Node) -> str:
        return self.names.setdefault(node, f"v{len(self.names)}")

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def text(self, value: Any) -> str:
        if isinstance(value, Node):
            return self.text(self.numbers[value]) if value in self.numbers else self.name(value)
        if value is None or type(value) in (int, bool):
            return repr(value)
        if isinstance(value, (list, tuple)) and type(value) is not list:
            return f"({''.join(self.text(each) + ', ' for each in value)})"
        if isinstance(value, list):
            return f"[{', '.join(self.text(each) for each in value)}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key!r}: {self.text(each)}' for key, each in value.items())}}}"
        if isinstance(value, slice):
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        return self.constant(value)


def _nodes_of(value: Any) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, slice):
        value = [value.start, value.stop, value.step]
    return [node for each in value for node in _nodes_of(each)] if isinstance(value, (list, tuple)) else []


def program(
    placeholders: Sequence[Node], steps: Sequence[Step], results: Sequence[Any], numbers: Mapping[Node, Any]
) -> Callable[[list[Any]], Any]:
    """The function: takes a list of arguments, which it empties, and gives a tuple of results.

    numbers: nodes that stand for a number that is known.
    """
    writer = _Writer(numbers)
    last_use: dict[Node, int] = {}
    for number, (_, arguments, keywords, _) in enumerate(steps):
        for node in [*_nodes_of(list(arguments)), *_nodes_of(keywords)]:
            last_use[node] = number
    kept = set(_nodes_of(list(results)))
    lines = ["def run(arguments):"]
    for place, node in enumerate(placeholders):
        if (node in last_use or node in kept) and node not in numbers:  # of many weights plans hold the values
            lines.append(f"    {writer.name(node)} = arguments[{place}]")
    lines.append("    arguments.clear()")
    ending: dict[int, list[Node]] = {}
    for node, number in last_use.items():
        if node not in kept:
            ending.setdefault(number, []).append(node)
    for number, (function, arguments, keywords, made) in enumerate(steps):
        given = [writer.text(argument) for argument in arguments]
        given += [f"{key}={writer.text(argument)}" for key, argument in keywords.items()]
        target = "".join(f"{writer.name(node)}, " for node in made) if isinstance(made, list) else writer.name(made)
        call = f"{writer.constant(function)}({', '.join(given)})"
        lines.append(f"    {target} = {call}" if target else f"    {call}")
        dead = [writer.name(node) for node in ending.get(number, ()) if node not in numbers]
        unread = [node for node in (made if isinstance(made, list) else [made]) if node not in {*last_use, *kept}]
        dead += [writer.name(node) for node in unread]
        if dead:
            lines.append(f"    del {', '.join(dead)}")
    lines.append(f"    return {writer.text(tuple(results))}")
    namespace = dict(writer.constants)
    exec("\n".join(lines), namespace)
    run: Callable[[list[Any]], Any] = namespace["run"]
    return run
