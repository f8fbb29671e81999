"""`pylayout doctor`: each check on facts that are given to it, and the facts read from files made for it."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import pylayout as pl
from pylayout.cli import doctor as command
from pylayout.cli import main
from pylayout.device import costs
from pylayout.doctor import Facts, examine, gather
from pylayout.doctor import facts as reading
from pylayout.doctor.checks import CHECKS, OF_TESTS, SETTINGS

ROOT = Path(__file__).parents[1]
HEALTHY = Facts(cache="/somewhere", opencl_platforms=("Intel(R) OpenCL",))
VALUES = {
    name: {"PYLAYOUT_COMPILERS": "6", "PYLAYOUT_SUBMIT": "thread", "PYLAYOUT_OPENCL_AS": "gpu"}.get(name, "1")
    for name in SETTINGS
}
FOUR = replace(HEALTHY, threads=4, processors=4, allowed=(0, 1, 2, 3), cores=4)


def fault(here=("3.0",), applies=True, remedy="upgrade"):
    texts = ("id", "library", "since", "fixed", "condition", "effect", "seen", "instead")
    return {**dict.fromkeys(texts, "words"), "here": list(here), "applies": applies, "remedy": remedy}


# (check, facts, severity, words of the fact, words of the remedy)
CASES = [
    ("governor", replace(FOUR, governors={"powersave": 4}), "warning", "4 processors is powersave", "performance"),
    ("governor", replace(FOUR, governors={"schedutil": 1}), "note", "1 processor is schedutil", "performance"),
    (
        "governor",
        replace(FOUR, governors={"powersave": 4}, energy_preferences={"balance_power": 4}),
        "warning",
        "energy preference of 4 processors is balance_power",
        "power profile",
    ),
    ("governor", replace(FOUR, boost=False), "note", "turned off", "boost"),
    ("quota", replace(FOUR, quota=2.5), "warning", "4 threads share the 2.5 processors", "--threads 2"),
    ("quota", replace(FOUR, quota=0.5), "warning", "0.5 processors", "--threads 1"),
    ("quota", replace(HEALTHY, quota=0.5), "warning", "1 thread shares the 0.5 processors", "--threads 1"),
    ("affinity", replace(FOUR, threads=6), "warning", "6 threads share 4 processors", "--threads 4"),
    ("affinity", replace(FOUR, processors=16), "note", "4 of the 16 processors: 0,1,2,3", "taskset"),
    ("affinity", replace(FOUR, threads=1), "note", "1 thread leaves 3 processors idle", "--threads 4"),
    ("hyperthreads", replace(FOUR, cores=2), "note", "4 threads share 2 cores", "--threads 2"),
    ("opencl", replace(HEALTHY, opencl_platforms=()), "note", "no OpenCL runtime", "'.[opencl]' in the clone"),
    (
        "opencl",
        replace(HEALTHY, opencl_notes=("OpenCL: x.so could not be opened: libsycl",)),
        "error",
        "libsycl",
        "devices",
    ),
    (
        "opencl",
        replace(HEALTHY, opencl_platforms=("Portable Computing Language",)),
        "note",
        "35 us",
        "intel-opencl-rt",
    ),
    ("opencl", replace(HEALTHY, graphics=("/dev/nvidia0",)), "warning", "/dev/nvidia0", "vendors"),
    ("opencl", replace(HEALTHY, environment={"PYLAYOUT_OPENCL": "none"}), "note", "turns OpenCL off", "unset"),
    ("cache", replace(HEALTHY, cache=""), "warning", "each process measures anew", "PYLAYOUT_CACHE_DIR"),
    ("cache", replace(HEALTHY, cache_writable=False), "error", "/somewhere cannot be written", "PYLAYOUT_CACHE_DIR"),
    ("cache", replace(HEALTHY, damaged=3), "warning", "3 records", "clear --only costs"),
    ("cache", replace(HEALTHY, damaged_kernels=("a.clbin",)), "warning", "1 compiled kernels", "--only kernels"),
    ("cache", replace(HEALTHY, cache_free=2**20), "warning", "1 MiB left", "room"),
    ("measurements", replace(HEALTHY, costs=0), "note", "nothing has been measured", "pylayout tune"),
    ("measurements", replace(HEALTHY, costs=9, stale=9), "warning", "all 9 measured costs", "compile each model"),
    ("measurements", replace(HEALTHY, costs=9, stale=5), "note", "5 of 9", "clear --only costs"),
    (
        "measurements",
        replace(HEALTHY, estimated=("conv1", "fc"), nodes=7),
        "warning",
        "2 of 7 ops of the model rest on estimates: conv1, fc",
        "--tune full",
    ),
    (
        "measurements",
        replace(HEALTHY, marked=("conv1", "conv2", "conv3", "fc"), nodes=7),
        "note",
        "4 of 7 ops of the model were measured while other programs were busy: conv1, conv2, conv3, …",
        "while the machine is quiet",
    ),
    ("busy", replace(HEALTHY, steal=0.05), "warning", "5% of the processors' time", "in turns"),
    ("busy", replace(FOUR, others=2.0), "warning", "2.0 of 4 processors", "taskset"),
    ("openmp", replace(FOUR, environment={"OMP_THREAD_LIMIT": "2"}), "warning", "below the 4 threads", "unset"),
    ("openmp", replace(FOUR, environment={"OMP_WAIT_POLICY": "PASSIVE"}), "warning", "POLICY=PASSIVE", "unset"),
    ("openmp", replace(FOUR, environment={"GOMP_SPINCOUNT": "0"}), "warning", "GOMP_SPINCOUNT=0", "unset"),
    ("openmp", replace(FOUR, environment={"OMP_DYNAMIC": "true"}), "warning", "OMP_DYNAMIC", "unset"),
    ("openmp", replace(FOUR, environment={"GOMP_CPU_AFFINITY": "0-1"}), "note", "pins threads", "unset"),
    ("settings", replace(FOUR, environment={"ONEDNN_MAX_CPU_ISA": "AVX2"}), "warning", "AVX2", "unset"),
    ("settings", replace(FOUR, environment={"ONEDNN_VERBOSE": "1"}), "warning", "prints a line", "unset"),
    ("settings", replace(FOUR, environment={"PYLAYOUT_THREADS": "2"}), "warning", "nothing reads", "PYLAYOUT_OPENCL"),
    ("settings", replace(FOUR, environment={"PYLAYOUT_SUBMIT": "foo"}), "warning", "SUBMIT=foo", "caller or thread"),
    ("settings", replace(FOUR, environment={"PYLAYOUT_COMPILERS": "65"}), "warning", "COMPILERS=65", "0 to 64"),
    ("faults", replace(FOUR, faults=(fault(here=["3.1.1"], remedy="pip install x"),)), "error", "3.1.1", "install x"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "facts", "severity", "fact", "remedy"), CASES)
def test_a_fact_gives_its_finding_and_no_other(check, facts, severity, fact, remedy):
    (found,) = examine(facts)
    assert (found.check, found.severity) == (check, severity)
    assert fact in found.fact and remedy in found.remedy


def test_every_check_has_a_case():
    assert {case[0] for case in CASES} == set(CHECKS)


@pytest.mark.parametrize(
    "facts",
    [
        HEALTHY,
        FOUR,
        replace(FOUR, governors={"performance": 4}, boost=True, quota=4.0, steal=0.001, others=0.1),
        replace(FOUR, governors={"powersave": 4}, energy_preferences={"performance": 4}),
        replace(FOUR, threads=2, cores=2, allowed=(0, 1, 2, 3)),
        replace(FOUR, threads=2, quota=2.0),  # as many threads as the container may use
        replace(HEALTHY, graphics=("/dev/nvidia0",), gpu_devices=("opencl:0",)),
        replace(HEALTHY, environment={"OMP_THREAD_LIMIT": "8", "ONEDNN_MAX_CPU_ISA": "default", "ONEDNN_VERBOSE": "0"}),
        replace(HEALTHY, environment=dict.fromkeys(OF_TESTS, "x") | VALUES),
        replace(HEALTHY, costs=10, stale=4, estimated=(), nodes=5),
        replace(HEALTHY, faults=(fault(remedy=""), fault(applies=False), fault(here=[], applies=False))),
    ],
)
def test_what_is_well_gives_no_finding(facts):
    assert examine(facts) == []


def test_the_settings_are_those_of_the_page():
    page = (ROOT / "docs/reference/settings.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `(PYLAYOUT_\w+)` \| ([\w ]+) \|", page, re.MULTILINE))
    tests = {name for name, reader in listed.items() if reader in ("tests", "benchmarks")}
    assert set(OF_TESTS) == tests and set(SETTINGS) == set(listed) - tests


def test_the_gravest_comes_first():
    facts = replace(FOUR, cores=2, damaged=1, cache_writable=False)
    assert [finding.severity for finding in examine(facts)] == ["error", "warning", "note"]


def test_the_librarys_table_of_faults_is_listed(capsys):
    listed = {each["id"]: each for each in gather(sample_seconds=0).faults}
    onednn = [each for each in listed.values() if each["library"] == "oneDNN"]
    assert onednn and all(each["here"] == onednn[0]["here"] != [] for each in onednn)
    assert not listed["onednn-too-old"]["applies"]  # or nothing would run here
    assert main(["doctor", "--faults"]) in (0, 3)
    out = capsys.readouterr().out
    for name, each in listed.items():
        assert name in out and each["condition"] in out


@pytest.mark.parametrize("path", [os.environ["PATH"], "/nonexistent"], ids=["linker", "no linker"])
def test_a_runtime_is_said_to_be_left_out_where_it_is(path):
    """By the devices' list, its notes and the doctor alike: Debian's and Ubuntu's PoCL is, where it finds no `ld`."""
    code = """if True:
        import json
        import pylayout as pl
        from pylayout.doctor import examine, gather
        facts = gather(sample_seconds=0)
        found = [finding.fact for finding in examine(facts) if finding.check == "faults" and "PoCL" in finding.fact]
        print(json.dumps([facts.opencl_platforms, [n for n in facts.opencl_notes if "is left out" in n], found]))
    """
    run = [sys.executable, "-c", code]
    output = subprocess.run(run, env={**os.environ, "PATH": path}, check=True, capture_output=True, text=True).stdout
    platforms, notes, found = json.loads(output)
    versions = [str(device.capabilities["platform_version"]) for device in pl.devices() if device.name != "cpu"]
    left_out = path == "/nonexistent" and any("PoCL" in each and "+debian" in each for each in versions)
    assert bool(notes) == bool(found) == left_out, (notes, found)
    assert ("Portable Computing Language" in platforms) == (any("PoCL" in each for each in versions) and not left_out)


