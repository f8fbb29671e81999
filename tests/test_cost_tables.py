"""Cost tables of other machines: used where they agree with this one, and otherwise as if they were not there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pylayout as pl

# Prints the choices of a plan of some convolutions, and the table of what was measured.
PROGRAM = """
import json, sys
import numpy
import pylayout as pl
from pylayout.device import costs, export_costs, import_costs
found = {}
if sys.argv[1]:
    found["imported"] = import_costs(open(sys.argv[1]).read())
rng = numpy.random.default_rng(1)
g = pl.Graph()
y = g.input("x", (1, 32, 28, 28))
for i, (c, k) in enumerate(((64, 3), (128, 1), (96, 3), (48, 1), (80, 5))):
    weight = rng.standard_normal((c, y.shape[1], k, k)).astype("float32") / 30
    y = g.conv2d(y, weight, padding=k // 2, name=f"conv{i}")
g.output(y, "y")
plan = pl.compile(g, device="cpu", tune=sys.argv[2], seconds=0 if sys.argv[2] == "full" else None)
plan.freeze()
found["choices"] = {c["node"]: c.get("implementation") for c in plan.summary()["choices"]}
found["table"] = export_costs("cpu")
print(json.dumps(found))
"""


def run(cache, table="", tune="auto"):
    environment = {
        **os.environ,
        "PYLAYOUT_CACHE_DIR": str(cache),
        "PYTHONPATH": str(Path(pl.__file__).parent.parent),
        "PYLAYOUT_OPENCL": "none",
        "OMP_NUM_THREADS": "1",  # measuring with more takes a minute on a busy machine
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(table), tune], env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def rows(table):
    head, rest = table.splitlines()[:2], table.splitlines()[2:]
    return head, [line.split("\t") for line in rest]


def text(head, lines):
    return "\n".join([*head, *("\t".join(line) for line in lines)]) + "\n"


def checksum(text):
    """What begins a line of the cost database."""
    mask, seed = (1 << 64) - 1, 0x70796C61796F7574
    for byte in text.encode():
        x = seed + 0x9E3779B97F4A7C15 + byte & mask
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
        seed = x ^ x >> 31
    return f"{seed:016x}"


def believed(cache):
    lines = [line.split("\t") for line in (Path(cache) / "costs-2.log").read_text().splitlines()]
    return [float(line[4]) for line in lines if line[3] == "believed"]


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A cache of a machine like this one: its times are made up, so that no test hangs on what this machine measures.

    Of the candidates that are measured here the first takes 0.1 ms, each further one 0.2 ms more.
    """
    cache = tmp_path_factory.mktemp("there")
    path, count, lines = cache / "costs-2.log", {}, []
    for _ in range(20):  # what was measured while others had the processor is not kept
        run(cache, tune="full")
        shutil.rmtree(cache / "plans", ignore_errors=True)
        ops = [line.split("\t")[2] for line in path.read_text().splitlines()]
        kept = [ops.count(op) for op in {op for op in ops if op.startswith("conv2d")}]
        if len(kept) == 5 and min(kept) >= 4 and "rates" in ops:
            break
    for line in sorted(path.read_text().splitlines(), key=lambda line: line.split("\t")[1:4]):
        _, _, op, candidate, _ = fields = line.split("\t")
        if op.startswith("conv2d") and candidate.startswith(("host/", "onednn/")):
            count[op] = count.get(op, -1) + 1
            fields[4] = f"{0.1 + 0.2 * min(count[op], 3):.1f}"
        body = "\t".join(fields[1:])
        lines.append(f"{checksum(body)}\t{body}\n")
    assert len(count) == 5 and min(count.values()) >= 1, count
    path.write_text("".join(lines))
    shutil.rmtree(cache / "plans", ignore_errors=True)
    return cache


@pytest.fixture(scope="module")
def measured(there, tmp_path_factory):
    """What that machine exports."""
    return run(copied(there, tmp_path_factory.mktemp("measured")), tune="off")


@pytest.fixture(scope="module")
def without(there, tmp_path_factory):
    """A cache that lacks conv2's times alone; what is chosen."""
    cache = copied(there, tmp_path_factory.mktemp("without"))
    path = cache / "costs-2.log"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "96x128x3x3" not in line))
    found = run(copied(cache, tmp_path_factory.mktemp("copy")))
    return cache, found["choices"]


def copied(cache, target):
    shutil.copytree(cache, target, dirs_exist_ok=True)
    return target


@pytest.fixture
def fresh(without, tmp_path):
    """That cache for a test alone."""
    return copied(without[0], tmp_path / "cache")


@pytest.fixture
def untold(without):
    """The choices without a table."""
    return without[1]


