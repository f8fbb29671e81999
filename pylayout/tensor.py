"""Tensor: a logical shape, a dtype, a layout and a device."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy

from . import dlpack
from ._load import ffi, lib
from .context import handle as context_handle
from .context import state as context_state
from .dtypes import BY_CODE, DType, bf16, bool_, dtype_of, f32, is_dtype
from .errors import ArgumentTypeError, DeviceError, InvalidArgumentError, LayoutError, check
from .layout import Layout, shape_array
from .tensor_methods import Methods

__all__ = ["Tensor", "zeros"]


def _device_name(device: Any) -> bytes:
    """The name of a device given as a string or a Device."""
    name = str(device)
    if "\0" in name:
        raise DeviceError(f"device is {name!r}, expected a name such as cpu or opencl:0")
    return name.encode()


def sort_conversion(layout: Any, device: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """What `to` is given, with a device or a dtype in the first place where it belongs: torch's x.to("cpu")."""
    if layout is None or isinstance(layout, Layout):
        return layout, device, dtype
    if is_dtype(layout):
        if dtype is not None:
            raise ArgumentTypeError(f"to: two dtypes are given, {layout} and {dtype}, expected one")
        return None, device, layout
    name = str(layout)
    if name == "cpu" or name.startswith("opencl:"):
        if device is not None:
            raise ArgumentTypeError(f"to: two devices are given, {layout} and {device}, expected one")
        return None, layout, dtype
    return layout, device, dtype


