"""`pylayout query`: the ways to run one op, and what they cost; `pylayout tune OP` measures them all (cli/tune.py)."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from typing import Any

from .common import add_device, add_threads, apply_threads, check_device
from .errors import UsageError
from .progress import Progress
from .terminal import Table, bytes_text, ms_text, style

__all__ = ["add", "add_call", "parse_input", "parse_value", "run"]

_NUMBER = re.compile(r"^[+-]?(\d+|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|nan)$", re.IGNORECASE)

_EXAMPLES = """\
examples:
  pylayout query conv2d --input 1,64,56,56 --input 64,64,3,3 --set padding=1
  pylayout query conv2d --input 1,64,56,56 --input weight=64,64,3,3 --input bias=64 --set activation=relu
  pylayout query max_pool2d --input 16,64,112,112:f32@NHWC --set kernel_size=3 --set stride=2 --layout auto
  pylayout query softmax --input 8,1000 --set dim=1
  pylayout query --list
"""


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "query",
        help="every way to run an op, with its cost, and every refusal",
        description="List the candidates for one call of an op, the best first: provider, implementation, layouts, "
        "time.\nTimes are measured where they are known, else estimated; nothing is measured now.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("op", nargs="?", metavar="OP", help="an op's name: conv2d, linear, softmax, … (see --list)")
    add_call(parser)
    add_device(parser)
    add_threads(parser)
    parser.set_defaults(run=run)


def add_call(parser: argparse._ActionsContainer) -> None:
    """The arguments of one call of an op."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]SHAPE[:DTYPE][@LAYOUT]",
        help="a tensor, in the op's order or by name: 1,64,56,56 or 1,64,56,56:bf16@NHWC (default f32, NCHW)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an attribute of the op: stride=2, padding=1,1, activation=relu",
    )
    parser.add_argument(
        "--layout",
        default="auto",
        help="auto (default: by cost), per-op, or a layout to force: NCHW, NHWC, nChw16c, …",
    )
    parser.add_argument("--list", action="store_true", help="list the ops, or with OP its arguments, and exit")


def parse_value(text: str) -> Any:
    """An attribute's value as Python would write it, with or without quotes and brackets: 2, 1,1, none, relu."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    if _NUMBER.match(text):
        return float(text) if re.search("[.einfa]", text.lower()) else int(text)
    inner = text[1:-1] if text[:1] + text[-1:] in ("[]", "()") else text
    if "," in inner or inner != text:
        parts = [parse_value(part.strip()) for part in inner.split(",") if part.strip()]
        if all(isinstance(part, (int, float)) and not isinstance(part, bool) for part in parts):
            return parts
    return text.strip("\"'")


def parse_input(text: str) -> tuple[str, tuple[int, ...], str, str | None]:
    """Name (or nothing), shape, dtype and layout (or None) of an --input."""
    name, equals, rest = text.rpartition("=")
    rest, _, layout = rest.partition("@")
    sizes, _, dtype = rest.partition(":")
    sizes = "" if sizes.strip() == "()" else sizes  # a scalar
    try:
        shape = tuple(int(size) for size in sizes.replace("x", ",").split(",") if size.strip())
    except ValueError:
        shape = (-1,)
    if any(size < 0 for size in shape) or (equals and not name) or (not shape and sizes.strip()):
        raise UsageError(f"--input {text}: expected a shape such as 1,64,56,56, then maybe :f32 and @NCHW")
    return name, shape, dtype or "f32", layout or None


def _schema(name: str, schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    for schema in schemas:
        if schema["name"] == name:
            return schema
    from ..calls import did_you_mean

    hint = did_you_mean(name, [schema["name"] for schema in schemas]) or "see --list"
    raise UsageError(f"there is no op {name!r}; {hint}")


def _print_list(schemas: Sequence[dict[str, Any]]) -> None:
    table = Table(("op", "what it does"))
    for schema in schemas:
        table.add(schema["name"], schema["doc"].split("\n")[0])
    table.print()


def _print_schema(schema: dict[str, Any]) -> None:
    print(style(schema["name"], "bold") + ": " + schema["doc"].strip() + "\n")
    table = Table(("argument", "kind", "default", "what it is"))
    for parameter in schema["parameters"]:
        kind = parameter["kind"].replace("_", " ")
        if kind == "attribute":
            kind = parameter["type"]
        default = parameter.get("default")
        choices = parameter.get("choices") or []
        text = parameter["doc"] + (f" ({', '.join(choices)})" if choices else "")
        table.add(parameter["name"], kind, "" if default is None else default, text)
    table.print()


def _tensors(schema: dict[str, Any], options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    """The op's tensors: a list of any number in order, and those by name."""
    import numpy as np

    import pylayout

    names = [p["name"] for p in schema["parameters"] if p["kind"] != "attribute"]
    several = any(p["kind"] == "tensors" for p in schema["parameters"])
    random = np.random.default_rng(0)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in options.input:
        name, shape, dtype, layout = parse_input(text)
        if name and name not in names:
            raise UsageError(f"--input {text}: {schema['name']} has no tensor {name!r}, expected {', '.join(names)}")
        if not name and not several and len(positional) == len(names):
            count = "1 tensor" if len(names) == 1 else f"{len(names)} tensors"
            given = sum(not parse_input(each)[0] for each in options.input)
            raise UsageError(f"--input: {given} are given, {schema['name']} takes {count}: {', '.join(names)}")
        try:
            if dtype in ("f32", "f16", "bf16"):
                data = random.standard_normal(shape, dtype=np.float32)
            else:
                data = np.zeros(shape, np.int32)
            tensor = pylayout.asarray(data, device=options.device).to(dtype=dtype, layout=layout)
        except (MemoryError, OverflowError, ValueError) as error:
            needed = 4 * math.prod(shape)
            if not isinstance(error, MemoryError) and needed < 2**63:
                raise
            raise UsageError(f"--input {text}: {bytes_text(needed)} are needed, more than there are") from None
        if name:
            named[name] = tensor
        else:
            positional.append(tensor)
    if several:
        return [positional], named
    for given, tensor in zip(names, positional, strict=False):
        if given in named:
            raise UsageError(f"--input: {schema['name']}: {given} is given twice, in its place and by name")
        named[given] = tensor
    return [], named


