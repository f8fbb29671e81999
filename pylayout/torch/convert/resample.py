"""Images resized by taps and weights that sizes decide, read at places of a grid; gradients of what resizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...sizes import Size
from ..call import FLOATS, Call, Operand, require
from ..registry import converter, converters
from ..resizes import OPS, arguments_of

# Along one axis: for each place of the result the input's places that it is made of, and their weights.
Taps = tuple[np.ndarray, np.ndarray]


def _scale(size: int, made: int, align: bool, given: float | None) -> float:
    if align:
        return (size - 1) / (made - 1) if made > 1 else 0.0
    return 1 / given if given is not None and given > 0 else size / made


def _keys(x: np.ndarray, a: float) -> np.ndarray:
    """The cubic kernel of Keys, between -2 and 2."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _cubic(size: int, made: int, align: bool, given: float | None) -> Taps:
    scale = _scale(size, made, align, given)
    at = np.arange(made, dtype=np.float64)
    at = at * scale if align else (at + 0.5) * scale - 0.5
    places = np.floor(at)[:, None] + np.arange(-1, 3)
    return np.clip(places, 0, size - 1).astype(np.int64), _keys(at[:, None] - places, -0.75)


def _averaged(half: float, kernel: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Taps]:
    """A kernel that reaches `half` to both sides, made wider where the image gets smaller."""

    def taps(size: int, made: int, align: bool, given: float | None) -> Taps:
        scale = _scale(size, made, align, given)
        wide = max(scale, 1.0)
        centre = scale * (np.arange(made, dtype=np.float64) + 0.5)
        first = np.maximum((centre - half * wide + 0.5).astype(np.int64), 0)
        count = np.minimum((centre + half * wide + 0.5).astype(np.int64), size) - first
        steps = np.arange(max(1, int(count.max())))
        weights = kernel((first[:, None] + steps - centre[:, None] + 0.5) / wide)
        weights = np.where(steps < count[:, None], weights, 0.0)
        return first[:, None] + np.where(steps < count[:, None], steps, 0), weights / weights.sum(1, keepdims=True)

    return taps


_linear_averaged = _averaged(1, lambda x: np.maximum(0.0, 1 - np.abs(x)))
_cubic_averaged = _averaged(2, lambda x: _keys(x, -0.5))


def _nearest_exact(size: int, made: int, align: bool, given: float | None) -> Taps:
    # In float32, as PyTorch rounds.
    scale = np.float32(_scale(size, made, align, given))
    places = np.floor((np.arange(made, dtype=np.float32) + np.float32(0.5)) * scale)
    return np.minimum(places, size - 1).astype(np.int64)[:, None], np.ones((made, 1))


def _known(sizes: Sequence[Any]) -> list[int]:
    require(not any(isinstance(size, Size) for size in sizes), "sizes that calls decide")
    return [int(size) for size in sizes]


def _spread(shape: Sequence[int], dim: int, weights: np.ndarray) -> np.ndarray:
    """Weights (places, taps) beside a tensor of which `dim` is split into these two."""
    along = [1] * (len(shape) + 1)
    along[dim : dim + 2] = weights.shape
    return weights.astype(np.float32).reshape(along)


_FEW_TAPS = 8  # for which sums of tensors are faster on the CPU than sums along a dimension
_TAPS_OF_SUM = 4  # each is two inputs of an expression


def _by_taps(call: Call, x: Operand, dim: int, index: np.ndarray, weights: np.ndarray) -> Operand:
    """The sum of tap after tap, in f32. What has no weight is not read: it may be infinite."""
    along = [1] * x.ndim
    along[dim] = len(index)
    total: Operand | None = None
    for first in range(0, index.shape[1], _TAPS_OF_SUM):
        taps = range(first, min(first + _TAPS_OF_SUM, index.shape[1]))
        taken = [call.op("index_select", x, dim, call.graph.constant(index[:, tap])) for tap in taps]
        shares = [call.graph.constant(weights[:, tap].astype(np.float32).reshape(along)) for tap in taps]
        products = [f"x{i} * x{len(taps) + i}" for i in range(len(taps))]
        text = " + ".join(
            product if weights[:, tap].all() else f"(x{len(taps) + i} == 0 ? 0 : {product})"
            for i, (tap, product) in enumerate(zip(taps, products, strict=True))
        )
        made: Operand = call.op("pointwise", [*taken, *shares], f"y0 = {text}", dtype="f32")
        total = made if total is None else call.op("add", total, made)
    assert total is not None
    return total


