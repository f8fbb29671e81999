"""Operand: what a tensor in an ONNX graph stands for: a Value, or Known, whose elements are known at import.

A name stands for one, or for a sequence of them: Members.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy

from ..arrays import as_input
from ..dtypes import dtype_of
from ..errors import UnsupportedError
from ..graph import Graph, Trained
from ..sizes import Size, hint_of
from ..tensor import Tensor
from ..value import Value

__all__ = ["Few", "Known", "Members", "Operand", "Result", "Stands", "is_alike", "safe_name"]

# Ops on weights one after the other; what comes of more is a constant.
MAX_MADE = 50


def safe_name(name: str) -> str:
    """A name from a file, as a name in a graph."""
    return name.replace("\0", "")[:200].encode("utf-8", "replace").decode()


class Known:
    """A tensor whose elements are known at import. It becomes a constant of the graph when an op there needs it.

    Elements that follow from sizes are in `sizes`, an array of objects: integers and `Size`s. To ask for them as
    `array` makes the graph hold only for sizes for which they are the same.

    `trained` says what becomes of an initialiser when the graph is trained. What ops make of one that may be a
    parameter has its elements here too, for whom needs to know them, but is these ops in the graph, `made`: name,
    arguments and keywords. Plans compute them once; a graph that trains derives through them.
    """

    _depth: int

    __slots__ = ("_array", "_depth", "_place", "made", "name", "sizes", "tensor", "trained")

    def __init__(
        self,
        array: Any,
        name: str = "",
        sizes: Any = None,
        trained: Trained = Trained.NEVER,
        made: tuple[str, Any, Any] | None = None,
    ) -> None:
        self._array = array
        self.name = name
        self.sizes = sizes
        self.tensor: Tensor | None = None
        self.trained = trained
        parts = [] if made is None else [part for part in parts_of(made) if isinstance(part, Known)]
        self._depth = 1 + max((part._depth for part in parts), default=-1)
        self.made = made if self._depth <= MAX_MADE else None
        self._place: tuple[Any, int, str] | None = None  # of what is made: the graph, and the value there

    @property
    def may_be_trained(self) -> bool:
        return self.made is not None or self.trained is not Trained.NEVER

    @staticmethod
    def of_sizes(sizes: Any, dtype: Any = "int64") -> Known:
        """Sizes, some of which may be integers, in lists or an array of objects."""
        objects = numpy.empty(numpy.shape(sizes), object) if not isinstance(sizes, numpy.ndarray) else sizes
        if objects is not sizes:
            objects[...] = sizes
        hints = numpy.asarray([hint_of(size) for size in objects.reshape(-1)], dtype).reshape(objects.shape)
        late = any(isinstance(size, Size) for size in objects.reshape(-1))
        return Known(hints, sizes=objects if late else None)

    @property
    def array(self) -> Any:
        if self.sizes is not None:
            for size in self.sizes.reshape(-1):
                int(size)
            self.sizes = None
        return self._array

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return self._array.dtype

    @property
    def objects(self) -> Any:
        """The elements as an array of objects, sizes among them."""
        return self.array.astype(object) if self.sizes is None else self.sizes

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def value(self, graph: Graph) -> Value:
        """The constant in the graph: one for all uses, over the array's own memory."""
        if self.sizes is not None and str(self.dtype) in ("int64", "int32", "float32"):
            flat = list(self.sizes.reshape(-1))
            late = graph.sizes_constant(flat if self.ndim else flat[0], self.dtype)
            made: Value = late if self.ndim < 2 else graph.op("reshape", late, list(self.shape))
            return made
        if self.made is not None:
            return self._value_made(graph)
        made = self._constant(graph)
        graph._trained[made._id] = self.trained
        return made

    def _value_made(self, graph: Graph) -> Value:
        """The result of the ops that make it."""
        assert self.made is not None
        if self._place is not None and self._place[0]() is graph:
            known: Value = graph._value(*self._place[1:])
            return known
        op, arguments, keywords = self.made

        def value(given: Any) -> Any:
            if isinstance(given, (list, tuple)):
                return [value(one) for one in given]
            if isinstance(given, numpy.ndarray):
                given = Known(given)
            if isinstance(given, numpy.dtype):
                return dtype_of(given).name
            return given.value(graph) if isinstance(given, Known) else given

        given_by_name = {key: value(given) for key, given in keywords.items()}
        made: Value = graph.op(op, *map(value, arguments), name=safe_name(self.name) or None, **given_by_name)
        self._place = (weakref.ref(graph), made._id, made.name)
        return made

    def _constant(self, graph: Graph) -> Value:
        if self.tensor is None:
            what = f'constant "{self.name}"' if self.name else "a constant"
            try:
                dtype_of(self.array.dtype)
            except UnsupportedError as error:
                raise UnsupportedError(f"{what}: {error}") from None
            if self.array.ndim > 8:
                raise UnsupportedError(f"{what} has rank {self.array.ndim}, expected at most 8")
            if not self.array.flags.aligned and self.array.flags.c_contiguous:
                return graph.constant_memory(self.array, safe_name(self.name) or None)
            self.tensor = as_input(numpy.require(self.array, requirements="C"), "onnx", what)
        return graph.constant(self.tensor, safe_name(self.name) or None)

    def __repr__(self) -> str:
        return f"Known({self.name!r}, {self.dtype}, {self.shape})"


