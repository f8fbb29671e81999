"""Training from ONNX: which initialisers become parameters, tied ones, and losses beside PyTorch's own training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pylayout as pl

onnx = pytest.importorskip("onnx", reason="models come from ONNX")
import pylayout.onnx  # noqa: E402

helper, numpy_helper = onnx.helper, onnx.numpy_helper

STEPS = 12


def model(
    nodes: list[Any],
    arrays: dict[str, np.ndarray],
    inputs: dict[str, tuple[int, Any]],
    said: dict[str, dict[str, str]] | None = None,
    producer: str = "",
    opset: int = 20,
) -> Any:
    """A model of one output y; `said`: metadata beside values, as PyTorch's newer exporter writes them."""
    values = []
    for name, entries in (said or {}).items():
        value = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(arrays[name].shape))
        for key, text in entries.items():
            value.metadata_props.add(key=key, value=text)
        values.append(value)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in inputs.items()],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
        value_info=values,
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name=producer)


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def constant(output: str, array: Any) -> Any:
    return helper.make_node("Constant", [], [output], value=numpy_helper.from_array(np.asarray(array)))


FLOATS = {"x": (1, (2, 5, 8))}
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
FOLDED = "pkg.onnxscript.optimizer.folded_from"


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype("f4")


def parameters_of(proto: Any, **arguments: Any) -> list[str]:
    return sorted(pl.onnx.load(proto).trainable(**arguments).parameters)


# ---- what is a parameter ----


def test_tied_embeddings_are_one_parameter(rng: np.random.Generator) -> None:
    """Its gradient is the sum of what the table and the turned matrix give."""
    table = normal(rng, 11, 8)
    nodes = [node("Gather", "wte ids", "e"), node("Relu", "e", "r"), node("Transpose", "wte", "turned", perm=[1, 0])]
    proto = model([*nodes, node("MatMul", "r turned", "y")], {"wte": table}, {"ids": (7, (2, 3))})
    graph = pl.onnx.load(proto).trainable()
    assert list(graph.parameters) == ["wte"]
    weights = normal(rng, 2, 3, 11)
    loss = graph.sum(graph.outputs["y"] * graph.constant(weights))
    (gradient,) = graph.gradients(loss, [graph.parameters["wte"]])
    graph.output(gradient, "gradient")
    ids = np.array([[1, 4, 4], [0, 10, 4]])
    found = np.asarray(pl.compile(graph, tune="off", device="cpu").run(ids)[1])
    wide = table.astype("f8")
    rows = np.maximum(wide[ids], 0)
    want = np.einsum("nsv,nsc->vc", weights, rows)
    np.add.at(want, ids, np.einsum("nsv,vc->nsc", weights, wide) * (wide[ids] > 0))
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["onnx::MatMul_12", "val_143"])
def test_a_turned_copy_of_a_table_is_the_table(rng: np.random.Generator, name: str) -> None:
    """Exporters that fold write tied weights twice, one of them turned."""
    table = normal(rng, 11, 8)
    nodes = [node("Gather", "wte ids", "e"), node("MatMul", f"e {name}", "y")]
    ids = {"ids": (7, (2, 3))}
    assert parameters_of(model(nodes, {"wte": table, name: table.T.copy()}, ids)) == ["wte"]
    other = table.T.copy()
    other[3, 3] += 1
    assert parameters_of(model(nodes, {"wte": table, name: other}, ids)) == [name, "wte"]
    alike = np.ones_like(table)  # equal by chance: fresh weights of two layers
    assert parameters_of(model(nodes, {"wte": alike, name: alike.T.copy()}, ids)) == [name, "wte"]


def test_constants_of_formulas_are_no_parameters(rng: np.random.Generator) -> None:
    """GroupNorm as PyTorch writes it: InstanceNormalization by ones and zeros, then its own weights."""
    nodes = [
        constant("groups", np.array([0, 2, -1])),
        constant("ones", np.ones(2, "f4")),
        constant("zeros", np.zeros(2, "f4")),
        constant("shape", np.array([2, 5, 8])),
        constant("half", np.array([0.5], "f4")),
        node("Transpose", "x", "t", perm=[0, 2, 1]),
        node("Reshape", "t groups", "r"),
        node("InstanceNormalization", "r ones zeros", "n"),
        constant("back", np.array([2, 8, 5])),
        node("Reshape", "n back", "b"),
        node("Mul", "b onnx::Mul_7", "m"),
        node("Add", "m onnx::Add_8", "a"),
        node("Mul", "a half", "y"),
    ]
    arrays = {"onnx::Mul_7": normal(rng, 8, 1), "onnx::Add_8": normal(rng, 8, 1)}
    assert parameters_of(model(nodes, arrays, FLOATS)) == ["onnx::Add_8", "onnx::Mul_7"]