def _attributes(options: argparse.Namespace) -> dict[str, Any]:
    attributes = {}
    for text in options.set:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"--set {text}: expected KEY=VALUE")
        attributes[key] = parse_value(value)
    return attributes


def _layouts(names: Sequence[str]) -> str:
    """One for each tensor; absent ones at the end are not mentioned."""
    count = max((i for i, name in enumerate(names, start=1) if name != "-"), default=0)
    return " ".join(names[:count])


def _print_result(result: dict[str, Any]) -> None:
    print(style(result.get("description") or result["op"], "bold") + f"  on {result['device']}\n")
    if result.get("view"):
        print("A view: it renames memory and needs no kernel.")
    table = Table(
        ("", "provider", "implementation", "inputs", "output", "op ms", "reorder ms", "total ms", "cost"),
        right=("op ms", "reorder ms", "total ms"),
    )
    for place, candidate in enumerate(result["candidates"], start=1):
        measured = candidate["measured"]
        table.add(
            place,
            candidate["provider"],
            candidate["implementation"],
            _layouts(candidate["inputs"]),
            _layouts(candidate["outputs"]),
            ms_text(candidate["op_ms"]),
            ms_text(candidate["reorder_ms"]),
            ms_text(candidate["total_ms"]),
            "measured" if measured else "estimated",
            styles=("green", "bold") if place == 1 else () if measured else ("dim",),
        )
    if result["candidates"]:
        table.print()
    if result["refusals"]:
        print("\nrefused:")
        for line in dict.fromkeys(f"  {refusal['provider']}: {refusal['reason']}" for refusal in result["refusals"]):
            print(line)
    if any(not candidate["measured"] for candidate in result["candidates"]):
        print(style("\n`pylayout tune` with the same arguments measures them all.", "dim"))


def run(options: argparse.Namespace) -> Any:
    from ..calls import schemas as list_schemas

    schemas = list(list_schemas().values())
    if options.list:
        if options.op:
            schema = _schema(options.op, schemas)
            _print_schema(schema)
            return schema
        _print_list(schemas)
        return schemas
    if not options.op:
        raise UsageError(f"pylayout {options.command}: which op? (--list names them)")
    import pylayout

    schema = _schema(options.op, schemas)
    attributes = _attributes(options)
    apply_threads(options)
    check_device(options.device)
    positional, named = _tensors(schema, options)
    arguments = {**named, **attributes, "layout": options.layout}
    if options.command == "query":
        answer = pylayout.query(options.op, *positional, **arguments)
    else:
        with Progress(options.progress) as progress:
            progress.update(f"measuring {options.op}, at most {options.seconds:g} s", 0, 0)
            answer = pylayout.tune(options.op, *positional, seconds=options.seconds, **arguments)
    _print_result(answer.data)
    return answer.data
