"""The device ocl of PyTorch: storages, copies, ops, gradients, random numbers, saving, errors."""

import copy
import gc
import io
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

import pylayout as pl  # noqa: E402
import pylayout.ocl  # noqa: E402
from pylayout.ocl.build import UnknownVersionError  # noqa: E402

OCL = "ocl:0"
DTYPES = [
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32,
    torch.int64, torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip


@pytest.fixture(autouse=True)
def quiet(untuned):
    """Fallbacks are counted from zero, and errors: what is meant to run on the device must."""
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("error")
    yield
    torch.ocl.set_fallback("silent")


def numbers(*shape, dtype=torch.float32):
    torch.manual_seed(len(shape))
    return (torch.randn(shape) * 3).to(dtype)


# ---- copies and views ----


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies_of_every_dtype(dtype):
    if dtype in (torch.int16, torch.complex128):  # of sizes that no dtype of the library has: the host copies
        torch.ocl.set_fallback("silent")
    x = numbers(5, 6, dtype=dtype)
    y = x.to(OCL)
    assert y.device == torch.device(OCL) and y.dtype == dtype
    assert torch.equal(y.cpu(), x)
    assert torch.equal(y.t()[1:4, ::2].cpu(), x.t()[1:4, ::2])
    z = torch.zeros(6, 5, dtype=dtype).to(OCL)
    z.t()[1:, 2:] = y[1:, 2:]
    wanted = torch.zeros(6, 5, dtype=dtype)
    wanted.t()[1:, 2:] = x[1:, 2:]
    assert torch.equal(z.cpu(), wanted)


@pytest.mark.parametrize("source", [torch.float32, torch.float16, torch.int64, torch.bool, torch.float64], ids=str)
@pytest.mark.parametrize("target", [torch.float32, torch.bfloat16, torch.int32, torch.bool, torch.float64], ids=str)
def test_copies_between_dtypes(source, target):
    if torch.float64 in (source, target):  # which the device does not convert
        torch.ocl.set_fallback("silent")
    x = numbers(4, 7, dtype=source)
    assert torch.equal(x.to(OCL).to(target).cpu(), x.to(target))
    assert torch.equal(x.to(OCL, target).cpu(), x.to(target))
    back = torch.empty(7, 4, dtype=target).t()
    back.copy_(x.to(OCL))
    assert torch.equal(back, x.to(target))


def test_views_share_memory():
    x = torch.zeros(4, 6).to(OCL)
    x[1:3, ::2].add_(1)
    x.view(-1)[23] = 7
    x.unfold(1, 2, 2)[0].fill_(5)
    x.as_strided((2, 2), (6, 1), 13).mul_(2)
    wanted = torch.zeros(4, 6)
    wanted[1:3, ::2].add_(1)
    wanted.view(-1)[23] = 7
    wanted.unfold(1, 2, 2)[0].fill_(5)
    wanted.as_strided((2, 2), (6, 1), 13).mul_(2)
    assert torch.equal(x.cpu(), wanted)
    assert x[1:].data_ptr() - x.data_ptr() == 6 * 4
    assert x[2:].untyped_storage().data_ptr() == x.data_ptr()


def test_memory_formats_stay():
    x = numbers(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = x.to(OCL)
    assert y.stride() == x.stride() and torch.relu(y).stride() == x.stride()
    assert y.contiguous().stride() == x.contiguous().stride()
    assert torch.equal(y.contiguous().cpu(), x)


def test_resize_and_set():
    x = torch.arange(6.0).to(OCL)
    x.resize_(2, 6)
    assert x.shape == (2, 6) and torch.equal(x.view(-1)[:6].cpu(), torch.arange(6.0))
    y = torch.empty(0, device=OCL)
    y.set_(x.untyped_storage(), 2, (2, 2), (1, 2))
    assert torch.equal(y.cpu(), torch.tensor([[2.0, 4.0], [3.0, 5.0]]))
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().size() == 0


def test_empty_tensors_and_numbers():
    nothing = torch.empty(0, 3, device=OCL)
    assert nothing.sum().item() == 0 and nothing.prod(0).tolist() == [1, 1, 1] and nothing.mean().isnan().item()
    assert nothing.sum(1).shape == (0,) and torch.zeros(3, device=OCL).copy_(nothing.sum(0)).tolist() == [0, 0, 0]
    total = torch.ones(3, device=OCL)
    assert torch.sum(nothing, 0, out=total) is total and total.tolist() == [0, 0, 0]
    assert (torch.empty(2, 0, device=OCL) @ torch.empty(0, 2, device=OCL)).tolist() == [[0, 0], [0, 0]]
    assert (torch.empty(0, 3, device=OCL) + 1).shape == (0, 3)
    assert torch.tensor(2.5, device=OCL).item() == 2.5
    assert torch.cat([torch.empty(0, device=OCL), torch.ones(2, device=OCL)]).tolist() == [1, 1]


def test_views_in_place_change_no_memory():
    x = torch.arange(6.0, device=OCL).view(2, 1, 3)
    address = x.data_ptr()
    x.squeeze_(1).t_().unsqueeze_(0)
    wanted = torch.arange(6.0).view(2, 1, 3).squeeze_(1).t_().unsqueeze_(0)
    assert x.shape == wanted.shape and x.stride() == wanted.stride() and x.data_ptr() == address
    assert x.tolist() == [[[0, 3], [1, 4], [2, 5]]]


def test_kept_reordered_copies_follow_the_values():
    conv = torch.nn.Conv2d(8, 8, 3)
    there = copy.deepcopy(conv).to(OCL)
    x = numbers(2, 8, 9, 9)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(there(x.to(OCL)).cpu(), conv(x), rtol=1e-4, atol=1e-4)
            for module in (conv, there):
                module.weight.mul_(1.5)
                module.weight[1:3].add_(0.25)


# ---- ops ----


def test_ops_in_all_three_forms():
    x, y = numbers(3, 4), numbers(3, 4) + 1
    a, b = x.to(OCL), y.to(OCL)
    torch.testing.assert_close((a * 2 + b / 3 - 1).cpu(), x * 2 + y / 3 - 1)
    out = torch.empty(0, device=OCL)
    torch.add(a, b, alpha=0.5, out=out)
    torch.testing.assert_close(out.cpu(), torch.add(x, y, alpha=0.5))
    a.addcmul_(b, b, value=-0.1).clamp_(-1, 1).sqrt_()
    x.addcmul_(y, y, value=-0.1).clamp_(-1, 1).sqrt_()
    torch.testing.assert_close(a.cpu(), x, equal_nan=True)
    a.add_(a.clone().t()[:1, :1])
    x.add_(x.clone().t()[:1, :1])
    torch.testing.assert_close(a.cpu(), x, equal_nan=True)
    half = y.half().to(OCL)
    half.add_(b)  # the sum is float32, what is written is not
    torch.testing.assert_close(half.cpu(), y.half().add_(y))


def test_numbers_that_change():
    x, wanted = torch.ones(8).to(OCL), torch.ones(8)
    for step in range(50):
        x.mul_(1 + step / 1000)
        wanted.mul_(1 + step / 1000)
    torch.testing.assert_close(x.cpu(), wanted)


@pytest.mark.parametrize("form", [
    lambda x, y, number: x.addcdiv_(y, y + 3, value=number),
    lambda x, y, number: x.lerp_(y, number),
    lambda x, y, number: x.add_(y, alpha=number).div_(1 + number),
    lambda x, y, number: x.sub_(number),
])  # fmt: skip
def test_numbers_that_change_need_no_new_programs(form, monkeypatch):
    from pylayout.ocl import programs

    x, y = numbers(3, 4), numbers(3, 4).abs()
    there, other = x.to(OCL), y.to(OCL)
    for step in range(8):
        form(x, y, step / 10 + 0.05)
        form(there, other, step / 10 + 0.05)

    def never(*_):
        raise AssertionError("a program is made")

    monkeypatch.setattr(programs, "make", never)
    for step in range(8):
        form(x, y, step / 11 + 0.03)
        form(there, other, step / 11 + 0.03)
    torch.testing.assert_close(there.cpu(), x)


def _network():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, groups=4), nn.GroupNorm(4, 16), nn.Hardswish(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.LayerNorm(64), nn.Linear(64, 10),
    )  # fmt: skip


def test_inference_runs_on_the_device_alone():
    torch.manual_seed(0)
    network = _network().eval()
    x = numbers(4, 3, 12, 12)
    there = copy.deepcopy(network).to(OCL)
    with torch.no_grad():
        torch.testing.assert_close(there(x.to(OCL)).cpu(), network(x), rtol=1e-4, atol=1e-4)
    assert torch.ocl.fallbacks() == []


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_training_follows_the_cpu(optimizer):
    torch.ocl.set_fallback("silent")
    torch.manual_seed(0)
    here = _network()
    there = copy.deepcopy(here).to(OCL)
    images, labels = numbers(4, 3, 12, 12), torch.tensor([1, 2, 3, 4])
    losses = []
    for network, device in ((here, "cpu"), (there, OCL)):
        steps = getattr(torch.optim, optimizer)(network.parameters(), lr=0.01)
        for _ in range(3):
            steps.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(images.to(device)), labels.to(device))
            loss.backward()
            steps.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    state = there.state_dict()
    for name, value in here.state_dict().items():
        torch.testing.assert_close(state[name].cpu(), value, rtol=1e-2, atol=1e-2)


