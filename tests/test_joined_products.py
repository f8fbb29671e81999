"""Linear ops of one activation as one product, whose parts are read as strided views: pass `join_linear`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pylayout as pl

# By estimates alone: steps are counted, whatever other tests measured.
pytestmark = pytest.mark.usefixtures("untuned")

N, LENGTH, CHANNELS, WIDTH = 2, 9, 40, 8
TERMS = 264  # long sums: joined whatever the sizes


def draw(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(i * size for i, size in enumerate(shape, 3)))
    return rng.standard_normal(shape).astype(np.float32) / 4


def heads(g: pl.Graph, rows: Any, count: int) -> Any:
    n, length = rows.shape[:2]
    return g.permute(g.reshape(rows, (n, length, count, WIDTH)), (0, 2, 1, 3))


def ops_of(plan: pl.Plan, name: str) -> int:
    return plan.explain().count(f"({name})")


def copies_of(plan: pl.Plan) -> list[str]:
    return [line.strip() for line in plan.explain().splitlines() if "reorder of" in line or "copy of" in line]


def projected(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    y = x.astype(np.float64) @ weight.astype(np.float64).T
    return y if bias is None else y + bias


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    def by_head(rows: np.ndarray) -> np.ndarray:
        return rows.reshape(*rows.shape[:2], -1, WIDTH).transpose(0, 2, 1, 3)

    q, k, v = map(by_head, (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(values, group, 1) for values in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(WIDTH)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ v


def turned(rows: np.ndarray, cosines: np.ndarray, sines: np.ndarray) -> np.ndarray:
    """Rotary embedding of (n, length, heads * WIDTH)."""
    x = rows.reshape(*rows.shape[:2], -1, WIDTH)
    half = np.concatenate([-x[..., WIDTH // 2 :], x[..., : WIDTH // 2]], -1)
    return (x * cosines[:, None] + half * sines[:, None]).reshape(rows.shape)


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("heads_of_k", [6, 2])
@pytest.mark.parametrize("length", [LENGTH, 1])
def test_queries_keys_and_values(heads_of_k: int, rotary: bool, length: int, device: str) -> None:
    """Biases on some of them only, groups of heads, and rotary embedding, which reads a view itself."""
    x = draw(N, length, CHANNELS)
    counts = [6, heads_of_k, heads_of_k]
    weights = [draw(count * WIDTH, CHANNELS) * (i + 1) for i, count in enumerate(counts)]
    biases = [draw(counts[0] * WIDTH), None, draw(counts[2] * WIDTH)]
    cosines, sines = draw(length, WIDTH), draw(length, WIDTH)
    g = pl.Graph()
    given = g.input("x", x.shape)
    q, k, v = (
        heads(g, g.linear(given, weight, *([] if bias is None else [bias])), count)
        for weight, bias, count in zip(weights, biases, counts, strict=True)
    )
    if rotary:
        q, k = g.rotary_embedding(q, cosines, sines), g.rotary_embedding(k, cosines, sines)
    attention = g.scaled_dot_product_attention(q, k, v, enable_gqa=heads_of_k != 6)
    g.output(g.permute(attention, (0, 2, 1, 3)), "y")
    plan = pl.compile(g, device=device, tune="off")
    rows = [projected(x, weight, bias) for weight, bias in zip(weights, biases, strict=True)]
    if rotary:
        rows[:2] = [turned(each, cosines, sines) for each in rows[:2]]
    expected = attended(*rows).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(plan.run(x)[0], expected, rtol=2e-5, atol=2e-5)
    assert ops_of(plan, "linear") == 1
    if rotary:  # those of queries and keys are one where each is a launch
        assert ops_of(plan, "rotary_embedding") == (1 if device != "cpu" else 2)
    assert not copies_of(plan), copies_of(plan)
    parted = pl.compile(g, device=device, tune="off", without="join_linear")
    assert ops_of(parted, "linear") == 3


ROTARY = ["neighbours", "turned round", "by head", "other tables", "a gap", "an output"]


@pytest.mark.parametrize("case", ROTARY)
def test_rotary_embeddings_of_neighbouring_heads(case: str, device: str) -> None:
    """Pass join_rotary: exact, whichever comes first, and only by tables that say the same of all heads."""
    counts, length = (4, 2, 2), LENGTH
    rows = draw(N, length, sum(counts) * WIDTH)
    shape = (counts[0], length, WIDTH) if case == "by head" else (length, WIDTH)
    tables = [draw(*shape), draw(*shape)]
    others = [table + 1 for table in tables] if case == "other tables" else tables
    starts = (0, counts[0] + counts[1]) if case == "a gap" else (0, counts[0])
    g = pl.Graph()
    x = g.input("x", rows.shape)

    def part(k: int) -> Any:
        first, end = starts[k] * WIDTH, (starts[k] + counts[k]) * WIDTH
        return heads(g, g.slice(x, (first,), (end,), axes=(2,)), counts[k])

    if case == "by head":  # heads of both must be as many as the tables have
        counts = (4, 4, 0)
        starts = (0, 4)
    order = (1, 0) if case == "turned round" else (0, 1)
    turned_heads = {k: g.rotary_embedding(part(k), *(others if k else tables)) for k in order}
    attention = g.scaled_dot_product_attention(turned_heads[0], turned_heads[1], turned_heads[1], enable_gqa=True)
    g.output(attention, "y")
    if case == "an output":
        g.output(turned_heads[1], "keys")
    plan = pl.compile(g, device=device, tune="off")
    joins = device != "cpu" and case in ("neighbours", "turned round")
    assert ops_of(plan, "rotary_embedding") == (1 if joins else 2)
    apart = pl.compile(g, device=device, tune="off", without="join_rotary")
    assert ops_of(apart, "rotary_embedding") == 2
    cosines, sines = tables

    def expected(k: int) -> np.ndarray:
        own = rows[..., starts[k] * WIDTH : (starts[k] + counts[k]) * WIDTH].astype(np.float64)
        by_head = own.reshape(N, length, counts[k], WIDTH).transpose(0, 2, 1, 3)
        half = np.concatenate([-by_head[..., WIDTH // 2 :], by_head[..., : WIDTH // 2]], -1)
        c, s = others if k else (cosines, sines)
        return (by_head * c + half * s).transpose(0, 2, 1, 3).reshape(N, length, -1)

    keys = expected(1)
    reference = attended(expected(0), keys, keys)
    for each in (plan, apart):
        np.testing.assert_allclose(each.run(rows)[0], reference, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("activation", ["silu", "gelu"])
@pytest.mark.parametrize("rank", [2, 3])
def test_gate_and_up(activation: str, rank: int, device: str) -> None:
    """The activation that is fused into one of the products goes to where the parts are read."""
    shape = (N, LENGTH, CHANNELS)[3 - rank :]
    x, gate, up, down = draw(*shape), draw(72, CHANNELS), draw(72, CHANNELS)[::-1].copy(), draw(CHANNELS, 72)
    g = pl.Graph()
    given = g.input("x", shape)
    gated = g.mul(getattr(g, activation)(g.linear(given, gate)), g.linear(given, up))
    g.output(g.linear(gated, down), "y")
    plan = pl.compile(g, device=device, layout="NCHW", tune="off")
    assert ops_of(plan, "linear") == 2
    # Costs say whether the reader takes a part where it lies or has it moved: at once, from where it lies.
    moved = [line.partition(" -> ")[0] for line in copies_of(plan) if "linear.joined" not in line]
    assert all("reorder of" in line and "strides (" in line for line in moved), copies_of(plan)
    assert len(moved) <= 2
    wide = projected(x, gate, None)
    erf = np.vectorize(math.erf)
    opened = wide / (1 + np.exp(-wide)) if activation == "silu" else wide * (1 + erf(wide / math.sqrt(2))) / 2
    expected = (opened * projected(x, up, None)) @ down.astype(np.float64).T
    np.testing.assert_allclose(plan.run(x)[0], expected, rtol=1e-4, atol=1e-4)


def test_rows_beyond_the_caches() -> None:
    """On the process's threads what is joined stays in their caches; elsewhere each product is a launch."""
    for rows, expected in ((4000, 1), (9000, 2)):
        x, weight = draw(rows, 8), draw(24, 8)
        g = pl.Graph()
        given = g.input("x", x.shape)
        g.output(g.mul(g.linear(given, weight), g.linear(given, 2 * weight)), "y")
        plan = pl.compile(g, device="cpu", tune="off")
        assert ops_of(plan, "linear") == expected and not copies_of(plan)
        part = projected(x, weight, None)
        np.testing.assert_allclose(plan.run(x)[0], 2 * part * part, rtol=1e-4, atol=1e-5)


