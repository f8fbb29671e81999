"""Live runs: others compete with a plan in its own runs; results stay, choices are kept, the cost is bounded."""

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


def run_until_settled(plan, x, seconds=120):
    """The time of all runs, in ms, and how many there were."""
    want, end = expected(x), time.monotonic() + seconds
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
plan = pl.compile(network(n), device="cpu", progress=lambda stage, fraction: stages.append(stage), **options)
first = plan.summary()
print("compiled", flush=True)
spent, runs = run_until_settled(plan, image(n))
last = plan.summary()
ways = lambda summary: [choice.get("implementation") for choice in summary["choices"]]
print(json.dumps({"stages": stages, "first": first["tuning"], "last": last["tuning"],
    "contestants": last["contestants"],
                  "recalled": first["recalled"], "spent": spent, "runs": runs,
                  "began": ways(first), "ended": ways(last)}))
"""


def arguments(cache, n, options):
    root = str(Path(pl.__file__).parent.parent)
    environment = {**os.environ, "PYLAYOUT_CACHE_DIR": str(cache), "PYTHONPATH": root, "PYLAYOUT_OPENCL": "none"}
    return {
        "args": [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(n), json.dumps(options)],
        "env": environment,
        "text": True,
    }


def lived(cache, n=1, **options):
    done = subprocess.run(**arguments(cache, n, options), capture_output=True, timeout=300)
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


def test_a_kill_in_the_midst_loses_nothing(tmp_path):
    cache = tmp_path / "cache"
    for wait in (0.2, 0.6, 1.2):
        process = subprocess.Popen(**arguments(cache, 1, {}), stdout=subprocess.PIPE)
        assert process.stdout.readline() == "compiled\n"
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    found = lived(cache)
    assert found["last"]["state"] == "settled"
