"""Plans on shared memory: concats written in place, strided views, results in place of what is read a last time."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import RNG, W, weights

import pylayout as pl
from pylayout import ops

pytestmark = pytest.mark.usefixtures("untuned")  # values are in question, not which implementation wins


def test_parts_of_a_concat_are_made_in_place():
    g = pl.Graph()  # large enough that copying costs more than calling
    x = g.input("x", (1, 16, 56, 56))
    a = g.conv2d(x, weights(16, 16, 3, 3), padding=1)
    b = g.conv2d(x, weights(32, 16, 1, 1))
    inner = g.concat([a, b], 1)
    outer = g.concat([inner, g.relu(inner), a, x], 1)  # a nested one, a value twice, an input
    g.output(outer, "y")
    plan = pl.compile(g, device="cpu", layout="NCHW", tune="off")
    image = RNG.standard_normal((1, 16, 56, 56)).astype("float32")
    wanted = pl.compile(g, device="cpu", layout="NHWC", tune="off").run(image)[0]
    numpy.testing.assert_allclose(plan.run(image)[0], wanted, rtol=1e-4, atol=1e-5)
    summary = plan.summary()
    assert summary["concats_in_place"] == 2
    assert sum(step["kind"] == "copy" for step in summary["steps"]) == 2  # a's second place, and x


def concat_network(o, x):
    """A nest of concats whose parts come from all kinds of convolutions, and reads the inner one too."""
    a = o.conv2d(x, W["parts"][0], padding=1, activation="relu")
    b = o.conv2d(x, W["parts"][1], activation="silu")
    inner = o.concat([a, b], 1)
    c = o.conv2d(o.relu6(inner), W["parts"][2], padding=1, groups=48)
    pooled = o.max_pool2d(inner, 3, stride=1, padding=1)
    outer = o.concat([inner, c, pooled], 1)
    first, second = o.split(outer, [48, 96], 1)
    return o.conv2d(outer, W["parts"][3]), o.add(o.conv2d(second, W["parts"][4]), first)


W["parts"] = [
    weights(16, 32, 3, 3),
    weights(32, 32, 1, 1),
    weights(48, 1, 3, 3),
    weights(7, 144, 1, 1),
    weights(48, 96, 1, 1),
]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("layout", ["NHWC", "nChw16c", "auto"])
def test_parts_of_a_concat_that_are_strided_views(n, layout):
    g = pl.Graph()
    for y in concat_network(g, g.input("x", (n, 32, 9, 7))):
        g.output(y)
    plan = pl.compile(g, device="cpu", layout=layout, tune="off")
    x = RNG.standard_normal((n, 32, 9, 7)).astype("float32")
    for _ in range(2):
        for got, want in zip(plan.run(x), concat_network(ops, x), strict=True):
            numpy.testing.assert_allclose(got, numpy.asarray(want), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2])
def test_convolutions_write_their_part_of_a_concat(n):
    """Of six concats costs say which are worth it; what is written in place is no step."""
    channels = (8, 16, 24, 32, 40, 48)
    g = pl.Graph()
    x = g.input("x", (n, 32, 9, 7))
    pairs = [(weights(c, 32, 3, 3), weights(56 - c, 32, 1, 1)) for c in channels]
    last = [weights(8, 56, 1, 1) for _ in channels]
    for (a, b), w in zip(pairs, last, strict=True):
        g.output(g.conv2d(g.concat([g.conv2d(x, a, padding=1), g.conv2d(x, b)], 1), w))
    plan = pl.compile(g, device="cpu", layout="NHWC", tune="off")
    summary = plan.summary()
    steps = [step.get("op", "reorder") for step in summary["steps"]]
    assert steps.count("conv2d") == 3 * len(channels)
    assert summary["concats_in_place"] + steps.count("concat") == len(channels)
    assert summary["concats_in_place"] > 0
    image = RNG.standard_normal((n, 32, 9, 7)).astype("float32")
    for got, (a, b), w in zip(plan.run(image), pairs, last, strict=True):
        parts = [ops.conv2d(image, a, padding=1), ops.conv2d(image, b)]
        numpy.testing.assert_allclose(got, numpy.asarray(ops.conv2d(ops.concat(parts, 1), w)), rtol=1e-4, atol=1e-4)


def test_strided_views_in_saved_plans(tmp_path):
    g = pl.Graph()
    for y in concat_network(g, g.input("x", (2, 32, 9, 7))):
        g.output(y)
    plan = pl.compile(g, device="cpu", layout="NHWC", tune="off")
    plan.save(tmp_path / "plan")
    again = pl.load_plan(tmp_path / "plan")
    assert [step["implementation"] for step in again.summary()["steps"]] == [
        step["implementation"] for step in plan.summary()["steps"]
    ]
    assert again.summary()["concats_in_place"] == plan.summary()["concats_in_place"]
    x = RNG.standard_normal((2, 32, 9, 7)).astype("float32")
    for got, want in zip(again.run(x), plan.run(x), strict=True):
        numpy.testing.assert_array_equal(got, want)


def test_a_part_of_two_concats_is_made_in_one_and_copied_to_the_other():
    g = pl.Graph()
    x = g.input("x", (2, 16, 8, 8))
    a = g.conv2d(x, W["twice"][0])
    b = g.conv2d(x, W["twice"][1])
    for name, parts in (("ab", [a, b]), ("ba", [b, a]), ("aa", [a, a])):
        g.output(g.concat(parts, 1), name, layout="NHWC")
    plan = pl.compile(g, device="cpu", layout="NHWC", tune="off")
    image = RNG.standard_normal((2, 16, 8, 8)).astype("float32")
    got = dict(zip(("ab", "ba", "aa"), plan.run(image), strict=True))
    first, second = (numpy.asarray(ops.conv2d(image, w)) for w in W["twice"])
    for name, parts in (("ab", [first, second]), ("ba", [second, first]), ("aa", [first, first])):
        numpy.testing.assert_allclose(got[name], numpy.concatenate(parts, 1), rtol=1e-4, atol=1e-5)


W["twice"] = [weights(16, 16, 1, 1), weights(16, 16, 1, 1)]


def run_poisoned(plan, x):
    """The results after a run on NaN, so that what is read before it is written would show."""
    plan.run(numpy.full_like(x, numpy.nan))
    return plan.run(x)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c"])
def test_results_take_the_place_of_what_is_read_for_the_last_time(layout):
    def chain(o, x, keep):
        y = o.conv2d(x, W["gate"][0])
        gate = o.sigmoid(o.conv2d(o.adaptive_avg_pool2d(y, 1), W["gate"][1]))
        z = o.mul(o.tanh(y), gate)
        z = o.conv2d(o.exp(z), W["gate"][2], padding=1, residual=z, activation="relu")
        z = o.add(z, o.relu(o.neg(z)))  # z is read again: no place for what reads it first
        return (y, z) if keep else (z,)

    def compiled(keep):
        g = pl.Graph()
        for value in chain(g, g.input("x", x.shape), keep):
            g.output(o_last(g, value) if not keep else value, layout=layout)
        return pl.compile(g, device="cpu", layout=layout, tune="off", simplify=False)

    def o_last(o, value):
        return o.conv2d(value, W["gate"][1])

    x = RNG.standard_normal((2, 32, 11, 13)).astype("float32")
    plan = compiled(False)
    wanted = o_last(ops, chain(ops, x, False)[0])
    numpy.testing.assert_allclose(run_poisoned(plan, x)[0], numpy.asarray(wanted), rtol=1e-3, atol=1e-3)
    for got, want in zip(run_poisoned(compiled(True), x), chain(ops, x, True), strict=True):
        numpy.testing.assert_allclose(got, numpy.asarray(want), rtol=1e-3, atol=1e-3)


W["gate"] = [weights(32, 32, 1, 1), weights(32, 32, 1, 1), weights(32, 32, 3, 3)]


def test_a_chain_of_elementwise_ops_needs_one_buffer():
    g = pl.Graph()
    y = g.conv2d(g.input("x", (4, 8, 32, 32)), weights(64, 8, 1, 1))
    for _ in range(3):
        y = g.add(g.tanh(y), g.constant(weights(1, 64, 1, 1)))
    g.output(g.conv2d(y, weights(8, 64, 1, 1)), "y")
    shared, apart = (
        pl.compile(g, device="cpu", layout="NHWC", tune="off", simplify=False, without=without)
        for without in (None, "in_place")
    )
    one = 4 * 64 * 32 * 32 * 4  # bytes; input and output have an eighth of it
    assert shared.summary()["memory"]["arena_bytes"] <= 1.3 * one
    assert apart.summary()["memory"]["arena_bytes"] >= 2 * one
    image = RNG.standard_normal((4, 8, 32, 32)).astype("float32")
    numpy.testing.assert_array_equal(run_poisoned(shared, image)[0], run_poisoned(apart, image)[0])


@pytest.mark.parametrize("reduce", ["none", "sum"])
@pytest.mark.parametrize("keep", [False, True])
def test_rows_are_put_into_what_is_read_for_the_last_time(reduce, keep):
    """scatter and scatter_nd, as detectors gather the regions of each level: no copy of what is not written."""
    rows, width = 40, 513
    index, more = numpy.array([[3], [39], [0], [3], [17]]), numpy.array([[1], [38], [1]])

    def compiled(without):
        g = pl.Graph()
        y = g.tanh(g.input("x", (rows, width)))
        first = g.input("first", (len(index), width))
        z = g.scatter(y, 0, g.constant(index), first, reduce=reduce)
        z = g.scatter_nd(z, g.constant(more), g.input("second", (len(more), width)), reduce=reduce)
        g.output(g.linear(z, numpy.ones((3, width), "f4") / width), "y")
        if keep:
            g.output(g.sum(g.mul(y, y), 1), "kept")
        return pl.compile(g, device="cpu", tune="off", simplify=False, without=without)

    shared, apart = compiled(None), compiled("in_place")
    one = rows * width * 4
    assert shared.summary()["memory"]["arena_bytes"] <= (2.3 if keep else 1.3) * one
    assert apart.summary()["memory"]["arena_bytes"] >= 2 * one
    x, first, second = (RNG.standard_normal((n, width)).astype("f4") for n in (rows, len(index), len(more)))
    expected = numpy.tanh(x.astype("f8"))
    kept = (expected**2).sum(1)
    for places, src in ((index, first), (more, second)):
        for place, row in zip(places[:, 0], src, strict=True):
            expected[place] = row + (expected[place] if reduce == "sum" else 0)
    for plan in (shared, apart):
        plan.run(numpy.full_like(x, numpy.nan), first, second)
        results = plan.run(x, first, second)
        numpy.testing.assert_allclose(results[0], expected.mean(1)[:, None].repeat(3, 1), rtol=1e-4, atol=1e-5)
        if keep:
            numpy.testing.assert_allclose(results[1], kept, rtol=1e-4)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_random_graphs_on_poisoned_memory(seed):
    """Elementwise ops, residuals, concats and splits of a few values, some of them used many times or returned."""
    random = numpy.random.default_rng(seed)
    shape = (int(random.integers(1, 3)), 16, int(random.integers(1, 20)), int(random.integers(1, 40)))

    def build(o, x):
        values, outputs = [o.conv2d(x, W["random"][0])], []
        for _ in range(int(random_ops.integers(3, 10))):
            pick = lambda: values[-1 - int(random_ops.integers(0, min(3, len(values))))]  # noqa: E731
            kind = int(random_ops.integers(0, 7))
            a, b = pick(), pick()
            if kind == 0:
                y = o.tanh(a)
            elif kind == 1:
                y = o.add(a, b)
            elif kind == 2:
                y = o.mul(a, o.sigmoid(b))
            elif kind == 3:
                y = o.conv2d(a, W["random"][int(random_ops.integers(0, 2))], residual=b, activation="relu")
            elif kind == 4:
                y = o.conv2d(a, W["random"][3], padding=1, groups=16, residual=b)
            elif kind == 5:
                y = o.conv2d(o.concat([a, b], 1), W["random"][2])
            else:
                parts = o.split(o.concat([a, b, a], 1), [16, 32], 1)
                y = o.sub(o.conv2d(parts[1], W["random"][2]), parts[0])
            values.append(y)
            if random_ops.integers(0, 4) == 0:
                outputs.append(y)
        return [*outputs, values[-1]]

    layout = ["NCHW", "NHWC", "nChw16c", "auto"][int(random.integers(0, 4))]
    x = random.standard_normal(shape).astype("float32")
    random_ops = numpy.random.default_rng(seed)
    wanted = build(ops, x)
    random_ops = numpy.random.default_rng(seed)
    g = pl.Graph()
    for y in build(g, g.input("x", shape)):
        g.output(y, layout=None if layout == "auto" else layout)
    plan = pl.compile(g, device="cpu", layout=layout, tune="off")
    for got, want in zip(run_poisoned(plan, x), wanted, strict=True):
        numpy.testing.assert_allclose(got, numpy.asarray(want), rtol=2e-3, atol=2e-3)


W["random"] = [weights(16, 16, 1, 1), weights(16, 16, 1, 1), weights(16, 32, 1, 1), weights(16, 1, 3, 3)]
