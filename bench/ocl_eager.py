"""What an op of PyTorch on the device `ocl` costs the host, beside the CPU's and beside the library's own call.

    python -m bench.ocl_eager [--rounds 30] [--calls 200] [--size 1] [--only OP] [--device cuda]
    python -m bench.ocl_eager --network resnet18 [--batch 16] [--image 224] [--causes | --host]

Microseconds a call from Python, medians of rounds in which all take turns; the device is waited for between rounds, not
between calls.  --size 0: tensors without elements along one dimension, for which nothing is queued.  `abi`: pl_op_run
through cffi, into a tensor that exists.  The last column is the ratio to PyTorch's op on the CPU.
--device cuda: without a ratio, on a GPU that PyTorch drives, from the same program.

--network: what a training step (SGD with momentum) and an inference of a network of torchvision start: kernels,
reorders of activations, of weights and of results, transfers; and the times of each, until all is queued and until
all is done.  --causes: those starts by op or cause, in the place of times.
--host: the calling thread's processor time, a step and a start, in the place of times.  It counts the calls into the
OpenCL driver, not the kernels that a CPU's driver runs in threads of its own.  Gradients are computed in that thread.
"""

from __future__ import annotations

import argparse
import collections
import statistics
import time
from collections.abc import Callable
from typing import Any

import pylayout as pl
import pylayout.ocl
from pylayout._load import ffi, lib
from pylayout.context import handle

from .turns import run_until_settled


def cases(size: int, device: str) -> dict[str, Callable[[], Any]]:
    """Calls of common ops on tensors of `size` elements along one dimension."""
    import torch

    def ones(*shape: int) -> torch.Tensor:
        return torch.ones(shape, device=device)

    x, y, rows, matrix, bias = ones(size), ones(size), ones(size, 8), ones(8, 8), ones(8)
    image, kernel, scale = ones(size, 8, 4, 4), ones(8, 8, 3, 3), ones(8)
    functional = torch.nn.functional
    return {
        "add": lambda: x + y,
        "mul by a number": lambda: x * 2,
        "add in place": lambda: x.add_(y),
        "relu": lambda: torch.relu(x),
        "sum": lambda: x.sum(),
        "linear": lambda: functional.linear(rows, matrix, bias),
        "matmul": lambda: rows @ matrix,
        "conv2d": lambda: functional.conv2d(image, kernel, padding=1),
        "batch_norm": lambda: functional.batch_norm(image, scale, scale, scale, scale, False),
        "max_pool2d": lambda: functional.max_pool2d(image, 2),
        "softmax": lambda: functional.softmax(rows, 1),
        "layer_norm": lambda: functional.layer_norm(rows, (8,), bias, bias),
        "transposed copy": lambda: rows.t().contiguous(),
        "zeros": lambda: torch.zeros(size, device=device),
    }


def gradient_cases(size: int, device: str) -> dict[str, Callable[[], Any]]:
    """Ops with their gradients, and the steps of optimizers on 20 weights."""
    import torch

    def ones(*shape: int, wanted: bool = True) -> torch.Tensor:
        return torch.ones(shape, device=device, requires_grad=wanted)

    functional = torch.nn.functional
    image, kernel, scale, shift = ones(size, 8, 4, 4), ones(8, 8, 3, 3), ones(8), ones(8)
    grad, mean, variance = ones(size, 8, 4, 4, wanted=False), ones(8, wanted=False), ones(8, wanted=False)
    forward = {
        "nothing": lambda: image.view_as(image),
        "relu": lambda: torch.relu(image),
        "conv2d": lambda: functional.conv2d(image, kernel, padding=1),
        "batch_norm": lambda: functional.batch_norm(image, mean, variance, scale, shift, True),
    }

    def both(call: Callable[[], torch.Tensor]) -> Callable[[], Any]:
        return lambda: call().backward(grad)

    made = {f"{name}, both ways": both(call) for name, call in forward.items()}
    for name, optimizer, more in (
        ("SGD", torch.optim.SGD, {"momentum": 0.9}),
        ("Adam", torch.optim.Adam, {}),
    ):
        for kind in ("foreach", "fused"):
            weights = [ones(8, 8) for _ in range(20)]
            for weight in weights:
                weight.grad = torch.ones_like(weight)
            step = optimizer(weights, lr=1e-3, **{kind: True}, **more).step  # type: ignore[arg-type]
            made[f"{name}, {kind}"] = step
    return made


def network_steps(name: str, batch: int, image: int, device: str) -> dict[str, Callable[[], Any]]:
    """A training step and an inference of a network of torchvision."""
    import torch

    from .torchvision_models import import_torchvision

    models = import_torchvision()

    torch.manual_seed(0)
    trained, used = (getattr(models, name)(weights=None).to(device) for _ in range(2))
    trained.train()
    used.eval()
    x, labels = torch.randn(batch, 3, image, image).to(device), torch.randint(0, 1000, (batch,)).to(device)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01, momentum=0.9)

    def train() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(trained(x), labels).backward()
        optimizer.step()

    def infer() -> None:
        with torch.no_grad():
            used(x)

    return {"training": train, "inference": infer}


def count_starts(step: Callable[[], Any], synchronize: Callable[[], Any]) -> str:
    """What a step starts, once it runs as it will."""
    with pl.profile() as profile:
        step()
        synchronize()
    kinds: collections.Counter[str] = collections.Counter()
    for event in profile.events:
        kinds[event["kind"] + (f" of {event['role']}" if event["kind"] != "op" else "")] += 1
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