def write(root, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "150000 100000"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/cpu.max": "400000 100000",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000",
                "sys/fs/cgroup/cpu.max": "200000 100000",
            },
            2.0,
        ),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
        (
            {
                "proc/self/cgroup": "3:memory:/m\n2:cpu,cpuacct:/c",
                "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us": "50000",
                "sys/fs/cgroup/cpu/c/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            0.5,
        ),
        ({}, None),
    ],
)
def test_quotas_of_both_versions_of_control_groups(tmp_path, files, quota):
    write(tmp_path, files)
    assert reading.cpu_quota(tmp_path) == quota


def test_cores_are_counted_by_their_siblings(tmp_path):
    write(
        tmp_path,
        {
            f"sys/devices/system/cpu/cpu{i}/topology/thread_siblings_list": siblings
            for i, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"])
        },
    )
    assert reading.physical_cores(tmp_path, range(4)) == 2
    assert reading.physical_cores(tmp_path, (0, 2)) == 1
    assert reading.physical_cores(tmp_path, (0, 9)) is None


def test_load_is_what_others_did_between_two_readings(tmp_path):
    write(tmp_path, {"proc/stat": "cpu  100 0 20 800 10 0 0 70 0 0\ncpu0 1 2 3"})
    before = reading.processor_times(tmp_path)
    assert before == [100, 0, 20, 800, 10, 0, 0, 70]
    after = [150, 0, 20, 820, 10, 0, 0, 100]
    steal, busy = reading.load_between(before, after, processors=4)
    assert steal == pytest.approx(0.3) and busy == pytest.approx(2.0)
    assert reading.load_between(before, before, 4) == (0.0, 0.0)
    assert reading.processor_times(tmp_path / "nowhere") is None