def other_choice(table, op, choice):
    """The same table, by which a candidate of another implementation than `choice` is the best for this op by far."""
    head, lines = rows(table)
    best = next(line for line in lines if line[0] == op and line[1].split("/")[1] != choice)
    changed = [[*line[:2], "1" if line is best else "50"] if line[0] == op else line for line in lines]
    return text(head, changed), best[1]


def op_of(table, node):
    """The description of the convolution `conv0` and so on, by its weights."""
    shapes = {"conv0": "64x32x3x3", "conv1": "128x64x1x1", "conv2": "96x128x3x3", "conv3": "48x96x1x1"}
    (found,) = {line[0] for line in rows(table)[1] if line[0].startswith("conv") and shapes[node] in line[0]}
    return found


def test_an_agreeing_table_prices_what_was_not_measured(tmp_path, fresh, measured, untold):
    table, candidate = other_choice(measured["table"], op_of(measured["table"], "conv2"), untold["conv2"])
    path = tmp_path / "there.costs"
    path.write_text(table)
    found = run(fresh, path)
    assert found["imported"]["devices"] == ["cpu"] and found["imported"]["damaged"] == 0
    assert believed(fresh) == [1]
    assert found["choices"]["conv2"] == candidate.split("/")[1] != untold["conv2"]


def test_without_tuning_a_table_is_not_asked(tmp_path, fresh, measured, untold):
    path = tmp_path / "there.costs"
    path.write_text(other_choice(measured["table"], op_of(measured["table"], "conv2"), untold["conv2"])[0])
    run(fresh, path, tune="off")
    assert believed(fresh) == []


def test_a_stale_table_is_refused_and_changes_nothing(tmp_path, fresh, measured, untold):
    head, lines = rows(measured["table"])
    most = {}
    for op, _, ratio in lines:
        most[op] = max(most.get(op, 1), float(ratio))
    upside_down = [[op, candidate, f"{most[op] / float(ratio):.4g}"] for op, candidate, ratio in lines]
    path = tmp_path / "stale.costs"
    path.write_text(text(head, upside_down))
    found = run(fresh, path)
    assert believed(fresh) == [0]
    run(fresh)
    assert believed(fresh) == [0]  # it is not asked again
    # As if it were not there, but for conv2: its estimates follow the times that checking the table took here.
    assert {**found["choices"], "conv2": ""} == {**untold, "conv2": ""}


def test_a_foreign_table_changes_nothing(tmp_path, fresh, measured, untold):
    head, lines = rows(measured["table"])
    path = tmp_path / "foreign.costs"
    path.write_text(text([head[0], "class\tcpu|neon|threads=64"], lines))
    found = run(fresh, path)
    assert found["imported"]["devices"] == [] and believed(fresh) == []
    assert found["choices"] == untold


def test_damaged_lines_are_skipped_and_counted(tmp_path, fresh, measured, untold):
    head, lines = rows(measured["table"])
    damaged = [
        "no tabs",
        "op\tcandidate\tnan",
        "op\tcandidate\t0.5",
        "op\t\t2",
        "\tcandidate\t2",
        "op\tcandidate\t1e99",
    ]
    path = tmp_path / "damaged.costs"
    path.write_text(text(head, [*lines, *([line] for line in damaged)]))
    found = run(fresh, path)
    assert found["imported"]["damaged"] == len(damaged) and found["imported"]["candidates"] == len(lines)


def test_the_command_exports_and_imports(tmp_path, measured):
    def cache(*arguments, there):
        environment = {**os.environ, "PYLAYOUT_CACHE_DIR": str(there), "PYLAYOUT_OPENCL": "none"}
        environment["OMP_NUM_THREADS"] = "1"
        environment["PYTHONPATH"] = str(Path(pl.__file__).parent.parent)
        command = [sys.executable, "-m", "pylayout", "cache", *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    there = tmp_path / "there"
    run(there, tune="full")
    path = tmp_path / "costs"
    done = cache("export", path, there=there)
    assert done.returncode == 0 and "candidates of" in done.stdout, done
    here = tmp_path / "here"
    done = cache("import", path, there=here)
    assert done.returncode == 0 and "For cpu" in done.stdout, done
    assert len(list((here / "costs").glob("*.costs"))) == 1
    assert cache("clear", there=here).returncode == 0 and not list((here / "costs").glob("*"))
    for arguments, message in (
        (("export", tmp_path / "none"), "nothing was measured on cpu"),
        (("import",), "the name of a file is missing"),
        (("import", tmp_path / "missing"), "cannot be read"),
        (("show", path), "takes no file"),
    ):
        done = cache(*arguments, there=here)
        assert done.returncode == 2 and message in done.stderr, done
    path.write_text("something else\n")
    done = cache("import", path, there=here)
    assert done.returncode != 0 and "no table of costs" in done.stderr, done
