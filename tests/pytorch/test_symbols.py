"""torch.compile with sizes that calls decide: one plan with named axes for all of them, against eager mode."""

import copy

import pytest

torch = pytest.importorskip("torch")

import pylayout as pl  # noqa: E402
import pylayout.torch  # noqa: E402

nn, functional = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    pylayout.torch.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(function, dynamic=True):
    return torch.compile(function, backend="pylayout", dynamic=dynamic, options={"deterministic": True})


def close(made, expected, tolerance=3e-5):
    torch.testing.assert_close(made, expected.to(made.dtype), rtol=tolerance, atol=tolerance)


def traced_graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


class Decoder(nn.Module):
    """A block as of GPT-2, with a mask of its own, and BERT's positions."""

    def __init__(self, width=24, heads=3, vocabulary=20):
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, index):
        n, s = index.shape
        x = self.words(index) + self.places(torch.arange(s))
        parts = self.project(self.before(x)).chunk(3, -1)
        q, k, v = (each.view(n, s, self.heads, -1).transpose(1, 2) for each in parts)
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(torch.ones(s, s, dtype=torch.bool).triu(1), float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, s, -1))
        x = x + self.narrow(functional.gelu(self.wide(self.after(x))))
        return x @ self.words.weight.T


def small_network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 6, 3, stride=2, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5),
    )  # fmt: skip


# ---- models ----


def test_one_plan_serves_all_lengths():
    model = Decoder().eval()
    exact, fast = copy.deepcopy(model).double(), compiled(model)
    with torch.no_grad():
        for length in (5, *range(2, 32)):  # 30 others
            index = torch.randint(0, 20, (2 + length % 3, length))
            close(fast(index), exact(index))
    (graph,) = pylayout.torch.report().graphs
    assert traced_graphs() == 1 and graph.partitions == 1 and not graph.left and not graph.again, str(graph)
    sizes = graph.plans[0].summary()["sizes"]
    assert sizes["graphs"] == 1 and sizes["made"] >= 29 and len(graph.axes) == 2
    assert f"1 plan for any {', '.join(graph.axes)}" in str(graph)


@pytest.mark.slow
def test_sizes_become_symbols_when_they_change():
    model = Decoder().eval()
    fast = compiled(model, dynamic=None)
    with torch.no_grad():
        for length in (5, 9, 17, 31, 2, 12):
            index = torch.randint(0, 20, (2, length))
            close(fast(index), model(index))
    assert traced_graphs() == 2 and len(pylayout.torch.report().graphs) == 2
    assert [len(graph.axes) for graph in pylayout.torch.report().graphs] == [0, 1]


@pytest.mark.slow
def test_images_of_all_sizes_and_batches():
    model = small_network().eval()
    exact, fast = copy.deepcopy(model).double(), compiled(model)
    with torch.no_grad():
        for n, h, w in ((2, 16, 20), (3, 17, 21), (2, 18, 40), (7, 31, 13), (4, 64, 15)):
            x = torch.randn(n, 3, h, w)
            close(fast(x), exact(x.double()))
        assert traced_graphs() == 1
        for n, h, w in ((2, 16, 20), (3, 22, 27)):
            x = torch.randn(n, 3, h, w).contiguous(memory_format=torch.channels_last)
            close(fast(x), exact(x.double()))
    assert all(graph.partitions == 1 and not graph.again for graph in pylayout.torch.report().graphs)


def test_weights_are_packed_once():
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).eval()
    fast = compiled(model)
    with torch.no_grad():
        x = torch.randn(24, 256)
        fast(x)
        before = pl.memory("cpu")["in_use"]
        for rows in range(17, 47):
            fast(x[:1].expand(rows, 256).contiguous())
        after = pl.memory("cpu")["in_use"]
    (graph,) = pylayout.torch.report().graphs
    assert graph.plans[0].summary()["sizes"]["made"] == 29
    assert after - before < 0.1 * 2 * 256 * 1024 * 4


@pytest.mark.slow
def test_training_keeps_what_depends_on_symbols():
    model = Decoder()
    exact, fast = copy.deepcopy(model).double(), compiled(model)
    for n, length in ((2, 5), (3, 8), (2, 13), (5, 3)):
        index = torch.randint(0, 20, (n, length))
        for each, function in ((model, fast), (exact, exact)):
            each.zero_grad()
            functional.cross_entropy(function(index).flatten(0, 1), index.flatten()).backward()
        for (name, mine), theirs in zip(model.named_parameters(), exact.parameters(), strict=True):
            assert (mine.grad - theirs.grad).abs().max() < 1e-4, name
    graphs = pylayout.torch.report().graphs
    assert [graph.kind for graph in graphs] == ["forward", "backward"] and traced_graphs() == 1
    assert all(graph.partitions == 1 and not graph.again for graph in graphs), [str(graph) for graph in graphs]


