"""Graph: a whole program, built with the ops of `pylayout.ops`, to be compiled by `pylayout.compile`."""

from __future__ import annotations

import enum
import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy

from ._load import ffi, lib
from .arrays import RELEASE_OWNER, as_input, asarray, lend, number_as, take_back
from .calls import Attributes, attribute_text, bind, did_you_mean, schemas
from .composed import COMPOSED, append
from .context import handle as context_handle
from .dtypes import dtype_of
from .errors import ArgumentTypeError, InvalidArgumentError, ShapeError, check, take_json
from .layout import Layout, shape_array
from .ops import ALIASES
from .sizes import AnySize, Size, axis_sizes, hint_of, is_integer, is_late, late_text
from .value import Value

__all__ = ["Graph", "Trained", "Value"]

MAX_AXIS_NAME = 64
_AXIS_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")  # as expressions say it
# A value by its number and name. A graph keeps no Value, for values refer to their graph: in a circle its memory would
# wait for the collector.
_Known = tuple[int, str]


class Trained(enum.IntEnum):
    """What is known of a constant when its graph becomes one that trains (`pl_trained`)."""

    BY_USE = 0
    ALWAYS = 1
    NEVER = 2
    BY_ROLE = 3
    GIVEN = 4


class Graph:
    """A program as data. Every op of `pylayout.ops` is a method, with the same signature and `name=` besides.

    Arguments of ops are Values of this graph, or arrays and tensors, which become constants (shared, not copied: they
    must not change any more). `sizes` gives the named axes of inputs their sizes; they may be bound to others later.

    >>> import numpy, pylayout as pl
    >>> g = pl.Graph(sizes={"n": 1})
    >>> x = g.input("x", ("n", 8, 6, 6))
    >>> y = g.conv2d(x, numpy.ones((4, 8, 3, 3), "float32"), padding=1, activation="relu")
    >>> g.output(y, "y")
    >>> y.shape, g.bind(n=3).outputs["y"].shape
    ((1, 4, 6, 6), (3, 4, 6, 6))
    """

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self._handle: Any = None
        out = ffi.new("pl_graph *")
        check(lib.pl_graph_create(context_handle(), out))
        self._handle = out[0]
        self._sizes = axis_sizes("graph", {} if sizes is None else sizes)
        for axis in self._sizes:
            if len(axis) > MAX_AXIS_NAME or not _AXIS_NAME.fullmatch(axis):
                raise InvalidArgumentError(
                    f"graph: axis {axis!r}: expected letters, digits and _, no digit first, at most {MAX_AXIS_NAME}"
                )
        self._constants: dict[int, tuple[Any, _Known]] = {}  # by identity of the array, which is kept alive
        self._inputs: dict[str, _Known] = {}
        self._parameters: dict[str, _Known] = {}
        self._outputs: dict[str, _Known] = {}
        self.rewrites: dict[str, int] = {}  # by pass, of a graph made by simplify()
        self._required: set[str] = set()
        self._trained: dict[int, Trained] = {}  # of constants, by value; of others nothing is known
        self._trained_else: Trained | None = None  # what the constants are that are made now

    def __del__(self, release: Any = lib.pl_graph_release) -> None:
        if getattr(self, "_handle", None) is not None:
            release(self._handle)

    def _let_go(self) -> None:
        """Release the graph and its constants now, whatever values of it there are."""
        self._constants.clear()
        handle, self._handle = self._handle, None
        lib.pl_graph_release(handle)

    @property
    def inputs(self) -> dict[str, Value]:
        """Inputs by name."""
        return self._values(self._inputs)

    @property
    def parameters(self) -> dict[str, Value]:
        """Parameters by name."""
        return self._values(self._parameters)

    @property
    def outputs(self) -> dict[str, Value]:
        """What `output` was given, by the names of outputs."""
        return self._values(self._outputs)

    def _values(self, known: Mapping[str, _Known]) -> dict[str, Value]:
        return {name: self._value(*one) for name, one in known.items()}

    # ---- building ----

    def input(
        self,
        name: str,
        shape: Sequence[int | str],
        dtype: Any = "f32",
        layout: str | Layout | None = None,
    ) -> Value:
        """Add an input. Sizes may be names of axes that `sizes` has; `layout`: in which it will come, None: plain.

        layout "any" leaves it to the plan, for tensors that are converted before.
        Raises ShapeError for a bad size or an unknown axis, InvalidArgumentError for a name that is taken.
        """
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise ArgumentTypeError(f'graph: input "{name}": shape is {shape!r}, expected a list of sizes and axes')
        sizes, axes = [], []
        for size in shape:
            if isinstance(size, str):
                if size not in self._sizes:
                    known = ", ".join(self._sizes) or "(none)"
                    raise ShapeError(f'graph: input "{name}": axis "{size}" has no size, expected one of {known}')
                if not size or "," in size or len(size) > MAX_AXIS_NAME:
                    raise InvalidArgumentError(
                        f'graph: input "{name}": axis name {size!r} is empty, long or has a comma'
                    )
                axes.append(size)
                sizes.append(self._sizes[size])
            else:
                axes.append("")
                sizes.append(size)
        rank, array = shape_array(sizes)
        out = ffi.new("pl_value *")
        check(
            lib.pl_graph_input(
                self._handle,
                _text(name, "input's name"),
                dtype_of(dtype).code,
                rank,
                array,
                ",".join(axes).encode() if any(axes) else ffi.NULL,
                ffi.NULL if layout is None else str(layout).encode(),
                out,
            )
        )
        self._inputs[name] = (out[0], name)
        return self._value(out[0], name)

    def _value(self, identifier: int, name: str) -> Value:
        return Value(self, identifier, name)

    # ---- sizes ----

    def size(self, axis: str | Value, dim: int | None = None) -> Size:
        """A size that follows the graph's when it is bound to others: of a named axis, or of a value's dimension.

        Attributes of ops take sizes where they take integers, and arithmetic with them gives sizes.

        >>> import pylayout as pl
        >>> g = pl.Graph(sizes={"s": 4})
        >>> x = g.input("x", (1, "s", 6))
        >>> g.output(g.reshape(x, [g.size("s") * 2, 3]), "y")
        >>> g.bind(s=5).outputs["y"].shape
        (10, 3)
        """
        if isinstance(axis, Value):
            at = int(dim) if dim is not None and is_integer(dim) else axis.ndim
            at = axis.ndim + at if at < 0 else at
            if not 0 <= at < axis.ndim:
                raise ShapeError(f"graph: size: dim is {dim}, expected one of {axis.ndim} dimensions")
            return Size(self, f"#{axis._id}.{at}", axis._shape[at])
        if axis not in self._sizes:
            known = ", ".join(self._sizes) or "(none)"
            raise ShapeError(f'graph: size: there is no axis "{axis}", expected one of {known}')
        for value in self.describe()["inputs"]:
            if axis in value["axes"]:
                at = value["axes"].index(axis)
                return Size(self, f"#{value['id']}.{at}", value["shape"][at])
        raise ShapeError(f'graph: size: no input has the axis "{axis}" yet')

    def require(self, condition: str) -> None:
        """Bind the graph only to sizes for which this holds: "#0.1 < 513", with <, <=, == or !=.

        Raises UnsupportedError where it does not hold now.
        """
        if condition not in self._required:
            check(lib.pl_graph_require(self._handle, _text(condition, "condition")))
            self._required.add(condition)

    def sizes_constant(self, sizes: Sequence[AnySize] | AnySize, dtype: Any = "s64") -> Value:
        """A constant whose elements are sizes: of rank 1, or of rank 0 for one that is not in a list."""
        one = isinstance(sizes, (int, Size))
        return self._late_constant(late_text(sizes) if one else f"[{_texts(sizes)}]", dtype)

    def arange(self, first: AnySize, end: AnySize, step: AnySize = 1, dtype: Any = "s64") -> Value:
        """A constant with the numbers from `first` up to before `end`."""
        return self._late_constant(f"range({_texts([first, end, step])})", dtype)

    def _late_constant(self, text: str, dtype: Any) -> Value:
        out = ffi.new("pl_value *")
        check(lib.pl_graph_sizes(self._handle, ffi.NULL, dtype_of(dtype).code, text.encode(), out))
        self._note(out[0])
        return self._value(out[0], f"sizes{out[0]}")

    def constant(self, value: Any, name: str | None = None, dtype: Any = None) -> Value:
        """Add a constant: an array, a tensor or a number. The same array object gives the same constant again."""
        known = self._constants.get(id(value))
        if known is not None and dtype is None:
            return self._value(*known[1])
        tensor = as_input(value, "graph", "constant") if dtype is None else asarray(value, dtype=dtype)
        out = ffi.new("pl_value *")
        label = ffi.NULL if name is None else _text(name, "constant's name")
        check(lib.pl_graph_constant(self._handle, label, tensor._handle, out))
        self._note(out[0])
        made = (out[0], name or f"constant{out[0]}")
        if dtype is None and not isinstance(value, (int, float)):
            self._constants[id(value)] = (value, made)
        return Value(self, *made)

    def _note(self, constant: int) -> None:
        if self._trained_else is not None:
            self._trained[constant] = self._trained_else

    def parameter(self, name: str, value: Any, dtype: Any = None) -> Value:
        """Add a parameter: a state that gradients are taken of. `value` is what it begins with."""
        made = self._keep(lib.pl_graph_parameter, name, value, dtype)
        self._parameters[name] = (made._id, name)
        return made

    def state(self, name: str, value: Any, dtype: Any = None) -> Value:
        """Add a value that a plan keeps between its runs, with what it is before the first one.

        Ops read it as any value; `update` says what a run makes of it, `Plan.state` and `Plan.set_state` read and write
        it. The array must not change until a plan is made.

        >>> import numpy, pylayout as pl
        >>> g = pl.Graph()
        >>> count = g.state("count", numpy.zeros((), "float32"))
        >>> g.update(count, count + 1)
        >>> g.output(count * 10, "tens")
        >>> plan = pl.compile(g, tune="off")
        >>> [float(plan.run()[0]) for _ in range(3)], float(plan.state("count"))
        ([0.0, 10.0, 20.0], 3.0)
        """
        return self._keep(lib.pl_graph_state, name, value, dtype)

    def _keep(self, function: Any, name: str, value: Any, dtype: Any) -> Value:
        tensor = as_input(value, "graph", "state") if dtype is None else asarray(value, dtype=dtype)
        out = ffi.new("pl_value *")
        check(function(self._handle, _text(name, "state's name"), tensor._handle, out))
        return Value(self, out[0], name)

    def update(self, state: Value, value: Value) -> None:
        """After each run, `state` is what `value` was in it. The last call for a state counts."""
        check(lib.pl_graph_update(self._handle, self._own(state, "state"), self._own(value, "value")))

    def gradients(self, loss: Value, by: Sequence[Value]) -> list[Value]:
        """Append what derives `loss`, a value of one element, by each of `by`: their gradients, of their shapes.

        Raises UnsupportedError naming the node where an op in between has no gradient.

        >>> import numpy, pylayout as pl
        >>> g = pl.Graph()
        >>> w = g.parameter("w", numpy.array([3.0, 4.0], "float32"))
        >>> (dw,) = g.gradients((w * w).sum(), [w])
        >>> g.output(dw)
        >>> pl.compile(g, tune="off").run()[0]
        array([6., 8.], dtype=float32)
        """
        values = self._own_each(by, "gradients: by", "a value to derive by")
        out = ffi.new("pl_value[]", max(1, len(values)))
        check(lib.pl_graph_gradients(self._handle, self._own(loss, "loss"), values, len(values), out))
        return [Value(self, out[i], f"{value.name}/gradient") for i, value in enumerate(by)]

    def scaled_gradients(
        self, loss: Value, by: Sequence[Value], initial: float = 65536.0, interval: int = 2000
    ) -> tuple[list[Value], Value]:
        """Append what derives `loss` times a scale; the gradients, and the `grad_scale` for steps of optimizers.

        For plans with math="fp16", in which small gradients would be lost. The scale is the state "loss_scale". In a
        run whose gradients are not all finite grad_scale is 0, by which steps leave all as it was, the scale is
        halved, and states that have an update so far keep their values. After `interval` other runs in a row, which the
        state "loss_scale/good_steps" counts, it is doubled. Raises as `gradients` does.

        >>> import numpy, pylayout as pl
        >>> g = pl.Graph()
        >>> w = g.parameter("w", numpy.array([3.0, 4.0], "float32"))
        >>> (dw,), grad_scale = g.scaled_gradients((w * w).sum(), [w], initial=8.0)
        >>> g.output(dw), g.output(grad_scale)
        (None, None)
        >>> [value.tolist() for value in pl.compile(g, tune="off").run()]
        [[48.0, 64.0], 0.125]
        """
        values = self._own_each(by, "scaled_gradients: by", "a value to derive by")
        out, factor = ffi.new("pl_value[]", max(1, len(values))), ffi.new("pl_value *")
        check(
            lib.pl_graph_scaled_gradients(
                self._handle, self._own(loss, "loss"), values, len(values), initial, interval, out, factor
            )
        )
        made = [Value(self, out[i], f"{value.name}/gradient") for i, value in enumerate(by)]
        return made, Value(self, factor[0], "grad_scale")

    def _own_each(self, values: Sequence[Value], argument: str, what: str) -> list[int]:
        if isinstance(values, Value) or not isinstance(values, Iterable):
            raise ArgumentTypeError(f"graph: {argument} is {values!r}, expected a list of values")
        return [self._own(value, what) for value in values]

    def _own(self, value: Value, what: str) -> int:
        if not isinstance(value, Value) or value.graph is not self:
            raise ArgumentTypeError(f"graph: {what} is {value!r}, expected a Value of this graph")
        return value._id

    def constant_memory(self, array: Any, name: str | None = None) -> Value:
        """Add a constant over an array that lies where it is only read: in a mapped file, aligned or not.

        The same array object gives the same constant again.
        """
        known = self._constants.get(id(array))
        if known is None:
            out = ffi.new("pl_value *")
            rank, sizes = shape_array(array.shape)
            label = ffi.NULL if name is None else _text(name, "constant's name")
            address = ffi.cast("void *", array.__array_interface__["data"][0])
            key = lend(array)
            status = lib.pl_graph_constant_memory(
                self._handle, label, dtype_of(array.dtype).code, rank, sizes, address, RELEASE_OWNER,
                ffi.cast("void *", key), out,
            )  # fmt: skip
            if status:
                take_back(key)
                check(status)
            self._note(out[0])
            known = self._constants[id(array)] = (array, (out[0], name or f"constant{out[0]}"))
        return self._value(*known[1])

    def output(self, value: Value, name: str | None = None, layout: str | Layout | None = None) -> None:
        """Make a value a result. `layout`: in which it is wanted, None: plain.

        layout "any" leaves it to the plan, whose `outputs` tell it; it is the same in all runs, at all sizes.
        """
        if not isinstance(value, Value) or value.graph is not self:
            raise ArgumentTypeError(f"graph: output is {value!r}, expected a Value of this graph")
        label = name or value.name
        wanted = ffi.NULL if layout is None else str(layout).encode()
        check(lib.pl_graph_output(self._handle, value._id, _text(label, "output's name"), wanted))
        self._outputs[label] = (value._id, value.name)

    def op(self, op: str, /, *arguments: Any, name: str | None = None, **keywords: Any) -> Any:
        """Append the op called `op`; returns its Value, or a tuple of Values where it has several results.

        Raises what the eager op raises; the message names the node too.
        """
        target = ALIASES.get(op, op)
        if target not in schemas() and target not in COMPOSED:
            hint = did_you_mean(op, schemas()) or "dir(pylayout.ops) lists those there are"
            raise InvalidArgumentError(f'graph: there is no op "{op}"; {hint}')
        for key in ("layout", "device"):
            if key in keywords:
                raise InvalidArgumentError(
                    f"{op}: {key} is given, but a graph's layouts and devices are the plan's choice"
                )
        if target in COMPOSED:
            return append(self, target, arguments, keywords, name)
        tensors, attributes = bind(target, arguments, keywords)
        given_values = tuple(value for argument, value in tensors if argument != "condition")
        values = []
        for argument, given in tensors:
            if given is None:
                values.append(-1)
            elif isinstance(given, Value):
                if given.graph is not self:
                    raise InvalidArgumentError(f"{op}: {argument} is a Value of another graph")
                values.append(given._id)
            else:
                values.append(self._beside(given, given_values)._id)
        late = " ".join(f"{key}={_late_value(value)}" for key, value in attributes.items() if is_late(value))
        if late:
            attributes = {key: value for key, value in attributes.items() if not is_late(value)}
        first, count = self._append(target, attribute_text(op, attributes), late, values, name)
        shown = name or target
        if count == 1 and not schemas()[target]["several"]:
            return self._value(first, shown)
        return tuple(self._value(first + i, f"{shown}:{i}") for i in range(count))

    def _beside(self, given: Any, values: tuple[Any, ...]) -> Value:
        """The constant of an op's argument that is no Value: a number is of the dtype of the others."""
        if not isinstance(given, (int, float, numpy.generic, Size)):
            return self.constant(given)
        number = hint_of(given) if isinstance(given, Size) else given
        dtype, _ = number_as(number, tuple(value for value in values if value is not given))
        return self.number(given, dtype)

    def number(self, value: Any, dtype: Any) -> Value:
        """A constant of rank 0, of a size too."""
        if not isinstance(value, Size):
            return self.constant(value, dtype=dtype)
        wanted = dtype_of(dtype).name
        if wanted in ("s64", "s32", "f32"):
            return self.sizes_constant(value, wanted)
        made: Value = self.op("cast", self.sizes_constant(value, "f32" if wanted in ("f16", "bf16") else "s64"), wanted)
        return made

    def _append(self, op: str, attributes: str, late: str, values: list[int], name: str | None) -> tuple[int, int]:
        """Append one op of the core: the number of its first result, and how many there are."""
        made = Attributes(attributes)
        label = ffi.NULL if name is None else _text(name, "node's name")
        out, count = ffi.new("pl_value *"), ffi.new("size_t *")
        arguments = (values, len(values), label, out, count)
        if late:
            check(lib.pl_graph_op_late(self._handle, op.encode(), made.handle, late.encode(), *arguments))
        else:
            check(lib.pl_graph_op(self._handle, op.encode(), made.handle, *arguments))
        return out[0], count[0]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        target = ALIASES.get(name, name)
        if name.startswith("_") or (target not in schemas() and target not in COMPOSED):
            hint = "" if name.startswith("_") else did_you_mean(name, dir(self))
            raise AttributeError(f"a graph has no op or attribute {name!r}" + (hint and "; " + hint))

        def append(*arguments: Any, name: str | None = None, **keywords: Any) -> Any:
            return self.op(append.__name__, *arguments, name=name, **keywords)

        append.__name__ = name
        return append

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *schemas(), *COMPOSED})

    # ---- reading ----

    def bind(self, **sizes: int) -> Graph:
        """The same program for other sizes of the named axes."""
        sizes = axis_sizes("graph: bind", sizes)
        text = " ".join(f"{axis}={size}" for axis, size in sizes.items()).encode()
        out = ffi.new("pl_graph *")
        check(lib.pl_graph_bind(self._handle, text, out))
        return Graph._adopt(out[0], {**self._sizes, **sizes}, self)

    def simplify(self, without: Sequence[str] = ()) -> Graph:
        """The same program, for the sizes it has now, after the passes that every plan begins with, but those named.

        Its attribute `rewrites` says how often each pass found something.

        >>> import numpy, pylayout as pl
        >>> g = pl.Graph()
        >>> x = g.input("x", (1, 8, 6, 6))
        >>> g.output(g.relu(g.conv2d(g.dropout(x), numpy.ones((4, 8, 3, 3), "float32"))), "y")
        >>> [node["op"] for node in g.simplify().describe()["nodes"]]
        ['conv2d']
        """
        out, text = ffi.new("pl_graph *"), ffi.new("char **")
        check(lib.pl_graph_simplify(self._handle, _text(",".join(without), "without"), out, text))
        made = Graph._adopt(out[0], dict(self._sizes), self)
        made.rewrites = {report["name"]: report["rewrites"] for report in take_json(text)}
        return made

    def join_elements(self) -> Graph:
        """The same program, with one op `pointwise` for elementwise ops that follow each other; equal ops are one.

        For who runs a graph's ops one by one; plans do the same by themselves.

        >>> import pylayout as pl
        >>> g = pl.Graph()
        >>> x = g.input("x", (2, 3))
        >>> g.output(g.exp(-x) * x, "y")
        >>> [node["op"] for node in g.join_elements().describe()["nodes"]]
        ['pointwise']
        """
        out = ffi.new("pl_graph *")
        check(lib.pl_graph_join_elements(self._handle, out))
        return Graph._adopt(out[0], dict(self._sizes), self)

    def trainable(
        self, momentum: float = 0.1, parameters: Sequence[str] | Callable[[str], bool] | None = None
    ) -> Graph:
        """The same program for training: weights become parameters, and batch norms take the statistics of the batch.

        Args:
            momentum: running statistics of batch norms become states that follow the batch's by it, as in PyTorch.
            parameters: which constants become parameters, by name: a list of names and patterns ("head.*"), or a
                function that says so of a name. Default: those that are weights by their use, and, of a model from a
                file, by what the file says of them (docs/howto/train.md).

        Weights by use are the constants that ops call so (`weight`, `bias`, ...), and those of more than one element
        that matrix products, sums, products, quotients and look-ups take. What is used several times is one parameter.
        Raises InvalidArgumentError for a name that no constant of floats has.

        >>> import numpy, pylayout as pl
        >>> g = pl.Graph()
        >>> x = g.input("x", (2, 3))
        >>> g.output(g.linear(x, g.constant(numpy.ones((4, 3), "float32"), "w")), "y")
        >>> t = g.trainable()
        >>> list(t.parameters), t.outputs["y"].shape
        (['w'], (2, 4))
        """
        known = self._trained if parameters is None else self._chosen(parameters)
        out = ffi.new("pl_graph *")
        kinds = ffi.new("pl_trained[]", [int(kind) for kind in known.values()] or 1)
        check(lib.pl_graph_trainable(self._handle, momentum, list(known) or ffi.NULL, kinds, len(known), out))
        return Graph._adopt(out[0], dict(self._sizes))

    def _chosen(self, parameters: Sequence[str] | Callable[[str], bool]) -> dict[int, Trained]:
        """What becomes of each constant where a user says which are parameters."""
        floats = ("f32", "f16", "bf16", "f64")
        names = {item["name"]: item["id"] for item in self.describe()["constants"] if item["dtype"] in floats}
        if callable(parameters):
            chosen = {name for name in names if parameters(name)}
        else:
            if isinstance(parameters, str):
                raise ArgumentTypeError(f"graph: parameters is {parameters!r}, expected a list of names or a function")
            chosen = set()
            for wanted in parameters:
                found = [wanted] if wanted in names else fnmatch.filter(names, wanted)
                if not found:
                    hint = did_you_mean(wanted, list(names)) or f"it has {', '.join(list(names)[:20]) or 'none'}"
                    raise InvalidArgumentError(f"graph: no constant of floats is called {wanted!r}; {hint}")
                chosen.update(found)
        return {at: Trained.ALWAYS if name in chosen else Trained.NEVER for name, at in names.items()}

    @staticmethod
    def _adopt(handle: Any, sizes: dict[str, int], origin: Graph | None = None) -> Graph:
        made = Graph.__new__(Graph)
        made._handle = handle
        made._sizes = sizes
        made._constants = {}
        made.rewrites = {}
        made._required = set()
        made._trained = {}
        made._trained_else = None
        description = made.describe()
        if origin is not None and origin._trained:  # constants keep their names; others are what passes made
            known = {item["name"]: origin._trained.get(item["id"]) for item in origin.describe()["constants"]}
            kinds = {item["id"]: known.get(item["name"], Trained.BY_ROLE) for item in description["constants"]}
            made._trained = {at: kind for at, kind in kinds.items() if kind is not None}
        states = [v for v in description["states"] if v["parameter"]]
        made._parameters = {v["name"]: (v["id"], v["name"]) for v in states}
        made._inputs = {v["name"]: (v["id"], v["name"]) for v in description["inputs"]}
        made._outputs = {v["name"]: (v["id"], v["name"]) for v in description["outputs"]}
        return made

    def describe(self) -> dict[str, Any]:
        """Inputs, constants, nodes and outputs, as plain data."""
        text = ffi.new("char **")
        check(lib.pl_graph_describe(self._handle, b"json", text))
        return take_json(text)  # type: ignore[no-any-return]

    def dot(self) -> str:
        """The graph in Graphviz's language."""
        return self._text_as(b"dot")

    def __str__(self) -> str:
        return self._text_as(b"text")

    def _text_as(self, format: bytes) -> str:
        text = ffi.new("char **")
        check(lib.pl_graph_describe(self._handle, format, text))
        try:
            return str(ffi.string(text[0]).decode("utf-8", "replace"))
        finally:
            lib.pl_string_free(text[0])


def _texts(sizes: Any) -> str:
    return ",".join(late_text(size) for size in sizes)


def _late_value(value: Any) -> str:
    return value.text if isinstance(value, Size) else f"[{_texts(value)}]"


def _text(text: str, what: str) -> bytes:
    if not isinstance(text, str) or "\0" in text:
        raise ArgumentTypeError(f"graph: {what} is {text!r}, expected text without NUL characters")
    return text.encode()
