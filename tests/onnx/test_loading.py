"""Reading models: shapes, weights, external data, and files that are damaged or mean harm."""

import doctest
import itertools
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy
import pytest

onnx = pytest.importorskip("onnx")

from onnx_cases import ints, randn  # noqa: E402
from onnx_models import close, helper, model_of, run  # noqa: E402

import pylayout as pl  # noqa: E402
import pylayout.onnx  # noqa: E402
from pylayout.onnx import importer, registry  # noqa: E402

FLOAT = onnx.TensorProto.FLOAT


def relu_of(*sizes, name="x"):
    return model_of([helper.make_node("Relu", [name], ["y"])], {name: (FLOAT, sizes)}, ["y"], 17)


def test_examples_in_docstrings_run():
    assert doctest.testmod(pylayout.onnx).failed == 0
    assert doctest.testmod(pylayout.onnx).attempted > 0


# ---- shapes ----


def test_an_open_first_axis_is_1():
    for first in ("n", None):
        assert pylayout.onnx.load(relu_of(first, 8)).outputs["y"].shape == (1, 8)


def test_shapes_and_sizes_bind_axes():
    model = relu_of("n", 8, "length")
    assert pylayout.onnx.load(model, shapes={"x": (3, 8, 5)}).outputs["y"].shape == (3, 8, 5)
    assert pylayout.onnx.load(model, sizes={"n": 4, "length": 2}).outputs["y"].shape == (4, 8, 2)
    assert pylayout.onnx.load(model, sizes={"length": 2}).outputs["y"].shape == (1, 8, 2)


def test_open_axes_of_sound_are_long_enough_for_its_strides():
    """As speech encoders begin: seven convolutions that step by 320 samples in all, then one over the neighbourhood."""
    kernels, strides = (10, 3, 3, 3, 3, 2, 2, 4), (5, 2, 2, 2, 2, 2, 2, 1)
    weights = {f"w{i}": randn(4, 1 if i == 0 else 4, kernel) for i, kernel in enumerate(kernels)}
    names = ["x", *(f"h{i}" for i in range(len(kernels) - 1)), "y"]
    nodes = [
        helper.make_node("Conv", [names[i], f"w{i}"], [names[i + 1]], strides=[stride])
        for i, stride in enumerate(strides)
    ]
    plan = pl.compile(model_of(nodes, {"x": (FLOAT, (1, 1, "t"))}, ["y"], 17, weights), device="cpu", tune="off")
    for length, frames in ((16000, 46), (9000, 24)):
        assert plan.run(randn(1, 1, length))[0].shape == (1, 4, frames)


def test_an_axis_bound_by_one_input_holds_for_all():
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    model = model_of(nodes, {"a": (FLOAT, ["n", "m"]), "b": (FLOAT, ["n", "m"])}, ["y"], 17)
    assert pylayout.onnx.load(model, shapes={"b": (3, 5)}).inputs["a"].shape == (3, 5)
    with pytest.raises(
        pl.ShapeError, match=r"input 'b' is given shape \(4, 5\), expected b: float \(n, m\) with n = 3"
    ):
        pylayout.onnx.load(model, shapes={"a": (3, 5), "b": (4, 5)})


@pytest.mark.parametrize(
    ("bindings", "error", "text"),
    [
        ({"shapes": {"z": (1,)}}, pl.InvalidArgumentError, "no input 'z', expected one of x"),
        ({"sizes": {"k": 1}}, pl.InvalidArgumentError, "no input has an axis 'k', expected one of length, n"),
        ({"shapes": {"x": (1, 8)}}, pl.ShapeError, "expected x: float"),
        ({"shapes": {"x": (1, 9, 2)}}, pl.ShapeError, "expected x: float"),
        ({"shapes": {"x": (-1, 8, 2)}}, pl.ShapeError, "sizes of at least 0"),
        ({"shapes": {"x": (1, 8, 2**50)}}, pl.Error, "elements, expected at most"),
        ({"values": {"x": numpy.zeros((1, 8, 2), "float16")}}, pl.InvalidArgumentError, "is float16, expected float32"),
    ],
)
def test_bindings_that_do_not_fit(bindings, error, text):
    with pytest.raises(error, match=text):
        pylayout.onnx.load(relu_of("n", 8, "length"), **bindings)


