"""The ops, one function for each schema of the library: `ops.conv2d(x, weight, stride=2)`.

The functions are made from the schemas when they are first asked for, so that a new op needs no line here.
Names and signatures follow torch.nn.functional, then torch; ONNX where torch has none.

Each takes tensors, NumPy arrays, anything with DLPack or the buffer protocol, and plain numbers, and two more
keywords: `layout`, "auto" (the fastest by measurement, the default), "per-op" (row-major between ops) or one to force
("NCHW", "NHWC", "nChw16c"); and `device`, where to run (default: where the inputs are).

Called again with equal attributes an op costs microseconds: attributes are parsed once, and weights given as the same
`Tensor` are packed once. Arrays are packed at each call, so hold weights as tensors (`pylayout.asarray`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from . import tensor as _tensor
from ._load import ffi, lib
from .context import state as _context
from .errors import ArgumentTypeError, InvalidArgumentError, check, error_of, take_json
from .tensor import Tensor, _adopt, as_input

# Other names of ops, as torch has them.
ALIASES = {
    "clamp": "clip",
    "cat": "concat",
    "concatenate": "concat",
    "max_reduce": "amax",
    "min_reduce": "amin",
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
    "negative": "neg",
    "hard_swish": "hardswish",
    "hard_sigmoid": "hardsigmoid",
    "swish": "silu",
    "lrn": "local_response_norm",
    "instance_normalization": "instance_norm",
    "absolute": "abs",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
}

# Attributes are kept, by the values given, for this many different calls of one op.
_MAX_KEPT = 512


class _Attributes:
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
    if isinstance(value, (list, tuple)) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1):
        return "[" + ",".join(_value_text(op, name, item) for item in value) + "]"
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return "true" if value else "false"
    try:
        return str(operator.index(value))
    except TypeError:
        pass
    try:
        number = float(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise ArgumentTypeError(f"{op}: {name} is of type {kind}, expected a number, a string, a list or None") from None
    text = repr(number)
    return text if "." in text or "e" in text or "n" in text else text + ".0"


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


def _keep(cache: dict[Any, _Attributes], key: Any, op: str, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Attributes made for the first call with these values, kept for the next ones."""
    made = _Attributes(attribute_text(op, dict(zip(names, values, strict=True))))
    if key is not None:
        if len(cache) >= _MAX_KEPT:
            cache.clear()
        cache[key] = made
    return made


def _finish(op: str) -> Any:
    """The result of a call that did not give exactly one output: several, or an error."""
    outcome = lib.pyl_last_outcome()
    if outcome.status:
        raise error_of(outcome.status)
    return tuple(_adopt(outcome.outputs[i]) for i in range(outcome.count))


def _run_list(op: bytes, attributes: Any, tensors: list[Tensor]) -> Any:
    """A call with any number of inputs."""
    handles = ffi.new("pl_tensor[]", [tensor._handle for tensor in tensors])
    made = lib.pyl_run(_context.handle or _context.make(), op, attributes.handle, handles, len(tensors))
    return _adopt(made) if made else _finish(op.decode())


def _as_inputs(values: Any, op: str, argument: str, copy: bool) -> list[Tensor]:
    if isinstance(values, Tensor) or not isinstance(values, (list, tuple)):
        raise ArgumentTypeError(f"{op}: {argument} is {type(values).__name__}, expected a list of tensors")
    return [as_input(value, op, f"{argument}[{i}]", tuple(values), copy) for i, value in enumerate(values)]


# ---- schemas ----

_schemas: dict[str, dict[str, Any]] = {}


def schemas() -> dict[str, dict[str, Any]]:
    """Every op's schema by name, as the library describes it."""
    if not _schemas:
        text = ffi.new("char **")
        check(lib.pl_ops(text))
        _schemas.update({schema["name"]: schema for schema in take_json(text)})
    return _schemas


def default_of(parameter: dict[str, Any]) -> Any:
    """An attribute's default as a Python value; a list of one is written as that one."""
    value = parameter["default"]
    if isinstance(value, list):
        value = value[0] if len(value) == 1 else tuple(value)
    return float(value) if parameter["type"] == "float" and value is not None else value


def signature_of(schema: dict[str, Any]) -> list[tuple[str, str]]:
    """(parameter, default or "") in order; parameters after the first one with a default have one too."""
    parts = []
    for parameter in schema["parameters"]:
        if parameter["kind"] == "optional_tensor":
            default = "None"
        elif parameter["kind"] == "attribute" and not parameter["required"]:
            default = repr(default_of(parameter))
        else:
            default = ""
        parts.append((parameter["name"], default))
    return parts


_TYPE_WORDS = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "string": "str",
    "ints": "int or list of int",
    "floats": "float or list of float",
}


def _example(schema: dict[str, Any]) -> str:
    """A call that shows the order of arguments."""
    given = []
    for parameter in schema["parameters"]:
        name = parameter["name"]
        if parameter["kind"] in ("tensor", "tensors") or (parameter["kind"] == "attribute" and parameter["required"]):
            given.append(f"[{name[:-1]}0, {name[:-1]}1]" if parameter["kind"] == "tensors" else name)
    return f"y = ops.{schema['name']}({', '.join(given)})"


