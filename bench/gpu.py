"""Single ops on a GPU against PyTorch's (cuDNN, cuBLAS) on the same one, in one run: checked, then timed in turns.

    python -m bench.gpu --math fp32 tf32 fp16 --batch 64 --json out.json

fp32 is as accurate as f32 arithmetic on both sides; tf32 lets both round factors; fp16 has tensors of half precision.
PyTorch's time is the better of its two layouts, its algorithms chosen by measurement (cudnn.benchmark). Errors are of
the whole result against double precision, as a ratio of norms. Without PyTorch for CUDA only pylayout is timed,
unchecked.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pylayout as pl
from pylayout import ops
from pylayout.cli.terminal import Table, ms_text

from .record import write


class Case(NamedTuple):
    """A convolution of (n, c, h, h) with kernels of k x k, or products of h = 0: n rows, c terms, oc columns.

    A stack of products is that of scores in attention, a product with a transposed matrix, where c is less than oc;
    with k = 2 all of attention, both products: n queries, oc keys, which are the values too, of c columns.
    """

    name: str
    n: int
    c: int
    h: int
    oc: int
    k: int = 1
    stride: int = 1
    groups: int = 1
    stack: int = 0

    @property
    def gflop(self) -> float:
        places = ((self.h - 1) // self.stride + 1) ** 2 if self.h else max(self.stack, 1)
        return 2e-9 * self.n * places * self.oc * (self.c // self.groups) * (self.k if self.stack else self.k**2)


def cases(batch: int) -> list[Case]:
    """Layers of ResNet-50 and MobileNetV2, square products, and those of attention of 8 x 12 heads."""
    return [
        Case("conv 3x3 64", batch, 64, 56, 64, 3),
        Case("conv 3x3 128", batch, 128, 28, 128, 3),
        Case("conv 3x3 256", batch, 256, 14, 256, 3),
        Case("conv 3x3 512", batch, 512, 7, 512, 3),
        Case("conv 1x1 256-64", batch, 256, 56, 64),
        Case("conv 1x1 64-256", batch, 64, 56, 256),
        Case("conv 1x1 1024-256", batch, 1024, 14, 256),
        Case("conv 7x7/2 3-64", batch, 3, 224, 64, 7, 2),
        Case("depthwise 3x3 96", batch, 96, 56, 96, 3, 1, 96),
        Case("depthwise 3x3/2 144", batch, 144, 56, 144, 3, 2, 144),
        Case("linear 1024", 1024, 1024, 0, 1024),
        Case("linear 4096", 4096, 4096, 0, 4096),
        Case("scores 96x1024x64", 1024, 64, 0, 1024, stack=96),
        Case("values 96x1024x64", 1024, 1024, 0, 64, stack=96),
        Case("attention 192x197x64", 197, 64, 0, 197, 2, stack=192),
        Case("attention 96x1024x64", 1024, 64, 0, 1024, 2, stack=96),
    ]


def inputs(case: Case, half: bool) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    dtype = np.float16 if half else np.float32
    shape = (case.n, case.c, case.h, case.h) if case.h else (case.n, case.c)
    weight = (case.oc, case.c // case.groups, case.k, case.k) if case.h else (case.oc, case.c)
    if case.stack:
        shape = (case.stack, *shape)
        weight = (case.stack, *(weight if case.c < case.oc else weight[::-1]))
    return rng.uniform(-1, 1, shape).astype(dtype), rng.uniform(-1, 1, weight).astype(dtype)


def ours(case: Case, x: Any, weight: Any, device: str) -> Callable[[], Any]:
    a, w = pl.asarray(x, device=device), pl.asarray(weight, device=device)
    if case.stack and case.k == 2:
        return lambda: ops.scaled_dot_product_attention(a, w, w)
    if case.stack:
        return lambda: ops.matmul(a, w, transpose_b=case.c < case.oc)
    if not case.h:
        return lambda: ops.linear(a, w)
    a = a.to(layout="NHWC")  # as the layer before it would have left it
    return lambda: ops.conv2d(a, w, stride=case.stride, padding=case.k // 2, groups=case.groups)


def theirs(torch: Any, case: Case, x: Any, weight: Any) -> tuple[dict[str, Callable[[], Any]], Any]:
    """PyTorch's calls by layout, and the result in double precision."""
    a, w = torch.from_numpy(x).cuda(), torch.from_numpy(weight).cuda()
    if case.stack and case.k == 2:
        attention = torch.nn.functional.scaled_dot_product_attention
        exact = attention(a.double(), w.double(), w.double())
        return {"": lambda: attention(a[None], w[None], w[None])[0]}, exact
    if case.stack:
        right = w.transpose(1, 2) if case.c < case.oc else w
        return {"": lambda: torch.matmul(a, right)}, torch.matmul(a.double(), right.double())
    if not case.h:
        linear = torch.nn.functional.linear
        return {"": lambda: linear(a, w)}, linear(a.double(), w.double())
    conv = torch.nn.functional.conv2d
    call = {"stride": case.stride, "padding": case.k // 2, "groups": case.groups}
    last = torch.channels_last
    b, v = a.to(memory_format=last), w.to(memory_format=last)
    exact = conv(a.double(), w.double(), **call)
    return {"NCHW": lambda: conv(a, w, **call), "NHWC": lambda: conv(b, v, **call)}, exact


class NoGpu(SystemExit):
    """Ends a bench that was run alone; among others it is left out."""


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="default: the first GPU")


