"""Detection networks for benchmarks and tests: torchvision's, and a small one of the YOLO kind, as ONNX files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from .torchvision_models import import_torchvision

CLASSES = 21

_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "ssdlite": ("ssdlite320_mobilenet_v3_large", {}),
    "ssd": ("ssd300_vgg16", {}),
    "retinanet": (
        "retinanet_resnet50_fpn",
        {"min_size": 320, "max_size": 480, "score_thresh": 0.001, "topk_candidates": 100},
    ),
    "fasterrcnn": ("fasterrcnn_mobilenet_v3_large_320_fpn", {"box_score_thresh": 0.01}),
    "maskrcnn": ("maskrcnn_resnet50_fpn", {"min_size": 256, "max_size": 320, "box_score_thresh": 0.01}),
}
DETECTORS = [*_OPTIONS, "yolo"]

_libraries: list[Any] = []  # what they define goes with them


def _stand_ins() -> None:
    """Where torchvision's C++ operators are missing: results for tracing, of the right kinds and shapes.

    What the exporter writes of the two is an ONNX op each.
    """
    import torch

    import_torchvision()
    import torchvision.extension
    import torchvision.ops.boxes
    import torchvision.ops.roi_align

    if torchvision.extension._has_ops() or _libraries:
        return

    def nothing() -> None:
        return None

    for name in ("torchvision.extension", "torchvision.ops.boxes", "torchvision.ops.roi_align"):
        module: Any = sys.modules[name]
        module._assert_has_ops = nothing
        module._has_ops = lambda: True  # else torchvision's own roi_align in Python, which is not traced

    def nms(boxes: Any, scores: Any, iou_threshold: float) -> Any:
        return scores.argsort(descending=True, stable=True)[:100]  # as many as a detector gives; of 20,000 boxes

    def roi_align(x: Any, boxes: Any, scale: float, height: int, width: int, ratio: int, aligned: bool) -> Any:
        return x.new_zeros((boxes.shape[0], x.shape[1], height, width))

    fragment = torch.library.Library("torchvision", "FRAGMENT")
    fragment.define(
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
        "int sampling_ratio, bool aligned) -> Tensor"
    )
    kernels = torch.library.Library("torchvision", "IMPL", "CPU")
    kernels.impl("nms", nms)
    kernels.impl("roi_align", roi_align)
    _libraries.extend((fragment, kernels))


def _yolo() -> Any:
    """Strided convolutions, heads at three scales, boxes around anchors, suppression by class."""
    import torch
    from torch import nn

    def block(inputs: int, outputs: int, stride: int) -> Any:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.SiLU())

    class Yolo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(block(3, 24, 2), block(24, 48, 2), block(48, 48, 1))
            self.stages = nn.ModuleList(
                nn.Sequential(block(48 * 2**i, 96 * 2**i, 2), block(96 * 2**i, 96 * 2**i, 1)) for i in range(3)
            )
            self.heads = nn.ModuleList(nn.Conv2d(96 * 2**i, 3 * (5 + CLASSES), 1) for i in range(3))

        def forward(self, x: Any) -> Any:
            import torchvision

            y = self.stem(x)
            rows = []
            for i, (stage, head) in enumerate(zip(self.stages, self.heads, strict=True)):
                y = stage(y)
                cells = head(y)
                h, w = cells.shape[2], cells.shape[3]
                cells = cells.view(1, 3, 5 + CLASSES, h, w).permute(0, 1, 3, 4, 2)
                at = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"), -1).to(cells.dtype)
                middle = (cells[..., :2].sigmoid() * 2 - 0.5 + at) * 8 * 2**i
                anchors = torch.tensor([[10.0, 13.0], [16.0, 30.0], [33.0, 23.0]]).view(1, 3, 1, 1, 2) * 2**i
                size = (cells[..., 2:4].sigmoid() * 2) ** 2 * anchors
                row = torch.cat([middle - size / 2, middle + size / 2, cells[..., 4:].sigmoid()], -1)
                rows.append(row.reshape(-1, 5 + CLASSES))
            found = torch.cat(rows)
            scores, labels = (found[:, 5:] * found[:, 4:5]).max(1)
            sure = torch.nonzero(scores > 0.26).squeeze(1)
            boxes, scores, labels = found[sure, :4], scores[sure], labels[sure]
            apart = labels.to(boxes.dtype)[:, None] * (boxes.max() + 1)
            kept = torchvision.ops.nms(boxes + apart, scores, 0.45)[:300]
            return boxes[kept], scores[kept], labels[kept]

    return Yolo()


def _spread(module: Any) -> None:
    """Makes scores differ: those of random weights are nearly equal, and rounding would say which box is the best."""
    import torch

    heads = ("cls_score", "cls_logits", "classification_head.module_list")
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            is_head = name.startswith("heads.") or any(head in name for head in heads)
            if is_head and name.endswith("weight") and parameter.dim() in (2, 4):
                parameter *= 20


def export(name: str, path: Path) -> None:
    """An ONNX file of the network, with random weights, for one image of any size."""
    import torch

    _stand_ins()
    from torchvision.models import detection

    torch.manual_seed(0)
    if name == "yolo":
        module = _yolo()
    else:
        function, options = _OPTIONS[name]
        module = getattr(detection, function)(weights=None, weights_backbone=None, num_classes=CLASSES, **options)
    _spread(module)
    torch.onnx.export(
        module.eval(),
        (torch.rand(1, 3, 240, 320),),
        str(path),
        dynamo=False,
        opset_version=17,
        input_names=["x"],
        dynamic_axes={"x": {2: "h", 3: "w"}},
    )
