"""The ways in which exporters spell attention, and near misses that must stay.

Each spelling is a small graph; `simplify` must find what it is, and the plan must compute what the graph does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from spellings import HEADS, KEYS, LENGTH, WIDTH, N, Value, agrees, names, number

import pylayout as pl

GROUP = 2
SDPA = "scaled_dot_product_attention"
LOWEST = float(np.finfo(np.float32).min)
TRIANGLE = np.tril(np.ones((LENGTH, KEYS), bool))


class Heads:
    """A graph with queries, keys and values by head, made of rows as a linear layer gives them."""

    def __init__(self, keys_heads: int = HEADS) -> None:
        self.g = pl.Graph()
        self.q = self.heads("q", HEADS)
        self.k = self.heads("k", keys_heads)
        self.v = self.heads("v", keys_heads)

    def heads(self, name: str, count: int) -> Value:
        rows = self.g.input(name, (N, LENGTH, count * WIDTH))
        return self.g.permute(self.g.reshape(rows, (N, LENGTH, count, WIDTH)), (0, 2, 1, 3))

    def padding(self) -> Value:
        """A mask of keys that is given, as (n, keys)."""
        return self.g.input("padding", (N, KEYS), dtype="bool")

    def scores(self, scale: float = 1 / math.sqrt(WIDTH)) -> Value:
        return self.g.mul(self.g.matmul(self.q, self.g.transpose(self.k, 2, 3)), number(scale))

    def stack(self) -> tuple[Value, ...]:
        """Queries, keys and values as (n * heads, length, width)."""
        return tuple(self.g.reshape(x, (N * HEADS, LENGTH, WIDTH)) for x in (self.q, self.k, self.v))

    def finish_stack(self, weights: Value, v: Value) -> pl.Graph:
        """The product of weights of (n, heads, length, keys) as one of a stack, with its values."""
        y = self.g.matmul(self.g.reshape(weights, (N * HEADS, LENGTH, KEYS)), v)
        return self.joined(self.g.reshape(y, (N, HEADS, LENGTH, WIDTH)))

    def finish(self, weights: Value) -> pl.Graph:
        return self.joined(self.g.matmul(weights, self.v))

    def joined(self, y: Value) -> pl.Graph:
        y = self.g.permute(y, (0, 2, 1, 3))
        self.g.output(self.g.reshape(y, (N, LENGTH, HEADS * WIDTH)), "y")
        return self.g


def chosen(g: pl.Graph, condition: Value, hidden: float) -> Value:
    """What is added to the scores: nothing where the condition holds, `hidden` elsewhere."""
    return g.where(condition, number(0), number(hidden))


def guarded(g: pl.Graph, scores: Value) -> Value:
    weights = g.softmax(scores, -1)
    return g.where(g.isnan(weights), number(0), weights)


def scaled_apart() -> pl.Graph:
    h = Heads()
    root = number(WIDTH**-0.25)
    scores = h.g.matmul(h.g.mul(h.q, root), h.g.mul(h.g.transpose(h.k, 2, 3), root))
    return h.finish(h.g.softmax(scores, -1))


def guarded_mask() -> pl.Graph:
    h = Heads()
    mask = h.g.reshape(h.padding(), (N, 1, 1, KEYS))
    mask = h.g.expand(mask, (N, 1, LENGTH, KEYS))
    return h.finish(guarded(h.g, h.g.add(h.scores(), chosen(h.g, mask, -math.inf))))


def mask_of_the_lowest_number() -> pl.Graph:
    h = Heads()
    mask = h.g.reshape(h.padding(), (N, 1, 1, KEYS))
    return h.finish(h.g.softmax(h.g.add(chosen(h.g, mask, LOWEST), h.scores()), -1))


def filled_scores(hidden: float, inverted: bool) -> pl.Graph:
    h = Heads()
    scores, mask = h.scores(), h.g.reshape(h.padding(), (N, 1, 1, KEYS))
    parts = (number(hidden), scores) if inverted else (scores, number(hidden))
    return h.finish(h.g.softmax(h.g.where(mask, *parts), -1))


def positions(h: Heads) -> Value:
    """Whether a key comes no later than the query, by comparing numbers of positions."""
    numbers = np.arange(LENGTH, dtype=np.int64)
    return h.g.le(numbers.reshape(1, 1, 1, -1), numbers.reshape(1, 1, -1, 1))


def causal_positions() -> pl.Graph:
    h = Heads()
    mask = h.g.logical_and(np.ones((), bool), positions(h))
    return h.finish(guarded(h.g, h.g.add(h.scores(), chosen(h.g, mask, -math.inf))))


def causal_and_padding() -> pl.Graph:
    h = Heads()
    mask = h.g.logical_and(positions(h), h.g.reshape(h.padding(), (N, 1, 1, KEYS)))
    return h.finish(guarded(h.g, h.g.add(h.scores(), chosen(h.g, mask, -math.inf))))


def causal_filled() -> pl.Graph:
    h = Heads()
    hidden = h.g.logical_not(TRIANGLE.reshape(1, 1, LENGTH, KEYS))
    return h.finish(h.g.softmax(h.g.where(hidden, number(-math.inf), h.scores()), -1))


def causal_of_every_image() -> pl.Graph:
    h = Heads()
    mask = np.broadcast_to(np.where(TRIANGLE, np.float32(0), -np.inf), (N, 1, LENGTH, KEYS))
    return h.finish(guarded(h.g, h.g.add(h.scores(), np.ascontiguousarray(mask, np.float32))))


def causal_but_for_one_image() -> pl.Graph:
    h = Heads()
    mask = np.where(np.broadcast_to(TRIANGLE, (N, 1, LENGTH, KEYS)), np.float32(0), -np.inf).astype(np.float32)
    mask[-1, 0, 0, 1] = 0
    return h.finish(guarded(h.g, h.g.add(h.scores(), mask)))


def window_of_positions() -> pl.Graph:
    h = Heads()
    numbers = np.arange(LENGTH, dtype=np.int64)
    near = np.abs(numbers[:, None] - numbers[None]) <= 2
    mask = h.g.logical_and(positions(h), near)
    return h.finish(guarded(h.g, h.g.add(h.scores(), chosen(h.g, mask, -math.inf))))


def bias_and_choice() -> pl.Graph:
    h = Heads()
    bias = h.g.input("bias", (1, HEADS, LENGTH, KEYS))
    mask = h.g.reshape(h.padding(), (N, 1, 1, KEYS))
    return h.finish(h.g.softmax(h.g.where(mask, h.g.add(h.scores(), bias), number(-math.inf)), -1))


def repeated(h: Heads, x: Value) -> Value:
    kept = HEADS // GROUP
    x = h.g.expand(h.g.unsqueeze(x, 2), (N, kept, GROUP, LENGTH, WIDTH))
    return h.g.reshape(x, (N, HEADS, LENGTH, WIDTH))


def grouped_heads() -> pl.Graph:
    h = Heads(HEADS // GROUP)
    h.k, h.v = repeated(h, h.k), repeated(h, h.v)
    return h.finish(h.g.softmax(h.scores(), -1))


def one_head_of_keys() -> pl.Graph:
    h = Heads(1)
    shape = (N, HEADS, LENGTH, WIDTH)
    h.k, h.v = h.g.expand(h.k, shape), h.g.expand(h.v, shape)
    return h.finish(h.g.softmax(h.scores(), -1))


def limited() -> pl.Graph:
    h = Heads()
    scores = h.g.mul(h.g.tanh(h.g.div(h.scores(), number(3))), number(3))
    mask = chosen(h.g, h.g.reshape(h.padding(), (N, 1, 1, KEYS)), -math.inf)
    return h.finish(h.g.softmax(h.g.add(scores, mask), -1))


def limited_in_a_stack() -> pl.Graph:
    """The products are of (n * heads, length, width), the limit of (n, heads, length, keys)."""
    h = Heads()
    q, k, v = h.stack()
    scores = h.g.reshape(h.g.matmul(q, h.g.transpose(k, 1, 2)), (N, HEADS, LENGTH, KEYS))
    scores = h.g.mul(h.g.tanh(h.g.div(h.g.mul(scores, number(0.3)), number(3))), number(3))
    return h.finish_stack(h.g.softmax(scores, -1), v)


def less_a_bias() -> pl.Graph:
    h = Heads()
    return h.finish(h.g.softmax(h.g.sub(h.scores(), h.g.input("bias", (1, HEADS, LENGTH, KEYS))), -1))


def scaled_sum(factor: float, limit: bool = False) -> pl.Graph:
    """A bias that is added before the scores are scaled, as in XLNet."""
    h = Heads()
    scores = h.g.tanh(h.scores()) if limit else h.scores(1)
    scores = h.g.mul(h.g.add(scores, h.g.input("bias", (1, HEADS, LENGTH, KEYS))), number(factor))
    return h.finish(h.g.softmax(scores, -1))


def no_less_than(lowest: float) -> pl.Graph:
    """Where a mask hides all keys by -infinity they count alike, if the limit leaves nothing of scores."""
    h = Heads()
    mask = chosen(h.g, h.g.reshape(h.padding(), (N, 1, 1, KEYS)), -math.inf)
    return h.finish(h.g.softmax(h.g.maximum(h.g.add(h.scores(), mask), number(lowest)), -1))


def factors_by_head() -> pl.Graph:
    h = Heads()
    scale = np.linspace(0.1, 0.5, HEADS).astype(np.float32).reshape(HEADS, 1, 1)
    return h.finish(h.g.softmax(h.g.mul(h.scores(1), scale), -1))


def keys_turned_as_matrices() -> pl.Graph:
    """Of all heads of all images, as torch.onnx.export writes scaled_dot_product_attention since dynamo=True."""
    h = Heads()
    root = number(WIDTH**-0.25)
    turned = h.g.transpose(h.g.reshape(h.k, (N * HEADS, KEYS, WIDTH)), 1, 2)
    turned = h.g.reshape(turned, (N, HEADS, WIDTH, KEYS))
    scores = h.g.matmul(h.g.mul(h.q, root), h.g.mul(turned, root))
    mask = h.g.logical_and(positions(h), h.g.reshape(h.padding(), (N, 1, 1, KEYS)))
    return h.finish(guarded(h.g, h.g.add(scores, chosen(h.g, mask, -math.inf))))


def of_channels() -> pl.Graph:
    """XCiT's: what one channel takes of the others, over all positions."""
    g = pl.Graph()
    rows = [g.reshape(g.input(name, (N, LENGTH, HEADS * WIDTH)), (N, LENGTH, HEADS, WIDTH)) for name in ("q", "k", "v")]
    q, k, v = (g.permute(x, (0, 2, 3, 1)) for x in rows)
    q, k = (g.div(x, g.clip(g.reduce_l2(x, [-1], True), 1e-6)) for x in (q, k))
    scale = np.linspace(0.1, 0.5, HEADS).astype(np.float32).reshape(HEADS, 1, 1)
    y = g.matmul(g.softmax(g.mul(g.matmul(q, g.transpose(k, 2, 3)), scale), -1), v)
    g.output(g.reshape(g.permute(y, (0, 3, 1, 2)), (N, LENGTH, HEADS * WIDTH)), "y")
    return g


