"""Plans of graphs with named axes: sizes that come with the call."""

import collections
import json
import math
import pathlib
import re

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from late_sizes import at_other_sizes
from op_cases import CASES
from together import run_together

import pylayout as pl

RNG = numpy.random.default_rng(0)
WEIGHTS = [
    RNG.standard_normal(shape).astype("float32") / 8 for shape in ((48, 32), (32, 48), (8, 3, 3, 3), (8, 8, 3, 3))
]


def text_graph(n=1, s=4):
    """A block of a text network, with shapes that follow from sizes."""
    g = pl.Graph(sizes={"n": n, "s": s})
    x = g.input("x", ("n", "s", 32))
    rows, columns = g.size("n"), g.size("s")
    q = g.permute(g.reshape(g.linear(x, WEIGHTS[0]), [rows, columns, 4, 12]), [0, 2, 1, 3])
    scores = g.matmul(q, q, transpose_b=True)
    places = g.arange(0, columns)
    late = g.lt(g.reshape(places, [columns, 1]), g.reshape(places, [1, columns]))
    scores = g.where(late, numpy.float32(-1e9), scores)
    y = g.permute(g.matmul(g.softmax(scores, -1), q), [0, 2, 1, 3])
    y = g.linear(g.reshape(y, [rows, columns, 48]), WEIGHTS[1])
    g.output(g.add(x, y), "y")
    g.output(g.sizes_constant([rows, columns * 2]), "sizes")
    return g


def picture_graph(n=1, h=8, w=8):
    g = pl.Graph(sizes={"n": n, "h": h, "w": w})
    y = g.conv2d(g.input("x", ("n", 3, "h", "w")), WEIGHTS[2], padding=1, activation="relu")
    y = g.concat([g.max_pool2d(y, 3, 1, 1), g.conv2d(y, WEIGHTS[3], padding=1)], 1)
    g.output(g.mean(y, [2, 3]), "y")
    return g


