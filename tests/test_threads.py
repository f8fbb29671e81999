"""Threads that share one context: results stay right, whatever the others do."""

import concurrent.futures
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy
import pytest

import pylayout as pl
from pylayout import ops

TASKS = Path("/proc/self/task")  # the threads of this process
LAYOUTS = ["NCHW", "NHWC", "nChw16c", "auto"]


def test_threads_share_tensors_and_ops(rng):
    values = rng.standard_normal((2, 17, 6, 6)).astype("float32")
    weight = rng.standard_normal((8, 17, 3, 3)).astype("float32")
    x, w = pl.asarray(values), pl.asarray(weight)
    wanted = ops.relu(ops.conv2d(x, w, padding=1, layout="NCHW")).numpy()

    def work(number):
        for _ in range(15):
            y = ops.conv2d(x, w, padding=1, activation="relu", layout=LAYOUTS[number % 4])
            numpy.testing.assert_allclose(y.numpy(), wanted, rtol=1e-3, atol=1e-3)
            numpy.testing.assert_array_equal(x.to(layout="NHWC").numpy(), values)
        return True

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_shared_memory_is_released_once_by_any_thread(rng):
    class Array(numpy.ndarray):
        """Counts how many are alive."""

        alive = 0
        lock = threading.Lock()

    def make():
        array = rng.random((4, 4), "float32").view(Array)
        return pl.asarray(array, copy=False), [array]

    import weakref

    watches = []
    tensors = []
    for _ in range(200):
        tensor, owners = make()
        watches.append(weakref.ref(owners.pop()))
        tensors.append(tensor)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: ops.neg(tensors[i]).numpy(), range(200)))
    del tensor
    # The last references go in other threads.
    threads = [threading.Thread(target=tensors[i::4].clear) for i in range(4)]
    tensors.clear()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del threads, thread
    assert [watch for watch in watches if watch() is not None] == []


def test_options_change_while_others_work(rng):
    x = pl.asarray(rng.standard_normal((1, 8, 10, 10)).astype("float32"))
    wanted = numpy.maximum(x.numpy(), 0)
    before = pl.get_threads()
    stop = threading.Event()

    def work():
        while not stop.is_set():
            numpy.testing.assert_array_equal(ops.relu(x).numpy(), wanted)
        return True

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(work) for _ in range(3)]
        try:
            for i in range(20):
                pl.set_threads(1 + i % 2)
                pl.release_caches()
        finally:
            stop.set()
            pl.set_threads(before)
        assert all(future.result() for future in futures)
    assert pl.get_threads() == before


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)", "import os; os._exit(0)"])
def test_a_program_ends_well_with_threads_and_tensors_alive(ending):
    code = f"""
import threading, numpy, pylayout as pl
kept = [pl.asarray(numpy.ones((4, 4), "float32"), copy=False) for _ in range(10)]
ready = threading.Event()
def work():
    while True:
        pl.ops.relu(kept[0])
        ready.set()
threading.Thread(target=work, daemon=True).start()
ready.wait()
{ending}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_first_use_by_many_threads_makes_one_context():
    code = """
import threading, pylayout as pl
from pylayout import context
seen = []
start = threading.Barrier(8)
def work():
    start.wait()
    seen.append(int(context.ffi.cast("uintptr_t", context.handle())))
    pl.ops.relu([1.0])
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert len(seen) == 8 and len(set(seen)) == 1, seen
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_gets_an_error_instead_of_waiting_for_ever():
    code = """
import os, pylayout as pl
from multiprocessing import get_context
def child():
    x = pl.zeros((1, 16, 8, 8))
    return pl.ops.conv2d(x, pl.zeros((16, 16, 3, 3))).shape
if __name__ == "__main__":
    pid = os.fork()  # before the first use: the child is on its own
    if pid == 0:
        os._exit(0 if child() == (1, 16, 6, 6) else 1)
    assert os.waitpid(pid, 0)[1] == 0
    x = pl.zeros((1, 16, 8, 8))
    child()
    pid = os.fork()
    if pid == 0:
        for use in (child, lambda: pl.ops.relu(x), pl.devices, lambda: pl.set_threads(1)):
            try:
                use()
            except pl.DeviceError as error:
                assert "spawn" in str(error)
            else:
                os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    child()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not TASKS.is_dir(), reason="lists of threads are of Linux")
def test_an_op_on_few_threads_ends_none_of_the_others(rng):
    """Else the next op on all of them waits until they are made again."""

    def living():
        return set(TASKS.iterdir())

    for size in (12, 16, 20, 28):
        g = pl.Graph()
        large, small = g.input("large", (8, 64, 56, 56)), g.input("small", (2, 64, size, size))
        g.output(g.gelu(g.mul(large, large)), "y")
        g.output(g.channel_shuffle(small, 2), "z")
        plan = pl.compile(g, device="cpu", threads=8, tune="off")
        values = [rng.standard_normal(v.shape).astype("float32") for v in (large, small)]
        plan.run(*values)
        before = living()
        for _ in range(10):
            plan.run(*values)
        assert living() == before


# Threads that nobody waits for are at work when the process ends.
DAEMONS = """
import sys, threading, time
import numpy
import pylayout as pl
from pylayout import ops

device, what = sys.argv[1:]
values = numpy.ones((1, 8, 32, 32), "f4")
weights = numpy.ones((16, 8, 3, 3), "f4")

def graph(width):
    g = pl.Graph()
    g.output(g.relu(g.conv2d(g.input("x", (1, 8, 32, width)), weights, padding=1)))
    return g

x, w = pl.asarray(values, device=device), pl.asarray(weights, device=device)
plan = pl.compile(graph(32), device=device, tune="off")

def run(number): plan.run(values)
def call(number): ops.relu(ops.conv2d(x, w, padding=1)).numpy()
def compile(number): pl.compile(graph(8 + number % 50), device=device, progress=lambda stage, fraction: None)

def work(first):
    for number in range(first, 1000000, 3):
        globals()[what](number)

for first in range(3):
    threading.Thread(target=work, args=(first,), daemon=True).start()
time.sleep(0.3)
"""


@pytest.mark.parametrize("what", ["run", "call", "compile"])
def test_a_process_ends_while_daemon_threads_work(what, device, tmp_path):
    """The interpreter unwinds the stacks of threads that ask for it then, and drivers are torn down."""
    environment = {"POCL_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(pl.__file__).parent.parent)}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", DAEMONS, device, what],
            env={**os.environ, **environment},
            text=True,
            capture_output=True,
            timeout=100,
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("asked", "threads"), [("1", 1), ("1,4", 1), ("4096", None), ("0", None), ("many", None)])
def test_threads_that_the_environment_asks_for(asked, threads):
    """As torchrun and batch systems ask; more than the processors would wait for each other."""
    code = (
        "import pylayout as pl\ng = pl.Graph()\ng.output(g.relu(g.input('x', (2, 3))))\n"
        "print(pl.compile(g, device='cpu', tune='off').explain().splitlines()[0])\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": asked}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    expected = threads or len(os.sched_getaffinity(0))
    assert done.stdout.startswith(f"plan for cpu, {expected} thread"), done.stdout + done.stderr