def heads_joined_to_images() -> pl.Graph:
    """Products of (n * heads, l, e), masks and softmax of (n, heads, l, s)."""
    h = Heads()
    apart = (N, HEADS, LENGTH, KEYS)
    q, k, v = h.stack()
    bias = h.g.input("bias", (N * HEADS, 1, KEYS))
    scores = h.g.add(h.g.mul(h.g.matmul(q, h.g.transpose(k, 1, 2)), number(0.3)), bias)
    mask = h.g.reshape(h.padding(), (N, 1, 1, KEYS))
    return h.finish_stack(h.g.softmax(h.g.where(mask, h.g.reshape(scores, apart), number(LOWEST)), -1), v)


def scores_of_joined_heads(masked: bool, one_query: bool = False) -> pl.Graph:
    """Scores of (n * heads, l, s) with a bias by head and key, weights and values of (n, heads, ...)."""
    h = Heads()
    joined, apart = (N * HEADS, LENGTH, WIDTH), (N, HEADS, LENGTH, KEYS)
    q, k = h.g.reshape(h.q, joined), h.g.reshape(h.k, joined)
    if one_query:
        q = h.g.slice(q, [0], [1], [0])
    bias = h.g.input("bias", (N * HEADS, 1, KEYS))
    scores = h.g.add(h.g.mul(h.g.matmul(q, h.g.transpose(k, 1, 2)), number(0.3)), bias)
    scores = h.g.reshape(scores, apart)
    if masked:
        scores = h.g.add(scores, chosen(h.g, h.g.reshape(h.padding(), (N, 1, 1, KEYS)), LOWEST))
    return h.finish(h.g.softmax(scores, -1))


