"""torch.compile(backend="pylayout"): what PyTorch programs do with tensors, against eager mode."""

import copy
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

import pylayout as pl  # noqa: E402
import pylayout.torch  # noqa: E402

nn = torch.nn


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    pylayout.torch.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, backend="pylayout", options=options or None)


def close(made, expected, tolerance=2e-5):
    torch.testing.assert_close(made, expected, rtol=tolerance, atol=tolerance)


def small_network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


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


def test_partitions_are_counted_and_named(caplog):
    def function(x):
        y = torch.relu(x) * 2
        y = torch.erfinv(y / 10)
        return torch.sigmoid(y) + 1

    x = torch.randn(3, 3)
    with caplog.at_level("INFO", logger="pylayout.torch"):
        close(compiled(function)(x), function(x), 1e-3)
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 2 and [op for op, _ in graph.left] == ["erfinv.default"]
    assert pylayout.torch.report().left == {"erfinv.default": 1}
    assert "erfinv.default (no converter)" in caplog.text and "2 plans" in caplog.text


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


# ---- training ----


def trained(model, optimizer_of, batches, step):
    optimizer = optimizer_of(model.parameters())
    losses = []
    for number, (x, y) in enumerate(batches):
        loss = nn.functional.cross_entropy(step(x), y)
        loss.backward()
        if number % 2:  # gradients of two batches are added
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.detach())
    return torch.stack(losses)


def test_training_follows_eager_mode():
    model = small_network()
    twin = copy.deepcopy(model)
    batches = [(torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,))) for _ in range(6)]

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    close(trained(model, sgd, batches, compiled(model)), trained(twin, sgd, batches, twin), 1e-4)
    for (name, mine), theirs in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4, msg=name)
    assert {graph.kind for graph in pylayout.torch.report().graphs} == {"forward", "backward"}