def test_damaged_kernels_are_told_from_whole_ones(tmp_path):
    whole = struct.pack("<8sQQQQ", b"PLCLBIN1", 3, 4, 0, 0) + b"keykern"
    for name, content in {"a": whole, "b": whole[:-1], "c": b"", "d": b"X" + whole[1:]}.items():
        (tmp_path / f"{name}.clbin").write_bytes(content)
    assert [path[-7] for path in reading.damaged_kernels(tmp_path)] == ["b", "c", "d"]
    assert reading.damaged_kernels(tmp_path / "nowhere") == []


def test_kernels_that_the_library_wrote_are_whole(opencl_device):
    x = pl.asarray([[1.0, -2.0, 3.0]], device=opencl_device)
    pl.ops.relu(x * 3 + 1).numpy()
    assert gather(sample_seconds=0).damaged_kernels == ()


def test_facts_of_this_machine_are_read(tmp_path):
    write(
        tmp_path,
        {
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
            "sys/devices/system/cpu/intel_pstate/no_turbo": "1",
            "dev/dri/renderD128": "",
            "dev/nvidia0": "",
            "dev/nvidiactl": "",
        },
    )
    found = gather(tmp_path, sample_seconds=0)
    assert found.threads == pl.get_threads()
    assert found.boost is False and found.graphics == ("/dev/nvidia0", "/dev/dri/renderD128")
    assert (found.steal, found.others, found.quota, found.cores) == (None, None, None, None)
    assert found.governors in ({"powersave": 1}, {})  # {} where this process may not use processor 0
    assert found.versions["onednn"].startswith("3.")
    assert found.cache_free > 0 and found.costs == costs()["records"]


