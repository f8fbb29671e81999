"""Attention that a model spells as products and a softmax, made one op for training; heads that it repeats, kept.

A plan recognises the spelling where it only runs forward. In training the weights are kept for backward, which reads
them in four places: so it is found in the graph that dynamo traces, before PyTorch derives it.
"""

from __future__ import annotations

import inspect
import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node

from .attention import attend

__all__ = ["fuse_spelled_attention", "traced_value"]

functional = torch.nn.functional

_PRODUCTS = (operator.matmul, torch.matmul, torch.bmm, "matmul", "bmm")
_SUMS = (operator.add, operator.iadd, torch.add, "add", "add_")
_FACTORS = (operator.mul, operator.imul, torch.mul, torch.multiply, "mul", "mul_")
_DIVISORS = (operator.truediv, operator.itruediv, torch.div, torch.true_divide, "div", "div_")
_SOFTMAX = (functional.softmax, torch.softmax, "softmax")
_FILLED = (torch.masked_fill, "masked_fill", "masked_fill_")
_CHOSEN = (torch.where, "where")
_COPIES = (torch.clone, "clone", "detach")
_CASTS = ("to", "type", "type_as", "float", "half", "bfloat16")
_ABSORBING = -1e8  # of a score of f32 that is added to a lower number nothing is left

Operand = tuple[Any, list[int]]  # a tensor of the graph, and how its dimensions are permuted


@dataclass
class _Found:
    """softmax(scale * q @ k^T + masks) @ v, with dropout of the softmax."""

    v: Operand
    result: list[int]  # how the product's dimensions are permuted
    q: Operand | None = None
    k: Operand | None = None
    scale: float = 1.0
    p: float = 0.0
    masks: list[Any] = field(default_factory=list)  # as of attend(), from the softmax back to the product
    chain: list[Node] = field(default_factory=list)  # what is no longer computed


def _is(node: Any, targets: tuple[Any, ...]) -> bool:
    return isinstance(node, Node) and node.op in ("call_function", "call_method") and node.target in targets


def traced_value(node: Any) -> Any:
    """The tensor that dynamo traced a node with; None where it is none."""
    value = node.meta.get("example_value") if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _shape(node: Any) -> Any:
    value = traced_value(node)
    return None if value is None else tuple(value.shape)


def _argument(node: Node, place: int, name: str, default: Any = None) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def _number(value: Any) -> float | None:
    """A number, or what makes a tensor of it alone."""
    if _is(value, (torch.full,)) and list(value.args[0]) == []:
        value = _argument(value, 1, "fill_value")
    elif _is(value, (torch.tensor,)):
        value = value.args[0]
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _product(node: Any, last: bool) -> tuple[Operand, Operand, list[int]] | None:
    """The operands of a product of stacks of matrices, and how the result (..., m, n) is permuted.

    (..., m, k) and, of the `last` product, (..., k, n), else (..., n, k).
    """
    if _is(node, _PRODUCTS) and len(node.args) == 2:
        a, b = (traced_value(each) for each in node.args)
        if a is None or b is None or a.ndim != b.ndim or a.ndim < 3:
            return None
        if a.shape[:-2] != b.shape[:-2] and not (a.ndim == 4 and a.shape[0] == b.shape[0] and b.shape[1] == 1):
            return None  # but for heads that share one of k and v
        dims = [*range(a.ndim)]
        swapped = [*dims[:-2], dims[-1], dims[-2]]
        return (node.args[0], dims), (node.args[1], dims if last else swapped), dims
    if not _is(node, (torch.einsum,)) or len(node.args) != 3 or not isinstance(node.args[0], str):
        return None
    sides, _, made = node.args[0].replace(" ", "").partition("->")
    a, _, b = sides.partition(",")
    batch = [letter for letter in made if letter in a and letter in b]
    inner = [letter for letter in a if letter in b and letter not in made]
    rows = [letter for letter in made if letter in a and letter not in b]
    columns = [letter for letter in made if letter in b and letter not in a]
    if not batch or not len(inner) == len(rows) == len(columns) == 1 or not made.isalpha():
        return None
    if not len(a) == len(b) == len(made) == len(batch) + 2:
        return None
    right = [*batch, *inner, *columns] if last else [*batch, *columns, *inner]
    plain = [*batch, *rows, *columns]
    return (
        (node.args[1], [a.index(letter) for letter in [*batch, *rows, *inner]]),
        (node.args[2], [b.index(letter) for letter in right]),
        [plain.index(letter) for letter in made],
    )


