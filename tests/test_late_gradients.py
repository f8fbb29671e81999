"""Gradients and steps of training at sizes known late: the same as of a graph that was made for these sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from late_sizes import grown, sharing
from op_cases import CASES, Case, tensor_parameters
from together import run_together

import pylayout as pl
from pylayout.calls import schemas

pytestmark = pytest.mark.usefixtures("unoptimised")

DIFFERENTIABLE = [case for case in CASES if schemas()[case.op]["differentiable"]]


def is_real(tensor: np.ndarray | None) -> bool:
    return tensor is not None and tensor.dtype == np.float32


# ---- each op ----


def forward(case: Case, arrays: list[Any], axes: dict[int, int]) -> tuple[pl.Graph, list[Any], list[Any]]:
    """A graph of one op; `axes`: by input the axis that is called s. All inputs that are there are the graph's."""
    graph = pl.Graph(sizes={"s": arrays[next(iter(axes))].shape[axes[next(iter(axes))]]})
    values: list[Any] = []
    for i, array in enumerate(arrays):
        shape = () if array is None else tuple("s" if axes.get(i) == d else n for d, n in enumerate(array.shape))
        values.append(None if array is None else graph.input(f"x{i}", shape, dtype=str(array.dtype)))
    if case.variadic:
        results = graph.op(case.op, values, **case.attributes)
    else:
        results = graph.op(case.op, **dict(zip(tensor_parameters(case.op), values, strict=False)), **case.attributes)
    results = list(results) if isinstance(results, tuple) else [results]
    for i, y in enumerate(results):
        graph.output(y, f"y{i}")
    return graph, values, results


def derived(case: Case, arrays: list[Any], axes: dict[int, int]) -> pl.Graph | None:
    """The same with gradients of the sum of squares by all that it can be derived by; None: there are none."""
    graph, values, results = forward(case, arrays, axes)
    loss = None
    for y in results:
        if y.dtype.name == "f32":
            part = graph.sum(y * y)
            loss = part if loss is None else loss + part
    if loss is None:
        return None
    any_given = False
    for i, value in enumerate(values):
        if not is_real(arrays[i]):
            continue
        try:
            (gradient,) = graph.gradients(loss, [value])
        except pl.UnsupportedError:  # by this input there is none
            continue
        graph.output(gradient, f"d{i}")
        any_given = True
    return graph if any_given else None


def sizes_of(case: Case, arrays: list[Any]) -> Iterator[tuple[dict[int, int], int]]:
    """Axes that may be called s together, and another size for them for which the op makes sense."""
    for axis, size in enumerate(arrays[0].shape):
        for axes in sharing(arrays, axis):
            for other in dict.fromkeys((1, size + 1, 2 * size)):
                if other == size:
                    continue
                try:
                    forward(case, arrays, axes)[0].bind(s=other)
                    forward(case, others_of(arrays, axes, other), axes)[0].bind(s=size)
                except pl.Error:  # what an attribute or another input asks for holds for one size
                    continue
                yield axes, other


def others_of(arrays: list[Any], axes: dict[int, int], size: int) -> list[Any]:
    return [grown(a, axes[i], size) if i in axes else a for i, a in enumerate(arrays)]


def structure(graph: pl.Graph) -> list[Any]:
    """Ops with their attributes, inputs and shapes; names of values apart."""
    text = graph.describe()
    numbers: dict[str, int] = {}
    for value in [*text["inputs"], *text["states"], *(v for node in text["nodes"] for v in node["outputs"])]:
        numbers[value["name"]] = len(numbers)
    constants = {value["name"]: (value["dtype"], tuple(value["shape"])) for value in text["constants"]}
    given = [[constants.get(name) or numbers.get(name) for name in node["inputs"]] for node in text["nodes"]]
    made = [[(v["dtype"], v["shape"]) for v in node["outputs"]] for node in text["nodes"]]
    ops = [(node["op"], node["attributes"]) for node in text["nodes"]]
    return [*zip(ops, given, made, strict=True), [(o["name"], numbers.get(o["value"])) for o in text["outputs"]]]


