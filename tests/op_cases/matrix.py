"""Matrix products and attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import random_numbers

from .case import Case, into, normal, operands, post_ops

CASES: list[Case] = []
add = into(CASES)

add(
    "linear",
    normal((7, 33), (19, 33), (19,), (7, 19)),
    lambda torch, f, t, a: f.gelu(f.linear(*t[:3]) + t[3]),
    activation="gelu",
)
add("linear", normal((2, 3, 17), (5, 17)), lambda torch, f, t, a: f.linear(*t))
for _steps in (
    "relu, add(residual)",
    "add(residual), silu, scale(0.5)",
    "multiply(gate)",
    "silu, multiply(gate), relu",
    "add(residual), silu, multiply(gate)",
    "multiply(gate), tanh, add(residual)",
):
    add(
        "linear",
        operands(_steps, (7, 19), (7, 33), (19, 33), (19,)),
        lambda torch, f, t, a: post_ops(f, f.linear(*t[:3]), a["post_ops"], t),
        post_ops=_steps,
    )
    add(
        "matmul",
        operands(_steps, (2, 33, 35), (2, 33, 34), (2, 34, 35), (35,)),
        lambda torch, f, t, a: post_ops(f, t[0] @ t[1] + t[2], a["post_ops"], t),
        post_ops=_steps,
    )
add("matmul", normal((17, 23), (23, 19)), lambda torch, f, t, a: torch.matmul(*t))
add("matmul", normal((3, 1, 5, 7), (4, 7, 6)), lambda torch, f, t, a: torch.matmul(*t))
add(
    "matmul", normal((2, 7, 5), (2, 6, 7)), lambda torch, f, t, a: t[0].mT @ t[1].mT, transpose_a=True, transpose_b=True
)
add("matmul", normal((4, 7), (7,)), lambda torch, f, t, a: torch.matmul(*t))

for _shapes in (
    ((2, 3, 5, 7), (2, 3, 7, 6), (6,), (2, 3, 5, 6)),
    ((3, 9, 17), (17, 19), (19,), (3, 9, 19)),
    ((5, 7), (7, 16), (16,), (5, 16)),
):
    add(
        "matmul",
        normal(*_shapes),
        lambda torch, f, t, a: torch.relu(t[0] @ t[1] + t[2] + t[3]),
        activation="relu",
        name=f"residual {_shapes[3]}",
    )
add(
    "matmul",
    lambda rng: [*normal((3, 5, 7), (7,))(rng), None, *normal((3, 5))(rng)],
    lambda torch, f, t, a: t[0] @ t[1] + t[2],
    name="residual of a vector",
)
add(
    "matmul",
    lambda rng: [*normal((7,), (3, 7, 5))(rng), None, *normal((3, 5))(rng)],
    lambda torch, f, t, a: t[0] @ t[1] + t[2],
    name="residual of a row",
)


def few_bits(x: tuple[int, ...], out: int, bits: int, block: int, zero: bool = False, bias: bool = False) -> Any:
    def make(rng: np.random.Generator) -> list[Any]:
        blocks = -(-x[-1] // block)
        weight = rng.integers(0, 256, (out, blocks * block * bits // 8)).astype("u1")
        scale = rng.uniform(0.01, 0.02, (out, blocks)).astype("f4")
        points = rng.integers(0, 1 << bits, (out, blocks)).astype("u1") if zero else None
        return [*normal(x)(rng), weight, scale, points, *(normal((out,))(rng) if bias else [])]

    return make


def with_unpacked(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    bits, block = a.get("bits", 4), a.get("block_size", 32)
    x, weight, scale, *others = t
    zero = next((other for other in others if other.ndim == 2), None)
    bias = next((other for other in others if other.ndim == 1), None)
    planes = [weight.long() >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
    numbers = torch.stack(planes, -1).reshape(*scale.shape, block)
    points = 1 << bits - 1 if zero is None else zero.long()[..., None]
    unpacked = ((numbers - points) * scale[..., None]).flatten(1)[:, : x.shape[-1]]
    return f.linear(x, unpacked, bias)


add("linear_nbits", few_bits((1, 96), 19, 4, 32), with_unpacked)
add("linear_nbits", few_bits((2, 3, 70), 33, 4, 16, True, True), with_unpacked, block_size=16, name="zero points")
add("linear_nbits", few_bits((3, 200), 7, 4, 24, True), with_unpacked, block_size=24, name="blocks of three words")
add("linear_nbits", few_bits((5, 44), 9, 4, 10, True), with_unpacked, block_size=10, name="blocks of five bytes")
add("linear_nbits", few_bits((37, 300), 50, 4, 128), with_unpacked, block_size=128, name="many rows")
add("linear_nbits", few_bits((2, 130), 21, 2, 64, True), with_unpacked, bits=2, block_size=64)
add("linear_nbits", few_bits((9, 77), 18, 8, 16, True, True), with_unpacked, bits=8, block_size=16)
add("linear_nbits", few_bits((4, 65), 5, 8, 32), with_unpacked, bits=8, name="the last block is nearly empty")


def by_groups(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    x, weight, offsets = t
    weight = weight.mT if a.get("transpose_weight") else weight
    parts, begin = [], 0
    for matrix, end in zip(weight, offsets.tolist(), strict=True):
        parts.append(x[begin:end] @ matrix)
        begin = end
    return torch.cat([*parts, x.new_zeros(x.shape[0] - begin, weight.shape[2])])


def grouped(rows: int, weight: tuple[int, ...], offsets: list[int], transposed: bool = False, dtype: str = "i8") -> Any:
    def make(rng: np.random.Generator) -> list[Any]:
        x, matrices = normal((rows, weight[2 if transposed else 1]), weight)(rng)
        return [x, matrices, np.array(offsets, dtype)]

    return make


add("grouped_mm", grouped(37, (5, 33, 19), [9, 9, 10, 31, 37]), by_groups, name="an empty group")
add("grouped_mm", grouped(24, (3, 16, 32), [0, 17, 20], dtype="i4"), by_groups, name="rows in no group")
add("grouped_mm", grouped(2, (8, 20, 48), [0, 0, 0, 1, 1, 1, 2, 2]), by_groups, name="fewer rows than groups")
add("grouped_mm", grouped(5, (2, 3, 2), [5, 5]), by_groups, name="narrow")
add(
    "grouped_mm",
    grouped(300, (4, 67, 40), [7, 287, 287, 300], True),
    by_groups,
    name="a large group",
    transpose_weight=True,
)
add(
    "grouped_mm",
    grouped(9, (3, 19, 33), [4, 5, 9], True, "i4"),
    by_groups,
    name="odd sizes",
    transpose_weight=True,
)


def attention(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    return f.scaled_dot_product_attention(*t[:3], attn_mask=t[3] if len(t) > 3 else None, **a)


def masked(mask_shape: tuple[int, ...], boolean: bool):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        tensors = normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19))(rng)
        mask = rng.standard_normal(mask_shape).astype(np.float32)
        return [*tensors, mask > -1 if boolean else mask]

    return make


def with_lowest(mask: np.ndarray) -> np.ndarray:
    """As exporters hide keys, by the lowest number of f32: some keys, and all of some queries, which count alike."""
    lowest = np.finfo(np.float32).min
    mask[..., 40:] = lowest
    mask[..., 3, :] = mask[..., 5:7, :] = lowest
    return mask


def _hidden_by_lowest(rng: np.random.Generator) -> list[np.ndarray | None]:
    tensors = masked((37, 45), False)(rng)
    return [*tensors[:3], with_lowest(np.zeros((37, 45), np.float32))]


def _by_formula(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """PyTorch's own kernel of a CPU has other weights where all keys of a query are hidden by the lowest number."""
    weights = torch.softmax(t[0] @ t[1].mT * t[0].shape[-1] ** -0.5 + t[3], -1)
    return torch.where(t[3].amax(-1, True) == -torch.inf, 0, weights) @ t[2]  # in f16 that number is minus infinity


