"""Attention as models spell it in PyTorch, through both of its exporters to ONNX, with batch and length named.

Each is one op of the plan, its heads stay strides, and one plan computes it at any length. The networks of transformers
are in tests/onnx/test_text_networks.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from onnx_exports import exported  # noqa: E402

import pylayout as pl  # noqa: E402

nn, F = torch.nn, torch.nn.functional

HEADS, WIDTH = 4, 8
COLUMNS = HEADS * WIDTH


class Attention(nn.Module):
    """Queries, keys and values by linear layers; `attend` says how they are brought together."""

    def __init__(self, attend: Any, keys_heads: int = HEADS) -> None:
        super().__init__()
        self.attend = attend
        self.q = nn.Linear(COLUMNS, COLUMNS)
        self.k, self.v = (nn.Linear(COLUMNS, keys_heads * WIDTH) for _ in range(2))
        self.out = nn.Linear(COLUMNS, COLUMNS)
        self.temperature = nn.Parameter(torch.linspace(0.5, 2, HEADS).reshape(HEADS, 1, 1))

    def heads(self, x: Any) -> Any:
        return x.view(*x.shape[:2], -1, WIDTH).transpose(1, 2)

    def forward(self, x: Any, other: Any) -> Any:
        """`other` is a mask of keys, or what keys are made of."""
        source = x if other.dtype == torch.bool else other
        q, k, v = self.heads(self.q(x)), self.heads(self.k(source)), self.heads(self.v(source))
        y = self.attend(self, q, k, v, other)
        return self.out(y.transpose(1, 2).reshape(*x.shape[:2], COLUMNS))


def weighted(scores: Any, v: Any) -> Any:
    return torch.softmax(scores, -1) @ v


def scores(q: Any, k: Any) -> Any:
    return q @ k.transpose(-1, -2) / math.sqrt(WIDTH)


def keys_of(mask: Any) -> Any:
    return mask[:, None, None, :]


def causal(module: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    places = torch.arange(q.shape[2])
    later = places[:, None] < places[None, :]
    return weighted(scores(q, k).masked_fill(later, torch.finfo(q.dtype).min), v)


def causal_and_padding(module: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    places = torch.arange(q.shape[2])
    shown = (places[None, :] <= places[:, None]) & keys_of(mask)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=shown)


def joined_heads(module: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    """As T5 and Bloom do: matrices of all heads of all images."""
    n, _, length, _ = q.shape
    q, k = (x.reshape(n * HEADS, length, WIDTH) for x in (q, k))
    made = torch.bmm(q, k.transpose(1, 2)).view(n, HEADS, length, length)
    return weighted(made.masked_fill(~keys_of(mask), -math.inf), v)


def cosines(module: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    """As Swin v2 does."""
    made = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    return weighted(made * module.temperature.exp() + module.temperature, v)


def repeated_keys(module: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    """As Llama did before PyTorch had it."""

    def repeat(x: Any) -> Any:
        n, heads, length, width = x.shape
        return x[:, :, None].expand(n, heads, 2, length, width).reshape(n, 2 * heads, length, width)

    return weighted(scores(q, repeat(k)), repeat(v))


def sdpa(**options: Any) -> Any:
    return lambda module, q, k, v, mask: F.scaled_dot_product_attention(q, k, v, **options)


class Torchs(nn.Module):
    """nn.MultiheadAttention."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(COLUMNS, HEADS, batch_first=True)

    def forward(self, x: Any, mask: Any) -> Any:
        return self.inner(x, x, x, key_padding_mask=~mask, need_weights=False)[0]


class OneProduct(nn.Module):
    """One linear layer for all three, as timm's networks have it; `channels`: attention of channels, as in XCiT."""

    def __init__(self, channels: bool) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(COLUMNS, 3 * COLUMNS), nn.Linear(COLUMNS, COLUMNS)
        self.temperature = nn.Parameter(torch.linspace(0.5, 2, HEADS).reshape(HEADS, 1, 1))
        self.channels = channels

    def forward(self, x: Any, mask: Any) -> Any:
        n, length, _ = x.shape
        qkv = self.qkv(x).reshape(n, length, 3, HEADS, WIDTH)
        if not self.channels:
            q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        else:
            q, k, v = qkv.permute(2, 0, 3, 4, 1).unbind(0)
            made = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
            y = weighted(made * self.temperature, v).permute(0, 3, 1, 2)
        return self.out(y.reshape(n, length, COLUMNS))


