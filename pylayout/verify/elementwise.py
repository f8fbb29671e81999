"""Exact results of ops that compute each element by itself."""

from __future__ import annotations

import math
import re
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import functions
from .bounds import FUNCTION, UNIT, rounding, sum_bound
from .quantized import rounded
from .reference import Full, Reference, register

Array = NDArray[Any]


def _moved(function: Any, *inputs: Array) -> Array:
    """How far a result moves when its inputs do by a unit of the last place."""
    y = np.asarray(function(*inputs), np.float64)
    moves = np.zeros(np.shape(y))
    for number in range(len(inputs)):
        for factor in (1 - 2 * UNIT, 1 + 2 * UNIT):
            shifted = function(*(value * factor if i == number else value for i, value in enumerate(inputs)))
            moves = moves + np.nan_to_num(np.abs(np.asarray(shifted, np.float64) - y), posinf=0, neginf=0)
    return moves


_EXACT_UNARY: tuple[str, ...] = ("relu", "relu6", "clip", "abs", "neg", "floor", "ceil", "round", "sign", "trunc")
_EXACT_UNARY += ("threshold", "logical_not", "isnan", "isinf")


class Unary(Full):
    def compute(self) -> Any:
        x = self.double(0)
        name = self.case.op
        if name == "gelu" and self.attribute("approximate") == "tanh":
            name = "gelu_tanh"
        alpha, beta = functions.parameters(name, self.case.attributes)
        y = functions.apply(name, x, alpha, beta)  # type: ignore[arg-type]
        dtype = "bool" if name in ("logical_not", "isnan", "isinf") else self.dtype
        if name in _EXACT_UNARY:
            return y, 0.0, dtype
        moved = _moved(lambda value: functions.apply(name, value, alpha, beta), x)  # type: ignore[arg-type]
        return y, FUNCTION * moved / 2 + functions.error(name, x, y), dtype  # type: ignore[arg-type]


for _name in functions.UNARY:
    if not _name.startswith("gelu_"):
        register(_name)(Unary)
register("gelu")(Unary)


class Binary(Full):
    def compute(self) -> Any:
        x, y = self.double(0), self.double(1)
        assert x is not None and y is not None
        function = functions.BINARY[self.case.op]
        z = function(x, y)
        if z.dtype == bool:
            return z, 0.0, "bool"
        if self.dtype not in ("f32", "f16", "bf16"):
            if self.case.op == "div":
                z = np.floor(z) if self.attribute("rounding_mode") == "floor" else np.trunc(z)
            return z, 0.0, self.dtype
        bound: Any = 4 * UNIT * np.abs(z) if self.case.op in ("add", "sub", "mul", "div") else 0.0
        if self.case.op == "pow":
            bound = FUNCTION * (_moved(function, x, y) + UNIT * np.abs(z))
        if self.attribute("rounding_mode"):
            z = np.trunc(z) if self.attribute("rounding_mode") == "trunc" else np.floor(z)
        values, bound = self.with_post_ops(z, np.broadcast_to(bound, z.shape))
        return values, bound, self.dtype


for _name in functions.BINARY:
    register(_name)(Binary)


@register(*functions.BITS)
class Bitwise(Full):
    """Of integers as they are: a double does not hold all of them."""

    def compute(self) -> Any:
        return functions.BITS[self.case.op](*self.tensors), 0.0, self.dtype


@register("where")
class Where(Full):
    def compute(self) -> Any:
        condition, x, y = (self.tensors[i] for i in range(3))
        dtype = (self.case.specs()[1] or ("f32", ()))[0]
        return np.where(np.asarray(condition, bool), x, y), 0.0, dtype  # type: ignore[arg-type]


@register("prelu")
class Prelu(Full):
    def compute(self) -> Any:
        x, slope = self.double(0), self.double(1)
        assert x is not None and slope is not None
        if slope.ndim == 1 and x.ndim > 1:
            slope = slope.reshape(1, -1, *(1,) * (x.ndim - 2))
        y = np.where(x > 0, x, slope * x)
        return y, 2 * UNIT * np.abs(y), self.dtype


@register("rotary_embedding")
class RotaryEmbedding(Full):
    def compute(self) -> Any:
        x, cos, sin = (self.double(i) for i in range(3))
        assert x is not None and cos is not None and sin is not None
        columns = cos.shape[-1]
        part, half = x[..., :columns], columns // 2
        if self.case.attributes.get("interleaved"):
            turned = np.stack([-part[..., 1::2], part[..., ::2]], axis=-1).reshape(part.shape)
        else:
            turned = np.concatenate([-part[..., half:], part[..., :half]], axis=-1)
        y, bound = x.copy(), np.zeros(x.shape)
        y[..., :columns] = part * cos + turned * sin
        bound[..., :columns] = 4 * UNIT * (np.abs(part * cos) + np.abs(turned * sin))
        return y, bound, self.dtype


