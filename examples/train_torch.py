"""Trains a small convolutional network in PyTorch, on cpu, cuda or ocl: the device is a word on the command line.

    python examples/train_torch.py --device ocl

It learns to tell which quarter of an image is the brightest, from images that it draws itself.
"""

import argparse
import time

import torch
from torch import nn


def batch(size: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise of 3 x 16 x 16 with one bright quarter, and which one it is."""
    images = torch.randn(size, 3, 16, 16, generator=generator)
    labels = torch.randint(0, 4, (size,), generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = divmod(label, 2)
        image[:, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] += 0.5
    return images, labels


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(128, 4),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ocl, ocl:1, ...")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--compile", action="store_true", help='torch.compile(backend="pylayout")')
    given = parser.parse_args()
    if given.device.startswith("ocl") and not hasattr(torch, "ocl"):  # not installed, or PyTorch drives a GPU itself
        import pylayout.ocl

        pylayout.ocl.load()
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = network().to(given.device)
    step_of = torch.compile(model, backend="pylayout") if given.compile else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    began = time.perf_counter()
    for step in range(given.steps):
        images, labels = (each.to(given.device) for each in batch(given.batch, generator))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(step_of(images), labels)
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == given.steps - 1:
            print(f"step {step:3}: loss {loss.item():.4f}", flush=True)
    model.eval()
    images, labels = batch(256, generator)
    with torch.no_grad():
        right = (model(images.to(given.device)).argmax(1).cpu() == labels).float().mean().item()
    print(f"{100 * right:.0f}% of new images right; {time.perf_counter() - began:.1f} s")
    if given.device.startswith("ocl"):
        for each in torch.ocl.fallbacks():
            print(f"on the CPU: {each.op}, {each.count} times ({each.reason})")


if __name__ == "__main__":
    main()
