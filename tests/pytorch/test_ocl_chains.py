"""Ops on lists of tensors of the device ocl that wait for each other and run as one kernel (shim/chain.h): they give
what the CPU gives, whatever comes between them."""

import gc
import threading

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, quiet  # noqa: E402, F401

import pylayout as pl  # noqa: E402

SHAPES = [(3, 5), (7,), (2, 3, 4), ()]


def values(seed, shapes=SHAPES):
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(shape, generator=generator) + 0.5 for shape in shapes]


def on_both(change, lists=3, shapes=SHAPES, times=2, tolerance=2e-6):
    """What `change` gives of the same lists on the device and on the CPU, and the lists afterwards, are the same."""
    for _ in range(times):
        found = []
        for device in ("cpu", OCL):
            given = [[each.to(device) for each in values(seed, shapes)] for seed in range(lists)]
            made = change(*given)
            found.append([each.cpu() for group in (*given, *(made or ())) for each in group])
        for expected, result in zip(*found, strict=True):
            torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)


def launches(work):
    torch.ocl.synchronize()
    with pl.profile() as profile:
        work()
    return [(event["op"], len(event["outputs"])) for event in profile.events]


OPTIMIZERS = {
    "adam": (torch.optim.Adam, {"weight_decay": 0.1}),
    "amsgrad": (torch.optim.Adam, {"amsgrad": True}),
    "adamw": (torch.optim.AdamW, {}),
    "maximize": (torch.optim.AdamW, {"maximize": True}),
    "sgd": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "rmsprop": (torch.optim.RMSprop, {"momentum": 0.5, "centered": True}),
    "adagrad": (torch.optim.Adagrad, {"lr_decay": 0.01}),
    "adadelta": (torch.optim.Adadelta, {}),
    "adamax": (torch.optim.Adamax, {}),
    "nadam": (torch.optim.NAdam, {}),
    "radam": (torch.optim.RAdam, {}),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers(kind):
    make, options = OPTIMIZERS[kind]
    sides = []
    for device in ("cpu", OCL):
        parameters = [torch.nn.Parameter(each.to(device)) for each in values(0)]
        sides.append((parameters, make(parameters, lr=0.01, foreach=device != "cpu", **options)))
    for step in range(9):
        for parameters, optimizer in sides:
            for parameter, gradient in zip(parameters, values(step + 1), strict=True):
                parameter.grad = (gradient - 1).to(parameter.device)
            optimizer.param_groups[0]["lr"] *= 0.9
            optimizer.step()
    for expected, found in zip(sides[0][0], sides[1][0], strict=True):
        torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=2e-5, atol=2e-6)


def test_a_step_is_one_kernel():
    parameters = [torch.nn.Parameter(each.to(OCL)) for each in values(0, SHAPES[:3])]
    optimizer = torch.optim.AdamW(parameters, lr=0.01)

    def step():
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        torch.ocl.synchronize()
        return launches(optimizer.step)

    assert [step() for _ in range(4)][-1] == [("pointwise", 3)]  # square roots are not written


def chain(x, y, z):
    torch._foreach_mul_(x, 0.5)
    torch._foreach_lerp_(y, x, 0.25)
    root = torch._foreach_sqrt(y)
    torch._foreach_div_(root, [1.5, 2.5, 3.5, 4.5])
    torch._foreach_add_(root, 1)
    torch._foreach_addcdiv_(z, y, root, -0.125)
    return (root,)


def test_lists_that_are_made_and_kept():
    on_both(chain, times=4)


def test_lists_that_nobody_has_are_not_written():
    def work(x, y, z):
        chain(x, y, z)

    on_both(work, times=3)
    lists = [[each.to(OCL) for each in values(seed)] for seed in range(3)]
    before = torch.ocl.memory_allocated()
    for _ in range(20):
        work(*lists)
    gc.collect()
    torch.ocl.synchronize()
    assert torch.ocl.memory_allocated() <= before


def test_one_of_a_made_list_is_kept():
    on_both(lambda x, y, z: ([chain(x, y, z)[0][2]],))


