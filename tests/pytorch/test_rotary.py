"""Rotary embeddings as models of PyTorch spell them: one op in each direction, with halves or neighbours as pairs."""

import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh  # noqa: E402, F401

import pylayout as pl  # noqa: E402
import pylayout.torch  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")
HEADS, WIDTH, LONGEST = 2, 8, 12
ANGLES = torch.outer(torch.arange(LONGEST).float(), 0.3 ** torch.arange(WIDTH // 2).float())


def twice(table):
    return table.repeat_interleave(2, -1)


def halves(x):
    """GPT-NeoX, Llama."""
    cos, sin = (torch.cat([part, part], -1) for part in tables(x))
    low, high = x[..., : WIDTH // 2], x[..., WIDTH // 2 :]
    return x * cos + torch.cat([-high, low], -1) * sin


def joined_halves(x):
    cos, sin = tables(x)
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


def every_two(x):
    """GPT-J, RoFormer, Cohere."""
    cos, sin = (twice(part) for part in tables(x))
    return x * cos + torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * sin


def first_columns(x):
    """GPT-J, by half of the columns."""
    cos, sin = (twice(part[:, : WIDTH // 4]) for part in tables(x))
    part, rest = x[..., : WIDTH // 2], x[..., WIDTH // 2 :]
    turned = torch.stack([-part[..., 1::2], part[..., ::2]], -1).flatten(-2)
    return torch.cat([part * cos + turned * sin, rest], -1)


def unbound(x):
    """Diffusion transformers."""
    cos, sin = (twice(part) for part in tables(x))
    real, imaginary = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    return x * cos + torch.stack([-imaginary, real], -1).flatten(3) * sin


def by_lane(x):
    cos, sin = tables(x)
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    real, imaginary = pairs[..., 0], pairs[..., 1]
    return torch.stack([real * cos - imaginary * sin, imaginary * cos + real * sin], -1).flatten(3)


def of_complex_numbers(x):
    """Llama as it was published."""
    cos, sin = tables(x)
    turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * torch.complex(cos, sin)
    return torch.view_as_real(turned).flatten(3)


def tables(x):
    angles = ANGLES[: x.shape[-2]]
    return angles.cos(), angles.sin()


SPELLINGS = [halves, joined_halves, every_two, first_columns, unbound, by_lane, of_complex_numbers]


class Attention(torch.nn.Module):
    def __init__(self, turned):
        super().__init__()
        self.turned = turned
        self.into = torch.nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)
        self.out = torch.nn.Linear(HEADS * WIDTH, HEADS * WIDTH)

    def forward(self, x):
        n, steps, _ = x.shape
        q, k, v = (part.view(n, steps, HEADS, WIDTH).transpose(1, 2) for part in self.into(x).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(x.shape))


def step(model, function, x):
    model.zero_grad()
    y = function(x)
    y.square().sum().backward()
    return y.detach(), [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("turned", SPELLINGS)
def test_one_op_in_each_direction(turned):
    model, x = Attention(turned), torch.randn(2, 5, HEADS * WIDTH)
    fast = compiled(model)
    expected = step(model, model, x)
    step(model, fast, x)
    with pl.profile() as run:
        made = step(model, fast, x)
    close(made, expected)
    ops = [event["op"] for event in run.events]
    assert ops.count("rotary_embedding") == 4, ops  # of queries and keys


@pytest.mark.parametrize("turned", [every_two, of_complex_numbers])
def test_any_length(turned):
    model = Attention(turned)
    fast = torch.compile(model, backend="pylayout", dynamic=True)
    for length in (5, 9, LONGEST):
        x = torch.randn(2, length, HEADS * WIDTH)
        close(step(model, fast, x), step(model, model, x))
        with torch.no_grad():
            close(fast(x), model(x))
    assert not any(graph.left for graph in pylayout.torch.report().graphs)
