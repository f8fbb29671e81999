"""Operators of tensors and of Values of a graph, with the dtypes that torch gives them; NumPy's ufuncs.

Everything here calls functions of `pylayout.ops`, which compute with tensors and append to the graph of Values.
Operators convert operands of different dtypes (`promoted`); the functions of `ops` refuse them.
"""

# mypy: disable-error-code="no-any-return"
# The functions of ops give what they are given, a Tensor or a Value, which their stub does not say.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from .dtypes import DType, bf16, bool_, dtype_of, f16, f32, s8, s32, s64, u8
from .errors import ArgumentTypeError, InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Self

_ops: Any = None  # set by ops.py, which needs this module first

__all__ = ["Operators", "binary", "needed", "promoted"]

# Of the wider of two dtypes, as torch has it; what two of equal width become: s32 (torch has 16 bits) or f32.
_WIDTH = {bool_: 0, u8: 1, s8: 1, s32: 2, s64: 3, f16: 4, bf16: 4, f32: 5}

_UFUNCS = {
    "absolute": "abs", "add": "add", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor", "ceil": "ceil", "cos": "cos", "divide": "div", "equal": "eq", "exp": "exp",
    "floor": "floor", "fmod": "fmod", "greater": "gt", "greater_equal": "ge", "invert": "bitwise_not",
    "isinf": "isinf", "isnan": "isnan", "left_shift": "bitwise_left_shift", "less": "lt", "less_equal": "le",
    "log": "log", "logical_and": "logical_and", "logical_not": "logical_not", "logical_or": "logical_or",
    "logical_xor": "logical_xor", "matmul": "matmul", "maximum": "maximum", "minimum": "minimum", "multiply": "mul",
    "negative": "neg", "not_equal": "ne", "power": "pow", "reciprocal": "reciprocal", "remainder": "remainder",
    "right_shift": "bitwise_right_shift", "rint": "round", "sign": "sign", "sin": "sin", "sqrt": "sqrt",
    "square": "square", "subtract": "sub", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip


def _is_array(value: Any) -> bool:
    return isinstance(value, (Operators, numpy.ndarray)) or hasattr(value, "__dlpack__")


def _is_operand(value: Any) -> bool:
    return _is_array(value) or isinstance(value, (bool, int, float, numpy.generic))


def _dtype_among(value: Any) -> DType:
    dtype = getattr(value, "dtype", f32)
    return f32 if dtype == "float64" and isinstance(value, numpy.ndarray) else dtype_of(dtype)


def promoted(x: Any, y: Any, division: bool = False) -> tuple[Any, Any]:
    """Two operands in one dtype: the wider of both, floats being wider than integers; numbers count by kind alone.

    u8 with s8 gives s32, f16 with bf16 f32; integers that are divided become f32.
    """
    strong = [_dtype_among(v) for v in (x, y) if _is_array(v)]
    wide = max(strong, key=_WIDTH.__getitem__)
    for dtype in strong:
        if dtype is not wide and _WIDTH[dtype] == _WIDTH[wide]:
            wide = s32 if wide in (u8, s8) else f32
    weak = [v for v in (x, y) if not _is_array(v)]
    if _WIDTH[wide] < _WIDTH[f16] and (division or any(isinstance(v, (float, numpy.floating)) for v in weak)):
        wide = f32
    elif wide is bool_ and any(not isinstance(v, (bool, numpy.bool_)) for v in weak):
        wide = s64

    def converted(v: Any) -> Any:
        return v if not _is_array(v) or _dtype_among(v) is wide else _ops.cast(v, wide.name)

    return converted(x), converted(y)


def binary(op: str, x: Any, y: Any, **keywords: Any) -> Any:
    if not (_is_operand(x) and _is_operand(y)):
        return NotImplemented
    function = getattr(_ops, op)
    try:
        return function(x, y, **keywords)
    except (InvalidArgumentError, UnsupportedError):
        first, second = promoted(x, y, op == "div" and not keywords)
        if first is x and second is y:
            raise
    return function(first, second, **keywords)


def _bits(op: str, x: Any, y: Any) -> Any:
    """&, | and ^: of truth values the ops that passes know."""
    both = all(_dtype_among(v) is bool_ if _is_array(v) else isinstance(v, (bool, numpy.bool_)) for v in (x, y))
    return binary(f"{'logical' if both else 'bitwise'}_{op}", x, y)


def needed(op: str, x: Any, y: Any) -> Any:
    result = binary(op, x, y)
    if result is NotImplemented:
        raise ArgumentTypeError(f"{op}: y is {type(y).__name__}, expected a tensor, an array or a number")
    return result


class Operators:
    """Operators of tensors and of Values. `x += y` makes a new tensor and names it x; others still hold the old one."""

    __slots__ = ()
    __array_priority__ = 1000

    __hash__ = object.__hash__

    def __neg__(self) -> Self:
        return _ops.neg(self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return _ops.abs(self)

    def __invert__(self) -> Self:
        return _ops.logical_not(self) if _dtype_among(self) is bool_ else _ops.bitwise_not(self)

    def __contains__(self, value: Any) -> Any:
        return bool(_ops.any(self == value))

    def __matmul__(self, other: Any) -> Self:
        return _ops.matmul(self, other) if _is_array(other) else NotImplemented

    def __rmatmul__(self, other: Any) -> Self:
        return _ops.matmul(other, self) if _is_array(other) else NotImplemented

    def __add__(self, other: Any) -> Self:
        return binary("add", self, other)

    def __radd__(self, other: Any) -> Self:
        return binary("add", other, self)

    def __sub__(self, other: Any) -> Self:
        return binary("sub", self, other)

    def __rsub__(self, other: Any) -> Self:
        return binary("sub", other, self)

    def __mul__(self, other: Any) -> Self:
        return binary("mul", self, other)

    def __rmul__(self, other: Any) -> Self:
        return binary("mul", other, self)

    def __truediv__(self, other: Any) -> Self:
        return binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return binary("div", other, self)

    def __mod__(self, other: Any) -> Self:
        return binary("remainder", self, other)

    def __rmod__(self, other: Any) -> Self:
        return binary("remainder", other, self)

    def __pow__(self, other: Any) -> Self:
        return binary("pow", self, other)

    def __rpow__(self, other: Any) -> Self:
        return binary("pow", other, self)

    def __and__(self, other: Any) -> Self:
        return _bits("and", self, other)

    def __rand__(self, other: Any) -> Self:
        return _bits("and", other, self)

    def __or__(self, other: Any) -> Self:
        return _bits("or", self, other)

    def __ror__(self, other: Any) -> Self:
        return _bits("or", other, self)

    def __xor__(self, other: Any) -> Self:
        return _bits("xor", self, other)

    def __rxor__(self, other: Any) -> Self:
        return _bits("xor", other, self)

    def __lshift__(self, other: Any) -> Self:
        return binary("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Any) -> Self:
        return binary("bitwise_left_shift", other, self)

    def __rshift__(self, other: Any) -> Self:
        return binary("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Any) -> Self:
        return binary("bitwise_right_shift", other, self)

    def __floordiv__(self, other: Any) -> Self:
        return binary("div", self, other, rounding_mode="floor")

    def __rfloordiv__(self, other: Any) -> Self:
        return binary("div", other, self, rounding_mode="floor")

    def __eq__(self, other: Any) -> Any:
        return binary("eq", self, other)

    def __ne__(self, other: Any) -> Any:
        return binary("ne", self, other)

    def __lt__(self, other: Any) -> Self:
        return binary("lt", self, other)

    def __le__(self, other: Any) -> Self:
        return binary("le", self, other)

    def __gt__(self, other: Any) -> Self:
        return binary("gt", self, other)

    def __ge__(self, other: Any) -> Self:
        return binary("ge", self, other)

    # ---- NumPy's functions ----

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """numpy.exp(x) is ops.exp(x); functions that pylayout has not, or with options, give NumPy arrays."""
        if ufunc.__name__ == "floor_divide" and method == "__call__" and not keywords:
            return binary("div", *inputs, rounding_mode="floor")
        op = _UFUNCS.get(ufunc.__name__)
        if op is not None and method == "__call__" and not keywords:
            return getattr(_ops, op)(*inputs) if ufunc.nin == 1 or op == "matmul" else binary(op, *inputs)
        if any(isinstance(value, Operators) and hasattr(value, "graph") for value in inputs):  # has no elements yet
            return NotImplemented
        arrays = [numpy.asarray(value) if isinstance(value, Operators) else value for value in inputs]
        return getattr(ufunc, method)(*arrays, **keywords)
