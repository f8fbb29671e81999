"""How numbers, arrays and tensors of other libraries become a Tensor: copied, or borrowed where they lie."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy

from . import dlpack
from ._load import ffi, lib
from .context import handle as context_handle
from .dtypes import ALL, DType, bf16, dtype_of, f32, s64
from .errors import ArgumentTypeError, InvalidArgumentError, UnsupportedError, check
from .layout import Layout, shape_array
from .tensor import Tensor, address_of, adopt, zeros
from .tensor_methods import Methods

__all__ = ["asarray", "from_dlpack"]

# What lent its memory to tensors, kept until the library says that the last of them is gone.
_owners: dict[int, Any] = {}
_owner_keys = itertools.count(1)


@ffi.def_extern()  # type: ignore[untyped-decorator]
def pyl_python_release_owner(user: Any, owners: Any = _owners, integer: Any = int, cast: Any = ffi.cast) -> None:
    owners.pop(integer(cast("uintptr_t", user)), None)


RELEASE_OWNER = ffi.addressof(lib, "pyl_release_owner")  # which calls it


def lend(owner: Any) -> int:
    """Keep what owns memory alive until the library calls RELEASE_OWNER with this number."""
    key = next(_owner_keys)
    _owners[key] = owner
    return key


def take_back(key: int) -> None:
    """The library did not take what was lent under this number."""
    del _owners[key]


# NumPy has these by default where a program never chose: they become the nearest type that the library has.
_NARROWED = {numpy.dtype("float64"): f32}
_BY_NUMPY = {dtype.dtype: dtype for dtype in ALL if dtype is not bf16}


def _numpy_array(value: Any, dtype: DType | None, what: str) -> tuple[Any, DType]:
    """An aligned array of native byte order, and the dtype its values mean."""
    if isinstance(value, (bytes, bytearray)):
        value = memoryview(value)
    try:
        array = numpy.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise ArgumentTypeError(f"{what} is no array: {error}") from None
    whole = array.dtype == object and array.size > 0 and all(isinstance(each, int) for each in array.flat)
    if whole and max(each.bit_length() for each in array.flat) > 63:
        array = _large_integers(array, dtype, what)
    if array.dtype == object:
        hint = ""
        if hasattr(value, "base_data") and hasattr(value, "queue"):  # pyopencl.array.Array
            hint = "; Tensor.from_cl_buffer(a.base_data, a.shape, a.dtype, None, a.queue, offset=a.offset) shares it"
        elif isinstance(value, numpy.ndarray):
            hint = "; its dtype is object, expected one of numbers"
        raise ArgumentTypeError(f"{what} is {type(value).__name__}, expected a tensor, an array or a number{hint}")
    try:
        meant = dtype or _NARROWED.get(array.dtype) or dtype_of(array.dtype)
    except UnsupportedError as error:
        raise UnsupportedError(f"{what}: {error}") from None
    if array.dtype.kind not in "biuf" and dtype_of(array.dtype) is not bf16:
        raise UnsupportedError(f"{what} has dtype {array.dtype}, expected numbers")
    if array.dtype != meant.dtype:
        with numpy.errstate(over="ignore", invalid="ignore"):
            array = array.astype(meant.dtype)
    if not array.flags.aligned or not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="), order="C")
    return array, meant if meant.is_exact_in_numpy else f32


def _large_integers(array: Any, dtype: DType | None, what: str) -> Any:
    """Integers of more than 64 bits as floating numbers, where those are asked for."""
    if dtype is not None and numpy.dtype(dtype.dtype).kind not in "biu":
        with contextlib.suppress(OverflowError):
            return array.astype("float64")
    bits = max(each.bit_length() for each in array.flat)
    raise InvalidArgumentError(f"{what} has an integer of {bits} bits, expected at most 63 and the sign")


def _borrow(array: Any, dtype: DType, owner: Any) -> Tensor:
    """A tensor over an array's memory; its strides must be positive."""
    rank, sizes = shape_array(array.shape)
    if array.flags.c_contiguous and array.dtype.kind != "V":
        strides, address = ffi.NULL, ffi.from_buffer(array)
    else:
        item = array.itemsize
        strides, address = ffi.new("int64_t[]", [step // item for step in array.strides]), address_of(array)
    key = next(_owner_keys)
    out = ffi.new("pl_tensor *")
    _owners[key] = owner
    status = lib.pl_tensor_borrow(
        context_handle(), dtype.code, rank, sizes, ffi.NULL, strides, address,
        RELEASE_OWNER, ffi.cast("void *", key), out,
    )  # fmt: skip
    if status:
        del _owners[key]
        check(status)
    return adopt(out[0])


def _can_borrow(array: Any) -> bool:
    if any(step < 0 or step % array.itemsize for step in array.strides) and array.size:
        return False
    return bool(array.ndim <= 8)


def as_input(value: Any, op: str, argument: str, others: tuple[Any, ...] = (), copy: bool = False) -> Tensor:
    """What an op takes for a tensor argument. Arrays are borrowed for the call; numbers take the others' dtype."""
    if isinstance(value, Tensor):
        return value
    if value.__class__ is numpy.ndarray and not copy:
        # The common case, quickly: a plain array of a dtype that needs no conversion.
        known = _BY_NUMPY.get(value.dtype)
        flags = value.flags
        if known is not None and flags.c_contiguous and flags.aligned and value.ndim <= 8:
            return _borrow(value, known, value)
    what = f"{op}: {argument}"
    if isinstance(value, numpy.generic) and others and value.dtype.kind in "biuf":
        value = value.item()  # NumPy's scalars take the dtype of tensors beside them, as numbers do
    if isinstance(value, (bool, int, float)):
        return _scalar(value, *number_as(value, others), what)
    if not isinstance(value, (numpy.ndarray, numpy.generic)) and hasattr(value, "__dlpack__"):
        tensor = _imported(value, what)
        return tensor.clone() if copy else tensor
    if not isinstance(value, (numpy.ndarray, numpy.generic, list, tuple)) and not _is_array_like(value):
        raise ArgumentTypeError(f"{what} is {type(value).__name__}, expected a tensor, an array or a number")
    array, dtype = _numpy_array(value, None, what)
    if copy or not _can_borrow(array):
        return asarray(array, dtype=dtype)
    return _borrow(array, dtype, array)


def _is_array_like(value: Any) -> bool:
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return True
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True


_scalars: dict[Any, Tensor] = {}


def number_as(value: Any, others: tuple[Any, ...]) -> tuple[DType, str]:
    """The dtype and device of a number among other arguments of an op: those of the first one that has any."""
    for other in others:
        dtype = getattr(other, "dtype", None)
        if dtype is not None and getattr(other, "ndim", 0) + isinstance(other, Methods):
            return _NARROWED.get(dtype) or dtype_of(dtype), getattr(other, "device", "cpu")
    numbers = (value, *others)
    return (f32 if any(isinstance(number, float) for number in numbers) else s64), "cpu"


def _scalar(value: Any, dtype: DType, device: str, what: str) -> Tensor:
    """A number as a tensor of rank 0; few are kept for the next call."""
    key = (value, type(value), dtype.name, device, str(value))
    found = _scalars.get(key)
    if found is not None:
        return found
    if isinstance(value, float) and numpy.dtype(dtype.dtype).kind in "biu" and dtype is not bf16:
        raise InvalidArgumentError(
            f"{what} is {value}, expected an integer beside a tensor of {dtype}; convert that with .to(dtype=...) first"
        )
    if dtype.name == "bool" and value not in (0, 1):
        raise InvalidArgumentError(f"{what} is {value}, expected False or True beside a tensor of bool")
    if numpy.dtype(dtype.dtype).kind in "iu" and not isinstance(value, bool):
        limits = numpy.iinfo(dtype.dtype)
        if not limits.min <= value <= limits.max:
            raise InvalidArgumentError(f"{what} is {value}, expected {limits.min} to {limits.max} beside {dtype}")
    array, _ = _numpy_array(numpy.asarray(value, "float64" if isinstance(value, float) else None), dtype, what)
    made = asarray(array, dtype=dtype, device=device)
    if len(_scalars) >= 256:
        _scalars.clear()
    _scalars[key] = made
    return made


def asarray(value: Any, dtype: Any = None, device: Any = None, layout: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of what `value` holds: a NumPy array, anything with DLPack or the buffer protocol, lists, numbers.

    dtype: default, that of `value`; float64, which the library has not, becomes f32. device: default "cpu".
    layout: the order in memory, default row-major; shapes are logical all the same.
    copy: None copies arrays (a later change of the array is not seen), False borrows the array's memory (keeping
    it alive; call `touch` after changing it) and raises where that is impossible, True copies tensors as well.

    Raises UnsupportedError (dtype), LayoutError, DeviceError, ShapeError, OutOfMemoryError.

    >>> import numpy, pylayout as pl
    >>> pl.asarray(numpy.zeros((2, 3, 4, 4), "float32"), layout="NHWC").layout
    Layout('NHWC')
    """
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(value, Tensor):
        tensor = value.to(layout=layout, device=device, dtype=wanted)
        return tensor.clone() if copy else tensor
    if not isinstance(value, (numpy.ndarray, numpy.generic)) and hasattr(value, "__dlpack__"):
        tensor = _imported(value, "asarray: value")
        changes = (layout, device, wanted) != (None, None, None)
        if copy is False:
            return tensor.to(layout=layout, device=device, dtype=wanted) if changes else tensor
        # The kept copies go with the imported tensor, so the result must not share its storage.
        moved = tensor.to(layout=layout, device=device, dtype=wanted) if changes else tensor
        return moved.clone() if moved.is_borrowed else moved
    array, meant = _numpy_array(value, wanted, "asarray: value")
    if copy is False:
        fits = array is value or (isinstance(value, numpy.ndarray) and numpy.shares_memory(array, value))
        if fits and not array.flags.writeable:
            raise InvalidArgumentError("asarray: copy is False, but the array is read-only, expected a writable one")
        if not fits or not _can_borrow(array) or layout is not None or str(device or "cpu") != "cpu":
            raise InvalidArgumentError("asarray: copy is False, but dtype, strides, layout or device need a copy")
        return _borrow(array, meant, value)
    order = None if layout is None else Layout(layout)
    made = zeros(array.shape, dtype=meant, device=device, layout=order)
    array = numpy.ascontiguousarray(array)
    check(lib.pl_tensor_write(made._handle, address_of(array), array.nbytes))
    return made if wanted in (None, meant) else made.to(dtype=wanted)


def from_dlpack(value: Any) -> Tensor:
    """A tensor over the memory of any object with `__dlpack__`, without a copy.

    The object is kept alive by the tensor. Raises DeviceError for devices other than CPU and OpenCL.
    """
    return _imported(value, "from_dlpack: value")


def _imported(value: Any, what: str) -> Tensor:
    out = ffi.new("pl_tensor *")
    capsule = dlpack.capsule_of(value, what)
    check(lib.pl_tensor_from_dlpack(context_handle(), ffi.cast("void *", dlpack.pointer_of(capsule)), out))
    dlpack.mark_used(capsule)
    return adopt(out[0])