def test_a_view_of_a_made_tensor_is_kept():
    on_both(lambda x, y, z: ([chain(x, y, z)[0][0][1]],))


def test_reading_between():
    def change(x, y, _):
        torch._foreach_mul_(x, 3.0)
        first = x[1].sum().cpu()
        torch._foreach_add_(x, y, alpha=2)
        second = x[1].clone()
        torch._foreach_sub_(x, 1.5)
        return ([first, second],)

    on_both(change)


def test_writing_between():
    def change(x, y, z):
        torch._foreach_mul_(x, y)
        y[0].zero_()
        torch._foreach_add_(x, y, alpha=2.5)
        x[2].copy_(z[2])
        x[3].fill_(7)
        torch._foreach_addcmul_(x, y, z, 0.5)
        z[1].add_(1)
        torch._foreach_div_(z, x)

    on_both(change)


def test_other_memory_between():
    def change(x, y, z):
        torch._foreach_mul_(x, 2.0)
        x[0].data = z[0].clone()
        x[1].set_(y[1])
        torch._foreach_add_(x, y)
        whole = torch.arange(14.0, device=x[0].device)
        part = whole[:7]
        torch._foreach_mul_([part, x[0]], 3.0)
        part.set_(whole, 7, (7,), (1,))
        torch._foreach_add_([part, x[0]], 0.5)
        return ([whole],)

    on_both(change)


def test_lists_in_another_order():
    def change(x, y, _):
        torch._foreach_mul_(x, 0.5)
        torch._foreach_add_(x[::-1], y[::-1])
        torch._foreach_mul_(x[:2], 3.0)
        torch._foreach_add_([x[0], y[1]], 1.0)
        torch._foreach_sub_(x, y)

    on_both(change)


def test_lists_of_each_other():
    def change(x, y, _):
        torch._foreach_add_([x[0], x[1]], [x[0], y[1]])
        torch._foreach_mul_([x[0], x[0]], 2.0)  # one tensor twice
        torch._foreach_add_(x, x)
        torch._foreach_addcmul_(x, y, y)

    on_both(change)


def test_tensors_of_one_memory():
    def change(x, y, _):
        whole = torch.zeros(24, device=x[0].device)
        parts = [whole[:15].view(3, 5), whole[15:22]]
        torch._foreach_add_(parts, x[:2])
        torch._foreach_mul_(parts, 2.0)
        whole.add_(1)
        torch._foreach_sub_(parts, y[:2])
        both = [whole[:12], whole[6:18]]  # which overlap: the CPU takes one after the other
        torch._foreach_mul_(both, 1.5)
        return ([whole],)

    on_both(change)


def test_what_does_not_suit():
    def change(x, y, z):
        torch._foreach_add_(x, 1)
        torch._foreach_add_([x[0], x[1].half()], 2.5)
        torch._foreach_add_([x[0][:, 1:3], x[1]], 2.5)  # with gaps
        torch._foreach_add_([x[0], torch.ones(0, device=x[0].device)], 1.5)
        torch._foreach_mul_([x[0], x[1]], [y[0], y[1][:1]])  # broadcast
        torch._foreach_div_(x, float("inf"))
        torch._foreach_add_([x[0].t(), x[1]], [y[0].t(), y[1]])
        torch._foreach_add_([x[0], x[1]], [y[0].t().contiguous().t(), y[1]])  # other strides
        torch._foreach_add_(z, z[3])

    on_both(change)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    """Nothing is rounded on the way: nearer to what float32 gives than the CPU's steps."""
    found = []
    for device, kind in (("cpu", torch.float32), ("cpu", dtype), (OCL, dtype)):
        lists = [[each.to(dtype).to(device).to(kind) for each in values(seed)] for seed in range(3)]
        kept = chain(*lists)
        found.append([each.cpu().float() for group in (*lists, *kept) for each in group])
    for exact, theirs, mine in zip(*found, strict=True):
        error = (mine - exact).norm() / exact.norm()
        assert error < max(2 * (theirs - exact).norm() / exact.norm(), torch.finfo(dtype).eps)


