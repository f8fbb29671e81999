"""Shapes, dtypes and errors of every op against torch (where it is installed) and NumPy.

Each case draws arguments, most of them valid, some not.  Both sides must agree on whether the call is valid; where
it is, on shape and dtype.  What pylayout decides otherwise than torch is written at the case.
"""

import numpy as np
import pytest

import pylayout as pl
from pylayout import ops

pytest.importorskip("hypothesis", reason="the cases are drawn by hypothesis")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("unoptimised")
EXAMPLES = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,  # the same cases on every machine
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Call:
    """One call: the op, its tensors as shapes, its attributes."""

    def __init__(self, op, tensors, attributes, dtypes=None):
        self.op, self.tensors, self.attributes, self.dtypes = op, tensors, attributes, dtypes or {}

    def __repr__(self):
        return f"{self.op} {self.tensors} {self.dtypes} {self.attributes}"

    def array(self, name, shape):
        return np.zeros(shape, self.dtypes.get(name, "float32"))

    def arrays(self):
        return {
            name: [self.array(name, s) for s in shape] if isinstance(shape, list) else self.array(name, shape)
            for name, shape in self.tensors.items()
            if shape is not None
        }

    def ours(self):
        """[(shape, dtype)], or the error."""
        try:
            result = getattr(ops, self.op)(
                **{
                    name: [pl.asarray(a) for a in array] if isinstance(array, list) else pl.asarray(array)
                    for name, array in self.arrays().items()
                },
                **self.attributes,
            )
        except pl.Error as error:
            assert str(error).startswith(self.op + ": "), str(error)
            return error
        results = result if isinstance(result, (list, tuple)) else [result]
        return [(r.shape, str(np.dtype(r.dtype.dtype))) for r in results]

    def theirs(self, function):
        """[(shape, dtype)], or the error."""
        torch = pytest.importorskip("torch", reason="the comparison is with torch")
        tensors = {
            name: [torch.from_numpy(a) for a in array] if isinstance(array, list) else torch.from_numpy(array)
            for name, array in self.arrays().items()
        }
        try:
            result = function(torch, **tensors, **self.attributes)
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError) as error:
            return error
        results = result if isinstance(result, (list, tuple)) else [result]
        return [(tuple(r.shape), str(r.dtype).removeprefix("torch.")) for r in results]


def agree(call, function):
    theirs = call.theirs(function)
    ours = call.ours()
    if isinstance(theirs, list):
        assert ours == theirs, f"{call}: pylayout {ours!r}, torch {theirs!r}"
    else:
        refused = isinstance(ours, (pl.ShapeError, pl.InvalidArgumentError))
        assert refused, f"{call}: pylayout gives {ours!r}, torch refuses: {theirs}"


def one_or_each(values, spatial):
    """An int, or a list of one for each spatial dimension."""
    return st.one_of(values, st.lists(values, min_size=spatial, max_size=spatial))


def mostly(usual, seldom):
    """`usual`, one time in eight `seldom`."""
    return st.integers(0, 7).flatmap(lambda i: seldom if i == 0 else usual)


def sizes(rank, low=1, high=5):
    return st.lists(st.integers(low, high), min_size=rank, max_size=rank).map(tuple)


def shapes(low=0, high=4, largest=4, smallest=1):
    return st.integers(low, high).flatmap(lambda rank: sizes(rank, smallest, largest))


def dims(rank):
    return st.integers(-rank - 1, rank)


# ---- convolution -----------------------------------------------------------------------------------------


