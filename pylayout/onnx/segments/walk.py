"""Walks: a segment's ops one after the other in NumPy, for sizes that come once.

Behind a detector's NonZero every picture has sizes of its own. To bind a plan to new sizes costs tens of microseconds
for each op; NumPy computes a small one in two. So the ops of a segment's graph are noted while it is imported, and
where all of them have a function here, and tensors are small, they become the lines of one Python function:

    v7 = index_select(v3, v5, dim=0)
    v8 = reshape(v7, shape=(v3.shape[0] * 4, 4))

It is called for sizes that were not seen before. The plan serves those that come again, and whatever goes wrong here,
which says then what is wrong.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from ...dtypes import dtype_of
from ...errors import Error
from ...late import LateGraph
from ..fold import FOLDS, budget, room, topk

__all__ = ["NotedGraph", "Walk", "walk_of"]

# Elements of all results of a segment: with more of them NumPy takes longer than a plan and its binding; with fewer
# than the second number as long as a plan that is bound (0.3 ms in detectors).
MOST_ELEMENTS, LIGHT_ELEMENTS = 1 << 21, 1 << 16
# Bytes that one result may take: more raise an error, and the plan says whether they make sense.
MOST_BYTES = 1 << 28


class NotedGraph(LateGraph):
    """A graph that notes how it is built."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[Any, ...]] = []
        self.elements = 0

    def input(self, *arguments: Any, **keywords: Any) -> Any:
        before = self.elements
        value = super().input(*arguments, **keywords)
        self.elements = before
        self.noted.append(("input", value._id))
        for i, size in enumerate(arguments[1] if len(arguments) > 1 else keywords["shape"]):
            if not isinstance(size, str):
                self.noted.append(("require", f"#{value._id}.{i} == {int(size)}"))
        return value

    def constant(self, value: Any, name: str | None = None, dtype: Any = None) -> Any:
        made = super().constant(value, name, dtype)
        self.noted.append(("constant", made._id, value, dtype))
        return made

    def constant_memory(self, array: Any, name: str | None = None) -> Any:
        made = super().constant_memory(array, name)
        self.noted.append(("constant", made._id, array, None))
        return made

    def _late_constant(self, text: str, dtype: Any) -> Any:
        made = super()._late_constant(text, dtype)
        self.noted.append(("sizes", made._id, text, dtype))
        return made

    def require(self, condition: str) -> None:
        if condition not in self._required:
            super().require(condition)
            self.noted.append(("require", condition))

    def _append(self, op: str, attributes: str, late: str, values: list[int], name: str | None) -> tuple[int, int]:
        first, count = super()._append(op, attributes, late, values, name)
        self.noted.append((op, first, count, list(values), attributes, late))
        return first, count

    def _value(self, identifier: int, name: str) -> Any:
        value = super()._value(identifier, name)
        self.elements += int(numpy.prod(value._shape, dtype="float64"))
        return value


# ---- ops ----


def _slice(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    keys = [slice(None)] * x.ndim
    for i, start in enumerate(starts):
        keys[i if axes is None else axes[i]] = slice(start, ends[i], 1 if steps is None else steps[i])
    return x[tuple(keys)]


def _split(x: Any, split_size_or_sections: Any, dim: int = 0) -> list[Any]:
    if isinstance(split_size_or_sections, int):
        places = list(range(split_size_or_sections, x.shape[dim], split_size_or_sections))
    else:
        places = list(itertools.accumulate(split_size_or_sections))[:-1]
    return numpy.split(x, places, dim)


def _index_select(x: Any, index: Any, dim: int) -> Any:
    return x.take(index, dim)  # raises where an index is outside


def _joined(*tensors: Any, dim: int = 0) -> Any:
    return numpy.concatenate(tensors, dim)


def _softmax(x: Any, dim: int) -> Any:
    powers = numpy.exp(x - x.max(dim, keepdims=True))
    return powers / powers.sum(dim, keepdims=True)


def _topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Any, Any]:
    if not 0 <= k <= x.shape[dim]:
        raise ValueError(f"k is {k}, expected 0 to {x.shape[dim]}")
    return topk(x, k, dim % x.ndim, largest)


def _pad(x: Any, pad: Any, mode: str = "constant", value: float = 0.0) -> Any:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    if mode != "constant":
        raise ValueError(f"mode is {mode}")
    return numpy.pad(x, pairs, constant_values=value)


def _sigmoid(x: Any) -> Any:
    return (1 / (1 + numpy.exp(-x))).astype(x.dtype, copy=False)


def _near(out: int, old: int, align_corners: bool) -> tuple[Any, Any, Any]:
    """The two elements on whose line each element of a linear interpolation lies, and how far behind the first."""
    at = numpy.arange(out, dtype="float64")
    if align_corners:
        at = at * ((old - 1) / (out - 1) if out > 1 else 0.0)
    else:
        at = numpy.maximum((at + 0.5) * (old / out) - 0.5, 0.0)
    low = numpy.minimum(at.astype("int64"), old - 1)
    return low, numpy.minimum(low + 1, old - 1), at - low


