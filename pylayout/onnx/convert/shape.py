"""Ops that rearrange, select or repeat elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from ...errors import InvalidArgumentError, ShapeError
from ...sizes import broadcast_sizes, hint_of, is_late, max_size, min_size, same_sizes
from ...value import Value
from ..fold import arange, room
from ..node import Node, dtype_text, numpy_of
from ..operand import Few, Known, Operand, Result
from ..places import all_places, all_places_flattened, selected
from ..registry import converter


@converter("Reshape", since=5, note="the shape known")
def reshape(node: Node) -> Result:
    x, wanted = node.x(0), node.integers_at(1)
    if not node.integer("allowzero", 0):
        if any(size == 0 and i >= x.ndim for i, size in enumerate(wanted)):
            raise ShapeError(f"shape is {wanted}, which copies a size that x, {list(x.shape)}, has not")
        wanted = [x.shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    x = _before_reshapes(node, x)
    if wanted.count(-1) == 1 and 0 not in wanted:
        known = -math.prod(wanted)
        wanted = [math.prod(x.shape) // known if size == -1 else size for size in wanted]
    if any(size < 0 for size in wanted) or math.prod(wanted) != math.prod(x.shape):
        raise ShapeError(f"shape is {wanted}, which does not fit x with shape {list(x.shape)}")
    return x if same_sizes(wanted, x.shape) else node.op("reshape", x, wanted)


def _before_reshapes(node: Node, x: Operand) -> Operand:
    """What has the same elements in the same order: exporters make a tensor flat before it gets its shape.

    Axes that are part of a flat one, and come back, then are axes throughout.
    """
    name = node.proto.input[0]
    while isinstance(x, Value):
        maker = node.scope.maker(name)
        before = node.scope.find(maker.input[0]) if maker is not None and maker.op_type == "Reshape" else None
        if not isinstance(before, Value):
            break
        x, name = before, maker.input[0]
    return x


@converter("Flatten", since=1)
def flatten(node: Node) -> Result:
    x = node.x(0)
    axis = node.integer("axis", 1)
    axis = axis if axis == x.ndim else node.axis(axis, x.ndim)
    return node.op("reshape", x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


def _squeezed(node: Node, axes: list[int] | None) -> Result:
    x = node.x(0)
    if axes is None:
        axes = [i for i, size in enumerate(x.shape) if size == 1]
    axes = node.axes(axes, x.ndim)
    if any(x.shape[axis] != 1 for axis in axes):
        raise ShapeError(f"axes is {axes}, expected axes of size 1 of x, which has shape {list(x.shape)}")
    return node.op("reshape", x, [size for i, size in enumerate(x.shape) if i not in axes])


@converter("Squeeze", since=1)
def squeeze_1(node: Node) -> Result:
    return _squeezed(node, node.integers("axes", None))


@converter("Squeeze", since=13, note="axes known")
def squeeze(node: Node) -> Result:
    return _squeezed(node, node.integers_at(1) if node.has(1) else None)


def _unsqueezed(node: Node, axes: list[int]) -> Result:
    x = node.x(0)
    rank = x.ndim + len(axes)
    axes = node.axes(axes, rank)
    sizes = iter(x.shape)
    return node.op("reshape", x, [1 if i in axes else next(sizes) for i in range(rank)])


@converter("Unsqueeze", since=1)
def unsqueeze_1(node: Node) -> Result:
    return _unsqueezed(node, node.integers("axes"))


@converter("Unsqueeze", since=13, note="axes known")
def unsqueeze(node: Node) -> Result:
    return _unsqueezed(node, node.integers_at(1))


@converter("Transpose", since=1)
def transpose(node: Node) -> Result:
    x = node.x(0)
    dims = node.integers("perm", list(range(x.ndim))[::-1])
    if isinstance(x, Few) and dims == [1, 0]:
        return x.transposed()
    return x if dims == list(range(x.ndim)) else node.op("permute", x, dims)


@converter("Concat", since=4)
def concat(node: Node) -> Result:
    operands = [node.x(i) for i in range(len(node.inputs))]
    axis = node.axis(node.integer("axis"), operands[0].ndim)
    return node.joined(operands, axis)


def _split(node: Node, axis: int, sections: list[int]) -> Result:
    parts = node.parts(node.x(0), sections, axis)
    if len(sections) != len(node.proto.output):
        raise ShapeError(f"split is {sections}, expected {len(node.proto.output)} sizes, one for each output")
    return parts


@converter("Split", since=2)
def split_2(node: Node) -> Result:
    x = node.x(0)
    axis = node.axis(node.integer("axis", 0), x.ndim)
    sections = node.integers("split", None)
    return _split(node, axis, sections if sections is not None else _even(node, x.shape[axis]))


@converter("Split", since=13, note="sizes known")
def split(node: Node) -> Result:
    x = node.x(0)
    axis = node.axis(node.integer("axis", 0), x.ndim)
    count = node.integer("num_outputs", None)
    if count is not None and count != len(node.proto.output):
        raise InvalidArgumentError(f"attribute num_outputs is {count}, expected {len(node.proto.output)}")
    return _split(node, axis, node.integers_at(1) if node.has(1) else _even(node, x.shape[axis]))


def _even(node: Node, size: int) -> list[int]:
    """As many parts as outputs, equal but for a smaller last one (which ONNX permits from opset 18 on)."""
    count = len(node.proto.output)
    if count < 1:
        raise InvalidArgumentError("there are no outputs")
    if size % count == 0:
        return [size // count] * count
    each = -(-size // count)
    sections = [max(min(each, size - i * each), 0) for i in range(count)]
    if node.opset < 18 and size % count:
        raise ShapeError(f"{size} elements do not split into {count} equal parts")
    return sections


@converter("Slice", since=1)
def slice_1(node: Node) -> Result:
    starts, ends = node.integers("starts"), node.integers("ends")
    axes = node.integers("axes", list(range(len(starts))))
    return _sliced(node, starts, ends, axes, [1] * len(starts))


@converter("Slice", since=10, note="starts, ends, axes and steps known")
def slice_10(node: Node) -> Result:
    starts, ends = node.integers_at(1), node.integers_at(2)
    axes = node.integers_at(3) if node.has(3) else list(range(len(starts)))
    steps = node.integers_at(4) if node.has(4) else [1] * len(starts)
    return _sliced(node, starts, ends, axes, steps)


def _sliced(node: Node, starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> Result:
    x = node.x(0)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ShapeError(f"starts {starts}, ends {ends}, axes {axes} and steps {steps} differ in length")
    axes = node.axes(axes, x.ndim)
    if 0 in steps:
        raise InvalidArgumentError(f"steps is {steps}, expected none to be 0")
    forward: list[tuple[Any, Any, int, int]] = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[axis]
        if is_late([start, end, size]):
            if step < 0:
                places = node.arange(_place_before(start, size), _place_before(end, size), step)
                x = node.op("index_select", x, axis, places)
                continue
            first, last = _place(start, size), _place(end, size)
            if step != 1 or not same_sizes([first, last], [0, size]):
                forward.append((first, max_size(first, last), axis, step))
            continue
        where = range(size)[slice(start, end, step)]
        if step < 0 and len(where) > 1:
            x = node.op("index_select", x, axis, Known(arange(where.start, where.stop, where.step)))
        elif len(where) != size or where.step != 1:
            first = where.start if len(where) else 0
            last = first + (len(where) - 1) * abs(step) + 1 if len(where) else first
            forward.append((first, last, axis, abs(step)))
    if not forward:
        return x
    return node.op("slice", x, *(list(part) for part in zip(*forward, strict=True)))


def _place(index: Any, size: Any) -> Any:
    """Where a slice of an axis begins or ends: negative places count from the end, those beyond it are the end."""
    if index < 0:
        return max_size(index + size, 0)
    return size if not is_late(index) and index >= 2**31 - 1 else min_size(index, size)


def _place_before(index: Any, size: Any) -> Any:
    """The same for a slice that goes backwards: from the last element at most, to before the first one."""
    if index < 0:
        return -1 if not is_late(index) and index <= 1 - 2**31 else max_size(index + size, -1)
    return size - 1 if not is_late(index) and index >= 2**31 - 1 else min_size(index, size - 1)


@converter("Gather", since=1)
def gather(node: Node) -> Result:
    x, index = node.x(0), node.x(1)
    axis = node.axis(node.integer("axis", 0), x.ndim)
    if isinstance(index, Known) and not isinstance(x, Known) and index.ndim <= 1 and math.prod(index.shape) == 1:
        # One place: a slice, which is a view.
        at = int(index.array.reshape(-1)[0])
        at = node.axis(at, x.shape[axis], "index")
        part = node.op("slice", x, [at], [at + 1], [axis])
        return part if index.ndim else node.op("reshape", part, [*x.shape[:axis], *x.shape[axis + 1 :]])
    if isinstance(x, Value) and isinstance(index, Value) and axis == 0:
        found = all_places_flattened(node, 0, 1)
        if found is not None:
            made = selected(node, found[0], found[1], index.shape)
            return node.broadcastable(made, [*made.shape[: index.ndim], *x.shape[1:]])
    return node.op("index_select", x, axis, index)


@converter("GatherElements", since=11)
def gather_elements(node: Node) -> Result:
    x, index = node.x(0), node.x(1)
    return node.op("gather", x, node.axis(node.integer("axis", 0), x.ndim), index)


@converter("GatherND", since=11)
def gather_nd(node: Node) -> Result:
    """By one index into the dimensions that the indices select from, made one."""
    x, index = node.x(0), node.x(1)
    batch = node.integer("batch_dims", 0)
    if index.ndim < 1 or not 0 <= batch < min(x.ndim, index.ndim) or x.shape[:batch] != index.shape[:batch]:
        raise ShapeError(f"x {list(x.shape)} and indices {list(index.shape)} do not fit batch_dims {batch}")
    depth = index.shape[-1]
    if not 1 <= depth <= x.ndim - batch:
        raise ShapeError(f"the last size of indices is {depth}, expected 1 to {x.ndim - batch}")
    if batch == 0 and isinstance(x, Value) and isinstance(index, Value):
        parts = all_places(node, 1)
        if parts is not None and len(parts) == depth:
            return selected(node, x, parts, index.shape[:-1])
    sizes = x.shape[: batch + depth]
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    # The place of each batch, and of each index within it; negative indices count from the end.
    place: Operand = Known(numpy.zeros((), "int64"))
    for i in range(batch):
        shape = [1] * (index.ndim - 1)
        shape[i] = sizes[i]
        numbers = node.op("mul", node.arange(0, sizes[i]), Known.of_sizes(strides[i]))
        place = node.op("add", place, node.op("reshape", numbers, shape))
    for i in range(depth):
        part = node.op("slice", index, [i], [i + 1], [index.ndim - 1])
        part = node.op("reshape", part, list(index.shape[:-1]))
        size = Known.of_sizes(sizes[batch + i])
        zero = Known(numpy.asarray(0))
        part = node.op("where", node.op("lt", part, zero), node.op("add", part, size), part)
        place = node.op("add", place, node.op("mul", part, Known.of_sizes(strides[batch + i])))
    flat = node.op("reshape", x, [math.prod(sizes), *x.shape[batch + depth :]])
    return node.op("index_select", flat, 0, place)


@converter("Expand", since=8, note="the shape known")
def expand(node: Node) -> Result:
    x, wanted = node.x(0), node.integers_at(1)
    try:
        shape = broadcast_sizes(x.shape, wanted)
    except ValueError:
        raise ShapeError(f"shape is {wanted}, which does not broadcast with x, {list(x.shape)}") from None
    return x if same_sizes(shape, x.shape) else node.op("expand", x, shape)


@converter("Tile", since=6, note="repeats known")
def tile(node: Node) -> Result:
    x, repeats = node.x(0), node.integers_at(1)
    if len(repeats) != x.ndim or any(repeat < 0 for repeat in repeats):
        raise ShapeError(f"repeats is {repeats}, expected {x.ndim} values of at least 0")
    if is_late(repeats):  # axes of 1 that are repeated once now: a view, however often it is
        stays = [not is_late(repeat) and repeat == 1 for repeat in repeats]
        sides = list(zip(stays, x.shape, repeats, strict=True))
        if all(stay or (hint_of(repeat) == 1 and size == 1) for stay, size, repeat in sides):
            shape = [size if stay else repeat for stay, size, repeat in sides]
            return node.op("expand", x, shape)
    return x if all(repeat == 1 for repeat in repeats) else node.op("tile", x, repeats)


@converter("DepthToSpace", since=1)
def depth_to_space(node: Node) -> Result:
    x, block = node.x(0), node.integer("blocksize")
    if x.ndim != 4 or block < 1 or x.shape[1] % (block * block):
        raise ShapeError(f"x has shape {list(x.shape)}, expected rank 4 and channels that {block} squared divides")
    n, c, h, w = x.shape
    c //= block * block
    if node.text("mode", "DCR", ("DCR", "CRD")) == "DCR":
        parts = node.op("permute", node.op("reshape", x, [n, block, block, c, h, w]), [0, 3, 4, 1, 5, 2])
    else:
        parts = node.op("permute", node.op("reshape", x, [n, c, block, block, h, w]), [0, 1, 4, 2, 5, 3])
    return node.op("reshape", parts, [n, c, h * block, w * block])


@converter("SpaceToDepth", since=1)
def space_to_depth(node: Node) -> Result:
    x, block = node.x(0), node.integer("blocksize")
    if x.ndim != 4 or block < 1 or x.shape[2] % block or x.shape[3] % block:
        raise ShapeError(f"x has shape {list(x.shape)}, expected rank 4 and h and w that {block} divides")
    n, c, h, w = x.shape
    parts = node.op("reshape", x, [n, c, h // block, block, w // block, block])
    parts = node.op("permute", parts, [0, 3, 5, 1, 2, 4])
    mode = node.text("mode", "DCR", ("DCR", "CRD"))
    if mode == "CRD":
        parts = node.op("permute", parts, [0, 3, 1, 2, 4, 5])
    return node.op("reshape", parts, [n, c * block * block, h // block, w // block])


def _pad_pairs(node: Node, x: Operand, pads: list[int], axes: Sequence[int] | None) -> list[tuple[int, int]]:
    """(begin, end) of each dimension of x."""
    where = list(range(x.ndim)) if axes is None else node.axes(axes, x.ndim)
    if len(pads) != 2 * len(where):
        raise ShapeError(f"pads has {len(pads)} values, expected {2 * len(where)}")
    pairs = [(0, 0)] * x.ndim
    for i, axis in enumerate(where):
        pairs[axis] = (pads[i], pads[i + len(where)])
    return pairs


_MOST_EXACT = 1 << 53  # what a number of an op holds


def _padded(node: Node, pairs: list[tuple[int, int]], value: float) -> Result:
    x = node.x(0)
    mode = node.text("mode", "constant", ("constant", "reflect", "edge", "wrap"))
    if any(size + begin + end < 0 for size, (begin, end) in zip(x.shape, pairs, strict=True)):
        raise ShapeError(f"pads are {pairs}, which cut more than x, {list(x.shape)}, has")
    if all(pair == (0, 0) for pair in pairs):
        return x
    if mode == "constant":
        if not isinstance(x, Known):
            sides = [size for pair in reversed(pairs) for size in pair]
            if isinstance(value, int) and abs(value) > _MOST_EXACT:
                inside = node.op(
                    "cast", node.op("pad", node.op("expand", Known(numpy.uint8(1)), x.shape), sides), "bool"
                )
                return node.op("where", inside, node.op("pad", x, sides), node.scalar_like(value, x))
            return node.op("pad", x, sides, value=float(value))
        zipped = list(zip(x.shape, pairs, strict=True))
        room([size + begin + end for size, (begin, end) in zipped], x.array.dtype, "Pad")
        kept = tuple(slice(max(-begin, 0), size - max(-end, 0)) for size, (begin, end) in zipped)
        widths = [(max(begin, 0), max(end, 0)) for begin, end in pairs]
        return numpy.pad(x.array[kept], widths, constant_values=value)
    for axis, (begin, end) in enumerate(pairs):
        if (begin, end) == (0, 0):
            continue
        size = x.shape[axis]
        if size == 0:
            raise ShapeError(f"x has size 0 along axis {axis}, expected elements to repeat")
        if max(begin, end) > 2**24:
            raise ShapeError(f"pads are {pairs}, expected less than {2**24} in mode {mode}")
        if not isinstance(x, Known) and (mode == "edge" or (mode == "reflect" and max(begin, end) < size)):
            pair = [0, 0] * (x.ndim - 1 - axis) + [begin, end]
            x = node.op("pad", x, pair, "replicate" if mode == "edge" else "reflect")
        else:
            x = node.op("index_select", x, axis, _padded_places(node, mode, begin, size, end))
    return x


def _padded_places(node: Node, mode: str, begin: int, size: Any, end: int) -> Operand:
    """Which element each place of a padded axis has."""
    if mode == "wrap" and is_late(size) and min(begin, end) >= 0 and max(begin, end) <= size:
        turns = [node.arange(size - begin, size), node.arange(0, size), node.arange(0, end)]
        joined: Operand = node.op("concat", turns, 0)
        return joined
    size = int(size)
    if mode == "wrap":  # what is cut off is not repeated
        first, count = max(-begin, 0), size - max(-begin, 0) - max(-end, 0)
        if count <= 0:
            raise ShapeError(f"pads are {begin} and {end} along an axis of size {size}, expected elements to repeat")
        return Known(first + arange(-max(begin, 0), count + max(end, 0)) % count)
    places = arange(-begin, size + end)
    if mode == "edge":
        return Known(places.clip(0, size - 1))
    period = max(2 * (size - 1), 1)
    return Known(numpy.abs((places + size - 1) % period - (size - 1)) if size > 1 else places * 0)


@converter("Pad", since=2)
def pad_2(node: Node) -> Result:
    x = node.x(0)
    return _padded(node, _pad_pairs(node, x, node.integers("pads"), None), node.number("value", 0.0))


@converter("Pad", since=11, note="pads, axes and value known")
def pad(node: Node) -> Result:
    x = node.x(0)
    axes = node.integers_at(3) if node.has(3) else None
    value = node.number_at(2) if node.has(2) else 0.0
    return _padded(node, _pad_pairs(node, x, node.integers_at(1), axes), value)


@converter("Trilu", since=14, note="k known")
def trilu(node: Node) -> Result:
    x = node.x(0)
    if x.ndim < 2:
        raise ShapeError(f"x has rank {x.ndim}, expected at least 2")
    shift = node.size_at(1) if node.has(1) else 0
    upper = node.integer("upper", 1)
    if is_late([*x.shape[-2:], shift]):
        near = node.op("ge" if upper else "le", node.diagonals(*x.shape[-2:]), Known.of_sizes(shift))
        return node.op("where", near, x, node.scalar_like(0, x))
    rows, columns = arange(x.shape[-2])[:, None], arange(x.shape[-1])[None, :]
    room(x.shape[-2:], bool, "Trilu")
    kept = columns - rows >= shift if upper else columns - rows <= shift
    return node.op("where", Known(kept), x, node.scalar_like(0, x))


@converter("Compress", since=9, note="the condition known")
def compress(node: Node) -> Result:
    x, condition = node.x(0), node.known(1)
    if condition.ndim != 1:
        raise ShapeError(f"condition has rank {condition.ndim}, expected 1")
    places = numpy.flatnonzero(condition)
    axis = node.integer("axis", None)
    if axis is None:
        x, axis = node.op("reshape", x, [math.prod(x.shape)]), 0
    return node.op("index_select", x, node.axis(axis, x.ndim), Known(places))


@converter("ReverseSequence", since=10)
def reverse_sequence(node: Node) -> Result:
    x, lengths = node.x(0), node.x(1)
    time, batch = node.integer("time_axis", 0), node.integer("batch_axis", 1)
    if sorted((time, batch)) != [0, 1] or x.ndim < 2 or lengths.ndim != 1 or lengths.shape[0] != x.shape[batch]:
        shape = list(lengths.shape)
        raise ShapeError(f"time_axis {time} and batch_axis {batch} with sequence_lens of shape {shape} do not fit x")
    steps, sequences = x.shape[time], x.shape[batch]
    known = lengths.array.tolist() if isinstance(lengths, Known) and lengths.sizes is None else []
    if not is_late(steps) and any(not 0 <= length <= steps for length in known):
        raise ShapeError(f"sequence_lens is {known}, expected 0 to {steps}")

    number = Known.of_sizes
    rows = [-1, 1] if time == 0 else [1, -1]
    at = node.op("reshape", node.arange(0, steps), rows)
    sequence = node.op("reshape", node.arange(0, sequences), rows[::-1])
    lengths = node.op("reshape", node.op("cast", lengths, "s64"), rows[::-1])
    # Lengths that there are not lead to places that there are not.
    beyond = node.op("mul", number(steps), number(sequences))
    is_length = node.op("logical_and", node.op("ge", lengths, number(0)), node.op("le", lengths, number(steps)))
    turned = node.op("where", is_length, node.op("sub", node.op("sub", lengths, number(1)), at), beyond)
    places = node.op("where", node.op("logical_and", is_length, node.op("ge", at, lengths)), at, turned)
    if time == 0:
        places = node.op("add", node.op("mul", places, number(sequences)), sequence)
    else:
        places = node.op("add", places, node.op("mul", sequence, number(steps)))
    merged = node.op("reshape", x, [x.shape[0] * x.shape[1], *x.shape[2:]])
    taken = node.op("index_select", merged, 0, node.op("reshape", places, [-1]))
    return node.op("reshape", taken, list(x.shape))


@converter("OneHot", since=9, note="depth known")
def one_hot(node: Node) -> Result:
    index, values = node.x(0), node.x(2)
    if numpy_of(index).itemsize == 1:  # the depth may be more than these hold
        index = node.op("cast", index, "s32" if isinstance(index, Value) else numpy.dtype("int32"))
    depth = node.size_at(1) if numpy_of(index).kind == "i" else int(node.number_at(1))
    depth = depth if is_late(depth) else int(depth)  # which may be a float
    rank = index.ndim + 1
    axis = node.axis(node.integer("axis", -1), rank)
    if not 0 <= depth < 2**31 or values.shape != (2,):
        raise ShapeError(f"depth is {hint_of(depth)} and values have shape {list(values.shape)}, expected 2 values")
    shape = [*index.shape[:axis], 1, *index.shape[axis:]]
    kind = numpy_of(index)
    places = node.op("reshape", node.arange(0, depth), [depth if i == axis else 1 for i in range(rank)])
    places = node.op("cast", places, dtype_text(index))
    index = node.op("reshape", index, shape)
    size = Known.of_sizes(depth, kind) if is_late(depth) else node.scalar_like(depth, index)
    index = node.op("where", node.op("lt", index, node.scalar_like(0, index)), node.op("add", index, size), index)
    off = node.op("reshape", node.op("slice", values, [0], [1], [0]), [])
    on = node.op("reshape", node.op("slice", values, [1], [2], [0]), [])
    return node.op("where", node.op("eq", index, places), on, off)


@converter("NonZero", since=9, note="of known elements")
def non_zero(node: Node) -> Result:
    return numpy.stack(numpy.nonzero(numpy.atleast_1d(node.known(0)))).astype("int64")
