"""Gradients of graphs, values kept between runs, and training of small networks, against PyTorch and float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pylayout as pl
import pylayout.onnx

torch = pytest.importorskip("torch", reason="gradients are compared with PyTorch's")


def test_a_value_used_several_times(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4)).astype("f4")
    graph = pl.Graph()
    value = graph.parameter("x", x)
    unused = graph.parameter("unused", x)
    loss = (value * value + value.exp() * value - value).sum()
    for gradient in graph.gradients(loss, [value, unused]):
        graph.output(gradient)
    got, zeros = pl.compile(graph, tune="off").run()
    wide = x.astype("f8")
    np.testing.assert_allclose(got, 2 * wide + np.exp(wide) * (1 + wide) - 1, rtol=1e-5, atol=1e-5)
    assert not zeros.any()


def test_finite_differences(rng: np.random.Generator) -> None:
    """A small network's gradient along a random direction, by differences of a loss that NumPy takes in float64."""
    x, w, v = (rng.standard_normal(s).astype("f4") for s in ((5, 7), (6, 7), (3, 6)))
    target = rng.integers(0, 3, 5)
    graph = pl.Graph()
    values = [graph.parameter(name, t) for name, t in zip("wv", (w, v), strict=True)]
    hidden = graph.tanh(graph.linear(x, values[0]))
    loss = graph.cross_entropy(graph.linear(hidden, values[1]), target)
    for gradient in graph.gradients(loss, values):
        graph.output(gradient)
    found = pl.compile(graph, tune="off").run()

    def loss_at(w: np.ndarray, v: np.ndarray) -> float:
        scores = np.tanh(x.astype("f8") @ w.T) @ v.T
        logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        return float(-logs[np.arange(5), target].mean())

    directions = [rng.standard_normal(t.shape) for t in (w, v)]
    step = 1e-5
    moved = [loss_at(w + s * directions[0], v + s * directions[1]) for s in (step, -step)]
    along = sum(float((g * d).sum()) for g, d in zip(found, directions, strict=True))
    assert abs(along - (moved[0] - moved[1]) / (2 * step)) < 1e-5 * max(1, abs(along))


def test_errors_of_gradients(rng: np.random.Generator) -> None:
    graph = pl.Graph()
    x = graph.parameter("x", rng.standard_normal((2, 8, 6, 6)).astype("f4"))
    y = graph.avg_pool2d_backward(x, input_size=(12, 12), kernel_size=2, name="pool1")
    with pytest.raises(pl.UnsupportedError, match=r'"avg_pool2d_backward" has no gradient .node "pool1"'):
        graph.gradients(y.sum(), [x])
    with pytest.raises(pl.ShapeError, match="expected one element"):
        graph.gradients(y, [x])
    with pytest.raises(pl.InvalidArgumentError, match="expected f32"):
        graph.gradients(y.sum(), [graph.constant(np.zeros(3, "i8"))])


# ---- values kept between runs ----


def counting() -> pl.Graph:
    graph = pl.Graph()
    x = graph.input("x", (3,))
    total = graph.state("total", np.zeros(3, "f4"))
    graph.update(total, total + x)
    graph.output(total * 2, "twice")
    return graph


def test_states_change_after_a_run(tmp_path: Any) -> None:
    plan = pl.compile(counting(), tune="off")
    one = np.ones(3, "f4")
    assert [item["name"] for item in plan.inputs] == ["x"]
    assert [item["name"] for item in plan.outputs] == ["twice"]
    assert [(s["name"], s["parameter"], s["updated"]) for s in plan.states] == [("total", False, True)]
    for i in range(4):
        np.testing.assert_array_equal(plan.run(one)[0], 2 * i * one)
    before = plan.state("total")
    np.testing.assert_array_equal(before, 4 * one)
    plan.run(one)
    np.testing.assert_array_equal(before, 4 * one)  # a copy
    plan.set_state("total", 7 * one)
    plan.save(tmp_path / "plan")
    for again in (plan, pl.load_plan(tmp_path / "plan")):
        np.testing.assert_array_equal(again.run(one)[0], 14 * one)
        np.testing.assert_array_equal(again.state("total"), 8 * one)


