"""Resize and Upsample.

What `interpolate` computes goes there, for whatever sizes. All else that ONNX defines is, along each dimension by
itself, a choice of elements (nearest) or a matrix (linear, cubic, with or without antialiasing): that is made here, at
import, for these sizes.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy

from ...errors import InvalidArgumentError, ShapeError, UnsupportedError
from ...sizes import AnySize, Size, hint_of, is_late, late_text
from ..fold import room
from ..node import Node, numpy_of
from ..operand import Known, Operand, Result
from ..registry import converter

_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
# A scale of a larger denominator, as 1/3 in a float, is a number of the graph's: ONNX multiplies in f32, and what is
# rounded there is not what the quotient of integers is.
_MOST_DENOMINATOR = 64


def _positions(mode: str, out: int, size: int, scale: float, roi: tuple[float, float], dtype: Any) -> Any:
    """The place in the input of each output element.

    `dtype` is what is computed in. Which element is the nearest one turns at a place: ONNX Runtime and PyTorch, from
    which such models come, find the place in float32, where 6 / 1.2 is 5 as it was meant; float64 of the rounded scale
    would stay below it.
    """
    at = numpy.arange(out, dtype=dtype)
    scale, start, end, half = (dtype(number) for number in (scale, *roi, 0.5))
    if mode == "half_pixel":
        return (at + half) / scale - half
    if mode == "half_pixel_symmetric":
        # As half_pixel, with the middle of the input kept in the middle though the size was rounded.
        adjustment = dtype(out) / (scale * dtype(size))
        offset = dtype(size) / 2 * (1 - adjustment)
        return offset + (at + half) / scale - half
    if mode == "pytorch_half_pixel":
        return (at + half) / scale - half if out > 1 else at * 0
    if mode == "align_corners":
        # The spec's length of the result is not rounded here.
        return at * dtype(size - 1) / (scale * dtype(size) - 1) if scale * dtype(size) != 1 else at * 0
    if mode == "asymmetric":
        return at / scale
    if mode == "tf_half_pixel_for_nn":
        return (at + half) / scale
    last = dtype(size - 1)
    if out > 1:
        return start * last + at * (end - start) * last / dtype(out - 1)
    return at * 0 + half * (start + end) * last


def _nearest(positions: Any, rounding: str, size: int, scale: float) -> Any:
    """The index of the nearest element of each position."""
    if rounding == "simple":  # of the opsets before the rounding was said: as ONNX Runtime has it
        places = numpy.ceil(positions) if scale < 1 else numpy.floor(positions)
    elif rounding == "floor":
        places = numpy.floor(positions)
    elif rounding == "ceil":
        places = numpy.ceil(positions)
    elif rounding == "round_prefer_floor":
        places = numpy.ceil(positions - 0.5)
    else:
        places = numpy.floor(positions + 0.5)
    return places.clip(0, size - 1).astype("int64")


def _cubic(distance: Any, a: float) -> Any:
    """Keys' kernel (R. Keys, Cubic convolution interpolation for digital image processing, 1981)."""
    d = numpy.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return numpy.where(d <= 1, near, numpy.where(d < 2, far, 0.0))


def _weights(
    positions: Any, size: int, scale: float, cubic: bool, a: float, antialias: bool, exclude_outside: bool
) -> Any:
    """The matrix (out, in) that interpolates along one dimension; elements outside count as the nearest border."""
    stretch = max(1.0, 1 / scale) if antialias else 1.0  # of the kernel, when the image gets smaller
    reach = math.ceil((2 if cubic else 1) * stretch)
    offsets = numpy.arange(-reach, reach + 2)
    room((len(positions), size), "float64", "Resize")
    room((len(positions), len(offsets)), "float64", "Resize")
    places = numpy.floor(positions)[:, None] + offsets[None, :]
    distance = (places - positions[:, None]) / stretch
    weights = _cubic(distance, a) if cubic else numpy.maximum(1 - numpy.abs(distance), 0.0)
    if exclude_outside:
        weights = numpy.where((places >= 0) & (places < size), weights, 0.0)
    if exclude_outside or antialias:
        weights = weights / weights.sum(1, keepdims=True)
    matrix = numpy.zeros((len(positions), size))
    rows = numpy.broadcast_to(numpy.arange(len(positions))[:, None], places.shape)
    numpy.add.at(matrix, (rows, places.clip(0, size - 1).astype("int64")), weights)
    return matrix


