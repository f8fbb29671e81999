"""Ops made of other ops, and the words for padding: against NumPy and PyTorch, at once and in graphs."""

import inspect

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pylayout as pl
from pylayout import composed, ops

pytestmark = pytest.mark.usefixtures("unoptimised")  # values are in question, not which implementation wins

LAYOUTS = ["NCHW", "NHWC", "nChw16c"]


def close(got, wanted):
    numpy.testing.assert_allclose(numpy.asarray(got), wanted, rtol=2e-5, atol=2e-5)


@pytest.fixture
def a(rng):
    return rng.standard_normal((2, 18, 3, 4)).astype("float32")


def logistic(a):
    return 1 / (1 + numpy.exp(-a))


CASES = {
    "all": [(lambda o, x: o.all(o.gt(x, -1), 1), lambda a: (a > -1).all(1))],
    "any": [
        (lambda o, x: o.any(o.gt(x, 1), (0, 2), True), lambda a: (a > 1).any((0, 2), keepdims=True)),
        (lambda o, x: o.any(x), lambda a: a.any()),
    ],
    # Losses, with weights and gradients: test_losses.py.
    "binary_cross_entropy": [
        (
            lambda o, x: o.binary_cross_entropy(o.sigmoid(x), o.sigmoid(o.neg(x)), reduction="none"),
            lambda a: -(logistic(-a) * numpy.log(logistic(a)) + logistic(a) * numpy.log(logistic(-a))),
        )
    ],
    "binary_cross_entropy_with_logits": [
        (
            lambda o, x: o.binary_cross_entropy_with_logits(x, o.sigmoid(o.neg(x)), reduction="sum"),
            lambda a: -(logistic(-a) * numpy.log(logistic(a)) + logistic(a) * numpy.log(logistic(-a))).sum(),
        )
    ],
    "chunk": [
        (lambda o, x: o.chunk(x, 4, 1)[3], lambda a: a[:, 15:]),
        (lambda o, x: o.chunk(x, 9, -1)[2], lambda a: a[..., 2:3]),
    ],
    "einsum": [
        (lambda o, x: o.einsum("nchw,ncvw->nhv", x, x), lambda a: numpy.einsum("nchw,ncvw->nhv", a, a)),
        (lambda o, x: o.einsum("nchw->wn", x), lambda a: a.sum((1, 2)).T),
        (lambda o, x: o.einsum("...hw,...vw->...hv", [x, x]), lambda a: a @ a.swapaxes(2, 3)),
    ],
    "flip": [(lambda o, x: o.flip(x, (1, -1)), lambda a: numpy.flip(a, (1, 3)))],
    "huber_loss": [
        (
            lambda o, x: o.huber_loss(x, o.neg(x), "none", 0.5),
            lambda a: numpy.where(abs(a) < 0.25, 2 * a * a, 0.5 * (2 * abs(a) - 0.25)),
        )
    ],
    "l1_loss": [(lambda o, x: o.l1_loss(x, o.neg(x)), lambda a: abs(2 * a).mean())],
    "masked_fill": [(lambda o, x: o.masked_fill(x, o.lt(x, 0), -2), lambda a: numpy.where(a < 0, -2, a))],
    "mse_loss": [(lambda o, x: o.mse_loss(x, o.neg(x)), lambda a: (4 * a * a).mean())],
    "nll_loss": [
        (
            lambda o, x: o.nll_loss(x, o.argmin(x, 1), reduction="none"),
            lambda a: -a.min(1),
        )
    ],
    "one_hot": [
        (lambda o, x: o.one_hot(o.argmax(x, 1), 20, "f32"), lambda a: numpy.eye(20)[a.argmax(1)]),
    ],
    "rmsprop_step": [  # against PyTorch over several steps: test_functional.py
        (
            lambda o, x: o.rmsprop_step(x, o.neg(x), o.mean(x), o.square(x))[1],
            lambda a: a * a,
        ),
        (
            lambda o, x: o.rmsprop_step(x, x, o.mean(x), o.square(x), x, x, o.mean(x) * 0.0)[3],
            lambda a: a,
        ),
    ],
    "smooth_l1_loss": [
        (
            lambda o, x: o.smooth_l1_loss(x, o.neg(x), "none"),
            lambda a: numpy.where(abs(a) < 0.5, 2 * a * a, 2 * abs(a) - 0.5),
        )
    ],
    "stack": [
        (lambda o, x: o.stack([x, o.neg(x)], 1), lambda a: numpy.stack([a, -a], 1)),
        (lambda o, x: o.stack([x], -1), lambda a: a[..., None]),
    ],
    "std": [(lambda o, x: o.std(x, (2, 3)), lambda a: a.std((2, 3), ddof=1))],
    "unbind": [(lambda o, x: o.unbind(x, 1)[17], lambda a: a[:, 17])],
    "var": [(lambda o, x: o.var(x, 1, 0, True), lambda a: a.var(1, keepdims=True))],
}


