"""Steps of training on the processor: pylayout's plans against PyTorch's eager mode, in NCHW and channels last.

    OMP_WAIT_POLICY=passive python -m bench.training resnet18 mobilenet_v2 --batch 8 --rounds 9 --json out.json

A step is forward, backward and SGD with momentum on the same images, targets and weights. The network is torchvision's,
by ONNX without its batch norms folded, so that both train with the statistics of the batch. Engines take turns in one
process, round by round; the table has each one's median, and what part of pylayout's step goes into reorders. First
losses are compared. The last line is the geometric mean of PyTorch's better time over pylayout's: above 1, pylayout is
faster.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from pylayout.cli.terminal import Table, ms_text

from . import torchvision_models
from .record import write

RATE, MOMENTUM = 0.01, 0.9
ALLOWED = 1e-2  # between the first losses, as a part of them


def torch_step(module: Any, images: np.ndarray, targets: np.ndarray, channels_last: bool) -> Any:
    """A function that takes a step and gives the loss."""
    import torch

    x, t = torch.from_numpy(images), torch.from_numpy(targets)
    if channels_last:
        module, x = module.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(module(x), t)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def measure(network: str, batch: int, threads: int, rounds: int, seconds: float | None) -> dict[str, Any]:
    import copy

    import torch

    import pylayout as pl

    torch.set_num_threads(threads)
    pl.configure(threads=threads)
    module = torchvision_models.build(network)
    for layer in module.modules():
        if isinstance(layer, torch.nn.Dropout):  # random numbers differ
            layer.p = 0.0
    images = torchvision_models.images_for(network, batch)
    targets = np.arange(batch, dtype=np.int64) % 1000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        preserve = torch.onnx.TrainingMode.PRESERVE  # else batch norms are folded
        torch.onnx.export(
            module, (images,), str(path), dynamo=False, opset_version=17, training=preserve, do_constant_folding=False
        )
        from pylayout import onnx

        graph = onnx.load(path).trainable()
    (scores,) = graph.outputs.values()
    loss = graph.cross_entropy(scores, graph.input("target", (batch,), dtype="s64"))
    graph.output(loss, "loss")
    pl.training.sgd(graph, loss, lr=RATE, momentum=MOMENTUM)
    began = time.perf_counter()
    plan = pl.compile(graph, device="cpu", threads=threads, seconds=seconds)
    compiled = time.perf_counter() - began
    module.train()
    pixels = images.numpy()
    place = [item["name"] for item in plan.outputs].index("loss")
    engines = {
        "pylayout": lambda: float(plan.run(pixels, targets)[place]),
        "torch": torch_step(copy.deepcopy(module), pixels, targets, False),
        "torch:channels_last": torch_step(copy.deepcopy(module), pixels, targets, True),
    }
    first = {name: step() for name, step in engines.items()}
    if abs(first["pylayout"] - first["torch"]) > ALLOWED * abs(first["torch"]):
        raise SystemExit(f"{network}: the first loss is {first['pylayout']}, expected {first['torch']}")
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, step in engines.items():
            start = time.perf_counter()
            step()
            times[name].append((time.perf_counter() - start) * 1e3)
    medians = {name: statistics.median(values) for name, values in times.items()}
    summary = plan.summary()
    return {
        "network": network,
        "batch": batch,
        "ms": medians,
        "ratio": min(medians["torch"], medians["torch:channels_last"]) / medians["pylayout"],
        "reorders": summary["reorders"]["ms"] / max(summary["expected_ms"], 1e-9),
        "compile_s": compiled,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", default=["resnet18", "mobilenet_v2"])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, help="measure for so long before the first step")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = []
    table = Table(["network", "pylayout", "torch", "channels last", "ratio", "reorders"])
    for network in options.networks:
        row = measure(network, options.batch, options.threads, options.rounds, options.seconds)
        rows.append(row)
        table.add(
            network,
            *(ms_text(row["ms"][name]) for name in ("pylayout", "torch", "torch:channels_last")),
            f"{row['ratio']:.2f}",
            f"{100 * row['reorders']:.0f} %",
        )
    print(table.render())
    print(f"geometric mean of {len(rows)}: {statistics.geometric_mean(row['ratio'] for row in rows):.2f}")
    if options.json:
        write(options.json, "training", rows, threads=options.threads)


if __name__ == "__main__":
    main()
