"""What one op call needs: its schema, its attributes in text form, its results."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from ._load import ffi, lib
from .arrays import as_input
from .context import state as _context
from .errors import ArgumentTypeError, InvalidArgumentError, check, error_of, take_json
from .tensor import Tensor, adopt

__all__ = [
    "Attributes",
    "as_inputs",
    "attribute_text",
    "bind",
    "did_you_mean",
    "finish",
    "keep",
    "run_into",
    "run_list",
    "schemas",
]

# Attributes are kept, by the values given, for this many different calls of one op.
MAX_KEPT = 512


class Attributes:
    """Owns a pl_attributes."""

    __slots__ = ("handle",)

    def __init__(self, text: str) -> None:
        self.handle: Any = None
        out = ffi.new("pl_attributes *")
        check(lib.pl_attributes_create(text.encode(), out))
        self.handle = out[0]

    def __del__(self, release: Any = lib.pl_attributes_release) -> None:
        if self.handle is not None:
            release(self.handle)


def _value_text(op: str, name: str, value: Any) -> str:
    """A Python value in the text form of attributes."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, str) for item in value):
        return _value_text(op, name, ", ".join(value))  # steps of post_ops
    if isinstance(value, (list, tuple)) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1):
        return "[" + ",".join(_value_text(op, name, item) for item in value) + "]"
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return "true" if value else "false"
    try:
        integer = operator.index(value)
    except TypeError:
        pass
    else:
        if not -(2**63) <= integer < 2**63:
            raise InvalidArgumentError(f"{op}: {name} is {integer}, expected an integer of 64 bits")
        return str(integer)
    try:
        number = float(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        expected = "a number, a string, a list or None"
        raise ArgumentTypeError(f"{op}: {name} is of type {kind}, expected {expected}") from None
    text = repr(number)
    return text if "." in text or "e" in text or "n" in text else text + ".0"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """For the end of a message about an unknown op: names like that one, or where to look."""
    import difflib

    plain = {known.replace("_", ""): known for known in names}
    near = difflib.get_close_matches(str(name).lower().replace("_", ""), plain, 3)
    return f"did you mean {', '.join(plain[word] for word in near)}?" if near else ""


def attribute_text(op: str, attributes: dict[str, Any]) -> str:
    """`stride=[2,2] padding=1 layout="NHWC"`: what pl_attributes_create reads."""
    words = []
    for name, value in attributes.items():
        if name in ("layout", "device"):
            if value is None:
                continue
            value = str(value)
        if isinstance(value, str) and "\0" in value:
            raise InvalidArgumentError(f"{op}: {name} is {value!r}, expected text without NUL characters")
        words.append(f"{name}={_value_text(op, name, value)}")
    return " ".join(words)


def keep(cache: dict[Any, Attributes], key: Any, op: str, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Attributes made for the first call with these values, kept for the next ones."""
    made = Attributes(attribute_text(op, dict(zip(names, values, strict=True))))
    if key is not None:
        if len(cache) >= MAX_KEPT:
            cache.clear()
        cache[key] = made
    return made


def finish(op: str) -> Any:
    """The result of a call that did not give exactly one output: several, or an error."""
    outcome = lib.pyl_last_outcome()
    if outcome.status:
        raise error_of(outcome.status)
    return tuple(adopt(outcome.outputs[i]) for i in range(outcome.count))


def run_list(op: bytes, attributes: Any, tensors: Sequence[Tensor | None]) -> Any:
    """A call with any number of inputs."""
    handles = ffi.new("pl_tensor[]", [ffi.NULL if tensor is None else tensor._handle for tensor in tensors])
    made = lib.pyl_run(_context.handle or _context.make(), op, attributes.handle, handles, len(tensors))
    return adopt(made) if made else finish(op.decode())


def run_into(op: str, attributes: Any, tensors: Sequence[Tensor | None], out: Any) -> Any:
    """A call whose results are written into tensors that exist; returns what is given."""
    listed = out if isinstance(out, (tuple, list)) else (out,)
    for i, each in enumerate(listed):
        if not isinstance(each, Tensor):
            name = f"out[{i}]" if listed is out else "out"
            raise ArgumentTypeError(f"{op}: {name} is {type(each).__name__}, expected a pylayout.Tensor")
    handles = ffi.new("pl_tensor[]", [ffi.NULL if tensor is None else tensor._handle for tensor in tensors])
    outputs = ffi.new("pl_tensor[]", [each._handle for each in listed])
    context = _context.handle or _context.make()
    check(lib.pl_op_run(context, op.encode(), attributes.handle, handles, len(tensors), outputs, len(listed), ffi.NULL))
    return out


def as_inputs(values: Any, op: str, argument: str, copy: bool) -> list[Tensor]:
    if isinstance(values, Tensor) or not isinstance(values, (list, tuple)):
        raise ArgumentTypeError(f"{op}: {argument} is {type(values).__name__}, expected a list of tensors")
    return [as_input(value, op, f"{argument}[{i}]", tuple(values), copy) for i, value in enumerate(values)]


def bind(op: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """Arguments as the op's function would bind them: [(argument, tensor or None)] in the schema's order, attributes.

    Raises ArgumentTypeError for too many arguments, one given twice, or a list that is none.
    """
    parameters = schemas()[op]["parameters"]
    if len(arguments) > len(parameters):
        raise ArgumentTypeError(f"{op}: {len(arguments)} arguments given, expected at most {len(parameters)}")
    bound = {parameter["name"]: value for parameter, value in zip(parameters, arguments, strict=False)}
    for key, value in keywords.items():
        if key in bound:
            raise ArgumentTypeError(f"{op}: {key} is given twice")
        bound[key] = value
    tensors: list[tuple[str, Any]] = []
    for parameter in parameters:
        name = parameter["name"]
        if parameter["kind"] == "attribute":
            continue
        value = bound.pop(name, None)
        if parameter["kind"] == "tensors":
            if not isinstance(value, (list, tuple)):
                raise ArgumentTypeError(f"{op}: {name} is {type(value).__name__}, expected a list of tensors")
            tensors += [(f"{name}[{i}]", item) for i, item in enumerate(value)]
        else:
            tensors.append((name, value))
    return tensors, bound


_schemas: dict[str, dict[str, Any]] = {}


def schemas() -> dict[str, dict[str, Any]]:
    """Every op's schema by name, as the library describes it."""
    if not _schemas:
        text = ffi.new("char **")
        check(lib.pl_ops(text))
        _schemas.update({schema["name"]: schema for schema in take_json(text)})
    return _schemas
