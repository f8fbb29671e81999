"""torch.compile(backend="pylayout"): training, against eager mode."""

import copy

import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh, needs_opencl, small_network  # noqa: E402, F401

import pylayout.torch  # noqa: E402

nn = torch.nn

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


@pytest.mark.parametrize("where", ["cpu", "ocl:0"])
def test_training_follows_eager_mode(where):
    """Of tensors on the CPU, on either device."""
    if where != "cpu":
        needs_opencl()
    model = small_network()
    twin = copy.deepcopy(model)
    batches = [(torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,))) for _ in range(6)]

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    run = compiled(model, device=where, seconds=0)
    close(trained(model, sgd, batches, run), trained(twin, sgd, batches, twin), 1e-4)
    for (name, mine), theirs in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4, msg=name)
    assert {graph.kind for graph in pylayout.torch.report().graphs} == {"forward", "backward"}
    on = {plan.device.partition(":")[0] for graph in pylayout.torch.report().graphs for plan in graph.plans}
    assert on == {"cpu" if where == "cpu" else "opencl"}


class Tied(nn.Module):
    """Words in and out by one weight."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(30, 8), nn.Linear(8, 30, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.embedding(tokens) + self.embedding(tokens.flip(1)))).flatten(0, 1)


def test_training_with_tied_weights():
    model = Tied()
    twin = copy.deepcopy(model)
    batches = [(torch.randint(0, 30, (4, 6)), torch.randint(0, 30, (24,))) for _ in range(4)]

    def adam(parameters):
        return torch.optim.AdamW(parameters, lr=0.01)

    close(trained(model, adam, batches, compiled(model)), trained(twin, adam, batches, twin), 1e-4)
    assert model.head.weight is model.embedding.weight
    close(model.head.weight, twin.head.weight, 1e-4)


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


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(5,), (4, 5)])
def test_multilabel_margin_loss(shape, reduction):
    """PyTorch's own is another function once it is traced."""
    rows = [[3, 0, -1, 2, 4], [-1, 1, 1, 1, 1], [0, 1, 2, 3, 4], [2, 2, 0, -1, 0]]
    target = torch.tensor(rows if len(shape) == 2 else rows[0])

    def loss_of(x):
        return nn.functional.multilabel_margin_loss(x * 2, target, reduction=reduction)

    x = torch.randn(shape)
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    made, expected = compiled(loss_of)(given), loss_of(exact)
    assert made.shape == expected.shape
    close(made.double(), expected, 1e-6)
    made.sum().backward()
    expected.sum().backward()
    close(given.grad.double(), exact.grad, 1e-6)
    assert not pylayout.torch.report().left


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_op_of_cross_entropy_in_pytorch(dtype):
    """What runs where plans refuse it."""
    own, x, target = torch.ops.pylayout, torch.randn(9, 7, dtype=dtype), torch.randint(0, 7, (9,))
    exact = dtype == torch.float64
    for weight in (None, torch.rand(7, dtype=dtype)):
        for reduction, smoothing in (("mean", 0.0), ("sum", 0.2), ("none", 0.1)):
            given, twin = x.clone().requires_grad_(), x.clone().requires_grad_()
            made = own.cross_entropy(given, target, weight, reduction, 3, smoothing)
            expected = nn.functional.cross_entropy(
                twin, target, weight, ignore_index=3, reduction=reduction, label_smoothing=smoothing
            )
            close(made, expected)
            made.sum().backward()
            expected.sum().backward()
            assert given.grad.dtype == dtype
            close(given.grad, twin.grad, 1e-5 if exact else 2e-2)


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
    wanted = torch.ops.pylayout.group_norm_backward(grad, x, 4, weight, 1e-5)
    if of == "x":
        x = x.to(memory_format=torch.channels_last)
    else:
        grad = grad.to(memory_format=torch.channels_last)
    close(torch.ops.pylayout.group_norm_backward(grad, x, 4, weight, 1e-5), wanted)


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_at_the_corners_of_functions(dtype):
    f = nn.functional

    def run(x):
        scale = torch.arange(1, 6, dtype=x.dtype)
        made = torch.stack([f.hardswish(x), f.hardsigmoid(x), f.relu6(x), f.hardtanh(x), f.relu(x)], 1)
        return (made * scale).sum()

    gradients = []
    for step in (run, compiled(run)):
        x = torch.tensor([-3.0, 3.0, 0.0, 6.0, -1.0, 1.0], dtype=dtype, requires_grad=True)
        step(x).backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


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