def test_costs_of_another_machine_are_stale():
    pl.tune("matmul", [[1.0, 2.0]], [[3.0], [4.0]])
    state = costs()
    assert 0 <= state["stale"] < state["records"]


def run(capsys, monkeypatch, facts, *arguments):
    monkeypatch.setattr(command, "gather", lambda: facts)
    code = main(["doctor", *arguments])
    out, err = capsys.readouterr()
    assert err == ""
    return code, out


def test_the_exit_code_says_whether_something_costs_speed(capsys, monkeypatch):
    assert run(capsys, monkeypatch, FOUR) == (0, "Nothing was found that costs speed here.\n")
    code, out = run(capsys, monkeypatch, replace(FOUR, cores=2))
    assert code == 0 and "note [hyperthreads]" in out and "do: compare with --threads 2" in out
    code, out = run(capsys, monkeypatch, replace(FOUR, quota=1.0))
    assert code == 3 and "warning [quota]" in out
    code, out = run(capsys, monkeypatch, replace(FOUR, quota=1.0), "--json")
    found = json.loads(out)
    assert code == 3 and found["findings"][0]["check"] == "quota" and found["facts"]["threads"] == 4


def test_a_models_estimates_are_told(capsys, monkeypatch, tmp_path):
    onnx = pytest.importorskip("onnx", reason="the package onnx is an extra")
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> f (float[n, 61] x, float[61, 53] w) => (float[n, 53] y) '
        "{ y = MatMul(x, w) }"
    )
    path = str(tmp_path / "matmul.onnx")
    onnx.save(model, path)
    code, out = run(capsys, monkeypatch, HEALTHY, path)
    assert code == 3 and "1 of 1 ops of the model rest on estimates" in out
    pl.compile(path, device="cpu", tune="full")
    assert run(capsys, monkeypatch, HEALTHY, path)[0] == 0
