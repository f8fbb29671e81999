"""Damaged models: whatever a file holds, it is imported or refused by an error of the library, soon, in little memory.

The error says what is wrong with the model: an InternalError would say that something is wrong with the importer.

More examples than a test run has time for: FUZZ_EXAMPLES=20000 pytest tests/onnx/test_fuzz.py
"""

import os
import resource
import time

import numpy
import pytest

onnx = pytest.importorskip("onnx")
hypothesis = pytest.importorskip("hypothesis")

from hypothesis import strategies as st  # noqa: E402
from onnx_cases import ints, positive, randn  # noqa: E402
from onnx_models import helper, model_of  # noqa: E402

import pylayout as pl  # noqa: E402
import pylayout.onnx  # noqa: E402

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
SECONDS = 20.0  # of the processor, for one model
BYTES = 3 * 2**30  # more than the library, NumPy and what an import may take

FLOAT = onnx.TensorProto.FLOAT
node = helper.make_node


def convolutional():
    """Convolution, pool, shape arithmetic, product."""
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("BatchNormalization", ["c", "s", "b", "b", "s"], ["n"]),
        node("Clip", ["n", "low", "high"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Shape", ["p"], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"], axis=0),
        node("Unsqueeze", ["batch", "zeros"], ["first"]),
        node("Concat", ["first", "rest"], ["flat"], axis=0),
        node("Reshape", ["p", "flat"], ["f"]),
        node("Gemm", ["f", "m", "v"], ["g"], transB=1),
        node("Softmax", ["g"], ["y"], axis=-1),
    ]
    weights = {
        "w": randn(4, 3, 3, 3),
        "b": randn(4),
        "s": positive(4),
        "low": numpy.float32(0),
        "high": numpy.float32(6),
    }
    weights |= {"zero": ints(0), "zeros": ints([0]), "rest": ints([-1]), "m": randn(5, 64), "v": randn(5)}
    weights = {name: numpy.asarray(array) for name, array in weights.items()}
    return model_of(nodes, {"x": (FLOAT, ["n", 3, 8, 8])}, ["y"], 17, weights)


def rearranging():
    """Slices, splits, pads, resizing, gathers, quantisation."""
    nodes = [
        node("Slice", ["x", "starts", "ends", "axes", "steps"], ["a"]),
        node("Split", ["a", "halves"], ["b", "c"], axis=1),
        node("Concat", ["c", "b"], ["d"], axis=1),
        node("Pad", ["d", "pads"], ["e"], mode="reflect"),
        node("Resize", ["e", "", "scales"], ["f"], mode="linear"),
        node("Transpose", ["f"], ["g"], perm=[0, 2, 3, 1]),
        node("ReduceMean", ["g"], ["h"], axes=[1], keepdims=1),
        node("QuantizeLinear", ["h", "scale", "point"], ["i"]),
        node("DequantizeLinear", ["i", "scale", "point"], ["j"]),
        node("Gather", ["j", "index"], ["k"], axis=3),
        node("Expand", ["k", "shape"], ["l"]),
        node("Einsum", ["l", "l"], ["y"], equation="abcd,abcd->ac"),
    ]
    weights = {"starts": ints([1, -4]), "ends": ints([9, 100]), "axes": ints([2, 1]), "steps": ints([2, 1])}
    weights |= {"halves": ints([2, 2]), "pads": ints([0, 0, 1, 1, 0, 0, 1, 0]), "index": ints([1, 0, -1])}
    weights |= {"scales": numpy.array([1, 1, 2, 1.5], "float32"), "scale": numpy.array(0.1, "float32")}
    weights |= {"point": numpy.array(3, "uint8"), "shape": ints([2, 1, 1, 1])}
    return model_of(nodes, {"x": (FLOAT, [1, 4, 8, 8])}, ["y"], 17, weights)


