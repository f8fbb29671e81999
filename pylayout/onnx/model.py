"""Model: an ONNX file that graphs are made of, and how one is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

from ..errors import ArgumentTypeError, Error, FileError, InvalidArgumentError, UnsupportedError
from ..graph import Graph
from .contents import Contents, Input
from .importer import Importer
from .mapped import without_weights

__all__ = ["Input", "Model", "read"]

# For axes of which nothing is said: the first of these for which the model makes sense. The last is a second of sound:
# what convolutions with strides of 320 in all leave of it is still something.
OPEN_SIZES = (64, 224, 32, 8, 16000)

# So many axes are tried that may have to be longer than others.
MOST_LONGER_AXES = 8

# Protocol buffers cannot be longer; weights beyond that lie in external files.
MAX_FILE_BYTES = 2**31


class Model(Contents):
    """An ONNX model whose graph can be made for any shapes; weights are read once and shared by all graphs."""

    def graph(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        sizes: Mapping[str, int] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> Graph:
        """The graph for the given shapes of inputs, sizes of named axes, and inputs that are to be constants.

        Where that is possible it may be bound to other sizes; else it says that it holds for these.
        """
        return next(self.graphs(shapes, sizes, values))

    def graphs(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        sizes: Mapping[str, int] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> Iterator[Graph]:
        """As `graph`, one for each size of axes of which nothing is said: for whom a graph makes no sense once its
        constants are computed, as positions beyond the end of a table."""
        given = (shapes or {}, sizes or {}, values or {})
        is_open = self.is_open(*given)
        open_sizes = OPEN_SIZES if is_open else OPEN_SIZES[:1]
        longer = [(given[0], more, given[2]) for more in self._longer(*given)] if is_open else []
        pairs = {axis: 2 for axis in self.batch_axes(*given)}  # batches that the model divides
        found = False
        for late, guesses in (
            (True, [(given, size) for size in open_sizes]),
            (True, [(more, OPEN_SIZES[0]) for more in longer]),
            (True, [((given[0], {**given[1], **pairs}, given[2]), OPEN_SIZES[0])] if pairs else []),
            (False, [(given, size) for size in open_sizes]),
        ):
            problem: Error | None = None
            for guess, size in () if found else guesses:
                error, graph = self._imported(guess, size, late)
                if graph:
                    found = True
                    yield graph
                problem = problem or error
        if not found:
            assert problem is not None
            raise self._with_sizes(problem, given) if is_open else problem

    def _longer(
        self, shapes: Mapping[str, Sequence[int]], sizes: Mapping[str, int], values: Mapping[str, Any]
    ) -> Iterator[dict[str, int]]:
        """Sizes with one open axis that is longer than the others, as a decoder's mask, which is for past and present.

        It is as long as two others, or as another and one place.
        """
        for axis in self.open_axes(shapes, sizes, values)[:MOST_LONGER_AXES]:
            for size in (2 * OPEN_SIZES[0], OPEN_SIZES[0] + 1):
                yield {**sizes, axis: size}

    def _with_sizes(self, problem: Error, given: tuple[Any, Any, Any]) -> Error:
        """The error, with the sizes for which it holds: those that open axes were given first."""
        if isinstance(problem, UnsupportedError):
            return problem
        bound = self.bind(*given, OPEN_SIZES[0])
        shown = ", ".join(f"{entry.name} {bound[entry.name]}" for entry in self.inputs[:8])
        return type(problem)(
            f"{problem}; with the sizes {shown}, and others that were tried for open axes: shapes= or sizes= say for "
            "which the model is"
        )

    def _imported(self, given: tuple[Any, Any, Any], open_size: int, late: bool) -> tuple[Error | None, Graph | None]:
        try:
            return None, Importer(self, *given, late=late, open_size=open_size).run()
        except Error as error:
            return error, None


def read(model: Any, folder: str | os.PathLike[str] | None = None) -> Model:
    """The model of a path, of a file's bytes or of an onnx.ModelProto.

    folder: where external data lies; default, the folder of the path. Raises FileError for a file that cannot be read
    or is no ONNX model.
    """
    where = None if folder is None else Path(folder)
    if isinstance(model, Model):
        return model
    if isinstance(model, onnx.ModelProto):
        return _guarded(model, where)
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        try:
            size = path.stat().st_size
            if size >= MAX_FILE_BYTES:
                raise FileError(f"onnx: {path} has {size} bytes, expected less than {MAX_FILE_BYTES}")
            own = numpy.memmap(path, "uint8", "r") if size else None
            content = None if own is None else without_weights(own)
            if content is None:
                own, content = None, path.read_bytes()
        except (OSError, ValueError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"onnx: {path} cannot be read: {error}") from None
        return _parsed(content, str(path), path.parent if where is None else where, own)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _parsed(bytes(model), "the given content", where)
    raise ArgumentTypeError(f"onnx: model is {type(model).__name__}, expected a path, bytes or an onnx.ModelProto")


def _parsed(content: bytes, name: str, folder: Path | None, own: Any = None) -> Model:
    if content.startswith((b"pylayout plan", b"PK\3\4")):
        raise FileError(f"onnx: {name} is no ONNX model, but looks like a saved plan, which pylayout.load_plan reads")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except (DecodeError, RecursionError, ValueError) as error:
        raise FileError(f"onnx: {name} is no ONNX model, or is damaged: {error}") from None
    if not proto.HasField("graph"):
        raise FileError(f"onnx: {name} is no ONNX model: it has no graph")
    return _guarded(proto, folder, own)


def _guarded(proto: Any, folder: Path | None, own: Any = None) -> Model:
    try:
        return Model(proto, folder, own)
    except (UnicodeDecodeError, OverflowError, RecursionError) as error:
        raise InvalidArgumentError(f"onnx: the model is damaged: {error}") from None
