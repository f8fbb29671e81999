"""Pinned memory and copies that do not wait: what a program for `cuda` may rely on."""

import gc
import threading

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

OCL = "ocl:0"
DTYPES = [torch.float32, torch.float16, torch.int64, torch.bool, torch.float64, torch.int16, torch.complex64]


@pytest.fixture(autouse=True)
def quiet(unoptimised):
    yield
    torch.ocl.synchronize()
    torch.ocl.set_stream(torch.ocl.default_stream())


def keep_busy(x):
    """Work that takes the device some time: what is queued behind it is not done at once."""
    for _ in range(6):
        x = x @ x * 1e-3
    return x


def test_memory_is_pinned_where_it_says_so():
    x = torch.arange(12.0).view(3, 4)
    pinned = x.pin_memory()
    assert not x.is_pinned() and pinned.is_pinned() and pinned.device.type == "cpu"
    assert torch.equal(pinned, x) and pinned[1:, 2].is_pinned() and pinned.pin_memory() is pinned
    made = torch.empty(50_000, pin_memory=True)
    assert made.is_pinned() and made.fill_(2).sum() == 100_000
    assert torch.empty(0).pin_memory().numel() == 0
    assert pinned.clone().is_pinned() is False
    address = made.data_ptr()
    del made
    again = torch.empty(50_000, pin_memory=True)  # nothing uses it any more
    assert again.data_ptr() == address
    torch.ocl.empty_cache()


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies_in_both_directions_of_any_dtype_and_strides(dtype, pinned):
    torch.manual_seed(0)
    torch.ocl.set_fallback("silent")
    plain = (torch.randn(2, 5, 3, 4) * 3).to(dtype)
    for view in (
        lambda x: x,
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x[:, 1:4, :, ::2],
        lambda x: x[0, 0, 0, 0],
        lambda x: x[:, :0],
        lambda x: x[:1].expand(4, 5, 3, 4),
    ):
        x = view(plain)
        given = view(plain.pin_memory()) if pinned else x
        there = given.to(OCL, non_blocking=True)
        back = there.to("cpu", non_blocking=True)
        torch.ocl.synchronize()
        assert back.dtype == dtype and torch.equal(back, x) and torch.equal(there.cpu(), x)
        target = torch.empty_like(x, pin_memory=pinned)
        target.copy_(there.flip(0) if x.dim() else there, non_blocking=True)
        torch.ocl.synchronize()
        assert torch.equal(target, x.flip(0) if x.dim() else x)


@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16, torch.int32, torch.float64], ids=str)
def test_copies_that_change_the_dtype(wanted):
    torch.ocl.set_fallback("silent")
    x = torch.arange(20.0).view(4, 5)
    there = torch.empty(4, 5, dtype=wanted, device=OCL)
    there.copy_(x.pin_memory(), non_blocking=True)
    assert torch.equal(there.cpu(), x.to(wanted))
    back = torch.empty(4, 5, dtype=torch.float16).pin_memory()
    back.copy_(there, non_blocking=True)
    torch.ocl.synchronize()
    assert torch.equal(back, x.half())


def test_a_copy_to_the_device_does_not_wait_for_it():
    busy = torch.rand(500, 500, device=OCL)
    keep_busy(busy)  # programs are made
    torch.ocl.synchronize()
    x = torch.rand(64, 64).pin_memory()
    wanted = x.clone()
    stream = torch.ocl.current_stream()
    keep_busy(busy)
    there = x.to(OCL, non_blocking=True)
    back = there.to("cpu", non_blocking=True)
    assert back.is_pinned() and not stream.query()  # the copies are queued behind the products
    stream.synchronize()
    assert torch.equal(back, wanted)


def test_what_is_not_pinned_may_change_at_once():
    busy = torch.rand(300, 300, device=OCL)
    for _ in range(3):
        keep_busy(busy)
        x = torch.full((1000,), 3.0)
        there = x.to(OCL, non_blocking=True)
        x.fill_(7)
        assert there.cpu().eq(3).all()
    plain = torch.zeros(1000)
    keep_busy(busy)
    plain.copy_(there, non_blocking=True)  # memory that the device does not write: waited for
    assert plain.eq(3).all()


def test_pinned_memory_is_given_to_nobody_before_its_copy_is_done():
    busy = torch.rand(200, 200, device=OCL)
    results = []
    for number in range(8):
        keep_busy(busy)
        results.append(torch.full((4096,), float(number)).pin_memory().to(OCL, non_blocking=True))
        gc.collect()
    for number, result in enumerate(results):
        assert result.cpu().eq(number).all()


def test_threads_and_streams():
    """Four threads, each on a stream of its own, copy to the device, compute and copy back, and wait by events."""
    errors = []

    def work(seed):
        try:
            stream = torch.Stream(device=OCL)
            with torch.ocl.stream(stream):
                for number in range(8):
                    x = torch.full((37, 65), float(seed * 100 + number)).pin_memory()
                    there = x.to(OCL, non_blocking=True)
                    back = (there * 2 + 1).to("cpu", non_blocking=True)
                    done = torch.Event(device=OCL)
                    done.record(stream)
                    done.synchronize()
                    assert back.eq((seed * 100 + number) * 2 + 1).all(), (seed, number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_a_copy_on_another_stream_is_ordered_by_an_event():
    copies, x = torch.Stream(device=OCL), torch.rand(300, 300).pin_memory()
    with torch.ocl.stream(copies):
        there = x.to(OCL, non_blocking=True)
        ready = copies.record_event()
    torch.ocl.current_stream().wait_event(ready)
    torch.testing.assert_close((there + 1).cpu(), x + 1)


def test_a_loader_pins_what_it_gives():
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.arange(24.0).view(8, 3), torch.arange(8))
    seen = []
    for x, number in DataLoader(data, batch_size=3, pin_memory=True):
        assert x.is_pinned() and number.is_pinned()
        seen += x.to(OCL, non_blocking=True).sum(1).tolist()
    assert seen == data.tensors[0].sum(1).tolist()
