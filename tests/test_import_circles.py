"""No module of the package imports itself by way of others, imports within functions and for types counted.

What two modules share belongs into a third one below both. A package is imported before its modules, so that this
implied import counts for nothing here; `from . import name` counts for the module `name`, where there is one.
"""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

import pylayout


def _imports(package: Path) -> dict[str, set[str]]:
    """For each module of a package, by its whole name, the modules of the package that it imports anywhere."""
    files = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: set(_named(name, path, files)) - {name} for name, path in files.items()}


def _named(name: str, path: Path, known: dict[str, Path]):
    around = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = around[: len(around) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                member = f"{source}.{alias.name}"
                found = member if member in known else source
                if found in known:
                    yield found


def _circle(imports: dict[str, set[str]]) -> list[str]:
    """One circle, its first module at both ends; nothing where there is none."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_module_imports_itself_by_way_of_others():
    imports = _imports(Path(pylayout.__file__).parent)
    assert "pylayout.onnx.model" in imports["pylayout.compilation"], "an import within a function was not seen"
    circle = _circle(imports)
    assert not circle, f"circle of imports: {' -> '.join(circle)}"


@pytest.mark.parametrize(
    "line",
    [
        "from . import first",
        "from .first import x",
        "import package.first",
        "def f():\n    from .first import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .first import x",
        "from .inner import deep",
    ],
)
def test_a_circle_is_found(tmp_path, line):
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    for name, text in {
        "__init__": "from . import first",
        "first": "from .second import y\nimport os",
        "second": line,
        "inner/__init__": "",
        "inner/deep": "from ..first import x",
    }.items():
        (package / f"{name}.py").write_text(text)
    circle = _circle(_imports(package))
    assert circle[0] == circle[-1]
    assert {"package.first", "package.second"} <= set(circle)
    (package / "second.py").write_text("import json")
    assert _circle(_imports(package)) == []
