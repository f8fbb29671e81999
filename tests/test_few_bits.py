"""linear_nbits in plans: kept where a device has a kernel for it, floats elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pylayout as pl

N, K, BLOCK = 96, 320, 32


def weights(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    blocks = K // BLOCK
    packed = rng.integers(0, 256, (N, K // 2)).astype("u1")
    scale = rng.uniform(0.01, 0.02, (N, blocks)).astype("f4")
    return packed, scale, rng.integers(0, 16, (N, blocks)).astype("u1")


def unpacked(packed: Any, scale: Any, zero: Any) -> Any:
    numbers = np.stack([packed & 15, packed >> 4], -1).reshape(N, -1, BLOCK)
    return ((numbers - zero[..., None].astype("f8")) * scale[..., None]).reshape(N, K)


def graph_of(rng: np.random.Generator, rows: Any = 3) -> tuple[pl.Graph, Any]:
    graph = pl.Graph(sizes={"rows": 3})
    given = weights(rng)
    x = graph.input("x", (rows, K))
    graph.output(graph.linear_nbits(x, *(graph.constant(array) for array in given)), "y")
    return graph, unpacked(*given)


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_every_device_agrees(device: str, rows: int) -> None:
    rng = np.random.default_rng(rows)
    graph, weight = graph_of(rng, rows)
    plan = pl.compile(graph, device=device, tune="off")
    ops = {choice["op"] for choice in plan.summary()["choices"]}
    assert ("linear_nbits" in ops) == (device == "cpu")
    x = rng.standard_normal((rows, K)).astype("f4")
    np.testing.assert_allclose(plan.run(x)[0], x.astype("f8") @ weight.T, rtol=1e-4, atol=1e-4)


def test_one_plan_for_any_number_of_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    graph, weight = graph_of(rng, "rows")
    made = pl.compile(graph, device="cpu", tune="off")
    made.save(str(tmp_path / "bits.plan"))
    assert (tmp_path / "bits.plan").stat().st_size < 2 * N * K  # not floats
    for plan in (made, pl.load_plan(str(tmp_path / "bits.plan"))):
        for rows in (1, 2, 5, 33, 600, 1):
            x = rng.standard_normal((rows, K)).astype("f4")
            np.testing.assert_allclose(plan.run(x)[0], x.astype("f8") @ weight.T, rtol=1e-4, atol=1e-4)
