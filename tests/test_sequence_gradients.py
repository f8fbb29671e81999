"""Gradients of recurrent layers and attention: PyTorch, float64 differences, half precision, the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_cases import CASES, Case
from op_cases.recurrent import recurrent

import pylayout as pl
from pylayout import ops

torch = pytest.importorskip("torch", reason="gradients are compared with PyTorch's")

pytestmark = pytest.mark.usefixtures("unoptimised")

# PyTorch's gates in ONNX's order: lstm i f g o -> i o f g, gru r z n -> z r n.
ORDER = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2], "rnn": [0]}
STATES = {"lstm": ["initial_h", "initial_c"], "gru": ["initial_h"], "rnn": ["initial_h"]}


def ordered(op: str, values: Any) -> np.ndarray:
    """Parameters or gradients of PyTorch's module, by direction, with the gates in ONNX's order."""
    parts = [np.asarray(value) for value in values]
    return np.stack([p.reshape(len(ORDER[op]), -1, *p.shape[1:])[ORDER[op]].reshape(p.shape) for p in parts])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", ORDER)
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_gradients_are_torchs(op: str, batch_first: bool, device: str, rng: np.random.Generator) -> None:
    """Two directions, many steps; by x, all weights and the first states."""
    steps, batch, features, hidden = 30, 3, 24, 40
    module = getattr(torch.nn, op.upper())(features, hidden, bidirectional=True, batch_first=batch_first).double()
    x = rng.standard_normal((batch, steps, features) if batch_first else (steps, batch, features))
    first = [rng.standard_normal((2, batch, hidden)) for _ in STATES[op]]
    weights = rng.standard_normal((*x.shape[:2], 2 * hidden))
    given = torch.from_numpy(x).requires_grad_()
    states = [torch.from_numpy(s).requires_grad_() for s in first]
    y, last = module(given, tuple(states) if op == "lstm" else states[0])
    last = list(last) if op == "lstm" else [last]
    ((y * torch.from_numpy(weights)).sum() + sum((s * s).sum() for s in last)).backward()

    def of_module(end: str, gradient: bool) -> np.ndarray:
        tensors = [getattr(module, f"{end}_l0{d}") for d in ("", "_reverse")]
        return ordered(op, [(t.grad if gradient else t.detach()).numpy() for t in tensors])

    def in_our_order(state: np.ndarray) -> np.ndarray:
        return state.transpose(1, 0, 2) if batch_first else state

    names = ["x", "w", "r", "b", *STATES[op]]
    graph = pl.Graph()
    arrays = [
        x,
        of_module("weight_ih", False),
        of_module("weight_hh", False),
        np.concatenate([of_module("bias_ih", False), of_module("bias_hh", False)], 1),
        *map(in_our_order, first),
    ]
    values = {name: graph.parameter(name, a.astype("f4")) for name, a in zip(names, arrays, strict=True)}
    attributes = {"linear_before_reset": True} if op == "gru" else {}
    made, *ends = graph.op(op, **values, direction="bidirectional", batch_first=batch_first, **attributes)
    # (steps, directions, batch, hidden), or (batch, steps, directions, hidden).
    own = weights.reshape(*x.shape[:2], 2, hidden)
    own = own if batch_first else own.transpose(0, 2, 1, 3)
    loss = graph.op("sum", graph.op("mul", made, np.ascontiguousarray(own.astype("f4"))))
    for end in ends:
        loss = loss + graph.op("sum", graph.op("mul", end, end))
    for gradient in graph.gradients(loss, list(values.values())):
        graph.output(gradient)
    results = pl.compile(graph, tune="off", device=device).run()
    expected = [
        given.grad.numpy(),
        of_module("weight_ih", True),
        of_module("weight_hh", True),
        np.concatenate([of_module("bias_ih", True), of_module("bias_hh", True)], 1),
        *(in_our_order(s.grad.numpy()) for s in states),
    ]
    for name, got, want in zip(names, results, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * float(np.abs(want).max()), err_msg=name)


@pytest.mark.parametrize("op", ORDER)
@pytest.mark.parametrize("reset", [False, True])
def test_recurrent_gradients_by_differences(op: str, reset: bool, rng: np.random.Generator) -> None:
    """Along a random direction in all inputs at once, with lengths and, in an LSTM, peepholes."""
    if reset and op != "gru":
        pytest.skip("a GRU's attribute")
    steps, batch, features, hidden, gates = 6, 3, 4, 5, len(ORDER[op])
    attributes: dict[str, Any] = {"linear_before_reset": True} if reset else {}
    shapes = {
        "x": (steps, batch, features),
        "w": (2, gates * hidden, features),
        "r": (2, gates * hidden, hidden),
        "b": (2, 2 * gates * hidden),
        "initial_h": (2, batch, hidden),
    }
    if op == "lstm":
        shapes |= {"initial_c": (2, batch, hidden), "p": (2, 3 * hidden)}
    arrays = {name: rng.uniform(-1, 1, shape).astype("f4") for name, shape in shapes.items()}
    lengths = np.array([6, 0, 4], "i4")
    graph = pl.Graph()
    values = {name: graph.parameter(name, a) for name, a in arrays.items()}
    results = graph.op(op, **values, sequence_lens=lengths, direction="bidirectional", **attributes)
    weights = [rng.standard_normal(y.shape).astype("f4") for y in results]
    loss = None
    for y, weight in zip(results, weights, strict=True):
        part = graph.op("sum", graph.op("mul", y, weight))
        loss = part if loss is None else loss + part
    for gradient in graph.gradients(loss, list(values.values())):
        graph.output(gradient)
    found = pl.compile(graph, tune="off", device="cpu").run()
    directions = {name: rng.standard_normal(a.shape) for name, a in arrays.items()}

    def loss_at(step: float) -> float:
        moved = {name: torch.from_numpy(a.astype("f8") + step * directions[name]) for name, a in arrays.items()}
        given = moved | {"sequence_lens": torch.from_numpy(lengths)}
        made = recurrent(torch, op, given, {"direction": "bidirectional", **attributes})
        return sum(float((y * torch.from_numpy(w)).sum()) for y, w in zip(made, weights, strict=True))

    along = sum(float((g * directions[name]).sum()) for name, g in zip(values, found, strict=True))
    want = (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5
    assert abs(along - want) < 1e-5 * max(1.0, abs(want)) * 10


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"softcap": 2.0}])
def test_attention_gradients_by_differences(options: dict[str, Any], rng: np.random.Generator) -> None:
    arrays = [rng.standard_normal((2, 3, 11, 5)).astype("f4") for _ in "qkv"]
    weights = rng.standard_normal((2, 3, 11, 5)).astype("f4")
    graph = pl.Graph()
    values = [graph.parameter(name, a) for name, a in zip("qkv", arrays, strict=True)]
    loss = graph.op("sum", graph.op("mul", graph.scaled_dot_product_attention(*values, **options), weights))
    for gradient in graph.gradients(loss, values):
        graph.output(gradient)
    plan = pl.compile(graph, tune="off", device="cpu")
    assert "scaled_dot_product_attention_backward" in {s.get("op") for s in plan.summary()["steps"]}
    found = plan.run()
    directions = [rng.standard_normal(a.shape) for a in arrays]

    def loss_at(step: float) -> float:
        q, k, v = (a.astype("f8") + step * d for a, d in zip(arrays, directions, strict=True))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(5)
        if "softcap" in options:
            scores = options["softcap"] * np.tanh(scores / options["softcap"])
        if options.get("is_causal"):
            scores = np.where(np.tri(11, dtype=bool), scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        return float((p / p.sum(-1, keepdims=True) @ v * weights).sum())

    along = sum(float((g * d).sum()) for g, d in zip(found, directions, strict=True))
    want = (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5
    assert abs(along - want) < 1e-4 * max(1.0, abs(want))


@pytest.mark.parametrize("hidden", [-1e4, -1e9, -3.4e38])
@pytest.mark.parametrize("swapped", [False, True])
def test_attention_where_all_keys_are_hidden_alike(
    hidden: float, swapped: bool, device: str, rng: np.random.Generator
) -> None:
    """PyTorch's formula in f32: scores and mask are added, then softmax; far below 0 their sum is rounded."""
    shape = (2, 3, 19, 16)
    arrays = [rng.standard_normal(shape).astype("f4") for _ in range(4)]
    mask = np.where(rng.random((2, 1, 19, 19)) < 0.4, np.float32(hidden), np.float32(0))
    mask[:, :, 4:6] = hidden
    graph = pl.Graph()
    layouts = [value.transpose(0, 2, 1, 3).copy() if swapped else value for value in arrays]
    held = [graph.parameter(name, value) for name, value in zip("qkv", layouts[:3], strict=True)]
    values = [graph.permute(value, [0, 2, 1, 3]) if swapped else value for value in held]
    y = graph.scaled_dot_product_attention(*values, graph.constant(mask))
    graph.output(y, "y")
    for gradient in graph.gradients(graph.op("sum", graph.op("mul", y, arrays[3])), held):
        graph.output(gradient)
    found = pl.compile(graph, tune="off", device=device).run()

    q, k, v = (torch.from_numpy(value).requires_grad_() for value in arrays[:3])
    scores = (q @ k.mT / 4 + torch.from_numpy(mask)).double()
    wanted = torch.softmax(scores, -1) @ v.double()
    gradients = torch.autograd.grad((wanted * torch.from_numpy(arrays[3])).sum(), [q, k, v])
    if swapped:
        gradients = [gradient.transpose(1, 2) for gradient in gradients]
    # A sum near -1e4 is rounded to a multiple of 1e-3, whose half a device may add in units of ln 2.
    atol = 1e-5 if hidden < -1e4 else 4e-3
    for got, want in zip(found, [wanted, *gradients], strict=True):
        np.testing.assert_allclose(np.asarray(got), want.detach().numpy(), rtol=0, atol=atol)


