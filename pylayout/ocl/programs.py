"""Programs: what stands for an op of PyTorch with given arguments, made by the converters of `pylayout.torch`.

The shim asks for one where it has none for an op with arguments of these sizes, strides, dtypes and numbers. It is
calls of the library's ops, one after another; the shim keeps and runs it (shim/programs.cpp).
"""

from __future__ import annotations

import json
import logging
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx import Graph as Traced
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes

from .._load import ffi, lib
from ..calls import schemas
from ..errors import Error, UnsupportedError, check
from ..graph import Graph
from ..tensor import Tensor, adopt
from ..torch.backend import decompositions
from ..torch.call import FLOATS, dtype_name
from ..torch.dtypes import dense_layout
from ..torch.fold import folded
from ..torch.partition import writes
from ..torch.registry import converters, name_of
from ..torch.translate import Translator, reason_of
from ..value import Value
from .alike import MOST_CONSTANT, Calls, Made, Output, serves_others
from .shim import Shim, ints, longs

__all__ = ["functional_form", "make"]

# By PyTorch's numbers of dtypes.
_DTYPES = {
    0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16, 6: torch.float32,
    7: torch.float64, 11: torch.bool, 15: torch.bfloat16,
}  # fmt: skip
_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}
_FORMATS = {
    0: torch.contiguous_format, 1: torch.preserve_format, 2: torch.channels_last, 3: torch.channels_last_3d,
}  # fmt: skip

_log_of_pytorch = logging.getLogger("torch._subclasses.fake_tensor")
_mode = FakeTensorMode(allow_non_fake_inputs=True)
_making = threading.RLock()  # the mode counts how deep it was entered, whoever enters it
_calls = Calls()


class _Recording(Graph):
    """A graph that keeps what was appended to it."""

    def __init__(self) -> None:
        super().__init__()
        self.appended: list[tuple[str, str, list[int], int, int]] = []  # op, attributes, inputs, first result, count

    def _append(self, op: str, attributes: str, late: str, values: list[int], name: str | None) -> tuple[int, int]:
        first, count = super()._append(op, attributes, late, values, None)
        if late:
            raise UnsupportedError(f"{op}: sizes known late")
        self.appended.append((op, attributes, values, first, count))
        return first, count


# ---- the op without what it writes ----


def _overload(name: str) -> Any:
    """`aten::add.Tensor` as PyTorch's object of it."""
    space, rest = name.split("::", 1)
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload or "default")


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


@cache
def functional_form(name: str) -> tuple[Any, tuple[int, ...]]:
    """The op that gives what this one writes, and the places of the arguments that this one writes into.

    The last results of that op are what is written, in order. Raises UnsupportedError where there is no such op.
    """
    overload = _overload(name)
    arguments = overload._schema.arguments
    written = tuple(place for place, argument in enumerate(arguments) if _is_written(argument))
    if not written:
        return overload, ()
    if any("[]" in str(arguments[place].type) or "List" in str(arguments[place].type) for place in written):
        raise UnsupportedError("a list that is written into")
    space, rest = name.split("::", 1)
    packet = rest.partition(".")[0]
    if packet.endswith("_") and not packet.endswith("__") and written == (0,):
        wanted, target = arguments, packet[:-1]
    elif packet.startswith("__i") and packet.endswith("__") and written == (0,):  # x <<= y
        wanted, target = arguments, f"__{packet[3:]}"
    elif all(arguments[place].is_out for place in written):
        wanted, target = [argument for argument in arguments if not argument.is_out], packet
    else:  # beside its results: statistics
        wanted, target = arguments, f"{packet}_functional"
    found = getattr(getattr(torch.ops, space), target, None)
    for each in found.overloads() if found is not None else ():
        candidate = getattr(found, each)
        given = candidate._schema.arguments
        if [(a.name, str(a.type).removesuffix("?")) for a in given] == [
            (a.name, str(a.type).removesuffix("?")) for a in wanted
        ] and not any(map(_is_written, given)):
            return candidate, written
    raise UnsupportedError("no form without a result that is written")


