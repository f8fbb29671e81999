"""Random numbers of ONNX: new in each run, of the distribution asked for, at any size, a stream for each seed."""

import math

import numpy
import pytest

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811
from random_numbers import distance  # noqa: E402

import pylayout as pl  # noqa: E402
import pylayout.onnx  # noqa: E402
from pylayout import ops  # noqa: E402

SIZES = [(3, 5), (100, 200), (1, 1), (0, 4), (100, 200)]  # of runs, one after the other


def parsed(nodes, kind="float", of="float"):
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 22]> agraph ({of}[n, m] x) => ({kind}[k, l] y) {{ {nodes} }}"""
    )


def compiled(nodes, device="cpu", **kinds):
    return pl.compile(parsed(nodes, **kinds), device=device, tune="off")


def zeros(*shape, dtype="float32"):
    return numpy.zeros(shape, dtype)


def normal_below(mean, std):
    return lambda x: numpy.array([0.5 * math.erfc(-(value - mean) / std / math.sqrt(2)) for value in x])


def uniform_below(low, high):
    return lambda x: numpy.clip((x - low) / (high - low), 0, 1)


NUMBERS = {
    "RandomNormalLike": ("mean = 2.0, scale = 3.0", normal_below(2, 3)),
    "RandomUniformLike": ("low = -1.0, high = 3.0", uniform_below(-1, 3)),
}


@pytest.mark.parametrize("op", NUMBERS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numbers_like_a_tensor_of_any_size(op, dtype, device):
    attributes, below = NUMBERS[op]
    kind = {"float32": "float", "float16": "float16"}[dtype]
    plan = compiled(f"y = {op}<seed = 7.0, {attributes}>(x)", device, kind=kind, of=kind)
    plan._graph_for = None  # one graph is for all sizes
    drawn = []
    for shape in SIZES:
        (y,) = plan.run(zeros(*shape, dtype=dtype))
        assert y.shape == shape and y.dtype == dtype
        drawn.append(y.astype("float64"))
    assert not (drawn[1] == drawn[4]).mean() > 0.01
    for y in (drawn[1], drawn[4], numpy.concatenate((drawn[1], drawn[4]))):
        assert distance(y.reshape(-1), below) < 2.3
    correlation = numpy.corrcoef(drawn[1].reshape(-1), drawn[4].reshape(-1))[0, 1]
    assert abs(correlation) < 4.5 / math.sqrt(drawn[1].size)


@pytest.mark.parametrize("op", ["RandomNormal", "RandomUniform"])
@pytest.mark.parametrize("number, dtype", [(1, "float32"), (10, "float16")])
def test_numbers_of_a_shape(op, number, dtype):
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 22]>
        agraph () => ({"float" if number == 1 else "float16"}[k, l] y)
        {{ y = {op}<shape = [100, 30], seed = 5.0, dtype = {number}>() }}"""
    )
    plan = pl.compile(model, device="cpu", tune="off")
    call = ops.random_normal if op == "RandomNormal" else ops.random_uniform
    for first in (0, 750, 1500):  # a counter makes four numbers
        (y,) = plan.run()
        expected = numpy.asarray(
            call(numpy.array([5, first]), (100, 30), dtype="f32" if number == 1 else "f16", device="cpu")
        )
        assert y.dtype == dtype
        # Kernels of several providers serve the CPU: their logarithms and sines differ in the last bit.
        near = {"float32": 1e-6, "float16": 2e-3}[dtype] if op == "RandomNormal" else 0
        numpy.testing.assert_allclose(y, expected, rtol=near, atol=near)


def test_without_a_seed_each_import_draws_others():
    first, second = (compiled("y = RandomNormalLike(x)") for _ in range(2))
    numbers = [plan.run(zeros(20, 50))[0] for plan in (first, second, first, second)]
    for i, a in enumerate(numbers):
        assert all(abs((a * b).mean()) < 4.5 / math.sqrt(a.size) for b in numbers[:i])


def test_a_seed_gives_the_same_stream_again_and_a_state_moves_it():
    text = "a = RandomNormalLike<seed = 0.5>(x) y = Identity(a)"
    first, second = compiled(text), compiled(text)
    numbers = [first.run(zeros(4, 5))[0] for _ in range(3)]
    assert all((second.run(zeros(4, 5))[0] == there).all() for there in numbers)
    other = compiled("y = RandomNormalLike<seed = 0.25>(x)").run(zeros(4, 5))[0]
    assert not (other == numbers[0]).any()
    (state,) = first.states
    first.set_state(state["name"], numpy.array([first.state(state["name"]).tolist()[0], 0]))
    assert (first.run(zeros(4, 5))[0] == numbers[0]).all()