def test_an_input_without_a_rank_needs_a_shape():
    model = relu_of(1)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(pl.ShapeError, match="input 'x' has no rank"):
        pylayout.onnx.load(model)
    assert pylayout.onnx.load(model, shapes={"x": (2, 3)}).outputs["y"].shape == (2, 3)


def test_a_read_model_describes_its_inputs():
    model = pylayout.onnx.read(relu_of("n", 8, None))
    assert [str(entry) for entry in model.inputs] == ["x: float (n, 8, ?)"]
    assert model.outputs == ["y"]


def test_weights_that_are_inputs_too_are_constants():
    model = relu_of("n", 8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(randn(2, 8), "x"))
    graph = pylayout.onnx.load(model)
    assert not graph.inputs
    assert graph.outputs["y"].shape == (2, 8)


def test_an_input_may_be_an_output_and_a_constant_too():
    x, w = randn(2, 3), randn(4)
    model = model_of([], {"x": x}, ["x", "w"], 17, {"w": w})
    a, b = run(model, x)
    close(a, x)
    close(b, w)


def test_nodes_that_nothing_needs_are_left_out():
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("NoSuchOp", ["x"], ["z"]),
        helper.make_node("NoSuchOp", ["z"], ["u"]),
    ]
    assert len(pylayout.onnx.load(model_of(nodes, {"x": randn(3)}, ["y"], 17)).describe()["nodes"]) == 1


def test_nodes_in_any_order():
    nodes = [
        helper.make_node("Neg", ["b"], ["y"]),
        helper.make_node("Add", ["a", "x"], ["b"]),
        helper.make_node("Relu", ["x"], ["a"]),
    ]
    x = randn(4)
    close(run(model_of(nodes, {"x": x}, ["y"], 17), x)[0], -(numpy.maximum(x, 0) + x))


# ---- weights ----