def linears(g: pl.Graph, count: int = 2) -> tuple[Any, list[Any]]:
    x = g.input("x", (N, LENGTH, CHANNELS))
    return x, [g.linear(x, draw(24, CHANNELS) * (i + 1)) for i in range(count)]


def test_an_output_stays_a_tensor_of_its_own() -> None:
    g = pl.Graph()
    _, (a, b) = linears(g)
    g.output(g.mul(a, b), "y")
    g.output(b, "b")
    assert ops_of(pl.compile(g, device="cpu", tune="off"), "linear") == 2


def test_a_number_before_a_view() -> None:
    """A reader may have the view as a later input, and a constant before it."""
    g = pl.Graph()
    _, (a, b) = linears(g)
    g.output(g.add(g.sub(draw(LENGTH, 24), a), g.sub(draw(LENGTH, 24), b)), "y")
    plan = pl.compile(g, device="cpu", tune="off", without="fuse_pointwise")
    assert ops_of(plan, "linear") == 1 and not copies_of(plan), plan.explain()
    given = draw(N, LENGTH, CHANNELS)
    expected = 2 * draw(LENGTH, 24) - 3 * projected(given, draw(24, CHANNELS), None)
    np.testing.assert_allclose(plan.run(given)[0], expected, rtol=1e-4, atol=1e-4)
    apart = pl.compile(g, device="cpu", tune="off", without="strided_views")
    assert ops_of(apart, "linear") == 2 and not copies_of(apart)