class Pictures(nn.Module):
    """Results that backward reads are results of the model too, and views of them."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.third = nn.Conv2d(8, 12, 3, padding=1), nn.Conv2d(12, 12, 3, groups=12)
        self.last = nn.Linear(12 * 36, 5)

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        shown = self.second(nn.functional.max_pool2d(x, 2)).relu()
        y = self.third(shown).relu()
        return self.last(y.view(len(y), -1)), shown, y.permute(0, 2, 3, 1)[:, 1:]


def test_images_that_backward_reads_are_kept_with_channels_last():
    model, x = Pictures(), torch.randn(2, 3, 16, 16)
    twin = copy.deepcopy(model)
    made, expected = compiled(model)(x), twin(x)
    for mine, theirs in zip(made, expected, strict=True):
        close(mine, theirs, 1e-4)
        assert mine.stride() == theirs.stride()
    sum(each.square().sum() for each in made).backward()
    sum(each.square().sum() for each in expected).backward()
    for (name, mine), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-3, msg=name)
    forward, backward = pylayout.torch.report().graphs
    assert (forward.kind, backward.kind) == ("forward", "backward")

    def layouts(lines):
        return {line.split("NHWC")[0].strip() for line in lines if "NHWC" in line}

    kept = layouts(line for line in forward.plans[0].graph().splitlines() if line.startswith("output"))
    read = layouts(line for line in backward.plans[0].graph().splitlines() if line.startswith("input"))
    assert len(kept) >= 2 and len(read) >= 2, (forward.plans[0].graph(), backward.plans[0].graph())


def test_training_a_transformer_layer_with_dropout():
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.2, batch_first=True)
    twin = copy.deepcopy(layer)
    x = torch.randn(2, 5, 16)
    for _, run in ((layer, compiled(layer)), (twin, twin)):
        torch.manual_seed(1)
        run(x).square().sum().backward()
    for mine, theirs in zip(layer.parameters(), twin.parameters(), strict=True):
        close(mine.grad, theirs.grad, 1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ignore_index": 4},
        {"reduction": "sum", "label_smoothing": 0.1},
        {"reduction": "none", "ignore_index": 4},
        {"label_smoothing": 0.3, "ignore_index": 4, "weighted": True},
        {"reduction": "none", "label_smoothing": 0.3, "weighted": True},
    ],
    ids=str,
)
def test_cross_entropy_is_one_op_each_way(options, dtype):
    options = dict(options)
    if options.pop("weighted", False):
        options["weight"] = torch.rand(37).add(0.5).to(dtype)
    target = torch.randint(0, 37, (23,))
    target[::5] = 4

    def loss_of(x):
        return nn.functional.cross_entropy(x * 2, target, **options)

    x = torch.randn(23, 37).to(dtype)
    # The reference in float64: PyTorch rounds what lies between its ops.
    exact = x.double().requires_grad_()
    given = x.clone().requires_grad_()
    own = {key: value.double() if key == "weight" else value for key, value in options.items()}
    expected = nn.functional.cross_entropy(exact * 2, target, **own)
    made = compiled(loss_of)(given)
    assert made.dtype == dtype and made.shape == expected.shape
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    close(made.double(), expected, tolerance)
    made.sum().backward()
    expected.sum().backward()
    close(given.grad.double(), exact.grad, tolerance)
    graphs = pylayout.torch.report().graphs
    assert [graph.partitions for graph in graphs] == [1, 1] and not pylayout.torch.report().left, str(graphs)
    ops = [step["op"] for graph in graphs for step in graph.plans[0].summary()["steps"]]
    assert {"cross_entropy", "cross_entropy_backward"} <= {*ops} and not any("softmax" in op for op in ops), ops


def test_cross_entropy_where_the_op_does_not_suit():
    """Images, probabilities as targets, one position, and mixed precision: as PyTorch has them."""

    def function(x, images, shares):
        first = nn.functional.cross_entropy(x, shares, label_smoothing=0.1)
        second = nn.functional.cross_entropy(images, torch.zeros(2, 3, 4, dtype=torch.int64))
        third = nn.functional.cross_entropy(x[0], torch.tensor(2))
        with torch.autocast("cpu", torch.bfloat16):
            fourth = nn.functional.cross_entropy(x @ x.T, torch.arange(6))
        return first + second + third + fourth.float()

    given = torch.randn(6, 5), torch.randn(2, 5, 3, 4), torch.randn(6, 5).softmax(1)
    close(compiled(function)(*given), function(*given), 1e-2)


def test_the_op_of_cross_entropy_in_pytorch():
    """What runs where plans refuse it."""
    own, x, target = torch.ops.pylayout, torch.randn(9, 7, dtype=torch.float64), torch.randint(0, 7, (9,))
    for weight in (None, torch.rand(7, dtype=torch.float64)):
        for reduction, smoothing in (("mean", 0.0), ("sum", 0.2), ("none", 0.1)):
            given, twin = x.clone().requires_grad_(), x.clone().requires_grad_()
            made = own.cross_entropy(given, target, weight, reduction, 3, smoothing)
            expected = nn.functional.cross_entropy(
                twin, target, weight, ignore_index=3, reduction=reduction, label_smoothing=smoothing
            )
            close(made, expected)
            made.sum().backward()
            expected.sum().backward()
            close(given.grad, twin.grad)


def test_products_of_transposes_take_no_transpose():
    """As the gradients of weights are; with a bias, and of two transposes."""

    def function(x, y, z, bias):
        return x.T @ y, torch.addmm(bias, x.T, y), x.T @ z.T, torch.addmm(bias[:3], x.T, z[:3].T, beta=2, alpha=0.5)

    given = torch.randn(9, 6), torch.randn(9, 5), torch.randn(4, 9), torch.randn(5)
    for mine, theirs in zip(compiled(function)(*given), function(*given), strict=True):
        close(mine, theirs)
    (graph,) = pylayout.torch.report().graphs
    summary = graph.plans[0].summary()
    assert {"matmul"} <= {step["op"] for step in summary["steps"]}
    assert not any(step["op"] == "linear" for step in summary["steps"])
    assert not [node for node in graph.plans[0].graph().splitlines() if "permute" in node]


class PackedAttention(nn.Module):
    """Heads of one product are views with gaps, as in most decoders."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.together, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, length, width = x.shape
        made = self.together(self.norm(x)).split(width, 2)
        q, k, v = (each.view(n, length, self.heads, -1).transpose(1, 2) for each in made)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).contiguous().view(n, length, width))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_and_norms_train_in_one_plan_each_way(dtype):
    model = nn.Sequential(PackedAttention(), PackedAttention()).to(dtype)
    twin = copy.deepcopy(model)
    x = torch.randn(2, 7, 24, dtype=dtype)
    made, expected = compiled(model)(x), twin(x)
    close(made, expected, 1e-4 if dtype == torch.float32 else 3e-2)
    made.square().sum().backward()
    expected.square().sum().backward()
    for (name, mine), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        bound = 1e-4 if dtype == torch.float32 else 5e-2
        largest = theirs.grad.abs().max()
        assert (mine.grad - theirs.grad).abs().max() <= bound * largest, name
    graphs = pylayout.torch.report().graphs
    assert [(graph.kind, graph.partitions, graph.left) for graph in graphs] == [("forward", 1, ()), ("backward", 1, ())]


