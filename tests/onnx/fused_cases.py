"""Nodes of ONNX Runtime's fused ops, and what they compute, in NumPy and float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import onnx.reference
from onnx_cases import ints, positive, randn
from onnx_models import helper, model_of

DOMAIN = "com.microsoft"


@dataclass
class Case:
    """One node; the inputs at `known` are constants in any case."""

    op: str
    inputs: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    known: Sequence[int] = ()
    outputs: Sequence[int] = (0,)
    dtype: str = "float32"

    @property
    def domain(self) -> str:
        return "" if self.op in ("SimplifiedLayerNormalization", "LayerNormalization") else DOMAIN

    def model(self, constant: bool) -> tuple[Any, dict[str, Any]]:
        """With all inputs but the first as constants, or with those alone that have to be; and the arrays to feed."""
        arrays = {f"i{k}": numpy.asarray(x) for k, x in enumerate(self.inputs) if x is not None}
        arrays = {k: x.astype(self.dtype) if x.dtype == numpy.float32 else x for k, x in arrays.items()}
        fixed = {k for k in arrays if int(k[1:]) in self.known or (constant and k != "i0")}
        names = ["" if x is None else f"i{k}" for k, x in enumerate(self.inputs)]
        results = ["" if k not in self.outputs else f"y{k}" for k in range(max(self.outputs) + 1)]
        node = helper.make_node(self.op, names, results, domain=self.domain, **self.attributes)
        weights = {k: x for k, x in arrays.items() if k in fixed}
        feeds = {k: x for k, x in arrays.items() if k not in fixed}
        return model_of([node], feeds, [y for y in results if y], 15, weights, domains={DOMAIN: 1}), feeds

    def wanted(self) -> list[Any]:
        """What is expected; NaN where anything goes."""
        wide = [x.astype("f8") if getattr(x, "dtype", None) == numpy.float32 else x for x in self.inputs]
        made = REFERENCES[self.op](*wide, **self.attributes)
        made = made if isinstance(made, (list, tuple)) else [made]
        return [made[k] for k in self.outputs]

    def __str__(self) -> str:
        shapes = ",".join("none" if x is None else "x".join(map(str, numpy.shape(x))) for x in self.inputs)
        words = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op}-{shapes}-{words}"


REFERENCES: dict[str, Callable[..., Any]] = {}


def of(*ops: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        REFERENCES.update(dict.fromkeys(ops, function))
        return function

    return register


# ---- element by element ----


@of("Gelu", "BiasGelu")
def gelu(x: Any, bias: Any = 0.0) -> Any:
    x = x + bias
    return 0.5 * x * (1 + numpy.vectorize(math.erf)(x / math.sqrt(2)))


@of("FastGelu")
def fast_gelu(x: Any, bias: Any = 0.0) -> Any:
    x = x + bias
    return 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@of("QuickGelu")
def quick_gelu(x: Any, alpha: float = 1.702) -> Any:
    return x / (1 + numpy.exp(-alpha * x))


@of("BiasAdd")
def bias_add(x: Any, bias: Any, skip: Any) -> Any:
    return x + bias + skip


@of("BiasSplitGelu")
def bias_split_gelu(x: Any, bias: Any) -> Any:
    left, right = numpy.split(x + bias, 2, -1)
    return left * gelu(right)


def softmax(x: Any, axes: Any = -1) -> Any:
    powers = numpy.exp(x - x.max(axes, keepdims=True))
    return powers / powers.sum(axes, keepdims=True)


@of("BiasSoftmax")
def bias_softmax(x: Any, bias: Any, axis: int = 1, is_inner_broadcast: int = 0) -> Any:
    return softmax(x + bias, tuple(range(axis, x.ndim)))


@of("Trilu")
def trilu(x: Any, k: Any = 0, upper: int = 1) -> Any:
    return numpy.triu(x, k) if upper else numpy.tril(x, k)


def activated(y: Any, kind: str, numbers: Sequence[float]) -> Any:
    a, b = (*numbers, 0.0, 0.0)[:2]
    functions = {
        "": lambda: y,
        "Relu": lambda: numpy.maximum(y, 0),
        "Sigmoid": lambda: 1 / (1 + numpy.exp(-y)),
        "Tanh": lambda: numpy.tanh(y),
        "LeakyRelu": lambda: numpy.where(y < 0, a * y, y),
        "Elu": lambda: numpy.where(y < 0, a * (numpy.exp(y) - 1), y),
        "Softplus": lambda: numpy.log1p(numpy.exp(y)),
        "Softsign": lambda: y / (1 + abs(y)),
        "Clip": lambda: numpy.clip(y, a, b),
        "HardSigmoid": lambda: numpy.clip(a * y + b, 0, 1),
        "HardSwish": lambda: y * numpy.clip(y / 6 + 0.5, 0, 1),
    }
    return functions[kind]()


# ---- products and convolutions ----


@of("FusedMatMul", "TransposeMatMul")
def fused_matmul(
    a: Any, b: Any, transA: int = 0, transB: int = 0, transBatchA: int = 0, transBatchB: int = 0, alpha: float = 1.0
) -> Any:
    a, b = (numpy.moveaxis(x, 0, -2) if batch else x for x, batch in ((a, transBatchA), (b, transBatchB)))
    a, b = (numpy.swapaxes(x, -1, -2) if turned else x for x, turned in ((a, transA), (b, transB)))
    return alpha * (a @ b)


@of("FusedGemm")
def fused_gemm(
    a: Any,
    b: Any,
    c: Any = 0.0,
    transA: int = 0,
    transB: int = 0,
    alpha: float = 1.0,
    beta: float = 1.0,
    activation: str = "",
    activation_alpha: float = 0.0,
    activation_beta: float = 0.0,
) -> Any:
    y = alpha * ((a.T if transA else a) @ (b.T if transB else b)) + beta * c
    return activated(y, activation, [activation_alpha, activation_beta])


def convolved(x: Any, w: Any, b: Any = None, **attributes: Any) -> Any:
    arrays = {"x": x, "w": w} if b is None else {"x": x, "w": w, "b": b}
    node = helper.make_node("Conv", list(arrays), ["y"], **attributes)
    return onnx.reference.ReferenceEvaluator(model_of([node], arrays, ["y"], 15)).run(None, arrays)[0]


@of("FusedConv")
def fused_conv(
    x: Any, w: Any, b: Any = None, z: Any = 0.0, activation: str = "", activation_params: Any = (), **rest: Any
) -> Any:
    return activated(convolved(x, w, b, **rest) + z, activation, activation_params)


@of("NhwcFusedConv")
def nhwc_fused_conv(x: Any, w: Any, b: Any = None, z: Any = None, **rest: Any) -> Any:
    z = 0.0 if z is None else numpy.moveaxis(z, -1, 1)
    return numpy.moveaxis(fused_conv(numpy.moveaxis(x, -1, 1), w, b, z, **rest), 1, -1)


@of("NhwcConv")
def nhwc_conv(x: Any, w: Any, b: Any = None, **rest: Any) -> Any:
    return nhwc_fused_conv(x, numpy.moveaxis(w, -1, 1), b, **rest)


# ---- norms ----


def layer_normed(x: Any, gamma: Any, beta: Any, eps: float) -> Any:
    y = (x - x.mean(-1, keepdims=True)) / numpy.sqrt(x.var(-1, keepdims=True) + eps) * gamma
    return y if beta is None else y + beta


@of("LayerNormalization")
def layer_normalization(x: Any, gamma: Any, beta: Any, epsilon: float = 1e-5) -> Any:
    return layer_normed(x, gamma, beta, epsilon)


@of("SimplifiedLayerNormalization")
def simplified(x: Any, gamma: Any, epsilon: float = 1e-5, axis: int = -1, stash_type: int = 1) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    inverse = 1 / numpy.sqrt((x * x).mean(axes, keepdims=True) + epsilon)
    return x * inverse * gamma, inverse


@of("SkipLayerNormalization")
def skip_layer_normalization(
    x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, epsilon: float = 1e-12
) -> Any:
    total = x + skip + (0.0 if bias is None else bias)
    return layer_normed(total, gamma, beta, epsilon), None, None, total


@of("SkipSimplifiedLayerNormalization")
def skip_simplified(x: Any, skip: Any, gamma: Any, bias: Any = 0.0, epsilon: float = 1e-12) -> Any:
    total = x + skip + bias
    return simplified(total, gamma, epsilon)[0], None, None, total


@of("EmbedLayerNormalization")
def embed_layer_normalization(
    words: Any,
    segments: Any,
    word: Any,
    position: Any,
    segment: Any,
    gamma: Any,
    beta: Any,
    mask: Any = None,
    places: Any = None,
    epsilon: float = 1e-12,
    mask_index_type: int = 1,
) -> Any:
    total = word[words] + position[numpy.arange(words.shape[1]) if places is None else places]
    total = total if segments is None else total + segment[segments]
    index = numpy.zeros(words.shape[0], "i4") if mask is None else mask.sum(1).astype("i4")
    return layer_normed(total, gamma, beta, epsilon), index, total


@of("GroupNorm")
def group_norm(
    x: Any, gamma: Any, beta: Any, groups: int, activation: int, channels_last: int = 1, epsilon: float = 1e-5
) -> Any:
    x = numpy.moveaxis(x, -1, 1) if channels_last else x
    parts = x.reshape(x.shape[0], groups, -1)
    parts = (parts - parts.mean(2, keepdims=True)) / numpy.sqrt(parts.var(2, keepdims=True) + epsilon)
    y = parts.reshape(x.shape) * gamma.reshape(-1, 1, 1) + beta.reshape(-1, 1, 1)
    y = y / (1 + numpy.exp(-y)) if activation else y
    return numpy.moveaxis(y, 1, -1) if channels_last else y


@of("SkipGroupNorm")
def skip_group_norm(x: Any, gamma: Any, beta: Any, skip: Any, bias: Any = 0.0, **rest: Any) -> Any:
    skip = skip[:, None, None] if skip.ndim == 2 else skip
    return group_norm(x + skip + bias, gamma, beta, **rest), x + skip + bias


# ---- attention ----


def heads(x: Any, count: int) -> Any:
    """(n, l, heads * e) as (n, heads, l, e)."""
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def attended(q: Any, k: Any, v: Any, added: Any, scale: float | None, softcap: float = 0.0, sink: Any = None) -> Any:
    """(n, l, heads * e) of heads, fewer of k and v; `added` to the scores, -infinity where a key is not seen."""
    k, v = (numpy.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * (scale or 1 / math.sqrt(q.shape[3]))
    if softcap:
        scores = softcap * numpy.tanh(scores / softcap)
    scores = scores + added
    if sink is not None:
        more = numpy.broadcast_to(numpy.reshape(sink, (1, -1, 1, 1)), (*scores.shape[:3], 1))
        weights = softmax(numpy.concatenate([scores, more], 3))[..., :-1]
    else:
        weights = softmax(scores)
    y = weights @ v
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def hidden(mask: Any, n: int, keys: int, value: float) -> Any:
    if mask is None:
        return 0.0
    if mask.ndim == 1:
        seen = numpy.arange(keys) < mask[:n, None]
        if len(mask) > n:
            seen &= numpy.arange(keys) >= mask[n:, None]
        seen = seen[:, None, None]
    else:
        seen = mask[:, None, None] > 0 if mask.ndim == 2 else mask[:, None] > 0
    return numpy.where(seen, 0.0, value)


def behind(queries: int, keys: int, first: Any) -> Any:
    """-infinity for keys behind a query, the first of which has place `first`."""
    away = numpy.arange(keys) - numpy.arange(queries)[:, None]
    return numpy.where(away > first, -numpy.inf, 0.0)


@of("Attention")
def attention(
    x: Any,
    w: Any,
    b: Any,
    mask: Any = None,
    past: Any = None,
    bias: Any = None,
    *,
    num_heads: int,
    unidirectional: int = 0,
    mask_filter_value: float = -10000.0,
    scale: float | None = None,
    qkv_hidden_sizes: Any = None,
) -> Any:
    sizes = qkv_hidden_sizes or [w.shape[1] // 3] * 3
    y = x @ w + (0.0 if b is None else b)
    q, k, v = (heads(part, num_heads) for part in numpy.split(y, numpy.cumsum(sizes)[:2], -1))
    before = 0
    if past is not None:
        before = past.shape[3]
        k, v = (numpy.concatenate([p, new], 2) for p, new in zip(past, (k, v), strict=True))
    added = 0.0 if bias is None else bias
    if unidirectional:
        added = added + behind(q.shape[2], k.shape[2], before)
    if mask is None or not (mask.ndim == 2 and mask.shape[1] == 1):
        added = added + hidden(mask, x.shape[0], k.shape[2], mask_filter_value)
    return attended(q, k, v, added, scale), numpy.stack([k, v]) if k.shape == v.shape else None


@of("MultiHeadAttention")
def multi_head_attention(
    q: Any,
    k: Any = None,
    v: Any = None,
    b: Any = None,
    mask: Any = None,
    bias: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    *,
    num_heads: int,
    unidirectional: int = 0,
    mask_filter_value: float = -10000.0,
    scale: float | None = None,
) -> Any:
    if q.ndim == 5:
        q, k, v = (q[:, :, :, i].reshape(*q.shape[:2], -1) for i in range(3))
    elif k.ndim == 5:
        k, v = (k[:, :, :, i].reshape(*k.shape[:2], -1) for i in range(2))
    if b is not None:
        q = q + b[: q.shape[2]]
        if k.ndim == 3:
            k, v = k + b[q.shape[2] : 2 * q.shape[2]], v + b[2 * q.shape[2] :]
    q = heads(q, num_heads)
    k, v = (x if x.ndim == 4 else heads(x, num_heads) for x in (k, v))
    before = 0
    if past_key is not None:
        before = past_key.shape[2]
        k, v = numpy.concatenate([past_key, k], 2), numpy.concatenate([past_value, v], 2)
    added = (0.0 if bias is None else bias) + hidden(mask, q.shape[0], k.shape[2], mask_filter_value)
    if unidirectional:
        added = added + behind(q.shape[2], k.shape[2], before)
    return attended(q, k, v, added, scale), k, v


def rotated(x: Any, cos: Any, sin: Any, places: Any, interleaved: int) -> Any:
    """x (n, heads, l, e), with tables by place and places (n, l)."""
    c, s = cos[places][:, None], sin[places][:, None]
    width = 2 * c.shape[-1]
    y = x.copy()
    first, second = (slice(0, width, 2), slice(1, width, 2)) if interleaved else (
        slice(0, width // 2), slice(width // 2, width)
    )  # fmt: skip
    y[..., first] = x[..., first] * c - x[..., second] * s
    y[..., second] = x[..., second] * c + x[..., first] * s
    return y


@of("RotaryEmbedding")
def rotary_embedding(
    x: Any,
    places: Any,
    cos: Any,
    sin: Any,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    is_packed_batching: int = 0,
    scale: float = 1.0,
) -> Any:
    apart = x if x.ndim == 4 else heads(x, num_heads or x.shape[2] // (2 * cos.shape[1]))
    if places.ndim == 1:
        places = numpy.broadcast_to(places[0] + numpy.arange(apart.shape[2]), (x.shape[0], apart.shape[2]))
    y = rotated(apart, cos, sin, places, interleaved)
    return y if x.ndim == 4 else y.transpose(0, 2, 1, 3).reshape(x.shape)


@of("GroupQueryAttention")
def group_query_attention(
    q: Any,
    k: Any,
    v: Any,
    past_key: Any,
    past_value: Any,
    seqlens: Any,
    total: Any,
    cos: Any = None,
    sin: Any = None,
    places: Any = None,
    bias: Any = None,
    sink: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    q_norm: Any = None,
    k_norm: Any = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    local_window_size: int = -1,
    softcap: float = 0.0,
    scale: float | None = None,
    causal: int = 1,
    smooth_softmax: int = 0,
    qk_norm_epsilon: float = 1e-6,
) -> Any:
    if k is None:
        width = q.shape[2] // (num_heads + 2 * kv_num_heads)
        q, k, v = numpy.split(q, numpy.cumsum([num_heads * width, kv_num_heads * width]), -1)
    q, k, v = heads(q, num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    if q_norm is not None:
        q, k = (simplified(x, norm, qk_norm_epsilon)[0] for x, norm in ((q, q_norm), (k, k_norm)))
    n, steps, room = q.shape[0], q.shape[2], 0 if past_key is None else past_key.shape[2]
    total = int(total)
    size = max(room, total)
    present = [numpy.full((*x.shape[:2], size, x.shape[3]), numpy.nan) for x in (k, v)]
    y = numpy.full((n, steps, num_heads * v.shape[3]), numpy.nan)
    if sink is None and smooth_softmax:
        sink = numpy.zeros(num_heads)
    for i in range(n):
        end = int(seqlens[i]) + 1
        first = 0 if total == steps else end - steps
        count = min(steps, end - first)  # those behind are padding
        at = numpy.arange(first, first + steps)[None]
        if places is not None:  # of a prompt the first one counts
            at = at + places[0, 0] if total == steps else places[i : i + 1]
        one_q, one_k = q[i : i + 1], k[i : i + 1]
        if do_rotary:
            one_q, one_k = (rotated(x, cos, sin, at, rotary_interleaved) for x in (one_q, one_k))
        for whole, past, new in zip(present, (past_key, past_value), (one_k[0], v[i]), strict=True):
            if past is not None:
                whole[i, :, :first] = past[i, :, :first]
            whole[i, :, first:end] = new[:, :count]
        added = numpy.zeros((1, 1, count, end))
        if bias is not None:
            added = added + bias[min(i, len(bias) - 1)][None, :, :count, :end]
        if causal:
            added = added + behind(count, end, first)
            if local_window_size >= 0:
                away = first + numpy.arange(count)[:, None] - numpy.arange(end)
                added = added + numpy.where(away >= local_window_size, -numpy.inf, 0.0)
        keys, values = (whole[i : i + 1, :, :end] for whole in present)
        y[i, :count] = attended(one_q[:, :, :count], keys, values, added, scale, softcap, sink)[0]
    return y, *present


@of("RelativePositionBias")
def relative_position_bias(table: Any, queries: Any, keys: Any, max_distance: int, is_bidirectional: int = 0) -> Any:
    count = table.shape[0] // (2 if is_bidirectional else 1)
    exact = count // 2
    y = numpy.empty((1, table.shape[1], int(queries), int(keys)))
    for i in range(int(queries)):
        for j in range(int(keys)):
            away = abs(j - i) if is_bidirectional else max(i - j, 0)
            bucket = away
            if away >= exact:
                share = math.log2(away / exact) / math.log2(max_distance / exact)
                bucket = min(exact + int(share * (count - exact) + 1e-9), count - 1)
            y[0, :, i, j] = table[bucket + (count if is_bidirectional and j > i else 0)]
    return y


# ---- the cases ----

CASES: list[Case] = []


def case(op: str, *inputs: Any, known: Sequence[int] = (), outputs: Sequence[int] = (0,), **attributes: Any) -> None:
    CASES.append(Case(op, list(inputs), attributes, known, outputs))


def i32(values: Any) -> Any:
    return numpy.asarray(values, "int32")


X = randn(2, 5, 24)
case("Gelu", X)
case("BiasGelu", X, randn(24))
case("FastGelu", X)
case("FastGelu", X, randn(24))
case("QuickGelu", X)
case("QuickGelu", X, alpha=1.0)
case("QuickGelu", X, alpha=0.5)
case("BiasAdd", X, randn(24), randn(2, 5, 24))
case("BiasSplitGelu", X, randn(24))
case("BiasSoftmax", randn(2, 3, 4, 5), randn(2, 1, 1, 5), axis=3, is_inner_broadcast=1)
case("BiasSoftmax", randn(2, 3, 4, 5), randn(4, 5), axis=2, is_inner_broadcast=0)
case("Trilu", randn(4, 6), ints(1), known=(1,))
case("Trilu", randn(2, 4, 6), upper=0)
# ---- products ----
case("FusedMatMul", randn(2, 3, 4), randn(2, 4, 5), alpha=0.25)
case("FusedMatMul", randn(2, 4, 3), randn(2, 5, 4), alpha=2.0, transA=1, transB=1)
case("FusedMatMul", randn(3, 4), randn(5, 4), transB=1)
case("FusedMatMul", randn(6, 4), randn(6, 5), transA=1, alpha=0.5)
case("FusedMatMul", randn(7, 2, 4), randn(2, 4, 5), transBatchA=1)
case("FusedMatMul", randn(2, 7, 4), randn(4, 2, 5), transBatchB=1)
case("FusedMatMul", randn(4, 2, 7), randn(5, 2, 4), transBatchA=1, transBatchB=1, transA=1, transB=1)
case("FusedMatMul", randn(7, 2, 3, 4), randn(2, 3, 4, 5), transBatchA=1, alpha=3.0)
case("TransposeMatMul", randn(2, 4, 3), randn(2, 4, 5), transA=1, alpha=0.5)
case("FusedGemm", randn(3, 4), randn(4, 5), randn(5), activation="Relu")
case("FusedGemm", randn(4, 3), randn(5, 4), randn(5), transA=1, transB=1, alpha=0.5, beta=2.0, activation="Tanh")
for kind, numbers in (("LeakyRelu", (0.2,)), ("Elu", (0.7,)), ("HardSigmoid", (0.3, 0.4)), ("Sigmoid", ()),
                      ("Softplus", ()), ("Softsign", ())):  # fmt: skip
    words = dict(zip(("activation_alpha", "activation_beta"), numbers, strict=False))
    case("FusedGemm", randn(3, 4), randn(4, 5), randn(3, 1), activation=kind, **words)
# ---- convolutions ----
IMAGE, W = randn(1, 4, 7, 6), randn(6, 4, 3, 3)
for kind, numbers in (("Relu", ()), ("Sigmoid", ()), ("Tanh", ()), ("LeakyRelu", (0.1,)), ("Clip", (-0.5, 1.5)),
                      ("HardSigmoid", (0.2, 0.6)), ("HardSigmoid", (1 / 6, 0.5)),
                      ("HardSwish", ())):  # fmt: skip
    words = {"activation_params": list(numbers)} if numbers else {}
    case("FusedConv", IMAGE, W, randn(6), activation=kind, pads=[1, 1, 1, 1], strides=[2, 2], **words)
case("FusedConv", IMAGE, randn(4, 1, 3, 3), activation="Relu", group=4, dilations=[2, 1])
case("FusedConv", IMAGE, W, randn(6), randn(1, 6, 7, 6), activation="Relu", auto_pad="SAME_UPPER")
case("FusedConv", IMAGE, W, None, randn(1, 6, 5, 4))
case("NhwcFusedConv", randn(1, 7, 6, 4), W, randn(6), randn(1, 7, 6, 6), activation="Relu", pads=[1, 1, 1, 1])
case("NhwcFusedConv", randn(1, 7, 6, 4), W)
case("NhwcConv", randn(2, 7, 6, 4), randn(6, 3, 3, 4), randn(6), pads=[1, 0, 1, 0], strides=[1, 2])
case("NhwcConv", randn(2, 7, 6, 4), randn(4, 3, 3, 1), group=4)
# ---- norms ----
case("LayerNormalization", X, positive(24), randn(24))
case("SimplifiedLayerNormalization", X, positive(24), epsilon=1e-6, stash_type=1, axis=-1)
case("SimplifiedLayerNormalization", X, positive(5, 24), axis=1, outputs=(0, 1))
case("SkipLayerNormalization", X, randn(2, 5, 24), positive(24), randn(24), randn(24), outputs=(0, 3))
case("SkipLayerNormalization", X, randn(2, 5, 24), positive(24), epsilon=1e-2)
case("SkipLayerNormalization", X, randn(1, 5, 24), positive(24), randn(24), outputs=(0, 3))
case("SkipLayerNormalization", X, randn(5, 24), positive(24), randn(24))
case("SkipSimplifiedLayerNormalization", X, randn(2, 5, 24), positive(24), randn(24), outputs=(0, 3), epsilon=1e-5)
case("SkipSimplifiedLayerNormalization", randn(5, 24), randn(5, 24), positive(24))
WORDS, KINDS = i32([[3, 1, 4, 1], [5, 9, 2, 6]]), i32([[0, 0, 1, 1], [0, 1, 1, 1]])
TABLES = (randn(10, 8), randn(6, 8), randn(2, 8), positive(8), randn(8))
case("EmbedLayerNormalization", WORDS, KINDS, *TABLES, i32([[1, 1, 1, 0], [1, 1, 0, 0]]), outputs=(0, 1, 2))
case("EmbedLayerNormalization", WORDS, KINDS, *TABLES, outputs=(0, 1))
case(
    "EmbedLayerNormalization",
    WORDS,
    None,
    *TABLES[:2],
    None,
    *TABLES[3:],
    None,
    i32([[2, 3, 4, 5]]),
    epsilon=1e-3,
    outputs=(0, 1),
)
case("EmbedLayerNormalization", WORDS, KINDS, *TABLES, None, i32([[2, 3, 4, 5], [0, 2, 1, 0]]), outputs=(0, 2))
SHINY = [positive(6), randn(6)]
case("GroupNorm", randn(2, 4, 5, 6), *SHINY, groups=3, activation=1)
case("GroupNorm", randn(2, 4, 5, 6), *SHINY, groups=2, activation=0, epsilon=1e-2)
case("GroupNorm", randn(2, 6, 4, 5), *SHINY, groups=3, activation=1, channels_last=0)
case("SkipGroupNorm", randn(2, 4, 5, 6), *SHINY, randn(2, 4, 5, 6), randn(6), groups=3, activation=1, outputs=(0, 1))
case("SkipGroupNorm", randn(2, 4, 5, 6), *SHINY, randn(2, 6), groups=3, activation=0)
case("SkipGroupNorm", randn(2, 4, 5, 6), *SHINY, randn(2, 1, 1, 6), randn(6), groups=2, activation=0)
# ---- attention ----
# Where all keys of a query are hidden, what is added shows in the roundings.
LITTLE = {"num_heads": 3, "mask_filter_value": -100.0}
QKV = (randn(2, 5, 16), randn(16, 36), randn(36))
case("Attention", *QKV, num_heads=3)
case("Attention", *QKV[:2], None, num_heads=3, scale=0.5)
case("Attention", *QKV, i32([3, 5]), num_heads=3)
case("Attention", *QKV, i32([3, 5, 0, 2]), num_heads=3)
case("Attention", *QKV, i32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]), num_heads=3, mask_filter_value=-3.4e38)
case("Attention", *QKV, i32([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]), outputs=(0, 1), **LITTLE, unidirectional=1)
case("Attention", *QKV, i32([[0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]), **LITTLE)
case("Attention", *QKV, i32(positive(2, 5, 5) > 0.8), num_heads=3)
case("Attention", *QKV, i32([[1], [1]]), num_heads=3, unidirectional=1)
case("Attention", *QKV, None, None, randn(2, 3, 5, 5), num_heads=3)
case("Attention", *QKV, i32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]), None, randn(1, 3, 5, 5), num_heads=3, unidirectional=1)
case("Attention", QKV[0], randn(16, 30), randn(30), num_heads=3, qkv_hidden_sizes=[12, 12, 6])
PAST = randn(2, 2, 3, 4, 4)
case("Attention", *QKV, None, PAST, num_heads=3, unidirectional=1, outputs=(0, 1))
case(
    "Attention", *QKV, i32(numpy.arange(18).reshape(2, 9) % 4 > 0), PAST, num_heads=3, unidirectional=1, outputs=(0, 1)
)
case("Attention", *QKV, None, PAST, randn(1, 1, 5, 9), num_heads=3, outputs=(0, 1))
case("Attention", randn(2, 1, 16), *QKV[1:], None, PAST, num_heads=3, unidirectional=1, outputs=(0, 1))
Q, K, V = randn(2, 5, 12), randn(2, 7, 12), randn(2, 7, 18)
case("MultiHeadAttention", Q, K, V, num_heads=3)
case("MultiHeadAttention", Q, K, V, randn(42), num_heads=3, scale=0.3)
case("MultiHeadAttention", Q, K, V, None, i32([3, 6]), num_heads=3)
case("MultiHeadAttention", Q, K, V, None, i32(numpy.arange(14).reshape(2, 7) % 3 > 0), num_heads=3)
case("MultiHeadAttention", Q, K, V, None, i32(positive(2, 5, 7) > 0.8), num_heads=3)
case("MultiHeadAttention", Q, K, V, None, None, randn(2, 3, 5, 7), num_heads=3)
case("MultiHeadAttention", Q, K, V, None, None, randn(1, 1, 5, 7), num_heads=3)
case("MultiHeadAttention", Q, Q, randn(2, 5, 18), randn(42), num_heads=3, unidirectional=1, outputs=(0, 1, 2))
PASTS = (randn(2, 3, 4, 4), randn(2, 3, 4, 4))
SELF = (Q, randn(2, 5, 12), randn(2, 5, 12))
case("MultiHeadAttention", *SELF, randn(36), None, None, *PASTS, num_heads=3, outputs=(0, 1, 2))
case(
    "MultiHeadAttention", *SELF, None, None, randn(1, 3, 5, 9), *PASTS, num_heads=3, unidirectional=1, outputs=(0, 1, 2)
)
case(
    "MultiHeadAttention",
    *SELF,
    None,
    i32(numpy.arange(18).reshape(2, 9) % 4 > 0),
    None,
    *PASTS,
    num_heads=3,
    outputs=(0, 1, 2),
)
case("MultiHeadAttention", Q, randn(2, 3, 7, 4), randn(2, 3, 7, 4), num_heads=3)
case("MultiHeadAttention", Q, randn(2, 3, 7, 4), randn(2, 3, 7, 4), randn(36), num_heads=3)
case("MultiHeadAttention", randn(2, 5, 3, 3, 4), num_heads=3)
case("MultiHeadAttention", Q, randn(2, 7, 3, 2, 4), num_heads=3)
COS, SIN = (
    function(numpy.arange(20)[:, None] * [1.0, 0.3, 0.1, 0.03]).astype("f4") for function in (numpy.cos, numpy.sin)
)
PLACES = ints([[3, 4, 5, 6, 7], [0, 2, 4, 9, 1]])
for flag in (0, 1):
    case("RotaryEmbedding", X, PLACES, COS, SIN, interleaved=flag)
    case("RotaryEmbedding", X, ints([3]), COS, SIN, interleaved=flag)
    case("RotaryEmbedding", randn(2, 3, 5, 8), PLACES, COS, SIN, interleaved=flag)
    case("RotaryEmbedding", randn(2, 5, 24), PLACES, COS, SIN, interleaved=flag, num_heads=2, rotary_embedding_dim=8)
case("RotaryEmbedding", X, PLACES, COS, SIN, is_packed_batching=1)

WIDE = [numpy.concatenate([table, table[:, ::-1]], 1) for table in (COS, SIN)]


def group(
    n: int, steps: int, ends: Sequence[int], total: int, room: int | None = None, packed: bool = False,
    more: Sequence[Any] = (), **attributes: Any,
) -> None:  # fmt: skip
    """Four heads of queries of width 16, two of keys; `room` places of the past."""
    q = [randn(n, steps, 128), None, None] if packed else [randn(n, steps, width) for width in (64, 32, 32)]
    past = [None, None] if room is None else [randn(n, 2, room, 16), randn(n, 2, room, 16)]
    inputs = [*q, *past, i32(ends) - 1, i32(total), *WIDE, *more]
    known = (6, 11) if steps == 1 and not packed else (6,)
    words = {"num_heads": 4, "kv_num_heads": 2, **attributes}
    CASES.append(Case("GroupQueryAttention", inputs, words, known, (0, 1, 2)))


for rotary in (0, 1):
    group(1, 5, [5], 5, do_rotary=rotary)
    group(1, 5, [5], 5, 0, do_rotary=rotary)
    group(1, 1, [8], 8, 7, do_rotary=rotary)
    group(1, 3, [8], 8, 5, do_rotary=rotary)
    group(1, 1, [6], 6, 12, do_rotary=rotary)
    group(1, 3, [6], 6, 12, do_rotary=rotary)
    group(1, 5, [5], 5, 12, do_rotary=rotary)
    group(3, 5, [5, 3, 4], 5, 0, do_rotary=rotary)
    group(3, 5, [5, 3, 4], 5, 12, do_rotary=rotary)
    group(3, 1, [6, 4, 5], 6, 5, do_rotary=rotary)
    group(3, 1, [6, 4, 5], 6, 12, do_rotary=rotary)
group(2, 5, [5, 5], 5, packed=True, do_rotary=1, rotary_interleaved=1)
group(1, 3, [8], 8, 5, packed=True, do_rotary=1, scale=0.5)
group(1, 3, [8], 8, 5, do_rotary=1, more=[ints([[4, 7, 9]])])
group(2, 1, [6, 4], 6, 12, do_rotary=1, more=[ints([[7], [2]])])
group(2, 5, [5, 5], 5, do_rotary=1, more=[PLACES])
for ends, total, room in (([5, 5], 5, 0), ([5, 5], 5, 8)):
    group(2, 5, ends, total, room, local_window_size=3)
group(1, 3, [9], 9, 6, local_window_size=4, do_rotary=1)
group(2, 1, [9, 7], 9, 12, local_window_size=4)
group(1, 5, [5], 5, softcap=1.5)
group(1, 1, [8], 8, 7, softcap=0.5, scale=1.0)
group(1, 5, [5], 5, smooth_softmax=1)
group(1, 1, [8], 8, 7, smooth_softmax=1)
group(2, 1, [8, 6], 8, 12, smooth_softmax=1, softcap=2.0)
group(1, 5, [5], 5, more=[None, None, randn(4)])
group(2, 1, [8, 6], 8, 12, more=[None, None, randn(4)], local_window_size=3)
group(1, 3, [8], 8, 5, more=[None, randn(1, 4, 3, 8)])
group(1, 3, [8], 8, 12, more=[None, randn(1, 1, 3, 8)])
group(2, 5, [5, 5], 5, more=[None, randn(2, 4, 5, 5)], softcap=1.0)
group(2, 5, [5, 5], 5, more=[None, randn(2, 4, 5, 5), randn(4)])
group(1, 5, [5], 5, causal=0)
group(2, 1, [8, 6], 8, 12, causal=0)
group(1, 3, [8], 8, 12, causal=0)
group(1, 5, [5], 5, do_rotary=1, more=[None] * 5 + [positive(16), positive(16)])
for both in (0, 1):
    table = randn(16 * (1 + both), 3)
    case(
        "RelativePositionBias",
        table,
        numpy.int64(70),
        numpy.int64(70),
        known=(1, 2),
        max_distance=64,
        is_bidirectional=both,
    )
