"""The ways in which exporters spell rotary embedding, norms and scans, and near misses that must stay.

Each spelling is a small graph; `simplify` must find what it is, and the plan must compute what the graph does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from spellings import HEADS, LENGTH, WIDTH, N, Value, agrees, names, number

import pylayout as pl


def test_normalised_heads_are_turned_where_they_lie(rng: np.random.Generator, device: str) -> None:
    """Queries that a norm gives lie as the linear layer's: no view of a larger tensor, but heads are behind words."""
    g = pl.Graph()
    rows = g.reshape(g.input("x", (N, LENGTH, HEADS * WIDTH)), (N, LENGTH, HEADS, WIDTH))
    x = g.permute(g.rms_norm(rows, (WIDTH,), np.ones(WIDTH, np.float32)), (0, 2, 1, 3))
    cosines, sines = tables(WIDTH)
    halves = [g.neg(g.slice(x, [WIDTH // 2], [WIDTH], [3])), g.slice(x, [0], [WIDTH // 2], [3])]
    y = g.add(g.mul(x, cosines), g.mul(g.concat(halves, -1), sines))
    g.output(g.reshape(g.permute(y, (0, 2, 1, 3)), (N, LENGTH, HEADS * WIDTH)), "y")
    plan = pl.compile(g, device=device, tune="off")
    assert names(g.simplify())["rotary_embedding"] == 1 and "reorder of" not in plan.explain()
    given = rng.standard_normal((N, LENGTH, HEADS * WIDTH)).astype(np.float32)
    spelled = pl.compile(g, device="cpu", tune="off", without=list(g.simplify().rewrites))
    np.testing.assert_allclose(np.asarray(plan.run(given)[0]), np.asarray(spelled.run(given)[0]), rtol=1e-5, atol=1e-6)


def rotated(
    width: int, turned: int, swap: bool = False, negate_first: bool = True, with_rest: bool = False
) -> pl.Graph:
    """x * cos + concat(-x2, x1) * sin of the first columns, with the others joined."""
    g = pl.Graph()
    whole = heads_of(g, width)
    x = whole if turned == width else g.slice(whole, [0], [turned], [3])
    low, high = g.slice(x, [0], [turned // 2], [3]), g.slice(x, [turned // 2], [turned], [3])
    halves = [g.neg(high), low] if negate_first else [high, g.neg(low)]
    cosines, sines = tables(turned)
    first, second = g.mul(x, cosines), g.mul(g.concat(halves, -1), sines)
    y = g.add(second, first) if swap else g.add(first, second)
    if turned < width or with_rest:  # which may have no columns
        y = g.concat([y, g.slice(whole, [turned], [width], [3])], -1)
    g.output(y, "y")
    return g


def heads_of(g: pl.Graph, width: int) -> Value:
    return g.permute(g.reshape(g.input("x", (N, LENGTH, HEADS * width)), (N, LENGTH, HEADS, width)), (0, 2, 1, 3))


def tables(columns: int) -> tuple[np.ndarray, np.ndarray]:
    angles = np.linspace(0, 3, LENGTH * columns).astype(np.float32).reshape(1, 1, LENGTH, columns)
    return np.cos(angles), np.sin(angles)


def lanes(g: pl.Graph, x: Value, taken: str) -> tuple[Value, Value]:
    """The columns that come first in their pairs, and the others."""
    width, shape = x.shape[-1], x.shape[:-1]
    if taken == "steps":
        return g.slice(x, [0], [width], [3], [2]), g.slice(x, [1], [width], [3], [2])
    if taken == "halves":
        return g.slice(x, [0], [width // 2], [3]), g.slice(x, [width // 2], [width], [3])
    neighbours = taken == "neighbours"
    pairs = g.reshape(x, (*shape, width // 2, 2) if neighbours else (*shape, 2, width // 2))
    return tuple(g.reshape(each, (*shape, width // 2)) for each in g.split(pairs, [1, 1], 4 if neighbours else 3))  # type: ignore[return-value]


def assembled(g: pl.Graph, first: Value, second: Value, taken: str) -> Value:
    shape = (*first.shape[:-1], 2 * first.shape[-1])
    if taken.startswith("halves"):
        return g.concat([first, second], -1)
    apart = [g.reshape(each, (*each.shape, 1)) for each in (first, second)]
    return g.reshape(g.concat(apart, -1), shape)


def turned_whole(taken: str, graph: pl.Graph | None = None) -> pl.Graph:
    """x * cos + (pairs exchanged, the first negated) * sin."""
    g = graph or pl.Graph()
    x = heads_of(g, WIDTH)
    first, second = lanes(g, x, taken)
    cosines, sines = tables(WIDTH)
    g.output(g.add(g.mul(x, cosines), g.mul(assembled(g, g.neg(second), first, taken), sines)), "y")
    return g


def turned_back(taken: str) -> pl.Graph:
    """As the gradient of that is written: products before pairs are exchanged."""
    g = pl.Graph()
    x = heads_of(g, WIDTH)
    cosines, sines = tables(WIDTH)
    first, second = lanes(g, g.mul(x, sines), taken)
    g.output(g.add(assembled(g, second, g.neg(first), taken), g.mul(x, cosines)), "y")
    return g


def turned_by_lane(taken: str, keep: bool = False, terms: int = 2) -> pl.Graph:
    """Each lane by itself, by tables of half the columns."""
    g = pl.Graph()
    first, second = lanes(g, heads_of(g, WIDTH), taken)
    cosines, sines = tables(WIDTH // 2)
    product = g.mul(second, sines)
    low = g.sub(g.mul(first, cosines), product)
    high = g.add(g.mul(second, cosines), g.mul(first, sines))
    if terms == 3:
        high = g.add(high, g.mul(first, cosines))
    if terms == 1:
        high = g.mul(second, cosines)
    g.output(assembled(g, low, high, taken), "y")
    if keep:
        g.output(product, "product")
    return g


def turned_between_zeros() -> pl.Graph:
    """Lanes with zeros beside them, as gradients of slices are, added up."""
    g = pl.Graph()
    x = heads_of(g, WIDTH)
    first, second = lanes(g, x, "neighbours")
    cosines, sines = tables(WIDTH)
    apart = [g.reshape(each, (*each.shape, 1)) for each in (g.neg(second), first)]
    low, high = (g.reshape(g.pad(each, pad), x.shape) for each, pad in zip(apart, ([0, 1], [1, 0]), strict=True))
    g.output(g.add(g.add(g.mul(x, cosines), g.mul(low, sines)), g.mul(high, sines)), "y")
    return g


@pytest.mark.parametrize("taken", ["halves", "halves apart", "steps", "neighbours"])
@pytest.mark.parametrize("spelled", [turned_whole, turned_back, turned_by_lane])
def test_rotary_embedding_of_pairs(spelled: Callable[[str], pl.Graph], taken: str, rng: np.random.Generator) -> None:
    graph = spelled(taken)
    (node,) = (node for node in graph.simplify().describe()["nodes"] if node["op"] not in ("reshape", "permute"))
    assert node["op"] == "rotary_embedding"
    assert bool(node["attributes"].get("interleaved")) == (not taken.startswith("halves"))
    agrees(graph, rng)


def test_rotary_embedding(rng: np.random.Generator) -> None:
    graphs = [rotated(8, 8), rotated(8, 8, swap=True), rotated(10, 6), rotated(8, 8, with_rest=True)]
    for graph in [*graphs, rotated(8, 8, negate_first=False), turned_between_zeros()]:
        assert set(names(graph.simplify())) == {"reshape", "permute", "rotary_embedding"}
        agrees(graph, rng)
    # What is needed elsewhere would be computed twice; a lane of one or three terms is no rotation.
    for graph in (
        turned_by_lane("steps", keep=True),
        turned_by_lane("steps", terms=1),
        turned_by_lane("halves", terms=3),
    ):
        assert names(graph.simplify())["rotary_embedding"] == 0
        agrees(graph, rng)


def normalised(root: Callable[[pl.Graph, Value], Value], weight: np.ndarray, axis: int = -1) -> pl.Graph:
    g = pl.Graph()
    x = g.input("x", (N, LENGTH, WIDTH))
    y = root(g, g.add(g.mean(g.square(x), [axis], True), number(1e-6)))
    g.output(g.mul(weight, y if y.shape == x.shape else g.mul(x, y)), "y")
    return g


def by_length(limit: Callable[[pl.Graph, Value], Value], axis: int = -1) -> pl.Graph:
    g = pl.Graph()
    x = g.input("x", (N, LENGTH, WIDTH))
    g.output(g.div(x, limit(g, g.reduce_l2(x, [axis], True))), "y")
    return g


def test_l2_normalize(rng: np.random.Generator) -> None:
    limits: list[Callable[[pl.Graph, Value], Value]] = [
        lambda g, v: g.expand(g.clip(v, 1e-6), (N, LENGTH, WIDTH)),
        lambda g, v: g.maximum(number(1e-6), v),
    ]
    for limit in limits:
        graph = by_length(limit)
        assert dict(names(graph.simplify())) == {"l2_normalize": 1}
        agrees(graph, rng)
        graph = by_length(limit, axis=1)
        assert names(graph.simplify())["l2_normalize"] == 0
        agrees(graph, rng)
    graph = by_length(lambda g, v: g.clip(v, 1e-6, 10))  # limited from above too
    assert names(graph.simplify())["l2_normalize"] == 0
    agrees(graph, rng)


ROOTS: dict[str, Callable[[pl.Graph, Value], Value]] = {
    "rsqrt": lambda g, v: g.rsqrt(v),
    "reciprocal of sqrt": lambda g, v: g.reciprocal(g.sqrt(v)),
    "1 / sqrt": lambda g, v: g.div(number(1), g.sqrt(v)),
    "power": lambda g, v: g.pow(v, number(-0.5)),
}


@pytest.mark.parametrize("spelling", ROOTS)
def test_rms_norm(spelling: str, rng: np.random.Generator) -> None:
    graph = normalised(ROOTS[spelling], rng.standard_normal(WIDTH).astype(np.float32))
    assert dict(names(graph.simplify())) == {"rms_norm": 1}
    agrees(graph, rng)


def test_rms_norm_of_other_shapes(rng: np.random.Generator) -> None:
    graph = normalised(ROOTS["rsqrt"], rng.standard_normal(WIDTH).astype(np.float32), axis=1)
    assert names(graph.simplify())["rms_norm"] == 0
    agrees(graph, rng)
    graph = normalised(ROOTS["rsqrt"], rng.standard_normal((LENGTH, 1)).astype(np.float32))
    assert dict(names(graph.simplify())) == {"rms_norm": 1, "mul": 1}
    agrees(graph, rng)


def spelled_norm(of: str, numbers: dict[str, np.ndarray]) -> pl.Graph:
    """x over the root of its mean square, or over its length; or hardsigmoid or hardswish, of the numbers given."""
    g = pl.Graph()
    x = g.input("x", (LENGTH, WIDTH))
    if of in ("hardsigmoid", "hardswish"):
        y = g.div(g.relu6(g.add(x, numbers.get("three", number(3)))), number(6))
        y = y if of == "hardsigmoid" else g.mul(x, y)
    elif of == "l2_normalize":
        y = g.div(x, g.maximum(g.reduce_l2(x, [1], True), numbers.get("eps", number(1e-6))))
    else:
        d = x if of == "rms_norm" else g.sub(x, g.mean(x, [1], True))
        square = g.mean(g.pow(d, numbers.get("two", number(2))), [1 if "two" not in numbers else -1], True)
        y = g.div(d, g.sqrt(g.add(square, numbers.get("eps", number(1e-6)))))
    g.output(y, "y")
    return g


@pytest.mark.parametrize("of", ["rms_norm", "layer_norm", "l2_normalize", "hardsigmoid", "hardswish"])
def test_other_numbers_in_spellings(of: str, rng: np.random.Generator) -> None:
    """A number of a higher rank than x gives the result that rank, which the op has not; what is no eps stays."""
    assert names(spelled_norm(of, {}).simplify())[of] == 1
    activation = of.startswith("hard")
    changes = (
        {"three": np.full((1, 1, 1), 3, np.float32)} if activation else {"eps": np.full((1, 1, 1), 1e-6, np.float32)}
    )
    cases = [changes]
    if not activation:
        cases += [{"eps": number(value)} for value in (np.inf, np.nan)]
    if of in ("rms_norm", "layer_norm"):
        cases += [{"two": np.full((1, 1, 1), 2, np.float32)}, {"two": number(2.000001)}]
    for numbers in cases:
        graph = spelled_norm(of, numbers)
        simple = graph.simplify()
        assert names(simple)[of] == 0
        x = rng.standard_normal((LENGTH, WIDTH)).astype(np.float32)
        spelled = pl.compile(graph, device="cpu", tune="off", without=list(simple.rewrites)).run(x)[0]
        found = pl.compile(graph, device="cpu", tune="off").run(x)[0]
        np.testing.assert_allclose(np.asarray(found), np.asarray(spelled), rtol=1e-4, atol=2e-6)


CHANNELS, STEPS, STATES = 6, 5, 4


def unrolled(order: str = "delta b, u", start: float = 0, places: tuple[int, ...] = tuple(range(STEPS))) -> pl.Graph:
    """Mamba's loop over steps, as exporters write it; `order`: of the product of delta, b and u."""
    g = pl.Graph()
    u, delta = g.input("u", (N, CHANNELS, STEPS)), g.input("delta", (N, CHANNELS, STEPS))
    b, c = g.input("b", (N, STEPS, STATES)), g.input("c", (N, STEPS, STATES))
    a = -np.linspace(0.1, 2, CHANNELS * STATES, dtype=np.float32).reshape(1, CHANNELS, 1, STATES)
    by_step, by_value, rows = g.unsqueeze(delta, 3), g.unsqueeze(u, 3), g.unsqueeze(b, 1)
    decay = g.exp(g.mul(by_step, a))
    taken = g.mul(g.mul(by_step, rows), by_value) if order == "delta b, u" else g.mul(by_step, g.mul(by_value, rows))

    def at(value: Value, axis: int, place: int) -> Value:
        return g.squeeze(g.slice(value, [place], [place + 1], [axis]), axis)

    state: Value = np.full((N, CHANNELS, STATES), start, np.float32)
    results = []
    for place in places:
        state = g.add(g.mul(at(decay, 2, place), state), at(taken, 2, place))
        results.append(g.matmul(state, g.unsqueeze(at(c, 1, place), 2)))
    g.output(g.concat(results, 2), "y")
    return g


@pytest.mark.parametrize("order", ["delta b, u", "delta, u b"])
def test_mambas_loop_is_one_op(order: str, rng: np.random.Generator) -> None:
    graph = unrolled(order)
    found = names(graph.simplify())
    assert found["selective_scan"] == 1
    assert not {"exp", "matmul", "slice", "concat", "add"} & set(found)
    agrees(graph, rng)


def test_other_loops_stay(rng: np.random.Generator) -> None:
    for graph in (unrolled(start=1), unrolled(places=(1, 0, 2, 3, 4)), unrolled(places=(0, 0, 1, 2, 3))):
        assert names(graph.simplify())["selective_scan"] == 0
        agrees(graph, rng)
