"""Peak memory of a step of training on the processor: pylayout and eager PyTorch, each in a process of its own.

    python -m bench.training_memory resnet18 mobilenet_v2 vgg16 --batch 8 --json out.json

The network is torchvision's, by ONNX for pylayout, the step forward, backward and SGD with momentum. A process builds
the step, takes a few, has the kernel forget its peak of resident memory, and takes one more. `peak` is that step's,
`states` what stays between steps, both less what the process held before it made the network, libraries loaded. The
ratio is PyTorch's peak over pylayout's: above 1, pylayout needs less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pylayout.cli.terminal import Table

from . import torchvision_models
from .record import write

STEPS = 4  # before the one that counts


def status(key: str) -> int:
    """A field of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":"))


def measured(step: Callable[[], Any], before: int) -> dict[str, int]:
    for _ in range(STEPS):
        step()
    held = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    step()
    return {"peak": status("VmHWM") - before, "states": held - before}


def of_pylayout(options: argparse.Namespace) -> dict[str, Any]:
    import pylayout as pl
    from pylayout import onnx

    pl.configure(threads=options.threads)
    pl.memory("cpu")  # loads what the library loads at its first use, OpenCL runtimes among it
    before = status("VmRSS")
    graph = onnx.load(options.file).trainable()
    (scores,) = graph.outputs.values()
    (x,) = graph.inputs.values()
    loss = graph.cross_entropy(scores, graph.input("target", (options.batch[0],), dtype="s64"))
    graph.output(loss, "loss")
    pl.training.sgd(graph, loss, lr=0.01, momentum=0.9)
    images = np.random.default_rng(0).standard_normal(x.shape).astype("f4")
    plan = pl.compile(graph, device="cpu", threads=options.threads, tune=options.tune)
    del graph, scores, loss, x
    targets = np.arange(options.batch[0], dtype="i8")
    result: dict[str, Any] = measured(lambda: plan.run(images, targets), before)
    return result | {"arena": plan.summary()["memory"]["arena_bytes"]}


def of_torch(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    torch.set_num_threads(options.threads)
    torchvision_models.import_torchvision()
    images = torchvision_models.images_for(options.network, options.batch[0])
    targets = torch.arange(options.batch[0], dtype=torch.int64) % 1000
    before = status("VmRSS")
    module = torchvision_models.build(options.network).train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(module(images), targets).backward()
        optimizer.step()

    return measured(step, before)


def export(network: str, batch: int, path: Path) -> None:
    import torch

    module = torchvision_models.build(network)
    preserve = torch.onnx.TrainingMode.PRESERVE
    images = torchvision_models.images_for(network, batch)
    torch.onnx.export(
        module, (images,), str(path), dynamo=False, opset_version=17, training=preserve, do_constant_folding=False
    )


def child(engine: str, network: str, batch: int, options: argparse.Namespace, file: str = "") -> dict[str, Any]:
    words = [sys.executable, "-m", "bench.training_memory", network, "--batch", str(batch), "--engine", engine]
    words += ["--threads", str(options.threads), "--tune", options.tune, "--file", file]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return json.loads(text.splitlines()[-1]) if engine != "export" else {}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["resnet18", "mobilenet_v2"])
    parser.add_argument("--batch", type=int, nargs="+", default=[8])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tune", default="off", choices=["off", "auto"])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--engine", choices=["pylayout", "torch", "export"], help=argparse.SUPPRESS)  # one process
    parser.add_argument("--file", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.engine:
        options.network = options.networks[0]
        if options.engine == "export":
            export(options.network, options.batch[0], Path(options.file))
        else:
            print(json.dumps(of_pylayout(options) if options.engine == "pylayout" else of_torch(options)))
        return
    rows = []
    for network in options.networks:
        for batch in options.batch:
            with tempfile.TemporaryDirectory() as folder:
                file = str(Path(folder) / "model.onnx")
                child("export", network, batch, options, file)
                own = child("pylayout", network, batch, options, file)
            peer = child("torch", network, batch, options)
            rows.append({"network": network, "batch": batch, "pylayout": own, "torch": peer})
            rows[-1]["ratio"] = peer["peak"] / own["peak"]
            print(json.dumps(rows[-1]), flush=True)
    headings = ["network", "batch", "pylayout MB", "of it states", "arena", "PyTorch MB", "of it states", "ratio"]
    table = Table(headings, right=headings[1:])
    for row in rows:
        own, peer = row["pylayout"], row["torch"]
        numbers = [own["peak"], own["states"], own["arena"], peer["peak"], peer["states"]]
        table.add(row["network"], str(row["batch"]), *(f"{n / 1e6:.0f}" for n in numbers), f"{row['ratio']:.2f}")
    print(table.render())
    print(f"geometric mean {statistics.geometric_mean(row['ratio'] for row in rows):.2f}")
    if options.json:
        write(options.json, "training_memory", rows, threads=options.threads)


if __name__ == "__main__":
    main()
