"""PyTorch: models compiled by one line, what pylayout has not left to PyTorch.

    import torch, pylayout.torch
    fast = torch.compile(model, backend="pylayout")

`pylayout.torch.report()` says how many plans a model became, and which ops PyTorch runs.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise ImportError("pylayout.torch needs the package torch: pip install '.[torch]' in the clone") from None

from importlib.metadata import EntryPoint

from torch._dynamo.backends import registry as _registry

from .backend import backend
from .memory import empty_cache, set_memory_limit
from .report import CompiledGraph, Report, report, reset

__all__ = ["CompiledGraph", "Report", "backend", "empty_cache", "report", "reset", "set_memory_limit"]

# As the entry point of the installed package says it, so that it does not matter which of the two comes first.
_registry._BACKENDS.setdefault(
    "pylayout", EntryPoint("pylayout", "pylayout.torch.backend:backend", "torch_dynamo_backends")
)
