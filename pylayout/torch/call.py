"""Call: one ATen op of a traced graph, as converters see it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import torch
from torch.fx import Node

from ..errors import UnsupportedError
from ..graph import Graph
from ..sizes import Size, max_size, min_size, same_sizes
from ..value import Value
from .dtypes import NAMES
from .half_numbers import exact_number, is_held
from .specialise import late_of

__all__ = ["Call", "Operand", "Result", "dtype_name"]

Operand = Value
# What a converter gives: the op's result, or a tuple of them with None for those that it does not compute.
Result = Any

FLOATS = ("f32", "f16", "bf16")
_copy = torch.ops.aten.copy_.default
# Ops that give their first argument with other values in parts of it.
_OF_PARTS = ("aten.slice_scatter.default", "aten.select_scatter.default", "aten.index_copy.default")
BEYOND = 1 << 62  # a place that no dimension has: PyTorch's way to say the end


def dtype_name(dtype: torch.dtype) -> str:
    """The library's name of a torch dtype. Raises UnsupportedError for one that it has not."""
    try:
        return NAMES[dtype]
    except KeyError:
        raise UnsupportedError(f"dtype {str(dtype).removeprefix('torch.')}") from None


class Call:
    """One op: appends what it is made of to the graph, and knows what PyTorch expects of it."""

    def __init__(
        self,
        graph: Graph,
        node: Node,
        lookup: Callable[[Node], Any],
        reshaped: dict[int, Operand],
        one_by_one: bool = False,
        size: Callable[[Any], Any] = int,
    ) -> None:
        self.graph = graph
        self.one_by_one = one_by_one  # on `ocl`, where each op that is appended runs by itself: the fewer the better
        self.node = node
        self._lookup = lookup  # the operand of another node of the traced graph; None where that is not at hand
        self._size = size  # a traced size as one of the graph: an integer, or a `Size` where calls decide it
        self._reshaped = reshaped  # what a value of the graph is a reshape of, by the value's number
        self._of_pairs = False

    # ---- what PyTorch expects ----

    @property
    def expected(self) -> Any:
        """The result as PyTorch describes it: a fake tensor, or a tuple of them."""
        return self.node.meta["val"]

    def shape(self, place: int | None = None) -> tuple[Any, ...]:
        """The shape of the result, or of that one of several; sizes that calls decide are expressions."""
        late = late_of(self.node)
        value = self.expected if late is None else late
        shape = tuple(map(self._size, (value if place is None else value[place]).shape))
        return (*shape, 2) if self._of_pairs else shape

    def with_pairs(self) -> Call:
        """The same call, of which complex results are pairs of real numbers."""
        made = copy(self)
        made._of_pairs = True
        return made

    def dtype(self, place: int | None = None) -> str:
        """The dtype of the result, or of that one of several."""
        if self._of_pairs:
            return "f32"
        value = self.expected if place is None else self.expected[place]
        return dtype_name(value.dtype)

    def device(self) -> torch.device:
        """Where the first result is."""
        value = self.expected[0] if isinstance(self.expected, (tuple, list)) else self.expected
        found: torch.device = value.device
        return found

    def on_cpu(self) -> bool:
        """Whether PyTorch's kernels for the CPU are the other choice; ops of the device `ocl` are described there."""
        return not self.one_by_one and self.device().type == "cpu"

    def used(self, place: int) -> bool:
        """Whether that one of several results is read."""
        return any(
            len(user.args) < 2 or user.args[1] == place or not isinstance(user.args[1], int) for user in self.node.users
        )

    def is_written_back(self) -> bool:
        """Whether an input of the graph, of which this op and its kin change parts, takes what comes of it."""
        source: Any = self.node
        while str(source.target) in _OF_PARTS:
            source = source.args[0]
        last = self.node
        while source.op == "placeholder":
            if any(user.target is _copy and user.args[0] is source for user in last.users):
                return True
            following = [user for user in last.users if str(user.target) in _OF_PARTS and user.args[0] is last]
            if len(following) != 1:
                return False
            last = following[0]
        return False

    def common_dtype(self) -> str:
        """The dtype that holds the first two arguments, which PyTorch compares in.

        Of bytes with and without a sign PyTorch's has 16 bits; s32 holds those, too.
        """
        given: Any = self.node.args[:2]
        x, y = (value.meta["val"] if isinstance(value, Node) else value for value in given)
        common = torch.result_type(x, y)
        return "s32" if common == torch.int16 else dtype_name(common)

    # ---- appending ----

    def op(self, op: str, *arguments: Any, **keywords: Any) -> Any:
        """Append an op of the library under the node's name."""
        return self.graph.op(op, *arguments, name=self.node.name, **keywords)

    def cast(self, x: Any, dtype: str) -> Any:
        """An operand in that dtype; numbers become what that dtype holds of them."""
        if isinstance(x, Value):
            return x if x.dtype == dtype else self.op("cast", x, dtype)
        if isinstance(x, Size):
            return self.graph.number(x, dtype)
        if isinstance(x, bool) or dtype == "bool":
            x = bool(x) if dtype == "bool" else int(x)
        if dtype in FLOATS:
            return float(x)
        if isinstance(x, float):
            if not math.isfinite(x):
                raise UnsupportedError(f"{x} as {dtype}")
            x = int(x)
        return x

    def tensor(self, x: Any, dtype: str | None = None) -> Operand:
        """An operand, of a number too."""
        if isinstance(x, Value):
            return x if dtype is None else self.cast(x, dtype)
        return self.graph.number(x, dtype or self.dtype())

    def pointwise(
        self, tensors: Sequence[Operand], expression: str, scalars: Sequence[float | Operand] = ()
    ) -> Operand:
        """An expression of `pointwise` in the dtype of the result; tensors are cast to it, scalars stay in f32."""
        dtype = self.dtype()
        if dtype not in FLOATS:
            raise UnsupportedError(f"dtype {dtype}")
        given = [self.cast(tensor, dtype) for tensor in tensors]
        if any(isinstance(scalar, Operand) for scalar in scalars):  # then all are tensors
            names = {f"s{i}": f"x{len(given) + i}" for i in range(len(scalars))}
            expression = re.sub(r"\bs\d+\b", lambda found: names[found[0]], expression)
            given += [self.tensor(scalar, "f32") for scalar in scalars]
            scalars = ()
        made: Operand = self.op("pointwise", given, f"y0 = {expression}", scalars=list(scalars), dtype=dtype)
        return made

    def scaled(self, x: Operand, factor: float) -> Operand:
        """x times a number, rounded once."""
        if is_held(factor, x.dtype.name):
            made: Operand = self.op("mul", x, factor)
            return made
        made = self.op("pointwise", [x], "y0 = x0 * s0", scalars=[factor], dtype=x.dtype.name)
        return made

    def sum_of_products(self, factors: Sequence[Operand], dim: int, keepdim: bool, dtype: str = "f32") -> Operand:
        """The sum of one tensor, or of the product of two, along a dimension, rounded once."""
        if self.one_by_one or factors[0].dtype != "f32":
            text = " * ".join(f"x{place}" for place in range(len(factors)))
            made: Operand = self.op(
                "pointwise", list(factors), f"y0 = {text}", reductions="reduce_y0 += y0", dim=[dim], keepdim=keepdim,
                dtype=dtype,
            )  # fmt: skip
            return made
        product = factors[0] if len(factors) == 1 else self.op("mul", *factors)  # passes know these
        made = self.op("sum", product, [dim], keepdim)
        return made

    def exact_number(self, y: Any) -> Any:
        """A factor or divisor of the first argument as a scalar of `pointwise`; None where it rounds to the result's
        dtype as the others do.
        """
        found = exact_number(self.node, y, self.dtype(), self.one_by_one)
        return self.tensor(found, "f32") if isinstance(found, (Value, Size)) else found

    def ratio(self, a: Any, b: Any, dtype: str) -> Any:
        """The quotient of two sizes: a number, or an operand where calls decide them."""
        if not (isinstance(a, Size) or isinstance(b, Size)):
            return a / b
        return self.cast(self.op("div", self.graph.number(a, "f32"), self.graph.number(b, "f32")), dtype)

    def reshape(self, x: Operand, shape: Sequence[Any]) -> Operand:
        """A reshape; of a reshape it is one of what that was made of, or that itself."""
        base = self._reshaped.get(x._id, x)
        if same_sizes(base.shape, shape):
            return base
        if same_sizes(x.shape, shape):
            return x
        made: Operand = self.op("reshape", base, list(shape))
        self._reshaped[made._id] = base
        return made

    def unreshaped(self, x: Operand) -> Operand:
        """What x is a reshape of; x itself where it is none."""
        return self._reshaped.get(x._id, x)

    def transposed(self, place: int) -> Operand | None:
        """What an argument is the transpose of the last two dimensions of, where it was made so."""
        node = self.node.args[place]
        if not isinstance(node, Node) or not node.args or not isinstance(node.args[0], Node):
            return None
        source, *how = node.args
        value = source.meta.get("val")  # type: ignore[union-attr]
        if not isinstance(value, torch.Tensor) or not _swaps_last_two(str(node.target), how, value.ndim):
            return None
        found = self._lookup(source)  # type: ignore[arg-type]
        return found if isinstance(found, Value) else None

    def made_of(self, node: Any, op: str) -> tuple[list[Any], dict[Node, Operand]] | None:
        """The arguments of the op that a node is, with the operands of those that are nodes; None: it is another."""
        if not isinstance(node, Node) or str(node.target) != op or node.kwargs:
            return None
        operands = {each: self._lookup(each) for each in node.all_input_nodes}
        return (list(node.args), operands) if all(isinstance(each, Value) for each in operands.values()) else None