@pytest.mark.parametrize("name", sorted(composed.COMPOSED))
def test_composed_op(name, a, device):
    for call, reference in CASES[name]:
        wanted = reference(a)
        for layout in LAYOUTS:
            got = call(ops, pl.asarray(a, layout=layout, device=device))
            assert got.shape == wanted.shape and got.device == device
            close(got, wanted)
        close(call(ops, a), wanted)  # arrays
        for way in ("methods of the graph", "functions of ops"):
            graph = pl.Graph()
            x = graph.input("x", a.shape)
            graph.output(call(graph if way == "methods of the graph" else ops, x), "y")
            close(pl.compile(graph, tune="off").run(a)[0], wanted)


@pytest.mark.parametrize("name", sorted(composed.COMPOSED))
def test_composed_op_looks_like_an_op(name):
    function = getattr(ops, name)
    assert function is getattr(ops, name) and function.__name__ == name and name in dir(ops) and name in dir(pl.Graph())
    assert "Source:" in function.__doc__
    parameters = list(inspect.signature(function).parameters.values())
    assert [p.name for p in parameters[-2:]] == ["layout", "device"]
    with pytest.raises(pl.ArgumentTypeError, match=f"{name}: "):
        function()
    with pytest.raises(pl.ArgumentTypeError, match=f"{name}: .*nothing"):
        function(*[numpy.ones((2, 2), "float32")] * (len(parameters) - 2), nothing=1)


def test_composed_ops_force_layouts_and_name_nodes(a):
    assert ops.stack([pl.asarray(a[0, 0]), a[0, 1]], 0, layout="per-op").shape == (2, 3, 4)
    graph = pl.Graph()
    x = graph.input("x", (2, 3))
    graph.stack([x, numpy.ones((2, 3), "float32")], name="both")
    assert "both" in [node["name"] for node in graph.describe()["nodes"]]
    assert graph.stack([numpy.ones((2, 3), "float32")] * 2).shape == (2, 2, 3)  # constants alone
    with pytest.raises(pl.InvalidArgumentError, match="layout is given"):
        ops.stack([x, x], layout="NHWC")
    with pytest.raises(pl.InvalidArgumentError, match="layout is given"):
        graph.stack([x, x], layout="NHWC")


def test_views_of_arrays_do_not_follow_them():
    x = numpy.ones((2, 3), "float32")
    outputs = [ops.einsum("ij->ji", x), *ops.unbind(x), *ops.chunk(x, 2), ops.stack([x])]
    x[...] = 7
    assert not any((y.numpy() == 7).any() for y in outputs)


