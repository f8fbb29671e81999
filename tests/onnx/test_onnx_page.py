"""docs/reference/onnx.md says what the converters are."""

import subprocess
import sys
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")

from pylayout.onnx.registry import LAST_OPSET  # noqa: E402


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < LAST_OPSET, reason="an onnx that knows fewer ops than the page")
def test_the_page_is_current():
    path = Path(__file__).parent.parent.parent / "tools" / "onnx_page.py"
    done = subprocess.run([sys.executable, path, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