def test_weights_are_shared_by_the_graphs_of_a_model():
    w = randn(512, 512)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = pylayout.onnx.read(model_of(nodes, {"x": (FLOAT, ["n", 512])}, ["y"], 17, {"w": w}))
    before = pl.memory("cpu")
    graphs = [model.graph(sizes={"n": n}) for n in range(1, 9)]
    after = pl.memory("cpu")
    assert len({graph.outputs["y"].shape for graph in graphs}) == 8
    assert after["in_use"] - before["in_use"] < w.nbytes  # nothing was copied, not even once


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int32", "int64", "bool"])
@pytest.mark.parametrize("raw", [True, False])
def test_element_types(dtype, raw):
    array = (5 * randn(3, 4)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    model = model_of([helper.make_node("Identity", ["w"], ["y"])], {}, ["y"], 17)
    model.graph.initializer.append(helper.make_tensor("w", kind, (3, 4), array.tobytes() if raw else array, raw=raw))
    (actual,) = run(model)
    assert actual.dtype == array.dtype
    numpy.testing.assert_array_equal(actual, array)


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = randn(3, 4).astype(ml_dtypes.bfloat16)
    model = model_of([helper.make_node("Neg", ["w"], ["y"])], {}, ["y"], 17)
    kind = onnx.TensorProto.BFLOAT16
    model.graph.initializer.append(helper.make_tensor("w", kind, (3, 4), array.tobytes(), raw=True))
    numpy.testing.assert_array_equal(run(model)[0].astype("float32"), -array.astype("float32"))


def external(tmp_path, entries, content=b"", folder=None):
    """A model in tmp_path/models whose weight w, (2, 3), lies in another file."""
    models = tmp_path / "models"
    models.mkdir(exist_ok=True)
    if content:
        (models / "weights.bin").write_bytes(content)
    tensor = onnx.TensorProto(name="w", data_type=FLOAT, dims=(2, 3), data_location=onnx.TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": randn(2, 3)}, ["y"], 17)
    model.graph.initializer.append(tensor)
    path = models / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("offset", [0, 3, 4096])
def test_external_data(tmp_path, offset):
    w, x = randn(2, 3), randn(2, 3)
    path = external(tmp_path, {"location": "weights.bin", "offset": offset, "length": 24}, b"\1" * offset + w.tobytes())
    close(run(path, x)[0], x + w)
    model = onnx.load(path, load_external_data=False)
    close(run(model, x, folder=path.parent)[0], x + w)
    with pytest.raises(pl.InvalidArgumentError, match="folder is not known"):
        pylayout.onnx.load(model)


def test_external_data_by_onnx_itself(tmp_path):
    w, x = randn(70, 40), randn(3, 70)
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": x}, ["y"], 17, {"w": w})
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="all.bin", size_threshold=0)
    close(run(path, x)[0], x @ w)


@pytest.mark.parametrize(
    ("entries", "error", "text"),
    [
        ({"location": "../secret"}, pl.InvalidArgumentError, "inside of the model's folder"),
        ({"location": "a/../../secret"}, pl.InvalidArgumentError, "inside of the model's folder"),
        ({"location": "..\\secret"}, pl.InvalidArgumentError, "inside of the model's folder"),
        ({"location": "/etc/hostname"}, pl.InvalidArgumentError, "inside of the model's folder"),
        ({"location": "C:\\secret"}, pl.InvalidArgumentError, "inside of the model's folder"),
        ({"location": ""}, pl.InvalidArgumentError, "inside of the model's folder"),
        ({}, pl.InvalidArgumentError, "inside of the model's folder"),
        ({"location": "link"}, pl.InvalidArgumentError, "leads out of the model's folder"),
        ({"location": "folder/secret"}, pl.InvalidArgumentError, "leads out of the model's folder"),
        ({"location": "loop"}, pl.FileError, "cannot be read"),
        ({"location": "missing"}, pl.FileError, "cannot be read"),
        ({"location": "pipe"}, pl.FileError, "is not a file"),
        ({"location": "."}, pl.Error, "is not a file"),
        ({"location": "weights.bin", "offset": 1}, pl.InvalidArgumentError, "bytes 1 to 25 of its file, which has 24"),
        ({"location": "weights.bin", "offset": -4}, pl.InvalidArgumentError, "offset '-4'"),
        ({"location": "weights.bin", "offset": "9" * 30}, pl.InvalidArgumentError, "offset"),
        ({"location": "weights.bin", "length": 20}, pl.InvalidArgumentError, "length 20, expected 24"),
        ({"location": "weights.bin", "length": "x"}, pl.InvalidArgumentError, "length 'x'"),
    ],
)
def test_external_data_that_is_refused(tmp_path, entries, error, text):
    path = external(tmp_path, entries, bytes(24))
    (tmp_path / "secret").write_bytes(bytes(24))
    (path.parent / "link").symlink_to(tmp_path / "secret")
    (path.parent / "folder").symlink_to(tmp_path)
    (path.parent / "loop").symlink_to("loop")
    os.mkfifo(path.parent / "pipe")
    with pytest.raises(error, match=text):
        pylayout.onnx.load(path)


# ---- files that make no sense ----


def refused(model, error, text, seconds=5.0, **bindings):
    """Loading it raises that error, within so many seconds of the processor."""
    start = time.process_time()
    with pytest.raises(error, match=text):
        pylayout.onnx.load(model, **bindings)
    assert time.process_time() - start < seconds


def test_what_is_no_model(tmp_path):
    refused(tmp_path / "missing.onnx", pl.FileError, "cannot be read")
    refused(tmp_path, pl.FileError, "cannot be read")
    refused("a\0b", pl.FileError, "cannot be read")
    refused(b"", pl.FileError, "no ONNX model")
    refused(b"\xff" * 100, pl.FileError, "no ONNX model")
    refused(b"hello, world", pl.FileError, "no ONNX model")
    refused(42, pl.ArgumentTypeError, "expected a path")
    refused(onnx.ModelProto(), pl.InvalidArgumentError, "no graph")


def test_every_truncation_is_refused():
    w = randn(8, 8)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    content = model_of(nodes, {"x": randn(2, 8)}, ["y"], 17, {"w": w}).SerializeToString()
    assert pylayout.onnx.load(content).outputs["y"].shape == (2, 8)
    for length in range(len(content)):
        try:
            pylayout.onnx.load(content[:length])
        except pl.Error:
            continue
        raise AssertionError(f"{length} bytes of {len(content)} were taken for a model")


def tensor_model(**fields):
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": randn(2, 3)}, ["y"], 17)
    model.graph.initializer.append(onnx.TensorProto(name="w", **fields))
    return model


def test_weights_that_lie_about_their_size():
    invalid = pl.InvalidArgumentError
    refused(tensor_model(data_type=FLOAT, dims=[2, 3], raw_data=bytes(20)), invalid, "20 bytes, expected 24")
    refused(tensor_model(data_type=FLOAT, dims=[2, 3], float_data=[1.0]), invalid, "1 elements, expected 6")
    refused(tensor_model(data_type=FLOAT, dims=[2**31, 2**20], raw_data=bytes(24)), invalid, "expected at most")
    refused(tensor_model(data_type=FLOAT, dims=[2**20, 2**19], raw_data=bytes(24)), invalid, "24 bytes, expected")
    refused(tensor_model(data_type=FLOAT, dims=[2**62, 4, 0], raw_data=b""), pl.Error, "is not valid")
    refused(tensor_model(data_type=FLOAT, dims=[-2, -3], raw_data=bytes(24)), invalid, "at least 0")
    refused(tensor_model(data_type=FLOAT, dims=[1] * 100, raw_data=bytes(4)), pl.UnsupportedError, "rank 100")
    refused(tensor_model(data_type=99, dims=[6], raw_data=bytes(24)), pl.UnsupportedError, "element type data type 99")
    refused(tensor_model(data_type=8, dims=[1], string_data=[b"a"]), pl.UnsupportedError, "element type STRING")
    refused(tensor_model(data_type=0, dims=[1]), pl.UnsupportedError, "element type UNDEFINED")
    refused(tensor_model(data_type=11, dims=[3], raw_data=bytes(24)), pl.UnsupportedError, "float64")


def test_huge_dims_need_no_memory():
    refused(relu_of(2**62, 2**62), pl.Error, f"has a size of {2**62}, expected")
    refused(relu_of(2**40, 2**39), pl.Error, f"expected 0 to {2**40 - 1}")
    refused(relu_of(-5), pl.ShapeError, "size of -5")
    shape = model_of([helper.make_node("ConstantOfShape", ["s"], ["y"])], {}, ["y"], 17, {"s": ints([2**40, 2**20])})
    refused(shape, pl.InvalidArgumentError, "ConstantOfShape: result has shape .* expected at most")
    for op, first, second in (
        ("Expand", numpy.float32([1]), ints([2**30, 2**30])),
        ("Tile", numpy.float32([1]), ints([2**60])),
        ("Pad", numpy.float32([1]), ints([2**60, 0])),
        ("MatMul", numpy.zeros((2**20, 0), "float32"), numpy.zeros((0, 2**30), "float32")),
        ("Add", numpy.zeros((2**20, 1), "float32"), numpy.zeros((1, 2**20), "float32")),
    ):
        model = model_of([helper.make_node(op, ["a", "b"], ["y"])], {}, ["y"], 17, {"a": first, "b": second})
        if op == "MatMul":
            graph = pylayout.onnx.load(model)  # only a description
            assert graph.outputs["y"].shape == (2**20, 2**30)
        else:
            refused(model, pl.InvalidArgumentError, f"(?i){op}: result has shape .* expected at most")
    sizes = model_of([helper.make_node("Range", ["a", "b", "c"], ["y"])], {}, ["y"], 17,
                     {"a": ints(0), "b": ints(2**62), "c": ints(1)})  # fmt: skip
    refused(sizes, pl.InvalidArgumentError, "Range: result has shape .* expected at most")


@pytest.mark.parametrize(
    ("op", "attributes", "extra"),
    [
        ("Pad", {"mode": "wrap"}, {"pads": ints(0, 1, 0, 0)}),
        ("ArgMax", {"axis": 1, "select_last_index": 1}, {}),
        ("LpPool", {"kernel_shape": [2]}, {}),
        ("CumSum", {"reverse": 1}, {"axis": ints(1)}),
    ],
)
def test_huge_inputs_make_no_huge_indices(op, attributes, extra):
    opset = 19 if op == "Pad" else 14
    sizes = [1, 2**33, 3] if op == "LpPool" else [1, 2**33]
    model = model_of(
        [helper.make_node(op, ["x", *extra], ["y"], **attributes)], {"x": (FLOAT, sizes)}, ["y"], opset, extra
    )
    refused(model, pl.InvalidArgumentError, "result has shape .* expected at most")


def test_doubling_again_and_again():
    nodes = [helper.make_node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(100)]
    refused(
        model_of(nodes, {}, ["v100"], 17, {"v0": randn(1024)}), pl.InvalidArgumentError, "concat: result has shape", 30
    )


def test_functions_that_call_each_other_more_and_more(monkeypatch):
    """Each level calls the one before twice: 2^24 nodes if one let it."""
    monkeypatch.setattr(importer, "MAX_OPS", 4000)  # of 50,000, which takes seconds
    functions = [helper.make_function("f", "F0", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])],
                                      [helper.make_opsetid("", 17)])]  # fmt: skip
    for level in range(1, 25):
        body = [helper.make_node(f"F{level - 1}", ["x"], ["a"], domain="f"),
                helper.make_node(f"F{level - 1}", ["a"], ["y"], domain="f")]  # fmt: skip
        functions.append(helper.make_function("f", f"F{level}", ["x"], ["y"], body, [helper.make_opsetid("f", 1)]))
    call = helper.make_node("F24", ["x"], ["y"], domain="f")
    model = model_of([call], {"x": randn(2)}, ["y"], 17, functions=functions, domains={"f": 1})
    refused(model, pl.UnsupportedError, "becomes more than 4000 ops")


