"""Complex numbers as pairs of real ones, in a dimension behind all others, as `torch.view_as_real` shows them.

The operands of complex tensors have that dimension; those of real tensors beside them have not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from ..call import Call, Operand, require
from ..registry import complex_converter, converters
from .binary import raised
from .shape import parts_scatter

MOST_FACTORS = 1 << 12  # of a product, which are multiplied in as many ops as this has bits
MOST_POWER = 16  # that products make
MOST = 1 << 21  # elements of the matrix of a Fourier transform: 1440 real numbers, or 720 complex ones


def _is_pairs(call: Call, place: int) -> bool:
    """Whether an argument is complex."""
    node = call.node.args[place]
    value = node.meta["val"] if isinstance(node, Node) else node
    return value.is_complex() if isinstance(value, torch.Tensor) else isinstance(value, complex)


def _pairs(call: Call, place: int, x: Any) -> Operand:
    """An argument as pairs: of a real one the second is zero."""
    if isinstance(x, complex):
        return call.graph.constant(np.array([x.real, x.imag], np.float32))
    if _is_pairs(call, place):
        return x  # type: ignore[no-any-return]
    return call.op("pad", _beside(call, x), [0, 1])  # type: ignore[no-any-return]


def _beside(call: Call, x: Any) -> Operand:
    """A real argument that stands beside pairs."""
    x = call.tensor(x, "f32")
    made: Operand = call.op("unsqueeze", x, x.ndim)
    return made


def _parts(call: Call, x: Operand) -> tuple[Operand, Operand]:
    """Real and imaginary parts, the dimension of pairs kept with one place."""
    first, second = call.op("split", x, [1, 1], x.ndim - 1)
    return first, second


def _turned(call: Call, x: Operand) -> Operand:
    """x times the imaginary unit."""
    real, imaginary = _parts(call, x)
    made: Operand = call.op("concat", [call.op("neg", imaginary), real], x.ndim - 1)
    return made


def _conjugated(call: Call, x: Operand) -> Operand:
    made: Operand = call.op("mul", x, call.graph.constant(np.array([1, -1], np.float32)))
    return made


def _product(call: Call, a: Operand, b: Operand) -> Operand:
    if math.prod(a.shape) < math.prod(b.shape):  # that which is turned may be a constant, and is the smaller one
        a, b = b, a
    if a.ndim > 2 and b.ndim > 1 and a.shape[-2] == b.shape[-2] and 2 * math.prod(b.shape) <= math.prod(a.shape):
        return _turns(call, a, b)
    real, imaginary = _parts(call, a)
    made: Operand = call.op("pointwise", [real, b, imaginary, _turned(call, b)], "y0 = x0 * x1 + x2 * x3", dtype="f32")
    return made


def _turns(call: Call, a: Operand, b: Operand) -> Operand:
    """a * b of a larger a: a rotary embedding, whose tables b makes."""

    def table(part: Operand) -> Operand:
        both = call.op("concat", [part, part], part.ndim - 1)
        made: Operand = call.op("reshape", both, [*b.shape[:-2], 2 * b.shape[-2]])
        return made

    real, imaginary = _parts(call, b)
    rows = call.op("reshape", a, [*a.shape[:-2], 2 * a.shape[-2]])
    turned = call.op("rotary_embedding", rows, table(real), table(imaginary), True)
    return call.reshape(turned, a.shape)


# ---- what computes nothing ----


@complex_converter(
    "view_as_complex.default", "view_as_real.default", "clone.default", "alias.default", "detach.default",
    "lift_fresh_copy.default", "contiguous.default", "resolve_conj.default",
)  # fmt: skip
def same(call: Call, x: Operand, memory_format: Any = None) -> Operand:
    return x


@complex_converter("view.default", "reshape.default", "_unsafe_view.default", "unsqueeze.default", "squeeze.dim",
                   "squeeze.dims", "squeeze.default")  # fmt: skip
def reshape(call: Call, x: Operand, *_: Any) -> Operand:
    return call.reshape(x, [*call.shape(), 2])


@complex_converter("expand.default")
def expand(call: Call, x: Operand, *_: Any, implicit: bool = False) -> Operand:
    made: Operand = call.op("expand", x, [*call.shape(), 2])
    return made


@complex_converter("permute.default")
def permute(call: Call, x: Operand, dims: Sequence[int]) -> Operand:
    rank = x.ndim - 1
    made: Operand = call.op("permute", x, [*[dim % rank for dim in dims], rank])
    return made


@complex_converter("transpose.int")
def transpose(call: Call, x: Operand, dim0: int, dim1: int) -> Operand:
    rank = x.ndim - 1
    made: Operand = call.op("transpose", x, dim0 % rank, dim1 % rank)
    return made


@complex_converter("copy.default")
def overwritten(call: Call, x: Operand, source: Operand, non_blocking: bool = False) -> Operand:
    made: Operand = call.op("expand", _pairs(call, 1, source), [*call.shape(), 2])
    return made


@complex_converter("where.self")
def where(call: Call, condition: Operand, a: Operand, b: Operand) -> Operand:
    beside = call.op("unsqueeze", condition, condition.ndim)
    made: Operand = call.op("where", beside, _pairs(call, 1, a), _pairs(call, 2, b))
    return made


@complex_converter("cat.default")
def cat(call: Call, tensors: Sequence[Operand], dim: int = 0) -> Operand:
    listed: Any = call.node.args[0]
    require(all(each.meta["val"].is_complex() for each in listed), "real parts")
    made: Operand = call.op("concat", [*tensors], dim % (tensors[0].ndim - 1))
    return made


def _register_along(name: str, place: int) -> None:
    """Ops that work along a dimension, which is counted without that of pairs."""

    def convert(call: Call, x: Operand, *rest: Any, **keywords: Any) -> Operand:
        given = [x, *rest]
        if len(given) <= place:
            given += [0] * (place + 1 - len(given))
        sizes = given[1] if name.endswith("_backward.default") else None
        rank = x.ndim - 1 if sizes is None else len(sizes)
        given[place] = given[place] % rank
        if sizes is not None:
            given[1] = [*sizes, 2]
        of_pairs = call.with_pairs()
        made: Operand = converters()[name].function(of_pairs, *given, **keywords)
        return made

    complex_converter(name)(convert)


for _name, _place in (
    ("slice.Tensor", 1),
    ("select.int", 1),
    ("slice_scatter.default", 2),
    ("select_scatter.default", 2),
    ("slice_backward.default", 2),
    ("select_backward.default", 2),
    ("index_select.default", 1),
    ("index_add.default", 1),
    ("split_with_sizes.default", 2),
    ("split.Tensor", 2),
    ("unbind.int", 1),
    ("cumsum.default", 1),
):
    _register_along(_name, _place)


complex_converter("pylayout.slice_scatter.default")(parts_scatter)  # whose axes are counted from the first


@complex_converter("index.Tensor")
def index(call: Call, x: Operand, indices: Any) -> Operand:
    made: Operand = converters()["index.Tensor"].function(call.with_pairs(), x, indices)
    return made


@complex_converter("index_put.default")
def index_put(call: Call, x: Operand, indices: Any, values: Operand, accumulate: bool = False) -> Operand:
    given = call.with_pairs(), x, indices, _pairs(call, 2, values), accumulate
    made: Operand = converters()["index_put.default"].function(*given)
    return made


@complex_converter("flip.default")
def flip(call: Call, x: Operand, dims: Sequence[int]) -> Operand:
    made: Operand = converters()["flip.default"].function(call.with_pairs(), x, [dim % (x.ndim - 1) for dim in dims])
    return made


@complex_converter("roll.default")
def roll(call: Call, x: Operand, shifts: Sequence[int], dims: Sequence[int] = ()) -> Operand:
    given = call.with_pairs(), x, shifts, [dim % (x.ndim - 1) for dim in dims]
    made: Operand = converters()["roll.default"].function(*given)
    return made


@complex_converter("constant_pad_nd.default")
def constant_pad(call: Call, x: Operand, pad: Sequence[int], value: Any = 0) -> Operand:
    require(value == 0, f"padding by {value}")
    made: Operand = call.op("pad", x, [0, 0, *pad])
    return made


@complex_converter("new_empty_strided.default")
def empty(call: Call, x: Operand, *_: Any, **others: Any) -> Operand:
    made: Operand = call.op("expand", call.graph.constant(np.zeros(2, np.float32)), [*call.shape(), 2])
    return made


@complex_converter("full_like.default", "zeros_like.default")
def like(call: Call, x: Operand, value: Any = 0, **options: Any) -> Operand:
    pair = np.array([complex(value).real, complex(value).imag], np.float32)
    made: Operand = call.op("expand", call.graph.constant(pair), [*call.shape(), 2])
    return made


# ---- from real numbers to complex ones and back ----


@complex_converter("complex.default")
def complex_(call: Call, real: Operand, imaginary: Operand) -> Operand:
    shape = [*call.shape()]
    parts = [call.op("expand", each, shape) for each in (real, imaginary)]
    made: Operand = call.op("stack", parts, len(shape))
    return made


@complex_converter("polar.default")
def polar(call: Call, length: Operand, angle: Operand) -> Operand:
    parts = [call.op("mul", length, call.op(name, angle)) for name in ("cos", "sin")]
    made: Operand = call.op("stack", parts, len(call.shape()))
    return made


@complex_converter("_to_copy.default", "prims.convert_element_type.default")
def to_copy(call: Call, x: Operand, *_: Any, **others: Any) -> Operand:
    require(call.expected.is_complex() and others.get("device") in (None, call.device()), "to real numbers")
    return _pairs(call, 0, x)


@complex_converter("abs.default")
def length(call: Call, x: Operand) -> Operand:
    return call.reshape(_length(call, x), x.shape[:-1])


@complex_converter("angle.default")
def angle(call: Call, x: Operand) -> Operand:
    real, imaginary = _parts(call, x)
    made = call.op("pointwise", [imaginary, real], "y0 = atan2(x0, x1)", dtype="f32")
    return call.reshape(made, call.shape())


def _register_equal(name: str, op: str, joined: str) -> None:
    def convert(call: Call, a: Operand, b: Any) -> Operand:
        each = call.op(op, _pairs(call, 0, a), _pairs(call, 1, b))
        made: Operand = call.op(joined, each, [each.ndim - 1], False)
        return made

    complex_converter(f"{name}.Scalar", f"{name}.Tensor")(convert)


_register_equal("eq", "eq", "all")
_register_equal("ne", "ne", "any")


# ---- arithmetic ----


@complex_converter("_conj.default", "conj_physical.default", "_conj_physical.default")
def conjugate(call: Call, x: Operand) -> Operand:
    return _conjugated(call, x)


@complex_converter("neg.default")
def negative(call: Call, x: Operand) -> Operand:
    made: Operand = call.op("neg", x)
    return made


@complex_converter("sgn.default")
def direction(call: Call, x: Operand) -> Operand:
    made: Operand = call.op("pointwise", [x, _length(call, x)], "y0 = x1 == 0 ? 0 : x0 / x1", dtype="f32")
    return made


@complex_converter("mul.Tensor", "mul.Scalar")
def mul(call: Call, a: Any, b: Any) -> Operand:
    if _is_pairs(call, 0) and _is_pairs(call, 1):
        return _product(call, _pairs(call, 0, a), _pairs(call, 1, b))
    a, b = (_pairs(call, place, x) if _is_pairs(call, place) else _beside(call, x) for place, x in enumerate((a, b)))
    made: Operand = call.op("mul", a, b)
    return made


@complex_converter("div.Tensor", "div.Scalar")
def div(call: Call, a: Any, b: Any) -> Operand:
    if not _is_pairs(call, 1):
        made: Operand = call.op("div", a, _beside(call, b))
        return made
    return _quotient(call, _parts(call, _pairs(call, 0, a)), _pairs(call, 1, b))


def _register_sum(name: str, op: str) -> None:
    def convert(call: Call, a: Any, b: Any, alpha: Any = 1) -> Operand:
        require(not isinstance(alpha, complex), "a complex factor")
        a, b = _pairs(call, 0, a), _pairs(call, 1, b)
        made: Operand = call.op(op, a, b if alpha == 1 else call.op("mul", b, float(alpha)))
        return made

    complex_converter(f"{name}.Tensor", f"{name}.Scalar")(convert)


for _name in ("add", "sub"):
    _register_sum(_name, _name)


def _all_of(x: Operand, dim: Any) -> list[int]:
    """Dimensions that are reduced, counted without that of pairs."""
    rank = x.ndim - 1
    if dim is None or dim == []:
        return [*range(rank)]
    return [each % rank for each in (dim if isinstance(dim, (list, tuple)) else [dim])] if rank else []


@complex_converter("sum.dim_IntList", "sum.default", "mean.dim", "mean.default")
def reduced(call: Call, x: Operand, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Operand:
    dims = _all_of(x, dim)
    made: Operand = call.op("sum" if "sum" in str(call.node.target) else "mean", x, dims, bool(keepdim)) if dims else x
    return made


@complex_converter("prod.dim_int", "prod.default")
def product(call: Call, x: Operand, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Operand:
    """Of halves, again and again."""
    dims = _all_of(x, dim)
    count = math.prod(x.shape[each] for each in dims)
    require(isinstance(count, int) and 0 < count <= MOST_FACTORS, f"{count} factors")
    others = [each for each in range(x.ndim - 1) if each not in dims]
    lines = call.op("permute", x, [*dims, *others, x.ndim - 1])
    lines = call.op("reshape", lines, [count, *[x.shape[each] for each in others], 2])
    while count > 1:
        half = count // 2
        first, second, *rest = call.op("split", lines, [half, half, count % 2] if count % 2 else [half, half], 0)
        lines = call.op("concat", [_product(call, first, second), *rest], 0) if rest else _product(call, first, second)
        count -= half
    return call.reshape(lines, [*call.shape(), 2])


def _variance(call: Call, x: Operand, dim: Any, correction: Any, keepdim: bool) -> Operand:
    each = converters()["var.correction"].function(call, x, _all_of(x, dim), correction, keepdim)
    made: Operand = call.op("sum", each, [each.ndim - 1], False)
    return made


@complex_converter("var.correction")
def var(call: Call, x: Operand, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Operand:
    require(x.ndim > 1, "a number")
    return _variance(call, x, dim, correction, keepdim)


@complex_converter("var_mean.correction")
def var_mean(call: Call, x: Operand, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    require(x.ndim > 1, "a number")
    mean = call.op("mean", x, _all_of(x, dim), bool(keepdim))
    return _variance(call, x, dim, correction, keepdim), mean


@complex_converter("linalg_vector_norm.default")
def vector_norm(
    call: Call, x: Operand, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Operand:
    require(not call.expected.is_complex(), "a dtype of complex numbers")
    made: Operand = converters()["linalg_vector_norm.default"].function(call, length(call, x), ord, dim, keepdim)
    return made


# ---- functions ----


def _joined(call: Call, tensors: Sequence[Operand], real: str, imaginary: str) -> Operand:
    parts = [call.op("pointwise", [*tensors], f"y0 = {text}", dtype="f32") for text in (real, imaginary)]
    made: Operand = call.op("concat", parts, parts[0].ndim - 1)
    return made


def _exponential(call: Call, x: Operand) -> Operand:
    return _joined(call, _parts(call, x), "exp(x0) * cos(x1)", "x1 == 0 ? x1 : exp(x0) * sin(x1)")


# Of what is below. An infinity beside NaN is one.
_LENGTH = "(x2 == 0 || x2 > 3.4e38 ? x2 : x2 * sqrt(1 + x3 / x2 * (x3 / x2)))"
_SIZE = f"(abs(x0) == inf || abs(x1) == inf ? inf : {_LENGTH})"


def _with_sizes(call: Call, x: Operand) -> tuple[Operand, ...]:
    """Both parts (x0, x1), and the larger size of them and the smaller one (x2, x3), whose squares may overflow."""
    parts = _parts(call, x)
    sizes = [call.op("abs", each) for each in parts]
    return *parts, call.op("maximum", *sizes), call.op("minimum", *sizes)


def _length(call: Call, x: Operand) -> Operand:
    made: Operand = call.op("pointwise", _with_sizes(call, x), f"y0 = {_SIZE}", dtype="f32")
    return made


def _logarithm(call: Call, x: Operand) -> Operand:
    """Of lengths near 1 by what they differ from it, of which a length itself would have lost most."""
    near = "0.5 * log1p((x2 - 1) * (x2 + 1) + x3 * x3)"
    far = "log(x2) + (x2 > 0 && x2 < 3.4e38 ? 0.5 * log1p(x3 / x2 * (x3 / x2)) : 0)"
    tensors = _with_sizes(call, x)
    return _joined(call, tensors, f"x2 > 0.5 && x2 < 2 ? {near} : {far}", "atan2(x1, x0)")


def _root(call: Call, x: Operand) -> Operand:
    """One part by a sum of sizes, the other one by a quotient: a difference would have lost it. -0 is below 0."""
    large = f"sqrt(0.5 * {_LENGTH} + 0.5 * abs(x0))"
    small = f"(x2 == 0 ? 0 : 0.5 * abs(x1) / {large})"
    real = f"x0 >= 0 ? {large} : {small}"
    imaginary = f"(atan2(x1, -1) < 0 ? -1 : 1) * (x0 >= 0 ? {small} : {large})"
    return _joined(call, _with_sizes(call, x), real, imaginary)


def _quotient(call: Call, a: Sequence[Operand], b: Operand) -> Operand:
    """By the quotient of the smaller part of b by the larger one: squares of either may overflow."""
    wide, none = "abs(x2) >= abs(x3)", "x2 == 0 && x3 == 0"
    rate = f"({wide} ? x3 / x2 : x2 / x3)"
    scale = f"({wide} ? x2 + x3 * {rate} : x2 * {rate} + x3)"
    real = f"{none} ? x0 / abs(x2) : ({wide} ? x0 + x1 * {rate} : x0 * {rate} + x1) / {scale}"
    imaginary = f"{none} ? x1 / abs(x3) : ({wide} ? x1 - x0 * {rate} : x1 * {rate} - x0) / {scale}"
    return _joined(call, [*a, *_parts(call, b)], real, imaginary)


def _inverse(call: Call, x: Operand) -> Operand:
    return _quotient(call, [call.tensor(value, "f32") for value in (1.0, 0.0)], x)


for _name, _function in (("exp", _exponential), ("log", _logarithm), ("sqrt", _root), ("reciprocal", _inverse)):
    complex_converter(f"{_name}.default")(_function)


@complex_converter("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(call: Call, x: Any, y: Any) -> Operand:
    """By length and angle; of whole numbers as products."""
    if isinstance(y, (int, float)):
        if y == 0:
            one: Operand = call.op("expand", call.graph.constant(np.array([1, 0], np.float32)), [*call.shape(), 2])
            return one
        if y == int(y) and abs(y) <= MOST_POWER:
            made = raised(x, abs(int(y)), lambda a, b: _product(call, a, b))
            return made if y > 0 else _inverse(call, made)
        if y == 0.5:
            return _root(call, x)
    tensors = [*_with_sizes(call, _pairs(call, 0, x)), *_parts(call, _pairs(call, 1, y))]
    size, angle = _LENGTH, "atan2(x1, x0)"
    if not _is_pairs(call, 1):
        return _joined(call, tensors[:5], *(f"pow({size}, x4) * {each}(x4 * {angle})" for each in ("cos", "sin")))
    scale, turn = f"pow({size}, x4) * exp(-x5 * {angle})", f"x4 * {angle} + x5 * log({size})"
    return _joined(call, tensors, *(f"{scale} * {each}({turn})" for each in ("cos", "sin")))


@complex_converter("mm.default", "bmm.default")
def matmul(call: Call, a: Operand, b: Operand) -> Operand:
    """As one product of real matrices: rows of pairs, by the pairs of each row of b and these turned."""
    require(_is_pairs(call, 0) and _is_pairs(call, 1), "a product with a real matrix")
    *batch, rows, depth, _ = a.shape
    columns = b.shape[-2]
    both = call.op("stack", [b, _turned(call, b)], len(batch) + 1)
    left = call.op("reshape", a, [*batch, rows, 2 * depth])
    made = call.op("matmul", left, call.op("reshape", both, [*batch, 2 * depth, 2 * columns]))
    return call.reshape(made, [*call.shape(), 2])


# ---- Fourier transforms: by an op on the CPU, elsewhere as products with a matrix ----


def _angles(n: int, m: int) -> np.ndarray:
    """2 pi j k / n for j below n and k below m, exact where they are large."""
    made: np.ndarray = 2 * np.pi / n * (np.arange(n, dtype=np.int64)[:, None] * np.arange(m, dtype=np.int64) % n)
    return made


def _along(call: Call, x: Operand, dim: int, inside: int, apply: Callable[[Operand], Operand]) -> Operand:
    """What `apply` makes of the lines along dim, with the `inside` dimensions behind the last; in their place."""
    rank = x.ndim - inside
    order = [*[each for each in range(rank) if each != dim], dim]
    made = apply(call.op("permute", x, [*order, *range(rank, x.ndim)]))
    back = [order.index(each) for each in range(rank)]
    result: Operand = call.op("permute", made, [*back, *range(rank, made.ndim)])
    return result


def _times(
    call: Call, x: Operand, dim: int, inside: int, matrix: Callable[[], np.ndarray], outside: list[int]
) -> Operand:
    """Each line by a matrix; `outside`: its new shape."""

    def product(lines: Operand) -> Operand:
        factor = matrix()
        flat = call.op("reshape", lines, [*lines.shape[: lines.ndim - 1 - inside], factor.shape[0]])
        made = call.op("matmul", flat, call.graph.constant(np.ascontiguousarray(factor, np.float32)))
        result: Operand = call.op("reshape", made, [*made.shape[:-1], *outside])
        return result

    n = x.shape[dim]
    require(n * (2 if inside else 1) * math.prod(outside) <= MOST, f"a transform of {n} numbers")
    return _along(call, x, dim, inside, product)


def _scale(sizes: Sequence[Any], normalization: int) -> float:
    require(all(isinstance(size, int) for size in sizes), "sizes that calls decide")
    count = math.prod(sizes)
    return float([1.0, count**-0.5, 1.0 / count][normalization])


def _both_ways(call: Call, x: Operand, dims: Sequence[int], forward: bool, scale: float) -> Operand:
    """Complex numbers to such; the scale goes with the last dimension."""
    for number, dim in enumerate(dims, 1):
        x = _one_way(call, x, dim, forward, scale if number == len(dims) else 1.0)
    return x


def _one_way(call: Call, x: Operand, dim: int, forward: bool, scale: float) -> Operand:
    n = x.shape[dim]
    require(isinstance(n, int), "sizes that calls decide")
    if call.on_cpu():
        return _along(call, x, dim, 1, lambda lines: call.op("fft", lines, inverse=not forward, scale=scale))
    return _times(call, x, dim, 1, lambda: _matrix(n, forward) * scale, [n, 2])


def _matrix(n: int, forward: bool) -> np.ndarray:
    """Of pairs, to pairs."""
    angles = _angles(n, n)
    c, s = np.cos(angles), np.sin(angles) * (-1 if forward else 1)
    return np.stack([np.stack([c, s], -1), np.stack([-s, c], -1)], 1).reshape(2 * n, 2 * n)


@complex_converter("_fft_c2c.default")
def fft(call: Call, x: Operand, dim: Sequence[int], normalization: int, forward: bool) -> Operand:
    dims = [each % (x.ndim - 1) for each in dim]
    return _both_ways(call, x, dims, forward, _scale([x.shape[each] for each in dims], normalization))


def _conjugates(call: Call, x: Operand, dim: int, n: int) -> Operand:
    """All n numbers of a transform of real ones, of their first half."""
    if n < 3:
        return x
    rest = call.op("flip", call.op("slice", x, [1], [(n + 1) // 2], [dim]), [dim])
    made: Operand = call.op("concat", [x, _conjugated(call, rest)], dim)
    return made


def _windows(call: Call, x: Operand, n: int) -> tuple[Operand, dict[str, Any]]:
    """What rows of n numbers, of the last dimension of x, are made of: windows of another tensor, times factors."""
    node: Any = call.node.args[0]
    how: dict[str, Any] = {}
    if product := call.made_of(node, "aten.mul.Tensor"):
        (a, b), operands = product
        for weighed, factors in ((a, b), (b, a)):
            rows, window = operands.get(weighed), operands.get(factors)
            if rows is None or window is None or rows.shape != x.shape or window.shape != (n,) or how:
                continue
            if rows.dtype == window.dtype == "f32":
                node, x, how = weighed, rows, {"window": window}
    if cut := call.made_of(node, "aten.unfold.default"):
        (whole, dim, size, step), operands = cut
        if size == n and dim % (x.ndim - 1) == x.ndim - 2 and all(isinstance(each, int) for each in (size, step)):
            x, how = operands[whole], {**how, "size": n, "hop": step}
    return x, how


@complex_converter("_fft_r2c.default")
def rfft(call: Call, x: Operand, dim: Sequence[int], normalization: int, onesided: bool) -> Operand:
    require(x.dtype == "f32", f"dtype {x.dtype}")
    *others, last = [each % x.ndim for each in dim]
    scale = _scale([x.shape[each] for each in (*others, last)], normalization)
    n = x.shape[last]
    if call.on_cpu():
        if last == x.ndim - 1:
            rows, how = _windows(call, x, n)
            made = call.op("rfft", rows, **how, scale=scale)
        else:
            made = _along(call, x, last, 0, lambda lines: call.op("rfft", lines, scale=scale))
        made = made if onesided else _conjugates(call, made, last, n)
    else:
        m = n // 2 + 1 if onesided else n

        def matrix() -> np.ndarray:
            angles = _angles(n, m)
            return np.stack([np.cos(angles), -np.sin(angles)], -1).reshape(n, -1) * scale

        made = _times(call, x, last, 0, matrix, [m, 2])
    return _both_ways(call, made, others, True, 1.0)


@complex_converter("_fft_c2r.default")
def irfft(call: Call, x: Operand, dim: Sequence[int], normalization: int, last_dim_size: int) -> Operand:
    rank = x.ndim - 1
    *others, last = [each % rank for each in dim]
    n = last_dim_size
    scale = _scale([*[x.shape[each] for each in others], n], normalization)
    x = _both_ways(call, x, others, False, 1.0)
    m = n // 2 + 1
    require(x.shape[last] == m, f"{x.shape[last]} numbers of {m}")
    if call.on_cpu():
        return _along(call, x, last, 1, lambda lines: call.op("irfft", lines, n, scale=scale))

    def matrix() -> np.ndarray:
        angles = _angles(n, m).T
        # All but the first, and of an even size the last, stand for their conjugates, too.
        twice = np.where((np.arange(m) == 0) | (2 * np.arange(m) == n), 1.0, 2.0)[:, None] * scale
        return np.stack([np.cos(angles) * twice, -np.sin(angles) * twice], 1).reshape(2 * m, n)

    return _times(call, x, last, 1, matrix, [n])
