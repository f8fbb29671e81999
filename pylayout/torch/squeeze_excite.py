"""Squeeze-and-excitation as one op, with one gradient, in a joint graph of the device ocl.

PyTorch traces a mean, two convolutions of one position, their functions and a product, and some twenty ops for their
gradients: thirteen launches of next to no work in a block's backward, where the op of plans has four, and no passes
over the image for sums and products that one kernel does. Plans of a whole step find it before they derive gradients
(pass fuse_squeeze_excite); of a joint graph both directions are found. PyTorch runs these ops where plans refuse them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from .gradients import ALIASES, unaliased, uncopied

__all__ = ["fuse_squeeze_excite"]

aten = torch.ops.aten
own = torch.ops.pylayout
Tensor = torch.Tensor

# Numbers of a weight: beyond, each image's work-group reads both for longer than the launches take (as in the pass).
MOST_WEIGHTS = 524288

_HIDDEN: dict[Any, str] = {aten.relu.default: "relu", aten.silu.default: "silu", aten.hardswish.default: "hardswish"}
_GATES: dict[Any, str] = {aten.sigmoid.default: "sigmoid", aten.hardsigmoid.default: "hardsigmoid"}
_FUNCTIONS = {name: op for op, name in {**_HIDDEN, **_GATES}.items()}

# The gradient of each function, and what follows its result's gradient and its result (True) or argument (False).
_SLOPES: dict[str, tuple[Any, bool, tuple[Any, ...]]] = {
    "relu": (aten.threshold_backward.default, True, (0,)),
    "silu": (aten.silu_backward.default, False, ()),
    "hardswish": (aten.hardswish_backward.default, False, ()),
    "sigmoid": (aten.sigmoid_backward.default, True, ()),
    "hardsigmoid": (aten.hardsigmoid_backward.default, False, ()),
}


def _layers(x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, hidden: str, gate: str) -> Any:
    """Means, arguments and results of both layers, as matrices, in float32 at least."""
    wide = torch.promote_types(x.dtype, torch.float32)
    mean = x.to(wide).flatten(2).mean(2)
    before = torch.addmm(bias1.to(wide), mean, weight1.to(wide).flatten(1).t())
    middle = _FUNCTIONS[hidden](before)
    last = torch.addmm(bias2.to(wide), middle, weight2.to(wide).flatten(1).t())
    return mean, before, middle, last, _FUNCTIONS[gate](last)


def _slope(name: str, grad: Tensor, argument: Tensor, result: Tensor) -> Tensor:
    op, by_result, numbers = _SLOPES[name]
    made: Tensor = op(grad, result if by_result else argument, *numbers)
    return made


@torch.library.custom_op("pylayout::squeeze_excite", mutates_args=())
def squeeze_excite(
    x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, hidden: str, gate: str
) -> Tensor:
    gates = _layers(x, weight1, bias1, weight2, bias2, hidden, gate)[-1]
    made: Tensor = x * gates.view(*gates.shape, *[1] * (x.ndim - 2))
    return made.to(x.dtype)


@squeeze_excite.register_fake
def _(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("pylayout::squeeze_excite_backward", mutates_args=())
def squeeze_excite_backward(
    grad: Tensor, x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, hidden: str, gate: str
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    mean, before, middle, last, gates = _layers(x, weight1, bias1, weight2, bias2, hidden, gate)
    along = [*gates.shape, *[1] * (x.ndim - 2)]
    of_last = _slope(gate, (grad.to(gates.dtype) * x).flatten(2).sum(2), last, gates)
    of_before = _slope(hidden, of_last @ weight2.to(gates.dtype).flatten(1), before, middle)
    of_mean = of_before @ weight1.to(gates.dtype).flatten(1)
    dx = grad * gates.view(along) + (of_mean / x[0, 0].numel()).view(along)
    dweight1, dweight2 = of_before.t() @ mean, of_last.t() @ middle
    return (
        dx.to(x.dtype),
        dweight1.view_as(weight1).to(weight1.dtype),
        of_before.sum(0).to(bias1.dtype),
        dweight2.view_as(weight2).to(weight2.dtype),
        of_last.sum(0).to(bias2.dtype),
    )


@squeeze_excite_backward.register_fake
def _(grad: Tensor, x: Tensor, *others: Any) -> tuple[Tensor, ...]:
    return torch.empty_like(x), *(each.new_empty(each.shape) for each in others[:4])


@dataclass(frozen=True)
class _Layer:
    """A convolution of one position and its function."""

    convolution: Node
    result: Node
    function: str

    @property
    def x(self) -> Any:
        return self.convolution.args[0]

    @property
    def weights(self) -> tuple[Any, Any]:
        return self.convolution.args[1:3]  # type: ignore[return-value]


@dataclass(frozen=True)
class _Block:
    x: Node
    mean: Node
    first: _Layer
    second: _Layer
    product: Node

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (*self.first.weights, *self.second.weights, self.first.function, self.second.function)


def _layer(result: Any, functions: dict[Any, str]) -> _Layer | None:
    if not isinstance(result, Node) or result.target not in functions:
        return None
    convolution = result.args[0]
    if not isinstance(convolution, Node) or convolution.target is not aten.convolution.default:
        return None
    x, weight, bias, stride, padding, _, transposed, _, groups = convolution.args
    if bias is None or transposed or groups != 1 or {*stride} != {1} or {*padding} != {0}:  # type: ignore[misc]
        return None
    of_x, of_weight = x.meta["val"], weight.meta["val"]  # type: ignore[union-attr]
    planes = (*of_x.shape[2:], *of_weight.shape[2:])
    if not all(type(size) is int and size == 1 for size in planes) or of_weight.numel() > MOST_WEIGHTS:
        return None
    return _Layer(convolution, result, functions[result.target])


def _block(product: Node) -> _Block | None:
    for gate, x in (product.args[:2], reversed(product.args[:2])):
        second = _layer(gate, _GATES)
        first = _layer(second.x, _HIDDEN) if second is not None else None
        if first is None or second is None or not isinstance(x, Node):
            continue
        mean, value = first.x, x.meta["val"]
        if mean.target is not aten.mean.dim or mean.args[0] is not x or mean.kwargs or len(mean.args) != 3:
            continue
        spatial = {*range(2, value.ndim)}
        if value.device.type != "ocl" or value.ndim < 3 or {dim % value.ndim for dim in mean.args[1]} != spatial:
            continue
        # Symbolic sizes are left: what they may become decides what the op takes.
        if not all(type(size) is int for size in value.shape) or value.shape[1] % 4 or value.numel() == 0:
            continue
        dtypes = {each.meta["val"].dtype for each in (*first.weights, *second.weights, product)}
        if dtypes == {value.dtype} and product.meta["val"].shape == value.shape:
            return _Block(x, mean, first, second, product)
    return None


def _uncast(node: Any) -> Any:
    """What was rounded to another floating dtype on the way, or to a wider one."""
    while isinstance(node, Node) and node.target is aten._to_copy.default and node.meta["val"].is_floating_point():
        node = node.args[0]
    return node


def _users(node: Node) -> Iterator[Node]:
    """Those of a node, of its aliases and of its copies: of what is done in place the argument is kept as one."""
    for user in node.users:
        if user.target in (*ALIASES, aten.clone.default):
            yield from _users(user)
        else:
            yield user


def _part(node: Node, number: int) -> Node | None:
    return next((user for user in node.users if user.target is operator.getitem and user.args[1] == number), None)


def _gradient_of(layer: _Layer, grad: Callable[[Any], bool]) -> tuple[Node, Node] | None:
    """The gradients of a layer's function and convolution, where the function's reads the gradient that is meant."""
    op, by_result, numbers = _SLOPES[layer.function]
    read = layer.result if by_result else layer.convolution
    for slope in _users(read):
        if slope.target is not op or not grad(slope.args[0]) or slope.args[2:] != numbers:
            continue
        if uncopied(unaliased(slope.args[1])) is not read:
            continue
        given = (slope, layer.x, layer.weights[0])
        for backward in slope.users:
            if backward.target is aten.convolution_backward.default and backward.args[:3] == given:
                return slope, backward
    return None


def _other(product: Any, factor: Node) -> Any:
    """What a product multiplies this factor by."""
    if not isinstance(product, Node) or product.target is not aten.mul.Tensor or factor not in product.args[:2]:
        return None
    return product.args[0] if product.args[1] is factor else product.args[1]


def _of_mean(block: _Block, part: Node | None) -> Node | None:
    """Where the gradient of the mean is added to that of the product by x, that part being the mean's own."""
    spread = next(iter(part.users), None) if part is not None and len(part.users) == 1 else None
    if spread is None or spread.target is not aten.expand.default or len(spread.users) != 1:
        return None
    share = next(iter(spread.users))
    positions = block.x.meta["val"][0, 0].numel()
    if share.target not in (aten.div.Scalar, aten.div.Tensor) or share.args[1] != positions or len(share.users) != 1:
        return None
    total = next(iter(share.users))
    return total if total.target is aten.add.Tensor and not total.kwargs else None


