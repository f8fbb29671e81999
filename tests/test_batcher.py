"""Batcher: requests of many threads in batches, each with its own result or error."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import pylayout as pl


class Recorded:
    """A plan of y = 2 x, with what it was given."""

    def __init__(self, rows: int = 8, wait: threading.Event | None = None) -> None:
        self.inputs = [{"name": "x", "dtype": "f32", "shape": [rows, 3]}]
        self.outputs = [{"name": "y", "dtype": "f32", "shape": [rows, 3]}]
        self.batches: list[int] = []
        self.began = threading.Event()
        self.wait = wait

    def run(self, *arrays: Any) -> list[Any]:
        self.began.set()
        if self.wait is not None:
            assert self.wait.wait(30)
        (x,) = arrays
        self.batches.append(len(x))
        if (x < 0).any():
            raise pl.DeviceError("a negative number")
        return [2 * x]


def batcher_of(plan: Any, any_shape: bool = False, **options: Any) -> pl.Batcher:
    from pylayout.batcher import batched

    options = {"max_batch": None, "max_wait_ms": 1.0, "max_queue": None, "sizes": None} | options
    return batched(
        plan, any_shape, any_shape, *(options[name] for name in ("max_batch", "max_wait_ms", "max_queue", "sizes"))
    )


def rows(*values: float) -> Any:
    return np.repeat(np.array(values, np.float32)[:, None], 3, axis=1)


def test_what_waits_is_one_batch() -> None:
    """While the first runs, others come: they run together, in their order, filled up to a size that is run."""
    gate = threading.Event()
    plan = Recorded(wait=gate)
    with batcher_of(plan, True, max_batch=8) as batcher:
        first = batcher.submit(rows(1))
        assert plan.began.wait(30)
        others = [batcher.submit(rows(*range(i, i + n))) for i, n in ((10, 1), (20, 2), (30, 3), (40, 4), (50, 1))]
        gate.set()
        assert np.array_equal(first.result(30)[0], rows(2))
        for future, (i, n) in zip(others, ((10, 1), (20, 2), (30, 3), (40, 4), (50, 1)), strict=True):
            assert np.array_equal(future.result(30)[0], 2 * rows(*range(i, i + n)))
        assert plan.batches == [1, 8, 8]  # 1 + 2 + 3 rows, then 4 + 1
        assert batcher.statistics() == {"batches": 3, "rows": 12, "filled": 5, "waiting": 0}


def test_arrays_may_change_once_they_are_submitted() -> None:
    gate = threading.Event()
    plan = Recorded(wait=gate)
    with batcher_of(plan, True, max_batch=8) as batcher:
        array, given = rows(1), []
        for n in range(1, 5):  # as a server that reads each request into the same memory
            array[:] = n
            given.append(batcher.submit(array))
            assert plan.began.wait(30)
        array[:] = -1
        gate.set()
        assert [future.result(30)[0][0, 0] for future in given] == [2, 4, 6, 8]


def test_a_full_batch_does_not_wait() -> None:
    plan = Recorded()
    with batcher_of(plan, True, max_batch=2, max_wait_ms=60_000) as batcher:
        futures = [batcher.submit(rows(i)) for i in (1, 2)]
        assert [future.result(30)[0][0, 0] for future in futures] == [2, 4]
        alone = batcher.submit(rows(5))
        with pytest.raises(TimeoutError):
            alone.result(0.05)
    assert alone.result(0)[0][0, 0] == 10  # close() does not wait for others either
    assert plan.batches == [2, 1]


def test_a_full_queue_says_so() -> None:
    gate = threading.Event()
    plan = Recorded(wait=gate)
    with batcher_of(plan, max_queue=2) as batcher:
        running = batcher.submit(rows(1))
        assert plan.began.wait(30)
        waiting = [batcher.submit(rows(i)) for i in (2, 3)]
        with pytest.raises(pl.QueueFullError, match=r"2 requests wait already \(max_queue=2\)"):
            batcher.submit(rows(4))
        gate.set()
        for future, value in zip((running, *waiting), (2, 4, 6), strict=True):
            assert future.result(30)[0][0, 0] == value
        assert batcher.run(rows(4))[0][0, 0] == 8


def test_an_error_reaches_its_own_request() -> None:
    gate = threading.Event()
    plan = Recorded(wait=gate)
    with batcher_of(plan) as batcher:
        first = batcher.submit(rows(1))
        assert plan.began.wait(30)
        futures = [batcher.submit(rows(value)) for value in (2, -3, 4)]
        gate.set()
        assert first.result(30)[0][0, 0] == 2
        assert futures[0].result(30)[0][0, 0] == 4
        with pytest.raises(pl.DeviceError, match="a negative number"):
            futures[1].result(30)
        assert futures[2].result(30)[0][0, 0] == 8


def test_a_cancelled_request_is_not_run() -> None:
    gate = threading.Event()
    plan = Recorded(wait=gate)
    with batcher_of(plan) as batcher:
        first = batcher.submit(rows(1))
        assert plan.began.wait(30)
        cancelled, other = batcher.submit(rows(-1)), batcher.submit(rows(3))
        assert cancelled.cancel()
        gate.set()
        assert first.result(30)[0][0, 0] == 2 and other.result(30)[0][0, 0] == 6
    assert batcher.statistics()["batches"] == 2


def test_closing() -> None:
    gate = threading.Event()
    plan = Recorded(wait=gate)
    batcher = batcher_of(plan)
    running = batcher.submit(rows(1))
    assert plan.began.wait(30)
    waiting = batcher.submit(rows(2))
    threading.Timer(0.05, gate.set).start()
    batcher.close(finish=False)
    assert running.result(0)[0][0, 0] == 2
    with pytest.raises(pl.InvalidArgumentError, match="closed before this request"):
        waiting.result(0)
    with pytest.raises(pl.InvalidArgumentError, match="closed"):
        batcher.submit(rows(1))
    batcher.close()  # once more does nothing


def test_one_that_is_let_go_ends_its_thread() -> None:
    batcher = batcher_of(Recorded())
    assert batcher.run(rows(1))[0][0, 0] == 2
    thread = batcher._thread
    gone = weakref.ref(batcher)
    del batcher
    gc.collect()
    assert gone() is None
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ((), pl.InvalidArgumentError, "0 inputs are given, expected 1: x"),
        ((np.zeros((1, 4), np.float32),), pl.ShapeError, r'"x" has shape \(1, 4\), expected \(rows, 3\)'),
        ((np.zeros(3, np.float32),), pl.ShapeError, r'"x" has shape \(3,\)'),
        ((np.zeros((0, 3), np.float32),), pl.ShapeError, "0 rows, expected 1 to max_batch=8"),
        ((np.zeros((9, 3), np.float32),), pl.ShapeError, "9 rows, expected 1 to max_batch=8"),
    ],
)
def test_requests_that_do_not_fit(arrays: Any, error: type[Exception], message: str) -> None:
    with batcher_of(Recorded()) as batcher, pytest.raises(error, match=message):
        batcher.submit(*arrays)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_batch": 0}, "max_batch is 0"),
        ({"max_batch": 9}, "max_batch is 9, expected at most 8"),
        ({"max_wait_ms": -1}, "max_wait_ms is -1"),
        ({"max_wait_ms": float("inf")}, "max_wait_ms is inf, expected at least 0, at most"),
        ({"max_wait_ms": float("nan")}, "max_wait_ms is nan"),
        ({"max_wait_ms": "a"}, "max_wait_ms is 'a', expected a number"),
        ({"max_wait_ms": None}, "max_wait_ms is None, expected a number"),
        ({"sizes": 5}, "sizes is 5, expected a list of integers"),
        ({"sizes": [8.0]}, r"sizes is \[8.0\], expected a list of integers"),
        ({"max_queue": 0}, "max_queue is 0"),
        ({"sizes": [4]}, r"sizes is \[4\], expected \[8\]"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(pl.InvalidArgumentError, match=message):
        batcher_of(Recorded(), **options)


def test_results_without_rows_are_refused() -> None:
    plan = Recorded()
    plan.outputs[0]["shape"] = [3]
    with pytest.raises(pl.InvalidArgumentError, match='output "y" has shape'):
        batcher_of(plan)


def network(n: int | str) -> pl.Graph:
    rng = np.random.default_rng(3)
    g = pl.Graph(sizes={"n": 1}) if n == "n" else pl.Graph()
    x = g.input("x", (n, 16))
    for _ in range(3):
        x = g.linear(x, g.constant(rng.standard_normal((16, 16)).astype("f4") / 4), activation="tanh")
    g.output(x, "y")
    return g


@pytest.mark.parametrize("n", [8, "n"])
def test_many_threads_and_a_plan(n: int | str, untuned: None) -> None:
    """Each gets the rows that are its own, whatever it was gathered with."""
    plan = pl.compile(network(n), device="cpu")
    single = pl.compile(network(1), device="cpu")
    problems: list[BaseException] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(20):
                x = rng.standard_normal((1 + int(rng.integers(3)), 16)).astype("f4")
                (y,) = batcher.run(x)
                wanted = np.concatenate([single.run(row[None])[0] for row in x])
                np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
        except BaseException as problem:
            problems.append(problem)

    with plan.batched(max_batch=8, max_wait_ms=1) as batcher:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts = batcher.statistics()
    assert not problems
    assert counts["rows"] >= 120 and counts["batches"] < 120


@pytest.mark.parametrize("second", ["n", 4])
def test_rows_of_a_plan_with_other_named_axes(second: str | int, untuned: None) -> None:
    """Where the first axis of an input has no name, the plan runs its own number of rows, of any length."""
    g = pl.Graph(sizes={"n": 4, "t": 8})
    x, y = g.input("x", (4, "t")), g.input("y", (second, "t"))
    g.output(g.add(x, y), "z")
    plan = pl.compile(g, device="cpu")
    with plan.batched(max_wait_ms=0) as batcher:
        assert batcher.max_batch == 4
        for length in (8, 5):
            ones = np.ones((3, length), np.float32)
            assert np.array_equal(batcher.run(ones, ones)[0], 2 * ones)
        assert batcher.statistics()["filled"] == 2


def test_a_process_that_ends_does_not_wait_for_ever() -> None:
    import subprocess
    import sys

    program = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "import test_batcher as t\n"
        "b = t.batcher_of(t.Recorded(), max_wait_ms=60_000)\n"
        "future = b.submit(t.rows(1))\n"
        "print('left')\n"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout == "left\n", done.stderr
    assert time.monotonic() - began < 50
