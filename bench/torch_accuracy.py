"""Networks of torchvision in PyTorch, forward and backward, against the CPU in float64.

    python -m bench.torch_accuracy [NETWORK ...] [--device ocl:0] [--batch 2] [--image 224] [--json FILE]

Without names, the 18 networks that other PyTorch backends for OpenCL are validated with. --device cpu: torch.compile
with the backend pylayout; ocl:0, another index: eager mode. Modules are in training mode, so that norms take the
statistics of the batch; what draws (dropout, stochastic depth) draws nothing. An error is a norm of differences over
the norm of exact values: of the result, and of gradients as the root mean square over the images and all parameters.
"times" is the device's error over that of PyTorch's CPU in float32. The exit code is 1 if one is over --limit (5).
"""

from __future__ import annotations

import argparse
import copy
import sys
from pathlib import Path
from typing import Any

import pylayout as pl

from .record import write
from .torchvision_models import build

SEEDS = [
    "alexnet", "resnet18", "resnet50", "vgg16", "densenet161", "googlenet", "squeezenet1_0", "shufflenet_v2_x1_0",
    "mobilenet_v2", "mobilenet_v3_large", "resnext50_32x4d", "wide_resnet50_2", "mnasnet1_0", "efficientnet_b0",
    "efficientnet_b4", "regnet_y_400mf", "vit_b_16", "convnext_small",
]  # fmt: skip
# A gradient that is zero in exact arithmetic, as that of a bias before a norm, is rounding alone: it counts beside the
# others, not by itself.
_FLOOR = 1e-3


def trainable(network: str) -> Any:
    """The network in training mode, which draws nothing."""
    import torch

    module = build(network).train()
    for each in module.modules():
        kind = type(each).__name__
        if isinstance(each, torch.nn.modules.dropout._DropoutNd) or kind == "StochasticDepth":
            each.p = 0.0
    for parameter in module.parameters():  # ViT's last layer begins with zeros, which give no gradients
        if parameter.dim() > 1 and not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    return module


def both_ways(run: Any, module: Any, images: Any) -> tuple[Any, list[Any]]:
    """The result and the gradients of the images and of each parameter, on the CPU in float64."""
    import torch

    images = images.clone().requires_grad_()
    result = run(images)
    weights = torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float64).view(result.shape)
    (result * weights.to(result.dtype).to(result.device)).sum().backward()
    leaves = [images, *module.parameters()]
    return result.detach().cpu().double(), [leaf.grad.cpu().double() for leaf in leaves]


def errors(found: tuple[Any, list[Any]], exact: tuple[Any, list[Any]]) -> tuple[float, float]:
    """Of the result, and of the gradients."""
    norms = [each.norm().item() for each in exact[1]]
    floor = _FLOOR * max(norms)
    squares = [
        ((mine - right).norm().item() / max(norm, floor)) ** 2
        for mine, right, norm in zip(found[1], exact[1], norms, strict=True)
    ]
    forward = ((found[0] - exact[0]).norm() / exact[0].norm()).item()
    return forward, (sum(squares) / len(squares)) ** 0.5


def validate(network: str, device: str, batch: int, image: int) -> dict[str, Any]:
    """Errors of the device and of PyTorch's CPU in float32."""
    import torch

    import pylayout.torch  # noqa: F401, registers the backend

    side = 224 if network == "vit_b_16" else image  # whose positions are learned
    host = trainable(network)
    torch.manual_seed(batch)
    images = torch.randn(batch, 3, side, side)
    exact, here = copy.deepcopy(host).double(), copy.deepcopy(host)
    if device == "cpu":
        there, given = host, images
        torch._dynamo.reset()
        run = torch.compile(there, backend="pylayout")
    else:
        there, given = host.to(device), images.to(device)
        run = there
    right = both_ways(exact, exact, images.double())
    forward, backward = errors(both_ways(run, there, given), right)
    forward_cpu, backward_cpu = errors(both_ways(here, here, images), right)
    return {
        "network": network, "device": device, "batch": batch, "image": side, "forward": forward, "backward": backward,
        "forward_pytorch": forward_cpu, "backward_pytorch": backward_cpu, "forward_times": forward / forward_cpu,
        "backward_times": backward / backward_cpu,
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of torchvision (default: {', '.join(SEEDS)})")
    parser.add_argument("--device", default="ocl:0", help="ocl:0, another index, or cpu")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--image", type=int, default=224, help="height and width; vit_b_16 takes 224 alone")
    parser.add_argument("--limit", type=float, default=5.0, help="times PyTorch's error")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    import torch

    if options.device != "cpu":
        import pylayout.ocl

        pylayout.ocl.load()
        torch.ocl.set_fallback("error")
    pl.set_tuning("off")
    rows = []
    for network in options.networks or SEEDS:
        row = validate(network, options.device, options.batch, options.image)
        rows.append(row)
        print(
            f"{network:20} forward {row['forward']:.1e} ({row['forward_times']:.2f} times PyTorch's), "
            f"backward {row['backward']:.1e} ({row['backward_times']:.2f} times)",
            flush=True,
        )
    wrong = [r["network"] for r in rows if not max(r["forward_times"], r["backward_times"]) <= options.limit]
    print(f"{len(rows) - len(wrong)} of {len(rows)} within {options.limit:g} times PyTorch's error", *wrong)
    if options.json:
        write(options.json, "torch_accuracy", rows, device=options.device.replace("ocl:", "opencl:"))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