def test_reductions_of_nothing():
    nothing = pl.zeros((0, 3))
    assert not ops.any(nothing).item() and ops.all(nothing).item()
    assert ops.all(nothing, 0).tolist() == [True] * 3
    assert numpy.isnan(ops.var(pl.ones((1, 2)), 0).numpy()).all()
    assert ops.unbind(nothing) == ()


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda x: ops.stack([]), pl.InvalidArgumentError, "stack: tensors is empty"),
        (lambda x: ops.stack(x), TypeError, "stack: tensors is Tensor"),
        (lambda x: ops.stack([x, x[0]]), pl.ShapeError, r"stack: tensors\[1\] has shape \(3,\), expected \(2, 3\)"),
        (lambda x: ops.stack([x], 3), pl.InvalidArgumentError, "stack: dim is 3, expected -3 to 2"),
        (lambda x: ops.stack([x, "a"]), TypeError, r"stack: tensors\[1\] is str"),
        (lambda x: ops.chunk(x, 0), pl.InvalidArgumentError, "chunk: chunks is 0, expected at least 1"),
        (lambda x: ops.chunk(x, 1.5), TypeError, "chunk: chunks is 1.5"),
        (lambda x: ops.flip(x, (0, -2)), pl.InvalidArgumentError, "flip: dims"),
        (lambda x: ops.one_hot(x, 3), pl.UnsupportedError, "one_hot: index has dtype f32"),
        (lambda x: ops.one_hot(x.int(), 0), pl.InvalidArgumentError, "one_hot: num_classes is 0"),
        (lambda x: ops.var(x.int()), pl.UnsupportedError, "var: x has dtype s32"),
        (lambda x: ops.einsum(x, x), TypeError, "einsum: equation is Tensor"),
        (lambda x: ops.einsum("ij,jk", x), pl.InvalidArgumentError, "einsum: equation .* has 2 terms, expected 1"),
        (lambda x: ops.einsum("ijk", x), pl.ShapeError, "einsum: term 'ijk' .* rank 2"),
        (lambda x: ops.einsum("ij,ik", x, pl.ones((3, 3))), pl.ShapeError, "einsum: label i has sizes 2 and 3"),
        (lambda x: ops.einsum("ij->k", x), pl.InvalidArgumentError, "einsum: equation"),
        (lambda x: ops.where(x, 1, 0), pl.UnsupportedError, "where: condition has dtype f32"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call(pl.ones((2, 3)))


@given(st.data())
def test_einsum_is_numpy_s(data):
    letters = "abcd"
    sizes = {letter: data.draw(st.integers(1, 4)) for letter in letters}
    terms = data.draw(st.lists(st.text(letters, max_size=4), min_size=1, max_size=3))
    known = sorted(set("".join(terms)))
    result = "".join(data.draw(st.lists(st.sampled_from(known), unique=True))) if known else ""
    equation = ",".join(terms) + "->" + result
    rng = numpy.random.default_rng(0)
    arrays = [rng.standard_normal([sizes[label] for label in term]).astype("float32") for term in terms]
    close(ops.einsum(equation, *[pl.asarray(x) for x in arrays]), numpy.einsum(equation, *arrays))


def test_where_with_numbers(a):
    x = pl.asarray(a, layout="NHWC")
    for got, wanted, dtype in [
        (ops.where(x > 0, x, 0), numpy.where(a > 0, a, 0), "f32"),
        (ops.where(x > 0, -1.5, x), numpy.where(a > 0, -1.5, a), "f32"),
        (ops.where(x > 0, 1.0, 0.0), numpy.where(a > 0, 1.0, 0.0), "f32"),
        (ops.where(x > 0, 1, 0.5), numpy.where(a > 0, 1, 0.5), "f32"),
        (ops.where(x > 0, 1, 0), numpy.where(a > 0, 1, 0), "s64"),
        (ops.where(x > 0, a, 1), numpy.where(a > 0, a, 1), "f32"),
        (ops.where(x > 0, x.half(), 2), numpy.where(a > 0, a.astype("float16"), 2), "f16"),
        (ops.add(1, a), 1 + a, "f32"),
    ]:
        assert got.dtype == dtype
        close(got, wanted)
    graph = pl.Graph()
    v = graph.input("x", a.shape)
    for y in (ops.where(v > 0, 1.0, 0.0), graph.where(v > 0, v, 0), ops.where(v > 0, a, 2)):
        assert y.dtype == "f32"


# ---- padding in words ----


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(1, 3)), min_size=3, max_size=3),
    st.sampled_from(["same", "valid"]),
    st.sampled_from(["auto", *LAYOUTS]),
)
def test_padding_in_words_is_torch_s(spatial, axes, word, layout):
    torch = pytest.importorskip("torch")
    axes = axes[:spatial]
    if word == "valid" and any(size < dilation * (kernel - 1) + 1 for size, kernel, dilation in axes):
        return
    rng = numpy.random.default_rng(spatial)
    x = rng.standard_normal([2, 3, *(size for size, _, _ in axes)]).astype("float32")
    w = rng.standard_normal([4, 3, *(kernel for _, kernel, _ in axes)]).astype("float32")
    dilation = [d for _, _, d in axes]
    op = f"conv{spatial}d"
    if layout != "auto":
        layout = {3: {"NCHW": "NCW", "NHWC": "NWC", "nChw16c": "nCw16c"}, 5: {"NCHW": "NCDHW", "NHWC": "NDHWC",
                  "nChw16c": "nCdhw16c"}}.get(spatial + 2, {}).get(layout, layout)  # fmt: skip
    got = getattr(ops, op)(x, w, padding=word, dilation=dilation, layout=layout)
    function = getattr(torch.nn.functional, op)
    wanted = function(torch.from_numpy(x), torch.from_numpy(w), padding=word, dilation=dilation).numpy()
    assert got.shape == wanted.shape
    numpy.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("word, first", [("same_upper", 0), ("same_lower", 1)])