def device_of(options: argparse.Namespace) -> str:
    """What --device names, else the first GPU; without one the bench ends."""
    gpus = (device.name for device in pl.devices() if device.capabilities.get("type") == "gpu")
    device = options.device or next(gpus, None)
    if device is None:
        raise NoGpu("there is no GPU here that OpenCL reaches; --device names another device")
    return str(device)


def milliseconds(run: Callable[[], Any], wait: Callable[[], None], least: float = 0.01) -> float:
    """Of one call, from as many as take `least` seconds, queued without waiting in between."""
    count = 1
    while True:
        wait()
        start = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        spent = time.perf_counter() - start
        if spent >= least:
            return 1e3 * spent / count
        count = max(2 * count, int(1.2 * count * least / spent))


def error(got: Any, exact: Any) -> float:
    return float((got.double() - exact).norm() / exact.norm())


def measure(torch: Any, case: Case, mode: str, options: argparse.Namespace) -> dict[str, Any]:
    x, weight = inputs(case, mode == "fp16")
    row: dict[str, Any] = {"op": case.name, "math": mode, "gflop": round(case.gflop, 3)}
    run = ours(case, x, weight, options.device)
    engines = {"pylayout": (run, lambda: pl.synchronize(options.device))}
    result = run()
    if torch:
        calls, exact = theirs(torch, case, x, weight)
        row["error"] = error(torch.from_numpy(np.asarray(result)).cuda(), exact)
        row["torch_error"] = min(error(call(), exact) for call in calls.values())
        engines.update({f"torch {name}".strip(): (call, torch.cuda.synchronize) for name, call in calls.items()})
        del exact
    for call, _ in engines.values():  # what is measured, built and chosen on first sight, and learned from repetition
        for _ in range(5):
            call()
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(options.rounds):
        for name, (call, wait) in engines.items():
            times[name].append(milliseconds(call, wait))
    medians = {name: statistics.median(each) for name, each in times.items()}
    row["ms"] = {name: round(ms, 5) for name, ms in medians.items()}
    row["tflops"] = round(case.gflop / medians.pop("pylayout"), 1)
    if medians:
        best = min(medians, key=lambda name: medians[name])
        row["best"], row["torch_tflops"] = best, round(case.gflop / medians[best], 1)
        row["ratio"] = round(medians[best] / row["ms"]["pylayout"], 3)
    return row


def print_table(rows: list[dict[str, Any]]) -> None:
    right = ("ms", "TFLOP/s", "error", "PyTorch's ms", "its TFLOP/s", "its error", "times as fast")
    table = Table(("op", "math", *right, "its layout"), right=right)
    for row in rows:
        cells = [row["op"], row["math"], ms_text(row["ms"]["pylayout"]), f"{row['tflops']:.1f}"]
        if "ratio" in row:
            cells += [f"{row['error']:.1e}", ms_text(row["ms"][row["best"]]), f"{row['torch_tflops']:.1f}"]
            cells += [f"{row['torch_error']:.1e}", f"{row['ratio']:.2f}", row["best"].removeprefix("torch").strip()]
        table.add(*cells, *[""] * (len(right) + 3 - len(cells)))
    table.print()
    for mode in dict.fromkeys(row["math"] for row in rows):
        ratios = [row["ratio"] for row in rows if row["math"] == mode and "ratio" in row]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            print(f"{mode}: {mean:.2f} times as fast as PyTorch (geometric mean of {len(ratios)} ops)")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="bench.gpu", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_device(parser)
    parser.add_argument("--math", nargs="+", default=["fp32"], choices=("fp32", "tf32", "fp16"))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    options.device = device_of(options)
    torch: Any
    try:
        import torch

        torch = torch if torch.cuda.is_available() else None
    except ImportError:
        torch = None
    rows = []
    for mode in options.math:
        pl.configure(math="tf32" if mode == "tf32" else "fp32")
        if torch:
            torch.backends.cudnn.benchmark = True
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode != "fp32"
        rows += [measure(torch, case, mode, options) for case in cases(options.batch)]
    print_table(rows)
    if options.json:
        write(options.json, "gpu", rows, device=options.device)


if __name__ == "__main__":
    main()
