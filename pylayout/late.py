"""LateGraph: a graph that is built for sizes known late: while it is, the shapes of its values are expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .graph import Graph
from .sizes import AnySize, Size, late_text
from .value import Value

__all__ = ["LateGraph", "LateValue"]


class LateValue(Value):
    """A value whose sizes are expressions while its graph is built: as integers, they are required to be these."""

    __slots__ = ()

    @property
    def shape(self) -> Any:
        graph: Any = self.graph
        return graph.late_shape(self) if graph.is_building else self._shape


class LateGraph(Graph):
    """A graph that may be bound to other sizes than those it is made with."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(sizes)
        self.is_building = True
        self.asking = ""  # for whom the next requirements are
        self._asked_by: dict[str, str] = {}  # by requirement, as errors have it
        self._axes: dict[str, str] = {}  # the names of the sizes of inputs
        # By value; of a size that is no integer what makes one. Sizes and values refer to their graph, which refers to
        # none of them, so that its memory does not wait for the collector.
        self._late_shapes: dict[int, tuple[int | tuple[str, int, bool], ...]] = {}

    def _value(self, identifier: int, name: str) -> Value:
        return LateValue(self, identifier, name)

    def input(self, name: str, shape: Sequence[int | str], *options: Any, **more: Any) -> Value:
        """As of Graph."""
        made = super().input(name, shape, *options, **more)
        self._axes.update({f"#{made._id}.{dim}": size for dim, size in enumerate(shape) if isinstance(size, str)})
        return made

    def late_shape(self, value: Value) -> tuple[AnySize, ...]:
        """The sizes of a value, as expressions where nothing else is known of them."""
        known = self._late_shapes.get(value._id)
        if known is None:
            return tuple(Size(self, f"#{value._id}.{i}", size) for i, size in enumerate(value._shape))
        return tuple(size if isinstance(size, int) else Size(self, *size) for size in known)

    def know_shape(self, value: Value, shape: Sequence[AnySize]) -> None:
        """Require that these are the sizes of a value, unless they were known: integers where no size changes them."""
        if value._id in self._late_shapes:
            return
        for dim, size in enumerate(shape):
            own, said = f"#{value._id}.{dim}", late_text(size)
            if own != said:
                self.require(f"{own} == {said}")
        self._late_shapes[value._id] = tuple(
            (size.text, size.hint, size.is_natural) if isinstance(size, Size) else int(size) for size in shape
        )

    def know_fixed(self, value: Value, fixed: Sequence[bool]) -> None:
        """Of an input: which of its sizes are the same for all runs, and so integers."""
        self._late_shapes[value._id] = tuple(
            size if same else (f"#{value._id}.{i}", size, True)
            for i, (size, same) in enumerate(zip(value._shape, fixed, strict=True))
        )

    def require(self, condition: str) -> None:
        super().require(condition)
        named = re.sub(r"#\d+\.\d+", lambda size: self._axes.get(size[0], size[0]), condition)
        self._asked_by.setdefault(_plain(named), self.asking)

    def asked_by(self, message: str) -> str:
        """For whom the requirement is that an error names, which binding to other sizes raised; "" if unknown."""
        _, _, text = message.partition("where ")
        return self._asked_by.get(_plain(text.split(", here ")[0]), "")


def _plain(condition: str) -> str:
    """A requirement without what texts of equal expressions differ in."""
    return condition.translate({ord(letter): None for letter in "() "})