def test_padding_in_words_for_any_stride(word, first, rng):
    x, w = rng.standard_normal((1, 3, 7, 8)).astype("float32"), rng.standard_normal((4, 3, 2, 4)).astype("float32")
    got = ops.conv2d(x, w, stride=(1, 3), padding=word)
    # By hand: 7 rows of 1 + (2 - 1) = 1 border row; 3 columns reach (3 - 1) * 3 + 4 = 10, of 8.
    rows = (first, 1 - first)
    wanted = ops.conv2d(x, w, stride=(1, 3), padding=(rows[0], 1, rows[1], 1))
    assert got.shape == (1, 4, 7, 3)
    numpy.testing.assert_array_equal(got.numpy(), wanted.numpy())


def test_padding_in_words_of_quantised_convolutions_and_graphs(rng):
    x = rng.integers(0, 255, (1, 3, 6, 6)).astype("uint8")
    w = rng.integers(-5, 5, (4, 3, 3, 3)).astype("int8")
    numpy.testing.assert_array_equal(
        ops.conv_integer(x, w, padding="same").numpy(), ops.conv_integer(x, w, padding=1).numpy()
    )
    graph = pl.Graph(sizes={"h": 6})
    v = graph.input("x", (1, 3, "h", 6))
    graph.output(graph.conv2d(v, w.astype("float32"), stride=2, padding="same_upper"), "y")
    for height in (6, 7):  # the padding follows the size
        values = rng.standard_normal((1, 3, height, 6)).astype("float32")
        got = pl.compile(graph.bind(h=height), tune="off").run(values)[0]
        wanted = ops.conv2d(values, w.astype("float32"), stride=2, padding=(height % 2, 0, 1, 1))
        numpy.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["auto", *LAYOUTS])
