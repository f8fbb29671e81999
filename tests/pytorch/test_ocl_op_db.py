"""PyTorch's samples of its own ops on the device ocl. All of op_db: `pytest -m exhaustive`."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch.testing._internal needs it

import ocl_device  # noqa: E402, F401
import ocl_opinfo  # noqa: E402
import opinfo  # noqa: E402

import pylayout as pl  # noqa: E402

# Entries that run on the device alone, which no change may end: all of them, of which a part is run here.
DATA = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "pytorch-samples.json").read_text())
EVERY, EVERY_GRADIENT = 12, 25
DTYPES = {"integers": torch.int64, "ops_f16": torch.float16, "ops_bf16": torch.bfloat16}
DTYPES |= {"gradients_f16": torch.float16, "gradients_bf16": torch.bfloat16}
HALVES = ["ops_f16", "ops_bf16", "gradients_f16", "gradients_bf16"]


@pytest.fixture(autouse=True)
def quiet(unoptimised):
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("silent")


def claimed(part="ops"):
    names = DATA[part]["claimed"]
    found = opinfo.infos(DTYPES.get(part, torch.float32), part.startswith("gradients"))
    return [op for op in found if opinfo.name_of(op) in names]


def claims(every, *parts):
    """A case for every so many claims, of each of several parts other ones."""
    listed = [(part, op) for i, part in enumerate(parts) for op in claimed(part)[i * every // len(parts) :: every]]
    return pytest.mark.parametrize(("part", "op"), listed, ids=[f"{part}-{opinfo.name_of(op)}" for part, op in listed])


def check(part, op, samples=1):
    with pl.profile() as profile:
        dtype = DTYPES.get(part, torch.float32)
        assert not [*ocl_opinfo.wrong(op, dtype, part.startswith("gradients"), samples)]
    assert torch.ocl.fallbacks() == []
    on_host = [event["op"] for event in profile.events if event["kind"] == "op" and event["device"] == "cpu"]
    assert on_host == []  # whoever counts


@claims(EVERY, "ops")
def test_claimed_ops(part, op):
    check(part, op)


@claims(1, "integers")
def test_claimed_ops_of_integers_alone(part, op):
    check(part, op, samples=4)


@claims(EVERY_GRADIENT, "gradients")
def test_claimed_gradients(part, op):
    check(part, op)


@claims(2 * EVERY_GRADIENT, *HALVES)
def test_claims_of_halves(part, op):
    check(part, op)


@pytest.mark.exhaustive
@claims(1, "ops", "gradients", *HALVES)
def test_all_claims(part, op):
    check(part, op)


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "gradients"])
def test_all(gradients):
    ops = ocl_opinfo.asked(torch.float32, gradients)
    assert not [text for op in ops for text in ocl_opinfo.wrong(op, gradients=gradients)]


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_other_dtypes(dtype):
    assert not [text for op in ocl_opinfo.asked(dtype, False) for text in ocl_opinfo.wrong(op, dtype, samples=2)]
