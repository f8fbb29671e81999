"""Modules as both of PyTorch's exporters write them to ONNX, with axes named."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any


def exported(
    module: Any,
    inputs: Sequence[Any],
    named: Mapping[str, Mapping[int, str]],
    *,
    dynamo: bool,
    gathered: int | None = None,
) -> bytes:
    """The file's content. named: by input the names of its axes, which dynamo=True calls otherwise.

    gathered: from which input on the module's forward gathers them, as `*inputs`; None: it names each.
    """
    import torch

    content = io.BytesIO()
    if dynamo:
        free = [dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in named.values()]
        shapes = tuple(free) if gathered is None else (*free[:gathered], tuple(free[gathered:]))
        spelled: dict[str, Any] = {"verbose": False, "dynamic_shapes": shapes}
    else:
        spelled = {"opset_version": 17, "dynamic_axes": named}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs), content, dynamo=dynamo, input_names=list(named), **spelled)
    return content.getvalue()
