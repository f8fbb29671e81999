"""`pylayout run`, `explain` and `profile` on model files, and the eager runs and pictures behind them."""

from __future__ import annotations

import json
import os
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import pylayout as pl
from pylayout.cli import main
from pylayout.cli.run import _likely
from pylayout.eager import EagerGraph

onnx = pytest.importorskip("onnx", reason="the package onnx is an extra")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(5)
W = {
    "w1": (RNG.standard_normal((16, 3, 3, 3)) / 5).astype("float32"),
    "w2": (RNG.standard_normal((16, 16, 3, 3)) / 12).astype("float32"),
    "w3": (RNG.standard_normal((12, 32)) / 6).astype("float32"),
}


def picture_model(batch: int | str = "n") -> onnx.ModelProto:
    """A residual, a concat and a classifier of 12 classes over pictures of 32 x 32."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "w2"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "b"], ["d"], "sum"),
        helper.make_node("Concat", ["b", "d"], ["e"], "concat", axis=1),
        helper.make_node("GlobalAveragePool", ["e"], ["f"], "pool"),
        helper.make_node("Flatten", ["f"], ["g"], "flatten"),
        helper.make_node("Gemm", ["g", "w3"], ["y"], "classes", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 12])],
        [numpy_helper.from_array(value, name) for name, value in W.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def two_inputs_model() -> onnx.ModelProto:
    """Rows of a table chosen by numbers, plus a second input; two outputs."""
    nodes = [
        helper.make_node("Gather", ["w3", "ids"], ["rows"]),
        helper.make_node("Add", ["rows", "more"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["positive"]),
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 4]),
            helper.make_tensor_value_info("more", TensorProto.FLOAT, ["n", 4, 32]),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4, 32]) for name in ("sum", "positive")],
        [numpy_helper.from_array(W["w3"], "w3")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(picture_model(), "small.onnx")
    onnx.save(two_inputs_model(), "two.onnx")
    return "small.onnx"


def run_json(capsys, *arguments: str) -> dict:
    code = main([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


def failure(capsys, expected: int, *arguments: str) -> str:
    assert main(arguments) == expected
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "Traceback" not in err
    return err


OFF = ("--tune", "off")


def test_run_prints_and_saves(model, capsys):
    assert main(["run", model, *OFF, "--runs", "3", "--output", "out.npz"]) == 0
    out = capsys.readouterr().out
    assert "small.onnx on cpu" in out and "median of 3" in out and "top 5 classes" in out
    image = RNG.standard_normal((1, 3, 32, 32)).astype("float32")
    np.save("x.npy", image)
    found = run_json(capsys, "run", model, *OFF, "--runs", "1", "--input", "x.npy", "--output", "y.npy")
    (expected,) = pl.compile(model, device="cpu", tune="off").run(image)
    np.testing.assert_array_equal(np.load("y.npy"), expected)
    assert found["outputs"] == [{"name": "y", "dtype": "f32", "shape": [1, 12], "finite": True}]
    assert found["top"][0]["class"] == int(expected[0].argmax())
    assert found["ms"]["runs"] == 1 and found["summary"]["ops"] > 0
    with np.load("out.npz") as saved:
        assert saved["y"].shape == (1, 12)


def test_classes_are_told_for_pictures_only():
    scores = np.linspace(-1, 1, 12, dtype="float32")[None]
    assert [item["class"] for item in _likely([{"shape": [1, 3, 32, 32]}], [scores])] == [11, 10, 9, 8, 7]
    assert _likely([{"shape": [1, 16]}], [scores]) == []  # words: what comes out need not be classes
    assert _likely([{"shape": [1, 3, 32, 32]}, {"shape": [1]}], [scores]) == []


def test_run_takes_pictures_batches_and_several_inputs(model, capsys):
    pillow = pytest.importorskip("PIL.Image", reason="reads pictures")
    pillow.new("RGB", (50, 40), (200, 30, 60)).save("red.png")
    args = ("run", model, *OFF, "--runs", "1", "--batch", "3", "--input", "red.png", "--output", "y.npy")
    found = run_json(capsys, *args)
    assert found["input"] == "red.png" and found["outputs"][0]["shape"] == [3, 12]
    result = np.load("y.npy")
    np.testing.assert_allclose(result[1:], result[:2], rtol=1e-5, atol=1e-6)  # the same picture thrice
    assert run_json(capsys, "run", model, *OFF, "--runs", "1", "--shape", "2,3,32,32")["outputs"][0]["shape"] == [2, 12]

    ids = np.array([[1, 5, 11, 0]])
    np.savez("in.npz", ids=ids, more=np.ones((1, 4, 32), "float32"))
    run_json(capsys, "run", "two.onnx", *OFF, "--runs", "1", "--input", "in.npz", "--output", "both.npz")
    with np.load("both.npz") as both:
        np.testing.assert_allclose(both["sum"], W["w3"][ids] + 1, rtol=1e-6)
        np.testing.assert_allclose(both["positive"], np.maximum(W["w3"][ids] + 1, 0), rtol=1e-6)
    found = run_json(capsys, "run", "two.onnx", *OFF, "--runs", "1")  # numbers are drawn
    assert found["input"] == "random numbers" and found["outputs"][0]["finite"]


def test_open_sizes_come_from_axes_and_arrays(model, capsys):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["h"], ["z"])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in
             (("x", ["n", "steps", 4]), ("h", [2, "n", 3]), ("y", None), ("z", None))]  # fmt: skip
    graph = helper.make_graph(nodes, "open", infos[:2], infos[2:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "open.onnx")

    def shapes(*arguments):
        found = run_json(capsys, "run", "open.onnx", *OFF, "--runs", "1", *arguments)
        return [output["shape"] for output in found["outputs"]]

    assert shapes("--shape", "steps=7") == [[1, 7, 4], [2, 1, 3]]
    assert shapes("--shape", "steps=7", "--shape", "n=5") == [[5, 7, 4], [2, 5, 3]]
    np.save("x.npy", np.zeros((6, 9, 4), "float32"))
    assert shapes("--input", "x=x.npy") == [[6, 9, 4], [2, 6, 3]]
    np.savez("h.npz", h=np.zeros((2, 3, 3), "float32"))
    assert shapes("--input", "h.npz", "--shape", "steps=2") == [[3, 2, 4], [2, 3, 3]]
    assert "axis 1, steps, of input x: float (n, steps, 4) has no size: --shape steps=… or --shape x=…" in failure(
        capsys, 2, "run", "open.onnx", *OFF
    )
    assert "steps is an axis, expected one size" in failure(capsys, 2, "run", "open.onnx", *OFF, "--shape", "steps=1,2")
    plan = pl.compile("open.onnx", sizes={"steps": 7, "n": 5}, values={"h": np.ones((2, 5, 3), "float32")}, tune="off")
    assert [tuple(item["shape"]) for item in plan.inputs] == [(5, 7, 4)]
    assert plan.run(np.ones((5, 8, 4), "float32"))[0].shape == (5, 8, 4)  # compiled anew, h as it was given
    with pytest.raises(pl.InvalidArgumentError, match="0 inputs given, expected 1: x"):
        plan.run()
    graph = pl.Graph()
    graph.output(graph.input("x", (1,)), "y")
    with pytest.raises(pl.ArgumentTypeError, match="sizes are given for a Graph, expected graph"):
        pl.compile(graph, sizes={"n": 1})
    for options in ({"dynamic": True}, {"example": (1,)}):
        with pytest.raises(pl.ArgumentTypeError, match=f"{next(iter(options))} is given for a Graph"):
            pl.compile(graph, **options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"shapes": 5}, "shapes is 5, expected a dict"),
        ({"shapes": {"x": None}}, r'shapes\["x"\] is None, expected sizes'),
        ({"sizes": 5}, "sizes is 5, expected a dict"),
        ({"sizes": {"n": "a"}}, r"the size of axis \"n\" is 'a', expected an integer"),
        ({"values": 5}, "values is 5, expected a dict"),
        ({"without": 5}, "without is 5, expected names of passes"),
    ],
)
def test_options_of_other_types_are_named(model, options, expected):
    with pytest.raises(pl.ArgumentTypeError, match="compile: " + expected):
        pl.compile(model, **options)


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("run", "none.onnx"), 2, "none.onnx: no such file"),
        (("run", "."), 2, ".: a folder, expected a file"),
        (("run", "small.onnx", "--input", "none.png"), 2, "none.png"),
        (("run", "small.onnx", "--shape", "z=1,3,32,32"), 2, "inputs are x"),
        (("run", "small.onnx", "--shape", "x=1,3,q,32"), 2, "not whole numbers"),
        (("run", "two.onnx", "--output", "one.npy"), 2, "2 outputs"),
        (("run", "small.onnx", "--output", "no/where.npz"), 2, "folder"),
        (("run", "small.onnx", "--output", "."), 2, "--output .: is a folder"),
        (("run", "small.onnx", "--output", ""), 2, "--output: the name of the file is empty"),
        (("run", "small.onnx", "--input", "."), 2, "--input .: is a folder"),
        (("run", "small.onnx", "--input", "x=none.npy"), 2, "--input x=none.npy: no such file"),
        (("run", "small.onnx", "--input", "z=bad.npy"), 2, "there is no input 'z', expected x"),
        (("run", "small.onnx", "--input", "bad.npy"), 2, "--input bad.npy: is no .npy file of NumPy"),
        (("run", "small.onnx", "--input", "x=cut.npy"), 2, "--input x=cut.npy: is no .npy file of NumPy"),
        (("run", "small.onnx", "--input", "bad.npz"), 2, "--input bad.npz: is no .npz file of NumPy"),
        (("run", "small.onnx", "--device", "moon:0"), 2, "moon:0"),
        (("run", "bad.onnx"), 1, "bad.onnx"),
        (("run", "small.onnx", "--layout", "sideways"), 1, "sideways"),
        (("explain", "small.onnx", "--html", "no/where.html"), 2, "folder"),
        (("explain", "small.onnx", "--dot", "."), 2, "--dot .: is a folder"),
        (("profile", "none.onnx"), 2, "none.onnx"),
        (("profile", "small.onnx", "--weights", "w.safetensors"), 2, "--weights"),
        (("profile", "mobilenet_v2", "--input", "x.npy"), 2, "--image"),
    ],
)
def test_errors_are_one_line(model, capsys, tmp_path, arguments, code, expected):
    for name in ("bad.onnx", "bad.npy", "bad.npz", "w.safetensors"):
        (tmp_path / name).write_bytes(b"not a model")
    np.save("cut.npy", np.zeros((1, 3, 32, 32), "float32"))
    os.truncate("cut.npy", 200)
    if arguments[0] != "profile":
        arguments += OFF
    assert expected in failure(capsys, code, *arguments)


def test_wrong_inputs_are_named(model, capsys):
    np.save("wide.npy", np.zeros((1, 3, 32, 33), "float32"))
    assert "x" in failure(capsys, 1, "run", model, *OFF, "--input", "wide.npy")
    np.savez("odd.npz", z=np.zeros(3))
    assert "'z'" in failure(capsys, 2, "run", model, *OFF, "--input", "odd.npz")


def test_explain_shows_choices_and_reorders(model, capsys):
    assert main(["explain", model, "--layout", "NHWC", *OFF]) == 0
    out = capsys.readouterr().out
    assert "next best" in out and "margin ms" in out
    assert "reorder" in out and "NCHW → NHWC" in out
    choices = run_json(capsys, "explain", model, "--layout", "NHWC", *OFF)["choices"]
    assert ("?: estimated" in out) == any(c["kind"] == "op" and not c["measured"] for c in choices)
    found = run_json(capsys, "explain", model, *OFF, "--dot", "g.dot", "--html", "p.html")
    assert [choice["node"] for choice in found["choices"] if choice["op"] == "conv2d"] == ["stem", "conv"]
    for choice in found["choices"]:
        assert choice["kind"] in ("op", "view", "in place", "nothing")
        assert (choice["next"] is None) or choice["next"]["margin_ms"] is not None
        # The costs of a proven choice: no single change makes it cheaper.
        if found["exact"] and choice["next"]:
            assert choice["next"]["margin_ms"] >= -1e-9
    assert Path("g.dot").read_text("utf-8").startswith("digraph")


class Balanced(HTMLParser):
    """Counts elements, and fails where they are not closed in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        assert not any(name in ("src", "href") for name, _ in attrs)  # nothing is loaded
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_picture_has_every_op_and_reorder(tmp_path):
    g = pl.Graph()
    x = g.input("<x&>", (1, 16, 8, 8))  # a name that HTML must not see as it is
    a = g.conv2d(x, np.ones((16, 16, 3, 3), "float32"), padding=1, name="first")
    b = g.conv2d(a, np.ones((16, 16, 1, 1), "float32"), name="second")
    c = g.tanh(g.add(a, g.sigmoid(b)), name="last")
    g.output(c, "y")
    plan = pl.compile(g, device="cpu", layout="NHWC", tune="off")
    path = tmp_path / "plan.html"
    text = plan.explain(html=path)
    assert "first (conv2d)" in text
    page = Balanced()
    page.feed(path.read_text("utf-8"))
    assert page.open == []
    summary = plan.summary()
    for choice in summary["choices"]:
        assert choice["node"] in page.text
    # A circle for each op and input; a line for each tensor read, at least.
    assert page.counts["circle"] == len(summary["choices"]) + 1
    assert page.counts["path"] >= len(summary["choices"])
    assert "input <x&>" in page.text
    assert summary["reorders"]["count"] and page.text.count("for second") + page.text.count("for first") >= 1


