"""Models that are run by segments: shapes that follow from values, sizes that follow from data, sequences."""

import gc
import itertools
import pathlib

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811
from onnx_models import helper, model_of  # noqa: E402
from together import run_together  # noqa: E402

import pylayout as pl  # noqa: E402
from pylayout.onnx.segments import SegmentedPlan  # noqa: E402
from pylayout.onnx.segments.steps import MOST_RENEWED, Segment  # noqa: E402

INT64, FLOAT, BOOL = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL


def parsed(text):
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]>\n{text}')


def compiled(text):
    return pl.compile(parsed(text), device="cpu", tune="off")


def floats(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("float32")


def integers(*values):
    return numpy.array(values, "int64")


def segments_of(plan):
    return [step for steps in plan._rounds._steps.values() for step in steps if hasattr(step, "variants")]


# ---- values known late (test_late_values.py has a table of ops) ----


def test_one_graph_serves_all_values():
    plan = compiled("agraph (float[n, 6] x, int64[2] v) => (float[a, b] y) { w = Relu(x) y = Reshape(w, v) }")
    assert isinstance(plan, SegmentedPlan)
    for n in range(1, 30):
        x = floats(n, 6, seed=n)
        assert plan.run(x, integers(2 * n, 3))[0].shape == (2 * n, 3)
        assert plan.run({"x": x, "v": integers(3, 2 * n)})[0].shape == (3, 2 * n)
    (segment,) = segments_of(plan)
    assert len(segment.variants) == 1
    assert plan.summary()["plans"][0]["sizes"]["graphs"] == 1


# ---- sizes known after values ----


@pytest.mark.parametrize("first", [8, 100])
def test_numbers_that_lengths_follow_from_are_not_those_of_the_plan(first, monkeypatch):
    """As in a text that is to be spoken: how long each sound is follows from what it is."""
    made = []
    renew = Segment._run_new
    monkeypatch.setattr(Segment, "_run_new", lambda self, arrays: made.append(self) or renew(self, arrays))
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        agraph (int64[n, s] ids) => (float[a] y) <int64 zero = {0}, int64 one = {1}> {
            rows = Gather(table, ids)
            sum = ReduceSum<keepdims = 0>(rows)
            length = Cast<to = 7>(sum)
            places = Range(zero, length, one)
            numbers = Cast<to = 1>(places)
            y = Tanh(numbers)
        }"""
    )
    table = numpy.full((40, 4), 0.25, "f4")
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    plan = pl.compile(model, device="cpu", tune="off")
    for length in (first, *range(4, 100, 9)):
        ids = numpy.random.default_rng(length).integers(0, 40, (1, length))
        numpy.testing.assert_allclose(plan.run(ids)[0], numpy.tanh(numpy.arange(length)), rtol=1e-5)
    assert len(made) <= MOST_RENEWED


def test_sizes_follow_from_data_within_a_network():
    weight = floats(5, 4, seed=2)
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("ReduceMax", ["r"], ["m"], axes=[1], keepdims=0),
        helper.make_node("Greater", ["m", "least"], ["c"]),
        helper.make_node("NonZero", ["c"], ["p"]),
        helper.make_node("Transpose", ["p"], ["q"], perm=[1, 0]),
        helper.make_node("GatherND", ["r", "q"], ["rows"]),
        helper.make_node("MatMul", ["rows", "w"], ["y"]),
        helper.make_node("Shape", ["rows"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["z"]),
        helper.make_node("Concat", ["z", "rows"], ["both"], axis=0),
    ]
    constants = {"w": weight, "least": numpy.array(1.0, "float32")}
    model = model_of(nodes, {"x": (FLOAT, ["n", 5])}, ["y", "both"], 17, constants)
    plan = pl.compile(model, device="cpu", tune="off")
    for n in (1, 9, 30, 2, 9):
        x = floats(n, 5, seed=n)
        r = numpy.maximum(x, 0)
        rows = r[r.max(1) > 1]
        y, both = plan.run(x)
        numpy.testing.assert_allclose(y, rows @ weight, rtol=1e-4, atol=1e-5)
        numpy.testing.assert_array_equal(both, numpy.concatenate([numpy.zeros_like(rows), rows]))
    summary = plan.summary()
    assert summary["host"] == {"NonZero": 1}
    assert summary["segments"] == 2
    assert "NonZero" in plan.explain()


def test_nothing_found_is_an_empty_tensor():
    plan = compiled(
        "agraph (float[n] x) => (float[m] y) { p = NonZero(x) q = Transpose(p) z = GatherND(x, q) y = Relu(z) }"
    )
    assert plan.run(numpy.zeros(4, "float32"))[0].shape == (0,)
    assert plan.run(numpy.array([0, 2, 0, 3], "float32"))[0].tolist() == [2, 3]


def test_a_branch_is_chosen_by_data():
    plan = compiled(
        """agraph (float[n] x) => (float[m] y) {
            s = ReduceSum<keepdims=0>(x)
            zero = Constant<value_float=0.0>()
            c = Greater(s, zero)
            y = If(c) <then_branch = g1 () => (float[m] t) { p = NonZero(x) q = Transpose(p) t = GatherND(x, q) },
                       else_branch = g2 () => (float[m] e) { e = Neg(x) }>
        }"""
    )
    for x in ([1, 0, 2], [-1, 0, -2], [0, 0, 3], [-5, 1, 1]):
        x = numpy.array(x, "float32")
        want = x[x != 0] if x.sum() > 0 else -x
        numpy.testing.assert_array_equal(plan.run(x)[0], want)


def test_a_loop_ends_by_data():
    plan = compiled(
        """agraph (float x, int64 most) => (float y, float[k] steps) {
            yes = Constant<value = bool {1}>()
            y, steps = Loop(most, yes, x) <body = b (int64 i, bool c, float v) => (bool again, float w, float w2) {
                two = Constant<value_float=2.0>()
                limit = Constant<value_float=100.0>()
                w = Mul(v, two)
                again = Less(w, limit)
                w2 = Identity(w)
            }>
        }"""
    )
    for start, most in ((3.0, 50), (90.0, 50), (3.0, 2), (1.0, 50), (1.0, 0)):
        want, steps = start, []
        while len(steps) < most:
            want *= 2
            steps.append(want)
            if want >= 100:
                break
        y, got = plan.run(numpy.array(start, "float32"), numpy.array(most))
        assert float(y) == want and got.tolist() == steps


def test_sequences_come_and_go():
    plan = compiled(
        """agraph (float[n] x, int64 at) => (float[m] y, int64 count) {
            a = Neg(x)
            s = SequenceConstruct(x, a)
            t = SequenceInsert(s, a, at)
            y = ConcatFromSequence<axis=0>(t)
            count = SequenceLength(t)
        }"""
    )
    x = floats(3)
    y, count = plan.run(x, numpy.array(0))
    numpy.testing.assert_array_equal(y, numpy.concatenate([-x, x, -x]))
    assert count == 3
    with pytest.raises(pl.InvalidArgumentError, match="SequenceInsert: position is 7"):
        plan.run(x, numpy.array(7))


def best_boxes(boxes, scores, most, overlap, least):
    """The definition, one box after the other."""
    kept = []
    for k in sorted(range(len(scores)), key=lambda k: (-scores[k], k)):
        if scores[k] <= least or len(kept) == most:
            continue

        def common(j, k=k):
            low = numpy.maximum(boxes[j, :2], boxes[k, :2])
            high = numpy.minimum(boxes[j, 2:], boxes[k, 2:])
            both = numpy.prod(numpy.maximum(high - low, 0))
            return both / (numpy.prod(boxes[j, 2:] - boxes[j, :2]) + numpy.prod(boxes[k, 2:] - boxes[k, :2]) - both)

        if all(common(j) <= overlap for j in kept):
            kept.append(k)
    return kept


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(0, 30), most=st.integers(0, 9))
def test_boxes_are_suppressed_by_the_definition(suppression, seed, n, most):
    rng = numpy.random.default_rng(seed)
    corners = rng.random((1, n, 2)).astype("float32")
    boxes = numpy.concatenate([corners, corners + rng.random((1, n, 2)).astype("float32") + 0.01], -1)
    scores = rng.random((1, 2, n)).astype("float32")
    got = suppression.run(boxes, scores, numpy.array([most]))[0]
    want = [[0, kind, k] for kind in range(2) for k in best_boxes(boxes[0], scores[0, kind], most, 0.4, 0.2)]
    assert got.tolist() == want


@pytest.fixture(scope="module")
def suppression():
    nodes = [helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["y"])]
    constants = {"overlap": numpy.array([0.4], "float32"), "least": numpy.array([0.2], "float32")}
    inputs = {"boxes": (FLOAT, [1, "n", 4]), "scores": (FLOAT, [1, 2, "n"]), "most": (INT64, [1])}
    return pl.compile(model_of(nodes, inputs, ["y"], 17, constants), device="cpu", tune="off")


def test_a_detector_gives_what_onnxruntime_gives():
    onnxruntime = pytest.importorskip("onnxruntime")
    make = helper.make_node
    nodes = [
        make("Conv", ["x", "w"], ["f"], kernel_shape=[3, 3], strides=[4, 4], pads=[1, 1, 1, 1]),
        make("Reshape", ["f", "flat"], ["r"]),
        make("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        make("Split", ["t", "parts"], ["b", "s"], axis=2),
        make("Sigmoid", ["b"], ["boxes"]),
        make("Sigmoid", ["s"], ["p"]),
        make("Transpose", ["p"], ["scores"], perm=[0, 2, 1]),
        make("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["found"], center_point_box=1),
        make("Slice", ["found", "one", "three", "one"], ["pair"]),
        make("Gather", ["found", "two"], ["place"], axis=1),
        make("Squeeze", ["boxes", "zero"], ["all_boxes"]),
        make("Gather", ["all_boxes", "place"], ["best"]),
        make("Squeeze", ["scores", "zero"], ["all_scores"]),
        make("GatherND", ["all_scores", "pair"], ["how_sure"]),
        make("Softmax", ["best"], ["y"], axis=1),
    ]
    constants = {
        "w": floats(7, 3, 3, 3, seed=4), "flat": integers(1, 7, -1), "parts": integers(4, 3), "most": integers(20),
        "overlap": numpy.array([0.3], "float32"), "least": numpy.array([0.4], "float32"), "zero": integers(0),
        "one": integers(1), "three": integers(3), "two": numpy.array(2),
    }  # fmt: skip
    model = model_of(nodes, {"x": (FLOAT, [1, 3, "h", "w"])}, [], 17, constants)
    for name, kind in {"found": INT64, "best": FLOAT, "how_sure": FLOAT, "y": FLOAT}.items():
        model.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    plan = pl.compile(model, device="cpu", tune="off")
    for h, w in ((32, 32), (40, 24), (8, 8), (33, 50), (32, 32)):
        x = floats(1, 3, h, w, seed=h)
        for got, want in zip(plan.run(x), session.run(None, {"x": x}), strict=True):
            assert got.shape == want.shape
            numpy.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert plan.summary()["host"] == {"NonMaxSuppression": 1}


def test_many_sizes_found_in_data_keep_memory():
    plan = compiled(
        "agraph (float[n] x) => (float[m] y) { p = NonZero(x) q = Transpose(p) z = GatherND(x, q) y = Exp(z) }"
    )

    def run(first, end):
        for n in range(first, end):
            plan.run(numpy.ones(n % 997, "float32"))
        gc.collect()
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = run(0, 1500)
    assert run(1500, 4000) - before < 64 << 20


def test_types_that_the_library_has_not_are_computed_on_the_host():
    plan = compiled("agraph (double[n] x, double[n] y) => (double[n] z) { s = Add(x, y) z = Mul(s, y) }")
    x, y = numpy.arange(3.0) + 1e-12, numpy.full(3, 2.0)
    z = plan.run(x, y)[0]
    assert z.dtype == numpy.float64
    numpy.testing.assert_array_equal(z, (x + y) * y)


def softmax(x):
    powers = numpy.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


OF_ALL_OTHER_TYPES = {
    "y = Transpose(x)": lambda x: x.T,
    "y = Concat <axis = 1> (x, x)": lambda x: numpy.concatenate([x, x], 1),
    "k = Constant <value_ints = [2, 0]> () y = Gather(x, k)": lambda x: x[[2, 0]],
    "k = Constant <value_ints = [-1]> () f = Reshape(x, k) y = ReduceSum <keepdims = 0> (f)": lambda x: x.sum(),
    "y = ReduceMax <keepdims = 0> (x)": lambda x: x.max(),
    "e = Unsqueeze(x, zero) y = Expand(e, two)": lambda x: numpy.stack([x, x]),
}
OF_DOUBLES = {
    "t = Transpose(x) y = MatMul(x, t)": lambda x: x @ x.T,
    "t = Transpose(x) y = Gemm <alpha = 0.5> (x, t)": lambda x: x @ x.T * x.dtype.type(0.5),
    "y = Softmax(x)": softmax,
    "s = Sigmoid(x) t = Tanh(x) y = Sub(s, t)": lambda x: 1 / (1 + numpy.exp(-x)) - numpy.tanh(x),
}


@pytest.mark.parametrize(
    ("nodes", "dtype"),
    [
        *itertools.product(OF_ALL_OTHER_TYPES, ["double", "uint16", "uint64"]),
        *itertools.product(OF_DOUBLES, ["double"]),
    ],
)
def test_movement_and_products_in_types_that_no_plan_has(nodes, dtype, tmp_path):
    expected = {**OF_ALL_OTHER_TYPES, **OF_DOUBLES}[nodes]
    constants = "<int64[1] zero = {0}, int64[3] two = {2, 1, 1}>"
    plan = compiled(f"agraph ({dtype}[n, m] x) => ({dtype} y) {constants} {{ {nodes} }}")
    for x in (numpy.arange(12).reshape(3, 4), numpy.arange(35).reshape(5, 7) % 6):
        x = x.astype("float64" if dtype == "double" else dtype)
        plan.save(tmp_path / "plan")
        for each in (plan, pl.load_plan(tmp_path / "plan")):
            y = each.run(x)[0]
            assert y.dtype == x.dtype
            numpy.testing.assert_allclose(y, expected(x), rtol=1e-14)


def test_what_exporters_cast_to_double_runs():
    """PyTorch writes isinf as a cast to double and IsInf."""
    plan = compiled(
        "agraph (float[n] x) => (float[n] y, bool[n] above, double[n] root)"
        " { wide = Cast <to = 11> (x) inf = IsInf(wide) above = IsInf <detect_negative = 0> (wide)"
        " nan = IsNaN(wide) odd = Or(inf, nan) zero = Sub(x, x) y = Where(odd, zero, x)"
        " size = Abs(wide) root = Sqrt(size) }"
    )
    x = numpy.array([1, -numpy.inf, numpy.inf, numpy.nan, -2], "float32")
    y, above, root = plan.run(x)
    numpy.testing.assert_array_equal(y, [1, numpy.nan, numpy.nan, numpy.nan, -2])
    numpy.testing.assert_array_equal(above, [False, False, True, False, False])
    numpy.testing.assert_array_equal(root, numpy.sqrt(numpy.abs(x.astype("float64"))))


def test_threads_run_at_once():
    plan = compiled(
        "agraph (float[n] x) => (float[m] y) { p = NonZero(x) q = Transpose(p) z = GatherND(x, q) y = Exp(z) }"
    )

    def work(seed):
        for step in range(20):
            x = numpy.maximum(floats(5 + step, seed=seed * 100 + step), 0)
            numpy.testing.assert_allclose(plan.run(x)[0], numpy.exp(x[x != 0]), rtol=1e-5)

    run_together(work)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agraph (string[n] x) => (int64 y) { y = Size(x) }", "STRING"),
        (
            "agraph (float[n] x) => (float[n] y) { y = TensorScatter(x, x) }",
            "TensorScatter.*pylayout has not this op",
        ),
        ("agraph (double[n] x) => (double[n] y) { y = Erf(x) }", "Erf.*float64"),
    ],
)
def test_what_is_refused_is_named(text, message):
    with pytest.raises(pl.UnsupportedError, match=message):
        compiled(text).run(numpy.ones(3))


def test_quantised_values_of_segments():
    """Between what follows from data: integers with a scale, which products take as they are."""
    w = numpy.arange(-6, 6).reshape(4, 3)
    plan = compiled(
        f"""agraph (float[n, 4] x) => (float[k, 3] y) {{
        one = Constant<value = float {{0.25}}>() zero = Constant<value = int8 {{1}}>()
        none = Constant<value = int8 {{0}}>()
        w = Constant<value = int8[4, 3] {{{", ".join(map(str, w.reshape(-1)))}}}>()
        axes = Constant<value_ints = [1]>() first = ReduceMax<keepdims = 0>(x, axes)
        places = NonZero(first) rows = Transpose(places) found = GatherND(x, rows)
        q = QuantizeLinear(found, one, zero) d = DequantizeLinear(q, one, zero)
        v = DequantizeLinear(w, one, none) y = MatMul(d, v)
        }}"""
    )
    for rows in (3, 8, 5):
        x = numpy.maximum(floats(rows, 4), 0) * (numpy.arange(rows)[:, None] % 3 != 1)
        found = x[x.max(1) != 0].astype("float64")
        q = numpy.clip(numpy.rint(found / 0.25) + 1, -128, 127)
        numpy.testing.assert_allclose(plan.run(x.astype("float32"))[0], (q - 1) * 0.25 @ (w * 0.25), rtol=1e-6)


def test_what_belongs_to_one_plan_is_refused():
    plan = compiled("agraph (float[n] x) => (int64[a, b] y) { y = NonZero(x) }")
    assert plan.inputs == [{"name": "x", "dtype": "f32", "shape": ["n"], "axes": ["n"]}]
    for use in (lambda: plan.graph(), lambda: plan.state("x")):
        with pytest.raises(pl.UnsupportedError, match="run by segments"):
            use()
    with pytest.raises(pl.InvalidArgumentError, match='there is no input "z", expected x'):
        plan.run({"z": floats(3)})
    assert numpy.asarray(plan(pl.asarray(numpy.array([0, 1], "float32")))).tolist() == [[1]]


def test_an_op_that_no_segment_has_is_named():
    """What is refused first, a size that follows from data, would be none of it."""
    text = """agraph (float[n] x) => (float[m] y) {
        places = NonZero(x)
        noise = TensorScatter(x, x)
        rows = Transpose(places)
        y = GatherND(noise, rows)
    }"""
    with pytest.raises(pl.UnsupportedError, match=r"NonZero.*pylayout has not ai\.onnx TensorScatter"):
        pl.compile(parsed(text), device="cpu", tune="off")
