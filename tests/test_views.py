"""Views: every op that may rename memory, on every kind of layout, against NumPy; and which of them share storage."""

import itertools

import numpy as np
import pytest

import pylayout as pl
from pylayout import ops

pytestmark = pytest.mark.usefixtures("unoptimised")
LAYOUTS = ["NCHW", "NHWC", "nChw16c", "nChw8c", "abdc", "dcba", "Abcd4a", "ABcd4b2a", "abcD8d", "ABcd2a8b2a", "bCda4c"]
# Channels of one, of a part of a block, of whole blocks and of blocks and a rest; images of one pixel.
SHAPES = [(2, 17, 3, 4), (2, 32, 3, 1), (3, 16, 1, 1), (1, 1, 5, 4), (4, 3, 2, 2)]

CASES = {
    "reshape": [
        (lambda x: ops.reshape(x, [-1]), lambda a: a.reshape(-1)),
        (lambda x: ops.reshape(x, [*x.shape[:2], -1]), lambda a: a.reshape(*a.shape[:2], -1)),
        (lambda x: ops.reshape(x, [-1, *x.shape[2:]]), lambda a: a.reshape(-1, *a.shape[2:])),
        (lambda x: ops.reshape(x, [1, *x.shape, 1]), lambda a: a.reshape(1, *a.shape, 1)),
        (lambda x: x.reshape(x.shape[::-1]), lambda a: a.reshape(a.shape[::-1])),
    ],
    "flatten": [
        (lambda x: ops.flatten(x, 1), lambda a: a.reshape(len(a), -1)),
        (lambda x: ops.flatten(x, 2, 3), lambda a: a.reshape(*a.shape[:2], -1)),
        (lambda x: ops.flatten(x, 0, 1), lambda a: a.reshape(-1, *a.shape[2:])),
    ],
    "permute": [
        (lambda x, order=order: ops.permute(x, list(order)), lambda a, order=order: a.transpose(order))
        for order in itertools.permutations(range(4))
    ],
    "transpose": [
        (lambda x: ops.transpose(x, 1, -1), lambda a: a.swapaxes(1, 3)),
        (lambda x: ops.transpose(x, 0, 0), lambda a: a),
    ],
    "squeeze": [(ops.squeeze, np.squeeze)],
    "unsqueeze": [
        (lambda x, dim=dim: ops.unsqueeze(x, dim), lambda a, dim=dim: np.expand_dims(a, dim)) for dim in range(-5, 5)
    ],
    "slice": [
        (lambda x: ops.slice(x, [1], [100]), lambda a: a[1:]),
        (lambda x: ops.slice(x, [0, 0], [100, 16]), lambda a: a[:, :16]),
        (lambda x: ops.slice(x, [16], [32], [1]), lambda a: a[:, 16:]),
        (lambda x: ops.slice(x, [3], [-2], [1]), lambda a: a[:, 3:-2]),
        (lambda x: ops.slice(x, [0, 1], [100, 100], [2, 1], [2, 3]), lambda a: a[:, 1::3, ::2]),
        (lambda x: x[..., -1], lambda a: a[..., -1]),
        (lambda x: x[:, 0, None], lambda a: a[:, 0, None]),
    ],
    "split": [
        (lambda x: ops.concat(list(ops.split(x, [1, x.shape[1] - 1], 1)), 1), lambda a: a),
        (lambda x: parts(ops.split(x, 16, 1))[-1], lambda a: a[:, (a.shape[1] - 1) // 16 * 16 :]),
        (lambda x: parts(ops.split(x, 2))[0], lambda a: a[:2]),
        (lambda x: parts(ops.split(x, 1, -1))[-1], lambda a: a[..., -1:]),
    ],
    "identity": [(ops.identity, lambda a: a), (lambda x: ops.dropout(x, 0.3), lambda a: a)],
}


def parts(result):
    """An op gives one output as a tensor, several as a tuple."""
    return result if isinstance(result, tuple) else (result,)


def numbers(shape):
    return np.arange(np.prod(shape), dtype="float32").reshape(shape) + 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", CASES)
def test_view_equals_numpy(op, layout):
    for shape, (ours, theirs) in itertools.product(SHAPES, CASES[op]):
        if op == "split" and shape[1] == 1:
            continue
        array = numbers(shape)
        view, expected = ours(pl.asarray(array, layout=layout)), theirs(array)
        assert view.shape == expected.shape
        np.testing.assert_array_equal(view.numpy(), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ops_read_views(layout, device):
    """A view's strides and offset reach the ops that use it, and its reorders, on every device."""
    array = numbers((2, 33, 4, 6))
    x = pl.asarray(array, layout=layout, device=device)
    for view, expected in [
        (x[:, :, 1:, ::2], array[:, :, 1:, ::2]),
        (ops.slice(x, [16], [33], [1]), array[:, 16:]),
        (ops.permute(x, [0, 2, 3, 1])[1:], array.transpose(0, 2, 3, 1)[1:]),
    ]:
        assert view.device == device
        np.testing.assert_array_equal(view.numpy(), expected)
        np.testing.assert_array_equal(ops.neg(view).numpy(), -expected)
        np.testing.assert_array_equal(ops.add(view, 1.0).numpy(), expected + 1)
        for target in ["NCHW", "NHWC", "nChw8c"]:
            np.testing.assert_array_equal(view.to(layout=target).numpy(), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_view_of_view(layout):
    array = numbers((2, 32, 4, 6))
    x = pl.asarray(array, layout=layout)
    view = ops.transpose(x[:, 16:], 1, 2)[:, 1:3].reshape(2, 2, 4, 4, 6)[..., ::5]
    expected = array[:, 16:].swapaxes(1, 2)[:, 1:3].reshape(2, 2, 4, 4, 6)[..., ::5]
    np.testing.assert_array_equal(view.numpy(), expected)


# What must be a view: it sees what is written to the original later.
SHARING = [
    ("NCHW", lambda x: ops.reshape(x, [2, -1])),
    ("NCHW", lambda x: ops.flatten(x)),
    ("NCHW", lambda x: x[1:, 3:7, ::2]),
    ("NHWC", lambda x: ops.flatten(x, 2)),
    ("NHWC", lambda x: ops.permute(x, [0, 2, 3, 1]).reshape(-1, 32)),
    ("NHWC", lambda x: x[:, 5:8]),
    ("nChw16c", lambda x: ops.flatten(x, 2)),
    ("nChw16c", lambda x: ops.unsqueeze(x, 0)),
    ("nChw16c", lambda x: ops.permute(x, [0, 2, 3, 1])),
    ("nChw16c", lambda x: x[:, 16:, 1:]),
    ("nChw16c", lambda x: parts(ops.split(x, 16, 1))[1]),
    ("ABcd4b2a", lambda x: ops.transpose(x, 0, 1)),
    ("dcba", lambda x: ops.identity(x)),
]


@pytest.mark.parametrize(("layout", "op"), SHARING)
def test_views_share_storage(layout, op):
    array = numbers((2, 32, 3, 4))
    x = pl.asarray(array, layout=layout)
    view = op(x)
    before = view.numpy()
    x.write(-array)
    np.testing.assert_array_equal(view.numpy(), -before)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c", "nChw8c"])
def test_flatten_of_pooled_features_is_plain(layout):
    """(n, c, 1, 1) is row-major in every layout with whole blocks: nothing is moved between pooling and `linear`."""
    flat = ops.flatten(pl.asarray(numbers((2, 64, 1, 1)), layout=layout), 1)
    assert flat.layout == "NC" and flat.is_dense


def test_layouts_of_views_are_named():
    x = pl.asarray(numbers((2, 32, 3, 4)), layout="NHWC")
    assert ops.permute(x, [0, 2, 3, 1]).layout == "NCHW"  # (n, h, w, c), row-major
    assert ops.flatten(x, 2).layout == "NWC"
    assert x[:, :3].layout == "NHWC"
    blocked = x.to(layout="nChw16c")
    assert ops.flatten(blocked, 2).layout == "nCw16c"
    assert blocked[:, 16:].layout == "nChw16c"


def test_views_keep_their_storage_alive():
    view = ops.permute(pl.asarray(numbers((2, 3, 4, 5)), layout="NHWC"), [3, 2, 1, 0])
    pl.release_caches()
    np.testing.assert_array_equal(view.numpy(), numbers((2, 3, 4, 5)).transpose())


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int32", "int64", "bool"])
def test_views_of_every_dtype(dtype):
    array = numbers((2, 3, 4, 5)).astype(dtype)
    x = pl.asarray(array, layout="nChw8c")
    np.testing.assert_array_equal(x[:, 1:, ::2].numpy(), array[:, 1:, ::2])
    np.testing.assert_array_equal(ops.reshape(x, [6, 20]).numpy(), array.reshape(6, 20))


@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 4, 0)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c"])
def test_views_of_nothing(shape, layout):
    x = pl.asarray(np.zeros(shape, "float32"), layout=layout)
    assert ops.flatten(x).shape == (0,)
    assert ops.permute(x, [3, 2, 1, 0]).shape == shape[::-1]
    assert x[1:2].shape == np.zeros(shape)[1:2].shape
    assert ops.unsqueeze(x, 1).shape == (shape[0], 1, *shape[1:])
    assert ops.reshape(x, [0, 7]).shape == (0, 7)
    assert ops.flatten(x).numpy().size == 0


def test_scalars():
    x = pl.asarray(np.float32(3))
    assert x.shape == () and ops.reshape(x, [1, 1]).shape == (1, 1)
    assert ops.flatten(x).shape == (1,)
    assert ops.unsqueeze(x, -1).numpy().tolist() == [3]
    assert ops.squeeze(ops.reshape(x, [1, 1])).item() == 3
    assert ops.permute(x, []).item() == 3