def run(graph: pl.Graph, arrays: list[Any]) -> list[Any]:
    return pl.compile(graph, tune="off", device="cpu").run(*(a for a in arrays if a is not None))


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=[case.name for case in DIFFERENTIABLE])
def test_gradients_of_every_op_follow_sizes(case: Case) -> None:
    """From one size to another and back: which ops derive another, and their attributes, may differ."""
    arrays = case.make(seed=3)
    if arrays[0] is None or any(a is not None and a.size == 0 for a in arrays):
        pytest.skip("nothing to give another size to")
    compared = ran = False
    for axes, other in sizes_of(case, arrays):
        others = others_of(arrays, axes, other)
        here, there = derived(case, arrays, axes), derived(case, others, axes)
        if here is None or there is None:
            pytest.skip("no floating input and result")
        size = arrays[next(iter(axes))].shape[axes[next(iter(axes))]]
        bound, back = here.bind(s=other), there.bind(s=size)
        assert structure(bound) == structure(there)
        assert structure(back) == structure(here)
        compared = True
        if ran:
            continue
        try:
            expected = run(there, others)
        except pl.InvalidArgumentError:  # indices beyond the end of what is shorter now
            continue
        ran = True
        for got, want in zip(run(bound, others), expected, strict=True):
            np.testing.assert_array_equal(got, want)
    if not compared:
        pytest.skip("attributes hold for one size")


def test_most_ops_are_compared_at_another_size() -> None:
    """Of nearly every op some case has an axis that may be given another size."""
    found, ops = set(), {case.op for case in DIFFERENTIABLE}
    for case in DIFFERENTIABLE:
        arrays = case.make(seed=3)
        if case.op in found or arrays[0] is None or any(a is not None and a.size == 0 for a in arrays):
            continue
        if next(sizes_of(case, arrays), None):
            found.add(case.op)
    assert len(found) > 0.9 * len(ops), sorted(ops - found)


# ---- networks ----


def pictures(n: int, h: int = 8) -> tuple[pl.Graph, Any]:
    """Convolutions with batch norms, a pool and an upsampling beside a skip: as a U-Net."""
    rng = np.random.default_rng(5)

    def weight(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / 4).astype("f4")

    g = pl.Graph(sizes={"n": n, "h": h})
    x = g.input("x", ("n", 3, "h", "h"))
    a = g.conv2d(x, g.constant(weight(8, 3, 3, 3), "conv0"), padding=1)
    norm = [g.constant(v, name) for name, v in zip(
        ("mean", "variance", "scale", "shift"), (weight(8), np.ones(8, "f4"), np.ones(8, "f4"), weight(8)), strict=True
    )]  # fmt: skip
    a = g.batch_norm(a, *norm, activation="relu")
    b = g.relu(g.conv2d(g.max_pool2d(a, 2), g.constant(weight(12, 8, 3, 3), "conv1"), padding=1))
    up = g.conv_transpose2d(b, g.constant(weight(12, 8, 2, 2), "up"), stride=2)
    y = g.conv2d(g.concat([up, a], 1), g.constant(weight(4, 16, 1, 1), "head"), g.constant(weight(4), "bias"))
    g.output(g.mean(y, [2, 3]), "y")
    return g, lambda size: rng.standard_normal((size, 3, h, h)).astype("f4")


def text(n: int, s: int = 6) -> tuple[pl.Graph, Any]:
    """A block of attention with layer norms, positions made of sizes, and a bias of one row."""
    rng = np.random.default_rng(6)

    def weight(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / 4).astype("f4")

    g = pl.Graph(sizes={"n": n, "s": s})
    ids = g.input("x", ("n", "s"), dtype="s64")
    x = g.embedding(ids, g.constant(weight(11, 16), "table"))
    x = x + g.embedding(g.arange(0, g.size("s")), g.constant(weight(32, 16), "places"))
    normed = g.layer_norm(x, [16], g.constant(np.ones(16, "f4"), "scale"), g.constant(weight(16), "shift"))
    heads = [g.size("n"), g.size("s"), 4, 4]
    q, k, v = (
        g.permute(g.reshape(g.linear(normed, g.constant(weight(16, 16), name)), heads), [0, 2, 1, 3]) for name in "qkv"
    )
    made = g.permute(g.scaled_dot_product_attention(q, k, v, is_causal=True), [0, 2, 1, 3])
    x = x + g.linear(g.reshape(made, [g.size("n"), g.size("s"), 16]), g.constant(weight(16, 16), "out"))
    y = g.linear(g.mean(x, 1), g.constant(weight(4, 16), "head"))
    g.output(g.add(y, g.constant(weight(1, 4), "row")), "y")
    return g, lambda size: rng.integers(0, 11, (size, s))


