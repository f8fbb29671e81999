"""Write docs/reference/python.md, the Python interface, from the docstrings of pylayout/.

python tools/python_page.py           writes it
python tools/python_page.py --check   fails if it is not current

The sources are read, not imported: neither a build nor packages of others are needed. Each public name of `pylayout`
has a place in GROUPS; one that has none is an error.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

from generated import write_or_check

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pylayout"
PATH = ROOT / "docs" / "reference" / "python.md"

HEAD = """# Python

Made by `tools/python_page.py` from the docstrings in `pylayout/`: do not edit.

`import pylayout as pl`. An entry has the signature and the first paragraph of what `help(…)` says, which goes on with
arguments, errors and examples. Types are in the package (`py.typed`).

The ops, as `pl.ops.conv2d(x, w)`, `x.relu()` and `g.conv2d(x, w)`, have [pages of their own](ops/index.md). There is no
object for a context: a process has one, which `pl.configure` sets up.
"""


class Entry(NamedTuple):
    name: str  # as a program writes it behind `prefix`
    file: str  # below pylayout/
    methods: tuple[str, ...] = ()  # further methods, whose names begin with an underscore
    made: bool = False  # a class whose objects programs make themselves


class Group(NamedTuple):
    title: str
    text: str
    entries: list[Entry]
    prefix: str = "pl."


def entries(file: str, *names: str) -> list[Entry]:
    return [Entry(name, file) for name in names]


GROUPS = [
    Group(
        "Compiling models",
        "The options of `pl.compile`: [table](../howto/ship-a-plan.md#limit-time-and-memory). How to: "
        "[Ship a plan](../howto/ship-a-plan.md), [Sizes known late](../howto/sizes-known-late.md), "
        "[Serve requests](../howto/serve-requests.md).",
        [
            *entries("compilation.py", "compile", "load_plan"),
            Entry("Plan", "plan.py", ("__call__",)),
            *entries("batcher.py", "Batcher"),
        ],
    ),
    Group(
        "Graphs",
        "Every [op](ops/index.md) is a method of a Graph besides these. Values have the methods and operators of "
        "tensors.",
        [Entry("Graph", "graph.py", made=True), *entries("value.py", "Value")],
    ),
    Group(
        "Tensors",
        "Every op of tensors is a method of a Tensor besides these, by NumPy's and torch's names. dtypes: `pl.f32`, "
        "`pl.f16`, `pl.bf16`, `pl.s8`, `pl.u8`, `pl.s32`, `pl.s64`, `pl.bool_`, also as `pl.float32`, `pl.float16`, "
        "`pl.bfloat16`, `pl.int8`, `pl.uint8`, `pl.int32`, `pl.int64`. `pl.empty_like` is `pl.zeros_like`. The names "
        "of the array API standard: [Array API](array-api.md).",
        [
            *entries("arrays.py", "asarray", "from_dlpack"),
            *entries("tensor.py", "zeros"),
            *entries("creation.py", "ones", "full", "empty", "zeros_like", "ones_like", "full_like"),
            *entries("creation.py", "arange", "linspace", "eye"),
            *entries("tensor.py", "Tensor"),
            Entry("Layout", "layout.py", made=True),
            *entries("dtypes.py", "DType", "dtype_of"),
        ],
    ),
    Group(
        "Settings, devices and memory",
        "What the settings mean: [Settings](settings.md). How to: [Streams and events](../howto/streams.md).",
        [
            *entries("context.py", "configure"),
            *entries("device.py", "devices", "Device", "synchronize", "get_threads", "set_threads", "set_tuning"),
            *entries("device.py", "memory", "set_memory_limit", "reset_memory_peaks", "release_caches"),
            Entry("Stream", "streams.py", made=True),
            Entry("Event", "streams.py", made=True),
            *entries("streams.py", "current_stream"),
        ],
    ),
    Group(
        "Choices, profiles and tuning",
        "How to: [Read a profile](../howto/read-a-profile.md), [Tune](../howto/tune.md).",
        [
            *entries("query.py", "query", "tune", "Query"),
            *entries("profile.py", "profile", "Profile"),
            *entries("device.py", "settled", "calibrate"),
            *entries("tuner.py", "tune_device", "tuned_values"),
        ],
    ),
    Group(
        "Devices: costs and faults",
        "",
        entries("device.py", "describe", "known_faults", "costs", "clear_costs", "export_costs", "import_costs"),
        "pl.device.",
    ),
    Group("Gradients", "How to: [Train](../howto/train.md).", entries("functional.py", "value_and_grad")),
    Group(
        "Training",
        "Appended to a graph, so that each run of its plan trains. How to: [Train](../howto/train.md).",
        [
            *entries("training.py", "sgd", "adam", "adamw", "rmsprop", "clip_by_norm"),
            Entry("LossScale", "training.py", made=True),
            *entries("checkpoint.py", "save", "restore"),
        ],
        "pl.training.",
    ),
    Group(
        "ONNX",
        "Needs the extra `onnx`. `pl.compile` takes a model's path; these are for its graph. What is read: "
        "[ONNX](onnx.md).",
        [
            *entries("onnx/__init__.py", "load"),
            *entries("onnx/model.py", "read", "Model"),
            *entries("onnx/contents.py", "Input"),
            *entries("onnx/errors.py", "ValueNeeded"),
            *entries("onnx/backend.py", "Backend"),
        ],
        "pl.onnx.",
    ),
    Group(
        "PyTorch",
        'Needs the extra `torch`; `import pylayout.torch`. `torch.compile(model, backend="pylayout")`: '
        "[Use pylayout from PyTorch](../howto/pytorch.md).",
        [
            *entries("torch/report.py", "report", "reset", "Report", "CompiledGraph"),
            *entries("torch/memory.py", "set_memory_limit", "empty_cache"),
            *entries("torch/backend.py", "backend"),
        ],
        "pylayout.torch.",
    ),
    Group(
        "PyTorch's device",
        "`torch.ocl` is named as `torch.cuda`: [Run PyTorch on an OpenCL device](../howto/pytorch-device.md).",
        entries("ocl/__init__.py", "load"),
        "pylayout.ocl.",
    ),
    Group(
        "Errors",
        "",
        entries(
            "errors.py",
            "Error",
            "InvalidArgumentError",
            "ArgumentTypeError",
            "ShapeError",
            "LayoutError",
            "DeviceError",
            "UnsupportedError",
            "OutOfMemoryError",
            "FileError",
            "QueueFullError",
            "InternalError",
        ),
    ),
]

# Public names that are described by the text of a group or a page of their own.
ELSEWHERE = {"__version__", "array_api", "empty_like", "ops", "training"}
DTYPES = {"bf16", "bfloat16", "bool_", "f16", "f32", "float16", "float32", "int8", "int32", "int64"} | {
    "s8",
    "s32",
    "s64",
    "u8",
    "uint8",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
_trees: dict[str, ast.Module] = {}


def tree_of(file: str) -> ast.Module:
    if file not in _trees:
        _trees[file] = ast.parse((PACKAGE / file).read_text("utf-8"))
    return _trees[file]


def decorators(node: Function | ast.ClassDef) -> list[str]:
    return [ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in node.decorator_list]


def definition(entry: Entry) -> Function | ast.ClassDef:
    for node in tree_of(entry.file).body:
        if (
            isinstance(node, (Function, ast.ClassDef))
            and node.name == entry.name
            and "overload" not in decorators(node)
        ):
            return node
    raise SystemExit(f"tools/python_page.py: pylayout/{entry.file} defines no {entry.name}")


def first_paragraph(node: Function | ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n\n")[0].strip()


def escaped(text: str) -> str:
    """Text whose signs Markdown leaves as they are; code in backticks as it stands."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if i % 2 else re.sub(r"([*<])", r"\\\1", part) for i, part in enumerate(parts))


