"""Write docs/ops.md, the reference of the ops, from the schemas.

python tools/ops_page.py           writes it
python tools/ops_page.py --check   fails if it is not current
"""

import inspect
import sys
import textwrap
from pathlib import Path

from generated import write_or_check

from pylayout import calls, composed, op_functions, ops

PATH = Path(__file__).parent.parent / "docs" / "ops.md"

HEAD = """# Ops

Made by `tools/ops_page.py` from the schemas (`src/ops/`), as are the docstrings: not edited by hand.

Each op is a function of `pylayout.ops`. It takes tensors, NumPy arrays, anything with DLPack or the buffer protocol,
and numbers; besides what is listed here also `layout` ("auto", "per-op" or a layout to force) and `device`. In C the
same names go to `pl_op_run`. Shapes are logical, (n, c, d, h, w), whatever the order in memory. dtypes: f32, f16, bf16,
s8, u8, s32, s64, bool. Given a Value of a `pylayout.Graph`, an op is appended to that graph instead.
An `activation` is the name of any function of one tensor here
but `logical_not`, `isnan` and `isinf`; or `gelu_erf` (the same as `gelu`) or `gelu_tanh` (its approximation).
"""

TYPES = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "string": "str",
    "ints": "int or ints",
    "floats": "float or floats",
}


def cell(text: str) -> str:
    """Text inside of a table."""
    for mark in "\\|*<":
        text = text.replace(mark, "\\" + mark)
    return text


def signature(schema: dict) -> str:
    """conv2d(x, weight, bias=None, ...)"""
    words = [f"{name}={default}" if default else name for name, default in op_functions.signature_of(schema)]
    return f"{schema['name']}({', '.join(words)})"


def kind_of(parameter: dict) -> str:
    """What a parameter takes."""
    if parameter["kind"] == "attribute":
        none = not parameter["required"] and parameter["default"] is None
        return TYPES[parameter["type"]] + (" or None" if none else "")
    return {"tensor": "tensor", "optional_tensor": "tensor or None", "tensors": "tensors"}[parameter["kind"]]


def section(schema: dict) -> str:
    """One op."""
    title, _, body = schema["doc"].strip().partition("\n\n")
    call = textwrap.wrap(signature(schema), 110, subsequent_indent="    ")
    lines = [f"## {schema['name']}", "", cell(title), "", "```python", *call, "```"]
    if body:
        lines += ["", "```text"]
        for line in body.split("\n"):
            lines += textwrap.wrap(line, 110, break_long_words=False) or [""]
        lines.append("```")
    lines += ["", "| parameter | takes | meaning |", "|---|---|---|"]
    for parameter in schema["parameters"]:
        choices = parameter.get("choices") or []
        # Activations are listed at the top; words in place of numbers are explained with them.
        listed = 0 < len(choices) <= 8 and parameter["type"] == "string"
        doc = parameter["doc"] + (f" (one of {', '.join(choices)})" if listed else "")
        lines.append(f"| `{parameter['name']}` | {kind_of(parameter)} | {cell(doc)} |")
    return "\n".join(lines)


def composed_section(name: str) -> str:
    """One op made of others."""
    title, _, body = inspect.getdoc(composed.COMPOSED[name]).partition("\n\n")
    words = [str(p).split(":")[0] + (f"={p.default!r}" if p.default is not p.empty else "") for p in own(name)]
    lines = [f"## {name}", "", cell(title), "", "```python", f"{name}({', '.join(words)})", "```"]
    return "\n".join([*lines, "", "```text", body, "", "Made of other ops, known to Python only.", "```"])


def own(name: str) -> list[inspect.Parameter]:
    """Its parameters, but for `layout` and `device`, which all ops have."""
    return list(composed.signature_of(name).parameters.values())[:-2]


def page() -> str:
    """The whole file."""
    schemas = calls.schemas()
    docs = {name: schema["doc"].strip() for name, schema in schemas.items()}
    docs |= {name: inspect.getdoc(function) for name, function in composed.COMPOSED.items()}
    lines = [HEAD, "| op | |", "|---|---|"]
    for name, doc in sorted(docs.items()):
        lines.append(f"| [{cell(name)}](#{name}) | {cell(doc.split(chr(10))[0])} |")
    aliases = [f"`{alias}` = `{target}`" for alias, target in sorted(ops.ALIASES.items())]
    lines += ["", f"Other names: {', '.join(aliases)}.", ""]
    lines.append(
        "\n\n".join(section(schemas[name]) if name in schemas else composed_section(name) for name in sorted(docs))
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PATH, page(), "ops_page.py"))