def guarded_by_scores(dim: int = -1, lowest: float = -math.inf, instead: float = 0, fed: bool = True) -> pl.Graph:
    """PyTorch's own softmax of attention: zeros for queries whose scores are all -infinity."""
    h = Heads()
    mask = h.g.reshape(h.padding(), (N, 1, 1, KEYS))
    scores = h.g.add(h.scores(), chosen(h.g, mask, -math.inf))
    found = h.g.logical_not(h.g.eq(scores if fed else h.scores(), number(lowest)))
    empty = h.g.logical_not(h.g.any(found, dim, True))
    zeros = h.g.expand(number(instead), (N, HEADS, LENGTH, KEYS))
    return h.finish(h.g.where(empty, zeros, h.g.softmax(scores, -1)))


SEED = np.array([5, 2**40], np.int64)


def dropped() -> pl.Graph:
    h = Heads()
    mask = h.g.reshape(h.padding(), (N, 1, 1, KEYS))
    weights = guarded(h.g, h.g.add(h.scores(), chosen(h.g, mask, -math.inf)))
    return h.finish(h.g.random_dropout(weights, SEED, 0.3))


def dropped_and_turned(first: bool) -> pl.Graph:
    """v^T @ weights^T, whose weights are dropped before they are turned, or after."""
    h = Heads()
    weights = h.g.softmax(h.scores(), -1)
    weights = h.g.random_dropout(weights, SEED, 0.3) if first else weights
    turned = h.g.permute(weights, (0, 1, 3, 2))
    turned = turned if first else h.g.random_dropout(turned, SEED, 0.3)
    h.g.output(h.g.matmul(h.g.permute(h.v, (0, 1, 3, 2)), turned), "y")
    return h.g


