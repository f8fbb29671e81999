"""Networks on PyTorch's device `ocl`, eager and compiled, beside plans, CUDA's eager mode and dlprimitives' figures.

    python -m bench.ocl_networks resnet18 resnet50 vgg16 --batch 16 --dlprimitives nets.txt --json out.json

Inference, and a step of training with Adam (forward, cross entropy, backward, update) on the same images, targets and
weights. `ocl` is eager PyTorch on the device; `compiled` the network and its loss under
torch.compile(backend="pylayout") with tensors that lie there, Adam eager; `plan` the network as a plan without PyTorch,
its step of training as one program with the update. Each runs until it is settled. Then they take turns in one
process, round by round, a turn of twelve runs of which the first four do not count. Each step reads its loss, as loops
of training do. A time is that of a turn's other runs, until the device is done with all of them, by their number: on
`ocl` a loss is there before the step's backward is done, and the host goes on. `cuda` is the same eager PyTorch on
CUDA, in a process of its own: PyTorch knows one accelerator a process, and its autograd fails on CUDA where `ocl` is
registered.

dlprimitives' figures are of the same batch, and are read from what its benchmark printed (bench/dlprimitives.py).
--untuned: no engine measures its kernels before.

The columns of ratios are above 1 where pylayout is faster; "of the plan": the plan's time over the compiled one's.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pylayout as pl
from pylayout.cli.terminal import Table, ms_text

from . import dlprimitives, gpu_models, torchvision_models, training
from .gpu import add_device, device_of
from .record import write
from .turns import run_until_settled

SEEDS = ["alexnet", "resnet18", "resnet50", "vgg16", "mobilenet_v2"]
ENGINES = ["plan", "compiled", "ocl", "cuda"]
APART = 1e-2  # results of engines, as a part of the norm
RATIOS = ["plan / dlprimitives", "ocl / dlprimitives", "ocl / cuda", "of the plan"]

Run = Callable[[], Any]

# ---- what is run ----


def inference_of(torch: Any, module: Any, images: Any, device: str, wait: Run, call: Any = None) -> Run:
    """A forward pass there, until `wait` returns; `call` compiles the network."""
    own, x = copy.deepcopy(module).eval().to(device), images.to(device)
    run = own if call is None else call(own)

    def infer() -> Any:
        with torch.no_grad():
            result = run(x)
        wait()
        return result

    return infer


def step_of(torch: Any, module: Any, images: Any, targets: Any, device: str, call: Any = None) -> Run:
    """A step of training there, which gives the loss; `call` compiles what computes it."""
    own = copy.deepcopy(module).train().to(device)
    x, t = images.to(device), targets.to(device)
    optimizer = torch.optim.Adam(own.parameters(), lr=training.ADAM_RATE, fused=True)

    def loss_of(x: Any, t: Any) -> Any:
        return torch.nn.functional.cross_entropy(own(x), t)

    run = loss_of if call is None else call(loss_of)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = run(x, t)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def waits_for(torch: Any, options: argparse.Namespace) -> Run:
    """What returns once the device is done. A plan's run returns so itself."""
    wait: Run = torch.cuda.synchronize if options.engines == ["cuda"] else torch.ocl.synchronize
    return wait


def plan_of_inference(module: Any, images: Any, options: argparse.Namespace) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torchvision_models.write_onnx(copy.deepcopy(module).eval(), images, path)
        return gpu_models.ours(str(path), images, options.math, options)


def plan_of_training(torch: Any, module: Any, images: Any, targets: Any, options: argparse.Namespace) -> Run:
    graph = training.trainable(torch, copy.deepcopy(module), images, "adam", options.math)
    plan = pl.compile(graph, device=options.device, math=options.math, seconds=options.seconds)
    return training.step_of_plan(plan, images, targets, options.device)


def engines_of(torch: Any, network: str, work: str, options: argparse.Namespace) -> dict[str, Callable[[], Run]]:
    """What makes each engine's run."""
    module = training.without_random_numbers(torch, torchvision_models.build(network))
    images = torchvision_models.images_for(network, options.batch)
    targets = torch.arange(options.batch, dtype=torch.int64) % 1000
    there = f"ocl:{options.device.partition(':')[2] or 0}"

    def compiled(function: Any) -> Any:
        torch._dynamo.reset()
        return torch.compile(function, backend="pylayout", options={"math": options.math, "seconds": options.seconds})

    if work == "training":
        made = {
            "plan": lambda: plan_of_training(torch, module, images, targets, options),
            "compiled": lambda: step_of(torch, module, images, targets, there, compiled),
            "ocl": lambda: step_of(torch, module, images, targets, there),
            "cuda": lambda: step_of(torch, module, images, targets, "cuda"),
        }
    else:
        wait = waits_for(torch, options)
        made = {
            "plan": lambda: plan_of_inference(module, images, options),
            "compiled": lambda: inference_of(torch, module, images, there, wait, compiled),
            "ocl": lambda: inference_of(torch, module, images, there, wait),
            "cuda": lambda: inference_of(torch, module, images, "cuda", wait),
        }
    return {name: make for name, make in made.items() if name in options.engines}


