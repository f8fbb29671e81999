"""Blocks that many networks are made of, as plans or as steps of training, beside eager PyTorch.

    python -m bench.blocks                         all blocks: plans
    python -m bench.blocks --training encoder reflected
    python -m bench.blocks --device opencl:0 --without skip_repeats

A line for each block: times of both, PyTorch's over ours, and of plans attention ops, products and reorders. A step of
training is a forward and a backward under torch.compile, on the CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import pylayout as pl

from .stacked_heads import counts
from .turns import take_turns

N, WORDS, WIDTH, HEADS = 4, 64, 256, 4
CHANNELS, SIDE = 64, 28


def blocks() -> dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]]:
    """By name what makes a module and its inputs."""
    import torch
    from torch import nn
    from torch.nn import functional

    class ImageAttention(nn.Module):
        """Of pixels, as in latent diffusion's autoencoder: its result is written by channels."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(8, CHANNELS)
            self.q, self.k, self.v, self.out = (nn.Conv2d(CHANNELS, CHANNELS, 1) for _ in range(4))

        def forward(self, x: Any) -> Any:
            y = self.norm(x)
            q, k, v = (made(y).flatten(2) for made in (self.q, self.k, self.v))
            weights = torch.softmax(torch.bmm(q.transpose(1, 2), k) * CHANNELS**-0.5, 2)
            return x + self.out(torch.bmm(v, weights.transpose(1, 2)).view(x.shape))

    class ChannelHeads(nn.Module):
        """Heads that are parts of channels, as in guided diffusion."""

        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Conv1d(CHANNELS, 3 * CHANNELS, 1), nn.Conv1d(CHANNELS, CHANNELS, 1)

        def forward(self, x: Any) -> Any:
            y = x.flatten(2)
            head = CHANNELS // HEADS
            q, k, v = self.qkv(y).reshape(N * HEADS, 3 * head, -1).split(head, 1)
            weights = torch.softmax(torch.einsum("bct,bcs->bts", q * head**-0.25, k * head**-0.25), -1)
            made = torch.einsum("bts,bcs->bct", weights, v).reshape(N, CHANNELS, -1)
            return (y + self.out(made)).view(x.shape)

    class Reflected(nn.Module):
        """A residual block of networks that change an image's style: reflected borders, instance norm."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (nn.Conv2d(CHANNELS, CHANNELS, 3) for _ in range(2))
            self.norm = nn.InstanceNorm2d(CHANNELS)

        def forward(self, x: Any) -> Any:
            y = functional.relu(self.norm(self.first(functional.pad(x, (1, 1, 1, 1), mode="reflect"))))
            return x + self.norm(self.second(functional.pad(y, (1, 1, 1, 1), mode="reflect")))

    class Steps(nn.Module):
        """A recurrent layer's results of all steps."""

        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0]

    class CrossAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

        def forward(self, x: Any, y: Any) -> Any:
            return self.attention(x, y, y, need_weights=False)[0]

    class Rotary(nn.Module):
        """Attention whose queries and keys are turned by their positions."""

        def __init__(self, turned: Callable[[Any, Any], Any]) -> None:
            super().__init__()
            self.turned = turned
            self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            angles = torch.outer(torch.arange(WORDS), 1e4 ** -torch.linspace(0, 1, WIDTH // HEADS // 2))
            self.register_buffer("angles", angles)

        def forward(self, x: Any) -> Any:
            q, k, v = (part.view(N, WORDS, HEADS, -1).transpose(1, 2) for part in self.into(x).chunk(3, -1))
            q, k = (self.turned(part, self.angles) for part in (q, k))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(x.shape))

    def by_halves(x: Any, angles: Any) -> Any:
        cosines, sines = (torch.cat([table, table], -1) for table in (angles.cos(), angles.sin()))
        low, high = x.chunk(2, -1)
        return x * cosines + torch.cat([-high, low], -1) * sines

    def by_neighbours(x: Any, angles: Any) -> Any:
        cosines, sines = (table.repeat_interleave(2, -1) for table in (angles.cos(), angles.sin()))
        return x * cosines + torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * sines

    def by_complex_numbers(x: Any, angles: Any) -> Any:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(3)

    def encoder(batch_first: bool) -> Any:
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0, batch_first=batch_first)
        return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def decoder() -> Any:
        layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0, batch_first=True)
        return nn.TransformerDecoder(layer, 2)

    def text() -> Any:
        return torch.randn(N, WORDS, WIDTH)

    def image() -> Any:
        return torch.randn(N, CHANNELS, SIDE, SIDE)

    return {
        "encoder": lambda: (encoder(True), (text(),)),
        "encoder_words_first": lambda: (encoder(False), (text().transpose(0, 1).contiguous(),)),
        "decoder": lambda: (decoder(), (text(), text())),
        "cross_attention": lambda: (CrossAttention(), (text(), text())),
        "image_attention": lambda: (ImageAttention(), (image(),)),
        "channel_heads": lambda: (ChannelHeads(), (image(),)),
        "reflected": lambda: (Reflected(), (image(),)),
        "rotary_halves": lambda: (Rotary(by_halves), (text(),)),
        "rotary_neighbours": lambda: (Rotary(by_neighbours), (text(),)),
        "rotary_complex": lambda: (Rotary(by_complex_numbers), (text(),)),
        "lstm": lambda: (Steps(nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)), (text(),)),
        "gru": lambda: (Steps(nn.GRU(WIDTH, WIDTH // 2, 2, batch_first=True, bidirectional=True)), (text(),)),
    }


def plans(module: Any, inputs: Sequence[Any], options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    import torch

    module.eval()
    plan = pl.compile(
        module, tuple(inputs), device=options.device, seconds=options.seconds, without=options.without or []
    )
    given = [each.numpy() for each in inputs]

    def eager() -> None:
        with torch.no_grad():
            module(*inputs)

    return {"ours": lambda: plan.run(*given), "eager": eager}, counts(plan)


def steps(module: Any, inputs: Sequence[Any]) -> tuple[dict[str, Any], str]:
    import torch

    compiled = torch.compile(module, backend="pylayout")
    given = [each.requires_grad_() for each in inputs]

    def step(called: Any) -> Callable[[], None]:
        def run() -> None:
            for each in (*module.parameters(), *given):
                each.grad = None
            called(*given).pow(2).mean().backward()

        return run

    return {"ours": step(compiled), "eager": step(module)}, "forward and backward"


def main(arguments: list[str] | None = None) -> None:
    import torch

    makers = blocks()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("blocks", nargs="*", metavar="BLOCK", help=f"of {', '.join(makers)}")
    parser.add_argument("--training", action="store_true", help="steps under torch.compile in place of plans")
    parser.add_argument("--device", default="cpu", help="of plans; eager PyTorch stays on the CPU")
    parser.add_argument("--without", action="append", metavar="PASS", help="leave a pass out of plans")
    parser.add_argument("--seconds", type=float, default=2, help="for tuning each plan")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args(arguments)
    for name in options.blocks or makers:
        if name not in makers:
            parser.error(f"unknown block {name}, expected one of {', '.join(makers)}")
        torch.manual_seed(1)
        module, inputs = makers[name]()
        runs, told = steps(module, inputs) if options.training else plans(module, inputs, options)
        ms = take_turns(runs, options.rounds)
        ratio = ms["eager"] / ms["ours"]
        print(f"{name:19} {ms['ours']:8.3f} ms, eager {ms['eager']:8.3f} ms, {ratio:5.2f}; {told}", flush=True)


if __name__ == "__main__":
    main()
