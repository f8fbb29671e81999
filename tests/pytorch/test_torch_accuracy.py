"""`bench.torch_accuracy`: a network on ocl and compiled on the CPU is as exact as PyTorch's; what is wrong is found."""

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401


@pytest.fixture
def accuracy(torchvision_models, untuned):  # which makes bench importable
    from bench import torch_accuracy

    return torch_accuracy


@pytest.mark.parametrize("where", ["cpu", pytest.param("ocl:0", marks=pytest.mark.slow)])
def test_a_network_is_as_exact_as_in_pytorch(accuracy, where):
    row = accuracy.validate("squeezenet1_0", where, 1, 48)
    assert row["forward_times"] < 5 and row["backward_times"] < 5, row


def test_errors_are_relative_and_see_each_gradient(accuracy):
    result, gradients = torch.ones(4).double(), [torch.ones(9).double(), 100 * torch.ones(4).double()]
    exact = (result, gradients)
    assert accuracy.errors((result, gradients), exact) == (0, 0)
    forward, backward = accuracy.errors((result * 1.5, [gradients[0] * 2, gradients[1]]), exact)
    assert forward == pytest.approx(0.5)
    assert backward == pytest.approx(0.5**0.5)  # of two, one is wrong by its own norm