class Tensor(Methods):
    """A tensor: logical `shape`, `dtype`, memory `layout` and `device`. Made by `asarray`, `zeros` and ops.

    Shapes are logical, (n, c, h, w), whatever the order in memory. The class is not called by users. Operators,
    indexing and the ops that are natural as methods (`x.sum(dim)`, `x.relu()`) are in `tensor_methods.py`.

    >>> import numpy, pylayout as pl
    >>> x = pl.asarray(numpy.ones((1, 3, 4, 4), "float32"), layout="NHWC")
    >>> x.shape, x.layout, x.device
    ((1, 3, 4, 4), Layout('NHWC'), 'cpu')
    """

    __slots__ = ("__weakref__", "_description", "_handle")
    _handle: Any
    _description: Any

    def __init__(self) -> None:
        raise ArgumentTypeError("Tensor: is not made by calling the class, expected pylayout.asarray(...)")

    def __del__(self, release: Any = lib.pl_tensor_release) -> None:
        try:
            release(self._handle)
        except AttributeError:  # never got a handle
            return

    # ---- what it is ----

    def _describe(self) -> Any:
        try:
            return self._description
        except AttributeError:
            info = ffi.new("pl_tensor_info *")
            check(lib.pl_tensor_describe(self._handle, info))
            self._description = info
            return info

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical sizes, (n, c, h, w)."""
        info = self._describe()
        return tuple(info.shape[0 : info.rank])

    @property
    def dtype(self) -> DType:
        """The element type; equal to NumPy's dtype of that kind too."""
        return BY_CODE[self._describe().dtype]

    @property
    def layout(self) -> Layout:
        """The order in memory; equal to strings that mean the same."""
        info = self._describe()
        return Layout(ffi.string(info.layout).decode()) if info.rank else _SCALAR

    @property
    def device(self) -> str:
        """The name of the device whose memory holds it: "cpu", "opencl:0"."""
        return str(ffi.string(self._describe().device).decode())

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self._describe().rank)

    @property
    def nbytes(self) -> int:
        """Bytes of its storage, from the start to its last element; padding counts."""
        return int(self._describe().storage_bytes)

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dimension; between blocks along blocked ones."""
        info = self._describe()
        return tuple(info.strides[0 : info.rank])

    @property
    def is_dense(self) -> bool:
        """Whether nothing but block padding lies between its elements."""
        return bool(self._describe().is_dense)

    @property
    def is_borrowed(self) -> bool:
        """Whether its storage is another library's memory."""
        return bool(self._describe().is_borrowed)

    def __repr__(self) -> str:
        head = f"Tensor({self.shape}, {self.dtype}, {self.layout or 'scalar'}, {self.device}"
        if not 0 < self.size <= 32:
            return head + ")"
        return f"{head},\n{numpy.array2string(self.numpy(), precision=4, separator=', ')})"

    # ---- elsewhere, otherwise ----

    def to(self, layout: Any = None, device: Any = None, dtype: Any = None) -> Tensor:
        """The same logical tensor in another layout, on another device or of another dtype.

        The cheapest path is taken. The copy is kept with this tensor and given again until the storage changes;
        if nothing changes, the result shares this storage. From floats to integers values are cut toward zero, as
        `ops.cast` does (`ops.reorder` rounds to the nearest). A device or a dtype may come first: `x.to("opencl:0")`.

        Raises LayoutError (does not parse or fit the rank), DeviceError, UnsupportedError.

        >>> import numpy, pylayout as pl
        >>> pl.asarray(numpy.ones((1, 3, 4, 4), "float32")).to(layout="nChw16c").nbytes
        1024
        """
        layout, device, dtype = sort_conversion(layout, device, dtype)
        if dtype is not None:
            wanted = dtype_of(dtype)
            if wanted is not self.dtype and (wanted is bool_ or (wanted.is_integer and not self.dtype.is_integer)):
                cut: Tensor = self.astype(wanted)
                return cut.to(layout, device)
        out = ffi.new("pl_tensor *")
        check(
            lib.pl_tensor_convert(
                self._handle,
                ffi.NULL if device is None else _device_name(device),
                ffi.NULL if layout is None else Layout(layout).name.encode(),
                ffi.NULL if dtype is None else dtype_of(dtype).name.encode(),
                out,
            )
        )
        return adopt(out[0])

    def numpy(self) -> Any:
        """A NumPy array of its own: row-major, writable, independent of this tensor.

        bf16 comes as ml_dtypes.bfloat16 where that package is installed, as float32 otherwise.
        """
        tensor = self if self.dtype.is_exact_in_numpy else self.to(dtype=f32)
        array = numpy.empty(tensor.shape, tensor.dtype.dtype)
        check(lib.pl_tensor_read(tensor._handle, address_of(array), array.nbytes))
        return array

    def _view(self) -> Any:
        """A read-only array over the storage itself; None where the storage is not row-major host memory."""
        info = self._describe()
        if ffi.string(info.device) != b"cpu" or not self.dtype.is_exact_in_numpy or self.size == 0:
            return None
        if info.rank and not (self.layout.is_plain and info.offset == 0):
            return None
        data = ffi.new("void **")
        check(lib.pl_tensor_data(self._handle, data))
        address, item = int(ffi.cast("uintptr_t", data[0])), self.dtype.itemsize
        if info.is_dense or not info.rank:
            flat = numpy.asarray(_Window(self, address, self.size * item))
            return flat.view(self.dtype.dtype).reshape(self.shape)
        shape, steps = self.shape, [info.strides[i] * item for i in range(info.rank)]
        extent = sum((size - 1) * step for size, step in zip(shape, steps, strict=True)) + item
        flat = numpy.asarray(_Window(self, address, extent))
        return numpy.ndarray(shape, self.dtype.dtype, flat, strides=steps)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For numpy.asarray: without a copy where the memory permits, and then read-only."""
        array = None if copy else self._view()
        if array is not None and (dtype is None or numpy.dtype(dtype) == array.dtype):
            return array
        if copy is False:
            raise ValueError(
                f"numpy.asarray: tensor ({self.layout}, {self.dtype}, {self.device}) needs a copy, but copy=False"
            )
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number."""
        if self.size != 1:
            raise InvalidArgumentError(f"item: tensor has {self.size} elements, expected 1")
        return self.numpy().astype("float32" if self.dtype == bf16 else self.dtype.dtype).item()

    def tolist(self) -> Any:
        """Its values as nested lists."""
        array = self.numpy()
        return (array.astype("float32") if self.dtype == bf16 else array).tolist()

    def cpu(self) -> Tensor:
        """On the device "cpu"; this tensor itself if it is there."""
        return self if self.device == "cpu" else self.to(device="cpu")

    def contiguous(self) -> Tensor:
        """With its elements in row-major order and nothing between them; this tensor itself if they are."""
        if not self.ndim or (self.is_dense and self.layout.is_plain):
            return self
        return self._row_major()

    def view(self, *shape: Any) -> Tensor:
        """The same memory in another shape; one size may be -1.

        Raises LayoutError where the layout permits no view; `reshape` makes a copy there.
        """
        result: Tensor = self.reshape(*shape)
        if result.size and result._memory() != self._memory():
            raise LayoutError(
                f"view: {self.shape} in {self.layout} has no view of shape {result.shape}, expected a layout in which "
                "the elements lie in that order; reshape() makes a copy"
            )
        return result

    def _memory(self) -> int:
        """What tells storages apart: the address of the first element, or the cl_mem."""
        found = ffi.new("void **")
        read = lib.pl_tensor_data if self.device == "cpu" else lib.pl_tensor_cl_mem
        check(read(self._handle, found))
        return int(ffi.cast("uintptr_t", found[0]))

    def _beside(self, constants: Any) -> Any:
        if self.device == "cpu" or not isinstance(constants, numpy.ndarray):
            return constants
        return zeros(constants.shape, constants.dtype, self.device).write(constants)

    def clone(self) -> Tensor:
        """A copy with storage of its own, in the same layout on the same device."""
        made = zeros(self.shape, dtype=self.dtype, layout=self.layout if self.ndim else None, device=self.device)
        return made.write(self)

    def write(self, values: Any) -> Tensor:
        """Replace all elements by those of an array or tensor of the same shape; returns this tensor."""
        if isinstance(values, Tensor):
            self._check_shape(values.shape)
            source = values if values.dtype is self.dtype else values.to(dtype=self.dtype)
            check(lib.pl_tensor_copy(source._handle, self._handle))
            return self
        array = numpy.ascontiguousarray(values, self.dtype.dtype)
        self._check_shape(numpy.shape(values))
        if not self.dtype.is_exact_in_numpy:
            return self.write(zeros(array.shape, array.dtype).write(array))
        check(lib.pl_tensor_write(self._handle, address_of(array), array.nbytes))
        return self

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if shape != self.shape:
            raise InvalidArgumentError(f"write: values has shape {shape}, expected {self.shape}")

    def __setitem__(self, key: Any, values: Any) -> None:
        """Replace the elements that `x[key]` names, in place: `x[:, 0] = 1`. Any index that NumPy takes will do.

        `values` broadcast. Copies in other layouts that were made before are dropped. Where `x[key]` is a view, only
        its elements are touched; else (lists of indices, masks, negative steps, parts of blocks) all pass the host.
        """
        part = self._part(key)
        if part is not None:
            if not isinstance(values, (Tensor, numpy.ndarray)):
                values = numpy.asarray(values)
            if isinstance(values, Tensor) and values.shape == part.shape:
                part.write(values)
                return
            given = numpy.asarray(values)
            if _broadcasts(given.shape, part.shape) and given.dtype.kind in "biufV":
                given = given.reshape(given.shape[max(0, given.ndim - part.ndim) :])
                part.write(numpy.broadcast_to(given, part.shape))
                return
        if isinstance(values, Methods):
            values = numpy.asarray(values)
        if isinstance(key, Methods):
            key = numpy.asarray(key)
        elif isinstance(key, tuple):
            key = tuple(numpy.asarray(part) if isinstance(part, Methods) else part for part in key)
        array = self.numpy()
        try:
            array[key] = values
        except (IndexError, TypeError, ValueError) as error:
            kind = IndexError if isinstance(error, IndexError) else InvalidArgumentError
            raise kind(f"assignment: to a tensor of shape {self.shape}: {error}") from None
        self.write(array)

    def _part(self, key: Any) -> Tensor | None:
        """The elements that an index names, where they can be written in place: a view of this storage."""
        keys = key if isinstance(key, tuple) else (key,)
        basic = (slice, int, numpy.integer)
        if any(isinstance(k, bool) or not (k is None or k is Ellipsis or isinstance(k, basic)) for k in keys):
            return None
        if any(isinstance(k, slice) and k.step is not None and k.step < 0 for k in keys):
            return None
        try:
            part: Tensor = self[key]
        except (IndexError, InvalidArgumentError):
            return None
        return part if part.size and part._memory() == self._memory() else None

    def touch(self) -> Tensor:
        """Say that its storage was changed from outside: copies in other layouts made before are dropped."""
        check(lib.pl_tensor_touch(self._handle))
        return self

    copy = clone

    def __copy__(self) -> Tensor:
        return self.clone()

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.clone()

    def __reduce__(self) -> Any:
        plain = self.to(dtype=f32) if not self.dtype.is_exact_in_numpy else self
        return _rebuild, (plain.numpy(), self.dtype.name, self.layout.name if self.ndim else None, self.device)

    # ---- other libraries ----

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """A DLPack capsule. Blocked layouts are reordered to row-major first, which is a copy."""
        tensor = self
        wanted = tuple(dl_device) if dl_device is not None else self.__dlpack_device__()
        moved = wanted != self.__dlpack_device__()
        if moved and wanted[0] != dlpack.CPU:
            here = self.__dlpack_device__()
            raise BufferError(f"__dlpack__: dl_device is {wanted}, expected {here} or the CPU, (1, 0)")
        if moved or self.layout.is_blocked:
            if copy is False:
                raise BufferError(f"__dlpack__: tensor ({self.layout}, {self.device}) needs a copy, but copy=False")
            plain = "abcdefgh"[: self.ndim] if self.layout.is_blocked else None
            tensor = self.to(layout=plain, device="cpu" if moved else None)
        if copy:
            tensor = tensor.clone()
        managed = ffi.new("void **")
        check(lib.pl_tensor_to_dlpack(tensor._handle, managed))
        return dlpack.make_capsule(managed[0])

    def __dlpack_device__(self) -> tuple[int, int]:
        """(device type, device number) as DLPack numbers them."""
        name, _, number = self.device.partition(":")
        return (dlpack.CPU, 0) if name == "cpu" else (dlpack.OPENCL, int(number))

    @staticmethod
    def from_cl_buffer(
        buffer: Any, shape: Sequence[int], dtype: Any, layout: Any = None, queue: Any = None, *, offset: int = 0
    ) -> Tensor:
        """A tensor over a pyopencl Buffer, without a copy. `offset` is in bytes.

        Work on it is queued on `queue`, a pyopencl CommandQueue in order; both objects are retained. Both must be
        alive: OpenCL cannot always tell a released object from a live one, and may crash on it.

        Raises DeviceError where the queue is missing or does not fit, ShapeError where the buffer is too small.
        """
        for argument, given, kind, needs in (
            ("buffer", buffer, "Buffer", ("int_ptr",)),
            ("queue", queue, "CommandQueue", ("int_ptr", "context")),
        ):
            if given is not None and not all(hasattr(given, need) for need in needs):
                raise ArgumentTypeError(
                    f"from_cl_buffer: {argument} is {type(given).__name__}, expected a pyopencl.{kind}"
                )
        if buffer is None:
            raise ArgumentTypeError("from_cl_buffer: buffer is None, expected a pyopencl.Buffer")
        if queue is None:
            raise DeviceError("from_cl_buffer: queue is missing, expected the pyopencl.CommandQueue to work on")
        name = ffi.new("char[32]")
        context = context_handle()
        check(
            lib.pl_context_lend_opencl(
                context, ffi.cast("void *", queue.context.int_ptr), ffi.cast("void *", queue.int_ptr), name
            )
        )
        rank, sizes = shape_array(shape)
        out = ffi.new("pl_tensor *")
        order = ffi.NULL if layout is None else Layout(layout).name.encode()
        memory = ffi.cast("void *", buffer.int_ptr)
        code = dtype_of(dtype).code
        check(lib.pl_tensor_borrow_cl(context, name, code, rank, sizes, order, memory, offset, out))
        return adopt(out[0])

    @property
    def cl_buffer(self) -> Any:
        """Its storage as a pyopencl.Buffer, without a copy; DeviceError where it is no OpenCL memory.

        After writing to it, call `touch`.
        """
        memory = ffi.new("void **")
        check(lib.pl_tensor_cl_mem(self._handle, memory))
        import pyopencl

        return pyopencl.Buffer.from_int_ptr(int(ffi.cast("uintptr_t", memory[0])), retain=True)

    # ---- the array API standard ----

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """`pylayout.array_api`: the functions of the Python array API standard, those that the library has."""
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"__array_namespace__: api_version is {api_version!r}, expected 2021.12 to 2024.12")
        return _namespace

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """On a device, as the array API standard calls it."""
        if stream is not None:
            raise ArgumentTypeError(f"to_device: stream is {stream!r}, expected None: a device has one queue")
        return self.to(device=device)

    # ---- as a Python number ----

    def __bool__(self) -> bool:
        if self.size != 1:
            raise InvalidArgumentError(f"bool: tensor has {self.size} elements, expected 1")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.ndim or not self.dtype.is_integer:
            raise ArgumentTypeError(
                f"index: tensor is {self.dtype} of shape {self.shape}, expected an integer of shape ()"
            )
        return operator.index(self.item())