@pytest.mark.parametrize("seeds", [("", ""), ("<seed = 3.0>", "<seed = 3.0>"), ("<seed = 3.0>", "<seed = 4.0>")])
def test_nodes_draw_different_numbers(seeds):
    plan = compiled(
        f"a = RandomNormalLike{seeds[0]}(x) b = RandomNormalLike{seeds[1]}(x) c = Mul(a, b) "
        "y = ReduceMean<keepdims = 1>(c)"
    )
    for _ in range(3):
        assert abs(plan.run(zeros(100, 100))[0].item()) < 4.5 / 100


def test_a_loop_draws_new_numbers_each_time_however_often_it_runs():
    body = "r = RandomNormalLike<seed = 4.0>(a) go = Identity(c) b = Add(a, r)"
    plan = compiled(
        f"""count = Shape<start = 0, end = 1>(x) n1 = Squeeze(count) true = Constant<value = bool {{1}}>()
        y = Loop(n1, true, x) <body = body(int64 i, bool c, float[p, q] a) => (bool go, float[p, q] b) {{ {body} }}>"""
    )
    for count in (3, 8, 5, 3):  # of iterations: the variance is their number
        (y,) = plan.run(zeros(count, 5000))
        assert abs(y.var() / count - 1) < 4.5 * math.sqrt(2 / y.size)


@pytest.mark.parametrize("first", [1, 4])
def test_sizes_for_which_nothing_is_drawn(first):
    body = "r = RandomNormalLike(a) go = Identity(c) b = Add(a, r)"
    plan = compiled(
        f"""count = Shape<start = 0, end = 1>(x) n1 = Squeeze(count) one = Constant<value = int64 {{1}}>()
        more = Sub(n1, one) true = Constant<value = bool {{1}}>()
        y = Loop(more, true, x)
        <body = body(int64 i, bool c, float[p, q] a) => (bool go, float[p, q] b) {{ {body} }}>"""
    )
    last = None
    for count in (first, 1, 4, 1, 4):
        (y,) = plan.run(zeros(count, 50))
        assert y.any() == (count > 1)
        assert count == 1 or last is None or not (y == last).any()
        last = y if count > 1 else last


def test_a_loop_on_the_host_draws_new_numbers_each_time():
    body = "r = RandomNormalLike<seed = 4.0>(a) go = Identity(c) b = Add(a, r) d = Concat<axis = 1>(b, one)"
    plan = compiled(
        f"""s = ReduceMax<keepdims = 0>(x) count = Cast<to = 7>(s) true = Constant<value = bool {{1}}>()
        one = Constant<value = float[1, 1] {{0}}>() zero = Sub(x, x)
        y = Loop(count, true, zero)
        <body = body(int64 i, bool c, float[p, q] a) => (bool go, float[p, q] d) {{ {body} }}>"""
    )
    for count in (3, 8, 5):  # each iteration has one more column than the last
        y = plan.run(numpy.full((1, 20_000), count, "float32"))[0][:, :20_000]
        assert abs(y.var() / count - 1) < 4.5 * math.sqrt(2 / y.size)


@pytest.mark.parametrize("seed", ["", "<seed = 9.0>"])
def test_numbers_of_segments_are_new_for_each_size_and_run(seed):
    plan = compiled(
        f"z = RandomNormalLike{seed}(x) i = NonZero(x) j = Transpose(i) w = GatherND(z, j) "
        "axes = Constant<value_ints = [0]>() y = Unsqueeze(w, axes)"
    )
    numbers = [plan.run(numpy.ones(shape, "float32"))[0].reshape(-1) for shape in ((10, 90), (30, 30), (10, 90))]
    for i, a in enumerate(numbers):
        assert a.shape == (900,) and a.std() > 0.8
        assert all(abs((a * b).mean()) < 4.5 / 30 for b in numbers[:i])


def test_values_that_must_be_known_may_be_random():
    plan = pl.compile(
        onnx.parser.parse_model(
            """<ir_version: 10, opset_import: ["" : 22]> agraph (float[n] x) => (float[k] y)
            { r = RandomUniform<shape = [1], low = 1.0, high = 9.0>() c = Cast<to = 7>(r) y = ConstantOfShape(c) }"""
        ),
        device="cpu",
        tune="off",
    )
    lengths = {plan.run(zeros(2))[0].shape[0] for _ in range(60)}
    assert lengths <= set(range(1, 9)) and len(lengths) > 3