SPELLINGS = {
    "sdpa": lambda: Attention(sdpa()),
    "sdpa, causal": lambda: Attention(sdpa(is_causal=True)),
    "sdpa, scale": lambda: Attention(sdpa(scale=0.3)),
    "sdpa, grouped": lambda: Attention(sdpa(enable_gqa=True), 2),
    "sdpa, one head of keys": lambda: Attention(sdpa(enable_gqa=True), 1),
    "sdpa, keys hidden": lambda: Attention(
        lambda module, q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=keys_of(mask))
    ),
    "sdpa, causal and padding": lambda: Attention(causal_and_padding),
    "sdpa, added": lambda: Attention(
        lambda module, q, k, v, mask: F.scaled_dot_product_attention(
            q, k, v, attn_mask=torch.where(keys_of(mask), 0.0, torch.finfo(q.dtype).min)
        )
    ),
    "eager": lambda: Attention(lambda module, q, k, v, mask: weighted(scores(q, k), v)),
    "eager, keys hidden": lambda: Attention(
        lambda module, q, k, v, mask: weighted(scores(q, k).masked_fill(~keys_of(mask), -math.inf), v)
    ),
    "eager, causal": lambda: Attention(causal),
    "eager, repeated keys": lambda: Attention(repeated_keys, 2),
    "eager, limited": lambda: Attention(lambda module, q, k, v, mask: weighted(5 * torch.tanh(scores(q, k) / 5), v)),
    "einsum": lambda: Attention(
        lambda module, q, k, v, mask: torch.einsum(
            "bhls,bhsd->bhld", torch.softmax(torch.einsum("bhld,bhsd->bhls", q, k) * 0.3, -1), v
        )
    ),
    "joined heads": lambda: Attention(joined_heads),
    "cosines": lambda: Attention(cosines),
    "other keys": lambda: Attention(sdpa()),
    "nn.MultiheadAttention": Torchs,
    "one product": lambda: OneProduct(False),
    "of channels": lambda: OneProduct(True),
}
# Heads of channels: queries, keys and values are by rows of their channels in the linear layer's result, and so is what
# is wanted of the result. A reshape that parts channels into heads takes them by columns alone.
REORDERS = {"of channels": 4}
# What the exporter that traces refuses, or writes for the length of its example alone.
NOT_TRACED = ("sdpa, grouped", "sdpa, one head of keys", "nn.MultiheadAttention")


def given(name: str, n: int, length: int) -> tuple[Any, Any]:
    x = torch.randn(n, length, COLUMNS)
    if name == "other keys":
        return x, torch.randn(n, length + 3, COLUMNS)
    mask = torch.ones(n, length, dtype=torch.bool)
    mask[-1, length - 2 :] = False
    return x, mask


NAMED = {"x": {0: "n", 1: "l"}, "other": {0: "n", 1: "s"}}


@pytest.mark.parametrize(
    ("name", "exporter"),
    [(name, "torchscript") for name in SPELLINGS if name not in NOT_TRACED]
    + [pytest.param(name, "dynamo", marks=pytest.mark.slow) for name in SPELLINGS],
)
def test_one_op_at_any_length(name, exporter, untuned):
    if exporter == "dynamo":
        pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    module = SPELLINGS[name]().eval()
    plan = pl.compile(
        exported(module, given(name, 2, 11), NAMED, dynamo=exporter == "dynamo"), device="cpu", tune="off"
    )
    names = [entry["name"] for entry in plan.inputs]
    for n, length in ((2, 11), (1, 6), (3, 17)):
        inputs = dict(zip(NAMED, given(name, n, length), strict=True))
        with torch.no_grad():
            expected = module(*inputs.values()).numpy()
        (made,) = plan.run(*(inputs[key].numpy() for key in names))
        numpy.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)
        why = plan.explain()
        assert why.count("(scaled_dot_product_attention)") == 1, why
        reorders = [line.strip() for line in why.splitlines() if "reorder of" in line]
        assert len(reorders) <= REORDERS.get(name, 0), "\n".join(reorders)
