"""What the documentation names exists: options of the C interface, keyword arguments, identifiers."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import pylayout as pl
from pylayout._load import ffi, lib
from pylayout.context import handle as context_handle

ROOT = Path(__file__).parent.parent
# Notes and results tell of the past; the others of what is there now.
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "kernels" / "README.md"]
    + [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name not in ("notes", "results")]
)
IDS = [path.relative_to(ROOT).as_posix() for path in PAGES]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SOURCES = {".cpp", ".h", ".c", ".py", ".pyi", ".cl", ".clh", ".txt", ".cmake", ".map"}


def options_named_by(call: str) -> list[str]:
    """The options that the error about an unknown one lists."""
    if call == "pl_context_create":
        status = lib.pl_context_create(b"nonsense=1", ffi.new("pl_context *"))
    else:
        graph = pl.Graph()
        graph.output(graph.relu(graph.input("x", (1,))), "y")
        status = lib.pl_plan_compile(graph._handle, b"nonsense=1", ffi.NULL, ffi.NULL, ffi.new("pl_plan *"))
    assert status == lib.PL_ERROR_INVALID_ARGUMENT
    message = ffi.string(lib.pl_last_error()).decode()
    assert "nonsense" in message
    return message.partition("expected one of ")[2].split(", ")


@pytest.mark.parametrize("call", ["pl_context_create", "pl_plan_compile"])
def test_options_of_the_c_interface_stand_a_line_each(call: str) -> None:
    """Each option begins one line of the list above the call, in the header and on the page that is made of it."""
    context_handle()
    options = options_named_by(call)
    assert len(options) > 5
    header = (ROOT / "src" / "pylayout.h").read_text("utf-8")
    comment = header[: header.index(f"pl_status {call}(")].rpartition("/*")[2]
    assert sorted(re.findall(r"^ \*   (\w+)=", comment, re.MULTILINE)) == sorted(options)
    page = (ROOT / "docs" / "reference" / "abi.md").read_text("utf-8")
    lists = [text for _, text in _BLOCK.findall(page) if text.startswith(f"  {options_in_order(comment)[0]}=")]
    assert any(re.findall(r"^  (\w+)=", text, re.MULTILINE) == options_in_order(comment) for text in lists)


def options_in_order(comment: str) -> list[str]:
    return re.findall(r"^ \*   (\w+)=", comment, re.MULTILINE)


def test_settings_are_those_of_configure() -> None:
    """The first table of the page of settings has what a context takes, but for providers other than OpenCL."""
    page = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8")
    table = page[: page.index("## Environment variables")]
    named = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    assert named == set(options_named_by("pl_context_create")) - {"host", "onednn"}
    for name in named:
        assert re.search(rf"\b{name}\b", inspect.getdoc(pl.configure) or ""), name


def test_options_of_compile_exist() -> None:
    """The table of options of `pl.compile`, and those that PyTorch's users may give."""
    keywords = set(inspect.signature(pl.compile).parameters)
    page = (ROOT / "docs" / "howto" / "ship-a-plan.md").read_text("utf-8")
    table = page[page.index("| option of `pl.compile` |") :]
    named = set(re.findall(r"`(\w+)=", "\n".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))))
    assert named and named <= keywords
    page = (ROOT / "docs" / "howto" / "pytorch.md").read_text("utf-8")
    table = page[page.index("| option | meaning |") :].partition("\n\n")[0]
    named = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    assert named and named <= keywords | {"fallback_random"}  # of PyTorch's graphs alone


def python_of(text: str) -> list[str]:
    """Calls of the package in a page, in blocks of Python, indented lines and within a line."""
    blocks = [block for language, block in _BLOCK.findall(text) if language == "python"]
    rest = _BLOCK.sub("", text)
    lines = re.findall(r"^ {4}(.*\bpl(?:an)?\.\w.*)$", rest, re.MULTILINE)
    return blocks + [line.strip() for line in lines] + re.findall(r"`([^`\n]*\b(?:pl|pylayout)\.[^`\n]*)`", rest)


