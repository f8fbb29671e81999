"""The ops, one function for each schema of the library: `ops.conv2d(x, weight, stride=2)`.

The functions are made from the schemas when they are first asked for, so that a new op needs no line here; a few are
made of others (`composed.py`). Given a Value of a `pylayout.Graph` they append to that graph instead, so that a network
written once runs at once or becomes a plan.
Names and signatures follow torch.nn.functional, then torch; ONNX where torch has none.

Each takes tensors, NumPy arrays, anything with DLPack or the buffer protocol, and plain numbers, and three more
keywords: `layout`, "auto" (the fastest by measurement, the default), "per-op" (row-major between ops) or one to force
where an implementation has it ("NCHW", "NHWC", "nChw16c"); `device`, where to run (default: where the inputs are); and
`out`, a tensor that the result is written into. It may be an input: `ops.linear(x, weight, residual=y, out=y)` adds a
product to y where y lies.

Called again with equal attributes an op costs microseconds: attributes are parsed once, and weights given as the same
`Tensor` are packed once. Arrays are packed at each call, so hold weights as tensors (`pylayout.asarray`).
"""

from __future__ import annotations

import sys
from typing import Any

from . import tensor_methods as _methods
from . import tensor_operators as _operators
from .calls import did_you_mean as _did_you_mean
from .calls import schemas as _schemas
from .composed import COMPOSED as _COMPOSED
from .composed import make as _make_composed
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
    "expand_dims": "unsqueeze",
}


def _run(op: str, *arguments: Any, **keywords: Any) -> Any:
    return getattr(sys.modules[__name__], op)(*arguments, **keywords)


def __getattr__(name: str) -> Any:
    """Makes an op's function when it is first used."""
    target = ALIASES.get(name, name)
    if name.startswith("__") or (target not in _COMPOSED and target not in _schemas()):
        hint = _did_you_mean(name, __dir__()) or "dir(pylayout.ops) lists those there are"
        raise AttributeError(f"pylayout.ops has no op {name!r}; {hint}")
    function = globals().get(target) or (_make_composed(target, _run) if target in _COMPOSED else _make(target))
    globals()[target] = globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*_schemas(), *_COMPOSED, *ALIASES})


_methods._ops = _operators._ops = sys.modules[__name__]  # type: ignore[attr-defined]
