"""Two processes that train together, and go on where one was killed: on the device ocl, and compiled on the CPU."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

import pylayout.ocl  # noqa: E402

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("PyTorch without gloo", allow_module_level=True)

WORKER = """
import sys
import torch, pylayout as pl, pylayout.ocl, pylayout.torch
from torch import nn

pylayout.ocl.load()
pl.set_tuning("off")
torch.set_num_threads(1)
device, compiled = sys.argv[1], sys.argv[2] == "compiled"
torch.distributed.init_process_group("gloo" if device == "cpu" else "ocl")
rank = torch.distributed.get_rank()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).to(device)


def step(model, images, labels):
    nn.functional.cross_entropy(model(images.to(device)), labels.to(device)).backward()


torch.manual_seed(1)
images, labels = torch.randn(8, 3, 8, 8), torch.randint(0, 5, (8,))
alone = network()
step(alone, images, labels)
together = nn.parallel.DistributedDataParallel(network())
model = torch.compile(together, backend="pylayout", options={"deterministic": True}) if compiled else together
for _ in range(2):
    together.zero_grad()
    step(model, images[rank::2], labels[rank::2])
for mine, wanted in zip(together.parameters(), alone.parameters(), strict=True):
    torch.testing.assert_close(mine.grad.cpu(), wanted.grad.cpu(), rtol=1e-4, atol=1e-5)
gathered = [torch.zeros(3, device=device) for _ in range(2)]
torch.distributed.all_gather(gathered, torch.full((3,), float(rank), device=device))
assert [each.tolist() for each in gathered] == [[0, 0, 0], [1, 1, 1]]
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


SHARDED = """
import sys
import torch, pylayout as pl, pylayout.ocl, pylayout.torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

pylayout.ocl.load()
pl.set_tuning("off")
torch.set_num_threads(1)
device, compiled = sys.argv[1], sys.argv[2] == "compiled"
kind = torch.device(device).type
torch.distributed.init_process_group("gloo" if kind == "cpu" else "ocl")
if kind == "ocl":
    torch.ocl.set_device(device)  # else the mesh takes the device of the process's number, where there are several
rank, mesh = torch.distributed.get_rank(), init_device_mesh(kind, (2,))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 7)).to(device)


torch.manual_seed(1)
x, y = torch.randn(8, 16), torch.randint(0, 7, (8,))
alone, sharded = network(), network()
for layer in (sharded[0], sharded[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(sharded, mesh=mesh)
model = torch.compile(sharded, backend="pylayout", options={"deterministic": True}) if compiled else sharded
optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (alone, sharded)]
for _ in range(3):
    for optimizer in optimizers:
        optimizer.zero_grad()
    nn.functional.cross_entropy(alone(x.to(device)), y.to(device)).backward()
    nn.functional.cross_entropy(model(x[rank::2].to(device)), y[rank::2].to(device)).backward()
    for optimizer in optimizers:
        optimizer.step()
for mine, wanted in zip(sharded.parameters(), alone.parameters(), strict=True):
    assert mine.to_local().numel() < wanted.numel()
    torch.testing.assert_close(mine.full_tensor().detach().cpu(), wanted.detach().cpu(), rtol=1e-4, atol=1e-5)
torch.distributed.destroy_process_group()
"""


# Trains by torchrun, keeps a checkpoint after each step, and goes on from it. In its first life process 1 is killed.
ELASTIC = """
import gc, os, signal, sys
import torch, pylayout as pl, pylayout.ocl, pylayout.torch
from torch import distributed, nn
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.device_mesh import init_device_mesh

STEPS, KILLED = 5, 3
pylayout.ocl.load()
pl.set_tuning("off")
torch.set_num_threads(1)
device, mode, kept = sys.argv[1:]
kind = torch.device(device).type
distributed.init_process_group("gloo" if kind == "cpu" else "ocl")
rank, life = distributed.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(8, 12, generator=generator), torch.randint(0, 4, (8,), generator=generator)


def train(model, optimizer, step, part):
    x, y = (each[part].to(device) for each in batch(step))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def sgd(module):
    return torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)


inner = network()
if mode == "sharded":
    from torch.distributed.fsdp import fully_shard
    inner = together = fully_shard(inner, mesh=init_device_mesh(kind, (2,)))
else:
    together = nn.parallel.DistributedDataParallel(inner)
model = torch.compile(together, backend="pylayout", options={"deterministic": True}) if kind == "cpu" else together
optimizer = sgd(inner)
whole = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
first = 0
if os.path.exists(kept):
    saved = torch.load(kept, map_location="cpu", weights_only=True)
    states.set_state_dict(
        inner, optimizer, model_state_dict=saved["weights"], optim_state_dict=saved["optimizer"],
        options=states.StateDictOptions(full_state_dict=True),
    )
    first = saved["step"] + 1
assert (first > 0) == (life > 0), (first, life)
for step in range(first, STEPS):
    if life == 0 and step == KILLED and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    train(model, optimizer, step, slice(rank, None, 2))
    weights, momenta = states.get_state_dict(inner, optimizer, options=whole)
    if rank == 0:
        torch.save({"step": step, "weights": weights, "optimizer": momenta}, kept + ".part")
        os.replace(kept + ".part", kept)
    distributed.barrier()
assert life == 1
alone = network()
optimizer = sgd(alone)
for step in range(STEPS):
    train(alone, optimizer, step, slice(None))
weights = states.get_model_state_dict(inner, options=whole)
if rank == 0:
    for name, wanted in alone.state_dict().items():
        torch.testing.assert_close(weights[name], wanted.cpu(), rtol=1e-4, atol=1e-5)
    print("trained", first, "to", STEPS)
# Nothing of what ran together may be left for the end of the interpreter: a thread of the process group that then asks
# for Python is ended there, within C++, which aborts the process.
distributed.barrier()
del model, together, inner, optimizer, weights, momenta
gc.collect()
distributed.destroy_process_group()
"""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


