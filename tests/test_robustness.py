"""What goes wrong around a program: no memory, odd environments, forks, ends, many threads at once."""

import concurrent.futures
import gc
import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy
import pytest

import pylayout as pl
from pylayout import ops


def start(code: str, *, remove: tuple[str, ...] = (), **changes: str) -> subprocess.CompletedProcess:
    root = str(Path(pl.__file__).parent.parent)
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
    env = {**os.environ, "PYTHONPATH": path, **changes}
    for name in remove:
        env.pop(name, None)
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)


def network(x, weights):
    y = ops.conv2d(x, weights[0], padding=1, activation="relu")
    y = ops.max_pool2d(y, 2)
    y = ops.conv2d(y, weights[1], padding=1)
    return ops.softmax(ops.mean(y, (2, 3)), 1)


def make_network(rng, device="cpu"):
    x = rng.standard_normal((2, 8, 12, 12)).astype("float32")
    weights = [rng.standard_normal(shape).astype("float32") for shape in ((16, 8, 3, 3), (8, 16, 3, 3))]
    return pl.asarray(x, device=device), [pl.asarray(w, device=device) for w in weights]


def test_everything_works_again_after_out_of_memory(device, rng, untuned):
    x, weights = make_network(rng, device)
    wanted = network(x, weights).numpy()
    pl.release_caches()
    gc.collect()
    start_bytes = pl.memory(device)["in_use"]
    failed = 0
    try:
        # At each of these limits the network stops at another place.
        for spare in (0, 4096, 12_288, 40_000, 80_000, 160_000):
            pl.release_caches()
            pl.set_memory_limit(device, start_bytes + spare or 1)
            try:
                numpy.testing.assert_allclose(network(x, weights).numpy(), wanted, rtol=1e-4, atol=1e-5)
            except pl.OutOfMemoryError as error:
                assert device in str(error)
                failed += 1
            gc.collect()
            # Copies in other layouts are kept with the weights; nothing else may stay.
            assert pl.memory(device)["in_use"] <= start_bytes + 64_000
    finally:
        pl.set_memory_limit(device, None)
    assert failed >= 1
    numpy.testing.assert_allclose(network(x, weights).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_measuring_needs_no_memory_that_is_not_there(device):
    """What fits runs, though not twice: then estimates choose."""
    x = pl.asarray(numpy.ones((1, 16, 128, 131), "float32"), device=device)
    pl.release_caches()
    gc.collect()
    try:
        pl.set_memory_limit(device, pl.memory(device)["in_use"] + 5 * x.nbytes // 4 + (1 << 16))
        numpy.testing.assert_array_equal(ops.softmax(x, 3).numpy(), numpy.full(x.shape, 1 / 131, "float32"))
    finally:
        pl.set_memory_limit(device, None)


def test_memory_returns_to_the_start(device, rng, untuned):
    network(*make_network(rng, device)).numpy()
    gc.collect()
    before = pl.memory(device)["in_use"]
    for _ in range(5):
        x, weights = make_network(rng, device)
        kept = [network(x, weights), x.to(layout="NHWC"), x.to(dtype="f16"), x[1:], x.to(device="cpu")]
        assert pl.memory(device)["in_use"] > before
        del x, weights, kept
    gc.collect()
    assert pl.memory(device)["in_use"] == before


def test_a_thousand_networks_grow_neither_pool_nor_process(rng):
    x, weights = make_network(rng)
    for _ in range(100):
        network(x, weights).numpy()
    gc.collect()
    pool = pl.memory("cpu")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1000):
        network(x, weights).numpy()
    gc.collect()
    after = pl.memory("cpu")
    assert (after["in_use"], after["allocations"]) == (pool["in_use"], pool["allocations"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 2048  # KiB; one leaked result of each makes 4700


def test_threads_do_different_things_with_one_context(rng):
    x = rng.standard_normal((2, 16, 8, 8)).astype("float32")
    shared = pl.asarray(x)
    w = rng.standard_normal((4, 16, 1, 1)).astype("float32")
    flat = x.reshape(32, 64)
    shifted = x - x.max(1, keepdims=True)
    jobs = [
        (lambda: ops.relu(shared, layout="NHWC"), numpy.maximum(x, 0)),
        (lambda: ops.add(shared, shared, layout="nChw16c"), x + x),
        (lambda: ops.conv2d(shared, w), numpy.einsum("nchw,oc->nohw", x, w[:, :, 0, 0])),
        (lambda: ops.softmax(shared, 1), numpy.exp(shifted) / numpy.exp(shifted).sum(1, keepdims=True)),
        (lambda: ops.sum(shared, (2, 3)), x.sum((2, 3))),
        (lambda: ops.matmul(flat, flat.T), flat @ flat.T),
        (lambda: shared.to(layout="nChw8c"), x),
        (lambda: ops.concat([shared, shared], 1), numpy.concatenate([x, x], 1)),
        (lambda: shared[:, 3:9], x[:, 3:9]),
    ]
    barrier = threading.Barrier(len(jobs))

    def work(number):
        barrier.wait()
        for round in range(12):
            compute, wanted = jobs[(number + round) % len(jobs)]
            numpy.testing.assert_allclose(compute().numpy(), wanted, rtol=1e-3, atol=1e-3)
        return True

    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        assert all(pool.map(work, range(len(jobs))))


def test_errors_in_threads_are_each_threads_own(rng):
    x = pl.asarray(rng.standard_normal((1, 4, 5, 5)).astype("float32"))

    def work(number):
        for _ in range(50):
            with pytest.raises(pl.ShapeError, match=f"{number + 10}"):
                ops.conv2d(x, numpy.zeros((2, number + 10, 3, 3), "float32"))
            assert ops.neg(x).shape == x.shape
        return True

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))


def test_an_exception_in_a_thread_leaves_the_library_usable():
    done = start("""
import threading, numpy, pylayout as pl
threading.excepthook = lambda args: print(type(args.exc_value).__name__)
def work(): pl.ops.matmul(numpy.ones((2, 3), "f4"), numpy.ones((2, 3), "f4"))
t = threading.Thread(target=work); t.start(); t.join()
print(pl.ops.neg(numpy.ones(2, "f4")).numpy().tolist())
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ShapeError\n[-1.0, -1.0]\n", "")


@pytest.mark.parametrize("shape", [(2**31, 2**31), (2**62, 4), (2**40,), (2**63 - 1,), (1, 2**33, 2**33, 1)])
def test_huge_sizes_are_refused(shape):
    with pytest.raises((pl.OutOfMemoryError, pl.ShapeError)):
        pl.zeros(shape)


def test_a_result_too_large_to_hold_is_an_error(rng):
    x = pl.zeros((1, 1, 4, 4))
    with pytest.raises(pl.Error):
        ops.pad(x, (2**31, 2**31, 2**31, 2**31))
    with pytest.raises(pl.Error):
        ops.matmul(pl.zeros((2**22, 1)), pl.zeros((1, 2**22)))  # 64 TiB
    assert ops.relu(x).shape == (1, 1, 4, 4)


NONSENSE = """
import json, numpy, pylayout as pl
print(json.dumps([provider["notes"] for provider in pl.device.describe()["providers"]]))
assert pl.ops.relu(numpy.ones(3, "f4")).numpy().sum() == 3
"""


@pytest.mark.parametrize("content", ["a text file", None])
def test_an_opencl_library_that_is_none(tmp_path, content):
    place = tmp_path / "libOpenCL.so.1"
    if content is not None:
        place.write_text(content)
    done = start(NONSENSE, PYLAYOUT_OPENCL=str(place))
    assert (done.returncode, done.stderr) == (0, "")
    assert str(place) in str(json.loads(done.stdout))
    assert "could not be opened" in done.stdout


@pytest.mark.parametrize("content", ["a text file", None])
def test_a_onednn_library_that_is_none(tmp_path, content):
    place = tmp_path / "libdnnl.so.3"
    if content is not None:
        place.write_text(content)
    done = start(NONSENSE, PYLAYOUT_ONEDNN=str(place))
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: PYLAYOUT_ONEDNN is")
    assert str(place) in done.stderr


def test_a_cache_directory_that_is_a_file(tmp_path):
    place = tmp_path / "file"
    place.write_text("mine")
    done = start(NONSENSE, PYLAYOUT_CACHE_DIR=str(place))
    assert (done.returncode, done.stderr) == (0, "")
    assert place.read_text() == "mine"


def test_a_program_ends_well_with_tensors_everywhere():
    done = start("""
import atexit, numpy, pylayout as pl
class Late:
    def __init__(self): self.x = pl.asarray(numpy.ones((2, 3), "f4"))
    def __del__(self): del self.x
late = Late()
pl.kept = [late, pl.ops.relu(late.x), memoryview(late.x.numpy())]
pl.ops.kept = pl.asarray(numpy.ones((4, 4), "f4"), copy=False)
late.me = late
atexit.register(lambda: print(pl.ops.neg(numpy.ones(1, "f4")).numpy()[0]))
for device in pl.devices(): setattr(pl, device.name.replace(":", ""), pl.zeros((8, 8), device=device))
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "-1.0\n", "")


FORK = """
import os, signal, sys, numpy, pylayout as pl
pl.configure(opencl=False)
x = numpy.ones((1, 16, 32, 32), "f4")
w = numpy.ones((16, 16, 3, 3), "f4")
def work(): return float(pl.ops.conv2d(x, w, padding=1).numpy().sum())
"""


def test_a_fork_before_first_use_is_a_program_of_its_own():
    done = start(
        FORK
        + """
child = os.fork()
ok = work() == float(16 * 16 * 94 * 94)
if child == 0: os._exit(0 if ok else 3)
assert ok
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fork_cannot_read_from_devices_and_says_so(device):
    done = start(
        f"""
import os, signal, numpy, pylayout as pl
pl.configure(tune="off")
x = pl.asarray(numpy.ones((2, 3), "float32"), device={device!r})
y = x * 2
child = os.fork()
if child == 0:
    signal.alarm(30)
    try: ok = numpy.asarray(y).sum() == 12 and {device!r} == "cpu"  # memory of the host may be read
    except pl.DeviceError as error: ok = "forked" in str(error) and {device!r} != "cpu"
    del x, y
    os._exit(0 if ok else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert numpy.asarray(y).sum() == 12
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fork_after_use_says_so_instead_of_hanging():
    done = start(
        FORK
        + """
work()
child = os.fork()
if child == 0:
    signal.alarm(30)
    try: work()
    except pl.DeviceError as error: os._exit(0 if "forked" in str(error) and "spawn" in str(error) else 3)
    os._exit(4)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert work() == float(16 * 16 * 94 * 94)  # the parent is not concerned
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
