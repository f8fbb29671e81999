"""Steps of training: pylayout's plans against PyTorch, on the processor or on a GPU.

    OMP_WAIT_POLICY=passive python -m bench.training resnet18 mobilenet_v2 --batch 8 --rounds 9 --json out.json
    python -m bench.training resnet50 vit_b_16 --device opencl:0 --batch 16 64 --math fp32 tf32 --optimizer adam

A step is forward, backward and the optimizer on the same images, targets and weights. The network is torchvision's, by
ONNX without its batch norms folded, so that both train with the statistics of the batch. Engines take turns in one
process, round by round; the table has each one's median, and what part of pylayout's step goes into reorders. First
losses are compared. The last line is the geometric mean of PyTorch's best time over pylayout's: above 1, pylayout is
faster.

On the processor the peers are eager PyTorch in NCHW and channels last, with --inductor also torch.compile of the
network. `--settle S` runs pylayout for so many seconds first, in which plans compete (docs/explanation/planning.md,
"Live runs").
On a busy machine `--clock processor --threads 1` times what the process's one thread needs, not what others leave it:

    OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1 python -m bench.training vgg16 vit_b_16 --threads 1 --clock processor

On a GPU, that CUDA and OpenCL both reach, they
are eager PyTorch in NCHW and channels last, the whole step in a CUDA graph, and torch.compile of the network; images
and targets lie on the device, and a time is until the device is done. Without CUDA, or with --no-peers, pylayout alone
is timed.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pylayout.cli.terminal import Table, ms_text

from . import torchvision_models
from .record import write

RATE, MOMENTUM, ADAM_RATE = 0.01, 0.9, 1e-4
ALLOWED = 1e-2  # between the first losses, as a part of them


def optimizer_of(torch: Any, module: Any, name: str, on_gpu: bool, capturable: bool = False) -> Any:
    if name == "sgd":
        return torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
    more = {"fused": True, "capturable": capturable} if on_gpu else {}
    return torch.optim.Adam(module.parameters(), lr=ADAM_RATE, **more)


def torch_step(torch: Any, module: Any, x: Any, t: Any, optimizer: Any, run: Any = None) -> Callable[[], Any]:
    """A function that takes a step and gives the loss; `run`: what to call in place of the module."""

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy((module if run is None else run)(x), t)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def on_processor(
    torch: Any, module: Any, images: Any, targets: Any, optimizer: str, inductor: bool
) -> dict[str, Callable[[], float]]:
    engines: dict[str, Callable[[], float]] = {}
    for name in ("torch", "torch:channels_last", "torch:inductor")[: 3 if inductor else 2]:
        own, x = copy.deepcopy(module), images
        if name == "torch:channels_last":
            own, x = own.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        run = torch.compile(own) if name == "torch:inductor" else None
        step = torch_step(torch, own, x, targets, optimizer_of(torch, own, optimizer, False), run)
        engines[name] = lambda step=step: float(step())
    return engines


def on_gpu(
    torch: Any, module: Any, images: Any, targets: Any, optimizer: str, math: str, with_compiled: bool
) -> dict[str, Callable[[], float]]:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = math != "fp32"
    torch.backends.cudnn.benchmark = True
    x, t = images.cuda(), targets.cuda()
    engines: dict[str, Callable[[], float]] = {}

    def waited(step: Callable[[], Any]) -> Callable[[], float]:
        return lambda: float(step())  # reading the loss waits for the step

    own = copy.deepcopy(module).cuda()
    engines["torch"] = waited(torch_step(torch, own, x, t, optimizer_of(torch, own, optimizer, True)))
    last = copy.deepcopy(module).cuda().to(memory_format=torch.channels_last)
    x_last = x.to(memory_format=torch.channels_last)
    engines["torch:channels_last"] = waited(
        torch_step(torch, last, x_last, t, optimizer_of(torch, last, optimizer, True))
    )
    if with_compiled:
        own = copy.deepcopy(module).cuda()
        compiled = torch.compile(own)
        engines["torch:compiled"] = waited(
            torch_step(torch, own, x, t, optimizer_of(torch, own, optimizer, True), compiled)
        )
    captured = copy.deepcopy(module).cuda()
    update = optimizer_of(torch, captured, optimizer, True, True)
    step = torch_step(torch, captured, x, t, update)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    update.zero_grad(set_to_none=True)  # memory of another stream may not be freed while a graph is captured
    with torch.cuda.graph(graph):
        loss = torch.nn.functional.cross_entropy(captured(x), t)
        loss.backward()
        update.step()

    def replay() -> float:
        graph.replay()
        return float(loss)

    engines["torch:graph"] = replay
    return engines


def trainable(torch: Any, module: Any, images: Any, optimizer: str) -> Any:
    """The network's step as a graph."""
    import pylayout as pl
    from pylayout import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        preserve = torch.onnx.TrainingMode.PRESERVE  # else batch norms are folded
        torch.onnx.export(
            module, (images,), str(path), dynamo=False, opset_version=17, training=preserve, do_constant_folding=False
        )
        graph = onnx.load(path).trainable()
    (scores,) = graph.outputs.values()
    loss = graph.cross_entropy(scores, graph.input("target", (images.shape[0],), dtype="s64"))
    graph.output(loss, "loss")
    if optimizer == "sgd":
        pl.training.sgd(graph, loss, lr=RATE, momentum=MOMENTUM)
    else:
        pl.training.adam(graph, loss, lr=ADAM_RATE)
    return graph