@st.composite
def convolutions(draw, spatial, transposed):
    groups = draw(st.integers(1, 3))
    c, oc = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    kernel = draw(sizes(spatial, 1, 3))
    # torch does not check attributes of transposed convolutions of nothing.
    x = (draw(st.integers(int(transposed), 2)), c, *draw(sizes(spatial, 1, 6)))
    weight = (c, oc // groups, *kernel) if transposed else (oc, c // groups, *kernel)
    broken = draw(mostly(st.just(""), st.sampled_from(["rank", "channels", "groups", "bias", "kernel"])))
    if broken == "rank":
        x += (1,)
    if broken == "channels":
        x = (x[0], x[1] + 1, *x[2:])
    if broken == "kernel":
        weight = weight[:2] + (9,) * spatial
    bias = draw(st.sampled_from([None, (oc,)])) if broken != "bias" else (oc + 1,)
    attributes = {
        "stride": draw(one_or_each(mostly(st.integers(1, 3), st.integers(-1, 0)), spatial)),
        "padding": draw(one_or_each(mostly(st.integers(0, 3), st.just(-1)), spatial)),
        # Not 0: torch takes it where the kernel has one element.
        "dilation": draw(one_or_each(mostly(st.integers(1, 2), st.just(-1)), spatial)),
        "groups": groups if broken != "groups" else draw(st.integers(-1, 4)),
    }
    if transposed:
        attributes["output_padding"] = draw(one_or_each(mostly(st.just(0), st.integers(-1, 2)), spatial))
    return Call(f"conv{'_transpose' * transposed}{spatial}d", {"x": x, "weight": weight, "bias": bias}, attributes)


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@EXAMPLES
@given(data=st.data())
def test_convolution(spatial, transposed, data):
    call = data.draw(convolutions(spatial, transposed))

    def function(torch, x, **rest):
        return getattr(torch.nn.functional, call.op)(x, **rest)

    theirs = call.theirs(function)
    if isinstance(theirs, list) and 0 in theirs[0][0][2:]:  # torch refuses images of no size in two dimensions only
        assert isinstance(call.ours(), pl.ShapeError)
    else:
        agree(call, function)


@EXAMPLES
@given(st.data())
def test_asymmetric_padding_is_begins_then_ends(data):
    spatial = data.draw(st.integers(1, 3))
    begin, end = data.draw(sizes(spatial, 0, 3)), data.draw(sizes(spatial, 0, 3))
    x = np.zeros((1, 2, *data.draw(sizes(spatial, 3, 5))), "float32")
    weight = np.zeros((4, 2, *data.draw(sizes(spatial, 1, 3))), "float32")
    padded = np.pad(x, [(0, 0), (0, 0), *zip(begin, end, strict=True)])
    conv = getattr(ops, f"conv{spatial}d")
    y = conv(pl.asarray(x), pl.asarray(weight), padding=[*begin, *end])
    assert y.shape == conv(pl.asarray(padded), pl.asarray(weight)).shape


# ---- linear, matmul --------------------------------------------------------------------------------------


@EXAMPLES
@given(st.data())
def test_linear(data):
    inner, out = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    x = (*data.draw(shapes(0, 3)), inner)
    weight = (out, inner + data.draw(mostly(st.just(0), st.just(1))))
    bias = data.draw(mostly(st.sampled_from([None, (out,)]), st.just((out + 1,))))
    if bias == (2,) and out == 1:
        bias = None  # torch broadcasts an output of one feature; a bias has the size of the output here
    agree(
        Call("linear", {"x": x, "weight": weight, "bias": bias}, {}),
        lambda torch, x, **rest: torch.nn.functional.linear(x, **rest),
    )


@EXAMPLES
@given(st.data())
def test_matmul(data):
    m, k, n = data.draw(sizes(3, 0, 4))
    batch = data.draw(shapes(0, 2, 3))

    def broadcast():
        return tuple(data.draw(st.sampled_from([s, 1])) for s in batch)[data.draw(st.integers(0, len(batch))) :]

    a = data.draw(st.sampled_from([(k,), (*broadcast(), m, k)]))
    b = data.draw(st.sampled_from([(k,), (*broadcast(), k, n)]))
    if data.draw(mostly(st.just(False), st.just(True))):
        b = (*b[:-1], b[-1] + 1)
    if data.draw(mostly(st.just(False), st.just(True))):
        b = (5, *b)
    agree(Call("matmul", {"a": a, "b": b}, {}), lambda torch, a, b: torch.matmul(a, b))


@EXAMPLES
@given(st.data())
def test_matmul_of_transposed(data):
    m, k, n = data.draw(sizes(3, 1, 4))
    ta, tb = data.draw(st.booleans()), data.draw(st.booleans())

    def shape(rows, columns, swap):
        return (2, columns, rows) if swap else (2, rows, columns)

    call = Call("matmul", {"a": shape(m, k, ta), "b": shape(k, n, tb)}, {"transpose_a": ta, "transpose_b": tb})
    assert call.ours() == [((2, m, n), "float32")]


# ---- pooling ---------------------------------------------------------------------------------------------


@st.composite
def pools(draw, spatial, mode):
    # torch's avg_pool3d wants images as large as the kernel, whatever the padding.
    smallest = 4 if (spatial, mode) == (3, "avg") else 1
    x = (draw(st.integers(1, 2)), draw(st.integers(1, 3)), *draw(sizes(spatial, smallest, 8)))
    dilated = mode == "max" and draw(st.booleans())
    attributes = {
        "kernel_size": draw(one_or_each(mostly(st.integers(1, 4), st.integers(-1, 0)), spatial)),
        "stride": draw(st.one_of(st.none(), one_or_each(mostly(st.integers(1, 3), st.just(-1)), spatial))),
        # At most half the window's reach; torch counts the reach without dilation.
        "padding": draw(one_or_each(mostly(st.integers(0, 1 if dilated else 2), st.just(-1)), spatial)),
        "ceil_mode": draw(st.booleans()),
    }
    if dilated:
        attributes["dilation"] = draw(one_or_each(mostly(st.integers(1, 2), st.integers(-1, 0)), spatial))
    if mode == "avg":
        attributes["count_include_pad"] = draw(st.booleans())
    return Call(f"{mode}_pool{spatial}d", {"x": x}, attributes)


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("mode", ["max", "avg"])
@EXAMPLES
@given(data=st.data())
def test_pool(spatial, mode, data):
    call = data.draw(pools(spatial, mode))
    agree(call, lambda torch, x, **rest: getattr(torch.nn.functional, call.op)(x, **rest))


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("mode", ["max", "avg"])
@EXAMPLES
@given(data=st.data())
def test_adaptive_pool(spatial, mode, data):
    x = (data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3)), *data.draw(sizes(spatial, 1, 8)))
    size = data.draw(one_or_each(mostly(st.integers(1, 9), st.integers(-3, -2)), spatial))
    call = Call(f"adaptive_{mode}_pool{spatial}d", {"x": x}, {"output_size": size})
    agree(call, lambda torch, x, output_size: getattr(torch.nn.functional, call.op)(x, output_size))


