"""Passes through Python and the C ABI; what each pass does is tested in tests/c/test_passes.cpp."""

from __future__ import annotations

import re
from pathlib import Path

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
