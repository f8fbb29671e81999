"""Makes the Python function of an op from its schema: signature, help text, and the call itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._load import ffi, lib
from .arrays import as_input
from .calls import as_inputs, finish, keep, run_into, run_list, schemas
from .composed import chosen
from .context import state as _context
from .errors import InvalidArgumentError
from .tensor import Tensor
from .value import Value, graph_of

__all__ = ["default_of", "docstring_of", "make", "signature_of", "source_of"]


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
    "post-ops": "str or list of str",
}


_OUT_WORDS = {False: "tensor or None", True: "tuple of tensors or None"}
_OUT_DOC = "where the result is written, of its shape and dtype; it may be one of the inputs"


def _example(schema: dict[str, Any]) -> str:
    """A call that shows the order of arguments."""
    given = []
    for parameter in schema["parameters"]:
        name = parameter["name"]
        if parameter["kind"] in ("tensor", "tensors") or (parameter["kind"] == "attribute" and parameter["required"]):
            given.append(f"[{name[:-1]}0, {name[:-1]}1]" if parameter["kind"] == "tensors" else name)
    return f"y = ops.{schema['name']}({', '.join(given)})"


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Lines of at most 100 characters; line breaks of the text stay."""
    import textwrap

    lines: list[str] = []
    for line in text.strip().split("\n"):
        lines += textwrap.wrap(
            line, 100, initial_indent=indent, subsequent_indent=indent + "    " * bool(indent), break_long_words=False
        ) or [""]
    return lines


def docstring_of(schema: dict[str, Any]) -> str:
    """The help text of an op, from its schema."""
    lines = [*_wrapped(schema["doc"]), "", "Args:"]
    for parameter in schema["parameters"]:
        kind, doc = parameter["kind"], parameter["doc"]
        if kind == "attribute":
            words = _TYPE_WORDS[parameter["type"]]
            choices = parameter.get("choices") or []
            if len(choices) > 8:
                doc += "; one of " + ", ".join(choices)
            elif choices:
                words = ("" if parameter["type"] == "string" else words + ", or ") + "one of " + ", ".join(choices)
            if not parameter["required"] and parameter["default"] is None:
                words += " or None"
        else:
            words = {"tensor": "tensor", "optional_tensor": "tensor or None", "tensors": "list of tensors"}[kind]
        lines += _wrapped(f"{parameter['name']} ({words}): {doc}", "    ")
    lines += [
        '    layout (str): "auto", "per-op", or a layout to force where an implementation has it, such as "NHWC"',
        "    device (str): where to run; default: where the inputs are",
        *_wrapped(f"out ({_OUT_WORDS[schema['several']]}): {_OUT_DOC}", "    "),
        "",
        "Raises:",
        "    ShapeError, InvalidArgumentError: an argument does not fit; the message says which and why.",
        "    UnsupportedError: nothing on the device can run it; LayoutError, DeviceError, OutOfMemoryError.",
        "",
        f"Example: {_example(schema)}",
    ]
    return "\n".join(lines)


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
    lines = [f"def {op}({', '.join(words)}, *, layout='auto', device=None, out=None):"]
    values = "(" + "".join(f"{name}, " for name in [*attributes, "layout", "device"]) + ")"
    # Values of a graph are not computed with: the op is appended there. Tensors, the usual case, are told at once.
    everything = ", ".join(f"{p['name']}={p['name']}" for p in schema["parameters"])
    if lists:
        lines.append(f"    if _graph_of({lists[0]['name']}) is not None:")
    else:
        given = [
            (f"{p['name']} is not None and " if p["kind"] == "optional_tensor" else "")
            + f"{p['name']}.__class__ is _Value"
            for p in tensors
        ]
        lines.append(f"    if {' or '.join(given)}:")
    lines += [
        f"        return _record(_name, dict({everything}), layout, device, out)",
    ]
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
        lines += [
            f"    inputs = _as_inputs({name}, _name, {name!r}, {copy})",
            "    if out is not None: return _run_into(_name, attributes, inputs, out)",
            "    return _run_list(_op, attributes, inputs)",
        ]
        return "\n".join(lines)
    names = [p["name"] for p in tensors]
    for parameter in tensors:
        name = parameter["name"]
        # Numbers take the dtype of the others, but not of a condition.
        others = "(" + "".join(f"{other}, " for other in names if other not in (name, "condition")) + ")"
        absent = f"{name} is not None and " if parameter["kind"] == "optional_tensor" else ""
        lines.append(f"    if {absent}{name}.__class__ is not _Tensor:")
        lines.append(f"        {name} = _as_input({name}, _name, {name!r}, {others}, {copy})")
    lines.append(f"    if out is not None: return _run_into(_name, attributes, [{', '.join(names)}], out)")
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
        "        return (result,)" if schema["several"] else "        return result",
        "    return _finish(_name)",
    ]
    return "\n".join(lines)


def _record(name: str, arguments: dict[str, Any], layout: Any, device: Any, out: Any) -> Any:
    """Append the op to the graph whose Value is among the arguments; attributes that say something are kept."""
    if out is not None:
        raise InvalidArgumentError(
            f"{name}: out is given, expected None: in a graph the plan places results, and Graph.update() writes states"
        )
    graph = graph_of(arguments.values())
    assert graph is not None
    said = dict(arguments)
    for parameter in schemas()[name]["parameters"]:
        value = said[parameter["name"]]
        if parameter["kind"] == "attribute" and not parameter["required"]:
            default = default_of(parameter)
            if value is default or (type(value) is type(default) and value == default):
                del said[parameter["name"]]
    return graph.op(name, **said, **chosen({"layout": layout, "device": device}))


def _frozen(values: tuple[Any, ...]) -> Any:
    """The values as a key, lists as tuples; None where one cannot be a key."""
    try:
        key = tuple(tuple(value) if isinstance(value, list) else value for value in values)
        hash(key)
    except TypeError:
        return None
    return key


def make(name: str) -> Callable[..., Any]:
    """The function of an op."""
    schema = schemas()[name]
    attributes = [p["name"] for p in schema["parameters"] if p["kind"] == "attribute"]
    namespace = {
        "__name__": __name__,
        "_Tensor": Tensor,
        "_Value": Value,
        "_as_input": as_input,
        "_as_inputs": as_inputs,
        "_context": _context,
        "_finish": finish,
        "_frozen": _frozen,
        "_graph_of": graph_of,
        "_keep": keep,
        "_kept": {},
        "_missing": None,
        "_name": name,
        "_names": (*attributes, "layout", "device"),
        "_new": Tensor.__new__,
        "_null": ffi.NULL,
        "_op": name.encode(),
        "_record": _record,
        "_run1": lib.pyl_run1,
        "_run2": lib.pyl_run2,
        "_run5": lib.pyl_run5,
        "_run_into": run_into,
        "_run_list": run_list,
    }
    exec(compile(source_of(schema), f"<pylayout op {name}>", "exec"), namespace)
    function: Any = namespace[name]
    function.__doc__ = docstring_of(schema)
    return function  # type: ignore[no-any-return]