# ---- normalisation, softmax ------------------------------------------------------------------------------


@EXAMPLES
@given(st.data())
def test_batch_norm(data):
    x = data.draw(shapes(2, 5))
    c = x[1]
    wrong = data.draw(mostly(st.just(""), st.sampled_from(["running_mean", "running_var", "weight", "bias"])))
    tensors = {name: (c + (name == wrong),) for name in ["running_mean", "running_var", "weight", "bias"]}
    for name in ["weight", "bias"]:
        if name != wrong and data.draw(st.booleans()):
            tensors[name] = None
    agree(
        Call("batch_norm", {"x": x, **tensors}, {"eps": 1e-3}),
        lambda torch, x, **rest: torch.nn.functional.batch_norm(x, **rest),
    )


@EXAMPLES
@given(st.data())
def test_layer_norm(data):
    x = data.draw(shapes(1, 4))
    normalized = x[-data.draw(st.integers(1, len(x))) :]
    if data.draw(mostly(st.just(False), st.just(True))):
        normalized = (normalized[0] + 1, *normalized[1:])
    weight = data.draw(mostly(st.sampled_from([None, normalized]), st.just((*normalized, 1))))
    agree(
        Call("layer_norm", {"x": x, "weight": weight}, {"normalized_shape": list(normalized)}),
        lambda torch, x, **rest: torch.nn.functional.layer_norm(x, **rest),
    )