SEQUENCES = [case for case in CASES if case.op.endswith("_backward") and case.op.split("_")[0] in (*ORDER, "scaled")]


@pytest.mark.usefixtures("untuned")  # measured, another implementation may win with other threads
@pytest.mark.parametrize("case", SEQUENCES, ids=[case.name for case in SEQUENCES])
def test_the_same_bits_whatever_the_threads(case: Case) -> None:
    tensors, before = case.make(), pl.get_threads()
    runs = []
    try:
        for threads in (2, 1, 2):
            pl.configure(threads=threads)
            results = case.call(ops, tensors, device="cpu")
            runs.append([np.asarray(result).tobytes() for result in results])
    finally:
        pl.configure(threads=before)
    assert runs[0] == runs[2]
    assert runs[0] == runs[1]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("op", [*ORDER, "scaled_dot_product_attention"])
def test_gradients_in_half_precision(op: str, dtype: str, device: str) -> None:
    case = next(case for case in SEQUENCES if case.op == f"{op}_backward")
    exact = case.make()
    tensors = [None if t is None else pl.asarray(t, device=device).to(dtype=dtype) for t in exact]
    rounded = [None if t is None else np.asarray(t.to(dtype="f32")).astype("f8") for t in tensors]
    want = case.reference(
        torch, torch.nn.functional, [torch.from_numpy(t) for t in rounded if t is not None], case.attributes
    )
    for got, expected in zip(case.call(ops, tensors), want, strict=True):
        scale = float(expected.abs().max())
        array = np.asarray(got.to(dtype="f32"))
        np.testing.assert_allclose(array, expected.numpy(), rtol=0, atol=(5e-2 if dtype == "bf16" else 6e-3) * scale)


