"""Constants, shapes as values, and ops without effect in inference."""

from __future__ import annotations

import math

import numpy

from ...errors import InvalidArgumentError, UnsupportedError
from ...sizes import Size, is_late
from ..fold import room
from ..node import Node, dtype_text, numpy_of
from ..operand import Known, Operand, Result, is_alike
from ..registry import converter
from ..tensors import numpy_dtype
from .random import drawn_by


@converter("Identity", since=1)
def identity(node: Node) -> Result:
    """The same tensor, but for initialisers whose elements are all alike.

    PyTorch writes initialisers of equal values once, the others as its Identity. Where all elements are alike, as in
    fresh norms, the other is a tensor of its own, which may become another parameter; else one tensor is used twice.
    """
    x = node.given(0)
    if isinstance(x, Known) and x.made is None and x.may_be_trained and is_alike(x.array):
        return Known(x.array.copy(), node.proto.output[0], trained=x.trained)  # over the same memory it would be one
    return x


@converter("Dropout", since=7, note="in training the share known")
def dropout(node: Node) -> Result:
    x = node.x(0)
    training = node.has(2) and bool(node.number_at(2))
    share = (float(node.number_at(1)) if node.has(1) else 0.5) if training else 0
    if share == 0:
        node.ignore("ratio", "seed")
        return [x, node.op("expand", Known(numpy.ones((), bool)), list(x.shape)) if node.wants(1) else None]
    if not 0 < share < 1:
        raise InvalidArgumentError(f"input 1 (ratio) is {share}, expected 0 to less than 1")
    seed = drawn_by(node, x.shape, node.integer("seed", None))
    y = node.op("random_dropout", x, seed, share)
    if not node.wants(1):
        return y
    dropped = node.op("random_bernoulli", seed, list(x.shape), share, "bool")  # by the same numbers
    return [y, node.op("logical_not", dropped)]


@converter("Constant", since=1, note="tensors of numbers")
def constant(node: Node) -> Result:
    given = [name for name in node.attributes if name.startswith(("value", "sparse_value"))]
    if len(given) != 1:
        raise InvalidArgumentError(f"{len(given)} values are given, expected one")
    name = given[0]
    if name == "value":
        return node.tensor("value")
    if name == "value_float":
        return numpy.float32(node.number(name))
    if name == "value_floats":
        return numpy.asarray(node.numbers(name), "float32")
    if name == "value_int":
        return numpy.int64(node.integer(name))
    if name == "value_ints":
        return numpy.asarray(node.integers(name), "int64")
    if name == "sparse_value":
        return node.sparse_tensor(name)
    raise UnsupportedError(f"attribute {name} is given, expected a tensor of numbers")


@converter("ConstantOfShape", since=9, note="the shape known")
def constant_of_shape(node: Node) -> Result:
    value = node.tensor("value", numpy.zeros(1, "float32"))
    if value.size != 1:
        raise InvalidArgumentError(f"attribute value has {value.size} elements, expected 1")
    shape = node.integers_at(0)
    if is_late(shape):
        return node.op("expand", Known(value.reshape(())), shape)
    return numpy.broadcast_to(value.reshape(()), room(shape, value.dtype, "ConstantOfShape"))


@converter("Shape", since=1)
def shape(node: Node) -> Result:
    sizes = node.x(0).shape
    return Known.of_sizes(list(sizes[slice(node.integer("start", 0), node.integer("end", None))]))


@converter("Size", since=1)
def size(node: Node) -> Result:
    return Known.of_sizes(math.prod(node.x(0).shape))


@converter("Range", since=11, note="of known numbers")
def range_(node: Node) -> Result:
    node.ignore("stash_type")
    sizes = [node.size_at(i) for i in range(3)]
    if is_late(sizes) and all(isinstance(size, Size) or float(size).is_integer() for size in sizes):
        whole = [size if isinstance(size, Size) else int(size) for size in sizes]  # of floats, too
        return _cast(node, node.arange(*whole), numpy_of(node.x(0)))
    start, limit, delta = (node.known(i).reshape(()) for i in range(3))
    first, last, step = (float(v) if v.dtype.kind not in "iu" else int(v) for v in (start, limit, delta))
    if step == 0 or step != step:
        raise InvalidArgumentError(f"delta is {step}, expected a number other than 0")
    if not math.isfinite((last - first) / step):
        raise InvalidArgumentError(f"start is {first} and limit is {last}, expected finite numbers")
    count = max(int(numpy.ceil((last - first) / step)), 0)
    room((count,), start.dtype, "Range")
    return (first + numpy.arange(count) * step).astype(start.dtype)


@converter("EyeLike", since=9)
def eye_like(node: Node) -> Result:
    x = node.x(0)
    if x.ndim != 2:
        raise InvalidArgumentError(f"x has rank {x.ndim}, expected 2")
    dtype = numpy.dtype(node.dtype("dtype")) if "dtype" in node.attributes else numpy_of(x)
    diagonal = node.integer("k", 0)
    if is_late(x.shape):
        return _cast(node, node.op("eq", node.diagonals(*x.shape), Known(numpy.asarray(diagonal))), dtype)
    rows, columns = room(x.shape, dtype, "EyeLike")
    return numpy.eye(rows, columns, diagonal, dtype)


def _cast(node: Node, x: Operand, dtype: numpy.dtype) -> Result:
    if numpy_of(x) == dtype:
        return x
    if isinstance(x, Known):
        return node.op("cast", x, dtype)
    return node.op("cast", x, dtype_text(Known(numpy.empty(0, dtype))))


def _saturate(node: Node) -> None:
    node.ignore("saturate", "round_mode")  # of 8-bit floats, which are refused


@converter("Cast", since=6, note="between the library's dtypes")
def cast(node: Node) -> Result:
    _saturate(node)
    return _cast(node, node.x(0), numpy_dtype(node.integer("to"), "attribute to"))


@converter("CastLike", since=15, note="between the library's dtypes")
def cast_like(node: Node) -> Result:
    _saturate(node)
    return _cast(node, node.x(0), numpy_of(node.x(1)))
