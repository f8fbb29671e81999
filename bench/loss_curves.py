"""Losses over hundreds of steps of training: is a plan further from exact arithmetic than PyTorch is?

    OMP_WAIT_POLICY=passive python -m bench.loss_curves resnet18 mobilenet_v2 --batch 16 --size 64 --json out.json
    python -m bench.loss_curves resnet18 --device opencl:0 --math fp32 tf32 fp16

All engines take --steps steps from the same weights, on --batches batches of random images and labels in turns: a
network learns them by heart, so that rounding errors have time to grow. A reference does the same in double precision
(PyTorch, eager). PyTorch sums in several orders: NCHW, channels last, and on the processor with one thread. An engine's
`rms` is the root mean square, over all steps, of log(loss / loss of the reference); `last` the mean loss of the last
tenth of the steps. The ratio is PyTorch's largest rms by pylayout's: above 1, the plan's curve lies within PyTorch's
own spread. Rounding errors grow by chance, so that ratios near 1 say no more than that, nor do others where errors grow
fast: `near` is the number of steps before a loss first lies more than a hundredth off the reference's. Where it is
small (5 to 7 of 200 for resnet18 on 8 images of 64 by 64), the rest of each curve is a draw: compare that number.
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from pylayout.cli.terminal import Table

from . import torchvision_models
from .record import write
from .training import Precision, optimizer_of, torch_step, trainable, without_random_numbers

LEAST_LOSS = 1e-12  # of which a logarithm is taken
NEAR = 0.01  # a logarithm so small: still the same loss
CLASSES = 10

Step = Callable[[int], float]  # on the batch of this number


def of_torch(torch: Any, module: Any, batches: list[Any], mode: str, options: argparse.Namespace) -> Step:
    """A function that takes a step of a copy of the module, in float32 or mixed precision."""
    device = "cpu" if options.device == "cpu" else "cuda"
    precision, own = Precision(torch, mode, device), copy.deepcopy(module).to(device)
    optimizer = optimizer_of(torch, own, options.optimizer, device == "cuda")
    given = [(x.to(device), t.to(device)) for x, t in batches]
    steps = [torch_step(precision, own, x, t, optimizer) for x, t in given]
    return lambda number: float(steps[number]())


def of_channels_last(torch: Any, module: Any, batches: list[Any], mode: str, options: argparse.Namespace) -> Step:
    last = torch.channels_last
    turned = [(x.contiguous(memory_format=last), t) for x, t in batches]
    return of_torch(torch, copy.deepcopy(module).to(memory_format=last), turned, mode, options)


def by_one_thread(torch: Any, step: Step) -> Step:
    def run(number: int) -> float:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return step(number)
        finally:
            torch.set_num_threads(threads)

    return run


def of_plan(torch: Any, module: Any, batches: list[Any], mode: str, options: argparse.Namespace) -> Step:
    import pylayout as pl

    graph = trainable(torch, copy.deepcopy(module).eval(), batches[0][0], options.optimizer, mode)
    plan = pl.compile(graph, device=options.device, seconds=options.seconds, math=mode)
    place = [item["name"] for item in plan.outputs].index("loss")
    given = [[pl.asarray(each.numpy(), device=options.device) for each in pair] for pair in batches]

    def run(number: int) -> float:
        results = plan(*given[number])
        return float(np.asarray(results[place] if isinstance(results, (list, tuple)) else results))

    return run


def curve(step: Step, options: argparse.Namespace) -> list[float]:
    return [step(number % options.batches) for number in range(options.steps)]


def logarithms(losses: list[float], reference: list[float]) -> list[float]:
    return [math.log(max(a, LEAST_LOSS) / max(b, LEAST_LOSS)) for a, b in zip(losses, reference, strict=True)]


def distance(losses: list[float], reference: list[float]) -> float:
    return math.sqrt(statistics.fmean(each * each for each in logarithms(losses, reference)))


def steps_near(losses: list[float], reference: list[float]) -> int:
    logs = logarithms(losses, reference)
    return next((step for step, each in enumerate(logs) if not abs(each) <= NEAR), len(logs))


def measure(network: str, mode: str, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    on_gpu = options.device != "cpu"
    if on_gpu:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode != "fp32"
    module = without_random_numbers(torch, torchvision_models.build(network)).train()
    generator = torch.Generator().manual_seed(options.seed)
    side = options.size or torchvision_models.side_of(network)
    batches = [
        (
            torch.randn(options.batch, 3, side, side, generator=generator),
            torch.randint(CLASSES, (options.batch,), generator=generator),
        )
        for _ in range(options.batches)
    ]
    exact = [(x.double(), t) for x, t in batches]
    reference = curve(of_torch(torch, copy.deepcopy(module).double(), exact, "fp32", options), options)
    engines = {
        "pylayout": of_plan(torch, module, batches, mode, options),
        "torch": of_torch(torch, module, batches, mode, options),
        "torch:channels_last": of_channels_last(torch, module, batches, mode, options),
    }
    if not on_gpu:
        engines["torch:one_thread"] = by_one_thread(torch, of_torch(torch, module, batches, mode, options))
    losses = {name: curve(step, options) for name, step in engines.items()}
    rms = {name: distance(each, reference) for name, each in losses.items()}
    tenth = max(1, options.steps // 10)
    parts = {"exact": reference} | losses
    means = {
        name: [statistics.fmean(each[k : k + tenth]) for k in range(0, options.steps, tenth)]
        for name, each in parts.items()
    }
    return {
        "network": network,
        "batch": options.batch,
        "size": side,
        "math": mode,
        "optimizer": options.optimizer,
        "steps": options.steps,
        "rms": rms,
        "near": {name: steps_near(each, reference) for name, each in losses.items()},
        "last": {name: each[-1] for name, each in means.items()},
        "losses": means,
        "ratio": max(each for name, each in rms.items() if name != "pylayout") / max(rms["pylayout"], LEAST_LOSS),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.loss_curves", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*", default=["resnet18"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--math", nargs="+", choices=["fp32", "tf32", "fp16", "bf16"], default=["fp32"])
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batches", type=int, default=8, help="different batches, which take turns")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, help="of images, a side; the network's own where not given")
    parser.add_argument("--seconds", type=float, default=0.0, help="measure for so long before the first step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    rows = []
    table = Table(["network", "math", "engine", "last", "near", "rms", "ratio"])
    for network in options.networks:
        for mode in options.math:
            row = measure(network, mode, options)
            rows.append(row)
            table.add(network, mode, "exact", f"{row['last']['exact']:.4f}", "", "", "")
            for name, rms in row["rms"].items():
                share = f"{row['ratio']:.2f}" if name == "pylayout" else ""
                table.add(network, mode, name, f"{row['last'][name]:.4f}", row["near"][name], f"{rms:.2e}", share)
    print(table.render())
    if options.json:
        write(options.json, "loss_curves", rows, device=options.device)


if __name__ == "__main__":
    main()
