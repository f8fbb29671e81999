"""torch.compile(backend="pylayout") against eager mode in channels last and inductor, in turns in one process.

    python -m bench.torch_compile resnet50 mobilenet_v2 --batch 1 16 --json out.json
    python -m bench.torch_compile resnet18 --train --batch 8
    python -m bench.torch_compile gpt2 bert llama --train --loss entropy --layers 2 --batch 8 --clock processor

A turn runs an engine for --seconds, so that the pool of threads of one library is at rest while another one's works.
The time of an engine is the median of its runs in all turns but the first. --clock processor: the time that all threads
of the process spent, for machines on which others work. --train: forward, backward and no optimiser, of the mean square
of the result; --loss entropy: of the cross entropy, text networks with their heads and the loss of transformers.
bert, gpt2 and llama are of transformers, the first two in their base sizes, with --tokens tokens an example; all others
torchvision's. `faults`: pages that the system gave the process in a run (median).
`first`: seconds until the first compiled result. inductor needs a C++ compiler; what fails is left out, and named.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import math
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

from pylayout.cli.terminal import Table, ms_text

from . import text_models
from .record import write
from .torchvision_models import build, images_for

ENGINES = ("pylayout", "eager", "channels_last", "inductor")


def _model_and_input(network: str, batch: int, options: argparse.Namespace) -> tuple[Any, Any]:
    if network in text_models.NETWORKS:
        language = options.train and options.loss == "entropy"
        model = text_models.build(network, options.layers, language)
        return model, text_models.tokens_for(network, batch, options.tokens)
    return build(network), images_for(network, batch)


def _loss_of(result: Any, name: str) -> Any:
    import torch

    if result.ndim == 0:  # the network's own
        return result
    if name == "entropy":
        return torch.nn.functional.cross_entropy(result, torch.arange(len(result)))
    return result.square().mean()


def _run_of(engine: str, model: Any, images: Any, train: bool, threads: int, loss_name: str) -> Callable[[], Any]:
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
        loss = _loss_of(model(images), loss_name)
        loss.backward()
        return loss.detach()

    return step if train else infer


def measure(network: str, batch: int, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    import pylayout.torch

    torch.set_num_threads(options.threads)
    clock = time.process_time if options.clock == "processor" else time.perf_counter
    model, images = _model_and_input(network, batch, options)
    engines: dict[str, Any] = {}
    runs: dict[str, Callable[[], Any]] = {}
    results = {}
    pylayout.torch.reset()
    torch._dynamo.reset()  # compiled code of other networks counts towards PyTorch's limit
    for name in options.engines:
        runs[name] = _run_of(name, model, images, options.train, options.threads, options.loss)
        begin = time.perf_counter()
        try:
            results[name] = runs[name]()
        except Exception as error:  # a library that is missing something: the others are measured
            engines[name] = {"problem": str(error).split("\n", 1)[0][:200]}
            del runs[name]
            continue
        engines[name] = {"first": round(time.perf_counter() - begin, 2), "ms": [], "faults": []}
    for turn in range(options.rounds + 1):
        for name, run in runs.items():
            until = time.perf_counter() + options.seconds
            while time.perf_counter() < until:
                begin, faults = clock(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                run()
                if turn:
                    engines[name]["ms"].append(1e3 * (clock() - begin))
                    engines[name]["faults"].append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)
    for name in runs:
        engines[name]["ms"] = round(statistics.median(engines[name]["ms"]), 3)
        engines[name]["faults"] = int(statistics.median(engines[name]["faults"]))
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
    parser.add_argument("--tokens", type=int, default=128, help="an example of a text network")
    parser.add_argument("--layers", type=int, help="of text networks, in the place of their own number")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--loss", default="square", choices=["square", "entropy"], help="with --train")
    parser.add_argument("--clock", default="wall", choices=["wall", "processor"])
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--threads", type=int, default=pylayout.get_threads())
    parser.add_argument("--rounds", type=int, default=5, help="turns that count, after one that does not")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    headings = ["network", "batch", *options.engines, "best peer / pylayout", "plans", "faults", "first s"]
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
            str(row["engines"].get("pylayout", {}).get("faults", "-")),
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
        how = {name: getattr(options, name) for name in ("threads", "clock", "loss", "layers")}
        write(options.json, "torch_compile", rows, **how)


if __name__ == "__main__":
    main()
