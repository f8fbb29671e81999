"""torch.compile(backend="pylayout"): what PyTorch programs do with tensors, against eager mode."""

import subprocess
import sys
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh, needs_opencl, small_network  # noqa: E402, F401

import pylayout as pl  # noqa: E402
import pylayout.torch  # noqa: E402

nn = torch.nn

# ---- inference ----


def test_a_network_is_one_plan():
    model, x = small_network().eval(), torch.randn(2, 3, 16, 16)
    fast = compiled(model)
    with torch.no_grad():
        close(fast(x), model(x))
        close(fast(x), model(x))
    report = pylayout.torch.report()
    assert len(report.graphs) == 1 and report.partitions == 1 and not report.left, str(report)
    assert "1 plan" in str(report)


def test_weights_that_change_are_seen():
    model, x = small_network().eval(), torch.randn(2, 3, 16, 16)
    fast = compiled(model)
    with torch.no_grad():
        for step in range(5):
            close(fast(x), model(x))
            if step % 2:
                model[0].weight.mul_(1.5)
            else:
                model[7].bias.data = torch.randn(5)  # another memory, the same version
    assert len(pylayout.torch.report().graphs) == 3  # then they are inputs


def test_running_statistics_that_change_are_seen():
    model, x = small_network().eval(), torch.randn(2, 3, 16, 16)
    fast = compiled(model)
    with torch.no_grad():
        close(fast(x), model(x))
        model[1].running_mean.add_(1)
        close(fast(x), model(x))


def test_weights_are_borrowed():
    model = nn.Linear(256, 2048, bias=False).eval()
    fast, x = compiled(model, deterministic=True), torch.randn(3, 256)
    with torch.no_grad():
        before = pl.memory("cpu")["in_use"]
        fast(x)
        packed = pl.memory("cpu")["in_use"] - before
    assert packed < 1.6 * 256 * 2048 * 4  # one packed form at most, no copy beside it


def test_sizes_that_change():
    model = small_network().eval()
    fast = compiled(model)
    with torch.no_grad():
        for size in ((2, 16, 16), (2, 20, 16), (5, 24, 18), (1, 16, 16)):
            x = torch.randn(size[0], 3, *size[1:])
            close(fast(x), model(x))
    assert not pylayout.torch.report().left


def test_sizes_of_one_symbolic_graph():
    def function(x, y):
        return (x @ y.T).softmax(-1), x.shape[0] * 2

    fast = torch.compile(function, backend="pylayout", dynamic=True)
    for n in (3, 4, 7, 4):
        x, y = torch.randn(n, 8), torch.randn(n + 1, 8)
        made, number = fast(x, y)
        close(made, function(x, y)[0])
        assert number == 2 * n
    assert len(pylayout.torch.report().graphs) == 1


def test_channels_last_and_other_strides():
    model = small_network().eval()
    fast = compiled(model[:3])
    with torch.no_grad():
        x = torch.randn(2, 3, 16, 16).to(memory_format=torch.channels_last)
        made, expected = fast(x), model[:3](x)
        close(made, expected)
        assert made.stride() == expected.stride()
        for x in (torch.randn(2, 6, 16, 16)[:, ::2], torch.randn(1, 3, 1, 16).expand(2, 3, 16, 16),
                  torch.randn(16, 16, 3, 2).permute(3, 2, 0, 1)):  # fmt: skip
            torch._dynamo.reset()
            made, expected = compiled(model[:3])(x), model[:3](x)
            close(made, expected)
            assert made.stride() == expected.stride()


@pytest.mark.parametrize("padding", [(2, 1, 2, 1), (2, 1, 0, -1), (0, 0, 0, 0)])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)])
def test_borders_that_go_round_lie_by_rows(order, padding):
    """As PyTorch's do, however the image lies: they may be viewed."""

    def function(x):
        made = nn.functional.pad(x, padding, mode="circular")
        return made, made.view(-1) * 2

    back = [order.index(dim) for dim in range(4)]
    x = torch.randn(2, 3, 5, 6).permute(order).contiguous().permute(back)
    made, expected = compiled(function)(x), function(x)
    close(made, expected)
    assert made[0].stride() == expected[0].stride()