@pytest.mark.parametrize("of, dtype", [("float", "float32"), ("float16", "float16")])
@pytest.mark.parametrize("attributes, kind, made", [("", None, None), ("<dtype = 7, seed = 3.0>", "int64", "int64")])
def test_bernoulli(of, dtype, attributes, kind, made, device):
    chances = numpy.array([0, 1e-4, 0.2, 0.5, 0.93, 1], dtype)
    plan = compiled(f"y = Bernoulli{attributes}(x)", device, of=of, kind=kind or of)
    for count in (1, 50_000, 50_000):
        (y,) = plan.run(numpy.broadcast_to(chances, (count, 6)).copy())
        assert y.shape == (count, 6) and y.dtype == (made or dtype) and numpy.isin(y, (0, 1)).all()
        p = chances.astype("float64")
        assert (abs(y.astype("float64").mean(0) - p) <= 4.5 * numpy.sqrt(p * (1 - p) / count) + (count == 1)).all()


@pytest.mark.parametrize("of, dtype", [("float", "float32"), ("float16", "float16")])
@pytest.mark.parametrize("number, made", [(6, "int32"), (7, "int64")])
def test_multinomial(of, dtype, number, made, device):
    chances = numpy.array([[0.1, 0, 0.6, 0.3], [0.25, 0.25, 0.25, 0.25], [0, 1, 0, 0]])
    with numpy.errstate(divide="ignore"):
        x = (numpy.log(chances) + 3).astype(dtype)  # they need not be of sum 1
    count = 20_000
    plan = compiled(f"y = Multinomial<sample_size = {count}, dtype = {number}>(x)", device, of=of, kind=made)
    last = None
    for rows in (3, 1, 3):
        (y,) = plan.run(x[:rows])
        assert y.shape == (rows, count) and y.dtype == made
        for row, p in zip(y, chances, strict=False):
            shares = numpy.bincount(row, minlength=4) / count
            assert (abs(shares - p) <= 4.5 * numpy.sqrt(p * (1 - p) / count) + 1e-3 * p).all()
        assert last is None or rows == 1 or (y[0] != last[0]).any()
        last = y if rows == 3 else last


def test_dropout_in_training_and_its_mask():
    text = "yes = Constant<value = bool {1}>() share = Constant<value_float = 0.3>() "
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 22]> agraph (float[n, m] x) => (float[n, m] y, bool[n, m] mask)
        {{ {text} y, mask = Dropout<seed = 5>(x, share, yes) }}"""
    )
    plan = pl.compile(model, device="cpu", tune="off")
    last = None
    for shape in SIZES:
        x = numpy.random.default_rng(0).uniform(1, 2, shape).astype("float32")
        y, mask = plan.run(x)
        assert mask.dtype == bool and mask.shape == shape
        numpy.testing.assert_allclose(y, numpy.where(mask, x.astype("float64") / 0.7, 0), rtol=1e-6)
        if x.size > 1000:
            assert abs(mask.mean() - 0.7) < 4.5 * math.sqrt(0.21 / x.size)
            assert last is None or (mask != last).any()
            last = mask


def test_dropout_without_training_has_no_state():
    text = "no = Constant<value = bool {0}>() share = Constant<value_float = 0.3>() y = Dropout<seed = 5>(x, share, no)"
    plan = compiled(text)
    assert plan.states == []
    x = numpy.ones((2, 3), "float32")
    assert (plan.run(x)[0] == x).all()


def test_saved_plans_draw_on(tmp_path):
    plan = compiled("y = RandomNormalLike<seed = 7.0>(x)")
    there = [plan.run(zeros(3, 5))[0] for _ in range(3)]
    fresh = compiled("y = RandomNormalLike<seed = 7.0>(x)")
    fresh.run(zeros(3, 5))
    fresh.save(tmp_path / "plan")
    loaded = pl.load_plan(tmp_path / "plan")
    assert all((loaded.run(zeros(3, 5))[0] == numbers).all() for numbers in there[1:])


@pytest.mark.parametrize(
    "nodes, kind, message",
    [
        ("y = RandomNormalLike<scale = -1.0>(x)", "float", r"RandomNormalLike.* std is -1, expected at least 0"),
        ("y = Multinomial<sample_size = 0>(x)", "int32", "Multinomial.* sample_size is 0, expected at least 1"),
        ("y = Multinomial<dtype = 1>(x)", "int32", "Multinomial.* dtype is float32, expected int32 or int64"),
        ("y = RandomUniformLike<dtype = 7>(x)", "int64", "RandomUniformLike.* dtype asked for is s64"),
        ("s = Shape(x) y = Multinomial(s)", "int32", "Multinomial"),
        (
            "t = Constant<value = bool {1}>() r = Constant<value_float = 1.0>() y = Dropout(x, r, t)",
            "float",
            r"Dropout.* \(ratio\) is 1.0, expected 0 to less than 1",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(nodes, kind, message):
    with pytest.raises(pl.Error, match=message):
        compiled(nodes, kind=kind)