def _applied(node: Node, x: Operand, matrix: Any, axis: int) -> Operand:
    """The matrix times x along an axis."""
    constant = Known(matrix.astype(numpy_of(x)))
    made: Operand
    if axis == x.ndim - 1:
        made = node.op("matmul", x, constant, transpose_b=True)
    else:
        before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
        flat = node.op("reshape", x, [before, x.shape[axis], after])
        product = node.op("matmul", constant, flat)
        made = node.op("reshape", product, [*x.shape[:axis], len(matrix), *x.shape[axis + 1 :]])
    return made


def _stays(old: AnySize, new: AnySize, axis: int) -> bool:
    """Whether the size of an axis remains; the graph is for sizes of which this is so.

    Of an image's sides, which `interpolate` takes as they come, only what remains whatever the sizes are.
    """
    return late_text(old) == late_text(new) or (axis < 2 and bool(old == new))


def _is_ratio(scale: float | None, old: AnySize, new: AnySize) -> bool:
    """Whether positions that are computed with the scale are those of the two sizes."""
    if scale is None:
        return True
    exact = Fraction(scale)  # each float is one
    if exact.denominator <= _MOST_DENOMINATOR:
        return bool(old * exact.numerator == new * exact.denominator)
    return math.isclose(scale, int(new) / int(old), rel_tol=1e-6)


def _floors(node: Node, scales: list[float | None]) -> bool:
    """Whether the nearest element is the one before the position, as an op with the mode nearest has it."""
    rounding = node.text("nearest_mode", "round_prefer_floor" if node.opset >= 11 else "simple")
    return rounding == "floor" or (rounding == "simple" and all(scale is not None and scale >= 1 for scale in scales))


def _interpolated(
    node: Node, x: Operand, sizes: list[AnySize], scales: list[float | None], axes: list[int], moved: list[int]
) -> Result | None:
    """x by `interpolate`, which computes all positions from the two sizes; None where it would give others."""
    mode = node.text("mode", "nearest")
    coordinates = node.text("coordinate_transformation_mode", _default_coordinates(node))
    old = {i: x.shape[axes[i]] for i in moved}
    if mode == "cubic" or coordinates == "tf_crop_and_resize":
        return None
    if not 3 <= x.ndim <= 5 or any(axes[i] < 2 for i in moved):
        return None
    if mode == "linear":
        if node.integer("antialias", 0) or node.integer("exclude_outside", 0):
            return None
        aligned = coordinates == "align_corners"
        if not aligned and coordinates not in ("half_pixel", "pytorch_half_pixel"):
            return None
        if coordinates != "half_pixel" and not all(sizes[i] > 1 for i in moved):
            return None
        keywords = {"mode": {3: "linear", 4: "bilinear", 5: "trilinear"}[x.ndim], "align_corners": aligned}
    elif coordinates == "asymmetric" and _floors(node, [scales[i] for i in moved]) and is_late([*sizes, *old.values()]):
        keywords = {"mode": "nearest"}
    else:
        return None  # of numbers it is seen below what the positions are
    if not all(sizes[i] > 0 and _is_ratio(scales[i], old[i], sizes[i]) for i in moved):
        return None
    whole: list[AnySize] = list(x.shape[2:])
    for i in moved:
        whole[axes[i] - 2] = sizes[i]
    return node.op("interpolate", x, whole, **keywords)


