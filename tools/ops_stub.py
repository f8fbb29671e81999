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

from array import array
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, overload

from .device import Device
from .dtypes import DType
from .layout import Layout
from .tensor import Tensor
from .value import Value

ALIASES: dict[str, str]

class HasDLPack(Protocol):
    def __dlpack__(self, *arguments: Any, **keywords: Any) -> Any: ...

class HasArray(Protocol):
    def __array__(self, *arguments: Any, **keywords: Any) -> Any: ...

# What becomes a tensor. A Value of a graph among the arguments makes the result a Value, which the overloads say.
Input: TypeAlias = (
    Tensor
    | HasDLPack
    | HasArray
    | float
    | list[Any]
    | tuple[Any, ...]
    | bytes
    | bytearray
    | memoryview
    | array[Any]
)
'''

TYPES = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "string": "str",
    "ints": "int | Sequence[int]",
    "floats": "float | Sequence[float]",
    "post-ops": "str | Sequence[str]",
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


def functions(name: str, parameters: list[str], result: str) -> str:
    """The overloads of one function: a Value in the place of each tensor in turn, then tensors alone.

    Beside one Value others may be Values too. A graph takes no layout, no device and no out.
    """
    taken = [i for i, text in enumerate(parameters) if text.endswith((": Input", ": Sequence[Input]"))]
    versions = []
    for place in taken if "Tensor" in result else []:
        changed = [
            text.replace("Input", "Value" if i == place else "Input | Value")
            for i, text in enumerate(parameters)
            if not text.startswith(("layout:", "device:", "out:"))
        ]
        versions.append((changed[:-1] if changed[-1] == "*" else changed, result.replace("Tensor", "Value")))
    versions.append((parameters, result))
    mark = "@overload\n" if len(versions) > 1 else ""
    return "\n".join(
        "\n".join([f"{mark}def {name}(", *(f"    {text}," for text in texts), f") -> {given}: ..."])
        for texts, given in versions
    )


def declaration(schema: dict) -> str:
    """One op."""
    parameters = []
    for parameter, (name, default) in zip(schema["parameters"], op_functions.signature_of(schema), strict=True):
        value = default.replace("'", '"')
        parameters.append(f"{name}: {annotation(parameter)}" + (f" = {value}" if value else ""))
    parameters += ["*", 'layout: str | Layout = "auto"', "device: str | Device | None = None"]
    parameters.append(f"out: {result(schema)} | None = None" if result(schema) != "Any" else "out: Any = None")
    return functions(schema["name"], parameters, result(schema))


def composed_declaration(name: str) -> str:
    """One function made of other ops, in the words of its own signature."""
    signature = composed.signature_of(name)
    parameters = []
    keywords_begun = False
    for parameter in signature.parameters.values():
        text = str(parameter)
        if parameter.kind is parameter.VAR_POSITIONAL:
            keywords_begun = True
            text = f"*{parameter.name}: Input"
        elif parameter.kind is parameter.KEYWORD_ONLY and not keywords_begun:
            keywords_begun = True
            parameters.append("*")
        text = text.replace("'", "") if parameter.name != "layout" else 'layout: str | Layout = "auto"'
        text = text.replace("dtype: Any = s64", 'dtype: str | DType = "s64"')
        text = text.replace("Sequence[Any]", "Sequence[Input]")
        if isinstance(parameter.default, str):
            text = text.rsplit(" = ", 1)[0] + f' = "{parameter.default}"'
        parameters.append(text.replace(": Any = None", ": Input | None = None").replace(": Any", ": Input"))
    return functions(
        name, parameters, "tuple[Tensor, ...]" if name in ("chunk", "rmsprop_step", "unbind") else "Tensor"
    )


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
