"""What tests of the device ocl share: a fixture that each module imports, and numbers."""

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

OCL = "ocl:0"


@pytest.fixture(autouse=True)
def quiet(unoptimised):
    """Fallbacks are counted from zero, and errors: what is meant to run on the device must."""
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("error")
    yield
    torch.ocl.synchronize()  # what waits belongs to the test, and its errors
    torch.ocl.set_fallback("silent")


def numbers(*shape, dtype=torch.float32):
    torch.manual_seed(len(shape))
    return (torch.randn(shape) * 3).to(dtype)


def small_network():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, groups=4), nn.GroupNorm(4, 16), nn.Hardswish(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.LayerNorm(64), nn.Linear(64, 10),
    )  # fmt: skip