def test_backward_makes_views_again_from_what_they_are_taken_from():
    """Of the views of one product forward keeps that product alone; of a small part of a large tensor, the part."""

    def kept(function, *shapes):
        torch._dynamo.reset()
        saved = []
        tensors = [torch.randn(shape, requires_grad=True) for shape in shapes]
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(tuple(t.shape)) or t, lambda t: t):
            made = compiled(function)(*tensors)
        made.sum().backward()
        grads = [tensor.grad for tensor in tensors]
        close(grads, torch.autograd.grad(function(*tensors).sum(), tensors))
        return [shape for shape in saved if shape not in shapes]

    def whole(x, w):
        a, b = (x @ w).split(5, 1)
        return a * b

    def part(x, w):
        y = (x @ w)[:1].t()
        return y * y.exp()

    assert kept(whole, (3, 8), (8, 10)) == [(3, 10)]
    assert (64, 8) not in kept(part, (64, 8), (8, 8))


def gradients_of(model, *inputs):
    """The gradients of a model's parameters."""
    made = model(*inputs)
    (made * torch.linspace(-1, 1, made.numel()).view(made.shape)).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


def test_values_known_beforehand_are_constants_of_both_plans():
    """Masks and positions made of numbers, which backward reads too, are computed in no call."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.table = nn.Linear(4, 6), nn.Parameter(torch.randn(9, 6))

        def forward(self, x):
            place = torch.arange(5) * 2
            mask = place[None, :] > place[:, None]
            y = self.linear(x) + self.table[place.clamp(max=8)]
            return (y @ y.mT).masked_fill(mask, 0.5) * torch.exp(-place.float())

    model, x = Net(), torch.randn(3, 5, 4)
    twin = copy.deepcopy(model)
    close(gradients_of(compiled(twin), x), gradients_of(model, x))
    graphs = pylayout.torch.report().graphs
    assert [(graph.kind, graph.partitions, graph.left) for graph in graphs] == [("forward", 1, ()), ("backward", 1, ())]


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


@pytest.mark.parametrize("mixed", [False, True])
def test_group_and_layer_norm_train_in_one_plan_each_way(mixed):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.GroupNorm(4, 8),
        nn.SiLU(),
        nn.Conv2d(8, 5, 3),
        nn.GroupNorm(1, 5),
        nn.LayerNorm([5, 3]),
    )
    twin, x = copy.deepcopy(model), torch.randn(2, 3, 9, 7)
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        made, expected = gradients_of(compiled(twin), x), gradients_of(model, x)
    largest = max(theirs.abs().max() for theirs in expected)  # that of a shift before a norm is 0
    for mine, theirs in zip(made, expected, strict=True):
        assert (mine - theirs).abs().max() <= (0.05 if mixed else 1e-4) * largest
    graphs = pylayout.torch.report().graphs
    assert [(graph.kind, graph.partitions, graph.left) for graph in graphs] == [("forward", 1, ()), ("backward", 1, ())]


@pytest.mark.parametrize("affine", [True, False])
def test_instance_norm_trains_in_one_plan_each_way(affine):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=affine), nn.ReLU(), nn.Conv2d(8, 5, 3))
    twin, x = copy.deepcopy(model), torch.randn(2, 3, 9, 7)
    close(gradients_of(compiled(twin), x), gradients_of(model, x), 1e-4)
    graphs = pylayout.torch.report().graphs
    assert [(graph.kind, graph.partitions, graph.left) for graph in graphs] == [("forward", 1, ()), ("backward", 1, ())]


def test_a_view_that_is_written_to_trains_in_one_plan_each_way():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 6)

        def forward(self, x):
            y = self.linear(x)
            y.view(3, 5, 2, 3).mul_(2)
            y.transpose(1, 2).tanh_()
            return y

    model, x = Net(), torch.randn(3, 5, 4)
    twin = copy.deepcopy(model)
    close(gradients_of(compiled(twin), x), gradients_of(model, x))
    graphs = pylayout.torch.report().graphs
    assert [(graph.kind, graph.partitions, graph.left) for graph in graphs] == [("forward", 1, ()), ("backward", 1, ())]


@torch.library.custom_op("pylayout_tests::where_it_lies", mutates_args=())
def where_it_lies(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return grad + (2.0 if x.is_contiguous() else 7.0)


@where_it_lies.register_fake
def _(grad, x):
    return torch.empty_like(grad)


class WhereItLies(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(context, grad):
        return where_it_lies(grad, *context.saved_tensors)


def test_an_image_that_pytorch_reads_in_backward_lies_as_it_was_traced():
    """Kernels of gradients may take several tensors to lie alike, as that of group norm does."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)

        def forward(self, x):
            y = torch.relu(self.first(x))
            return self.last(y) + WhereItLies.apply(y)

    model, x = Net(), torch.randn(2, 3, 9, 7)
    twin = copy.deepcopy(model)
    close(gradients_of(compiled(twin), x), gradients_of(model, x), 1e-4)