def stacked_heads(bias: bool, drops: bool = False) -> pl.Graph:
    """Products of (n * heads, length, width), with a bias by text and head, as in BLOOM and MPT."""
    h = Heads()
    q, k, v = h.stack()
    scores = h.g.mul(h.g.matmul(q, h.g.transpose(k, 1, 2)), number(0.3))
    if bias:
        scores = h.g.add(np.linspace(-1, 1, N * HEADS * KEYS, dtype=np.float32).reshape(-1, 1, KEYS), scores)
    scores = h.g.reshape(scores, (N, HEADS, LENGTH, KEYS))
    mask = h.g.reshape(h.padding(), (N, 1, 1, KEYS))
    weights = h.g.softmax(h.g.where(mask, scores, number(LOWEST)), -1)
    return h.finish_stack(h.g.random_dropout(weights, SEED, 0.3) if drops else weights, v)


FOUND: dict[str, tuple[Callable[[], pl.Graph], dict[str, Any], bool]] = {
    # spelling: graph, attributes that must be found, whether the op has a mask
    "scaled apart": (scaled_apart, {}, False),
    "guarded, mask repeated": (guarded_mask, {}, True),
    "guarded by scores": (guarded_by_scores, {}, True),
    "heads of texts in a stack": (lambda: stacked_heads(False), {}, True),
    "heads of texts in a stack, with a bias": (lambda: stacked_heads(True), {}, True),
    "heads of texts in a stack, with dropout": (lambda: stacked_heads(True, True), {"dropout_p": 0.3}, True),
    "dropout": (dropped, {"dropout_p": 0.3}, True),
    "dropout, turned": (lambda: dropped_and_turned(True), {"dropout_p": 0.3}, False),
    "mask of the lowest number": (mask_of_the_lowest_number, {}, True),
    "scores or -inf": (lambda: filled_scores(-math.inf, False), {}, True),
    "-inf or scores": (lambda: filled_scores(-math.inf, True), {}, True),
    "scores or the lowest number": (lambda: filled_scores(LOWEST, False), {}, True),
    "causal by positions": (causal_positions, {"is_causal": True}, False),
    "causal and padding": (causal_and_padding, {"is_causal": True}, True),
    "causal, filled": (causal_filled, {"is_causal": True}, False),
    "causal, of every image": (causal_of_every_image, {"is_causal": True}, False),
    "causal, but for one image": (causal_but_for_one_image, {}, True),
    "window of positions": (window_of_positions, {}, True),
    "bias, then choice": (bias_and_choice, {}, True),
    "grouped heads": (grouped_heads, {"enable_gqa": True}, False),
    "one head of keys": (one_head_of_keys, {"enable_gqa": True}, False),
    "limited scores": (limited, {"softcap": 3.0}, True),
    "limited scores of heads in a stack": (limited_in_a_stack, {"softcap": 3.0}, False),
    "scores less a bias": (less_a_bias, {}, True),
    "a factor of scores and bias": (lambda: scaled_sum(0.3), {}, True),
    "no less than the lowest number": (lambda: no_less_than(LOWEST), {}, True),
    "factors by head": (factors_by_head, {}, False),
    "keys turned as matrices": (keys_turned_as_matrices, {"is_causal": True}, True),
    "heads joined to images": (heads_joined_to_images, {}, True),
    "scores of joined heads": (lambda: scores_of_joined_heads(False), {}, True),
    "scores of joined heads, masked": (lambda: scores_of_joined_heads(True), {}, True),
}