def calls_in(text: str) -> list[ast.Call]:
    found = []
    for code in python_of(text):
        code = re.sub(r"^(with .*:|for .*:)$", r"\1 pass", code).replace("…", "...")
        try:
            tree = ast.parse(code)
        except SyntaxError:
            continue
        found += [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return found


def function_of(call: ast.Call) -> object | None:
    """What `pl.compile(...)`, `pylayout.onnx.load(...)`, `ops.conv2d(...)`, `g.relu(...)` or `plan.save(...)` calls."""
    names: list[str] = []
    node: ast.expr = call.func
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    roots = {"pl": pl, "pylayout": pl, "ops": pl.ops, "plan": pl.Plan, "g": pl.Graph()}
    if not names or not isinstance(node, ast.Name) or node.id not in roots:
        return None
    found: object = roots[node.id]
    for name in names:
        if inspect.ismodule(found) and not hasattr(found, name):
            if name in ("torch", "ocl") and importlib.util.find_spec("torch") is None:
                return None
            found = importlib.import_module(f"{found.__name__}.{name}")
        else:
            found = getattr(found, name)
    return found


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_calls_name_arguments_that_exist(path: Path) -> None:
    wrong = []
    for call in calls_in(path.read_text("utf-8")):
        function = function_of(call)
        if function is None:
            continue
        parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
            continue
        wrong += [f"{ast.unparse(call)}: {key.arg}" for key in call.keywords if key.arg and key.arg not in parameters]
    assert not wrong


def test_calls_are_found() -> None:
    found = [
        ast.unparse(call.func)
        for path in PAGES
        for call in calls_in(path.read_text("utf-8"))
        if function_of(call) is not None
    ]
    assert {"pl.compile", "pl.configure", "pl.query", "plan.save", "plan.batched"} <= set(found)
    with pytest.raises(ImportError):
        function_of(calls_in("`pl.no_such_function(x)`")[0])


# Of other software, of formulas, parts of a pattern, and what the reader of a lesson writes.
ELSEWHERE = {
    "array_namespace__", "dlpack__", "foreach_", "fused_adamw_", "grad_input", "ninja_log", "opencl_points_",
    "record_stream", "test_has_names", "tgt_is_causal", "test_opencl_points_", "DCMAKE_CXX_COMPILER_LAUNCHER",
    "DPYLAYOUT_INPLACE", "POCL_AFFINITY", "TORCH_LOGS", "channel_shuffle_strided", "i_i", "i_o", "strides_d",
    "MatMul_123", "val_7",
}  # fmt: skip


def words_of_sources() -> set[str]:
    words: set[str] = set()
    folders = ("src", "pylayout", "kernels", "bench", "examples", "cmake", "tools", "tests")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*")):
        if path.name != Path(__file__).name and path.is_file():
            words.add(path.stem)
            if path.suffix in _SOURCES:
                words.update(re.findall(r"\w+", path.read_text("utf-8")))
    for name in ("Makefile", "CMakeLists.txt", "pyproject.toml"):
        words.update(re.findall(r"\w+", (ROOT / name).read_text("utf-8")))
    return words


def test_names_within_a_line_exist() -> None:
    """Identifiers with an underscore that pages name, such as an option's. Made pages list what others have, too."""
    words = words_of_sources() | ELSEWHERE
    assert "memory_limit" in words
    missing = []
    for path in PAGES:
        if path.name.startswith("pytorch-") and path.parent.name == "reference":
            continue
        text = _BLOCK.sub("", path.read_text("utf-8"))
        for code in re.findall(r"`([^`\n]+)`", text):
            missing += [f"{path.name}: {name}" for name in re.findall(r"[A-Za-z]\w*_\w*", code) if name not in words]
    assert not missing