def test_a_reader_without_views_keeps_its_product() -> None:
    g = pl.Graph()
    _, (a, b) = linears(g)
    g.output(g.matmul(a, b, transpose_b=True), "y")
    plan = pl.compile(g, device="cpu", tune="off")
    assert ops_of(plan, "linear") == 2 and not copies_of(plan)


def test_products_far_apart_stay_apart() -> None:
    """What is made together lives until the last reader: with another product between, that may be long."""
    g = pl.Graph()
    x, (a, b) = linears(g)
    between = g.linear(g.mul(a, b), draw(CHANNELS, 24))
    c, d = g.linear(x, draw(16, CHANNELS)), g.linear(x, draw(16, CHANNELS) * 2)
    g.output(g.mul(c, d), "y")
    g.output(between, "z")
    plan = pl.compile(g, device="cpu", tune="off")
    assert ops_of(plan, "linear") == 3  # a and b, the one between, c and d
    x_now = draw(N, LENGTH, CHANNELS)
    y, z = plan.run(x_now)
    part = projected(x_now, draw(16, CHANNELS), None)
    np.testing.assert_allclose(y, 2 * part * part, rtol=1e-4, atol=1e-5)
    wide = projected(x_now, draw(24, CHANNELS), None)
    np.testing.assert_allclose(z, projected(2 * wide * wide, draw(CHANNELS, 24), None), rtol=1e-4, atol=1e-4)


def events_of(plan: pl.Plan, name: str, *arrays: np.ndarray) -> int:
    with pl.profile() as p:
        plan.run(*arrays)
    return sum(event["op"] == name for event in p.events)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("math_of", ["fp32", "bf16"])