def test_plans_of_one_graph_have_states_of_their_own() -> None:
    graph, one = counting(), np.ones(3, "f4")
    first, second = (pl.compile(graph, tune="off") for _ in range(2))
    first.run(one)
    assert first.state("total")[0] == 1 and second.state("total")[0] == 0


def test_live_runs_leave_states_right(rng: np.random.Generator) -> None:
    """Programs compete in runs, some are left in the midst: each run counts once."""
    graph = pl.Graph()
    x = graph.input("x", (1, 16, 28, 28))
    w = rng.standard_normal((16, 16, 3, 3)).astype("f4") * 0.05
    y = x
    for _ in range(4):
        y = graph.conv2d(y, w, padding=1, activation="relu")
    count = graph.state("count", np.zeros((), "f4"))
    graph.update(count, count + 1)
    graph.output(y.sum() + count)
    plan = pl.compile(graph)
    data = np.ones((1, 16, 28, 28), "f4")
    for _ in range(200):
        plan.run(data)
    assert float(plan.state("count")) == 200


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("optimizer", "options", "message"),
    [
        ("sgd", {"lr": NAN}, "sgd: lr is nan, expected a finite number of at least 0"),
        ("adam", {"lr": -0.1}, "adam: lr is -0.1, expected a finite number of at least 0"),
        ("rmsprop", {"lr": INFINITY}, "rmsprop: lr is inf"),
        ("sgd", {"lr": "a"}, "sgd: lr is 'a', expected a number"),
        ("sgd", {"momentum": 1.0}, "sgd: momentum is 1.0, expected 0 to less than 1"),
        ("rmsprop", {"momentum": -0.5}, "rmsprop: momentum is -0.5, expected 0 to less than 1"),
        ("rmsprop", {"alpha": 1.5}, "rmsprop: alpha is 1.5, expected 0 to 1"),
        ("adamw", {"eps": -1e-8}, "adamw: eps is -1e-08, expected a finite number of at least 0"),
        ("adamw", {"beta2": 1}, "adamw: beta2 is 1, expected 0 to less than 1"),
        ("sgd", {"weight_decay": -1}, "sgd: weight_decay is -1"),
        ("sgd", {"clip_norm": 0}, "sgd: clip_norm is 0, expected more than 0"),
        ("adam", {"loss_scale": True}, "adam: loss_scale is True, expected a LossScale or None"),
        ("adam", {"graph": None}, "adam: graph is NoneType, expected a Graph"),
        ("adam", {"loss": None}, "adam: loss is None, expected a Value of the graph"),
    ],
)
def test_optimizers_say_what_makes_no_sense(optimizer: str, options: dict[str, Any], message: str) -> None:
    graph = pl.Graph()
    weight = graph.parameter("w", np.ones(3, "f4"))
    loss = (weight * weight).sum()
    graph.output(loss)
    function = getattr(pl.training, optimizer)
    with pytest.raises(pl.InvalidArgumentError, match=message):
        function(**{"graph": graph, "loss": loss, **options})
    function(graph, loss)  # nothing was appended before
    with pytest.raises(pl.InvalidArgumentError, match=r'state "lr", an optimizer.s, already, expected one'):
        pl.training.sgd(graph, loss)


def test_notes_that_json_does_not_hold(tmp_path: Path) -> None:
    plan = pl.compile(counting(), tune="off")
    for notes in (object(), {"loss": NAN}):
        with pytest.raises(pl.InvalidArgumentError, match=r"checkpoint: notes is .*, expected what JSON holds"):
            pl.training.save(tmp_path / "a", plan, notes=notes)
    with pytest.raises(pl.ArgumentTypeError, match="checkpoint: plan is int, expected a Plan"):
        pl.training.save(tmp_path / "a", 3)  # type: ignore[arg-type]


