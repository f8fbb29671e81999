"""What tensors and Values of a graph have in common: indexing, and the ops that are natural as methods.

Everything here calls functions of `pylayout.ops`, which compute with tensors and append to the graph of Values.
"""

# mypy: disable-error-code="no-any-return"
# The functions of ops give what they are given, a Tensor or a Value, which their stub does not say.

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .dtypes import DType, bf16, bool_, dtype_of, f16, f32, s8, s32, s64, u8
from .errors import ArgumentTypeError
from .indexing import basic_index
from .tensor_operators import Operators, needed

if TYPE_CHECKING:
    from typing_extensions import Self

_ops: Any = None  # set by ops.py, which needs this module first

__all__ = ["Methods"]


def _listed(values: tuple[Any, ...]) -> list[int]:
    """reshape(2, 3) and reshape((2, 3)) mean the same."""
    if len(values) == 1 and not hasattr(values[0], "__index__"):
        values = tuple(values[0])
    return [operator.index(value) for value in values]


def _reduced(op: str, x: Any, dim: Any, keepdim: bool, axis: Any, keepdims: bool, others: tuple[Any, ...] = ()) -> Any:
    """A reduction, with NumPy's names of the arguments too: numpy.sum(x, axis=1) calls x.sum with them."""
    if axis is not None and dim is not None:
        raise ArgumentTypeError(f"{op}: dim and axis are both given, expected one of them")
    if any(other is not None for other in others):
        raise ArgumentTypeError(
            f"{op}: dtype or out is given, expected neither; .astype(dtype) converts before or after"
        )
    return getattr(_ops, op)(x, dim=axis if dim is None else dim, keepdim=bool(keepdim or keepdims))


