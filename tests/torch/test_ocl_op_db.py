"""PyTorch's samples of its own ops on the device ocl. All of op_db: `pytest -m exhaustive`."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch.testing._internal needs it

import ocl_device  # noqa: E402, F401
import ocl_opinfo  # noqa: E402
import opinfo  # noqa: E402

# Entries that run on the device alone, which no change may end: all of them, of which a part is run here.
DATA = Path(__file__).parents[2] / "docs" / "reference" / "pytorch-samples.json"
CLAIMED = json.loads(DATA.read_text())["ops"]["claimed"]
EVERY = 12


@pytest.fixture(autouse=True)
def quiet(untuned):
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("silent")


def claimed():
    return [op for op in opinfo.infos() if opinfo.name_of(op) in CLAIMED]


def check(op):
    assert not [*ocl_opinfo.wrong(op, samples=1)]
    assert torch.ocl.fallbacks() == []


@pytest.mark.parametrize("op", claimed()[::EVERY], ids=opinfo.name_of)
def test_claimed_ops(op):
    check(op)


@pytest.mark.exhaustive
@pytest.mark.parametrize("op", claimed(), ids=opinfo.name_of)
def test_all_claimed_ops(op):
    check(op)


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "gradients"])
def test_all(gradients):
    ops = ocl_opinfo.asked(torch.float32, gradients)
    assert not [text for op in ops for text in ocl_opinfo.wrong(op, gradients=gradients)]


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_other_dtypes(dtype):
    assert not [text for op in ocl_opinfo.asked(dtype, False) for text in ocl_opinfo.wrong(op, dtype, samples=2)]