def measure(network: str, batch: int, math: str, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    import pylayout as pl

    torch.set_num_threads(options.threads)
    pl.configure(threads=options.threads)
    module = torchvision_models.build(network)
    for layer in module.modules():
        if isinstance(layer, torch.nn.Dropout):  # random numbers differ
            layer.p = 0.0
    images = torchvision_models.images_for(network, batch)
    targets = torch.arange(batch, dtype=torch.int64) % 1000
    graph = trainable(torch, module, images, options.optimizer)
    began = time.perf_counter()
    plan = pl.compile(graph, device=options.device, threads=options.threads, seconds=options.seconds, math=math)
    compiled = time.perf_counter() - began
    module.train()
    place = [item["name"] for item in plan.outputs].index("loss")
    given = [pl.asarray(each.numpy(), device=options.device) for each in (images, targets)]

    def ours() -> float:
        results = plan(*given)
        loss = results[place] if isinstance(results, (list, tuple)) else results
        return float(np.asarray(loss))

    engines: dict[str, Callable[[], float]] = {"pylayout": ours}
    if options.device == "cpu":
        if options.peers:
            engines.update(on_processor(torch, module, images, targets, options.optimizer, options.inductor))
    elif options.peers and torch.cuda.is_available():
        engines.update(on_gpu(torch, module, images, targets, options.optimizer, math, options.compiled))
    first = {name: step() for name, step in engines.items()}
    if "torch" in first and abs(first["pylayout"] - first["torch"]) > ALLOWED * abs(first["torch"]):
        raise SystemExit(f"{network}: the first loss is {first['pylayout']}, expected {first['torch']}")
    until = time.perf_counter() + options.settle
    while time.perf_counter() < until and not plan.settled():
        ours()
    clock = time.process_time if options.clock == "processor" else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(options.rounds):
        for name, step in engines.items():
            start = clock()
            step()
            times[name].append((clock() - start) * 1e3)
    medians = {name: statistics.median(values) for name, values in times.items()}
    summary = plan.summary()
    row = {
        "network": network,
        "batch": batch,
        "math": math,
        "optimizer": options.optimizer,
        "ms": medians,
        "reorders": summary["reorders"]["ms"] / max(summary["expected_ms"], 1e-9),
        "elsewhere": elsewhere(summary, options.device),
        "compile_s": compiled,
    }
    peers = [ms for name, ms in medians.items() if name != "pylayout"]
    if peers:
        row["ratio"] = min(peers) / medians["pylayout"]
    return row


def elsewhere(summary: dict[str, Any], device: str) -> list[str]:
    """The ops of a plan for an OpenCL device that have no kernel there, and so run on the processor."""
    if device == "cpu":
        return []
    return sorted({step["op"] for step in summary["steps"] if step["kind"] == "op" and step["provider"] != "opencl"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", default=["resnet18", "mobilenet_v2"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, nargs="+", default=[8])
    parser.add_argument("--math", nargs="+", default=["fp32"], choices=["fp32", "tf32"])
    parser.add_argument("--optimizer", default="sgd", choices=["sgd", "adam"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, help="measure for so long before the first step")
    parser.add_argument("--settle", type=float, default=0.0, help="seconds of runs before the first that counts")
    parser.add_argument("--clock", default="wall", choices=["wall", "processor"])
    parser.add_argument("--inductor", action="store_true", help="on the processor, a peer that compiles for minutes")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="pylayout alone")
    parser.add_argument("--no-compiled", dest="compiled", action="store_false", help="leave torch.compile out")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = []
    for network in options.networks:
        for batch in options.batch:
            for math in options.math:
                rows.append(measure(network, batch, math, options))
                print(json.dumps(rows[-1]), flush=True)
    names = list(dict.fromkeys(name for row in rows for name in row["ms"]))
    table = Table(["network", "batch", "math", *names, "ratio", "reorders"])
    for row in rows:
        table.add(
            row["network"],
            str(row["batch"]),
            row["math"],
            *(ms_text(row["ms"][name]) if name in row["ms"] else "-" for name in names),
            f"{row['ratio']:.2f}" if "ratio" in row else "-",
            f"{100 * row['reorders']:.0f} %",
        )
    print(table.render())
    for math in options.math:
        ratios = [row["ratio"] for row in rows if row["math"] == math and "ratio" in row]
        if ratios:
            print(f"{math}: geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f}")
    if options.json:
        write(options.json, "training", rows, threads=options.threads, device=options.device)


if __name__ == "__main__":
    main()
