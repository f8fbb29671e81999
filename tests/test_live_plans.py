"""Live runs: others compete with a plan in its own runs; results stay, choices are kept, the cost is bounded.

On `cpu`, where they do by default, and on OpenCL devices with tune="live", where kernels are compiled meanwhile. What
wins is tests/c/test_live_queued.cpp's: there a device's clock says what kernels take.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pytest

import pylayout as pl

RNG = numpy.random.default_rng(7)
WEIGHTS = [
    RNG.standard_normal(shape).astype("float32") / 12 for shape in ((64, 3, 7, 7), (64, 64, 3, 3), (64, 64, 1, 1))
]


def network(n=1, size=224):
    """Runs for some milliseconds, so that chores fit between runs; equal layers are measured as one."""
    g = pl.Graph()
    y = g.conv2d(g.input("x", (n, 3, size, size)), WEIGHTS[0], padding=3, stride=2, activation="relu")
    for _ in range(6):
        y = g.conv2d(y, WEIGHTS[1], padding=1, activation="relu")
        y = g.conv2d(y, WEIGHTS[2], residual=y)
    g.output(y, "y")
    return g


def image(n=1, size=224, seed=0):
    return numpy.random.default_rng(seed).standard_normal((n, 3, size, size)).astype("float32")


def expected(x):
    return pl.compile(network(len(x), x.shape[2]), device="cpu", tune="off").run(x)[0]


def run_until_settled(plan, x, want, seconds=120):
    """The time of all runs, in ms, and how many there were."""
    end = time.monotonic() + seconds
    spent, runs = 0.0, 0
    while not plan.settled():
        assert time.monotonic() < end, plan.summary()["tuning"]
        begin = time.perf_counter()
        (got,) = plan.run(x)
        spent += 1e3 * (time.perf_counter() - begin)
        runs += 1
        numpy.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
    return spent, runs


# In a process of its own, with a cache of its own: prints what the plan says in the end.
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import pylayout as pl
from test_live_plans import image, network, run_until_settled
stages = []
n = int(sys.argv[2])
options = json.loads(sys.argv[3])
if len(sys.argv) > 4:
    from test_live_plans import small_network as network, small_image as image
device = sys.argv[4] if len(sys.argv) > 4 else "cpu"
plan = pl.compile(network(n), device=device, progress=lambda stage, fraction: stages.append(stage), **options)
first = plan.summary()
print("compiled", flush=True)
want = pl.compile(network(n), device="cpu", tune="off").run(image(n))[0]
spent, runs = run_until_settled(plan, image(n), want)
last = plan.summary()
ways = lambda summary: [choice.get("implementation") for choice in summary["choices"]]
print(json.dumps({"stages": stages, "first": first["tuning"], "last": last["tuning"],
    "contestants": last["contestants"],
                  "recalled": first["recalled"], "spent": spent, "runs": runs,
                  "began": ways(first), "ended": ways(last)}))
"""


def arguments(cache, n, options, device=None):
    root = str(Path(pl.__file__).parent.parent)
    environment = {**os.environ, "PYLAYOUT_CACHE_DIR": str(cache), "PYTHONPATH": root}
    if not device:
        environment["PYLAYOUT_OPENCL"] = "none"
    more = [device] if device else []
    return {
        "args": [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(n), json.dumps(options), *more],
        "env": environment,
        "text": True,
    }