# Where the package is: in the folder of its sources a program would find those before an installed package.
ROOT = Path(pylayout.ocl.__file__).parents[2]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def _two_processes(program: str, *arguments: str) -> None:
    shared = {**_environment(), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": "2"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            env={**shared, "RANK": str(rank)},
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(errors)


@pytest.fixture
def group_of_one():
    pylayout.ocl.load()
    distributed = torch.distributed
    distributed.init_process_group("ocl", store=distributed.HashStore(), rank=0, world_size=1)
    yield distributed
    distributed.destroy_process_group()


CALLS = {
    "all_gather": lambda group, out, x: group.all_gather([out], x),
    "all_gather_into_tensor": lambda group, out, x: group.all_gather_into_tensor(out, x),
    "all_to_all": lambda group, out, x: group.all_to_all([out], [x]),
    "all_to_all_single": lambda group, out, x: group.all_to_all_single(out, x),
    "gather": lambda group, out, x: group.gather(x, [out]),
    "reduce_scatter": lambda group, out, x: group.reduce_scatter(out, [x]),
    "reduce_scatter_tensor": lambda group, out, x: group.reduce_scatter_tensor(out, x),
    "scatter": lambda group, out, x: group.scatter(out, [x]),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_only_read_stays_as_it_is(name, group_of_one):
    """Its gradient may need it: PyTorch counts its versions."""
    w = torch.arange(1.0, 4, device="ocl:0", requires_grad=True)
    y, out = w * 2, torch.zeros(3, device="ocl:0")
    z = (y * y).sum()
    CALLS[name](group_of_one, out, y.detach())
    z.backward()
    assert out.tolist() == [2, 4, 6] and w.grad.tolist() == [8, 16, 24]


@pytest.mark.parametrize(("name", "root"), [("all_reduce", {}), ("broadcast", {"src": 0}), ("reduce", {"dst": 0})])
def test_what_is_read_and_written(name, root, group_of_one):
    x = torch.arange(3.0, device="ocl:0")
    getattr(group_of_one, name)(x, **root)
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("where", "mode"), [("ocl:0", "eager"), pytest.param("cpu", "compiled", marks=pytest.mark.slow)]
)
def test_gradients_of_two_processes_are_those_of_one(where, mode):
    _two_processes(WORKER, where, mode)


@pytest.mark.slow
@pytest.mark.parametrize(("where", "mode"), [("ocl:0", "eager"), ("cpu", "compiled")])
def test_sharded_weights_become_those_of_one_process(where, mode):
    pytest.importorskip("torch.distributed.fsdp", reason="PyTorch without FSDP2")
    _two_processes(SHARDED, where, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sharded", "replicated"])
@pytest.mark.parametrize("where", ["ocl:0", "cpu"])
def test_training_goes_on_after_a_process_was_killed(where, mode, tmp_path):
    if mode == "sharded":
        pytest.importorskip("torch.distributed.fsdp", reason="PyTorch without FSDP2")
    script = tmp_path / "train.py"
    script.write_text(ELASTIC)
    run = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1"),
            *("--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--monitor-interval=0.2"),
            *(str(script), where, mode, str(tmp_path / "checkpoint.pt")),
        ],
        # A store for each life: in PyTorch's shared one, gloo finds the addresses of processes that are gone.
        env={**_environment(), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-20000:]
    assert "trained 3 to 5" in run.stdout