def values(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("float32")


def twin(graph, x):
    """What a plan of the same graph gives that was compiled for these sizes alone."""
    names = graph._sizes
    sizes = {"n": x.shape[0], "s": x.shape[1]} if "s" in names else {"n": x.shape[0], "h": x.shape[2], "w": x.shape[3]}
    return pl.compile(graph.bind(**sizes), device="cpu", tune="off").run(x)


def assert_equal(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def text_plan():
    return pl.compile(text_graph(), device="cpu", tune="off")


@pytest.fixture(scope="module")
def picture_plan():
    return pl.compile(picture_graph(), device="cpu", tune="off")


@settings(max_examples=25, deadline=None)
@given(n=st.integers(0, 4), s=st.integers(0, 70))
def test_a_text_graph_gives_what_its_concrete_twin_gives(text_plan, n, s):
    x = values(n, s, 32)
    got = text_plan.run(x)
    assert_equal(got, twin(text_graph(), x))
    assert got[1].tolist() == [n, 2 * s]


@settings(max_examples=20, deadline=None)
@given(n=st.integers(0, 5), h=st.integers(1, 40), w=st.integers(1, 20))
def test_a_picture_graph_gives_what_its_concrete_twin_gives(picture_plan, n, h, w):
    x = values(n, 3, h, w)
    assert_equal(picture_plan.run(x), twin(picture_graph(), x))


# What an op does with a size s of its operand, and whether that makes the next one longer.
STEPS = {
    "reshape": lambda g, x: g.reshape(x, [g.size(x, 1), g.size(x, 0)]),
    "double": lambda g, x: g.concat([x, g.relu(x)], 0),
    "half": lambda g, x: g.slice(x, [0], [(g.size(x, 0) + 1) // 2], [0]),
    "last": lambda g, x: g.slice(x, [pl.sizes.max_size(g.size(x, 0) - 3, 0)], [g.size(x, 0)], [0]),
    "expand": lambda g, x: g.add(x, g.expand(numpy.full((), 2, "float32"), [g.size(x, 0), g.size(x, 1)])),
    "rows": lambda g, x: g.mul(x, g.reshape(g.arange(0, g.size(x, 0), 1, "f32"), [g.size(x, 0), 1])),
    "columns": lambda g, x: g.softmax(x, -1),
    "pad": lambda g, x: g.pad(x, [0, 0, 1, g.size(x, 1)]),
}


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5),
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=4),
)
def test_random_programs_give_what_their_concrete_twins_give(steps, sizes):
    def graph(s):
        g = pl.Graph(sizes={"s": s})
        x = g.input("x", ("s", 4))
        for step in steps:
            x = STEPS[step](g, x)
        g.output(x, "y")
        return g

    plan = pl.compile(graph(5), device="cpu", tune="off")
    for s in sizes:
        x = values(s, 4)
        assert_equal(plan.run(x), pl.compile(graph(s), device="cpu", tune="off").run(x))


def test_many_sizes_share_the_weights_and_keep_within_the_limit():
    plan = pl.compile(text_graph(), device="cpu", tune="off", program_memory=8 << 20)
    weights = plan.summary()["memory"]["constant_bytes"]
    assert weights > 0
    for s in range(1, 300):
        plan.run(values(1, s, 32))
        kept = plan.summary()["sizes"]
        assert kept["bytes"] <= kept["limit"] == 8 << 20 or kept["programs"] == 1
    assert kept["made"] == 298
    assert 1 < kept["programs"] < 298


def test_a_program_that_was_let_go_is_made_again():
    plan = pl.compile(text_graph(), device="cpu", tune="off", program_memory=0)
    for s in (3, 5, 3, 5):
        assert_equal(plan.run(values(1, s, 32)), twin(text_graph(), values(1, s, 32)))
    assert plan.summary()["sizes"]["made"] == 4
    assert plan.summary()["sizes"]["programs"] == 1


def test_a_program_is_prepared_before_its_first_run():
    plan = pl.compile(text_graph(), device="cpu", tune="off")
    plan.prepare(n=1, s=4)  # those of the plan's own program
    assert plan.summary()["sizes"]["made"] == 0
    plan.prepare(s=9, n=2)
    assert plan.summary()["sizes"]["made"] == 1
    assert_equal(plan.run(values(2, 9, 32)), twin(text_graph(), values(2, 9, 32)))
    assert plan.summary()["sizes"]["made"] == 1
    with pytest.raises(pl.InvalidArgumentError, match="sizes are of n, expected those of n, s"):
        plan.prepare(n=2)
    with pytest.raises(pl.ShapeError, match='axis "s" is -1'):
        plan.prepare(n=2, s=-1)
    fixed = pl.Graph()
    fixed.output(fixed.relu(fixed.input("x", (2, 3))), "y")
    with pytest.raises(pl.InvalidArgumentError, match=r"expected those of \(none\)"):
        pl.compile(fixed, device="cpu", tune="off").prepare(n=2)


@pytest.mark.parametrize("dtype", ["f32", "f16", "s64", "u8"])
def test_sizes_stand_where_numbers_do_beside_tensors(dtype):
    g = pl.Graph(sizes={"n": 3})
    x = g.input("x", ("n", 2), dtype)
    y = g.add(g.mul(x, g.size("n")), g.size("n") - 2)
    g.output(y, "y")
    assert y.dtype == dtype
    plan = pl.compile(g, device="cpu", tune="off")
    for n in (3, 5, 4):
        given = numpy.arange(2 * n).reshape(n, 2).astype(plan.run(numpy.zeros((3, 2), x.dtype.dtype))[0].dtype)
        assert (plan.run(given)[0] == given * n + (n - 2)).all()


def test_threads_run_at_different_sizes():
    plan = pl.compile(text_graph(), device="cpu", tune="off", program_memory=1 << 18)
    want = {s: twin(text_graph(), values(1, s, 32, seed=s)) for s in range(1, 13)}

    def work(first):
        for i in range(24):
            s = (first + i) % 12 + 1
            assert_equal(plan.run(values(1, s, 32, seed=s)), want[s])

    run_together(work, (0, 4, 8, 4))


@pytest.mark.parametrize(
    ("shapes", "error", "message"),
    [
        ([(2, 3, 4), (2, 5)], pl.ShapeError, r'axis "s" is 5 in input "mask", expected 3 as in input "x"'),
        ([(2, 3, 5), (2, 3)], pl.ShapeError, r'input "x" has shape \(2, 3, 5\), expected \(n, s, 4\)'),
        ([(2, 3), (2, 3)], pl.ShapeError, r'input "x" has shape \(2, 3\), expected \(n, s, 4\)'),
        ([(1, 40, 4), (1, 40)], pl.UnsupportedError, r"made for sizes where s < 32, here 40 and 32"),
    ],
)
def test_errors_name_input_axis_expected_and_actual(shapes, error, message):
    g = pl.Graph(sizes={"n": 1, "s": 2})
    x, mask = g.input("x", ("n", "s", 4)), g.input("mask", ("n", "s"))
    g.require("s < 32")
    g.output(g.mul(x, g.reshape(mask, [g.size("n"), g.size("s"), 1])), "y")
    plan = pl.compile(g, device="cpu", tune="off")
    with pytest.raises(error, match=message):
        plan.run(*(values(*shape) for shape in shapes))
    assert plan.run(values(3, 31, 4), values(3, 31))[0].shape == (3, 31, 4)


def test_sizes_that_an_op_does_not_permit(picture_plan):
    g = pl.Graph(sizes={"h": 8})
    g.output(g.conv2d(g.input("x", (1, 3, "h", 8)), WEIGHTS[2]), "y")
    plan = pl.compile(g, device="cpu", tune="off")
    with pytest.raises(pl.ShapeError, match=r"conv2d.*node"):
        plan.run(values(1, 3, 1, 8))
    assert plan.run(values(1, 3, 3, 8))[0].shape == (1, 8, 1, 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s +", "expected a number, an axis"),
        ("t", 'no input has an axis "t"; expected one of s'),
        ("#9.0", "there is no value 9"),
        ("#0.7", "expected one with a dimension 7"),
        ("(s", r"expected \)"),
        ("9223372036854775808", "63 bits"),
        ("9223372036854775807 + s", "more than 64 bits"),
        ("s / 0", "the divisor is 0"),
        ("broadcast(s, 9)", "do not broadcast"),
    ],
)
def test_errors_of_expressions(text, message):
    g = pl.Graph(sizes={"s": 4})
    g.input("x", ("s", 2))
    with pytest.raises(pl.Error, match=message):
        g.require(f"{text} == 1")


