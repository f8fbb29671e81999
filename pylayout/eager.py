"""Running a graph one op at a time, as a program without a plan would."""

from __future__ import annotations

from typing import Any

from ._load import ffi, lib
from .calls import Attributes, attribute_text, run_list
from .errors import InvalidArgumentError, check
from .graph import Graph
from .tensor import Tensor, adopt

__all__ = ["EagerGraph"]


class EagerGraph:
    """A graph's ops as eager calls, in order, under any layout policy: the contrast to a plan.

    >>> import numpy, pylayout as pl
    >>> g = pl.Graph()
    >>> g.output(g.relu(g.input("x", (2, 3))), "y")
    >>> numpy.asarray(EagerGraph(g)(pl.asarray(-numpy.ones((2, 3), "float32")))).max()
    np.float32(0.0)
    """

    def __init__(self, graph: Graph) -> None:
        described = graph.describe()
        self._inputs = [item["name"] for item in described["inputs"]]
        self._outputs = [item["value"] for item in described["outputs"]]
        self._constants: dict[str, Tensor] = {}
        for item in described["constants"]:
            out = ffi.new("pl_tensor *")
            check(lib.pl_graph_value_tensor(graph._handle, item["id"], out))
            self._constants[item["name"]] = adopt(out[0])
        self._nodes = [
            (node["op"], node["text"], node["inputs"], [value["name"] for value in node["outputs"]])
            for node in described["nodes"]
        ]
        self._attributes: dict[str, list[Attributes]] = {}  # of the nodes, by policy
        # After which node each value is not needed any more.
        last = {name: at for at, (_, _, inputs, _) in enumerate(self._nodes) for name in inputs if name}
        self._finished: list[list[str]] = [[] for _ in self._nodes]
        for name, at in last.items():
            if name not in self._constants and name not in self._outputs:
                self._finished[at].append(name)

    def __call__(self, *tensors: Tensor, layout: str = "auto") -> Any:
        """The outputs for these inputs: a Tensor, or a tuple of them. `layout` is passed to every op."""
        if len(tensors) != len(self._inputs):
            raise InvalidArgumentError(f"graph: {len(tensors)} inputs given, expected {len(self._inputs)}")
        if layout not in self._attributes:
            self._attributes[layout] = [
                Attributes(f"{text} {attribute_text(op, {'layout': layout})}") for op, text, _, _ in self._nodes
            ]
        values: dict[str | None, Tensor | None] = {None: None}
        values.update(self._constants)
        values.update(zip(self._inputs, tensors, strict=True))
        for at, ((op, _, inputs, outputs), attributes) in enumerate(
            zip(self._nodes, self._attributes[layout], strict=True)
        ):
            results = run_list(op.encode(), attributes, [values[name] for name in inputs])
            values.update(zip(outputs, results if isinstance(results, tuple) else (results,), strict=True))
            for name in self._finished[at]:
                del values[name]
        found = tuple(values[name] for name in self._outputs)
        return found[0] if len(found) == 1 else found
