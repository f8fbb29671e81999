"""The command line, as a user runs it: in a process of its own, with a cache folder of its own."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pylayout.cli import UsageError, main
from pylayout.cli.progress import Progress
from pylayout.cli.query import parse_input, parse_value
from pylayout.cli.terminal import Table, bar, bytes_text, ms_text

CONV = ("conv2d", "--input", "1,8,12,12", "--input", "16,8,3,3", "--set", "padding=1")


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(cache, tmp_path):
    """Runs a command and returns (exit code, standard output, standard error)."""

    def run_command(*arguments: str, folder: Path = cache, **variables: str) -> tuple[int, str, str]:
        environment = {**os.environ, "PYLAYOUT_CACHE_DIR": str(folder), **variables}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-m", "pylayout", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=500
        )
        return done.returncode, done.stdout, done.stderr

    return run_command


def result(answer: tuple[int, str, str]) -> object:
    """What a command wrote as JSON to standard output, and it must have written nothing else."""
    code, out, err = answer
    assert code == 0, err
    assert err == ""
    return json.loads(out)


def failure(answer: tuple[int, str, str], expected: int) -> str:
    """The one line on standard error of a command that failed."""
    code, _, err = answer
    assert code == expected, (code, err)
    assert "Traceback" not in err
    if expected == 1:
        assert err.count("\n") == 1 and err.startswith("error: ")
    return err


# ---- as a whole ----


@pytest.mark.parametrize(
    "arguments",
    [["--help"], *([c, "--help"] for c in ("devices", "query", "tune", "run", "explain", "profile", "train", "cache"))],
)
def test_help(arguments, capsys):
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: pylayout")
    if len(arguments) > 1:
        assert "--json" in out


def test_version(capsys):
    import pylayout

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pylayout {pylayout.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["paint"], "invalid choice"),
        (["profile"], "NETWORK"),
        (["profile", "resnet51"], "neither a file nor one of resnet50"),
        (["profile", "resnet50", "--batch", "0"], "'0' is not a whole number above zero"),
        (["profile", "resnet50", "--threads", "two"], "'two' is not a whole number above zero"),
        (["profile", "resnet50", "--seconds", "nan"], "not a number of seconds"),
        (["profile", "resnet50", "--policies", "NCHW,blue"], "'blue' is neither"),
        (["profile", "resnet50", "--policies", "OIhw16i16o5a"], "neither"),
        (["profile", "resnet50", "--policies", "nCdhw16c"], "neither"),
        (["profile", "resnet50", "--policies", "NCHW", "NCHW"], "expected each policy once"),
        (["profile", "resnet50", "--policies", ","], "expected each policy once"),
        (["profile", "resnet50", "--report", "/nowhere/a.html"], "--report /nowhere/a.html: its folder"),
        (["profile", "resnet50", "--json", "/nowhere/a.json"], "--json /nowhere/a.json: its folder"),
        (["profile", "resnet50", "--device", "toaster"], "no device 'toaster' here, expected one of cpu"),
        (["query"], "which op?"),
        (["query", "conv4d"], "there is no op 'conv4d'; did you mean conv"),
        (["query", "xyzzy"], "there is no op 'xyzzy'; see --list"),
        (["query", "relu", "--input", "1,a"], "--input 1,a: expected a shape"),
        (["query", "relu", "--input", "1,-2"], "expected a shape"),
        (["query", "relu", "--input", "=1,2"], "expected a shape"),
        (["query", "relu", "--input", "y=1,2"], "relu has no tensor 'y', expected x"),
        (["query", "relu", "--input", "1,2", "--set", "alpha"], "--set alpha: expected KEY=VALUE"),
        (["profile", "resnet50", "--report", "/tmp"], "--report /tmp: is a folder, expected a file"),
        (["profile", "resnet50", "--json", "/tmp"], "--json /tmp: is a folder"),
        (["profile", "resnet50", "--json", ""], "--json: the name of the file is empty"),
        (["profile", "resnet50", "--image", "no.jpg"], "--image no.jpg: no such file"),
        (["profile", "resnet50", "--weights", "/tmp"], "--weights /tmp: is a folder"),
        (["profile", "resnet50", "--seed", "-1"], "'-1' is not a whole number from zero on"),
        (["verify", "--seed", "-1"], "'-1' is not a whole number from zero on"),
        (["profile", "resnet50", "--threads", "99999999999999999999"], "'99999999999999999999' is more than 4096"),
        (["cache", "export", "a.costs", "--threads", "99999999999"], "'99999999999' is more than 4096"),
        (["cache", "export", "/tmp"], "cache export /tmp: is a folder"),
        (["cache", "export", "/nowhere/a"], "cache export /nowhere/a: its folder"),
        (["tune", "--export", "/tmp"], "--export /tmp: is a folder"),
        (["tune", "--import", "/tmp"], "--import /tmp: is a folder"),
        (["query", "relu", "--input", "1,2", "--input", "1,2"], "--input: 2 are given, relu takes 1 tensor: x"),
        (
            ["query", "conv2d", *["--input", "1,1,1,1"] * 6],
            "--input: 6 are given, conv2d takes 5 tensors: x, weight, bias, residual, gate",
        ),
        (["query", "relu", "--input", "x=1,2", "--input", "1,2"], "relu: x is given twice"),
        (["query", "relu", "--input", "1,64,999999,999999"], "--input 1,64,999999,999999: 238418.1 GiB are needed"),
        (["tune", "relu", "--seconds", "-1"], "not a number of seconds"),
        (["cache", "burn"], "invalid choice"),
    ],
)
def test_wrong_usage(arguments, expected, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""


def test_no_command_prints_help(capsys):
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


def test_what_cannot_be_written_is_named(capsys, monkeypatch, tmp_path):
    def fail(self, *arguments, **keywords):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    assert main(["query", "--list", "--json", f"{tmp_path}/a.json"]) == 1
    assert capsys.readouterr().err == f"error: --json {tmp_path}/a.json: cannot be written: No space left on device\n"


def test_a_closed_standard_output_is_no_error(run):
    command = f"{sys.executable} -m pylayout query --list >&-"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


# ---- devices ----


def test_devices(run):
    code, out, err = run("devices")
    assert code == 0 and err == ""
    assert "cpu" in out and "onednn" in out and "Threads on the cpu" in out
    assert len(run("devices", "--verbose")[1]) > len(out)


def test_devices_json(run, cache, tmp_path):
    found = result(run("devices", "--json"))
    assert sorted(found) == ["cache_dir", "devices", "providers", "threads", "wrong"]
    assert found["devices"][0]["name"] == "cpu"
    assert "onednn" in found["devices"][0]["providers"]
    assert found["cache_dir"] == str(cache)
    code, out, _ = run("devices", "--json", "devices.json")
    assert code == 0 and "onednn" in out  # the table still goes to standard output
    assert json.loads((tmp_path / "devices.json").read_text("utf-8")) == found


# ---- query, tune ----


def test_query_lists_candidates(run):
    code, out, err = run("query", *CONV)
    assert code == 0, err
    assert "onednn" in out and "op ms" in out and "conv2d" in out


def test_query_forces_the_layout(run):
    for layout in ("NCHW", "NHWC"):
        found = result(run("query", *CONV, "--layout", layout, "--device", "cpu", "--json"))
        assert found["op"] == "conv2d" and found["device"] == "cpu"
        assert found["candidates"][0]["outputs"] == [layout]


def test_query_by_name_dtype_and_layout(run):
    found = result(
        run(
            *("query", "conv2d", "--input", "bias=16", "--input", "weight=16,8,3,3", "--input", "x=1,8,12,12@NHWC"),
            *("--set", "stride=2,1", "--set", "activation=relu", "--json"),
        )
    )
    assert "NHWC" in found["description"] and "stride=[2,1]" in found["description"]
    assert "post_ops=relu" in found["description"] and "(16,)" in found["description"]
    half = result(run("query", "relu", "--input", "2,3:bf16", "--json"))
    assert "bf16 (2, 3)" in half["description"]


def test_query_of_several_tensors(run):
    found = result(run("query", "concat", "--input", "1,8,4,4", "--input", "1,4,4,4", "--set", "dim=1", "--json"))
    assert "(1, 4, 4, 4)" in found["description"]


def test_query_of_a_view(run):
    code, out, _ = run("query", "flatten", "--input", "2,3,4")
    assert code == 0 and "A view" in out


def test_query_lists_ops(run):
    ops = result(run("query", "--list", "--json"))
    assert {"conv2d", "linear", "softmax"} <= {op["name"] for op in ops}
    schema = result(run("query", "conv2d", "--list", "--json"))
    assert [parameter["name"] for parameter in schema["parameters"]][:3] == ["x", "weight", "bias"]
    assert "stride" in run("query", "conv2d", "--list")[1]


def test_tune_measures_and_remembers(run, tmp_path):
    folder = tmp_path / "fresh"
    before = result(run("query", *CONV, "--json", folder=folder))
    assert not any(candidate["measured"] for candidate in before["candidates"])
    tuned = result(run("tune", *CONV, "--seconds", "20", "--json", folder=folder))
    assert tuned["candidates"][0]["measured"]
    after = result(run("query", *CONV, "--json", folder=folder))
    # On a busy machine the estimate of one that was left out may lie below what was measured.
    best = next(candidate for candidate in after["candidates"] if candidate["measured"])
    assert best["op_ms"] == pytest.approx(tuned["candidates"][0]["op_ms"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("query", "conv2d", "--input", "1,8,12,12", "--input", "16,7,3,3"), "conv2d: weight"),
        (("query", "conv2d", "--input", "1,8,12,12"), "weight"),
        (("query", "relu", "--input", "1,2", "--set", "speed=9"), "speed"),
        (("query", "relu", "--input", "1,2:f77"), "f77"),
        (("query", "relu", "--input", "1,2@NCHW"), "NCHW"),
        (("query", "relu", "--input", "1,2", "--layout", "sideways"), "sideways"),
    ],
)
def test_errors_are_one_line(run, arguments, expected):
    assert expected in failure(run(*arguments), 1)


def test_debug_shows_where(run):
    code, _, err = run("query", "relu", "--input", "1,2:f77", "--debug")
    assert code == 1 and "Traceback" in err


# ---- cache ----


def test_cache(run, tmp_path):
    folder = tmp_path / "cache"
    run("tune", *CONV, "--seconds", "5", folder=folder)
    state = result(run("cache", "--json", folder=folder))
    assert state["directory"] == str(folder)
    assert state["costs"]["records"] > 0 and state["costs"]["bytes"] > 0
    assert Path(state["costs"]["path"]).parent == folder
    assert str(folder) in run("cache", folder=folder)[1]
    plan = folder / "plans" / "0123456789abcdef"
    plan.parent.mkdir(exist_ok=True)
    plan.write_bytes(b"choices")
    assert result(run("cache", "--json", folder=folder))["plans"]["files"] == 1
    kernel = folder / "programs" / "a.bin"
    kernel.parent.mkdir(exist_ok=True)
    kernel.write_bytes(b"kernel")
    files = result(run("cache", "--json", folder=folder))["kernels"]["files"]
    assert files == state["kernels"]["files"] + 1

    cleared = result(run("cache", "clear", "--only", "costs", "--json", folder=folder))
    assert cleared["cleared"] == {"costs": state["costs"]["records"]}
    assert not plan.exists()
    assert cleared["costs"]["records"] == 0 and cleared["kernels"]["files"] == files and kernel.exists()
    code, out, _ = run("cache", "clear", folder=folder)
    assert code == 0 and f"{files} kernels cleared" in out
    assert not kernel.exists()
    assert result(run("cache", "--json", folder=folder))["kernels"]["files"] == 0


def test_cache_in_an_unwritable_place(run, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    code, out, err = run("cache", folder=tmp_path / "file" / "cache")
    assert code == 0, err
    assert "measured costs" in out


# ---- profile ----

# Without OpenCL's candidates for the host's processor: to build them takes most of a profile's time, and what it prints
# is in question.  `tune` above measures them too.
WITHOUT_OPENCL = {"PYLAYOUT_OPENCL": "none"}


@pytest.fixture(scope="module")
def profiled(cache, tmp_path_factory) -> dict:
    """One short profile of MobileNetV2, run as a user would."""
    folder = tmp_path_factory.mktemp("profile")
    command = [sys.executable, "-m", "pylayout", "profile", "mobilenet_v2", "--rounds", "1", "--threads", "2"]
    command += ["--report", "report.html", "--json", "out.json", "--policies", "per-op", "NHWC,auto"]
    environment = {
        **os.environ,
        **WITHOUT_OPENCL,
        "PYLAYOUT_CACHE_DIR": str(cache),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=500)
    assert done.returncode == 0, done.stderr
    return {
        "out": done.stdout,
        "err": done.stderr,
        "json": json.loads((folder / "out.json").read_text("utf-8")),
        "report": (folder / "report.html").read_text("utf-8"),
    }


def test_profile_json(profiled):
    found = profiled["json"]
    assert list(found) == ["network", "device", "batch", "policies"]
    assert (found["network"], found["device"], found["batch"]) == ("mobilenet_v2", "cpu", 1)
    assert list(found["policies"]) == ["per-op", "NHWC", "auto"]
    for policy in found["policies"].values():
        assert list(policy) == ["total_ms", "op_ms", "reorder_ms", "reorders", "error"]
        assert 0 < policy["op_ms"] <= policy["total_ms"] + 1e-3
        assert policy["op_ms"] + policy["reorder_ms"] <= policy["total_ms"] + 1e-3
        assert list(policy["reorders"]) == ["activations", "weights"]
        for moved in policy["reorders"].values():
            assert list(moved) == ["count", "bytes"]
            assert (moved["count"] == 0) == (moved["bytes"] == 0)
        assert policy["error"] < 1e-4


def test_profile_counts_what_each_policy_reorders(profiled):
    policies = profiled["json"]["policies"]
    per_op = policies["per-op"]["reorders"]
    assert per_op["weights"]["count"] > 10 and per_op["activations"]["count"] > 10
    assert policies["per-op"]["reorder_ms"] > 0
    for name in ("NHWC", "auto"):  # weights are prepacked
        assert policies[name]["reorders"]["weights"] == {"count": 0, "bytes": 0}
        assert policies[name]["reorders"]["activations"]["count"] < per_op["activations"]["count"]


def test_profile_table_and_report(profiled):
    out = profiled["out"]
    for word in ("mobilenet_v2 on cpu", "per-op", "NHWC", "auto runs", "report: report.html"):
        assert word in out, word
    assert "top 5" not in out  # the weights are no trained ones
    assert profiled["err"] == ""  # no progress bar outside a terminal
    assert "mobilenet_v2 under 3 layout policies" in profiled["report"]
    assert "conv2d" in profiled["report"] and "provider onednn" in profiled["report"]


def test_profile_with_weights_and_image(run, tmp_path):
    import numpy as np

    from pylayout.networks import NETWORKS
    from pylayout.networks.weights import seeded

    save = pytest.importorskip("safetensors.numpy").save_file
    pillow = pytest.importorskip("PIL.Image")
    save(seeded(NETWORKS["mobilenet_v2"], 5), tmp_path / "w.safetensors")
    pixels = np.random.default_rng(0).integers(0, 255, (240, 300, 3), np.uint8)
    pillow.fromarray(pixels).save(tmp_path / "a.png")
    arguments = ["profile", "mobilenet_v2", "--weights", "w.safetensors", "--image", "a.png", "--rounds", "1"]
    arguments += ["--policies", "NCHW", "--batch", "2"]
    code, out, err = run(*arguments, "--json", "found.json", **WITHOUT_OPENCL)
    assert code == 0, err
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert found["batch"] == 2 and found["policies"]["NCHW"]["error"] == 0
    assert "top 5 classes: " in out and "w.safetensors" in out and "a.png" in out


# ---- the pieces ----


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("-1.5", -1.5),
        ("1e-3", 1e-3),
        ("1,1", [1, 1]),
        ("[1, 2]", [1, 2]),
        ("(0.5,2)", [0.5, 2]),
        ("none", None),
        ("True", True),
        ("relu", "relu"),
        ('"relu"', "relu"),
        ("y0 = x0, 2", "y0 = x0, 2"),
        ("5x", "5x"),
    ],
)
def test_parse_value(text, value):
    found = parse_value(text)
    assert found == value and type(found) is type(value)


def test_parse_input():
    assert parse_input("1,64,56,56") == ("", (1, 64, 56, 56), "f32", None)
    assert parse_input("weight=64x64x3x3:bf16@OIhw16i16o") == ("weight", (64, 64, 3, 3), "bf16", "OIhw16i16o")
    assert parse_input("()") == ("", (), "f32", None)
    assert parse_input("0,3") == ("", (0, 3), "f32", None)
    with pytest.raises(UsageError, match="expected a shape"):
        parse_input("conv")


class Stream:
    """Standard output in UTF-8 or not, a terminal or not."""

    def __init__(self, terminal: bool = False, encoding: str = "utf-8") -> None:
        self.terminal, self.encoding, self.text = terminal, encoding, ""

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_table_aligns_and_breaks():
    table = Table(("name", "ms"), right=("ms",))
    table.add("a", 1.5)
    table.add("a long name of several words", 10)
    lines = table.render(Stream()).split("\n")
    assert lines[0].endswith("ms") and lines[2].endswith(" 1.5") and lines[3].endswith("  10")
    assert len({len(line) for line in lines}) == 1
    narrow = table.render(Stream(), columns=20).split("\n")
    assert max(map(len, narrow)) <= 20 and len(narrow) > len(lines)
    assert "─" not in table.render(Stream(encoding="ascii"))
    with pytest.raises(ValueError, match="1 cells under 2 headings"):
        table.add("alone")


def test_colour_only_on_terminals(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    table = Table(("name",))
    table.add("a", styles=("green",))
    assert "\x1b[" in table.render(Stream(terminal=True))
    assert "\x1b[" not in table.render(Stream())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in table.render(Stream(terminal=True))


def test_bar_has_the_right_length():
    for parts in ([(1, "blue"), (1, "yellow")], [(0.3, "blue"), (0.3, "yellow"), (0.4, "dim")], [(0, "blue")]):
        drawn = bar(parts, 2, 20, Stream())
        assert len(drawn) == round(20 * sum(value for value, _ in parts) / 2)
    assert bar([(1, "blue")], 0, 20, Stream()) == ""
    assert set(bar([(1, "blue"), (1, "dim")], 2, 4, Stream(encoding="ascii"))) == {"#", "="}


def test_units():
    assert [bytes_text(size) for size in (0, 1023, 1536, 2**20, 5 * 2**40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "1.0 MiB",
        "5120.0 GiB",
    ]
    assert [ms_text(ms) for ms in (0.01234, 1.234, 123.4, 1234.5)] == ["0.0123", "1.23", "123.4", "1234"]


@pytest.mark.parametrize("rich", [True, False])
def test_progress_is_silent_outside_terminals(rich, monkeypatch):
    if rich:
        pytest.importorskip("rich", reason="the package rich is an extra")
    else:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    stream, terminal = Stream(), Stream(terminal=True)
    for target in (stream, terminal):
        with Progress("auto", target) as progress:
            progress.update("weights [of 3]", 1, 2)
            progress.update("and then", 0, 0)
    assert stream.text == ""
    assert "weights [of 3]" in terminal.text and "50%" in terminal.text and "and then" in terminal.text
    assert terminal.text.endswith("\x1b[2K" if rich else "\x1b[K")  # wiped
    assert terminal.text.count("\x1b[?25l") == terminal.text.count("\x1b[?25h") == rich  # the cursor is back
    with Progress("none", terminal) as progress:
        shown = terminal.text
        progress.update("weights", 1, 2)
    assert terminal.text == shown


def test_progress_in_lines_says_each_stage_once(monkeypatch):
    clock = itertools.count(0.0, 1.0)
    monkeypatch.setattr("pylayout.cli.progress.time.monotonic", lambda: next(clock))
    stream = Stream()
    with Progress("lines", stream) as progress:
        for label, done in (("reading", 0), ("reading", 1), ("reading", 2), ("measuring", 1), ("measuring", 3)):
            progress.update(label, done, 4)
    lines = stream.text.splitlines()
    assert [line.split("]")[1] for line in lines] == ["   0% reading", "  25% measuring"]
    assert all(line.startswith("[") and " s]" in line for line in lines) and "\x1b" not in stream.text


def test_commands_say_how_far_they_are_in_lines(capsys):
    arguments = ["tune", "relu", "--input", "1,8,4,4", "--seconds", "0.1", "--progress", "lines"]
    assert main(arguments) == 0
    assert capsys.readouterr().err.startswith("[")
