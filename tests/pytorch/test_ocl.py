"""The device ocl of PyTorch: storages, copies, ops, gradients, saving, errors."""

import copy
import gc
import io
import math
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, numbers, quiet, small_network  # noqa: E402, F401

import pylayout as pl  # noqa: E402
import pylayout.ocl  # noqa: E402
from pylayout.ocl import programs  # noqa: E402

DTYPES = [
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32,
    torch.int64, torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip

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


@pytest.mark.parametrize("count", [2, 65, 300])
def test_many_tensors_in_one_call(count):
    torch.ocl.set_fallback("error")
    parts = [numbers(2, 3) for _ in range(count)]
    given = [part.to(OCL).requires_grad_() for part in parts]
    joined = torch.cat(given, 1)
    assert torch.equal(joined.cpu(), torch.cat(parts, 1))
    joined.sum().backward()
    assert torch.equal(given[-1].grad.cpu(), torch.ones(2, 3))
    assert torch.equal(torch.stack(given).cpu(), torch.stack(parts))
    copies = torch.split_copy(joined.detach(), 3, 1)
    assert len(copies) == count and torch.equal(copies[-1].cpu(), parts[-1])


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", [
    lambda x, y, number: x.mul_(number),
    lambda x, y, number: x.addcdiv_(y, y + 3, value=number),
    lambda x, y, number: x.lerp_(y, number),
    lambda x, y, number: x.add_(y, alpha=number).div_(1 + number),
    lambda x, y, number: x.sub_(number),
    lambda x, y, number: x.fill_(number),
    lambda x, y, number: x.copy_(torch.full_like(x, number)),
    lambda x, y, number: x.copy_(torch.full((3, 4), number, device=x.device)),
    lambda x, y, number: x.clamp_(number),
    lambda x, y, number: x.clamp_(max=number),
    lambda x, y, number: x.clamp_(-number, number),
])  # fmt: skip
def test_numbers_that_change_need_no_new_programs(form, dtype, monkeypatch):
    check_that_no_programs_are_made(form, dtype, monkeypatch)


@pytest.mark.parametrize("form", [lambda x, y, number: x.copy_(y > number), lambda x, y, number: y.ne_(number)])
def test_comparisons_with_numbers_that_change_need_no_new_programs(form, monkeypatch):
    check_that_no_programs_are_made(form, torch.float32, monkeypatch)


def check_that_no_programs_are_made(form, dtype, monkeypatch):
    x, y = numbers(3, 4, dtype=dtype), numbers(3, 4, dtype=dtype).abs()
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
    tolerance = 1e-5 if dtype == torch.float32 else 16 * torch.finfo(dtype).eps
    torch.testing.assert_close(there.cpu(), x, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("call", [
    lambda x: x / 2,
    torch.sqrt,
    lambda x: torch._foreach_div([x, x], 2)[1],
    torch.exp,
])  # fmt: skip
def test_the_default_dtype_counts(call):
    whole = torch.arange(1, 6)
    there = whole.to(OCL)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float32):
        torch.set_default_dtype(dtype)
        try:
            for n in (5, 4, 3, 2):  # further sizes take the steps of others
                found, wanted = call(there[:n]), call(whole[:n])
                assert found.dtype == wanted.dtype == dtype
                torch.testing.assert_close(found.cpu(), wanted)
        finally:
            torch.set_default_dtype(torch.float32)


def signs(x):
    return torch.copysign(torch.ones(()), x.cpu())


