"""Seconds until the first result of an eager network on PyTorch's device `ocl`, in processes of their own whose caches
are empty, and its steps from then on.

    python -m bench.ocl_first resnet50 bert --work inference training [--tune auto off] [--batch 16] [--seconds 12]

Empty are pylayout's cache and the driver's own; the shim is built, and the network lies on the device, before. A result
is on the host. `first` and `second` are the first two passes (training: steps with AdamW), `early` and `late` medians
in ms of the first 20 and the last 30 after them, `longest` the longest of all. Networks are torchvision's, on images,
and `bert`, which classifies texts of 128 tokens.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from pylayout.cli.terminal import Table, ms_text

from .fresh import run_fresh
from .record import write


def network_on(device: str, name: str, batch: int) -> tuple[Any, Callable[[], Any]]:
    """The network and what gives its scores."""
    import torch

    torch.manual_seed(0)
    if name == "bert":
        import transformers

        module: Any = transformers.BertForSequenceClassification(transformers.BertConfig()).to(device)
        texts = torch.randint(0, 30000, (batch, 128)).to(device)
        return module, lambda: module(texts).logits
    from . import torchvision_models

    module = torchvision_models.build(name).to(device)
    images = torchvision_models.images_for(name, batch).to(device)
    return module, lambda: module(images)


def run_here(options: argparse.Namespace) -> dict[str, float]:
    """In a process of its own."""
    import torch

    import pylayout as pl
    import pylayout.ocl

    pylayout.ocl.load()
    pl.configure(tune=options.tune[0])
    training = options.work[0] == "training"
    module, scores = network_on(options.device, options.networks[0], options.batch)
    module.train(training)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    targets = torch.zeros(options.batch, dtype=torch.int64).to(options.device)

    def step() -> float:
        began = time.perf_counter()
        if training:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(scores(), targets)
            loss.backward()
            optimizer.step()
            loss.detach().cpu()
        else:
            with torch.no_grad():
                scores().cpu()
        return time.perf_counter() - began

    row = {"first_s": step(), "second_s": step()}
    times, end = [], time.perf_counter() + options.seconds
    while not times or time.perf_counter() < end:
        times.append(1e3 * step())
    row |= {"early_ms": statistics.median(times[:20]), "late_ms": statistics.median(times[-30:])}
    return row | {"longest_ms": max(times)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("networks", nargs="+", metavar="NETWORK")
    parser.add_argument("--work", nargs="+", choices=["inference", "training"], default=["inference", "training"])
    parser.add_argument("--tune", nargs="+", choices=["auto", "off", "full"], default=["auto"])
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=12, help="of steps after the first two")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here:
        print(json.dumps(run_here(options)))
        return
    rows = []
    table = Table(["network", "work", "tune", "first s", "second s", "early", "late", "longest"])
    for network in options.networks:
        for work in options.work:
            for tune in options.tune:
                here = [network, "--here", "--work", work, "--tune", tune, "--device", options.device]
                here += ["--batch", str(options.batch), "--seconds", str(options.seconds)]
                row: dict[str, Any] = {"network": network, "work": work, "tune": tune}
                row |= json.loads(run_fresh("ocl_first", here))
                rows.append(row)
                seconds = [f"{row[key]:.2f}" for key in ("first_s", "second_s")]
                table.add(network, work, tune, *seconds, *(ms_text(row[f"{key}_ms"]) for key in table.headings[5:]))
    print(table.render())
    if options.json:
        write(options.json, "ocl_first", rows, batch=options.batch)


if __name__ == "__main__":
    main()
