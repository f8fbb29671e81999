"""Steps of training: pylayout's plans against PyTorch, on the processor or on a GPU.

    OMP_WAIT_POLICY=passive python -m bench.training resnet18 mobilenet_v2 --batch 8 --rounds 9 --json out.json
    python -m bench.training resnet50 vit_b_16 --device opencl:0 --batch 16 64 --math fp32 tf32 --optimizer adam

A step is forward, backward and the optimizer on the same images, targets and weights. The network is torchvision's, by
ONNX without its batch norms folded, so that both train with the statistics of the batch. Engines take turns in one
process, round by round; the table has each one's median, and what part of pylayout's step goes into reorders. First
losses are compared. The last line is the geometric mean of PyTorch's best time over pylayout's: above 1, pylayout is
faster.

`--math fp16` and `bf16` are mixed precision, fp16 with a dynamic scale of the loss: PyTorch by autocast and GradScaler.

On the processor the peers are eager PyTorch in NCHW and channels last, with --inductor also torch.compile of the
network. `--settle S` runs pylayout for so many seconds first, in which plans compete (docs/explanation/planning.md,
"Live runs").
On a busy machine `--clock processor --threads 1` times what the process's one thread needs, not what others leave it:

    OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1 python -m bench.training vgg16 vit_b_16 --threads 1 --clock processor

On a GPU, that CUDA and OpenCL both reach, they are eager PyTorch in NCHW and channels last, the whole step in a CUDA
graph, and torch.compile of the network, the last two in half precision channels last; images and targets lie on the
device, and a time is until the device is done. A turn there is of twelve steps, the first four of which do not count:
in them CUDA's context and OpenCL's change places. Without CUDA, or with --no-peers, pylayout alone is timed.
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

import pylayout as pl
from pylayout.cli.terminal import Table, ms_text

from . import dlprimitives, torchvision_models
from .record import write

RATE, MOMENTUM, ADAM_RATE = 0.01, 0.9, 1e-4
ALLOWED = 1e-2  # between the first losses, as a part of them
ALLOWED_BF16 = 3e-2


def optimizer_of(torch: Any, module: Any, name: str, on_gpu: bool, capturable: bool = False) -> Any:
    if name == "sgd":
        return torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM, fused=on_gpu)
    more = {"fused": True, "capturable": capturable} if on_gpu else {}
    return torch.optim.Adam(module.parameters(), lr=ADAM_RATE, **more)


class Precision:
    """What PyTorch does for a math mode: autocast, and for fp16 a scaler of the loss."""

    def __init__(self, torch: Any, math: str, device: str) -> None:
        self._torch, self.math, self._device = torch, math, device
        self._scaler = torch.amp.GradScaler(device) if math == "fp16" else None

    def loss(self, run: Any, x: Any, t: Any) -> Any:
        halves = {"fp16": self._torch.float16, "bf16": self._torch.bfloat16}
        with self._torch.autocast(self._device, halves.get(self.math), enabled=self.math in halves):
            return self._torch.nn.functional.cross_entropy(run(x), t)

    def update(self, loss: Any, optimizer: Any) -> None:
        if self._scaler is None:
            loss.backward()
            optimizer.step()
        else:
            self._scaler.scale(loss).backward()
            self._scaler.step(optimizer)
            self._scaler.update()


def torch_step(precision: Precision, module: Any, x: Any, t: Any, optimizer: Any, run: Any = None) -> Callable[[], Any]:
    """A function that takes a step and gives the loss; `run`: what to call in place of the module."""

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = precision.loss(module if run is None else run, x, t)
        precision.update(loss, optimizer)
        return loss.detach()

    return step


def on_processor(
    torch: Any, module: Any, images: Any, targets: Any, optimizer: str, math: str, inductor: bool
) -> dict[str, Callable[[], float]]:
    engines: dict[str, Callable[[], float]] = {}
    for name in ("torch", "torch:channels_last", "torch:inductor")[: 3 if inductor else 2]:
        own, x = copy.deepcopy(module), images
        if name == "torch:channels_last":
            own, x = own.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        run = torch.compile(own) if name == "torch:inductor" else None
        precision = Precision(torch, math, "cpu")
        step = torch_step(precision, own, x, targets, optimizer_of(torch, own, optimizer, False), run)
        engines[name] = lambda step=step: float(step())
    return engines


def as_advised(torch: Any, math: str, module: Any, x: Any) -> tuple[Any, Any]:
    """A copy on the GPU and its images, in half precision channels last, which PyTorch advises for tensor cores."""
    own = copy.deepcopy(module).cuda()
    if math in ("fp16", "bf16"):
        own, x = own.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    return own, x


def on_gpu(
    torch: Any, module: Any, images: Any, targets: Any, optimizer: str, math: str, with_compiled: bool
) -> dict[str, Callable[[], float]]:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = math != "fp32"
    torch.backends.cudnn.benchmark = True
    x, t = images.cuda(), targets.cuda()
    engines: dict[str, Callable[[], float]] = {}

    def precision() -> Precision:
        return Precision(torch, math, "cuda")

    def waited(step: Callable[[], Any]) -> Callable[[], float]:
        return lambda: float(step())  # reading the loss waits for the step

    own = copy.deepcopy(module).cuda()
    engines["torch"] = waited(torch_step(precision(), own, x, t, optimizer_of(torch, own, optimizer, True)))
    last = copy.deepcopy(module).cuda().to(memory_format=torch.channels_last)
    x_last = x.to(memory_format=torch.channels_last)
    engines["torch:channels_last"] = waited(
        torch_step(precision(), last, x_last, t, optimizer_of(torch, last, optimizer, True))
    )
    if with_compiled:
        own, x_own = as_advised(torch, math, module, x)
        update = optimizer_of(torch, own, optimizer, True)
        engines["torch:compiled"] = waited(torch_step(precision(), own, x_own, t, update, torch.compile(own)))
    captured, x = as_advised(torch, math, module, x)
    update = optimizer_of(torch, captured, optimizer, True, True)
    captured_precision = precision()
    step = torch_step(captured_precision, captured, x, t, update)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    update.zero_grad(set_to_none=True)  # memory of another stream may not be freed while a graph is captured
    with torch.cuda.graph(graph):
        loss = captured_precision.loss(captured, x, t)
        captured_precision.update(loss, update)

    def replay(_kept: Any = (captured, update, captured_precision)) -> float:  # the graph uses their memory
        graph.replay()
        return float(loss)

    engines["torch:graph"] = replay
    return engines


def without_random_numbers(torch: Any, module: Any) -> Any:
    """The network without dropout, whose numbers differ from engine to engine."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.Dropout) or type(layer).__name__ == "StochasticDepth":
            layer.p = 0.0
    return module


