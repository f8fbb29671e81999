"""PyTorch's samples of its modules and optimizers on the device ocl. All of them: `pytest -m exhaustive`."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch.testing._internal needs it

import ocl_device  # noqa: E402, F401
import ocl_modules  # noqa: E402

MODULES = {
    "nn.BatchNorm2d", "nn.Conv2d", "nn.CrossEntropyLoss", "nn.Embedding", "nn.GRUCell", "nn.GroupNorm", "nn.LSTMCell",
    "nn.LayerNorm", "nn.Linear",
    "nn.MaxPool2d", "nn.ReLU", "nn.Softmax",
}  # fmt: skip
DATA = Path(__file__).parents[2] / "docs" / "reference" / "pytorch-samples.json"
CLAIMED = json.loads(DATA.read_text())["modules_f32"]["claimed"]
OPTIMIZERS = {"Adam", "AdamW", "SGD"}
HALVES = (torch.float16, torch.bfloat16)


@pytest.fixture(autouse=True)
def quiet(unoptimised):
    torch.ocl.set_fallback("silent")


@pytest.mark.parametrize("info", [i for i in ocl_modules.modules() if i.name in MODULES], ids=lambda info: info.name)
def test_modules(info):
    torch.ocl.clear_fallbacks()
    assert not [*ocl_modules.wrong_module(info, samples=2)]
    assert info.name not in CLAIMED or torch.ocl.fallbacks() == []


@pytest.mark.parametrize(
    ("dtype", "info"),
    [(dtype, i) for dtype in HALVES for i in ocl_modules.modules(dtype)],  # few: most name float32 and float64 alone
    ids=lambda each: getattr(each, "name", str(each)),
)
def test_modules_in_half_the_bits(dtype, info):
    assert not [*ocl_modules.wrong_module(info, samples=2, dtype=dtype)]


@pytest.mark.parametrize(
    "info",
    [i for i in ocl_modules.optimizers() if i.optim_cls.__name__ in OPTIMIZERS],
    ids=lambda info: info.optim_cls.__name__,
)
def test_optimizers(info):
    assert not [*ocl_modules.wrong_optimizer(info)]


@pytest.mark.slow
def test_optimizers_in_bfloat16():  # optim_db names no dtypes
    (info,) = (i for i in ocl_modules.optimizers() if i.optim_cls is torch.optim.AdamW)
    assert not [*ocl_modules.wrong_optimizer(info, torch.bfloat16)]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_labels_after_the_first_negative_one_count_for_nothing(reduction):
    loss = torch.nn.MultiLabelMarginLoss(reduction=reduction)
    scores, labels = torch.randn(3, 5), torch.tensor([[3, 1, -1, 0, 1], [2, 0, 1, 4, 3], [-1, 0, 1, 2, 3]])
    for given in ((scores, labels), (scores[0], labels[0])):
        torch.testing.assert_close(loss(*(each.to("ocl:0") for each in given)).cpu(), loss(*given))


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
def test_all_modules(dtype):
    assert not [text for info in ocl_modules.modules(dtype) for text in ocl_modules.wrong_module(info, dtype=dtype)]


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
def test_all_optimizers():
    assert not [text for info in ocl_modules.optimizers() for text in ocl_modules.wrong_optimizer(info)]