def test_states_whose_names_are_those_of_files(tmp_path: Path) -> None:
    def plan_of(first: float, second: float) -> pl.Plan:
        graph = pl.Graph()
        graph.output(graph.state("a", np.full(2, first, "f4")) + graph.state("a.npy", np.full(2, second, "f4")))
        return pl.compile(graph, tune="off")

    pl.training.save(tmp_path / "checkpoint", plan_of(1, 2))
    plan = plan_of(0, 0)
    pl.training.restore(tmp_path / "checkpoint", plan)
    assert [float(plan.state(name)[0]) for name in ("a", "a.npy")] == [1, 2]


def test_errors_of_states() -> None:
    graph = counting()
    plan = pl.compile(graph, tune="off")
    with pytest.raises(pl.InvalidArgumentError, match='no state "other"; expected one of total'):
        plan.state("other")
    with pytest.raises(pl.ShapeError, match=r"expected f32 .3,."):
        plan.set_state("total", np.zeros(4, "f4"))
    with pytest.raises(pl.InvalidArgumentError, match="0 inputs given, expected 1: x"):
        plan.run()
    total = graph.parameter("w", np.zeros(3, "f4"))
    with pytest.raises(pl.ShapeError, match="expected f32"):
        graph.update(total, graph.constant(np.zeros(4, "f4")))
    with pytest.raises(pl.InvalidArgumentError, match="expected a parameter or a state"):
        graph.update(graph.constant(np.zeros(3, "f4")), total)
    with pytest.raises(pl.InvalidArgumentError, match="already"):
        graph.state("w", np.zeros(3, "f4"))


# ---- networks ----


def resnet_block(network: Network, x: Any, channels: int, stride: int) -> Any:
    y = network.act(network.norm(network.conv(x, channels, 3, stride)))
    y = network.norm(network.conv(y, channels, 3))
    if stride != 1 or x.shape[1] != channels:
        x = network.norm(network.conv(x, channels, 1, stride))
    return network.act(y + x)


def mobilenet_block(network: Network, x: Any, channels: int, stride: int) -> Any:
    wide = 4 * x.shape[1]
    y = network.act(network.norm(network.conv(x, wide, 1)))
    y = network.act(network.norm(network.conv(y, wide, 3, stride, groups=wide)))
    y = network.norm(network.conv(y, channels, 1))
    return y + x if y.shape == x.shape else y


