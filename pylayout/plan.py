"""Plan: a whole program with every choice made: `pylayout.compile("model.onnx")`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from ._load import ffi, lib
from .arrays import as_input, asarray
from .batcher import Batcher, batched
from .callbacks import Callbacks
from .calls import attribute_text
from .context import handle as context_handle
from .errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    UnsupportedError,
    check,
    error_of,
    keep_raised,
    take_json,
    take_raised,
)
from .graph import Graph
from .sizes import axis_sizes
from .tensor import Tensor, adopt, tensor_under

__all__ = ["GraphFor", "Plan", "Progress", "compile_graph", "path_bytes", "read_plan"]

# Called now and then while a plan is made: stage, fraction done.
Progress = Callable[[str, float], None]

# Makes a graph for inputs of these shapes, by name, for which a plan's own was not made, as the text says.
GraphFor = Callable[[Mapping[str, tuple[int, ...]], str], Graph]

_progress = Callbacks()


@ffi.def_extern(onerror=keep_raised)  # type: ignore[untyped-decorator]
def pyl_python_plan_progress(user: Any, stage: Any, fraction: float) -> None:
    callback = _progress.find(int(ffi.cast("uintptr_t", user)))
    if callback is not None:
        callback(ffi.string(stage).decode(), fraction)


class Plan:
    """A compiled graph. `run` takes and gives NumPy arrays; calling it takes and gives tensors, without copies.

    inputs, outputs: dicts with name, dtype, shape and layout, in order; of inputs also the names of their axes ("" for
    fixed ones, none at all where no axis has a name). Named axes may have any sizes in a run.
    states: of the values that are kept between runs, name, dtype, shape, whether one is a parameter, whether updated.
    """

    def __init__(self, handle: Any, graph_for: GraphFor | None = None) -> None:
        self._handle = handle
        self._graph_for = graph_for
        self._making = threading.Lock()  # held while one is made
        text = ffi.new("char **")
        check(lib.pl_plan_describe(handle, text))
        description = take_json(text)
        self.device: str = description["device"]
        self.inputs: list[dict[str, Any]] = description["inputs"]
        self.outputs: list[dict[str, Any]] = description["outputs"]
        self.states: list[dict[str, Any]] = description["states"]

    def __del__(self, release: Any = lib.pl_plan_release) -> None:
        if getattr(self, "_handle", None) is not None:
            release(self._handle)

    # ---- running ----

    def __call__(self, *tensors: Any) -> Any:
        """Run on tensors (or anything `asarray` takes). Returns a Tensor, or a tuple where there are several outputs.

        Axes that have names may have any sizes: a run with sizes not seen before prepares a program for them, in
        milliseconds. Raises ShapeError and InvalidArgumentError naming the input and axis that do not fit.
        """
        given = [
            value if isinstance(value, Tensor) else self._as_tensor(value, place) for place, value in enumerate(tensors)
        ]
        handles = ffi.new("pl_tensor[]", [tensor._handle for tensor in given])
        out = ffi.new("pl_tensor[]", max(1, len(self.outputs)))
        status = lib.pl_plan_run(self._handle, handles, len(given), out, len(self.outputs))
        if status:
            self._extend_or_raise(status, [tensor.shape for tensor in given])
            check(lib.pl_plan_run(self._handle, handles, len(given), out, len(self.outputs)))
        results = tuple(adopt(out[i]) for i in range(len(self.outputs)))
        return results[0] if len(results) == 1 else results

    def prepare(self, **sizes: int) -> None:
        """Make the program for these sizes of the named axes now, so that no run waits for it.

        Raises what a run at these sizes does, and InvalidArgumentError where they are not those of all axes.

        >>> import numpy, pylayout as pl
        >>> g = pl.Graph(sizes={"n": 1})
        >>> g.output(g.relu(g.input("x", ("n", 8))), "y")
        >>> plan = pl.compile(g, device="cpu", tune="off")
        >>> plan.prepare(n=16)
        >>> plan.summary()["sizes"]["made"]
        1
        """
        axes = [*dict.fromkeys(axis for item in self.inputs for axis in item["axes"] if axis)]
        if sizes.keys() != set(axes):
            given, wanted = (", ".join(names) or "(none)" for names in (sizes, axes))
            raise InvalidArgumentError(f"prepare: sizes are of {given}, expected those of {wanted}")
        sizes = axis_sizes("plan: prepare", sizes)
        array = ffi.new("int64_t[]", [sizes[axis] for axis in axes])
        status = lib.pl_plan_prepare(self._handle, array, len(axes))
        if status:
            shapes = [
                tuple(
                    sizes[axis] if axis else size
                    for axis, size in zip(item["axes"] or [""] * len(item["shape"]), item["shape"], strict=True)
                )
                for item in self.inputs
            ]
            self._extend_or_raise(status, shapes)
            check(lib.pl_plan_prepare(self._handle, array, len(axes)))

    # ---- values that are kept between runs ----

    def state(self, name: str) -> numpy.ndarray[Any, Any]:
        """A copy of a value that the plan keeps (`Graph.state`, `Graph.parameter`), as it is between two runs."""
        out = ffi.new("pl_tensor *")
        check(lib.pl_plan_state(self._handle, _name_bytes(name), out))
        return numpy.asarray(adopt(out[0]))

    def set_state(self, name: str, value: Any) -> None:
        """Put another value, of the same shape and dtype, in the place of one that the plan keeps."""
        encoded = _name_bytes(name)
        if isinstance(value, (int, float)):  # of Python: it has the state's dtype
            tensor = asarray(value, dtype=next((each["dtype"] for each in self.states if each["name"] == name), None))
        else:
            tensor = as_input(value, "plan: set_state", "value")
        check(lib.pl_plan_set_state(self._handle, encoded, tensor._handle))

    def run(self, *arrays: Any) -> list[numpy.ndarray[Any, Any]]:
        """Run on NumPy arrays, in the order of `inputs`, or by name in one dict. Returns a list of NumPy arrays."""
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            arrays = self._by_name(arrays[0])
        results = self(*arrays)
        return [numpy.asarray(result) for result in (results if isinstance(results, tuple) else (results,))]

    def batched(
        self,
        max_batch: int | None = None,
        max_wait_ms: float = 2.0,
        *,
        max_queue: int | None = None,
        sizes: Sequence[int] | None = None,
    ) -> Batcher:
        """A `Batcher`, which gathers requests of several threads into batches of this plan.

        For models in which the rows of a batch (images, along the first axis of every input and output) do not depend
        on each other. A request waits for others for `max_wait_ms` at most, and until they are `max_batch` rows
        (default: as many as the plan was compiled for; 16 where its first axis has a name). At most `max_queue`
        requests wait (default: 16 * max_batch); of one more, QueueFullError. sizes: numbers of rows that are run, the
        largest at least max_batch, to which a batch is filled up with copies of its last row (default: powers of two
        and max_batch; the plan's own where its axes have no names).

        >>> import numpy, pylayout as pl
        >>> g = pl.Graph()
        >>> x = g.input("x", (4, 8))
        >>> g.output(g.relu(x), "y")
        >>> with pl.compile(g, device="cpu", tune="off").batched(max_wait_ms=1) as batcher:
        ...     batcher.run(-numpy.ones((1, 8), "float32"))[0].shape
        (1, 8)
        """
        any_rows = all(item["axes"] and item["axes"][0] for item in self.inputs)
        any_shape = any(any(item["axes"]) for item in self.inputs)
        return batched(self, any_rows, any_shape, max_batch, max_wait_ms, max_queue, sizes)

    def _as_tensor(self, value: Any, place: int) -> Tensor:
        name = self.inputs[place]["name"] if place < len(self.inputs) else str(place)
        if isinstance(value, (list, tuple, int, float)):
            dtype = self.inputs[place]["dtype"] if place < len(self.inputs) else None
            return asarray(value, dtype=dtype)
        given = tensor_under(value) if isinstance(value, numpy.ndarray) else None  # what a run gave
        return given if given is not None else as_input(value, "plan", f'input "{name}"')

    def _by_name(self, arrays: Mapping[str, Any]) -> tuple[Any, ...]:
        names = [item["name"] for item in self.inputs]
        for name in arrays:
            if name not in names:
                raise InvalidArgumentError(f'plan: there is no input "{name}", expected {", ".join(names)}')
        for name in names:
            if name not in arrays:
                raise InvalidArgumentError(f'plan: input "{name}" is missing')
        return tuple(arrays[name] for name in names)

    def _extend_or_raise(self, status: int, shapes: Sequence[tuple[int, ...]]) -> None:
        """After a run that gave this status: if the plan was not made for these shapes, let it serve them."""
        error = error_of(status)
        if self._graph_for is None or not isinstance(error, UnsupportedError):
            raise error
        with self._making:
            given = dict(zip((item["name"] for item in self.inputs), shapes, strict=True))
            graph = self._graph_for(given, str(error))
            try:
                check(lib.pl_plan_extend(self._handle, graph._handle))
            finally:
                graph._let_go()

    # ---- live runs ----

    def settled(self) -> bool:
        """Whether no run changes the choices any more."""
        settled = ffi.new("int32_t *")
        check(lib.pl_plan_settled(self._handle, settled))
        return bool(settled[0])

    def freeze(self) -> None:
        """Keep what was chosen so far: nothing competes in runs from here on."""
        check(lib.pl_plan_freeze(self._handle))

    # ---- keeping ----

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write graph, weights, states and choices to a file, whole or not at all; `load_plan` reads it.

        Raises FileError where it cannot be written.
        """
        check(lib.pl_plan_save(self._handle, path_bytes(path)))

    # ---- saying why ----

    def explain(self, html: str | os.PathLike[str] | None = None) -> str:
        """In words: for each op the choice, the runner-up and its margin; each reorder and what made it necessary.

        html: a file into which to write the same as a picture.
        """
        if html is not None:
            from .report.plan import write_plan

            write_plan(html, self)
        return self._text(lib.pl_plan_explain)

    def summary(self) -> dict[str, Any]:
        """In figures: steps, choices, reorders (count, bytes, ms), memory, the programs that were timed, the passes.

        recalled: whether choices and contestants are those of an earlier compilation of the same graph.
        tuning: "state": "live" while others compete in runs, then "settled", or "pinned" (`freeze`); how many were
        "tried", and the ms that this cost ("spent_ms"). "measuring_seconds": what measuring took while the plan was
        made; "agreement_seconds": of that, holding results against each other.
        phases: of a plan that trains, the ms expected of "forward", "backward" and "update"; each step has its "phase".
        choices: for each node what was chosen, its `next` best and the margin: what the whole would cost more with it.
        """
        text = ffi.new("char **")
        check(lib.pl_plan_summary(self._handle, text))
        return take_json(text)  # type: ignore[no-any-return]

    def graph(self, format: str = "text") -> str:
        """The graph after the passes, as "text", "dot" (Graphviz) or "json"."""
        return self._text(lambda plan, text: lib.pl_plan_graph(plan, format.encode(), text))

    def _text(self, function: Callable[[Any, Any], int]) -> str:
        text = ffi.new("char **")
        check(function(self._handle, text))
        try:
            return str(ffi.string(text[0]).decode("utf-8", "replace"))
        finally:
            lib.pl_string_free(text[0])

    def __repr__(self) -> str:
        inputs = ", ".join(f"{item['name']} {tuple(item['shape'])}" for item in self.inputs)
        return f"<Plan for {self.device}: {inputs}>"


def compile_graph(graph: Graph, options: dict[str, Any], progress: Progress | None = None) -> Any:
    """The handle of a plan of a graph."""
    text = attribute_text("compile", {key: value for key, value in options.items() if value is not None})
    out = ffi.new("pl_plan *")
    with _progress.number_of(progress, "compile: progress") as number:
        report = ffi.addressof(lib, "pyl_plan_progress") if number else ffi.NULL
        check(lib.pl_plan_compile(graph._handle, text.encode(), report, ffi.cast("void *", number), out))
    raised = take_raised()
    if raised is not None:  # by the last report, after which nobody asked whether to stop
        lib.pl_plan_release(out[0])
        raise raised
    return out[0]


def read_plan(path: str | os.PathLike[str], *, replan: bool = False, **options: Any) -> Plan:
    """A plan of one program from a file of `Plan.save`; errors as of `pylayout.load_plan`."""
    text = attribute_text("load_plan", {"replan": replan, **{k: v for k, v in options.items() if v is not None}})
    out = ffi.new("pl_plan *")
    check(lib.pl_plan_load(context_handle(), path_bytes(path), text.encode(), out))
    return Plan(out[0])


def _name_bytes(name: str) -> bytes:
    if not isinstance(name, str) or "\0" in name:
        raise ArgumentTypeError(f"plan: a state's name is {name!r}, expected text without NUL characters")
    return name.encode()


def path_bytes(path: str | os.PathLike[str]) -> bytes:
    name = os.fsencode(path)
    if b"\0" in name:
        raise InvalidArgumentError(f"plan: path is {path!r}, expected one without NUL characters")
    return name
