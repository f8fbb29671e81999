"""Attention that models spell as products and a softmax: one op in both directions under torch.compile."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh  # noqa: E402, F401

import pylayout as pl  # noqa: E402
import pylayout.torch  # noqa: E402

f = torch.nn.functional
N, HEADS, WORDS, WIDTH = 2, 4, 70, 16
SEEN = torch.ones(WORDS, WORDS, dtype=torch.bool).tril()
BIAS = torch.randn(N, 1, WORDS, WORDS, generator=torch.Generator().manual_seed(3))


def like_gpt(q: Any, k: Any, v: Any) -> Any:
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    scores = scores.masked_fill(SEEN[None, None] == 0, float("-inf"))
    return f.dropout(f.softmax(scores, dim=-1), 0.0) @ v


def scaled_before(q: Any, k: Any, v: Any) -> Any:
    return ((q * 0.3) @ k.transpose(-2, -1)).softmax(dim=-1) @ v


def in_float32(q: Any, k: Any, v: Any) -> Any:
    scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(WIDTH)
    scores = scores + BIAS
    return torch.matmul(f.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype), v).transpose(1, 2).contiguous()


def by_letters(q: Any, k: Any, v: Any) -> Any:
    scores = torch.einsum("b h i d, b h j d -> b h i j", q, k) * WIDTH**-0.5
    return torch.einsum("b h i j, b h j d -> b h i d", scores.softmax(dim=-1), v)


def words_first(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k).mul(0.25)
    return torch.einsum("bhij,bjhd->bihd", torch.softmax(scores, 3), v).flatten(2)


def in_a_stack(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (each.flatten(0, 1) for each in (q, k, v))
    mask = BIAS.expand(N, HEADS, WORDS, WORDS).flatten(0, 1)
    return torch.bmm(f.softmax(torch.baddbmm(mask, q, k.transpose(-2, -1)), dim=-1), v)


def in_windows(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (each.unflatten(2, (2, WORDS // 2)) for each in (q, k, v))
    return (q @ k.mT).softmax(-1) @ v


def in_place(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT
    scores = scores.mul_(0.5).masked_fill_(~SEEN, -1e9)
    scores += BIAS
    return scores.softmax(-1) @ v


def chosen(q: Any, k: Any, v: Any) -> Any:
    scores = torch.matmul(q, k.transpose(-1, -2)) / torch.full([], WIDTH**0.5)
    scores = torch.where(SEEN, scores, torch.tensor(torch.finfo(torch.float32).min))
    return torch.matmul(f.softmax(scores.float(), dim=-1).type(v.dtype), v)


def one_head_of_keys(q: Any, k: Any, v: Any) -> Any:
    k, v = k[:, :1], v[:, :1]
    return ((q @ k.transpose(2, 3)) * 0.5 + BIAS).softmax(-1) @ v


SPELLINGS: list[Callable[..., Any]] = [
    chosen, one_head_of_keys, like_gpt, scaled_before, in_float32, by_letters, words_first, in_a_stack, in_windows,
    in_place,
]  # fmt: skip


def heads(dtype: Any = torch.float32) -> list[Any]:
    torch.manual_seed(0)
    return [torch.randn(N, HEADS, WORDS, WIDTH, dtype=dtype).requires_grad_() for _ in range(3)]


def both_ways(run: Any, given: list[Any]) -> list[Any]:
    y = run(*given)
    weight = torch.linspace(-1, 1, y.numel()).view(y.shape)
    return [y, *torch.autograd.grad((y * weight).sum(), given)]


def ops_of(run: Any, given: list[Any]) -> tuple[list[Any], Counter[str]]:
    with pl.profile() as profile:
        made = both_ways(run, given)
    return made, Counter(event["op"] for event in profile.events)


@pytest.mark.parametrize("spelled", SPELLINGS, ids=lambda each: each.__name__)
def test_one_op_in_both_directions(spelled: Callable[..., Any]) -> None:
    made, ops = ops_of(compiled(spelled), heads())
    assert ops["scaled_dot_product_attention"] == ops["scaled_dot_product_attention_backward"] == 1, ops
    assert not ops["softmax"] and not ops["softmax_backward"], ops
    for mine, theirs in zip(made, both_ways(spelled, heads()), strict=True):
        close(mine, theirs, 1e-4)


def heads_of_words(*sizes: int) -> list[Any]:
    """q, k and v of so many heads, as they are cut from (n, words, heads, width)."""
    return [torch.randn(N, 5, heads, 8).transpose(1, 2).requires_grad_() for heads in sizes]


@pytest.mark.parametrize("product", [torch.matmul, lambda a, b: torch.einsum("bhqk,bhke->bhqe", a, b)])
def test_results_lie_as_those_of_products(product: Callable[..., Any]) -> None:
    """By rows, however q does: a model may view heads as one dimension."""

    def run(q: Any, k: Any, v: Any) -> Any:
        made = product((q @ k.mT).softmax(-1), v)
        return made, made.view(-1, *made.shape[2:])

    given = heads_of_words(4, 4, 4)
    made, expected = compiled(run)(*given), run(*given)
    close(made, expected)
    assert made[0].stride() == expected[0].stride()


@pytest.mark.parametrize("turned", range(4), ids=["none", "q", "k", "v"])
def test_results_of_shared_heads_lie_as_in_eager_mode(turned: int) -> None:
    """As q does, unless elements of rows of any of them are apart, which PyTorch's op does not take."""

    def run(q: Any, k: Any, v: Any) -> Any:
        return f.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    given = heads_of_words(4, 2, 2)
    if turned:
        given[turned - 1] = given[turned - 1].mT.contiguous().mT
    made, expected = compiled(run)(*given), run(*given)
    close(made, expected)
    assert made.stride() == expected.stride()


