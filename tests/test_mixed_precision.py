"""Training in mixed precision: f32 masters, values in 16 bits, and the scale of the loss that follows the gradients."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_train_command import stripes

import pylayout as pl
from pylayout import pictures
from pylayout.classifier import Classifier, Settings

torch = pytest.importorskip("torch", reason="losses are compared with PyTorch's")

pytestmark = pytest.mark.usefixtures("unoptimised")

MATHS = ["fp16", "bf16"]
CHANNELS, CLASSES, BATCH = 16, 10, 8


def first_weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        "conv0": (rng.standard_normal((CHANNELS, 3, 3, 3)) * 0.3).astype("f4"),
        "conv1": (rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) * 0.1).astype("f4"),
        "linear": (rng.standard_normal((CLASSES, CHANNELS)) * 0.3).astype("f4"),
        "weight": np.ones(CHANNELS, "f4"),
        "bias": np.zeros(CHANNELS, "f4"),
    }


def network(optimizer: str, loss_scale: pl.training.LossScale | None, factor: float = 1.0) -> pl.Graph:
    """Two convolutions, a batch norm with running statistics, a linear layer."""
    graph = pl.Graph()
    x, target = graph.input("x", (BATCH, 3, 8, 8)), graph.input("t", (BATCH,), dtype="s64")
    w = {name: graph.parameter(name, value) for name, value in first_weights().items()}
    y, mean, variance = graph.batch_norm_training(graph.conv2d(x, w["conv0"], padding=1), w["weight"], w["bias"])
    for name, value in (("mean", mean), ("variance", variance)):
        running = graph.state(name, np.zeros(CHANNELS, "f4"))
        graph.update(running, running + 0.1 * (value - running))
    y = graph.relu(graph.conv2d(graph.relu(y), w["conv1"], padding=1))
    loss = graph.cross_entropy(graph.linear(graph.flatten(graph.global_avg_pool(y), 1), w["linear"]), target)
    if factor != 1.0:
        loss = loss * factor
    graph.output(loss, "loss")
    if optimizer == "sgd":
        pl.training.sgd(graph, loss, lr=0.05, momentum=0.9, loss_scale=loss_scale)
    else:
        pl.training.adam(graph, loss, lr=0.01, loss_scale=loss_scale)
    return graph


def states(plan: pl.Plan) -> dict[str, np.ndarray]:
    return {state["name"]: np.array(plan.state(state["name"])) for state in plan.states}


def batch(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((BATCH, 3, 8, 8)).astype("f4"), rng.integers(0, CLASSES, BATCH)


def spoilt() -> tuple[np.ndarray, np.ndarray]:
    images, labels = batch(0)
    images[3, 1, 2, 5] = np.inf
    return images, labels


@pytest.mark.one_in(3)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("math", ["fp32", *MATHS])
def test_a_step_without_finite_gradients_changes_nothing(math: str, optimizer: str, device: str) -> None:
    scale = pl.training.LossScale(initial=1024.0)
    plan = pl.compile(network(optimizer, scale), device=device, math=math, tune="off")
    plan.run(*batch(1))
    before = states(plan)
    plan.run(*spoilt())
    after = states(plan)
    assert before.pop("loss_scale") == 1024 and after.pop("loss_scale") == 512
    assert before.pop("loss_scale/good_steps") == 1 and after.pop("loss_scale/good_steps") == 0
    assert {name: value.tobytes() for name, value in before.items()} == {
        name: value.tobytes() for name, value in after.items()
    }
    assert np.isfinite(plan.run(*batch(1))[0])
    now = states(plan)
    assert all(now[name].tobytes() != value.tobytes() for name, value in before.items() if name != "lr")


def test_the_scale_doubles_after_good_steps_and_halves_after_others(device: str) -> None:
    plan = pl.compile(network("sgd", pl.training.LossScale(8.0, interval=3)), device=device, math="fp16", tune="off")
    seen = []
    for good in (1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1):
        plan.run(*(batch(1) if good else spoilt()))
        seen.append((float(plan.state("loss_scale")), float(plan.state("loss_scale/good_steps"))))
    assert seen == [
        (8, 1), (8, 2), (16, 0), (16, 1), (16, 2), (8, 0), (8, 1), (8, 2), (16, 0), (8, 0), (4, 0), (4, 1),
    ]  # fmt: skip


def test_the_scale_stays_within_bounds() -> None:
    plan = pl.compile(network("sgd", pl.training.LossScale(2.0**24, interval=1)), device="cpu", tune="off")
    plan.run(*batch(1))
    assert plan.state("loss_scale") == 2.0**24
    plan.set_state("loss_scale", np.float32(2.0**-24))
    plan.run(*spoilt())
    assert plan.state("loss_scale") == 2.0**-24


@pytest.mark.parametrize("initial", [0.0, float("nan"), 2.0**25])
def test_errors_of_scales(initial: float) -> None:
    with pytest.raises(pl.InvalidArgumentError, match=r"the scale is .*, expected 2\^-24 to 2\^24"):
        network("sgd", pl.training.LossScale(initial))
    with pytest.raises(pl.InvalidArgumentError, match="the interval is 0 steps, expected 1 to"):
        network("sgd", pl.training.LossScale(interval=0))


def test_small_gradients_need_the_scale(opencl_device: str) -> None:
    """Of a loss of 1e-7 gradients by activations are nothing in f16; with the scale they are what f32 has."""

    def moved(math: str, scale: pl.training.LossScale | None) -> np.ndarray:
        graph = network("sgd", scale, factor=1e-7)
        plan = pl.compile(graph, device=opencl_device, math=math, tune="off")
        plan.run(*batch(1))
        return np.array(plan.state("conv0/velocity"))

    exact = moved("fp32", None)
    largest = np.abs(exact).max()
    assert np.abs(moved("fp16", None) - exact).max() > 0.5 * largest
    assert np.abs(moved("fp16", pl.training.LossScale()) - exact).max() < 0.02 * largest


def test_what_stays_in_f32(opencl_device: str) -> None:
    """States, their updates and the loss; what lies between is narrow."""
    plan = pl.compile(network("adam", pl.training.LossScale()), device=opencl_device, math="fp16", tune="off")
    assert all(state["dtype"] == "f32" for state in plan.states)
    dtypes: dict[str, set[str]] = {}
    for line in plan.graph().splitlines():
        if found := re.match(r".* = (\w+)\(.*: (\w+) \(", line):
            dtypes.setdefault(found[1], set()).add(found[2])
    narrow = ("conv2d", "batch_norm_training", "batch_norm_backward", "linear", "conv2d_backward_weights", "matmul")
    assert {op: dtypes[op] for op in narrow} == {op: {"f16"} for op in narrow}
    exact = ("cross_entropy", "cross_entropy_backward", "adam_step", "add", "all_finite")
    assert {op: dtypes[op] for op in exact} == {op: {"f32"} for op in exact}
    assert plan.graph().count("cast(") == 7  # images, three weights, scores, their gradient, a flag


def test_gradients_that_meet_stay_narrow(opencl_device: str) -> None:
    """A branch around a convolution: its gradient and the convolution's become one by an op that is told its dtype."""
    rng = np.random.default_rng(8)
    graph = pl.Graph()
    y = graph.input("x", (2, 8, 16, 16))
    for i in range(3):
        kernel = graph.parameter(f"kernel{i}", (rng.standard_normal((8, 8, 3, 3)) * 0.1).astype("f4"))
        y = graph.relu(graph.conv2d(y, kernel, padding=1) + y)
    loss = graph.sum(graph.square(y)) * 0.5
    graph.output(loss, "loss")
    pl.training.sgd(graph, loss, lr=0.01)
    plan = pl.compile(graph, device=opencl_device, math="fp16", tune="off")
    made = [line for line in plan.graph().splitlines() if " = pointwise(" in line]
    assert len(made) >= 2
    told = [line for line in made if re.search(r": f32 \(2, 8, 16, 16\)", line)]
    # The gradient of the loss alone, before the first product of the backward pass.
    assert len(told) <= 1, "\n".join(told)


