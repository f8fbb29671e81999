"""Recurrent layers on the device `ocl`: an op a level, forward and backward, as on GPUs."""

import copy
import itertools

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

nn = torch.nn


@pytest.fixture(autouse=True)
def as_on_gpus(unoptimised, monkeypatch):
    from pylayout.ocl import recurrent

    monkeypatch.setattr(recurrent, "_takes_levels", lambda device: True)
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("silent")


KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *sizes, **how: nn.RNN(*sizes, nonlinearity="relu", **how),
}


def given_to(layer, dtype=torch.float32):
    torch.manual_seed(2)
    n, steps = 3, 4
    x = torch.randn((n, steps, 5) if layer.batch_first else (steps, n, 5), dtype=dtype)
    directions = layer.num_layers * (2 if layer.bidirectional else 1)
    states = [torch.randn(directions, n, layer.hidden_size, dtype=dtype) for _ in range(2)]
    return x, states


def everything(layer, x, states):
    """Results, and gradients of them all by the input, the states and the parameters."""
    x, *states = (each.detach().clone().requires_grad_() for each in (x, *states))
    y, last = layer(x, tuple(states) if isinstance(layer, nn.LSTM) else states[0])
    last = last if isinstance(last, tuple) else (last,)
    weights = torch.linspace(0, 1, y.numel()).view(y.shape).to(y)
    loss = (y * weights).sum() + sum((state**2).sum() for state in last)
    loss.backward()
    return [y, *last, x.grad, *(s.grad for s in states[: len(last)]), *(p.grad for p in layer.parameters())]


def check(made, wanted, tolerance):
    for ours, exact in zip(made, wanted, strict=True):
        ours, exact = ours.detach().cpu().double(), exact.detach().double()
        assert ours.shape == exact.shape
        assert (ours - exact).abs().max() <= tolerance * exact.abs().max()


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_layers_and_their_gradients(kind, levels):
    for both, first, bias in itertools.product((False, True), repeat=3):
        torch.manual_seed(1)
        layer = KINDS[kind](5, 7, levels, bidirectional=both, batch_first=first, bias=bias)
        x, states = given_to(layer)
        wanted = everything(copy.deepcopy(layer).double(), x.double(), [state.double() for state in states])
        made = everything(layer.to("ocl:0"), x.to("ocl:0"), [state.to("ocl:0") for state in states])
        check(made, wanted, 1e-5)
    assert torch.ocl.fallbacks() == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(kind, dtype):
    torch.manual_seed(1)
    layer = KINDS[kind](5, 7).to(dtype)
    x, states = given_to(layer, dtype)
    wanted = everything(copy.deepcopy(layer).double(), x.double(), [state.double() for state in states])
    made = everything(layer.to("ocl:0"), x.to("ocl:0"), [state.to("ocl:0") for state in states])
    assert all(each.dtype == dtype for each in made)
    check(made, wanted, 0.01 if dtype == torch.float16 else 0.05)


def test_a_level_is_an_op_forward_and_one_backward():
    layer = nn.GRU(5, 7, 2).to("ocl:0")
    x = torch.randn(20, 3, 5, device="ocl:0")
    with torch.profiler.profile() as recording:
        layer(x)[0].sum().backward()
    names = {event.name for event in recording.events()}
    assert {"pylayout::recurrent", "pylayout::recurrent_backward"} <= names
    assert not any("gru_cell" in name for name in names)


def test_processors_take_pytorchs_steps(monkeypatch):
    from pylayout.ocl import recurrent

    monkeypatch.undo()
    if torch.ocl.get_device_properties(0).capabilities["type"] == "cpu":
        assert not recurrent._takes_levels(torch.device("ocl:0"))