@pytest.mark.parametrize("spelled", SPELLINGS, ids=lambda each: each.__name__)
def test_under_autocast(spelled: Callable[..., Any]) -> None:
    run = compiled(spelled)
    with torch.autocast("cpu", torch.bfloat16):
        made, theirs = both_ways(run, heads()), both_ways(spelled, heads())
    for mine, wanted in zip(made, theirs, strict=True):
        assert mine.dtype == wanted.dtype
        close(mine, wanted, 0.05)


def test_multi_head_attention_that_could_give_weights() -> None:
    layer = torch.nn.MultiheadAttention(64, HEADS, dropout=0.1, batch_first=True)

    def run(x: Any) -> Any:
        return layer(x, x, x)[0]

    with pl.profile() as profile:
        compiled(run)(torch.randn(8, WORDS, 64).requires_grad_()).sum().backward()
    ops = Counter(event["op"] for event in profile.events)
    assert ops["scaled_dot_product_attention"] == ops["scaled_dot_product_attention_backward"] == 1, ops
    assert not ops["softmax"] and not ops["random_dropout"], ops


def test_dropped_weights() -> None:
    """Of few weights by eager mode's numbers, of more by a seed."""

    def spelled(q: Any, k: Any, v: Any) -> Any:
        return f.dropout((q @ k.mT).softmax(-1), 0.3) @ v

    few = [torch.randn(2, 2, 20, 8).requires_grad_() for _ in range(3)]
    results = []
    for run in (compiled(spelled), spelled):
        torch.manual_seed(2)
        results.append(both_ways(run, few))
    for mine, theirs in zip(*results, strict=True):
        close(mine, theirs, 1e-4)
    many = [torch.randn(8, 4, WORDS, 8).requires_grad_() for _ in range(3)]
    _, ops = ops_of(compiled(spelled), many)
    assert ops["scaled_dot_product_attention"] == ops["scaled_dot_product_attention_backward"] == 1, ops
    results = []
    for run in (compiled(spelled, fallback_random=True), spelled):
        torch.manual_seed(2)
        results.append(both_ways(run, many))
    for mine, theirs in zip(*results, strict=True):
        close(mine, theirs, 1e-4)


def test_weights_that_see_no_key() -> None:
    """Where -inf hides all keys PyTorch's softmax gives NaN; attention gives zeros, and no gradient."""
    hidden = ~SEEN.clone()
    hidden[5] = True

    def spelled(q: Any, k: Any, v: Any) -> Any:
        return (q @ k.mT).masked_fill(hidden, -torch.inf).softmax(-1) @ v

    made = both_ways(compiled(spelled), heads())
    assert all(each.isfinite().all() for each in made) and not made[0][:, :, 5].any()