# ---- keeping ----


def test_save_load_copy_pickle():
    x = numbers(3, 4).to(OCL)
    pair = {"x": x, "part": x[1:]}
    file = io.BytesIO()
    torch.save(pair, file)
    for target in (None, "cpu", OCL):
        file.seek(0)
        loaded = torch.load(file, map_location=target)
        assert loaded["x"].device == torch.device(target or OCL)
        assert torch.equal(loaded["x"].cpu(), x.cpu())
        loaded["x"][1, 0] = 9
        assert loaded["part"][0, 0].item() == 9
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.device == x.device and torch.equal(made.cpu(), x.cpu())
        assert made.data_ptr() != x.data_ptr()


# ---- the module ----


def test_the_module_says_what_there_is():
    assert torch.ocl.device_count() >= 1 and torch.ocl.current_device() == 0
    properties = torch.ocl.get_device_properties(OCL)
    assert properties.total_memory > 0 and properties.multi_processor_count > 0 and properties.name
    gc.collect()  # or tensors of other tests go meanwhile
    torch.ocl.synchronize()
    before = torch.ocl.memory_allocated()
    x = torch.empty(1 << 20, device=OCL)
    assert torch.ocl.memory_allocated() - before >= 4 << 20
    del x
    assert torch.ocl.memory_allocated() == before
    torch.ocl.empty_cache()
    torch.ocl.synchronize()
    start, end = torch.ocl.Event(device=OCL, enable_timing=True), torch.ocl.Event(device=OCL, enable_timing=True)
    start.record()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    with torch.ocl.device(0):
        assert torch.empty(1, device="ocl").device.index == 0


