"""Attention by ONNX Runtime: ops of its domain com.microsoft around products of queries, keys and values.

They become `scaled_dot_product_attention` and `rotary_embedding`, views, and one concat of past and new keys, which
lets plans keep them in memory with room for more (docs/howto/sizes-known-late.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from ...errors import ShapeError, UnsupportedError
from ...sizes import is_late
from ...value import Value
from ..node import Node, dtype_text
from ..operand import Known, Operand, Result
from ..registry import converter
from .fused import DOMAIN
from .math import cast


def _without(node: Node, **inputs: int) -> None:
    """Refuses inputs that are not understood."""
    for name, at in inputs.items():
        if node.has(at):
            raise UnsupportedError(f"input {at} ({name}) is given, expected none")


def _off(node: Node, *names: str) -> None:
    """Refuses attributes that switch on what is not understood."""
    for name in names:
        if node.integer(name, 0):
            raise UnsupportedError(f"attribute {name} is {node.integer(name)}, expected 0")


def _rank(node: Node, at: int, name: str, *ranks: int) -> Operand:
    """An input of one of these ranks."""
    x = node.x(at)
    if x.ndim not in ranks:
        raise ShapeError(f"{name} has shape {list(x.shape)}, expected rank {' or '.join(map(str, ranks))}")
    return x


# ---- heads ----


def _heads(node: Node, x: Operand, count: int) -> Operand:
    """(n, l, heads * e) as (n, heads, l, e)."""
    n, length, width = x.shape
    if count < 1 or width % count:
        raise ShapeError(f"{width} columns do not split into {count} heads")
    made: Operand = node.op("permute", node.op("reshape", x, [n, length, count, width // count]), [0, 2, 1, 3])
    return made


def _side_by_side(node: Node, x: Operand) -> Operand:
    """(n, heads, l, e) as (n, l, heads * e)."""
    n, count, length, width = x.shape
    made: Operand = node.op("reshape", node.op("permute", x, [0, 2, 1, 3]), [n, length, count * width])
    return made


def _parts(node: Node, x: Operand, sizes: Sequence[int], dim: int, what: str) -> list[Operand]:
    """Consecutive parts along a dimension."""
    if sum(sizes) != x.shape[dim]:
        raise ShapeError(f"{what} has size {x.shape[dim]}, expected the sum of {list(sizes)}")
    made, first = [], 0
    for size in sizes:
        made.append(node.op("slice", x, [first], [first + size], [dim]))
        first += size
    return made


def _at(node: Node, x: Operand, index: int, dim: int) -> Operand:
    """One place of a dimension, which goes."""
    part = node.op("slice", x, [index], [index + 1], [dim])
    made: Operand = node.op("reshape", part, [*x.shape[:dim], *x.shape[dim + 1 :]])
    return made


# ---- what is done to the scores ----


@dataclass
class _Scores:
    """Scores (n, heads, queries, keys): which keys are seen, where all have to agree, and what is added."""

    node: Node
    n: Any
    queries: Any
    keys: Any
    seen: list[Operand] = field(default_factory=list)
    added: list[Operand] = field(default_factory=list)
    causal: bool = False  # query i sees keys 0 to i

    def see_before(self, first: Any, window: int = -1) -> None:
        """Query i has place first + i, and sees keys up to there, of which `window` at most.

        `first` is a number, a size, or a tensor (n, 1, 1, 1).
        """
        node = self.node
        if isinstance(first, int) and first == 0 and window < 0:
            self.causal = True
            return
        place = first if isinstance(first, (Known, Value)) else Known.of_sizes(first)
        away = node.diagonals(self.queries, self.keys)
        self.seen.append(node.op("le", away, place))
        if window >= 0:
            near = node.op("gt", node.op("add", away, node.constant(window, "int64")), place)
            self.seen.append(near)

    def hide(self, mask: Operand, value: float) -> None:
        """Adds a number to the scores of keys that are padding, in all forms that the ops say so in."""
        node, keys = self.node, self.keys
        if mask.ndim == 1:
            if mask.shape[0] not in (self.n, 2 * self.n):
                raise UnsupportedError(
                    f"the mask has shape {list(mask.shape)}, expected ends, or ends and starts, of {self.n} sequences"
                )
            places = node.op("reshape", node.arange(0, keys), [1, 1, 1, keys])
            limits = cast(node, mask, "s64")
            both = mask.shape[0] != self.n
            ends = node.op("slice", limits, [0], [self.n], [0]) if both else limits
            seen = node.op("lt", places, node.op("reshape", ends, [self.n, 1, 1, 1]))
            if both:
                starts = node.op("slice", limits, [self.n], [2 * self.n], [0])
                late = node.op("ge", places, node.op("reshape", starts, [self.n, 1, 1, 1]))
                seen = node.op("logical_and", seen, late)
        elif mask.ndim in (2, 3):
            rows = [1, 1] if mask.ndim == 2 else [1, mask.shape[1]]
            seen = node.op("gt", mask, node.scalar_like(0, mask))
            seen = node.op("reshape", seen, [mask.shape[0], *rows, mask.shape[-1]])
        else:
            raise UnsupportedError(f"the mask has rank {mask.ndim}, expected 1 to 3")
        zero, hidden = node.constant(0, "float32"), node.constant(value, "float32")
        self.added.append(node.op("where", seen, zero, hidden))

    def mask(self, like: Operand) -> Operand | None:
        """One mask: bool, or in the dtype of `like` where something is added."""
        node = self.node
        seen: Operand | None = None
        for part in self.seen:
            seen = part if seen is None else node.op("logical_and", seen, part)
        total: Operand | None = None
        for part in self.added:
            part = cast(node, part, dtype_text(like))
            total = part if total is None else node.op("add", total, part)
        if total is None or seen is None:
            return seen if total is None else total
        made: Operand = node.op("where", seen, total, node.scalar_like(-numpy.inf, like))
        return made

    def attention(self, q: Operand, k: Operand, v: Operand, softcap: float = 0.0) -> Operand:
        """(n, queries, heads * ev) of queries, keys and values (n, heads, l, e)."""
        node = self.node
        scale = node.number("scale", 0.0)
        y: Operand = node.op(
            "scaled_dot_product_attention",
            q,
            k,
            v,
            attn_mask=self.mask(q),
            scale=scale or None,
            is_causal=self.causal,
            enable_gqa=q.shape[1] != k.shape[1],
            softcap=softcap or None,
        )
        return _side_by_side(node, y)

    def with_sink(self, k: Operand, v: Operand, sink: Operand | None) -> tuple[Operand, Operand]:
        """Keys and values with one more, of zeros, whose score is 0, or the head's in `sink`."""
        node, n, heads = self.node, self.n, k.shape[1]
        zero = node.scalar_like(0, k)
        if self.causal:
            self.causal = False
            self.seen.append(node.op("le", node.diagonals(self.queries, self.keys), node.constant(0, "int64")))
        if not self.added:
            self.added.append(zero)
        mask = self.mask(k)
        assert mask is not None
        images, rows = (mask.shape[0] if mask.ndim == 4 else 1), self.queries
        count = 1 if sink is None else sink.shape[0]
        if sink is None and mask.ndim == 4:
            count = mask.shape[1]
        mask = node.op("expand", mask, [images, count, rows, self.keys])
        own = zero if sink is None else node.op("reshape", cast(node, sink, dtype_text(k)), [1, count, 1, 1])
        self.seen, self.added = [], [node.op("concat", [mask, node.op("expand", own, [images, count, rows, 1])], 3)]
        more = [node.op("expand", zero, [n, heads, 1, x.shape[3]]) for x in (k, v)]
        return node.op("concat", [k, more[0]], 2), node.op("concat", [v, more[1]], 2)