def test_strides_that_differ_from_those_traced():
    def function(x):
        return torch.relu(x) + 1

    fast = torch.compile(function, backend="pylayout", dynamic=True)
    x = torch.randn(4, 6)
    for given in (x, x.T, x[:, ::2], x[1:3]):
        close(fast(given), function(given))


def test_inference_mode_and_its_tensors():
    with torch.inference_mode():
        model, x = nn.Linear(4, 5), torch.randn(3, 4)
        fast = compiled(model)
        close(fast(x), model(x))
        model.weight.mul_(2)  # of such tensors PyTorch counts no versions
        close(fast(x), model(x))


def test_zero_sizes():
    def function(x):
        return torch.cat([torch.relu(x), x]), x.sum(), x.mean()

    x = torch.randn(0, 3)
    for mine, theirs in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(mine, theirs, equal_nan=True)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.complex64]
)
def test_dtypes(dtype):
    def function(x):
        return x * 2 + 1, (x + x).sum(), x.reshape(-1)

    x = torch.randn(3, 4).mul(10).to(dtype)
    for mine, theirs in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_bool_and_promotion():
    def function(x, n, flag):
        return (x > 0) & flag, x + n, n / 3, flag.sum(), torch.where(flag, x, n), n * 2.5

    given = torch.randn(4), torch.randint(0, 5, (4,)), torch.tensor([True, False, True, True])
    for mine, theirs in zip(compiled(function)(*given), function(*given), strict=True):
        torch.testing.assert_close(mine, theirs)


# ---- mutation and aliases ----


def test_parts_that_are_overwritten_divide_no_plan():
    def function(x, y):
        made = torch.empty(3, 6)
        made[:, :4] = x.exp()
        made[:, 4:] = y[:, :2] > 0
        made[1] += 1
        column = x.new_empty(4, 3).t()
        column.copy_(y[:, :1])
        return made.sin() * 2, column @ x.t()

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    close(compiled(function)(x, y), function(x, y))
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


def test_inputs_that_are_changed():
    def function(x, y):
        x.add_(1)
        y[1:] = x[:-1] * 2
        return x + y

    given, mine = (torch.randn(4, 3), torch.randn(4, 3)), []
    mine = tuple(tensor.clone() for tensor in given)
    close(compiled(function)(*mine), function(*given))
    for made, expected in zip(mine, given, strict=True):
        close(made, expected)


def test_buffers_that_are_changed():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen += x.sum(0)
            return x * self.seen

    mine, theirs = Counter(), Counter()
    fast = compiled(mine)
    for _ in range(4):
        x = torch.randn(2, 3)
        close(fast(x), theirs(x))
    close(mine.seen, theirs.seen)


def test_outputs_that_are_inputs_or_views_of_them():
    def function(x):
        y = x * 2
        return x, x[1:], x.T, y, y[1:], y.view(-1)

    mine, theirs = torch.randn(4, 3), None
    theirs = mine.clone()
    made, expected = compiled(function)(mine), function(theirs)
    for place, (one, other) in enumerate(zip(made, expected, strict=True)):
        close(one, other)
        assert one.stride() == other.stride() and one.storage_offset() == other.storage_offset(), place
    mine.add_(5), theirs.add_(5)
    made[3].mul_(3), expected[3].mul_(3)
    for one, other in zip(made, expected, strict=True):
        close(one, other)
    assert made[0] is mine


def test_known_values_that_are_given_are_new_in_each_run():
    def function(x):
        place = torch.arange(4) + 1
        return x + place, place, place[1:], place.expand(2, 4), torch.zeros(3)

    fast, x = compiled(function), torch.randn(4)
    for _ in range(2):
        made = fast(x)
        for mine, theirs in zip(made, function(x), strict=True):
            close(mine, theirs)
            assert mine.stride() == theirs.stride()
        made[1].add_(7)
        assert made[2].tolist() == [9, 10, 11]  # a view of what was changed
        made[4].add_(7)
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left


def test_the_same_output_twice():
    def function(x):
        y = torch.relu(x)
        return y, y, [y + 1, None, 3]

    x = torch.randn(3)
    made = compiled(function)(x)
    assert made[0] is made[1] and made[2][1:] == [None, 3]
    close(made[2][0], torch.relu(x) + 1)