def _interpolate(x: Any, size: Sequence[int], mode: str = "nearest", align_corners: bool = False) -> Any:
    if min(size) < 1 or not x.size:
        raise ValueError(f"size is {size}, of x {x.shape}")
    room((*x.shape[:2], *size), "float32", "interpolate")
    # From the last axis on, whose elements are taken one by one, while there are few.
    y = x if mode == "nearest" else x.astype("float32", copy=False)
    for axis in range(x.ndim - 1, 1, -1):
        out, old = size[axis - 2], x.shape[axis]
        if mode == "nearest":
            y = y.take(numpy.arange(out) * old // out, axis)
        elif out != old:
            low, high, part = _near(out, old, align_corners)
            y, behind = y.take(low, axis), y.take(high, axis)
            behind -= y
            behind *= part.astype("float32").reshape(-1, *[1] * (x.ndim - 1 - axis))
            y += behind
    return y.astype(x.dtype, copy=False)


# Those of the same signature in fold.py, but for `dim` and the like, which come by name.
_FOLDED = [
    "abs", "add", "amax", "amin", "argmax", "argmin", "bitwise_and", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "cast", "ceil", "clip", "cos", "cumsum", "div", "eq", "exp",
    "expand", "floor", "fmod", "ge", "gt", "isinf", "isnan", "le", "log", "logical_and", "logical_not", "logical_or",
    "logical_xor", "lt", "maximum", "mean", "minimum", "mul", "ne", "neg", "pow", "prod", "reciprocal", "relu",
    "remainder", "round", "sign", "sin", "sqrt", "square", "sub", "sum", "tile", "trunc", "where",
]  # fmt: skip

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: FOLDS[name] for name in _FOLDED},
    "concat": _joined,
    "gather": lambda x, index, dim: FOLDS["gather"](x, dim, index),
    "identity": lambda x: x,
    "index_select": _index_select,
    "interpolate": _interpolate,
    "pad": _pad,
    "permute": lambda x, dims: x.transpose(dims),
    "reshape": lambda x, shape: x.reshape(shape),
    "sigmoid": _sigmoid,
    "slice": _slice,
    "softmax": _softmax,
    "split": _split,
    "topk": _topk,
}


def _broadcast_size(a: int, b: int) -> int:
    if a != b and 1 not in (a, b):
        raise ValueError(f"sizes {a} and {b} do not broadcast")
    return b if a == 1 else a


# ---- making the function ----

_EXPRESSION = re.compile(r"(?:[-+*/%(),\s\d]|#\d+\.\d+|min|max|broadcast)*")
_RELATION = re.compile(r"(.*?)(<=|<|==|!=)(.*)")


def _python(expression: str) -> str:
    """An expression of sizes (src/graph/size_expression.h) as Python."""
    if not _EXPRESSION.fullmatch(expression):
        raise ValueError(f"{expression!r} is no expression of sizes")
    return re.sub(r"#(\d+)\.(\d+)", r"v\1.shape[\2]", expression).replace("/", "//").strip()


def _parsed(text: str) -> Any:
    """A value in the text of attributes."""
    if text.startswith("["):
        return tuple(_parsed(part) for part in text[1:-1].split(",") if part)
    words = {"true": True, "false": False, "none": None}
    if text in words:
        return words[text]
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text.strip('"')


