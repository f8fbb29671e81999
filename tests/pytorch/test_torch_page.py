"""docs/reference/pytorch-ops.md says what the converters are, pytorch-samples.md what was measured."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent.parent
VERSION = ".".join(torch.__version__.split(".")[:2])


def test_the_page_is_current():
    page = (ROOT / "docs" / "reference" / "pytorch-ops.md").read_text()
    if f"PyTorch {VERSION}:" not in page:
        pytest.skip(f"the page is of another PyTorch than {VERSION}")
    tool = ROOT / "tools" / "torch_page.py"
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_of_samples_is_current():
    tool = ROOT / "tools" / "torch_samples_page.py"
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