def test_two_dtypes_in_turn():
    def change(x, y, z):
        low, more = [each.half() for each in x], [each.half() for each in y]
        for _ in range(2):
            torch._foreach_mul_(x, 1.5)
            torch._foreach_mul_(low, 1.5)
            torch._foreach_add_(low, more)
            torch._foreach_add_(x, z)
        return ([each.float() for each in low],)

    on_both(change, tolerance=2e-3)


def test_errors_are_pytorchs():
    x, y = ([each.to(OCL) for each in values(seed)] for seed in range(2))
    torch._foreach_mul_(x, 2.0)
    with pytest.raises(RuntimeError, match="lists must have the same"):
        torch._foreach_add_(x, y[:2])
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        torch._foreach_mul_(x, [1.0, 2.0])
    for found, expected in zip(x, values(0), strict=True):
        torch.testing.assert_close(found.cpu(), expected * 2)


def test_longer_than_a_kernel_takes():
    def change(*lists):
        for number in range(3):
            for n in range(len(lists)):
                torch._foreach_mul_(lists[n], 0.5 + number)
                torch._foreach_add_(lists[n], lists[n - 1], alpha=0.25)

    on_both(change, lists=8)


def test_numbers_that_change():
    for number in [0.5, 0.5, 0.5, 0.25, 0.25, 2, 3, 0.5] * 2:

        def change(x, y, _, by=number):
            torch._foreach_addcmul_(x, y, y, by)
            torch._foreach_mul_(x, [by, 1.0, by, 2.0])

        on_both(change, times=1)


def test_more_numbers_than_are_kept():
    """A number that waits to be read is not written over by one that takes its place."""
    x = values(0, [(3,), (5,)])
    there = [each.to(OCL) for each in x]
    numbers = iter(0.9 + n / 10000 for n in range(2000))
    for _ in range(2000 // 5):
        by = [next(numbers) for _ in range(5)]
        for given in (x, there):
            torch._foreach_mul_(given, by[0])
            torch._foreach_add_(given, by[1])
            torch._foreach_mul_(given, 1 / by[2])
            torch._foreach_sub_(given, by[3])
            torch._foreach_mul_(given, 1 / by[4])
        for each, expected in zip(there, x, strict=True):
            torch.testing.assert_close(each.cpu(), expected, rtol=1e-5, atol=1e-5)
            each.copy_(expected)


def test_memory_of_numbers_that_are_kept_no_more():
    """What takes the memory of a number that waits to be read is written after that."""
    there = [torch.ones(2, device=OCL) for _ in range(300)]
    torch.empty((), device=OCL).fill_(1.0).fill_(2.0)
    for first in (1000.0, 2000.0, 3000.0):
        for each in there:
            each.fill_(1.0)
        torch.ocl.synchronize()
        numbers = [first + n for n in range(len(there))]
        torch._foreach_mul_(there, numbers)  # more than are kept
        kept = [torch.empty((), device=OCL).fill_(-7.0) for _ in there]
        assert [each[0].item() for each in there] == numbers
        assert all(each.item() == -7 for each in kept)


def test_versions_and_gradients():
    x = [torch.nn.Parameter(each.to(OCL)) for each in values(0)]
    loss = sum((each * each).sum() for each in x)
    with torch.no_grad():
        torch._foreach_mul_(x, 2.0)
    assert all(each._version == 1 for each in x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_threads():
    results = [None] * 4

    def work(number):
        x = [each.to(OCL) for each in values(number)]
        y = [each.to(OCL) for each in values(number + 1)]
        for _ in range(50):
            torch._foreach_add_(x, y)
            torch._foreach_mul_(x, 0.5)
        results[number] = [each.cpu() for each in x]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, found in enumerate(results):
        for result, x, y in zip(found, values(number), values(number + 1), strict=True):
            for _ in range(50):
                x = (x + y) * 0.5
            torch.testing.assert_close(result, x)
