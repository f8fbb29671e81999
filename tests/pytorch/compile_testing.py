"""What tests of torch.compile(backend="pylayout") share: a fixture that each module imports, and a network."""

import pytest

torch = pytest.importorskip("torch")

import pylayout.torch  # noqa: E402

nn = torch.nn


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    pylayout.torch.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, backend="pylayout", options=options or None)


def close(made, expected, tolerance=2e-5):
    torch.testing.assert_close(made, expected, rtol=tolerance, atol=tolerance)


def needs_opencl():
    if not any(device.name.startswith("opencl") for device in pylayout.devices()):
        pytest.skip("no OpenCL device")


def small_network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip
