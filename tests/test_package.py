"""The Python package as a whole: it imports, knows its version, and says what is missing."""

import importlib.metadata
import os
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


def test_another_onednn_can_take_the_packaged_ones_place(tmp_path):
    files = importlib.metadata.files("onednn-cpu-gomp")
    packaged = next(file for file in files if file.name == "libdnnl.so.3")
    other = Path(shutil.copy(packaged.locate(), tmp_path / "libdnnl.so.3"))
    code = "import pylayout; print(*{line.split()[-1] for line in open('/proc/self/maps') if 'libdnnl' in line})"

    def loaded(**environment: str) -> list[str]:
        command = [sys.executable, "-c", code]
        environment = {**os.environ, **environment}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    assert loaded(LD_LIBRARY_PATH=str(tmp_path)) == [str(other)]
    without = {"LD_LIBRARY_PATH": ""}
    assert len(loaded(**without)) == 1
    assert loaded(**without) != [str(other)]
