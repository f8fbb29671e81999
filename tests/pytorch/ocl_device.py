"""Loads the device ocl, or skips the module of tests that imports this."""

import pytest

import pylayout.ocl
from pylayout.ocl.build import UnknownVersionError

torch = pytest.importorskip("torch")
try:
    pylayout.ocl.load()
except UnknownVersionError as error:
    pytest.skip(f"no device ocl: {error}", allow_module_level=True)
if not torch.ocl.is_available():
    pytest.skip("no OpenCL device", allow_module_level=True)
