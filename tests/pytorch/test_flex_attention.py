"""`flex_attention`, whose scores a function of the user changes: one op where that is a mask, bias or limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh  # noqa: E402, F401
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402

import pylayout.torch  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")

N, HEADS, WORDS, WIDTH = 2, 4, 64, 16
BIAS = torch.randn(HEADS, WORDS, WORDS, generator=torch.Generator().manual_seed(5))


def causal_mask(n: Any, head: Any, query: Any, key: Any) -> Any:
    return query >= key


def near(n: Any, head: Any, query: Any, key: Any) -> Any:
    return (query >= key) & (query - key < 9)


def blocks(mask: Callable[..., Any]) -> Any:
    return create_block_mask(mask, None, None, WORDS, WORDS, device="cpu")


def with_scores(score_mod: Callable[..., Any] | None, **more: Any) -> Callable[..., Any]:
    return lambda q, k, v: flex_attention(q, k, v, score_mod=score_mod, **more)


# What is one attention op.
ONE_OP = {
    "plain": with_scores(None),
    "causal": with_scores(None, block_mask=blocks(causal_mask)),
    "a window": with_scores(None, block_mask=blocks(near)),
    "distances": with_scores(lambda s, n, head, i, j: s + (j - i) * 0.1 * (head + 1), block_mask=blocks(causal_mask)),
    "bias": with_scores(lambda s, n, head, i, j: s + BIAS[head, i, j]),
    "limit": with_scores(lambda s, n, head, i, j: 20 * torch.tanh(s / 20), scale=0.5),
    "shared heads": lambda q, k, v: flex_attention(
        q, k[:, :2], v[:, :2], block_mask=blocks(causal_mask), enable_gqa=True
    ),
}
OTHERS = {
    "squares": with_scores(lambda s, n, head, i, j: s * s * 0.1),
    "little": with_scores(lambda s, n, head, i, j: torch.where(i >= j, s, -3.0)),
    "sums of exponentials": lambda q, k, v: flex_attention(q, k, v, return_lse=True)[1],
}


@pytest.mark.parametrize("name", [*ONE_OP, *OTHERS])
def test_flex_attention_is_one_plan(name: str) -> None:
    function = {**ONE_OP, **OTHERS}[name]
    given = [torch.randn(N, HEADS, WORDS, WIDTH) for _ in range(3)]
    with torch.no_grad():
        made = compiled(function)(*given)
        (graph,) = pylayout.torch.report().graphs
        text = graph.plans[0].explain()
        torch._dynamo.reset()
        close(made, torch.compile(function, backend="eager")(*given), 1e-5)
    assert graph.partitions == 1 and not graph.left, str(graph)
    assert text.count("(scaled_dot_product_attention)") == (name in ONE_OP), text
    assert "softmax" not in text or name not in ONE_OP, text
