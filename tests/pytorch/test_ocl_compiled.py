"""The device ocl under torch.compile and automatic mixed precision."""

import copy
import functools

import pytest

import pylayout as pl

torch = pytest.importorskip("torch")

from ocl_testing import OCL, numbers, quiet, small_network  # noqa: E402, F401

# ---- compiled ----


def _compiled(module):
    torch._dynamo.reset()
    return torch.compile(module, backend="pylayout", options={"deterministic": True})


def test_compiled_inference_on_the_device():
    import pylayout.torch

    torch.manual_seed(0)
    here = small_network().eval()
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


@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_of_any_number_of_rows(weighted):
    """Its sizes are symbols where it is traced."""
    weight = numbers(8).abs() if weighted else None
    fast = _compiled(torch.nn.CrossEntropyLoss(weight).to(OCL))
    for rows in (4, 5, 7):
        x, target = numbers(rows, 8), torch.arange(rows)
        there = x.to(OCL).requires_grad_()
        loss = fast(there, target.to(OCL))
        (gradient,) = torch.autograd.grad(loss, there)
        x.requires_grad_()
        expected = torch.nn.functional.cross_entropy(x, target, weight)
        torch.testing.assert_close(loss.cpu(), expected)
        torch.testing.assert_close(gradient.cpu(), torch.autograd.grad(expected, x)[0])


@pytest.mark.parametrize("layout", ["NHWC", "nChw16c"])
def test_what_forward_keeps_lies_as_its_plan_has_it(layout, monkeypatch):
    """But in blocks, of which the device's tensors have no strides."""
    import pylayout.torch
    from pylayout.torch import segment

    monkeypatch.setattr(segment, "compile", functools.partial(segment.compile, layout=layout, tune="off"))
    torch.manual_seed(0)
    here = small_network()
    there = copy.deepcopy(here).to(OCL)
    x = numbers(4, 3, 12, 12)
    pylayout.torch.reset()
    made, expected = _compiled(there)(x.to(OCL)), here(x)
    torch.testing.assert_close(made.cpu(), expected, rtol=1e-4, atol=1e-4)
    made.square().sum().backward()
    expected.square().sum().backward()
    for mine, theirs in zip(there.parameters(), here.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-3)
    forward, backward = (graph.plans[0] for graph in pylayout.torch.report().graphs)
    for items in (forward.outputs, backward.inputs):
        assert "NHWC" in [item["layout"] for item in items], items


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
    here = small_network()
    there = copy.deepcopy(here).to(OCL)
    x = numbers(4, 3, 12, 12)
    here(x).square().mean().backward()
    _compiled(there)(x.to(OCL)).square().mean().backward()
    for mine, wanted in zip(there.parameters(), here.parameters(), strict=True):
        assert mine.grad.device == torch.device(OCL)
        torch.testing.assert_close(mine.grad.cpu(), wanted.grad, rtol=1e-3, atol=1e-4)


def test_running_statistics_are_written_where_they_lie():
    """By the plan, without copies or calls of PyTorch's; autograd knows that they have changed."""
    import pylayout.torch

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU()]
    layers += [torch.nn.Conv2d(8, 8, 3, bias=False), torch.nn.BatchNorm2d(8, momentum=0.3), torch.nn.Flatten()]
    here = torch.nn.Sequential(*layers, torch.nn.Linear(8 * 8 * 8, 4))
    there = copy.deepcopy(here).to(OCL)
    x = numbers(4, 3, 12, 12)
    pylayout.torch.reset()
    fast = _compiled(there)
    addresses = [buffer.data_ptr() for buffer in there.buffers()]
    for _ in range(3):
        before = [buffer._version for buffer in there.buffers()]
        here(x).square().mean().backward()
        fast(x.to(OCL)).square().mean().backward()
        for mine, wanted in zip(there.buffers(), here.buffers(), strict=True):
            torch.testing.assert_close(mine.cpu(), wanted, rtol=1e-4, atol=1e-5)
        assert all(buffer._version > old for buffer, old in zip(there.buffers(), before, strict=True))
    for mine, wanted in zip(there.parameters(), here.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), wanted.grad, rtol=1e-3, atol=1e-4)
    assert addresses == [buffer.data_ptr() for buffer in there.buffers()]
    forward, backward = pylayout.torch.report().graphs
    assert forward.left == backward.left == (), (forward.left, backward.left)
    given = x.to(OCL)
    with pl.profile() as profile:
        fast(given)
    moved = [event for event in profile.events if event["kind"] != "op"]  # activations, as layouts are chosen
    assert not [event for event in moved if "f32 (8,)" in event["inputs"][0]], moved