def test_what_does_not_hold_now_is_refused():
    g = pl.Graph(sizes={"s": 4})
    g.input("x", ("s", 2))
    with pytest.raises(pl.UnsupportedError, match=r"made for sizes where s == 5, here 4 and 5"):
        g.require("s == 5")


def test_an_attribute_that_makes_no_sense_for_a_size_names_its_node():
    g = pl.Graph(sizes={"s": 1})
    x = g.input("x", ("s", 1))
    g.output(g.op("expand", x, [pl.sizes.broadcast_sizes([g.size("s")], [9])[0], 4], name="rows"), "y")
    plan = pl.compile(g, device="cpu", tune="off")
    assert plan.run(numpy.zeros((9, 1), "float32"))[0].shape == (9, 4)
    with pytest.raises(pl.ShapeError, match=r'broadcast.*sizes 5 and 9 do not broadcast \(node "rows"\)'):
        plan.run(numpy.zeros((5, 1), "float32"))


def test_another_rank_than_the_graph_was_made_with_names_its_node():
    g = pl.Graph(sizes={"n": 1, "m": 4})
    g.output(g.relu(g.op("squeeze", g.input("x", ("n", 1, "m")), name="flat")), "y")
    plan = pl.compile(g, device="cpu", tune="off")
    assert plan.run(numpy.ones((1, 1, 7), "float32"))[0].shape == (7,)
    message = r'squeeze: its result has rank 2, expected 1.*\(node "flat"\); the graph was made where n = 1 and .*n = 2'
    with pytest.raises(pl.ShapeError, match=message):
        plan.run(numpy.ones((2, 1, 4), "float32"))


