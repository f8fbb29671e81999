"""torchvision's definitions of networks, for benchmarks and tests."""

from __future__ import annotations

import contextlib
import sys


def import_torchvision():
    """torchvision.models. One made for another torch lacks its C++ operators; the import then asks for two names."""
    import torch

    try:
        from torchvision import models
    except (RuntimeError, AttributeError):
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]  # what the failed import left
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            with contextlib.suppress(RuntimeError):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import_torchvision.library = library  # the names go when this object goes
        from torchvision import models

    return models