# ---- rotary embeddings ----


def _rows(node: Node, table: Operand, first: Any, steps: Any, places: Operand | None) -> Operand:
    """Of a table of cosines or sines the rows of places (n, steps), or from `first` on, as (n, 1, steps, columns)."""
    if table.ndim != 2:
        raise ShapeError(f"cos_cache or sin_cache has rank {table.ndim}, expected 2")
    rows: Operand
    if places is None and not is_late(first):
        rows = node.op("slice", table, [first], [first + steps], [0])
        return node.broadcastable(rows, (1, 1, steps, table.shape[1]))
    if places is None:  # a constant that follows from sizes: of a past that grows it becomes an input
        places = node.op("reshape", node.arange(first, first + steps), [1, steps])
    rows = node.op("index_select", table, 0, places)
    return node.broadcastable(rows, (places.shape[0], 1, steps, table.shape[1]))


def _rotated(node: Node, x: Operand, cosines: Operand, sines: Operand, interleaved: bool) -> Operand:
    """x (n, heads, l, e) with its first columns turned, two for each column of the tables."""
    width, half = x.shape[3], cosines.shape[3]
    if 2 * half > width or sines.shape[3] != half:
        raise ShapeError(
            f"cos_cache has {half} columns and sin_cache {sines.shape[3]}, expected the same and at most {width // 2}"
        )

    def of_pairs(table: Operand) -> Operand:
        """A column of the table for each column of a pair."""
        if not interleaved:
            made: Operand = node.op("concat", [table, table], 3)
            return made
        apart = node.op("unsqueeze", table, 4)
        made = node.op("reshape", node.op("concat", [apart, apart], 4), [*table.shape[:3], 2 * half])
        return made

    made: Operand = node.op("rotary_embedding", x, of_pairs(cosines), of_pairs(sines), interleaved)
    return made