def test_parameters_that_modules_share_stay_shared():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.out = torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7)
            self.out.weight = self.embedding.weight
            self.again = self.out

    model = Net().to(OCL)
    assert model.out.weight is model.embedding.weight and model.out.weight.device.type == "ocl"
    assert len([*model.parameters()]) == 2
    model.out(model.embedding(torch.tensor([1, 2], device=OCL))).sum().backward()
    assert model.embedding.weight.grad is not None
    model.half().cpu()
    assert model.out.weight is model.embedding.weight and model.out.weight.device.type == "cpu"
    assert copy.deepcopy(model).to(OCL).again.weight is not model.out.weight


def test_streams_are_queues_of_the_device():
    own, other = torch.ocl.default_stream(), torch.Stream(device=OCL)
    assert torch.ocl.current_stream() == own != other
    x = numbers(256, 256)
    there = x.to(OCL)
    start = own.record_event(torch.Event(device=OCL, enable_timing=True))
    with torch.ocl.stream(other):
        assert torch.ocl.current_stream() == other
        product = there @ there
        weight = there.clone().requires_grad_()
        (weight * weight).sum().backward()
        end = other.record_event(torch.Event(device=OCL, enable_timing=True))
    assert torch.ocl.current_stream() == own
    exact = (x.double() @ x.double() + x.double()).float()
    torch.testing.assert_close((product + there).cpu(), exact, rtol=1e-5, atol=1e-3)  # shared memory orders them
    torch.testing.assert_close(weight.grad.cpu(), 2 * x)
    own.wait_event(end)
    end.synchronize()
    assert end.query() and start.elapsed_time(end) > 0
    other.synchronize()
    assert other.query()
    assert {torch.Stream(device=OCL).stream_id for _ in range(20)} == set(range(1, 9))