_SDPA = "scaled_dot_product_attention"
add(_SDPA, _hidden_by_lowest, _by_formula, name="hidden by the lowest number")
add(_SDPA, normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19)), attention)
add(_SDPA, normal((1, 2, 70, 20), (1, 2, 1100, 20), (1, 2, 1100, 32)), attention, scale=0.7)  # several blocks of keys
add(_SDPA, normal((3, 65, 17), (3, 65, 17), (3, 65, 17)), attention, is_causal=True)
add(_SDPA, normal((2, 2, 3, 5, 7), (2, 2, 3, 9, 7), (2, 2, 3, 9, 1)), attention)
for _shape, _boolean in (((37, 45), False), ((2, 1, 1, 45), False), ((2, 3, 37, 45), True), ((1, 45), True)):
    add(_SDPA, masked(_shape, _boolean), attention, name=f"mask {_shape} {'bool' if _boolean else 'f32'}")


def _rotated(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    x, cos, sin = t
    first, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    if a.get("interleaved"):
        turned = torch.stack([-first[..., 1::2], first[..., ::2]], -1).flatten(-2)
    else:
        low, high = first.chunk(2, -1)
        turned = torch.cat([-high, low], -1)
    return torch.cat([first * cos + turned * sin, rest], -1)


_ROTARY = (
    ("whole pieces", (2, 3, 17, 32), (17, 32), (17, 32)),
    ("the first columns only", (2, 3, 17, 20), (2, 1, 17, 6), (1, 17, 6)),
    ("tables of other ranks", (5, 7, 3), (5, 7, 2), (2,)),
    ("whole pieces, and columns behind them", (2, 3, 5, 24), (5, 16), (5, 16)),
    ("rows named by four numbers", (2, 4, 3, 5, 16), (3, 5, 16), (3, 5, 16)),
)
for _name, *_shapes in _ROTARY:
    add("rotary_embedding", normal(*_shapes), _rotated, name=_name)
    add("rotary_embedding", normal(*_shapes), _rotated, name=f"{_name}, of neighbours", interleaved=True)


def scanned(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    u, delta, rates, taken, given = t
    state, results = torch.zeros(u.shape[0], *rates.shape, dtype=u.dtype), []
    for step in range(u.shape[2]):
        decay = torch.exp(delta[:, :, step, None] * rates)
        state = decay * state + delta[:, :, step, None] * taken[:, None, step] * u[:, :, step, None]
        results.append((state * given[:, None, step]).sum(-1))
    return torch.stack(results, -1)


def decaying(n: int, d: int, steps: int, states: int) -> Any:
    def make(rng: np.random.Generator) -> list[Any]:
        u, taken, given = normal((n, d, steps), (n, steps, states), (n, steps, states))(rng)
        delta = rng.uniform(0.1, 1, (n, d, steps)).astype(np.float32)
        return [u, delta, -rng.uniform(0.1, 2, (d, states)).astype(np.float32), taken, given]

    return make


add("selective_scan", decaying(2, 21, 9, 16), scanned)
add("selective_scan", decaying(1, 48, 5, 3), scanned, name="few states")
add("selective_scan", decaying(3, 1, 1, 1), scanned, name="one channel, one step")
add(_SDPA, normal((2, 6, 37, 16), (2, 2, 45, 16), (2, 2, 45, 19)), attention, enable_gqa=True)
add(
    _SDPA,
    lambda rng: [*normal((2, 4, 45, 16), (2, 1, 45, 16), (2, 1, 45, 8))(rng), rng.standard_normal((1, 1, 1, 45)) > -1],
    lambda torch, f, t, a: f.scaled_dot_product_attention(
        *t[:3], attn_mask=t[3] & torch.ones(45, 45, dtype=torch.bool).tril(), enable_gqa=True
    ),
    name="causal and masked, one head of keys",
    enable_gqa=True,
    is_causal=True,
)


def _lowest_rows(rng: np.random.Generator) -> list[np.ndarray | None]:
    mask = np.where(rng.standard_normal((37, 45)) > 0, 0, np.finfo(np.float32).min).astype(np.float32)
    mask[5] = np.finfo(np.float32).min  # all keys count alike
    return [*normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19))(rng), mask]