def test_inputs_that_share_memory():
    def function(x, y):
        x.mul_(2)
        return x + y

    base, other = torch.arange(6.0), torch.arange(6.0)
    close(compiled(function)(base[:4], base[2:]), function(other[:4], other[2:]))
    close(base, other)


def test_outputs_are_new_in_each_run():
    fast = compiled(lambda x: torch.relu(x) * 2)
    first = fast(torch.ones(3))
    second = fast(torch.full((3,), 2.0))
    assert first.tolist() == [2, 2, 2] and second.tolist() == [4, 4, 4]


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(11, 4)
            self.head = nn.Linear(4, 11, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x):
            return self.head(self.embedding(x))

    model, x = Tied(), torch.randint(0, 11, (2, 3))
    fast = compiled(model)
    with torch.no_grad():
        close(fast(x), model(x))
        model.head.weight.add_(1)
        close(fast(x), model(x))


# ---- what stays in PyTorch ----


@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_drawn_like_a_result_divide_no_plan(dynamic):
    def function(x):
        mean, log = (x * 2).chunk(2, 1)
        z = mean + torch.randn_like(log) * torch.exp(log)
        masked = torch.where(torch.bernoulli(z, 0.5).bool(), z + 1, z)
        return (
            z * torch.rand_like(z), torch.randint_like(z, 3, 7), torch.randn_like(z, dtype=torch.bfloat16), masked * 2
        )  # fmt: skip

    def turned(x):  # numbers are drawn in the order of memory
        y = (x * 2).t()
        return torch.randn_like(y) + torch.bernoulli(y, 0.25)

    fast = torch.compile(function, backend="pylayout", dynamic=dynamic)
    for rows in (4, 9):
        x = torch.randn(rows, 10)
        results = []
        for each in (function, fast, turned, torch.compile(turned, backend="pylayout", dynamic=dynamic)):
            torch.manual_seed(5)
            results.append(each(x))
        for mine, wanted in zip(results[1], results[0], strict=True):
            close(mine.double(), wanted.double(), 1e-6)
        close(results[3], results[2], 1e-6)
    cut = {graph.partitions for graph in pylayout.torch.report().graphs if "rand.default" in dict(graph.left)}
    assert cut == {1}, str(pylayout.torch.report())


def test_random_numbers_are_those_of_eager_mode():
    def function(x):
        a = torch.rand_like(x)
        y = torch.relu(x + a) @ x.T
        b = torch.bernoulli(torch.full_like(y, 0.5))
        return torch.nn.functional.dropout(y, 0.3) * b, torch.randn(3)

    x = torch.randn(4, 4)
    torch.manual_seed(3)
    made = compiled(function)(x)
    torch.manual_seed(3)
    for mine, theirs in zip(made, function(x), strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_of_numpy(dtype):
    """Dynamo makes them tensors of float64; arithmetic gives the other operand's dtype all the same."""
    root, third = np.sqrt(2.0), np.float64(1 / 3)

    def function(x, w):
        y = ((x @ w) / root).relu() @ w
        y *= third
        return third - y, torch.as_tensor(root) * 2

    x, w = torch.randn(4, 16, dtype=dtype), torch.randn(16, 16, dtype=dtype)
    for mine, theirs in zip(compiled(function)(x, w), function(x, w), strict=True):
        assert mine.dtype == theirs.dtype
        close(mine, theirs, 0.02 if dtype == torch.bfloat16 else 1e-5)
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1, str(graph)


def test_parts_of_what_is_known_are_known():
    class Constant(nn.Module):
        def forward(self, x):
            a, b = torch.tensor([1.0, 2.0], dtype=torch.float64).unbind(0)
            c, d = torch.arange(6.0, dtype=torch.float64).split(3)
            return (x.sin() * (a + b).sin().float()).cos() + (c * d).float()

    x = torch.randn(3)
    with torch.no_grad():
        close(compiled(Constant())(x), Constant()(x))
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)
    close(torch.from_numpy(np.asarray(pl.compile(Constant(), (x,), device="cpu").run(x)[0])), Constant()(x))


