"""Ops that ONNX Runtime's optimiser fuses, against what they stand for in float64."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811
from fused_cases import CASES, COS, DOMAIN, KINDS, PAST, QKV, SELF, SIN, TABLES, WORDS, Case, i32  # noqa: E402
from onnx_cases import ints, positive, randn  # noqa: E402
from onnx_models import close, run  # noqa: E402

import pylayout as pl  # noqa: E402
import pylayout.onnx  # noqa: E402
from pylayout.onnx.registry import converters  # noqa: E402


def compare(actual: list[Any], wanted: list[Any], tolerance: float = 2e-5) -> None:
    assert len(actual) == len(wanted)
    for mine, theirs in zip(actual, wanted, strict=True):
        free = numpy.isnan(theirs) if theirs.dtype.kind == "f" else numpy.zeros(theirs.shape, bool)
        assert not free.all() or not free.size
        assert mine.shape == theirs.shape
        close(numpy.where(free, 0, mine), numpy.where(free, 0, theirs), tolerance)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("constant", [False, True], ids=["inputs", "constants"])
def test_against_numpy(case: Case, constant: bool) -> None:
    model, feeds = case.model(constant)
    compare(run(model, *feeds.values()), case.wanted())


HALF = {"Attention", "MultiHeadAttention", "GroupQueryAttention", "RotaryEmbedding", "SkipLayerNormalization"}


@pytest.mark.parametrize("case", [case for case in CASES if case.op in HALF], ids=str)
def test_in_16_bits(case: Case) -> None:
    rounded = [x.astype("f2").astype("f4") if getattr(x, "dtype", None) == numpy.float32 else x for x in case.inputs]
    case = Case(case.op, rounded, case.attributes, case.known, case.outputs, "float16")
    model, feeds = case.model(False)
    made = run(model, *feeds.values())
    assert made[0].dtype == numpy.float16
    compare(made, case.wanted(), 2e-2)


def test_every_converter_has_a_case() -> None:
    modules = {"pylayout.onnx.convert.fused", "pylayout.onnx.convert.fused_attention"}
    named = {entry.op for entries in converters().values() for entry in entries if entry.function.__module__ in modules}
    named |= {"Trilu", "LayerNormalization"}  # functions of ONNX's own ops
    assert named == {case.op for case in CASES}


def parsed(text: str, **weights: Any) -> Any:
    """A model of the text of a graph, with initialisers."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17, "{DOMAIN}" : 1]> {text}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def ops_of(plan: Any) -> list[str]:
    return [step["op"] for step in plan.summary()["steps"] if step["kind"] == "op"]


# ---- what grows, and sizes known late ----

ANGLES = numpy.arange(200)[:, None] * 0.7 ** numpy.arange(8)
ROTARY = {"cos": numpy.cos(ANGLES).astype("f4"), "sin": numpy.sin(ANGLES).astype("f4")}
GROUPS = """agraph (float[1, steps, 128] x, float[1, 2, past, 16] pk, float[1, 2, past, 16] pv)
    => (float[1, steps, 64] y, float[1, 2, now, 16] k, float[1, 2, now, 16] v) {
        ps = Shape(pk) two = Constant<value_int=2>() one = Constant<value_int=1>() p = Gather<axis=0>(ps, two)
        xs = Shape(x) s = Gather<axis=0>(xs, one) long = Add(p, s) total = Cast<to=6>(long)
        less = Sub(long, one) shape = Constant<value_ints=[1]>() few = Reshape(less, shape) ends = Cast<to=6>(few)
        y, k, v = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2, do_rotary=1>(
            x, , , pk, pv, ends, total, cos, sin)
    }"""
MANY = """agraph (float[1, steps, 12] x, float[1, 3, past, 4] pk, float[1, 3, past, 4] pv)
    => (float[1, steps, 12] y, float[1, 3, now, 4] k, float[1, 3, now, 4] v) {
        y, k, v = com.microsoft.MultiHeadAttention<num_heads=3, unidirectional=1>(x, x, x, , , , pk, pv)
    }"""
PACKED = """agraph (float[1, steps, 16] x, float[2, 1, 3, past, 4] p)
    => (float[1, steps, 12] y, float[2, 1, 3, now, 4] k) {
        y, k = com.microsoft.Attention<num_heads=3, unidirectional=1>(x, w, b, , p)
    }"""


