"""Steps of training of whole networks on OpenCL devices that are treated as GPUs (PYLAYOUT_OPENCL_AS): plans meet the
passes and kernels there that processors are not given.  Losses are those of PyTorch in float64.
"""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

import pylayout as pl  # noqa: E402

NETWORKS = ["mobilenet_v3_small", "resnet18", "shufflenet_v2_x0_5", "squeezenet1_1"]
BATCH, SIDE, STEPS, RATE, MOMENTUM = 4, 64, 3, 1e-3, 0.9


def compare(name):
    sys.path.append(str(Path(__file__).resolve().parent.parent.parent))  # last, as in conftest.py
    from bench import training
    from bench.torchvision_models import import_torchvision

    device = next(device for device in pl.devices() if device.name.startswith("opencl"))
    assert device.capabilities["type"] == "gpu"
    torch.manual_seed(0)
    module = getattr(import_torchvision(), name)(num_classes=10).train()
    module = training.without_random_numbers(torch, module)
    x, targets = torch.randn(BATCH, 3, SIDE, SIDE), torch.arange(BATCH)
    graph, loss = training.with_loss(torch, module, x)
    pl.training.sgd(graph, loss, lr=RATE, momentum=MOMENTUM)
    pl.set_tuning("off")  # estimates by the rates of a usual device: those of this one take minutes to measure
    plan = pl.compile(graph, device=device.name, seconds=0, tune="off")
    step = training.step_of_plan(plan, x, targets, device.name)
    made = [step() for _ in range(STEPS)]
    optimizer = torch.optim.SGD(module.double().parameters(), lr=RATE, momentum=MOMENTUM)
    step = training.torch_step(training.Precision(torch, "fp32", "cpu"), module, x.double(), targets, optimizer)
    exact = [float(step()) for _ in range(STEPS)]
    fell = exact[0] - exact[-1]  # a ReLU's gradient may jump within rounding of 0
    assert fell > 1e-3, exact
    for value, wanted in zip(made, exact, strict=True):
        assert abs(value - wanted) < 0.03 * fell, (made, exact)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_are_as_exact_as_on_other_devices(name, torchvision_models, run_as_gpu):
    run_as_gpu(__file__, name)


if __name__ == "__main__":
    compare(sys.argv[1])
