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


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(
    "activation",
    [
        nn.ReLU, nn.ReLU6, lambda inplace: nn.Hardtanh(-0.5, 0.25, inplace), nn.SiLU, nn.Hardswish, nn.Mish,
        lambda inplace: nn.GELU(approximate="tanh" if inplace else "none"),
        lambda inplace: nn.LeakyReLU(0.2),
    ],
)  # fmt: skip
def test_gradients_of_activations_behind_norms(activation, inplace, affine):
    """A part of the norm's gradient, of one dimension and without running statistics, too."""
    for norm, x in (
        (nn.BatchNorm2d(6, affine=affine), torch.randn(4, 6, 5, 7)),
        (nn.BatchNorm1d(6, affine=affine, track_running_stats=False), torch.randn(9, 6)),
    ):
        model = nn.Sequential(nn.Identity(), norm, activation(inplace=inplace))
        twin, other = copy.deepcopy(model), x.clone().requires_grad_()
        x.requires_grad_()
        torch._dynamo.reset()
        pylayout.torch.reset()
        weights = torch.randn(x.shape)
        (compiled(model)(x) * weights).sum().backward()
        (twin(other) * weights).sum().backward()
        torch.testing.assert_close(x.grad, other.grad, rtol=1e-3, atol=1e-5)
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-5)
        text = pylayout.torch.report().graphs[1].plans[0].graph()
        (line,) = [line for line in text.splitlines() if "= batch_norm_backward(" in line]
        assert "activation=" in line, text


@pytest.mark.parametrize("activation", [nn.ReLU, nn.SiLU])
def test_the_gradient_behind_an_activation_that_a_sum_reads_too(activation):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.activation = nn.BatchNorm2d(4), activation()

        def forward(self, x):
            y = self.activation(self.norm(x))
            return y * y + y

    model, x = Two(), torch.randn(3, 4, 5, 5, requires_grad=True)
    twin, other = copy.deepcopy(model), x.detach().clone().requires_grad_()
    compiled(model)(x).sum().backward()
    twin(other).sum().backward()
    torch.testing.assert_close(x.grad, other.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pytorch_s_own_form_of_the_gradient_behind_an_activation(dtype):
    """What runs where no plan takes it."""
    x = torch.randn(4, 6, 5, 7, dtype=dtype, requires_grad=True)
    weight, bias = torch.randn(6).to(dtype).requires_grad_(), torch.randn(6).to(dtype).requires_grad_()
    grad = torch.randn(4, 6, 5, 7, dtype=dtype)
    torch.nn.functional.batch_norm(x, None, None, weight, bias, True).clamp(-0.5, 0.75).backward(grad)
    _, mean, inverse = torch.ops.aten._native_batch_norm_legit.no_stats(x.detach(), weight, bias, True, 0.1, 1e-5)
    arguments = (grad, x.detach(), weight.detach(), bias.detach(), mean, inverse, 1e-5, "clip", [-0.5, 0.75])
    made = torch.ops.pylayout.batch_norm_activation_backward(*arguments)
    tolerance = 1e-4 if dtype == torch.float32 else 0.1
    for mine, wanted in zip(made, (x.grad, weight.grad, bias.grad), strict=True):
        assert mine.dtype == dtype
        assert (mine - wanted).norm() <= tolerance * wanted.norm()
    torch.library.opcheck(torch.ops.pylayout.batch_norm_activation_backward, arguments, test_utils="test_faketensor")
