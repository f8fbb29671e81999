"""A check: one call of an op, with tensors made from a seed."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..calls import schemas

__all__ = ["Case", "Spec", "parse_spec", "tensor_names"]

Array = NDArray[Any]
Spec = tuple[str, tuple[int, ...]]  # dtype and shape

# Bits of the significand, the hidden one included: unit roundoff is 2^-bits.
PRECISION = {"f32": 24, "f16": 11, "bf16": 8}
_INTEGERS = {"s8": np.int8, "u8": np.uint8, "s32": np.int32, "s64": np.int64, "bool": np.bool_}


def parse_spec(text: str | None) -> Spec | None:
    """ "f32:1x64x56x56" or "f32:1x64x56x56@NHWC" as a dtype and a shape; None for an absent tensor."""
    if text is None:
        return None
    dtype, _, sizes = text.partition("@")[0].partition(":")
    return dtype, tuple(int(size) for size in sizes.split("x") if size)


def tensor_names(op: str, count: int) -> list[str]:
    """The parameters that the tensors of a call belong to."""
    names = [p["name"] for p in schemas()[op]["parameters"] if p["kind"] != "attribute"]
    variadic = any(p["kind"] == "tensors" for p in schemas()[op]["parameters"])
    return names * count if variadic else names[:count]


def rounded(values: Array, dtype: str) -> Array:
    """Floating values as float32 that the dtype holds exactly; ties are rounded to even."""
    single = np.ascontiguousarray(values, np.float32)
    if dtype == "f16":
        return single.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = single.view(np.uint32)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return np.asarray(bits.view(np.float32))
    return single


@dataclass(frozen=True)
class Case:
    """One call. `inputs` are texts such as "f32:1x64x56x56", None where an optional tensor is absent."""

    op: str
    inputs: tuple[str | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    strided: str = ""  # "", or which tensors are strided views and in which layout: "input NHWC", "both nChw16c"
    origin: str = ""  # the networks that have this op, or "random"
    seed: int = 0

    @property
    def key(self) -> str:
        """What is checked, as text: the same for the same call whatever its values."""
        words = [self.op, *(text or "-" for text in self.inputs)]
        words += [f"{name}={json.dumps(value)}" for name, value in sorted(self.attributes.items())]
        return " ".join(words + [f"strided={self.strided}"] * bool(self.strided))

    @property
    def shifted(self) -> bool:
        """Whether tensors in the host's memory are aligned to their elements alone: of half of the cases."""
        return bool(zlib.crc32(f"{self.key} {self.seed}".encode()) & 1)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"op": self.op, "inputs": list(self.inputs)}
        for name in ("attributes", "strided", "origin", "seed"):
            if getattr(self, name):
                data[name] = getattr(self, name)
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Case:
        return cls(**{**data, "inputs": tuple(data["inputs"])})

    def specs(self) -> list[Spec | None]:
        return [parse_spec(text) for text in self.inputs]

    @property
    def elements(self) -> int:
        """Of the largest input."""
        return max((int(np.prod(spec[1])) for spec in self.specs() if spec), default=0)

    def tensors(self) -> list[Array | None]:
        """The inputs: integers in their dtypes, floating ones as float32 that hold what the dtype can."""
        rng = np.random.default_rng(zlib.crc32(self.key.encode()) + (self.seed << 32))
        names = tensor_names(self.op, len(self.inputs))
        return [
            None if spec is None else self._values(rng, name, number, *spec)
            for number, (name, spec) in enumerate(zip(names, self.specs(), strict=True))
        ]

    def _values(self, rng: np.random.Generator, name: str, number: int, dtype: str, shape: tuple[int, ...]) -> Array:
        if dtype in _INTEGERS:
            return self._integers(rng, name, dtype, shape)
        if name == "lr":
            return rounded(rng.uniform(0.001, 0.1, shape), dtype)
        if name == "step":
            return rounded(rng.integers(1, 100, shape).astype(np.float64), dtype)
        if name in ("variance", "square") or (name == "weight" and self.op.startswith("cross_entropy")):
            return rounded(rng.uniform(0.5, 2.0, shape), dtype)
        if name == "running_var" or (name == "scale" and "quantize" in self.op):
            return rounded(rng.uniform(0.5, 2.0, shape) * (0.02 if name == "scale" else 1), dtype)
        if name == "scale" and self.op == "linear_nbits":
            return rounded(rng.uniform(0.7, 1.3, shape) * 0.02, dtype)
        if name.endswith("_scale"):  # of quantised tensors
            return rounded(rng.uniform(0.7, 1.3, shape) * (0.5 if name == "y_scale" else 0.02), dtype)
        if name == "boxes":
            return self._boxes(rng, shape)
        if name == "grid":
            return rounded(rng.uniform(-1.2, 1.2, shape), dtype)
        values = rng.standard_normal(shape, np.float32)
        if name == "y" and self.op in _BACK_THROUGH_TIME:  # states
            return rounded(np.tanh(values), dtype)
        if self.op in _POSITIVE or (self.op == "pow" and number == 0):
            values = np.abs(values) + np.float32(0.05)
        elif self.op == "acosh":
            values = np.abs(values) + np.float32(1.1)
        elif self.op in _SCANS and name == "delta":
            values = np.abs(values) / 2 + np.float32(0.05)
        elif self.op in _SCANS and name == "a":  # states decay
            values = -np.abs(values) - np.float32(0.1)
        elif self.op in _WITHIN_ONE:
            values = np.tanh(values)
        elif self.op in ("div", "fmod", "remainder", "reciprocal") and number == len(self.inputs) - 1:
            values = np.where(values < 0, values - np.float32(0.1), values + np.float32(0.1))
        terms = self._terms(name, shape)
        if terms > 1:  # so that results are near 1, where activations bend
            values *= np.float32(terms**-0.5)
        return rounded(values, dtype)

    def _boxes(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """(..., 4). Of roi_align in and around the image; others have integer corners, or sizes that are even, so that
        areas are exact and no quotient of them lies within rounding of a threshold."""
        if self.op.startswith("roi_align"):
            image = self._images()
            unit = np.array([image[3], image[2]]) / float(self.attributes.get("spatial_scale", 1.0))
            low = rng.uniform(-0.1, 0.8, (*shape[:-1], 2))
            high = low + rng.uniform(0.01, 0.5, (*shape[:-1], 2))
            return rounded(np.concatenate([low * unit, high * unit], -1), "f32")
        corners = rng.integers(0, 33, (*shape[:-1], 2, 2))
        if self.attributes.get("boxes_are") == "centres":
            corners[..., 1, :] = 2 * (corners[..., 1, :] // 2 + 1)
        return corners.reshape(shape).astype(np.float32)

    def _images(self) -> tuple[int, ...]:
        """The shape of the images that boxes are of: input 0, behind the gradient by the result if there is one."""
        _, shape = parse_spec(self.inputs[1 if self.op.endswith("_backward") else 0]) or ("", (1, 1, 1, 1))
        return shape

    def _terms(self, name: str, shape: tuple[int, ...]) -> int:
        """How many products with elements of these weights make one result."""
        if name.startswith("weight") and self.op.startswith("conv_transpose"):
            groups = int(self.attributes.get("groups", 1))
            strides = self.attributes.get("stride", 1)
            each = strides if isinstance(strides, (list, tuple)) else [strides] * (len(shape) - 2)
            reached = [max(1, size // int(step)) for size, step in zip(shape[2:], each, strict=False)]
            return max(1, shape[0] // groups * int(np.prod(reached)))
        if self.op.startswith("conv") and name == "weight":
            return int(np.prod(shape[1:]))
        if (self.op, name) in _MATRICES:
            return int(np.prod(shape[1:]))
        if self.op == "matmul" and name == "b":
            return shape[-1] if self.attributes.get("transpose_b") or len(shape) == 1 else shape[-2]
        if self.op == "grouped_mm" and name == "weight":
            return shape[2 if self.attributes.get("transpose_weight") else 1]
        if self.op.split("_")[0] in ("lstm", "gru", "rnn") and name in ("w", "r"):
            return shape[2]
        return 1

    def _integers(self, rng: np.random.Generator, name: str, dtype: str, shape: tuple[int, ...]) -> Array:
        if dtype == "bool":
            return rng.random(shape) < 0.7
        kind = _INTEGERS[dtype]
        if "shift" in self.op and name == "y":
            return rng.integers(-2, 70, shape).astype(kind)
        if name == "sequence_lens":
            steps = (parse_spec(self.inputs[0]) or ("", (1, 1)))[1][1 if self.attributes.get("batch_first") else 0]
            return rng.integers(1, steps + 1, shape).astype(kind)
        if name == "target":
            classes = (parse_spec(self.inputs[0]) or ("", (1, 1)))[1][1]
            return rng.integers(0, classes, shape).astype(kind)
        if name in ("offsets", "ends"):  # where groups of rows end
            rows = (parse_spec(self.inputs[0]) or ("", (0, 0)))[1][0]
            return np.sort(rng.integers(0, rows + 1, shape)).astype(kind)
        if name == "images":
            return rng.integers(0, self._images()[0], shape).astype(kind)
        if self.op == "scatter_nd" and name == "index":
            sizes = np.array((parse_spec(self.inputs[0]) or ("", ()))[1][: shape[-1]])
            return rng.integers(-sizes, sizes, shape).astype(kind)
        if self.op == "tensor_scatter" and name == "at":
            x, update = (parse_spec(text) or ("", ()) for text in self.inputs[:2])
            dim = int(self.attributes.get("dim", -2))
            return rng.integers(0, x[1][dim] - update[1][dim] + 1, shape).astype(kind)
        if name == "index" and "size" in self.attributes:
            return rng.integers(-int(self.attributes["size"]), int(self.attributes["size"]), shape).astype(kind)
        if name == "index":
            of_rows = self.op.startswith("embedding")
            table = parse_spec(self.inputs[1 if of_rows else 0])
            assert table is not None
            axis = 0 if of_rows else int(self.attributes["dim"])
            size = table[1][axis]
            return rng.integers(-size, size, shape).astype(kind)
        if dtype in ("s8", "u8"):
            info = np.iinfo(kind)
            low, high = (info.min // 2, info.max // 2) if name.endswith("zero_point") else (info.min, info.max)
            return rng.integers(low, high + 1, shape).astype(kind)
        if self.op in ("fmod", "remainder", "div") and shape == (1,):
            return np.full(shape, 17, kind)
        return rng.integers(-3000, 3000, shape).astype(kind)


_BACK_THROUGH_TIME = frozenset(("lstm_backward", "gru_backward", "rnn_backward"))
_GATES = ("squeeze_excite", "squeeze_excite_backward")
_MATRICES = {("linear", "weight"), *((op, name) for op in _GATES for name in ("weight1", "weight2"))}
_POSITIVE = frozenset(("log", "sqrt", "rsqrt"))
_SCANS = frozenset(("selective_scan", "selective_scan_backward"))
_WITHIN_ONE = frozenset(("asin", "acos", "atanh"))
