"""Random numbers: a state of the plan is the seed and the next counter, so that each run draws new ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from ...errors import InvalidArgumentError, ShapeError
from ...value import Value
from ..node import Node, dtype_text, numpy_of
from ..operand import Known, Operand, Result
from ..registry import converter
from ..tensors import numpy_dtype

NOTE = "f32, f16, bf16"


def drawn_by(node: Node, shape: Sequence[Any], seed: float | None) -> Value:
    """The seed of an op that draws numbers of this shape."""
    return node.importer.drawn_by(seed, (math.prod(shape) + 3) // 4)  # a counter makes four numbers


def _seed(node: Node) -> float | None:
    seed: float | None = node.number("seed", None)
    return seed


def _dtype(node: Node, like: Operand | None = None) -> str:
    if "dtype" in node.attributes or like is None:
        like = Known(numpy.empty(0, numpy_dtype(node.integer("dtype", 1), "attribute dtype")))
    return dtype_text(like)


def _numbers(node: Node) -> tuple[list[Any], str]:
    """The shape and dtype of what is drawn: those of attributes, or of the input of an op whose name ends in Like."""
    like = node.x(0) if node.proto.op_type.endswith("Like") else None
    dtype = _dtype(node, like)
    if dtype not in ("f32", "f16", "bf16"):
        raise InvalidArgumentError(f"the dtype asked for is {dtype}, expected f32, f16 or bf16")
    return list(node.integers("shape") if like is None else like.shape), dtype


@converter("RandomNormal", "RandomNormalLike", since=1, note=NOTE)
def random_normal(node: Node) -> Result:
    shape, dtype = _numbers(node)
    mean, scale = node.number("mean", 0.0), node.number("scale", 1.0)
    return node.op("random_normal", drawn_by(node, shape, _seed(node)), shape, mean, scale, dtype)


@converter("RandomUniform", "RandomUniformLike", since=1, note=NOTE)
def random_uniform(node: Node) -> Result:
    shape, dtype = _numbers(node)
    low, high = node.number("low", 0.0), node.number("high", 1.0)
    return node.op("random_uniform", drawn_by(node, shape, _seed(node)), shape, low, high, dtype)


@converter("Bernoulli", since=15)
def bernoulli(node: Node) -> Result:
    x = node.x(0)
    dtype = _dtype(node, x)
    # In f32, of which each number below 1 has 24 bits: halves would make small chances too large or none.
    numbers = node.op("random_uniform", drawn_by(node, x.shape, _seed(node)), list(x.shape))
    chances = x if numpy_of(x) == numpy.float32 else node.op("cast", x, "f32")
    return node.op("cast", node.op("lt", numbers, chances), dtype)


@converter("Multinomial", since=7)
def multinomial(node: Node) -> Result:
    """The class whose log-probability plus a number of the Gumbel distribution is the largest."""
    x = node.x(0)
    if x.ndim != 2:
        raise ShapeError(f"input 0 has rank {x.ndim}, expected 2")
    count = node.integer("sample_size", 1)
    if count < 1:
        raise InvalidArgumentError(f"attribute sample_size is {count}, expected at least 1")
    kind = node.dtype("dtype", 6)
    if kind not in ("int32", "int64"):
        raise InvalidArgumentError(f"attribute dtype is {kind}, expected int32 or int64")
    rows, classes = x.shape
    shape = [rows, count, classes]
    waits = node.op("random_exponential", drawn_by(node, shape, _seed(node)), shape)
    scores = node.op("reshape", x, [rows, 1, classes])
    if numpy_of(x) != numpy.float32:
        scores = node.op("cast", scores, "f32")
    found = node.op("argmax", node.op("sub", scores, node.op("log", waits)), 2)
    return found if kind == "int64" else node.op("cast", found, "s32")