def test_tables_are_no_parameters(rng: np.random.Generator) -> None:
    """Rotary tables, frequencies times positions, masks; what the exporter made of several axes."""
    positions = np.arange(5, dtype="f4").reshape(5, 1)
    nodes = [
        constant("positions", positions),
        node("Mul", "positions inv_freq", "angles"),
        node("Cos", "angles", "cos"),
        node("Mul", "x cos", "a"),
        node("Mul", "a onnx::Mul_4", "b"),
        node("MatMul", "b w", "c"),
        node("Add", "c mask", "d"),
        node("Add", "d bias", "e"),
        node("Sin", "onnx::Sin_3", "sin"),
        node("Mul", "e sin", "y"),
    ]
    mask = np.where(np.tri(5, 8) > 0, 0, -1e9).astype("f4")
    arrays = {
        "inv_freq": normal(rng, 1, 8),
        "onnx::Mul_4": normal(rng, 5, 8),
        "onnx::Sin_3": normal(rng, 8),
        "w": normal(rng, 8, 8),
        "mask": mask,
        "bias": normal(rng, 8),
    }
    assert parameters_of(model(nodes, arrays, FLOATS)) == ["bias", "w"]


def test_frequencies_times_positions_that_are_given(rng: np.random.Generator) -> None:
    nodes = [
        node("Cast", "ids", "f", to=1),
        node("Unsqueeze", "f last", "column"),
        node("MatMul", "column inv_freq", "angles"),
        node("Sin", "angles", "sin"),
        node("Mul", "x sin", "scaled"),
        node("Mul", "scaled w", "y"),
    ]
    arrays = {"inv_freq": normal(rng, 1, 8), "w": normal(rng, 8), "last": np.array([-1])}
    assert parameters_of(model(nodes, arrays, {**FLOATS, "ids": (7, (2, 5))})) == ["w"]


def test_what_the_file_says_counts(rng: np.random.Generator) -> None:
    """The exporter by torch.export says what is a parameter and what a buffer, and of what it folded the rest."""
    nodes = [
        node("Mul", "x scale", "a"),
        node("Mul", "a table", "b"),
        node("MatMul", "b val_9", "c"),
        node("LayerNormalization", "c val_3 zero", "d"),
        node("Add", "d mask", "y"),
    ]
    arrays = {
        "scale": np.float32(3),
        "table": normal(rng, 8),
        "val_9": normal(rng, 8, 8),
        "val_3": np.ones(8, "f4"),
        "zero": np.zeros(8, "f4"),
        "mask": np.full(8, -1e9, "f4"),
    }
    said = {
        "scale": {KIND: "PARAMETER"},
        "table": {KIND: "BUFFER"},
        "val_9": {FOLDED: "['fc.weight', 'val_2']"},
        "val_3": {FOLDED: "['val_1', 'val_2']"},
        "zero": {KIND: "CONSTANT_TENSOR"},
        "mask": {KIND: "PARAMETER"},
    }
    assert parameters_of(model(nodes, arrays, FLOATS, said)) == ["mask", "scale", "val_9"]