def _resampled(
    call: Call, x: Operand, taps_of: Callable[..., Taps], size: Sequence[Any], align: bool, scales: Sequence[Any]
) -> Operand:
    dtype = x.dtype.name
    require(dtype in FLOATS and x.size > 0, f"dtype {dtype}, or no elements")
    rank = x.ndim - 2
    before, after = _known(x.shape[2:]), _known(size)
    # Along rows elements are gathered one by one, else in rows: first along rows only where that leaves fewer elements.
    shrinks = after[0] < before[0]
    for axis in range(rank) if shrinks else reversed(range(rank)):
        dim = 2 + axis
        index, weights = taps_of(before[axis], after[axis], align, scales[axis])
        count = index.shape[1]
        if 1 < count <= _FEW_TAPS and call.on_cpu():
            x = _by_taps(call, x, dim, index, weights)
            continue
        x = call.op("index_select", x, dim, call.graph.constant(index.reshape(-1)))
        if count == 1:
            continue
        x = call.op("reshape", x, [*x.shape[:dim], after[axis], count, *x.shape[dim + 1 :]])
        x = call.op(
            "pointwise", [x, call.graph.constant(_spread([*x.shape[:-1]], dim, weights))],
            "y0 = where(x1 == 0, 0, x0 * x1)", reductions="reduce_y0 += y0", dim=[dim + 1], dtype="f32",
        )  # fmt: skip
    return call.cast(x, dtype)  # type: ignore[no-any-return]


def _resampled_backward(
    call: Call, grad: Operand, taps_of: Callable[..., Taps], size: Sequence[Any], align: bool, scales: Sequence[Any]
) -> Operand:
    dtype = grad.dtype.name
    require(dtype in FLOATS and grad.size > 0, f"dtype {dtype}, or no elements")
    rank = grad.ndim - 2
    before, after = _known(size[2:]), _known(grad.shape[2:])
    for axis in range(rank):
        dim = 2 + axis
        index, weights = taps_of(before[axis], after[axis], align, scales[axis])
        if index.shape[1] > 1:
            grad = call.op("unsqueeze", grad, dim + 1)
            shape = [*grad.shape[:dim], index.size, *grad.shape[dim + 2 :]]
            grad = call.op(
                "pointwise", [grad, call.graph.constant(_spread([*grad.shape[:-1]], dim, weights))], "y0 = x0 * x1",
                dtype="f32",
            )  # fmt: skip
            grad = call.op("reshape", grad, shape)
        grad = call.op("index_select_backward", grad, call.graph.constant(index.reshape(-1)), dim, before[axis])
    return call.cast(grad, dtype)  # type: ignore[no-any-return]


def _options(rest: Sequence[Any], aligns: bool, rank: int) -> tuple[bool, list[Any]]:
    """What follows the sizes: whether corners are aligned (where the op `aligns`), and a scale or None an axis."""
    align, *scales = rest if aligns else (False, *rest)
    return bool(align), [*scales, *[None] * (rank - len(scales))]


def _unless_all_stay(scales: Sequence[Any], size: Sequence[Any], made: Sequence[Any]) -> list[Any]:
    """The scales; none where all sizes stay, and some of PyTorch's functions copy."""
    stay = all(n == m for n, m in zip(size, made, strict=True))
    return [None if stay else scale for scale in scales]


def _register(name: str, rank: int, taps_of: Callable[..., Taps], aligns: bool, copied: str = "") -> None:
    """copied: which of PyTorch's two functions copies where all sizes stay, though a scale was given."""

    def forward(call: Call, x: Operand, output_size: Sequence[Any] | None, *rest: Any) -> Operand:
        align, scales = _options(rest, aligns, rank)
        size = call.shape()[2:] if output_size is None else output_size
        if copied == "forward":
            scales = _unless_all_stay(scales, x.shape[2:], size)
        return _resampled(call, x, taps_of, size, align, scales)

    def backward(call: Call, grad: Operand, output_size: Any, input_size: Sequence[int], *rest: Any) -> Operand:
        align, scales = _options(rest, aligns, rank)
        if copied == "backward":
            scales = _unless_all_stay(scales, input_size[2:], grad.shape[2:])
        return _resampled_backward(call, grad, taps_of, input_size, align, scales)

    converter(f"{name}.default", note="where calls decide sizes")(forward)
    converter(f"{name}_backward.default", note="where calls decide sizes")(backward)


