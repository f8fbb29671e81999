"""Two processes that train together: on the device ocl, and on the CPU under torch.compile."""

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


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.parametrize(("where", "mode"), [("ocl:0", "eager"), ("cpu", "compiled")])
def test_gradients_of_two_processes_are_those_of_one(where, mode):
    root = Path(pylayout.ocl.__file__).parents[2]
    shared = {
        **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": "2",
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
    }  # fmt: skip
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, where, mode],
            env={**shared, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(errors)