class Methods(Operators):
    """Methods of tensors and of Values; see the functions of `pylayout.ops` for their arguments."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> DType: ...
        @property
        def ndim(self) -> int: ...

    # ---- sizes ----

    @property
    def size(self) -> int:
        """The number of elements, padding not counted."""
        size = 1
        for n in self.shape:
            size *= n
        return size

    def numel(self) -> int:
        """The number of elements, as torch calls it."""
        return self.size

    def dim(self) -> int:
        """The number of dimensions, as torch calls it."""
        return self.ndim

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise ArgumentTypeError("len: tensor has rank 0, expected at least 1")
        return shape[0]

    # ---- parts ----

    def _beside(self, constants: Any) -> Any:
        """A NumPy array of an op's constants as an operand beside this one: on its device."""
        return constants

    def __getitem__(self, key: Any) -> Self:
        """NumPy's indexing by integers, slices, `...` and None, and by one list or array of integers.

        Slices with positive steps are views where the layout permits.
        """
        found = basic_index(self.shape, key if isinstance(key, tuple) else (key,))
        part: Any = self
        if found.axes:
            part = _ops.slice(part, found.starts, found.ends, found.axes, found.steps)
        if found.reversed:
            part = _ops.flip(part, found.reversed)
        if found.gathered is not None:
            axis, index = found.gathered
            part = _ops.index_select(part, axis, self._beside(index))
        return part if part.shape == tuple(found.shape) else _ops.reshape(part, found.shape)

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def split(self, split_size: Any, dim: int = 0) -> tuple[Self, ...]:
        """Parts of that size, or of those sizes, along a dimension; views."""
        return _ops.split(self, split_size, dim)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """At most that many parts along a dimension; views."""
        return _ops.chunk(self, chunks, dim)

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """The slices along a dimension; views."""
        return _ops.unbind(self, dim)

    def index_select(self, dim: int, index: Any) -> Self:
        """Slices along a dimension, chosen by index."""
        return _ops.index_select(self, dim, index)

    def gather(self, dim: int, index: Any) -> Self:
        """Elements along a dimension, an index for each."""
        return _ops.gather(self, dim, index)

    def _row_major(self) -> Self:
        """A copy in row-major order."""
        return _ops.reorder(self, "abcdefgh"[: self.ndim])

    # ---- shapes ----

    def reshape(self, *shape: Any) -> Self:
        """The same elements in another shape; one size may be -1. A view where the layout permits."""
        return _ops.reshape(self, shape=_listed(shape))

    def permute(self, *dims: Any) -> Self:
        """Dimensions in another order; a view."""
        return _ops.permute(self, dims=_listed(dims))

    def transpose(self, *dims: Any) -> Self:
        """Two dimensions exchanged, as in torch; all or none given: permuted or reversed, as in NumPy. A view."""
        if not dims:
            return self.T
        named = _listed(dims)
        if len(named) == 2 and len(dims) == 2:
            return _ops.transpose(self, *named)
        return self.permute(named)

    @property
    def T(self) -> Self:
        """All dimensions in reverse order; a view."""
        return self.permute(list(range(self.ndim)[::-1]))

    @property
    def mT(self) -> Self:
        """The last two dimensions exchanged; a view."""
        return _ops.transpose(self, -2, -1)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Two dimensions exchanged, as NumPy calls it; a view."""
        return _ops.transpose(self, axis1, axis2)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Dimensions start_dim to end_dim joined into one."""
        return _ops.flatten(self, start_dim, end_dim)

    def ravel(self) -> Self:
        """All dimensions joined into one."""
        return _ops.flatten(self)

    def squeeze(self, dim: Any = None) -> Self:
        """Without dimensions of size 1."""
        return _ops.squeeze(self, dim)

    def unsqueeze(self, dim: int) -> Self:
        """With a dimension of size 1 inserted before `dim`."""
        return _ops.unsqueeze(self, dim)

    def expand(self, *shape: Any) -> Self:
        """Dimensions of size 1 repeated to a larger shape; -1 leaves a size as it is. A view."""
        wanted = _listed(shape)
        own = [1] * (len(wanted) - self.ndim) + list(self.shape)
        return _ops.expand(self, [n if size == -1 else size for size, n in zip(wanted, own, strict=False)])

    def repeat(self, *repeats: Any) -> Self:
        """Repeated that many times along each dimension, as torch's `repeat` and `tile` (NumPy's `repeat` differs)."""
        return _ops.tile(self, _listed(repeats))

    tile = repeat

    def flip(self, *dims: Any) -> Self:
        """Reversed along the given dimensions."""
        return _ops.flip(self, _listed(dims))

    # ---- other dtypes ----

    def astype(self, dtype: Any) -> Self:
        """The same values in another dtype; from floats to integers toward zero, within the range."""
        wanted = dtype_of(dtype)
        return self if wanted is self.dtype else _ops.cast(self, wanted.name)

    def float(self) -> Self:
        """As f32."""
        return self.astype(f32)

    def half(self) -> Self:
        """As f16."""
        return self.astype(f16)

    def bfloat16(self) -> Self:
        """As bf16."""
        return self.astype(bf16)

    def int(self) -> Self:
        """As s32."""
        return self.astype(s32)

    def long(self) -> Self:
        """As s64."""
        return self.astype(s64)

    def bool(self) -> Self:
        """As bool: what is not zero is true."""
        return self.astype(bool_)

    # ---- reductions; `axis` and `keepdims` are NumPy's names of `dim` and `keepdim` ----

    def sum(
        self,
        dim: Any = None,
        keepdim: Any = False,
        *,
        axis: Any = None,
        keepdims: Any = False,
        dtype: Any = None,
        out: Any = None,
    ) -> Self:
        """Sum over the given dimensions, or all; of bool, s8 and u8 in s64."""
        x = self.astype(s64) if self.dtype in (bool_, s8, u8) else self
        return _reduced("sum", x, dim, keepdim, axis, keepdims, (dtype, out))

    def prod(
        self,
        dim: Any = None,
        keepdim: Any = False,
        *,
        axis: Any = None,
        keepdims: Any = False,
        dtype: Any = None,
        out: Any = None,
    ) -> Self:
        """Product over the given dimensions, or all; of bool, s8 and u8 in s64."""
        x = self.astype(s64) if self.dtype in (bool_, s8, u8) else self
        return _reduced("prod", x, dim, keepdim, axis, keepdims, (dtype, out))

    def mean(
        self,
        dim: Any = None,
        keepdim: Any = False,
        *,
        axis: Any = None,
        keepdims: Any = False,
        dtype: Any = None,
        out: Any = None,
    ) -> Self:
        """Mean over the given dimensions, or all; of integers and bool in f32."""
        x = self if self.dtype in (f32, f16, bf16) else self.astype(f32)
        return _reduced("mean", x, dim, keepdim, axis, keepdims, (dtype, out))

    def amax(self, dim: Any = None, keepdim: Any = False) -> Self:
        """Maximum over the given dimensions, or all."""
        return _ops.amax(self, dim, keepdim)

    def amin(self, dim: Any = None, keepdim: Any = False) -> Self:
        """Minimum over the given dimensions, or all."""
        return _ops.amin(self, dim, keepdim)

    def max(
        self, dim: Any = None, keepdim: Any = False, *, axis: Any = None, keepdims: Any = False, out: Any = None
    ) -> Self:
        """Maximum over the given dimensions, or all: values alone, as in NumPy; `argmax` has the indices."""
        return _reduced("amax", self, dim, keepdim, axis, keepdims, (out,))

    def min(
        self, dim: Any = None, keepdim: Any = False, *, axis: Any = None, keepdims: Any = False, out: Any = None
    ) -> Self:
        """Minimum over the given dimensions, or all: values alone, as in NumPy; `argmin` has the indices."""
        return _reduced("amin", self, dim, keepdim, axis, keepdims, (out,))

    def argmax(
        self, dim: Any = None, keepdim: Any = False, *, axis: Any = None, keepdims: Any = False, out: Any = None
    ) -> Self:
        """Index of the maximum along a dimension, or in the whole tensor."""
        return _reduced("argmax", self, dim, keepdim, axis, keepdims, (out,))

    def argmin(
        self, dim: Any = None, keepdim: Any = False, *, axis: Any = None, keepdims: Any = False, out: Any = None
    ) -> Self:
        """Index of the minimum along a dimension, or in the whole tensor."""
        return _reduced("argmin", self, dim, keepdim, axis, keepdims, (out,))

    def any(
        self, dim: Any = None, keepdim: Any = False, *, axis: Any = None, keepdims: Any = False, out: Any = None
    ) -> Self:
        """Whether an element along the given dimensions is true."""
        return _reduced("any", self, dim, keepdim, axis, keepdims, (out,))

    def all(
        self, dim: Any = None, keepdim: Any = False, *, axis: Any = None, keepdims: Any = False, out: Any = None
    ) -> Self:
        """Whether all elements along the given dimensions are true."""
        return _reduced("all", self, dim, keepdim, axis, keepdims, (out,))

    def var(self, dim: Any = None, correction: Any = 1, keepdim: Any = False) -> Self:
        """Variance over the given dimensions, or all; correction 0 is NumPy's."""
        return _ops.var(self, dim, correction, keepdim)

    def std(self, dim: Any = None, correction: Any = 1, keepdim: Any = False) -> Self:
        """Standard deviation over the given dimensions, or all; correction 0 is NumPy's."""
        return _ops.std(self, dim, correction, keepdim)

    def cumsum(self, dim: Any) -> Self:
        """Running sums along a dimension."""
        return _ops.cumsum(self, dim)

    def topk(self, k: Any, dim: Any = -1, largest: Any = True, sorted: Any = True) -> tuple[Self, Self]:
        """The k largest or smallest elements along a dimension, and their indices."""
        return _ops.topk(self, k, dim, largest, sorted)

    # ---- functions of each element ----

    def abs(self) -> Self:
        """Absolute values."""
        return _ops.abs(self)

    def ceil(self) -> Self:
        """Rounded up."""
        return _ops.ceil(self)

    def cos(self) -> Self:
        """Cosines."""
        return _ops.cos(self)

    def erf(self) -> Self:
        """The error function."""
        return _ops.erf(self)

    def exp(self) -> Self:
        """Exponentials."""
        return _ops.exp(self)

    def floor(self) -> Self:
        """Rounded down."""
        return _ops.floor(self)

    def isinf(self) -> Self:
        """Where elements are infinite."""
        return _ops.isinf(self)

    def isnan(self) -> Self:
        """Where elements are not a number."""
        return _ops.isnan(self)

    def log(self) -> Self:
        """Natural logarithms."""
        return _ops.log(self)

    def logical_not(self) -> Self:
        """Where elements are zero."""
        return _ops.logical_not(self)

    def neg(self) -> Self:
        """Negated."""
        return _ops.neg(self)

    def reciprocal(self) -> Self:
        """1 / x."""
        return _ops.reciprocal(self)

    def relu(self) -> Self:
        """max(x, 0)."""
        return _ops.relu(self)

    def round(self) -> Self:
        """Rounded to the nearest integer, halves to even."""
        return _ops.round(self)

    def rsqrt(self) -> Self:
        """1 / sqrt(x)."""
        return _ops.rsqrt(self)

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x))."""
        return _ops.sigmoid(self)

    def sign(self) -> Self:
        """-1, 0 or 1."""
        return _ops.sign(self)

    def sin(self) -> Self:
        """Sines."""
        return _ops.sin(self)

    def sqrt(self) -> Self:
        """Square roots."""
        return _ops.sqrt(self)

    def square(self) -> Self:
        """x * x."""
        return _ops.square(self)

    def tanh(self) -> Self:
        """Hyperbolic tangents."""
        return _ops.tanh(self)

    def trunc(self) -> Self:
        """Rounded toward zero."""
        return _ops.trunc(self)

    def clip(self, min: Any = None, max: Any = None) -> Self:
        """Limited to a range."""
        return _ops.clip(self, min, max)

    clamp = clip

    def softmax(self, dim: Any) -> Self:
        """Softmax along a dimension."""
        return _ops.softmax(self, dim)

    def log_softmax(self, dim: Any) -> Self:
        """Logarithm of the softmax along a dimension."""
        return _ops.log_softmax(self, dim)

    def masked_fill(self, mask: Any, value: Any) -> Self:
        """A number where a condition holds."""
        return _ops.masked_fill(self, mask, value)

    # ---- with another operand ----

    def add(self, other: Any) -> Self:
        """x + other"""
        return needed("add", self, other)

    def sub(self, other: Any) -> Self:
        """x - other"""
        return needed("sub", self, other)

    def mul(self, other: Any) -> Self:
        """x * other"""
        return needed("mul", self, other)

    def div(self, other: Any) -> Self:
        """x / other"""
        return needed("div", self, other)

    def pow(self, other: Any) -> Self:
        """x ** other"""
        return needed("pow", self, other)

    def maximum(self, other: Any) -> Self:
        """The larger of two values."""
        return needed("maximum", self, other)

    def minimum(self, other: Any) -> Self:
        """The smaller of two values."""
        return needed("minimum", self, other)

    def matmul(self, other: Any) -> Self:
        """Matrix product, leading dimensions broadcast."""
        return _ops.matmul(self, other)