@pytest.mark.parametrize("kind", KINDS)
def test_what_stays_with_pytorchs_steps(kind):
    """Projections, double gradients, transforms, tensors without elements."""
    torch.manual_seed(1)
    layer = KINDS[kind](5, 7)
    x, _ = given_to(layer)
    device = copy.deepcopy(layer).to("ocl:0")

    def second(layer, x):
        x = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(layer(x)[0].pow(2).sum(), x, create_graph=True)
        layer.zero_grad()
        slope.pow(2).sum().backward()
        return [slope, x.grad, *(p.grad for p in layer.parameters())]

    check(second(device, x.to("ocl:0")), second(copy.deepcopy(layer).double(), x.double()), 2e-5)

    by_func = torch.func.grad(lambda x: device(x)[0].pow(2).sum())(x.to("ocl:0"))
    given = x.clone().requires_grad_()
    layer(given)[0].pow(2).sum().backward()
    check([by_func], [given.grad], 1e-5)

    assert device(x[:, :0].to("ocl:0"))[0].shape == (4, 0, 7)
    check([device(x[:, 0].to("ocl:0"))[0]], [layer(x[:, 0])[0]], 1e-5)  # without a batch
    with torch.inference_mode():
        check([device(x.to("ocl:0"))[0]], [layer(x)[0]], 1e-5)
    if kind == "lstm":
        layer = nn.LSTM(5, 7, proj_size=3)
        check([copy.deepcopy(layer).to("ocl:0")(x.to("ocl:0"))[0]], [layer(x)[0]], 1e-5)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sequences_of_different_lengths(kind, both):
    """Forward, gradients, and gradients of those, of packed sequences in any order; autocast."""
    rnn = nn.utils.rnn
    torch.manual_seed(1)
    layer = KINDS[kind](5, 7, 2, bidirectional=both)
    x, lengths = torch.randn(6, 4, 5), torch.tensor([3, 6, 1, 4])

    def run(layer, x, again):
        x = x.clone().requires_grad_()
        packed, last = layer(rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))
        y, _ = rnn.pad_packed_sequence(packed)
        loss = y.square().sum() + sum(state.sin().sum() for state in (last if kind == "lstm" else [last]))
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        layer.zero_grad()
        (slope.square().sum() if again else loss).backward()
        return [y.detach(), slope.detach(), x.grad, *(p.grad for p in layer.parameters())]

    device = copy.deepcopy(layer).to("ocl:0")
    for again in (False, True):
        check(run(device, x.to("ocl:0"), again), run(copy.deepcopy(layer).double(), x.double(), again), 2e-5)
    assert torch.ocl.fallbacks() == []
    with torch.autocast("ocl", dtype=torch.float16):
        made = device(rnn.pack_padded_sequence(x.to("ocl:0"), lengths, enforce_sorted=False))[0].data
    assert made.dtype == torch.float16
    check([made.float()], [layer(rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))[0].data], 0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_autocast(kind):
    """All of it in half precision, gradients of weights in float32."""
    torch.manual_seed(1)
    layer = KINDS[kind](5, 7, 2)
    x, _ = given_to(layer)
    device = copy.deepcopy(layer).to("ocl:0")
    there = x.to("ocl:0").requires_grad_()
    with torch.profiler.profile() as recording, torch.autocast("ocl", dtype=torch.float16):
        y = device(there)[0]
        y.float().square().sum().backward()
    assert y.dtype == torch.float16 and there.grad.dtype == torch.float32
    assert "pylayout::recurrent_backward" in {event.name for event in recording.events()}
    given = x.clone().requires_grad_()
    exact = layer(given)[0]
    exact.square().sum().backward()
    made = [y.float(), there.grad, *(each.grad for each in device.parameters())]
    check(made, [exact, given.grad, *(each.grad for each in layer.parameters())], 0.02)


def test_dropout_between_levels():
    torch.manual_seed(1)
    layer = nn.LSTM(5, 7, 2, dropout=1.0)  # the second level sees zeros
    device = copy.deepcopy(layer).to("ocl:0")
    x, _ = given_to(layer)
    with torch.no_grad():
        check([device(x.to("ocl:0"))[0]], [layer(x)[0]], 1e-5)
        check([device.eval()(x.to("ocl:0"))[0]], [layer.eval()(x)[0]], 1e-5)


def test_frozen_weights_and_unused_results():
    torch.manual_seed(1)
    layer = nn.LSTM(5, 7)
    layer.weight_hh_l0.requires_grad_(False)
    device = copy.deepcopy(layer).to("ocl:0")
    x, _ = given_to(layer)
    for each, given in ((layer, x), (device, x.to("ocl:0"))):
        each(given)[1][0].sum().backward()  # the last state of the cell is not read, nor are the steps
    assert device.weight_hh_l0.grad is None
    check([device.weight_ih_l0.grad, device.bias_hh_l0.grad], [layer.weight_ih_l0.grad, layer.bias_hh_l0.grad], 1e-5)
