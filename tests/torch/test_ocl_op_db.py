"""PyTorch's samples of its own ops on the device ocl. All of op_db: `pytest -m exhaustive`."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch.testing._internal needs it

import ocl_device  # noqa: E402, F401
import ocl_opinfo  # noqa: E402
import opinfo  # noqa: E402

# Ops that run on the device alone, of each kind some: claimed, so that none falls back unnoticed.
CLAIMED = {
    "add", "addmm", "bmm", "cat", "clamp", "exp", "expand", "gather", "masked_fill", "matmul", "mean", "mul",
    "nn.functional.batch_norm", "nn.functional.conv2d", "nn.functional.embedding", "nn.functional.gelu",
    "nn.functional.group_norm", "nn.functional.linear", "nn.functional.relu", "pow", "split", "sum", "transpose",
    "where",
}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet(untuned):
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("silent")


@pytest.mark.parametrize("op", [op for op in opinfo.infos() if op.name in CLAIMED], ids=opinfo.name_of)
def test_claimed_ops(op):
    assert not [*ocl_opinfo.wrong(op, samples=1)]
    assert torch.ocl.fallbacks() == []


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