def with_loss(torch: Any, module: Any, images: Any) -> tuple[Any, Any]:
    """The network with its loss as a graph that can be trained, and the loss, its output of that name."""
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
    return graph, loss


def trainable(torch: Any, module: Any, images: Any, optimizer: str, math: str = "fp32") -> Any:
    """The network's step as a graph."""
    graph, loss = with_loss(torch, module, images)
    scale = pl.training.LossScale() if math == "fp16" else None
    if optimizer == "sgd":
        pl.training.sgd(graph, loss, lr=RATE, momentum=MOMENTUM, loss_scale=scale)
    else:
        pl.training.adam(graph, loss, lr=ADAM_RATE, loss_scale=scale)
    return graph


def step_of_plan(plan: pl.Plan, images: Any, targets: Any, device: str) -> Callable[[], float]:
    """A step of a plan of training, which gives the loss."""
    place = [item["name"] for item in plan.outputs].index("loss")
    given = [pl.asarray(each.numpy(), device=device) for each in (images, targets)]

    def step() -> float:
        results = plan(*given)
        loss = results[place] if isinstance(results, (list, tuple)) else results
        return float(np.asarray(loss))

    return step


def measure(network: str, batch: int, math: str, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    torch.set_num_threads(options.threads)
    pl.configure(threads=options.threads)
    module = without_random_numbers(torch, torchvision_models.build(network))
    images = torchvision_models.images_for(network, batch)
    targets = torch.arange(batch, dtype=torch.int64) % 1000
    graph = trainable(torch, module, images, options.optimizer, math)
    began = time.perf_counter()
    plan = pl.compile(graph, device=options.device, threads=options.threads, seconds=options.seconds, math=math)
    compiled = time.perf_counter() - began
    module.train()
    engines: dict[str, Callable[[], float]] = {"pylayout": step_of_plan(plan, images, targets, options.device)}
    if options.device == "cpu":
        if options.peers:
            engines.update(on_processor(torch, module, images, targets, options.optimizer, math, options.inductor))
    elif options.peers and torch.cuda.is_available():
        engines.update(on_gpu(torch, module, images, targets, options.optimizer, math, options.compiled))
    first = {name: step() for name, step in engines.items()}
    allowed = ALLOWED_BF16 if math == "bf16" else ALLOWED
    if "torch" in first and abs(first["pylayout"] - first["torch"]) > allowed * abs(first["torch"]):
        raise SystemExit(f"{network}: the first loss is {first['pylayout']}, expected {first['torch']}")
    until = time.perf_counter() + options.settle
    while time.perf_counter() < until and not plan.settled():
        engines["pylayout"]()
    clock = time.process_time if options.clock == "processor" else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(options.rounds):
        for name, step in engines.items():
            for k in range(options.steps):
                start = clock()
                step()
                if k >= options.steps // 3:
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


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", default=["resnet18", "mobilenet_v2"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, nargs="+", default=[8])
    parser.add_argument("--math", nargs="+", default=["fp32"], choices=["fp32", "tf32", "fp16", "bf16"])
    parser.add_argument("--optimizer", default="sgd", choices=["sgd", "adam"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, help="of a turn, the first third not counted (CPU: 1, GPU: 12)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, help="measure for so long before the first step")
    parser.add_argument("--settle", type=float, default=0.0, help="seconds of runs before the first that counts")
    parser.add_argument("--clock", default="wall", choices=["wall", "processor"])
    parser.add_argument("--inductor", action="store_true", help="on the processor, a peer that compiles for minutes")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="pylayout alone")
    parser.add_argument("--no-compiled", dest="compiled", action="store_false", help="leave torch.compile out")
    parser.add_argument("--dlprimitives", type=Path, metavar="FILE", help="what its benchmark printed, of this batch")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    options.steps = options.steps or (1 if options.device == "cpu" else 12)
    theirs = dlprimitives.network_times(options.dlprimitives) if options.dlprimitives else {}
    rows = []
    for network in options.networks:
        for batch in options.batch:
            for math in options.math:
                rows.append(measure(network, batch, math, options))
                if (network, "training") in theirs and math == "fp32" and options.optimizer == "adam":
                    rows[-1]["dlprimitives_ms"] = theirs[network, "training"]
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
