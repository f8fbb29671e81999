"""A model's file with its large weights left where they lie: what protobuf parses has references in their place.

The ONNX library keeps every weight in memory as long as the model, and gives a copy of it whenever it is asked for.
So the file is mapped, the message is cut around the bytes of large initialisers, and each gets the entries of an
external tensor, which `ExternalData` resolves to the map.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["OWN_FILE", "without_weights"]

# The location of a tensor in the model's own file: no path may have a NUL character.
OWN_FILE = "\0"

# Smaller ones are parsed as they are.
LEAST_BYTES = 4096

# Numbers of fields in onnx.proto.
_GRAPH = 7  # of ModelProto
_INITIALIZER = 5  # of GraphProto
_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14  # of TensorProto
_EXTERNAL = 1

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Odd(Exception):
    """The bytes are not as exporters write them: protobuf shall say whether they are right."""


def without_weights(data: Any) -> bytes | None:
    """The message in `data` (a buffer of bytes) with references to it; None where it is not as exporters write it."""
    view = memoryview(data)
    try:
        graphs = [field for field in _fields(view, 0, len(view)) if field[0] == _GRAPH]
        if len(graphs) != 1:  # protobuf would merge several
            return None
        _, tag, begin, end = graphs[0]
        pieces, at = [], begin
        for number, start, first, last in _fields(view, begin, end):
            if number != _INITIALIZER:
                continue
            tensor = _without_data(view, first, last)
            if tensor is not None:
                pieces += [bytes(view[at:start]), _field(_INITIALIZER, tensor)]
                at = last
    except _Odd:
        return None
    graph = b"".join([*pieces, bytes(view[at:end])])
    return b"".join([bytes(view[:tag]), _field(_GRAPH, graph), bytes(view[end:])])


def _without_data(view: memoryview, begin: int, end: int) -> bytes | None:
    """A TensorProto with a reference in place of its bytes; None where these are few, or elsewhere already."""
    raw = None
    for number, start, first, last in _fields(view, begin, end):
        if number in (_EXTERNAL_DATA, _DATA_LOCATION) or (number == _RAW_DATA and raw is not None):
            return None
        if number == _RAW_DATA:
            raw = (start, first, last)
    if raw is None or raw[2] - raw[1] < LEAST_BYTES:
        return None
    start, first, last = raw
    entries = {"location": OWN_FILE, "offset": str(first), "length": str(last - first)}
    external = [
        _field(_EXTERNAL_DATA, _field(1, key.encode()) + _field(2, value.encode())) for key, value in entries.items()
    ]
    location = _varint(_DATA_LOCATION << 3 | _VARINT) + _varint(_EXTERNAL)
    return b"".join([bytes(view[begin:start]), *external, location, bytes(view[last:end])])


def _fields(view: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Of each field of a message: its number, where its tag begins, where its content begins and ends."""
    while at < end:
        tag = at
        key, at = _read_varint(view, at, end)
        kind = key & 7
        if kind == _BYTES:
            length, at = _read_varint(view, at, end)
        elif kind == _VARINT:
            length = _read_varint(view, at, end)[1] - at
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise _Odd
        if length > end - at:
            raise _Odd
        yield (key >> 3 if kind == _BYTES or key >> 3 == _DATA_LOCATION else 0), tag, at, at + length
        at += length


def _read_varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise _Odd
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise _Odd


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content
