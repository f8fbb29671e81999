"""The Python array API standard over tensors: `x.__array_namespace__()`. https://data-apis.org/array-api/2024.12

Programs written to the standard (SciPy, scikit-learn, einops) call these functions where they are given tensors. What
the library has not is absent: float64, complex and 16-bit integers, sorting, sets, and results whose shape depends on
values. docs/reference/array-api.md lists every function of the standard with what is there.
"""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy

from . import creation, ops, tensor
from .arrays import asarray as _asarray
from .arrays import from_dlpack as _from_dlpack
from .device import devices
from .dtypes import ALL, DType, bf16, dtype_of, f16, float32, int8, int32, int64, uint8
from .dtypes import bool_ as bool
from .errors import ArgumentTypeError, UnsupportedError
from .tensor import Tensor
from .tensor_operators import binary, promoted

__array_api_version__ = "2024.12"

e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None

_STANDARD = {dtype.numpy_name: dtype for dtype in ALL if dtype not in (f16, bf16)}


# ---- functions of elements ----


def _unary(name: str, op: str) -> Callable[[Any], Tensor]:
    def function(x: Any, /) -> Tensor:
        result: Tensor = getattr(ops, op)(x)
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`ops.{op}`."
    return function


def _binary(name: str, op: str, **keywords: Any) -> Callable[[Any, Any], Tensor]:
    def function(x1: Any, x2: Any, /) -> Tensor:
        result = binary(op, x1, x2, **keywords)
        if result is NotImplemented:
            raise ArgumentTypeError(
                f"{name}: arguments are {type(x1).__name__} and {type(x2).__name__}, expected tensors"
            )
        return result  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`ops.{op}`, of the dtype that both arguments have or are converted to."
    return function


abs = _unary("abs", "abs")
acos = _unary("acos", "acos")
acosh = _unary("acosh", "acosh")
asin = _unary("asin", "asin")
asinh = _unary("asinh", "asinh")
atan = _unary("atan", "atan")
atanh = _unary("atanh", "atanh")
bitwise_invert = _unary("bitwise_invert", "bitwise_not")
cos = _unary("cos", "cos")
cosh = _unary("cosh", "cosh")
exp = _unary("exp", "exp")
log = _unary("log", "log")
logical_not = _unary("logical_not", "logical_not")
negative = _unary("negative", "neg")
reciprocal = _unary("reciprocal", "reciprocal")
sign = _unary("sign", "sign")
sin = _unary("sin", "sin")
sinh = _unary("sinh", "sinh")
sqrt = _unary("sqrt", "sqrt")
square = _unary("square", "square")
tan = _unary("tan", "tan")
tanh = _unary("tanh", "tanh")

add = _binary("add", "add")
bitwise_and = _binary("bitwise_and", "bitwise_and")
bitwise_left_shift = _binary("bitwise_left_shift", "bitwise_left_shift")
bitwise_or = _binary("bitwise_or", "bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift", "bitwise_right_shift")
bitwise_xor = _binary("bitwise_xor", "bitwise_xor")
divide = _binary("divide", "div")
equal = _binary("equal", "eq")
floor_divide = _binary("floor_divide", "div", rounding_mode="floor")
greater = _binary("greater", "gt")
greater_equal = _binary("greater_equal", "ge")
less = _binary("less", "lt")
less_equal = _binary("less_equal", "le")
logical_and = _binary("logical_and", "logical_and")
logical_or = _binary("logical_or", "logical_or")
logical_xor = _binary("logical_xor", "logical_xor")
maximum = _binary("maximum", "maximum")
minimum = _binary("minimum", "minimum")
multiply = _binary("multiply", "mul")
not_equal = _binary("not_equal", "ne")
pow = _binary("pow", "pow")
remainder = _binary("remainder", "remainder")
subtract = _binary("subtract", "sub")


def _whole(op: str, x: Tensor) -> Tensor:
    """A rounding of floats; integers are whole already."""
    result: Tensor = x if x.dtype.is_integer else getattr(ops, op)(x)
    return result


def ceil(x: Tensor, /) -> Tensor:
    """The least integers that are not less."""
    return _whole("ceil", x)


def floor(x: Tensor, /) -> Tensor:
    """The greatest integers that are not greater."""
    return _whole("floor", x)


def round(x: Tensor, /) -> Tensor:
    """The nearest integers; halves to even ones."""
    return _whole("round", x)


def trunc(x: Tensor, /) -> Tensor:
    """The nearest integers toward zero."""
    return _whole("trunc", x)


def positive(x: Tensor, /) -> Tensor:
    """A copy."""
    return x.clone()


