"""Weights that plans hold as constants: every change that PyTorch knows of is seen, in C and in Python."""

import pytest

torch = pytest.importorskip("torch")

import pylayout.torch  # noqa: E402
from pylayout.torch import watch  # noqa: E402

nn = torch.nn


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture(params=["native", "plain"])
def kind(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(watch, "_libtorch", lambda: None)
    return request.param


def network():
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Sigmoid(), nn.Linear(5, 4)).eval()


def write_in_place(model):
    model[0].weight.mul_(1.5)


def write_a_view(model):
    model[0].weight[1:3].add_(1)


def write_through_a_detached_alias(model):
    model[3].bias.detach().add_(1)


def write_past_the_count(model):
    for parameter in model.parameters():
        parameter.data.copy_(parameter.data * 0.9)


def write_a_buffer(model):
    model[1].running_mean.add_(1)


def initialise(model):
    nn.init.normal_(model[3].weight)


def step(optimizer):
    def change(model):
        with torch.enable_grad():
            made = optimizer(model.parameters())
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
            made.step()

    return change


def load(**options):
    def change(model):
        model.load_state_dict({name: value + 1 for name, value in model.state_dict().items()}, **options)

    return change


def give_other_memory(model):
    model[3].bias.data = torch.randn(4)


def set_memory(model):
    model[3].bias.set_(torch.randn(4))


def give_another_parameter(model):
    model[0].weight = nn.Parameter(torch.randn(5, 6))


def swap(model):
    torch.utils.swap_tensors(model[0].weight, nn.Parameter(torch.randn(5, 6)))


CHANGES = {
    "in place": write_in_place,
    "a view": write_a_view,
    "a detached alias": write_through_a_detached_alias,
    "a buffer": write_a_buffer,
    "past the count of versions": write_past_the_count,
    "init": initialise,
    "SGD": step(lambda parameters: torch.optim.SGD(parameters, lr=0.1, foreach=False)),
    "SGD, foreach": step(lambda parameters: torch.optim.SGD(parameters, lr=0.1, foreach=True)),
    "Adam, fused": step(lambda parameters: torch.optim.Adam(parameters, lr=0.1, fused=True)),
    "load_state_dict": load(),
    "load_state_dict, assign": load(assign=True),
    "data": give_other_memory,
    "set_": set_memory,
    "another parameter": give_another_parameter,
    "swap_tensors": swap,
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_seen(change, kind):
    model, x = network(), torch.randn(3, 6)
    fast = torch.compile(model, backend="pylayout")
    with torch.no_grad():
        before = fast(x)
        for _ in range(3):  # packed again, then inputs of plans
            CHANGES[change](model)
            expected = model(x)
            torch.testing.assert_close(fast(x), expected, rtol=2e-5, atol=2e-5)
            assert not torch.allclose(before, expected)
            before = expected


def test_what_is_unchanged_is_not_packed_again(kind):
    model, x = network(), torch.randn(3, 6)
    fast = torch.compile(model, backend="pylayout")
    pylayout.torch.reset()
    with torch.no_grad():
        for _ in range(4):
            fast(x)
    assert len(pylayout.torch.report().graphs) == 1


class WithGaps(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        self.turned = nn.Parameter(torch.randn(6, 5).t(), requires_grad=False)
        self.columns = nn.Parameter(torch.randn(5, 12)[:, ::2], requires_grad=False)
        self.rows = nn.Parameter(torch.randn(5, 1).expand(5, 6), requires_grad=False)

    def forward(self, x):
        row = x.flatten()[:6]
        return self.layer(x), row @ self.turned.t(), row @ self.columns.t(), self.rows + 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_writes_past_the_count_to_weights_with_gaps(kind, dtype):
    model = WithGaps().to(dtype)
    x = torch.randn(1, 3, 5, 5, dtype=dtype)
    fast = torch.compile(model, backend="pylayout")
    with torch.no_grad():
        fast(x)
        for parameter in model.parameters():
            (parameter.data if 0 not in parameter.stride() else parameter.data[:, :1]).mul_(0.5)
            for made, expected in zip(fast(x), model(x), strict=True):
                torch.testing.assert_close(made, expected, rtol=2e-2, atol=1e-2)


def test_places_of_what_changed(kind):
    tensors = [torch.zeros(3), torch.zeros(2), 7, torch.zeros(4)]
    watched = watch.Watch([0, 1, 3], tensors)
    assert not watched.changed(tensors) and watched.those_changed(tensors) == set()
    tensors[1].add_(1)
    assert watched.changed(tensors) and watched.those_changed(tensors) == {1}
    tensors[3].data = torch.zeros(4)
    assert watched.changed(tensors) and watched.those_changed(tensors) == {1, 3}


def test_the_memory_stays_while_it_is_watched(kind):
    """Else another tensor could come to lie at the same address, with the same version."""
    tensors = [torch.zeros(1000)]
    watched = watch.Watch([0], tensors)
    for _ in range(20):
        tensors[0] = torch.ones(1000)
        assert watched.changed(tensors)


def test_tensors_without_a_version_have_changed(kind):
    """Those made in inference mode: the function in libtorch throws."""
    tensors = [torch.zeros(2)]
    watched = watch.Watch([0], tensors)
    with torch.inference_mode():
        given = [torch.zeros(2)]
    if kind == "native":
        assert watched.changed(given)
    else:
        with pytest.raises(RuntimeError, match="Inference tensors"):
            watched.changed(given)


def test_this_pytorch_is_asked_by_one_call():
    assert watch._libtorch() is not None


def test_the_first_call_of_a_process_may_be_in_inference_mode():
    """In which new tensors have no versions."""
    watch._libtorch.cache_clear()
    model, x = network(), torch.randn(2, 6)
    fast = torch.compile(model, backend="pylayout")
    with torch.inference_mode():
        before = fast(x).clone()
    with torch.no_grad():
        write_in_place(model)
        expected = model(x)
        assert not torch.allclose(expected, before)
        torch.testing.assert_close(fast(x), expected, rtol=1e-4, atol=1e-4)
    with torch.inference_mode():
        torch.testing.assert_close(fast(x), expected, rtol=1e-4, atol=1e-4)