class Network:
    """The same layers, in a graph or in PyTorch, with the same parameters in the order of the calls."""

    def __init__(self, graph: pl.Graph | None, dtype: Any = None) -> None:
        self.graph, self.dtype = graph, dtype
        self.rng = np.random.default_rng(5)
        self.parameters: list[Any] = []
        self.statistics: list[Any] = []

    def parameter(self, *shape: int, scale: float = 1.0, offset: float = 0.0) -> Any:
        value = (self.rng.standard_normal(shape) * scale + offset).astype("f4")
        if self.graph is not None:
            self.parameters.append(self.graph.parameter(f"p{len(self.parameters)}", value))
        else:
            self.parameters.append(torch.from_numpy(value).to(self.dtype).requires_grad_())
        return self.parameters[-1]

    def conv(self, x: Any, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
        inner = x.shape[1] // groups
        weight = self.parameter(channels, inner, kernel, kernel, scale=(inner * kernel * kernel / 2) ** -0.5)
        options = {"stride": stride, "padding": kernel // 2, "groups": groups}
        if self.graph is not None:
            return self.graph.conv2d(x, weight, **options)
        return torch.nn.functional.conv2d(x, weight, **options)

    def norm(self, x: Any) -> Any:
        weight = self.parameter(x.shape[1], scale=0.1, offset=1.0)
        bias = self.parameter(x.shape[1], scale=0.1)
        if self.graph is not None:
            return self.graph.batch_norm_training(x, weight, bias)[0]
        return torch.nn.functional.batch_norm(x, None, None, weight, bias, training=True)

    def act(self, x: Any) -> Any:
        return self.graph.relu(x) if self.graph is not None else x.relu()

    def head(self, x: Any, classes: int) -> Any:
        weight, bias = self.parameter(classes, x.shape[1], scale=0.1), self.parameter(classes, scale=0.1)
        if self.graph is not None:
            return self.graph.linear(self.graph.flatten(self.graph.global_avg_pool(x), 1), weight, bias)
        return torch.nn.functional.linear(x.mean((2, 3)), weight, bias)

    def pool(self, x: Any) -> Any:
        return self.graph.max_pool2d(x, 2) if self.graph is not None else torch.nn.functional.max_pool2d(x, 2)

    def run(self, x: Any, block: Any) -> Any:
        y = self.pool(self.act(self.norm(self.conv(x, 16, 3))))
        for channels, stride in ((16, 1), (32, 2), (32, 1)):
            y = block(self, y, channels, stride)
        return self.head(y, 10)


BLOCKS = {"resnet": resnet_block, "mobilenet": mobilenet_block}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("layout", ["auto", "NCHW", "NHWC", "nChw16c"])
def test_gradients_of_networks(block: str, layout: str, device: str, rng: np.random.Generator) -> None:
    """Against PyTorch in float64; the same bits in the second run."""
    images, labels = rng.standard_normal((8, 3, 12, 12)).astype("f4"), rng.integers(0, 10, 8)
    graph = pl.Graph()
    network = Network(graph)
    loss = graph.cross_entropy(network.run(graph.input("x", images.shape), BLOCKS[block]), labels)
    graph.output(loss, "loss")
    for gradient in graph.gradients(loss, network.parameters):
        graph.output(gradient)
    plan = pl.compile(graph, tune="off", device=device, layout=layout)
    results = plan.run(images)
    exact = Network(None, torch.float64)
    wanted = torch.nn.functional.cross_entropy(
        exact.run(torch.from_numpy(images).double(), BLOCKS[block]), torch.from_numpy(labels)
    )
    assert abs(float(results[0]) - float(wanted.detach())) < 1e-5
    for got, want in zip(results[1:], torch.autograd.grad(wanted, exact.parameters), strict=True):
        scale = max(1e-3, float(want.abs().max()))
        np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=1e-4 * scale)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(results, plan.run(images), strict=True))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_fifty_steps_are_as_pytorchs(optimizer: str, device: str, rng: np.random.Generator) -> None:
    images = rng.standard_normal((50, 8, 3, 8, 8)).astype("f4")
    labels = rng.integers(0, 10, (50, 8))
    graph = pl.Graph()
    network = Network(graph)
    x, target = graph.input("x", images.shape[1:]), graph.input("t", (8,), "s64")
    loss = graph.cross_entropy(network.run(x, resnet_block), target)
    graph.output(loss, "loss")
    if optimizer == "sgd":
        pl.training.sgd(graph, loss, lr=0.02, momentum=0.9, weight_decay=1e-4)
    else:
        pl.training.adam(graph, loss, lr=0.001)
    plan = pl.compile(graph, tune="off", device=device)
    losses = [float(plan.run(x, t)[0]) for x, t in zip(images, labels, strict=True)]
    exact = Network(None, torch.float64)
    wanted = []
    steps = None
    for x, t in zip(images, labels, strict=True):
        made, exact.parameters = exact.parameters, []
        exact.rng = np.random.default_rng(5)
        if made:  # the layers ask for their parameters again: they get those that were trained
            given = iter(made)
            exact.parameter = lambda *_, given=given, **__: exact.parameters.append(next(given)) or exact.parameters[-1]
        value = torch.nn.functional.cross_entropy(
            exact.run(torch.from_numpy(x).double(), resnet_block), torch.from_numpy(t)
        )
        if steps is None:
            steps = (
                torch.optim.SGD(exact.parameters, lr=0.02, momentum=0.9, weight_decay=1e-4)
                if optimizer == "sgd"
                else torch.optim.Adam(exact.parameters, lr=0.001)
            )
        steps.zero_grad()
        value.backward()
        steps.step()
        wanted.append(float(value.detach()))
    # Rounding grows from step to step: the first ones are near, the last ones follow the same curve.
    np.testing.assert_allclose(losses[:10], wanted[:10], rtol=0, atol=1e-3)
    np.testing.assert_allclose(losses, wanted, rtol=0, atol=0.05)


