"""torchvision's definitions of networks, for benchmarks and tests."""

from __future__ import annotations

import contextlib


def import_torchvision():
    """torchvision.models. One made for CUDA or another torch lacks its C++ operators; the import asks for two names."""
    import torch

    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            with contextlib.suppress(RuntimeError):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import_torchvision.library = library  # the names go when this object goes
    from torchvision import models

    return models
