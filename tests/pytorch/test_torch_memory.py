"""Memory of large results that is kept for the next call: only what nobody refers to is written again."""

from __future__ import annotations

import resource
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pylayout.torch  # noqa: E402
from pylayout.torch import memory  # noqa: E402

SHAPE, STRIDES, BYTES = (600, 1000), (1000, 1), 2400000

pytestmark = pytest.mark.skipif(memory._uses is None, reason="this PyTorch does not count uses of storages")


@pytest.fixture(autouse=True)
def fresh():
    limit = memory._blocks.limit
    torch._dynamo.reset()
    pylayout.torch.set_memory_limit(0)  # what other tests have left
    pylayout.torch.set_memory_limit(64 << 20)
    yield
    pylayout.torch.set_memory_limit(limit)
    torch._dynamo.reset()


def made(shape=SHAPE, strides=STRIDES, dtype=torch.float32, size=BYTES):
    tensor = memory.empty(shape, strides, dtype, size)
    assert tensor.shape == shape and tensor.stride() == strides and tensor.dtype == dtype
    assert tensor.untyped_storage().nbytes() == size and tensor._base is None
    return tensor


def test_memory_is_used_again_once_it_is_free():
    first = made()
    address = first.data_ptr()
    second = made()
    assert second.data_ptr() != address
    del first
    third = made((1000, 600), (1, 1000))  # the same size of another shape
    assert third.data_ptr() == address
    del second, third
    half = made((1200, 1000), (1000, 1), torch.bfloat16)
    assert half.dtype == torch.bfloat16
    assert memory._blocks.bytes == 2 * BYTES


@pytest.mark.parametrize(
    "holder",
    [
        lambda tensor: tensor[5:7],
        lambda tensor: tensor.detach(),
        lambda tensor: tensor.numpy(),
        lambda tensor: np.from_dlpack(tensor),
        lambda tensor: tensor.untyped_storage(),
        lambda tensor: tensor.view(torch.int32),
        lambda tensor: torch.nn.Parameter(tensor),
        lambda tensor: memoryview(tensor.numpy()),
        lambda tensor: tensor.requires_grad_().exp().grad_fn,
    ],
    ids=["view", "detached", "array", "dlpack", "storage", "dtype", "parameter", "buffer", "saved"],
)
def test_memory_that_something_holds_is_not_written(holder):
    tensor = made()
    address = tensor.data_ptr()
    held = holder(tensor)
    tensor = None
    assert made().data_ptr() != address
    del held


def test_resized_and_shared_memory_is_not_given_out():
    tensor = made()
    tensor.untyped_storage().resize_(0)  # as some libraries free memory
    del tensor
    again = made()
    again.fill_(1)
    again.share_memory_()
    address = again.data_ptr()
    del again
    assert made().data_ptr() != address
    assert memory._blocks.bytes == BYTES


def test_memory_that_an_array_had_is_not_given_out():
    tensor = made()
    tensor.numpy()
    del tensor
    assert made().untyped_storage().resizable()


def test_the_limit_and_empty_cache():
    pylayout.torch.set_memory_limit(3 * BYTES)
    held = [made() for _ in range(5)]
    assert memory._blocks.bytes == 3 * BYTES  # the others are PyTorch's alone
    pylayout.torch.empty_cache()
    assert memory._blocks.bytes == 3 * BYTES  # in use
    del held[:2]
    pylayout.torch.empty_cache()
    assert memory._blocks.bytes <= 2 * BYTES
    held.clear()
    other = made((700, 1000), (1000, 1), size=2800000)  # in the place of the free ones of another size
    assert memory._blocks.bytes <= 3 * BYTES
    pylayout.torch.set_memory_limit(0)
    assert memory._blocks.bytes == 0
    made()
    assert memory._blocks.bytes == 0
    other.fill_(1)
    with pytest.raises(ValueError, match="expected at least 0"):
        pylayout.torch.set_memory_limit(-1)


def test_small_results_are_pytorchs():
    memory.empty((10,), (1,), torch.float32, 40)
    assert memory._blocks.bytes == 0


def test_threads_never_share_a_block():
    wrong = []

    def work(number):
        for step in range(200):
            tensor = made()
            tensor[0, :4] = number * 1000 + step
            tensor[-1, -4:] = number * 1000 + step
            other = made()
            other[0, :4] = -1
            other[-1, -4:] = -1
            if not bool(
                (tensor[0, :4] == number * 1000 + step).all() & (tensor[-1, -4:] == number * 1000 + step).all()
            ):
                wrong.append((number, step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    # In each at most three at a time: a name still holds its block while it gets another one.
    assert memory._blocks.bytes <= 4 * 3 * BYTES


@pytest.mark.usefixtures("untuned")
def test_results_that_are_kept_stay_and_steps_have_few_page_faults():
    table = torch.nn.Embedding(4096, 512)
    index = torch.arange(64)

    def function(index):
        return table(index).square().sum()

    fast = torch.compile(function, backend="pylayout")
    faults, kept = [], []
    for step in range(8):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        fast(index + step).backward()
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        kept.append(table.weight.grad)
        table.weight.grad = None
        if step >= 4:
            kept.clear()
    pages = 4096 * 512 * 4 // resource.getpagesize()
    assert min(faults[5:]) < pages // 4
    for step in range(3):
        fast(index + step).backward()
        kept.append(table.weight.grad)
        table.weight.grad = None
    for step, grad in enumerate(kept):
        expected = torch.zeros_like(grad)
        expected[index + step] = 2 * table.weight.detach()[index + step]
        torch.testing.assert_close(grad, expected)