def test_a_function_that_calls_itself():
    body = [helper.make_node("F", ["x"], ["y"], domain="f")]
    function = helper.make_function("f", "F", ["x"], ["y"], body, [helper.make_opsetid("f", 1)])
    model = model_of([helper.make_node("F", ["x"], ["y"], domain="f")], {"x": randn(2)}, ["y"], 17,
                     functions=[function], domains={"f": 1})  # fmt: skip
    refused(model, pl.UnsupportedError, "deep in each other")


def test_structures_that_make_no_sense():
    x = {"x": randn(3)}
    node = helper.make_node
    invalid = pl.InvalidArgumentError
    cycle = [node("Add", ["x", "b"], ["a"], "first"), node("Relu", ["a"], ["b"], "second")]
    refused(model_of(cycle, x, ["b"], 17), invalid, "a cycle")
    refused(model_of([node("Add", ["x", "y"], ["y"])], x, ["y"], 17), invalid, "a cycle")
    refused(model_of([node("Add", ["x", "w"], ["y"])], x, ["y"], 17), invalid, "'w' is used, but no input")
    refused(model_of([node("Relu", ["x"], ["y"])], x, ["z"], 17), invalid, "nothing gives the output 'z'")
    twice = [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])]
    refused(model_of(twice, x, ["y"], 17), invalid, "'y' is made twice")
    refused(model_of([node("Relu", ["x"], ["x"])], x, ["x"], 17), invalid, "'x' is made twice")
    model = relu_of(3)
    model.graph.input.append(model.graph.input[0])
    refused(model, invalid, "two inputs are called 'x'")
    model = relu_of(3)
    for _ in range(2):
        model.graph.initializer.append(onnx.numpy_helper.from_array(randn(3), "w"))
    refused(model, invalid, "two initialisers are called 'w'")
    model = relu_of(3)
    model.graph.output.append(model.graph.output[0])
    refused(model, pl.Error, "y")
    mixed = model_of([node("Add", ["x", "w"], ["y"])], x, ["y"], 17, {"w": ints([1, 2, 3])})
    refused(mixed, pl.Error, "s64")
    for opset in (1, 6, 99):
        refused(model_of([node("Relu", ["x"], ["y"])], x, ["y"], opset), pl.UnsupportedError, f"opset {opset}")
    model = relu_of(3)
    del model.opset_import[:]
    refused(model, pl.UnsupportedError, "imports no opset of the domain ai.onnx")
    model = relu_of(3)
    model.graph.input[0].type.Clear()
    refused(model, pl.UnsupportedError, "expected a tensor")
    refused(model_of([node("Relu", ["x"], ["y"])], {"x": (onnx.TensorProto.DOUBLE, [3])}, ["y"], 17),
            pl.UnsupportedError, "input 'x'.*float64")  # fmt: skip


