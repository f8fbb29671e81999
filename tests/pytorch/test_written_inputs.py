"""Graphs that change what they are given, under torch.compile: plans write where that lies."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh, needs_opencl  # noqa: E402, F401

import pylayout.torch  # noqa: E402

functional = torch.nn.functional


def rows(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def add(x, y):
    x.add_(y * 2)


def gives_itself(x, y):
    return [x.add_(y * 2), y * 3]


def exchange(x, y):
    before = x * 1.0
    x.copy_(y * 1.0)
    y.copy_(before)


def shift(x, y):
    x[1:] = x[:-1].clone() * 2
    return [y + x]


def multiply(x, y):
    x.copy_(torch.relu(x @ y))


def convolve(x, y):
    x.copy_(functional.conv2d(x[None, None], y[None, None, :3, :3], padding=1)[0, 0] + x)


def sums(x, y):
    x.copy_(torch.cumsum(x, 0))
    y.copy_(x.flip(0) + y)


def normalise(x, y):
    x.copy_(torch.softmax(x, -1))
    y.copy_(functional.layer_norm(y, (6,)))


def spread(x, y):
    x.add_(x.sum(0, keepdim=True))
    y.mul_(x.t())


def moments(x, y):
    """Three results of one expression, two of them over what it reads."""
    x.lerp_(y, 0.1)
    y.mul_(0.9).addcmul_(x, x, value=0.1)
    return [x / (y.abs().sqrt() + 1e-3)]


def append(x, y):
    """A cache of keys, of which one row is new."""
    x.index_copy_(0, torch.tensor([2], device=x.device), y[:1] * 2)
    return [functional.scaled_dot_product_attention(y[None], x[None], x[None])]


CASES = [add, gives_itself, exchange, shift, multiply, convolve, sums, normalise, spread, moments, append]


@pytest.mark.parametrize("where", ["cpu", "ocl"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_changes_are_those_of_eager_mode(case, where):
    if where == "ocl":
        needs_opencl()
    here = [rows(6, 6), rows(6, 6, seed=1)]
    there = [each.clone().to(where) for each in here]
    addresses = [each.data_ptr() for each in there]
    fast = compiled(case)
    with torch.no_grad():
        for _ in range(3):
            versions = [each._version for each in there]
            expected, made = case(*here), fast(*there)
            for mine, wanted in zip(there, here, strict=True):
                close(mine.cpu(), wanted)
            assert there[0]._version > versions[0]
            for mine, wanted in zip(made or [], expected or [], strict=True):
                close(mine.cpu(), wanted)
    assert addresses == [each.data_ptr() for each in there]
    if case is gives_itself:
        assert made[0] is there[0]
    (graph,) = pylayout.torch.report().graphs
    assert graph.left == () and graph.partitions == 1, str(graph)


@pytest.mark.parametrize("shape", [(4, 6), (1, 6), (0, 6), (7, 9)])
def test_sizes_known_late(shape):
    fast = torch.compile(add, backend="pylayout", dynamic=True)
    fast(rows(3, 5), rows(3, 5))
    x, y = rows(*shape), rows(*shape, seed=1)
    expected = x + 2 * y
    fast(x, y)
    close(x, expected)


def test_inputs_of_inference_mode_have_no_versions():
    fast = compiled(add)
    with torch.inference_mode():
        x, y = rows(3, 4), rows(3, 4, seed=1)
        expected = x + 2 * y
        fast(x, y)
    close(x, expected)


def test_tensors_that_share_memory():
    def double(x, y):
        x.mul_(2)
        return y + x

    for given in (
        lambda x: (x, x),
        lambda x: (x[:4], x[2:]),
        lambda x: (x.view(2, 3), x.view(2, 3)),
        lambda x: (x[1:], x[:-1]),
    ):
        torch._dynamo.reset()
        here, there = torch.arange(6.0), torch.arange(6.0)
        close(compiled(double)(*given(there)), double(*given(here)))
        close(there, here)


def test_memory_that_is_given_twice_without_a_word():
    """Two tensors over one array: what is read of one is not written before."""

    def step(x, y):
        x.add_(1)
        return torch.sum(y) + x

    memory = np.arange(6, dtype=np.float32)
    x, y = torch.from_numpy(memory), torch.from_numpy(memory)
    made = compiled(step)(x, y)
    assert memory.tolist() == [1, 2, 3, 4, 5, 6]
    close(made, torch.arange(1.0, 7) + 15)


def test_rows_that_lie_otherwise_later():
    fast = compiled(add)
    x, y = rows(4, 6), rows(4, 6, seed=1)
    fast(x.clone(), y)
    turned = rows(6, 4, seed=2)
    expected = turned + 2 * y.t()
    fast(turned.t(), y)
    close(turned, expected)


def test_an_optimizer_keeps_its_tensors():
    weights = [torch.nn.Parameter(rows(5, 4, seed=seed)) for seed in range(3)]
    twins = [torch.nn.Parameter(each.detach().clone()) for each in weights]
    mine, plain = torch.optim.AdamW(weights, lr=0.1), torch.optim.AdamW(twins, lr=0.1)
    step = compiled(mine.step)
    for seed in range(4):
        for weight, twin in zip(weights, twins, strict=True):
            weight.grad = rows(5, 4, seed=9 + seed)
            twin.grad = weight.grad.clone()
        if seed == 2:
            moments = [mine.state[each]["exp_avg"].data_ptr() for each in weights]
        step()
        plain.step()
    for weight, twin, moment in zip(weights, twins, moments, strict=True):
        close(weight.detach(), twin.detach())
        assert mine.state[weight]["exp_avg"].data_ptr() == moment
    for graph in pylayout.torch.report().graphs:
        assert graph.left == (), str(graph)


def test_a_static_cache_takes_new_rows_where_it_lies(untuned):
    """No copy of the cache, whatever its capacity: neither by plans nor by PyTorch."""
    count, capacity, width = 4, 64, 8

    def step(x, keys, values, place):
        keys.index_copy_(1, place, x)
        values.index_copy_(1, place, x * 2)
        seen = torch.arange(capacity) <= place
        return functional.scaled_dot_product_attention(x, keys, values, attn_mask=seen[None])

    here = [torch.zeros(count, capacity, width), torch.zeros(count, capacity, width)]
    there = [each.clone() for each in here]
    fast = compiled(step)
    with torch.no_grad():
        for at in range(5):
            x, place = rows(count, 1, width, seed=at), torch.tensor([at])
            close(fast(x, *there, place), step(x, *here, place))
        with pylayout.profile() as profile:
            fast(x, *there, place)
    for mine, wanted in zip(there, here, strict=True):
        assert torch.equal(mine, wanted)
    assert all(event["bytes"] < capacity * count * width * 4 for event in profile.events if event["kind"] != "op")
    (graph,) = pylayout.torch.report().graphs
    assert graph.left == (), str(graph)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("beginning", [0, 2])
def test_a_view_of_what_was_written_is_one_of_the_input(beginning, dynamic):
    """It begins where the view does, at a place that the size decides, and what is written there later meets both."""

    def end(x):
        view = x[x.shape[0] // 2 :]
        view.add_(1)
        return view

    fast = torch.compile(end, backend="pylayout", dynamic=dynamic)
    for size in (5, 8, 11):
        here, there = (torch.arange(20.0)[beginning : beginning + size] for _ in range(2))
        wanted, made = end(here), fast(there)
        assert torch.equal(made, wanted) and made.storage_offset() == wanted.storage_offset()
        made.mul_(3), wanted.mul_(3)
        assert torch.equal(there, here)


@pytest.mark.parametrize("where", ["cpu", "ocl"])
def test_views_of_negated_numbers(where):
    if where == "ocl":
        needs_opencl()
    here, there = (torch._neg_view(rows(3, 4).to(where)) for where in ("cpu", where))
    y = rows(3, 4, seed=1)
    add(here, y)
    with torch.no_grad():
        compiled(add)(there, y.to(where))
    close(there.cpu(), here)


def test_memory_that_is_not_aligned():
    """Arrays within packed files begin anywhere."""
    memory = np.zeros(98, "uint8")
    x = torch.from_numpy(memory[2:].view("float32").reshape(4, 6))
    x.copy_(rows(4, 6))
    y = rows(4, 6, seed=1)
    expected = x + 2 * y
    fast = compiled(add)
    fast(x, y)
    close(x, expected)
    close(compiled(lambda x, y: x * y)(y, x), y * expected)