@EXAMPLES
@given(st.data())
def test_group_norm(data):
    groups = data.draw(st.integers(1, 3))
    c = groups * data.draw(st.integers(1, 3)) + data.draw(mostly(st.just(0), st.just(1)))
    x = (2, c, *data.draw(shapes(1, 3, smallest=2)))
    weight = data.draw(mostly(st.sampled_from([None, (c,)]), st.just((c + 1,))))
    agree(
        Call("group_norm", {"x": x, "weight": weight}, {"num_groups": groups}),
        lambda torch, x, **rest: torch.nn.functional.group_norm(x, **rest),
    )


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
@EXAMPLES
@given(data=st.data())
def test_softmax(op, data):
    x = data.draw(shapes(1, 4, smallest=0))
    call = Call(op, {"x": x}, {"dim": data.draw(dims(len(x)))})
    agree(call, lambda torch, x, dim: getattr(torch.nn.functional, op)(x, dim))


@EXAMPLES
@given(st.data())
def test_prelu(data):
    x = data.draw(shapes(1, 4))
    c = x[1] if len(x) > 1 else 1
    weight = (data.draw(mostly(st.sampled_from([1, c]), st.integers(1, 5))),)
    agree(Call("prelu", {"x": x, "weight": weight}, {}), lambda torch, x, weight: torch.nn.functional.prelu(x, weight))


@EXAMPLES
@given(st.data())
def test_local_response_norm(data):
    call = Call("local_response_norm", {"x": data.draw(shapes(2, 5))}, {"size": data.draw(st.integers(-1, 4))})
    agree(call, lambda torch, x, size: torch.nn.functional.local_response_norm(x, size))


# ---- elementwise -----------------------------------------------------------------------------------------

UNARY = {  # torch's names where they differ
    "hardswish": "nn.functional.hardswish", "hardsigmoid": "nn.functional.hardsigmoid", "relu6": "nn.functional.relu6",
    "leaky_relu": "nn.functional.leaky_relu", "elu": "nn.functional.elu", "gelu": "nn.functional.gelu",
    "silu": "nn.functional.silu", "softplus": "nn.functional.softplus", "mish": "nn.functional.mish",
    "softsign": "nn.functional.softsign",
}  # fmt: skip
FLOAT_UNARY = [
    "leaky_relu", "elu", "selu", "gelu", "silu", "hardswish", "hardsigmoid", "sigmoid", "tanh", "softplus", "mish",
    "softsign", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "erf",
]  # fmt: skip
NUMBER_UNARY = ["relu", "relu6", "abs", "neg", "square", "floor", "ceil", "round", "sign"]


@pytest.mark.parametrize("op", FLOAT_UNARY + NUMBER_UNARY + ["logical_not"])
def test_unary(op):
    for shape in [(), (3,), (2, 0, 3), (1, 2, 3, 4)]:
        for dtype in ["float32", "float16"] + ["int32", "int64", "uint8", "int8"] * (op in NUMBER_UNARY):
            if op in ("relu6",) and dtype != "float32":
                continue  # torch's relu6 changes integers to int64 bounds in some versions; floats are what it is for
            expected = "bool" if op == "logical_not" else dtype
            assert Call(op, {"x": shape}, {}, {"x": dtype}).ours() == [(shape, expected)]


@pytest.mark.parametrize("op", FLOAT_UNARY)
def test_functions_of_real_numbers_refuse_integers(op):
    error = Call(op, {"x": (2,)}, {}, {"x": "int32"}).ours()
    assert isinstance(error, pl.UnsupportedError) and "x has dtype s32" in str(error)


BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "pow", "eq", "ne", "lt", "le", "gt", "ge"]


@pytest.mark.parametrize("op", [*BINARY, "logical_and", "logical_or"])
@settings(EXAMPLES, max_examples=25)
@given(data=st.data())
def test_binary(op, data):
    shape = data.draw(shapes(0, 4, smallest=0))

    def part():
        return tuple(data.draw(mostly(st.sampled_from([s, 1]), st.integers(1, 4))) for s in shape)

    x, y = part(), part()[data.draw(st.integers(0, len(shape))) :]
    call = Call(op, {"x": x, "y": y}, {})
    agree(call, lambda torch, x, y: getattr(torch, op)(x, y))
    try:
        expected = np.broadcast_shapes(x, y)
    except ValueError:
        assert isinstance(call.ours(), pl.ShapeError)
    else:
        assert call.ours()[0][0] == expected


