"""Ops on arrays that are known at import, by the names and the signatures they have in `pylayout.ops`.

This is how the arithmetic on shapes that exporters leave in a model disappears: `Node.op` calls a function of this
table instead of appending to the graph when all tensors are known. An op that is missing here is appended to the
graph with constant inputs, and folded by the library where that pays.

Every function that can give more than it takes checks the size first, so that no model makes the importer allocate
without bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy

from ..dtypes import dtype_of
from ..errors import InvalidArgumentError, ShapeError

__all__ = ["BASE_BYTES", "BYTES_PER_BYTE", "FOLDS", "MAX_BYTES", "arange", "budget", "room", "shifted", "topk"]

Array = Any

# Bytes that the arrays computed at import may take, together: this, and a few times what the model itself holds.
BASE_BYTES, BYTES_PER_BYTE, MAX_BYTES = 2**28, 4, 2**34

_budget: ContextVar[int] = ContextVar("budget", default=BASE_BYTES)

FOLDS: dict[str, Callable[..., Any]] = {}


def room(shape: Any, dtype: Any, what: str) -> tuple[int, ...]:
    """The shape, if an array of it may be made at import."""
    sizes = tuple(int(size) for size in shape)
    if any(size < 0 for size in sizes):
        raise ShapeError(f"{what}: result has shape {list(sizes)}, expected sizes of at least 0")
    nbytes = math.prod(sizes) * numpy.dtype(dtype).itemsize
    if nbytes > _budget.get() or len(sizes) > 32:
        raise InvalidArgumentError(f"{what}: result has shape {list(sizes)}, expected at most {_budget.get()} bytes")
    return sizes


def arange(*limits: int) -> Array:
    """numpy.arange of integers, if an array of it may be made at import: sizes of tensors may be anything."""
    room((len(range(*limits)),), "int64", "indices")
    return numpy.arange(*limits)


@contextmanager
def budget(nbytes: int) -> Iterator[None]:
    """Within it, `room` allows arrays of so many bytes (0 and less: none)."""
    token = _budget.set(max(nbytes, 0))
    try:
        yield
    finally:
        _budget.reset(token)


def fold(function: Callable[..., Any]) -> Callable[..., Any]:
    FOLDS[function.__name__.rstrip("_")] = function
    return function


def _broadcast(what: str, *arrays: Array) -> None:
    try:
        shape = numpy.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        shapes = ", ".join(str(list(array.shape)) for array in arrays)
        raise ShapeError(f"{what}: shapes {shapes} do not broadcast") from None
    room(shape, numpy.result_type(*arrays) if len(arrays) else "f4", what)


def _axes(dim: Any, rank: int) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(rank))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(d + rank if d < 0 else d for d in dims) or tuple(range(rank))


# ---- element by element ----


def _typed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of NumPy; element types that it has not, the difference of bools say, are the model's error."""

    def checked(*arrays: Array, **keywords: Any) -> Any:
        try:
            return function(*arrays, **keywords)
        except TypeError as error:
            raise InvalidArgumentError(f"{name}: {error}") from None

    return checked


def _binary(name: str, function: Callable[..., Any]) -> None:
    function = _typed(name, function)

    def folded(x: Array, y: Array) -> Array:
        _broadcast(name, x, y)
        with numpy.errstate(all="ignore"):
            return numpy.asarray(function(x, y))

    FOLDS[name] = folded


def _same_type(function: Callable[..., Any]) -> Callable[..., Any]:
    """The result in the dtype of the first argument."""
    return lambda x, *rest: numpy.asarray(function(x, *rest)).astype(x.dtype, copy=False)


_Functions: TypeAlias = dict[str, Callable[..., Any]]

_ARITHMETIC: _Functions = {
    "add": numpy.add,
    "sub": numpy.subtract,
    "mul": numpy.multiply,
    "pow": numpy.power,
    "maximum": numpy.maximum,
    "minimum": numpy.minimum,
    "fmod": numpy.fmod,
    "remainder": numpy.remainder,
}
_RELATIONS: _Functions = {
    "eq": numpy.equal,
    "ne": numpy.not_equal,
    "lt": numpy.less,
    "le": numpy.less_equal,
    "gt": numpy.greater,
    "ge": numpy.greater_equal,
    "logical_and": numpy.logical_and,
    "logical_or": numpy.logical_or,
    "logical_xor": numpy.logical_xor,
}


