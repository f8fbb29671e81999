"""Indices that are all places of some dimensions, each along a dimension of its own: what they select is no look-up.

PyTorch writes mask[rows, columns] with rows from 0 on, turned up, and columns from 0 on as indices into a flattened
tensor, or as GatherND. As slices and a permutation it is a view, and axes known late stay axes: a decoder's mask
follows its past (docs/howto/sizes-known-late.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from ..errors import ShapeError
from ..sizes import AnySize, late_text, max_size, same_sizes
from ..value import Value
from .node import Node
from .operand import Known, Operand
from .scope import Scope

__all__ = ["all_places", "all_places_flattened", "selected"]

MOST_NUMBERS = 2**16  # of a constant that is compared with places
MOST_STEPS = 32  # nodes, one behind the other, through which places are followed


@dataclass(frozen=True)
class Places:
    """The numbers 0 to size - 1 along dimension `dim`, counted from the end; None: it is the number 0.

    Along other dimensions they are the same; `repeated` says that these may have other sizes than 1.
    """

    size: AnySize
    dim: int | None
    repeated: bool = False


def all_places(node: Node, index: int) -> list[Places] | None:
    """For each of the dimensions that an index of GatherND selects from its places; None where it is no such index."""
    maker = node.scope.maker(node.proto.input[index])
    if maker is None or maker.op_type != "Concat" or not _is_last(node, maker, node.x(index).ndim):
        return None
    parts = []
    for name in maker.input:
        part = node.scope.maker(name)
        if (
            part is None
            or part.op_type != "Unsqueeze"
            or _axes(node.scope, part) not in ([-1], [node.x(index).ndim - 1])
        ):
            return None
        found = _places(node.scope, part.input[0])
        if found is None:
            return None
        parts.append(found)
    return parts if _are_apart(parts) else None


def all_places_flattened(node: Node, x: int, index: int) -> tuple[Operand, list[Places]] | None:
    """The tensor whose first dimensions were made one, and the places in each that an index into that one is."""
    maker = node.scope.maker(node.proto.input[x])
    if maker is None or maker.op_type != "Flatten":
        return None
    whole = node.scope.find(maker.input[0])
    count = next((attribute.i for attribute in maker.attribute if attribute.name == "axis"), 1)
    terms = _terms(node.scope, node.proto.input[index])
    if not isinstance(whole, Value) or terms is None or len(terms) != count or not 0 < count <= whole.ndim:
        return None
    parts = []
    for dim in range(count):
        stride = late_text(math.prod(whole.shape[dim + 1 : count]))
        found = [term for term in terms if late_text(term[1]) == stride]
        if len(found) != 1:
            return None
        parts.append(found[0][0])
    return (whole, parts) if _are_apart(parts) else None


def selected(node: Node, x: Operand, parts: Sequence[Places], shape: Sequence[AnySize]) -> Operand:
    """What such an index, of this shape, selects from the first dimensions of x."""
    for dim, part in enumerate(parts):
        if not part.size <= x.shape[dim]:
            raise ShapeError(f"indices are 0 to {part.size - 1}, expected less than {x.shape[dim]}, the size of x")
    cut = [dim for dim, part in enumerate(parts) if late_text(part.size) != late_text(x.shape[dim])]
    rest, rank = list(x.shape[len(parts) :]), len(shape)
    if cut:
        x = node.op("slice", x, [0] * len(cut), [parts[dim].size for dim in cut], cut)
    places = [-rank - 1 if part.dim is None else part.dim for part in parts]
    order = sorted(range(len(parts)), key=places.__getitem__)
    if order != sorted(order):
        x = node.op("permute", x, [*order, *range(len(parts), x.ndim)])
    own: list[Any] = [1] * rank
    for part in parts:
        if part.dim is not None:
            own[part.dim] = part.size
    x = node.broadcastable(x, [*own, *rest])
    if not any(part.repeated for part in parts) or same_sizes(own, shape):
        return x
    made: Operand = node.op("expand", x, [*shape, *rest])
    return made


def _are_apart(parts: Sequence[Places]) -> bool:
    dims = [part.dim for part in parts if part.dim is not None]
    return bool(dims) and len(set(dims)) == len(dims)


def _places(scope: Scope, name: str, steps: int = MOST_STEPS) -> Places | None:
    operand = scope.find(name) if scope.has(name) else None
    if isinstance(operand, Known):
        return _places_of(operand)
    maker = scope.maker(name)
    if not isinstance(operand, Value) or maker is None or steps == 0:
        return None
    if maker.op_type == "Range":
        first, end, step = (_number(scope, part) for part in maker.input)
        if isinstance(first, int) and first == 0 and isinstance(step, int) and step == 1 and end is not None:
            return Places(max_size(0, end), -1)
        return None
    if maker.op_type not in ("Identity", "Unsqueeze", "Expand"):
        return None
    inner = _places(scope, maker.input[0], steps - 1)
    if inner is None or maker.op_type == "Identity":
        return inner
    if maker.op_type == "Expand":
        return Places(inner.size, inner.dim, True)
    axes = _axes(scope, maker)
    if axes is None or inner.dim is None:
        return inner
    # Dimensions that come behind it.
    new = {axis % operand.ndim for axis in axes}
    old = [dim for dim in range(operand.ndim) if dim not in new]
    return Places(inner.size, old[inner.dim] - operand.ndim, inner.repeated)


def _places_of(known: Known) -> Places | None:
    if known.sizes is not None or known.dtype.kind not in "iu" or not 0 < math.prod(known.shape) <= MOST_NUMBERS:
        return None
    dims = [dim for dim, size in enumerate(known.shape) if size != 1]
    flat = known.array.reshape(-1)
    if len(dims) > 1 or not numpy.array_equal(flat, numpy.arange(flat.size)):
        return None
    return Places(int(flat.size), dims[0] - known.ndim if dims else None)


def _terms(scope: Scope, name: str, steps: int = MOST_STEPS) -> list[tuple[Places, AnySize]] | None:
    """Places times strides, whose sum an index is."""
    maker, found = scope.maker(name), _places(scope, name)
    if found is not None:
        return [(found, 1)]
    if maker is None or steps == 0 or maker.op_type not in ("Add", "Mul"):
        return None
    if maker.op_type == "Add":
        sides = [_terms(scope, part, steps - 1) for part in maker.input]
        return None if None in sides else [term for side in sides for term in side or ()]
    for part, factor in (maker.input, reversed(maker.input)):
        places, stride = _places(scope, part), _number(scope, factor)
        if places is not None and stride is not None:
            return [(places, stride)]
    return None


def _number(scope: Scope, name: str) -> Any:
    """One integer, which may be a size; None where it is something else."""
    operand = scope.find(name) if scope.has(name) else None
    if not isinstance(operand, Known) or operand.dtype.kind not in "iu" or math.prod(operand.shape) != 1:
        return None
    return int(operand.array.reshape(-1)[0]) if operand.sizes is None else operand.sizes.reshape(-1)[0]


def _axes(scope: Scope, maker: Any) -> list[int] | None:
    """Those of an Unsqueeze."""
    for attribute in maker.attribute:
        if attribute.name == "axes":
            return [int(axis) for axis in attribute.ints]
    operand = scope.find(maker.input[1]) if len(maker.input) > 1 and scope.has(maker.input[1]) else None
    if not isinstance(operand, Known) or operand.sizes is not None:
        return None
    return [int(axis) for axis in operand.array.reshape(-1)]


def _is_last(node: Node, maker: Any, rank: int) -> bool:
    return any(attribute.name == "axis" and attribute.i in (-1, rank - 1) for attribute in maker.attribute)