@pytest.mark.parametrize("dynamic", [False, True])
def test_batch_norms_that_are_frozen_divide_no_plan(dynamic):
    model = small_network().eval()
    fast, x = torch.compile(model, backend="pylayout", dynamic=dynamic), torch.randn(2, 3, 16, 16)
    exact = copy.deepcopy(model).double()
    exact(x.double()).square().sum().backward()
    fast(x).square().sum().backward()
    for made, wanted in zip(model.parameters(), exact.parameters(), strict=True):
        close(made.grad.double(), wanted.grad, 1e-4)
    report = pylayout.torch.report()
    assert len(report.graphs) == 2 and report.partitions == 2 and not report.left, str(report)


@pytest.mark.parametrize("weights", [torch.float16, torch.bfloat16, torch.float32])
def test_frozen_batch_norms_of_halves_divide_no_plan(weights):
    """With statistics of the same dtype, or of float32 as in mixed precision."""
    conv, norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8).eval()
    half = torch.bfloat16 if weights == torch.float32 else weights
    model, x = nn.Sequential(conv.to(half), norm.to(weights), nn.ReLU()), torch.randn(2, 3, 9, 9).to(half)
    twin = copy.deepcopy(model).double()
    made, wanted = compiled(model)(x), twin(x.double())
    close(made.double(), wanted, 0.05)
    made.square().mean().backward()
    wanted.square().mean().backward()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        close(mine.grad.double(), theirs.grad, 0.05)
    for graph in pylayout.torch.report().graphs:
        assert graph.partitions == 1 and not graph.left, str(graph)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_checkpoint_draws_its_numbers_again(dynamic):
    layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def block(x, layer):
        return nn.functional.dropout(torch.tanh(layer(x)), 0.5)

    def network(x):
        for layer in layers:
            x = torch.utils.checkpoint.checkpoint(block, x, layer, use_reentrant=False)
        return x

    x, gradients = torch.randn(16, 8), []
    options = {"fallback_random": True}
    for function in (network, torch.compile(network, backend="pylayout", dynamic=dynamic, options=options)):
        torch.manual_seed(1)
        layers.zero_grad()
        function(x).square().sum().backward()
        gradients.append([each.grad.clone() for each in layers.parameters()])
    for wanted, made in zip(*gradients, strict=True):
        close(made, wanted)
    report = pylayout.torch.report()
    assert report.partitions and "defect" not in str(report), str(report)


def test_functions_within_a_checkpoint_are_ops_of_their_own():
    """As losses of chunks are, whose logits backward makes again."""

    def chunk(x, weight, target):
        return nn.functional.cross_entropy(x @ weight, target, reduction="sum")

    def loss(x, weight, target):
        parts = zip(x.chunk(2), (weight, weight), target.chunk(2), strict=True)
        return sum(torch.utils.checkpoint.checkpoint(chunk, *part, use_reentrant=False) for part in parts)

    x, weight, target = torch.randn(6, 4), torch.randn(4, 9), torch.randint(0, 9, (6,))
    wide = [each.double().requires_grad_() for each in (x, weight)]
    loss(*wide, target).backward()
    given = [each.requires_grad_() for each in (x, weight)]
    with pylayout.profile() as profile:
        compiled(loss)(*given, target).backward()
    for mine, exact in zip(given, wide, strict=True):
        close(mine.grad.double(), exact.grad)
    assert [event["op"] for event in profile.events].count("cross_entropy") == 2
    assert [graph.partitions for graph in pylayout.torch.report().graphs] == [1, 1]


def _loss(weight, x, target):
    return nn.functional.cross_entropy(x @ weight, target)


def _resized(weight, x, target):
    return nn.functional.interpolate((x @ weight)[None, None], scale_factor=2, mode="bilinear").square().sum()


def _twice(of):
    return torch.func.jacrev(torch.func.jacrev(of))


def _pushed(of):
    return lambda weight, x, target: torch.func.jvp(lambda weight: of(weight, x, target), (weight,), (weight + 1,))


