"""The Python package as a whole: it imports, knows its version, and says what is missing."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pylayout

ROOT = Path(__file__).parent.parent


def test_version_is_the_one_in_pyproject():
    line = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert pylayout.__version__ == line[1]


def test_unbuilt_source_tree_says_what_to_do(tmp_path):
    shutil.copytree(ROOT / "pylayout", tmp_path / "pylayout", ignore=shutil.ignore_patterns("*.so", "*.so.*"))
    done = subprocess.run([sys.executable, "-c", "import pylayout"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "make build" in done.stderr.splitlines()[-1]
    assert str(tmp_path) in done.stderr.splitlines()[-1]


def test_import_loads_no_heavy_module():
    """`import pylayout` stays quick: nothing that only reports, exports or front ends need."""
    heavy = ["matplotlib", "pyopencl", "onnx", "torch", "rich", "safetensors", "PIL"]
    code = f"import sys, pylayout; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