@register("cast")
class Cast(Full):
    def compute(self) -> Any:
        x, dtype = self.tensors[0], str(self.attribute("dtype"))
        assert x is not None
        if dtype == "bool":
            return x != 0, 0.0, dtype
        if dtype in ("f32", "f16", "bf16"):
            return np.asarray(x, np.float64), 0.0, dtype
        bits = {"s8": np.int8, "u8": np.uint8, "s32": np.int32, "s64": np.int64}[dtype]
        return np.trunc(x).astype(np.int64).astype(bits), 0.0, dtype  # of integers the lowest bits


@register("pointwise")
class Pointwise(Full):
    """The op's small language, run by NumPy: its operators are C's, so are its precedences."""

    def compute(self) -> Any:
        names: dict[str, Any] = {f"x{i}": self.double(i) for i in range(len(self.tensors))}
        scalars = self.attribute("scalars", [])
        listed = list(scalars) if isinstance(scalars, (list, tuple)) else [scalars]
        names.update({f"s{i}": np.float64(value) for i, value in enumerate(listed)})
        shape = np.broadcast_shapes(*(np.shape(t) for t in self.tensors if t is not None))
        results = self._run(str(self.attribute("expressions")), dict(names), {})
        # Each input moved by a unit says how errors of the steps may grow; five steps are usual.
        bound = {name: np.zeros(np.shape(value)) for name, value in results.items()}
        for i in range(len(self.tensors)):
            for factor in (1 - UNIT, 1 + UNIT):
                moved = self._run(str(self.attribute("expressions")), {**names, f"x{i}": names[f"x{i}"] * factor}, {})
                for name, value in moved.items():
                    bound[name] = bound[name] + np.nan_to_num(np.abs(value - results[name]), posinf=0, neginf=0)
        dtype = self.attribute("dtype", self.dtype)
        outputs = sorted((name for name in results if re.fullmatch(r"y\d+", name)), key=lambda name: int(name[1:]))
        found = []
        for name in outputs:
            value = np.broadcast_to(results[name], shape).astype(np.float64)
            own = np.broadcast_to(2 * FUNCTION * (bound[name] + UNIT * (np.abs(value) + 1)), shape)
            if self.attribute("arithmetic") == "f32" and dtype in ("u8", "s8"):
                value, own = rounded(value, 0.0, dtype, own)
            found.append((value, own, dtype))
        reductions = self.attribute("reductions")
        return self._reduced(str(reductions), found, names) if reductions else found

    def _reduced(self, text: str, elements: list[Any], names: dict[str, Any]) -> list[Any]:
        rank = np.ndim(elements[0][0])
        dims = self.attribute("dim")
        listed = list(range(rank)) if dims is None else list(dims) if isinstance(dims, (list, tuple)) else [dims]
        axes, keep = tuple(int(d) % rank for d in listed), bool(self.attribute("keepdim", False))
        count = int(np.prod([elements[0][0].shape[axis] for axis in axes]))
        scope: dict[str, Any] = {**names, "count": np.float64(count)}
        scope.update({f"y{i}": value for i, (value, _, _) in enumerate(elements)})
        bounds: dict[str, Array] = {}
        finish = []
        for statement in filter(None, (part.strip() for part in text.split(";"))):
            match = re.match(r"reduce_y(\d+)\s*(\+=|\*=|max=|min=|=)(?!=)\s*(.*)", statement)
            if not match:
                finish.append(statement)
                continue
            target, sign, expression = f"reduce_y{match[1]}", match[2], match[3]
            if sign == "=":
                call = re.match(r"(max|min)\(\s*reduce_y\d+\s*,(.*)\)$", expression)
                assert call, statement
                sign, expression = call[1] + "=", call[2]
            value = np.broadcast_to(self._value(expression, scope), elements[0][0].shape)
            spare = elements[int(match[1])][1] if int(match[1]) < len(elements) else elements[0][1]
            function: Any = {"+=": np.sum, "*=": np.prod, "max=": np.max, "min=": np.min}[sign]
            scope[target] = function(value, axis=axes, keepdims=keep)
            squares = np.sum(value * value, axis=axes, keepdims=keep)
            bounds[target] = sum_bound(count, scope[target], squares, self.accuracy.unit) + np.sqrt(
                np.sum(spare * spare, axis=axes, keepdims=keep)
            )
        outputs = {f"y{name[8:]}": scope[name] for name in bounds}
        moved = {f"y{name[8:]}": bounds[name] for name in bounds}
        for statement in finish:
            target, expression = (part.strip() for part in statement.split("=", 1))
            outputs[target] = self._value(expression, scope)
            moved[target] = np.zeros(np.shape(outputs[target]))
            for name, bound in bounds.items():
                shifted = self._value(expression, {**scope, name: scope[name] + bound})
                moved[target] = moved[target] + np.abs(shifted - outputs[target])
        return [
            (outputs[name], moved[name] + FUNCTION * UNIT * np.abs(outputs[name]), elements[0][2])
            for name in sorted(outputs, key=lambda name: int(name[1:]))
        ]

    def _run(self, text: str, names: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
        for statement in filter(None, (part.strip() for part in text.split(";"))):
            target, expression = (part.strip() for part in statement.split("=", 1))
            names[target] = results[target] = self._value(expression, names)
        return results

    def _value(self, expression: str, names: dict[str, Any]) -> Array:
        with np.errstate(all="ignore"):
            value = eval(compile(_python_of(expression), expression, "eval"), {"__builtins__": {}, **_LANGUAGE}, names)
        return np.asarray(value, np.float64)


def _python_of(expression: str) -> str:
    """C's expression as Python's: a ? b : c, &&, || and !; only the characters of the language pass."""
    if not re.fullmatch(r"[\w\s.+\-*/<>=!?:&|(),]*", expression):
        raise ValueError(f"pointwise: {expression!r} has a character that is not of the language")
    text = re.sub(r"(\d)f\b", r"\1", expression)
    text = _conditional(text)
    text = re.sub(r"!(?!=)", "~", text)
    return text.replace("&&", "&").replace("||", "|").strip()


def _conditional(text: str) -> str:
    depth, question = 0, -1
    for i, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "?" and depth == 0:
            question = i
            break
    if question < 0:
        # Inside of parentheses and arguments.
        def inner(start: int) -> tuple[str, int]:
            depth, i = 1, start
            while depth:
                depth += (text[i] == "(") - (text[i] == ")")
                i += 1
            return text[start : i - 1], i

        out, i = "", 0
        while i < len(text):
            if text[i] == "(" and "?" in text[i:]:
                body, i = inner(i + 1)
                out += "(" + ", ".join(_conditional(part) for part in _arguments(body)) + ")"
            else:
                out += text[i]
                i += 1
        return out
    depth = 0
    for i in range(question + 1, len(text)):
        depth += (text[i] in "(?") - (text[i] == ")")
        if text[i] == ":" and depth == 0:
            parts = (text[:question], text[question + 1 : i], text[i + 1 :])
            return "where(" + ", ".join(_conditional(part.strip()) for part in parts) + ")"
        depth -= text[i] == ":"
    raise ValueError(f"pointwise: {text!r} has a ? without its :")


def _arguments(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def _function(name: str) -> Any:
    return lambda x: functions.apply(name, np.asarray(x, np.float64))


def _of_bits(name: str) -> Any:
    return lambda *values: functions.BITS[name](*(np.asarray(value).astype(np.int64) for value in values))


def _lgamma(x: float) -> float:
    return math.inf if math.isinf(x) or (x <= 0 and x == math.floor(x)) else math.lgamma(x)


def _erfinv(x: float) -> float:
    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    return NormalDist().inv_cdf((1 + x) / 2) / math.sqrt(2) if abs(x) > 1e-6 else x * math.sqrt(math.pi) / 2


_LANGUAGE: dict[str, Any] = {
    **{name: _function(name) for name in ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos")},
    **{name: _function(name) for name in ("floor", "ceil", "round", "abs", "sign", "isnan")},
    "fabs": np.abs,
    "expm1": np.expm1,
    "log1p": np.log1p,
    **{name: np.maximum for name in ("max", "fmax")},
    **{name: np.minimum for name in ("min", "fmin")},
    "pow": np.power,
    "fmod": np.fmod,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "erfinv": np.vectorize(_erfinv, otypes=[np.float64]),
    "lgamma": np.vectorize(_lgamma, otypes=[np.float64]),
    **{name: lambda c, a, b: np.where(np.asarray(c) != 0, a, b) for name in ("where", "select")},
    **{f"bit{of}": _of_bits(f"bitwise_{of}") for of in ("and", "or", "xor", "not")},
    **{f"{of[0]}shift": _of_bits(f"bitwise_{of}_shift") for of in ("left", "right")},
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "inf": np.inf,
    "nan": np.nan,
    "pi": np.pi,
}

__all__ = ["Binary", "Cast", "Pointwise", "Prelu", "Reference", "Unary", "Where", "rounding"]
