"""Arguments that make no sense to graphs, plans, optimizers and gradients: errors name where, what and what is due."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

import pylayout as pl
from pylayout import ops

X = numpy.ones((2, 3), "float32")


def graph_of(axis: str = "n") -> Any:
    g = pl.Graph(sizes={axis: 2})
    g.output(g.relu(g.input("x", (axis, 3))), "y")
    return g


def trained(optimizer: Any = None, **arguments: Any) -> Any:
    g = pl.Graph()
    w = g.parameter("w", numpy.ones((3, 2), "float32"))
    loss = g.mean(g.matmul(g.input("x", (2, 3)), w))
    g.output(loss, "loss")
    (optimizer or pl.training.sgd)(g, loss, **arguments)
    return pl.compile(g, device="cpu", tune="off")


@pytest.mark.parametrize("axis", ["3", "#0.0", "n+1", "a b", "", "n" * 65, "é"])
def test_names_of_axes_are_such_as_expressions_can_say(axis: str) -> None:
    with pytest.raises(pl.InvalidArgumentError, match=r"axis .* expected letters, digits and _"):
        pl.Graph(sizes={axis: 2})


@pytest.mark.parametrize("size", [1.5, None, "4", True, -1, 2**70])
def test_sizes_are_integers(size: Any) -> None:
    plan = pl.compile(graph_of(), device="cpu", tune="off")
    for call in (lambda: pl.Graph(sizes={"n": size}), lambda: graph_of().bind(n=size), lambda: plan.prepare(n=size)):
        with pytest.raises((pl.ArgumentTypeError, pl.ShapeError), match='the size of axis "n" is'):
            call()


@pytest.mark.parametrize("shape", [3, None, "abc"])
def test_a_shape_is_a_list(shape: Any) -> None:
    with pytest.raises(pl.ArgumentTypeError, match=r'graph: input "x": shape is'):
        pl.Graph().input("x", shape)


def test_gradients_take_a_list() -> None:
    g = pl.Graph()
    w = g.parameter("w", X)
    loss = (w * w).sum()
    for call in (g.gradients, g.scaled_gradients):
        with pytest.raises(pl.ArgumentTypeError, match=r"gradients: by is .*, expected a list"):
            call(loss, w)
    with pytest.raises(pl.ArgumentTypeError, match=r"clip_by_norm: gradients is .*, expected a list"):
        pl.training.clip_by_norm(g, w, 1.0)
    with pytest.raises(pl.ArgumentTypeError, match="clip_by_norm: max_norm is 'a'"):
        pl.training.clip_by_norm(g, [w], "a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"nesterov": True}, "sgd: nesterov is True and momentum 0.0"),
        ({"nesterov": "x", "momentum": 0.9}, "sgd: nesterov is 'x'"),
        ({"parameters": 3}, "training: parameters is 3"),
    ],
)
def test_arguments_of_an_optimizer(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(pl.InvalidArgumentError, match=words):
        trained(**arguments)


@pytest.mark.parametrize("arguments", [{"initial": "a"}, {"interval": 1.5}])
def test_a_loss_scale_is_checked_where_it_is_made(arguments: dict[str, Any]) -> None:
    with pytest.raises(pl.InvalidArgumentError, match=f"LossScale: {next(iter(arguments))} is"):
        pl.training.LossScale(**arguments)


def test_a_number_of_python_has_the_dtype_of_the_state() -> None:
    plan = trained(lr=0.1)
    plan.set_state("lr", 1)
    assert plan.state("lr") == 1 and plan.state("lr").dtype == "float32"
    with pytest.raises(pl.InvalidArgumentError, match='plan: state "w" is set to s32'):
        plan.set_state("w", numpy.ones((3, 2), "int32"))
    with pytest.raises(pl.InvalidArgumentError, match="plan: set_state: value is None"):
        plan.set_state("w", None)


@pytest.mark.parametrize("given", [{"argnums": None}, {"argnums": 1.5}, {"argnums": ()}, {"argnums": -1}])
def test_places_of_value_and_grad(given: dict[str, Any]) -> None:
    with pytest.raises(pl.InvalidArgumentError, match="value_and_grad: argnums is"):
        pl.value_and_grad(lambda w: ops.sum(w), **given)
    with pytest.raises(pl.ArgumentTypeError, match="value_and_grad: function is 3"):
        pl.value_and_grad(3)  # type: ignore[arg-type]


def test_a_plan_that_is_loaded_keeps_its_options(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    pl.compile(graph_of(), device="cpu", threads=1, tune="off").save(path)
    for name, value in {"device": "nonsense", "threads": 2, "math": "fp16", "nothing": 3}.items():
        with pytest.raises(pl.InvalidArgumentError, match=f"load_plan: {name} is given without replan=True"):
            pl.load_plan(path, **{name: value})
    with pytest.raises(pl.InvalidArgumentError, match='no option "nothing"'):
        pl.load_plan(path, replan=True, nothing=3)
    with pytest.raises(pl.DeviceError, match="nonsense"):
        pl.load_plan(path, replan=True, device="nonsense")
    two = pl.load_plan(path, replan=True, threads=2, tune="off")
    assert "2 threads" in two.explain() and "1 threads" in pl.load_plan(path, replan=True).explain()
    numpy.testing.assert_array_equal(two.run(X)[0], X)


def test_two_compilations_may_share_a_callback() -> None:
    """Each is told of its own progress until its own end."""
    ended, second = threading.Event(), threading.Event()
    seen: list[str] = []

    def progress(stage: str, fraction: float) -> None:
        name = threading.current_thread().name
        if name == "long" and not seen:
            seen.append(name)
            second.set()
            ended.wait(60)
        elif name == "long":
            raise KeyError("stop")

    def long() -> None:
        try:
            pl.compile(graph_of(), device="cpu", tune="off", progress=progress)
        except KeyError:
            seen.append("stopped")

    thread = threading.Thread(target=long, name="long")
    thread.start()
    assert second.wait(60)
    pl.compile(graph_of("m"), device="cpu", tune="off", progress=progress)
    ended.set()
    thread.join()
    assert seen == ["long", "stopped"]


def test_progress_is_a_function() -> None:
    with pytest.raises(pl.ArgumentTypeError, match="compile: progress is 3, expected a function"):
        pl.compile(graph_of(), tune="off", progress=3)  # type: ignore[arg-type]
    with pytest.raises(pl.InvalidArgumentError, match='compile: tune is "x", expected auto, off, full or live'):
        pl.compile(graph_of(), tune="x")
