"""Steps of training of whole networks on OpenCL devices that are treated as GPUs (PYLAYOUT_OPENCL_AS): plans meet the
passes and kernels there that processors are not given.  Losses are those of PyTorch in float64.
"""

import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

import pylayout as pl  # noqa: E402

NETWORKS = ["mobilenet_v3_small", "resnet18", "shufflenet_v2_x0_5", "squeezenet1_1"]
BATCH, SIDE, STEPS, RATE, MOMENTUM = 4, 64, 3, 1e-3, 0.9


def network(name):
    sys.path.append(str(Path(__file__).resolve().parent.parent.parent))  # last, as in conftest.py
    from bench.torchvision_models import import_torchvision

    torch.manual_seed(0)
    module = getattr(import_torchvision(), name)(num_classes=10).train()
    for layer in module.modules():  # random numbers would differ
        if isinstance(layer, torch.nn.Dropout) or type(layer).__name__ == "StochasticDepth":
            layer.p = 0.0
    return module, torch.randn(BATCH, 3, SIDE, SIDE), torch.arange(BATCH)


def losses_of_torch(module, x, targets):
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), targets)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def losses_of_plan(module, x, targets, device):
    from pylayout import onnx

    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (x,), content, dynamo=False, opset_version=17, do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE,
        )  # fmt: skip
    graph = onnx.load(content.getvalue()).trainable()
    (scores,) = graph.outputs.values()
    loss = graph.cross_entropy(scores, graph.input("target", (BATCH,), dtype="s64"))
    graph.output(loss, "loss")
    pl.training.sgd(graph, loss, lr=RATE, momentum=MOMENTUM)
    pl.set_tuning("off")  # estimates by the rates of a usual device: those of this one take minutes to measure
    plan = pl.compile(graph, device=device, seconds=0, tune="off")
    place = [output["name"] for output in plan.outputs].index("loss")
    return [float(plan.run(x.numpy(), targets.numpy())[place]) for _ in range(STEPS)]


def compare(name):
    device = next(device for device in pl.devices() if device.name.startswith("opencl"))
    assert device.capabilities["type"] == "gpu"
    module, x, targets = network(name)
    made = losses_of_plan(module, x, targets, device.name)
    exact = losses_of_torch(module.double(), x.double(), targets)
    fell = exact[0] - exact[-1]  # a ReLU's gradient may jump within rounding of 0
    assert fell > 1e-3, exact
    for value, wanted in zip(made, exact, strict=True):
        assert abs(value - wanted) < 0.03 * fell, (made, exact)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_are_as_exact_as_on_other_devices(name, torchvision_models, tmp_path):
    if not any(device.name.startswith("opencl") for device in pl.devices()):
        pytest.skip("no OpenCL device")
    environment = os.environ | {"PYLAYOUT_OPENCL_AS": "gpu", "PYLAYOUT_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, __file__, name], env=environment, check=True)


if __name__ == "__main__":
    compare(sys.argv[1])
