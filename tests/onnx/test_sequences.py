"""Sequences whose members are known at import: one plan holds the model, and gradients go through it."""

import numpy
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import pylayout as pl
import pylayout.onnx
from pylayout.onnx.segments import SegmentedPlan


def model_of(text):
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}')


def floats(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("float32")


def compiled(model):
    plan = pl.compile(model, device="cpu", tune="off")
    return plan, isinstance(plan, SegmentedPlan)


# The bodies of models of x: (n, 6, 5), each with a sequence that has a member at least, s.
MADE = {
    "constructed": "a = Neg(x) s = SequenceConstruct(x, a, x)",
    "filled": """e = SequenceEmpty() a = Neg(x) t = SequenceInsert(e, x) u = SequenceInsert(t, a, first)
                 s = SequenceInsert(u, x, last)""",
    "filled in between": "a = Neg(x) t = SequenceConstruct(x, x) s = SequenceInsert(t, a, one)",
    "erased": "a = Neg(x) t = SequenceConstruct(x, a, a) u = SequenceErase(t, last) s = SequenceErase(u)",
    "split into rows": "s = SplitToSequence<axis=1>(x)",
    "split into rows without an axis": "s = SplitToSequence<axis=-1, keepdims=0>(x)",
    "split evenly": "s = SplitToSequence<axis=2, keepdims=0>(x, two)",
    "split by sizes": "s = SplitToSequence<axis=2>(x, sizes)",
    "of constants": "t = SplitToSequence<axis=0>(w, two) v = SequenceAt(t, one) b = Add(x, v) s = SequenceConstruct(b)",
    "named twice": "t = SequenceConstruct(x, x) s = Identity(t)",
    "of a branch": """t = SequenceConstruct(x) s = If(yes) <then_branch = g1 () => (seq(float[a, b, c]) u) {
                        y1 = Exp(x) u = SequenceInsert(t, y1) },
                      else_branch = g2 () => (seq(float[a, b, c]) v) { v = Identity(t) }>""",
    "of a loop": """e = SequenceEmpty() s = Loop(two, yes, e) <body = b (int64 i, bool c, seq(float[a, b, d]) t) =>
                      (bool again, seq(float[a, b, d]) u) {
                        again = Identity(c) f = Cast<to=1>(i) y1 = Add(x, f) u = SequenceInsert(t, y1) }>""",
    "of a map": """a = Neg(x) t = SequenceConstruct(x, a) q = SequenceConstruct(a, a)
                   s = SequenceMap(t, q, row) <body = b (float[a, b, c] p, float[a, b, c] r, float[5] k) =>
                     (float[a, b, c] y1) { m = Mul(p, r) y1 = Add(m, k) }>""",
}
# What is made of it.
USED = {
    "places": "first_one = SequenceAt(s, first) last_one = SequenceAt(s, last) y = Sub(first_one, last_one)",
    "joined": "y = ConcatFromSequence<axis=-1>(s)",
    "stacked": "y = ConcatFromSequence<axis=-1, new_axis=1>(s)",
    "counted": "k = SequenceLength(s) f = Cast<to=1>(k) y = Mul(x, f)",
}
# ONNX's evaluator has no SequenceMap of several sequences: the same without.
PLAIN = {
    "of a map": "a = Neg(x) m = Mul(x, a) u = Add(m, row) q = Mul(a, a) v = Add(q, row) s = SequenceConstruct(u, v)"
}
UNEVEN = {"split evenly", "split by sizes"}  # their parts differ in size


def sequence_model(body, used):
    return model_of(
        f"""agraph (float[n, 6, 5] x) => (float[p, q, r] y)
            <int64 first = {{0}}, int64 last = {{-1}}, int64 one = {{1}}, int64 two = {{2}}, bool yes = {{1}},
             int64[3] sizes = {{1, 3, 1}}, float[5] row = {{1, 2, 3, 4, 5}},
             float[4, 1, 5] w = {{{", ".join(str(i / 8) for i in range(20))}}}> {{ {body} {USED[used]} }}"""
    )


@pytest.mark.parametrize("used", USED)
@pytest.mark.parametrize("made", MADE)
def test_one_plan_holds_a_sequence(made, used):
    if made in UNEVEN and used in ("places", "stacked"):
        pytest.skip("parts of several sizes")
    plan, by_segments = compiled(sequence_model(MADE[made], used))
    assert not by_segments
    evaluator = ReferenceEvaluator(sequence_model(PLAIN.get(made, MADE[made]), used))
    for n in (1, 2):
        x = floats(n, 6, 5, seed=n)
        (want,) = evaluator.run(None, {"x": x})
        numpy.testing.assert_allclose(plan.run(x)[0], want, rtol=1e-6, atol=1e-6)
    assert plan.summary()["sizes"]["graphs"] == 1  # all sizes are of one import


def test_a_place_may_be_behind_the_last_one():
    """ONNX's evaluator takes the length for the first place."""
    model = model_of(
        """agraph (float[n, 4] x) => (float[m, 4] y) <int64 one = {1}> {
             a = Neg(x) s = SequenceConstruct(x) t = SequenceInsert(s, a, one) y = ConcatFromSequence<axis=0>(t) }"""
    )
    x = floats(3, 4)
    numpy.testing.assert_array_equal(compiled(model)[0].run(x)[0], numpy.concatenate([x, -x]))


def test_a_length_may_follow_from_a_size():
    """As the count of a loop: other sizes are imported again."""
    model = model_of(
        """agraph (float[n, 4] x) => (float[m, 4] y, int64 k) <int64 zero = {0}> {
             s = SplitToSequence(x) a = SequenceAt(s, zero) t = SequenceInsert(s, a) k = SequenceLength(t)
             y = ConcatFromSequence<axis=0>(t) }"""
    )
    plan, by_segments = compiled(model)
    assert not by_segments
    for n in (3, 1, 5, 3):
        x = floats(n, 4)
        y, k = plan.run(x)
        numpy.testing.assert_array_equal(y, numpy.concatenate([x, x[:1]]))
        assert k == n + 1
    with pytest.raises(pl.UnsupportedError, match="it was made for sizes where"):
        pl.onnx.load(model, sizes={"n": 3}).bind(n=4)


def test_long_sequences_are_lists_on_the_host():
    model = model_of(
        """agraph (float[2000, 2] x) => (float[m, 2] y) {
             s = SplitToSequence(x) t = SequenceErase(s) y = ConcatFromSequence<axis=0>(t) }"""
    )
    plan, by_segments = compiled(model)
    assert by_segments
    x = floats(2000, 2)
    numpy.testing.assert_array_equal(plan.run(x)[0], x[:-1])


def test_what_data_say_stays_a_list():
    """Of a sequence that is made in a segment and read at a place that data give; and of one that data cut."""
    model = model_of(
        """agraph (float[n, 4] x, int64 at) => (float[m, 4] y, float[a, b] z)
           <int64 zero = {0}> {
             h = Neg(x) s = SequenceConstruct(x, h) y = SequenceAt(s, at)
             places = NonZero(x) t = SplitToSequence<axis=1>(places) p = SequenceAt(t, zero) z = Cast<to=1>(p)
           }"""
    )
    plan, by_segments = compiled(model)
    assert by_segments
    for n, at in ((2, 0), (3, 1), (2, -1), (5, 0)):
        x = floats(n, 4, seed=n) + 3
        y, z = plan.run(x, numpy.array(at))
        numpy.testing.assert_array_equal(y, [x, -x][at])
        assert z.tolist() == [[0], [0]]
    assert plan.summary()["host"].keys() >= {"SequenceConstruct", "SequenceAt"}
    with pytest.raises(pl.InvalidArgumentError, match="SequenceAt: position is 2"):
        plan.run(floats(2, 4), numpy.array(2))


def test_a_sequence_is_given_as_a_list():
    model = model_of(
        "agraph (float[n, 6] x) => (seq(float[n, p]) s) <int64 two = {2}> { s = SplitToSequence<axis=1>(x, two) }"
    )
    plan, by_segments = compiled(model)
    assert by_segments
    x = floats(3, 6)
    for got, want in zip(plan.run(x)[0], numpy.split(x, 3, 1), strict=True):
        numpy.testing.assert_array_equal(got, want)
    with pytest.raises(pl.UnsupportedError, match="output 's' is a sequence, expected a tensor"):
        pl.onnx.load(model)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("s = SequenceConstruct(x, x) y = SequenceAt(s, two)", r"SequenceAt.*position is 2, of 2 elements"),
        ("s = SequenceConstruct(x, x) t = SequenceInsert(s, x, three) y = SequenceAt(t, two)", "position is 3, of 2"),
        ("s = SequenceEmpty() t = SequenceErase(s) y = SequenceAt(t, two)", "position is -1, of 0"),
        ("s = SequenceEmpty() y = ConcatFromSequence<axis=0>(s)", "the sequence is empty"),
        ("y = SequenceAt(x, two)", "input 0 is a tensor, expected a sequence"),
        ("s = SequenceConstruct(x) y = Neg(s)", "input 0 is a sequence, expected a tensor"),
        ("s = SplitToSequence(x, zero) y = SequenceAt(s, two)", "split is 0, expected at least 1"),
        (
            "s = SplitToSequence<axis=1>(x, sizes) y = SequenceAt(s, two)",
            r"split is \[1, 2\], expected sizes whose sum",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(body, told):
    model = model_of(
        f"""agraph (float[n, 4] x) => (float[a, b] y)
            <int64 zero = {{0}}, int64 two = {{2}}, int64 three = {{3}}, int64[2] sizes = {{1, 2}}> {{ {body} }}"""
    )
    with pytest.raises((pl.InvalidArgumentError, pl.ShapeError), match=told):
        pl.onnx.load(model)


# ---- training ----

PROJECTED = "qkv = MatMul(x, w) {} p = Mul(q, k) h = Sub(p, v) y = MatMul(h, head)"
SPLIT = PROJECTED.format("q, k, v = Split<axis=2>(qkv, sizes)")
SEQUENCE = PROJECTED.format(
    "s = SplitToSequence<axis=2>(qkv, four) q = SequenceAt(s, zero) k = SequenceAt(s, one) v = SequenceAt(s, two)"
)


def projected(body, n=2):
    model = model_of(
        f"""agraph (float[n, 3, 6] x) => (float[n, 3, 2] y)
            <int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64 four = {{4}}, int64[3] sizes = {{4, 4, 4}},
             float[6, 12] w = {{{", ".join(f"{v:.4f}" for v in floats(72, seed=4))}}},
             float[4, 2] head = {{{", ".join(f"{v:.4f}" for v in floats(8, seed=5))}}}> {{ {body} }}"""
    )
    graph = pl.onnx.load(model, sizes={"n": n}).trainable()
    loss = graph.mean(graph.square(graph.outputs["y"]))
    for name, gradient in zip(graph.parameters, graph.gradients(loss, list(graph.parameters.values())), strict=True):
        graph.output(gradient, name)
    return graph


def test_gradients_go_through_sequences():
    """Against the same model with Split, and float64, at the size of the graph and at another."""
    for n in (2, 5):
        x = floats(n, 3, 6, seed=n)
        made = projected(SEQUENCE)
        assert list(made.parameters) == ["w", "head"]
        got = pl.compile(made, tune="off", device="cpu").run(x)
        for a, b in zip(got, pl.compile(projected(SPLIT, n), tune="off", device="cpu").run(x), strict=True):
            numpy.testing.assert_array_equal(a, b)
        w, head = (numpy.array([float(f"{v:.4f}") for v in floats(c, seed=s)], "float64") for c, s in ((72, 4), (8, 5)))
        w, head, wide = w.reshape(6, 12), head.reshape(4, 2), x.astype("float64")
        q, k, v = numpy.split(wide @ w, 3, 2)
        dy = 2 * ((q * k - v) @ head) / (n * 6)
        dh = dy @ head.T
        dw = numpy.einsum("nsi,nsj->ij", wide, numpy.concatenate([dh * k, dh * q, -dh], 2))
        numpy.testing.assert_allclose(got[1], dw, rtol=0, atol=1e-4)
        numpy.testing.assert_allclose(got[2], numpy.einsum("nsi,nsj->ij", q * k - v, dy), rtol=0, atol=1e-4)


def test_weights_in_sequences_are_parameters():
    model = model_of(
        """agraph (float[n, 2] x) => (float[n, 2] y)
           <int64 one = {1}, float[2, 2] a = {1, 2, 3, 4}, float[2, 2] b = {2, 3, 4, 5}> {
             s = SequenceConstruct(a, b) w = SequenceAt(s, one) t = MatMul(x, w) y = Relu(t) }"""
    )
    assert list(pl.onnx.load(model).trainable().parameters) == ["b"]