@pytest.mark.parametrize("op", ORDER)
def test_recurrent_gradients_of_no_steps(op: str) -> None:
    """The gradient by the first state is that by the last one; weights have none."""
    gates = len(ORDER[op])
    x, w, r = np.ones((0, 2, 4), "f4"), np.ones((1, gates * 5, 4), "f4"), np.ones((1, gates * 5, 5), "f4")
    grad_h = np.arange(10, dtype="f4").reshape(1, 2, 5)
    nothing = np.ones((0, 1, 2, 5), "f4")
    dx, dw, dr, db, dh, *_ = getattr(ops, f"{op}_backward")(x, w, r, nothing, nothing, grad_h=grad_h)
    assert dx.shape == (0, 2, 4)
    assert not any(np.asarray(t).any() for t in (dw, dr, db))
    np.testing.assert_array_equal(np.asarray(dh), grad_h)


@pytest.mark.parametrize("op", ORDER)
def test_lengths_that_a_device_holds_are_limited(op: str, opencl_device: str, rng: np.random.Generator) -> None:
    """Nobody looks at them before; beyond the last step lies other memory."""
    steps, batch, features, hidden, gates = 4, 3, 3, 5, len(ORDER[op])
    shapes = {"x": (steps, batch, features), "w": (2, gates * hidden, features), "r": (2, gates * hidden, hidden)}
    arrays = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    graph = pl.Graph()
    values = {name: graph.input(name, a.shape) for name, a in arrays.items()}
    lengths = graph.input("lengths", (batch,), "s64")
    y, *_ = graph.op(op, **values, sequence_lens=lengths, direction="bidirectional")
    graph.output(y, "y")
    for name, gradient in zip(values, graph.gradients(graph.sum(y * y), list(values.values())), strict=True):
        graph.output(gradient, f"d{name}")
    plan = pl.compile(graph, tune="off", device=opencl_device)
    beyond, limited = (plan.run(*arrays.values(), np.array(n)) for n in ([1000, -7, 2], [steps, 0, 2]))
    assert np.any(limited[0])
    for got, want in zip(beyond, limited, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_small_lstm_learns(device: str, rng: np.random.Generator) -> None:
    """Whether the mean of a sequence is above zero."""
    graph = pl.Graph()
    x, target = graph.input("x", (5, 32, 1)), graph.input("t", (32,), "s64")
    hidden = 12
    w, r, b = (
        graph.parameter(name, (rng.standard_normal(shape) * 0.4).astype("f4"))
        for name, shape in (("w", (1, 4 * hidden, 1)), ("r", (1, 4 * hidden, hidden)), ("b", (1, 8 * hidden)))
    )
    out = graph.parameter("out", (rng.standard_normal((2, hidden)) * 0.4).astype("f4"))
    _, last, _ = graph.lstm(x, w, r, b)
    loss = graph.cross_entropy(graph.linear(graph.reshape(last, (32, hidden)), out), target)
    graph.output(loss, "loss")
    pl.training.adam(graph, loss, lr=0.05)
    plan = pl.compile(graph, tune="off", device=device)
    losses = []
    for _ in range(100):
        images = rng.standard_normal((5, 32, 1)).astype("f4")
        losses.append(float(plan.run(images, (images.mean((0, 2)) > 0).astype("i8"))[0]))
    assert np.mean(losses[-30:]) < 0.75 * np.mean(losses[:3])
