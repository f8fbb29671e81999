"""Random numbers of the device ocl: generators, the library's own numbers, statistics, dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from random_numbers import distance, moments

from pylayout import ops

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

OCL = "ocl:0"
COUNT = 100_000


@pytest.fixture(autouse=True)
def nothing_runs_on_the_cpu(unoptimised: Any) -> Any:
    torch.ocl.set_fallback("error")
    yield
    torch.ocl.set_fallback("silent")


def on_cpu(name: str, *seed: int, **attributes: Any) -> np.ndarray:
    return np.asarray(getattr(ops, name)(np.array(seed, "i8"), **attributes))


def test_numbers_are_those_that_the_library_draws_on_the_cpu() -> None:
    torch.manual_seed(3)
    made = [
        torch.rand(5, device=OCL),
        torch.randint(0, 10, (3, 3), device=OCL),
        torch.empty(7, device=OCL, dtype=torch.float16).uniform_(1, 2),
        torch.randperm(6, device=OCL),
        torch.empty(4, dtype=torch.bool, device=OCL).bernoulli_(0.25),
        torch.empty(3, dtype=torch.int64, device=OCL).random_(-(2**63), None),
    ]
    wanted = [
        on_cpu("random_uniform", 3, 0, shape=5),
        on_cpu("random_integers", 3, 2, shape=(3, 3), high=9),
        on_cpu("random_uniform", 3, 5, shape=7, low=1.0, high=2.0, dtype="f16"),
        on_cpu("random_permutation", 3, 7, n=6),
        on_cpu("random_bernoulli", 3, 8, shape=4, p=0.25, dtype="bool"),
        on_cpu("random_integers", 3, 9, shape=3, low=-(2**63), high=2**63 - 1),
    ]
    for mine, there in zip(made, wanted, strict=True):
        assert np.array_equal(mine.cpu().numpy(), there)
    normal = torch.randn(9, device=OCL).cpu().numpy()
    np.testing.assert_allclose(normal, on_cpu("random_normal", 3, 11, shape=9), rtol=1e-5, atol=1e-5)


def test_views_and_memory_formats_change_no_numbers() -> None:
    def drawn(into: torch.Tensor) -> torch.Tensor:
        torch.ocl.manual_seed(1)
        return into.uniform_().cpu().contiguous()

    plain = drawn(torch.empty(2, 3, 4, 5, device=OCL))
    assert torch.equal(plain, drawn(torch.empty(2, 3, 4, 5, device=OCL).to(memory_format=torch.channels_last)))
    whole = torch.zeros(2, 3, 4, 10, device=OCL)
    assert torch.equal(plain, drawn(whole[..., ::2]))
    assert whole[..., 1::2].cpu().abs().sum() == 0
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.zeros(1, device=OCL).expand(3).uniform_()


def test_generators_have_states() -> None:
    torch.ocl.manual_seed(1)
    state = torch.ocl.get_rng_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu"
    first = torch.rand(4, device=OCL).cpu()
    second = torch.rand(4, device=OCL).cpu()
    assert not torch.equal(first, second)
    torch.ocl.set_rng_state(state)
    assert torch.equal(torch.rand(4, device=OCL).cpu(), first)
    assert torch.ocl.initial_seed() == 1
    with pytest.raises(RuntimeError, match="has 3 bytes, expected 16"):
        torch.ocl.set_rng_state(state[:3].clone())
    with torch.random.fork_rng(device_type="ocl"):
        torch.rand(100, device=OCL)
        torch.manual_seed(8)
    assert torch.equal(torch.rand(4, device=OCL).cpu(), second)


def test_generators_of_their_own() -> None:
    generator = torch.Generator(device=OCL).manual_seed(5)
    assert generator.device.type == "ocl" and generator.initial_seed() == 5
    made = torch.rand(3, device=OCL, generator=generator).cpu()
    assert np.array_equal(made.numpy(), on_cpu("random_uniform", 5, 0, shape=3))
    kept = generator.get_state()
    again = torch.rand(3, device=OCL, generator=generator).cpu()
    other = torch.Generator(device="ocl")
    other.set_state(kept)
    assert torch.equal(torch.rand(3, device=OCL, generator=other).cpu(), again)
    generator.seed()
    assert generator.initial_seed() != 5
    with pytest.raises(RuntimeError, match="generator is of cpu, expected one of ocl"):
        torch.rand(3, device=OCL, generator=torch.Generator())
    with pytest.raises(RuntimeError, match="generator is of ocl, expected one of cpu"):
        torch.rand(3, generator=generator)


def normal_below(x: np.ndarray) -> np.ndarray:
    return np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x])


DRAWS: dict[str, tuple[Any, Any]] = {  # what fills a tensor, and the distribution function
    "uniform_": (lambda t: t.uniform_(-1, 3), lambda x: (x + 1) / 4),
    "normal_": (lambda t: t.normal_(1, 2), lambda x: normal_below((x - 1) / 2)),
    "exponential_": (lambda t: t.exponential_(0.5), lambda x: 1 - np.exp(-x / 2)),
    "log_normal_": (lambda t: t.log_normal_(0, 1), lambda x: normal_below(np.log(x))),
    "cauchy_": (lambda t: t.cauchy_(1, 2), lambda x: np.arctan((x - 1) / 2) / np.pi + 0.5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_distributions(name: str) -> None:
    torch.manual_seed(0)
    fill, below = DRAWS[name]
    assert distance(fill(torch.empty(COUNT, device=OCL)).cpu().numpy(), below) < 2.3


def test_moments_of_half_precision() -> None:
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16):
        mean, variance, third, excess = moments(torch.randn(COUNT, device=OCL, dtype=dtype).float().cpu().numpy())
        assert abs(mean) < 0.02 and abs(variance - 1) < 0.02 and abs(third) < 0.05 and abs(excess) < 0.1


def test_whole_numbers() -> None:
    torch.manual_seed(0)
    values = torch.empty(COUNT, device=OCL).geometric_(0.25).cpu()
    assert values.min() == 1 and abs(values.mean() - 4) < 0.06 and torch.equal(values, values.floor())
    assert abs((values == 1).float().mean() - 0.25) < 0.01
    for dtype, most in ((torch.float32, 2**24), (torch.int32, 2**31 - 1), (torch.bool, 1), (torch.uint8, 255)):
        values = torch.empty(COUNT, device=OCL, dtype=dtype).random_().cpu().double()
        assert values.min() >= 0 and values.max() <= most and abs(values.mean() / most - 0.5) < 0.01
    p = torch.tensor([0.0, 0.2, 1.0]).repeat(COUNT, 1)
    shares = torch.bernoulli(p.to(OCL)).cpu().mean(0)
    assert shares[0] == 0 and shares[2] == 1 and abs(shares[1] - 0.2) < 0.01
    normal = torch.normal(torch.tensor([1.0, 5.0], device=OCL).expand(COUNT, 2), 0.5).cpu()
    assert torch.allclose(normal.mean(0), torch.tensor([1.0, 5.0]), atol=0.02)


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial(replacement: bool) -> None:
    torch.manual_seed(0)
    weights = torch.tensor([[0.1, 0.0, 0.6, 0.3], [3.0, 1.0, 0.0, 0.0]])
    torch.ocl.set_fallback("error" if replacement else "silent")  # topk is the CPU's
    if replacement:
        drawn = torch.multinomial(weights.to(OCL), COUNT, True).cpu()
        shares = torch.stack([torch.bincount(row, minlength=4) / COUNT for row in drawn])
        assert torch.allclose(shares, weights / weights.sum(1, keepdim=True), atol=0.01)
        assert shares[0, 1] == 0 and shares[1, 2:].sum() == 0
        many = torch.zeros(70_000, device=OCL)
        many[12_345] = 1
        assert torch.multinomial(many, 20, True).cpu().unique().tolist() == [12_345]
        return
    drawn = torch.multinomial(weights.to(OCL).repeat(2000, 1), 2).cpu()
    assert (drawn[1::2].sort(1).values == torch.tensor([0, 1])).all()
    assert not (drawn == 1)[::2].any()
    assert abs((drawn[::2, 0] == 2).float().mean() - 0.6) < 0.05
    with pytest.raises(RuntimeError, match="probability tensor"):
        torch.multinomial(torch.tensor([-1.0, 2.0], device=OCL), 1)


def test_permutations() -> None:
    assert torch.equal(torch.randperm(1000, device=OCL).cpu().sort().values, torch.arange(1000))
    assert torch.randperm(0, device=OCL).shape == (0,)
    assert torch.randperm(9, device=OCL, dtype=torch.float32).dtype == torch.float32


def test_dropout_and_its_gradient() -> None:
    torch.manual_seed(0)
    x = torch.ones(100, 1001, device=OCL, requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    made = y.detach().cpu()
    assert made.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert abs((made == 0).float().mean() - 0.25) < 0.01
    assert torch.equal(x.grad.cpu(), made)
    again = torch.nn.functional.dropout(x, 0.25).detach().cpu()
    assert not torch.equal(again, made)
    assert torch.equal(torch.nn.functional.dropout(x, 0.25, training=False), x)
    assert torch.nn.functional.dropout(x, 1.0).abs().sum().item() == 0


def test_dropout_has_gradients_of_gradients() -> None:
    x = torch.rand(20, device=OCL).requires_grad_()
    y = torch.nn.functional.dropout(x * x, 0.5)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((first * x).sum(), x)
    assert torch.allclose(second.cpu(), 2 * first.detach().cpu(), atol=1e-6)


def test_compiled_dropout_draws_what_eager_mode_draws() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Dropout(0.3)).to(OCL)
    x = torch.rand(8, 16).to(OCL)
    results = []
    for run in (layer, torch.compile(layer, backend="pylayout")):
        torch.ocl.manual_seed(7)
        layer.zero_grad()
        y = run(x)
        y.sum().backward()
        results.append((y.detach().cpu(), layer[0].weight.grad.cpu()))
    assert torch.equal(results[0][0] == 0, results[1][0] == 0)
    for eager, compiled in zip(*results, strict=True):
        assert torch.allclose(eager, compiled, atol=1e-5)


def test_compiled_attention_drops_what_eager_mode_drops() -> None:
    """Its weights are no tensor, and are numbered as those that eager mode has."""
    layers = torch.nn.Sequential(
        torch.nn.TransformerEncoderLayer(32, 2, 48, dropout=0.25, batch_first=True),
        torch.nn.TransformerEncoderLayer(32, 2, 48, dropout=0.5, batch_first=True),
    ).to(OCL)
    x = torch.rand(3, 11, 32).to(OCL)
    results = []
    for run in (layers, torch.compile(layers, backend="pylayout")):
        torch.ocl.manual_seed(7)
        layers.zero_grad()
        y = run(x)
        y.square().sum().backward()
        results.append([y.detach().cpu(), *(each.grad.cpu() for each in layers.parameters())])
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-3, atol=1e-3)


def test_numbers_of_float64_are_drawn_on_the_cpu_by_the_seed() -> None:
    torch.ocl.set_fallback("silent")
    made = []
    for _ in range(2):
        torch.ocl.manual_seed(4)
        made.append(torch.rand(1000, dtype=torch.float64, device=OCL).cpu())
    assert torch.equal(*made)
    assert (made[0] * 2**30 % 1 != 0).any()  # more digits than float32 has


@pytest.mark.parametrize("how", ["reentrant", "not reentrant", "compiled"])
def test_a_checkpoint_draws_its_numbers_again(how: str) -> None:
    """Else gradients would be those of another mask than the result's."""
    layer = torch.nn.Dropout(0.5)

    def function(x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(
            lambda t: layer(t * 1.5).sin(), x, use_reentrant=how == "reentrant"
        )  # fmt: skip

    run = torch.compile(function, backend="pylayout") if how == "compiled" else function
    x = torch.linspace(0.1, 1, 64, device=OCL).requires_grad_()
    torch.manual_seed(3)
    y = run(x)
    following = torch.rand(4, device=OCL)
    y.sum().backward()
    assert 0 < (y == 0).sum() < 64
    wanted = torch.where(y.cpu() == 0, 0, 3 * (3 * x.detach().cpu()).cos())
    torch.testing.assert_close(x.grad.cpu(), wanted)
    torch.manual_seed(3)
    torch.testing.assert_close(function(x), y)
    assert torch.equal(torch.rand(4, device=OCL), following)  # backward left the generator as it was
    torch._dynamo.reset()