_register("upsample_bicubic2d", 2, _cubic, True, "backward")
_register("_upsample_bilinear2d_aa", 2, _linear_averaged, True, "forward")
_register("_upsample_bicubic2d_aa", 2, _cubic_averaged, True, "forward")
for _rank in (1, 2, 3):
    _register(f"_upsample_nearest_exact{_rank}d", _rank, _nearest_exact, False)


# The modes that the library's op has.
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _scale_factor(
    align: bool, scales: Sequence[Any], size: Sequence[Any], made: Sequence[Any] | None
) -> list[float] | None:
    """What the op takes where scales were given, by which PyTorch goes then; None: it goes by the sizes.

    made: the sizes that are asked for, which then have to follow from the scales; None: those that follow.
    """
    given = [scale for scale in scales if scale is not None]
    if align or not given:
        return None
    require(len(given) == len(scales) and all(scale > 0 for scale in given), f"the scales {[*scales]}")
    for n, scale, m in zip(size, given, made or [], strict=made is not None):
        known = isinstance(n, int) and isinstance(m, int)
        require(not known or math.floor(n * scale) == m, f"a scale of {scale} for sizes {n} and {m}")
    return [float(scale) for scale in given]


def _register_resize(name: str, rank: int, mode: str) -> None:
    aligns = mode != "nearest"

    def forward(call: Call, x: Operand, output_size: Sequence[Any] | None, *rest: Any) -> Operand:
        align, scales = _options(rest, aligns, rank)
        factor = _scale_factor(align, scales, x.shape[2:], output_size)
        size = None if factor else [*(call.shape()[2:] if output_size is None else output_size)]
        made: Operand = call.op("interpolate", x, size, factor, mode=mode, align_corners=align)
        return made

    def backward(call: Call, grad: Operand, output_size: Any, input_size: Sequence[Any], *rest: Any) -> Operand:
        align, scales = _options(rest, aligns, rank)
        size = [*input_size[2:]]
        if mode == "nearest":  # PyTorch's gradient is that of a copy there, its result for images alone
            scales = _unless_all_stay(scales, size, grad.shape[2:])
        factor = _scale_factor(align, scales, size, grad.shape[2:])
        made: Operand = call.op("interpolate_backward", grad, size, factor, mode=mode, align_corners=align)
        return made

    converter(f"{name}.default")(forward)
    converter(f"{name}_backward.default")(backward)


for _rank, _mode in _LINEAR.items():
    _register_resize(f"upsample_nearest{_rank}d", _rank, "nearest")
    _register_resize(f"upsample_{_mode}{_rank}d", _rank, _mode)


@converter("pylayout.resize.default")
def resize(call: Call, x: Operand, size: Sequence[Any], name: str, align: bool, scales: Sequence[float]) -> Operand:
    made: Operand = converters()[f"{name}.default"].function(call, x, size, *arguments_of(name, align, scales))
    return made


@converter("pylayout.resize_backward.default")
def resize_backward(
    call: Call, grad: Operand, size: Sequence[Any], input_size: Sequence[Any], name: str, align: bool,
    scales: Sequence[float],
) -> Operand:  # fmt: skip
    backward = converters()[f"{name}_backward.default"].function
    made: Operand = backward(call, grad, size, input_size, *arguments_of(name, align, scales))
    return made


def _register_given(name: str) -> None:
    """The form that takes sizes or scales, of which exported programs keep some."""

    def convert(call: Call, x: Operand, output_size: Any, *rest: Any) -> Operand:
        *align, scales = rest
        given = arguments_of(name, bool(align and align[0]), scales or [])
        made: Operand = converters()[f"{name}.default"].function(call, x, output_size, *given)
        return made

    converter(f"{name}.vec")(convert)


for _name in OPS.values():
    _register_given(_name)


_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _sampling(call: Call, mode: int, padding: int, align: bool) -> dict[str, Any]:
    return {"mode": _MODES[mode], "padding_mode": _PADDINGS[padding], "align_corners": bool(align)}