def test_views_of_the_forward_pass_stay_narrow(opencl_device: str) -> None:
    """Gradients of weights read rows of what the forward pass made: nothing of that is widened for them."""
    rng = np.random.default_rng(9)
    graph = pl.Graph()
    y = graph.input("x", (3, 5, 16))
    for i in range(3):
        y = graph.gelu(graph.linear(y, graph.parameter(f"weight{i}", rng.standard_normal((16, 16)).astype("f4") * 0.2)))
    loss = graph.sum(graph.square(y)) * 0.5
    graph.output(loss, "loss")
    pl.training.sgd(graph, loss, lr=0.01)
    plan = pl.compile(graph, device=opencl_device, math="fp16", tune="off")
    casts = [line for line in plan.graph().splitlines() if " = cast(" in line]
    # The images, three weights, and the result and its gradient around the loss.
    assert len(casts) <= 7, "\n".join(casts)


def test_scales_are_saved_and_restored(tmp_path: Path, device: str) -> None:
    def compiled() -> pl.Plan:
        return pl.compile(
            network("adam", pl.training.LossScale(64.0, interval=4)), device=device, math="fp16", tune="off"
        )

    plan = compiled()
    for seed in range(3):
        plan.run(*batch(seed))
    plan.run(*spoilt())
    plan.run(*batch(3))
    pl.training.save(tmp_path / "states", plan, {})
    plan.save(tmp_path / "plan")
    restored, loaded = compiled(), pl.load_plan(tmp_path / "plan")
    pl.training.restore(tmp_path / "states", restored)
    for other in (restored, loaded):
        assert other.state("loss_scale") == 32 and other.state("loss_scale/good_steps") == 1
    wanted = [float(plan.run(*batch(seed))[0]) for seed in range(4, 9)]
    for other in (restored, loaded):
        assert [float(other.run(*batch(seed))[0]) for seed in range(4, 9)] == wanted
        assert other.state("loss_scale") == plan.state("loss_scale") == 64