# ---- fallbacks and errors ----


def test_fallbacks_are_counted_warned_about_and_refused():
    x = torch.eye(3).to(OCL)
    with pytest.raises(NotImplementedError, match="linalg_inv_ex"):
        torch.linalg.inv(x)
    torch.ocl.set_fallback("warn")
    with pytest.warns(UserWarning, match="linalg_inv_ex.* runs on the CPU"):
        torch.linalg.inv(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.linalg.inv(x)
    (found,) = [each for each in torch.ocl.fallbacks() if "linalg_inv_ex" in each.op]
    assert found.count == 2 and found.reason
    with pytest.raises(ValueError, match="expected one of warn"):
        torch.ocl.set_fallback("loud")


def test_bad_calls_raise():
    x = torch.ones(3, device=OCL)
    with pytest.raises(RuntimeError, match="device index is 99, expected 0 to"):
        torch.ones(2, device="ocl:99")
    with pytest.raises(RuntimeError, match="device index is 99"):
        torch.ocl.synchronize(99)
    with pytest.raises(RuntimeError, match=r"one device|same device"):
        x + torch.ones(3)
    with pytest.raises(RuntimeError):
        x @ torch.ones(4, device=OCL)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 44, device=OCL)
    assert (x + 1).tolist() == [2, 2, 2]


def test_out_of_memory_by_a_limit():
    torch.ocl.empty_cache()
    pl.set_memory_limit("opencl:0", pl.memory("opencl:0")["in_use"] + (1 << 20))
    try:
        with pytest.raises(torch.OutOfMemoryError, match="memory"):
            torch.empty(1 << 20, device=OCL)
    finally:
        pl.set_memory_limit("opencl:0", None)
    assert torch.ones(4, device=OCL).sum().item() == 4


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
    root = Path(pylayout.ocl.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, cwd=root, timeout=300)
    assert done.returncode == 0, done.stderr


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


