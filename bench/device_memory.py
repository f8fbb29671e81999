"""Memory of an OpenCL device that a network needs, beside PyTorch's on CUDA; each engine in a process of its own.

What `python -m bench.memory NETWORK --device opencl:0` runs. Inference is in float32, a step of training is forward,
backward and SGD with momentum, as in bench/training.py.

pylayout's figures are those of the device's pool (`pl.memory`): `in_use` after some runs, with the results of the last
one held, which is what runs need, since a plan keeps the memory that it runs in; `reserved` with the blocks that the
pool keeps for later; `peak` the most that was in use since the process began, compiling included. PyTorch's are those
of its caching allocator over one further run: the most that was allocated, and the most that was reserved since the
process began.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pylayout.cli.terminal import Table

from . import torchvision_models

RUNS = 4  # before what counts
WORK = ("inference", "training")


def of_pylayout(options: argparse.Namespace) -> dict[str, int]:
    import torch

    import pylayout as pl

    from .training import trainable

    network, batch = options.models[0], options.batch[0]
    module, images = torchvision_models.build(network), torchvision_models.images_for(network, batch)
    arguments = {"device": options.device, "tune": options.tune, "memory_limit": options.memory_limit}
    targets: list[Any] = []
    if options.work[0] == "training":
        targets = [pl.asarray(np.arange(batch, dtype="i8") % 1000, device=options.device)]
        plan = pl.compile(trainable(torch, module, images, "sgd"), **arguments)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            torchvision_models.write_onnx(module, images, path)
            plan = pl.compile(str(path), **arguments)
    given = [pl.asarray(images.numpy(), device=options.device), *targets]
    for _ in range(RUNS):
        held = plan(*given)
    pl.synchronize(options.device)
    memory, needed = pl.memory(options.device), plan.summary()["memory"]
    del held
    return {
        "in_use": memory["in_use"],
        "reserved": memory["in_use"] + memory["cached"],
        "peak": memory["peak"],
        "plan": needed["bytes"],
        "weights": needed["constant_bytes"],
        "states": needed["state_bytes"],
    }


def of_torch(options: argparse.Namespace) -> dict[str, int] | None:
    """Nothing where there is no CUDA."""
    import torch

    if not torch.cuda.is_available():
        return None
    network, batch = options.models[0], options.batch[0]
    module, images = torchvision_models.build(network).cuda(), torchvision_models.images_for(network, batch).cuda()
    targets = torch.arange(batch, dtype=torch.int64).cuda() % 1000
    training = options.work[0] == "training"
    module.train(training)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9) if training else None

    def run() -> Any:
        if optimizer is None:
            with torch.inference_mode():
                return module(images)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(module(images), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(RUNS):
        held = run()
    torch.cuda.synchronize()
    reserved = torch.cuda.max_memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    held = run()
    torch.cuda.synchronize()
    del held
    return {"allocated": torch.cuda.max_memory_allocated(), "reserved": reserved}


def print_one(options: argparse.Namespace) -> None:
    """One engine's figures: this process."""
    print(json.dumps(of_pylayout(options) if options.engine == "pylayout" else of_torch(options)))


def child(engine: str, network: str, work: str, batch: int, options: argparse.Namespace) -> dict[str, int] | None:
    words = [sys.executable, "-m", "bench.memory", network, "--engine", engine, "--device", options.device]
    words += ["--work", work, "--batch", str(batch), "--tune", options.tune]
    if options.memory_limit:
        words += ["--memory-limit", str(options.memory_limit)]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found: dict[str, int] | None = json.loads(text.splitlines()[-1])
    return found


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each network, work and batch; each is printed when it is there, and all as a table."""
    rows: list[dict[str, Any]] = []
    for network in options.models:
        for work in options.work:
            for batch in options.batch:
                own, peer = (child(engine, network, work, batch, options) for engine in ("pylayout", "torch"))
                rows.append({"model": network, "work": work, "batch": batch, "pylayout": own, "torch": peer})
                if own and peer:
                    rows[-1]["ratio"] = round(own["in_use"] / peer["allocated"], 2)
                print(json.dumps(rows[-1]), flush=True)
    numbers = ["in use MB", "reserved", "peak", "weights", "states", "PyTorch allocated", "reserved", "ratio"]
    table = Table(["model", "work", "batch", *numbers], right=["batch", *numbers])
    for row in rows:
        peers = row["torch"] or {}
        cells = [row["pylayout"].get(key) for key in ("in_use", "reserved", "peak", "weights", "states")]
        cells += [peers.get(key) for key in ("allocated", "reserved")]
        texts = ["-" if cell is None else f"{cell / 1e6:.0f}" for cell in cells]
        table.add(row["model"], row["work"], str(row["batch"]), *texts, str(row.get("ratio", "-")))
    print(table.render())
    return rows
