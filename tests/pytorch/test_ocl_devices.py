"""Two devices `ocl` by index: PoCL gives its one twice where its environment says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

import pylayout.ocl  # noqa: E402

TWO = """
import copy, io, sys, threading
import torch
import pylayout as pl, pylayout.ocl
pylayout.ocl.load()
pl.configure(tune="off")
if torch.ocl.device_count() < 2:
    sys.exit(77)
torch.ocl.set_fallback("error")
torch.manual_seed(0)
x = torch.randn(6, 8)
first, second = x.to("ocl:0"), x.to("ocl:1")


def same(made, wanted, device):
    assert made.device == torch.device(device), (made.device, device)
    torch.testing.assert_close(made.cpu(), wanted)


# Ops run where their tensors are, whichever device is current.
for current in (0, 1):
    with torch.ocl.device(current):
        for device, there in (("ocl:0", first), ("ocl:1", second)):
            same((there @ there.t()).relu() * 2 + 1, (x @ x.t()).relu() * 2 + 1, device)
            same(torch.softmax(there, 1).sum(0), torch.softmax(x, 1).sum(0), device)
        assert torch.ones(2, device="ocl").device.index == current == torch.ocl.current_device()
assert torch.ocl.current_device() == 0
try:
    first + second
    raise SystemExit("tensors of two devices were added")
except RuntimeError as error:
    assert "device" in str(error)

# Copies between the two: values, strides, dtypes, and what is written later does not reach the copy.
there = first.to("ocl:1", non_blocking=True)
first.add_(1)
same(there, x, "ocl:1")
first.sub_(1)
part, wanted = torch.zeros(8, 6, device="ocl:1"), torch.zeros(8, 6)
part.t()[1:, ::2].copy_(first[:5, 1::2])
wanted.t()[1:, ::2].copy_(x[:5, 1::2])
same(part, wanted, "ocl:1")
same(second.to("ocl:0", torch.float16), x.half(), "ocl:0")
images = torch.randn(2, 3, 5, 4).to(memory_format=torch.channels_last)
same(images.to("ocl:1").to("ocl:0"), images, "ocl:0")
assert images.to("ocl:1").to("ocl:0").stride() == images.stride()
pinned = x.pin_memory()
for device in ("ocl:0", "ocl:1"):
    back = pinned.to(device, non_blocking=True).to("cpu", non_blocking=True)
    torch.ocl.synchronize(device)
    assert torch.equal(back, x)

# Memory and streams are each device's own.
before = [torch.ocl.memory_allocated(index) for index in (0, 1)]
large = torch.empty(1 << 20, device="ocl:1")
assert [torch.ocl.memory_allocated(index) for index in (0, 1)] == [before[0], before[1] + large.nbytes]
other = torch.Stream(device="ocl:1")
with torch.ocl.stream(other):
    assert torch.ocl.current_device() == 1 and torch.ocl.current_stream(1) == other
    assert torch.ocl.current_stream(0) == torch.ocl.default_stream(0)
    made = second * 3
    ready = other.record_event()
torch.ocl.current_stream(0).wait_event(ready)
same(made.to("ocl:0") + first, x * 3 + x, "ocl:0")

# A model whose layers are on two devices, and one optimizer for both.
for fused in (False, True):
    torch.manual_seed(1)
    here = torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.Linear(5, 3))
    layers = copy.deepcopy(here)
    layers[0].to("ocl:0"), layers[1].to("ocl:1")
    options = {"lr": 0.1, "fused": True} if fused else {"lr": 0.1}
    steps = [torch.optim.AdamW(each.parameters(), **options) for each in (here, layers)]
    for _ in range(3):
        for step in steps:
            step.zero_grad()
        here(x).square().mean().backward()
        layers[1](torch.tanh(layers[0](first)).atanh().to("ocl:1")).square().mean().backward()
        for step in steps:
            step.step()
    for mine, theirs in zip(layers.parameters(), here.parameters(), strict=True):
        torch.testing.assert_close(mine.detach().cpu(), theirs.detach(), rtol=1e-3, atol=1e-4)
    assert [each.device.index for each in layers.parameters()] == [0, 0, 1, 1]

# Random numbers: a state for each device, the same numbers of one seed.
torch.manual_seed(5)
drawn = [torch.rand(9, device=f"ocl:{index}") for index in (0, 1)]
assert torch.equal(drawn[0].cpu(), drawn[1].cpu())
kept = torch.ocl.get_rng_state("ocl:1")
again = torch.rand(9, device="ocl:1")
torch.rand(9, device="ocl:0")
torch.ocl.set_rng_state(kept, "ocl:1")
assert torch.equal(torch.rand(9, device="ocl:1"), again)

# Saved and loaded, where it was and elsewhere.
file = io.BytesIO()
torch.save(second, file)
for target in (None, "ocl:0", {"ocl:1": "ocl:0"}):
    file.seek(0)
    same(torch.load(file, map_location=target), x, "ocl:0" if target else "ocl:1")

# A thread on each.
errors = []


def work(index):
    try:
        torch.ocl.set_device(index)
        total = torch.zeros(6, 8, device="ocl")
        for _ in range(20):
            total += (first, second)[index] * 2
        same(total, x * 40, f"ocl:{index}")
    except BaseException as error:
        errors.append(error)


threads = [threading.Thread(target=work, args=(index,)) for index in (0, 1)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not errors, errors
assert torch.ocl.current_device() == 0
print("done")
"""


@pytest.mark.slow
def test_two_devices():
    root = Path(pylayout.ocl.__file__).parents[2]
    environment = {
        **os.environ, "POCL_DEVICES": "pthread pthread", "PYTHONPATH": str(root), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", TWO], capture_output=True, text=True, env=environment, cwd=root, timeout=300
    )
    if done.returncode == 77:
        pytest.skip("one device: the OpenCL runtime is not PoCL")
    assert done.returncode == 0 and done.stdout.strip() == "done", done.stderr