def test_weights_that_train_are_packed_in_every_run(rng: np.random.Generator) -> None:
    """Forms that no layout describes, each made once in a run, for kernels that inference has."""
    import torch.nn.functional as f

    images = rng.standard_normal((4, 32, 28, 28)).astype("f4")
    first, second = ((rng.standard_normal((32, 32, 3, 3)) * 0.06).astype("f4") for _ in range(2))
    graph = pl.Graph()
    w, v = graph.parameter("w", first), graph.parameter("v", second)
    y = graph.conv2d(graph.relu(graph.conv2d(graph.input("x", images.shape), w, padding=1)), v, padding=1)
    y = graph.conv2d(y, w, padding=1)  # a second time
    loss = (y * y).mean()
    graph.output(loss, "loss")
    pl.training.sgd(graph, loss, lr=0.2)
    plan = pl.compile(graph, tune="off", device="cpu")
    packed = [s["implementation"] for s in plan.summary()["steps"] if s["kind"] == "pack"]
    weight_of = {"conv2d": "w", "conv2d.1": "v", "conv2d.2": "w"}
    used = [
        (weight_of[choice["node"].split("/")[0]], form)
        for choice in plan.summary()["choices"]
        for form in {*choice["inputs"]} & {*packed}
    ]
    # Mostly w and v, as they are and transposed; which convolutions pack is the costs' choice, but some always did.
    assert used, "no convolution is by a kernel that packs weights"
    assert len(packed) == len({*used}), (packed, used)  # those of the same weight share a form
    own = [torch.from_numpy(a.astype("f8")).requires_grad_() for a in (first, second)]
    for _ in range(3):
        x = torch.from_numpy(images).double()
        z = f.conv2d(f.conv2d(f.conv2d(x, own[0], padding=1).relu(), own[1], padding=1), own[0], padding=1)
        want = (z * z).mean()
        for t, grad in zip(own, torch.autograd.grad(want, own), strict=True):
            t.data -= 0.2 * grad
        assert float(plan.run(images)[0]) == pytest.approx(float(want.detach()), rel=1e-4)
    for name, t in zip("wv", own, strict=True):
        np.testing.assert_allclose(plan.state(name), t.detach().numpy(), rtol=0, atol=2e-5)


def test_forward_backward_and_update_are_shown_apart(rng: np.random.Generator) -> None:
    graph = pl.Graph()
    network = Network(graph)
    images, labels = rng.standard_normal((4, 3, 12, 12)).astype("f4"), rng.integers(0, 10, 4)
    loss = graph.cross_entropy(network.run(graph.input("x", images.shape), resnet_block), labels)
    graph.output(loss, "loss")
    pl.training.sgd(graph, loss, momentum=0.9)
    plan = pl.compile(graph, tune="off", device="cpu")
    summary = plan.summary()
    of_op: dict[str, set[str]] = {}
    for step in summary["steps"]:
        if step["kind"] == "op":
            of_op.setdefault(step["op"], set()).add(step["phase"])
    assert of_op["conv2d"] == {"forward"} and of_op["cross_entropy"] == {"forward"}
    assert of_op["conv2d_backward_weights"] == {"backward"} and of_op["batch_norm_backward"] == {"backward"}
    assert of_op["sgd_step"] == {"update"}
    assert list(summary["phases"]) == ["forward", "backward", "update"]
    total = sum(step["ms"] for step in summary["steps"] if "phase" in step)
    assert sum(summary["phases"].values()) == pytest.approx(total)
    lines = plan.explain().splitlines()
    assert any(line.startswith("  forward ") and ", backward " in line and ", update " in line for line in lines)
    with pl.profile() as p:
        plan.run(images)
    measured = p.phases(plan)
    assert all(ms > 0 for ms in measured.values())
    assert sum(measured.values()) == pytest.approx(p.summary()["total_ms"], rel=0.2)
    graph = pl.Graph()
    graph.output(graph.relu(graph.input("x", (3,))), "y")
    assert pl.compile(graph, tune="off").summary()["phases"] == {}