@EXAMPLES
@given(st.data())
def test_where(data):
    shape = data.draw(shapes(0, 3))

    def part():
        return tuple(data.draw(mostly(st.sampled_from([s, 1]), st.integers(1, 4))) for s in shape)

    call = Call("where", {"condition": part(), "x": part(), "y": part()}, {}, {"condition": "bool"})
    agree(call, lambda torch, condition, x, y: torch.where(condition, x, y))


# ---- reductions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["sum", "mean", "amax", "amin"])
@EXAMPLES
@given(data=st.data())
def test_reduce(op, data):
    x = data.draw(shapes(1, 4, smallest=0))
    dim = data.draw(st.lists(dims(len(x)), min_size=1, max_size=3))
    call = Call(op, {"x": x}, {"dim": dim, "keepdim": data.draw(st.booleans())})
    agree(call, lambda torch, x, dim, keepdim: getattr(torch, op)(x, dim=dim, keepdim=keepdim))


@pytest.mark.parametrize("op", ["sum", "mean", "prod", "amax", "reduce_l1", "reduce_l2", "reduce_sum_square"])
def test_reduce_all(op):
    assert Call(op, {"x": (2, 3, 4)}, {}).ours() == [((), "float32")]
    assert Call(op, {"x": (2, 3, 4)}, {"keepdim": True}).ours() == [((1, 1, 1), "float32")]
    assert Call(op, {"x": (2, 3, 4)}, {"dim": -1}).ours() == [((2, 3), "float32")]


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@EXAMPLES
@given(data=st.data())
def test_arg_reduce(op, data):
    x = data.draw(shapes(1, 4, smallest=0))
    dim = data.draw(st.one_of(st.none(), dims(len(x))))
    call = Call(op, {"x": x}, {"dim": dim, "keepdim": data.draw(st.booleans())})
    agree(call, lambda torch, x, dim, keepdim: getattr(torch, op)(x, dim=dim, keepdim=keepdim))


@EXAMPLES
@given(data=st.data())
def test_topk(data):
    x = data.draw(shapes(1, 4, smallest=0))
    dim = data.draw(dims(len(x)))
    size = x[dim] if -len(x) <= dim < len(x) else 1
    k = data.draw(mostly(st.integers(0, size), st.integers(-1, size + 1)))
    call = Call("topk", {"x": x}, {"k": k, "dim": dim, "largest": data.draw(st.booleans())})
    agree(call, lambda torch, x, **attributes: torch.topk(x, **attributes))


# ---- data movement ---------------------------------------------------------------------------------------


@EXAMPLES
@given(st.data())
def test_concat(data):
    shape = list(data.draw(shapes(1, 4)))
    dim = data.draw(dims(len(shape)))
    tensors = []
    for _ in range(data.draw(st.integers(1, 4))):
        part = list(shape)
        part[dim % len(shape)] = data.draw(st.integers(1, 3))
        if data.draw(mostly(st.just(False), st.just(True))):
            part[0] += 1
        tensors.append(tuple(part))
    agree(Call("concat", {"tensors": tensors}, {"dim": dim}), lambda torch, tensors, dim: torch.concat(tensors, dim))


@EXAMPLES
@given(st.data())
def test_pad(data):
    x = data.draw(shapes(1, 4))
    count = data.draw(st.integers(1, 2 * len(x)))
    pad = data.draw(st.lists(st.integers(-2, 3), min_size=count, max_size=count))
    agree(Call("pad", {"x": x}, {"pad": pad}), lambda torch, x, pad: torch.nn.functional.pad(x, pad))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@EXAMPLES
@given(data=st.data())
def test_pad_mirrored_and_repeated(mode, data):
    spatial = data.draw(st.integers(1, 3))
    x = (1, 2, *data.draw(sizes(spatial, 1, 4)))
    pad = data.draw(st.lists(st.integers(0, 4), min_size=2 * spatial, max_size=2 * spatial))
    call = Call("pad", {"x": x}, {"pad": pad, "mode": mode})
    agree(call, lambda torch, x, pad, mode: torch.nn.functional.pad(x, pad, mode))


