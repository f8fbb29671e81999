"""The training scripts of examples/ on the device ocl: their losses are those of the CPU."""

import importlib.util
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # workers of a DataLoader look for its classes there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def only_the_device(untuned):
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("error")
    yield
    torch.ocl.set_fallback("silent")


def distance(one, other):
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_steps_of_resnet18(torchvision_models):
    """As near to the CPU's as the CPU's own in another memory format: rounding grows from step to step."""
    train = example("train_resnet18")
    asked = {"steps": 50, "batch": 8, "size": 32, "rate": 0.002}
    cpu = train.losses("cpu", workers=0, **asked)
    other = train.losses("cpu", workers=0, channels_last=True, **asked)
    made = train.losses("ocl:0", workers=2, **asked)
    assert len(made) == 50 and made[-1] < made[0] - 0.3
    assert distance(made[:5], cpu[:5]) < 1e-3
    assert distance(made, cpu) <= 5 * distance(other, cpu) + 1e-3


@pytest.mark.slow
def test_mixed_precision(torchvision_models):
    train = example("train_resnet18")
    asked = {"steps": 4, "batch": 8, "size": 32, "rate": 0.002, "workers": 0, "channels_last": True}
    torch.ocl.set_fallback("silent")
    made = train.losses("ocl:0", amp=True, **asked)
    # GradScaler's own numbers are of float64.
    assert {each.op for each in torch.ocl.fallbacks()} <= {"aten::reciprocal", "aten::_amp_update_scale_"}
    assert distance(made, train.losses("cpu", **asked)) < 0.1


@pytest.mark.slow
def test_fifty_steps_of_bert_by_hugging_faces_trainer(torchvision_models, monkeypatch):
    pytest.importorskip("transformers")
    accelerate = pytest.importorskip("accelerate")
    warnings.filterwarnings("ignore", message=".*pin_memory.*")
    train = example("train_bert")
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "cpu")  # restored at the end
    found = []
    for device in ("cpu", "ocl:0"):
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        found.append(train.losses(device, steps=50, batch=16, dropout=0.0))
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    assert len(found[0]) == 50 and sum(found[1][-10:]) < sum(found[1][:10]) - 2
    assert distance(*found) < 1e-3  # the Trainer rounds what it logs