def _fuse(graph: Graph, block: _Block) -> bool:
    grads: list[Node] = []

    def is_sum(node: Any) -> bool:  # of x times the gradient by the result, which is noted
        total = _uncast(node)
        if not isinstance(total, Node) or total.target is not aten.sum.dim_IntList or total.args[2:] != (True,):
            return False
        dims = {dim % block.x.meta["val"].ndim for dim in total.args[1]}  # type: ignore[union-attr]
        grad = _other(total.args[0], block.x)
        if not isinstance(grad, Node) or dims != {*range(2, block.x.meta["val"].ndim)}:
            return False
        grads[:] = [grad]
        return True

    second = _gradient_of(block.second, is_sum)
    inner = _part(second[1], 0) if second is not None else None
    first = _gradient_of(block.first, lambda node: node is inner) if inner is not None else None
    total = _of_mean(block, _part(first[1], 0)) if first is not None else None
    if first is None or second is None or total is None:
        return False
    (grad,) = grads
    share, direct = total.args[:2]
    if _other(direct, block.second.result) is None:
        share, direct = direct, share
    if _other(direct, block.second.result) is not grad or grad.meta["val"].dtype != block.x.meta["val"].dtype:
        return False
    block.product.target = own.squeeze_excite.default
    block.product.args = (block.x, *block.arguments)
    arguments = (grad, block.x, *block.arguments)
    values = [each.meta["val"] if isinstance(each, Node) else each for each in arguments]
    with graph.inserting_before(second[0]):
        backward = graph.call_function(own.squeeze_excite_backward.default, arguments)
        with values[0].fake_mode:
            made = own.squeeze_excite_backward.default(*values)
        backward.meta.update({**second[1].meta, "val": made})
        parts = [graph.call_function(operator.getitem, (backward, number)) for number in range(5)]
    of_weights = [_part(layer[1], number) for layer in (first, second) for number in (1, 2)]
    for replaced, part, value in zip([total, *of_weights], parts, made, strict=True):
        part.meta.update({**second[1].meta, "val": value})
        if replaced is not None:
            replaced.replace_all_uses_with(part)
    return True


def fuse_squeeze_excite(graph: Graph) -> None:
    """Put the ops in the place of PyTorch's, where both directions are found."""
    found = False
    for node in [*graph.nodes]:
        if node.op == "call_function" and node.target is aten.mul.Tensor and (block := _block(node)) is not None:
            found = _fuse(graph, block) or found
    if found:
        graph.eliminate_dead_code()
