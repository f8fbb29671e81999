"""Trains torchvision's ResNet-18 as torchvision's reference script does, on cpu, cuda or ocl: the device is a word.

    pip install torchvision
    python examples/train_resnet18.py --device ocl [--amp] [--channels-last] [--workers 2] [--compile]

A DataLoader with workers, SGD with momentum and weight decay, label smoothing, a warm-up and a cosine schedule, clipped
gradients, and mixed precision with a scaler. Its images are drawn: stripes of a direction, a distance and a colour.
"""

import argparse
import time

import torch
from torch import nn


class Stripes(torch.utils.data.Dataset):
    """Noise with stripes; the class says how they run."""

    def __init__(self, count: int, size: int, classes: int) -> None:
        self.count, self.size, self.classes = count, size, classes

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        label = index % self.classes
        angle = torch.tensor(torch.pi * label / self.classes)
        rows, columns = torch.meshgrid(torch.arange(self.size), torch.arange(self.size), indexing="ij")
        waves = torch.sin((rows * torch.sin(angle) + columns * torch.cos(angle)) * (0.4 + 0.1 * (label % 3)))
        return torch.randn(3, self.size, self.size, generator=generator) * 0.5 + waves, label


def losses(
    device: str, steps: int = 50, batch: int = 16, size: int = 64, amp: bool = False, channels_last: bool = False,
    workers: int = 2, compiled: bool = False, rate: float = 0.05,
) -> list[float]:  # fmt: skip
    """Of each step."""
    from torchvision.models import resnet18

    torch.manual_seed(0)
    kind, classes = torch.device(device).type, 8
    model = resnet18(num_classes=classes).to(device)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    run = torch.compile(model, backend="pylayout") if compiled else model
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    decayed = [each for each in model.parameters() if each.dim() > 1]
    others = [each for each in model.parameters() if each.dim() <= 1]  # norms and biases
    optimizer = torch.optim.SGD(
        [{"params": decayed, "weight_decay": 1e-4}, {"params": others, "weight_decay": 0}], lr=rate, momentum=0.9
    )
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=5)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(1, steps - 5))
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cosine], milestones=[5])
    dtype = torch.bfloat16 if kind == "cpu" else torch.float16
    scaler = torch.amp.GradScaler(kind, enabled=amp and dtype == torch.float16)
    loader = torch.utils.data.DataLoader(Stripes(steps * batch, size, classes), batch, num_workers=workers)
    model.train()
    made = []
    for images, labels in loader:
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        if channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad()
        with torch.autocast(kind, dtype=dtype, enabled=amp):
            loss = criterion(run(images), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        made.append(loss.detach())
    return [loss.item() for loss in made]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ocl, ocl:1, ...")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=64, help="of the images")
    parser.add_argument("--workers", type=int, default=2, help="processes that draw images")
    parser.add_argument("--amp", action="store_true", help="mixed precision")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true", help='torch.compile(backend="pylayout")')
    given = parser.parse_args()
    if given.device.startswith("ocl") and not hasattr(torch, "ocl"):  # not installed, or PyTorch drives a GPU itself
        import pylayout.ocl

        pylayout.ocl.load()
    began = time.perf_counter()
    made = losses(
        given.device, given.steps, given.batch, given.size, given.amp, given.channels_last, given.workers, given.compile
    )
    for step in range(9, len(made), 10):
        print(f"steps {step - 8:3} to {step + 1:3}: loss {sum(made[step - 9 : step + 1]) / 10:.4f}")
    print(f"{time.perf_counter() - began:.1f} s")
    if given.device.startswith("ocl"):
        for each in torch.ocl.fallbacks():
            print(f"on the CPU: {each.op}, {each.count} times ({each.reason})")


if __name__ == "__main__":
    main()
