"""Random numbers in plain Python, from the definitions in docs/reference/ops: the references of op_cases/random.py."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

MASK = 2**32 - 1


def philox(counter: int, key: int) -> list[int]:
    """Philox4x32-10 with a counter of 128 bits and a key of 64, from the paper."""
    c = [counter >> 32 * i & MASK for i in range(4)]
    k = [key & MASK, key >> 32 & MASK]
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ k[0], second & MASK, first >> 32 ^ c[3] ^ k[1], first & MASK]
        k = [k[0] + 0x9E3779B9 & MASK, k[1] + 0xBB67AE85 & MASK]
    return c


def known_words() -> list[tuple[int, int, list[int]]]:
    """Counter, key and words, as the authors publish them with their library."""
    digits = 0x0370734413198A2E85A308D3243F6A88
    return [
        (0, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (2**128 - 1, 2**64 - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (digits, 0x299F31D0A4093822, [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ]


def key_and_counter(seed: Any) -> tuple[int, int]:
    values = [int(value) % 2**64 for value in seed.reshape(-1)]
    return values[0], values[1] if len(values) > 1 else 0


def words(seed: Any) -> Iterator[int]:
    key, counter = key_and_counter(seed)
    while True:
        yield from philox(counter % 2**64, key)
        counter += 1


def filled(torch: Any, shape: Any, values: Iterator[Any], dtype: Any = None) -> Any:
    made = [next(values) for _ in range(math.prod(shape))]
    return torch.tensor(made, dtype=dtype or torch.float64).reshape(shape)


def between(word: int) -> float:
    return (2 * (word >> 9) + 1) / 2**24


def dropout(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    uniform = filled(torch, t[0].shape, (word / 2**32 for word in words(t[1])))
    return torch.where(uniform >= a["p"], t[0] / (1 - a["p"]), torch.zeros_like(t[0]))


def uniform(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    low, high = a.get("low", 0.0), a.get("high", 1.0)
    bits = 11 if a.get("dtype") == "f16" else 24
    return filled(torch, a["shape"], (low + (high - low) * (w >> 32 - bits) / 2**bits for w in words(t[0])))


def normal(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    def values() -> Iterator[float]:
        drawn = words(t[0])
        while True:
            radius = math.sqrt(-2 * math.log(between(next(drawn))))
            angle = 2 * math.pi * (between(next(drawn)) - 0.5)
            yield radius * math.cos(angle)
            yield radius * math.sin(angle)

    return a.get("mean", 0.0) + a.get("std", 1.0) * filled(torch, a["shape"], values())


def exponential(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    return filled(torch, a["shape"], (-math.log(between(word)) / a["rate"] for word in words(t[0])))


def bernoulli(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    dtype = torch.bool if a.get("dtype") == "bool" else None
    return filled(torch, a["shape"], (word < a["p"] * 2**32 for word in words(t[0])), dtype)


def integers(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    low, high = a.get("low", 0), a["high"]
    drawn = words(t[0])
    pairs = (word | next(drawn) << 32 for word in drawn)
    found = (low + word % (high - low + 1) for word in (pairs if high - low >= 2**32 else drawn))
    return filled(torch, a["shape"], found, torch.int8 if a.get("dtype") == "s8" else torch.int64)


def permutation(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    key, counter = key_and_counter(t[0])
    bits = 4
    while a["n"] > 2 ** (2 * bits):
        bits += 1
    found = []
    for value in range(a["n"]):
        while True:
            left, right = value >> bits, value % 2**bits
            for step in range(12):
                mixed = philox(counter + (right << 64) + (step << 96), key)[0]
                left, right = right, left ^ mixed % 2**bits
            value = left << bits | right
            if value < a["n"]:
                break
        found.append(value)
    return torch.tensor(found, dtype=torch.int64)


def moments(values: np.ndarray) -> tuple[float, float, float, float]:
    """Mean, variance, skewness, and excess of the fourth moment over that of the normal distribution."""
    centred = values.astype(np.float64) - values.mean(dtype=np.float64)
    variance = float((centred**2).mean())
    third, fourth = float((centred**3).mean()) / variance**1.5, float((centred**4).mean()) / variance**2
    return float(values.mean(dtype=np.float64)), variance, third, fourth - 3


def distance(values: np.ndarray, distribution: Any) -> float:
    """Kolmogorov's and Smirnov's: the largest distance of two distribution functions, times the root of the count.

    Above 1.95 with a chance of one in a thousand where the values are of the distribution.
    """
    ordered = np.sort(values.reshape(-1).astype(np.float64))
    there = distribution(ordered)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max((steps[1:] - there).max(), (there - steps[:-1]).max()) * math.sqrt(len(ordered)))