def print_causes(steps: dict[str, Callable[[], Any]], synchronize: Callable[[], Any]) -> None:
    """What each step starts, once it runs as it will: kernels by op, reorders by what wants them."""
    for name, step in steps.items():
        for _ in range(6):
            step()
        synchronize()
        with pl.profile() as profile:
            step()
            synchronize()
        counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
        for event in profile.events:
            together = event["implementation"].partition(" of ")[2]  # "12 calls"
            what = event["op"] if event["kind"] == "op" else f"{event['kind']} of {event['role']}"
            counts[what, "" if event["cause"] == event["op"] else event["cause"], together] += 1
        print(f"{name}: {len(profile.events)}")
        for (what, cause, together), count in counts.most_common():
            print(f"{count:6} {what:28} {cause:36} {together}".rstrip())


def print_steps(steps: dict[str, Callable[[], Any]], synchronize: Callable[[], Any], rounds: int, counts: bool) -> None:
    for name, step in steps.items():
        for _ in range(6):
            step()
        queued, done = [], []
        for _ in range(rounds):
            synchronize()
            start = time.perf_counter()
            step()
            queued.append(time.perf_counter() - start)
            synchronize()
            done.append(time.perf_counter() - start)
        times = f"queued after {1e3 * statistics.median(queued):.2f} ms, done after {1e3 * statistics.median(done):.2f}"
        print(f"{name:10} {times}" + (f"; starts {count_starts(step, synchronize)}" if counts else ""))


def print_host(steps: dict[str, Callable[[], Any]], synchronize: Callable[[], Any], rounds: int) -> None:
    """Processor time of the calling thread: the device is waited for between steps, outside what is counted."""
    import torch

    with torch.autograd.set_multithreading_enabled(False):
        for name, step in steps.items():
            for _ in range(6):
                step()
            used = []
            for _ in range(rounds):
                synchronize()
                start = time.thread_time_ns()
                step()
                used.append((time.thread_time_ns() - start) / 1e3)
            synchronize()
            with pl.profile() as profile:
                step()
                synchronize()
            starts, median = len(profile.events), statistics.median(used)
            print(f"{name:10} {median / 1e3:.2f} ms a step, {starts} starts, {median / starts:.1f} us a start")


def abi_add(size: int) -> Callable[[], Any]:
    """The library's own call of add, on tensors of PyTorch's."""
    import torch

    tensors = [torch.ones(size, device="ocl:0") for _ in range(3)]
    handles = [ffi.cast("pl_tensor", torch.ops.pylayout_ocl.handle(tensor)) for tensor in tensors]
    inputs, outputs = ffi.new("pl_tensor[]", handles[:2]), ffi.new("pl_tensor[]", handles[2:])
    context, run = handle(), lib.pl_op_run

    def call(kept: Any = tensors) -> None:
        if run(context, b"add", ffi.NULL, inputs, 2, outputs, 1, ffi.NULL):
            raise RuntimeError(ffi.string(lib.pl_last_error()).decode())

    return call


def measure(
    calls: dict[str, Callable[[], Any]], rounds: int, count: int, synchronize: Callable[[], Any]
) -> dict[str, float]:
    """Median microseconds of each."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(5):
                call()
            synchronize()
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append(1e6 * (time.perf_counter() - start) / count)
            synchronize()
    return {name: statistics.median(each) for name, each in times.items()}


def main(arguments: list[str] | None = None) -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--only", metavar="OP", help="call this one for ten seconds: for a profiler")
    parser.add_argument("--device", choices=["ocl:0", "cuda"], default="ocl:0")
    parser.add_argument("--network", help="of torchvision")
    parser.add_argument("--causes", action="store_true", help="what a step of the network starts, and why")
    parser.add_argument("--host", action="store_true", help="the calling thread's processor time in a step")
    parser.add_argument("--untuned", action="store_true", help="measure no kernels before")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--image", type=int, default=224)
    given = parser.parse_args(arguments)
    ours = given.device == "ocl:0"
    if given.host and not (ours and given.network):
        parser.error("--host wants --network and the device ocl:0")
    if ours:
        pylayout.ocl.load()
        torch.ocl.set_fallback("error")
    synchronize = torch.ocl.synchronize if ours else torch.cuda.synchronize
    if given.untuned:
        pl.set_tuning("off")
    if given.network:
        steps = network_steps(given.network, given.batch, given.image, given.device)
        if ours:
            for step in steps.values():
                run_until_settled(step)
        if given.causes:
            return print_causes(steps, synchronize)
        if given.host:
            return print_host(steps, synchronize, given.rounds)
        return print_steps(steps, synchronize, given.rounds, ours)
    pl.set_tuning("off")

    def all_cases(device: str) -> dict[str, Callable[[], Any]]:
        return {**cases(given.size, device), **gradient_cases(given.size, device)}

    there = all_cases(given.device)
    if given.only:
        end = time.perf_counter() + 10
        while time.perf_counter() < end:
            for _ in range(1000):
                there[given.only]()
            synchronize()
        return
    here = all_cases("cpu") if ours else {}
    calls = {"abi add": abi_add(given.size)} if ours else {}
    for name in there:
        calls[name] = there[name]
        if ours:
            calls[f"{name} on the CPU"] = here[name]
    found = measure(calls, given.rounds, given.calls, synchronize)
    if not ours:
        for name in there:
            print(f"{name:24} {found[name]:8.2f} us")
        return
    print(f"{'op':24} {'ocl us':>8} {'cpu us':>8} {'ratio':>7}      (abi add: {found['abi add']:.2f} us)")
    for name in there:
        mine, other = found[name], found[f"{name} on the CPU"]
        print(f"{name:24} {mine:8.2f} {other:8.2f} {mine / other:7.2f}")


if __name__ == "__main__":
    main()