def test_long_chains_on_what_is_known():
    """Backward reads the end of one, which it makes anew."""

    def function(x):
        c = torch.arange(4.0)
        for _ in range(700):
            c = c.cos() + 1
        return (x * c).sum()

    given = [torch.randn(4, requires_grad=True) for _ in range(2)]
    compiled(function)(given[0]).backward()
    function(given[1]).backward()
    close(given[0].grad, given[1].grad)


def test_partitions_are_counted_and_named(caplog):
    def function(x):
        y = torch.relu(x) * 2
        y = torch.i0(y / 10)
        return torch.sigmoid(y) + 1

    x = torch.randn(3, 3)
    with caplog.at_level("INFO", logger="pylayout.torch"):
        close(compiled(function)(x), function(x), 1e-3)
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 2 and [op for op, _ in graph.left] == ["i0.default"]
    assert pylayout.torch.report().left == {"i0.default": 1}
    assert "i0.default (no converter)" in caplog.text and "2 plans" in caplog.text


def test_graph_breaks():
    def function(x):
        y = torch.relu(x) * 2
        torch._dynamo.graph_break()
        return y.sum(-1) + 1 if float(y.sum()) > 0 else y

    x = torch.randn(3, 3)
    close(compiled(function)(x), function(x))
    assert len(pylayout.torch.report().graphs) >= 2


def test_sizes_that_depend_on_data():
    def function(x):
        return torch.nonzero(x > 0).float() * 2, torch.relu(x)

    x = torch.randn(5)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for mine, theirs in zip(compiled(function)(x), function(x), strict=True):
            close(mine, theirs)


def test_dropout_in_eval():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval(), torch.randn(2, 4)
    with torch.no_grad():
        close(compiled(model)(x), model(x))
    assert not pylayout.torch.report().left


def test_control_flow_and_unusual_outputs():
    def function(x):
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,)) * 2

    x = torch.randn(4)
    close(compiled(function)(x), function(x))


def test_an_index_out_of_range_is_an_error():
    fast = compiled(lambda weight, index: nn.functional.embedding(index, weight))
    with pytest.raises((IndexError, pl.Error)):
        fast(torch.randn(4, 3), torch.tensor([9]))


# ---- options, threads, imports ----


def test_options():
    model, x = nn.Linear(4, 3), torch.randn(5, 4)
    with torch.no_grad():
        for options in ({"threads": 1}, {"math": "tf32", "deterministic": True}, {"device": "cpu", "seconds": 1}):
            torch._dynamo.reset()
            close(compiled(model, **options)(x), model(x), 1e-3)
    with pytest.raises(Exception, match='no option "thread"; did you mean threads'):
        compiled(model, thread=1)(x)
    for name, value, expected in (
        ("threads", -1, "an integer from 1"),
        ("math", "fp64", "fp32, tf32"),
        ("seconds", "live", "a number"),
        ("deterministic", 1, "True or False"),
        ("device", "opencl:99", "one of cpu"),
    ):
        torch._dynamo.reset()
        with pytest.raises(Exception, match=f"torch.compile: {name} is .*, expected {expected}"):
            compiled(model, **{name: value})(x)


def test_opencl_device():
    needs_opencl()
    model, x = small_network().eval(), torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        close(compiled(model, device="ocl:0", seconds=1)(x), model(x), 1e-4)
    assert pylayout.torch.report().graphs[0].plans[0].device.startswith("opencl")


def test_calls_from_several_threads():
    model, x = small_network().eval(), torch.randn(2, 3, 16, 16)
    fast = compiled(model)
    with torch.no_grad():
        expected = model(x)
        fast(x)
    wrong = []

    def work():
        with torch.no_grad():
            wrong.extend(1 for _ in range(10) if not torch.allclose(fast(x), expected, atol=1e-4))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_package_leaves_torch_alone():
    code = "import sys, pylayout; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_backend_is_listed():
    assert "pylayout" in torch._dynamo.list_backends()


def test_numbers_of_float64_beside_tensors_of_float32():
    def function(x):
        width, third = torch.tensor(3.0, dtype=torch.float64).sqrt(), torch.tensor(1 / 3, dtype=torch.float64)
        return (x / width + third) * x.where(x > 0, third)

    x = torch.randn(4, 5)
    close(compiled(function)(x), function(x))
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