def test_arithmetic_of_sizes_is_pythons():
    g = pl.Graph(sizes={"s": 7})
    x = g.input("x", ("s", 2))
    s = g.size("s")
    made = [s + 2, 2 - s, -s, s * 3, s // 2, -s // 2, s % 4, -s % 4, 20 // s, 20 % s, s - s, s * 1 + 0]
    g.output(g.sizes_constant(made), "y")
    g.output(x, "x")
    plan = pl.compile(g, device="cpu", tune="off")
    for n in (7, 1, 12):
        want = [n + 2, 2 - n, -n, n * 3, n // 2, -n // 2, n % 4, -n % 4, 20 // n, 20 % n, 0, n]
        assert plan.run(values(n, 2))[0].tolist() == want


def test_a_comparison_requires_what_it_found():
    g = pl.Graph(sizes={"s": 7})
    x = g.input("x", ("s", 2))
    assert g.size("s") > 3 and g.size("s") != 9 and g.size("s") != 8
    assert int(g.size(x, 1)) == 2
    g.output(g.relu(x), "y")
    assert g.bind(s=5).outputs["y"].shape == (5, 2)
    for s in (3, 8, 9):
        with pytest.raises(pl.UnsupportedError, match="made for sizes where"):
            g.bind(s=s)


def test_sizes_compare_with_fractions():
    graph = pl.Graph(sizes={"n": 3})
    graph.input("x", ("n",))
    size = graph.size("n")
    assert size < 3.5 and size < 3.5 and size > 2.5 and size <= 3.0 and size < math.inf
    assert not size > 3.5 and not size < 2.5 and not size < -math.inf
    assert size == 3.0 and size != 3.5
    assert (numpy.array([2.9, 3.1]) > size).tolist() == [False, True]


# By op the axes that docs/reference/support.md lists.
LATE = json.loads((pathlib.Path(__file__).parent.parent / "docs/reference/support.json").read_text("utf-8"))["dynamic"]

# Axes of a case's first tensor that had no other size, by reason and op: "axis: number of cases". A number here may
# only become smaller, unless a case is new.
FIXED = {
    "an attribute is the size of the gradient, from which this one follows": {
        "avg_pool1d_backward": {2: 1},
        "avg_pool2d_backward": {2: 2, 3: 2},
        "avg_pool3d_backward": {2: 1, 3: 1, 4: 1},
        "fold": {2: 6},
        "interpolate_backward": {2: 1, 3: 1},
        "roi_align_backward": {2: 6, 3: 6},
    },
    "an attribute is the size of the result, from which this one follows": {"irfft": {1: 6, 2: 3}},
    "pairs of real and imaginary parts": {"fft": {2: 9, 3: 2, 4: 1}, "irfft": {2: 6, 3: 3}},
    "an attribute lists the sizes": {
        "interleave": {1: 4},
        "l2_normalize": {2: 2, 3: 1},
        "layer_norm": {2: 2, 3: 1},
        "layer_norm_backward": {1: 1, 2: 2},
        "rms_norm": {2: 2, 3: 1},
        "rms_norm_backward": {2: 1},
        "split": {1: 1},
    },
    "an axis of 1 is repeated, or left out": {"expand": {1: 2, 2: 1}, "squeeze": {1: 1, 3: 1}},
    "weights have as many channels as a group, so that no two axes are alike": {
        "conv1d": {1: 1},
        "conv2d": {1: 7},
        "conv3d": {1: 5},
        "conv_integer": {1: 1},
        "conv_transpose2d": {1: 2},
        "qlinear_conv": {1: 10},
    },
    "a box has four numbers": {"non_max_suppression": {2: 4}},
    # What follows the test does not try: another tensor's axis has a size that only follows from this one's.
    "another tensor has the result's size": {
        "conv1d": {2: 1},
        "conv2d_backward_weights": {3: 1},
        "conv3d": {2: 1, 3: 1, 4: 1},
        "conv3d_backward_weights": {2: 1, 3: 1, 4: 1},
        "conv_transpose1d": {2: 1},
        "conv_transpose2d": {2: 7, 3: 7},
        "conv_transpose3d": {2: 1, 3: 1, 4: 1},
        "grid_sample_backward": {2: 1},
        "max_pool3d_backward": {2: 1, 3: 1, 4: 1},
    },
    "several axes are alike by chance": {
        "conv_transpose3d": {1: 1},
        "gru_backward": {0: 1, 1: 2},
        "lstm_backward": {0: 1, 1: 1},
        "rnn_backward": {0: 1, 1: 1},
        "selective_scan": {1: 1, 2: 1},
        "selective_scan_backward": {1: 1, 2: 1},
    },
}
# Where an op takes a size by itself and a plan of any size does not: op -> (why, the error, how many runs).
REFUSED = {
    "split": ("a plan has as many results as were asked for", r"has \d results for these sizes, expected 3", 4),
    "squeeze": ("a plan's results have the axes that were asked for", r"its result has rank \d, expected \d", 6),
    "squeeze_excite": ("the mean over nothing", r"global_avg_pool: x.[hw] is 0, expected at least 1", 5),
    "squeeze_excite_backward": ("the mean over nothing", r"global_avg_pool: x.[hw] is 0, expected at least 1", 5),
}


@pytest.mark.parametrize("op", LATE)
def test_ops_take_sizes_late_that_they_take_at_all(op, untuned):
    """Every axis of every case, at every other size that the op by itself takes: 0, 1, one more or less, twice."""
    listed, fixed, faults = set(), collections.Counter(), []
    for case in (case for case in CASES if case.op == op):
        found = at_other_sizes(case)
        first = case.make()[0]
        axes = set() if first is None else set(range(first.ndim))
        listed.add("all" if axes and found.axes == axes else " ".join(map(str, sorted(found.axes))))
        fixed.update(axes - found.axes)
        faults += found.faults
    assert LATE[op] in listed, "docs/reference/support.md lists other axes"
    assert dict(fixed) == sum((collections.Counter(ops.get(op)) for ops in FIXED.values()), collections.Counter())
    why, message, runs = REFUSED.get(op, ("", "$^", 0))
    assert [fault for fault in faults if not re.search(message, fault)] == []
    assert len(faults) == runs, why


def test_what_stays_fixed_is_of_ops():
    assert {op for ops in FIXED.values() for op in ops} | REFUSED.keys() <= LATE.keys()


def test_further_sizes_join_branches_in_place(untuned):
    """Which ends of branches are written where they are joined, costs say, for each size; some are at every size.

    A size keeps what it took, whatever sizes come after it.
    """

    def graph():
        rng = numpy.random.default_rng(0)
        g = pl.Graph(sizes={"n": 1, "h": 40, "w": 40})
        kept = x = g.input("x", ("n", 32, "h", "w"))
        for _ in range(3):
            x = g.conv2d(
                x, rng.standard_normal((32, x.shape[1], 3, 3)).astype("float32") / 30, padding=1, activation="relu"
            )
            x = kept = g.concat([kept, x], 1)
        g.output(g.max_pool2d(x, 2), "y")
        return g

    plan = pl.compile(graph(), device="cpu", tune="off")

    def taken(h, w):
        x = values(1, 32, h, w)
        with pl.profile() as profile:
            plan.run(x)
        with pl.profile() as again:
            got = plan.run(x)
        assert_equal(got, twin(graph(), x))

        def ways(events):
            return [(e["kind"], e["op"], e["provider"], e["implementation"]) for e in events if e["role"] != "weights"]

        assert ways(profile.events) == ways(again.events)
        ops = [event["op"] for event in again.events if event["kind"] == "op"]
        assert ops.count("conv2d") == 3 and ops.count("concat") < 3, ops
        return ways(again.events)

    sizes = ((40, 40), (38, 42), (64, 18), (33, 50))
    first = [taken(h, w) for h, w in sizes]
    assert [taken(h, w) for h, w in sizes] == first