@converter("RotaryEmbedding", domain=DOMAIN, note="scale 1")
def rotary_embedding(node: Node) -> Result:
    x, places = _rank(node, 0, "input", 3, 4), _rank(node, 1, "position_ids", 1, 2)
    if node.number("scale", 1.0) != 1:
        raise UnsupportedError(f"attribute scale is {node.number('scale')}, expected 1")
    node.ignore("is_packed_batching", "rotary_embedding_dim")  # tables say how many columns are turned
    count, interleaved = node.integer("num_heads", 0), bool(node.integer("interleaved", 0))
    apart = x
    if x.ndim == 3:
        count = count or x.shape[2] // max(2 * node.x(2).shape[1], 1)
        apart = _heads(node, x, count)
    steps, first, rows = apart.shape[2], 0, None
    if places.ndim == 2:
        rows = places
    elif isinstance(places, Known):
        first = node.size_at(1)
    else:
        rows = node.op("reshape", node.op("add", cast(node, places, "s64"), node.arange(0, steps)), [1, steps])
    tables = [_rows(node, node.x(at), first, steps, rows) for at in (2, 3)]
    y = _rotated(node, apart, tables[0], tables[1], interleaved)
    if x.ndim == 4:
        return y
    return _side_by_side(node, y)


# ---- attention ----