def lived(cache, n=1, device=None, **options):
    done = subprocess.run(**arguments(cache, n, options, device), capture_output=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def settled(tmp_path_factory):
    """A cache directory in which a contest was settled, and what it said."""
    cache = tmp_path_factory.mktemp("live") / "cache"
    return cache, lived(cache)


def test_nothing_is_measured_before_the_first_run(settled):
    found = settled[1]
    assert set(found["stages"]) == {"simplifying", "done"}
    assert found["first"].items() >= {"state": "live", "tried": 0, "spent_ms": 0}.items()
    assert not found["recalled"]


def test_the_contest_comes_to_its_end(settled):
    found = settled[1]
    assert found["last"]["state"] == "settled"
    assert found["last"]["tried"] >= 1
    assert found["contestants"][0]["name"] == "untuned"
    assert len(found["contestants"]) >= 2


def test_its_cost_is_bounded(settled):
    found = settled[1]
    # Runs of challengers are begun while something is left to spend, so the last one may exceed it.
    assert found["last"]["spent_ms"] <= 0.05 * found["spent"] + 2 * found["spent"] / found["runs"]


def test_the_next_process_takes_what_was_found(settled):
    cache, before = settled
    found = lived(cache)
    assert found["recalled"]
    assert found["first"]["state"] == found["last"]["state"] == "settled"
    assert found["began"] == before["ended"]
    assert found["runs"] == 0


def test_what_is_to_be_measured_takes_nothing_of_it(settled):
    found = lived(settled[0], seconds=1)
    assert not found["recalled"]
    assert "measuring ops" in found["stages"]


@pytest.mark.slow
def test_a_batch_may_be_cut_otherwise(tmp_path):
    found = lived(tmp_path / "cache", n=4)
    assert found["last"]["state"] == "settled"


def test_deterministic_choices_stay():
    plan = pl.compile(network(), device="cpu", deterministic=True)
    assert plan.settled()
    before = plan.summary()
    assert before["tuning"]["state"] == "pinned"
    for _ in range(20):
        plan.run(image())
    assert plan.summary()["choices"] == before["choices"]


def test_freeze():
    plan = pl.compile(network(size=98), device="cpu")
    assert not plan.settled()
    for _ in range(7):
        plan.run(image(size=98))
    plan.freeze()
    assert plan.settled()
    before = plan.summary()
    assert before["tuning"]["state"] == "pinned"
    for _ in range(20):
        plan.run(image(size=98))
    assert [choice.get("implementation") for choice in plan.summary()["choices"]] == [
        choice.get("implementation") for choice in before["choices"]
    ]
    plan.freeze()  # again: nothing happens
    numpy.testing.assert_allclose(plan.run(image(size=98))[0], expected(image(size=98)), rtol=1e-3, atol=1e-3)


def test_freeze_reaches_plans_for_other_sizes():
    g = pl.Graph(sizes={"n": 1})
    g.output(g.conv2d(g.input("x", ("n", 3, 16, 16)), WEIGHTS[0]), "y")
    plan = pl.compile(g, device="cpu")
    plan.run(numpy.ones((2, 3, 16, 16), "float32"))
    plan.freeze()
    assert plan.settled()
    plan.run(numpy.ones((3, 3, 16, 16), "float32"))
    assert plan.settled()


def test_nothing_competes_while_a_profile_is_recorded():
    plan = pl.compile(network(size=100), device="cpu")
    with pl.profile() as profile:
        for _ in range(10):
            plan.run(image(size=100))
    assert plan.summary()["tuning"].items() >= {"state": "live", "tried": 0, "spent_ms": 0}.items()
    assert len(profile.events) == 10 * len(plan.summary()["steps"])


def test_saved_while_others_compete(tmp_path):
    plan = pl.compile(network(size=90), device="cpu")
    for k in range(30):
        plan.run(image(size=90))
        if k % 10 == 0:
            plan.save(tmp_path / "plan")
            numpy.testing.assert_allclose(
                pl.load_plan(tmp_path / "plan").run(image(size=90))[0],
                plan.run(image(size=90))[0],
                rtol=1e-3,
                atol=1e-3,
            )


def test_threads_share_the_contest():
    plan = pl.compile(network(size=104), device="cpu")
    images = [image(size=104, seed=seed) for seed in range(3)]
    wanted = [expected(x) for x in images]
    problems = []
    end = time.monotonic() + 8

    def work(i):
        try:
            while time.monotonic() < end and not plan.settled():
                numpy.testing.assert_allclose(plan.run(images[i])[0], wanted[i], rtol=1e-3, atol=1e-3)
                if i == 0:
                    plan.explain()
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


@pytest.mark.parametrize("waits", [[0.4], pytest.param([0.2, 0.6, 1.2], marks=pytest.mark.slow)], ids=str)
def test_a_kill_in_the_midst_loses_nothing(waits, tmp_path):
    cache = tmp_path / "cache"
    for wait in waits:
        process = subprocess.Popen(**arguments(cache, 1, {}), stdout=subprocess.PIPE)
        assert process.stdout.readline() == "compiled\n"
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    found = lived(cache)
    assert found["last"]["state"] == "settled"


# Within a block: a child is refused a run, and may let the plan go.
CHILD = """\
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        said = None
        try: plan.run(x)
        except pl.DeviceError as error: said = str(error)
        plan.freeze()
        del plan
        os._exit(0 if said and "forked" in said else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
# Threads hold the locks of runs, most of the time, when the process is forked.
FORKS = (
    """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
import pylayout as pl
from test_live_plans import image, network
plan = pl.compile(network(size=96), device="cpu")
x = image(size=96)
plan.run(x)
runs, stop = [0], False
def work():
    while not stop:
        plan.run(x)
        runs[0] += 1
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(12):
    before = runs[0]
    while runs[0] < before + 2: pass
"""
    + CHILD
    + """\
stop = True
for thread in threads: thread.join()
"""
)


def test_a_process_may_fork_while_threads_run_a_plan(tmp_path):
    environment = arguments(tmp_path, 1, {})["env"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS, str(Path(__file__).parent)],
        env=environment,
        text=True,
        capture_output=True,
        timeout=200,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_live_is_the_default_on_the_cpu():
    plan = pl.compile(network(size=64), device="cpu", tune="live")
    assert plan.summary()["tuning"]["state"] == "live"


def test_live_measures_nothing_before():
    with pytest.raises(pl.InvalidArgumentError, match='tune is "live" and seconds is 2'):
        pl.compile(network(size=64), device="cpu", tune="live", seconds=2)
    with pytest.raises(pl.InvalidArgumentError, match="tune"):
        pl.compile(network(size=64), device="cpu", tune="lively")


# ---- on devices whose kernels are compiled ----


def small_network(n=1, size=20):
    """Some of the kinds that kernels are compiled for, in milliseconds each where the runtime is a processor's."""
    rng = numpy.random.default_rng(3)
    g = pl.Graph()
    y = g.input("x", (n, 3, size, size))
    for channels in (3, 16, 16):
        w = rng.standard_normal((16, channels, 3, 3)).astype("float32") / 12
        y = g.conv2d(y, w, padding=1, activation="relu")
    y = g.max_pool2d(y, 2)
    g.output(g.softmax(g.reshape(y, shape=(n, 4 * size * size)), dim=1), "y")
    return g


def small_image(n=1, size=20):
    return numpy.random.default_rng(0).standard_normal((n, 3, size, size)).astype("float32")


def live_plan(device, size, **options):
    """A plan whose contest begins, its input and its result; each size serves one test, as choices are kept."""
    x = small_image(size=size)
    want = pl.compile(small_network(size=size), device="cpu", tune="off").run(x)[0]
    plan = pl.compile(small_network(size=size), device=device, tune="live", **options)
    assert not plan.summary()["recalled"]
    return plan, x, want


def close(got, want):
    numpy.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_opencl_measures_before_by_default(opencl_device):
    plan = pl.compile(small_network(size=8), device=opencl_device, seconds=0.5)
    assert plan.settled()
    assert plan.summary()["tuning"]["state"] == "settled"


def test_results_are_right_while_kernels_are_compiled(opencl_device):
    plan, x, want = live_plan(opencl_device, 10)
    assert plan.summary()["tuning"].items() >= {"state": "live", "tried": 0, "spent_ms": 0}.items()
    end = time.monotonic() + 120
    while not plan.settled():
        assert time.monotonic() < end, plan.summary()["tuning"]
        close(plan.run(x)[0], want)
    tuning = plan.summary()["tuning"]
    assert tuning["state"] == "settled"
    assert tuning["spent_ms"] > 0  # something was measured beside runs
    before = plan.summary()["choices"]
    for _ in range(20):
        close(plan.run(x)[0], want)
    assert plan.summary()["choices"] == before


def test_runs_that_nobody_waits_for(opencl_device):
    plan, x, want = live_plan(opencl_device, 12)
    x = pl.asarray(x, device=opencl_device)
    for _ in range(12):
        results = [plan(x) for _ in range(25)]
        for result in results:
            close(result.numpy(), want)


def test_freeze_ends_compiling(opencl_device):
    plan, x, want = live_plan(opencl_device, 14)
    for _ in range(4):
        plan.run(x)
    plan.freeze()
    assert plan.settled()
    before = plan.summary()["choices"]
    for _ in range(20):
        close(plan.run(x)[0], want)
    assert plan.summary()["choices"] == before
    plan.freeze()


def test_deterministic_choices_stay_on_opencl(opencl_device):
    plan, x, want = live_plan(opencl_device, 16, deterministic=True)
    assert plan.settled()
    before = plan.summary()["choices"]
    for _ in range(20):
        close(plan.run(x)[0], want)
    assert plan.summary()["choices"] == before


@pytest.mark.parametrize("runs", [0, 1, 2, 5])
def test_a_plan_may_go_while_kernels_are_compiled(opencl_device, runs):
    plan, x, want = live_plan(opencl_device, 30 + 2 * runs)
    results = [plan.run(x)[0] for _ in range(runs)]
    del plan
    for result in results:
        close(result, want)


def test_threads_of_one_context_share_it(opencl_device):
    made = [live_plan(opencl_device, size) for size in (18, 22)]
    plans, problems = [plan for plan, _, _ in made], []
    end = time.monotonic() + 10

    def work(i):
        try:
            while time.monotonic() < end and not all(plan.settled() for plan in plans):
                plan, x, want = made[i % 2]
                close(plan.run(x)[0], want)
                if i == 0:
                    plans[1].explain()
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_a_state_is_updated_once_a_run(opencl_device):
    g = pl.Graph()
    count = g.state("count", numpy.zeros((1,), "float32"))
    x = g.input("x", (1, 16, 12, 12))
    w = numpy.random.default_rng(1).standard_normal((16, 16, 3, 3)).astype("float32")
    g.output(g.conv2d(x, w, padding=1), "y")
    g.update(count, g.add(count, numpy.ones((1,), "float32")))
    plan = pl.compile(g, device=opencl_device, tune="live")
    zeros = numpy.zeros((1, 16, 12, 12), "float32")
    for _ in range(150):
        plan.run(zeros)
    assert plan.state("count")[0] == 150


def test_what_was_found_is_kept(opencl_device, tmp_path):
    first = lived(tmp_path / "cache", device=opencl_device, tune="live")
    assert set(first["stages"]) <= {"simplifying", "done"}
    assert first["last"]["state"] == "settled"
    again = lived(tmp_path / "cache", device=opencl_device, tune="live")
    assert again["recalled"]
    assert again["runs"] == 0
    assert again["began"] == first["ended"]


# Kernels are compiled in a thread at each of these moments, which a child does not have.
ENDS = (
    """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import pylayout as pl
from test_live_plans import small_image, small_network
plan = pl.compile(small_network(), device=sys.argv[2], tune="live")
x = small_image()
runs = [plan.run(x)[0] for _ in range(4)]
if sys.argv[3] == "fork":
"""
    + CHILD
    + """\
    for _ in range(8): runs.append(plan.run(x)[0])  # the parent is not concerned
assert all(abs(run - runs[0]).max() < 1e-4 for run in runs)
"""
)


@pytest.mark.parametrize("how", ["end", "fork"])
def test_a_process_may_end_or_fork_while_kernels_are_compiled(opencl_device, tmp_path, how):
    for turn in range(2):
        done = subprocess.run(
            [sys.executable, "-c", ENDS, str(Path(__file__).parent), opencl_device, how],
            env={
                **os.environ,
                "PYLAYOUT_CACHE_DIR": str(tmp_path / f"cache{turn}"),
                "POCL_CACHE_DIR": str(tmp_path),  # the second turn is over sooner
                "PYTHONPATH": str(Path(pl.__file__).parent.parent),
            },
            text=True,
            capture_output=True,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")
