"""Write pylayout/ops.pyi, the signatures of the ops for type checkers and editors, from the schemas.

python tools/ops_stub.py           writes it
python tools/ops_stub.py --check   fails if it is not current
"""

import sys
from pathlib import Path

from generated import write_or_check

from pylayout import calls, composed, op_functions, ops

PATH = Path(__file__).parent.parent / "pylayout" / "ops.pyi"

HEAD = '''"""The ops' signatures, made by tools/ops_stub.py from the schemas: not edited by hand."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from .device import Device
from .dtypes import DType
from .layout import Layout
from .tensor import Tensor

ALIASES: dict[str, str]

Input: TypeAlias = Any  # a Tensor, an array, anything with DLPack or the buffer protocol, a number
'''

TYPES = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "string": "str",
    "ints": "int | Sequence[int]",
    "floats": "float | Sequence[float]",
}


def annotation(parameter: dict) -> str:
    """The type of a parameter."""
    if parameter["kind"] == "tensor":
        return "Input"
    if parameter["kind"] == "optional_tensor":
        return "Input | None"
    if parameter["kind"] == "tensors":
        return "Sequence[Input]"
    words = TYPES[parameter["type"]]
    if 0 < len(parameter.get("choices", [])) <= 8:  # the names of all activations would be unreadable
        literal = "Literal[" + ", ".join(f'"{choice}"' for choice in parameter["choices"]) + "]"
        words = literal if parameter["type"] == "string" else f"{words} | {literal}"
    optional = not parameter["required"] and parameter["default"] is None
    return f"{words} | None" if optional else words


def result(schema: dict) -> str:
    """The type of what an op returns."""
    if schema["several"]:
        return "tuple[Tensor, ...]"
    # As many outputs as expressions, which are text here.
    return "Any" if schema["kind"] == "pointwise" else "Tensor"


def declaration(schema: dict) -> str:
    """One function."""
    lines = [f"def {schema['name']}("]
    for parameter, (name, default) in zip(schema["parameters"], op_functions.signature_of(schema), strict=True):
        value = default.replace("'", '"')
        lines.append(f"    {name}: {annotation(parameter)}" + (f" = {value}," if value else ","))
    lines += [
        "    *,",
        '    layout: str | Layout = "auto",',
        "    device: str | Device | None = None,",
        f") -> {result(schema)}: ...",
    ]
    return "\n".join(lines)


def composed_declaration(name: str) -> str:
    """One function made of other ops, in the words of its own signature."""
    signature = composed.signature_of(name)
    lines = [f"def {name}("]
    keywords_begun = False
    for parameter in signature.parameters.values():
        text = str(parameter)
        if parameter.kind is parameter.VAR_POSITIONAL:
            keywords_begun = True
            text = f"*{parameter.name}: Input"
        elif parameter.kind is parameter.KEYWORD_ONLY and not keywords_begun:
            keywords_begun = True
            lines.append("    *,")
        text = text.replace("'", "") if parameter.name != "layout" else 'layout: str | Layout = "auto"'
        text = text.replace("dtype: Any = s64", 'dtype: str | DType = "s64"')
        text = text.replace("Sequence[Any]", "Sequence[Input]")
        text = text.replace(": Any", ": Input")
        lines.append(f"    {text},")
    several = name in ("chunk", "unbind")
    return "\n".join([*lines, f") -> {'tuple[Tensor, ...]' if several else 'Tensor'}: ..."])


def stub() -> str:
    """The whole file."""
    schemas = calls.schemas()
    parts = [HEAD]
    parts += [
        declaration(schemas[name]) if name in schemas else composed_declaration(name)
        for name in sorted([*schemas, *composed.COMPOSED])
    ]
    aliases = [f"{alias} = {target}" for alias, target in sorted(ops.ALIASES.items())]
    return "\n".join([*parts, "", *aliases, ""])


if __name__ == "__main__":
    sys.exit(write_or_check({PATH: stub()}, "ops_stub.py"))
