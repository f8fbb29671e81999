"""Shapes, views and copies."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...sizes import Size, same_sizes
from ..call import FLOATS, Call, Operand, part_of, require
from ..dtypes import dense_layout
from ..registry import converter

MAX_PLACES = 1 << 20  # that a constant holds
_ON_X86 = platform.machine().lower() in ("x86_64", "amd64")


@converter("view.default", "reshape.default", "_unsafe_view.default", "view_copy.default", moves=True)
def view(call: Call, x: Operand, shape: Sequence[int]) -> Operand:
    return call.reshape(x, call.shape())


@converter("squeeze.dim", "squeeze.dims", "squeeze.default", moves=True, keeps=False)
def squeeze(call: Call, x: Operand, dim: Any = None) -> Operand:
    return call.reshape(x, call.shape())


@converter("unsqueeze.default", moves=True)
def unsqueeze(call: Call, x: Operand, dim: int) -> Operand:
    return call.reshape(x, call.shape())


@converter("permute.default", moves=True)
def permute(call: Call, x: Operand, dims: Sequence[int]) -> Operand:
    made: Operand = call.op("permute", x, [int(dim) for dim in dims]) if x.ndim else x
    return made


@converter("transpose.int", moves=True, keeps=False)
def transpose(call: Call, x: Operand, dim0: int, dim1: int) -> Operand:
    made: Operand = call.op("transpose", x, dim0, dim1) if x.ndim else x
    return made


@converter("expand.default", moves=True)
def expand(call: Call, x: Operand, size: Sequence[int], implicit: bool = False) -> Operand:
    made: Operand = call.op("expand", x, list(call.shape()))
    return made


@converter("copy.default", moves=True)
def copy(call: Call, x: Operand, source: Operand, non_blocking: bool = False) -> Operand:
    """What a part of a tensor is overwritten with: of the part itself nothing is read."""
    made: Operand = call.op("expand", call.cast(source, call.dtype()), list(call.shape()))
    return made


@converter("select.int", moves=True)
def select(call: Call, x: Operand, dim: int, index: int) -> Operand:
    dim = dim % x.ndim
    index = index + x.shape[dim] if index < 0 else index
    return call.reshape(call.op("slice", x, [index], [index + 1], [dim]), call.shape())


@converter("slice.Tensor", moves=True)
def slice_(call: Call, x: Operand, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Operand:
    dim = dim % x.ndim
    size = x.shape[dim]
    first, last = part_of(size, start, end)
    if step == 1 and same_sizes((first, last), (0, size)):
        return x
    made: Operand = call.op("slice", x, [first], [last], [dim], [step])
    return made


@converter("diagonal.default", "diagonal_copy.default", moves=True, note="without elements")
def diagonal(call: Call, x: Operand, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Operand:
    dim1, dim2 = dim1 % x.ndim, dim2 % x.ndim
    others, columns = [dim for dim in range(x.ndim) if dim not in (dim1, dim2)], x.shape[dim2]
    count = call.shape()[-1]
    require(count > 0, "no elements")
    inner = call.op("permute", x, [*others, dim1, dim2])
    flat = call.reshape(inner, [*[x.shape[dim] for dim in others], x.shape[dim1] * columns])
    first, step = (offset if offset >= 0 else -offset * columns), columns + 1
    end = first + (count - 1) * step + 1
    made: Operand
    if isinstance(step, Size):
        made = call.op("index_select", flat, len(others), call.graph.arange(first, end, step))
    else:
        made = call.op("slice", flat, [first], [end], [len(others)], [step])
    return made


@converter("split_with_sizes.default", moves=True)
def split_with_sizes(call: Call, x: Operand, sizes: Sequence[int], dim: int = 0) -> Any:
    return call.op("split", x, [*sizes], dim % x.ndim)


@converter("split.Tensor", moves=True)
def split(call: Call, x: Operand, size: int, dim: int = 0) -> Any:
    dim = dim % x.ndim
    return call.op("split", x, [call.shape(place)[dim] for place in range(len(call.expected))], dim)


@converter("unbind.int", moves=True)
def unbind(call: Call, x: Operand, dim: int = 0) -> Any:
    return call.op("unbind", x, dim)


@converter("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default", "contiguous.default",
           moves=True, keeps=False)  # fmt: skip
def clone(call: Call, x: Operand, memory_format: Any = None) -> Operand:
    return x


@converter("_to_copy.default", "prims.convert_element_type.default")
def to_copy(call: Call, x: Operand, dtype: Any = None, **others: Any) -> Operand:
    require(others.get("device") in (None, call.device()), "another device")
    wanted = call.dtype()
    if x.dtype in FLOATS and wanted not in (*FLOATS, "bool") and call.device().type == "cpu":
        return _cut(call, x, wanted)
    made: Operand = call.cast(x, wanted)
    return made


def _cut(call: Call, x: Operand, wanted: str) -> Operand:
    """Floats cut to integers, as PyTorch's code does on this processor.

    PyTorch leaves open what becomes of those that an integer cannot hold, but programs meet them: the logarithm of a
    distance of 0, say. x86 makes the least integer of them and of NaN; others limit them to the range. Small integers
    are the low bits of large ones.
    """
    made: Operand
    if _ON_X86:
        made = call.op("cast", x, wanted, limited=False)
    else:
        made = call.cast(call.cast(x, "s32" if wanted == "s32" else "s64"), wanted)
    return made


@converter("cat.default", moves=True)
def cat(call: Call, tensors: Sequence[Operand], dim: int = 0) -> Operand:
    dtype, shape = call.dtype(), call.shape()
    # What has no elements adds none; if it is of rank 1 it goes with any others.
    full = [x for x in tensors if 0 not in x.shape]
    given = [call.cast(x, dtype) for x in full or tensors if not (x.shape == (0,) and len(shape) != 1)]
    made: Operand = given[0] if len(given) == 1 else call.op("concat", given, dim % len(shape))
    return made


@converter("stack.default", moves=True, keeps=False)
def stack(call: Call, tensors: Sequence[Operand], dim: int = 0) -> Operand:
    dtype = call.dtype()
    made: Operand = call.op("stack", [call.cast(x, dtype) for x in tensors], dim)
    return made


@converter("repeat.default", moves=True)
def repeat(call: Call, x: Operand, repeats: Sequence[int]) -> Operand:
    made: Operand = call.op("tile", x, [*repeats]) if len(repeats) else x
    return made


@converter("flip.default", moves=True)
def flip(call: Call, x: Operand, dims: Sequence[int]) -> Operand:
    for dim in dims:
        size = x.shape[dim]
        if isinstance(size, Size):
            x = call.op("index_select", x, dim % x.ndim, call.graph.arange(size - 1, -1, -1))
        else:
            x = call.op("flip", x, [int(dim)])
    return x


@converter("roll.default", moves=True)
def roll(call: Call, x: Operand, shifts: Sequence[int], dims: Sequence[int] = ()) -> Operand:
    require(len(dims) == len(shifts) and len(dims) > 0 and 0 not in x.shape, "no dims, or no elements")
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        cut = -shift % size
        if cut != 0:
            dim %= x.ndim
            x = call.op("concat", call.op("split", x, [cut, size - cut], dim)[::-1], dim)
    return x


@converter("constant_pad_nd.default", moves=True)
def constant_pad(call: Call, x: Operand, pad: Sequence[int], value: Any = 0) -> Operand:
    value = call.cast(value, call.dtype())
    made: Operand = call.op("pad", x, [*pad], value=float(value))
    return made


@converter("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default", moves=True)
def reflection_pad(call: Call, x: Operand, padding: Sequence[int]) -> Operand:
    made: Operand = call.op("pad", x, [*padding], mode="reflect")
    return made


@converter("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default", moves=True)
def replication_pad(call: Call, x: Operand, padding: Sequence[int]) -> Operand:
    made: Operand = call.op("pad", x, [*padding], mode="replicate")
    return made


@converter("pixel_shuffle.default", moves=True)
def pixel_shuffle(call: Call, x: Operand, factor: int) -> Operand:
    *batch, channels, h, w = x.shape
    out = channels // factor**2
    x = call.op("reshape", x, [-1, out, factor, factor, h, w])
    return call.op("reshape", call.op("permute", x, [0, 1, 4, 2, 5, 3]), [*batch, out, h * factor, w * factor])  # type: ignore[no-any-return]


@converter("channel_shuffle.default", moves=True, keeps=False)
def channel_shuffle(call: Call, x: Operand, groups: int) -> Operand:
    made: Operand = call.op("channel_shuffle", x, groups)
    return made


@converter("slice_scatter.default")
def slice_scatter(
    call: Call, x: Operand, source: Operand, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Operand:
    dim = dim % x.ndim
    first, _ = part_of(x.shape[dim], start, end)
    require(source.dtype == x.dtype, f"dtype {source.dtype}")
    return _replaced(call, x, source, dim, first, step)


@converter("select_scatter.default")
def select_scatter(call: Call, x: Operand, source: Operand, dim: int, index: int) -> Operand:
    dim = dim % x.ndim
    index = index + x.shape[dim] if index < 0 else index
    require(source.dtype == x.dtype, f"dtype {source.dtype}")
    return _replaced(call, x, call.op("unsqueeze", source, dim), dim, index, 1)


@converter("pylayout.slice_scatter.default")
def parts_scatter(
    call: Call, x: Operand, source: Operand, starts: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Operand:
    require(source.dtype == x.dtype, f"dtype {source.dtype}")
    made: Operand = call.op("slice_scatter", x, source, [*starts], axes=[*axes], steps=[*steps])
    return made


@converter("diagonal_scatter.default", moves=True)
def diagonal_scatter(call: Call, x: Operand, source: Operand, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Operand:
    dim1, dim2 = dim1 % x.ndim, dim2 % x.ndim
    rows, columns = x.shape[dim1], x.shape[dim2]
    require(source.dtype == x.dtype, f"dtype {source.dtype}")
    order = [*[dim for dim in range(x.ndim) if dim not in (dim1, dim2)], dim1, dim2]
    down, along = call.op("unsqueeze", call.graph.arange(0, rows), 1), call.graph.arange(0, columns)
    chosen = call.op("eq", call.op("add", down, offset), along)
    # The source lies along the dimension in which the diagonal begins at 0, and is repeated along the other.
    behind = (rows if offset >= 0 else columns) - source.shape[-1]
    values = call.op("unsqueeze", call.op("pad", source, [0, behind]), x.ndim - (1 if offset >= 0 else 2))
    made: Operand = call.op("where", chosen, values, call.op("permute", x, order))
    back: Operand = call.op("permute", made, [order.index(dim) for dim in range(x.ndim)])
    return back


@converter("slice_backward.default", moves=True)
def slice_backward(
    call: Call, grad: Operand, sizes: Sequence[int], dim: int, start: Any, end: Any, step: int
) -> Operand:
    dim = dim % len(sizes)
    first, _ = part_of(sizes[dim], start, end)
    whole = first < step and all(isinstance(n, int) for n in (sizes[dim], grad.shape[dim]))
    if step > 1 and whole and grad.shape[dim] * step == sizes[dim]:  # one of each group of `step` positions
        apart = call.op("unsqueeze", grad, dim + 1)
        apart = call.op("pad", apart, [0, 0] * (grad.ndim - dim - 1) + [first, step - 1 - first])
        return call.reshape(apart, sizes)
    if step > 1 and grad.shape[dim] > 0:  # zeros behind each position, but the last
        apart = call.op("pad", call.op("unsqueeze", grad, dim + 1), [0, 0] * (grad.ndim - dim - 1) + [0, step - 1])
        grad = call.op("reshape", apart, [*grad.shape[:dim], grad.shape[dim] * step, *grad.shape[dim + 1 :]])
        grad = call.op("slice", grad, [0], [grad.shape[dim] - step + 1], [dim])
    return _within(call, grad, sizes, dim, first)


@converter("select_backward.default", moves=True)
def select_backward(call: Call, grad: Operand, sizes: Sequence[int], dim: int, index: int) -> Operand:
    dim = dim % len(sizes)
    index = index + sizes[dim] if index < 0 else index
    return _within(call, call.op("unsqueeze", grad, dim), sizes, dim, index)


def _within(call: Call, part: Operand, sizes: Sequence[int], dim: int, first: int) -> Operand:
    """`part` from position `first` of dim on, zeros before and behind."""
    last = sizes[dim] - first - part.shape[dim]
    made: Operand = call.op("pad", part, [0, 0] * (len(sizes) - dim - 1) + [first, last])
    return made


def _replaced(call: Call, x: Operand, source: Operand, dim: int, first: Any, step: int) -> Operand:
    """x with `source` in the place of positions that begin with `first` along dim, `step` apart."""
    made: Operand
    known = all(isinstance(size, int) for size in (first, *x.shape))
    if (
        known and step == 1 and source.size > 0 and call.is_written_back()
    ):  # a cache of keys, and one of values beside it
        made = call.op("tensor_scatter", x, source, call.graph.number(first, "s64"), dim=dim)
        return made
    if isinstance(first, int):
        made = call.op("slice_scatter", x, source, [first], axes=[dim], steps=[step])
        return made
    require(step == 1, "a step from where calls decide on")
    last = first + source.shape[dim]
    parts = [call.op("slice", x, [0], [first], [dim]), source, call.op("slice", x, [last], [x.shape[dim]], [dim])]
    made = call.op("concat", parts, dim)
    return made


@converter("as_strided.default", moves=True, note="of tensors with gaps; gaps or overlaps where calls decide sizes")
def as_strided(
    call: Call, x: Operand, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Operand:
    # What is meant depends on how x lies in PyTorch's memory. Without gaps it is a renaming of dimensions.
    source = call.node.args[0].meta["val"]  # type: ignore[union-attr]
    offset = source.storage_offset()
    known = all(isinstance(each, int) for each in (*size, *stride, storage_offset or 0, x.size))
    whole = storage_offset in (None, offset) and x.size == math.prod(size)
    if not known or (whole and dense_layout(size, stride) is not None):
        before, after = _dense_in_one_place(call, x, size, stride, storage_offset)
        return _lying_as(call, x, before, size, after)
    layout = dense_layout(source.shape, source.stride())
    require(layout is not None, "a tensor with gaps")
    assert layout is not None
    first = 0 if storage_offset is None else storage_offset - offset
    flat = call.op("permute", x, [ord(letter) - ord("a") for letter in layout])
    return _at_strides(call, flat, size, stride, first)


def _at_strides(call: Call, x: Operand, size: Sequence[int], stride: Sequence[int], first: int) -> Operand:
    """Elements of x, which lies as it is written: windows that overlap, or a part. What stays side by side is a row."""
    last = first + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    require(first >= 0 and last < x.size and 0 not in size, "elements beside the tensor, or none")
    places, inner = _rows_at(size, stride, first)
    require(places.size <= MAX_PLACES, f"{places.size} places")
    rows, left = divmod(int(x.size), inner)
    if left:
        x = call.op("slice", call.reshape(x, [x.size]), [0], [rows * inner], [0])
    made = call.op("index_select", call.op("reshape", x, [rows, inner]), 0, call.graph.constant(places.reshape(-1)))
    return call.reshape(made, size)


def _rows_at(
    size: Sequence[int], stride: Sequence[int], first: int, elements: int = 0
) -> tuple[np.ndarray[Any, Any], int]:
    """Which rows strides mean, and of how many elements these are: what stays side by side.

    elements: of what is cut into whole rows; 0: some may be left at its end.
    """
    inner, outer, steps = 1, [*size], [*stride]
    while outer and steps[-1] == inner:  # so many of the last dimension that all begins at multiples of them
        count = math.gcd(outer[-1], first // inner, elements // inner, *(step // inner for step in steps[:-1]))
        inner *= count
        if count < outer[-1]:
            outer[-1] //= count
            steps[-1] = inner
            break
        outer.pop()
        steps.pop()
    places = np.full(outer, first // inner, dtype=np.int64)
    for dim, (n, step) in enumerate(zip(outer, steps, strict=True)):
        along = np.arange(n, dtype=np.int64) * (step // inner)
        places += along.reshape([-1 if each == dim else 1 for each in range(len(outer))])
    return places, inner


@converter("unfold.default", moves=True)
def unfold(call: Call, x: Operand, dim: int, size: int, step: int) -> Operand:
    """Windows along a dimension, each of them in a dimension behind the others."""
    if x.ndim == 0:
        return call.reshape(x, [1])
    dim = dim % x.ndim
    count = call.shape()[dim]
    if step == size:
        inside = call.op("slice", x, [0], [count * size], [dim])
        windows = call.op("reshape", inside, [*x.shape[:dim], count, size, *x.shape[dim + 1 :]])
    else:
        part = math.gcd(size, step)  # what lies side by side in all windows that it is in
        parts = (count - 1) * (step // part) + size // part
        inside = call.op("slice", x, [0], [parts * part], [dim])
        inside = call.op("reshape", inside, [*x.shape[:dim], parts, part, *x.shape[dim + 1 :]])
        starts = call.op("mul", call.graph.arange(0, count), step // part)
        places = call.op("add", call.op("unsqueeze", starts, 1), call.graph.arange(0, size // part))
        windows = call.op("index_select", inside, dim, places)
        windows = call.op("reshape", windows, [*x.shape[:dim], count, size, *x.shape[dim + 1 :]])
    behind = [each for each in range(x.ndim + 1) if each != dim + 1]
    made: Operand = call.op("permute", windows, [*behind, dim + 1])
    return made


@converter(
    "as_strided_scatter.default",
    moves=True,
    note="gaps in the tensor; overlaps; several strides where calls decide sizes",
)
def as_strided_scatter(
    call: Call, x: Operand, source: Operand, size: Sequence[int], stride: Sequence[int],
    storage_offset: int | None = None,
) -> Operand:  # fmt: skip
    given = call.node.args[0].meta["val"]  # type: ignore[union-attr]
    offset = given.storage_offset()
    first = 0 if storage_offset is None else storage_offset - offset
    layout = dense_layout(given.shape, given.stride())
    require(layout is not None and source.dtype == x.dtype, f"a tensor with gaps, or dtype {source.dtype}")
    assert layout is not None
    known = all(isinstance(each, int) for each in (*size, *stride, first, x.size))
    if known and first == 0 and x.size == math.prod(size) and dense_layout(size, stride) is not None:
        before, after = _dense_in_one_place(call, x, size, stride, storage_offset)
        return _lying_as(call, source, after, x.shape, before)  # all of x is overwritten
    order = [ord(letter) - ord("a") for letter in layout]
    flat = call.op("permute", x, order)
    shape = flat.shape
    if known:
        require(0 not in size, "no elements")
        last = first + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        require(first >= 0 and last < x.size, "elements beside the tensor")
        rows, inner = _rows_at(size, stride, first, x.size)
        require(rows.size <= MAX_PLACES and np.unique(rows).size == rows.size, f"{rows.size} places, or overlaps")
        places = call.graph.constant(rows.reshape(-1, 1))
    else:
        require(len(size) == 1, "several strides where calls decide sizes")
        inner = 1
        places = call.op("unsqueeze", call.graph.arange(first, first + (size[0] - 1) * stride[0] + 1, stride[0]), 1)
    count = source.size if inner == 1 else source.size // inner
    parts = call.op("reshape", source, [count, inner])
    made = call.op("scatter", call.op("reshape", flat, [x.size // inner, inner]), 0, places, parts, "none")
    back: Operand = call.op("permute", call.op("reshape", made, shape), [order.index(dim) for dim in range(x.ndim)])
    return back


def _dense_in_one_place(
    call: Call, x: Operand, size: Sequence[int], stride: Sequence[int], offset: int | None
) -> tuple[str, str]:
    """The layouts of the first argument, x, and of another view of all of its memory."""
    source = call.node.args[0].meta["val"]  # type: ignore[union-attr]
    before = dense_layout(source.shape, source.stride())
    after = dense_layout(size, stride)
    require(before is not None and after is not None, "gaps or overlaps")
    require(offset in (None, source.storage_offset()) and x.size == math.prod(size), "a part of the memory")
    assert before is not None and after is not None
    return before, after


def _lying_as(call: Call, x: Operand, before: str, size: Sequence[int], after: str) -> Operand:
    """What x is in a layout, read as a tensor of another shape and layout."""
    order = [ord(letter) - ord("a") for letter in after]
    flat = call.op("permute", x, [ord(letter) - ord("a") for letter in before])
    made = call.reshape(flat, [size[dim] for dim in order])
    back: Operand = call.op("permute", made, [order.index(dim) for dim in range(len(order))])
    return back


@converter("full_like.default", "zeros_like.default", "ones_like.default", moves=True)
def like(call: Call, x: Operand, value: Any = None, **options: Any) -> Operand:
    require(options.get("device") in (None, call.device()), "another device")
    if value is None:
        value = 1 if str(call.node.target) == "aten.ones_like.default" else 0
    made: Operand = call.op("expand", call.tensor(call.cast(value, call.dtype()), call.dtype()), list(call.shape()))
    return made