def test_learning_rate_and_steps_are_states(tmp_path: Any) -> None:
    graph = pl.Graph()
    w = graph.parameter("w", np.array([3.0, 4.0], "f4"))
    loss = (w * w).sum()
    graph.output(loss, "loss")
    pl.training.adamw(graph, loss, lr=0.1)
    plan = pl.compile(graph, tune="off")
    plan.run()
    assert float(plan.state("steps")) == 1
    moved = plan.state("w")
    plan.set_state("lr", np.float32(0))
    plan.run()
    np.testing.assert_array_equal(plan.state("w"), moved)
    plan.save(tmp_path / "plan")
    again = pl.load_plan(tmp_path / "plan")
    assert float(again.state("steps")) == 2
    np.testing.assert_array_equal(again.state("w/mean"), plan.state("w/mean"))


def test_a_trainable_model_follows_the_batch(rng: np.random.Generator) -> None:
    """Weights become parameters, batch norms train, running statistics as PyTorch's."""
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    conv, norm = module[0], module[1]
    images = rng.standard_normal((4, 3, 9, 9)).astype("f4")
    graph = pl.Graph()
    x = graph.input("x", images.shape)
    names = {
        "w": conv.weight,
        "b": conv.bias,
        "m": norm.running_mean,
        "v": norm.running_var,
        "s": norm.weight,
        "o": norm.bias,
    }
    own = {name: graph.constant(value.detach().numpy().copy(), name) for name, value in names.items()}
    y = graph.batch_norm(graph.conv2d(x, own["w"], own["b"]), own["m"], own["v"], own["s"], own["o"], activation="relu")
    graph.output(y, "y")
    trained = graph.trainable(momentum=0.1)
    assert list(trained.parameters) == ["w", "b", "s", "o"]
    plan = pl.compile(trained, tune="off", device="cpu")
    for _ in range(3):
        got = plan.run(images)[0]
        want = module.train()(torch.from_numpy(images)).detach().numpy()
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    np.testing.assert_allclose(plan.state("m"), norm.running_mean.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(plan.state("v"), norm.running_var.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["PRESERVE", "TRAINING"])
def test_equal_initialisers_are_parameters_of_their_own(rng: np.random.Generator, tmp_path: Path, mode: str) -> None:
    """PyTorch writes fresh norms' weights, biases and statistics, all ones or zeros, once: a step moves each apart."""
    torch.manual_seed(3)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.Conv2d(8, 1280, 3, bias=False),  # as large as is not copied at import
        torch.nn.BatchNorm2d(1280),
        torch.nn.Flatten(),
        torch.nn.Linear(1280 * 2 * 2, 5),
    )
    images, targets = rng.standard_normal((4, 3, 6, 6)).astype("f4"), np.arange(4)
    path = tmp_path / "model.onnx"
    torch.onnx.export(
        module.eval() if mode == "PRESERVE" else module.train(),
        (torch.from_numpy(images),),
        str(path),
        dynamo=False,
        training=getattr(torch.onnx.TrainingMode, mode),
        do_constant_folding=False,
    )
    graph = pl.onnx.load(path).trainable()
    assert sorted(graph.parameters) == sorted(name for name, _ in module.named_parameters())
    scores = next(iter(graph.outputs.values()))
    loss = graph.cross_entropy(scores, graph.input("target", (4,), dtype="s64"))
    pl.training.sgd(graph, loss, lr=0.1)
    plan = pl.compile(graph, tune="off", device="cpu")
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(2):
        plan.run(images, targets)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(torch.from_numpy(images)), torch.from_numpy(targets)).backward()
        optimizer.step()
    kept = dict(module.named_parameters())
    if mode == "PRESERVE":
        kept |= {name: value for name, value in module.named_buffers() if value.dtype == torch.float32}
    for name, value in kept.items():
        np.testing.assert_allclose(plan.state(name), value.detach().numpy(), rtol=0, atol=2e-5, err_msg=name)


