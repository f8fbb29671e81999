"""Ops made of other ops: functions of pylayout.ops and methods of a Builder like all others, but known to Python only.

Each is written once over `call(op, *arguments)`, which runs an op at once or appends it to a graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from .arrays import as_input
from .dtypes import dtype_of
from .einsum import contract
from .errors import ArgumentTypeError, InvalidArgumentError, ShapeError, UnsupportedError
from .sizes import Size
from .value import Builder, graph_of

__all__ = ["COMPOSED", "append", "chosen", "make", "signature_of"]

COMPOSED: dict[str, Callable[..., Any]] = {}


class _Call:
    """Runs ops, or appends them to a graph."""

    def __init__(self, op: str, run: Callable[..., Any], graph: Builder | None) -> None:
        self.op = op  # what the user called, for messages
        self._run = run
        self._graph = graph

    def __call__(self, op: str, *arguments: Any, **keywords: Any) -> Any:
        return self._run(op, *arguments, **keywords)

    def tensor(self, value: Any, argument: str) -> Any:
        """A tensor argument as what has shape, ndim and dtype."""
        if self._graph is None:
            return as_input(value, self.op, argument, copy=True)
        return value if graph_of([value]) is not None else self._graph.constant(value)

    def tensors(self, values: Any, argument: str) -> list[Any]:
        """A list of tensors, none empty."""
        if not isinstance(values, (list, tuple)):
            raise ArgumentTypeError(f"{self.op}: {argument} is {type(values).__name__}, expected a list of tensors")
        if not values:
            raise InvalidArgumentError(f"{self.op}: {argument} is empty, expected at least one tensor")
        return [self.tensor(value, f"{argument}[{i}]") for i, value in enumerate(values)]

    def dim(self, dim: Any, rank: int) -> int:
        """A dimension, counted from the first."""
        number = _integer(self.op, "dim", dim)
        if not -rank <= number < rank:
            raise InvalidArgumentError(f"{self.op}: dim is {number}, expected {-rank} to {rank - 1}")
        return number % rank


def _integer(op: str, argument: str, value: Any, lowest: int | None = None) -> int:
    try:
        number = int(value.__index__())
    except AttributeError:
        raise ArgumentTypeError(f"{op}: {argument} is {value!r}, expected an integer") from None
    if lowest is not None and number < lowest:
        raise InvalidArgumentError(f"{op}: {argument} is {number}, expected at least {lowest}")
    return number


def _composed(function: Callable[..., Any]) -> Callable[..., Any]:
    COMPOSED[function.__name__] = function
    return function


# ---- the ops ----


@_composed
def all(call: _Call, x: Any, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Any:
    """Whether all elements along the given dimensions are true (not zero).

    Of no elements: true. Returns bool.

    Source: semantics of torch.all.
    """
    zeros = call("logical_not", call.tensor(x, "x"))
    return call("logical_not", call("any", zeros, dim, keepdim))


@_composed
def any(call: _Call, x: Any, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Any:
    """Whether one element or more along the given dimensions is true (not zero).

    Of no elements: false. Returns bool.

    Source: semantics of torch.any.
    """
    x = call.tensor(x, "x")
    # As numbers that sums cannot round to zero and do not overflow.
    return call("cast", call("sum", call("cast", call("cast", x, "bool"), "s64"), dim, keepdim), "bool")


@_composed
def chunk(call: _Call, x: Any, chunks: int, dim: int = 0) -> Any:
    """A tensor cut along one dimension into at most that many parts, all but the last of the same size.

    Parts have ceil(size / chunks) elements along dim, so that there may be fewer. Returns a tuple of views.

    Source: semantics of torch.chunk.
    """
    x = call.tensor(x, "x")
    chunks = _integer("chunk", "chunks", chunks, 1)
    dim = call.dim(dim, x.ndim)
    return call("split", x, max(1, -(-x.shape[dim] // chunks)), dim)


@_composed
def einsum(call: _Call, equation: str, *tensors: Any) -> Any:
    """Sums of products over named dimensions: einsum("bij,bjk->bik", a, b).

    Each letter names a dimension; those that the result lacks are summed; without "->" the result has the letters that
    stand once, sorted; "..." stands for all dimensions without a letter, broadcast. Computed from left to right by
    products of matrices, sums and permutations.

    Source: semantics of numpy.einsum and torch.einsum.
    """
    if not isinstance(equation, str):
        raise ArgumentTypeError(f"einsum: equation is {type(equation).__name__}, expected text such as 'ij,jk->ik'")
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    return contract(call, equation, call.tensors(tensors, "tensors"))


@_composed
def flip(call: _Call, x: Any, dims: int | Sequence[int]) -> Any:
    """The order of elements reversed along the given dimensions.

    Source: semantics of torch.flip.
    """
    x = call.tensor(x, "x")
    named = [call.dim(dim, x.ndim) for dim in (dims if isinstance(dims, (list, tuple)) else (dims,))]
    if len(set(named)) != len(named):
        raise InvalidArgumentError(f"flip: dims is {list(named)}, expected different dimensions")
    for dim in named:
        if x.shape[dim] > 1:
            backwards = numpy.arange(x.shape[dim] - 1, -1, -1, dtype="int64")
            x = call("index_select", x, dim, x._beside(backwards))
    return x


@_composed
def masked_fill(call: _Call, x: Any, mask: Any, value: float) -> Any:
    """A number where a condition holds, elements of x elsewhere.

    mask is bool and broadcasts with x. Returns the dtype of x.

    Source: semantics of torch.Tensor.masked_fill.
    """
    return call("where", call.tensor(mask, "mask"), value, call.tensor(x, "x"))


@_composed
def one_hot(call: _Call, index: Any, num_classes: int, dtype: Any = "s64") -> Any:
    """For each index a row of zeros with a one at its place: index.shape + (num_classes,).

    An index that is negative or not less than num_classes gives zeros alone.

    Source: semantics of torch.nn.functional.one_hot, which has dtype s64 only and finds num_classes by itself.
    """
    index = call.tensor(index, "index")
    if index.dtype not in ("s64", "s32", "u8", "s8"):
        raise UnsupportedError(f"one_hot: index has dtype {index.dtype}, expected integers")
    places = numpy.arange(_integer("one_hot", "num_classes", num_classes, 1), dtype="int64")
    if index.dtype != "s64":
        index = call("cast", index, "s64")
    return call("cast", call("eq", call("unsqueeze", index, -1), index._beside(places)), dtype_of(dtype).name)


@_composed
def stack(call: _Call, tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors of equal shape joined along a new dimension.

    Source: semantics of torch.stack.
    """
    parts = call.tensors(tensors, "tensors")
    for i, part in enumerate(parts):
        if part.shape != parts[0].shape:
            raise ShapeError(
                f"stack: tensors[{i}] has shape {part.shape}, expected {parts[0].shape} (that of tensors[0])"
            )
    dim = call.dim(dim, parts[0].ndim + 1)
    return call("concat", [call("unsqueeze", part, dim) for part in parts], dim)