_namespace: Any = None


def set_namespace(module: Any) -> None:
    """Called by `array_api`, which needs this module first."""
    global _namespace
    _namespace = module


def _rebuild(array: Any, dtype: str, layout: str | None, device: str) -> Tensor:
    """What unpickling calls. A device that this process has not becomes the CPU."""
    try:
        made = zeros(array.shape, dtype, device, layout)
    except DeviceError:
        if context_state.forked:  # an error here would end a worker of multiprocessing in the midst of its queue
            return Tensor.__new__(_Lost)
        made = zeros(array.shape, dtype, None, layout)
    return made.write(array)


class _Lost(Tensor):
    """A tensor that came to a process which cannot hold one: using it says why."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name != "_handle":
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")
        return context_state.make()  # raises

    def __del__(self, release: Any = None) -> None:
        """There is nothing to release."""


def _broadcasts(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether NumPy assigns values of one shape to elements of the other."""
    extra = len(given) - len(wanted)
    if extra > 0 and any(size != 1 for size in given[:extra]):
        return False
    pairs = zip(reversed(given), reversed(wanted), strict=False)
    return all(size in (1, place) for size, place in pairs)


def tensor_under(array: Any) -> Tensor | None:
    """The tensor of which `array` is the whole, as `numpy.asarray` gave it; None for any other array."""
    base = array
    while isinstance(base, numpy.ndarray):
        base = base.base
    if not isinstance(base, _Window) or array.shape != base.tensor.shape or array.dtype != base.tensor.dtype.dtype:
        return None
    view = base.tensor._view()
    same = view is not None and (view.__array_interface__["data"][0], view.strides) == (
        array.__array_interface__["data"][0],
        array.strides,
    )
    return base.tensor if same else None