def test_eager_graph_equals_the_plan():
    for proto in (picture_model(), two_inputs_model()):
        from pylayout import onnx as front_end

        graph = front_end.load(proto, sizes={"n": 2})
        arrays = [
            RNG.integers(0, 12, item["shape"]) if item["dtype"] == "s64" else RNG.standard_normal(item["shape"])
            for item in graph.describe()["inputs"]
        ]
        arrays = [a.astype("float32") if a.dtype == np.float64 else a for a in arrays]
        expected = pl.compile(graph, device="cpu", tune="off").run(*arrays)
        for eager in (EagerGraph(graph), EagerGraph(graph.simplify())):
            for layout in ("auto", "per-op", "NHWC"):
                found = eager(*(pl.asarray(a) for a in arrays), layout=layout)
                for got, want in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
                    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-5)
        with pytest.raises(pl.InvalidArgumentError, match="inputs given"):
            eager()


def test_profile_compares_policies(model, capsys):
    args = ("--rounds", "1", "--seconds", "1", *OFF, "--report", "r.html", "--policies", "per-op,NHWC,auto")
    found = run_json(capsys, "profile", model, *args)
    assert set(found["policies"]) == {"per-op", "NHWC", "auto"}
    assert found["policies"]["NHWC"]["reorders"]["activations"]["count"] >= 1
    for policy in found["policies"].values():
        assert policy["total_ms"] > 0 and policy["error"] < 1e-4
    assert main(["profile", "two.onnx", "--batch", "2", *args]) == 0
    assert "batch 2" in capsys.readouterr().out
