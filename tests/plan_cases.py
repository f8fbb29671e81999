"""A small network as a graph and as eager ops, for the tests of plans."""

import numpy
import pytest

import pylayout as pl
from pylayout import ops

RNG = numpy.random.default_rng(7)


def weights(*shape):
    return (RNG.standard_normal(shape) / numpy.sqrt(numpy.prod(shape[1:]))).astype("float32")


W = {
    "stem": weights(16, 3, 3, 3),
    "a": weights(16, 16, 3, 3),
    "b": weights(32, 16, 1, 1),
    "depthwise": weights(32, 1, 3, 3),
    "head": weights(5, 48),
}


def network(o, x):
    """A small network with a residual, a concat, a depthwise convolution and views; `o`: a Graph, or pylayout.ops."""
    x = o.conv2d(x, W["stem"], stride=2, padding=1, activation="relu")
    y = o.conv2d(x, W["a"], padding=1, residual=x, activation="relu")
    z = o.conv2d(y, W["b"])
    z = o.conv2d(z, W["depthwise"], padding=1, groups=32, activation="hardswish")
    both = o.concat([y, z], 1)
    pooled = o.flatten(o.adaptive_avg_pool2d(both, 1), 1)
    return both, o.linear(pooled, W["head"])


def graph_of(n=2, size=12, layout=None):
    g = pl.Graph(sizes={"n": n})
    x = g.input("x", ("n", 3, size, size), layout=layout)
    both, scores = network(g, x)
    g.output(both, "both", layout=layout)
    g.output(scores, "scores")
    return g


def image(n=2, size=12, seed=1):
    return numpy.random.default_rng(seed).standard_normal((n, 3, size, size)).astype("float32")


def expected(x):
    return [numpy.asarray(value) for value in network(ops, x)]


def assert_same(results, x, tolerance=1e-4):
    for got, want in zip(results, expected(x), strict=True):
        numpy.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def need_threads(count):
    if count > pl.get_threads():
        pytest.skip("this machine has one processor")