def test_a_backward_on_the_cpu_does_not_start_opencl():
    root = Path(pylayout.ocl.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", CPU_BACKWARD], capture_output=True, text=True, cwd=root, timeout=300)
    assert done.returncode == 0, done.stderr


def test_an_unknown_pytorch_is_refused(monkeypatch):
    from pylayout.ocl import build

    monkeypatch.setattr(torch, "__version__", "1.4.0")
    with pytest.raises(UnknownVersionError, match=r"made for PyTorch .*this is 1.4.0; torch.compile"):
        build.library()


# ---- compiled ----


def _compiled(module):
    torch._dynamo.reset()
    return torch.compile(module, backend="pylayout", options={"deterministic": True})


def test_compiled_inference_on_the_device():
    import pylayout.torch

    torch.manual_seed(0)
    here = _network().eval()
    there = copy.deepcopy(here).to(OCL)
    x = numbers(4, 3, 12, 12)
    pylayout.torch.reset()
    fast = _compiled(there)
    with torch.no_grad():
        made = fast(x.to(OCL))
        assert made.device == torch.device(OCL)
        torch.testing.assert_close(made.cpu(), here(x), rtol=1e-4, atol=1e-4)
        for module in (here, there):
            module[0].weight.mul_(2)
        torch.testing.assert_close(fast(x.to(OCL)).cpu(), here(x), rtol=1e-4, atol=1e-4)
    graph = pylayout.torch.report().graphs[-1]
    assert len(graph.plans) == 1 and graph.left == () and graph.plans[0].device == "opencl:0"


def test_compiled_for_all_sizes_on_the_device():
    import pylayout.torch

    weight, shift = numbers(6, 4), numbers(1)

    def function(x, weight, shift):
        steps = torch.full((x.shape[0] + 1, 2), 0.5, device=x.device).cumsum(0) * shift  # of a size that no input has
        return (x @ weight).relu()[1:], steps

    torch._dynamo.reset()
    pylayout.torch.reset()
    fast = torch.compile(function, backend="pylayout", options={"deterministic": True})
    for rows in (5, 9, 4):
        x, weights = numbers(rows, 6), (weight, shift)
        given = x.to(OCL)
        torch._dynamo.mark_dynamic(given, 0)
        made = fast(given, *(each.to(OCL) for each in weights))
        for mine, wanted in zip(made, function(x, *weights), strict=True):
            torch.testing.assert_close(mine.cpu(), wanted, rtol=1e-4, atol=1e-4)
    (graph,) = pylayout.torch.report().graphs
    assert len(graph.plans) == 1 and graph.left == () and graph.again == (), str(graph)


def test_compiled_training_on_the_device():
    torch.ocl.set_fallback("silent")
    torch.manual_seed(0)
    here = _network()
    there = copy.deepcopy(here).to(OCL)
    x = numbers(4, 3, 12, 12)
    here(x).square().mean().backward()
    _compiled(there)(x.to(OCL)).square().mean().backward()
    for mine, wanted in zip(there.parameters(), here.parameters(), strict=True):
        assert mine.grad.device == torch.device(OCL)
        torch.testing.assert_close(mine.grad.cpu(), wanted.grad, rtol=1e-3, atol=1e-4)


# ---- automatic mixed precision ----


def test_autocast():
    linear = torch.nn.Linear(8, 4).to(OCL)
    x = numbers(2, 8)
    with torch.autocast("ocl", dtype=torch.bfloat16):
        made = linear(x.to(OCL))
        assert made.dtype == torch.bfloat16
        assert torch.softmax(made, 1).dtype == torch.float32
    torch.testing.assert_close(made.float().cpu(), linear.cpu()(x), rtol=5e-2, atol=5e-2)


def test_what_is_read_while_it_is_written():
    """In place where each element is read before it is written, through other memory where not."""
    x = numbers(6, 7)
    for change in (
        lambda x: x.add_(x),
        lambda x: x.mul_(x[0].clone()),
        lambda x: x[1:].sub_(x[:-1].clone()),
        lambda x: x[:, ::2].add_(x[:, 1:2]),
        lambda x: torch.where(x > 0, x, x * 2, out=x),
        lambda x: torch.mm(x, x.t(), out=torch.empty(6, 6, device=x.device)),
        lambda x: x.copy_(x.flip(1)),
    ):
        here, there = x.clone(), x.to(OCL)
        made, wanted = change(there), change(here)
        torch.testing.assert_close(there.cpu(), here)
        torch.testing.assert_close(made.cpu(), wanted)


AUTOLOAD = """
import torch
from torch.utils.data import DataLoader, TensorDataset
x = torch.ones(3, device="ocl:0")
assert torch.accelerator.current_accelerator().type == "ocl"
for (part,) in DataLoader(TensorDataset(torch.arange(6.0)), batch_size=3, num_workers=1):
    x += part.to("ocl")
print(x.tolist())
"""


def test_import_torch_finds_the_installed_device(tmp_path):
    """By the entry point of pyproject.toml; workers of a DataLoader are forked and give tensors of the CPU."""
    root = Path(pylayout.ocl.__file__).parents[2]
    wanted = '[project.entry-points."torch.backends"]\nocl = "pylayout.ocl:autoload"'
    assert not (root / "pyproject.toml").exists() or wanted in (root / "pyproject.toml").read_text()
    installed = tmp_path / "like_pylayout-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: like_pylayout\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[torch.backends]\nocl = pylayout.ocl:autoload\n")
    done = subprocess.run(
        [sys.executable, "-c", AUTOLOAD],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(tmp_path)])},
        timeout=300,
    )
    assert done.stdout.strip() == "[4.0, 6.0, 8.0]", done.stderr