@pytest.mark.slow
def test_training_of_images():
    model = small_network()
    exact, fast = copy.deepcopy(model).double(), compiled(model)
    for n, h, w in ((2, 16, 20), (3, 17, 21), (5, 11, 12)):
        x = torch.randn(n, 3, h, w)
        for each, function in ((model, fast), (exact, exact)):
            each.zero_grad()
            function(x.to(each[0].weight.dtype)).square().sum().backward()
        for mine, theirs in zip(model.parameters(), exact.parameters(), strict=True):
            close(mine.grad, theirs.grad, 1e-3)
        for mine, theirs in zip(model.buffers(), exact.buffers(), strict=True):
            close(mine, theirs)
    assert len(pylayout.torch.report().graphs) == 2


# ---- ops ----

X, Y = (6, 8), (7, 8)


def masked(x):
    s = x.shape[0]
    return (x @ x.T).masked_fill(torch.arange(s)[:, None] < torch.arange(s), 0.0)


FUNCTIONS = {
    "slice": lambda x: x[1:] * x[:-1] + x[-3:-2],
    "slice by a size": lambda x: x[: x.shape[0] // 2] + 1,
    "slice with steps": lambda x: x[::2] * 2 + x[1::2][:1],
    "slice beyond the end": lambda x: x[2:1000] * 2,
    "slice of a view's end": lambda x: x[x.shape[0] - 2 :] * 2,
    "select": lambda x: x[-1] + x[0] * x[x.shape[0] // 2],
    "split": lambda x: (x * 2).split([1, x.shape[0] - 1])[1] + 1,
    "halves": lambda x: (x + 1).chunk(2, 1)[1] * 2,
    "flip": lambda x: x.flip(0) + x.flip(1),
    "roll": lambda x: x.roll(2, 0) + x.roll(-1, 1),
    "pad": lambda x: functional.pad(x, (1, 2, 0, x.shape[0]), value=0.5) * 2,
    "reflect": lambda x: functional.pad(x[None], (1, 2), mode="reflect") * 2,
    "repeat": lambda x: x.repeat(2, x.shape[0]) + 1,
    "expand": lambda x: (x[None] * 2).expand(x.shape[0], -1, -1) + 1,
    "arange": lambda x: x * torch.arange(x.shape[0])[:, None],
    "arange by steps": lambda x: x[::2] + torch.arange(0, x.shape[0], 2)[:, None],
    "arange backwards": lambda x: x + torch.arange(x.shape[0] - 1, -1, -1)[:, None],
    "zeros and ones": lambda x: x + torch.zeros(x.shape[0], 1) + torch.ones(x.shape) + x.new_full((x.shape[0], 1), 3.0),
    "fill": lambda x: torch.full((x.shape[0] * 2, 3), 0.5).cumsum(0) + x.sum(),
    "mask": masked,
    "tril": lambda x: (x @ x.T).tril() + (x @ x.T).triu(1),
    "cat": lambda x: torch.cat([x, x[:1] * 2, torch.zeros(x.shape[0], 8)]),
    "stack": lambda x: torch.stack([x, x * 2], 1).flatten(0, 1) + 1,
    "mean": lambda x: x.mean(0) + x.mean() + x.sum() / x.shape[0],
    "variance": lambda x: x.var(0) + x.std() + x.var(1, correction=0).sum(),
    "times a size": lambda x: x * x.shape[0] + (x.shape[0] - 3),
    "by a size": lambda x: x / x.shape[0] - torch.tensor(1.0) / x.numel(),
    "norm": lambda x: functional.layer_norm(x, (8,)) + functional.group_norm(x[:, :, None], 4)[..., 0],
    "flatten": lambda x: x.view(-1)[:5] + x.reshape(-1, 4).sum(1)[:5],
    "unflatten": lambda x: (x + 1).view(x.shape[0], 2, 4).transpose(0, 1).reshape(2 * x.shape[0], 4) * 2,
    "index": lambda x: (x + 1)[torch.arange(x.shape[0]) // 4],
    "index pairs": lambda x: (x + 1)[torch.arange(x.shape[0]), torch.arange(x.shape[0]) // 4],
    "negative indices": lambda x: (x + 1)[:, torch.tensor([-1, 0])][torch.tensor([-1, 1])],
    "sort": lambda x: x.sort(0).values + x.topk(3, 1).values.sum(1, keepdim=True),
    "positions of the greatest": lambda x: x.argmax(0) + x.argmax(1).sum(),
    "sums on the way": lambda x: x.cumsum(0) * 2,
    "average pool": lambda x: functional.avg_pool2d(x[None, None], 2, ceil_mode=True) * 2,
    "transposed convolution": lambda x: functional.conv_transpose2d(x[None, None], torch.ones(1, 2, 3, 3), None, 2) + 1,
    "parts that are replaced": lambda x: (x * 2).slice_scatter(x[:2], 0, 1, 3).select_scatter(x[0], 0, -1) + 1,
    "a number": lambda x: x.shape[0] * 3 + 1,
    "attention": lambda x: functional.scaled_dot_product_attention(*[x.view(1, -1, 2, 4).transpose(1, 2)] * 3) + 1,
}


def all_of(names):
    def function(x):
        return [FUNCTIONS[name](x) for name in names]

    return function


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 4))])
def test_ops_at_all_sizes(part):
    names = sorted(FUNCTIONS)[part::4]  # traced together, which takes the time
    function = all_of(names)
    fast = torch.compile(function, backend="pylayout", options={"deterministic": True})
    for rows in (6, 9, 4, 31, 16):
        x = torch.randn(rows, 8)
        torch._dynamo.mark_dynamic(x, 0)
        for name, made, expected in zip(names, fast(x), function(x), strict=True):
            if not isinstance(expected, torch.Tensor):
                assert made == expected, name
                continue
            assert made.shape == expected.shape and (made - expected).abs().max() < 3e-5, name
            assert made.stride() == expected.stride(), name
    report = pylayout.torch.report()
    assert len(report.graphs) == 1 and not report.left, str(report)
    assert not report.graphs[0].again, report.graphs[0].again


