"""If, Loop and Scan whose conditions and counts are known at import: their subgraphs are put in place."""

from __future__ import annotations

import numpy

from ...errors import InvalidArgumentError, ShapeError, UnsupportedError
from ..node import Node
from ..operand import Known, Members, Operand, Result, Stands
from ..registry import converter

# More iterations become more nodes than a plan is good for.
MAX_ITERATIONS = 1000


def _tensor(result: Stands) -> Operand:
    if isinstance(result, Members):
        raise InvalidArgumentError("the body gives a sequence, expected a tensor")
    return result


def _stacked(node: Node, parts: list[Operand], axis: int, what: str) -> Operand:
    """The results of all iterations along a new axis."""
    if not parts:
        raise UnsupportedError(f"{what} has no iteration, so that the size of its outputs is not known")
    return node.stacked(parts, axis)


@converter("If", since=1, note="the condition known")
def if_(node: Node) -> Result:
    chosen = "then_branch" if bool(node.number_at(0)) else "else_branch"
    node.ignore("then_branch", "else_branch")
    return node.importer.run_subgraph(node.subgraph(chosen), node, [], chosen)


@converter("Loop", since=1, note="count and condition known; unrolled")
def loop(node: Node) -> Result:
    body = node.subgraph("body")
    count = int(node.number_at(0)) if node.has(0) else None
    condition = bool(node.number_at(1)) if node.has(1) else True
    carried = [node.given(i) for i in range(2, len(node.inputs))]
    scanned: list[list[Operand]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    step = 0
    while condition and (count is None or step < count):
        if step >= MAX_ITERATIONS:
            raise UnsupportedError(f"the loop runs more than {MAX_ITERATIONS} times")
        inputs: list[Stands] = [Known(numpy.asarray(step)), Known(numpy.asarray(condition)), *carried]
        results = node.importer.run_subgraph(body, node, inputs, f"body{step}")
        if len(results) < 1 + len(carried):
            raise InvalidArgumentError(f"body has {len(results)} outputs, expected at least {1 + len(carried)}")
        again = node.elements(_tensor(results[0]), "the loop's condition")
        condition = bool(again.reshape(-1)[0])
        carried, rest = results[1 : 1 + len(carried)], results[1 + len(carried) :]
        for rows, row in zip(scanned, rest, strict=True):
            rows.append(_tensor(row))
        step += 1
    return [*carried, *(_stacked(node, rows, 0, "the loop") for rows in scanned)]


@converter("Scan", since=9, note="unrolled")
def scan(node: Node) -> Result:
    body = node.subgraph("body")
    count = node.integer("num_scan_inputs")
    states = len(node.inputs) - count
    results_count = len(body.output) - states
    if count < 1 or states < 0 or results_count < 0:
        raise InvalidArgumentError(f"attribute num_scan_inputs is {count}, which does not fit the inputs")
    in_axes = node.integers("scan_input_axes", [0] * count)
    backwards = node.integers("scan_input_directions", [0] * count)
    out_axes = node.integers("scan_output_axes", [0] * results_count)
    out_backwards = node.integers("scan_output_directions", [0] * results_count)
    carried = [node.x(i) for i in range(states)]
    sources = [node.x(states + i) for i in range(count)]
    axes = [node.axis(axis, x.ndim) for axis, x in zip(in_axes, sources, strict=True)]
    lengths = {x.shape[axis] for axis, x in zip(axes, sources, strict=True)}
    if len(lengths) != 1:
        raise ShapeError(f"the scanned inputs have {sorted(lengths)} elements, expected the same")
    length = lengths.pop()
    if length > MAX_ITERATIONS:
        raise UnsupportedError(f"the scan has {length} steps, expected at most {MAX_ITERATIONS}")
    scanned: list[list[Operand]] = [[] for _ in range(results_count)]
    for step in range(length):
        parts = []
        for x, axis, back in zip(sources, axes, backwards, strict=True):
            at = length - 1 - step if back else step
            part = node.op("slice", x, [at], [at + 1], [axis])
            parts.append(node.op("reshape", part, [*x.shape[:axis], *x.shape[axis + 1 :]]))
        results = node.importer.run_subgraph(body, node, [*carried, *parts], f"body{step}")
        carried = [_tensor(x) for x in results[:states]]
        for rows, row in zip(scanned, results[states:], strict=True):
            rows.append(_tensor(row))
    outputs: list[Operand] = []
    for rows, axis, back in zip(scanned, out_axes, out_backwards, strict=True):
        outputs.append(_stacked(node, rows[::-1] if back else rows, axis, "the scan"))
    return [*carried, *outputs]
