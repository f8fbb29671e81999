"""One case: every candidate run on the same tensors, each result compared with the exact one."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._load import ffi, lib
from ..calls import Attributes, attribute_text
from ..context import handle
from ..errors import UnsupportedError, check, take_json
from .bounds import rounding, unit_of
from .case import PRECISION, Case
from .references import Accuracy, Reference, reference_of

__all__ = ["Checked", "Outcome", "check_case"]

Array = NDArray[Any]

_CODES = {name: getattr(lib, f"PL_{name.upper()}") for name in ("f32", "f16", "bf16", "s8", "u8", "s32", "s64", "bool")}
_NUMPY: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16, "s8": np.int8, "u8": np.uint8}
_NUMPY |= {"s32": np.int32, "s64": np.int64, "bool": np.bool_}
_MOST_DOUBTS = 32  # elements that candidates differ in, of which the exact values are computed


@dataclass
class Outcome:
    """What one candidate gave."""

    provider: str
    implementation: str
    inputs: list[str]
    outputs: list[str]
    prepared: bool = True
    ratio: float = 0.0  # the largest error over its bound: above 1 is wrong; infinite for NaN where a number is due
    error: float = 0.0  # the largest error over the largest exact value
    at: list[int] = field(default_factory=list)  # where, and which output
    found: float = 0.0
    exact: float = 0.0
    damage: list[str] = field(default_factory=list)
    ms: float = 0.0

    @property
    def wrong(self) -> bool:
        return self.prepared and (bool(self.damage) or not self.ratio <= 1)

    def to_json(self) -> dict[str, Any]:
        data = dict(vars(self))
        for name in ("ratio", "error", "found", "exact"):
            value = data[name]
            data[name] = float(f"{value:.6g}") if np.isfinite(value) else str(value)
        return data


@dataclass
class Checked:
    """A case and what each candidate gave; no candidates: a view, or nothing here can run it."""

    case: Case
    outcomes: list[Outcome] = field(default_factory=list)
    positions: int = 0  # elements of which the exact value was computed
    refusals: list[str] = field(default_factory=list)  # why a provider has no candidate

    @property
    def wrong(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.wrong]


def _tensor(values: Array, dtype: str, layout: str | None, shape: tuple[int, ...]) -> Any:
    """A new tensor on the CPU; the caller releases it."""
    made = ffi.new("pl_tensor *")
    sizes = ffi.new("int64_t[]", list(shape))
    name = layout.encode() if layout else ffi.NULL
    check(lib.pl_tensor_create(handle(), b"cpu", _CODES[dtype], len(shape), sizes, name, made))
    if dtype == "bf16":
        data = (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        data = np.ascontiguousarray(values, _NUMPY[dtype])
    check(lib.pl_tensor_write(made[0], ffi.from_buffer(data), data.nbytes))
    return made[0]


def _array(tensor: Any) -> tuple[Array, str]:
    """The elements of a plain tensor (floating ones as float32), and its dtype."""
    info = ffi.new("pl_tensor_info *")
    check(lib.pl_tensor_describe(tensor, info))
    dtype = next(name for name, code in _CODES.items() if code == info.dtype)
    data = np.empty(tuple(info.shape[i] for i in range(info.rank)), _NUMPY[dtype])
    check(lib.pl_tensor_read(tensor, ffi.from_buffer(data), data.nbytes))
    if dtype == "bf16":
        return (data.astype(np.uint32) << 16).view(np.float32).reshape(data.shape), dtype
    return (data.astype(np.float32) if dtype == "f16" else data), dtype


class Candidates:
    """Owns a pl_candidates."""

    def __init__(self, case: Case, device: str, tensors: list[Array | None], every_point: bool) -> None:
        specs, self._handles = case.specs(), []
        self._pointer: Any = None
        layouts = [text.partition("@")[2] or None if text else None for text in case.inputs]
        given = ffi.new("pl_tensor[]", len(tensors))
        for i, (values, spec) in enumerate(zip(tensors, specs, strict=True)):
            if values is not None and spec is not None:
                given[i] = _tensor(values, spec[0], layouts[i], spec[1])
                self._handles.append(given[i])
        attributes = Attributes(attribute_text(case.op, {**case.attributes, "device": device}))
        options = ["every_point=true"] * every_point + ["shifted=true"] * case.shifted
        if case.strided:
            which, layout = case.strided.split()
            options += [f"{name}_strided=true" for name in ("input", "output") if which in (name, "both")]
            options.append(f'strided_layout="{layout}"')
        made = ffi.new("pl_candidates *")
        try:
            text = " ".join(options).encode()
            check(lib.pl_op_candidates(handle(), case.op.encode(), attributes.handle, given, len(tensors), text, made))
        except BaseException:
            self.close()
            raise
        self._pointer = made[0]

    def describe(self) -> dict[str, Any]:
        text = ffi.new("char **")
        check(lib.pl_candidates_describe(self._pointer, text))
        found: dict[str, Any] = take_json(text)
        return found

    def run(self, index: int, outputs: int) -> tuple[dict[str, Any], list[tuple[Array, str]]]:
        text, results, count = ffi.new("char **"), ffi.new("pl_tensor[]", outputs), ffi.new("size_t *")
        check(lib.pl_candidates_run(self._pointer, index, results, outputs, count, text))
        arrays = []
        for i in range(count[0]):
            arrays.append(_array(results[i]))
            lib.pl_tensor_release(results[i])
        return take_json(text), arrays

    def close(self) -> None:
        if self._pointer is not None:
            lib.pl_candidates_release(self._pointer)
            self._pointer = None
        for tensor in self._handles:
            lib.pl_tensor_release(tensor)
        self._handles = []


class _Judge:
    """Compares results with exact values at a sample, and with each other everywhere."""

    def __init__(self, reference: Reference, rng: np.random.Generator) -> None:
        self.reference = reference
        self.samples = []
        for output in range(len(reference.outputs)):
            where = reference.sample(output, rng)
            values, bound = reference.expected(output, where)
            self.samples.append((where, values, bound))
        # By algorithm, if it has bounds of its own, and output.
        self._bounds: dict[tuple[str, int], Array] = {}
        # By output: the first result that passed, and whose it is.
        self._agreed: dict[int, tuple[Array, Outcome]] = {}

    def judge(self, outcome: Outcome, results: list[tuple[Array, str]]) -> None:
        if len(results) != len(self.samples):
            outcome.damage.append(f"gives {len(results)} results, expected {len(self.samples)}")
            return
        for output, (array, dtype) in enumerate(results):
            shape, expected_dtype = self.reference.outputs[output]
            if array.shape != tuple(shape) or dtype != expected_dtype:
                outcome.damage.append(
                    f"output {output} is {dtype} {array.shape}, expected {expected_dtype} {tuple(shape)}"
                )
                continue
            flat = array.reshape(-1)
            where, values, _ = self.samples[output]
            self._compare(outcome, output, flat, where, values, self._bound(outcome, output))
            if len(where) < len(flat):
                self._compare_others(outcome, output, flat)

    def _bound(self, outcome: Outcome, output: int) -> Array:
        """At the sample's positions."""
        where, _, bound = self.samples[output]
        algorithm = self.reference.algorithm(outcome.implementation)
        if not algorithm:
            return bound
        if (algorithm, output) not in self._bounds:
            self._bounds[algorithm, output] = self.reference.expected_by(algorithm, output, where)[1]
        return self._bounds[algorithm, output]

    def _compare(self, outcome: Outcome, output: int, flat: Array, where: Array, values: Array, bound: Array) -> None:
        """Exact values at some positions against those of a result."""
        if not len(where):
            return
        found = flat[where].astype(np.float64)
        exact = np.asarray(values, np.float64)
        with np.errstate(all="ignore"):
            error = np.abs(found - exact)
            same = (found == exact) | (np.isnan(found) & np.isnan(exact))
            # Beyond what the dtype holds a result may be infinite.
            largest = 65504.0 if self.reference.outputs[output][1] == "f16" else float(np.finfo(np.float32).max)
            same |= (np.abs(exact) + bound >= largest) & (np.abs(found) >= largest) & (np.sign(found) == np.sign(exact))
            ratio = np.where(same, 0.0, error / np.maximum(bound, 1e-300))
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        worst = int(np.argmax(ratio))
        finite = np.abs(exact[np.isfinite(exact)])
        scale = float(finite.max()) if finite.size else 1.0
        largest_error = float(np.max(np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))))
        outcome.error = max(outcome.error, largest_error / (scale or 1.0))
        if ratio[worst] > outcome.ratio or not outcome.at:
            outcome.ratio = float(ratio[worst])
            shape = self.reference.outputs[output][0]
            outcome.at = [output, *(int(i) for i in np.unravel_index(int(where[worst]), shape))] if shape else [output]
            outcome.found, outcome.exact = float(found[worst]), float(exact[worst])

    def _compare_others(self, outcome: Outcome, output: int, flat: Array) -> None:
        """All elements against those of the first candidate that passed; exact values decide where they differ."""
        if output not in self._agreed:
            if outcome.wrong:
                return
            self._agreed[output] = (flat, outcome)
            doubtful = np.flatnonzero(~np.isfinite(flat))[:_MOST_DOUBTS]
        else:
            other, first = self._agreed[output]
            bounds = [float(np.max(self._bound(each, output))) for each in (outcome, first)]
            dtype = self.reference.outputs[output][1]
            allowed = sum(bounds) + 2 * rounding(other, dtype)
            with np.errstate(invalid="ignore"):
                excess = np.abs(flat - other) - allowed
            doubtful = np.flatnonzero(~(excess <= 0))
            if len(doubtful) > _MOST_DOUBTS:
                order = np.argsort(-np.nan_to_num(excess[doubtful], nan=np.inf), kind="stable")
                doubtful = doubtful[order[:_MOST_DOUBTS]]
        if len(doubtful):
            algorithm = self.reference.algorithm(outcome.implementation)
            values, bound = self.reference.expected_by(algorithm, output, doubtful)
            self._compare(outcome, output, flat, doubtful, values, bound)
            agreed, first = self._agreed[output]
            self._compare(first, output, agreed, doubtful, values, bound)