@pytest.mark.parametrize("of", ["x", "grad"])
def test_the_op_of_group_norm_s_gradient_in_pytorch(of):
    grad, x, weight = torch.randn(2, 8, 5, 7), torch.randn(2, 8, 5, 7), torch.randn(8)
    wanted = torch.ops.pylayout.group_norm_backward(grad, x, weight, 4, 1e-5)
    if of == "x":
        x = x.to(memory_format=torch.channels_last)
    else:
        grad = grad.to(memory_format=torch.channels_last)
    close(torch.ops.pylayout.group_norm_backward(grad, x, weight, 4, 1e-5), wanted)


def test_a_transpose_of_another_plan_is_read_as_that_plan_gives_it():
    def function(x, w):
        around = (w * 2).t().t()
        return torch.special.i0(x * 2) @ around, around

    x, w = torch.randn(3, 4), torch.randn(4, 5)
    close(compiled(function)(x, w), function(x, w))
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 2 and len(graph.left) == 1


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout_divides_no_plan(p):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.drop = nn.Conv2d(3, 4, 3), nn.Dropout(p)

        def forward(self, x):
            y = self.drop(torch.relu(self.conv(x)))
            return self.drop(y.mean((2, 3))) * 2

    model = Net()
    x = torch.randn(2, 3, 6, 6)
    for given in (x, x.to(memory_format=torch.channels_last)):
        torch._dynamo.reset()
        pylayout.torch.reset()
        torch.manual_seed(5)
        made = compiled(model)(given)
        made.sum().backward()
        grad, model.conv.weight.grad = model.conv.weight.grad, None
        torch.manual_seed(5)
        expected = model(given)
        expected.sum().backward()
        close(made, expected)
        close(grad, model.conv.weight.grad)
        model.conv.weight.grad = None
        if given is x:
            assert [graph.partitions for graph in pylayout.torch.report().graphs] == [1, 1]


def test_gradients_of_inputs_and_two_runs_before_backward():
    def function(x, w):
        return torch.tanh(x @ w)

    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    fast = compiled(function)
    made = torch.autograd.grad((fast(x, w) + fast(x * 2, w)).sum(), (x, w))
    expected = torch.autograd.grad((function(x, w) + function(x * 2, w)).sum(), (x, w))
    for mine, theirs in zip(made, expected, strict=True):
        close(mine, theirs)


def test_autocast():
    model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(3, 8)
    fast = compiled(model)
    with torch.autocast("cpu", torch.bfloat16):
        made, expected = fast(x), model(x)
    assert made.dtype == expected.dtype
    close(made.float(), expected.float(), 3e-2)
    made.float().sum().backward()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        close(fast(x).float(), model(x).float(), 3e-2)


def test_a_model_trained_between_inferences():
    model, x = nn.Linear(4, 3), torch.randn(5, 4)
    fast = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        with torch.no_grad():
            close(fast(x), model(x))
        fast(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


# ---- options, threads, imports ----


def test_options():
    model, x = nn.Linear(4, 3), torch.randn(5, 4)
    with torch.no_grad():
        for options in ({"threads": 1}, {"math": "tf32", "deterministic": True}, {"device": "cpu", "seconds": 1}):
            torch._dynamo.reset()
            close(compiled(model, **options)(x), model(x), 1e-3)
    with pytest.raises(Exception, match='no option "thread"; did you mean threads'):
        compiled(model, thread=1)(x)


def test_opencl_device():
    if not any(str(device.name).startswith("opencl") for device in pl.devices()):
        pytest.skip("no OpenCL device")
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