def test_single_numbers(rng: np.random.Generator) -> None:
    """A bias of one channel is one; PyTorch names its own numbers and writes those of formulas as Constant."""
    nodes = [node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Mul", "c temperature", "y")]
    arrays = {"w": normal(rng, 8, 1), "b": normal(rng, 1), "temperature": np.float32(2)}
    assert parameters_of(model(nodes, arrays, FLOATS)) == ["b", "w"]
    assert parameters_of(model(nodes, arrays, FLOATS, producer="pytorch")) == ["b", "temperature", "w"]
    nodes = [node("Gemm", "x w b", "y", transB=1)]
    arrays = {"w": normal(rng, 1, 8), "b": normal(rng, 1)}
    assert parameters_of(model(nodes, arrays, {"x": (1, (2, 8))})) == ["b", "w"]


def test_a_single_number_written_once_for_two_weights(rng: np.random.Generator) -> None:
    """PyTorch writes the second one of two equal weights as its Identity."""
    nodes = [node("MatMul", "x w", "a"), node("Mul", "a s", "b"), node("Identity", "s", "t"), node("Mul", "b t", "y")]
    arrays = {"w": normal(rng, 8, 4), "s": np.asarray([2], np.float32)}
    proto = model(nodes, arrays, FLOATS, producer="pytorch")
    x = normal(rng, *FLOATS["x"][1])
    y = np.asarray(pl.compile(proto, tune="off").run(x)[0])
    np.testing.assert_allclose(y, 4 * (x.astype(np.float64) @ arrays["w"]), rtol=1e-5, atol=1e-5)
    assert parameters_of(model(nodes, {**arrays, "s": np.float32([2, 3, 4, 5])}, FLOATS)) == ["s", "w"]


def test_given_tokens_are_parameters(rng: np.random.Generator) -> None:
    """Wherever data meet what the model brings along: a class token is joined to them, after it was repeated."""
    nodes = [
        node("Expand", "token shape", "t"),
        node("Concat", "t x", "j", axis=1),
        node("Add", "j places", "a"),
        node("Sub", "one r", "s"),
        node("Mul", "a s", "y"),
    ]
    arrays = {
        "token": normal(rng, 1, 1, 8),
        "shape": np.array([2, 1, 8]),
        "places": normal(rng, 1, 6, 8),
        "one": np.float32(1),
        "r": normal(rng, 8),
    }
    assert parameters_of(model(nodes, arrays, FLOATS)) == ["places", "r", "token"]


def test_what_no_output_needs_is_no_parameter(rng: np.random.Generator) -> None:
    nodes = [node("MatMul", "x w", "y"), node("MatMul", "x other", "z")]
    assert parameters_of(model(nodes, {"w": normal(rng, 8, 8), "other": normal(rng, 8, 8)}, FLOATS)) == ["w"]


def test_parameters_may_be_named(rng: np.random.Generator) -> None:
    nodes = [node("MatMul", "x body.w", "a"), node("Mul", "a table", "b"), node("MatMul", "b head.w", "y")]
    arrays = {"body.w": normal(rng, 8, 8), "table": normal(rng, 8), "head.w": normal(rng, 8, 4)}
    proto = model(nodes, arrays, FLOATS, {"table": {KIND: "BUFFER"}})
    assert parameters_of(proto) == ["body.w", "head.w"]
    assert parameters_of(proto, parameters=["table", "head.w"]) == ["head.w", "table"]
    assert parameters_of(proto, parameters=["*.w"]) == ["body.w", "head.w"]
    assert parameters_of(proto, parameters=lambda name: name.startswith("head")) == ["head.w"]
    assert parameters_of(proto, parameters=[]) == []
    graph = pl.onnx.load(proto)
    with pytest.raises(pl.InvalidArgumentError, match=r"'head.W'; did you mean head.w\?"):
        graph.trainable(parameters=["head.W"])
    with pytest.raises(pl.ArgumentTypeError, match="expected a list of names"):
        graph.trainable(parameters="head.w")


def test_a_head_of_ones_own_is_trained(rng: np.random.Generator) -> None:
    """Constants that are added to an imported graph are weights by their use, as in any graph."""
    graph = pl.onnx.load(model([node("MatMul", "x w", "y")], {"w": normal(rng, 8, 8)}, FLOATS))
    y = graph.matmul(graph.outputs["y"], graph.constant(normal(rng, 8, 3), "head"))
    graph.output(y, "scores")
    assert sorted(graph.trainable().parameters) == ["head", "w"]
    assert list(graph.trainable(parameters=["head"]).parameters) == ["head"]


def test_other_sizes_change_no_parameters(rng: np.random.Generator) -> None:
    nodes = [
        constant("ones", np.ones(8, "f4")),
        constant("zeros", np.zeros(8, "f4")),
        node("LayerNormalization", "x ones zeros", "n"),
        node("Transpose", "w", "turned", perm=[1, 0]),
        node("MatMul", "n turned", "y"),
    ]
    graph = pl.onnx.load(model(nodes, {"w": normal(rng, 4, 8)}, {"x": (1, ("n", 5, 8))}))
    for made in (graph.bind(n=3), graph.simplify(), graph.bind(n=3).simplify()):
        assert len(made.trainable().parameters) == 1
    trained = graph.bind(n=3).trainable()
    assert list(trained.parameters) == ["w"] and trained.outputs["y"].shape == (3, 5, 4)


def test_sizes_may_be_bound_after_it(rng: np.random.Generator) -> None:
    """Shapes that follow from sizes, and the counts of batch norms, follow those that the graph is bound to."""
    nodes = [
        node("Shape", "x", "s", start=0, end=1),
        constant("rest", np.array([-1, 8])),
        constant("of_one", np.array([40])),
        node("BatchNormalization", "x scale bias mean variance", "n"),
        node("Concat", "s of_one", "shape", axis=0),
        node("Reshape", "n shape", "r"),
        node("MatMul", "r w", "y"),
    ]
    arrays = {
        "scale": np.ones(5, "f4"),
        "bias": normal(rng, 5),
        "mean": np.zeros(5, "f4"),
        "variance": np.ones(5, "f4"),
        "w": normal(rng, 40, 3),
    }
    graph = pl.onnx.load(model(nodes, arrays, {"x": (1, ("n", 5, 8))})).trainable(momentum=0.5)
    assert sorted(graph.parameters) == ["bias", "scale", "w"]
    x = normal(rng, 4, 5, 8)
    plan = pl.compile(graph.bind(n=4), tune="off", device="cpu")
    y = np.asarray(plan.run(x)[0])
    wide = x.astype("f8")
    mean, variance = wide.mean((0, 2), keepdims=True), wide.var((0, 2), keepdims=True)
    normed = (wide - mean) / np.sqrt(variance + 1e-5) + arrays["bias"].reshape(5, 1)
    np.testing.assert_allclose(y, normed.reshape(4, 40) @ arrays["w"].astype("f8"), rtol=0, atol=1e-4)
    want = 0.5 + 0.5 * variance.reshape(-1) * 32 / 31
    np.testing.assert_allclose(plan.state("variance"), want, rtol=0, atol=1e-6)


# ---- beside PyTorch's own training ----


def losses_beside(module: Any, content: Any, given: list[Any], target: Any, atol: float = 2e-5) -> Any:
    """Trains both by SGD on the mean squared error; returns the graph and its plan."""
    import torch

    graph = pl.onnx.load(content).trainable()
    y = next(iter(graph.outputs.values()))
    loss = graph.mse_loss(y, graph.input("target", tuple(target.shape)))
    graph.output(loss, "loss")
    pl.training.sgd(graph, loss, lr=0.05)
    plan = pl.compile(graph, tune="off", device="cpu")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    ours, theirs = [], []
    for _ in range(STEPS):
        ours.append(float(plan.run(*(x.numpy() for x in given), target.numpy())[-1]))
        optimizer.zero_grad()
        result = torch.nn.functional.mse_loss(module(*given), target)
        result.backward()
        optimizer.step()
        theirs.append(float(result.detach()))
    assert theirs[-1] < 0.98 * theirs[0]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)
    return graph, plan