@pytest.mark.parametrize("numbers_before", [[], [1.5, 2.5, 3.5, 4.5, 5.5]])  # later ones are read by the kernel
@pytest.mark.parametrize("call", [
    lambda x, number: x / number,
    lambda x, number: x * number,
    lambda x, number: torch._foreach_div([x, x], number)[1],
    lambda x, number: torch._foreach_mul([x, x], [number, abs(number)])[0],
])  # fmt: skip
def test_zeros_have_signs(call, numbers_before):
    torch.ocl.empty_cache()
    programs._calls.clear()
    x = numbers(6)
    there = x.to(OCL)
    for n, number in enumerate([*numbers_before, 0.0, -0.0, 0.0, -0.0]):
        part = slice(n % 3, None)  # of other sizes, too
        for each in (there, there[part]):
            found, wanted = call(each, number), call(each.cpu(), number)
            assert torch.equal(found.cpu(), wanted) and torch.equal(signs(found), signs(wanted)), number


def test_nan_is_a_number_like_others(monkeypatch):
    x = numbers(9).to(OCL)
    calls = [lambda n=n: x[:n] * math.nan for n in range(4, 9)]
    for number in (1.5, 2.5, 3.5, 4.5, 5.5, math.nan):
        x[:3].sub_(number)
    found = [call() for call in calls[:3]]
    made, by_converters = [], programs._made
    monkeypatch.setattr(programs, "_made", lambda name, *rest: made.append(name) or by_converters(name, *rest))
    found += [call() for call in calls] + [x[:3].sub_(math.nan)]
    assert all(each.cpu().isnan().all() for each in found) and not made


def test_inference_runs_on_the_device_alone():
    torch.manual_seed(0)
    network = small_network().eval()
    x = numbers(4, 3, 12, 12)
    there = copy.deepcopy(network).to(OCL)
    with torch.no_grad():
        torch.testing.assert_close(there(x.to(OCL)).cpu(), network(x), rtol=1e-4, atol=1e-4)
    assert torch.ocl.fallbacks() == []


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_training_follows_the_cpu(optimizer):
    torch.ocl.set_fallback("silent")
    torch.manual_seed(0)
    here = small_network()
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
    there.record_stream(other)  # nothing has to be done
    with pytest.raises(RuntimeError, match="record_stream: the stream is of cpu"):
        there.record_stream(torch.Stream(device="cpu"))
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


def test_a_number_of_the_cpu_is_read_and_not_written():
    number, x = torch.tensor(2.0), numbers(3).to(OCL)
    torch.testing.assert_close((number * x).cpu(), number * x.cpu())
    for call in (
        lambda: number.add_(x.sum()),
        lambda: number.mul_(x[0]),
        lambda: torch.add(x[0], x[1], out=number),
        lambda: torch.tensor(1j).add_(x[0]),
        lambda: torch.tensor(1).bitwise_and_(torch.tensor(3, device=OCL)),
    ):
        with pytest.raises(RuntimeError, match="expected all tensors on one device, but one is on ocl"):
            call()
    assert number.item() == 2


def test_out_of_memory_by_a_limit():
    torch.ocl.empty_cache()
    pl.set_memory_limit("opencl:0", pl.memory("opencl:0")["in_use"] + (1 << 20))
    try:
        with pytest.raises(torch.OutOfMemoryError, match="memory"):
            torch.empty(1 << 20, device=OCL)
    finally:
        pl.set_memory_limit("opencl:0", None)
    assert torch.ones(4, device=OCL).sum().item() == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_products_by_groups_run_on_the_device(dtype):
    """Also in dtypes that PyTorch's description of the op refuses; whole numbers, of which sums are exact."""
    x, weight = (torch.randint(-3, 4, shape).to(dtype) for shape in ((9, 16), (3, 8, 16)))
    ends = torch.tensor([4, 4, 9], dtype=torch.int32)
    found = []
    for device in ("cpu", OCL):
        rows, matrices = (each.to(device, copy=True).requires_grad_() for each in (x, weight))
        y = torch.relu(torch.nn.functional.grouped_mm(rows, matrices.mT, offs=ends.to(device)))
        y.sum().backward()
        found.append([each.cpu() for each in (y.detach(), rows.grad, matrices.grad)])
    for on_cpu, on_device in zip(*found, strict=True):
        assert torch.equal(on_cpu, on_device)