def docstring_of(schema: dict[str, Any]) -> str:
    """The help text of an op, from its schema."""
    lines = [schema["doc"].strip(), "", "Args:"]
    for parameter in schema["parameters"]:
        kind = parameter["kind"]
        if kind == "attribute":
            words = _TYPE_WORDS[parameter["type"]]
            if parameter.get("choices"):
                words = "one of " + ", ".join(parameter["choices"])
        else:
            words = {"tensor": "tensor", "optional_tensor": "tensor or None", "tensors": "list of tensors"}[kind]
        lines.append(f"    {parameter['name']} ({words}): {parameter['doc']}")
    lines += [
        '    layout (str): "auto", "per-op", or a layout to force, such as "NHWC"',
        "    device (str): where to run; default: where the inputs are",
        "",
        "Raises:",
        "    ShapeError, InvalidArgumentError: an argument does not fit; the message says which and why.",
        "    UnsupportedError: nothing on the device can run it; LayoutError, DeviceError, OutOfMemoryError.",
        "",
        f"Example: {_example(schema)}",
    ]
    return "\n".join(lines)


# ---- making the functions ----


def source_of(schema: dict[str, Any]) -> str:
    """The Python source of an op's function. Everything that can be settled once stands in it as a constant."""
    op = schema["name"]
    tensors = [p for p in schema["parameters"] if p["kind"] in ("tensor", "optional_tensor")]
    lists = [p for p in schema["parameters"] if p["kind"] == "tensors"]
    attributes = [p["name"] for p in schema["parameters"] if p["kind"] == "attribute"]
    required_after = False
    words = []
    for name, default in signature_of(schema):
        required_after |= bool(default)
        words.append(f"{name}={default}" if default else f"{name}=_missing" if required_after else name)
    lines = [f"def {op}({', '.join(words)}, *, layout='auto', device=None):"]
    values = "(" + "".join(f"{name}, " for name in [*attributes, "layout", "device"]) + ")"
    lines += [
        f"    key = {values}",
        "    try:",
        "        attributes = _kept.get(key) or _keep(_kept, key, _name, _names, key)",
        "    except TypeError:  # a list among the values",
        "        attributes = _keep(_kept, _frozen(key), _name, _names, key)",
    ]
    # Views and copies of an array must not follow it when it changes later, so those get a copy to begin with.
    copy = schema["view"] or schema["kind"] == "reorder"
    if lists:
        name = lists[0]["name"]
        lines.append(f"    return _run_list(_op, attributes, _as_inputs({name}, _name, {name!r}, {copy}))")
        return "\n".join(lines)
    names = [p["name"] for p in tensors]
    for parameter in tensors:
        name = parameter["name"]
        others = "(" + "".join(f"{other}, " for other in names if other != name) + ")"
        absent = f"{name} is not None and " if parameter["kind"] == "optional_tensor" else ""
        lines.append(f"    if {absent}{name}.__class__ is not _Tensor:")
        lines.append(f"        {name} = _as_input({name}, _name, {name!r}, {others}, {copy})")
    handles = [
        f"_null if {p['name']} is None else {p['name']}._handle"
        if p["kind"] == "optional_tensor"
        else f"{p['name']}._handle"
        for p in tensors
    ]
    call = "_context.handle or _context.make(), _op, attributes.handle"
    if len(handles) <= 2 and all(p["kind"] == "tensor" for p in tensors):
        lines.append(f"    made = _run{len(handles)}({call}, {', '.join(handles)})")
    elif len(handles) <= 5:
        padding = ", ".join(handles + ["_null"] * (5 - len(handles)))
        lines.append(f"    made = _run5({call}, {len(handles)}, {padding})")
    else:
        lines.append(f"    return _run_list(_op, attributes, [{', '.join(names)}])")
        return "\n".join(lines)
    lines += [
        "    if made:",
        "        result = _new(_Tensor)",
        "        result._handle = made",
        "        return result",
        "    return _finish(_name)",
    ]
    return "\n".join(lines)


def _frozen(values: tuple[Any, ...]) -> Any:
    """The values as a key, lists as tuples; None where one cannot be a key."""
    try:
        key = tuple(tuple(value) if isinstance(value, list) else value for value in values)
        hash(key)
    except TypeError:
        return None
    return key


def _make(name: str) -> Callable[..., Any]:
    schema = schemas()[name]
    attributes = [p["name"] for p in schema["parameters"] if p["kind"] == "attribute"]
    namespace = {
        "__name__": __name__,
        "_Tensor": Tensor,
        "_as_input": as_input,
        "_as_inputs": _as_inputs,
        "_context": _context,
        "_finish": _finish,
        "_frozen": _frozen,
        "_keep": _keep,
        "_kept": {},
        "_missing": None,
        "_name": name,
        "_names": (*attributes, "layout", "device"),
        "_new": Tensor.__new__,
        "_null": ffi.NULL,
        "_op": name.encode(),
        "_run1": lib.pyl_run1,
        "_run2": lib.pyl_run2,
        "_run5": lib.pyl_run5,
        "_run_list": _run_list,
    }
    exec(compile(source_of(schema), f"<pylayout op {name}>", "exec"), namespace)
    function: Any = namespace[name]
    function.__doc__ = docstring_of(schema)
    return function  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    """Makes an op's function when it is first used."""
    target = ALIASES.get(name, name)
    if name.startswith("__") or target not in schemas():
        raise AttributeError(f"pylayout.ops has no op {name!r}; dir(pylayout.ops) lists those there are")
    function = globals()[target] if target in globals() else _make(target)
    globals()[target] = globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*schemas(), *(name for name, target in ALIASES.items() if target in schemas())})


_tensor._ops_module = __import__("sys").modules[__name__]