def cell(text: str) -> str:
    return escaped(" ".join(text.split())).replace("|", "\\|")


def parameters(node: Function, bound: bool) -> str:
    """The parameters without types; of a method without the object."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    words = []
    for place, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        if bound and place == 0:
            continue
        words.append(argument.arg + (f"={ast.unparse(default)}" if default is not None else ""))
        if given.posonlyargs and place == len(given.posonlyargs) - 1:
            words.append("/")
    if given.vararg:
        words.append(f"*{given.vararg.arg}")
    elif given.kwonlyargs:
        words.append("*")
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        words.append(argument.arg + (f"={ast.unparse(default)}" if default is not None else ""))
    if given.kwarg:
        words.append(f"**{given.kwarg.arg}")
    return ", ".join(word for word in words if not word.startswith("_"))


def fields(node: ast.ClassDef) -> str:
    """The parameters of a dataclass."""
    declared = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    return ", ".join(
        ast.unparse(each.target) + (f"={ast.unparse(each.value)}" if each.value else "") for each in declared
    )


def members(node: ast.ClassDef, entry: Entry) -> list[tuple[str, str]]:
    """The public methods and properties of a class's own body, with how they are called."""
    found = []
    for each in node.body:
        if not isinstance(each, Function) or (each.name.startswith("_") and each.name not in entry.methods):
            continue
        marks = decorators(each)
        if "overload" in marks or "setter" in marks or not first_paragraph(each):
            continue
        if "property" in marks or "cached_property" in marks:
            name = each.name
        elif each.name == "__call__":
            name = f"{node.name.lower()}({parameters(each, True)})"
        else:
            name = f"{each.name}({parameters(each, 'staticmethod' not in marks)})"
            name = f"{node.name}.{name}" if {"classmethod", "staticmethod"} & set(marks) else name
        found.append((name, first_paragraph(each)))
    return found


