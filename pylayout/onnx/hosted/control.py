"""If, Loop and Scan whose conditions and counts are known by data: their subgraphs are programs of their own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy
import onnx

from ...errors import InvalidArgumentError, UnsupportedError
from ..contents import domain_of
from ..host import Call, Prepared, host
from ..importer import used_names
from ..tensors import numpy_dtype


@host("If")
def if_(call: Call) -> Any:
    condition = numpy.asarray(call.x(0))
    if condition.size != 1:
        raise InvalidArgumentError(f"onnx: If: the condition has shape {list(condition.shape)}, expected one element")
    return tuple(call.subgraph("then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"))


def _stacked(call: Call, rows: list[Any], output: int, axis: int = 0) -> Any:
    """The results of all iterations along a new axis; of none what the body says of its output."""
    if rows:
        return numpy.stack(rows, axis)
    kind = call.attribute("body").output[output].type.tensor_type
    shape = [dim.dim_value for dim in kind.shape.dim]  # 0 where nothing is said
    shape.insert(axis, 0)
    return numpy.zeros(shape, numpy_dtype(kind.elem_type, f"output {output} of the body"))


@dataclass(frozen=True)
class _Growth:
    """A carried value that each iteration only joins with something: how many values before it, and behind it."""

    axis: int
    before: int
    behind: int


def _grows(body: Any, carried: int, uses: Counter[str]) -> Any:
    """The Concat that gives carried value k of the next iteration, where nothing else uses either of the two."""
    given, made = body.input[2 + carried].name, body.output[1 + carried].name
    for node in body.node:
        if made not in node.output:
            continue
        is_concat = node.op_type == "Concat" and not domain_of(node.domain)
        return node if is_concat and list(node.input).count(given) == 1 and uses[given] == uses[made] == 1 else None
    return None


def _without_growth(node: Any) -> Prepared:
    """A Loop whose body gives the parts of what grows, which are joined once, after the last iteration.

    To join them in the body is to copy all that there is in each iteration.
    """
    own = next(attribute.g for attribute in node.attribute if attribute.name == "body")
    uses = Counter(name for each in own.node for name in used_names(each))
    uses.update(output.name for output in own.output)
    count = min(len(own.input) - 2, len(own.output) - 1)
    found = {k: concat for k in range(count) if (concat := _grows(own, k, uses)) is not None}
    if not found:
        return Prepared(notes={})
    body = onnx.GraphProto()
    body.CopyFrom(own)
    for repeated in (body.node, body.input, body.output):
        del repeated[:]
    joins = {concat.output[0] for concat in found.values()}
    body.node.extend(each for each in own.node if not joins.intersection(each.output))
    body.input.extend(entry for k, entry in enumerate(own.input) if k - 2 not in found)
    body.output.extend(entry for k, entry in enumerate(own.output) if k - 1 not in found)
    growths: dict[int, _Growth] = {}
    for k, concat in found.items():
        names = list(concat.input)
        place = names.index(own.input[2 + k].name)
        axis = next((attribute.i for attribute in concat.attribute if attribute.name == "axis"), 1)
        growths[k] = _Growth(axis, place, len(names) - place - 1)
        body.output.extend(onnx.ValueInfoProto(name=name) for name in names if name != names[place])
    return Prepared({"body": body}, growths)


def _joined(first: Any, growth: _Growth, iterations: list[list[Any]]) -> Any:
    """What a value has grown to: the parts that each iteration put before it and behind it."""
    before = [part for parts in reversed(iterations) for part in parts[: growth.before]]
    behind = [part for parts in iterations for part in parts[growth.before :]]
    return numpy.concatenate([*before, first, *behind], growth.axis, dtype=first.dtype, casting="no")


@host("Loop", prepare=_without_growth)
def loop(call: Call) -> Any:
    count, condition = call.optional(0), call.optional(1)
    most = None if count is None else int(count.reshape(-1)[0])
    go_on = condition is None or bool(condition.reshape(-1)[0])
    carried = [call.optional(i) for i in range(2, len(call))]
    growths: dict[int, _Growth] = call.notes
    kept = [k for k in range(len(carried)) if k not in growths]
    first = 1 + len(carried)  # of the scanned values in what the body says of its outputs
    scanned: list[list[Any]] = [[] for _ in range(len(call.attribute("body").output) - first)]
    grown: dict[int, list[list[Any]]] = {k: [] for k in growths}
    step = 0
    while go_on and (most is None or step < most):
        given = [numpy.asarray(step, "int64"), numpy.asarray(go_on), *(carried[k] for k in kept)]
        results = call.subgraph("body", given)
        go_on = bool(numpy.asarray(results[0]).reshape(-1)[0])
        for k, result in zip(kept, results[1:], strict=False):
            carried[k] = result
        at = 1 + len(kept)
        for rows, row in zip(scanned, results[at:], strict=False):
            rows.append(row)
        at += len(scanned)
        for k, growth in growths.items():
            grown[k].append(results[at : at + growth.before + growth.behind])
            at += growth.before + growth.behind
        step += 1
    for k, growth in growths.items():
        if grown[k]:
            carried[k] = _joined(call.x(2 + k), growth, grown[k])
    rows_wanted = zip(range(len(call.node.output) - len(carried)), scanned, strict=False)
    return (*carried, *(_stacked(call, rows, first + k) for k, rows in rows_wanted))


@host("Scan")
def scan(call: Call) -> Any:
    count = call.attribute("num_scan_inputs")
    states = len(call) - count
    if call.opset < 9:
        raise UnsupportedError(f"onnx: Scan of opset {call.opset} is not known, expected 9 or later")
    results_count = len(call.node.output) - states
    carried = [call.x(i) for i in range(states)]
    sources = []
    axes = call.attribute("scan_input_axes") or [0] * count
    directions = call.attribute("scan_input_directions") or [0] * count
    for i in range(count):
        rows = numpy.moveaxis(call.x(states + i), axes[i], 0)
        sources.append(rows[::-1] if directions[i] else rows)
    scanned: list[list[Any]] = [[] for _ in range(results_count)]
    for parts in zip(*sources, strict=True):
        results = call.subgraph("body", [*carried, *(numpy.ascontiguousarray(part) for part in parts)])
        carried = results[:states]
        for collected, row in zip(scanned, results[states:], strict=True):
            collected.append(row)
    out_axes = call.attribute("scan_output_axes") or [0] * results_count
    out_directions = call.attribute("scan_output_directions") or [0] * results_count
    outputs = [
        _stacked(call, collected[::-1] if back else collected, states + k, axis)
        for k, (collected, axis, back) in enumerate(zip(scanned, out_axes, out_directions, strict=True))
    ]
    return (*carried, *outputs)
