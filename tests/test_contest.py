"""Contests of layouts within programs under `layout="auto"`: they end, and nothing moves afterwards."""

import threading

import numpy
import pytest

import pylayout as pl
from pylayout import ops

MOST = 2000  # runs; a contest takes 20 to 90 on a quiet machine, and on a busy one leaves out most of them


@pytest.fixture
def program(rng):
    """Six convolutions in a row, some with a residual: x -> y, with float32 weights of its own."""
    channels = 32
    weights = [
        pl.asarray((rng.standard_normal((channels, channels, k, k)) / (6 * k)).astype("float32"))
        for k in (3, 1, 1, 3, 3, 1)
    ]

    def run(x, layout="auto"):
        for number, w in enumerate(weights):
            residual = x if number % 2 else None
            x = ops.conv2d(x, w, padding=w.shape[2] // 2, activation="relu", residual=residual, layout=layout)
        return x

    return run


def chain(x):
    """What is known of the chain that the first convolution is in."""
    w = pl.asarray(numpy.zeros((32, 32, 3, 3), "float32"))
    query = pl.query("conv2d", x, w, padding=1, activation="relu")
    return {**query.data["linked"], "words": query.explain()}


def choices(program, x):
    with pl.profile() as recording:
        program(x).numpy()
    return [
        (event["op"], event["implementation"], tuple(event["inputs"]), tuple(event["outputs"]), event["role"])
        for event in recording.events
    ]


def test_a_repeated_program_settles_and_stays(program, rng):
    x = pl.asarray(rng.standard_normal((1, 32, 19, 19)).astype("float32"))
    wanted = program(x, "NCHW").numpy()
    assert not chain(x)["settled"] and not pl.settled()  # linked by now, but not tried
    for _ in range(MOST):
        numpy.testing.assert_allclose(program(x).numpy(), wanted, rtol=1e-3, atol=1e-4)
        if chain(x)["settled"]:
            break
    found = chain(x)
    assert found["settled"] and found["ops"] == 4  # distinct ones: 3x3 and 1x1, with and without a residual
    first = choices(program, x)
    for _ in range(10):
        program(x).numpy()
    assert choices(program, x) == first
    assert not [choice for choice in first if choice[-1] == "weights"], "weights are packed by now"
    if found["ms"]:  # two layouts or more were worth a contest
        assert "greedy" in found["ms"] and min(found["ms"].values()) > 0
        assert "within the program" in found["words"]


def test_threads_take_part_in_one_contest(program, rng):
    x = pl.asarray(rng.standard_normal((1, 32, 21, 21)).astype("float32"))
    wanted = program(x, "NCHW").numpy()
    problems = []

    def work():
        try:
            for _ in range(40):
                numpy.testing.assert_allclose(program(x).numpy(), wanted, rtol=1e-3, atol=1e-4)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    for _ in range(MOST):
        if chain(x)["settled"]:
            break
        program(x).numpy()
    assert chain(x)["settled"]


def test_the_losers_weights_go(rng):
    channels = 48
    weights = [pl.asarray((rng.standard_normal((channels, channels, 3, 3)) / 20).astype("float32")) for _ in range(4)]
    x = pl.asarray(rng.standard_normal((1, channels, 17, 17)).astype("float32"))

    def run():
        y = x
        for number, w in enumerate(weights):
            y = ops.conv2d(y, w, padding=2 + number, dilation=2 + number)
        return y.numpy()

    def settled():  # this chain: other tests' programs, which nobody runs any more, may be left half-way
        return pl.query("conv2d", x, weights[0], padding=2, dilation=2).data["linked"]["settled"]

    wanted = run()
    for w in weights:  # as contestants have them made; kept with the tensor
        for layout in ("HWIO", "OHWI", "IOhw4o"):
            assert w.to(layout=layout).layout == layout
    before = pl.memory("cpu")["in_use"]
    for _ in range(MOST):
        numpy.testing.assert_allclose(run(), wanted, rtol=1e-3, atol=1e-3)
        if settled():
            break
    assert settled()
    for _ in range(3):
        numpy.testing.assert_allclose(run(), wanted, rtol=1e-3, atol=1e-3)
    # Of three forms and those that were tried one at most is left.
    assert pl.memory("cpu")["in_use"] <= before - 2 * sum(w.nbytes for w in weights)
    with pl.profile() as recording:
        run()
    assert not [event for event in recording.events if event["role"] == "weights"], "the winner's weights are kept"
