"""torch.compile(backend="pylayout"): tensors that plans hand to plans lie as these like."""

import copy
import functools

import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh  # noqa: E402, F401

import pylayout.torch  # noqa: E402
from pylayout.torch import registry, segment  # noqa: E402

nn = torch.nn


class Pictures(nn.Module):
    """Results that backward reads are results of the model too, and views of them."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 20, 3, padding=1, bias=False), nn.BatchNorm2d(20)
        self.second, self.third = nn.Conv2d(20, 12, 3, padding=1), nn.Conv2d(12, 12, 3, groups=12)
        self.last = nn.Linear(12 * 36, 5)

    def forward(self, x):
        x = nn.functional.relu6(self.norm(self.first(x)))
        shown = self.second(nn.functional.max_pool2d(x, 2)).relu()
        y = self.third(shown).relu()
        return self.last(y.view(len(y), -1)), shown, y.permute(0, 2, 3, 1)[:, 1:]


@pytest.fixture(params=[None, "nChw16c", *(pytest.param(each, marks=pytest.mark.slow) for each in ("NCHW", "NHWC"))])
def layout(request, monkeypatch):
    """In which all images of plans are, where they may."""
    if request.param is not None:
        monkeypatch.setattr(segment, "compile", functools.partial(segment.compile, layout=request.param))
    return request.param


def check(model, run, x, **hooks):
    """Results, their strides and gradients are those of eager mode."""
    twin = copy.deepcopy(model)
    made, expected = run(x), twin(x)
    for mine, theirs in zip(made, expected, strict=True):
        close(mine, theirs, 1e-4)
        assert mine.stride() == theirs.stride()
    sum(each.square().sum() for each in made).backward()
    sum(each.square().sum() for each in expected).backward()
    for (name, mine), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-3, msg=name)
    model.zero_grad()


def layouts(plan, kind):
    return [item["layout"] for item in getattr(plan, kind) if len(item["shape"]) == 4]


def test_forward_keeps_images_as_its_plan_has_them(layout):
    model = Pictures()
    run = compiled(model)
    for _ in range(2):
        check(model, run, torch.randn(2, 3, 16, 16))
    forward, backward = pylayout.torch.report().graphs
    assert (forward.kind, backward.kind) == ("forward", "backward")
    kept, read = layouts(forward.plans[0], "outputs"), layouts(backward.plans[0], "inputs")
    if layout is not None:
        assert kept.count(layout) >= 2 and read.count(layout) >= 2, (kept, read)
    causes = [step["cause"] for step in forward.plans[0].summary()["steps"] if step["kind"] == "reorder"]
    assert {cause for cause in causes if cause.startswith("output")} <= {"output relu"}, causes  # what is shown


def test_the_same_with_batches_of_any_size(layout):
    model = Pictures()
    run = torch.compile(model, backend="pylayout", dynamic=True)
    for batch in (2, 5, 3, 2):
        check(model, run, torch.randn(batch, 3, 16, 16))
    assert len(pylayout.torch.report().graphs) == 2


@pytest.mark.parametrize("missing", ["pylayout.batch_norm_activation_backward.default", "convolution_backward.default"])
def test_pytorch_reads_what_was_passed_as_it_expects_it(layout, missing, monkeypatch):
    """An op of backward that no plan has."""
    found = {name: each for name, each in registry.converters().items() if name != missing}
    monkeypatch.setattr("pylayout.torch.translate.converters", lambda: found)
    model = Pictures()
    check(model, compiled(model), torch.randn(2, 3, 16, 16))
    assert missing in str(pylayout.torch.report())


def test_what_is_passed_may_be_moved_meanwhile(layout):
    """As hooks do that keep saved tensors elsewhere."""
    model, kept = Pictures(), []

    def pack(tensor):
        kept.append(tensor.clone())
        return len(kept) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, kept.__getitem__):
        check(model, compiled(model), torch.randn(2, 3, 16, 16))
    assert kept


def test_one_plan_of_forward_hands_images_to_the_next(layout):
    """PyTorch draws the numbers of dropout between two plans."""

    class Dropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 20, 3), nn.Conv2d(20, 8, 3)

        def forward(self, x):
            x = self.first(x).relu()
            return (self.second(nn.functional.dropout(x, 0.0, True)),)

    model = Dropped()
    check(model, compiled(model), torch.randn(2, 3, 12, 12))