def steps(n: int, s: int = 5) -> tuple[pl.Graph, Any]:
    """An LSTM and what the last step gives."""
    rng = np.random.default_rng(7)

    def weight(name: str, *shape: int) -> Any:
        return g.constant((rng.standard_normal(shape) / 4).astype("f4"), name)

    g = pl.Graph(sizes={"n": n, "s": s})
    x = g.input("x", ("n", "s", 3))
    given = weight("ih", 1, 1, 24, 3), weight("hh", 1, 1, 24, 6), weight("bias", 1, 1, 24)
    y = recurrent(g, x, *given)
    last = g.reshape(g.slice(y, [g.size("s") - 1], [g.size("s")], [1]), [g.size("n"), 6])
    g.output(g.linear(last, weight("head", 4, 6)), "y")
    return g, lambda size: rng.standard_normal((size, s, 3)).astype("f4")


def recurrent(g: pl.Graph, x: Any, ih: Any, hh: Any, bias: Any) -> Any:
    """One direction by hand: the library's lstm has other forms of weights; unrolled it would not follow s."""
    made = g.linear(x, g.reshape(ih, [24, 3]), g.reshape(bias, [24]))
    gate = g.sigmoid(g.slice(made, [0], [6], [2])) * g.tanh(g.slice(made, [6], [12], [2]))
    return g.cumsum(gate, 1) + g.linear(gate, g.slice(g.reshape(hh, [24, 6]), [0], [6], [0]))


NETWORKS: dict[str, Callable[..., Any]] = {"pictures": pictures, "text": text, "steps": steps}


def trained(network: Callable[..., Any], step: Callable[..., None] | None, n: int, **sizes: int) -> pl.Graph:
    """The network for training by cross entropy: by `step`, or with all gradients as outputs."""
    g = network(n, **sizes)[0].trainable()
    loss = g.cross_entropy(g.outputs["y"], g.input("t", ("n",), dtype="s64"))
    g.output(loss, "loss")
    if step is None:
        for name, gradient in zip(g.parameters, g.gradients(loss, list(g.parameters.values())), strict=True):
            g.output(gradient, f"d.{name}")
    else:
        step(g, loss)
    return g


def batch(network: Callable[..., Any], n: int, **sizes: int) -> tuple[Any, Any]:
    x = network(n, **sizes)[1](n)
    return x, np.random.default_rng(n).integers(0, 4, n)


def compiled(g: pl.Graph, device: str = "cpu", **options: Any) -> Any:
    return pl.compile(g, tune="off", device=device, deterministic=True, **options)


