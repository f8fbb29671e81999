"""What could run a call, how fast, and why not the others: `pl.query` and `pl.tune`."""

from __future__ import annotations

from typing import Any

from ._load import ffi, lib
from .arrays import as_input
from .calls import Attributes, attribute_text, bind, did_you_mean, schemas
from .composed import COMPOSED
from .context import handle
from .errors import ArgumentTypeError, InvalidArgumentError, check, take_json, take_raised
from .ops import ALIASES
from .tensor import Tensor

__all__ = ["Query", "query", "tune"]


class Query:
    """The answer of `query`. Prints as a table; `data` is the whole of it as a dict.

    candidates: dicts, the best first: provider, implementation, inputs and outputs (layouts), op_ms, reorder_ms,
    total_ms, measured. refusals: dicts: provider, reason. chosen: the candidate that a call would use.
    """

    __slots__ = ("candidates", "chosen", "data", "device", "op", "refusals")

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.op: str = data["op"]
        self.device: str = data["device"]
        self.candidates: list[dict[str, Any]] = data["candidates"]
        self.refusals: list[dict[str, Any]] = data["refusals"]
        # None: a view, or nothing can run it.
        self.chosen: dict[str, Any] | None = self.candidates[0] if self.candidates else None

    def __str__(self) -> str:
        rows = [("", "provider", "implementation", "inputs", "outputs", "op ms", "reorder ms", "total ms", "cost")]
        rows += [
            (
                "*" if candidate is self.chosen else "",
                candidate["provider"],
                candidate["implementation"],
                " ".join(_given(candidate["inputs"])),
                " ".join(_layouts(candidate["outputs"])),
                _milliseconds(candidate["op_ms"]),
                _milliseconds(candidate["reorder_ms"]),
                _milliseconds(candidate["total_ms"]),
                "measured" if candidate["measured"] else "estimated",
            )
            for candidate in self.candidates
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [f"{self.op} on {self.device}"]
        lines += [
            "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        lines += dict.fromkeys(f"refused by {refusal['provider']}: {refusal['reason']}" for refusal in self.refusals)
        return "\n".join(lines)

    __repr__ = __str__

    def explain(self) -> str:
        """In words: what is chosen, the runner-up and the margin, and who refused."""
        lines = []
        best = self.chosen
        if best is None and self.data.get("view"):
            lines.append(f"{self.op} is a view: it renames memory and costs nothing where the layout permits.")
        elif best is None:
            lines.append(f"{self.op}: nothing on {self.device} can run it.")
        else:
            kind = "measured" if best["measured"] else "estimated"
            lines.append(
                f"{self.op} runs as {best['implementation']} of {best['provider']}: {_milliseconds(best['op_ms'])} ms "
                f"({kind}) and {_milliseconds(best['reorder_ms'])} ms of reorders."
            )
            others = [candidate for candidate in self.candidates if candidate is not best]
            if others:
                second = min(others, key=lambda candidate: candidate["total_ms"])
                lines.append(
                    f"Next is {second['implementation']} of {second['provider']} "
                    f"({' '.join(_given(second['inputs']))}): {_milliseconds(second['total_ms'])} ms in all, "
                    f"{second['total_ms'] - best['total_ms']:+.4f} ms."
                )
        linked = self.data.get("linked", {})
        if linked.get("ms"):
            times = ", ".join(f"{name} {ms:.4f}" for name, ms in linked["ms"].items())
            lines.append(
                f"Of the {linked['ops']} distinct ops that it runs with, the fastest choice within the program was "
                f"{linked['layout'] or 'greedy'} (ms: {times})."
            )
        lines += dict.fromkeys(f"{refusal['provider']} refused: {refusal['reason']}." for refusal in self.refusals)
        return "\n".join(lines)


def _given(names: list[str]) -> list[str]:
    """Without the absent inputs at the end."""
    return names[: max((i for i, name in enumerate(names, start=1) if name != "-"), default=0)]


def _layouts(items: Any) -> list[str]:
    return [str(item) if item is not None else "-" for item in items]


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _call(
    function: str, op: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[bytes, Any, Any, list[Tensor]]:
    """Arguments as a call of the op would bind them: (name, attributes, handles, tensors that must stay alive)."""
    if not isinstance(op, str):
        raise ArgumentTypeError(f'{function}: op is {type(op).__name__}, expected an op\'s name, such as "conv2d"')
    name = ALIASES.get(op, op)
    if name in COMPOSED:
        raise InvalidArgumentError(f'{function}: "{op}" is made of several ops, expected one that runs by itself')
    if name not in schemas():
        hint = did_you_mean(op, schemas()) or "dir(pylayout.ops) lists those there are"
        raise InvalidArgumentError(f'{function}: there is no op "{op}"; {hint}')
    common: dict[str, Any] = {key: keywords.pop(key) for key in ("layout", "device") if key in keywords}
    values, bound = bind(name, arguments, keywords)
    tensors = [None if value is None else as_input(value, op, argument) for argument, value in values]
    attributes = Attributes(attribute_text(op, {**bound, **common}))
    handles = ffi.new("pl_tensor[]", [ffi.NULL if tensor is None else tensor._handle for tensor in tensors])
    return name.encode(), attributes, handles, [tensor for tensor in tensors if tensor is not None]


def query(op: str, /, *arguments: Any, **keywords: Any) -> Query:
    """The ways to run a call, best first, with their cost, and the refusals with their reasons. Measures nothing.

    Arguments are those of `ops.<op>`.

    >>> import numpy, pylayout as pl
    >>> x = numpy.ones((1, 8, 4, 4), "float32")
    >>> pl.query("relu", x).op
    'relu'
    """
    name, attributes, handles, alive = _call("query", op, arguments, keywords)
    text = ffi.new("char **")
    check(lib.pl_op_query(handle(), name, attributes.handle, handles, len(handles), text))
    del alive
    return Query(take_json(text))


def tune(op: str, /, *arguments: Any, seconds: float = 10.0, **keywords: Any) -> Query:
    """Measure every candidate of a call within `seconds`, for this and later programs; returns what query then says."""
    name, attributes, handles, alive = _call("tune", op, arguments, keywords)
    text = ffi.new("char **")
    check(lib.pl_op_tune(handle(), name, attributes.handle, handles, len(handles), float(seconds), text))
    del alive
    raised = take_raised()
    if raised is not None:
        raise raised
    return Query(take_json(text))
