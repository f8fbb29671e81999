"""Graphs built from Python: values, constants, binding of named axes, texts, and errors that name the node."""

import numpy
import pytest

import pylayout as pl


def weights(*shape, seed=0):
    return (numpy.random.default_rng(seed).standard_normal(shape) / numpy.sqrt(numpy.prod(shape[1:]))).astype("float32")


def test_values_have_shapes_and_dtypes():
    g = pl.Graph()
    x = g.input("x", (1, 8, 6, 6))
    y = g.conv2d(x, weights(4, 8, 3, 3), stride=2, name="conv")
    assert (y.shape, y.dtype, y.ndim) == ((1, 4, 2, 2), "f32", 4)
    parts = g.split(y, [1, 3], 1)
    assert [part.shape for part in parts] == [(1, 1, 2, 2), (1, 3, 2, 2)]
    assert isinstance(g.split(y, 4, 1), tuple)  # a list of one is still a list


def test_an_array_becomes_one_constant_without_a_copy():
    g = pl.Graph()
    array = weights(4, 4)
    first, second = g.constant(array), g.constant(array)
    assert first.name == second.name  # names are of one value each
    assert first.tensor.is_borrowed
    assert g.input("x", (1, 4)).array is None


def test_numbers_take_the_dtype_of_the_tensor_beside_them():
    g = pl.Graph()
    assert g.add(g.input("x", (2, 3), dtype="f16"), 1.5).dtype == "f16"


def test_named_axes_are_bound_again():
    g = pl.Graph(sizes={"n": 1, "t": 4})
    x = g.input("x", ("n", "t", 8))
    y = g.input("y", ("n", 8))
    g.output(g.add(x, g.unsqueeze(y, 1)), "sum")
    other = g.bind(n=3)
    assert other.inputs["x"].shape == (3, 4, 8)
    assert other.inputs["y"].shape == (3, 8)
    assert other.outputs["sum"].shape == (3, 4, 8)
    assert g.outputs["sum"].shape == (1, 4, 8)
    with pytest.raises(pl.InvalidArgumentError, match=r'no axis "m".*n, t'):
        g.bind(m=3)
    with pytest.raises(pl.ShapeError, match="-1"):
        g.bind(n=-1)


def test_texts_name_every_op():
    g = pl.Graph()
    x = g.input("image", (1, 8, 6, 6))
    g.output(g.relu(g.conv2d(x, weights(4, 8, 1, 1), name='first "conv"')), "y", layout="NHWC")
    text = str(g)
    for word in ("input image: f32 (1, 8, 6, 6)", 'first "conv" = conv2d(image', "relu", "output y", "as NHWC"):
        assert word in text
    dot = g.dot()
    assert dot.startswith("digraph") and dot.count("->") == 3
    described = g.describe()
    assert [node["op"] for node in described["nodes"]] == ["conv2d", "relu"]
    assert described["outputs"][0]["layout"] == "NHWC"


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda g, x: g.conv2d(x, weights(4, 7, 3, 3), name="c1"), pl.ShapeError, r"weight.ic is 7, expected 8.*c1"),
        (lambda g, x: g.conv2d(x), pl.InvalidArgumentError, "weight is missing"),
        (lambda g, x: g.relu(x, layout="NHWC"), pl.InvalidArgumentError, "layout"),
        (lambda g, x: g.relu(x, nonsense=1), pl.InvalidArgumentError, "nonsense"),
        (lambda g, x: g.op("nonsense", x), pl.InvalidArgumentError, "nonsense"),
        (lambda g, x: g.input("x", (1,)), pl.InvalidArgumentError, '"x" already'),
        (lambda g, x: g.input("y", ("n", 3)), pl.ShapeError, '"n" has no size'),
        (lambda g, x: g.input("y", (-1, 3)), pl.ShapeError, "-1"),
        (lambda g, x: g.output(3, "y"), pl.ArgumentTypeError, "expected a Value"),
        (lambda g, x: g.output(x, "y", layout="NHWC16q"), pl.LayoutError, "NHWC16q"),
        (lambda g, x: g.relu(pl.Graph().input("x", (1,))), pl.InvalidArgumentError, "another graph"),
    ],
)
def test_errors_say_what_is_wrong(build, error, message):
    g = pl.Graph()
    x = g.input("x", (1, 8, 6, 6))
    with pytest.raises(error, match=message):
        build(g, x)
    assert g.relu(x).shape == x.shape  # the graph is still usable


def test_attributes_that_are_none():
    with pytest.raises(AttributeError):
        pl.Graph().no_such_op  # noqa: B018
