"""The ops, one function for each schema of the library: `ops.conv2d(x, weight, stride=2)`.

The functions are made from the schemas when they are first asked for, so that a new op needs no line here.
Names and signatures follow torch.nn.functional, then torch; ONNX where torch has none.

Each takes tensors, NumPy arrays, anything with DLPack or the buffer protocol, and plain numbers, and two more
keywords: `layout`, "auto" (the fastest by measurement, the default), "per-op" (row-major between ops) or one to force
("NCHW", "NHWC", "nChw16c"); and `device`, where to run (default: where the inputs are).

Called again with equal attributes an op costs microseconds: attributes are parsed once, and weights given as the same
`Tensor` are packed once. Arrays are packed at each call, so hold weights as tensors (`pylayout.asarray`).
"""

from __future__ import annotations

import sys
from typing import Any

from . import tensor as _tensor
from .calls import schemas as _schemas
from .op_functions import make as _make

# Other names of ops, as torch has them.
ALIASES = {
    "clamp": "clip",
    "cat": "concat",
    "concatenate": "concat",
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
    "negative": "neg",
    "absolute": "abs",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "broadcast_to": "expand",
}


def __getattr__(name: str) -> Any:
    """Makes an op's function when it is first used."""
    target = ALIASES.get(name, name)
    if name.startswith("__") or target not in _schemas():
        raise AttributeError(f"pylayout.ops has no op {name!r}; dir(pylayout.ops) lists those there are")
    function = globals()[target] if target in globals() else _make(target)
    globals()[target] = globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*_schemas(), *(name for name, target in ALIASES.items() if target in _schemas())})


_tensor._ops = sys.modules[__name__]  # type: ignore[attr-defined]