@pytest.mark.parametrize("number", [-1e9, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("order", ["padding, later", "later, padding", "padding, bias, later"])
def test_queries_whose_scores_are_all_numbers(order: str, number: float) -> None:
    """They count their keys alike, and no gradient goes through the numbers."""
    padded = torch.zeros(N, 1, 1, WORDS, dtype=torch.bool)
    padded[0, ..., :5] = True

    def spelled(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.mT * 0.3
        for step in order.split(", "):
            if step == "bias":
                scores = scores + BIAS
            else:
                scores = scores.masked_fill(padded if step == "padding" else ~SEEN, number)
        return scores.softmax(-1) @ v

    made, ops = ops_of(compiled(spelled), heads())
    assert ops["scaled_dot_product_attention"] == ops["scaled_dot_product_attention_backward"] == 1, ops
    theirs = both_ways(spelled, heads())
    assert not theirs[1][0, :, :5].any()
    for mine, wanted in zip(made, theirs, strict=True):
        close(mine, wanted, 1e-4)


def repeated_as_in_llama(x: Any) -> Any:
    n, heads, words, width = x.shape
    return x[:, :, None, :, :].expand(n, heads, 2, words, width).reshape(n, heads * 2, words, width)


REPEATED = {
    "expand": repeated_as_in_llama,
    "unsqueeze": lambda x: x.unsqueeze(2).expand(-1, -1, 2, -1, -1).reshape(N, HEADS, WORDS, -1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("how", REPEATED)
def test_heads_that_are_repeated_for_the_op(how: str, masked: bool) -> None:
    """Neither they nor their gradients are copies."""
    repeated, mask = REPEATED[how], SEEN[None, None] if masked else None

    def run(q: Any, k: Any, v: Any) -> Any:
        return f.scaled_dot_product_attention(q, repeated(k), repeated(v), attn_mask=mask)

    def few() -> list[Any]:
        q, k, v = heads()
        return [q, *(each[:, :2].detach().clone().requires_grad_() for each in (k, v))]

    made, ops = ops_of(compiled(run), few())
    assert ops["scaled_dot_product_attention"] == ops["scaled_dot_product_attention_backward"] == 1, ops
    plans = "".join(plan.explain() for graph in pylayout.torch.report().graphs for plan in graph.plans)
    assert "(expand)" not in plans, plans
    for mine, theirs in zip(made, both_ways(run, few()), strict=True):
        close(mine, theirs, 1e-4)


def test_heads_that_are_repeated_in_turn() -> None:
    """`repeat` gives head h another one of keys than groups have."""

    def run(q: Any, k: Any, v: Any) -> Any:
        return f.scaled_dot_product_attention(q, k[:, :2].repeat(1, 2, 1, 1), v[:, :2].repeat(1, 2, 1, 1))

    for mine, theirs in zip(both_ways(compiled(run), heads()), both_ways(run, heads()), strict=True):
        close(mine, theirs, 1e-4)


def test_copies_of_scores_that_nobody_reads() -> None:
    def spelled(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.mT
        scores.clone(), scores.detach()
        return scores.softmax(-1) @ v

    _, ops = ops_of(compiled(spelled), heads())
    assert ops["scaled_dot_product_attention_backward"] == 1 and not ops["softmax"], ops


def over_queries(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT).softmax(-2) @ v


def weights_too(q: Any, k: Any, v: Any) -> Any:
    weights = (q @ k.mT).softmax(-1)
    return weights @ v * weights.sum()


def hidden_by_little(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT).masked_fill(~SEEN, -1e4).softmax(-1) @ v


def scaled_after_the_mask(q: Any, k: Any, v: Any) -> Any:
    return ((q @ k.mT + BIAS) * 0.3).softmax(-1) @ v


def mask_that_is_learned(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT + v[..., :1]).softmax(-1) @ v


def scores_too(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT
    return scores.softmax(-1) @ v + scores.mean()


MISSES = [over_queries, weights_too, hidden_by_little, scaled_after_the_mask, mask_that_is_learned, scores_too]


@pytest.mark.parametrize("spelled", MISSES, ids=lambda each: each.__name__)
def test_near_misses(spelled: Callable[..., Any]) -> None:
    made, ops = ops_of(compiled(spelled), heads())
    assert not ops["scaled_dot_product_attention_backward"], ops
    for mine, theirs in zip(made, both_ways(spelled, heads()), strict=True):
        close(mine, theirs, 1e-3)


def test_transforms_of_functions() -> None:
    def spelled(q: Any, k: Any, v: Any) -> Any:
        return ((q @ k.mT) * 0.25).softmax(-1) @ v

    def by_sample(q: Any, k: Any, v: Any) -> Any:
        return torch.vmap(spelled)(q, k, v)

    for mine, theirs in zip(both_ways(compiled(by_sample), heads()), both_ways(by_sample, heads()), strict=True):
        close(mine, theirs, 1e-4)


def test_changing_lengths_are_one_plan() -> None:
    def spelled(q: Any, k: Any, v: Any) -> Any:
        return ((q @ k.mT) * 0.25).softmax(-1) @ v

    run = torch.compile(spelled, backend="pylayout", dynamic=True)
    for words in (9, 20, 33):
        given = [torch.randn(N, HEADS, words, WIDTH).requires_grad_() for _ in range(3)]
        for mine, theirs in zip(both_ways(run, given), both_ways(spelled, given), strict=True):
            close(mine, theirs, 1e-4)
    assert len(pl.torch.report().graphs) == 2