@pytest.mark.parametrize("name", NETWORKS)
def test_values_and_gradients_of_a_bound_graph(name: str) -> None:
    network = NETWORKS[name]
    for n, m in ((4, 3), (4, 1), (1, 5), (3, 4)):
        given = batch(network, m)
        got = compiled(trained(network, None, n).bind(n=m)).run(*given)
        want = compiled(trained(network, None, m)).run(*given)
        assert len(got) > 5
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("name", "axis", "size"), [("pictures", "h", 12), ("text", "s", 9), ("steps", "s", 1)])
def test_other_axes_than_the_batch(name: str, axis: str, size: int) -> None:
    network = NETWORKS[name]
    given = batch(network, 2, **{axis: size})
    got = compiled(trained(network, None, 4).bind(n=2, **{axis: size})).run(*given)
    for a, b in zip(got, compiled(trained(network, None, 2, **{axis: size})).run(*given), strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradients_at_another_size_are_right() -> None:
    """Against float64: a graph of one row, in which nothing is repeated, bound to several."""
    rng = np.random.default_rng(3)
    g = pl.Graph(sizes={"n": 1})
    x, w = g.input("x", ("n", 3)), g.parameter("w", rng.standard_normal((1, 3)).astype("f4"))
    loss = g.mean(g.square(g.tanh(x * w)))
    dx, dw = g.gradients(loss, [x, w])
    g.output(dx, "dx")
    g.output(dw, "dw")
    given = rng.standard_normal((5, 3)).astype("f4")
    got = compiled(g.bind(n=5)).run(given)
    wide, weight = given.astype("f8"), np.random.default_rng(3).standard_normal((1, 3)).astype("f4").astype("f8")
    slope = 2 * np.tanh(wide * weight) * (1 - np.tanh(wide * weight) ** 2) / wide.size
    np.testing.assert_allclose(got[0], slope * weight, rtol=0, atol=1e-6)
    np.testing.assert_allclose(got[1], (slope * wide).sum(0, keepdims=True), rtol=0, atol=1e-6)


def test_gradients_of_gradients_follow_sizes() -> None:
    def graph(n: int) -> pl.Graph:
        g = pl.Graph(sizes={"n": n})
        x, w = g.input("x", ("n", 3)), g.parameter("w", np.array([[0.5, -1, 2]], "f4"))
        (dw,) = g.gradients(g.sum(g.exp(x * w)), [w])
        (second,) = g.gradients(g.sum(dw * dw), [w])
        g.output(second, "second")
        return g

    x = np.random.default_rng(1).standard_normal((4, 3)).astype("f4")
    got = compiled(graph(2).bind(n=4)).run(x)[0]
    w = np.array([[0.5, -1, 2]])
    first, slope = (x * np.exp(x * w)).sum(0, keepdims=True), (x * x * np.exp(x * w)).sum(0, keepdims=True)
    np.testing.assert_allclose(got, 2 * first * slope, rtol=1e-5)


def test_sizes_of_gradients(rng: np.random.Generator) -> None:
    """What is made of a gradient, its size too, follows the one that is made anew."""
    g = pl.Graph(sizes={"n": 2})
    x = g.input("x", ("n", 3))
    (dx,) = g.gradients(g.sum(x * x * x), [x])
    g.output(g.reshape(dx, [g.size(dx, 0) * 3]), "flat")
    given = rng.standard_normal((5, 3)).astype("f4")
    np.testing.assert_allclose(compiled(g.bind(n=5)).run(given)[0], 3 * given.reshape(-1) ** 2, rtol=1e-6)


def test_trainable_after_gradients() -> None:
    """Gradients are those of what trains: by the statistics of the batch."""
    rng = np.random.default_rng(2)
    arrays = [np.zeros(3, "f4"), np.ones(3, "f4"), rng.standard_normal(3).astype("f4"), np.zeros(3, "f4")]

    def graph(first: bool) -> pl.Graph:
        g = pl.Graph(sizes={"n": 2})
        names = ("mean", "variance", "scale", "shift")
        y = g.batch_norm(g.input("x", ("n", 3)), *(g.constant(a, m) for a, m in zip(arrays, names, strict=True)))
        g.output(y, "y")
        if not first:
            g = g.trainable()
        x, y = g.inputs["x"], g.outputs["y"]
        (dx,) = g.gradients(g.sum(y * y * y), [x])
        g.output(dx, "dx")
        return g.trainable() if first else g

    x = rng.standard_normal((6, 3)).astype("f4")
    got, want = (compiled(graph(first).bind(n=6)).run(x) for first in (True, False))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


# ---- what cannot be ----


def test_a_loss_of_each_sample_is_one_element_at_one_size() -> None:
    g = pl.Graph(sizes={"n": 1})
    x = g.input("x", ("n", 3))
    loss = g.sum(x * x, 1)
    g.output(g.gradients(loss, [x])[0], "dx")
    told = 'loss "sum" has shape (3,), expected one element; gradients were taken where n = 1 and cannot be where n = 3'
    with pytest.raises(pl.ShapeError, match=re.escape(told)):
        g.bind(n=3)
    plan = compiled(g)
    with pytest.raises(pl.ShapeError, match=re.escape(told)):
        plan.run(np.ones((3, 3), "f4"))


def test_a_simplified_graph_is_for_its_sizes() -> None:
    g = pl.Graph(sizes={"n": 2})
    x = g.input("x", ("n", 3))
    g.output(g.gradients(g.mean(x * x), [x])[0], "dx")
    with pytest.raises(pl.UnsupportedError, match="expected to be bound before"):
        g.simplify().bind(n=3)
    assert g.bind(n=3).simplify().outputs["dx"].shape == (3, 3)


# ---- training ----

STEPS: dict[str, Callable[..., None]] = {
    "sgd": lambda g, loss: pl.training.sgd(g, loss, lr=0.1, momentum=0.9),
    "adam": lambda g, loss: pl.training.adam(g, loss, lr=0.01, clip_norm=1.0),
    "rmsprop": lambda g, loss: pl.training.rmsprop(g, loss, lr=0.01, centered=True),
    "scaled": lambda g, loss: pl.training.adamw(g, loss, loss_scale=pl.training.LossScale(initial=256.0, interval=3)),
}
BATCHES = (4, 4, 3, 4, 1, 3, 6)


def moved(source: Any, target: Any) -> None:
    for state in source.states:
        target.set_state(state["name"], source.state(state["name"]))


def assert_same_states(a: Any, b: Any) -> None:
    assert [s["name"] for s in a.states] == [s["name"] for s in b.states]
    for state in a.states:
        np.testing.assert_array_equal(a.state(state["name"]), b.state(state["name"]), err_msg=state["name"])


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("step", STEPS)
def test_one_plan_trains_at_every_batch(name: str, step: str) -> None:
    """As plans for each size do that give each other their states."""
    network = NETWORKS[name]
    plan = compiled(trained(network, STEPS[step], 4))
    others = {n: compiled(trained(network, STEPS[step], n)) for n in set(BATCHES)}
    last = None
    for n in BATCHES:
        given = batch(network, n)
        if last is not None and last is not others[n]:
            moved(last, others[n])
        last = others[n]
        for a, b in zip(plan.run(*given), last.run(*given), strict=True):
            np.testing.assert_array_equal(a, b)
        assert_same_states(plan, last)
    assert plan.summary()["sizes"]["made"] == len(set(BATCHES)) - 1


def test_devices_train_at_every_batch(device: str) -> None:
    plan = compiled(trained(pictures, STEPS["adam"], 4), device)
    host = compiled(trained(pictures, STEPS["adam"], 4))
    for n in (4, 3, 4, 1):
        given = batch(pictures, n)
        for a, b in zip(plan.run(*given), host.run(*given), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=2e-4)
    for state in plan.states:
        np.testing.assert_allclose(plan.state(state["name"]), host.state(state["name"]), rtol=0, atol=2e-3)


def test_live_runs_train_at_every_batch() -> None:
    plan = pl.compile(trained(text, STEPS["sgd"], 4), device="cpu")
    want = compiled(trained(text, STEPS["sgd"], 4))
    for i in range(30):
        given = batch(text, (4, 4, 4, 3)[i % 4])
        np.testing.assert_allclose(plan.run(*given)[1], want.run(*given)[1], rtol=0, atol=1e-4)


def test_a_run_that_fails_leaves_states_as_they_were() -> None:
    plan = compiled(trained(pictures, STEPS["sgd"], 4))
    before = {state["name"]: plan.state(state["name"]) for state in plan.states}
    x, t = batch(pictures, 3)
    with pytest.raises(pl.ShapeError, match='axis "n" is 2 in input "t", expected 3 as in input "x"'):
        plan.run(x, t[:2])
    with pytest.raises(pl.ShapeError, match=re.escape('input "x" has shape (3, 2, 8, 8), expected (n, 3, h, h)')):
        plan.run(x[:, :2], t)
    for name, value in before.items():
        np.testing.assert_array_equal(plan.state(name), value)


def test_runs_at_several_sizes_wait_for_each_other() -> None:
    plan = compiled(trained(text, STEPS["adam"], 4))
    given = {n: batch(text, n) for n in (2, 3, 4)}

    def work(n: int) -> None:
        for _ in range(10):
            plan.run(*given[n])

    run_together(work, given)
    assert float(plan.state("steps")) == 30


def test_a_saved_plan_trains_on_at_every_batch(tmp_path: Path) -> None:
    plan = compiled(trained(text, STEPS["adam"], 4))
    for n in (4, 3):
        plan.run(*batch(text, n))
    plan.save(tmp_path / "plan")
    again = pl.load_plan(tmp_path / "plan")
    assert_same_states(again, plan)
    again.prepare(n=5, s=6)
    for n in (4, 5, 1):
        for a, b in zip(again.run(*batch(text, n)), plan.run(*batch(text, n)), strict=True):
            np.testing.assert_array_equal(a, b)
    assert_same_states(again, plan)


def test_checkpoints_are_the_same_at_every_batch(tmp_path: Path) -> None:
    plan = compiled(trained(text, STEPS["adam"], 4))
    plan.run(*batch(text, 3))
    pl.training.save(tmp_path / "checkpoint", plan)
    other = compiled(trained(text, STEPS["adam"], 3))
    pl.training.restore(tmp_path / "checkpoint", other)
    assert_same_states(other, plan)
