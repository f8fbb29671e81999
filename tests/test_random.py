"""Random numbers: the generator itself, the same numbers everywhere, and their statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from random_numbers import distance, known_words, moments, philox

import pylayout as pl
from pylayout import ops

COUNT = 200_000


@pytest.mark.parametrize("counter, key, words", known_words())
def test_words_are_those_that_the_authors_publish(counter: int, key: int, words: list[int]) -> None:
    assert philox(counter, key) == words


def seeded(device: str, *seed: int) -> pl.Tensor:
    return pl.asarray(np.array(seed, "i8"), device=device)


def drawn(name: str, device: str = "cpu", *seed: int, **attributes: Any) -> np.ndarray:
    return np.asarray(getattr(ops, name)(seeded(device, *(seed or (11,))), **attributes))


def test_the_op_gives_words(device: str) -> None:
    made = drawn("random_integers", device, 0, shape=4, high=2**32 - 1)
    assert made.tolist() == known_words()[0][2]
    last = drawn("random_integers", device, -1, 2**63 - 1, shape=4, high=2**32 - 1)
    assert last.tolist() == philox(2**63 - 1, 2**64 - 1)


def test_a_second_element_of_the_seed_continues(device: str) -> None:
    whole = drawn("random_uniform", device, 5, shape=100)
    assert np.array_equal(drawn("random_uniform", device, 5, 10, shape=60), whole[40:])


CALLS: list[tuple[str, dict[str, Any], bool]] = [  # and whether bits are equal on all devices
    ("random_uniform", {"low": -0.3, "high": 1.7}, True),
    ("random_uniform", {"dtype": "f16", "low": 1.0, "high": 2.0}, True),
    ("random_uniform", {"dtype": "bf16"}, True),
    ("random_bernoulli", {"p": 0.37}, True),
    ("random_integers", {"low": -(2**40), "high": 2**41}, True),
    ("random_integers", {"low": -5, "high": 5, "dtype": "f32"}, True),
    ("random_normal", {"mean": 1.0, "std": 2.0}, False),
    ("random_exponential", {"rate": 3.0}, False),
]


@pytest.mark.parametrize("name, attributes, equal", CALLS)
def test_devices_give_the_same_numbers(name: str, attributes: dict[str, Any], equal: bool, device: str) -> None:
    here = drawn(name, shape=(3, 1000), **attributes)
    there = drawn(name, device, shape=(3, 1000), **attributes)
    if equal:
        assert np.array_equal(here, there)
    else:
        np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-5)


def uniform_below(x: np.ndarray) -> np.ndarray:
    return np.clip(x, 0, 1)


def normal_below(x: np.ndarray) -> np.ndarray:
    return np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x])


def exponential_below(x: np.ndarray) -> np.ndarray:
    return 1 - np.exp(-x)


# Mean, variance, skewness, excess. The estimates of COUNT numbers are off by some 1/sqrt(COUNT) times what is given.
DISTRIBUTIONS = {
    "random_uniform": (uniform_below, (1 / 2, 1 / 12, 0, -1.2), (0.3, 0.08, 1.2, 1.0)),
    "random_normal": (normal_below, (0, 1, 0, 0), (1, 1.5, 2.5, 5)),
    "random_exponential": (exponential_below, (1, 1, 2, 6), (1, 3, 20, 150)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("seed", [0, 1, -(2**40)])
def test_moments_and_distribution(name: str, seed: int) -> None:
    below, wanted, spread = DISTRIBUTIONS[name]
    values = drawn(name, "cpu", seed, shape=COUNT)
    for found, there, off in zip(moments(values), wanted, spread, strict=True):
        assert abs(found - there) < 4.5 * off / math.sqrt(COUNT)
    assert distance(values, below) < 2.3
    # Neighbours, the elements of a counter and of the next one have nothing in common.
    standard = (values - values.mean()) / values.std()
    for lag in (1, 2, 3, 4, 5, 1000):
        assert abs(float((standard[lag:] * standard[:-lag]).mean())) < 4.5 / math.sqrt(COUNT)


def test_seeds_have_nothing_in_common() -> None:
    first, second = (drawn("random_normal", "cpu", seed, shape=COUNT) for seed in (1, 2))
    assert abs(float((first * second).mean())) < 4.5 / math.sqrt(COUNT)


def chi_squared(counts: np.ndarray, expected: float) -> float:
    """In standard deviations from what is expected of it."""
    freedom = len(counts) - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom))


@pytest.mark.parametrize("high", [1, 6, 255, 999])
def test_integers_are_as_frequent_as_each_other(high: int) -> None:
    values = drawn("random_integers", shape=COUNT, high=high)
    counts = np.bincount(values, minlength=high + 1)
    assert len(counts) == high + 1
    assert abs(chi_squared(counts, COUNT / (high + 1))) < 4.5


def test_bernoulli_is_as_frequent_as_asked() -> None:
    for p in (0.0, 0.01, 0.5, 0.93, 1.0):
        share = float(drawn("random_bernoulli", shape=COUNT, p=p).mean())
        assert abs(share - p) <= 4.5 * math.sqrt(p * (1 - p) / COUNT)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 255, 256, 257, 70_001])
def test_permutations_hold_each_number_once(count: int, device: str) -> None:
    made = drawn("random_permutation", device, 3, count, n=count)
    assert np.array_equal(np.sort(made), np.arange(count))
    assert np.array_equal(made, drawn("random_permutation", "cpu", 3, count, n=count))


@pytest.mark.parametrize("count", [3, 4, 5])
def test_permutations_are_as_frequent_as_each_other(count: int) -> None:
    draws = 300 * math.factorial(count)
    found: dict[tuple[int, ...], int] = {}
    for first in range(draws):
        made = tuple(drawn("random_permutation", "cpu", 17, first, n=count).tolist())
        found[made] = found.get(made, 0) + 1
    assert len(found) == math.factorial(count)
    assert abs(chi_squared(np.array([*found.values()]), 300)) < 4.5


def test_where_elements_go_is_spread_evenly() -> None:
    made = drawn("random_permutation", n=COUNT)
    assert distance(made[: COUNT // 10] / COUNT, uniform_below) < 2.3
    steps = np.abs(np.diff(made)) / COUNT  # of two uniform numbers
    assert distance(steps, lambda x: 1 - (1 - x) ** 2) < 2.5


def test_graphs_draw_by_an_input() -> None:
    graph = pl.Graph()
    seed = graph.input("seed", (2,), dtype="s64")
    graph.output(graph.random_uniform(seed, shape=(5,)), "y")
    plan = pl.compile(graph, tune="off")
    for first in (0, 3):
        there = np.asarray(plan.run(np.array([5, first], "i8"))[0])
        assert np.array_equal(there, drawn("random_uniform", "cpu", 5, first, shape=5))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", ["random_uniform", "random_normal", "random_exponential"])
def test_graphs_draw_the_numbers_of_their_dtype(name: str, dtype: str, device: str) -> None:
    """Also where the processor has no halves, so that plans hold them as f32."""
    graph = pl.Graph()
    seed = graph.input("seed", (2,), dtype="s64")
    graph.output(getattr(graph, name)(seed, shape=(5000,), dtype=dtype), "y")
    (there,) = pl.compile(graph, device=device, tune="off").run(np.array([5, 0], "i8"))
    assert np.array_equal(np.asarray(there), drawn(name, device, 5, 0, shape=5000, dtype=dtype))