@converter("Attention", domain=DOMAIN, note="no do_rotary, no past_present_share_buffer, masks of rank 1 to 3")
def attention(node: Node) -> Result:
    x, weight = _rank(node, 0, "input", 3), _rank(node, 1, "weights", 2)
    _off(node, "do_rotary", "past_present_share_buffer")
    _without(node, past_sequence_length=6)
    node.ignore("rotary_embedding_dim")
    count, value = node.integer("num_heads"), node.number("mask_filter_value", -10000.0)
    n, steps, _ = x.shape
    sizes = node.integers("qkv_hidden_sizes", None) or [weight.shape[1] // 3] * 3
    if len(sizes) != 3:
        raise ShapeError(f"attribute qkv_hidden_sizes has {len(sizes)} values, expected 3")
    products = node.op("matmul", x, weight, node.optional(2))
    q, k, v = (_heads(node, part, count) for part in _parts(node, products, sizes, 2, "weights"))
    past, before = node.optional(4), 0
    present = None
    if past is not None or node.wants(1):
        shape = [1, *k.shape]
        present = node.op("concat", [node.op("reshape", part, shape) for part in (k, v)], 0)
    if past is not None:
        before = _rank(node, 4, "past", 5).shape[3]
        present = node.op("concat", [past, present], 3)
        k, v = _at(node, present, 0, 0), _at(node, present, 1, 0)
    scores = _Scores(node, n, steps, before + steps)
    if node.integer("unidirectional", 0):
        scores.see_before(before)
    if node.has(3):
        mask = node.x(3)
        alone = mask.ndim == 2 and isinstance(mask.shape[1], int) and mask.shape[1] == 1
        if not alone or not (scores.causal or scores.seen):  # a causal one may come with a mask of one column: none
            scores.hide(mask, value)
    if node.has(5):
        scores.added.append(_rank(node, 5, "attention_bias", 4))
    return [scores.attention(q, k, v), present]


def _separate(node: Node) -> tuple[Operand, Operand | None, Operand | None]:
    """Queries, keys and values (n, l, heads * e) of a MultiHeadAttention, whichever of them are packed."""
    q = _rank(node, 0, "query", 3, 5)
    if q.ndim == 5:  # (n, l, heads, 3, e)
        _without(node, key=1, value=2)
        return _taken(node, q, 0), _taken(node, q, 1), _taken(node, q, 2)
    k = _rank(node, 1, "key", 3, 4, 5)
    if k.ndim == 5:  # (n, l, heads, 2, e)
        _without(node, value=2)
        return q, _taken(node, k, 0), _taken(node, k, 1)
    return q, k, _rank(node, 2, "value", k.ndim)


def _taken(node: Node, x: Operand, index: int) -> Operand:
    n, length, count, _, width = x.shape
    made: Operand = node.op("reshape", _at(node, x, index, 3), [n, length, count * width])
    return made


@converter("MultiHeadAttention", domain=DOMAIN, note="no past_sequence_length, cache_indirection and qk")
def multi_head_attention(node: Node) -> Result:
    _without(node, past_sequence_length=8, cache_indirection=9)
    count, value = node.integer("num_heads"), node.number("mask_filter_value", -10000.0)
    q, k, v = _separate(node)
    assert k is not None and v is not None
    own = k.ndim == 4  # keys and values (n, heads, l, e), which have their bias
    if node.has(3):
        bias = _rank(node, 3, "bias", 1)
        widths = [q.shape[2]] * 2 + [v.shape[1] * v.shape[3] if own else v.shape[2]]
        parts = _parts(node, bias, widths, 0, "bias")
        q = node.op("add", q, parts[0])
        if not own:
            k, v = node.op("add", k, parts[1]), node.op("add", v, parts[2])
    q = _heads(node, q, count)
    if not own:
        k, v = _heads(node, k, count), _heads(node, v, count)
    before = 0
    if node.has(6):
        past = _rank(node, 6, "past_key", 4)
        before = past.shape[2]
        k = node.op("concat", [past, k], 2)
        v = node.op("concat", [_rank(node, 7, "past_value", 4), v], 2)
    scores = _Scores(node, q.shape[0], q.shape[2], k.shape[2])
    if node.integer("unidirectional", 0):
        scores.see_before(before)
    if node.has(4):
        scores.hide(node.x(4), value)
    if node.has(5):
        scores.added.append(_rank(node, 5, "attention_bias", 4))
    return [scores.attention(q, k, v), k, v]


_GROUP_NOTE = (
    "keys and values of floating-point numbers; no sliding_window_cache, qk_output and query_seqlens; "
    "total_sequence_length known; with one sequence seqlens_k is taken to be total_sequence_length - 1"
)


@converter("GroupQueryAttention", domain=DOMAIN, note=_GROUP_NOTE)
def group_query_attention(node: Node) -> Result:
    _off(node, "sliding_window_cache", "qk_output")
    _without(node, k_scale=12, v_scale=13, query_seqlens=16)
    for name in ("k_quant_type", "v_quant_type"):
        node.text(name, "NONE", ("NONE",))
    node.ignore("kv_cache_bit_width")
    count, groups = node.integer("num_heads"), node.integer("kv_num_heads")
    window, softcap = node.integer("local_window_size", -1), node.number("softcap", 0.0)
    q = _rank(node, 0, "query", 3)
    if node.has(1):
        k, v = _rank(node, 1, "key", 3), _rank(node, 2, "value", 3)
    else:
        each = q.shape[2] // (count + 2 * groups)
        q, k, v = _parts(node, q, [count * each, groups * each, groups * each], 2, "query")
    n, steps, _ = q.shape
    q, k, v = _heads(node, q, count), _heads(node, k, groups), _heads(node, v, groups)
    if node.has(14) or node.has(15):
        q, k = _normed(node, q, 14, "q_norm_epsilon"), _normed(node, k, 15, "k_norm_epsilon")
    node.ignore("qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon")
    cache = _Cache.of(node, n, steps)
    if node.integer("do_rotary", 0):
        places, first = node.optional(9), cache.first
        if places is not None and cache.total == steps:  # of a prompt the first one counts
            corner = node.op("slice", _rank(node, 9, "position_ids", 2), [0, 0], [1, 1], [0, 1])
            places = node.op("add", corner, node.op("reshape", node.arange(0, steps), [1, steps]))
        elif places is None and isinstance(first, (Known, Value)):
            places = node.op("add", node.op("reshape", first, [n, 1]), node.arange(0, steps))
        tables = [_rows(node, node.x(at), first, steps, places) for at in (7, 8)]
        interleaved = bool(node.integer("rotary_interleaved", 0))
        q, k = (_rotated(node, part, tables[0], tables[1], interleaved) for part in (q, k))
    node.ignore("rotary_interleaved")
    k, v = cache.joined(node, k, 3), cache.joined(node, v, 4)
    scores = _Scores(node, n, steps, k.shape[2])
    if node.integer("causal", 1):
        scores.see_before(_column(node, cache.first, n), window)
    elif window >= 0:
        raise UnsupportedError(f"attribute local_window_size is {window}, expected -1 with causal 0")
    elif not cache.full:
        last = cache.first + steps if not isinstance(cache.first, (Known, Value)) else None
        end = Known.of_sizes(last) if last is not None else _plus(node, _column(node, cache.first, n), steps)
        scores.seen.append(node.op("lt", node.op("reshape", node.arange(0, k.shape[2]), [1, 1, 1, k.shape[2]]), end))
    if node.has(10):
        bias = _rank(node, 10, "attention_bias", 4)
        scores.added.append(node.op("pad", bias, [0, k.shape[2] - cache.total]) if cache.is_buffer else bias)
    keys, values = k, v
    if node.has(11) or node.integer("smooth_softmax", 0) == 1:
        keys, values = scores.with_sink(k, v, node.optional(11))
    return [scores.attention(q, keys, values, softcap), k, v]


def _normed(node: Node, x: Operand, at: int, name: str) -> Operand:
    eps = node.number(name, None)
    eps = node.number("qk_norm_epsilon", 1e-6) if eps is None else eps
    made: Operand = node.op("rms_norm", x, [x.shape[3]], node.x(at), eps=eps)
    return made


def _column(node: Node, first: Any, n: Any) -> Any:
    """Places of sequences so that they broadcast with scores."""
    return node.op("reshape", first, [n, 1, 1, 1]) if isinstance(first, (Known, Value)) else first


def _plus(node: Node, x: Operand, size: Any) -> Operand:
    made: Operand = node.op("add", x, Known.of_sizes(size))
    return made


@dataclass
class _Cache:
    """Where the new keys and values of a GroupQueryAttention go."""

    first: Any  # the place of the first one: a number, a size, or a tensor (n) where sequences differ
    total: Any  # places of the longest sequence with the new ones
    is_buffer: bool  # the past has room for them: they are written into it, else joined to it
    full: bool  # no sequence has fewer places than there are keys

    @staticmethod
    def of(node: Node, n: Any, steps: Any) -> _Cache:
        room = _rank(node, 3, "past_key", 4).shape[2] if node.has(3) else 0
        total = node.size_at(6)
        joins = bool(total == room + steps)
        if not joins and not (total <= room):
            raise ShapeError(
                f"total_sequence_length is {total}, expected that of past_key and query together, {room + steps}, "
                f"or no more than that of past_key"
            )
        # Of one sequence the longest is that one; of several each says how many places it has.
        if n == 1:
            return _Cache(room if joins else total - steps, total, not joins, joins)
        if total == steps:
            return _Cache(0, total, not joins, joins)
        ends = cast(node, node.op("reshape", node.x(5), [n]), "s64")
        first = node.op("add", ends, Known.of_sizes(1 - steps))
        return _Cache(first, total, not joins, False)

    def joined(self, node: Node, new: Operand, at: int) -> Operand:
        """Past (input `at`) and new keys or values."""
        past = node.optional(at)
        if past is None:
            return new
        whole: Operand = past if self.is_buffer else node.op("concat", [past, new], 2)
        if self.full:
            return whole
        where = self.first if isinstance(self.first, (Known, Value)) else Known.of_sizes(self.first)
        written: Operand = node.op("tensor_scatter", whole, new, where, dim=2)
        return written