def test_torchs_number_of_threads_stays():
    before = torch.get_num_threads()
    model, x = small_network().eval(), torch.randn(2, 3, 16, 16)
    try:
        for own, given in ((1, 2), (2, 1)):
            torch.set_num_threads(own)
            fast = compiled(model, threads=given)
            with torch.no_grad():
                for _ in range(3):
                    fast(x)
            assert torch.get_num_threads() == own
        assert len(pylayout.torch.report().graphs) == 2  # PyTorch compiles anew where the number changed
    finally:
        torch.set_num_threads(before)


# ---- tensors of other kinds ----


def test_zeros_without_memory():
    zeros = torch._efficientzerotensor((3, 4))  # as derivatives in forward mode are
    joined = lambda x: torch.cat([x, torch._efficientzerotensor((3, 2))], 1) @ torch.ones(6, 2)  # noqa: E731
    for function in (lambda x: x * 2 + 1, joined):
        fast = compiled(function)
        close(fast(zeros), function(zeros))
        close(fast(zeros + 1), function(zeros + 1))
    assert not pylayout.torch.report().left, str(pylayout.torch.report())


def test_a_weight_that_is_a_negative_view():
    model, x = nn.Linear(5, 3), torch.randn(2, 5)
    model.weight = nn.Parameter(torch.randn(3, 5, dtype=torch.complex64).conj().imag)
    assert model.weight.is_neg()
    close(compiled(model)(x), model(x))  # an input of the plan
    with torch.no_grad():
        close(compiled(model)(x), model(x))  # a constant


def test_nested_tensors():
    model = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 3))
    fast = compiled(model)
    for lengths in ((2, 3), (2, 3), (5, 1, 2)):
        x = torch.nested.nested_tensor([torch.randn(each, 4) for each in lengths], layout=torch.jagged)
        wanted, made = model(x), fast(x)
        close((made - wanted).values(), torch.zeros(sum(lengths), 3))  # of one shape, says PyTorch
        gradients = [torch.autograd.grad(y.values().square().sum(), model.parameters()) for y in (wanted, made)]
        for a, b in zip(*gradients, strict=True):
            close(b, a, 1e-4)
    assert not pylayout.torch.report().left, str(pylayout.torch.report())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_sign_of_nan_is_pytorchs(dtype):
    x = torch.tensor([float("nan"), -0.0, 2.0, -3.0, float("-inf")], dtype=dtype)
    torch.testing.assert_close(compiled(torch.sign)(x), torch.sign(x))
    assert not pylayout.torch.report().left, str(pylayout.torch.report())


def _filled(x):
    made = x[0] @ x[0].mT
    made.fill_diagonal_(-1)
    return made.softmax(-1)


def _added(x):
    made = x @ x.mT
    made.diagonal(0, 1, 2).add_(2)
    made.diagonal(1, 2, 1).zero_()
    return made.softmax(-1)


@pytest.mark.parametrize("function", [_filled, _added])
@pytest.mark.parametrize("late", [False, True])
def test_diagonals_changed_in_place_divide_no_plan(function, late):
    run = torch.compile(function, backend="pylayout", dynamic=late)
    for size in (4, 7, 9) if late else (4,):
        x = torch.randn(2, size, 3, requires_grad=True)
        wide = x.detach().double().requires_grad_()
        made, exact = run(x), function(wide)
        close(made.double(), exact)
        weight = torch.randn(exact.shape)
        (grad,), (wanted,) = (
            torch.autograd.grad((made * weight).sum(), x),
            torch.autograd.grad((exact * weight).sum(), wide),
        )
        close(grad.double(), wanted)
    assert {graph.partitions for graph in pylayout.torch.report().graphs} == {1}


def test_powers_of_two_are_as_exact_for_large_numbers():
    x = torch.linspace(-120, 120, 5003)
    exact = torch.exp2(x.double())
    for function in (torch.exp2, lambda x: torch.exp2(x) * 3):
        made = compiled(function)(x).double()
        assert (made / function(torch.zeros(1)).double() / exact - 1).abs().max() < 2e-7