TRANSFORMS = {
    "grad": torch.func.grad,
    "vmap of grad": lambda of: lambda weight, x, target: torch.func.vmap(torch.func.grad(of), (None, 0, 0))(
        weight, x[:, None], target[:, None]
    ),
    "vmap": lambda of: lambda weight, x, target: torch.func.vmap(of, (None, 0, 0))(
        weight, x[:, None], target[:, None]
    ),
    "jvp": _pushed,
    "twice": _twice,
}  # fmt: skip


@pytest.mark.parametrize("of", [_loss, _resized])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functions_that_are_ops_of_their_own(name, of):
    """Ops of torch.library have no gradient within transforms of torch.func: PyTorch's own functions are traced."""
    weight, x, target = torch.randn(4, 3), torch.randn(5, 4), torch.randint(0, 3, (5,))
    made = compiled(TRANSFORMS[name](of))(weight, x, target)
    wanted = TRANSFORMS[name](of)(weight.double(), x.double(), target)
    for mine, theirs in zip(*[each if isinstance(each, tuple) else (each,) for each in (made, wanted)], strict=True):
        close(mine.double(), theirs)
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


def _norm(form):
    if form == "layer":
        return lambda x, weight, bias: nn.functional.layer_norm(x.mT, (8,), weight, bias)
    if form == "layer without weights":
        return lambda x, weight, bias: nn.functional.layer_norm(x, x.shape[1:]) * weight[:, None] + bias[:, None]
    return lambda x, weight, bias: nn.functional.group_norm(x, 2, weight, bias)


DERIVED = {
    "jacobian": torch.func.jacrev,
    "jacobians": lambda of: torch.func.vmap(torch.func.jacrev(lambda x, *rest: of(x[None], *rest)), (0, None, None)),
    "gradients": lambda of: torch.func.grad(lambda *given: of(*given).sin().sum(), (0, 1, 2)),
}


@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("form", ["layer", "layer without weights", "group"])
@pytest.mark.parametrize("late", [False, True])
def test_norms_derived_within_a_function_divide_no_plan(late, form, dtype, name):
    if late and (name == "jacobians" or (name == "jacobian" and "layer" in form)):
        pytest.skip("PyTorch does not trace it")
    function = DERIVED[name](_norm(form))
    run, weight, bias = compiled(function), torch.randn(8, dtype=dtype), torch.randn(8, dtype=dtype)
    for size in (3, 5, 6) if late else (3,):
        x = torch.randn(2, 8, size, dtype=dtype)
        if late:
            torch._dynamo.mark_dynamic(x, 2)
        made, wanted = run(x, weight, bias), function(x.double(), weight.double(), bias.double())
        for mine, exact in zip(*[each if isinstance(each, tuple) else (each,) for each in (made, wanted)], strict=True):
            close(mine.double(), exact, 2e-5 if dtype == torch.float32 else 5e-2)
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_batch_norms_of_halves_divide_no_plan(dtype):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)).to(dtype)
    twin, x = copy.deepcopy(model).double(), torch.randn(2, 3, 9, 9).to(dtype)
    made, wanted = compiled(model)(x), twin(x.double())
    close(made.double(), wanted, 0.05)
    made.square().mean().backward()
    wanted.square().mean().backward()
    close(model[3].weight.grad.double(), twin[3].weight.grad, 0.05)
    for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        close(mine.double(), theirs.double(), 0.01)
    for graph in pylayout.torch.report().graphs:
        assert graph.partitions == 1 and {op for op, _ in graph.left} <= {"copy_.default"}, str(graph)


def test_a_compiled_step_of_an_optimizer_is_one_plan():
    weights = [nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(3))]
    twins = [nn.Parameter(each.detach().double()) for each in weights]
    mine, theirs = (torch.optim.Adam(each, 1e-2) for each in (weights, twins))
    step = compiled(lambda: mine.step())
    for _ in range(3):
        for weight, twin in zip(weights, twins, strict=True):
            weight.grad = torch.randn_like(weight)
            twin.grad = weight.grad.double()
        step()
        theirs.step()
    for weight, twin in zip(weights, twins, strict=True):
        close(weight.double(), twin)
    for graph in pylayout.torch.report().graphs:
        assert graph.partitions == 1 and {op for op, _ in graph.left} <= {"copy_.default"}, str(graph)
