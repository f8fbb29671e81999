"""Random numbers, compared with their definition in plain Python."""

from __future__ import annotations

import numpy as np
import random_numbers

from .case import X4, Case, into

CASES: list[Case] = []
add = into(CASES)


def seeded(shape: tuple[int, ...], *seed: int):
    """A tensor, and a seed: a number, or two, of which the second is the first counter."""
    numbers = np.array(seed[0] if len(seed) == 1 else seed, "i8")
    return lambda rng: [rng.standard_normal(shape).astype("f4"), numbers]


def from_seed(*seed: int):
    return lambda rng: seeded((), *seed)(rng)[1:]


add("random_dropout", seeded(X4, 7), random_numbers.dropout, p=0.3)
add("random_dropout", seeded((3, 1000), -5, 2**40), random_numbers.dropout, p=0.5)
for _seed in ((7,), (-5, 2**32 - 3)):
    add("random_uniform", from_seed(*_seed), random_numbers.uniform, shape=X4, name=f"seed {_seed}")
    add("random_normal", from_seed(*_seed), random_numbers.normal, shape=(3, 1001), name=f"seed {_seed}")
    add("random_integers", from_seed(*_seed), random_numbers.integers, shape=(5, 7), high=9, name=f"seed {_seed}")
    add("random_permutation", from_seed(*_seed), random_numbers.permutation, n=301, name=f"seed {_seed}")
add("random_uniform", from_seed(7), random_numbers.uniform, shape=(), low=-2.0, high=3.0)
add("random_uniform", from_seed(7), random_numbers.uniform, shape=(70,), dtype="f16", tolerance=1e-3)
add("random_normal", from_seed(2**63 - 1), random_numbers.normal, shape=(70,), mean=5.0, std=0.25)
add("random_exponential", from_seed(7), random_numbers.exponential, shape=(7, 99), rate=0.5)
add("random_bernoulli", from_seed(7), random_numbers.bernoulli, shape=(7, 99), p=0.3)
add("random_bernoulli", from_seed(7), random_numbers.bernoulli, shape=(9,), p=1.0, dtype="bool")
add("random_integers", from_seed(7), random_numbers.integers, shape=(7, 9), low=-(2**33), high=2**40)
add("random_integers", from_seed(7), random_numbers.integers, shape=(9,), low=-(2**63), high=2**63 - 1)
add("random_integers", from_seed(7), random_numbers.integers, shape=(9,), low=-100, high=27, dtype="s8")
add("random_permutation", from_seed(7), random_numbers.permutation, n=1)