@_composed
def std(
    call: _Call, x: Any, dim: int | Sequence[int] | None = None, correction: float = 1, keepdim: bool = False
) -> Any:
    """Standard deviation over the given dimensions: the square root of `var`.

    Source: semantics of torch.std.
    """
    x = call.tensor(x, "x")
    return _as(call, call("sqrt", _variance(call, x, dim, correction, keepdim)), x.dtype)


@_composed
def unbind(call: _Call, x: Any, dim: int = 0) -> Any:
    """The slices of a tensor along one dimension, without that dimension. Returns a tuple of views.

    Source: semantics of torch.unbind.
    """
    x = call.tensor(x, "x")
    dim = call.dim(dim, x.ndim)
    return tuple(call("squeeze", part, dim) for part in call("split", x, 1, dim)) if x.shape[dim] else ()


@_composed
def var(
    call: _Call, x: Any, dim: int | Sequence[int] | None = None, correction: float = 1, keepdim: bool = False
) -> Any:
    """Variance over the given dimensions: sum of (x - mean)^2, divided by the number of elements less `correction`.

    NaN where that is not positive. correction 1 is torch's default, 0 NumPy's.

    Source: semantics of torch.var.
    """
    x = call.tensor(x, "x")
    return _as(call, _variance(call, x, dim, correction, keepdim), x.dtype)