def controlled():
    """A loop, a choice, a function, a recurrent layer."""
    body = helper.make_graph(
        [node("Add", ["v", "x"], ["w"]), node("Identity", ["c"], ["d"])],
        "body",
        [onnx.ValueInfoProto(name=name) for name in ("i", "c", "v")],
        [onnx.ValueInfoProto(name=name) for name in ("d", "w")],
    )
    then = helper.make_graph([node("Relu", ["l"], ["t"])], "then", [], [onnx.ValueInfoProto(name="t")])
    other = helper.make_graph([node("Neg", ["l"], ["o"])], "else", [], [onnx.ValueInfoProto(name="o")])
    function = helper.make_function(
        "f", "Twice", ["x"], ["y"], [node("Add", ["x", "x"], ["y"])], [helper.make_opsetid("", 17)]
    )
    nodes = [
        node("Loop", ["count", "", "x"], ["l"], body=body),
        node("If", ["choice"], ["z"], then_branch=then, else_branch=other),
        node("Twice", ["z"], ["u"], domain="f"),
        node("GRU", ["u", "w", "r"], ["y", ""], hidden_size=3),
    ]
    weights = {"count": ints(3), "choice": numpy.array(True), "w": randn(1, 9, 4), "r": randn(1, 9, 3)}
    return model_of(nodes, {"x": (FLOAT, [5, 2, 4])}, ["y"], 17, weights, [function], {"f": 1})


def fused():
    """Embeddings, norms and attention of ONNX Runtime, with lengths and masks."""
    ours = {"domain": "com.microsoft"}
    nodes = [
        node("GatherBlockQuantized", ["table", "x", "scales"], ["e"], block_size=16, **ours),
        node("SimplifiedLayerNormalization", ["e", "g"], ["n"]),
        node("Attention", ["n", "wide", "", "mask", "past"], ["a", "next"], num_heads=2, unidirectional=1, **ours),
        node("SkipLayerNormalization", ["a", "e", "g", "b"], ["s", "", "", "t"], **ours),
        node("RotaryEmbedding", ["s", "first", "cos", "sin"], ["r"], interleaved=1, num_heads=2, **ours),
        node(
            "MultiHeadAttention", ["r", "t", "t", "", "ends"], ["m"], num_heads=2, mask_filter_value=-1e9, **ours
        ),
        node("FusedMatMul", ["m", "wide"], ["q"], alpha=0.5, transBatchA=0, transB=0, **ours),
        node(
            "GroupQueryAttention", ["q", "", "", "k", "v", "less", "total", "cos", "sin"], ["y"],
            num_heads=4, kv_num_heads=4, do_rotary=1, local_window_size=3, softcap=2.0, **ours,
        ),
    ]  # fmt: skip
    rows = numpy.arange(40 * 16).reshape(40, 16) % 251
    weights = {"table": rows.astype("uint8"), "scales": positive(40, 2), "g": positive(32), "b": randn(32)}
    weights |= {"wide": randn(32, 96), "past": randn(2, 1, 2, 3, 16), "mask": ints([[1, 0, 1, 1, 1, 1, 1, 1]])}
    weights |= {"cos": randn(40, 4), "sin": randn(40, 4), "first": ints([2]), "ends": ints([4])}
    weights |= {"k": randn(1, 4, 12, 8), "v": randn(1, 4, 12, 8), "less": ints([6]), "total": ints(7)}
    return model_of(nodes, {"x": (onnx.TensorProto.INT64, [1, 5])}, ["y"], 21, weights, domains={"com.microsoft": 1})


MODELS = [convolutional(), rearranging(), controlled(), fused()]
CONTENTS = [model.SerializeToString() for model in MODELS]


def survives(model):
    start = time.process_time()
    try:
        graph = pylayout.onnx.load(model)
    except pl.InternalError:
        raise
    except pl.Error:
        graph = None
    taken = time.process_time() - start
    assert taken < SECONDS, f"took {taken:.1f} s"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < BYTES
    return graph


@pytest.mark.parametrize("content", CONTENTS)
def test_the_models_themselves_are_imported(content):
    assert survives(content).outputs["y"].shape


@pytest.mark.parametrize("version", [2**31, 2**62, -1])
def test_versions_beyond_those_that_there_are(version):
    model = fused()
    model.opset_import[1].version = version
    assert (survives(model) is None) == (version < 0)


def test_indices_that_are_no_integers():
    with pytest.raises(pl.InvalidArgumentError, match="index_select: index is float32, expected integers"):
        pylayout.onnx.load(model_of([node("Gather", ["x", "i"], ["y"])], {}, ["y"], 17, {"x": randn(3), "i": randn(2)}))


settings = hypothesis.settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))