def test_named_axes(transposed: bool, math_of: str, device: str, tmp_path: Any) -> None:
    """All sizes have the same weights in a row, which are packed once and have no other copy."""
    weights = [draw(32, TERMS) / 8, draw(48, TERMS) / 8, -draw(32, TERMS) / 16, draw(48, TERMS)[::-1] / 4]
    bias = draw(48)

    def built(joined: bool) -> pl.Plan:
        g = pl.Graph({"n": 2, "s": 5})
        x = g.input("x", ("n", "s", TERMS))
        if transposed:
            a, b, c, d = (g.matmul(x, w.T.copy()) for w in weights)
            b = g.add(b, bias)
        else:
            a, b, c, d = (g.linear(x, w, *([bias] if w is wide else [])) for w in weights)
        g.output(g.concat([g.mul(a, c), g.mul(b, d)], 2), "y")
        options = {} if joined else {"without": "join_linear"}
        return pl.compile(g, device=device, tune="off", math=math_of, **options)

    wide = weights[1]
    plan, apart = built(True), built(False)
    assert (ops_of(plan, "linear"), ops_of(apart, "linear")) == (1, 4)
    plan.save(tmp_path / "saved")
    tolerance = 1e-5 if math_of == "fp32" else 3e-2
    for one, linears in ((apart, 4), (plan, 1), (pl.load_plan(tmp_path / "saved"), 1)):
        for n, s in ((2, 5), (0, 5), (3, 1), (1, 33), (2, 5), (3, 1)):
            given = draw(n, s, TERMS)
            a, b, c, d = (projected(given, w, bias if w is wide else None) for w in weights)
            expected = np.concatenate([a * c, b * d], 2)
            np.testing.assert_allclose(one.run(given)[0], expected, rtol=tolerance, atol=tolerance)
            assert events_of(one, "linear", given) == (linears if n else 0)
    bytes_of = [each.summary()["memory"]["constant_bytes"] for each in (plan, apart)]
    assert bytes_of[0] <= 1.6 * bytes_of[1]  # a kernel may want rows padded; another copy would be twice as much


def test_named_axes_of_products_that_some_sizes_have_apart() -> None:
    """On the process's threads: where sizes decide, weights would be packed twice, unless they lie in a row already."""
    weights = draw(48, CHANNELS)
    for parted in (True, False):
        g = pl.Graph({"n": 2})
        x = g.input("x", ("n", LENGTH, CHANNELS))
        if parted:
            a, b = g.linear(x, weights[:24].copy()), g.linear(x, weights[24:].copy())
        else:
            both = g.linear(x, weights)
            a, b = both[:, :, :24], both[:, :, 24:]
        g.output(g.mul(a, b), "y")
        plan = pl.compile(g, device="cpu", tune="off")
        assert ops_of(plan, "linear") == 1 + parted
        for n in (0, 2, 3):
            given = draw(n, LENGTH, CHANNELS)
            wide = projected(given, weights, None)
            np.testing.assert_allclose(plan.run(given)[0], wide[..., :24] * wide[..., 24:], rtol=1e-4, atol=1e-5)


def test_a_cache_takes_a_part_of_a_joined_product(device: str) -> None:
    g = pl.Graph()
    x, at = g.input("x", (1, 1, TERMS)), g.input("at", (), "s64")
    caches = [g.input(name, (1, 5, 16, WIDTH)) for name in ("keys", "values")]
    weights = [draw(5 * WIDTH, TERMS), draw(5 * WIDTH, TERMS) + 1]
    for cache, weight in zip(caches, weights, strict=True):
        g.output(g.op("tensor_scatter", cache, heads(g, g.op("linear", x, g.constant(weight)), 5), at, dim=2))
    plan = pl.compile(g, device=device)
    assert ops_of(plan, "linear") == 1, plan.explain()
    rows, kept = draw(1, 1, TERMS), [draw(1, 5, 16, WIDTH), draw(1, 5, 16, WIDTH) - 1]
    made = plan.run(rows, np.int64(7), *kept)
    for result, before, weight in zip(made, kept, weights, strict=True):
        expected = before.copy()
        expected[:, :, 7] = projected(rows, weight, None).reshape(1, 5, WIDTH)
        np.testing.assert_allclose(result, expected, rtol=2e-4, atol=2e-4)