def _resized(node: Node, sizes: list[AnySize], scales: list[float | None], roi: list[float], axes: list[int]) -> Result:
    """x with new sizes along the given axes; positions are computed with the scales, or with both sizes where None."""
    x = node.x(0)
    if numpy_of(x) not in (numpy.uint8, numpy.int8) or node.text("mode", "nearest") == "nearest":
        return _resized_floats(node, x, sizes, scales, roi, axes)
    y = _resized_floats(node, node.op("cast", x, "f32"), sizes, scales, roi, axes)
    one, zero = Known(numpy.ones((), "float32")), Known(numpy.zeros((), numpy_of(x)))
    return node.op("quantize_linear", y, one, zero)  # rounds, and keeps what cubics overshoot in the dtype


def _resized_floats(
    node: Node, x: Operand, sizes: list[AnySize], scales: list[float | None], roi: list[float], axes: list[int]
) -> Result:
    mode = node.text("mode", "nearest", ("nearest", "linear", "cubic"))
    coordinates = node.text("coordinate_transformation_mode", _default_coordinates(node), _COORDINATES)
    rounding = node.text(
        "nearest_mode",
        "round_prefer_floor" if node.opset >= 11 else "simple",
        ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    )
    cubic_a = node.number("cubic_coeff_a", -0.75)
    exclude = bool(node.integer("exclude_outside", 0))
    outside = node.number("extrapolation_value", 0.0)
    antialias = bool(node.integer("antialias", 0))
    crop = coordinates == "tf_crop_and_resize"
    if crop and len(roi) != 2 * len(axes):
        raise ShapeError(f"roi has {len(roi)} values, expected {2 * len(axes)}")
    if any(size == 0 for size in x.shape):
        made_of_nothing: list[Any] = [*x.shape]
        for axis, size in zip(axes, sizes, strict=True):
            made_of_nothing[axis] = size
        if 0 not in made_of_nothing:
            raise ShapeError(f"x has shape {list(x.shape)}, expected elements")
        return node.op("expand", node.scalar_like(0, x), made_of_nothing)
    moved = [
        i
        for i, axis in enumerate(axes)
        if crop or not _stays(x.shape[axis], sizes[i], axis) or scales[i] not in (None, 1)
    ]
    if not moved:
        return x
    made = _interpolated(node, x, sizes, scales, axes, moved)
    if made is not None:
        return made

    # From here on the graph is for these sizes.
    at: dict[int, Any] = {}
    old = {i: int(x.shape[axes[i]]) for i in moved}
    new = {i: int(sizes[i]) for i in moved}
    scale = {i: new[i] / old[i] if (given := scales[i]) is None else given for i in moved}
    precision = numpy.float32 if mode == "nearest" else numpy.float64
    for i in moved:
        room((new[i],), "float64", "Resize")
        part = (roi[i], roi[i + len(axes)]) if crop else (0.0, 1.0)
        at[i] = _positions(coordinates, new[i], old[i], scale[i], part, precision).astype("float64")
    if mode == "nearest":
        places = {i: _nearest(at[i], rounding, old[i], scale[i]) for i in moved}
        plain = all(
            numpy.array_equal(p, numpy.arange(new[i]) * numpy.int64(old[i]) // max(new[i], 1))
            for i, p in places.items()
        )
        if plain and 3 <= x.ndim <= 5 and not crop and all(axes[i] >= 2 and new[i] for i in moved):
            whole = list(x.shape[2:])
            for i in moved:
                whole[axes[i] - 2] = new[i]
            return node.op("interpolate", x, whole, mode="nearest")
        y = x
        for i, index in places.items():
            y = node.op("index_select", y, axes[i], Known(index))
        return _extrapolated(node, y, at, axes, old, outside) if crop else y
    y = x
    # The axis that shrinks most goes first.
    for i in sorted(moved, key=lambda i: new[i] / old[i]):
        matrix = _weights(at[i], old[i], scale[i], mode == "cubic", cubic_a, antialias, exclude)
        y = _applied(node, y, matrix, axes[i])
    return _extrapolated(node, y, at, axes, old, outside) if crop else y


def _extrapolated(
    node: Node, y: Operand, at: dict[int, Any], axes: list[int], old: dict[int, int], value: float
) -> Operand:
    """y with a value wherever a position lies outside of the input."""
    for i, positions in at.items():
        beyond = (positions < 0) | (positions > old[i] - 1)
        if beyond.any():
            shape = [-1 if axis == axes[i] else 1 for axis in range(y.ndim)]
            y = node.op("where", Known(beyond.reshape(shape)), node.scalar_like(value, y), y)
    return y


def _default_coordinates(node: Node) -> str:
    return "half_pixel" if node.opset >= 11 else "asymmetric"


def _scaled(size: AnySize, factor: float) -> AnySize:
    """The size times a factor, rounded down: of a size that is known late too, as a float is a quotient of integers.

    In float32, as ONNX Runtime has it: 10 times a scale of 0.7 is 7, though the float next to 0.7 is less.
    """
    if isinstance(size, Size):
        exact = Fraction(factor)
        if exact.denominator <= _MOST_DENOMINATOR:
            made: AnySize = size * exact.numerator // exact.denominator
            return made
    return math.floor(float(numpy.float32(int(size)) * numpy.float32(factor)))


def _by_scales(node: Node, scales: list[float], roi: list[float], axes: list[int]) -> Result:
    x = node.x(0)
    if len(scales) != len(axes) or any(not 0 < scale < 2**31 for scale in scales):
        raise ShapeError(f"scales is {scales}, expected {len(axes)} positive numbers")
    crop = node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize" and len(roi) == 2 * len(axes)
    spans = [roi[i + len(axes)] - roi[i] if crop else 1.0 for i in range(len(axes))]
    sizes = [_scaled(x.shape[axis], span * scale) for axis, span, scale in zip(axes, spans, scales, strict=True)]
    return _resized(node, sizes, list(scales), roi, axes)


def _floats(node: Node, index: int) -> list[float]:
    return [float(value) for value in node.known(index).reshape(-1)[:64]] if node.has(index) else []


@converter("Upsample", since=9, note="scales known")
def upsample(node: Node) -> Result:
    return _by_scales(node, _floats(node, 1), [], list(range(node.x(0).ndim)))


@converter("Upsample", since=7)
def upsample_7(node: Node) -> Result:
    return _by_scales(node, node.numbers("scales"), [], list(range(node.x(0).ndim)))


@converter("Resize", since=10, note="scales known")
def resize_10(node: Node) -> Result:
    return _by_scales(node, _floats(node, 1), [], list(range(node.x(0).ndim)))


@converter(
    "Resize", since=11, note="scales and roi known; sizes may be late where positions are those of `interpolate`"
)
def resize(node: Node) -> Result:
    x = node.x(0)
    axes = node.integers("axes", None)
    axes = list(range(x.ndim)) if axes is None else node.axes(axes, x.ndim)
    policy = node.text("keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller"))
    roi = _floats(node, 1) if node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize" else []
    scales = _floats(node, 2)
    sizes = node.integers_at(3) if node.has(3) else []
    if scales and sizes:
        raise InvalidArgumentError("scales and sizes are given, expected one of them")
    if scales:
        return _by_scales(node, scales, roi, axes)
    if len(sizes) != len(axes) or any(size < 0 for size in sizes):
        raise ShapeError(f"sizes is {list(map(hint_of, sizes))}, expected {len(axes)} values of at least 0")
    if any(size > 2**31 for size in sizes):
        raise UnsupportedError(f"sizes is {list(map(hint_of, sizes))}, expected less than {2**31}")
    if policy == "stretch":
        return _resized(node, sizes, [None] * len(axes), roi, axes)
    ratios = [size / max(int(x.shape[axis]), 1) for size, axis in zip(map(int, sizes), axes, strict=True)]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    sizes = [math.floor(int(x.shape[axis]) * ratio + 0.5) for axis in axes]
    return _resized(node, sizes, [ratio] * len(axes), roi, axes)