class Few(Known):
    """Floats that integers of a few bits stand for. Who can computes with the integers; for others floats are made.

    (q - zero) * scale, with one scale and zero for each block of `block` numbers along the axis, in a matrix, or one
    for each index of the other axis. A zero of None is 0.
    """

    __slots__ = ("axis", "bits", "block", "packed", "q", "scale", "turned", "zero")

    def __init__(self, q: Any, scale: Any, zero: Any, axis: int, block: int, bits: int) -> None:
        super().__init__(None)
        self.q, self.scale, self.zero = q, scale, zero
        self.axis, self.block, self.bits = axis, block, bits
        self.packed: tuple[Known, Known, Known | None] | None = None  # as `linear_nbits` takes them
        self.turned: Few | None = None

    @property
    def array(self) -> Any:
        if self._array is None:
            groups = numpy.arange(self.q.shape[self.axis]) // self.block
            made = self.q.astype("float32")
            if self.zero is not None:
                made -= numpy.take(self.zero, groups, self.axis).astype("float32")
            made *= numpy.take(self.scale, groups, self.axis).astype("float32")
            self._array = made.astype(self.scale.dtype)
        return self._array

    @property
    def dtype(self) -> Any:
        return self.scale.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.q.shape)

    def transposed(self) -> Few:
        """The other way round; the same object each time, so that those who share it share what is made of it."""
        if self.turned is None:
            zero = None if self.zero is None else self.zero.T
            self.turned = Few(self.q.T, self.scale.T, zero, 1 - self.axis, self.block, self.bits)
            self.turned.turned = self
        return self.turned


def is_alike(array: Any) -> bool:
    """Whether all elements are the same: two such tensors may be equal by chance."""
    flat = array.reshape(-1)
    return flat.size > 0 and bool(flat[0] == flat[-1]) and bool((flat == flat[0]).all())


def parts_of(made: tuple[str, Any, Any]) -> list[Any]:
    """The arguments of an op, those in lists too."""
    given = [*made[1], *made[2].values()]
    return [one for each in given for one in (each if isinstance(each, (list, tuple)) else (each,))]


Operand: TypeAlias = Known | Value


class Members:
    """A sequence whose members are known at import, though not their elements. It never changes."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Operand] = ()) -> None:
        self.items = tuple(items)


Stands: TypeAlias = Operand | Members  # what a name stands for
Result: TypeAlias = Any  # what a name stands for, an array, or a list of them: one for each output
