"""Exact results of quantised ops: integers, of which a rounded result may be off by one where it is near a half."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounds import UNIT
from .post_ops import applied, steps_of
from .products import Convolution, MatrixProduct
from .reference import Full, register

Array = NDArray[Any]


def _limits(dtype: str) -> tuple[int, int]:
    return (0, 255) if dtype == "u8" else (-128, 127)


def _along(values: Array, axis: int, rank: int) -> Array:
    """One value, or one for each index along an axis, to be broadcast."""
    return values.reshape(()) if values.size == 1 else values.reshape([-1 if d == axis else 1 for d in range(rank)])


@register("quantize_linear")
class Quantize(Full):
    def compute(self) -> Any:
        x, scale, zero = self.double(0), self.double(1), self.double(2)
        assert x is not None and scale is not None
        spec = self.case.specs()[2] if len(self.case.inputs) > 2 else None
        dtype = self.attribute("dtype") or (spec[0] if spec else "u8")
        axis = int(self.attribute("axis", 1)) % x.ndim
        exact = x / _along(scale, axis, x.ndim)
        point = 0.0 if zero is None else _along(zero, axis, x.ndim)
        return (*rounded(exact, point, dtype, 4 * UNIT * np.abs(exact)), dtype)


def rounded(exact: Array, point: Any, dtype: str, bound: Array) -> tuple[Array, Array]:
    """Rounded and limited; off by one where the exact value may lie on either side of a half.

    Libraries add the zero point in f32 before they round: -3.499998 + 112 is 108.5.
    """
    y = np.clip(np.round(exact) + point, *_limits(dtype))
    near = np.abs(np.abs(exact - np.floor(exact)) - 0.5) <= bound + 2 * UNIT * np.abs(exact + point)
    return y, np.where(near, 1.0, 0.0)


@register("dequantize_linear")
class Dequantize(Full):
    def compute(self) -> Any:
        x, scale, zero = self.double(0), self.double(1), self.double(2)
        assert x is not None and scale is not None
        axis = int(self.attribute("axis", 1)) % x.ndim
        point = 0.0 if zero is None else _along(zero, axis, x.ndim)
        y = (x - point) * _along(scale, axis, x.ndim)
        dtype = (self.case.specs()[1] or ("f32", ()))[0]
        return y, 2 * UNIT * np.abs(y), dtype


class _Scaled:
    """What the two kinds of products share: zero points taken off, and the scales of a quantised result.

    Tensors: x, weight, then (with scales) those of x, weight and y, then zero points of x, weight (and y).
    A real result has no scale and no zero point.
    """

    tensors: list[Array | None]

    def without_zero_points(self, channel_axis: int) -> None:
        reference: Any = self
        self.with_scales = reference.case.op.startswith("qlinear")
        self.given = list(self.tensors)
        points = 5 if self.with_scales else 2
        plain = []
        for number in (0, 1):
            values = np.asarray(self.given[number], np.float32)
            zero = self._optional(points + number)
            if zero is not None:
                values = (
                    values - _along(np.asarray(zero, np.float32), channel_axis, values.ndim)
                    if (number and zero.size > 1)
                    else values - np.float32(zero.reshape(-1)[0])
                )
            plain.append(values)
        self.bias = self._optional(8) if self.with_scales else None
        self.real_bias = self.bias is not None and reference.case.specs()[8][0] == "f32"
        self.tensors = [*plain, None, None]  # integers up to 510 in f32: products and sums are exact in float64

    def algorithm(self, implementation: str) -> str:
        return ""  # all add integers, those by Winograd's algorithm too

    def _optional(self, number: int) -> Array | None:
        return self.given[number] if number < len(self.given) else None

    def scaled(self, reference: Any, where: Array, channel: Array) -> tuple[Array, Array]:
        total, _, _ = reference.sums(where)
        size = np.abs(total)
        if self.bias is not None and not self.real_bias:  # which implementations may add in f32
            total = total + self.bias[channel]
            size = size + np.abs(self.bias[channel])
        if not self.with_scales:
            return total, np.zeros(len(where))
        x_scale, w_scale = (np.asarray(self.given[i], np.float64).reshape(-1) for i in (2, 3))
        factor = x_scale[0] * (w_scale[channel] if w_scale.size > 1 else w_scale[0])
        real, bound = total * factor, 8 * UNIT * size * factor
        if self.bias is not None and self.real_bias:
            real = real + self.bias[channel]
            bound = bound + 8 * UNIT * np.abs(self.bias[channel])
        steps = steps_of(reference.case)
        if steps:
            real, bound = applied(reference.case, steps, real, bound, "f32", lambda number: self._addend(number, where))
        dtype = reference.outputs[0][1]
        if dtype == "f32":
            return real, bound
        y_scale = np.asarray(self.given[4], np.float64).reshape(-1)
        zero = self._optional(7)
        point = 0.0 if zero is None else float(zero.reshape(-1)[0])
        return rounded(real / y_scale[0], point, dtype, bound / y_scale[0])

    def _addend(self, number: int, where: Array) -> Array:
        """Elements of the tensor that add(addend) adds; its scale and its zero point come behind it."""
        values = np.asarray(self.given[number], np.float64).reshape(-1)[where]
        scale, zero = self._optional(number + 1), self._optional(number + 2)
        assert scale is not None
        point = 0.0 if zero is None else float(zero.reshape(-1)[0])
        return np.asarray((values - point) * float(scale.reshape(-1)[0]))

    def result_dtype(self, reference: Any) -> str:
        if not self.with_scales:
            return "s32"
        specs = reference.case.specs()
        zero = specs[7] if len(specs) > 7 else None
        return str(reference.attribute("dtype") or (zero or specs[0])[0])


@register("qlinear_conv", "conv_integer")
class QuantizedConvolution(_Scaled, Convolution):
    def prepare(self) -> None:
        self.without_zero_points(0)
        Convolution.prepare(self)
        self.outputs = [(self.shape, self.result_dtype(self))]

    def expected_by(self, algorithm: str, output: int, where: Array) -> tuple[Array, Array]:
        return self.scaled(self, where, where // int(np.prod(self.positions)) % self.shape[1])


@register("qlinear_matmul", "matmul_integer")
class QuantizedProduct(_Scaled, MatrixProduct):
    def prepare(self) -> None:
        self.without_zero_points(np.ndim(np.asarray(self.tensors[1])) - 1)
        MatrixProduct.prepare(self)
        self.outputs = [(self.shape, self.result_dtype(self))]

    def expected_by(self, algorithm: str, output: int, where: Array) -> tuple[Array, Array]:
        return self.scaled(self, where, where % self.n)


__all__ = ["QuantizedConvolution", "QuantizedProduct"]
