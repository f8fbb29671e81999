"""TensorProto to NumPy: views where the file's bytes permit, every size checked before it is believed."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

import numpy
import onnx

from ..errors import FileError, InvalidArgumentError, UnsupportedError
from .errors import RefusedError
from .mapped import OWN_FILE

__all__ = [
    "ExternalData",
    "any_numbers",
    "array_of",
    "checked_sizes",
    "dense_array",
    "dense_of",
    "dtype_name",
    "numpy_dtype",
]

_T = onnx.TensorProto

# data_type: NumPy's dtype, and the field that holds the elements where raw_data does not.
_TYPES: dict[int, tuple[str, str]] = {
    _T.FLOAT: ("float32", "float_data"),
    _T.UINT8: ("uint8", "int32_data"),
    _T.INT8: ("int8", "int32_data"),
    _T.UINT16: ("uint16", "int32_data"),
    _T.INT16: ("int16", "int32_data"),
    _T.INT32: ("int32", "int32_data"),
    _T.INT64: ("int64", "int64_data"),
    _T.BOOL: ("bool", "int32_data"),
    _T.FLOAT16: ("float16", "int32_data"),  # the bits of each in an int32
    _T.DOUBLE: ("float64", "double_data"),
    _T.UINT32: ("uint32", "uint64_data"),
    _T.UINT64: ("uint64", "uint64_data"),
    _T.BFLOAT16: ("bfloat16", "int32_data"),  # likewise
    _T.FLOAT8E4M3FN: ("float8_e4m3fn", "int32_data"),
    _T.FLOAT8E4M3FNUZ: ("float8_e4m3fnuz", "int32_data"),
    _T.FLOAT8E5M2: ("float8_e5m2", "int32_data"),
    _T.FLOAT8E5M2FNUZ: ("float8_e5m2fnuz", "int32_data"),
}

# Integers of 4 bits, two in a byte, the first in its lower half. Ops that take them say so; a cast to them is none.
_PAIRED: dict[int, str] = {_T.INT4: "int4", _T.UINT4: "uint4"}

# No tensor of a model may have more elements than this. The largest weights that are published have 2^31.
MAX_ELEMENTS = 2**40
# Bytes of a sparse tensor with all its elements: a few bytes of a file could ask for all memory.
MAX_DENSE = 2**30


def dtype_name(data_type: int) -> str:
    """The name in messages: "FLOAT", or the number of one that this version of onnx does not know."""
    try:
        return str(_T.DataType.Name(data_type))
    except ValueError:
        return f"data type {data_type}"


def numpy_dtype(data_type: int, what: str) -> Any:
    """The NumPy dtype of an ONNX element type.

    Raises UnsupportedError for strings, complex numbers, and numbers of less than 8 bits.
    """
    if data_type not in _TYPES:
        raise RefusedError(f"{what} has element type {dtype_name(data_type)}, which pylayout has not")
    name = _TYPES[data_type][0]
    if name != "bfloat16" and not name.startswith("float8"):
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedError(f"{what} is of {name}, for which NumPy needs the package ml_dtypes") from None
    return numpy.dtype(getattr(ml_dtypes, name))


def any_numbers(data_type: int, what: str) -> Any:
    """The same for what the host computes: also numbers of less than 8 bits, as ml_dtypes has them."""
    try:
        return numpy_dtype(data_type, what)
    except UnsupportedError:
        try:
            dtype = numpy.dtype(onnx.helper.tensor_dtype_to_np_dtype(data_type))
        except (KeyError, ImportError):
            dtype = None
        if dtype is None or dtype.kind in "OSUc":
            raise
        return dtype


def checked_sizes(sizes: Any, what: str) -> tuple[tuple[int, ...], int]:
    """The sizes and the number of elements. Raises InvalidArgumentError where that is negative or absurd."""
    shape = tuple(int(size) for size in sizes)
    if len(shape) > 64:
        raise UnsupportedError(f"{what} has rank {len(shape)}, expected at most 8")
    count = 1
    for size in shape:
        if size < 0:
            raise InvalidArgumentError(f"{what} has shape {list(shape)}, expected sizes of at least 0")
        count *= size
    if count > MAX_ELEMENTS:
        raise InvalidArgumentError(f"{what} has shape {list(shape)}, {count} elements, expected at most {MAX_ELEMENTS}")
    return shape, count


class ExternalData:
    """The files beside a model that hold tensors, mapped into memory when first asked for.

    own: the model's own file, mapped, where its large weights were left in it (mapped.py).
    """

    def __init__(self, folder: Path | None, own: Any = None) -> None:
        self.folder = None if folder is None else folder.resolve()
        self._own = own
        self._maps: dict[Path, Any] = {}

    def leave_pages(self) -> None:
        """Let go of the memory in which pages of the files lie; what is read again comes from the file."""
        for data in (self._own, *self._maps.values()):
            pages = getattr(data, "_mmap", None)
            if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
                pages.madvise(mmap.MADV_DONTNEED)

    def _map(self, location: str, what: str) -> Any:
        if location == OWN_FILE and self._own is not None:
            return self._own
        if self.folder is None:
            raise InvalidArgumentError(
                f"{what} lies in the file {location!r}, but the model's folder is not known; "
                "give the model's path instead of its content, or folder="
            )
        parts = location.replace("\\", "/").split("/")
        if not location or "\0" in location or location.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
            raise InvalidArgumentError(f"{what} lies in {location!r}, expected a file inside of the model's folder")
        try:
            path = (self.folder / location).resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise FileError(f"{what} lies in {location!r}, which cannot be read: {error}") from None
        if not path.is_relative_to(self.folder):
            raise InvalidArgumentError(f"{what} lies in {location!r}, which leads out of the model's folder")
        if path not in self._maps:
            if not path.is_file():
                raise FileError(f"{what} lies in {location!r}, which is not a file")
            try:
                empty = path.stat().st_size == 0
                self._maps[path] = numpy.empty(0, "uint8") if empty else numpy.memmap(path, "uint8", "r")
            except OSError as error:
                raise FileError(f"{what} lies in {location!r}, which cannot be read: {error}") from None
        return self._maps[path]

    def read(self, tensor: Any, nbytes: int, what: str) -> Any:
        """The bytes of a tensor as a view of its file."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        data = self._map(entries.get("location", ""), what)
        numbers = []
        for key, default in (("offset", 0), ("length", nbytes)):
            text = entries.get(key, str(default))
            if not (text.isascii() and text.isdigit() and len(text) < 20):
                raise InvalidArgumentError(f"{what} has external {key} {text!r}, expected a number of bytes")
            numbers.append(int(text))
        offset, length = numbers
        if length != nbytes:
            raise InvalidArgumentError(f"{what} has external length {length}, expected {nbytes} bytes for its shape")
        if offset + length > data.size:
            raise InvalidArgumentError(
                f"{what} takes bytes {offset} to {offset + length} of its file, which has {data.size}"
            )
        return data[offset : offset + length]