def check_case(
    case: Case,
    device: str = "cpu",
    every_point: bool = False,
    wanted: Callable[[dict[str, Any]], bool] = lambda candidate: True,
    began: Callable[[dict[str, Any]], None] = lambda candidate: None,
) -> Checked:
    """Run every candidate of a case that is `wanted`; `began` is told before each run.

    Raises an Error where the call itself is wrong.
    """
    checked = Checked(case)
    tensors = case.tensors()
    try:
        candidates = Candidates(case, device, tensors, every_point)
    except UnsupportedError as error:
        checked.refusals = [str(error)]
        return checked
    try:
        description = candidates.describe()
        checked.refusals = list(
            dict.fromkeys(f"{each['provider']}: {each['reason']}" for each in description["refusals"])
        )
        chosen = [(i, each) for i, each in enumerate(description["candidates"]) if wanted(each)]
        if not chosen:
            return checked
        first = next((spec[0] for spec in case.specs() if spec), "f32")
        tf32 = description["math"] == "tf32" and first == "f32"
        matrix_units = device != "cpu" and (tf32 or (first in PRECISION and first != "f32"))
        reference = reference_of(case, tensors, Accuracy(unit_of(matrix_units), tf32))
        judge = _Judge(reference, np.random.default_rng(zlib.crc32(case.key.encode()) ^ case.seed))
        checked.positions = sum(len(where) for where, _, _ in judge.samples)
        for index, each in chosen:
            began(each)
            report, results = candidates.run(index, len(reference.outputs))
            outcome = Outcome(each["provider"], each["implementation"], each["inputs"], each["outputs"])
            outcome.prepared, outcome.damage, outcome.ms = report["prepared"], report["damage"], report["ms"]
            if results:
                judge.judge(outcome, results)
            checked.outcomes.append(outcome)
    finally:
        candidates.close()
    return checked