def test_deep_subgraphs():
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")])
    for _ in range(30):
        choice = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)
        graph = onnx.GraphProto(node=[choice], output=[onnx.ValueInfoProto(name="y")])
        if graph.ByteSize() > 2**20:
            break
    node = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)
    model = model_of([node], {"x": randn(2)}, ["y"], 17, {"c": numpy.array(True)})
    start = time.process_time()
    assert pylayout.onnx.load(model).outputs["y"].shape == (2,)
    assert time.process_time() - start < 10


def field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer: a tag, a length, the content."""
    length, head = len(content), bytearray([number << 3 | 2])
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes(head) + bytes([length]) + content


@pytest.mark.slow
def test_a_million_nodes():
    """Quickly refused; and quickly loaded where almost none of them matters."""
    count = 10**6
    names = [b"v%d" % i for i in range(count + 1)]
    kind = field(4, b"Relu")
    nodes = b"".join(field(1, field(1, a) + field(2, b) + kind) for a, b in itertools.pairwise(names))
    start = field(11, helper.make_tensor_value_info("v0", FLOAT, (2,)).SerializeToString())

    def model(output: bytes) -> bytes:
        graph = nodes + start + field(12, field(1, output))
        return b"\x08\x09" + field(7, graph) + field(8, b"\x10\x11")

    refused(model(names[-1]), pl.UnsupportedError, "1000000 nodes that matter, expected at most", seconds=30)
    began = time.process_time()
    assert len(pylayout.onnx.load(model(names[1000])).describe()["nodes"]) == 1000
    assert time.process_time() - began < 30


def test_names_may_be_anything():
    for name in ("a\0b", "ü/é", "x" * 5000, " ", "layer.0"):
        model = relu_of(3, name=name)
        model.graph.node[0].name = name
        x = randn(3)
        close(run(model, x)[0], numpy.maximum(x, 0))


def test_nothing_is_opened_but_the_file(tmp_path, monkeypatch):
    """A model's text fields (producer, doc strings, metadata) and unknown domains run nothing."""
    model = relu_of(3)
    model.producer_name = "__import__('os').system('touch pwned')"
    model.doc_string = "$(touch pwned)"
    model.metadata_props.add(key="../../pwned", value="`touch pwned`")
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(model.SerializeToString())
    pylayout.onnx.load("m.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx"]