def group_feeds(x: Any, past: list[Any]) -> Case:
    total = past[0].shape[2] + x.shape[1]
    inputs = [x, None, None, *past, i32([total - 1]), i32(total), *ROTARY.values()]
    return Case("GroupQueryAttention", inputs, {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}, (), (0, 1, 2))


def many_feeds(x: Any, past: list[Any]) -> Case:
    return Case(
        "MultiHeadAttention", [x, x, x, None, None, None, *past], {"num_heads": 3, "unidirectional": 1}, (), (0, 1, 2)
    )


def packed_feeds(x: Any, past: list[Any]) -> Case:
    return Case("Attention", [x, *QKV[1:], None, *past], {"num_heads": 3, "unidirectional": 1}, (), (0, 1))


GROWING = {
    "groups": (GROUPS, ROTARY, group_feeds, 128, [(1, 2, 0, 16)] * 2),
    "many": (MANY, {}, many_feeds, 12, [(1, 3, 0, 4)] * 2),
    "packed": (PACKED, {"w": QKV[1], "b": QKV[2]}, packed_feeds, 16, [(2, 1, 3, 0, 4)]),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_decoder_s_past_grows(name: str) -> None:
    text, weights, case_of, width, shapes = GROWING[name]
    plan = pl.compile(parsed(text, **weights), device="cpu", tune="off")
    plan._graph_for = None  # one graph serves all lengths
    past = exact = [numpy.zeros(shape, "f4") for shape in shapes]
    for i in range(13):
        x = randn(1, 4 if i == 0 else 1, width)
        wanted = case_of(x, exact).wanted()
        y, *past = plan.run(x, *past)
        compare([y, *past], wanted, 5e-5)
        exact = [part.astype("f4") for part in wanted[1:]]
    sizes = plan.summary()["sizes"]
    assert sizes["growing"] == "past" and sizes["made"] <= 3


MASKED = """agraph (float[n, steps, 128] x, int64[n, total] mask, float[n, 2, past, 16] pk, float[n, 2, past, 16] pv)
    => (float[n, steps, 64] y, float[n, 2, now, 16] k, float[n, 2, now, 16] v) {
        shape = Shape(mask) one = Constant<value_int=1>() long = Gather<axis=0>(shape, one) total = Cast<to=6>(long)
        axes = Constant<value_ints=[1]>() sums = ReduceSum<keepdims=0>(mask, axes)
        less = Sub(sums, one) ends = Cast<to=6>(less)
        y, k, v = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2, do_rotary=1>(
            x, , , pk, pv, ends, total, cos, sin)
    }"""


@pytest.mark.parametrize("room", [None, 12], ids=["joined", "buffer"])
def test_sequences_by_a_mask_of_any_sizes(room: int | None) -> None:
    """As onnxruntime-genai writes it: lengths from a mask, the past longer each time or a buffer with room."""
    plan = pl.compile(parsed(MASKED, **ROTARY), device="cpu", tune="off")
    rng = numpy.random.default_rng(4)
    for n, lengths in ((1, [5]), (3, [5, 3, 4]), (2, [4, 4])):
        past = [rng.standard_normal((n, 2, room or 0, 16)).astype("f4") for _ in range(2)]
        ends, steps = numpy.asarray(lengths), max(lengths)
        for _ in range(3):
            total = int(ends.max())
            x = rng.standard_normal((n, steps, 128)).astype("f4")
            mask = (numpy.arange(total) < ends[:, None]).astype("i8")
            case = group_feeds(x, past)
            case.inputs[5:7] = [i32(ends - 1), i32(total)]
            wanted = case.wanted()
            y, *made = plan.run(x, mask, *past)
            compare([y, *made], wanted, 5e-5)
            past, steps, ends = made, 1, ends + 1


def test_a_past_whose_length_a_mask_says_grows() -> None:
    """64 lengths of one sequence, as onnxruntime-genai writes it; a shorter past again, and a prompt behind another."""
    plan = pl.compile(parsed(MASKED, **ROTARY), device="cpu", tune="off")
    given: list[Any] = [[numpy.zeros((1, 2, 0, 16), "f4")] * 2]
    exact = list(given)
    for i in range(70):
        at = {66: 20, 67: 20, 68: 64}.get(i, -1)
        past, steps = given[at], {0: 5, 67: 7}.get(i, 1)
        total = past[0].shape[2] + steps
        x = randn(1, steps, 128)
        case = group_feeds(x, exact[at])
        case.inputs[5:7] = [i32([total - 1]), i32(total)]
        wanted = case.wanted()
        y, *made = plan.run(x, numpy.ones((1, total), "i8"), *past)
        compare([y, *made], wanted, 5e-5)
        given.append(made)
        exact.append([part.astype("f4") for part in wanted[1:]])
    sizes = plan.summary()["sizes"]
    assert sizes["growing"] == "past"
    # The prompt alone, one of 7 behind a past, and one more each for a first and a second 64 places.
    assert sizes["made"] <= 5 and sizes["graphs"] <= 3


def test_a_length_that_is_an_input() -> None:
    """A total_sequence_length that comes with a run is a size."""
    model = parsed(
        """agraph (float[1, s, 128] x, float[1, 2, past, 16] pk, float[1, 2, past, 16] pv, int32[1] ends, int32 total)
        => (float[1, s, 64] y) {
            y, k, v = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2>(x, , , pk, pv, ends, total)
        }"""
    )
    with pytest.raises(pylayout.onnx.ValueNeeded, match=r"input 6 must be known .* 'total'"):
        pylayout.onnx.load(model)
    plan = pl.compile(model, device="cpu", tune="off")
    for steps, before in ((3, 4), (1, 7), (5, 0)):
        x, past = randn(1, steps, 128), [randn(1, 2, before, 16), randn(1, 2, before, 16)]
        case = group_feeds(x, past)
        case.attributes, case.inputs[7:], case.outputs = {"num_heads": 4, "kv_num_heads": 2}, [], (0,)
        compare(plan.run(x, *past, *case.inputs[5:7]), case.wanted())


BERT = """agraph (int32[n, s] words, int32[n, s] kinds, int32[n, s] mask) => (float[n, s, 8] y) {
        e, index = com.microsoft.EmbedLayerNormalization(words, kinds, word, place, kind, gamma, beta, mask)
        a = com.microsoft.Attention<num_heads=2>(e, w, b, index)
        y = com.microsoft.SkipLayerNormalization(a, e, gamma, beta)
    }"""


def test_a_layer_serves_any_sizes() -> None:
    tables = [TABLES[0], randn(64, 8), *TABLES[2:]]
    words = dict(zip(("word", "place", "kind", "gamma", "beta"), tables, strict=True))
    w, b = randn(8, 24), randn(24)
    plan = pl.compile(parsed(BERT, **words, w=w, b=b), device="cpu", tune="off")
    plan._graph_for = None
    for n, s in ((2, 4), (1, 6), (3, 2)):
        ids, kinds = numpy.resize(WORDS, (n, s)), numpy.resize(KINDS, (n, s))
        mask = i32(numpy.arange(s) < 1 + numpy.arange(n)[:, None])
        inputs = [ids, kinds, *tables, mask]
        e, index = Case("EmbedLayerNormalization", inputs, {}, (), (0, 1)).wanted()
        a = Case("Attention", [e, w, b, index], {"num_heads": 2}).wanted()[0]
        wanted = Case("SkipLayerNormalization", [a, e, *TABLES[3:]]).wanted()
        compare(plan.run(ids, kinds, mask), wanted)


# ---- what passes see ----


def test_attention_and_rotary_embeddings_are_ops_of_their_own() -> None:
    plan = pl.compile(parsed(GROUPS, **ROTARY), device="cpu", tune="off", sizes={"steps": 3, "past": 5})
    found = ops_of(plan)
    assert found.count("scaled_dot_product_attention") == 1 and found.count("rotary_embedding") in (1, 2)
    assert not {"softmax", "matmul"} & set(found)


# ---- what is refused ----

FEW = [randn(1, 5, 64), randn(1, 5, 32), randn(1, 5, 32), None, None, i32([4]), i32(5)]
GROUP = {"num_heads": 4, "kv_num_heads": 2}
HEADS = {"num_heads": 3}


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("Attention", [*QKV], {**HEADS, "do_rotary": 1}, "attribute do_rotary is 1, expected 0"),
        ("Attention", [*QKV], {**HEADS, "past_present_share_buffer": 1}, "past_present_share_buffer is 1"),
        ("Attention", [*QKV], {"num_heads": 5}, "12 columns do not split into 5 heads"),
        ("Attention", [*QKV, i32([1, 2, 3])], HEADS, "mask has shape .3., expected ends, or ends and starts, of 2"),
        ("Attention", [*QKV, i32([[[[1]]]])], HEADS, "mask has rank 4, expected 1 to 3"),
        ("Attention", [*QKV, None, PAST[0]], HEADS, "past has shape .*, expected rank 5"),
        ("Attention", [*QKV], {**HEADS, "qkv_hidden_sizes": [12, 12, 6]}, "weights has size 36, expected the sum of"),
        ("MultiHeadAttention", [*SELF, *[None] * 5, i32([1])], HEADS, r"input 8 \(past_sequence_length\) is given"),
        ("MultiHeadAttention", [*SELF, *[None] * 6, i32([1])], HEADS, r"input 9 \(cache_indirection\) is given"),
        ("GroupQueryAttention", FEW, {**GROUP, "sliding_window_cache": 1}, "attribute sliding_window_cache is 1"),
        ("GroupQueryAttention", FEW, {**GROUP, "qk_output": 1}, "attribute qk_output is 1, expected 0"),
        ("GroupQueryAttention", FEW, {**GROUP, "k_quant_type": "PER_TENSOR"}, "k_quant_type is 'PER_TENSOR'"),
        ("GroupQueryAttention", [*FEW, *[None] * 5, randn(1)], GROUP, r"input 12 \(k_scale\) is given"),
        ("GroupQueryAttention", [*FEW, *[None] * 9, i32([5])], GROUP, r"input 16 \(query_seqlens\) is given"),
        ("GroupQueryAttention", [*FEW[:6], i32(9)], GROUP, "total_sequence_length is 9, expected"),
        ("GroupQueryAttention", FEW, {**GROUP, "causal": 0, "local_window_size": 3}, "local_window_size is 3"),
        ("GroupQueryAttention", FEW, {**GROUP, "unheard": 1}, "attribute unheard is given"),
        ("RotaryEmbedding", [randn(1, 5, 8), ints([0]), COS, SIN], {"scale": 2.0}, "attribute scale is 2.0"),
        ("RotaryEmbedding", [randn(1, 5, 6), ints([0]), COS, SIN], {"num_heads": 1}, "cos_cache has 4 columns"),
        ("FusedGemm", [randn(2, 3), randn(3, 4)], {"activation": "Gelu"}, "attribute activation is 'Gelu', expected"),
        ("FusedConv", [randn(1, 2, 5, 5), randn(2, 2, 3, 3)], {"activation": "Clip"}, "Clip is given 0 numbers"),
        ("BiasSplitGelu", [randn(2, 3), randn(3)], {}, "x has 3 columns, expected an even number"),
        ("EmbedLayerNormalization", [WORDS[0], None, *TABLES], {}, "input_ids has rank 1, expected 2"),
        ("GroupNorm", [randn(1, 2, 2, 4), positive(4), randn(4)], {"groups": 2, "activation": 2}, "activation is 2"),
    ],
)
def test_what_is_refused(op: str, inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    model, _ = Case(op, inputs, attributes, (6,)).model(False)
    with pytest.raises(pl.Error, match=f"{DOMAIN} {op}, .*{message}"):
        pylayout.onnx.load(model)


@pytest.mark.parametrize(("op", "output"), [("SkipLayerNormalization", 1), ("MultiHeadAttention", 3)])
def test_outputs_that_are_not_computed(op: str, output: int) -> None:
    inputs = [randn(2, 5, 12), randn(2, 5, 12), positive(12) if op.startswith("Skip") else randn(2, 5, 12)]
    model, _ = Case(op, inputs, {} if op.startswith("Skip") else HEADS, (), (0, output)).model(False)
    with pytest.raises(pl.Error, match=f"output {output} .* is used, which pylayout does not compute"):
        pylayout.onnx.load(model)