add(_SDPA, _lowest_rows, attention, name="mask of the lowest number")


def _with_sinks(mask: tuple[int, ...] | None, sinks: tuple[int, ...], heads: int = 3) -> Any:
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        given: list[np.ndarray | None] = [*normal((2, heads, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19))(rng)]
        given.append(None if mask is None else rng.standard_normal(mask).astype(np.float32))
        return [*given, None, rng.standard_normal(sinks).astype(np.float32) * 3]

    return make


def _beside_sinks(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    q, k, v, mask, sinks = t if len(t) == 5 else (*t[:3], None, t[3])  # what is given
    k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
    scores = q @ k.mT * a.get("scale", q.shape[-1] ** -0.5)
    scores = scores if mask is None else scores + mask
    if a.get("is_causal"):
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    both = torch.cat([scores, sinks.expand(*scores.shape[:-1], 1)], -1)
    return both.softmax(-1)[..., :-1] @ v


add(_SDPA, _with_sinks((37, 45), (3, 1, 1)), _beside_sinks, name="sinks of heads")
add(_SDPA, _with_sinks(None, (2, 1, 37, 1)), _beside_sinks, name="sinks of queries", scale=2.0, is_causal=True)
add(_SDPA, _with_sinks(None, (6, 1, 1), 6), _beside_sinks, name="sinks, shared heads", enable_gqa=True)


def _capped(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    scores = t[0] @ t[1].mT * 3
    scores = 2.5 * torch.tanh(scores / 2.5)
    return torch.softmax(scores if len(t) < 4 else scores + t[3], -1) @ t[2]


add(_SDPA, normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19)), _capped, scale=3.0, softcap=2.5)
add(
    _SDPA,
    normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19), (37, 45)),
    _capped,
    name="softcap before a mask",
    scale=3.0,
    softcap=2.5,
)