def section(entry: Entry, prefix: str) -> list[str]:
    node = definition(entry)
    called = prefix + entry.name
    lines = [f"### {called}", ""]
    if isinstance(node, ast.ClassDef):
        made = next((each for each in node.body if isinstance(each, Function) and each.name == "__init__"), None)
        call = f"{called}({parameters(made, True) if made else fields(node)})" if entry.made else ""
    else:
        call = f"{called}({parameters(node, False)})"
    if call:
        lines += ["```python", call, "```", ""]
    text = first_paragraph(node)
    if text:
        lines += [escaped(text), ""]
    rows = members(node, entry) if isinstance(node, ast.ClassDef) else []
    if rows:
        lines += ["| member | what it is |", "|---|---|"]
        lines += [f"| `{name.replace('|', 'or')}` | {cell(text)} |" for name, text in rows]
        lines.append("")
    return lines


def error_rows(group: Group) -> list[str]:
    lines = ["| error | is also | when |", "|---|---|---|"]
    for entry in group.entries:
        node = definition(entry)
        assert isinstance(node, ast.ClassDef)
        bases = ", ".join(f"`{ast.unparse(base)}`" for base in node.bases)
        lines.append(f"| `{group.prefix}{entry.name}` | {bases} | {cell(first_paragraph(node))} |")
    return [*lines, ""]


def public_names() -> set[str]:
    for node in tree_of("__init__.py").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise SystemExit("tools/python_page.py: pylayout/__init__.py has no __all__")


def page() -> str:
    placed = {entry.name for group in GROUPS if group.prefix == "pl." for entry in group.entries}
    missing = sorted(public_names() - placed - ELSEWHERE - DTYPES)
    if missing:
        raise SystemExit(f"tools/python_page.py: give {', '.join(missing)} a place in GROUPS")
    lines = [HEAD, "| about | names |", "|---|---|"]
    for group in GROUPS:
        anchor = re.sub(r"[^\w\- ]", "", group.title.lower()).replace(" ", "-")
        names = ", ".join(f"`{group.prefix}{entry.name}`" for entry in group.entries)
        lines.append(f"| [{group.title}](#{anchor}) | {names} |")
    lines.append("")
    for group in GROUPS:
        lines += [f"## {group.title}", ""]
        lines += [group.text, ""] if group.text else []
        if group.title == "Errors":
            lines += error_rows(group)
            continue
        for entry in group.entries:
            lines += section(entry, group.prefix)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PATH: page()}, "python_page.py"))
