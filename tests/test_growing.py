"""Plans whose past grows from run to run: one program for many lengths, memory with room for more."""

import re

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from together import run_together

import pylayout as pl

pytestmark = pytest.mark.usefixtures("unoptimised")

RNG = numpy.random.default_rng(3)
HEADS, WIDTH = 2, 8
WEIGHT = RNG.standard_normal((HEADS * WIDTH * 3, HEADS * WIDTH)).astype("float32") / 4
TABLE = RNG.standard_normal((600, HEADS * WIDTH)).astype("float32")


def decoder(mask=True, attention=False, s=1, past=5, dtype="f32", axes=("past", "past")):
    """A layer of a decoder, with positions, a causal mask and a bias by distance made of sizes.

    axes: how that of the past is named of keys, and of values.
    """
    g = pl.Graph(sizes={"s": s, **dict.fromkeys(axes, past)})
    x = g.input("x", (1, "s", HEADS * WIDTH), dtype=dtype)
    keys, values = (
        g.input(name, (1, HEADS, axis, WIDTH), dtype=dtype) for name, axis in zip(("keys", "values"), axes, strict=True)
    )
    added, before = g.size("s"), g.size(axes[0])
    rows = g.arange(before, before + added)
    table, weight = (g.constant(pl.asarray(values, dtype=dtype)) for values in (TABLE, WEIGHT))
    x = g.add(x, g.index_select(table, 0, rows))
    parts = g.split(g.linear(x, weight), HEADS * WIDTH, dim=-1)
    q, k, v = (g.permute(g.reshape(part, [1, added, HEADS, WIDTH]), [0, 2, 1, 3]) for part in parts)
    k, v = g.concat([keys, k], 2), g.concat([values, v], 2)
    columns = g.reshape(g.arange(0, before + added), [1, before + added])
    rows = g.reshape(rows, [added, 1])
    seen = g.le(columns, rows)
    if attention:
        y = g.scaled_dot_product_attention(q, k, v, seen if mask else None)
    else:
        number = {value: g.constant(pl.asarray(numpy.float32(value), dtype=dtype)) for value in (0.3, 0.1, -3e4)}
        scores = g.mul(g.matmul(q, k, transpose_b=True), number[0.3])
        if mask:
            scores = g.add(scores, g.mul(g.cast(g.sub(columns, rows), dtype), number[0.1]))
            scores = g.where(seen, scores, number[-3e4])
        y = g.matmul(g.softmax(scores, -1), v)
    g.output(g.reshape(g.permute(y, [0, 2, 1, 3]), [1, added, HEADS * WIDTH]), "y")
    g.output(k, "all_keys")
    g.output(v, "all_values")
    return g