def attention_by_formula(torch: Any, qkv: list[Any], a: dict[str, Any], rest: list[Any]) -> Any:
    """PyTorch gives queries that see no key NaN, and draws other numbers. `rest`: of a mask and a seed those given."""
    q, k, v = qkv
    mask, seed = (next((t for t in rest if (t.dtype == torch.int64) == is_seed), None) for is_seed in (False, True))
    if a.get("enable_gqa"):
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ k.mT * a.get("scale", q.shape[-1] ** -0.5)
    if "softcap" in a:
        scores = a["softcap"] * torch.tanh(scores / a["softcap"])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if a.get("is_causal"):
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    weights = torch.where(scores == -torch.inf, 0, (scores - scores.detach().amax(-1, True).clamp(min=-1e300)).exp())
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    if seed is not None:
        weights = random_numbers.dropout(torch, None, [weights, seed], {"p": a["dropout_p"]})
    return weights @ v


Shape = tuple[int, ...]

# Shapes of q, k and v, the seed, whether there is a mask.
DROPPED: list[tuple[Shape, Shape, Shape, tuple[int, ...], bool]] = [
    ((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19), (7,), False),
    ((2, 6, 37, 16), (2, 2, 36, 16), (2, 2, 36, 16), (5, 2**33), False),
    ((2, 2, 70, 32), (2, 2, 61, 32), (2, 2, 61, 32), (-9,), True),
    ((1, 2, 5, 20), (1, 2, 1100, 20), (1, 2, 1100, 32), (7, 3), False),
]


def dropped(q: Shape, k: Shape, v: Shape, seed: tuple[int, ...], mask: bool) -> tuple[str, Any, dict[str, Any]]:
    """Of a case of dropout in attention its name, what makes its tensors, and its attributes."""

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        masks = rng.standard_normal((q[-2], k[-2])) > -1 if mask else None
        return [*normal(q, k, v)(rng), masks, np.array(seed[0] if len(seed) == 1 else seed, "i8")]

    return f"dropout {q} {v} {seed}", make, {"dropout_p": 0.3, "is_causal": not mask, "enable_gqa": q[-3] != k[-3]}


for _case in DROPPED:
    _name, _make, _a = dropped(*_case)
    add(_SDPA, _make, lambda torch, f, t, a: attention_by_formula(torch, t[:3], a, t[3:]), name=_name, **_a)