BESIDE_CUDA = """
import torch
import pylayout.ocl
torch.cuda.device_count = lambda: 1
pylayout.ocl.autoload()
assert not hasattr(torch, "ocl"), "loaded unasked"
pylayout.ocl.load()
assert torch.ones(2, device="ocl").sum().item() == 2
"""


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


def test_compilers_leave_random_states_alone() -> None:
    """PyTorch keeps and restores them of every device around what it repeats, in code that is compiled, too."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        kept = torch.ocl.get_rng_state("ocl:0")
        y = x * 2
        torch.ocl.set_rng_state(kept, "ocl:0")
        return y + 1

    x = torch.ones(3)
    assert torch.equal(torch.compile(doubled, backend="pylayout")(x), x * 2 + 1)


# ---- layouts that kernels choose ----


def block(device):
    torch.manual_seed(3)
    made = torch.nn.Sequential(
        torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(16, 8, 3, padding=1, bias=False),
    )  # fmt: skip
    return made.to(device)


def test_results_lie_as_kernels_give_them_until_they_are_seen_otherwise():
    for batch, channels, size in ((8, 128, 8), (4, 64, 32)):
        x, weight = numbers(batch, channels, size, size), numbers(channels, channels, 3, 3) / channels
        with pl.profile() as profile:
            torch.nn.functional.conv2d(x.to(OCL), weight.to(OCL), padding=1)
        (lies,) = [event["outputs"][0] for event in profile.events if event["op"] == "conv2d"]
        if not lies.strip().endswith("NCHW"):
            break
    else:
        pytest.skip("this device's kernels give results as PyTorch's strides say")
    wanted = torch.nn.functional.conv2d(x, weight, padding=1)
    for change in (
        lambda y: y,
        lambda y: y.view(2, -1),
        lambda y: y.permute(0, 2, 3, 1),
        lambda y: y[:, 3:7, ::2],
        lambda y: y.contiguous(memory_format=torch.channels_last),
        lambda y: y.clone().detach(),
        lambda y: y.half(),
        lambda y: y.view(torch.int32),
        lambda y: copy.deepcopy(y),
        lambda y: y.add_(1).relu_(),
        lambda y: y.view(-1).add_(1).view_as(y),
        lambda y: y.transpose(0, 1).mul_(2),
    ):
        y = torch.nn.functional.conv2d(x.to(OCL), weight.to(OCL), padding=1)
        seen, expected = change(y), change(wanted.clone())
        assert seen.stride() == expected.stride()
        close = dict(rtol=1e-4, atol=1e-4) if seen.dtype == torch.float32 else dict(rtol=1e-2, atol=1e-2)
        if seen.dtype == torch.int32:  # the bits of what was computed
            assert torch.equal(seen.cpu(), y.cpu().view(torch.int32))
        else:
            torch.testing.assert_close(seen.cpu(), expected, **close)
        saved = io.BytesIO()
        torch.save(y, saved)
        saved.seek(0)
        assert torch.equal(torch.load(saved, map_location="cpu"), y.cpu())


def test_results_that_only_rename_an_argument_have_memory_of_their_own():
    """`_unsafe_view` and `view_copy` to images, of a tensor that PyTorch lets go or changes afterwards."""
    x, w = numbers(2, 5, 6, 32), numbers(16, 32)
    there = torch.nn.functional.linear(x.to(OCL), w.to(OCL))  # a product of matrices, whose result is then let go
    more = [numbers(60, 16).to(OCL) + i for i in range(4)]  # the next blocks of that size
    torch.testing.assert_close(there.cpu(), torch.nn.functional.linear(x, w))
    rows = numbers(60, 16)
    source = rows.to(OCL)
    copy = torch.ops.aten.view_copy(source, [2, 5, 6, 16])
    source.add_(1)
    torch.testing.assert_close(copy.cpu(), rows.view(2, 5, 6, 16))
    assert len(more) == 4


def test_training_of_images_reorders_activations_for_gradients_by_weights_alone():
    model, x = block(OCL), numbers(4, 8, 12, 12).to(OCL)

    def step():
        model.zero_grad()
        model(x).square().sum().backward()

    for _ in range(4):
        step()
    with pl.profile() as profile:
        step()
    moved = [event for event in profile.events if event["kind"] != "op" and event["role"] == "activation"]
    made = [event for event in profile.events if event["kind"] == "op"]
    others = [event for event in moved if not event["cause"].startswith("conv2d_backward_weights:")]
    layouts = {event["inputs"][0].split()[-1] for event in made if event["op"] in ("conv2d", "conv_transpose2d")}
    # The gradient of the sum is a number, seen in every place.  Where this processor's fastest kernels take another
    # layout backward than forward, what three ops have kept for backward is reordered, each once.
    allowed = 1 if len(layouts) == 1 else 1 + 3
    assert len(others) <= allowed and len(moved) <= allowed + 4, [(event["cause"], event["inputs"]) for event in moved]
    assert len(made) < 30


# ---- lists of tensors ----


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda weights, **more: torch.optim.SGD(weights, lr=0.1, momentum=0.9, weight_decay=0.01, **more),
        lambda weights, **more: torch.optim.SGD(weights, lr=0.1, momentum=0.9, nesterov=True, **more),
        lambda weights, **more: torch.optim.SGD(weights, lr=0.1, maximize=True, **more),
        lambda weights, **more: torch.optim.Adam(weights, lr=0.1, weight_decay=0.01, **more),
        lambda weights, **more: torch.optim.AdamW(weights, lr=0.1, amsgrad=True, **more),
        lambda weights, **more: torch.optim.AdamW(weights, lr=0.1, **more),
    ],
    ids=["sgd", "nesterov", "maximize", "adam", "amsgrad", "adamw"],
)
def test_steps_of_optimizers_on_many_weights_start_few_kernels(make, fused):
    shapes = [(3, 4), (5,), (2, 3, 3, 3), (7, 2), (1,), (), (4, 4), (6,), (9,), (2, 2)]
    torch.manual_seed(5)
    start = [torch.randn(shape) for shape in shapes]
    results, counts = [], {}
    for device in ("cpu", OCL):
        weights = [value.clone().to(device).requires_grad_() for value in start]
        optimizer = make(weights, **({"fused": True} if fused else {"foreach": True}))
        for round in range(12):
            for number, weight in enumerate(weights):
                weight.grad = torch.full_like(weight, 0.1 * (number + 1) * (-1) ** round)
            if device == OCL and round == 11:
                with pl.profile() as profile:
                    optimizer.step()
                counts[device] = len(profile.events)
            else:
                optimizer.step()
        results.append([weight.detach().cpu() for weight in weights])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    names = type(optimizer).__name__
    if not optimizer.defaults["maximize"] and not optimizer.defaults.get("amsgrad"):
        assert counts[OCL] < len(shapes) * (1 if fused else 4 if names == "SGD" else 9), counts


def test_gradients_that_are_not_finite_are_found_and_leave_weights_as_they_are():
    weights = [torch.ones(4, device=OCL, requires_grad=True), torch.ones(3, 2, device=OCL, requires_grad=True)]
    optimizer = torch.optim.SGD(weights, lr=0.5, momentum=0.9, fused=True)
    scaler = torch.amp.GradScaler("ocl", init_scale=8.0)
    for bad in (False, True, False):
        optimizer.zero_grad()
        scaler.scale(weights[0].sum() + weights[1].sum()).backward()
        if bad:
            weights[1].grad[1, 1] = float("nan")
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 4.0
    for weight in weights:
        torch.testing.assert_close(weight.detach().cpu(), torch.full_like(weight, 1 - 0.5 - 0.5 * 1.9).cpu())