# ---- whose fault it is ----


@pytest.mark.parametrize("error", [AttributeError, AssertionError, TypeError, KeyError, NotImplementedError])
def test_a_defect_of_the_importer_is_no_fault_of_the_model(monkeypatch, error):
    def defective(node):
        raise error("no such thing")

    entry = replace(registry.find("", "Relu", 17), function=defective)
    monkeypatch.setitem(registry.converters(), ("", "Relu"), [entry])
    with pytest.raises(pl.InternalError, match=rf'node "y" .*please report it.*{error.__name__}: ') as found:
        pylayout.onnx.load(relu_of(3))
    assert type(found.value.__cause__) is error


@pytest.mark.parametrize("error", [ValueError, IndexError, OverflowError, ZeroDivisionError])
def test_what_arithmetic_with_the_models_numbers_raises_is(monkeypatch, error):
    def damaged(node):
        raise error("no such number")

    entry = replace(registry.find("", "Relu", 17), function=damaged)
    monkeypatch.setitem(registry.converters(), ("", "Relu"), [entry])
    with pytest.raises(pl.InvalidArgumentError, match=rf'node "y" .*is not valid: {error.__name__}: '):
        pylayout.onnx.load(relu_of(3))


def test_types_that_an_op_has_not_are_a_fault_of_the_model():
    model = model_of([helper.make_node("Sub", ["a", "a"], ["y"])], {}, ["y"], 17, {"a": numpy.array([True])})
    refused(model, pl.InvalidArgumentError, "sub: numpy boolean subtract")
