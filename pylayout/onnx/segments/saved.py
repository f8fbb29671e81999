"""Files of plans by segments: a ZIP archive, not compressed, so that weights are mapped where they lie.

    weights          the bytes of the model's large tensors, one after the other
    model.onnx       the model, whose large tensors are references to this file: what is not planned yet needs it
    arrays/3         an array, as an onnx.TensorProto
    plans/3          a plan, as Plan.save writes it
    segments.json    the options of compile, the given values, and the steps that were found

Nothing in it is run as code but what walk.py makes of expressions that it has checked.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

from ...errors import Error, FileError, InvalidArgumentError, UnsupportedError
from ...files import place_of_file
from ...plan import Plan, read_plan
from ..contents import Contents
from ..mapped import LEAST_BYTES, OWN_FILE
from ..operand import Known
from ..tensors import ExternalData, array_of
from .rounds import Rounds
from .steps import HostStep, Segment, Variant
from .walk import Walk

__all__ = ["Loaded", "load", "save"]

VERSION = 1
_LOCAL_HEADER, _NAME_AND_EXTRA = 30, 26  # bytes of an entry's header in front of its name; where the lengths stand
_T = onnx.TensorProto


# ---- writing ----


class _Writer:
    def __init__(self, archive: zipfile.ZipFile, folder: Path) -> None:
        self.archive = archive
        self.folder = folder
        self.written = {"arrays": 0, "plans": 0}

    def name(self, kind: str) -> str:
        number = self.written[kind]
        self.written[kind] += 1
        return f"{kind}/{number}"

    def array(self, array: Any) -> str:
        name = self.name("arrays")
        self.archive.writestr(name, onnx.numpy_helper.from_array(numpy.asarray(array)).SerializeToString())
        return name

    def plan(self, plan: Plan) -> str:
        name = self.name("plans")
        path = self.folder / "plan"
        plan.save(path)
        self.archive.write(path, name)
        path.unlink()
        return name

    def rounds(self, rounds: Rounds) -> dict[str, Any]:
        with rounds.making:
            steps = dict(rounds._steps)
            static = dict(rounds.static)
        places = {id(node): k for k, node in enumerate(rounds._nodes or ())}
        return {
            "static": {name: self.array(known.array) for name, known in static.items()},
            "steps": [
                {"for": list(map(_plain, signature)), "steps": [self.step(step, places) for step in found]}
                for signature, found in steps.items()
            ],
        }

    def step(self, step: HostStep | Segment, places: Mapping[int, int]) -> dict[str, Any]:
        if isinstance(step, HostStep):
            programs = {name: self.rounds(program) for name, program in step.programs.items()}  # type: ignore[arg-type]
            return {"node": places[id(step.node)], "programs": programs}
        variants = [
            {
                "plan": self.plan(variant.plan),
                "order": variant.order,
                "shapes": {name: shape for name, (shape, _) in variant.forms.items()},
                "far": {name: far for name, (_, far) in variant.forms.items() if far},
                "walk": variant.walk and variant.walk.described(self.array),
            }
            for variant in list(step.variants)
        ]
        return {
            "nodes": [places[id(node)] for node in step.nodes],
            "known": sorted(step.known),
            "outputs": step.outputs,
            "variants": variants,
        }


def save(
    path: str | os.PathLike[str],
    model: Contents,
    options: Mapping[str, Any],
    values: Mapping[str, Any],
    rounds: Rounds,
) -> None:
    """Write the file whole or not at all. Raises FileError where it cannot be written."""
    target = Path(path)
    try:
        target = place_of_file(path)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
            made = Path(folder) / "segments"
            with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr("model.onnx", _write_weights(archive, made, model).SerializeToString())
                writer = _Writer(archive, Path(folder))
                content = {
                    "version": VERSION,
                    "options": {name: value for name, value in options.items() if value is not None},
                    "values": {name: writer.array(array) for name, array in values.items()},
                    "rounds": writer.rounds(rounds),
                }
                archive.writestr("segments.json", json.dumps(content))
            made.replace(target)
    except OSError as error:
        raise FileError(f"plan: {target} cannot be written: {error}") from None


def _write_weights(archive: zipfile.ZipFile, file: Path, model: Contents) -> Any:
    """Writes the entry `weights`; the model with references to it."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    moved: list[tuple[Any, int, int]] = []
    with archive.open("weights", "w", force_zip64=True) as entry:
        at = 0
        for tensor in _tensors_of(proto):
            external = tensor.data_location == _T.EXTERNAL
            if not external and len(tensor.raw_data) < LEAST_BYTES:
                continue
            if external:
                array = array_of(tensor, model.files, f"tensor {tensor.name!r}")
                data = array.reshape(-1).view("uint8").tobytes() if array.size else b""
            else:
                data = tensor.raw_data
            entry.write(data)
            moved.append((tensor, at, len(data)))
            at += len(data)
    begin = _content_of(file, archive.getinfo("weights"))
    for tensor, offset, length in moved:
        tensor.ClearField("raw_data")
        tensor.ClearField("external_data")
        tensor.data_location = _T.EXTERNAL
        for key, value in (("location", OWN_FILE), ("offset", begin + offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
    return proto


def _content_of(file: Path, entry: zipfile.ZipInfo) -> int:
    """Where the bytes of an entry that is not compressed begin."""
    with file.open("rb") as stream:
        stream.seek(entry.header_offset + _NAME_AND_EXTRA)
        name, extra = struct.unpack("<HH", stream.read(4))
    return int(entry.header_offset + _LOCAL_HEADER + name + extra)


def _tensors_of(proto: Any) -> Iterator[Any]:
    graphs, nodes = [proto.graph], [node for function in proto.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            graphs += attribute.graphs
            if attribute.HasField("g"):
                graphs.append(attribute.g)


def _plain(part: Any) -> Any:
    return list(part) if isinstance(part, tuple) else part


# ---- reading ----


class Loaded:
    """What was read: a model, options, values, and `fill`, which gives the rounds of the model their steps."""

    def __init__(
        self, path: Path, archive: zipfile.ZipFile, folder: Path, replan: bool, options: Mapping[str, Any]
    ) -> None:
        self._archive = archive
        self._folder = folder
        self._replan = replan
        self._given = dict(options)
        content = json.loads(archive.read("segments.json"))
        if content["version"] != VERSION:
            raise UnsupportedError(
                f"plan: {path} is of version {content['version']} of plans by segments, expected {VERSION}"
            )
        proto = onnx.ModelProto()
        proto.ParseFromString(archive.read("model.onnx"))
        self.model = Contents(proto, None, numpy.memmap(path, "uint8", "r"))
        self.options = {**content["options"], **(self._given if replan else {})}
        self._rounds = content["rounds"]
        self.values = {name: self._array(entry) for name, entry in content["values"].items()}

    def fill(self, rounds: Rounds) -> None:
        self._fill(rounds, self._rounds)

    def _array(self, name: str) -> Any:
        tensor = onnx.TensorProto()
        tensor.ParseFromString(self._archive.read(name))
        return array_of(tensor, ExternalData(None), f"the entry {name!r}")

    def _plan(self, name: str) -> Plan:
        path = self._folder / "plan"
        path.write_bytes(self._archive.read(name))
        try:
            return read_plan(path, replan=self._replan, **self._given)
        finally:
            path.unlink()

    def _fill(self, rounds: Rounds, content: Mapping[str, Any]) -> None:
        rounds.static.update({name: Known(self._array(entry), name) for name, entry in content["static"].items()})
        nodes = rounds.order()
        for entry in content["steps"]:
            signature = tuple(tuple(part) if isinstance(part, list) else part for part in entry["for"])
            rounds._steps[signature] = [self._step(rounds, nodes, step) for step in entry["steps"]]

    def _step(self, rounds: Rounds, nodes: list[Any], content: Mapping[str, Any]) -> HostStep | Segment:
        if "node" in content:
            step = HostStep(rounds, nodes[content["node"]])
            for name, program in content["programs"].items():
                self._fill(step.program(name), program)  # type: ignore[arg-type]
            return step
        segment = Segment(rounds, [nodes[k] for k in content["nodes"]], set(content["known"]))
        segment.outputs = [str(name) for name in content["outputs"]]
        for entry in content["variants"]:
            walk = entry["walk"] and Walk.of_description(entry["walk"], self._array)
            order = [(str(name), int(k)) for name, k in entry["order"]]
            far = {name: tuple((int(k), int(n)) for k, n in found) for name, found in entry.get("far", {}).items()}
            forms = {name: (tuple(map(int, shape)), far.get(name, ())) for name, shape in entry["shapes"].items()}
            segment.variants.append(Variant(self._plan(entry["plan"]), order, forms, walk))
        return segment


def load(path: str | os.PathLike[str], replan: bool, options: Mapping[str, Any], make: Any) -> Any:
    """What `make` makes of what was read.

    Raises InvalidArgumentError for a file that is damaged, UnsupportedError for plans of other hardware or software.
    """
    where = Path(path)
    try:
        with zipfile.ZipFile(where) as archive, tempfile.TemporaryDirectory() as folder:
            return make(Loaded(where, archive, Path(folder), replan, options))
    except Error:
        raise
    except OSError as error:
        raise FileError(f"plan: {where} cannot be read: {error}") from None
    except (
        zipfile.BadZipFile, DecodeError, ArithmeticError, LookupError, TypeError, ValueError, RuntimeError
    ) as error:  # fmt: skip
        raise InvalidArgumentError(f"plan: {where} is damaged: {error}") from None
