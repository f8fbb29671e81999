"""The device ocl where processes fork, where PyTorch finds it by itself, and where it must not start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import quiet  # noqa: E402, F401

import pylayout.ocl  # noqa: E402
from pylayout.ocl.build import UnknownVersionError  # noqa: E402


def succeed(program):
    """Runs a program in a process of its own, which must end well."""
    root = Path(pylayout.ocl.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, timeout=300)
    assert done.returncode == 0, done.stderr


FORK = """
import os, sys, torch, pylayout.ocl
pylayout.ocl.load()
x = torch.ones(3, device="ocl:0")
child = os.fork()
if child == 0:
    try:
        x + 1
        os._exit(1)
    except RuntimeError as error:
        os._exit(0 if "fork" in str(error) and torch.ocl._is_in_bad_fork() else 2)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert (x + 1).tolist() == [2, 2, 2]
"""


def test_a_forked_child_is_refused():
    succeed(FORK)


CPU_BACKWARD = """
import torch, pylayout.ocl
pylayout.ocl.load()
w = torch.ones(3, requires_grad=True)
(w * 2).sum().backward()
libraries = ("libpocl", "libnvidia-opencl", "libintelocl")
opened = [line for line in open("/proc/self/maps") if any(each in line for each in libraries)]
assert not opened, opened
v = torch.ones(3, requires_grad=True, device="ocl:0")
(v * 2).sum().backward()
assert v.grad.tolist() == [2, 2, 2]
"""


@pytest.mark.slow
def test_a_backward_on_the_cpu_does_not_start_opencl():
    succeed(CPU_BACKWARD)


SEEDED = """
import os, torch, pylayout.ocl
from torch.utils.data import DataLoader, Dataset
pylayout.ocl.load()

class Started(Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, _):  # in workers, which PyTorch seeds
        return torch.tensor(torch.ocl.is_initialized())

torch.manual_seed(5)
assert not any(part.any() for part in DataLoader(Started(), num_workers=1))
assert not torch.ocl.is_initialized()
child = os.fork()
if child == 0:
    assert torch.ocl.initial_seed() == 5
    torch.ones(3, device="ocl:0").add_(1).tolist()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
drawn = torch.rand(3, device="ocl:0").tolist()
assert torch.ocl.initial_seed() == 5
torch.manual_seed(5)
assert torch.rand(3, device="ocl:0").tolist() == drawn
"""


@pytest.mark.slow
def test_a_seed_for_all_generators_does_not_start_opencl():
    succeed(SEEDED)


FORKS_BESIDE_THREADS = """
import os, signal, threading, time, torch, pylayout.ocl
pylayout.ocl.load()
held = [torch.ones(3, device="ocl:0") for _ in range(50)]
done = threading.Event()

def allocate():
    while not done.is_set():
        [torch.empty(1 << 19, device="ocl:0") for _ in range(3)]

threads = [threading.Thread(target=allocate) for _ in range(2)]
for each in threads:
    each.start()
stuck = 0
for _ in range(60):
    child = os.fork()
    if child == 0:
        held.clear()
        os._exit(0)
    until = time.monotonic() + 10
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            stuck = 1
            break
        time.sleep(0.002)
    if stuck:
        break
done.set()
for each in threads:
    each.join()
assert not stuck, "a child waits for a lock that a thread of its parent held"
"""


@pytest.mark.slow
def test_a_forked_child_lets_go_of_tensors_whatever_threads_of_its_parent_did():
    succeed(FORKS_BESIDE_THREADS)


def test_an_unknown_pytorch_is_refused(monkeypatch):
    from pylayout.ocl import build

    monkeypatch.setattr(torch, "__version__", "1.4.0")
    with pytest.raises(UnknownVersionError, match=r"made for PyTorch .*this is 1.4.0; torch.compile"):
        build.library()


AUTOLOAD = """
import torch
from torch.utils.data import DataLoader, TensorDataset
x = torch.ones(3, device="ocl:0")
assert torch.accelerator.current_accelerator().type == "ocl"
for (part,) in DataLoader(TensorDataset(torch.arange(6.0)), batch_size=3, num_workers=1):
    x += part.to("ocl")
print(x.tolist())
"""


LOADED_FIRST = """
import pylayout.ocl
pylayout.ocl.load()
import torch
print(torch.ones(3, device="ocl:0").tolist())
"""


@pytest.mark.parametrize(
    "program, printed", [(AUTOLOAD, "[4.0, 6.0, 8.0]"), (LOADED_FIRST, "[1.0, 1.0, 1.0]")], ids=["found", "loaded"]
)
def test_import_torch_finds_the_installed_device(tmp_path, program, printed):
    """By the entry point of pyproject.toml; workers of a DataLoader are forked and give tensors of the CPU."""
    root = Path(pylayout.ocl.__file__).parents[2]
    wanted = '[project.entry-points."torch.backends"]\nocl = "pylayout.ocl:autoload"'
    assert not (root / "pyproject.toml").exists() or wanted in (root / "pyproject.toml").read_text()
    installed = tmp_path / "like_pylayout-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: like_pylayout\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[torch.backends]\nocl = pylayout.ocl:autoload\n")
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(tmp_path)])},
        timeout=300,
    )
    assert done.stdout.strip() == printed, done.stderr
    assert "no device ocl" not in done.stderr


BESIDE_CUDA = """
import torch
import pylayout.ocl
torch.cuda.device_count = lambda: 1
pylayout.ocl.autoload()
assert not hasattr(torch, "ocl"), "loaded unasked"
pylayout.ocl.load()
assert torch.ones(2, device="ocl").sum().item() == 2
"""


@pytest.mark.slow
def test_nothing_is_loaded_unasked_where_pytorch_drives_a_gpu():
    """PyTorch has one accelerator in a process: with `ocl` a backward on its own would fail."""
    root = Path(pylayout.ocl.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", BESIDE_CUDA],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