def array_of(tensor: Any, files: ExternalData, what: str) -> Any:
    """The elements of a TensorProto as a read-only array, over the proto's or the file's bytes where these permit."""
    paired = _PAIRED.get(tensor.data_type)
    dtype = numpy.dtype("uint8") if paired else numpy_dtype(tensor.data_type, what)
    shape, count = checked_sizes(tensor.dims, what)
    if tensor.HasField("segment"):
        raise UnsupportedError(f"{what} comes in segments, which no version of ONNX has come to use")
    if paired:
        pairs = _elements(tensor, files, what, dtype, ((count + 1) // 2,), _TYPES[_T.UINT8][1])
        return _frozen(_unpaired(pairs, paired, what)[:count], shape)
    return _elements(tensor, files, what, dtype, shape, _TYPES[tensor.data_type][1])


def dense_of(sparse: Any, what: str) -> Any:
    """A SparseTensorProto as a TensorProto with all its elements."""
    array = dense_array(sparse, what)
    return _T(name=sparse.values.name, data_type=sparse.values.data_type, dims=array.shape, raw_data=array.tobytes())


def dense_array(sparse: Any, what: str) -> Any:
    """All elements of a SparseTensorProto."""
    shape, count = checked_sizes(sparse.dims, what)
    if sparse.values.data_type in _PAIRED:
        raise UnsupportedError(
            f"{what} has element type {dtype_name(sparse.values.data_type)}, expected 8 bits or more"
        )
    files = ExternalData(None)
    values = array_of(sparse.values, files, f"{what}, values")
    indices = array_of(sparse.indices, files, f"{what}, indices")
    if count * values.itemsize > MAX_DENSE:
        raise InvalidArgumentError(f"{what} takes {count * values.itemsize} bytes, expected at most {MAX_DENSE}")
    fits = indices.shape == (values.size,) or (indices.shape == (values.size, len(shape)) and shape)
    if values.ndim != 1 or indices.dtype != "int64" or not fits:
        raise InvalidArgumentError(
            f"{what} has {values.dtype} values of shape {list(values.shape)} and {indices.dtype} indices of shape "
            f"{list(indices.shape)}, expected [n], and int64 [n] or [n, {len(shape)}]"
        )
    if ((indices < 0) | (indices >= (shape if indices.ndim == 2 else count))).any():
        raise InvalidArgumentError(f"{what} has indices beyond its shape, {list(shape)}")
    made = numpy.zeros(count, values.dtype)
    made[numpy.ravel_multi_index(tuple(indices.T), shape) if indices.ndim == 2 else indices] = values
    return _frozen(made, shape)


def _unpaired(pairs: Any, name: str, what: str) -> Any:
    """Integers of 4 bits, of which each byte holds two, as elements of NumPy's."""
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedError(f"{what} is of {name}, for which NumPy needs the package ml_dtypes") from None
    values = numpy.stack([pairs & 15, pairs >> 4], axis=-1).reshape(-1)
    signed = (values ^ 8).astype("int8") - numpy.int8(8) if name == "int4" else values
    return signed.astype(getattr(ml_dtypes, name))


def _elements(tensor: Any, files: ExternalData, what: str, dtype: Any, shape: tuple[int, ...], field_name: str) -> Any:
    count = math.prod(shape)
    nbytes = count * dtype.itemsize
    if tensor.data_location == _T.EXTERNAL:
        data = files.read(tensor, nbytes, what)  # perhaps not aligned, which NumPy and constants of graphs permit
        return _frozen(data.view(dtype) if nbytes else numpy.empty(0, dtype), shape)
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        if len(raw) != nbytes:
            raise InvalidArgumentError(f"{what} has {len(raw)} bytes, expected {nbytes} for shape {list(shape)}")
        return _frozen(numpy.frombuffer(raw, dtype.newbyteorder("<") if dtype.kind != "V" else dtype), shape)
    field = getattr(tensor, field_name)
    if len(field) != count:
        raise InvalidArgumentError(f"{what} has {len(field)} elements, expected {count} for shape {list(shape)}")
    if field_name == "int32_data" and dtype.kind not in "iub":  # bits of floats
        return _frozen(numpy.array(field, "int64").astype(f"uint{8 * dtype.itemsize}").view(dtype), shape)
    wide = {"f": "float64", "u": "uint64"}.get(dtype.kind, "int64")
    return _frozen(numpy.array(field, wide).astype(dtype), shape)


def _frozen(array: Any, shape: tuple[int, ...]) -> Any:
    array = array.reshape(shape)
    array.flags.writeable = False
    return array