class Walk:
    """The function: `run` takes the arrays of the graph's inputs in their order, gives those of its outputs."""

    def __init__(self, noted: Sequence[tuple[Any, ...]], outputs: Sequence[int], is_light: bool) -> None:
        self.is_light = is_light  # as fast as the plan
        self._noted = noted
        self._outputs = outputs
        self._function: Callable[..., Any] | None = None
        self._constants: set[int] = set()  # the identities of arrays that the function holds

    def run(self, arrays: Sequence[Any]) -> list[Any] | None:
        """None where the graph does not hold for these sizes, or something is wrong with the values."""
        if self._function is None:
            self._function = self._compiled(self._noted)
        try:
            with numpy.errstate(all="ignore"), budget(MOST_BYTES):
                results = self._function(*arrays)
        except (ArithmeticError, IndexError, TypeError, ValueError, Error):
            return None
        return None if results is None else self._owned(results, arrays)

    def _owned(self, results: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        """The results as arrays of their own: they may be parts of what was given, or constants."""
        others = {*map(id, arrays), *self._constants}
        made: list[Any] = []
        for result in results:
            if id(result) in others or not (result.flags.owndata and result.flags.c_contiguous):
                result = numpy.array(result, order="C")
            others.add(id(result))
            made.append(result)
        return made

    def described(self, write: Callable[[Any], str]) -> dict[str, Any]:
        """As what JSON has; `write` puts an array elsewhere, under a name."""
        used = self._used()
        noted: list[Any] = []
        for entry in self._noted:
            if entry[0] == "constant":
                if entry[1] in used:
                    dtype = None if entry[3] is None else dtype_of(entry[3]).dtype
                    noted.append(["constant", entry[1], write(numpy.asarray(entry[2], dtype))])
            elif entry[0] == "sizes":
                noted.append([*entry[:3], dtype_of(entry[3]).dtype.name])
            else:
                noted.append(list(entry))
        return {"light": self.is_light, "outputs": list(self._outputs), "noted": noted}

    @staticmethod
    def of_description(described: Mapping[str, Any], read: Callable[[str], Any]) -> Walk:
        """That of `described`, whose parts are checked, since its text becomes a function."""
        noted: list[tuple[Any, ...]] = []
        for kind, first, *rest in described["noted"]:
            if kind == "constant":
                noted.append((kind, int(first), read(rest[0]), None))
            elif kind == "require":
                noted.append((kind, str(first)))
            elif kind == "sizes":
                noted.append((kind, int(first), str(rest[0]), dtype_of(str(rest[1])).dtype))
            elif kind == "input":
                noted.append((kind, int(first)))
            else:
                count, values, attributes, late = rest
                if kind not in FUNCTIONS:
                    raise ValueError(f"{kind!r} is no op of a walk")
                noted.append((kind, int(first), int(count), [int(v) for v in values], str(attributes), str(late)))
        outputs = [int(identifier) for identifier in described["outputs"]]
        walk = Walk(noted, outputs, bool(described["light"]))
        walk._function = walk._compiled(noted)
        return walk

    def _used(self) -> set[int]:
        return {identifier for entry in self._noted if len(entry) == 6 for identifier in entry[3]} | set(self._outputs)

    def _compiled(self, noted: Sequence[tuple[Any, ...]]) -> Callable[..., Any]:
        names: dict[str, Any] = {
            **FUNCTIONS,
            "broadcast": _broadcast_size,
            "arange": numpy.arange,
            "array": numpy.array,
        }
        inputs, lines, made = [], [], set[int]()
        used = self._used()

        def keep(value: Any) -> str:
            name = f"k{len(names)}"
            names[name] = value
            return name

        for entry in noted:
            kind, first = entry[0], entry[1]
            if kind == "input":
                inputs.append(f"v{first}")
            elif kind == "constant":
                if first in made or first not in used:
                    continue
                made.add(first)
                value, dtype = entry[2:]
                names[f"v{first}"] = numpy.asarray(value, None if dtype is None else dtype_of(dtype).dtype)
            elif kind == "sizes":
                names[dtype := f"d{first}"] = dtype_of(entry[3]).dtype
                text = entry[2]
                if text.startswith("range("):
                    lines.append(f"v{first} = arange({_python(text[6:-1])}, dtype={dtype})")
                else:
                    inner = f"[{_python(text[1:-1])}]" if text.startswith("[") else _python(text)
                    lines.append(f"v{first} = array({inner}, {dtype})")
            elif kind == "require":
                relation = _RELATION.fullmatch(first)
                if relation is None:
                    raise ValueError(f"{first!r} is no condition")
                left, sign, right = relation.groups()
                lines.append(f"if not ({_python(left)} {sign} {_python(right)}): return None")
            else:
                lines.append(self._line(entry, keep))
        lines.append(f"return [{', '.join(f'v{identifier}' for identifier in self._outputs)}]")
        source = f"def walk({', '.join(inputs)}):\n" + "".join(f"    {line}\n" for line in lines)
        exec(compile(source, "<walk>", "exec"), names)  # made of numbers and of names in this file alone
        function: Callable[..., Any] = names["walk"]
        self._constants = {id(value) for value in names.values()}
        return function

    @staticmethod
    def _line(entry: tuple[Any, ...], keep: Callable[[Any], str]) -> str:
        op, first, count, values, attributes, late = entry
        arguments = [f"v{identifier}" for identifier in values]
        for word in (*attributes.split(), *late.split()):
            key = word.partition("=")[0]
            if not key.isidentifier():
                raise ValueError(f"{key!r} is no name of an argument")
        for word in attributes.split():
            key, _, text = word.partition("=")
            arguments.append(f"{key}={keep(_parsed(text))}")
        for word in late.split():
            key, _, text = word.partition("=")
            if text.startswith("["):
                inner = _python(text[1:-1])
                text = f"({inner},)" if inner else "()"
            else:
                text = _python(text)
            arguments.append(f"{key}={text}")
        results = ", ".join(f"v{first + i}" for i in range(count)) + ("," if op == "split" else "")
        return f"{results} = {op}({', '.join(arguments)})"


def walk_of(graph: Any, outputs: Sequence[int]) -> Walk | None:
    """That of a graph which was built as a NotedGraph, to values of these numbers.

    None where an op has no function here, or tensors are large.
    """
    if not isinstance(graph, NotedGraph) or graph.elements > MOST_ELEMENTS:
        return None
    for entry in graph.noted:
        if len(entry) == 6 and (entry[0] not in FUNCTIONS or min(entry[3], default=0) < 0):
            return None
    return Walk(graph.noted, outputs, graph.elements <= LIGHT_ELEMENTS)