def test_gradients_of_parts_at_all_sizes():
    def function(x):
        return ((x[1:] * x[:-1])[::2].flip(0).sum() + x[x.shape[0] // 2].exp().sum()) / x.shape[0]

    fast = compiled(function)
    for rows in (6, 9, 4, 31):
        x = torch.randn(rows, 8, requires_grad=True)
        y = x.detach().double().requires_grad_()
        fast(x).backward()
        function(y).backward()
        close(x.grad, y.grad)
    report = pylayout.torch.report()
    assert [graph.kind for graph in report.graphs] == ["forward", "backward"] and not report.left, str(report)


# ---- what is left of the one plan ----


def test_an_op_that_needs_a_number_is_named():
    def function(x):
        return functional.elu(x, alpha=1.0 / x.shape[0]) * 2

    fast = compiled(function)
    for rows in (6, 9, 6, 4):
        x = torch.randn(rows, 8)
        close(fast(x), function(x))
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and len(graph.again) == 2
    assert "= 9" in graph.again[0] and "elu.default" in graph.again[0]
    assert graph.plans[0].summary()["sizes"]["graphs"] == 3 and "made again for 2 sizes" in str(graph)


def test_sizes_that_a_plan_sees_in_no_input():
    weight = torch.ones(1)

    def function(x):
        return torch.full((x.shape[0] + 1, 2), 0.5).cumsum(0) * weight

    fast = compiled(function)
    for rows in (6, 9, 4):
        x = torch.randn(rows, 8)
        close(fast(x), function(x))
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left and not graph.again


def test_sizes_between_plans_and_pytorch():
    def function(x):
        y = torch.i0((x + 1).reshape(-1, 2).tanh() * 0.5)  # which plans do not run
        return y.view(x.shape[0], -1) * 2 + torch.arange(y.shape[0])[:8]

    fast = compiled(function)
    for rows in (6, 9, 4):
        x = torch.randn(rows, 8)
        close(fast(x), function(x))
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 2 and [op for op, _ in graph.left] == ["i0.default"] and not graph.again


def test_results_that_are_views_and_strides():
    def function(x):
        y = x * 2
        return y.T, y[:, ::2], x.view(-1), y.transpose(0, 1).contiguous(), (x + 1).expand(3, *x.shape)

    fast = compiled(function)
    for rows in (6, 9, 4):
        x = torch.randn(rows, 8)
        for mine, theirs in zip(fast(x), function(x), strict=True):
            close(mine, theirs)
            assert mine.stride() == theirs.stride()
        assert fast(x)[2].data_ptr() == x.data_ptr()
    assert len(pylayout.torch.report().graphs) == 1


@pytest.mark.slow
def test_inputs_with_other_strides():
    def function(x):
        return torch.relu(x) + 1

    fast = compiled(function)
    x = torch.randn(8, 12)
    for given in (x, x.T, x[:, ::2], x[1:5], x[:, 3:7]):
        made = fast(given)
        close(made, function(given))
        assert made.stride() == function(given).stride()


@pytest.mark.slow
def test_weights_that_change_at_another_size():
    model = nn.Linear(8, 5).eval()
    fast = compiled(model)
    with torch.no_grad():
        for rows in (6, 9, 4, 6, 11):
            x = torch.randn(rows, 8)
            close(fast(x), model(x))
            model.weight.mul_(1.5)


@pytest.mark.slow
def test_many_sizes_from_several_threads():
    from concurrent.futures import ThreadPoolExecutor

    model = Decoder().eval()
    fast = compiled(model)
    with torch.no_grad():
        fast(torch.zeros(2, 3, dtype=torch.long))

    def run(length):
        index = torch.randint(0, 20, (2, length))
        with torch.no_grad():
            return (fast(index) - model(index)).abs().max()

    with ThreadPoolExecutor(3) as pool:
        assert max(pool.map(run, [*range(2, 20)] * 2)) < 1e-4
    assert len(pylayout.torch.report().graphs) == 1


def test_what_a_size_says_of_its_symbol():
    sympy = pytest.importorskip("sympy")
    from torch.utils._sympy.functions import FloorDiv, Mod

    from pylayout.torch.symbols import Evaluation

    s = sympy.Symbol("s", integer=True, positive=True)
    padded = s + Mod(64 - Mod(s, 64), 64)
    for told, value, found in (
        (2 * s + 1, 27, 13),
        (s - 3, 10, 13),
        (padded, 64, None),
        (FloorDiv(padded, FloorDiv(padded, 64)), 64, None),  # it divides by zero for s = 0
        (s * s, 9, None),
    ):
        evaluation = Evaluation({})
        evaluation.learn(told, value)
        assert evaluation.knows(s) == (found is not None)
        assert found is None or evaluation(s) == found


def test_places_and_diagonals_of_any_size():
    def places(x, ends):
        return torch.bucketize(x * 2, ends) + torch.searchsorted(ends, x, right=True)

    def diagonals(x, ends):
        y = x @ x.mT + x.sum(-1, True)
        return torch.diagonal(y, 1, -2, -1) + torch.diagonal(y, -1, -2, -1) * 2

    for function in (places, diagonals):
        pylayout.torch.reset()
        fast = compiled(function)
        for count, length in ((6, 7), (9, 4), (3, 12)):
            x, ends = torch.randn(2, length, 5), torch.randn(count).sort()[0]
            torch.testing.assert_close(fast(x, ends), function(x, ends), rtol=1e-5, atol=1e-5)
        (graph,) = pylayout.torch.report().graphs
        assert graph.partitions == 1 and not graph.left and not graph.again, str(graph)


def test_what_a_refused_op_gives_is_read_by_the_next():
    """A converter may give up behind its first op of the library, which has taken the node's name."""
    x, y = torch.randn(1800, 1760).t(), torch.randn(1050000)

    def function(x, y):
        return torch.as_strided_scatter(x, y, (1050000,), (3,)) * 2 + 1

    fast = compiled(function, dynamic=False)
    torch.testing.assert_close(fast(x, y), function(x, y))
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and [op for op, _ in graph.left] == ["as_strided_scatter.default"], str(graph)


def test_bounds_that_are_sizes():
    """Of integers it was taken for a defect, of floats the plan was made again for each size."""

    def function(x, places):
        rows = x.shape[0]
        there = x[places.clamp(max=rows - 1)] * 2
        return there, places.clamp(2, rows), (x * 9).clamp(-rows, rows), (x + 1)[places % 3, None, places % 2]

    fast = torch.compile(function, backend="pylayout", options={"deterministic": True})
    for rows in (6, 9, 4, 31):
        x, places = torch.randn(rows, 5, 2), torch.arange(12)
        torch._dynamo.mark_dynamic(x, 0)
        for made, expected in zip(fast(x, places), function(x, places), strict=True):
            torch.testing.assert_close(made, expected)
    report = pylayout.torch.report()
    assert len(report.graphs) == 1 and not report.left and not report.graphs[0].again, str(report)


@pytest.mark.parametrize("padding", [(1, 2, 3, 0), (0, 1, 1, 0), (2, 2, 2, 2), (3, 1)])
@pytest.mark.parametrize("mode", ["replicate", "reflect"])
def test_gradients_of_borders_at_sizes_that_calls_decide(mode, padding):
    def function(x, w):
        return torch.nn.functional.pad((x * w).sin(), padding, mode=mode).cos()

    run = compiled(function, dynamic=True)
    for size in ((2, 3, 8, 8), (2, 3, 5, 6), (2, 4, 4, 4), (2, 3, 9, 11)):
        x = torch.randn(size[1:] if len(padding) == 2 else size)
        given = [(x.clone().requires_grad_(), torch.ones(1, requires_grad=True)) for _ in range(2)]
        for (left, right), function_of in zip(given, (run, function), strict=True):
            function_of(left, right).square().sum().backward()
        for mine, theirs in zip(*given, strict=True):
            close(mine.grad, theirs.grad, 1e-4)
    for graph in pylayout.torch.report().graphs:
        assert graph.partitions == 1 and not graph.left, str(graph)
