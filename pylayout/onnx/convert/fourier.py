"""Fourier transforms: DFT and STFT.

They are products with matrices of cosines and sines, which every device does at its best, for any length, in any
layout, with gradients; a kernel of their own would have to be written for each device. What has n terms costs n a
result so. Long ones are taken apart as fast transforms do (Cooley and Tukey, Math. Comp. 19, 1965): of a length a * b
transforms of length a, factors, and transforms of length b; a prime is a convolution by a transform of another length
(Bluestein, IEEE Trans. AU 18, 1970).
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from ...errors import ShapeError, UnsupportedError
from ...sizes import is_late, max_size, min_size
from ..node import Node, dtype_text, numpy_of
from ..operand import Known, Operand, Result
from ..registry import converter

# Elements of a matrix up to which one product is taken: of 512 real numbers, or 360 complex ones.
_MOST_ELEMENTS = 1 << 19
_UNEVEN = 16  # a factor so much longer than the root gains nothing


def _angles(length: int, rows: int, columns: int, sign: float) -> Any:
    """sign * 2 pi * n * k / length, of n < rows and k < columns; the product of integers is exact."""
    turns = numpy.arange(rows)[:, None] * numpy.arange(columns) % length
    return sign * 2 * numpy.pi / length * turns


def _pairs(real: Any, imaginary: Any, complex_input: bool) -> Any:
    """The matrix (n * c, k * 2) of a complex one: real and imaginary parts of a number lie side by side."""
    rows = [numpy.stack([real, imaginary], -1)]
    if complex_input:
        rows.append(numpy.stack([-imaginary, real], -1))
    return numpy.stack(rows, 1).reshape(len(rows) * real.shape[0], -1)


class _Transform:
    """Transforms along dimension 1 of (rows, length, 1 or 2)."""

    def __init__(self, node: Node, like: Operand, inverse: bool) -> None:
        self.node, self.dtype = node, numpy_of(like)
        self.sign = 1.0 if inverse else -1.0

    def constant(self, array: Any) -> Known:
        return Known(numpy.ascontiguousarray(array).astype(self.dtype))

    def product(self, x: Operand, matrix: Any, last: int) -> Operand:
        """Rows by a matrix, as (rows, results, last)."""
        rows, length, parts = x.shape
        weight = matrix if isinstance(matrix, (Known, type(x))) else self.constant(matrix)
        flat = self.node.op("reshape", x, [rows, length * parts])
        y = self.node.op("matmul", flat, weight)
        made: Operand = self.node.op("reshape", y, [rows, weight.shape[1] // last, last])
        return made

    def direct(self, x: Operand, length: int, results: int, factor: Any = 1.0) -> Operand:
        """Of the first numbers of so many, which may be fewer; factor: for each number of x."""
        angles = _angles(length, int(x.shape[1]), results, self.sign)
        factor = numpy.reshape(factor, (-1, 1))
        return self.product(x, _pairs(numpy.cos(angles) * factor, numpy.sin(angles) * factor, x.shape[2] == 2), 2)

    def times(self, x: Operand, angles: Any) -> Operand:
        """Complex numbers (..., 2), each times the number of length 1 with its angle."""
        node = self.node
        if x.shape[-1] == 1:
            made: Operand = node.op("mul", x, self.constant(numpy.stack([numpy.cos(angles), numpy.sin(angles)], -1)))
            return made
        return self.multiplied(x, numpy.cos(angles), numpy.sin(angles))

    def multiplied(self, x: Operand, real: Any, imaginary: Any) -> Operand:
        node, last = self.node, x.ndim - 1
        turned = node.op("index_select", x, last, Known(numpy.array([1, 0])))
        ahead = node.op("mul", x, self.constant(numpy.stack([real, real], -1)))
        beside = node.op("mul", turned, self.constant(numpy.stack([-imaginary, imaginary], -1)))
        made: Operand = node.op("add", ahead, beside)
        return made

    def whole(self, x: Operand, length: int) -> Operand:
        """All results, of as many numbers."""
        if length * int(x.shape[2]) * length * 2 <= _MOST_ELEMENTS // 8:
            return self.direct(x, length, length)
        first = max(d for d in range(1, math.isqrt(length) + 1) if length % d == 0)
        if first * _UNEVEN < math.isqrt(length):
            return self.convolved(x, length) if length > 512 else self.direct(x, length, length)
        return self.apart(x, first, length // first)

    def apart(self, x: Operand, a: int, b: int) -> Operand:
        """Of a * b numbers; number n1 * b + n2 gives a part of result k1 + a * k2."""
        node, rows, parts = self.node, x.shape[0], int(x.shape[2])
        length = a * b
        apart = node.op("permute", node.op("reshape", x, [rows, a, b, parts]), [0, 2, 1, 3])
        inner = self.whole(node.op("reshape", apart, [rows * b, a, parts]), a)
        turned = self.times(node.op("reshape", inner, [rows, b, a, 2]), _angles(length, b, a, self.sign))
        outer = node.op("reshape", node.op("permute", turned, [0, 2, 1, 3]), [rows * a, b, 2])
        y = node.op("reshape", self.whole(outer, b), [rows, a, b, 2])
        made: Operand = node.op("reshape", node.op("permute", y, [0, 2, 1, 3]), [rows, length, 2])
        return made

    def convolved(self, x: Operand, length: int) -> Operand:
        """n * k = (n^2 + k^2 - (k - n)^2) / 2: a convolution between two factors, by transforms of a power of two."""
        node, rows = self.node, x.shape[0]
        size = 1 << (2 * length - 2).bit_length()
        chirp = self.sign * numpy.pi / length * (numpy.arange(length) ** 2 % (2 * length))
        filled = node.op("pad", self.times(x, chirp), [0, 0, 0, size - length])
        kernel = numpy.zeros(size, "complex128")
        kernel[:length] = numpy.exp(-1j * chirp)
        kernel[size - length + 1 :] = kernel[length - 1 : 0 : -1]
        forward, back = _Transform(node, x, False), _Transform(node, x, True)
        spectrum = numpy.fft.fft(kernel) / size
        product = self.multiplied(forward.whole(filled, size), spectrum.real, spectrum.imag)
        y = node.op("slice", back.whole(product, size), [0], [length], [1])
        made: Operand = node.op("reshape", self.times(y, chirp), [rows, length, 2])
        return made

    def transform(self, x: Operand, length: int, results: int, factor: Any = 1.0) -> Operand:
        """The first `results` of `length` ones, of x filled up with zeros; factor: a number for each of x, or one."""
        node, given = self.node, int(x.shape[1])
        if given * int(x.shape[2]) * results * 2 <= _MOST_ELEMENTS:
            return self.direct(x, length, results, factor)
        if numpy.ndim(factor) or factor != 1:
            x = node.op("mul", x, self.constant(numpy.reshape(factor, (-1, 1))))
        if given < length:
            x = node.op("pad", x, [0, 0, 0, length - given])
        y = self.whole(x, length)
        made: Operand = y if results == length else node.op("slice", y, [0], [results], [1])
        return made

    def late(self, x: Operand, length: Any, results: Any, factor: Any) -> Operand:
        """The same at sizes that are known late: one product, with a matrix of sizes."""
        node, (_, given, parts) = self.node, x.shape
        column = node.op("reshape", node.arange(0, given), [given, 1])
        one = node.arange(length, length + 1)
        turns = node.op("remainder", node.op("mul", column, node.arange(0, results)), one)
        # Of quarters of a turn whole ones are exact: angles in f32 are off by more, the larger they are.
        turns = node.op("mul", turns, node.constant(4, "int64"))
        part = node.op("div", node.op("cast", node.op("remainder", turns, one), "f32"), _number(node, length))
        angles = node.op("mul", part, node.constant(math.pi / 2, "float32"))
        quarters = node.op("div", turns, one, rounding_mode="floor")
        near = [node.op(name, angles) for name in ("cos", "sin")]
        whole = [
            node.op("index_select", node.constant(table, "float32"), 0, quarters)
            for table in ([1, 0, -1, 0], [0, self.sign, 0, -self.sign])
        ]
        near[1] = node.op("mul", near[1], node.constant(self.sign, "float32"))

        def product(i: int, k: int) -> Operand:
            made: Operand = node.op("mul", near[i], whole[k])
            return made

        shape = [given, 1, results, 1]
        real, imaginary = (
            node.op("reshape", node.op("mul", sums, factor), shape)
            for sums in (
                node.op("sub", product(0, 0), product(1, 1)),
                node.op("add", product(1, 0), product(0, 1)),
            )
        )
        rows = [node.op("concat", [real, imaginary], 3)]
        if parts == 2:
            rows.append(node.op("concat", [node.op("neg", imaginary), real], 3))
        matrix = rows[0] if parts == 1 else node.op("concat", rows, 1)
        matrix = node.op("reshape", matrix, [given * parts, results * 2])
        return self.product(x, node.op("cast", matrix, dtype_text(x)), 2)


def _number(node: Node, size: Any) -> Operand:
    """A size as a number in f32, which follows it."""
    made: Operand = node.op("cast", node.arange(size, size + 1), "f32")
    return made


def _real_inverse(node: Node, x: Operand, length: int) -> Operand:
    """Real numbers of the first half of a spectrum (rows, k, 2), by symmetry: all but the ends count twice."""
    count = int(x.shape[1])
    weights = numpy.full(count, 2.0 / length)
    weights[0] = 1.0 / length
    if length % 2 == 0 and count == length // 2 + 1:
        weights[-1] = 1.0 / length
    if count * 2 * length <= _MOST_ELEMENTS:
        angles = _angles(length, count, length, 1.0)
        matrix = numpy.stack([numpy.cos(angles), -numpy.sin(angles)], 1) * weights[:, None, None]
        return _Transform(node, x, True).product(x, matrix.reshape(2 * count, length), 1)
    y = _Transform(node, x, True).transform(x, length, length, weights)
    made: Operand = node.op("slice", y, [0], [1], [2])  # the real parts
    return made


def _dft(node: Node, axis: int) -> Result:
    x = node.x(0)
    inverse, onesided = bool(node.integer("inverse", 0)), bool(node.integer("onesided", 0))
    axis = node.axis(axis, x.ndim)
    if x.ndim < 2 or axis == x.ndim - 1:
        raise ShapeError(f"axis is {axis} of shape {list(x.shape)}, expected one before the last")
    parts = int(x.shape[-1])
    if parts not in (1, 2) or (onesided and parts != (2 if inverse else 1)):
        wanted = ("2" if inverse else "1") if onesided else "1 or 2"
        raise ShapeError(f"input has last size {parts}, expected {wanted}")
    given = x.shape[axis]
    length = node.size_at(1) if node.has(1) else 2 * (given - 1) if inverse and onesided else given
    if not is_late(length) and length < 1:
        raise ShapeError(f"dft_length is {length}, expected at least 1")
    others = [d for d in range(x.ndim - 1) if d != axis]
    order = [*others, axis, x.ndim - 1]
    rows = math.prod([x.shape[d] for d in others])
    flat = node.op("reshape", node.op("permute", x, order), [rows, given, parts])
    half = inverse and onesided
    used = length // 2 + 1 if half else length
    results = length // 2 + 1 if onesided and not inverse else length
    late = is_late([length, given])
    kept = min_size(given, used) if late else min(given, used)
    if is_late(kept) or kept != given:
        flat = node.op("slice", flat, [0], [kept], [1])
    transform = _Transform(node, x, inverse)
    if late and half:
        y = _late_real_inverse(node, flat, length)
    elif late:
        factor = (
            node.op("div", node.constant(1, "float32"), _number(node, length))
            if inverse
            else node.constant(1, "float32")
        )
        y = transform.late(flat, length, results, factor)
    elif half:
        y = _real_inverse(node, flat, length)
    else:
        y = transform.transform(flat, length, results, 1.0 / length if inverse else 1.0)
    y = node.op("reshape", y, [*(x.shape[d] for d in others), y.shape[1], y.shape[2]])
    back = [order.index(d) for d in range(x.ndim)]
    return node.op("permute", y, back)


def _late_real_inverse(node: Node, x: Operand, length: Any) -> Operand:
    """As `_real_inverse`: the real parts of the transform of x and of its mirror image, without the ends twice."""
    count = x.shape[1]
    places = node.op("reshape", node.arange(0, count), [count, 1])
    mirrored = node.op("mul", places, node.constant(2, "int64"))
    # Those at 0 and at length / 2 are their own mirror images.
    own = node.op("eq", node.op("remainder", mirrored, node.arange(length, length + 1)), node.constant(0, "int64"))
    weights = node.op("where", own, node.constant(1, "float32"), node.constant(2, "float32"))
    factor = node.op("div", weights, _number(node, length))
    y = _Transform(node, x, True).late(x, length, length, factor)
    made: Operand = node.op("slice", y, [0], [1], [2])
    return made


@converter("DFT", since=17)
def dft_17(node: Node) -> Result:
    return _dft(node, node.integer("axis", 1))


@converter("DFT", since=20)
def dft(node: Node) -> Result:
    return _dft(node, int(node.number_at(2)) if node.has(2) else -2)


@converter("STFT", since=17)
def stft(node: Node) -> Result:
    """Frames of the signal, each times the window, and their transforms."""
    x, step = node.x(0), int(node.number_at(1))
    onesided = bool(node.integer("onesided", 1))
    if x.ndim == 2:  # real numbers, as some exporters write them
        x = node.op("reshape", x, [*x.shape, 1])
    if x.ndim != 3:
        raise ShapeError(f"signal has shape {list(x.shape)}, expected rank 3")
    n, total, parts = x.shape[0], x.shape[1], int(x.shape[2])
    if parts not in (1, 2) or (onesided and parts == 2):
        raise UnsupportedError(f"signal has last size {parts}, expected 1{'' if onesided else ' or 2'}")
    window = node.optional(2)
    given = node.size_at(3) if node.has(3) else window.shape[0] if window is not None else total
    length = int(given)
    if step < 1 or length < 1:
        raise ShapeError(f"frame_step is {step} and frame_length {length}, expected at least 1")
    taken = length
    if window is not None:
        if window.ndim != 1 or window.shape[0] > length:
            raise ShapeError(f"window has shape {list(window.shape)}, expected at most {length}")
        taken = int(window.shape[0])
    frames = (total - length) // step + 1
    frames = max_size(frames, 0) if is_late(frames) else max(frames, 0)
    starts = node.op("mul", node.arange(0, frames), node.constant(step, "int64"))
    places = node.op("add", node.op("reshape", starts, [frames, 1]), Known(numpy.arange(taken)))
    cut = node.op("index_select", x, 1, node.op("reshape", places, [frames * taken]))
    cut = node.op("reshape", cut, [n * frames, taken, parts])
    factor: Any = 1.0
    if isinstance(window, Known) and window.sizes is None:
        factor = window.array.astype("float64")
    elif window is not None:
        cut = node.op("mul", cut, node.op("reshape", window, [taken, 1]))
    results = length // 2 + 1 if onesided else length
    y = _Transform(node, x, False).transform(cut, length, results, factor)
    return node.op("reshape", y, [n, frames, results, 2])


@converter("MelWeightMatrix", since=17)
def mel_weight_matrix(node: Node) -> Result:
    """Triangles over the bins of a spectrum, of equal width by the scale of mels."""
    bands, length, rate = (int(node.number_at(i)) for i in range(3))
    edges = [float(node.number_at(i)) for i in (3, 4)]
    if bands < 0 or length < 1 or rate < 1:
        raise ShapeError(f"num_mel_bins is {bands}, dft_length {length}, sample_rate {rate}, expected positive")
    low, high = (2595 * math.log10(1 + edge / 700) for edge in edges)
    mels = low + numpy.arange(bands + 2) * ((high - low) / (bands + 2))
    bins = numpy.floor((length + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate).astype("int64")
    rows = numpy.arange(length // 2 + 1)[:, None]
    if bins.min() < 0 or bins[:-1].max() >= len(rows):
        raise ShapeError(f"the edges {edges} are bins {bins.min()} to {bins.max()}, expected 0 to {len(rows) - 1}")
    first, middle, last = bins[:-2], bins[1:-1], bins[2:]
    rise, fall = middle - first, last - middle
    up = numpy.where(rise == 0, rows == middle, (rows - first) / numpy.maximum(rise, 1))
    up = numpy.where((rows >= first) & (rows <= middle), up, 0.0)
    down = (last - rows) / numpy.maximum(fall, 1)
    made = numpy.where((rows >= middle) & (rows < last), down, up)
    return Known(made.astype(node.dtype("output_datatype", 1)))