def test_programs_of_ops_are_made_behind_a_graph_break(caplog):
    """torch.compile traces what runs there, but not what the device has in Python."""
    here = torch.nn.BatchNorm2d(8, momentum=None)  # it reads the counter of batches
    there = copy.deepcopy(here).to(OCL)
    x = numbers(4, 8, 5, 7)
    fast = _compiled(there)
    for _ in range(3):
        torch.testing.assert_close(fast(x.to(OCL)).cpu(), here(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(there.running_var.cpu(), here.running_var, rtol=1e-4, atol=1e-4)
    assert not [each for each in caplog.records if each.name == "pylayout.ocl"]


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


def test_compilers_leave_random_states_alone() -> None:
    """PyTorch keeps and restores them of every device around what it repeats, in code that is compiled, too."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        kept = torch.ocl.get_rng_state("ocl:0")
        y = x * 2
        torch.ocl.set_rng_state(kept, "ocl:0")
        return y + 1

    x = torch.ones(3)
    assert torch.equal(torch.compile(doubled, backend="pylayout")(x), x * 2 + 1)


def test_a_plan_of_a_module_on_the_device_needs_neither():
    """By torch.export, as for a module on the CPU."""
    import pylayout as pl

    torch.manual_seed(0)
    model, x = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh()), torch.randn(2, 6)
    plan = pl.compile(model.to(OCL), (x.to(OCL),), device="cpu")
    torch.testing.assert_close(torch.from_numpy(plan.run(x.numpy())[0]), model.cpu()(x).detach(), rtol=1e-5, atol=1e-5)
    assert next(model.parameters()).device.type == "cpu"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_norms_of_halves_take_them_as_they_are(dtype):
    """Without casts of activations, forward and backward; what a norm computes is in float32 all the same."""
    torch.manual_seed(0)
    nn = torch.nn
    here = nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, bias=False), nn.BatchNorm2d(8),
        nn.SiLU(), nn.Conv2d(8, 4, 3, bias=False), nn.BatchNorm2d(4),
    )  # fmt: skip
    there, x = copy.deepcopy(here).to(OCL), numbers(5, 3, 12, 12)
    fast, exact = _compiled(there), here.double()
    exact(x.double()).sigmoid().square().mean().backward()

    def step():
        with torch.autocast("ocl", dtype):
            made = fast(x.to(OCL))
        made.float().sigmoid().square().mean().backward()

    step()
    bound = 0.02 if dtype == torch.float16 else 0.25  # sums of eight bits that nearly cancel
    for mine, wanted in zip(there.parameters(), exact.parameters(), strict=True):
        assert (mine.grad.cpu().double() - wanted.grad).norm() <= bound * wanted.grad.norm()
    with pl.profile() as profile:
        step()
    wide = [each for each in profile.events if any(made.startswith("f32 (5, 8") for made in each["outputs"])]
    assert wide == [], wide


@pytest.mark.parametrize("half", [False, True], ids=["f32", "autocast"])
def test_cross_entropy_is_one_op_each_way(half):
    """In float32 also where autocast makes halves of the logits."""
    import pylayout.torch

    torch.manual_seed(0)
    here, x, target = torch.nn.Linear(24, 11), numbers(7, 24), torch.arange(7)
    there, exact = copy.deepcopy(here).to(OCL), copy.deepcopy(here).double()
    torch._dynamo.reset()
    pylayout.torch.reset()

    def loss_of(module, x, target):
        return torch.nn.functional.cross_entropy(module(x), target, label_smoothing=0.1)

    fast = torch.compile(lambda *given: loss_of(there, *given), backend="pylayout", options={"deterministic": True})
    with torch.autocast("ocl", torch.float16, enabled=half):
        made = fast(x.to(OCL), target.to(OCL))
    assert made.dtype == torch.float32
    made.backward()
    expected = loss_of(exact, x.double(), target)
    expected.backward()
    bound = 2e-3 if half else 1e-6
    assert abs(made.item() - expected.item()) <= bound * abs(expected.item())
    for mine, wanted in zip(there.parameters(), exact.parameters(), strict=True):
        assert (mine.grad.cpu().double() - wanted.grad).norm() <= bound * wanted.grad.norm()
    graphs = pylayout.torch.report().graphs
    assert [graph.left for graph in graphs] == [(), ()]
    ops = {step.get("op") for graph in graphs for step in graph.plans[0].summary()["steps"]}
    assert {"cross_entropy", "cross_entropy_backward"} <= ops and "log_softmax" not in ops, ops


def test_resizes_under_autocast_are_an_op_each_way():
    """As in eager mode they are in float32, forward and backward."""
    conv = torch.nn.Conv2d(3, 4, 3, padding=1)

    def function(module, x):
        return torch.nn.functional.interpolate(module(x), scale_factor=2.0, mode="bilinear").square().mean()

    x = torch.randn(2, 3, 6, 6)
    function(conv, x).backward()
    wanted = conv.weight.grad.clone()
    conv.zero_grad()
    conv, x = conv.to(OCL), x.to(OCL)
    torch._dynamo.reset()
    with torch.autocast("ocl", torch.float16):
        loss = torch.compile(function, backend="pylayout")(conv, x)
    assert loss.dtype == torch.float32
    loss.backward()
    assert (conv.weight.grad.cpu() - wanted).abs().max() <= 2e-2 * wanted.abs().max()
    with torch.autocast("ocl", torch.float16), pl.profile() as profile:
        torch.compile(function, backend="pylayout")(conv, x).backward()
        torch.ocl.synchronize()
    ops = {event["op"] for event in profile.events}
    assert {"interpolate", "interpolate_backward"} <= ops and not ops & {"scatter", "index_select"}


def test_a_module_that_is_made_and_moved_within_is_traced():
    import pylayout.torch

    nn = torch.nn

    class Filter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kernel", torch.ones(3, 3))

        def forward(self, x):
            return x @ self.kernel

    fast = torch.compile(lambda x: Filter().to(x.device)(x), backend="pylayout", fullgraph=True)
    pylayout.torch.reset()
    for _ in range(3):
        fast(torch.randn(2, 3))
    assert len(pylayout.torch.report().graphs) == 1