@dataclass
class _Form:
    """A call as a call of an op that writes nothing."""

    op: Any
    arguments: list[Any]
    keywords: dict[str, Any]
    targets: list[Any]  # of the op's last results: the nodes of the tensors into which they are written
    returned: int  # how many of the op's results the call gives
    # Results, by place, whose dtype PyTorch describes for the CPU and has otherwise on devices.
    dtypes: dict[int, torch.dtype] = field(default_factory=dict)

    def run(self, value_of: Callable[[Any], Any]) -> Any:
        """What the op gives of other values in the place of its arguments."""
        described = _DESCRIPTIONS.get(self.op, self.op)
        return described(*map(value_of, self.arguments), **{key: value_of(each) for key, each in self.keywords.items()})


def _products_of_groups(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    if offs is None or bias is not None or out_dtype not in (None, a.dtype) or a.ndim != 2 or b.ndim not in (2, 3):
        raise UnsupportedError("groups that are not of rows or of columns, a bias, or another dtype of the result")
    if a.dtype != b.dtype or a.shape[1] != b.shape[-2] or offs.dtype != torch.int32 or offs.ndim != 1:
        raise UnsupportedError("factors that do not match")  # said by PyTorch's kernel for the CPU
    if b.ndim == 3 and len(b) != len(offs):
        raise UnsupportedError("as many groups as matrices")
    return a.new_empty([*([len(offs)] if b.ndim == 2 else []), a.shape[0], b.shape[-1]])


# Ops whose description by PyTorch takes less than its kernels do: that of `_grouped_mm` takes bfloat16 alone.
_DESCRIPTIONS = {torch.ops.aten._grouped_mm.default: _products_of_groups}


def _form(name: str, given: _Given | _Described) -> _Form:
    own = _overload(name)._schema
    values = [_typed(argument, value) for argument, value in zip(own.arguments, given.values, strict=True)]
    if name in _BATCH_NORMS and isinstance(given, _Given):
        return _batch_norm_form(given, *values)
    op, written = functional_form(name)
    replaces = all(own.arguments[place].is_out for place in written)
    pairs = [(a, value) for a, value in zip(own.arguments, values, strict=True) if not (replaces and a.is_out)]
    return _Form(
        op,
        [value for argument, value in pairs if not argument.kwarg_only],
        {argument.name: value for argument, value in pairs if argument.kwarg_only and value is not None},
        [values[place] for place in written],
        len(own.returns),
    )


_BATCH_NORMS = ("aten::native_batch_norm", "aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit.no_stats")


def _batch_norm_form(given: _Given, x: Node, weight: Any, bias: Any, *rest: Any) -> _Form:
    """Batch norm changes running statistics, which not all of its schemas say."""
    mean, variance, training, momentum, eps = rest if len(rest) == 5 else (None, None, *rest)
    aten = torch.ops.aten
    if not training:
        op = aten._native_batch_norm_legit_no_training.default
        return _Form(op, [x, weight, bias, mean, variance, momentum, eps], {}, [], 3)
    targets = [] if mean is None else [mean, variance]
    if mean is None:
        like = torch.zeros(x.meta["val"].shape[1])
        mean, variance = given.constant(like), given.constant(like)
    op = aten._native_batch_norm_legit_functional.default
    # Mixed precision keeps statistics in float32.
    return _Form(
        op, [x, weight, bias, mean, variance, True, momentum, eps], {}, targets, 3, {1: torch.float32, 2: torch.float32}
    )


# ---- arguments ----


class _Given:
    """The arguments of a call, as nodes of a traced graph that stand for tensors."""

    def __init__(self, values: Any) -> None:
        self.graph = Traced(tracer_cls=None)
        self.tensors: list[Node] = []  # of the device, by slot
        self.numbers: list[Node] = []  # real numbers that may change, by slot after the tensors
        self.constants: dict[Node, torch.Tensor] = {}  # numbers that are tensors of the CPU
        self.values = [self._read(each) for each in values]

    def constant(self, value: torch.Tensor) -> Node:
        node = self._placeholder(_mode.from_tensor(value))
        self.constants[node] = value
        return node

    def _placeholder(self, value: torch.Tensor) -> Node:
        node = self.graph.placeholder(f"a{len(self.tensors) + len(self.numbers) + len(self.constants)}")
        node.meta["val"] = value
        return node

    def _read(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._read(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "c" in value:
            number, held = value["c"]
            return self.constant(torch.tensor(held, dtype=_dtype(number), device="cpu"))
        if "n" in value:
            held, number = value["n"]
            node = self._placeholder(_fake(torch.empty((), dtype=torch.float32, device="meta")))
            node.meta["number"] = held if number is None else torch.tensor(held, dtype=_dtype(number), device="cpu")
            self.numbers.append(node)
            return node
        _, number, sizes, strides = value["t"]
        node = self._placeholder(_fake(torch.empty_strided(sizes, strides, dtype=_dtype(number), device="meta")))
        self.tensors.append(node)
        return node


class _Described:
    """The same as tensors without memory, of a call that has no numbers of the CPU."""

    def __init__(self, values: Any) -> None:
        self.values = self._read(values)

    def _read(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._read(each) for each in value]
        if not isinstance(value, dict):
            return value
        _, number, sizes, strides = value["t"]
        return torch.empty_strided(sizes, strides, dtype=_dtype(number), device="meta")


def _fake(described: torch.Tensor) -> FakeTensor:
    """The tensor of the CPU that a tensor without memory describes."""
    made: FakeTensor = FakeTensor(_mode, described, torch.device("cpu"))
    return made


def _dtype(number: int) -> torch.dtype:
    if number not in _DTYPES:
        raise UnsupportedError(f"dtype number {number} of PyTorch")
    return _DTYPES[number]


def _typed(argument: Any, value: Any) -> Any:
    """Numbers that stand for dtypes and memory formats as PyTorch's objects."""
    kind = str(argument.real_type)
    if value is None or not isinstance(value, int) or isinstance(value, bool):
        return value
    if "ScalarType" in kind:
        return _dtype(value)
    if "MemoryFormat" in kind:
        return _FORMATS[value]
    if "Layout" in kind or "Device" in kind:
        raise UnsupportedError(f"argument {argument.name}")
    return value


def _fakes(value: Any) -> Any:
    if isinstance(value, Node):
        return value.meta.get("number", value.meta["val"])
    if isinstance(value, list):
        return [_fakes(each) for each in value]
    return value


def _described(value: Any) -> Any:
    """What `_fakes` gives, as tensors without memory."""
    fake = _fakes(value)
    if not isinstance(fake, FakeTensor):
        return [_described(each) for each in value] if isinstance(value, list) else fake
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device="meta")


# ---- from an op to nodes to steps ----


@contextmanager
def _refused_by_pytorch() -> Iterator[None]:
    """What PyTorch says of a call's sizes and dtypes, its kernel for the CPU says to the caller."""
    # The log would have a traceback of each such call, also of those that the kernel takes.
    before, _log_of_pytorch.disabled = _log_of_pytorch.disabled, True
    try:
        yield
    except Error:
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as error:  # which name the op alone
        raise UnsupportedError("what it gives follows from data") from error
    except Exception as error:
        raise UnsupportedError(f"PyTorch: {reason_of(error)}") from error
    finally:
        _log_of_pytorch.disabled = before


def _expected(given: _Given, form: _Form) -> Any:
    """What the op gives, as tensors that have sizes, strides and dtypes alone."""
    if torch.Tag.pointwise in form.op.tags and not given.constants:
        # A step of an optimizer has ten such ops for each shape of a parameter, and describing one by fake tensors
        # takes a millisecond.
        try:
            made = form.run(_described)
            if isinstance(made, torch.Tensor):
                return _fake(made)
        except Exception:  # said better below
            pass
    with _mode, _refused_by_pytorch():
        return form.run(_fakes)


def _single(given: _Given, form: _Form) -> tuple[Translator, list[Any]]:
    """By the op's converter."""
    node = given.graph.call_function(form.op, tuple(form.arguments), form.keywords)
    expected = _expected(given, form)
    if form.dtypes:
        with _mode:
            expected = tuple(each.to(form.dtypes.get(place, each.dtype)) for place, each in enumerate(expected))
    node.meta["val"] = expected
    several = isinstance(expected, (tuple, list))
    translator = Translator(given.constants, graph=_Recording(), one_by_one=True)
    if several:  # what has no elements is not asked for
        for place, each in enumerate(expected):
            if isinstance(each, torch.Tensor) and each.numel():
                with given.graph.inserting_after(node):
                    reading = given.graph.call_function(operator.getitem, (node, place))
                reading.meta["val"] = each
    translator.convert(node)
    made = translator.operand(node)
    return translator, list(zip(expected, made, strict=True)) if several else [(expected, made)]


def _reads_nothing(given: _Given, form: _Form) -> bool:
    read: list[Node] = []
    map_arg((form.arguments, form.keywords), read.append)
    tensors = [node for node in read if node in given.tensors]
    return bool(tensors) and not any(node.meta["val"].numel() for node in tensors)


def _of_nothing(given: _Given, form: _Form) -> tuple[Translator, list[Any]]:
    """What an op gives of tensors without elements depends on none: constants, which PyTorch's CPU gives."""

    def filled(value: Any) -> Any:
        if isinstance(value, Node):
            like = value.meta["val"]
            return given.constants.get(value, torch.empty_strided(like.shape, like.stride(), dtype=like.dtype))
        return [filled(each) for each in value] if isinstance(value, list) else value

    with _refused_by_pytorch():
        made = form.run(filled)
    translator = Translator(given.constants, graph=_Recording(), one_by_one=True)
    results: list[Any] = []
    for place, each in enumerate(made if isinstance(made, (tuple, list)) else (made,)):
        if each is None:
            results.append((None, None))
            continue
        each = each.to(form.dtypes.get(place, each.dtype))
        value = None
        if each.numel():
            value = translator.graph.op("identity", translator.graph.constant(each, dtype=dtype_name(each.dtype)))
        results.append((each, value))
    return translator, results


def _decomposed(
    given: _Given, op: Any, arguments: list[Any], keywords: dict[str, Any]
) -> tuple[Translator, list[Any], list[Node]]:
    """By the converters of the ops that PyTorch makes it of."""

    def call(*tensors: torch.Tensor) -> Any:
        remaining = iter(tensors)

        def filled(value: Any) -> Any:
            if isinstance(value, Node):
                return next(remaining) if value not in given.constants else given.constants[value]
            return [filled(each) for each in value] if isinstance(value, list) else value

        made = op(*[filled(each) for each in arguments], **{key: filled(value) for key, value in keywords.items()})
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)

    tracer = make_fx(call, decomposition_table=decompositions(), tracing_mode="fake", _allow_non_fake_inputs=True)
    with _refused_by_pytorch():
        module = tracer(*[node.meta["val"] for node in given.tensors])
    module.graph.eliminate_dead_code()
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    if any(writes(node) for node in nodes) or [node.target for node in nodes] == [op]:
        raise UnsupportedError("no converter")
    known = folded(module, module.graph.nodes)
    translator = Translator(known, graph=_Recording(), one_by_one=True)
    for node in nodes:
        if node not in known:
            try:
                translator.convert(node)
            except UnsupportedError as error:
                raise UnsupportedError(f"{name_of(node.target)}: {reason_of(error)}") from error
    results: Any = module.graph.output_node().args[0]  # a tuple
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    made = [
        (node.meta["val"], translator.operand(node)) if isinstance(node, Node) else (node, None) for node in results
    ]
    return translator, made, placeholders


def make(shim: Shim, program: int, name: str, text: str, device: int) -> None:
    """Fill the shim's program for the op `name` with arguments `text`, which is JSON.

    Raises UnsupportedError where the CPU's kernel has to run.
    """
    returns = _overload(name)._schema.returns
    if any(str(result.type) != "Tensor" for result in returns) or not returns:
        raise UnsupportedError("a result that is no tensor")
    with _making, _disable_current_modes(), torch._C._DisableAutocast(), torch.no_grad():
        values = json.loads(text)
        kind = _calls.kind(name, device, values) if _may_be_alike(name) else None
        known = _calls.find(kind) if kind is not None else None
        results = _described_results(name, values) if known is not None else None
        if known is not None and results is not None:
            return _tell(shim, program, known, results)
        made, expected = _made(name, values, device)
        _tell(shim, program, made, expected)
        if kind is not None and _may_serve(made, expected, _described_results(name, values)):
            _calls.keep(kind, made)


@cache
def _may_be_alike(name: str) -> bool:
    if name in _BATCH_NORMS:
        return False
    try:
        return serves_others(functional_form(name)[0])
    except UnsupportedError:  # said where the program is made
        return False


def _described_results(name: str, values: Any) -> list[torch.Tensor | None] | None:
    """What a call of a program gives that was made for other sizes; None where it may be another one."""
    try:
        form = _form(name, _Described(values))
        made = form.run(lambda value: value)
    except Exception:  # said better by fake tensors
        return None
    results = [*made] if isinstance(made, (tuple, list)) else [made]
    if not form.targets:
        return results[: form.returned]
    untouched = len(results) - len(form.targets)
    replaces = _replaces(name)
    for place, there in enumerate(form.targets, untouched):
        like = results[place]
        if replaces:
            continue
        if like is None or not torch.can_cast(like.dtype, there.dtype) or there.shape != like.shape:
            return None
        results[place] = there
    return results


def _may_serve(made: Made, expected: Sequence[Any], described: Sequence[Any] | None) -> bool:
    """Whether such a program is right for other sizes, too, if it is made of the same for some of them."""
    if described is None or len(described) != len(expected) or any(held is None for _, held in made.constants):
        return False

    def said(result: Any) -> Any:
        return result if result is None else (result.dtype, result.shape, result.stride(), result.numel() > 0)

    return all(
        said(each) == said(like) and (each is None or each.numel())
        for each, like in zip(expected, described, strict=True)
    )


def _made(name: str, values: Any, device: int) -> tuple[Made, list[Any]]:
    """The program, and tensors like its results."""
    given = _Given(values)
    form = _form(name, given)
    found = converters().get(name_of(form.op))
    reason: UnsupportedError | None = None
    inputs = given.tensors
    try:
        if not given.numbers and _reads_nothing(given, form):
            translator, results = _of_nothing(given, form)
            return _fill(translator, results, inputs, given, form, device, _replaces(name))
        if found is None:
            raise UnsupportedError("no converter")
        if given.numbers and not found.numbers:
            raise UnsupportedError("numbers that change")
        translator, results = _single(given, form)
        if given.numbers and not _is_of_float32(given, results):
            raise UnsupportedError("numbers that change, beside dtypes that are not computed with in float32")
    except UnsupportedError as error:
        reason = error
    if reason is not None:
        if given.numbers or (found is not None and found.keeps):
            raise reason
        translator, results, inputs = _decomposed(given, form.op, form.arguments, form.keywords)
    return _fill(translator, results, inputs, given, form, device, _replaces(name))


def _is_of_float32(given: _Given, results: list[Any]) -> bool:
    """Whether an op computes in float32, as numbers on the device are."""
    dtypes = {expected.dtype for expected, _ in results}
    if dtypes == {torch.bool}:  # halves are compared with the number as a half
        return {node.meta["val"].dtype for node in given.tensors} == {torch.float32}
    return all(dtype_name(dtype) in FLOATS for dtype in dtypes)


def _replaces(name: str) -> bool:
    """Whether what an op writes may get another shape: `out=`."""
    return all(argument.is_out for argument in _overload(name)._schema.arguments if _is_written(argument))


def _fill(
    translator: Translator, results: list[Any], inputs: Sequence[Node], given: _Given, form: _Form, device: int,
    replaces: bool,
) -> tuple[Made, list[Any]]:  # fmt: skip
    graph = translator.graph
    assert isinstance(graph, _Recording)
    wanted: list[tuple[Any, Value | None, int]] = []  # as PyTorch describes a result, the value, the written argument
    if not form.targets:
        results = results[: form.returned]
    untouched = len(results) - len(form.targets)  # results that are written into no argument
    for place, (expected, value) in enumerate(results):
        target = -1
        if expected is None:  # nobody asked for it, as output_mask says
            wanted.append((None, None, -1))
            continue
        if place >= untouched:
            node = form.targets[place - untouched]
            target = given.tensors.index(node)
            there = node.meta["val"]
            if not torch.can_cast(expected.dtype, there.dtype) or (not replaces and there.shape != expected.shape):
                raise UnsupportedError("what is written has another shape or dtype")
            if there.dtype != expected.dtype and value is not None:
                value = graph.op("cast", value, _name_of_dtype(there.dtype))
            expected = expected if replaces else there
        if not isinstance(expected, torch.Tensor):
            raise UnsupportedError("a result that is no tensor")
        if expected.numel() == 0:
            value = None
        elif not isinstance(value, Value):
            raise UnsupportedError("a result that is not computed")
        wanted.append((expected, value, target))
    # Each result is what a step of its own gives, so that it is written where it belongs.
    made_by_step = {first + i for _, _, _, first, count in graph.appended for i in range(count)}
    taken: set[int] = set()
    for place, (expected, value, target) in enumerate(wanted):
        if value is not None and (value._id not in made_by_step or value._id in taken):
            value = graph.op("cast", value, value.dtype.name)
            wanted[place] = (expected, value, target)
        if value is not None:
            taken.add(value._id)
    ids = [-1 if value is None else value._id for _, value, _ in wanted]
    steps = _needed([(op, text, read, [*range(first, first + n)]) for op, text, read, first, n in graph.appended], ids)
    of_inputs = {node: translator.operand(node)._id for node in translator.inputs if isinstance(node, Node)}
    joined = _joined(graph, steps, ids, of_inputs) if len(steps) > 1 else None
    if joined is not None:
        graph._let_go()
        graph, steps, ids, of_inputs = joined
    # Numbers of slots: tensors among the arguments, constants, results of steps.
    slots: dict[int, int] = {-1: -1}
    for node, value_id in of_inputs.items():
        slots[value_id] = (
            inputs.index(node) if node not in given.numbers else len(given.tensors) + given.numbers.index(node)
        )
    at = len(given.tensors) + len(given.numbers)
    made = Made(len(given.numbers), [], [], 0, [])
    results_of_steps = {each for _, _, _, results in steps for each in results}
    needed = {each for _, _, read, _ in steps for each in read} | set(ids)
    for value_id in sorted(needed - results_of_steps - slots.keys()):
        made.constants.append(_constant(graph, value_id, device))
        slots[value_id] = at
        at += 1
    lent = set(slots)  # whose memory is an argument's: that of a tensor that PyTorch may let go, or change
    for op, attributes, read, results in steps:
        if schemas()[op]["view"] and read[0] in lent:
            lent.update(results)
        slots.update({each: at + i for i, each in enumerate(results)})
        made.steps.append((op, attributes, tuple(slots[each] for each in read), at, len(results)))
        at += len(results)
    made.slots = at
    for place, ((expected, value, target), value_id) in enumerate(zip(wanted, ids, strict=True)):
        own = value is not None and target < 0 and value_id not in lent
        made.outputs.append(None if expected is None else Output(slots[value_id], target, place < form.returned, own))
    graph._let_go()
    return made, [expected for expected, _, _ in wanted]


_Ops = list[tuple[str, str, list[int], list[int]]]  # op, attributes, the values that it reads and makes


def _needed(ops: _Ops, wanted: Sequence[int]) -> _Ops:
    """Without those whose results nobody reads."""
    needed = set(wanted)
    kept = []
    for each in reversed(ops):
        _, _, read, made = each
        if needed.intersection(made):
            needed.update(read)
            kept.append(each)
    return kept[::-1]


def _joined(
    graph: Graph, ops: _Ops, wanted: Sequence[int], inputs: dict[Node, int]
) -> tuple[Graph, _Ops, list[int], dict[Node, int]] | None:
    """The same with one op for elementwise ops that follow each other, a launch each; None where there are none."""
    if sum(schemas()[op]["elementwise"] for op, *_ in ops) < 2:
        return None
    for place, value_id in enumerate(wanted):
        if value_id >= 0:
            check(lib.pl_graph_output(graph._handle, value_id, f"r{place}".encode(), ffi.NULL))
    joined = graph.join_elements()
    described = joined.describe()
    results = {each["name"]: each["id"] for each in described["outputs"]}
    if len(described["nodes"]) == len(ops) or len({*results.values()}) < len(results):  # a step gives each of its own
        return None
    names = {value_id: each["name"] for value_id, each in zip(inputs.values(), described["inputs"], strict=True)}
    ids: dict[str | None, int] = {None: -1}
    ids.update((each["name"], each["id"]) for part in ("inputs", "constants") for each in described[part])
    made: _Ops = []
    for node in described["nodes"]:
        given = {each["name"]: each["id"] for each in node["outputs"]}
        made.append((node["op"], node["text"], [ids[name] for name in node["inputs"]], [*given.values()]))
        ids.update(given)
    wanted = [results.get(f"r{place}", -1) for place in range(len(wanted))]
    return joined, made, wanted, {node: ids[names[value_id]] for node, value_id in inputs.items()}


def _tell(shim: Shim, program: int, made: Made, expected: Sequence[Any]) -> None:
    """Fill the shim's program; `expected`: tensors like its results."""
    for like in expected:
        if like is not None and like.dtype not in _NUMBERS:
            raise UnsupportedError(f"dtype {like.dtype}")
    shim.program_numbers(program, made.numbers)
    for constant, _ in made.constants:  # which the program keeps from here on
        shim.call("program_constant", program, int(ffi.cast("uintptr_t", constant._handle)))
    for op, attributes, places, at, count in made.steps:
        shim.call("program_step", program, op.encode(), attributes.encode(), ints(places), len(places), at, count)
    shim.program_slots(program, made.slots)
    for output, like in zip(made.outputs, expected, strict=True):
        if output is None:
            shim.program_output(program, -2, -1, 1, 0, 0, 0, longs([]), longs([]))
            continue
        shim.program_output(
            program, output.slot, output.target, output.returned, output.own and _is_free(like), _NUMBERS[like.dtype],
            like.ndim, longs(like.shape), longs(like.stride()),
        )  # fmt: skip


def _is_free(result: torch.Tensor) -> bool:
    """Whether a new tensor may lie in the layout of the kernel that gives it: images, and what is computed of them.

    Gradients of weights, too: an optimizer brings those of all weights to their strides at once.
    """
    return result.ndim >= 4 and dense_layout(result.shape, result.stride()) is not None


def _name_of_dtype(dtype: torch.dtype) -> str:
    from ..torch.dtypes import NAMES

    return NAMES[dtype]


def _constant(graph: Graph, value: int, device: int) -> tuple[Tensor, bytes | None]:
    """A constant of a graph, on the device, and its dtype and elements, or None where these are many."""
    out = ffi.new("pl_tensor *")
    check(lib.pl_graph_value_tensor(graph._handle, value, out))
    moved = ffi.new("pl_tensor *")
    held = adopt(out[0])
    check(lib.pl_tensor_convert(held._handle, f"opencl:{device}".encode(), ffi.NULL, ffi.NULL, moved))
    few = held.size <= MOST_CONSTANT
    return adopt(moved[0]), repr((held.dtype.name, held.shape, held.tolist())).encode() if few else None