def _is_absorbing(number: float | None) -> bool:
    return number is not None and number <= _ABSORBING


def _before(found: _Found, node: Any) -> Any:
    """The node, if nothing else reads it but copies that nobody reads, noted as one that goes."""
    if not isinstance(node, Node) or sum(bool(user.users) or not _is(user, _COPIES) for user in node.users) != 1:
        return None
    found.chain.append(node)
    return node


def _weights(found: _Found, node: Any) -> Any:
    """From what is multiplied by v back to the scores."""
    node = _before(found, node)
    while _is(node, (*_CASTS, functional.dropout, "contiguous")):
        if node.target is functional.dropout:
            if found.p or not isinstance(p := _argument(node, 1, "p", 0.5), (int, float)):
                return None
            found.p = float(p) if _argument(node, 2, "training", True) else 0.0
        node = _before(found, node.args[0])
    if not _is(node, _SOFTMAX) or traced_value(node) is None:
        return None
    if _argument(node, 1, "dim") not in (-1, traced_value(node).ndim - 1):
        return None
    return node.args[0]


def _scores(found: _Found, node: Any) -> bool:
    """From the scores back to the product, over masks, then factors."""
    while (node := _before(found, node)) is not None:
        shape = _shape(node)
        if _is(node, _CASTS):
            scores = node.args[0]
        elif _is(node, _CHOSEN) and len(node.args) == 3:
            mask, scores = node.args[:2]
            number = _number(node.args[2])
            if found.scale != 1 or traced_value(mask) is None or _shape(scores) != shape or not _is_absorbing(number):
                return False
            found.masks.append((mask, number, True))
        elif _is(node, _SUMS) and len(node.args) == 2 and not node.kwargs:
            scores, mask = node.args if _shape(node.args[0]) == shape else reversed(node.args)
            if found.scale != 1 or traced_value(mask) is None or _shape(scores) != shape:
                return False
            found.masks.append((mask, None, True))
        elif _is(node, _FILLED):
            scores, mask, number = node.args[0], _argument(node, 1, "mask"), _number(_argument(node, 2, "value"))
            if found.scale != 1 or traced_value(mask) is None or not _is_absorbing(number):
                return False
            found.masks.append((mask, number, False))
        elif _is(node, _FACTORS) or _is(node, _DIVISORS):
            number = _number(node.args[1])
            if number is None and _is(node, _FACTORS):
                number, scores = _number(node.args[0]), node.args[1]
            else:
                scores = node.args[0]
            if not number:
                return False
            found.scale *= number if _is(node, _FACTORS) else 1 / number
        elif _is(node, (torch.baddbmm,)) and len(node.args) == 3 and not node.kwargs and found.scale == 1:
            found.masks.append((node.args[0], None, True))
            return _is_product(found, node, node.args[1:])
        else:
            return _is_product(found, node, None)
        node = scores
    return False


def _is_product(found: _Found, node: Node, operands: Any) -> bool:
    if operands is not None:  # of matrices, as bmm
        found.q, found.k = (operands[0], [0, 1, 2]), (operands[1], [0, 2, 1])
        return True
    product = _product(node, last=False)
    if product is None or product[2] != sorted(product[2]):
        return False
    found.q, found.k, _ = product
    return True


