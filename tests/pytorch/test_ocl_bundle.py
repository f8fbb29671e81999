"""What forward keeps for backward on the device ocl under torch.compile, as one tensor of bytes."""

import copy

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, numbers, quiet  # noqa: E402, F401

import pylayout.torch  # noqa: E402
from pylayout.torch import registry  # noqa: E402

nn = torch.nn


def deep(between=nn.ReLU):
    """Convolutions and norms enough that a bundle is worth it."""
    layers = []
    for before, after in ((3, 6), (6, 8), (8, 8), (8, 5)):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), between()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(5 * 64, 4))


def compiled(module):
    torch._dynamo.reset()
    pylayout.torch.reset()
    return torch.compile(module, backend="pylayout", options={"deterministic": True})


@pytest.fixture
def twins():
    torch.manual_seed(0)
    here = deep()
    return here, copy.deepcopy(here).to(OCL)


def same_gradients(there, here):
    for (name, mine), theirs in zip(there.named_parameters(), here.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-4, msg=name)


def saved_by(run):
    """Tensors that autograd saves."""
    found = []

    def pack(tensor):
        found.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return found


def test_one_tensor_carries_what_plans_alone_read(twins):
    here, there = twins
    x = numbers(2, 3, 8, 8)
    run = compiled(there)
    run(x.to(OCL)).square().mean().backward()
    there.zero_grad()
    kept = saved_by(lambda: run(x.to(OCL)))
    bundles = [each for each in kept if each.dtype == torch.uint8]
    assert len(bundles) == 1 and bundles[0].ndim == 1
    others = [each for each in kept if each.ndim == 4 and each.shape[0] == 2]  # images, but for the input
    assert [tuple(each.shape) for each in others] in ([(2, 3, 8, 8)], []), [each.shape for each in others]
    here(x)
    for _ in range(2):
        here.zero_grad(), there.zero_grad()
        here(x).square().mean().backward()
        run(x.to(OCL)).square().mean().backward()
        same_gradients(there, here)


@torch._functorch.config.patch(donated_buffer=False)  # or PyTorch refuses to keep a graph
def test_forward_twice_before_backward(twins):
    """Each call has what it kept, in whatever order backward comes, and as often."""
    here, there = twins
    first, second = numbers(2, 3, 8, 8), numbers(2, 3, 8, 8) * 2 + 1
    run = compiled(there)
    for order in ((0, 1), (1, 0), (0, 0, 1)):
        here.zero_grad(), there.zero_grad()
        theirs = [here(x).square().mean() for x in (first, second)]
        mine = [run(x.to(OCL)).square().mean() for x in (first, second)]
        for number, at in enumerate(order):
            again = at in order[number + 1 :]
            theirs[at].backward(retain_graph=again)
            mine[at].backward(retain_graph=again)
        same_gradients(there, here)


@pytest.mark.parametrize("moved", ["cloned", "on the host", "behind others"])
def test_what_is_kept_may_be_moved(twins, moved):
    """By hooks for saved tensors: backward reads the bytes wherever they are."""
    here, there = twins
    x = numbers(2, 3, 8, 8)

    def pack(tensor):
        if moved == "on the host":
            return tensor.cpu()
        if moved == "cloned" or tensor.dtype != torch.uint8:
            return tensor.clone()
        return torch.cat([torch.zeros(512, dtype=torch.uint8, device=OCL), tensor])[512:]

    run = compiled(there)
    here(x).square().mean().backward()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.to(OCL)):
        loss = run(x.to(OCL)).square().mean()
    loss.backward()
    same_gradients(there, here)


@pytest.mark.parametrize(
    "missing", ["sigmoid.default", "native_batch_norm_backward.default", "convolution_backward.default"]
)
def test_ops_that_pytorch_runs_between(missing, monkeypatch):
    """They read, and make, what is carried."""
    torch.ocl.set_fallback("silent")
    torch.manual_seed(0)
    here = deep(nn.Sigmoid)
    there = copy.deepcopy(here).to(OCL)
    found = {name: each for name, each in registry.converters().items() if name != missing}
    assert len(found) < len(registry.converters()), sorted(found)
    monkeypatch.setattr("pylayout.torch.translate.converters", lambda: found)
    x = numbers(2, 3, 8, 8)
    run = compiled(there)
    for _ in range(2):
        here.zero_grad(), there.zero_grad()
        here(x).square().mean().backward()
        run(x.to(OCL)).square().mean().backward()
        same_gradients(there, here)
    (reported,) = [graph for graph in pylayout.torch.report().graphs if graph.left][:1]
    assert missing in str(reported) and "bundle" not in str(reported), str(reported)


def test_memory_is_free_when_the_graph_is(twins):
    _, there = twins
    run, x = compiled(there), numbers(16, 3, 64, 64).to(OCL)[:, :, :8, :8].contiguous()
    run(x).square().mean().backward()
    there.zero_grad()
    torch.ocl.synchronize()
    before = torch.ocl.memory_allocated()
    kept = [run(x).square().mean() for _ in range(3)]
    held = torch.ocl.memory_allocated() - before
    assert held > 3 * 4 * 16 * 64 * (6 + 8 + 8 + 5), held  # the images before each norm
    kept.clear()
    assert torch.ocl.memory_allocated() <= before


def test_a_weight_that_changed_is_noticed(twins):
    """Weights are saved by themselves, with their versions."""
    _, there = twins
    run = compiled(there)
    loss = run(numbers(2, 3, 8, 8).to(OCL)).square().mean()
    with torch.no_grad():
        there[3].weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_what_others_see_is_not_carried(twins):
    """Results, views of them, and what is computed again."""
    here, there = twins

    def seen(model, x):
        first = model[:3](x)
        last = model[3:](torch.utils.checkpoint.checkpoint(nn.Sigmoid(), first * 2, use_reentrant=False))
        return last, first.permute(0, 2, 3, 1)[:, 1:], first

    x = numbers(2, 3, 8, 8)
    torch._dynamo.reset()
    run = torch.compile(lambda x: seen(there, x), backend="pylayout", options={"deterministic": True})
    for _ in range(2):
        here.zero_grad(), there.zero_grad()
        for made, expected in zip(run(x.to(OCL)), seen(here, x), strict=True):
            torch.testing.assert_close(made.cpu(), expected, rtol=1e-4, atol=1e-4)
            assert made.stride() == expected.stride()
        sum(each.square().mean() for each in seen(here, x)).backward()
        sum(each.square().mean() for each in run(x.to(OCL))).backward()
        same_gradients(there, here)
