"""torchvision's networks for benchmarks and tests: their definitions, seeded modules, ONNX files."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

NETWORKS = [
    "alexnet",
    "resnet18",
    "resnet50",
    "vgg16",
    "densenet161",
    "googlenet",
    "squeezenet1_0",
    "inception_v3",
    "shufflenet_v2_x1_0",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
    "resnext50_32x4d",
    "wide_resnet50_2",
    "mnasnet1_0",
    "efficientnet_b0",
    "efficientnet_b4",
    "regnet_y_400mf",
    "vgg16_bn",
    "resnet101",
    "resnet152",
    "vgg11",
    "vgg19",
    "convnext_small",
    "vit_b_16",
]
_OPTIONS: dict[str, dict[str, Any]] = {
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"init_weights": False},
}


_operators: list[Any] = []


def import_torchvision():
    """torchvision.models. One made for another torch lacks its C++ operators; the import then asks for two names."""
    from torch.library import Library

    try:
        from torchvision import models
    except (RuntimeError, AttributeError):
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]  # what the failed import left
        library = Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            with contextlib.suppress(RuntimeError):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _operators.append(library)  # the names go when this object goes
        from torchvision import models

    return models


def side_of(network: str) -> int:
    """Height and width of its images."""
    return 299 if network == "inception_v3" else 224


def images_for(network: str, batch: int) -> Any:
    """Normally distributed, seeded by the batch."""
    import torch

    torch.manual_seed(batch)
    return torch.randn(batch, 3, side_of(network), side_of(network))


def calibrated(module: Any, x: Any) -> Any:
    """The module in eval mode, with normally distributed weights and, in its norms, the statistics of a pass of `x`."""
    import torch
    from torch import nn

    norms = [m for m in module.modules() if isinstance(m, (nn.BatchNorm2d, nn.BatchNorm3d))]
    for m in module.modules():
        if isinstance(m, (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.Linear)):
            nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # statistics of the calibrating pass alone
    if norms:
        with torch.no_grad():
            module.train()(x)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum  # without one, a training step cannot be captured in a CUDA graph
    return module.eval()


def build(network: str) -> Any:
    """The torchvision network in eval mode, seeded and calibrated."""
    import torch

    torch.manual_seed(1)
    module = getattr(import_torchvision(), network)(**_OPTIONS.get(network, {}))
    if network == "inception_v3":
        module.aux_logits, module.AuxLogits = False, None
    return calibrated(module, torch.randn(4, 3, side_of(network), side_of(network)))


def write_onnx(module: Any, x: Any, path: Path) -> None:
    import torch

    torch.backends.mha.set_fastpath_enabled(False)  # it has no ONNX form
    with torch.no_grad():
        torch.onnx.export(module, (x,), str(path), dynamo=False, opset_version=17)