@pytest.mark.parametrize("word, first", [("same_upper", 0), ("same_lower", 1)])
def test_padding_of_pools_in_words(word, first, layout, rng):
    x = rng.standard_normal((2, 16, 7, 8)).astype("float32")
    # By hand: 7 rows of stride 2 and kernel 2 reach 3 * 2 + 2 = 8; 8 columns of stride 3 and kernel 3 reach 9.
    border = (first, first, 1 - first, 1 - first)
    for op, more in ((ops.max_pool2d, {}), (ops.avg_pool2d, {"count_include_pad": False})):
        got = op(x, (2, 3), padding=word, layout=layout, **more)
        assert got.shape == (2, 16, 4, 3)
        numpy.testing.assert_array_equal(got, op(x, (2, 3), padding=border, layout=layout, **more))
    padded = numpy.pad(x, ((0, 0), (0, 0), (first, 1 - first), (first, 1 - first)), constant_values=-numpy.inf)
    wanted = padded.reshape(2, 16, 4, 2, 3, 3).max((3, 5))
    numpy.testing.assert_array_equal(ops.max_pool2d(x, (2, 3), padding=word, layout=layout), wanted)


def test_padding_of_pools_in_words_follows_the_sizes(rng):
    torch = pytest.importorskip("torch")
    graph = pl.Graph(sizes={"h": 6})
    v = graph.input("x", (1, 3, "h", 6))
    graph.output(graph.max_pool2d(v, 3, 2, "same_upper"), "most")
    graph.output(graph.avg_pool2d(v, 3, 1, "same"), "mean")
    for height in (6, 7):
        x = rng.standard_normal((1, 3, height, 6)).astype("float32")
        most, mean = pl.compile(graph.bind(h=height), tune="off").run(x)
        border = (0, 1, height % 2, 1)
        padded = torch.nn.functional.pad(torch.from_numpy(x), border, value=-torch.inf)
        numpy.testing.assert_array_equal(most, torch.nn.functional.max_pool2d(padded, 3, 2).numpy())
        close(mean, torch.nn.functional.avg_pool2d(torch.from_numpy(x), 3, 1, 1).numpy())


@pytest.mark.parametrize("dilation", [1, 3])
def test_padding_of_other_pools_in_words(dilation, rng):
    x, volume = (
        rng.standard_normal((1, 4, 11)).astype("float32"),
        rng.standard_normal((1, 4, 5, 5, 5)).astype("float32"),
    )
    got = ops.max_pool1d(x, 3, 1, "same", dilation=dilation)
    numpy.testing.assert_array_equal(got, ops.max_pool1d(x, 3, 1, dilation, dilation=dilation))
    numpy.testing.assert_array_equal(ops.max_pool1d(x, 4, padding="valid"), ops.max_pool1d(x, 4))
    assert ops.avg_pool3d(volume, 2, padding="same_lower").shape == (1, 4, 3, 3, 3)
    assert ops.max_pool3d(volume, 1, 3, "same_upper", ceil_mode=True).shape == (1, 4, 2, 2, 2)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"padding": "same"}, 'max_pool2d: padding is "same" and stride along h is 3, expected 1'),
        ({"padding": "full"}, 'max_pool2d: padding is "?full"?, expected integers or one of valid, same'),
        ({"padding": "valid", "dilation": 9}, "max_pool2d: x.h is 6"),
    ],
)
def test_errors_of_padding_of_pools(arguments, words):
    with pytest.raises(pl.Error, match=words):
        ops.max_pool2d(pl.ones((1, 2, 6, 6)), 3, **arguments)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"padding": "same", "stride": 2}, 'conv2d: padding is "same" and stride along h is 2, expected 1'),
        ({"padding": "full"}, 'conv2d: padding is "?full"?, expected integers or one of valid, same'),
        ({"padding": "valid", "dilation": 9}, "conv2d: x.h is 6"),
        ({"stride": "same"}, "conv2d: stride is .*expected a value of type ints"),
    ],
)
def test_errors_of_padding(arguments, words):
    with pytest.raises(pl.Error, match=words):
        ops.conv2d(pl.ones((1, 2, 6, 6)), pl.ones((2, 2, 3, 3)), **arguments)
