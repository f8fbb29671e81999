"""Choices of a compilation, kept for the next process that compiles the same graph."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from plan_cases import need_threads
from plan_files import resealed

import pylayout as pl

# Compiles once with each of the options given, and prints what it found.
COMPILE = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
from plan_cases import assert_same, graph_of, image
import pylayout as pl
found = []
for options in json.loads(sys.argv[2]):
    if options == "clear costs":
        pl.device.clear_costs()
        continue
    if "file" in options:
        pathlib.Path(sys.argv[3]).write_bytes(bytes.fromhex(options.pop("file")))
    n = options.pop("n", 2)
    stages = []
    progress = lambda stage, fraction: stages.append(stage)
    plan = pl.compile(graph_of(n), device=options.pop("device", "cpu"), progress=progress, **options)
    assert_same(plan.run(image(n)), image(n))
    summary = plan.summary()
    found.append({
        "recalled": summary["recalled"], "contestants": summary["contestants"], "stages": stages,
        "explain": plan.explain(),
        "ways": [(step["kind"], step["node"], step.get("implementation"), step["inputs"], step["outputs"])
                 for step in summary["steps"]],
    })
print(json.dumps(found))
"""


def compiled(cache, *each, **variables):
    """In a process of its own, without OpenCL unless told otherwise."""
    root = str(Path(pl.__file__).parent.parent)
    variables = {"PYLAYOUT_CACHE_DIR": str(cache), "PYTHONPATH": root, "PYLAYOUT_OPENCL": "none", **variables}
    kept = list((cache / "plans").glob("*")) if (cache / "plans").is_dir() else []
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(Path(__file__).parent), json.dumps(each), *map(str, kept)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def file_in(cache):
    (path,) = (cache / "plans").iterdir()
    return path


def rewrite(path, spent):
    """Says what a quiet machine would have said: tests share theirs with others."""
    data = re.sub(rb"\nmarked\t\d+(?=\n)", b"", path.read_bytes())
    start, end = data.index(b"spent"), data.index(b"\nend\t") + 1
    path.write_bytes(resealed(data[:start] + b"spent\t" + spent + data[data.index(b"\n", start) : end]))


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    cache = tmp_path_factory.mktemp("compiled") / "cache"
    (found,) = compiled(cache, {"seconds": 5})
    assert not found["recalled"]
    rewrite(file_in(cache), b"5\t1\t0")
    return cache, found


@pytest.fixture
def made(compiled_once, tmp_path):
    """A cache directory in which the graph was compiled, and what that gave."""
    cache, found = compiled_once
    return shutil.copytree(cache, tmp_path / "cache"), found


def test_the_next_process_takes_the_same_choices_and_measures_nothing(made):
    cache, before = made
    (found,) = compiled(cache, {})
    assert found["recalled"]
    assert "earlier compilation" in found["explain"]
    assert "earlier compilation" not in before["explain"]
    assert found["ways"] == before["ways"]
    assert [contestant["name"] for contestant in found["contestants"]] == [
        contestant["name"] for contestant in before["contestants"]
    ]
    kept = pytest.approx(
        [contestant["ms"] for contestant in before["contestants"]], rel=1e-5
    )  # the file has six digits
    assert [contestant["ms"] for contestant in found["contestants"]] == kept
    assert set(found["stages"]) == {"simplifying", "done"} < set(before["stages"])


def test_on_an_opencl_device(opencl_device, tmp_path):
    cache, options = tmp_path / "cache", {"device": opencl_device, "seconds": 2}
    opencl = os.environ.get("PYLAYOUT_OPENCL", "")
    compiled(cache, options, PYLAYOUT_OPENCL=opencl)
    rewrite(file_in(cache), b"2\t1\t0")
    assert compiled(cache, options, PYLAYOUT_OPENCL=opencl)[0]["recalled"]


@pytest.mark.parametrize(
    "options",
    [{"n": 3}, {"threads": 1}, {"layout": "NHWC"}, {"without": "in_place"}, {"math": "tf32"}, {"slice": 1},
     {"tune": "off"}, {"tune": "full"}],
    ids=str,
)  # fmt: skip
def test_what_was_chosen_for_something_else_is_not_taken(made, options):
    if "threads" in options:
        need_threads(2)
    assert not compiled(made[0], {"seconds": 1, **options})[0]["recalled"]


def test_constants_may_have_other_values(made):
    cache = made[0]
    code = "import plan_cases; plan_cases.W = {k: 2 * w for k, w in plan_cases.W.items()}"
    program = COMPILE.replace("import pylayout as pl", "import pylayout as pl\n" + code, 1)
    done = subprocess.run(
        [sys.executable, "-c", program, str(Path(__file__).parent), "[{}]"],
        env={**os.environ, "PYLAYOUT_CACHE_DIR": str(cache), "PYTHONPATH": str(Path(pl.__file__).parent.parent),
             "PYLAYOUT_OPENCL": "none"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)[0]["recalled"]


def test_forgotten_with_the_costs(made):
    first, second = compiled(made[0], {}, "clear costs", {"seconds": 1})
    assert first["recalled"] and not second["recalled"]


@pytest.mark.parametrize(
    ("spent", "seconds", "recalled"),
    [
        (b"5\t0\t0", 5, True),  # short of time, and given no more
        (b"5\t0\t0", 6, False),
        (b"5\t0\t0", 0, False),  # no limit
        (b"0\t0\t0", 6, True),
        (b"5\t1\t1", 5, False),  # the machine was busy
        (b"5\t0\t3", 6, True),  # three times in a row
    ],
)
def test_a_compilation_that_was_cut_short_is_continued(made, spent, seconds, recalled):
    rewrite(file_in(made[0]), spent)
    assert compiled(made[0], {"seconds": seconds})[0]["recalled"] == recalled


def test_a_short_compilation_is_continued_by_a_longer_one(tmp_path):
    need_threads(2)  # on one processor nothing is tried in slices, so that what there is to measure takes no longer
    cache = tmp_path / "cache"
    assert not compiled(cache, {"seconds": 0.001})[0]["recalled"]
    spent = next(line for line in file_in(cache).read_bytes().split(b"\n") if line.startswith(b"spent")).split(b"\t")
    assert spent[1:3] == [b"0.001", b"0"]


def test_damage_costs_a_compilation(made):
    whole = file_in(made[0]).read_bytes()
    end = whole.index(b"\nend\t") + 1
    last = whole.rindex(b"\nchoice\t", 0, end)
    damaged = [whole[:length] for length in (0, 7, len(whole) // 2, len(whole) - 1)]
    damaged += [whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1 :] for k in range(3, end, end // 6)]
    damaged += [b"\0" * 100, os.urandom(5000)]
    damaged += [
        resealed(text)
        for text in (whole[:last] + b"\nchoice\tnothing\n", whole[: last + 1], b"pylayout choices 2\n", whole[:end] * 2)
    ]
    found = compiled(made[0], *({"file": data.hex(), "seconds": 0.2} for data in damaged), {"file": whole.hex()})
    assert [compilation["recalled"] for compilation in found] == [False] * len(damaged) + [True]


def test_a_place_that_cannot_be_written_costs_nothing_but_the_next_compilation(tmp_path):
    if os.geteuid() == 0:
        (tmp_path / "plans").write_text("not a folder")  # root may write anywhere
    else:
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    first, second = compiled(tmp_path, {"seconds": 1}, {"seconds": 1})
    assert not first["recalled"] and not second["recalled"]
    assert numpy.isfinite([contestant["ms"] for contestant in first["contestants"]]).all()
