"""Functions of two tensors and more, with PyTorch's promotion of dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..call import FLOATS, Call, Operand, require
from ..registry import converter


def _promoted(call: Call, *values: Any, dtype: str | None = None) -> list[Any]:
    """Operands and numbers in the dtype of the result, or in that one."""
    dtype = dtype or call.dtype()
    cast = [call.cast(value, dtype) for value in values]
    if not any(isinstance(value, Operand) for value in cast):
        cast[0] = call.tensor(cast[0], dtype)
    return cast


def _real(value: float | Operand) -> float | Operand:
    return value if isinstance(value, Operand) else float(value)


def _scaled(call: Call, op: str, x: Any, y: Any, alpha: Any) -> Operand:
    dtype = call.dtype()
    if dtype == "bool":  # PyTorch adds these as numbers, and what is not zero is true
        require(op == "add" and bool(alpha) is True, "sum of bool")
        made: Operand = call.op("logical_or", *_promoted(call, x, y))
        return made
    x, y = _promoted(call, x, y)
    varies = isinstance(alpha, Operand)
    if not varies and alpha == 1:
        made = call.op(op, x, y)
        return made
    if dtype in FLOATS and isinstance(y, Operand) and isinstance(x, Operand):
        return call.pointwise([x, y], f"x0 {'+' if op == 'add' else '-'} s0 * x1", [_real(alpha)])
    require(not varies, "a number times a number that changes")
    y = call.op("mul", y, call.cast(alpha, dtype)) if isinstance(y, Operand) else y * call.cast(alpha, dtype)
    made = call.op(op, x, y)
    return made


@converter("add.Tensor", "add.Scalar", numbers=True)
def add(call: Call, x: Any, y: Any, alpha: Any = 1) -> Operand:
    return _scaled(call, "add", x, y, alpha)


@converter("sub.Tensor", "sub.Scalar", numbers=True)
def sub(call: Call, x: Any, y: Any, alpha: Any = 1) -> Operand:
    return _scaled(call, "sub", x, y, alpha)


@converter("rsub.Tensor", "rsub.Scalar")
def rsub(call: Call, x: Any, y: Any, alpha: Any = 1) -> Operand:
    if alpha != 1:
        x = call.op("mul", call.cast(x, call.dtype()), call.cast(alpha, call.dtype()))
    made: Operand = call.op("sub", *_promoted(call, y, x))
    return made


@converter("mul.Tensor", "mul.Scalar", numbers=True)
def mul(call: Call, x: Any, y: Any) -> Operand:
    number = call.exact_number(y)
    if number is not None:
        return call.pointwise([x], "x0 * s0", [number])
    op = "logical_and" if call.dtype() == "bool" else "mul"
    made: Operand = call.op(op, *_promoted(call, x, y))
    return made


@converter("div.Tensor", "div.Scalar", numbers=True)
def div(call: Call, x: Any, y: Any) -> Operand:
    number = call.exact_number(y)
    if number is not None:
        return call.pointwise([x], "x0 / s0", [number])
    made: Operand = call.op("div", *_promoted(call, x, y))
    return made


def _may_be_zero(call: Call, y: Any) -> bool:
    """Whether PyTorch's CPU may refuse a division of integers; other devices leave open what it gives."""
    return call.dtype() not in FLOATS and call.on_cpu() and (isinstance(y, Operand) or y == 0)


@converter("div.Tensor_mode", "div.Scalar_mode", note="on the CPU of integers by integers that may be zero")
def div_mode(call: Call, x: Any, y: Any, rounding_mode: str | None = None) -> Operand:
    require(rounding_mode is None or not _may_be_zero(call, y), f"rounding_mode {rounding_mode}")
    dtype = call.dtype() if call.exact_number(y) is None else "f32"
    made: Operand = call.op("div", *_promoted(call, x, y, dtype=dtype), rounding_mode=rounding_mode)
    return call.cast(made, call.dtype())  # type: ignore[no-any-return]


@converter("floor_divide.default", note="on the CPU of integers by integers that may be zero")
def floor_divide(call: Call, x: Any, y: Any) -> Operand:
    return div_mode(call, x, y, "floor")


_OF_BOOL = {"maximum": "logical_or", "minimum": "logical_and"}


def _extreme(call: Call, op: str, x: Operand, y: Operand) -> Operand:
    made: Operand = call.op(_OF_BOOL[op] if call.dtype() == "bool" else op, *_promoted(call, x, y))
    return made


@converter("maximum.default")
def maximum(call: Call, x: Operand, y: Operand) -> Operand:
    return _extreme(call, "maximum", x, y)


