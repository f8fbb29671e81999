"""Windows that slide over spatial dimensions: kernel, strides, dilations, pads, auto_pad, for Conv and the pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import ShapeError, UnsupportedError
from ..node import Node

__all__ = ["Window", "checked", "window_of"]


@dataclass
class Window:
    """One value for each spatial dimension."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    begins: list[int]
    ends: list[int]
    word: str = ""  # the library's word for this padding, which follows the sizes of x; "": there is none

    @property
    def padding(self) -> list[int]:
        """In numbers: begins, then ends."""
        return [*self.begins, *self.ends]

    @property
    def arguments(self) -> dict[str, list[int] | str]:
        """What convolutions and pools take besides the kernel."""
        return {"stride": self.strides, "padding": self.word or self.padding, "dilation": self.dilations}

    @property
    def reach(self) -> list[int]:
        """Input elements from the first to the last that one window touches."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def out(self, sizes: Sequence[int], ceil: bool = False) -> list[int]:
        """Output sizes; with ceil rounded up, where the last window still begins before the end padding."""
        result = []
        for i, size in enumerate(sizes):
            span = size + self.begins[i] + self.ends[i] - self.reach[i]
            count = (-(-span // self.strides[i]) if ceil else span // self.strides[i]) + 1
            if ceil and (count - 1) * self.strides[i] >= size + self.begins[i]:
                count -= 1
            result.append(count)
        return result


def checked(node: Node, name: str, values: list[int], rank: int, lowest: int) -> list[int]:
    """A list attribute with one value for each of `rank`."""
    if len(values) != rank:
        raise ShapeError(f"attribute {name} has {len(values)} values, expected {rank}")
    if any(not lowest <= value < 2**31 for value in values):
        raise ShapeError(f"attribute {name} is {values}, expected values of at least {lowest}")
    return values


def window_of(node: Node, sizes: Sequence[int], kernel: Sequence[int] | None = None) -> Window:
    """The window of a node over an input with these spatial sizes; `kernel` where the weights give it."""
    rank = len(sizes)
    if not 1 <= rank <= 3:
        raise UnsupportedError(f"x has {rank} spatial dimensions, expected 1 to 3")
    shape = checked(
        node, "kernel_shape", node.integers("kernel_shape", ... if kernel is None else list(kernel)), rank, 1
    )
    if kernel is not None and list(kernel) != shape:
        raise ShapeError(f"attribute kernel_shape is {shape}, expected {list(kernel)} (the weights' sizes)")
    strides = checked(node, "strides", node.integers("strides", [1] * rank), rank, 1)
    dilations = checked(node, "dilations", node.integers("dilations", [1] * rank), rank, 1)
    pads = checked(node, "pads", node.integers("pads", [0] * 2 * rank), 2 * rank, -(2**31))
    mode = node.text("auto_pad", "NOTSET", ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", ""))
    window = Window(shape, strides, dilations, pads[:rank], pads[rank:])
    if mode == "VALID":
        window.begins, window.ends = [0] * rank, [0] * rank
    elif mode.startswith("SAME"):
        window.word = mode.lower()
        for i, size in enumerate(sizes):
            out = -(-size // strides[i])
            total = max((out - 1) * strides[i] + window.reach[i] - size, 0)
            small, large = total // 2, total - total // 2
            window.begins[i], window.ends[i] = (small, large) if mode == "SAME_UPPER" else (large, small)
    return window
