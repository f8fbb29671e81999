"""torchvision's networks of video clips, for benchmarks: convolutions over time, height and width.

r3d_18, r2plus1d_18  D. Tran et al., A Closer Look at Spatiotemporal Convolutions for Action Recognition,
                     arXiv 1711.11248
"""

from __future__ import annotations

from typing import Any

from .torchvision_models import calibrated, import_torchvision

NETWORKS = ["r3d_18", "r2plus1d_18"]


def clips_for(network: str, batch: int) -> Any:
    """Clips of 16 frames of 112 x 112, normally distributed, seeded by the batch."""
    import torch

    torch.manual_seed(batch)
    return torch.randn(batch, 3, 16, 112, 112)


def build(network: str) -> Any:
    """The network in eval mode, seeded and calibrated."""
    import torch

    torch.manual_seed(1)
    return calibrated(getattr(import_torchvision().video, network)(), torch.randn(1, 3, 16, 112, 112))