class TorchNetwork(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name, value in first_weights().items():
            setattr(self, name, torch.nn.Parameter(torch.from_numpy(value.copy())))

    def forward(self, x: Any) -> Any:
        f = torch.nn.functional
        y = f.batch_norm(f.conv2d(x, self.conv0, padding=1), None, None, self.weight, self.bias, training=True)
        y = torch.relu(f.conv2d(torch.relu(y), self.conv1, padding=1))
        return f.linear(y.mean((2, 3)), self.linear)


def torch_losses(math: str, steps: int) -> np.ndarray:
    module = TorchNetwork()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, enabled=math == "fp16")
    half = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(math)
    losses = []
    for seed in range(steps):
        images, labels = map(torch.from_numpy, batch(seed))
        optimizer.zero_grad()
        with torch.autocast("cpu", half, enabled=half is not None):
            loss = torch.nn.functional.cross_entropy(module(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
    return np.array(losses)


@pytest.mark.parametrize("math", MATHS)
def test_losses_are_as_near_as_pytorchs_autocast(math: str, device: str) -> None:
    """To those of f32: both round in other places, so that they differ from each other as each does from f32."""
    steps = 25
    plan = pl.compile(
        network("sgd", pl.training.LossScale() if math == "fp16" else None), device=device, math=math, tune="off"
    )
    losses = np.array([float(plan.run(*batch(seed))[0]) for seed in range(steps)])
    exact, near = torch_losses("fp32", steps), torch_losses(math, steps)
    spread = np.abs(near - exact)
    assert spread.max() > 1e-5  # PyTorch computes in 16 bits
    np.testing.assert_array_less(np.abs(losses - exact), 3 * spread.max() + 1e-3)
    assert np.abs(losses[:5] - exact[:5]).max() < 3 * spread[:5].max() + 1e-3


def accuracy(images: np.ndarray, labels: np.ndarray, settings: Settings, device: str) -> float:
    train, test = pictures._normalised("pictures", images, labels).split(0.2, 0)
    classifier = Classifier(train, test, settings, device=device)
    classifier.run(lambda *_: None)
    return classifier.history.epochs[-1].accuracy


@pytest.mark.slow
@pytest.mark.parametrize("math", ["fp32", *MATHS])
def test_a_small_network_learns_as_well(math: str, device: str) -> None:
    images, labels = stripes(320)
    assert accuracy(images[:, None], labels, Settings(epochs=8, batch=32, math=math), device) > 0.9


@pytest.mark.parametrize("math", ["fp32", "fp16", pytest.param("bf16", marks=pytest.mark.slow)])
def test_digits(math: str) -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    train, test = pictures.digits().split(0.2, 0)
    classifier = Classifier(train, test, Settings(epochs=15, math=math))
    classifier.run(lambda *_: None)
    assert classifier.history.epochs[-1].accuracy > 0.98


def test_gradients_of_f32_are_looked_at_in_f32(opencl_device: str) -> None:
    """Those of a norm's weights are f32 in mixed precision, and beyond what f16 holds they are finite still."""
    graph = pl.Graph()
    x = graph.input("x", (BATCH, 3, 8, 8))
    rng, channels = np.random.default_rng(3), 64  # so that one tensor at least is no small one
    kernel = graph.parameter("kernel", (rng.standard_normal((channels, 3, 3, 3)) * 0.3).astype("f4"))
    weight = graph.parameter("weight", np.ones(channels, "f4"))
    bias = graph.constant(np.zeros(channels, "f4"))
    y, _, _ = graph.batch_norm_training(graph.conv2d(x, kernel, padding=1), weight, bias)
    loss = graph.sum(graph.square(y)) * 0.5
    graph.output(loss, "loss")
    pl.training.sgd(graph, loss, lr=0.0, momentum=0.9, loss_scale=pl.training.LossScale(1024.0))
    plan = pl.compile(graph, device=opencl_device, math="fp16", tune="off")
    plan.run(batch(1)[0])
    assert 65504 < 1024 * np.abs(plan.state("weight/velocity")).max() < np.inf
    assert plan.state("loss_scale") == 1024 and plan.state("loss_scale/good_steps") == 1


@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_gradients_of_functions_behind_norms(opencl_device: str, activation: str) -> None:
    """As the pass fuse_norm_slope leaves them: weight and bias stay f32 where x is narrow."""
    rng, channels = np.random.default_rng(5), 8
    graph = pl.Graph()
    x, kernel = graph.input("x", (BATCH, 3, 8, 8)), graph.parameter("kernel", np.ones((channels, 3, 3, 3), "f4") / 9)
    weight = graph.parameter("weight", np.ones(channels, "f4"))
    bias = graph.parameter("bias", np.linspace(-1, 1, channels, dtype="f4"))
    made = graph.conv2d(x, kernel, padding=1)
    y, mean, variance = graph.batch_norm_training(made, weight, bias, activation=activation)
    results = graph.batch_norm_backward(
        made,
        graph.conv2d(
            y, graph.parameter("back", rng.standard_normal((channels, channels, 3, 3)).astype("f4")), padding=1
        ),
        mean,
        variance,
        weight,
        bias,
        activation=activation,
    )
    for name, value in zip(("dx", "dweight", "dbias"), results, strict=True):
        graph.output(value, name)
    given = rng.standard_normal((BATCH, 3, 8, 8)).astype("f4")
    exact = pl.compile(graph, device="cpu", tune="off").run(given)
    for device in ("cpu", opencl_device):
        for found, wanted in zip(
            pl.compile(graph, device=device, math="fp16", tune="off").run(given), exact, strict=True
        ):
            assert np.linalg.norm(found - wanted) < 0.02 * np.linalg.norm(wanted)