def values_of(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("float32")


def past_of(length, seed=0):
    return [values_of(1, HEADS, length, WIDTH, seed=seed + i) for i in range(2)]


def array(x):
    """A copy of an array, or of a tensor's numbers."""
    return numpy.array(x) if isinstance(x, numpy.ndarray) else x.to(dtype="f32").numpy()


def twin(graph, x, keys, values):
    """What a plan of these sizes alone gives."""
    bound = graph.bind(s=x.shape[1], past=keys.shape[2])
    return pl.compile(bound, device="cpu", tune="off").run(array(x), array(keys), array(values))


def step(plan, x, past):
    """A run that is given what the last one gave: tensors, so that they stay where they are, but on `cpu`."""
    return plan.run(x, *past) if plan.device == "cpu" else plan(x, *past)


def assert_equal(got, want, tolerance=2e-4):
    for a, b in zip(got, want, strict=True):
        assert tuple(a.shape) == b.shape
        numpy.testing.assert_allclose(array(a), array(b), rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module", params=[(True, False), (False, False), (True, True), (False, True)], ids=str)
def graph_of(request):
    mask, attention = request.param
    return lambda: decoder(mask, attention)


def test_lengths_across_the_growth_of_the_room(graph_of, device):
    plan = pl.compile(graph_of(), device=device, tune="off")
    past = past_of(3)
    reference = past
    for i in range(150):
        x = values_of(1, 1, HEADS * WIDTH, seed=i)
        y, *past = step(plan, x, past)
        if i % 37 == 0 or past[0].shape[2] in (63, 64, 65, 66, 127, 128, 129, 130):
            assert_equal([y, *past], twin(graph_of(), x, *reference))
        reference = [array(part) for part in past]
    sizes = plan.summary()["sizes"]
    assert sizes["growing"] == "past"
    assert sizes["made"] == 3


def test_a_past_whose_axes_have_several_names(device):
    """As torch.onnx.export(dynamo=True) names them: each anew."""
    plan = pl.compile(decoder(axes=("s15", "s89")), device=device, tune="off")
    past = past_of(62)
    for i in range(4):
        x = values_of(1, 1, HEADS * WIDTH, seed=i)
        want = twin(decoder(), x, *map(array, past))
        y, *past = step(plan, x, past)
        assert_equal([y, *past], want)
    assert plan.summary()["sizes"]["growing"] == "s15, s89"
    with pytest.raises(pl.ShapeError):  # of two lengths
        plan.run(values_of(1, 1, HEADS * WIDTH), past_of(5)[0], past_of(6)[1])


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("attention", [False, True])
def test_models_of_half_precision(attention, dtype, device):
    plan = pl.compile(decoder(attention=attention, dtype=dtype), device=device, tune="off")
    past = [pl.asarray(part, dtype=dtype) for part in past_of(62)]
    for i in range(6):
        x = pl.asarray(values_of(1, 1, HEADS * WIDTH, seed=i), dtype=dtype)
        want = twin(decoder(attention=attention), x, *past)
        y, *past = plan(x, *past)
        assert y.dtype.name == past[0].dtype.name == dtype
        assert_equal([y, *past], want, 0.02 if dtype == "f16" else 0.12)
    assert plan.summary()["sizes"]["growing"] == "past"


def test_values_held_in_half_precision(device):
    plan = pl.compile(decoder(), device=device, tune="off", math="bf16")
    past = past_of(62)
    for i in range(6):
        x = values_of(1, 1, HEADS * WIDTH, seed=i)
        want = twin(decoder(), x, *past)
        y, *past = step(plan, x, past)
        assert_equal([y, *past], want, 0.12)
    assert plan.summary()["sizes"]["growing"] == "past"


@pytest.mark.parametrize("without", ["", "in_place"])
def test_streams_that_go_on_from_one_past(device, without):
    """Runs of several streams, queued in turn; each of them goes on from what it gave itself."""
    plan = pl.compile(decoder(), device=device, tune="off", without=without)
    _, *start = plan(values_of(1, 1, HEADS * WIDTH), *past_of(40))
    streams = [pl.Stream(device) for _ in range(3)]
    pasts, outputs = [start] * 3, [None] * 3
    for i in range(30):
        for n, stream in enumerate(streams):
            with stream:
                outputs[n], *pasts[n] = plan(values_of(1, 1, HEADS * WIDTH, seed=100 * n + i), *pasts[n])
    for n in range(3):
        past = [array(part) for part in start]
        for i in range(30):
            y, *past = plan.run(values_of(1, 1, HEADS * WIDTH, seed=100 * n + i), *past)
            past = [array(part) for part in past]
        assert_equal([outputs[n], *pasts[n]], [y, *past])


def test_a_run_copies_no_past(device):
    """The launches of a run whose past has room are the same however long that is, and none moves as much."""
    plan = pl.compile(decoder(), device=device, tune="off")
    past = [pl.asarray(part, device=device) for part in past_of(500)]
    for i in range(2):
        _, *past = plan(values_of(1, 1, HEADS * WIDTH, seed=i), *past)
    x = pl.asarray(values_of(1, 1, HEADS * WIDTH), device=device)
    with pl.profile() as profile:
        plan(x, *past)
    moves = [e for e in profile.events if e["kind"] in ("reorder", "transfer", "copy")]
    assert all(e["bytes"] < 500 * HEADS * WIDTH * 4 for e in moves), moves
    # Keys and values: one launch.
    assert sum(e["op"] == "tensor_scatter" for e in profile.events) == (2 if device == "cpu" else 1)
    assert not any(e["op"] == "concat" for e in profile.events)


def test_a_run_writes_behind_what_the_last_one_gave():
    plan = pl.compile(decoder(), device="cpu", tune="off")
    addresses = set()
    past = past_of(7)
    for step in range(20):
        _, *past = plan.run(values_of(1, 1, HEADS * WIDTH, seed=step), *past)
        addresses.add(past[0].__array_interface__["data"][0])
        assert not past[0].flags.writeable
    assert len(addresses) == 1


@pytest.mark.parametrize("first", [4, 58])  # then the room is used up amid the runs
def test_what_was_given_before_never_changes(device, first):
    plan = pl.compile(decoder(), device=device, tune="off")
    given = [past_of(first)]
    copies = []
    for i in range(10):
        given.append(list(step(plan, values_of(1, 1, HEADS * WIDTH, seed=i), given[-1]))[1:])
        copies.append([array(part) for part in given[-1]])
    for back in (3, 9, 3, 1, 5, 5):  # older pasts, some of them twice
        x = values_of(1, 1, HEADS * WIDTH, seed=100 + back)
        assert_equal(step(plan, x, given[back]), twin(decoder(), x, *given[back]))
    for arrays, before in zip(given[1:], copies, strict=True):
        for a, b in zip(arrays, before, strict=True):
            numpy.testing.assert_array_equal(array(a), b)


@settings(max_examples=15, deadline=None)
@given(first=st.integers(0, 130), chunks=st.lists(st.integers(1, 70), min_size=1, max_size=5))
def test_chunks_of_any_length_follow_a_past_of_any_length(first, chunks):
    plan = pl.compile(decoder(), device="cpu", tune="off")
    past = past_of(first)
    for i, s in enumerate(chunks):
        x = values_of(1, s, HEADS * WIDTH, seed=i)
        want = twin(decoder(), x, *past)
        y, *past = plan.run(x, *past)
        assert_equal([y, *past], want)


def test_threads_that_go_on_from_one_past(device):
    plan = pl.compile(decoder(), device=device, tune="off")
    _, *start = step(plan, values_of(1, 1, HEADS * WIDTH), past_of(40))
    want = {}
    for seed in range(4):
        past = [array(part) for part in start]
        for i in range(30):
            y, *past = step(plan, values_of(1, 1, HEADS * WIDTH, seed=100 * seed + i), map(array, past))
        want[seed] = [array(part) for part in (y, *past)]

    def work(seed):
        past = start
        for i in range(30):
            y, *past = step(plan, values_of(1, 1, HEADS * WIDTH, seed=100 * seed + i), past)
        assert_equal([y, *past], want[seed])

    run_together(work)


def masked(n=2, s=1, past=5, kind="bool"):
    """A layer whose mask comes from outside and is as long as past and present together."""
    g = pl.Graph(sizes={"n": n, "s": s, "past": past, "total": past + s})
    x = g.input("x", ("n", "s", HEADS * WIDTH))
    mask = g.input("mask", ("n", "total"), dtype=kind)
    keys, values = (g.input(name, ("n", HEADS, "past", WIDTH)) for name in ("keys", "values"))
    images, added = g.size("n"), g.size("s")
    q, k, v = (
        g.permute(g.reshape(part, [images, added, HEADS, WIDTH]), [0, 2, 1, 3])
        for part in g.split(g.linear(x, WEIGHT), HEADS * WIDTH, dim=-1)
    )
    k, v = g.concat([keys, k], 2), g.concat([values, v], 2)
    seen = g.reshape(mask, [images, 1, 1, g.size(mask, 1)])
    seen = g.slice(seen, [0], [g.size(k, 2)], [3])  # all of it, as exporters write
    if kind == "bool":
        y = g.scaled_dot_product_attention(q, k, v, seen)
    else:
        scores = g.mul(g.matmul(q, k, transpose_b=True), numpy.float32(0.3))
        hidden = g.mul(g.sub(numpy.float32(1), seen), numpy.float32(-3e4))
        y = g.matmul(g.softmax(g.add(scores, hidden), -1), v)
        count = g.reshape(g.sum(mask, [1]), [images, 1, 1, 1])  # zeros behind count for nothing
        y = g.div(y, count)
    g.output(g.reshape(g.permute(y, [0, 2, 1, 3]), [images, added, HEADS * WIDTH]), "y")
    g.output(k, "all_keys")
    g.output(v, "all_values")
    return g


@pytest.mark.parametrize("kind", ["bool", "f32"])
@pytest.mark.parametrize("n", [1, 3])
def test_masks_that_are_as_long_as_past_and_present(n, kind, device):
    plan = pl.compile(masked(kind=kind), device=device, tune="off")
    rng = numpy.random.default_rng(n)
    past = [values_of(n, HEADS, 3, WIDTH, seed=i) for i in range(2)]
    given, reference = [past], [past]
    for i in range(70):
        at = 9 if i == 67 else -1  # an older one
        s = 4 if i == 68 else 1
        x, total = values_of(n, s, HEADS * WIDTH, seed=i), reference[at][0].shape[2] + s
        mask = rng.integers(0, 2, (n, total)).astype("bool" if kind == "bool" else "f4")
        mask[:, :1] = 1
        y, *past = plan.run(x, mask, *given[at]) if plan.device == "cpu" else plan(x, mask, *given[at])
        given.append(past)
        if i % 13 == 0 or i > 59:
            bound = masked(kind=kind).bind(n=n, s=s, past=total - s, total=total)
            want = pl.compile(bound, device="cpu", tune="off").run(x, mask, *reference[at])
            assert_equal([y, *past], want)
        reference.append([array(part) for part in past])
    sizes = plan.summary()["sizes"]
    assert sizes["growing"] == "past"
    assert sizes["made"] == 3  # of 64 places, of 128, and of 128 for four steps


def positioned(form, n=2, s=1, past=5):
    """A layer of a decoder as exporters write it, whose positions are those of a mask that counts only what it shows.

    What is hidden of what comes later: a part of a table, or zeros for the past beside a triangle.
    """
    g = pl.Graph(sizes={"n": n, "s": s, "past": past, "total": past + s})
    x = g.input("x", ("n", "s", HEADS * WIDTH))
    mask = g.input("mask", ("n", "total"), dtype="s64")
    keys, values = (g.input(name, ("n", HEADS, "past", WIDTH)) for name in ("keys", "values"))
    images, added, before, total = g.size("n"), g.size("s"), g.size("past"), g.size("total")
    places = g.sub(g.cumsum(mask, 1), numpy.int64(1))
    places = g.where(g.eq(mask, numpy.int64(0)), numpy.int64(1), places)
    x = g.add(x, g.index_select(TABLE, 0, g.slice(places, [total - added], [total], [1])))
    q, k, v = (
        g.permute(g.reshape(part, [images, added, HEADS, WIDTH]), [0, 2, 1, 3])
        for part in g.split(g.linear(x, WEIGHT), HEADS * WIDTH, dim=-1)
    )
    k, v = g.concat([keys, k], 2), g.concat([values, v], 2)
    if form == "table":
        triangle = numpy.tril(numpy.ones((1, 1, 400, 400), bool))
        later = g.logical_not(g.slice(triangle, [before, 0], [before + added, before + added], [2, 3]))
    elif form == "table in turn":
        triangle = numpy.tril(numpy.ones((400, 400), bool))
        later = g.slice(g.slice(triangle, [before], [before + added], [0]), [0], [before + added], [1])
        later = g.logical_not(later)
    else:
        columns = g.arange(0, added)
        triangle = g.gt(columns, g.reshape(columns, [added, 1]))
        parts = [g.expand(numpy.zeros((1, 1), bool), [added, before]), triangle]
        later = g.concat(parts, 1)
    hidden = g.logical_or(later, g.reshape(g.eq(mask, numpy.int64(0)), [images, 1, 1, total]))
    scores = g.mul(g.matmul(q, k, transpose_b=True), numpy.float32(0.3))
    y = g.matmul(g.softmax(g.where(hidden, numpy.float32(-3e4), scores), -1), v)
    g.output(g.reshape(g.permute(y, [0, 2, 1, 3]), [images, added, HEADS * WIDTH]), "y")
    g.output(k, "all_keys")
    g.output(v, "all_values")
    return g


@pytest.mark.parametrize("form", ["table", "table in turn", "triangle"])
@pytest.mark.parametrize("n", [1, 3])
def test_positions_of_a_mask_and_parts_that_move(n, form, device):
    plan = pl.compile(positioned(form), device=device, tune="off")
    rng = numpy.random.default_rng(n)
    past = [values_of(n, HEADS, 3, WIDTH, seed=i) for i in range(2)]
    mask = numpy.ones((n, 3), "int64")
    mask[0, :2] = 0  # a sequence that is shorter, filled up before it
    for i in range(70):
        s = 4 if i in (30, 68) else 1
        x = values_of(n, s, HEADS * WIDTH, seed=i)
        before = [array(part) for part in past]
        mask = numpy.concatenate([mask, rng.integers(0, 5, (n, s)) > 0], 1).astype("int64")
        y, *past = step(plan, x, [mask, *past])
        if i % 13 == 0 or i in (30, 31) or i > 58:
            bound = positioned(form).bind(n=n, s=s, past=mask.shape[1] - s, total=mask.shape[1])
            want = pl.compile(bound, device="cpu", tune="off").run(x, mask, *before)
            assert_equal([y, *past], want)
    sizes = plan.summary()["sizes"]
    assert sizes["growing"] == "past"
    assert sizes["made"] == 4  # of 64 places and of 128, each for one step and for four


def test_a_mask_of_another_length_is_refused(device):
    plan = pl.compile(masked(), device=device, tune="off")
    x, past = values_of(2, 1, HEADS * WIDTH), [values_of(2, HEADS, 4, WIDTH)] * 2
    for total in (3, 4):
        with pytest.raises(pl.ShapeError, match=f"attn_mask.*{total}"):
            plan.run(x, numpy.ones((2, total), bool), *past)
    want = plan.run(x, numpy.ones((2, 5), bool), *past)
    assert_equal(plan.run(x, numpy.ones((2, 6), bool), *past), want)  # the slice takes what it needs
    assert_equal(plan.run(x, numpy.ones((2, 5), bool), *past), want)
    assert plan.summary()["sizes"]["growing"] == "past"


@pytest.mark.parametrize(
    ("mix", "why"),
    [
        (lambda g, k: g.sum(k, [2]), "not known to keep its places apart|sums|as long"),
        (lambda g, k: g.cumprod(k, 2), "not known to keep its places apart|as long"),
        (lambda g, k: g.cumsum(k, 2), "as long"),
        (lambda g, k: g.slice(k, [g.size(k, 2) // 2], [g.size(k, 2)], [2]), "follow from the length"),
        (lambda g, k: g.softmax(g.cumsum(k, 2), 2), "may be none"),
        (lambda g, k: g.concat([k, k], 2), "grow along other|shape"),
        (lambda g, k: g.softmax(g.exp(k), 2), "may be none"),
        (lambda g, k: g.matmul(k, k, transpose_a=True), "sums over places"),
    ],
)
def test_graphs_that_mix_places_have_a_program_for_each_length(mix, why):
    def graph(past):
        g = pl.Graph(sizes={"past": past})
        x = g.input("x", (1, 2, 1, 4))
        keys = g.concat([g.input("keys", (1, 2, "past", 4)), x], 2)
        g.output(mix(g, keys), "y")
        g.output(keys, "all")
        return g

    plan = pl.compile(graph(9), device="cpu", tune="off")
    assert re.search(why, plan.summary()["sizes"]["growing"])  # before any run
    keys = values_of(1, 2, 3, 4)
    for step in range(4):
        x = values_of(1, 2, 1, 4, seed=step)
        want = pl.compile(graph(keys.shape[2]), device="cpu", tune="off").run(x, numpy.array(keys))
        got = plan.run(x, keys)
        assert_equal(got, want)
        keys = got[1]
    assert re.search(why, plan.summary()["sizes"]["growing"]), plan.summary()["sizes"]["growing"]


def test_tensors_may_be_given_back_and_destinations_taken(device):
    plan = pl.compile(decoder(), device=device, tune="off")
    past = [pl.asarray(part) for part in past_of(5)]
    for i in range(3):
        x = values_of(1, 1, HEADS * WIDTH, seed=i)
        want = twin(decoder(), x, *past)
        y, *past = plan(x, *past)
        assert_equal([y, *past], want)


def test_pasts_of_different_lengths_are_refused():
    plan = pl.compile(decoder(), device="cpu", tune="off")
    keys, values = past_of(4)
    with pytest.raises(pl.ShapeError, match=r'axis "past" is 3 in input "values", expected 4'):
        plan.run(values_of(1, 1, HEADS * WIDTH), keys, values[:, :, :3])


@pytest.mark.parametrize("at", [4, 2**63 - 1, -1])
def test_runs_that_are_put_beyond_the_end_are_refused(at):
    cache, update = numpy.zeros((2, 3, 5, 4), "f4"), numpy.ones((2, 3, 2, 4), "f4")
    with pytest.raises(pl.InvalidArgumentError, match=f"tensor_scatter: at holds {at}, expected 0 to 3"):
        pl.ops.tensor_scatter(cache, update, numpy.array([0, at]))