def isnan(x: Tensor, /) -> Tensor:
    """Whether each element is no number; no integer is none."""
    return zeros_like(x, dtype=bool) if x.dtype.is_integer else ops.isnan(x)


def isinf(x: Tensor, /) -> Tensor:
    """Whether each element is infinite; no integer is."""
    return zeros_like(x, dtype=bool) if x.dtype.is_integer else ops.isinf(x)


def isfinite(x: Tensor, /) -> Tensor:
    """Whether each element is a finite number."""
    return ops.logical_not(ops.logical_or(isnan(x), isinf(x)))


def log2(x: Tensor, /) -> Tensor:
    """Logarithms to the base 2."""
    return ops.mul(ops.log(x), 1 / math.log(2))


def log10(x: Tensor, /) -> Tensor:
    """Logarithms to the base 10."""
    return ops.mul(ops.log(x), 1 / math.log(10))


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Elements below `min` become `min`, those above `max` become `max`; tensors or numbers."""
    result = x if min is None else ops.maximum(x, min)
    return result.clone() if min is None and max is None else result if max is None else ops.minimum(result, max)


# ---- making ----


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """A tensor of what `obj` holds; lists of Python's floats become float32."""
    return _asarray(obj, dtype, device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """A tensor over the memory of any object with `__dlpack__`; on another device, or with `copy`, a copy."""
    found = _from_dlpack(x).to(device=device)
    return found.clone() if copy else found


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Numbers from start up to stop, which is not among them."""
    return creation.arange(start, stop, step, dtype, device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor to be written to."""
    return creation.empty(shape, dtype or float32, device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of zeros."""
    return tensor.zeros(shape, dtype or float32, device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of ones."""
    return creation.ones(shape, dtype or float32, device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor whose every element is `fill_value`, by default of the dtype that this kind of number has."""
    kind = bool if isinstance(fill_value, builtins.bool) else int64 if isinstance(fill_value, int) else float32
    return creation.full(shape, fill_value, dtype or kind, device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros in the shape of another tensor."""
    return creation.zeros_like(x, dtype, device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor to be written to, in the shape of another one."""
    return creation.empty_like(x, dtype, device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones in the shape of another tensor."""
    return creation.ones_like(x, dtype, device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor filled with a number, in the shape of another one."""
    return creation.full_like(x, fill_value, dtype, device)


def linspace(
    start: float, stop: float, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: builtins.bool = True
) -> Tensor:
    """`num` numbers at equal distances; `stop` is the last where `endpoint` holds."""
    if endpoint:
        return creation.linspace(start, stop, num, dtype or float32, device)
    return creation.linspace(start, stop, num + 1, dtype or float32, device)[:num]


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """A matrix with ones on its k-th diagonal."""
    return _asarray(numpy.eye(n_rows, n_cols, k, dtype="float32"), dtype or float32, device)


def _triangle(x: Tensor, k: int, lower: builtins.bool) -> Tensor:
    row, column = x.shape[-2:]
    kept = numpy.tri(row, column, k if lower else k - 1, dtype=builtins.bool)
    mask = _asarray(kept if lower else ~kept, device=x.device)
    return ops.where(mask, x, zeros_like(x))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Zeros above the k-th diagonal."""
    return _triangle(x, k, True)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Zeros below the k-th diagonal."""
    return _triangle(x, k, False)


# ---- shapes ----


def _all_dims(x: Tensor) -> list[int]:
    return list(range(x.ndim))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all of these become."""
    return tuple(numpy.broadcast_shapes(*shapes))


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """The elements repeated along dimensions of size 1."""
    return ops.expand(x, list(shape))


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """All in the shape that they become together."""
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [broadcast_to(x, shape) for x in arrays]


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors one after the other along a dimension; None: their elements."""
    kind = result_type(*arrays)
    parts = [astype(x if axis is not None else reshape(x, (-1,)), kind, copy=False) for x in arrays]
    return ops.concat(parts, axis or 0)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors along a new dimension."""
    kind = result_type(*arrays)
    return ops.stack([astype(x, kind, copy=False) for x in arrays], axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dimension."""
    return ops.unbind(x, axis)


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """With a new dimension of size 1."""
    return ops.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: int | Sequence[int]) -> Tensor:
    """Without these dimensions, whose size must be 1."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    if builtins.any(x.shape[i] != 1 for i in axes):
        raise ValueError(f"squeeze: axis is {axis} of shape {x.shape}, expected dimensions of size 1")
    return ops.squeeze(x, axes)


def flip(x: Tensor, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """With the order of elements reversed along dimensions; None: all."""
    axes = _all_dims(x) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return ops.flip(x, axes) if axes else x.clone()


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """The dimensions in another order."""
    return ops.permute(x, list(axes))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two dimensions exchanged."""
    return x.mT


def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Dimensions moved to other places; the others stay in order."""
    ends = [[i % x.ndim for i in ([given] if isinstance(given, int) else given)] for given in (source, destination)]
    order = [i for i in _all_dims(x) if i not in ends[0]]
    for to, at in sorted(zip(ends[1], ends[0], strict=True)):
        order.insert(to, at)
    return permute_dims(x, order)


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: builtins.bool | None = None) -> Tensor:
    """The same elements in another shape; `copy` False: ValueError where that needs a copy."""
    if copy is False:
        return x.view(*shape)
    made = x.reshape(list(shape))
    return made.clone() if copy else made


def roll(x: Tensor, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved on along dimensions; those that leave at the end come in at the beginning."""
    if axis is None:
        if not isinstance(shift, int):
            raise ArgumentTypeError(f"roll: shift is {shift!r} without axis, expected an integer")
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape)
    shifts = [shift] if isinstance(shift, int) else list(shift)
    axes = [axis] if isinstance(axis, int) else list(axis)
    for by, along in zip(shifts * (len(axes) if len(shifts) == 1 else 1), axes, strict=True):
        size = x.shape[along]
        if size and by % size:
            cut = size - by % size
            first, second = ops.split(x, [cut, size - cut], along)
            x = ops.concat([second, first], along)
    return x


def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    """The tensor repeated along its dimensions."""
    given = list(repetitions)
    rank = builtins.max(x.ndim, len(given))
    wide = reshape(x, (1,) * (rank - x.ndim) + x.shape)
    return ops.tile(wide, [1] * (rank - len(given)) + given)


# ---- sums and the like ----


def _reduced(op: Callable[..., Tensor], x: Tensor, axis: Any, keepdims: builtins.bool, *others: Any) -> Tensor:
    """op(x, dimensions, *others, keepdims); no dimensions leave each element alone, where the ops take all of them."""
    if axis == ():
        return op(expand_dims(x, axis=-1), -1, *others, False)
    return op(x, list(axis) if isinstance(axis, tuple) else axis, *others, keepdims)


def _accumulated(run: Callable[[Tensor], Tensor], x: Tensor, dtype: Any) -> Tensor:
    """run(x), which adds or multiplies, in `dtype`; by default integers and booleans in int64."""
    wanted = dtype_of(dtype) if dtype is not None else int64 if x.dtype.is_integer or x.dtype is bool else x.dtype
    if dtype is None and x.dtype is uint8:
        raise UnsupportedError("sum, prod: x is u8, whose sum the standard has as uint64; expected dtype=... beside it")
    wide = int32 if wanted in (int8, uint8) else wanted  # ops have no sums of 8 bits; the rest is cut off modulo 256
    return astype(run(astype(x, wide, copy=False)), wanted, copy=False)


def sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """Sums along dimensions."""
    return _accumulated(lambda x: _reduced(ops.sum, x, axis, keepdims), x, dtype)


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """Products along dimensions."""
    return _accumulated(lambda x: _reduced(ops.prod, x, axis, keepdims), x, dtype)


def mean(x: Tensor, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """Means along dimensions."""
    return _reduced(ops.mean, x, axis, keepdims)


def max(x: Tensor, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """The greatest along dimensions."""
    return _reduced(ops.amax, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """The least along dimensions."""
    return _reduced(ops.amin, x, axis, keepdims)


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Tensor:
    """Variances along dimensions, of n - correction elements."""
    return _reduced(ops.var, x, axis, keepdims, correction)


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Tensor:
    """Square roots of variances."""
    return ops.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def all(x: Tensor, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """Whether all along dimensions are true."""
    return _reduced(ops.all, x, axis, keepdims)


def any(x: Tensor, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """Whether one along dimensions is true."""
    return _reduced(ops.any, x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """How many along dimensions are not zero."""
    return sum(astype(x, bool), axis=axis, keepdims=keepdims)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: builtins.bool = False
) -> Tensor:
    """Sums of the elements up to each; before the first a zero where `include_initial` holds."""
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"cumulative_sum: x has rank {x.ndim} and axis is None, expected an axis")
        axis = 0
    made = _accumulated(lambda x: ops.cumsum(x, axis), x, dtype)
    if not include_initial:
        return made
    first = tuple(1 if i == axis % x.ndim else size for i, size in enumerate(made.shape))
    return ops.concat([zeros(first, dtype=made.dtype, device=made.device), made], axis)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Tensor:
    """Where the greatest is, the first of equal ones."""
    return ops.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Tensor:
    """Where the least is, the first of equal ones."""
    return ops.argmin(x, axis, keepdims)


# ---- choosing ----


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Elements of x1 where the condition holds, else of x2."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        raise ArgumentTypeError("where: x1 and x2 are numbers, expected a tensor among them")
    first, second = promoted(x1, x2)
    result: Tensor = ops.where(condition, first, second)
    return result


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Slices along a dimension, by their numbers."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: x has rank {x.ndim} and axis is None, expected an axis")
    return ops.index_select(x, axis or 0, indices)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements along a dimension, by a number for each."""
    return ops.gather(x, axis, indices)


# ---- products ----


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Products of matrices, or of a matrix and a vector."""
    first, second = promoted(x1, x2)
    result: Tensor = ops.matmul(first, second)
    return result


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Sums of products over the last dimensions of x1 and the first of x2, or over pairs of dimensions."""
    x1, x2 = promoted(x1, x2)
    if isinstance(axes, int):
        first, second = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    else:
        first, second = ([i % x.ndim for i in given] for x, given in zip((x1, x2), axes, strict=True))
    letters = iter("abcdefghijklmnop")
    left = [next(letters) for _ in _all_dims(x1)]
    right = [left[first[second.index(i)]] if i in second else next(letters) for i in _all_dims(x2)]
    kept = [c for i, c in enumerate(left) if i not in first] + [c for i, c in enumerate(right) if i not in second]
    result: Tensor = ops.einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", x1, x2)
    return result


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sums of products along a dimension."""
    return ops.sum(multiply(x1, x2), axis, False)


# ---- dtypes and devices ----


def astype(x: Tensor, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Tensor:
    """The same values in another dtype; without `copy`, x itself where nothing changes."""
    made = (x if device is None else x.to(device=device)).astype(dtype)
    return made.clone() if copy and dtype_of(dtype) is x.dtype else made


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that an operation of these has; Python's numbers take part by their kind."""
    given = [value if isinstance(value, (int, float)) else dtype_of(getattr(value, "dtype", value)) for value in
             arrays_and_dtypes]  # fmt: skip
    strong = [value for value in given if isinstance(value, DType)]
    if not strong:
        raise ValueError("result_type: only numbers are given, expected a tensor or a dtype among them")
    kinds: list[Any] = [tensor.zeros((1,), dtype) for dtype in strong]
    found = kinds[0]
    for other in [*kinds[1:], *(value for value in given if not isinstance(value, DType))]:
        found = promoted(found, other)[0]
    return found.dtype  # type: ignore[no-any-return]


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether a dtype becomes another one by the rules of promotion."""
    source, target = dtype_of(getattr(from_, "dtype", from_)), dtype_of(to)
    return builtins.bool(numpy.can_cast(source.dtype, target.dtype))


class FloatLimits(NamedTuple):
    """What `finfo` gives."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerLimits(NamedTuple):
    """What `iinfo` gives."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatLimits:
    """Limits of a dtype of floats."""
    dtype = dtype_of(getattr(type, "dtype", type))
    if dtype is bf16:  # NumPy knows no limits of it
        most = (2 - 2**-7) * 2.0**127
        return FloatLimits(16, 2**-7, most, -most, 2**-126, dtype)
    found = numpy.finfo(dtype.dtype)
    least = float(found.smallest_normal)
    return FloatLimits(found.bits, float(found.eps), float(found.max), float(found.min), least, dtype)


def iinfo(type: Any, /) -> IntegerLimits:
    """Limits of a dtype of integers."""
    dtype = dtype_of(getattr(type, "dtype", type))
    found = numpy.iinfo(dtype.dtype)
    return IntegerLimits(found.bits, found.max, found.min, dtype)


_KINDS = {
    "bool": (bool,),
    "signed integer": (int8, int32, int64),
    "unsigned integer": (uint8,),
    "integral": (int8, int32, int64, uint8),
    "real floating": (float32, f16, bf16),
    "complex floating": (),
    "numeric": (int8, int32, int64, uint8, float32, f16, bf16),
}


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a dtype is of a kind ("integral", "real floating", …), is a dtype, or is one of several such."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return dtype_of(dtype) in _KINDS[kind]
    return dtype_of(dtype) is dtype_of(kind)


class _Info:
    """What `__array_namespace_info__` gives."""

    def capabilities(self) -> dict[str, Any]:
        """No indexing by masks in results, no shapes that depend on values; at most eight dimensions."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 8}

    def default_device(self) -> str:
        return "cpu"

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        return {"real floating": float32, "integral": int64, "indexing": int64}

    def devices(self) -> list[str]:
        return [device.name for device in devices()]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        return {name: dtype for name, dtype in _STANDARD.items() if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__() -> _Info:
    """Devices, dtypes and defaults."""
    return _Info()


tensor.set_namespace(sys.modules[__name__])
