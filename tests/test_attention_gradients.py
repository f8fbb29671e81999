"""Attention's gradients at the sizes that networks have, on every device, against float64 in NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import pylayout as pl

pytestmark = pytest.mark.usefixtures("untuned")

Array = np.ndarray[Any, Any]


class Sizes(NamedTuple):
    """Of q, of k and of v as (n, heads, rows, columns); `mask`: None, "keys" by sample or "bias" by head."""

    q: tuple[int, int, int, int]
    k: tuple[int, int, int, int]
    v: tuple[int, int, int, int]
    mask: str | None = None
    attributes: dict[str, Any] = {}  # noqa: RUF012


def alike(n: int, heads: int, rows: int, columns: int, mask: str | None = None, **attributes: Any) -> Sizes:
    shape = (n, heads, rows, columns)
    return Sizes(shape, shape, shape, mask, attributes)


NETWORKS = {
    "vit": alike(1, 12, 197, 64),
    "gpt2": alike(1, 12, 256, 64, is_causal=True),
    "bert": alike(2, 12, 128, 64, "keys"),
    "swin": alike(8, 3, 49, 32, "bias"),
    "detr": Sizes((2, 8, 100, 32), (2, 8, 333, 32), (2, 8, 333, 32), "keys"),
    "llama": Sizes((1, 32, 128, 64), (1, 8, 128, 64), (1, 8, 128, 64), None, {"is_causal": True, "enable_gqa": True}),
    "mistral": Sizes((1, 8, 96, 128), (1, 2, 96, 128), (1, 2, 96, 128), "keys", {"enable_gqa": True}),
    "gemma2": Sizes(
        (1, 4, 96, 256), (1, 2, 96, 256), (1, 2, 96, 256), None,
        {"is_causal": True, "enable_gqa": True, "softcap": 50.0},
    ),
}  # fmt: skip
# What results may differ by, as a part of the largest: products of numbers with 24, 11, 11 and 8 bits.
ALLOWED = {"fp32": 2e-5, "tf32": 4e-3, "f16": 4e-3, "bf16": 3e-2}


def inputs_of(sizes: Sizes, rng: np.random.Generator) -> tuple[list[Array], Array | None]:
    """q, k, v and the gradient of the result, and a mask."""
    result = (*sizes.q[:3], sizes.v[3])
    arrays = [rng.standard_normal(shape).astype("f4") for shape in (sizes.q, sizes.k, sizes.v, result)]
    n, heads, rows, keys = *sizes.q[:3], sizes.k[2]
    if sizes.mask == "keys":  # the last sample is shorter; each sees its first key
        ends = np.linspace(keys, keys // 2, n).astype(int)
        return arrays, (np.arange(keys) < ends[:, None])[:, None, None, :]
    if sizes.mask == "bias":
        return arrays, rng.standard_normal((n, heads, rows, keys)).astype("f4")
    return arrays, None


def by_numpy(sizes: Sizes, arrays: list[Array], mask: Array | None) -> list[Array]:
    q, k, v, grad = (a.astype("f8") for a in arrays)
    shared = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, shared, 1), np.repeat(v, shared, 1)
    scale, softcap = q.shape[-1] ** -0.5, sizes.attributes.get("softcap")
    scores = q @ k.swapaxes(-1, -2) * scale
    slope: Array | float = 1.0
    if softcap:
        bent = np.tanh(scores / softcap)
        scores, slope = softcap * bent, 1 - bent * bent
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if sizes.attributes.get("is_causal"):
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    of_p = grad @ v.swapaxes(-1, -2)
    of_scores = scale * slope * p * (of_p - (p * of_p).sum(-1, keepdims=True))

    def of_shared(gradient: Array) -> Array:
        n, heads, rows, columns = gradient.shape
        return gradient.reshape(n, heads // shared, shared, rows, columns).sum(2)

    return [of_scores @ k, of_shared(of_scores.swapaxes(-1, -2) @ q), of_shared(p.swapaxes(-1, -2) @ grad)]


@pytest.mark.parametrize("swapped", [False, True], ids=["heads", "rows"])
@pytest.mark.parametrize("math", ALLOWED)
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_at_the_sizes_of_networks(
    name: str, math: str, swapped: bool, device: str, rng: np.random.Generator
) -> None:
    """`swapped`: as networks have them, (n, rows, heads, columns), and turned around in the graph."""
    types = {each.name: each.capabilities.get("type") for each in pl.devices()}
    if types[device] == "cpu":
        pytest.skip("minutes of a kernel that no GPU takes; tests/c has its cases")
    sizes = NETWORKS[name]
    arrays, mask = inputs_of(sizes, rng)
    narrow = math if math in ("f16", "bf16") else None
    tensors = [pl.asarray(a).to(dtype=narrow) if narrow else pl.asarray(a) for a in arrays]
    exact = [np.asarray(t.to(dtype="f32")) for t in tensors]
    order = [0, 2, 1, 3]
    graph = pl.Graph()
    values = []
    for each, tensor in zip("qkvg", tensors, strict=True):
        shape = [tensor.shape[d] for d in order] if swapped else tensor.shape
        value = graph.input(each, shape, dtype=tensor.dtype)
        values.append(graph.permute(value, order) if swapped else value)
    more = {}
    if mask is not None:
        if mask.dtype != bool and narrow:
            narrow_mask = pl.asarray(mask).to(dtype=narrow)
            mask = np.asarray(narrow_mask.to(dtype="f32"))
            more["attn_mask"] = graph.constant(narrow_mask)
        else:
            more["attn_mask"] = graph.constant(mask)
    made = graph.op("scaled_dot_product_attention_backward", *values, **more, **sizes.attributes)
    for gradient in made:
        graph.output(graph.permute(gradient, order) if swapped else gradient)
    plan = pl.compile(graph, device=device, math="fp32" if narrow else math, tune="off")
    given = [np.ascontiguousarray(e.transpose(order)) if swapped else e for e in exact]
    found = plan.run(*(pl.asarray(g).to(dtype=narrow) if narrow else g for g in given))
    for what, got, want in zip(("dq", "dk", "dv"), found, by_numpy(sizes, exact, mask), strict=True):
        result = np.asarray(pl.asarray(got).to(dtype="f32")).astype("f8")
        result = result.transpose(order) if swapped else result
        largest = float(np.abs(want).max())
        norm = float(np.linalg.norm(result - want) / np.linalg.norm(want))
        print(f"{what}: {np.abs(result - want).max() / largest:.1e} of the largest, {norm:.1e} of the norm")
        np.testing.assert_allclose(result, want, rtol=0, atol=ALLOWED[math] * largest, err_msg=what)