def _swaps_last_two(op: str, how: Sequence[Any], rank: int) -> bool:
    """Whether an op, with these arguments behind its tensor of that rank, transposes the last two dimensions."""
    if op == "aten.t.default":
        return rank == 2
    if rank < 2:
        return False
    if op == "aten.permute.default" and how:
        return [dim % rank for dim in how[0]] == [*range(rank - 2), rank - 1, rank - 2]
    return op == "aten.transpose.int" and len(how) == 2 and {dim % rank for dim in how} == {rank - 2, rank - 1}


def part_of(size: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """Where a slice of a dimension begins and ends, counted from its first place; None: at the dimension's ends."""
    if not any(isinstance(each, Size) for each in (size, start, end)):
        first, last, _ = slice(start, end).indices(size)
        return first, max(first, last)
    first, last = _place(size, start, 0), _place(size, end, size)
    return first, max_size(first, last)


def _place(size: Any, place: Any, default: Any) -> Any:
    """A place that a slice names, within the dimension."""
    if place is None or (isinstance(place, int) and place >= BEYOND):
        return default if place is None else size
    if place < 0:
        return max_size(size + place, 0)
    return place if isinstance(place, int) and place == 0 else min_size(place, size)


def require(condition: bool, reason: str) -> None:
    """Leave the op to PyTorch, for that reason, where the condition does not hold."""
    if not condition:
        raise UnsupportedError(reason)