def _as(call: _Call, x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else call("cast", x, dtype.name)


def _variance(call: _Call, x: Any, dim: int | Sequence[int] | None, correction: float, keepdim: bool) -> Any:
    """In f32: sums of squares of halves overflow."""
    if x.dtype not in ("f32", "f16", "bf16"):
        raise UnsupportedError(f"{call.op}: x has dtype {x.dtype}, expected one of f32, f16, bf16")
    x = x if x.dtype == "f32" else call("cast", x, "f32")
    mean = call("mean", x, dim, True)
    count = 1
    for size, kept in zip(x.shape, mean.shape, strict=True):
        count *= size if kept == 1 else 1
    squares = call("sum", call("square", call("sub", x, mean)), dim, keepdim)
    left = count - correction
    return call("mul", squares, 1 / left if left > 0 else float("nan"))


# ---- losses ----


def _pair(call: _Call, x: Any, target: Any) -> tuple[Any, Any]:
    x, target = call.tensor(x, "x"), call.tensor(target, "target")
    if x.shape != target.shape:
        raise ShapeError(f"{call.op}: target has shape {target.shape}, expected {x.shape} (that of x)")
    return x, target


def _reduced(call: _Call, values: Any, reduction: str) -> Any:
    if reduction not in ("mean", "sum", "none"):
        raise InvalidArgumentError(f"{call.op}: reduction is {reduction!r}, expected 'mean', 'sum' or 'none'")
    return values if reduction == "none" else call(reduction, values)


def _loss(call: _Call, expression: str, tensors: Sequence[Any], reduction: str, scalars: Sequence[float] = ()) -> Any:
    """An expression of tensors, of which those that are None are left out."""
    values = call("pointwise", [t for t in tensors if t is not None], expression, scalars=list(scalars))
    return _reduced(call, values, reduction)


def _weighted(call: _Call, x: Any, weight: Any) -> Any:
    """A weight of elements, which broadcasts to x."""
    if weight is None:
        return None
    weight = call.tensor(weight, "weight")
    if numpy.broadcast_shapes(x.shape, weight.shape) != x.shape:
        raise ShapeError(f"{call.op}: weight has shape {weight.shape}, which does not broadcast to {x.shape} (x.shape)")
    return weight


@_composed
def binary_cross_entropy(call: _Call, x: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """Cross entropy of probabilities x and targets, both 0 to 1: -weight * (t * log(x) + (1 - t) * log(1 - x)).

    Logarithms are limited to -100. weight broadcasts to x. Returns a scalar, or with reduction none the shape of x.

    Source: semantics of torch.nn.functional.binary_cross_entropy.
    """
    x, target = _pair(call, x, target)
    weight = _weighted(call, x, weight)
    text = "y0 = -(x1 * max(log(x0), -100) + (1 - x1) * max(log1p(-x0), -100))" + " * x2" * (weight is not None)
    return _loss(call, text, (x, target, weight), reduction)


@_composed
def binary_cross_entropy_with_logits(
    call: _Call, x: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """Cross entropy of sigmoid(x) and targets, 0 to 1, which no x makes inexact.

    -weight * (pos_weight * t * log(sigmoid(x)) + (1 - t) * log(1 - sigmoid(x))); weight and pos_weight broadcast to x.
    Returns a scalar, or with reduction none the shape of x.

    Source: semantics of torch.nn.functional.binary_cross_entropy_with_logits.
    """
    x, target = _pair(call, x, target)
    weight, positive = _weighted(call, x, weight), _weighted(call, x, pos_weight)
    of_ones = f"(1 + (x{2 if weight is None else 3} - 1) * x1) * " if positive is not None else ""
    text = f"y0 = ((1 - x1) * x0 + {of_ones}(log1p(exp(-abs(x0))) + max(-x0, 0)))" + " * x2" * (weight is not None)
    return _loss(call, text, (x, target, weight, positive), reduction)


@_composed
def huber_loss(call: _Call, x: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """Half the square of differences up to delta, beyond a line: delta * (|x - target| - delta / 2).

    Source: semantics of torch.nn.functional.huber_loss; P. Huber, 1964.
    """
    if not delta > 0:
        raise InvalidArgumentError(f"huber_loss: delta is {delta}, expected more than 0")
    text = "d = abs(x0 - x1); y0 = where(d < s0, 0.5 * d * d, s0 * (d - 0.5 * s0))"
    return _loss(call, text, _pair(call, x, target), reduction, [delta])


@_composed
def l1_loss(call: _Call, x: Any, target: Any, reduction: str = "mean") -> Any:
    """The mean, the sum or each one of |x - target|.

    Source: semantics of torch.nn.functional.l1_loss.
    """
    return _loss(call, "y0 = abs(x0 - x1)", _pair(call, x, target), reduction)


@_composed
def mse_loss(call: _Call, x: Any, target: Any, reduction: str = "mean") -> Any:
    """The mean, the sum or each one of (x - target)^2.

    Source: semantics of torch.nn.functional.mse_loss.
    """
    return _loss(call, "d = x0 - x1; y0 = d * d", _pair(call, x, target), reduction)


@_composed
def nll_loss(
    call: _Call, x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    """The negative log-likelihood of classes: -weight[t] * x[n, t, ...], of log-probabilities x (n, c, ...).

    target (n, ...) holds classes, s64 or s32; positions whose target is ignore_index give 0. weight (c), of classes.
    The mean is the sum divided by the sum of the targets' weights. `cross_entropy` takes x before the softmax.

    Source: semantics of torch.nn.functional.nll_loss.
    """
    x, target = call.tensor(x, "x"), call.tensor(target, "target")
    if x.ndim < 2 or target.shape != (x.shape[0], *x.shape[2:]):
        expected = (x.shape[0], *x.shape[2:]) if x.ndim > 1 else "(n, ...) of x (n, c, ...)"
        raise ShapeError(f"nll_loss: target has shape {target.shape}, expected {expected}")
    ignore = _integer("nll_loss", "ignore_index", ignore_index)
    counts = call("cast", call("ne", target, ignore), x.dtype.name)
    # What is no class names none, either from the end.
    if isinstance(x.shape[1], Size):
        safe = call("pointwise", [target], "y0 = where(x0 == s0, 0, x0)", scalars=[float(ignore)])
    else:
        text = "y0 = x0 == s0 ? 0 : x0 < 0 ? s1 : x0"
        safe = call("pointwise", [target], text, scalars=[float(ignore), float(x.shape[1])])
    if weight is not None:
        weight = call.tensor(weight, "weight")
        if weight.shape != x.shape[1:2]:
            raise ShapeError(f"nll_loss: weight has shape {weight.shape}, expected {x.shape[1:2]} (x.c)")
        counts = call("mul", counts, call("index_select", weight, 0, safe))
    found = call("squeeze", call("gather", x, 1, call("unsqueeze", safe, 1)), 1)
    losses = call("pointwise", [found, counts], "y0 = where(x1 == 0, 0, -x0 * x1)")
    if reduction != "mean":
        return _reduced(call, losses, reduction)
    return call("div", call("sum", losses), call("sum", counts))


@_composed
def smooth_l1_loss(call: _Call, x: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """Half the square of differences over beta up to beta, beyond |x - target| - beta / 2.

    Source: semantics of torch.nn.functional.smooth_l1_loss; R. Girshick, arXiv 1504.08083.
    """
    if not beta >= 0:
        raise InvalidArgumentError(f"smooth_l1_loss: beta is {beta}, expected at least 0")
    square = "where(d < s0, 0.5 * d * d / s0, d - 0.5 * s0)" if beta else "d"
    return _loss(call, f"d = abs(x0 - x1); y0 = {square}", _pair(call, x, target), reduction, [beta] if beta else [])


# ---- steps of training ----


@_composed
def rmsprop_step(
    call: _Call,
    weight: Any,
    grad: Any,
    lr: Any,
    square: Any,
    mean: Any = None,
    buffer: Any = None,
    grad_scale: Any = None,
    alpha: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> Any:
    """A step of RMSprop, with momentum where `buffer` is given, centred where `mean` is given.

    g = grad + weight_decay * weight; q = alpha * square + (1 - alpha) * g * g; m = alpha * mean + (1 - alpha) * g;
    d = g / (sqrt(q - m * m) + eps); b = momentum * buffer + d; w = weight - lr * b. lr is a scalar, all others are of
    the shape and dtype of weight; square, mean and buffer begin with zeros. grad_scale, a scalar, is what grad is
    multiplied by first; where it is 0, all stays as it is, whatever grad holds. Returns a tuple of w, q, and of m and b
    those that were given.

    Source: semantics of torch.optim.RMSprop; G. Hinton's lectures on neural networks, 2012.
    """
    tensors = [call.tensor(value, name) for value, name in ((weight, "weight"), (grad, "grad"), (lr, "lr"))]
    tensors.append(call.tensor(square, "square"))
    scaled = "x1" if grad_scale is None else "x1 * x4"
    if grad_scale is not None:
        tensors.append(call.tensor(grad_scale, "grad_scale"))
    text = f"g = {scaled} + s3 * x0; q = s0 * x3 + (1 - s0) * g * g; "
    results, root, step = [("x3", "q")], "q", "d"
    if mean is not None:
        text += f"m = s0 * x{len(tensors)} + (1 - s0) * g; "
        results.append((f"x{len(tensors)}", "m"))
        tensors.append(call.tensor(mean, "mean"))
        root = "max(q - m * m, 0)"
    text += f"d = g / (sqrt({root}) + s1); "
    if buffer is not None:
        text += f"b = s2 * x{len(tensors)} + d; "
        results.append((f"x{len(tensors)}", "b"))
        tensors.append(call.tensor(buffer, "buffer"))
        step = "b"
    elif momentum:
        raise InvalidArgumentError(f"rmsprop_step: momentum is {momentum}, expected a buffer with it")
    for i, value in enumerate(tensors):
        expected = () if i == 2 or (i == 4 and grad_scale is not None) else tensors[0].shape
        if value.shape != expected:
            raise ShapeError(f"rmsprop_step: tensor {i} has shape {value.shape}, expected {expected}")
    kept = "" if grad_scale is None else "x4 == 0"
    for i, (before, after) in enumerate([("x0", f"x0 - x2 * {step}"), *results]):
        text += f"y{i} = where({kept}, {before}, {after}); " if kept else f"y{i} = {after}; "
    return tuple(call("pointwise", tensors, text, scalars=[alpha, eps, momentum, weight_decay]))


# ---- as functions of pylayout.ops ----


def chosen(common: dict[str, Any]) -> dict[str, Any]:
    """`layout` and `device` where they say something: a graph refuses them."""
    return {key: value for key, value in common.items() if value not in ("auto", None)}


def signature_of(name: str) -> inspect.Signature:
    """What users see: without `call`, with `layout` and `device`."""
    signature = inspect.signature(COMPOSED[name], eval_str=False)
    own = list(signature.parameters.values())[1:]
    more = [
        inspect.Parameter("layout", inspect.Parameter.KEYWORD_ONLY, default="auto", annotation="str | Layout"),
        inspect.Parameter("device", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="str | Device | None"),
    ]
    return signature.replace(parameters=[*own, *more])


def _bound(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> inspect.BoundArguments:
    try:
        return signature_of(name).bind(*arguments, **keywords)
    except TypeError as error:
        raise ArgumentTypeError(f"{name}: {error}") from None


def append(graph: Builder, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], node: str | None) -> Any:
    """Append the ops of a composed one to a graph; all nodes have the name given, made unique."""

    def run(op: str, *values: Any, **more: Any) -> Any:
        return graph.op(op, *values, name=node, **more)

    bound = _bound(name, arguments, keywords)
    for key in ("layout", "device"):
        bound.arguments.pop(key, None)
    return COMPOSED[name](_Call(name, run, graph), *bound.args, **bound.kwargs)


def make(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """The function of pylayout.ops; `run(op, arguments, keywords)` calls another op."""
    body = COMPOSED[name]

    def function(*arguments: Any, **keywords: Any) -> Any:
        bound = _bound(name, arguments, keywords)
        common: dict[str, Any] = {
            key: bound.arguments.pop(key) for key in ("layout", "device") if key in bound.arguments
        }
        graph = graph_of(bound.arguments.values())
        if graph is not None:
            return graph.op(name, *bound.args, **bound.kwargs, **chosen(common))

        def call(op: str, *values: Any, **more: Any) -> Any:
            return run(op, *values, **more, **common)

        return body(_Call(name, call, None), *bound.args, **bound.kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = body.__doc__
    function.__module__ = "pylayout.ops"
    function.__signature__ = signature_of(name)  # type: ignore[attr-defined]
    return function