def test_embeddings_of_a_model_are_trained(tmp_path: Path) -> None:
    torch.manual_seed(5)
    module = torch.nn.Sequential(torch.nn.Embedding(11, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    words, target = torch.tensor([[1, 4, 4], [0, 10, 4]]), torch.randn(2, 3, 3)
    path = tmp_path / "model.onnx"
    torch.onnx.export(module, (words,), str(path), dynamo=False, do_constant_folding=False)
    graph = pl.onnx.load(path).trainable()
    scores = next(iter(graph.outputs.values()))
    loss = graph.mse_loss(scores, graph.input("target", (2, 3, 3)))
    pl.training.sgd(graph, loss, lr=0.5)
    plan = pl.compile(graph, tune="off", device="cpu")
    exact = module.double()
    optimizer = torch.optim.SGD(exact.parameters(), lr=0.5)
    for _ in range(3):
        plan.run(words.numpy(), target.numpy())
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(exact(words), target.double()).backward()
        optimizer.step()
    table = plan.state("0.weight")
    np.testing.assert_allclose(table, exact[0].weight.detach().numpy(), rtol=0, atol=2e-6)


def test_attention_trains_without_copies_of_rows(rng: np.random.Generator, tmp_path: Path) -> None:
    """PyTorch's MultiheadAttention turns texts and positions around, twice, and reads weights turned in the file."""
    torch.manual_seed(4)

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(32)
            self.attention = torch.nn.MultiheadAttention(32, 4, batch_first=True)
            self.up = torch.nn.Linear(32, 64)
            self.down = torch.nn.Linear(64, 32)

        def forward(self, x: Any) -> Any:
            y = self.norm(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.down(torch.nn.functional.gelu(self.up(x)))

    module = torch.nn.Sequential(Block(), Block()).train()
    x = rng.standard_normal((3, 7, 32)).astype("f4")
    path = tmp_path / "model.onnx"
    preserve = torch.onnx.TrainingMode.PRESERVE
    given = (torch.from_numpy(x),)
    torch.onnx.export(module, given, str(path), dynamo=False, training=preserve, do_constant_folding=False)
    graph = pl.onnx.load(path).trainable()
    # Each layer of parameters is one op with its bias; of rows only heads are views.
    text = str(graph)
    assert text.count("= linear(") == 8 and "= matmul(" not in text, text
    loss = graph.mean(graph.square(next(iter(graph.outputs.values()))))
    graph.output(loss, "loss")
    pl.training.sgd(graph, loss, lr=0.1)
    plan = pl.compile(graph, tune="off", device="cpu")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        expected = module(given[0]).square().mean()
        expected.backward()
        optimizer.step()
        loss_now = np.array(plan.run(x)[-1])
        np.testing.assert_allclose(loss_now, expected.detach().numpy(), rtol=2e-5)
    moved = [step for step in plan.summary()["steps"] if step["kind"] == "op" and step["op"] == "index_select"]
    assert not moved, moved