def exported(module: Any, given: list[Any], path: Path, folded: bool) -> Path:
    import torch

    mode = torch.onnx.TrainingMode.EVAL if folded else torch.onnx.TrainingMode.PRESERVE
    torch.onnx.export(
        module, tuple(given), str(path), dynamo=False, do_constant_folding=folded, training=mode, opset_version=17
    )
    return path


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_a_network_of_all_kinds_beside_torch(folded: bool, tmp_path: Path) -> None:
    """Tied embeddings, positions, rotary tables, group norm, weight norm, LSTM, a learnt scalar, one output."""
    torch = pytest.importorskip("torch", reason="compared with PyTorch's training")

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte = torch.nn.Embedding(11, 8)
            self.places = torch.nn.Parameter(torch.randn(1, 5, 8))
            self.group = torch.nn.GroupNorm(2, 8)
            self.conv = torch.nn.Conv1d(8, 8, 3, padding=1)
            self.point = torch.nn.Conv1d(8, 8, 1)
            if not folded:  # there a direction and a length become one tensor
                torch.nn.utils.weight_norm(self.point)
            self.fc = torch.nn.Linear(8, 8)
            self.norm = torch.nn.LayerNorm(8)
            self.scale = torch.nn.Parameter(torch.tensor(0.7))
            self.lstm = torch.nn.LSTM(8, 8, batch_first=True)
            self.head = torch.nn.Linear(8, 11, bias=False)
            self.head.weight = self.wte.weight
            self.one = torch.nn.Linear(8, 1)
            self.register_buffer("inv_freq", 10.0 ** -torch.arange(4.0))

        def forward(self, ids: Any) -> Any:
            x = self.wte(ids) + self.places
            angles = torch.arange(ids.shape[1]).float()[:, None] * self.inv_freq[None]
            angles = torch.cat([angles, angles], -1)
            x = x * angles.cos() + torch.cat([-x[..., 4:], x[..., :4]], -1) * angles.sin()
            x = self.point(self.conv(self.group(x.transpose(1, 2)))).transpose(1, 2)
            x = self.norm(torch.nn.functional.gelu(self.fc(x))) * self.scale
            x = x + self.lstm(x)[0]
            return self.head(x) + self.one(x)

    torch.manual_seed(0)
    module = Network().eval()
    ids, target = torch.randint(0, 11, (4, 5)), torch.randn(4, 5, 11)
    content = exported(module, [ids], tmp_path / "model.onnx", folded)
    graph, plan = losses_beside(module, content, [ids], target)
    if not folded:
        assert sorted(graph.parameters) == sorted(name for name, _ in module.named_parameters())
        for name, value in module.named_parameters():
            np.testing.assert_allclose(plan.state(name), value.detach().numpy(), rtol=0, atol=2e-5, err_msg=name)
    for name in ("wte.weight", "places", "scale"):
        value = dict(module.named_parameters())[name].detach().numpy()
        np.testing.assert_allclose(plan.state(name), value, rtol=0, atol=2e-5, err_msg=name)
    assert sum(int(np.prod(value.shape)) for value in graph.parameters.values()) == sum(
        value.numel() for value in module.parameters()
    )