def shifted(x: Array, by: Array, left: bool) -> Array:
    """Bits moved; a count that is negative, or not less than the bits of the dtype, shifts all of them out."""
    inside = (by >= 0) & (by < 8 * x.dtype.itemsize)
    count = numpy.where(inside, by, 0).astype(x.dtype)
    if left:
        return numpy.where(inside, numpy.left_shift(x, count), 0).astype(x.dtype)
    return numpy.where(inside, numpy.right_shift(x, count), numpy.where(x < 0, -1, 0).astype(x.dtype))


_BITWISE: _Functions = {
    "bitwise_and": numpy.bitwise_and,
    "bitwise_or": numpy.bitwise_or,
    "bitwise_xor": numpy.bitwise_xor,
    "bitwise_left_shift": lambda x, y: shifted(x, y, True),
    "bitwise_right_shift": lambda x, y: shifted(x, y, False),
}
for _name, _function in (_ARITHMETIC | _BITWISE).items():
    _binary(_name, _same_type(_function))
for _name, _function in _RELATIONS.items():
    _binary(_name, _function)


@fold
def div(x: Array, y: Array, rounding_mode: str | None = None) -> Array:
    _broadcast("div", x, y)
    with numpy.errstate(all="ignore"):
        if x.dtype.kind in "iu":
            quotient = numpy.floor_divide(x, y)
            if rounding_mode == "trunc":
                below = (numpy.remainder(x, y) != 0) & ((x < 0) != (y < 0))
                quotient = quotient + below.astype(x.dtype)
            return numpy.asarray(quotient).astype(x.dtype, copy=False)
        quotient = numpy.divide(x, y)
        if rounding_mode:
            quotient = numpy.trunc(quotient) if rounding_mode == "trunc" else numpy.floor(quotient)
        return numpy.asarray(quotient).astype(x.dtype, copy=False)