def _match(node: Node) -> _Found | None:
    last = _product(node, last=True)
    if last is None:
        return None
    found = _Found(last[1], last[2])
    weights, dims = last[0]
    if dims != sorted(dims) or not _scores(found, _weights(found, weights)):
        return None
    assert found.q is not None and found.k is not None
    tensors = [traced_value(operand[0]) for operand in (found.q, found.k, found.v)]
    derives = all(value is not None and value.dtype.is_floating_point for value in tensors) and any(
        value.requires_grad for value in tensors
    )
    masks = [traced_value(mask) for mask, _, _ in found.masks]
    kept = all(mask is not None and not mask.requires_grad for mask in masks)
    return found if derives and kept else None


def _ask_for_no_weights(node: Node) -> None:
    """Of `nn.MultiheadAttention` whose weights nobody reads: asked for, they are spelled."""
    if node.target is functional.multi_head_attention_forward and all(
        user.target is operator.getitem and user.args[1] == 0 for user in node.users
    ):
        given = inspect.signature(functional.multi_head_attention_forward).bind(*node.args, **node.kwargs)
        given.arguments["need_weights"] = False
        node.args, node.kwargs = given.args, given.kwargs


def _kept_heads(node: Any) -> Any:
    """Of keys or values whose heads a model repeats for groups of queries, (n, heads, s, e), those that it repeats."""
    if _is(node, ("repeat_interleave", torch.repeat_interleave)):
        source, count, dim = node.args[0], _argument(node, 1, "repeats"), _argument(node, 2, "dim")
        known = _shape(source)
        return source if isinstance(count, int) and dim == 1 and known and len(known) == 4 else None
    if not _is(node, ("reshape", "view", torch.reshape)) or not _is(node.args[0], ("expand", "expand_as")):
        return None
    repeated = node.args[0]
    apart = repeated.args[0]
    if not _is(apart, (operator.getitem, "unsqueeze", torch.unsqueeze)):
        return None
    source = apart.args[0]
    shapes = [_shape(each) for each in (source, apart, repeated, node)]
    if any(shape is None for shape in shapes) or len(shapes[0]) != 4 or len(shapes[2]) != 5:
        return None
    n, heads, s, e = shapes[0]
    count = shapes[2][2]
    fits = shapes[1:] == [(n, heads, 1, s, e), (n, heads, count, s, e), (n, heads * count, s, e)]
    return source if fits else None


def _share_heads(node: Node) -> None:
    """Of PyTorch's op where gradients go through it: it reads heads that are repeated as they were before."""
    if not _is(node, (functional.scaled_dot_product_attention,)) or len(node.args) < 3:
        return
    q, k, v = node.args[:3]
    kept, values = _kept_heads(k), _kept_heads(v)
    if kept is None or values is None or node.kwargs.get("enable_gqa"):
        return
    shapes = [_shape(each) for each in (q, kept, values)]
    if any(shape is None for shape in shapes) or shapes[1][1] != shapes[2][1] or shapes[0][1] % shapes[1][1]:
        return
    if any(traced_value(each).requires_grad for each in (q, kept, values)):
        node.args = (q, kept, values, *node.args[3:])
        node.kwargs = {**node.kwargs, "enable_gqa": True}


def fuse_spelled_attention(graph: Graph, fallback_random: bool) -> None:
    """Replace it where gradients go through it; not where it drops weights by eager mode's numbers."""
    for node in [*graph.nodes]:
        _ask_for_no_weights(node)
        _share_heads(node)
        found = _match(node)
        if found is None or (found.p and fallback_random):
            continue
        with graph.inserting_before(node):

            def seen(operand: Operand | None) -> Any:
                assert operand is not None
                value, dims = operand
                return value if dims == sorted(dims) else graph.call_method("permute", (value, dims))

            given = (seen(found.q), seen(found.k), seen(found.v), found.masks, found.p, found.scale)
            made = graph.call_function(attend, given)
            if found.result != sorted(found.result):
                made = graph.call_method("permute", (made, found.result))
        made.meta = {**node.meta}
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        for gone in found.chain:
            if not gone.users:
                graph.erase_node(gone)
