"""torch.compile(backend="pylayout"), training: what follows a batch norm is its post-op, also what is done in place."""

import copy

import pytest

torch = pytest.importorskip("torch")

from compile_testing import compiled, fresh  # noqa: E402, F401

import pylayout.torch  # noqa: E402

nn = torch.nn


class Block(nn.Module):
    def __init__(self, inplace):
        super().__init__()
        self.first, self.one = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.two = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.middle, self.last = nn.ReLU6(inplace), nn.ReLU(inplace)

    def forward(self, x):
        y = self.two(self.second(self.middle(self.one(self.first(x)))))
        y += x
        return self.last(y)


@pytest.mark.parametrize("inplace", [False, True])
def test_activations_and_sums_behind_norms(inplace):
    model = Block(inplace)
    twin, x = copy.deepcopy(model), torch.randn(3, 8, 7, 6)
    made, expected = compiled(model)(x), twin(x)
    torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-4)
    made.square().sum().backward()
    expected.square().sum().backward()
    for (name, mine), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-3, msg=name)
    text = pylayout.torch.report().graphs[0].plans[0].graph()
    norms = [line for line in text.splitlines() if "= batch_norm_training(" in line]
    assert ["relu6" in line for line in norms] == [True, False], text
    assert "add(residual), relu" in norms[1] and "= relu" not in text, text
