"""Exact results of random numbers: Philox4x32-10, and what each distribution makes of its words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounds import UNIT
from .case import rounded
from .reference import Full, register

__all__ = ["dropout_factors", "philox"]

Array = NDArray[Any]

_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_ROUNDS = 12  # of random_permutation


def philox(low: Array, high: Array, key: int) -> Array:
    """The four words of each counter, of 128 bits in two halves, along a last axis."""
    c = [low & _LOW, low >> _HALF, high & _LOW, high >> _HALF]
    k0, k1 = key % 2**32, key >> 32
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (second >> _HALF) ^ c[1] ^ np.uint64(k0),
            second & _LOW,
            (first >> _HALF) ^ c[3] ^ np.uint64(k1),
            first & _LOW,
        ]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return np.stack(c, -1)


def _key_and_counter(seed: Array | None) -> tuple[int, int]:
    given = [int(value) % 2**64 for value in np.asarray(seed).reshape(-1)]
    return given[0], given[1] if len(given) > 1 else 0


def _words(seed: Array | None, count: int, each: int = 4) -> Array:
    """The words of `count` elements, of which each counter serves `each`: a row for a counter."""
    key, first = _key_and_counter(seed)
    counters = np.arange((count + each - 1) // each, dtype=np.uint64) + np.uint64(first)
    return philox(counters, np.zeros_like(counters), key)


def dropout_factors(seed: Array | None, p: float, numbers: Array) -> Array:
    """What random_dropout multiplies elements of these numbers by."""
    key, first = _key_and_counter(seed)
    counters, word = np.divmod(numbers.astype(np.uint64), np.uint64(4))
    words = philox(counters + np.uint64(first), np.zeros_like(counters), key)
    drawn = np.take_along_axis(words, word.astype(np.int64)[..., None], -1)[..., 0].astype(np.float64)
    made: Array = np.where(drawn < p * 2.0**32, 0.0, 1 / (1 - p))
    return made


@register("random_dropout")
class RandomDropout(Full):
    def compute(self) -> Any:
        x = self.double(0)
        assert x is not None
        numbers = np.arange(x.size).reshape(x.shape)
        y = x * dropout_factors(self.tensors[1], float(self.attribute("p", 0.5)), numbers)
        return y, 4 * UNIT * np.abs(y), self.dtype


class _Drawn(Full):
    """Values of a shape and a dtype asked for, made of words."""

    default = "f32"

    def compute(self) -> Any:
        shape = tuple(int(size) for size in self.case.attributes["shape"])
        self.count = int(np.prod(shape))
        self.asked = str(self.attribute("dtype", self.default))
        values, bound = self.drawn()
        return values.reshape(shape), np.asarray(bound).reshape(shape), self.asked

    def words(self) -> Array:
        return _words(self.tensors[0], self.count).reshape(-1)[: self.count]

    def number(self, name: str, default: float) -> float:
        """As kernels see it."""
        return float(np.float32(self.attribute(name, default)))

    def drawn(self) -> tuple[Array, Array]:
        raise NotImplementedError


@register("random_uniform")
class RandomUniform(_Drawn):
    def drawn(self) -> tuple[Array, Array]:
        digits = {"f32": 24, "f16": 11, "bf16": 8}[self.asked]
        low, high = self.number("low", 0), self.number("high", 1)
        width = float(np.float32(float(self.attribute("high", 1)) - float(self.attribute("low", 0))))
        exact = low + width * ((self.words() >> np.uint64(32 - digits)).astype(np.float64) / 2**digits)
        return np.where(rounded(exact, self.asked) >= high, low, exact), np.zeros(self.count)


def _between(words: Array) -> Array:
    made: Array = (2 * (words >> np.uint64(9)).astype(np.float64) + 1) / 2**24
    return made


@register("random_normal")
class RandomNormal(_Drawn):
    def drawn(self) -> tuple[Array, Array]:
        v = _between(_words(self.tensors[0], self.count)).reshape(-1, 2)
        radius, angle = np.sqrt(-2 * np.log(v[:, 0])), 2 * np.pi * (v[:, 1] - 0.5)
        z = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).reshape(-1)[: self.count]
        mean, deviation = self.number("mean", 0), self.number("std", 1)
        # Roundings of the logarithm, its root, the angle (up to pi), its sine, their product: 20 units of the radius.
        return mean + deviation * z, 32 * UNIT * deviation * np.repeat(radius, 2)[: self.count] + 2 * UNIT * abs(mean)


@register("random_exponential")
class RandomExponential(_Drawn):
    def drawn(self) -> tuple[Array, Array]:
        values = -np.log(_between(self.words())) / self.number("rate", 1)
        return values, 8 * UNIT * values


@register("random_bernoulli")
class RandomBernoulli(_Drawn):
    def drawn(self) -> tuple[Array, Array]:
        limit = float(self.attribute("p", 0.5)) * 2.0**32
        return (self.words().astype(np.float64) < limit).astype(np.float64), np.zeros(self.count)


@register("random_integers")
class RandomIntegers(_Drawn):
    default = "s64"

    def drawn(self) -> tuple[Array, Array]:
        low, high = int(self.attribute("low", 0)), int(self.case.attributes["high"])
        if high - low >= 2**32:
            pairs = _words(self.tensors[0], self.count, 2).reshape(-1, 2)[: self.count]
            words = pairs[:, 0] | pairs[:, 1] << _HALF
        else:
            words = self.words()
        whole = low + words.astype(object) % (high - low + 1)
        values = np.asarray(whole, np.float64 if self.asked in ("f32", "f16", "bf16") else np.int64)
        kept = {"s32": np.int32, "s8": np.int8, "u8": np.uint8, "bool": np.bool_}.get(self.asked)
        return values.astype(kept) if kept else values, np.zeros(self.count)


@register("random_permutation")
class RandomPermutation(Full):
    def compute(self) -> Any:
        n = int(self.case.attributes["n"])
        key, first = _key_and_counter(self.tensors[0])
        bits = max(4, ((n - 1).bit_length() + 1) // 2) if n > 1 else 4
        mask, shift = np.uint64(2**bits - 1), np.uint64(bits)
        values = np.arange(n, dtype=np.uint64)
        waiting = np.arange(n)
        while len(waiting):
            left, right = values[waiting] >> shift, values[waiting] & mask
            for step in range(_ROUNDS):
                words = philox(np.full(len(waiting), first, np.uint64), right | np.uint64(step << 32), key)
                left, right = right, left ^ (words[:, 0] & mask)
            values[waiting] = left << shift | right
            waiting = waiting[values[waiting] >= n]
        return values.astype(np.int64), np.zeros(n), "s64"