def _unary(name: str, function: Callable[..., Any]) -> None:
    function = _typed(name, function)

    def folded(x: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return numpy.asarray(function(x)).astype(x.dtype, copy=False)

    FOLDS[name] = folded


_UNARY: _Functions = {
    "abs": numpy.abs,
    "neg": numpy.negative,
    "ceil": numpy.ceil,
    "floor": numpy.floor,
    "round": numpy.round,
    "trunc": numpy.trunc,
    "sqrt": numpy.sqrt,
    "exp": numpy.exp,
    "log": numpy.log,
    "sin": numpy.sin,
    "cos": numpy.cos,
    "sign": numpy.sign,
    "square": numpy.square,
    "bitwise_not": numpy.invert,
    "reciprocal": numpy.reciprocal,
    "relu": lambda x: numpy.maximum(x, numpy.zeros((), x.dtype)),
}
for _name, _function in _UNARY.items():
    _unary(_name, _function)


@fold
def logical_not(x: Array) -> Array:
    return numpy.equal(x, 0)


@fold
def isnan(x: Array) -> Array:
    return numpy.isnan(x)


@fold
def isinf(x: Array) -> Array:
    return numpy.isinf(x)


@fold
def clip(x: Array, min: float | None = None, max: float | None = None) -> Array:
    if min is not None:
        x = numpy.maximum(x, numpy.asarray(min).astype(x.dtype))
    if max is not None:
        x = numpy.minimum(x, numpy.asarray(max).astype(x.dtype))
    return x


@fold
def where(condition: Array, x: Array, y: Array) -> Array:
    _broadcast("where", condition, x, y)
    return numpy.asarray(numpy.where(condition, x, y)).astype(x.dtype, copy=False)


# ---- shapes ----


@fold
def reshape(x: Array, shape: Any) -> Array:
    try:
        return x.reshape([int(size) for size in shape])
    except ValueError:
        raise ShapeError(f"reshape: shape {list(shape)} does not fit {x.size} elements") from None


@fold
def permute(x: Array, dims: Any) -> Array:
    if sorted(d + x.ndim if d < 0 else d for d in dims) != list(range(x.ndim)):
        raise ShapeError(f"permute: dims is {list(dims)}, expected each of {x.ndim} dimensions once")
    return numpy.transpose(x, dims)


@fold
def concat(tensors: Any, dim: int = 0) -> Array:
    first = tensors[0]
    at = dim + first.ndim if dim < 0 else dim
    shape = list(first.shape)
    if not 0 <= at < first.ndim:
        raise ShapeError(f"concat: dim is {dim}, expected one of {first.ndim} dimensions")
    shape[at] = 0
    for array in tensors:
        if array.ndim != first.ndim or any(i != at and array.shape[i] != shape[i] for i in range(first.ndim)):
            raise ShapeError(f"concat: shapes {list(first.shape)} and {list(array.shape)} differ beside dimension {at}")
        shape[at] += array.shape[at]
    room(shape, first.dtype, "concat")
    return numpy.concatenate(tensors, at)


@fold
def slice_(x: Array, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Array:
    keys = [slice(None)] * x.ndim
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        keys[axis] = slice(start, end, step)
    return x[tuple(keys)]


@fold
def index_select(x: Array, dim: int, index: Array) -> Array:
    at = dim + x.ndim if dim < 0 else dim
    if not 0 <= at < x.ndim:
        raise ShapeError(f"index_select: dim is {dim}, expected one of {x.ndim} dimensions")
    if index.dtype.kind not in "iu":
        raise InvalidArgumentError(f"index_select: index is {index.dtype}, expected integers")
    if index.size and not (-x.shape[at] <= index.min() and index.max() < x.shape[at]):
        raise InvalidArgumentError(f"index_select: index is outside of dimension {at}, which has size {x.shape[at]}")
    room((*x.shape[:at], *index.shape, *x.shape[at + 1 :]), x.dtype, "index_select")
    return numpy.take(x, index, at)


@fold
def gather(x: Array, dim: int, index: Array) -> Array:
    at = dim + x.ndim if dim < 0 else dim
    fits = x.ndim == index.ndim and 0 <= at < x.ndim
    if not fits or any(index.shape[i] > x.shape[i] for i in range(x.ndim) if i != at):
        raise ShapeError(f"gather: index has shape {list(index.shape)}, which does not fit {list(x.shape)}")
    if index.size and not (-x.shape[at] <= index.min() and index.max() < x.shape[at]):
        raise InvalidArgumentError(f"gather: index is outside of dimension {at}, which has size {x.shape[at]}")
    part = x[tuple(slice(None) if i == at else slice(index.shape[i]) for i in range(x.ndim))]
    return numpy.take_along_axis(part, index, at)


@fold
def expand(x: Array, shape: Any) -> Array:
    sizes = list(shape)
    added = len(sizes) - x.ndim
    sizes = [x.shape[i - added] if size == -1 else size for i, size in enumerate(sizes)]
    room(sizes, x.dtype, "expand")
    try:
        return numpy.broadcast_to(x, sizes)
    except ValueError:
        raise ShapeError(f"expand: shape {sizes} does not fit {list(x.shape)}") from None


@fold
def tile(x: Array, dims: Any) -> Array:
    rank = max(len(dims), x.ndim)
    sizes = (1,) * (rank - x.ndim) + x.shape
    times = (1,) * (rank - len(dims)) + tuple(dims)
    room([size * time for size, time in zip(sizes, times, strict=True)], x.dtype, "tile")
    return numpy.tile(x, times)


# Names of dtypes that only the library has; NumPy's own may be others than the library knows.
_LIBRARY = ("f32", "f16", "bf16", "s8", "u8", "s32", "s64")


@fold
def cast(x: Array, dtype: Any) -> Array:
    target = dtype_of(dtype).dtype if dtype in _LIBRARY else numpy.dtype(dtype)
    with numpy.errstate(all="ignore"):
        if x.dtype.kind not in "biu" and target.kind in "iu":
            limits = numpy.iinfo(target)
            wide = numpy.nan_to_num(numpy.asarray(x, "float64"), nan=0.0, posinf=numpy.inf, neginf=-numpy.inf)
            inside = (wide >= float(limits.min)) & (wide < float(limits.max) + 1)
            limited = numpy.where(inside, wide, 0).astype(target)
            limited = numpy.where(wide >= float(limits.max) + 1, limits.max, limited)
            return numpy.where(wide < float(limits.min), limits.min, limited).astype(target)
        return x.astype(target)


# ---- reductions ----


def _reduction(name: str, function: Callable[..., Any]) -> None:
    function = _typed(name, function)

    def folded(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
        axes = _axes(dim, x.ndim)
        if any(not 0 <= axis < x.ndim for axis in axes) or len(set(axes)) != len(axes):
            raise ShapeError(f"{name}: dim is {dim}, expected some of {x.ndim} dimensions")
        return numpy.asarray(function(x, axis=axes, keepdims=keepdim)).astype(x.dtype, copy=False)

    FOLDS[name] = folded


def _nonempty(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def reduce(x: Array, axis: Any, keepdims: bool) -> Array:
        if any(x.shape[i] == 0 for i in axis):
            raise ShapeError(f"{name}: x has shape {list(x.shape)}, expected elements to reduce")
        return function(x, axis=axis, keepdims=keepdims)

    return reduce


_REDUCTIONS: _Functions = {
    "sum": numpy.sum,
    "prod": numpy.prod,
    "mean": _nonempty(numpy.mean, "mean"),
    "amax": _nonempty(numpy.max, "amax"),
    "amin": _nonempty(numpy.min, "amin"),
}
for _name, _function in _REDUCTIONS.items():
    _reduction(_name, _function)


@fold
def cumsum(x: Array, dim: int) -> Array:
    if not -x.ndim <= dim < x.ndim:
        raise ShapeError(f"cumsum: dim is {dim}, expected one of {x.ndim} dimensions")
    return numpy.cumsum(x, dim, dtype=x.dtype)


def topk(x: Array, k: int, dim: int, largest: bool) -> tuple[Array, Array]:
    """Values and indices, as the op of that name; of two results, so no fold of its own."""
    room(x.shape, "i8", "topk")
    if largest:  # the stable order of the reversed elements, reversed: of equal ones the first comes first
        order = x.shape[dim] - 1 - numpy.flip(numpy.argsort(numpy.flip(x, dim), dim, kind="stable"), dim)
    else:
        order = numpy.argsort(x, dim, kind="stable")
    indices = numpy.take(order, numpy.arange(k), dim).astype("int64")
    return numpy.take_along_axis(x, indices, dim), indices


@fold
def argmax(x: Array, dim: int, keepdim: bool = False) -> Array:
    _nonempty(numpy.max, "argmax")(x, (dim,), True)
    return numpy.asarray(numpy.argmax(x, dim, keepdims=keepdim))


@fold
def argmin(x: Array, dim: int, keepdim: bool = False) -> Array:
    _nonempty(numpy.min, "argmin")(x, (dim,), True)
    return numpy.asarray(numpy.argmin(x, dim, keepdims=keepdim))


# ---- of float64 alone, which plans have not ----


def _matmul(
    x: Array, y: Array, bias: Array | None = None, *, transpose_a: bool = False, transpose_b: bool = False
) -> Array:
    if x.dtype != y.dtype or 0 in (x.ndim, y.ndim):
        raise ShapeError(f"matmul: x is {x.dtype} of rank {x.ndim} and y {y.dtype} of rank {y.ndim}, expected matrices")
    x, y = x.swapaxes(-1, -2) if transpose_a else x, y.swapaxes(-1, -2) if transpose_b else y
    made = numpy.matmul(x, y)
    return made if bias is None else made + bias


def _softmax(x: Array, dim: int) -> Array:
    made = numpy.exp(x - numpy.max(x, dim, keepdims=True, initial=-numpy.inf))
    return made / numpy.sum(made, dim, keepdims=True)


DOUBLE_FOLDS: _Functions = {
    "matmul": _matmul,
    "softmax": _softmax,
    "log_softmax": lambda x, dim: numpy.log(_softmax(x, dim)),
    "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "tanh": numpy.tanh,
}
