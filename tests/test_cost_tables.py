"""Cost tables of other machines: used where they agree with this one, and otherwise as if they were not there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pylayout as pl
from pylayout.device import clear_costs, costs, import_costs

# Prints the choices of a plan of some convolutions, and the table of what was measured.
PROGRAM = """
import json, sys
import numpy
import pylayout as pl
from pylayout.device import costs, export_costs, import_costs
pl.configure(cost_tables=json.loads(sys.argv[3]))
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
found["costs"] = costs()
print(json.dumps(found))
"""


def run(cache, table="", tune="auto", cost_tables=True):
    environment = {
        **os.environ,
        "PYLAYOUT_CACHE_DIR": str(cache),
        "PYTHONPATH": str(Path(pl.__file__).parent.parent),
        "PYLAYOUT_OPENCL": "none",
        "OMP_NUM_THREADS": "1",  # measuring with more takes a minute on a busy machine
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(table), tune, json.dumps(cost_tables)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def rows(table):
    """The two lines that a table begins with, and of each candidate its op, its name and its ratio."""
    head, rest = table.splitlines()[:2], [line.split("\t") for line in table.splitlines()[2:]]
    ways = [line[1] for line in rest if line[0] == "way"]
    lines = []
    for op, _, *pairs in (line for line in rest if line[0] not in ("about", "way")):
        lines += [[op, ways[int(pair.split(":")[0])], pair.split(":")[1]] for pair in pairs]
    return head, lines


def text(head, lines, more=()):
    """The text of such a table; every op's fastest candidate took 0.1 ms. `more`: lines behind it."""
    ways = sorted({line[1] for line in lines})
    ops = {}
    for op, way, ratio in lines:
        ops.setdefault(op, [op, "0.1"]).append(f"{ways.index(way)}:{ratio}")
    return "\n".join([*head, *(f"way\t{way}" for way in ways), *("\t".join(op) for op in ops.values()), *more]) + "\n"


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
    return [float(line[4]) for line in lines if line[3] in ("believed", "busy believed")]


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A cache of a machine like this one: its times are made up, so that no test hangs on what this machine measures.

    Of the candidates that are measured here the first takes 0.1 ms, each further one 0.2 ms more.
    """
    cache = tmp_path_factory.mktemp("there")
    path, count, lines = cache / "costs-2.log", {}, []
    run(cache, tune="full")
    # What was measured while others had the processor is as good here.
    measured = path.read_text().replace("\tbusy ", "\t").splitlines()
    for line in sorted(measured, key=lambda line: line.split("\t")[1:4]):
        _, _, op, candidate, _ = fields = line.split("\t")
        if op.startswith("conv2d") and candidate.startswith(("host/", "onednn/")):
            count[op] = count.get(op, -1) + 1
            fields[4] = f"{0.1 + 0.2 * min(count[op], 3):.1f}"
        body = "\t".join(fields[1:])
        lines.append(f"{checksum(body)}\t{body}\n")
    assert len(count) == 5 and min(count.values()) >= 3, count
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
    (speed,) = believed(fresh)
    assert speed > 0
    shown = [table for table in found["costs"]["tables"] if table["imported"]]
    assert [(one["device"], one["found"], one["speed"]) for one in shown[0]["devices"]] == [("cpu", "believed", speed)]
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
    path.write_text(text([head[0], "class\tcpu|neon\t64"], lines))
    found = run(fresh, path)
    assert found["imported"]["devices"] == [] and believed(fresh) == []
    assert found["choices"] == untold


def test_damaged_lines_are_skipped_and_counted(tmp_path, fresh, measured, untold):
    head, lines = rows(measured["table"])
    damaged = [
        "no tabs",
        "op\t1",
        "op\t\t0:1",
        "op\tnan\t0:1",
        "op\t-1\t0:1",
        "op\t1\t0:nan",
        "op\t1\t0:0.5",
        "op\t1\t0:1e99",
        "op\t1\t0",
        "op\t1\t99:2",
        "op\t1\t-1:2",
        "\t1\t0:1",
    ]
    path = tmp_path / "damaged.costs"
    path.write_text(text(head, lines, damaged))
    found = run(fresh, path)
    assert found["imported"]["damaged"] == len(damaged) and found["imported"]["candidates"] == len(lines)


def test_a_table_says_what_candidates_take_within_programs(there, tmp_path):
    """Where it is known; of the others what they took alone, times what those took more that are known both ways."""
    cache = copied(there, tmp_path / "cache")
    path = cache / "costs-2.log"
    op = op_of(run(copied(cache, tmp_path / "before"), tune="off")["table"], "conv2")
    kept = [line for line in path.read_text().splitlines() if f"\t{op}\twithin " not in line]
    path.write_text("".join(f"{line}\n" for line in kept))
    lines = [line.split("\t")[1:] for line in kept]
    alone = {line[2]: float(line[3]) for line in lines if line[1] == op}
    first = min(alone, key=alone.__getitem__)
    environment = next(line[0] for line in lines if line[1:3] == [op, first])
    for name, ms in ((f"within {first}", 4 * alone[first]), ("within host/new/abcd,Abcd16a>abcd", 0.2)):
        body = "\t".join([environment, op, name, f"{ms:.9g}"])
        with path.open("a") as file:
            file.write(f"{checksum(body)}\t{body}\n")
    table = run(cache, tune="off")["table"]
    (least,) = [float(line.split("\t")[1]) for line in table.splitlines() if line.startswith(op + "\t")]
    found = {way: least * float(ratio) for text, way, ratio in rows(table)[1] if text == op}
    expected = {way: 4 * ms for way, ms in alone.items()} | {"host/new/abcd,Abcd16a>abcd": 0.2}
    assert least == 0.2 and found == pytest.approx(expected, rel=0.01)


def test_a_table_of_more_threads_serves_too(tmp_path, fresh, measured, untold):
    """One of a number that is far away is not looked at."""
    table, candidate = other_choice(measured["table"], op_of(measured["table"], "conv2"), untold["conv2"])
    head, lines = rows(table)
    path = tmp_path / "kin.costs"
    same, own = head[1].rsplit("\t", 1)
    for times, serves in ((4, True), (8, False)):
        cache = copied(fresh, tmp_path / f"{times}-times")
        path.write_text(text([head[0], f"{same}\t{times * int(own)}"], lines))
        found = run(cache, path)
        assert (found["imported"]["devices"] == ["cpu"]) == serves
        assert len(believed(cache)) == serves
        assert (found["choices"]["conv2"] == candidate.split("/")[1]) == serves


def test_tables_of_the_package_are_found_and_say_where_they_are_from():
    files = sorted((Path(pl.__file__).parent / "costs").glob("*.costs"))
    assert files and sum(file.stat().st_size for file in files) < 2 << 20
    shown = [table for table in costs()["tables"] if not table["imported"]]
    assert [Path(table["path"]).resolve() for table in shown] == [file.resolve() for file in files]
    for file in files:
        table = file.read_text("utf-8")
        _, lines = rows(table)
        about = dict(line.split("\t")[1:] for line in table.splitlines() if line.startswith("about\t"))
        assert set(about) == {"machine", "versions", "day", "command"}, file
        ratios = {}
        for op, candidate, ratio in lines:
            assert candidate.count("/") >= 2 and ">" in candidate
            ratios.setdefault(op, []).append(float(ratio))
        assert len(ratios) >= 10 and all(min(each) == 1 for each in ratios.values()), file
        # Nothing is skipped when it is read.
        found = import_costs(table)
        assert (found["damaged"], found["ops"], found["candidates"]) == (0, len(ratios), len(lines))
        clear_costs()


def test_tables_may_be_switched_off(tmp_path, fresh, measured, untold):
    path = tmp_path / "there.costs"
    path.write_text(other_choice(measured["table"], op_of(measured["table"], "conv2"), untold["conv2"])[0])
    found = run(fresh, path, cost_tables=False)
    assert believed(fresh) == [] and found["choices"] == untold
    assert found["costs"]["cost_tables"] is False


def test_the_command_exports_and_imports(tmp_path, there):
    def cache(*arguments, there):
        environment = {**os.environ, "PYLAYOUT_CACHE_DIR": str(there), "PYLAYOUT_OPENCL": "none"}
        environment["OMP_NUM_THREADS"] = "1"
        environment["PYTHONPATH"] = str(Path(pl.__file__).parent.parent)
        command = [sys.executable, "-m", "pylayout", "cache", *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    path = tmp_path / "costs"
    done = cache("export", path, there=copied(there, tmp_path / "there"))
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