@converter("minimum.default")
def minimum(call: Call, x: Operand, y: Operand) -> Operand:
    return _extreme(call, "minimum", x, y)


_LARGEST_POWER = 64  # of numbers with 64 bits: an even one to it is 0


@converter(
    "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar",
    note="integers to integers that are operands both, or of an odd number; to numbers that are negative or above 64",
)  # fmt: skip
def power(call: Call, x: Any, y: Any) -> Operand:
    dtype = call.dtype()
    if dtype in ("s64", "s32"):
        return _whole_power(call, x, y)
    require(dtype in FLOATS, f"dtype {dtype}")
    x, y = _promoted(call, x, y)
    simple = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    if isinstance(y, float) and y in simple:
        made: Operand = call.op(simple[y], x)
        return made
    made = call.op("pow", x, y)
    return made


def _whole_power(call: Call, x: Any, y: Any) -> Operand:
    """Of integers, which wrap as products do."""
    dtype = call.dtype()
    if isinstance(x, int):
        require(x % 2 == 0 or x in (1, -1), f"integers to which {x} is raised")
        # From exponents below 0 to those of which all powers are alike; of 1 and -1 by whether one is odd.
        if x in (1, -1):
            y, powers = call.op("bitwise_and", y, 1), [1, x]
        else:
            y = call.op("add", call.op("minimum", call.op("maximum", y, -1), _LARGEST_POWER), 1)
            powers = [0, *(x**each for each in range(_LARGEST_POWER)), 0]
        bits = 64 if dtype == "s64" else 32
        wrapped = [(each + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for each in powers]
        table = call.graph.constant(np.array(wrapped, np.int64 if bits == 64 else np.int32))
        return call.reshape(call.op("index_select", table, 0, call.reshape(y, [y.size])), call.shape())
    require(isinstance(y, int) and 0 <= y <= _LARGEST_POWER, "integers to such powers")
    if y == 0:
        made: Operand = call.op("expand", call.tensor(1, dtype), [*x.shape])
        return made
    return raised(call.cast(x, dtype), y, lambda a, b: call.op("mul", a, b))


def raised(x: Operand, power: int, product: Callable[[Operand, Operand], Operand]) -> Operand:
    """x to a power of at least 1, by squares."""
    made = x
    for bit in f"{power:b}"[1:]:
        made = product(made, made)
        if bit == "1":
            made = product(made, x)
    return made


@converter("fmod.Tensor", "fmod.Scalar", note="on the CPU of integers by integers that may be zero")
def fmod(call: Call, x: Any, y: Any) -> Operand:
    require(not _may_be_zero(call, y), "division by zero")
    made: Operand = call.op("fmod", *_promoted(call, x, y))
    return made


@converter("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor",
           note="on the CPU of integers by integers that may be zero")  # fmt: skip
def remainder(call: Call, x: Any, y: Any) -> Operand:
    require(not _may_be_zero(call, y), "division by zero")
    made: Operand = call.op("remainder", *_promoted(call, x, y))
    return made


def _of_two(text: str) -> Callable[[Call, Operand, Any], Operand]:
    def convert(call: Call, x: Operand, y: Any) -> Operand:
        x, y = _promoted(call, x, y)
        return call.pointwise([x, call.tensor(y)], text)

    return convert


def _without_nan(op: str, text: str) -> Callable[[Call, Operand, Operand], Operand]:
    """NaN counts only where both are."""

    def convert(call: Call, x: Operand, y: Operand) -> Operand:
        if call.dtype() in FLOATS:
            return call.pointwise([x, y], text)
        return _extreme(call, op, x, y)

    return convert


converter("fmax.default")(_without_nan("maximum", "isnan(x0) ? x1 : isnan(x1) ? x0 : max(x0, x1)"))
converter("fmin.default")(_without_nan("minimum", "isnan(x0) ? x1 : isnan(x1) ? x0 : min(x0, x1)"))
converter("atan2.default")(_of_two("atan2(x0, x1)"))
converter("copysign.Tensor", "copysign.Scalar")(_of_two("copysign(x0, x1)"))


@converter("hypot.default")
def hypot(call: Call, x: Operand, y: Operand) -> Operand:
    # Scaled by the larger one, so that no square overflows or vanishes; infinity wins over NaN.
    large, small = "max(abs(x0), abs(x1))", "min(abs(x0), abs(x1))"
    ratio = f"({small} / {large})"
    length = f"{large} == 0 ? 0 : {large} * sqrt(1 + {ratio} * {ratio})"
    return call.pointwise([x, y], f"abs(x0) == inf || abs(x1) == inf ? inf : {length}")


def _compared(op: str) -> Callable[[Call, Any, Any], Operand]:
    def convert(call: Call, x: Any, y: Any) -> Operand:
        made: Operand = call.op(op, *_promoted(call, x, y, dtype=call.common_dtype()))
        return made

    return convert


for _op in ("eq", "ge", "gt", "le", "lt", "ne"):
    converter(f"{_op}.Tensor", f"{_op}.Scalar", numbers=True)(_compared(_op))


def _logical(op: str) -> Callable[[Call, Operand, Operand], Operand]:
    def convert(call: Call, x: Operand, y: Operand) -> Operand:
        made: Operand = call.op(op, call.cast(x, "bool"), call.cast(y, "bool"))
        return made

    return convert


for _op in ("and", "or", "xor"):
    converter(f"logical_{_op}.default")(_logical(f"logical_{_op}"))


_BITS = {"u8": 8, "s8": 8, "s32": 32, "s64": 64}


def _in_bits(value: Any, dtype: str) -> Any:
    """A number as those bits of it that the dtype has."""
    if isinstance(value, Operand) or not isinstance(value, int):
        return value
    bits = _BITS[dtype]
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if dtype[0] == "s" and low >> (bits - 1) else low


def _of_bits(op: str) -> Callable[[Call, Any, Any], Operand]:
    def convert(call: Call, x: Any, y: Any) -> Operand:
        dtype = call.dtype()
        require(dtype in _BITS, f"dtype {dtype}")
        made: Operand = call.op(op, *_promoted(call, _in_bits(x, dtype), _in_bits(y, dtype)))
        return made

    return convert


def _bitwise(op: str) -> Callable[[Call, Any, Any], Operand]:
    of_integers = _of_bits(f"bitwise_{op}")

    def convert(call: Call, x: Any, y: Any) -> Operand:
        if call.dtype() != "bool":
            return of_integers(call, x, y)
        made: Operand = call.op(f"logical_{op}", *_promoted(call, x, y))
        return made

    return convert


for _op in ("and", "or", "xor"):
    converter(*(f"bitwise_{_op}.{_form}" for _form in ("Tensor", "Scalar", "Scalar_Tensor")))(_bitwise(_op))
for _op, _sign in (("left", "l"), ("right", "r")):
    converter(
        *(f"bitwise_{_op}_shift.{_form}" for _form in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")),
        *(f"__{_sign}shift__.{_form}" for _form in ("Tensor", "Scalar")),
        note="of integers only",
    )(_of_bits(f"bitwise_{_op}_shift"))


@converter("where.self")
def where(call: Call, condition: Operand, x: Any, y: Any) -> Operand:
    require(condition.dtype == "bool", f"condition of {condition.dtype}")
    dtype = call.dtype()
    x, y = call.cast(x, dtype), call.cast(y, dtype)
    made: Operand = call.op("where", condition, x, y)
    return made


@converter("masked_fill.Scalar", "masked_fill.Tensor", keeps=False)
def masked_fill(call: Call, x: Operand, mask: Operand, value: Any) -> Operand:
    made: Operand = call.op("where", mask, call.cast(value, call.dtype()), x)
    return made


@converter("addcmul.default", numbers=True)
def addcmul(call: Call, x: Operand, a: Operand, b: Operand, value: float | Operand = 1) -> Operand:
    return call.pointwise([x, a, b], "x0 + s0 * (x1 * x2)", [_real(value)])


@converter("prims.fma.default")  # of traced steps of optimizers
def fma(call: Call, a: Operand, b: Operand, x: Operand) -> Operand:
    return call.pointwise([x, a, b], "x0 + x1 * x2")


@converter("addcdiv.default", numbers=True)
def addcdiv(call: Call, x: Operand, a: Operand, b: Operand, value: float | Operand = 1) -> Operand:
    return call.pointwise([x, a, b], "x0 + s0 * (x1 / x2)", [_real(value)])


@converter("lerp.Scalar", numbers=True)
def lerp(call: Call, x: Operand, end: Operand, weight: float | Operand) -> Operand:
    near, far = "x0 + s0 * (x1 - x0)", "x1 - (x1 - x0) * (1 - s0)"
    if isinstance(weight, Operand):
        return call.pointwise([x, end], f"abs(s0) < 0.5 ? {near} : {far}", [weight])
    return call.pointwise([x, end], near if abs(weight) < 0.5 else far, [float(weight)])