# ---- what exporters join and part ----


def scoped(made: Any, *scopes: str) -> Any:
    made.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr(["", *scopes, "name"]))
    return made


def test_equal_weights_of_several_modules_are_parted(rng: np.random.Generator) -> None:
    """The exporter by torch.export writes equal initialisers once; a module that runs twice has one weight."""

    def names(scale: np.ndarray) -> list[str]:
        nodes = [
            scoped(node("Mul", "x first.weight", "a"), "first"),
            scoped(node("Mul", "a first.weight", "b"), "second"),
            scoped(node("Mul", "b first.weight", "c"), "second"),
            scoped(node("Mul", "c first.weight", "y"), "first"),
        ]
        return parameters_of(model(nodes, {"first.weight": scale}, FLOATS))

    assert names(np.ones(8, "f4")) == ["first.weight", "second.weight"]
    assert names(normal(rng, 8)) == ["first.weight"]


def test_ones_may_be_weights_and_statistics(rng: np.random.Generator) -> None:
    nodes = [node("BatchNormalization", "x ones zeros zeros ones", "y")]
    proto = model(nodes, {"ones": np.ones(5, "f4"), "zeros": np.zeros(5, "f4")}, FLOATS)
    graph = pl.onnx.load(proto).trainable()
    assert sorted(graph.parameters) == ["ones", "zeros"]
    loss = graph.mean(graph.square(graph.outputs["y"] - 1))
    pl.training.sgd(graph, loss, lr=0.5)
    plan = pl.compile(graph, tune="off", device="cpu")
    x = normal(rng, 2, 5, 8)
    plan.run(x)
    mean = x.astype("f8").mean((0, 2))
    np.testing.assert_allclose(plan.state("zeros/running"), 0.1 * mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(plan.state("zeros"), np.full(5, 0.5 * 2 / 5), rtol=0, atol=1e-5)


def test_long_chains_of_weights_are_constants(rng: np.random.Generator) -> None:
    """What comes of more ops than anybody writes is what it was before: a constant, computed once."""
    nodes = [node("Neg", "w" if i == 0 else f"w{i}", f"w{i + 1}") for i in range(200)]
    w = normal(rng, 8)
    graph = pl.onnx.load(model([*nodes, node("Mul", "x w200", "y")], {"w": w}, FLOATS))
    x = normal(rng, 2, 5, 8)
    np.testing.assert_array_equal(np.asarray(pl.compile(graph, tune="off").run(x)[0]), x * w)
