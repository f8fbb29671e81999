"""If, Loop and Scan whose conditions and counts are known by data: their subgraphs are programs of their own."""

from __future__ import annotations

from typing import Any

import numpy

from ...errors import InvalidArgumentError, UnsupportedError
from ..host import Call, host
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


@host("Loop")
def loop(call: Call) -> Any:
    count, condition = call.optional(0), call.optional(1)
    most = None if count is None else int(count.reshape(-1)[0])
    go_on = condition is None or bool(condition.reshape(-1)[0])
    carried = [call.optional(i) for i in range(2, len(call))]
    scanned: list[list[Any]] = [[] for _ in range(len(call.node.output) - len(carried))]
    step = 0
    while go_on and (most is None or step < most):
        results = call.subgraph("body", [numpy.asarray(step, "int64"), numpy.asarray(go_on), *carried])
        go_on = bool(numpy.asarray(results[0]).reshape(-1)[0])
        carried = results[1 : 1 + len(carried)]
        for rows, row in zip(scanned, results[1 + len(carried) :], strict=False):
            rows.append(row)
        step += 1
    first = 1 + len(carried)
    return (*carried, *(_stacked(call, rows, first + k) for k, rows in enumerate(scanned)))


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