@settings
@hypothesis.given(st.data())
def test_changed_bytes(data):
    content = bytearray(data.draw(st.sampled_from(CONTENTS)))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.integers(1, 16))
        kind = data.draw(st.sampled_from(["replace", "flip", "delete", "insert", "repeat"]))
        if kind == "replace":
            content[at : at + length] = data.draw(st.binary(min_size=1, max_size=length))
        elif kind == "flip":
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "delete":
            del content[at : at + length]
        elif kind == "insert":
            content[at:at] = data.draw(st.binary(min_size=1, max_size=length))
        else:
            content[at:at] = content[at : at + length]
        if not content:
            break
    survives(bytes(content))


NUMBERS = st.sampled_from(
    [0, 1, 2, 3, 4, 7, -1, -2, 100, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63)]
) | st.integers(-20, 20)
REALS = st.sampled_from([0.0, -1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan")]) | st.floats(
    -4, 4, width=32
)
NAMES = [
    "x",
    "y",
    "w",
    "",
    "shape",
    "a",
    "b",
    "c",
    "Relu",
    "Add",
    "Conv",
    "Reshape",
    "Loop",
    "axis",
    "f",
    "ai.onnx",
    "SAME_UPPER",
]


def messages(root):
    """Every message below a root, itself included."""
    found, stack = [], [root]
    while stack:
        message = stack.pop()
        found.append(message)
        for descriptor, value in message.ListFields():
            if descriptor.message_type is not None:
                stack.extend(value if descriptor.is_repeated else [value])
    return found


def value_for(descriptor, data):
    """Another value for a field that holds no message."""
    kinds = type(descriptor)
    if descriptor.cpp_type in (kinds.CPPTYPE_FLOAT, kinds.CPPTYPE_DOUBLE):
        return data.draw(REALS)
    if descriptor.cpp_type == kinds.CPPTYPE_STRING:
        text = data.draw(st.sampled_from(NAMES))
        return text.encode() if descriptor.type == kinds.TYPE_BYTES else text
    if descriptor.cpp_type == kinds.CPPTYPE_ENUM:
        return data.draw(st.sampled_from([value.number for value in descriptor.enum_type.values]))
    number = data.draw(NUMBERS)
    if descriptor.cpp_type in (kinds.CPPTYPE_INT32,):
        return max(min(number, 2**31 - 1), -(2**31))
    if descriptor.cpp_type in (kinds.CPPTYPE_UINT64,):
        return number % 2**64
    return number


def change(message, data):
    """One field of a message changed, or one element of a list."""
    fields = [descriptor for descriptor, _ in message.ListFields()]
    if not fields:
        fields = list(message.DESCRIPTOR.fields)
    descriptor = data.draw(st.sampled_from(fields))
    value = getattr(message, descriptor.name)
    if hasattr(value, "append") or hasattr(value, "add"):
        kind = data.draw(st.sampled_from(["delete", "repeat", "swap", "set"]))
        if not len(value):
            return
        at = data.draw(st.integers(0, len(value) - 1))
        other = data.draw(st.integers(0, len(value) - 1))
        if kind == "delete":
            del value[at]
        elif kind == "repeat":
            value.append(value[at])
        elif descriptor.message_type is not None:
            copy = type(value[at])()
            copy.CopyFrom(value[at])
            value[at].CopyFrom(value[other])
            value[other].CopyFrom(copy)
        elif kind == "swap":
            value[at], value[other] = value[other], value[at]
        else:
            value[at] = value_for(descriptor, data)
    elif descriptor.message_type is not None:
        message.ClearField(descriptor.name)
    elif data.draw(st.booleans()):
        setattr(message, descriptor.name, value_for(descriptor, data))
    else:
        message.ClearField(descriptor.name)


@settings
@hypothesis.given(st.data())
def test_changed_fields(data):
    model = onnx.ModelProto()
    model.CopyFrom(data.draw(st.sampled_from(MODELS)))
    for _ in range(data.draw(st.integers(1, 4))):
        every = messages(model)
        change(every[data.draw(st.integers(0, len(every) - 1))], data)
    survives(model)


@settings
@hypothesis.given(st.data())
def test_changed_constants(data):
    """Shapes, axes, pads, counts: the integers that a model computes its shapes with."""
    model = onnx.ModelProto()
    model.CopyFrom(data.draw(st.sampled_from(MODELS)))
    small = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT64]
    for _ in range(data.draw(st.integers(1, 3))):
        tensor = data.draw(st.sampled_from(small))
        values = onnx.numpy_helper.to_array(tensor).copy().reshape(-1)
        values[data.draw(st.integers(0, len(values) - 1))] = data.draw(NUMBERS)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values.reshape(tuple(tensor.dims)), tensor.name))
    survives(model)
