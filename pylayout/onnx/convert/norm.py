"""Normalisation."""

from __future__ import annotations

import math

from ...errors import InvalidArgumentError, ShapeError, UnsupportedError
from ..node import Node, dtype_text
from ..operand import Operand, Result
from ..registry import converter
from .math import cast


def _normalised(node: Node, mean: Operand, variance: Operand) -> Operand:
    made: Operand = node.op(
        "batch_norm", node.x(0), mean, variance, node.x(1), node.x(2), eps=node.number("epsilon", 1e-5)
    )
    return made


@converter("BatchNormalization", since=7, note="before opset 14 inference only")
def batch_normalization_7(node: Node) -> Result:
    if not node.integer("spatial", 1):  # opsets 7 and 8 have it
        raise UnsupportedError("attribute spatial is 0, expected 1")
    node.ignore("momentum")  # of training
    if any(node.wants(i) for i in range(1, 5)):
        raise UnsupportedError("outputs beyond the first are used, which only training has")
    return _normalised(node, node.x(3), node.x(4))


@converter("BatchNormalization", since=14)
def batch_normalization(node: Node) -> Result:
    momentum = node.number("momentum", 0.9)
    if not node.integer("training_mode", 0):
        if node.wants(1) or node.wants(2):
            raise InvalidArgumentError("outputs beyond the first are used, which only training_mode=1 has")
        return _normalised(node, node.x(3), node.x(4))
    # By the statistics of x itself, as weights are standardised; those given are moved towards them.
    x, scale, bias = node.x(0), node.x(1), node.x(2)
    if x.ndim < 2:
        raise ShapeError(f"x has rank {x.ndim}, expected at least 2")

    def moved(given: Operand, found: Operand) -> Operand:
        scalars, dtype = [momentum, 1 - momentum], dtype_text(given)
        made: Operand = node.op("pointwise", [given, found], "y0 = x0 * s0 + x1 * s1", scalars=scalars, dtype=dtype)
        return made

    alone = math.prod(size for i, size in enumerate(x.shape) if i != 1) == 1  # which training refuses
    if len({dtype_text(node.x(i)) for i in range(5)}) == 1 and not alone:  # the op that has gradients
        y, mean, variance = node.op("batch_norm_training", x, scale, bias, eps=node.number("epsilon", 1e-5))
        mean, variance = (cast(node, found, dtype_text(scale)) for found in (mean, variance))
    else:
        axes = [i for i in range(x.ndim) if i != 1]
        mean = node.op("mean", x, axes, True)
        variance = node.op("mean", node.op("square", node.op("sub", x, mean)), axes)
        mean = node.op("reshape", mean, [x.shape[1]])
        # In the dtype of the scale, which may be wider than that of x.
        mean, variance = (cast(node, found, dtype_text(scale)) for found in (mean, variance))
        y = _normalised(node, mean, variance)
    return [
        y,
        *(moved(node.x(3 + i), found) if node.wants(1 + i) else None for i, found in enumerate((mean, variance))),
    ]


@converter("InstanceNormalization", since=6)
def instance_normalization(node: Node) -> Result:
    x, scale, bias = node.x(0), node.x(1), node.x(2)
    return node.op("instance_norm", x, scale, bias, eps=node.number("epsilon", 1e-5))


def _group(node: Node, per_group: bool) -> Result:
    x, scale, bias = node.x(0), node.x(1), node.x(2)
    node.ignore("stash_type")  # statistics are kept in f32 at least
    groups = node.integer("num_groups")
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"x has shape {list(x.shape)}, expected channels that {groups} groups divide")
    if per_group:
        each = x.shape[1] // groups
        scale, bias = (
            node.op("reshape", node.op("tile", node.op("reshape", v, [groups, 1]), [1, each]), [-1])
            for v in (scale, bias)
        )
    return node.op("group_norm", x, groups, scale, bias, eps=node.number("epsilon", 1e-5))


@converter("GroupNormalization", since=18)
def group_normalization_18(node: Node) -> Result:
    return _group(node, per_group=True)


@converter("GroupNormalization", since=21)
def group_normalization_21(node: Node) -> Result:
    return _group(node, per_group=False)


# Since opset 17; ONNX Runtime's optimiser writes it, with the same meaning, in models of any opset.
@converter("LayerNormalization", since=1)
def layer_normalization(node: Node) -> Result:
    x, scale, bias = node.x(0), node.x(1), node.optional(2)
    stash = node.integer("stash_type", 1)  # of the statistics: 1 is float32, others the dtype of x
    axis = node.axis(node.integer("axis", -1), x.ndim)
    eps = node.number("epsilon", 1e-5)
    shape = tuple(x.shape[axis:])
    fits = scale.shape == shape and (bias is None or bias.shape == shape)
    y = node.op("layer_norm", x, list(shape), scale if fits else None, bias if fits else None, eps=eps)
    if not fits:
        y = node.op("mul", y, scale)
        y = y if bias is None else node.op("add", y, bias)
    if not (node.wants(1) or node.wants(2)):
        return y
    axes = list(range(axis, x.ndim))
    x = cast(node, x, "f32") if stash == 1 else x
    mean = node.op("mean", x, axes, True)
    squares = node.op("mean", node.op("square", node.op("sub", x, mean)), axes, True)
    inverse = node.op("rsqrt", node.op("add", squares, node.scalar_like(eps, squares)))
    return [y, mean, inverse]


def root_mean_square(node: Node) -> Operand:
    """The first input divided by the root of its mean square, times the second."""
    x, scale = node.x(0), node.x(1)
    node.ignore("stash_type")
    axis = node.axis(node.integer("axis", -1), x.ndim)
    shape = tuple(x.shape[axis:])
    fits = scale.shape == shape
    y: Operand = node.op("rms_norm", x, list(shape), scale if fits else None, eps=node.number("epsilon", 1e-5))
    return y if fits else node.op("mul", y, scale)


@converter("RMSNormalization", since=23)
def rms_normalization(node: Node) -> Result:
    return root_mean_square(node)


@converter("LpNormalization", since=1)
def lp_normalization(node: Node) -> Result:
    x = node.x(0)
    axis = node.axis(node.integer("axis", -1), x.ndim)
    p = node.integer("p", 2)
    if p not in (1, 2):
        raise UnsupportedError(f"attribute p is {p}, expected 1 or 2")
    norm = node.op("reduce_l1" if p == 1 else "reduce_l2", x, [axis], True)
    return node.op("pointwise", [x, norm], "y0 = x1 == 0 ? 0 : x0 / x1", dtype=dtype_text(x))


@converter("LRN", since=1)
def lrn(node: Node) -> Result:
    x, size = node.x(0), node.integer("size")
    numbers = [node.number(name, default) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))]
    if size % 2 or x.ndim < 2:
        return node.op("local_response_norm", x, size, *numbers)
    # A window of even size reaches one channel further to higher channels here, to lower ones in torch and the library.
    back = node.backwards(x.shape[1])
    turned = node.op("local_response_norm", node.op("index_select", x, 1, back), size, *numbers)
    return node.op("index_select", turned, 1, back)


@converter("MeanVarianceNormalization", since=9)
def mean_variance_normalization(node: Node) -> Result:
    x = node.x(0)
    axes = node.axes(node.integers("axes", [0, 2, 3]), x.ndim)
    mean = node.op("mean", x, axes, True)
    centred: Operand = node.op("sub", x, mean)
    deviation = node.op("sqrt", node.op("mean", node.op("square", centred), axes, True))
    return node.op("div", centred, node.op("add", deviation, node.scalar_like(1e-9, deviation)))
