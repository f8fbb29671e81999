"""Batches in slices that do not divide them: the last images are run too, once, and nothing beyond them is touched."""

import itertools

import numpy
import pytest
from plan_cases import assert_same, graph_of, image, need_threads

import pylayout as pl

BATCHES = [1, 2, 3, 5, 7, 10, 17]
CUTS = [
    (n, size, streams)
    for n, size, streams in itertools.product(BATCHES, [1, 2, 3, 4], [1, 2])
    if size * streams <= n and streams <= pl.get_threads()
]


def whole_numbers(*shape, seed=3):
    return numpy.random.default_rng(seed).integers(-3, 4, shape).astype("float32")


def exact_graph(n, layout=None, size=9):
    """Sums of small whole numbers, the same in any order of addition, so that plans may be compared bit for bit."""
    g = pl.Graph()
    x = g.input("x", (n, 8, size, size))
    y = g.conv2d(x, whole_numbers(16, 8, 1, 1), activation="relu")
    z = g.conv2d(y, whole_numbers(16, 1, 3, 3), padding=1, groups=16)
    both = g.concat([z, y], 1)
    pooled = g.max_pool2d(both, 2)
    g.output(g.add(z, y), "sum", layout=layout)
    g.output(g.flatten(pooled, 1), "pooled")
    return g


def exact_images(n, size=9):
    return whole_numbers(n, 8, size, size, seed=n)


def shares(n, size, streams):
    """How many slices, and the images of the last."""
    full = n // size // streams * streams
    rest = n - full * size
    return full + (rest > 0), rest or size


@pytest.mark.parametrize(("n", "size", "streams"), CUTS)
def test_a_cut_batch_gives_what_the_whole_gives(n, size, streams):
    x = exact_images(n)
    plan = pl.compile(exact_graph(n), device="cpu", slice=size, streams=streams, tune="off")
    (chain,) = plan.summary()["chains"]
    if n > 1:
        assert (chain["slices"], chain["last"]) == shares(n, size, streams)
    want = pl.compile(exact_graph(n), device="cpu", tune="off").run(x)
    for _ in range(2):
        for got, whole in zip(plan.run(x), want, strict=True):
            numpy.testing.assert_array_equal(got, whole)


@pytest.mark.parametrize("streams", [None, 1, 2])
def test_a_batch_of_another_size_is_cut_as_far_as_it_can_be(streams):
    need_threads(streams or 1)
    g = pl.Graph(sizes={"n": 8})
    x = g.input("x", ("n", 8, 9, 9))
    g.output(g.relu(g.conv2d(x, whole_numbers(16, 8, 1, 1))), "y")
    plan = pl.compile(g, device="cpu", slice=4, streams=streams, tune="off")
    whole = pl.compile(g, device="cpu", tune="off")
    for n in (8, 3, 1, 20, 7, 0):
        numpy.testing.assert_array_equal(plan.run(exact_images(n))[0], whole.run(exact_images(n))[0])


@pytest.mark.parametrize("n", BATCHES)
def test_what_is_chosen_by_measurement_runs_every_image(n):
    plan = pl.compile(graph_of(n), device="cpu", seconds=1)
    assert_same(plan.run(image(n)), image(n))


@pytest.mark.parametrize(("n", "sizes"), [(7, {"": 1, 2: 3}), (10, {"": 4, 2: 3, 4: 1}), (17, {"": 2, 3: 5, 5: 17})])
@pytest.mark.parametrize("streams", [1, 2])
def test_every_chain_runs_its_last_images(n, sizes, streams, tmp_path):
    need_threads(streams)
    names = [node["name"] for node in graph_of(n).simplify().describe()["nodes"]]
    cut = {names[key] if key else "": min(size, n // streams) for key, size in sizes.items()}
    plan = pl.compile(graph_of(n), device="cpu", slice=cut, streams=streams, tune="off")
    assert [(c["slices"], c["last"]) for c in plan.summary()["chains"]] == [
        shares(n, size, streams) for size in cut.values()
    ]
    assert_same(plan.run(image(n)), image(n))
    plan.save(tmp_path / "network.plan")
    again = pl.load_plan(tmp_path / "network.plan")
    assert again.summary()["chains"] == plan.summary()["chains"]
    for got, want in zip(again.run(image(n)), plan.run(image(n)), strict=True):
        numpy.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("layout", [None, "NHWC", "any"])
def test_the_last_images_lie_as_the_others_do(layout, tmp_path):
    x = exact_images(10)
    want = pl.compile(exact_graph(10, layout), device="cpu", tune="off").run(x)
    plan = pl.compile(exact_graph(10, layout), device="cpu", slice=4, tune="off")
    plan.save(tmp_path / "network.plan")
    for each in (plan, pl.load_plan(tmp_path / "network.plan")):
        for got, whole in zip(each.run(x), want, strict=True):
            numpy.testing.assert_array_equal(got, whole)


def test_it_is_said_how_a_batch_is_cut():
    plan = pl.compile(graph_of(10), device="cpu", slice=4, tune="off")
    text = plan.explain()
    assert "in 3 slices of 4, 1 at the same time, the last of 2" in text
    assert "slice of the last 2: " in text
    summary = plan.summary()
    assert summary["slices"] == 3
    assert len(summary["choices"]) == summary["chains"][0]["nodes"]
    alone = pl.compile(graph_of(4), device="cpu", slice=4, streams=1, tune="off").summary()["memory"]
    assert summary["memory"]["arena_bytes"] > alone["arena_bytes"]


def test_a_memory_limit_cuts_odd_batches():
    one = pl.compile(graph_of(7), device="cpu", tune="off", slice=1).summary()["memory"]["bytes"]
    plan = pl.compile(graph_of(7), device="cpu", tune="off", memory_limit=one)
    assert plan.summary()["slices"] == 7
    assert plan.summary()["memory"]["bytes"] <= one
    assert_same(plan.run(image(7)), image(7))
