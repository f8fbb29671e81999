"""Passes through Python and the C ABI; what each pass does is tested in tests/c/test_passes.cpp."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pylayout as pl


def unit() -> pl.Graph:
    rng = np.random.default_rng(1)
    g = pl.Graph({"n": 1})
    x = g.input("x", ("n", 4, 6, 6))
    y = g.conv2d(x, rng.standard_normal((4, 4, 3, 3)).astype(np.float32), padding=1)
    y = g.batch_norm(y, np.zeros(4, np.float32), np.ones(4, np.float32))
    g.output(g.relu(g.add(y, x)), "y")
    return g


def names(graph: pl.Graph) -> list[str]:
    return [node["op"] for node in graph.describe()["nodes"]]


def test_simplify() -> None:
    g = unit()
    simple = g.simplify()
    assert names(g) == ["conv2d", "batch_norm", "add", "relu"]  # the graph itself stays
    assert names(simple) == ["conv2d"]
    node = simple.describe()["nodes"][0]
    assert node["attributes"]["post_ops"] == "add(residual), relu"
    assert node["inputs"][3] == "x"
    assert simple.rewrites["fold_batch_norm"] == 1
    assert simple.rewrites["fold_constants"] == 0
    assert simple.outputs["y"].shape == (1, 4, 6, 6)
    assert names(simple.simplify()) == ["conv2d"]


def test_without_a_pass() -> None:
    g = unit().bind(n=3)
    assert names(g.simplify(["fuse_post_ops"])) == ["conv2d", "add", "relu"]
    assert names(g.simplify(list(g.simplify().rewrites))) == names(g)
    with pytest.raises(pl.InvalidArgumentError, match='no pass "fuse"'):
        g.simplify(["fuse"])
    with pytest.raises(TypeError):
        g.simplify(["a\0b"])


def test_every_pass_is_documented_in_order() -> None:
    page = Path(__file__).parents[1] / "docs" / "reference" / "passes.md"
    if not page.exists():
        pytest.skip("only the package is here, not its documentation")
    assert re.findall(r"^\| `(\w+)` \|", page.read_text(), re.M) == list(unit().simplify().rewrites)


FOLDED: dict[str, tuple[str, float, Callable[[pl.Graph, Any, np.ndarray], Any]]] = {
    "batch norm": ("f16", 1e-4, lambda g, x, w: g.batch_norm(g.conv2d(x, w), *statistics(1e-6), eps=0.0)),
    "mean of batch norm": ("f16", 1e-2, lambda g, x, w: g.batch_norm(g.conv2d(x, w), *statistics(1e-6, 66), eps=0.0)),
    "large factor": ("f16", 1e-4, lambda g, x, w: g.mul(g.conv2d(x, w), np.array(1000, np.float16))),
    "small factor": ("f16", 1e4, lambda g, x, w: g.conv2d(g.mul(x, np.array(2**-23, np.float16)), w)),
    "quotient by 0": ("f32", 1, lambda g, x, w: g.div(g.conv2d(x, w), np.array(0, np.float32))),
    "factor of infinity": ("f32", 1, lambda g, x, w: g.mul(g.conv2d(x, w), np.array(np.inf, np.float32))),
}


def statistics(variance: float, mean: float = 0) -> tuple[np.ndarray, np.ndarray]:
    return np.full(4, mean, np.float16), np.full(4, variance, np.float16)


@pytest.mark.parametrize("case", FOLDED)
def test_weights_that_the_dtype_does_not_hold_stay_apart(
    case: str, device: str, rng: np.random.Generator, unoptimised: None
) -> None:
    dtype, magnitude, build = FOLDED[case]
    kind = np.float16 if dtype == "f16" else np.float32
    g = pl.Graph()
    x = g.input("x", (2, 4, 3, 3), dtype=dtype)
    g.output(build(g, x, (rng.standard_normal((4, 4, 1, 1)) * 100).astype(kind)), "y")
    simple = g.simplify()
    assert len(names(simple)) == 2
    given = (rng.standard_normal((2, 4, 3, 3)) * magnitude).astype(kind)
    found = pl.compile(g, device=device, tune="off").run(given)[0]
    apart = pl.compile(g, device=device, tune="off", without=list(simple.rewrites)).run(given)[0]
    np.testing.assert_allclose(np.asarray(found), np.asarray(apart), rtol=2e-3)
