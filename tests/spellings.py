"""What tests of spellings share: graphs of known sizes, and whether a plan computes what a graph spells."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import pylayout as pl

N, HEADS, LENGTH, KEYS, WIDTH = 2, 4, 9, 9, 8

Value = Any  # a value of a graph


def number(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def inputs_of(graph: pl.Graph, rng: np.random.Generator, shown: list[bool]) -> list[np.ndarray]:
    """Random ones; the padding shows keys in turn in image 0, those in image 1 as `shown` says."""
    values = []
    for name, value in graph.inputs.items():
        if name == "padding":
            values.append(np.stack([np.arange(KEYS) % 2 == 0, np.resize(shown, KEYS)]))
        else:
            values.append(rng.standard_normal(value.shape).astype(np.float32))
    return values


def names(graph: pl.Graph) -> Counter[str]:
    return Counter(node["op"] for node in graph.describe()["nodes"])


def agrees(graph: pl.Graph, rng: np.random.Generator) -> None:
    """The plan of the graph computes what the graph as it is spelled does, and zeros where that gives no numbers."""
    every = list(graph.simplify().rewrites)
    spelled = pl.compile(graph, device="cpu", tune="off", without=every)
    found = pl.compile(graph, device="cpu", tune="off")
    for shown in ([True, True, False], [True], [False]):
        values = inputs_of(graph, rng, shown)
        expected = np.nan_to_num(np.asarray(spelled.run(*values)[0]), nan=0)
        np.testing.assert_allclose(np.asarray(found.run(*values)[0]), expected, rtol=1e-4, atol=2e-6)
