"""Layout-aware deep-learning operators over oneDNN and OpenCL.

>>> import numpy, pylayout as pl
>>> from pylayout import ops
>>> x = pl.asarray(numpy.ones((1, 8, 6, 6), "float32"), layout="NHWC")
>>> w = pl.asarray(numpy.ones((4, 8, 3, 3), "float32"))
>>> ops.conv2d(x, w, padding=1, activation="relu").shape
(1, 4, 6, 6)
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from . import _command as _command  # first: it says what Ctrl-C does while the rest is imported
from ._version import __version__
from .arrays import asarray, from_dlpack
from .context import configure
from .creation import (
    arange,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros_like,
)
from .device import (
    Device,
    calibrate,
    devices,
    get_threads,
    memory,
    release_caches,
    reset_memory_peaks,
    set_memory_limit,
    set_threads,
    set_tuning,
    settled,
    synchronize,
)
from .dtypes import (
    DType,
    bf16,
    bfloat16,
    bool_,
    dtype_of,
    f16,
    f32,
    float16,
    float32,
    int8,
    int32,
    int64,
    s8,
    s32,
    s64,
    u8,
    uint8,
)
from .errors import (
    ArgumentTypeError,
    DeviceError,
    Error,
    FileError,
    InternalError,
    InvalidArgumentError,
    LayoutError,
    OutOfMemoryError,
    QueueFullError,
    ShapeError,
    UnsupportedError,
)
from .layout import Layout
from .profile import Profile, profile
from .query import Query, query, tune
from .streams import Event, Stream, current_stream
from .tensor import Tensor, zeros
from .tuner import tune_device, tuned_values
from .value import Value

from . import ops  # isort: skip  (after tensor, which it completes)
from . import array_api  # isort: skip
from .graph import Graph  # isort: skip
from .batcher import Batcher  # isort: skip
from .compilation import compile, load_plan  # isort: skip
from .plan import Plan  # isort: skip
from . import training  # isort: skip
from .functional import value_and_grad  # isort: skip


if not TYPE_CHECKING:  # for which any name would be one of the module's

    def __getattr__(name: str) -> ModuleType:
        """`pl.onnx`, `pl.torch` and `pl.ocl`, which need packages of others, are imported where they are named."""
        if name in ("onnx", "torch", "ocl"):
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ArgumentTypeError",
    "Batcher",
    "DType",
    "Device",
    "DeviceError",
    "Error",
    "Event",
    "FileError",
    "Graph",
    "InternalError",
    "InvalidArgumentError",
    "Layout",
    "LayoutError",
    "OutOfMemoryError",
    "Plan",
    "Profile",
    "Query",
    "QueueFullError",
    "ShapeError",
    "Stream",
    "Tensor",
    "UnsupportedError",
    "Value",
    "__version__",
    "arange",
    "array_api",
    "asarray",
    "bf16",
    "bfloat16",
    "bool_",
    "calibrate",
    "compile",
    "configure",
    "current_stream",
    "devices",
    "dtype_of",
    "empty",
    "empty_like",
    "eye",
    "f16",
    "f32",
    "float16",
    "float32",
    "from_dlpack",
    "full",
    "full_like",
    "get_threads",
    "int8",
    "int32",
    "int64",
    "linspace",
    "load_plan",
    "memory",
    "ones",
    "ones_like",
    "ops",
    "profile",
    "query",
    "release_caches",
    "reset_memory_peaks",
    "s8",
    "s32",
    "s64",
    "set_memory_limit",
    "set_threads",
    "set_tuning",
    "settled",
    "synchronize",
    "training",
    "tune",
    "tune_device",
    "tuned_values",
    "u8",
    "uint8",
    "value_and_grad",
    "zeros",
    "zeros_like",
]