@EXAMPLES
@given(st.data())
def test_index_select(data):
    x = data.draw(shapes(1, 4))
    call = Call(
        "index_select",
        {"x": x, "index": (data.draw(st.integers(0, 4)),)},
        {"dim": data.draw(dims(len(x)))},
        {"index": "int64"},
    )
    agree(call, lambda torch, x, index, dim: torch.index_select(x, dim, index))


def test_index_select_by_index_of_any_rank():
    call = Call("index_select", {"x": (4, 5, 6), "index": (2, 3)}, {"dim": 1}, {"index": "int32"})
    assert call.ours() == [((4, 2, 3, 6), "float32")]


@EXAMPLES
@given(st.data())
def test_embedding(data):
    index = data.draw(shapes(0, 3, smallest=0))
    call = Call("embedding", {"index": index, "weight": (5, 3)}, {}, {"index": "int64"})
    agree(call, lambda torch, index, weight: torch.nn.functional.embedding(index, weight))


@EXAMPLES
@given(st.data())
def test_gather(data):
    x = data.draw(shapes(1, 3))
    index = tuple(data.draw(mostly(st.integers(1, s), st.integers(1, 6))) for s in x)
    call = Call("gather", {"x": x, "index": index}, {"dim": data.draw(dims(len(x)))}, {"index": "int64"})
    agree(call, lambda torch, x, index, dim: torch.gather(x, dim, index))


@EXAMPLES
@given(st.data())
def test_interpolate(data):
    spatial = data.draw(st.integers(1, 3))
    x = (1, 2, *data.draw(sizes(spatial, 1, 6)))
    linear = ["linear", "bilinear", "trilinear"]
    mode = data.draw(mostly(st.sampled_from(["nearest", linear[spatial - 1]]), st.sampled_from(linear)))
    attributes = {"mode": mode}
    if data.draw(st.booleans()):
        attributes["size"] = data.draw(one_or_each(mostly(st.integers(1, 9), st.integers(-1, 0)), spatial))
    else:
        factors = st.sampled_from([0.3, 0.5, 1.0, 1.5, 2.0, 2.7, 3.0])
        attributes["scale_factor"] = data.draw(one_or_each(factors, spatial))
    if mode != "nearest":
        attributes["align_corners"] = data.draw(st.booleans())
    agree(
        Call("interpolate", {"x": x}, attributes), lambda torch, x, **rest: torch.nn.functional.interpolate(x, **rest)
    )


# ---- views -----------------------------------------------------------------------------------------------