@pytest.mark.parametrize("spelling", FOUND)
def test_attention_is_found(spelling: str, rng: np.random.Generator) -> None:
    make, attributes, masked = FOUND[spelling]
    graph = make()
    simple = graph.simplify()
    assert names(simple)[SDPA] == 1
    assert not {"softmax", "matmul", "isnan", "expand"} & set(names(simple))
    (node,) = (node for node in simple.describe()["nodes"] if node["op"] == SDPA)
    for name in ("is_causal", "enable_gqa", "softcap", "dropout_p"):
        wanted = attributes.get(name)
        assert node["attributes"].get(name) in ((wanted,) if wanted else (None, False, 0.0)), name
    assert (len(node["inputs"]) > 3 and node["inputs"][3] is not None) == masked
    agrees(graph, rng)


def test_attention_of_channels(rng: np.random.Generator) -> None:
    graph = of_channels()
    found = names(graph.simplify())
    assert found[SDPA] == 1 and found["l2_normalize"] == 2
    assert not {"softmax", "matmul", "div"} & set(found)
    agrees(graph, rng)


def test_channels_stay_columns(untuned: None) -> None:
    """Pixels of a linear layer are normalised, scaled and read where they lie."""
    plan = pl.compile(of_channels(), device="cpu", tune="off")
    assert "reorder of" not in plan.explain()
    ways = {choice["op"]: choice for choice in plan.summary()["choices"] if choice["kind"] == "op"}
    assert ways[SDPA]["implementation"] == "attention_columns", ways[SDPA]


