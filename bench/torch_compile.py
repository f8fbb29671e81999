"""torch.compile(backend="pylayout") against eager mode in channels last and inductor, in turns in one process.

    python -m bench.torch_compile resnet50 mobilenet_v2 --batch 1 16 --json out.json
    python -m bench.torch_compile resnet18 --train --batch 8

A turn runs an engine for --seconds, so that the pool of threads of one library is at rest while another one's works.
The time of an engine is the median of its runs in all turns but the first. --train: forward, backward and no optimiser.
bert and gpt2 are those of transformers in their base sizes, with --tokens tokens an example; all others torchvision's.
`first`: seconds until the first compiled result. inductor needs a C++ compiler; what fails is left out, and named.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

from pylayout.cli.terminal import Table, ms_text

from . import text_models
from .record import write
from .torchvision_models import build, images_for

ENGINES = ("pylayout", "eager", "channels_last", "inductor")


def _model_and_input(network: str, batch: int, tokens: int) -> tuple[Any, Any]:
    if network in text_models.NETWORKS:
        return text_models.build(network), text_models.tokens_for(network, batch, tokens)
    return build(network), images_for(network, batch)


def _run_of(engine: str, model: Any, images: Any, train: bool, threads: int) -> Callable[[], Any]:
    import torch

    import pylayout.torch  # noqa: F401, registers the backend

    model = copy.deepcopy(model).train(train)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 0.1  # the mean of all batches, by which it was calibrated, takes a number from a tensor
    if engine == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last) if images.ndim == 4 else images
    if engine == "pylayout":
        model = torch.compile(model, backend="pylayout", options={"threads": threads})
    elif engine == "inductor":
        model = torch.compile(model)

    def infer() -> Any:
        with torch.no_grad():
            return model(images)

    def step() -> Any:
        loss = model(images).square().mean()
        loss.backward()
        return loss.detach()

    return step if train else infer


def measure(network: str, batch: int, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    import pylayout.torch

    torch.set_num_threads(options.threads)
    model, images = _model_and_input(network, batch, options.tokens)
    engines: dict[str, Any] = {}
    runs: dict[str, Callable[[], Any]] = {}
    results = {}
    pylayout.torch.reset()
    torch._dynamo.reset()  # compiled code of other networks counts towards PyTorch's limit
    for name in options.engines:
        runs[name] = _run_of(name, model, images, options.train, options.threads)
        begin = time.perf_counter()
        try:
            results[name] = runs[name]()
        except Exception as error:  # a library that is missing something: the others are measured
            engines[name] = {"problem": str(error).split("\n", 1)[0][:200]}
            del runs[name]
            continue
        engines[name] = {"first": round(time.perf_counter() - begin, 2), "ms": []}
    for turn in range(options.rounds + 1):
        for name, run in runs.items():
            until = time.perf_counter() + options.seconds
            while time.perf_counter() < until:
                begin = time.perf_counter()
                run()
                if turn:
                    engines[name]["ms"].append(1e3 * (time.perf_counter() - begin))
    for name in runs:
        engines[name]["ms"] = round(statistics.median(engines[name]["ms"]), 3)
        if "eager" in results:
            error = (results[name] - results["eager"]).abs().max() / results["eager"].abs().max()
            engines[name]["error"] = float(f"{float(error):.1e}")
    peers = [engine["ms"] for name, engine in engines.items() if name != "pylayout" and "ms" in engine]
    report = pylayout.torch.report()
    return {
        "network": network,
        "batch": batch,
        "train": options.train,
        "engines": engines,
        "partitions": [graph.partitions for graph in report.graphs],
        "left": report.left,
        "ratio": round(min(peers) / engines["pylayout"]["ms"], 3) if peers and "pylayout" in runs else None,
    }


def main(arguments: list[str] | None = None) -> None:
    import pylayout

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["resnet18"])
    parser.add_argument("--batch", nargs="+", type=int, default=[1])
    parser.add_argument("--tokens", type=int, default=128, help="an example of bert and gpt2")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--threads", type=int, default=pylayout.get_threads())
    parser.add_argument("--rounds", type=int, default=5, help="turns that count, after one that does not")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    headings = ["network", "batch", *options.engines, "best peer / pylayout", "plans", "first s"]
    table = Table(headings, right=headings[1:])
    rows = []
    for network, batch in itertools.product(options.networks, options.batch):
        row = measure(network, batch, options)
        rows.append(row)
        times = [
            ms_text(row["engines"][name]["ms"]) if "ms" in row["engines"][name] else "-" for name in options.engines
        ]
        table.add(
            network,
            str(batch),
            *times,
            "-" if row["ratio"] is None else f"{row['ratio']:.2f}",
            "+".join(map(str, row["partitions"])),
            str(row["engines"].get("pylayout", {}).get("first", "-")),
        )
        for name, engine in row["engines"].items():
            if "problem" in engine:
                print(f"{network}: {name}: {engine['problem']}")
    print(table.render())
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    if ratios:
        print(f"geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")
    if options.json:
        write(options.json, "torch_compile", rows, threads=options.threads)


if __name__ == "__main__":
    main()