@EXAMPLES
@given(st.data())
def test_reshape(data):
    x = data.draw(shapes(0, 4, smallest=0))
    count = int(np.prod(x))
    shape = data.draw(st.lists(st.integers(-1, 4), max_size=4))
    if count and data.draw(st.booleans()):
        first = data.draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
        shape = data.draw(st.permutations([first, data.draw(st.sampled_from([-1, count // first]))]))
    agree(Call("reshape", {"x": x}, {"shape": shape}), lambda torch, x, shape: torch.reshape(x, shape))


@EXAMPLES
@given(st.data())
def test_flatten(data):
    x = data.draw(shapes(0, 4, smallest=0))
    attributes = {"start_dim": data.draw(dims(len(x))), "end_dim": data.draw(dims(len(x)))}
    agree(Call("flatten", {"x": x}, attributes), lambda torch, x, **rest: torch.flatten(x, **rest))


@EXAMPLES
@given(st.data())
def test_permute(data):
    x = data.draw(shapes(0, 4))
    order = data.draw(mostly(st.permutations(range(len(x))), st.lists(dims(len(x)), max_size=4)))
    agree(Call("permute", {"x": x}, {"dims": list(order)}), lambda torch, x, dims: torch.permute(x, dims))


@EXAMPLES
@given(st.data())
def test_transpose(data):
    x = data.draw(shapes(1, 4))
    attributes = {"dim0": data.draw(dims(len(x))), "dim1": data.draw(dims(len(x)))}
    agree(Call("transpose", {"x": x}, attributes), lambda torch, x, **rest: torch.transpose(x, **rest))


@EXAMPLES
@given(st.data())
def test_squeeze(data):
    x = data.draw(shapes(1, 5, largest=2))
    dim = data.draw(st.one_of(st.none(), dims(len(x))))
    agree(Call("squeeze", {"x": x}, {"dim": dim}), lambda torch, x, dim: x.squeeze() if dim is None else x.squeeze(dim))


@EXAMPLES
@given(st.data())
def test_unsqueeze(data):
    x = data.draw(shapes(0, 4))
    dim = data.draw(st.integers(-len(x) - 2, len(x) + 1))
    agree(Call("unsqueeze", {"x": x}, {"dim": dim}), lambda torch, x, dim: torch.unsqueeze(x, dim))


@EXAMPLES
@given(st.data())
def test_split(data):
    x = data.draw(shapes(1, 3, largest=6))
    dim = data.draw(dims(len(x)))
    size = x[dim] if -len(x) <= dim < len(x) else 3
    cut = data.draw(st.integers(0, size))
    parts = data.draw(
        st.one_of(mostly(st.integers(1, 4), st.integers(-1, 0)), st.just([cut, size - cut]), st.just([1, size]))
    )
    call = Call("split", {"x": x}, {"split_size_or_sections": parts, "dim": dim})
    agree(call, lambda torch, x, split_size_or_sections, dim: torch.split(x, split_size_or_sections, dim))


@EXAMPLES
@given(st.data())
def test_slice(data):
    x = data.draw(shapes(1, 4, smallest=0, largest=6))
    axes = data.draw(st.permutations(range(len(x))))[: data.draw(st.integers(1, len(x)))]
    place = st.one_of(st.integers(-8, 8), st.sampled_from([-(2**63), 2**63 - 1]))
    starts, ends = ([data.draw(place) for _ in axes] for _ in range(2))
    steps = [data.draw(st.integers(1, 4)) for _ in axes]
    index = [slice(None)] * len(x)
    for axis, *parts in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(*parts)
    call = Call("slice", {"x": x}, {"starts": starts, "ends": ends, "axes": list(axes), "steps": steps})
    assert call.ours() == [(np.zeros(x)[tuple(index)].shape, "float32")]


# ---- ops of whole models ---------------------------------------------------------------------------------


@EXAMPLES
@given(st.data())
def test_expand(data):
    x = data.draw(shapes(low=1, smallest=0))
    wanted = [data.draw(mostly(st.just(size) if size != 1 else st.integers(0, 4), st.integers(-1, 4))) for size in x]
    wanted = data.draw(st.lists(mostly(st.integers(0, 3), st.just(-1)), max_size=2)) + wanted
    agree(Call("expand", {"x": x}, {"shape": wanted}), lambda torch, x, shape: x.expand(shape))


@EXAMPLES
@given(st.data())
def test_tile(data):
    x = data.draw(shapes())  # of nothing torch takes negative counts
    dims = data.draw(st.lists(mostly(st.integers(0, 3), st.just(-1)), min_size=1, max_size=5))
    agree(Call("tile", {"x": x}, {"dims": dims}), lambda torch, x, dims: torch.tile(x, dims))


@EXAMPLES
@given(st.data())
def test_attention(data):
    heads = data.draw(shapes(high=3))
    queries, keys, width, value_width = (data.draw(st.integers(1, 4)) for _ in range(4))
    tensors = {"q": (*heads, queries, width), "k": (*heads, keys, width), "v": (*heads, keys, value_width)}
    broken = data.draw(mostly(st.just(""), st.sampled_from(["k", "v", "attn_mask"])))
    mask = data.draw(st.sampled_from([None, (queries, keys), (1, keys), (*heads, queries, keys), (queries, 1)]))
    if broken == "attn_mask":
        mask = (queries, keys + 1)
    elif broken:
        tensors[broken] = (*tensors[broken][:-2], keys + 1, tensors[broken][-1] + (broken == "k"))
    # torch does not take a mask and is_causal at once.
    causal = mask is None and data.draw(st.booleans())
    agree(
        Call("scaled_dot_product_attention", {**tensors, "attn_mask": mask}, {"is_causal": causal}),
        lambda torch, q, k, v, attn_mask=None, **a: torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=attn_mask, **a
        ),
    )