def apart_on_cuda(network: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of another process that runs CUDA alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "bench.ocl_networks", network, "--engines", "cuda", "--work", *options.work]
        for name in ("device", "batch", "math", "rounds", "steps"):
            command += [f"--{name}", str(getattr(options, name))]
        subprocess.run([*command, "--json", str(path)], check=True, stdout=subprocess.DEVNULL)
        rows: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["rows"]
    return rows


# ---- measuring ----


def turns(runs: dict[str, Run], rounds: int, steps: int, wait: Run) -> dict[str, float]:
    """Milliseconds of a run of each, the median of turns; the first third of a turn does not count."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            for _ in range(steps // 3):
                run()
            wait()
            start, count = time.perf_counter(), steps - steps // 3
            for _ in range(count):
                run()
            wait()
            times[name].append(1e3 * (time.perf_counter() - start) / count)
    return {name: statistics.median(each) for name, each in times.items()}


def as_array(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        result = result[0]
    return np.asarray(result.float().cpu() if hasattr(result, "cpu") else result, dtype=np.float64)


def measure(torch: Any, network: str, work: str, options: argparse.Namespace) -> dict[str, Any]:
    pl.configure(math=options.math)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.math != "fp32"
    torch.backends.cudnn.benchmark = True
    runs, first, results = {}, {}, {}
    for name, make in engines_of(torch, network, work, options).items():
        start = time.perf_counter()
        runs[name] = make()
        results[name] = as_array(runs[name]())
        first[name] = round(time.perf_counter() - start, 1)
    base = next(iter(results.values()))
    apart = {name: float(np.linalg.norm(each - base) / np.linalg.norm(base)) for name, each in results.items()}
    if max(apart.values()) > APART:
        raise SystemExit(f"{network}, {work}: results differ by {apart} of the first one's, expected at most {APART}")
    for run in runs.values():
        run_until_settled(run)
    ms = turns(runs, options.rounds, options.steps, waits_for(torch, options))
    return {
        "network": network, "batch": options.batch, "math": options.math, "work": work, "ms": ms, "first_s": first
    }  # fmt: skip


def compare(row: dict[str, Any], theirs: float | None) -> None:
    """Adds dlprimitives' time, and ratios."""
    ms = row["ms"]
    if theirs is not None:
        row["dlprimitives_ms"] = theirs
    pairs = {
        "plan / dlprimitives": (theirs, ms.get("plan")),
        "ocl / dlprimitives": (theirs, ms.get("ocl")),
        "ocl / cuda": (ms.get("cuda"), ms.get("ocl")),
        "of the plan": (ms.get("plan"), ms.get("compiled")),
    }
    row["ratios"] = {name: above / below for name, (above, below) in pairs.items() if above and below}


def print_rows(rows: list[dict[str, Any]]) -> None:
    table = Table(["network", "work", *ENGINES, "dlprimitives", *RATIOS])
    for row in rows:
        ms = {**row["ms"], "dlprimitives": row.get("dlprimitives_ms")}
        cells = [ms_text(ms[name]) if ms.get(name) else "-" for name in (*ENGINES, "dlprimitives")]
        cells += [f"{row['ratios'][name]:.2f}" if name in row["ratios"] else "-" for name in RATIOS]
        table.add(row["network"], row["work"], *cells)
    table.print()
    for work in dict.fromkeys(row["work"] for row in rows):
        for name in RATIOS:
            found = [row["ratios"][name] for row in rows if row["work"] == work and name in row["ratios"]]
            if found:
                mean = statistics.geometric_mean(found)
                print(f"{work}, {name}: {mean:.2f} (geometric mean of {len(found)}), least {min(found):.2f}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=SEEDS)
    add_device(parser)
    parser.add_argument("--work", nargs="+", default=["inference", "training"], choices=["inference", "training"])
    parser.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--math", default="fp32", choices=["fp32", "tf32"])
    parser.add_argument("--seconds", type=float, default=6.0, help="for measuring, of one compilation")
    parser.add_argument("--untuned", action="store_true", help="measure no kernels before")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=12, help="of a turn, the first third not counted")
    parser.add_argument("--dlprimitives", type=Path, metavar="FILE", help="what its benchmark printed")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    options.device = device_of(options)
    if options.untuned:
        pl.set_tuning("off")
        options.seconds = None
    import torch

    with_cuda = "cuda" in options.engines and torch.cuda.is_available()
    alone = options.engines == ["cuda"]
    if not alone:
        import pylayout.ocl

        pylayout.ocl.load()
        torch.ocl.set_fallback("error")
        options.engines = [name for name in options.engines if name != "cuda"]
    theirs = dlprimitives.network_times(options.dlprimitives) if options.dlprimitives else {}
    rows = []
    for network in options.networks:
        on_cuda = apart_on_cuda(network, options) if with_cuda and not alone else []
        for work in options.work:
            row = measure(torch, network, work, options)
            for other in on_cuda:
                if other["work"] == work:
                    row["ms"].update(other["ms"])
            compare(row, theirs.get((network, work)))
            rows.append(row)
            print(json.dumps(row), flush=True)
    print_rows(rows)
    if options.json:
        write(options.json, "ocl_networks", rows, device=options.device)


if __name__ == "__main__":
    main()