@pytest.mark.parametrize("number_of_padding", [LOWEST, -math.inf])
@pytest.mark.parametrize("number_of_later", [LOWEST, -math.inf])
@pytest.mark.parametrize("first", ["padding", "later", "bias"])
def test_scores_that_are_replaced_twice(
    first: str, number_of_later: float, number_of_padding: float, rng: np.random.Generator
) -> None:
    """A query whose keys are all replaced by one number counts them alike, however often that was done."""
    h = Heads()
    padded, later = h.g.reshape(h.padding(), (N, 1, 1, KEYS)), ~TRIANGLE.reshape(1, 1, LENGTH, KEYS)
    scores = h.scores()
    steps = {
        "padding": lambda scores: h.g.where(padded, number(number_of_padding), scores),
        "later": lambda scores: h.g.where(later, number(number_of_later), scores),
        "bias": lambda scores: h.g.add(scores, np.linspace(-1, 1, KEYS, dtype=np.float32)),
    }
    for step in (first, *(each for each in steps if each != first)):
        scores = steps[step](scores)
    graph = h.finish(h.g.softmax(scores, -1))
    assert names(graph.simplify())[SDPA] == 1
    agrees(graph, rng)


def test_heads_are_strides(untuned: None) -> None:
    """Queries, keys, values and the result stay where the linear layers have them: in NHCW nothing is moved.

    Forced, since costs may favour a kernel that wants its heads one behind the other: NCHW, which moves them.
    """

    def moved(graph: pl.Graph, layout: str) -> list[str]:
        plan = pl.compile(graph, device="cpu", tune="off", layout=layout)
        return re.findall(f"reorder of .*, because {SDPA} wants [qkv] so.*", plan.explain())

    for make, _, _ in FOUND.values():
        assert moved(make(), "NHCW") == []
    assert moved(make(), "NCHW")


@pytest.mark.parametrize("order", ["parts, heads", "heads, parts", "split"])
def test_one_product_for_queries_keys_and_values(order: str, rng: np.random.Generator) -> None:
    """It is parted where it is used: each part is a dense tensor, and heads are strides of it."""
    g = pl.Graph()
    columns = HEADS * WIDTH
    weight = rng.standard_normal((3 * columns, 24)).astype(np.float32) / 5
    y = g.linear(g.input("x", (N, LENGTH, 24)), weight, rng.standard_normal(3 * columns).astype(np.float32))
    if order == "split":
        parts = [g.reshape(p, (N, LENGTH, HEADS, WIDTH)) for p in g.split(y, columns, -1)]
    elif order == "parts, heads":
        parts = [g.squeeze(p, 2) for p in g.split(g.reshape(y, (N, LENGTH, 3, HEADS, WIDTH)), 1, 2)]
    else:
        y = g.reshape(y, (N, LENGTH, HEADS, 3 * WIDTH))
        parts = [g.slice(y, [i * WIDTH], [(i + 1) * WIDTH], [3]) for i in range(3)]
    q, k, v = (g.permute(part, (0, 2, 1, 3)) for part in parts)
    scores = g.mul(g.matmul(q, g.transpose(k, 2, 3)), number(0.3))
    y = g.permute(g.matmul(g.softmax(scores, -1), v), (0, 2, 1, 3))
    g.output(g.reshape(y, (N, LENGTH, columns)), "y")
    found = names(g.simplify())
    assert found["linear"] == 3 and found[SDPA] == 1
    assert not {"slice", "split"} & set(found)
    assert "reorder of" not in pl.compile(g, device="cpu", tune="off").explain()
    agrees(g, rng)


