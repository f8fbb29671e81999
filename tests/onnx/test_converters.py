"""Every converter, on small models of one node, against ONNX's own evaluator in float64."""

import numpy
import pytest

onnx = pytest.importorskip("onnx")

from onnx_cases import CASES, ROIS, Case, ints, positive, randn  # noqa: E402
from onnx_models import close, helper, model_of, reference, run  # noqa: E402

import pylayout as pl  # noqa: E402
import pylayout.onnx  # noqa: E402
from pylayout.onnx.registry import converters, find  # noqa: E402


def build(case: Case, fold: bool = False):
    """The model of a case, and the arrays for its inputs; with fold every input is an initialiser."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(case.inputs)]
    arrays = {f"x{i}": numpy.asarray(x) for i, x in enumerate(case.inputs) if x is not None}
    weights = {name: array for name, array in arrays.items() if fold or int(name[1:]) in case.const}
    feeds = {name: array for name, array in arrays.items() if name not in weights}
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, name="the node", **case.attributes)
    return model_of([node], feeds, outputs, case.opset, weights), feeds


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_onnx(case):
    model, feeds = build(case)
    wanted = reference(model, feeds, case.wide)
    actual = run(model, *feeds.values())
    assert len(actual) == len(wanted)
    for mine, theirs in zip(actual, wanted, strict=True):
        close(mine, theirs, case.tolerance)


FOLDED = [case for case in CASES if len({*case.const}) < sum(x is not None for x in case.inputs)]


@pytest.mark.parametrize("case", FOLDED, ids=str)
def test_of_constants_only(case):
    model, feeds = build(case, fold=True)
    assert not feeds
    wanted = reference(model, {}, case.wide)
    for mine, theirs in zip(run(model), wanted, strict=True):
        close(mine, theirs, max(case.tolerance, 5e-5))  # the reference computes in f32 here


# Those that one node does not show, or that ONNX's evaluator has not; each has a test of its own.
ELSEWHERE = {"Constant", "If", "Loop", "Scan", "GlobalLpPool", "SimplifiedLayerNormalization"}
ELSEWHERE |= {"SplitToSequence", "ConcatFromSequence"}  # and the others on sequences: test_sequences.py
ELSEWHERE |= {f"Random{what}" for what in ("Normal", "NormalLike", "Uniform", "UniformLike")}  # test_random_numbers.py
ELSEWHERE |= {"Bernoulli", "Multinomial"}  # there, too
ELSEWHERE |= {f"Sequence{what}" for what in ("At", "Construct", "Empty", "Erase", "Insert", "Length", "Map")}


def test_every_converter_has_a_case():
    tested = {find("", case.op, case.opset) for case in CASES}
    own = {op for op, _, _ in OWN_REFERENCE}  # those of other domains: test_quantised_functions.py, test_fused_ops.py
    missing = [
        f"{entry.op} since {entry.since}"
        for entries in converters().values()
        for entry in entries
        if entry not in tested and entry.op not in ELSEWHERE | own and not entry.domain
    ]
    assert not missing


def softmax_over_rest(x, axis):
    flat = x.reshape(int(numpy.prod(x.shape[:axis])), -1).astype("float64")
    powers = numpy.exp(flat - flat.max(1, keepdims=True))
    return (powers / powers.sum(1, keepdims=True)).reshape(x.shape)


def groups_normalised(x, scale, bias, groups, eps=1e-5):
    parts = x.reshape(x.shape[0], groups, -1).astype("float64")
    parts = (parts - parts.mean(2, keepdims=True)) / numpy.sqrt(parts.var(2, keepdims=True) + eps)
    each = x.shape[1] // groups
    shape = (1, -1, *[1] * (x.ndim - 2))
    return parts.reshape(x.shape) * numpy.repeat(scale, each).reshape(shape) + numpy.repeat(bias, each).reshape(shape)


def channels_normalised(x, size, alpha, beta, bias):
    total = numpy.zeros(x.shape)
    for c in range(x.shape[1]):
        window = x[:, max(c - (size - 1) // 2, 0) : c + size // 2 + 1].astype("float64")
        total[:, c] = (window * window).sum(1)
    return x / (bias + alpha / size * total) ** beta


def batch_normalised(x, scale, bias, mean, variance, eps):
    scale, bias, mean, variance = (v.reshape(1, -1, 1, 1).astype("float64") for v in (scale, bias, mean, variance))
    return (x - mean) / numpy.sqrt(variance + eps) * scale + bias


def resized_as_now(x, **attributes):
    """By a Resize of today, whose attributes say what the old op means."""
    node = helper.make_node(
        "Resize", ["x", "", "scales"], ["y"], coordinate_transformation_mode="asymmetric", **attributes
    )
    scales = numpy.array([1, 1, 2, 3], "float32")
    return reference(model_of([node], {"x": x}, ["y"], 13, {"scales": scales}), {"x": x})[0]


def pooled_with_pads(x, pads):
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=pads)
    return reference(model_of([node], {"x": x}, ["y"], 17), {"x": x})[0]


def aligned_as_now(x, boxes, images, **attributes):
    """By a RoiAlign of today, whose attribute says what the old op means."""
    node = helper.make_node(
        "RoiAlign", ["x", "b", "i"], ["y"], coordinate_transformation_mode="output_half_pixel", **attributes
    )
    return reference(model_of([node], {"x": x}, ["y"], 16, {"b": boxes, "i": images}), {"x": x})[0]


def scattered(x, updates):
    """Element i of the updates at row 1, 2, 0 of column i."""
    result = x.copy()
    result[[1, 2, 0], [0, 1, 2]] = updates[0]
    return result


ROWS, NEW = randn(4, 3), randn(1, 3)
A, B = randn(2, 3, 4), randn(2, 6, 3, 4)
SCALE, BIAS = positive(3), randn(3)
STATS = [positive(6), randn(6), randn(6), positive(6)]
IMAGE = randn(1, 3, 9, 8)
TWICE = numpy.array([1, 1, 2, 3], "float32")
# What ONNX's evaluator does not implement, or not so: (op, model's parts, what it gives).
OWN_REFERENCE = [
    ("Softmax", (9, [A], {"axis": 1}), softmax_over_rest(A, 1)),
    ("Softmax", (11, [A], {}), softmax_over_rest(A, 1)),
    ("Softmax", (11, [A], {"axis": 2}), softmax_over_rest(A, 2)),
    ("Softmax", (11, [A], {"axis": 0}), softmax_over_rest(A, 0)),
    ("LogSoftmax", (11, [A], {"axis": 1}), numpy.log(softmax_over_rest(A, 1))),
    ("Clip", (9, [A], {"min": -0.5, "max": 0.25}), A.clip(-0.5, 0.25)),
    ("Clip", (9, [A], {}), A),
    ("Clip", (6 + 2, [A], {"max": 0.25}), A.clip(None, 0.25)),
    ("BatchNormalization", (9, [B, *STATS], {"epsilon": 1e-3}), batch_normalised(B, *STATS, 1e-3)),
    ("BatchNormalization", (7, [B, *STATS], {"spatial": 1}), batch_normalised(B, *STATS, 1e-5)),
    ("LRN", (9, [B], {"size": 3, "alpha": 0.01, "beta": 0.6, "bias": 1.5}), channels_normalised(B, 3, 0.01, 0.6, 1.5)),
    ("LRN", (13, [A], {"size": 2}), channels_normalised(A, 2, 1e-4, 0.75, 1)),
    ("Scatter", (9, [ROWS, ints([[1, 2, 0]]), NEW], {"axis": 0}), scattered(ROWS, NEW)),
    ("Pad", (18, [A, ints([-1, 2]), numpy.float32(0), ints([1])], {}), numpy.pad(A[:, 1:], ((0, 0), (0, 2), (0, 0)))),
    ("Upsample", (9, [B, TWICE], {"mode": "linear"}), resized_as_now(B, mode="linear")),
    ("Upsample", (7, [B], {"scales": [1.0, 1.0, 2.0, 3.0]}), resized_as_now(B, nearest_mode="floor")),
    ("Resize", (10, [B, TWICE], {"mode": "nearest"}), resized_as_now(B, nearest_mode="floor")),
    (
        "MaxPool",
        (17, [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
        pooled_with_pads(IMAGE, [1, 1, 1, 0]),
    ),
    (
        "RoiAlign",
        (10, ROIS, {"output_height": 2, "output_width": 2}),
        aligned_as_now(*ROIS, output_height=2, output_width=2),
    ),
    ("GroupNormalization", (18, [B, SCALE, BIAS], {"num_groups": 3}), groups_normalised(B, SCALE, BIAS, 3)),
    ("GlobalLpPool", (9, [B], {"p": 3}), (numpy.abs(B.astype("f8")) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)),
]


@pytest.mark.parametrize(("op", "parts", "wanted"), OWN_REFERENCE, ids=lambda v: v if isinstance(v, str) else "")
def test_old_meanings(op, parts, wanted):
    opset, inputs, attributes = parts
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **attributes)
    weights = dict(zip(names[1:], inputs[1:], strict=True))
    (actual,) = run(model_of([node], {"x0": inputs[0]}, ["y"], opset, weights), inputs[0])
    close(actual, wanted)


@pytest.mark.parametrize("scale", ["0.7", "0.9", "1.2", "1.3", "1.4", "2.1"])
def test_nearest_by_a_scale_that_no_float_is(scale):
    """Sizes and places are those of the scale as it was meant, which float32 finds and float64 does not."""
    x = numpy.arange(10, dtype="float32").reshape(1, 1, 10)
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], **modes)
    tenths = round(10 * float(scale))
    (actual,) = run(model_of([node], {"x": x}, ["y"], 17, {"s": numpy.array([1, 1, float(scale)], "float32")}), x)
    numpy.testing.assert_array_equal(actual[0, 0], numpy.arange(tenths) * 10 // tenths)


@pytest.mark.parametrize(("op", "dtype"), [("Conv", "float32"), ("ConvInteger", "uint8")])
def test_negative_pads_cut_the_input(op, dtype):
    x, weight = (numpy.abs(10 * randn(*shape)).astype(dtype) for shape in ((1, 3, 7, 8), (2, 3, 3, 3)))
    results = []
    for array, pads in ((x, [-1, 1, 0, -2]), (x[:, :, 1:, :-2], [0, 1, 0, 0])):
        node = helper.make_node(op, ["x", "w"], ["y"], pads=pads)
        results.append(run(model_of([node], {"x": array}, ["y"], 17, {"w": weight}), array)[0])
    close(*results)


def test_conv_transpose_against_torch():
    torch = pytest.importorskip("torch")
    x, weight, bias = randn(1, 4, 5, 5), randn(4, 2, 3, 3), randn(4)
    wide = [torch.from_numpy(v).double() for v in (x, weight, bias)]
    whole = torch.nn.functional.conv_transpose2d(*wide, stride=(3, 2), groups=2)
    grown = torch.nn.functional.pad(whole - wide[2][:, None, None], (0, 3, 0, 2)) + wide[2][:, None, None]
    for attributes, wanted in (
        ({}, whole),
        ({"pads": [1, 0, 2, 1]}, whole[:, :, 1:-2, 0:-1]),
        ({"output_shape": [12, 9]}, whole[:, :, 2:-1, 1:-1]),  # the total is 3 and 2: the larger half comes first
        ({"output_shape": [12, 9], "auto_pad": "SAME_UPPER"}, whole[:, :, 1:-2, 1:-1]),
        (
            {"output_padding": [2, 1]},
            torch.nn.functional.conv_transpose2d(*wide, stride=(3, 2), output_padding=(2, 1), groups=2),
        ),
        ({"output_padding": [2, 3]}, grown),  # more than torch and the op take
        ({"pads": [-1, 0, 0, 0]}, torch.cat([wide[2][None, :, None, None].expand(1, 4, 1, 11), whole], 2)),
    ):
        node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[3, 2], group=2, **attributes)
        model = model_of([node], {"x": x}, ["y"], 17, {"w": weight, "b": bias})
        close(run(model, x)[0], wanted.numpy())


@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
def test_same_padding_stays_a_word(op):
    weights = {"w": randn(3, 3, 3, 3)} if op == "Conv" else {}
    node = helper.make_node(op, ["x", *weights], ["y"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER")
    graph = pl.onnx.load(model_of([node], {"x": randn(1, 3, 8, 8)}, ["y"], 17, weights))
    assert "padding=same_lower" in str(graph)


def test_all_forms_of_constant():
    tensor = onnx.numpy_helper.from_array(numpy.array([[1, 2]], "int32"))
    forms = {
        "value": (tensor, numpy.array([[1, 2]], "int32")),
        "value_float": (1.5, numpy.float32(1.5)),
        "value_floats": ([1.5, 2.5], numpy.array([1.5, 2.5], "float32")),
        "value_int": (7, numpy.int64(7)),
        "value_ints": ([7, 8], numpy.array([7, 8])),
    }
    for name, (given, wanted) in forms.items():
        node = helper.make_node("Constant", [], ["y"], **{name: given})
        (actual,) = run(model_of([node], {}, ["y"], 13))
        assert actual.dtype == wanted.dtype
        close(actual, wanted)


def branches():
    then = helper.make_graph([helper.make_node("Relu", ["x"], ["a"])], "then", [], [onnx.ValueInfoProto(name="a")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "else", [], [onnx.ValueInfoProto(name="b")])
    return then, other


@pytest.mark.parametrize("condition", [True, False])
def test_if_with_a_constant_condition(condition):
    then, other = branches()
    x = randn(3, 4)
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    model = model_of([node], {"x": x}, ["y"], 17, {"c": numpy.array(condition)})
    close(run(model, x)[0], numpy.maximum(x, 0) if condition else -x)


def test_if_whose_condition_is_an_input_says_so():
    then, other = branches()
    node = helper.make_node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)
    model = model_of([node], {"x": randn(3), "c": numpy.array(True)}, ["y"], 17)
    with pytest.raises(
        pylayout.onnx.ValueNeeded, match=r"node \"choice\" .*ai.onnx If, opset 17.*the input 'c'"
    ) as found:
        pylayout.onnx.load(model)
    assert found.value.inputs == ("c",)
    graph = pylayout.onnx.load(model, values={"c": numpy.array(False)})
    assert list(graph.inputs) == ["x"]


def test_loop_is_unrolled():
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "x"], ["w"]),
            helper.make_node("Cast", ["i"], ["f"], to=1),
            helper.make_node("Mul", ["w", "f"], ["s"]),
            helper.make_node("Identity", ["c"], ["d"]),
        ],
        "body",
        [onnx.ValueInfoProto(name=name) for name in ("i", "c", "v")],
        [onnx.ValueInfoProto(name=name) for name in ("d", "w", "s")],
    )
    x, start = randn(2, 3), randn(2, 3)
    node = helper.make_node("Loop", ["n", "", "v0"], ["last", "all"], body=body)
    model = model_of([node], {"x": x, "v0": start}, ["last", "all"], 17, {"n": numpy.array(3)})
    last, stacked = run(model, x, start)
    close(last, start + 3 * x)
    close(stacked, numpy.stack([(start + (i + 1) * x) * i for i in range(3)]))


def test_loop_ends_when_its_condition_does():
    body = helper.make_graph(
        [
            helper.make_node("Less", ["i", "limit"], ["d"]),
            helper.make_node("Add", ["v", "x"], ["w"]),
        ],
        "body",
        [onnx.ValueInfoProto(name=name) for name in ("i", "c", "v")],
        [onnx.ValueInfoProto(name=name) for name in ("d", "w")],
    )
    x = randn(2)
    node = helper.make_node("Loop", ["", "go", "x"], ["last"], body=body)
    model = model_of([node], {"x": x}, ["last"], 17, {"go": numpy.array(True), "limit": numpy.array(4)})
    close(run(model, x)[0], 6 * x)


def test_a_name_of_the_body_hides_that_of_the_graph_around():
    """Of a Reshape around the body, what it read: not what has that name in the body."""
    body = helper.make_graph(
        [
            helper.make_node("Reshape", ["b", "flat"], ["c"]),
            helper.make_node("Add", ["a", "c"], ["w"]),
            helper.make_node("Identity", ["go"], ["again"]),
        ],
        "body",
        [onnx.ValueInfoProto(name=name) for name in ("i", "go", "a")],
        [onnx.ValueInfoProto(name=name) for name in ("again", "w")],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Reshape", ["a", "square"], ["b"]),
        helper.make_node("Loop", ["n", "", "v"], ["y"], body=body),
    ]
    x, start = randn(2, 6), randn(12)
    weights = {"n": numpy.array(2), "square": ints([3, 4]), "flat": ints([12])}
    (actual,) = run(model_of(nodes, {"x": x, "v": start}, ["y"], 17, weights), x, start)
    close(actual, start + 2 * x.clip(0).reshape(12))


@pytest.mark.parametrize("backwards", [0, 1])
def test_scan(backwards):
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "row"], ["t"]), helper.make_node("Identity", ["t"], ["o"])],
        "body",
        [onnx.ValueInfoProto(name=name) for name in ("s", "row")],
        [onnx.ValueInfoProto(name=name) for name in ("t", "o")],
    )
    start, x = randn(3), randn(4, 3)
    attributes = {"num_scan_inputs": 1, "scan_input_directions": [backwards], "scan_output_directions": [backwards]}
    node = helper.make_node("Scan", ["s0", "x"], ["last", "all"], body=body, **attributes)
    model = model_of([node], {"s0": start, "x": x}, ["last", "all"], 17)
    last, stacked = run(model, start, x)
    rows = start + numpy.cumsum(x[::-1] if backwards else x, 0)
    close(last, rows[-1])
    close(stacked, rows[::-1] if backwards else rows)


def test_shape_arithmetic_disappears():
    """What exporters make of x.view(n, -1, x.shape[1] * 2 // 2): the graph has one op."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["c"], axis=0),
        helper.make_node("Mul", ["c", "two"], ["d"]),
        helper.make_node("Div", ["d", "two"], ["e"]),
        helper.make_node("Unsqueeze", ["e", "zeros"], ["f"]),
        helper.make_node("Gather", ["s", "nothing"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "zeros"], ["m"]),
        helper.make_node("Concat", ["m", "rest", "f"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    weights = {"one": ints(1), "two": ints(2), "nothing": ints(0), "zeros": ints([0]), "rest": ints([-1])}
    model = model_of(nodes, {"x": (1, ["n", 6, 4])}, ["y"], 17, weights)
    graph = pylayout.onnx.load(model, sizes={"n": 5})
    assert [node["op"] for node in graph.describe()["nodes"]] == ["reshape"]
    assert graph.outputs["y"].shape == (5, 4, 6)


def test_an_op_that_onnx_defines_by_others():
    """No converter, but ONNX has a function for it: SoftmaxCrossEntropyLoss is made of others."""
    scores, labels = randn(3, 5), ints([1, 0, 4])
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "labels"], ["y"])
    model = model_of([node], {"x": scores, "labels": labels}, ["y"], 13)
    assert find("", "SoftmaxCrossEntropyLoss", 13) is None
    close(run(model, scores, labels)[0], reference(model, {"x": scores, "labels": labels})[0])


def test_functions_of_the_model():
    """Two levels, with an attribute handed down, a default, and an optional input left out."""
    inner = helper.make_function(
        "mine", "Scale", ["x", "b"], ["y"],
        [helper.make_node("LeakyRelu", ["x"], ["r"]), helper.make_node("Clip", ["r", "b"], ["y"])],
        [helper.make_opsetid("", 17)], attributes=["alpha"],
    )  # fmt: skip
    reference_attribute = onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    inner.node[0].attribute.append(reference_attribute)
    call = helper.make_node("Scale", ["x"], ["y"], domain="mine")
    call.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    outer = helper.make_function(
        "mine", "Outer", ["x"], ["y"], [call], [helper.make_opsetid("mine", 1)],
        attribute_protos=[helper.make_attribute("slope", 0.5)],
    )  # fmt: skip
    nodes = [
        helper.make_node("Outer", ["x"], ["a"], domain="mine"),
        helper.make_node("Outer", ["x"], ["b"], domain="mine", slope=0.25),
    ]
    x = randn(3, 4)
    model = model_of(nodes, {"x": x}, ["a", "b"], 17, functions=[inner, outer], domains={"mine": 1})
    a, b = run(model, x)
    close(a, numpy.where(x > 0, x, 0.5 * x))
    close(b, numpy.where(x > 0, x, 0.25 * x))


@pytest.mark.skipif("overload" not in onnx.NodeProto.DESCRIPTOR.fields_by_name, reason="an onnx before 1.16")
def test_functions_of_one_name():
    """Which is called, the overload says."""
    functions, nodes = [], []
    for overload, op in (("", "Abs"), ("relu", "Relu"), ("neg", "Neg")):
        body = helper.make_node(op, ["x"], ["y"])
        functions.append(helper.make_function("mine", "F", ["x"], ["y"], [body], [helper.make_opsetid("", 17)]))
        functions[-1].overload = overload
        nodes.append(helper.make_node("F", ["x"], [op], domain="mine", overload=overload))
    x = randn(3, 4)
    model = model_of(nodes, {"x": x}, ["Abs", "Relu", "Neg"], 17, functions=functions, domains={"mine": 1})
    for made, wanted in zip(run(model, x), (numpy.abs(x), x.clip(0), -x), strict=True):
        close(made, wanted)


BAD = [
    (helper.make_node("NoSuchOp", ["x"], ["y"], "n"), pl.UnsupportedError, "ai.onnx NoSuchOp, opset 17"),
    (helper.make_node("Relu", ["x"], ["y"], "n", domain="com.acme"), pl.UnsupportedError, "com.acme Relu"),
    (helper.make_node("Relu", ["x"], ["y"], "n", wrong=1), pl.UnsupportedError, "attribute wrong"),
    (helper.make_node("Relu", ["x", "x"], ["y"], "n"), pl.InvalidArgumentError, "2 inputs, expected 1"),
    (helper.make_node("Relu", [""], ["y"], "n"), pl.InvalidArgumentError, "input 0 is missing"),
    (
        helper.make_node("MaxPool", ["x"], ["v", "y"], "n", kernel_shape=[2, 2], pads=[2] * 4),
        pl.UnsupportedError,
        "Indices",
    ),
    (helper.make_node("MaxPool", ["x"], ["y"], "n", kernel_shape=[2]), pl.ShapeError, "kernel_shape has 1"),
    (helper.make_node("MaxPool", ["x"], ["y"], "n", kernel_shape=[2, 2], strides=[0, 1]), pl.ShapeError, "strides"),
    (helper.make_node("Softmax", ["x"], ["y"], "n", axis=4), pl.ShapeError, "axis is 4, expected -4 to 3"),
    (helper.make_node("Softmax", ["x"], ["y"], "n", axis="a"), pl.InvalidArgumentError, "type STRING, expected INT"),
    (helper.make_node("DepthToSpace", ["x"], ["y"], "n", blocksize=5), pl.ShapeError, "blocksize|channels"),
    (helper.make_node("Resize", ["x", "", "", "x"], ["y"], "n"), pl.UnsupportedError, "must be known"),
    (helper.make_node("Unique", ["x"], ["y"], "n"), pl.UnsupportedError, "has not this op"),
    (helper.make_node("TopK", ["x", "x"], ["y", "z"], "n"), pl.UnsupportedError, "must be known"),
]


@pytest.mark.parametrize(("node", "error", "text"), BAD, ids=lambda v: v if isinstance(v, str) else "")
def test_errors_name_the_node(node, error, text):
    model = model_of([node], {"x": randn(1, 2, 4, 4)}, ["y"], 17, domains={"com.acme": 3})
    with pytest.raises(error, match=text) as found:
        pylayout.onnx.load(model)
    assert 'node "n"' in str(found.value)
    assert node.op_type in str(found.value)
