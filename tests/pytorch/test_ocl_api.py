"""`torch.ocl` has what `torch.cuda` has, and means what it says."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

import pylayout.ocl  # noqa: E402

OCL = "ocl:0"
ROOT = Path(pylayout.ocl.__file__).parents[2]


@pytest.fixture(autouse=True)
def quiet(unoptimised):
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("error")
    yield
    torch.ocl.set_fallback("silent")


def test_all_that_is_named_is_there():
    for name in torch.ocl.__all__:
        assert hasattr(torch.ocl, name), name
    # Of torch.cuda's names those that say something of any device.
    cuda = """amp can_device_access_peer current_device current_stream default_stream device device_count device_of
        empty_cache get_device_capability get_device_name get_device_properties get_rng_state get_rng_state_all init
        initial_seed is_available is_bf16_supported is_initialized manual_seed manual_seed_all max_memory_allocated
        max_memory_reserved mem_get_info memory_allocated memory_reserved memory_stats reset_peak_memory_stats seed
        seed_all set_device set_rng_state set_rng_state_all set_stream stream synchronize Event Stream StreamContext"""
    assert set(cuda.split()) <= set(torch.ocl.__all__) & set(torch.cuda.__all__)


INITIALIZED = """
import torch, pylayout.ocl
pylayout.ocl.load()
assert not torch.ocl.is_initialized()
torch.ones(3, requires_grad=True).sum().backward()
assert not torch.ocl.is_initialized()
torch.ones(3, device="ocl:0")
assert torch.ocl.is_initialized()
import os
child = os.fork()
if child == 0:
    os._exit(torch.ocl.is_initialized())
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
from torch.ocl.amp import GradScaler, autocast
"""


def test_it_is_initialized_once_it_was_used():
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run([sys.executable, "-c", INITIALIZED], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_peaks_of_memory_begin_anew():
    torch.ocl.synchronize()
    x = torch.empty(3 << 20, device=OCL)
    bytes_of = x.nbytes
    del x
    assert torch.ocl.max_memory_allocated() >= bytes_of
    torch.ocl.reset_peak_memory_stats()
    before = torch.ocl.memory_allocated()
    assert torch.ocl.max_memory_allocated() == before
    x = torch.empty(1 << 20, device=OCL)
    assert before + x.nbytes <= torch.ocl.max_memory_allocated() < before + bytes_of
    stats = torch.ocl.memory_stats()
    assert stats["allocated_bytes.all.peak"] == torch.ocl.max_memory_allocated()
    assert stats["allocated_bytes.all.current"] == torch.ocl.memory_allocated()
    assert stats["reserved_bytes.all.current"] == torch.ocl.memory_reserved()
    assert stats["reserved_bytes.all.peak"] == torch.ocl.max_memory_reserved() >= torch.ocl.memory_reserved()
    del x
    assert torch.ocl.memory_allocated() == before


def test_a_device_says_what_it_is():
    major, minor = torch.ocl.get_device_capability(OCL)
    assert major >= 1 and minor >= 0
    assert f"{major}.{minor}" in torch.ocl.get_device_properties(0).capabilities["version"]
    assert torch.ocl.is_bf16_supported() and not torch.ocl.is_bf16_supported(including_emulation=False)
    assert torch.ocl.can_device_access_peer(0, OCL)


def test_streams_are_those_of_the_thread():
    other = torch.ocl.Stream(device=OCL)
    with torch.ocl.stream(other) as entered:
        assert entered is None and torch.ocl.current_stream() == other != torch.ocl.default_stream()
        with torch.ocl.stream(None):
            assert torch.ocl.current_stream() == other
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.ocl.current_stream()))
        thread.start()
        thread.join()
        assert seen == [torch.ocl.default_stream()]
    assert torch.ocl.current_stream() == torch.ocl.default_stream()
    torch.ocl.set_stream(other)
    assert torch.accelerator.current_stream() == other
    torch.ocl.set_stream(torch.ocl.default_stream())
    context = torch.ocl.StreamContext(other)
    for _ in range(2):  # it may be entered again
        with context:
            made = torch.ones(4, device=OCL) + 1
    torch.ocl.current_stream().wait_stream(other)
    assert made.tolist() == [2, 2, 2, 2]
    with torch.ocl.device_of(made):
        assert torch.ocl.current_device() == 0


def test_amp_is_torch_amp():
    linear = torch.nn.Linear(4, 3).to(OCL)
    with torch.ocl.amp.autocast(dtype=torch.bfloat16):
        assert linear(torch.ones(2, 4, device=OCL)).dtype == torch.bfloat16
        with torch.ocl.amp.autocast(enabled=False):
            assert linear(torch.ones(2, 4, device=OCL)).dtype == torch.float32
    with torch.ocl.amp.autocast():
        assert linear(torch.ones(2, 4, device=OCL)).dtype == torch.float16

    class Twice(torch.autograd.Function):
        @staticmethod
        @torch.ocl.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(context, x):
            return x * 2

        @staticmethod
        @torch.ocl.amp.custom_bwd
        def backward(context, grad):
            return grad * 2

    x = torch.ones(3, dtype=torch.float16, device=OCL, requires_grad=True)
    with torch.ocl.amp.autocast():
        made = Twice.apply(x)
    assert made.dtype == torch.float32
    made.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "make",
    [lambda **more: torch.amp.GradScaler("ocl", **more), lambda **more: torch.ocl.amp.GradScaler(**more)],
    ids=["torch.amp", "torch.ocl.amp"],
)
def test_a_scaler_runs_on_the_device_alone(make):
    """As on the CPU, step by step: growth after two good steps, half after a bad one, gradients clipped between."""
    results = []
    for device, scaler in (
        ("cpu", torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)),
        (OCL, make(init_scale=8.0, growth_interval=2)),
    ):
        weight = torch.linspace(1, 2, 6).view(2, 3).to(device).requires_grad_()
        optimizer = torch.optim.SGD([weight], lr=0.25, momentum=0.5)
        scales = []
        for step in range(7):
            optimizer.zero_grad()
            scaler.scale((weight * weight).sum()).backward()
            if step == 3:
                weight.grad[1, 1] = float("inf")
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_value_([weight], 1.5)
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        results.append((scales, weight.detach().cpu(), scaler.state_dict()["_growth_tracker"]))
    assert results[0][0] == results[1][0] and results[0][2] == results[1][2]
    torch.testing.assert_close(results[0][1], results[1][1])
    assert torch.ocl.fallbacks() == []


@pytest.mark.parametrize("place", ["cpu", OCL])
def test_a_scaler_that_is_not_enabled_leaves_gradients_alone(place):
    """On the CPU too: the device's scaler is PyTorch's own, with one method around it."""
    weight = torch.ones(3, device=place, requires_grad=True)
    optimizer, scaler = torch.optim.SGD([weight], lr=0.5), torch.amp.GradScaler(place, enabled=False)
    scaler.scale((weight * weight).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0, 0, 0] and scaler.get_scale() == 1


def test_windows_are_made_by_the_host():
    torch.zeros(1, device=OCL)  # kernels are registered with the first tensor
    for given in ((5,), (5, False), (6, True, 8.0)):
        assert torch.equal(torch.kaiser_window(*given, device=OCL).cpu(), torch.kaiser_window(*given))


@pytest.mark.parametrize(
    "shape, padding",
    [
        ((2, 3, 5, 6), (1, 2, 5, 0)),
        ((2, 3, 7), (3, -2)),
        ((3, 7), (3, 2)),
        ((1, 2, 3, 4, 5), (1,) * 6),
        ((2, 3, 7), (0, 0)),
        ((2, 3, 7), (-1, 0)),
    ],
)
def test_borders_that_go_round(shape, padding):
    x = torch.randn(shape)
    made = []
    for device in ("cpu", OCL):
        given = x.to(device).requires_grad_()
        y = torch.nn.functional.pad(given, padding, mode="circular")
        weight = torch.arange(y.numel()).sin().reshape(y.shape).to(device)
        made.append((y.detach().cpu(), torch.autograd.grad((y * weight).sum(), given)[0].cpu()))
        assert y.untyped_storage().data_ptr() != given.untyped_storage().data_ptr()
    torch.testing.assert_close(made[1], made[0])
    with pytest.raises(RuntimeError, match="leaves nothing of dimension"):
        torch.nn.functional.pad(x.to(OCL), (-shape[-1], 1, *padding[2:]), mode="circular")
    with pytest.raises(RuntimeError, match="wrapping around more than once"):
        torch.nn.functional.pad(x.to(OCL), (9, *padding[1:]), mode="circular")