def test_parts_of_heads_are_joined_where_they_lie(rng: np.random.Generator) -> None:
    """Columns of heads that are turned, and columns that are not, as in DeepSeek."""
    g = pl.Graph()
    heads = g.permute(
        g.reshape(g.input("x", (N, LENGTH, HEADS * 3 * WIDTH)), (N, LENGTH, HEADS, 3 * WIDTH)), (0, 2, 1, 3)
    )
    first, second = g.slice(heads, [0], [WIDTH], [3]), g.slice(heads, [2 * WIDTH], [3 * WIDTH], [3])
    g.output(g.concat([second, first], -1), "y")
    plan = pl.compile(g, device="cpu", tune="off", layout="NCHW")
    assert "because concat wants tensors so" not in plan.explain()
    x = rng.standard_normal((N, LENGTH, HEADS * 3 * WIDTH)).astype(np.float32)
    parts = x.reshape(N, LENGTH, HEADS, 3, WIDTH).transpose(0, 2, 1, 3, 4)
    expected = np.concatenate([parts[..., 2, :], parts[..., 0, :]], -1)
    np.testing.assert_array_equal(np.asarray(plan.run(x)[0]), expected)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_attention_takes_repeated_heads_once(grouped: bool, masked: bool, rng: np.random.Generator) -> None:
    """Of the op itself, as a model that repeats heads calls PyTorch's; also where it has groups already."""
    few = HEADS // GROUP
    h = Heads(few)
    repeats, kept = (GROUP // 2, HEADS // 2) if grouped else (GROUP, HEADS)
    for name in ("k", "v"):
        x = h.g.expand(h.g.unsqueeze(getattr(h, name), 2), (N, few, repeats, LENGTH, WIDTH))
        setattr(h, name, h.g.reshape(x, (N, kept, LENGTH, WIDTH)))
    mask = h.g.reshape(h.padding(), (N, 1, 1, KEYS)) if masked else None
    y = h.g.scaled_dot_product_attention(h.q, h.k, h.v, mask, enable_gqa=grouped)
    graph = h.joined(y)
    simple = graph.simplify()
    (node,) = (node for node in simple.describe()["nodes"] if node["op"] == SDPA)
    assert node["attributes"]["enable_gqa"] and "expand" not in names(simple)
    agrees(graph, rng)


@pytest.mark.parametrize("which", ["k", "v"])
def test_heads_that_only_one_of_both_repeats(which: str, rng: np.random.Generator) -> None:
    h = Heads()
    x = h.g.reshape(h.g.input("few", (N, LENGTH, HEADS // GROUP * WIDTH)), (N, LENGTH, HEADS // GROUP, WIDTH))
    x = h.g.expand(h.g.unsqueeze(h.g.permute(x, (0, 2, 1, 3)), 2), (N, HEADS // GROUP, GROUP, LENGTH, WIDTH))
    setattr(h, which, h.g.reshape(x, (N, HEADS, LENGTH, WIDTH)))
    graph = h.joined(h.g.scaled_dot_product_attention(h.q, h.k, h.v))
    (node,) = (node for node in graph.simplify().describe()["nodes"] if node["op"] == SDPA)
    assert not node["attributes"].get("enable_gqa")
    agrees(graph, rng)


def beside_sinks(shifted: bool = True, first: int = 0, columns: int = 1, by_row: bool = True) -> pl.Graph:
    """GPT-OSS's: a score more for each head, whose weight no value has."""
    h = Heads()
    sinks = h.g.constant(np.linspace(-1, 2, HEADS * columns, dtype=np.float32).reshape(1, HEADS, 1, columns), "sinks")
    sinks = h.g.expand(sinks, (N, HEADS, LENGTH, columns))
    mask = chosen(h.g, h.g.reshape(h.padding(), (N, 1, 1, KEYS)), LOWEST)
    scores = h.g.concat([h.g.add(h.scores(), mask), sinks], -1)
    if shifted:
        scores = h.g.sub(scores, h.g.amax(scores, [-1 if by_row else -2], True))
    return h.finish(h.g.slice(h.g.softmax(scores, -1), [first], [first + KEYS], [3]))


@pytest.mark.parametrize("shifted", [True, False])
def test_attention_with_sinks(shifted: bool, rng: np.random.Generator) -> None:
    graph = beside_sinks(shifted)
    found = names(graph.simplify())
    assert found[SDPA] == 1 and not {"softmax", "matmul", "concat", "slice", "amax"} & set(found)
    agrees(graph, rng)


@pytest.mark.parametrize("which", ["q", "k", "v"])
def test_every_second_column_of_heads(which: str, rng: np.random.Generator, device: str) -> None:
    """Columns that do not lie side by side are brought together: kernels go by rows."""
    g = pl.Graph()
    given = {name: rng.standard_normal((N, HEADS, LENGTH, WIDTH)).astype(np.float32) for name in ("q", "k", "v")}
    given[which] = rng.standard_normal((N, HEADS, LENGTH, 2 * WIDTH)).astype(np.float32)
    tensors = {name: g.input(name, x.shape) for name, x in given.items()}
    tensors[which] = g.slice(tensors[which], [0], [2 * WIDTH], [3], [2])
    g.output(g.scaled_dot_product_attention(*tensors.values()), "y")
    y = np.asarray(pl.compile(g, device=device, tune="off").run(*given.values())[0])
    given[which] = np.ascontiguousarray(given[which][..., ::2])
    expected = np.asarray(pl.ops.scaled_dot_product_attention(*map(pl.asarray, given.values())))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def softmax_over_queries() -> pl.Graph:
    h = Heads()
    return h.finish(h.g.softmax(h.scores(), 2))


def another_guard() -> pl.Graph:
    h = Heads()
    weights = h.g.softmax(h.scores(), -1)
    return h.finish(h.g.where(h.g.isnan(weights), number(0.5), weights))


def hidden_by_little() -> pl.Graph:
    """-100 hides nothing where all keys of a query are hidden."""
    return filled_scores(-100, False)


def two_limits() -> pl.Graph:
    h = Heads()
    return h.finish(h.g.softmax(h.g.tanh(h.g.add(h.scores(), number(1))), -1))


def factors_by_key() -> pl.Graph:
    h = Heads()
    return h.finish(h.g.softmax(h.g.mul(h.scores(), np.linspace(0.5, 1, KEYS).astype(np.float32)), -1))


def weights_that_leave() -> pl.Graph:
    h = Heads()
    weights = h.g.softmax(h.scores(), -1)
    g = h.finish(weights)
    g.output(weights, "weights")
    return g


def heads_repeated_in_turn() -> pl.Graph:
    """Head h of q would need head h % kept of k, not h / group."""
    h = Heads(HEADS // GROUP)
    for name in ("k", "v"):
        x = h.g.expand(h.g.unsqueeze(getattr(h, name), 1), (N, GROUP, HEADS // GROUP, LENGTH, WIDTH))
        setattr(h, name, h.g.reshape(x, (N, HEADS, LENGTH, WIDTH)))
    return h.finish(h.g.softmax(h.scores(), -1))


def test_near_misses(rng: np.random.Generator) -> None:
    for make in (
        lambda: dropped_and_turned(False),
        softmax_over_queries,
        another_guard,
        hidden_by_little,
        two_limits,
        factors_by_key,
        weights_that_leave,
        lambda: scaled_sum(-0.3),
        lambda: scaled_sum(0.3, limit=True),
        lambda: no_less_than(-100),
        lambda: beside_sinks(first=1),
        lambda: beside_sinks(columns=2),
        lambda: beside_sinks(by_row=False),
    ):
        graph = make()
        assert names(graph.simplify())[SDPA] == 0, make
        agrees(graph, rng)
    for changed in ({"dim": -2}, {"lowest": LOWEST}, {"instead": 0.5}, {"fed": False}):
        assert names(guarded_by_scores(**changed).simplify())[SDPA] == 0, changed  # type: ignore[arg-type]
    graph = scores_of_joined_heads(True, one_query=True)  # the first product repeats its queries
    assert names(graph.simplify())[SDPA] == 0
    agrees(graph, rng)
    # Attention, but of as many heads of keys as of queries, and with a mask where the triangle is another one.
    graph = heads_repeated_in_turn()
    (node,) = (node for node in graph.simplify().describe()["nodes"] if node["op"] == SDPA)
    assert not node["attributes"].get("enable_gqa")
    agrees(graph, rng)
    h = Heads()
    later = h.g.reshape(np.triu(np.ones((LENGTH, KEYS), bool)), (1, 1, LENGTH, KEYS))
    graph = h.finish(guarded(h.g, h.g.add(h.scores(), chosen(h.g, later, -math.inf))))
    (node,) = (node for node in graph.simplify().describe()["nodes"] if node["op"] == SDPA)
    assert not node["attributes"].get("is_causal")
    agrees(graph, rng)
