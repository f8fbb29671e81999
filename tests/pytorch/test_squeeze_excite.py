"""Squeeze-and-excitation in compiled training on the device ocl: one op each way, against float64."""

import copy

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, quiet  # noqa: E402, F401

import pylayout.torch  # noqa: E402
from pylayout.torch import squeeze_excite  # noqa: E402

nn = torch.nn
HIDDEN, GATES = {"relu": nn.ReLU, "silu": nn.SiLU, "hardswish": nn.Hardswish}, ("sigmoid", "hardsigmoid")


class Block(nn.Module):
    """As torchvision has it, behind a norm; `means`: as timm has it."""

    def __init__(self, hidden="silu", gate="sigmoid", channels=12, squeezed=5, means=False, shows_gate=False):
        super().__init__()
        self.stem, self.norm, self.function = nn.Conv2d(3, channels, 3), nn.BatchNorm2d(channels), nn.SiLU(inplace=True)
        self.first, self.second = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.hidden, self.gate = HIDDEN[hidden](inplace=True), getattr(nn.functional, gate)
        self.last = nn.Conv2d(channels, 4, 1)
        self.means, self.shows_gate = means, shows_gate

    def forward(self, x):
        x = self.function(self.norm(self.stem(x)))
        mean = x.mean((2, 3), keepdim=True) if self.means else nn.functional.adaptive_avg_pool2d(x, 1)
        gate = self.gate(self.second(self.hidden(self.first(mean))))
        y = self.last(x * gate if self.means else gate * x)
        return y.float().square().mean() + (gate.float().mean() if self.shows_gate else 0)


def _trained(block, half=False, frozen=()):
    """Gradients on ocl and in float64, and whether the op and its gradient were found."""
    torch.manual_seed(0)
    exact, x = copy.deepcopy(block).double(), torch.randn(3, 3, 9, 7)
    exact(x.double()).backward()
    there = copy.deepcopy(block).to(OCL)
    for name, parameter in there.named_parameters():
        parameter.requires_grad_(not name.startswith(tuple(frozen)) if frozen else True)
    torch._dynamo.reset()
    pylayout.torch.reset()
    fast = torch.compile(there, backend="pylayout", options={"deterministic": True})
    with torch.autocast("ocl", torch.float16, enabled=half):
        loss = fast(x.to(OCL))
    loss.backward()
    forward, backward = pylayout.torch.report().graphs
    assert forward.left == backward.left == () and forward.partitions == backward.partitions == 1
    pairs = {
        name: (mine.grad.cpu().double(), theirs.grad)
        for (name, mine), theirs in zip(there.named_parameters(), exact.parameters(), strict=True)
        if mine.grad is not None
    }
    return pairs, "squeeze_excite_backward" in backward.plans[0].graph()


def _check(pairs, bound):
    for name, (mine, wanted) in pairs.items():
        if name == "stem.bias":  # in front of a norm, whose gradient by it is rounding
            continue
        assert (mine - wanted).norm() <= bound * wanted.norm(), f"{name}: {(mine - wanted).norm() / wanted.norm()}"


@pytest.mark.parametrize("half", [False, True], ids=["f32", "autocast"])
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_one_op_each_way(hidden, gate, half):
    pairs, found = _trained(Block(hidden, gate, means=hidden == "relu"), half)
    assert found
    _check(pairs, 1e-2 if half else 1e-5)


def test_parts_of_it_that_are_not_trained():
    pairs, found = _trained(Block(), frozen=["first.weight", "second"])
    assert found and {*pairs} & {"first.weight", "second.weight", "first.bias"} == {"first.bias"}
    _check(pairs, 1e-5)


@pytest.mark.parametrize("options", [{"channels": 10}, {"shows_gate": True}], ids=str)
def test_what_the_op_does_not_suit(options):
    """Channels that are no multiple of 4; a gate whose gradient comes from elsewhere, too."""
    pairs, found = _trained(Block(**options))
    assert not found
    _check(pairs, 1e-5)


def test_weights_that_are_too_large(monkeypatch):
    monkeypatch.setattr(squeeze_excite, "MOST_WEIGHTS", 59)
    pairs, found = _trained(Block())
    assert not found
    _check(pairs, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_the_ops_in_pytorch(hidden, gate, dtype):
    """What runs where plans refuse them."""
    torch.manual_seed(0)
    shapes = [(2, 8, 3, 5), (6, 8, 1, 1), (6,), (8, 6, 1, 1), (8,)]
    given = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    grad = torch.randn(shapes[0], dtype=torch.float64)
    own = torch.ops.pylayout

    def of_pytorch(x, weight1, bias1, weight2, bias2):
        middle = nn.functional.conv2d(x.mean((2, 3), keepdim=True), weight1, bias1)
        middle = getattr(nn.functional, hidden)(middle)
        return x * getattr(nn.functional, gate)(nn.functional.conv2d(middle, weight2, bias2))

    rounded = [each.to(dtype) for each in given]
    exact = [each.double().requires_grad_() for each in rounded]
    expected = of_pytorch(*exact)
    expected.backward(grad.to(dtype).double())
    made = [own.squeeze_excite(*rounded, hidden, gate)]
    made += own.squeeze_excite_backward(grad.to(dtype), *rounded, hidden, gate)
    bound = 1e-12 if dtype == torch.float64 else 2e-3
    for mine, wanted in zip(made, [expected.detach(), *(each.grad for each in exact)], strict=True):
        assert mine.dtype == dtype and mine.shape == wanted.shape
        assert (mine.double() - wanted).norm() <= bound * wanted.norm()


def test_a_gate_of_planes_of_any_size():
    """A convolution of 1x1 over whole planes: sizes that calls decide are none that are 1."""

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(3, 3, 1)

        def forward(self, x):
            return x * self.convolution(x).sigmoid()

    torch.manual_seed(0)
    torch._dynamo.reset()
    module = Gate()
    compiled = torch.compile(module, backend="pylayout", dynamic=True)
    for shape in ((2, 3, 17, 9), (1, 3, 8, 12)):
        x = torch.randn(shape)
        made = torch.autograd.grad(compiled(x).square().sum(), [*module.parameters()])
        wanted = torch.autograd.grad(module(x).square().sum(), [*module.parameters()])
        _check(dict(enumerate(zip(made, wanted, strict=True))), 1e-5)
