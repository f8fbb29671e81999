"""Fused by ONNX Runtime: ops of its domain com.microsoft that its optimiser puts in the place of several.

Each becomes the ops that it stands for; passes of the graph join them as they do in models that were not optimised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...errors import ShapeError, UnsupportedError
from ..node import Node
from ..operand import Known, Operand, Result
from ..registry import converter
from .activation import clipped_line, over_rest, sigmoid_linear
from .conv import channels_first, channels_last, convolution
from .math import cast
from .matmul import product_sum, scaled
from .norm import root_mean_square
from .shape import trilu

DOMAIN = "com.microsoft"

converter("Trilu", domain=DOMAIN, note="k known")(trilu)


def _sum(node: Node, x: Operand, *others: Operand | None) -> Operand:
    """x and those of the others that are given."""
    for other in others:
        x = x if other is None else node.op("add", x, other)
    return x


# ---- activations ----


@converter("Gelu", "BiasGelu", domain=DOMAIN)
def gelu(node: Node) -> Result:
    bias = node.x(1) if node.op_type == "BiasGelu" else None
    return node.op("gelu", _sum(node, node.x(0), bias))


@converter("FastGelu", domain=DOMAIN)
def fast_gelu(node: Node) -> Result:
    return node.op("gelu", _sum(node, node.x(0), node.optional(1)), "tanh")


@converter("QuickGelu", domain=DOMAIN)
def quick_gelu(node: Node) -> Result:
    return sigmoid_linear(node, node.x(0), node.number("alpha", 1.702))


@converter("BiasAdd", domain=DOMAIN)
def bias_add(node: Node) -> Result:
    return _sum(node, node.x(0), node.x(1), node.x(2))


@converter("BiasSplitGelu", domain=DOMAIN)
def bias_split_gelu(node: Node) -> Result:
    x = _sum(node, node.x(0), node.x(1))
    width = x.shape[-1]
    if width % 2:
        raise ShapeError(f"x has {width} columns, expected an even number")
    left, right = node.op("split", x, [width // 2, width // 2], x.ndim - 1)
    return node.op("mul", left, node.op("gelu", right))


@converter("BiasSoftmax", domain=DOMAIN)
def bias_softmax(node: Node) -> Result:
    node.ignore("is_inner_broadcast")  # the shape of the bias says it, too
    return over_rest(node, "softmax", _sum(node, node.x(0), node.x(1)))


# What follows a product or a convolution: by its name the op, and how many numbers it takes.
_ACTIVATIONS: dict[str, tuple[str, int]] = {
    "Relu": ("relu", 0),
    "Sigmoid": ("sigmoid", 0),
    "Tanh": ("tanh", 0),
    "Softplus": ("softplus", 0),
    "Softsign": ("softsign", 0),
    "HardSwish": ("hardswish", 0),
    "LeakyRelu": ("leaky_relu", 1),
    "Elu": ("elu", 1),
    "Clip": ("clip", 2),
    "HardSigmoid": ("", 2),
}


def _activated(node: Node, y: Operand, numbers: Sequence[float]) -> Operand:
    """y by the activation that the node names, with its numbers."""
    kind = node.text("activation", "", (*_ACTIVATIONS, ""))
    if not kind:
        return y
    op, count = _ACTIVATIONS[kind]
    if len(numbers) < count:
        raise UnsupportedError(f"activation {kind} is given {len(numbers)} numbers, expected {count}")
    made: Operand = node.op(op, y, *numbers[:count]) if op else clipped_line(node, y, numbers[0], numbers[1])
    return made


# ---- products ----


def _turned(node: Node, x: Operand, name: str, batch: str) -> tuple[Operand, bool]:
    """A factor with its rows behind the dimensions of the batch, and whether it is to be transposed."""
    transposed = bool(node.integer(name, 0)) and x.ndim > 1
    if node.integer(batch, 0) and x.ndim > 2:
        x = node.op("permute", x, [*range(1, x.ndim - 1), 0, x.ndim - 1])
    return x, transposed


@converter("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def fused_matmul(node: Node) -> Result:
    a, transpose_a = _turned(node, node.x(0), "transA", "transBatchA")
    b, transpose_b = _turned(node, node.x(1), "transB", "transBatchB")
    alpha = node.number("alpha", 1.0)
    if isinstance(b, Known):  # of a constant at once
        b, alpha = scaled(node, b, alpha), 1.0
    return scaled(node, node.op("matmul", a, b, transpose_a=transpose_a, transpose_b=transpose_b), alpha)


_NAMES = ", ".join(_ACTIVATIONS)


@converter("FusedGemm", domain=DOMAIN, note=f"with {_NAMES}")
def fused_gemm(node: Node) -> Result:
    numbers = [node.number("activation_alpha", None), node.number("activation_beta", None)]
    return _activated(node, product_sum(node), [number for number in numbers if number is not None])


# ---- convolutions ----


def _fused_conv(node: Node, x: Operand, addend: Operand | None) -> Operand:
    y = convolution(node, f"conv{x.ndim - 2}d", x, node.x(1), node.optional(2))
    return _activated(node, _sum(node, y, addend), node.numbers("activation_params", []))


@converter("FusedConv", domain=DOMAIN, note=f"with {_NAMES}")
def fused_conv(node: Node) -> Result:
    return _fused_conv(node, node.x(0), node.optional(3))


@converter("NhwcFusedConv", domain=DOMAIN, note=f"with {_NAMES}")
def nhwc_fused_conv(node: Node) -> Result:
    addend = None if node.optional(3) is None else channels_first(node, node.x(3))
    return channels_last(node, _fused_conv(node, channels_first(node, node.x(0)), addend))


@converter("NhwcConv", domain=DOMAIN)
def nhwc_conv(node: Node) -> Result:
    """Channels are the last dimension of the weights, too."""
    x, weight = channels_first(node, node.x(0)), channels_first(node, node.x(1))
    return channels_last(node, convolution(node, f"conv{x.ndim - 2}d", x, weight, node.optional(2)))


# ---- norms ----


# In ONNX's own domain, though ONNX has no such op.
@converter("SimplifiedLayerNormalization")
def simplified_layer_normalization(node: Node) -> Result:
    x = node.x(0)
    y = root_mean_square(node)
    if not node.wants(1):
        return y
    axes = list(range(node.axis(node.integer("axis", -1), x.ndim), x.ndim))
    squares = node.op("mean", node.op("square", cast(node, x, "f32")), axes, True)
    eps = node.scalar_like(node.number("epsilon", 1e-5), squares)
    return [y, node.op("rsqrt", node.op("add", squares, eps))]


@converter("SkipLayerNormalization", domain=DOMAIN, note="no mean and inv_std_var")
def skip_layer_normalization(node: Node) -> Result:
    total = _sum(node, node.x(0), node.x(1), node.optional(4))
    return [_layer_norm(node, total, 2), None, None, total]


def _layer_norm(node: Node, x: Operand, at: int) -> Operand:
    """x by its last dimension, with gamma and beta at inputs `at` and `at + 1`."""
    eps = node.number("epsilon", 1e-12)
    made: Operand = node.op("layer_norm", x, [x.shape[-1]], node.x(at), node.optional(at + 1), eps=eps)
    return made


@converter("SkipSimplifiedLayerNormalization", domain=DOMAIN, note="no mean and inv_std_var")
def skip_simplified_layer_normalization(node: Node) -> Result:
    total = _sum(node, node.x(0), node.x(1), node.optional(3))
    y = node.op("rms_norm", total, [total.shape[-1]], node.x(2), eps=node.number("epsilon", 1e-12))
    return [y, None, None, total]


@converter("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_normalization(node: Node) -> Result:
    words = node.x(0)
    if words.ndim != 2:
        raise ShapeError(f"input_ids has rank {words.ndim}, expected 2")
    node.ignore("mask_index_type")  # which outputs are named says it, too
    steps = words.shape[1]
    if node.has(8):
        places = node.op("index_select", node.x(3), 0, node.x(8))
    else:
        places = node.op("slice", node.x(3), [0], [steps], [0])
    total = _sum(node, node.op("index_select", node.x(2), 0, words), places)
    if node.has(1):
        total = _sum(node, total, node.op("index_select", node.x(4), 0, node.x(1)))
    index = None
    if node.wants(1):  # how many words are there; zeros where no mask says it
        mask = node.x(7) if node.has(7) else node.op("mul", words, node.scalar_like(0, words))
        index = cast(
            node, node.op("sum", node.op("cast", node.op("ne", mask, node.scalar_like(0, mask)), "s32"), 1), "s32"
        )
    return [_layer_norm(node, total, 5), index, total]


def _group_norm(node: Node, build: Callable[[Operand], Operand]) -> list[Operand]:
    """The norm of what `build` makes of x, and that itself."""
    x, activation = node.x(0), node.integer("activation")
    if activation not in (0, 1):
        raise UnsupportedError(f"activation is {activation}, expected 0 or 1")
    last = node.integer("channels_last", 1)
    if x.ndim < 3:
        raise ShapeError(f"x has rank {x.ndim}, expected at least 3")
    total = build(x)
    y = channels_first(node, total) if last else total
    y = node.op("group_norm", y, node.integer("groups"), node.x(1), node.x(2), eps=node.number("epsilon", 1e-5))
    y = node.op("silu", y) if activation else y
    return [channels_last(node, y) if last else y, total]


@converter("GroupNorm", domain=DOMAIN)
def group_norm(node: Node) -> Result:
    return _group_norm(node, lambda x: x)[0]


@converter("SkipGroupNorm", domain=DOMAIN)
def skip_group_norm(node: Node) -> Result:
    skip, bias = node.x(3), node.optional(4)

    def channels(x: Operand, like: Operand) -> Operand:
        """A row of channels for each image, seen so that it broadcasts."""
        ones = [1] * (like.ndim - 2)
        shape = [-1, *ones, x.shape[-1]] if node.integer("channels_last", 1) else [-1, x.shape[-1], *ones]
        made: Operand = node.op("reshape", x, shape)
        return made

    def build(x: Operand) -> Operand:
        added = channels(skip, x) if skip.ndim == 2 else skip
        return _sum(node, x, added, None if bias is None else channels(bias, x))

    return _group_norm(node, build)


# ---- biases of attention ----


@converter("RelativePositionBias", domain=DOMAIN, note="the lengths known")
def relative_position_bias(node: Node) -> Result:
    """Of each distance between a query and a key one row of a table: near ones have their own, far ones share."""
    table, queries, keys = node.x(0), node.size_at(1), node.size_at(2)
    if table.ndim != 2:
        raise ShapeError(f"bias_table has rank {table.ndim}, expected 2")

    def number(value: float) -> Known:
        return node.constant(value, "float32")

    buckets, most = int(table.shape[0]), node.integer("max_distance")
    both = bool(node.integer("is_bidirectional", 0))
    away = cast(node, node.diagonals(queries, keys), "f32")  # the key's place less the query's
    first, count = None, buckets
    if both:  # keys behind the query have the second half of the table
        count = buckets // 2
        behind = node.op("gt", away, number(0))
        first = node.op("where", behind, number(count), number(0))
        away = node.op("abs", away)
    else:
        away = node.op("maximum", node.op("neg", away), number(0))
    exact = count // 2
    if exact < 1 or most <= exact:
        raise ShapeError(f"max_distance is {most} and there are {buckets} buckets, expected more than the near ones")
    # In the order of the model's own arithmetic: bounds between buckets are whole numbers.
    far = node.op("div", node.op("maximum", away, number(1)), number(exact))
    far = node.op("div", node.op("log", far), number(math.log(most / exact)))
    far = node.op("add", node.op("floor", node.op("mul", far, number(count - exact))), number(exact))
    far = node.op("minimum", far, number(count - 1))
    near = node.op("lt", away, number(exact))
    bucket = _sum(node, node.op("where", near, away, far), first)
    rows = node.op("index_select", table, 0, node.op("cast", bucket, "s64"))  # (queries, keys, heads)
    return node.op("reshape", node.op("permute", rows, [2, 0, 1]), [1, table.shape[1], queries, keys])