@converter("grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(
    call: Call, x: Operand, grid: Operand, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Operand:
    how = _sampling(call, interpolation_mode, padding_mode, align_corners)
    made: Operand = call.op("grid_sample", x, call.cast(grid, "f32"), **how)
    return made


@converter("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default")
def grid_sampler_backward(
    call: Call, grad: Operand, x: Operand, grid: Operand, interpolation_mode: int, padding_mode: int,
    align_corners: bool, output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    how = _sampling(call, interpolation_mode, padding_mode, align_corners)
    dx, dgrid = call.op("grid_sample_backward", grad, x, call.cast(grid, "f32"), **how)
    return dx if output_mask[0] else None, call.cast(dgrid, grid.dtype.name) if output_mask[1] else None


def _pad_backward(
    source_of: Callable[[Any, int], Any], of_one_side: Callable[[Call, Operand, int, int, bool], Operand]
) -> Callable[..., Operand]:
    """Of padding by elements of x, along an axis of `size` from source_of(places, size): what came from an element is
    added up there, axis by axis. of_one_side(call, grad, dim, count, behind) does it where calls decide sizes."""

    def convert(call: Call, grad: Operand, x: Operand, padding: Sequence[int]) -> Operand:
        require(grad.size > 0, "no elements")
        for axis in range(len(padding) // 2):
            dim = x.ndim - 1 - axis
            before, after = (int(each) for each in padding[2 * axis : 2 * axis + 2])
            size, made = x.shape[dim], grad.shape[dim]
            if isinstance(size, Size) or isinstance(made, Size):
                require(min(before, after) >= 0, "padding that cuts, at sizes that calls decide")
                grad = of_one_side(call, grad, dim, before, False) if before else grad
                grad = of_one_side(call, grad, dim, after, True) if after else grad
            elif before or after:
                index = source_of(np.arange(made) - before, size).astype(np.int64)
                grad = call.op("index_select_backward", grad, call.graph.constant(index), dim, size)
        return grad

    return convert


def _cut(call: Call, x: Operand, dim: int, first: int, end: int | None) -> Operand:
    made: Operand = call.op("slice", x, [first], [2**62 if end is None else end], [dim])
    return made


def _nearest_of_one_side(call: Call, grad: Operand, dim: int, count: int, behind: bool) -> Operand:
    """The element at the border took part in its copies, too."""
    border = _cut(call, grad, dim, -count - 1, None) if behind else _cut(call, grad, dim, 0, count + 1)
    rest = _cut(call, grad, dim, 0, -count - 1) if behind else _cut(call, grad, dim, count + 1, None)
    total = call.op("sum", border, [dim], True)
    made: Operand = call.op("concat", [rest, total] if behind else [total, rest], dim)
    return made


def _mirrored_of_one_side(call: Call, grad: Operand, dim: int, count: int, behind: bool) -> Operand:
    """What lies behind the border came from elements in front of it, but for the border itself."""
    turned = converters()["flip.default"].function
    if behind:
        copies = turned(call, _cut(call, grad, dim, -count, None), [dim])
        near = call.op("add", _cut(call, grad, dim, -2 * count - 1, -count - 1), copies)
        parts = [_cut(call, grad, dim, 0, -2 * count - 1), near, _cut(call, grad, dim, -count - 1, -count)]
    else:
        copies = turned(call, _cut(call, grad, dim, 0, count), [dim])
        near = call.op("add", _cut(call, grad, dim, count + 1, 2 * count + 1), copies)
        parts = [_cut(call, grad, dim, count, count + 1), near, _cut(call, grad, dim, 2 * count + 1, None)]
    made: Operand = call.op("concat", parts, dim)
    return made


def _nearest(places: Any, size: int) -> Any:
    return np.clip(places, 0, size - 1)


def _mirrored(places: Any, size: int) -> Any:
    return size - 1 - abs(size - 1 - abs(places))


for _rank in (1, 2, 3):
    converter(f"replication_pad{_rank}d_backward.default")(_pad_backward(_nearest, _nearest_of_one_side))
    converter(f"reflection_pad{_rank}d_backward.default")(_pad_backward(_mirrored, _mirrored_of_one_side))