class _Window:
    """Host memory of a tensor for NumPy, which keeps this object, and so the tensor, as the array's base."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor: Tensor, address: int, size: int) -> None:
        self.tensor = tensor
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (address, True)}


class _ScalarLayout(Layout):
    """The layout of a tensor of rank 0, which has no spelling."""

    __slots__ = ()

    def __init__(self) -> None:
        self.name = self.generic = ""
        self.rank = 0

    def __bool__(self) -> bool:
        return False


_SCALAR = _ScalarLayout()


def adopt(handle: Any) -> Tensor:
    """The Tensor that owns a handle from now on."""
    tensor = Tensor.__new__(Tensor)
    tensor._handle = handle
    return tensor


def address_of(array: Any) -> Any:
    return ffi.cast("void *", array.ctypes.data if array.nbytes else 0)


def zeros(shape: Any, dtype: Any = f32, device: Any = None, layout: Any = None) -> Tensor:
    """A tensor of zeros.

    >>> import pylayout as pl
    >>> pl.zeros((1, 16, 8, 8), layout="nChw16c").shape
    (1, 16, 8, 8)
    """
    if isinstance(shape, int):
        shape = (shape,)
    elif not isinstance(shape, Iterable):
        raise ArgumentTypeError(f"shape is {shape!r}, expected a sequence of integers")
    rank, sizes = shape_array(tuple(shape))
    out = ffi.new("pl_tensor *")
    name = ffi.NULL if device is None else _device_name(device)
    order = ffi.NULL if layout is None else Layout(layout).name.encode()
    check(lib.pl_tensor_create(context_handle(), name, dtype_of(dtype).code, rank, sizes, order, out))
    return adopt(out[0])
