"""Two processes that train together: on the device ocl, and on the CPU under torch.compile"""

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


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _environment() -> dict[str, str]:
    root = Path(pylayout.ocl.__file__).parents[2]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}


def _two_processes(program: str, *arguments: str) -> None:
    shared = {**_environment(), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": "2"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            env={**shared, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(errors)


@pytest.mark.parametrize(("where", "mode"), [("ocl:0", "eager"), ("cpu", "compiled")])
def test_gradients_of_two_processes_are_those_of_one(where, mode):
    _two_processes(WORKER, where, mode)


@pytest.mark.parametrize(("where", "mode"), [("ocl:0", "eager"), ("cpu", "compiled")])
def test_sharded_weights_become_those_of_one_process(where, mode):
    pytest.importorskip("torch.distributed.fsdp", reason="PyTorch without FSDP2")
    _two_processes(SHARDED, where, mode)
