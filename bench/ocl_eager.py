"""What an op of PyTorch on the device `ocl` costs the host, beside the CPU's and beside the library's own call.

    python -m bench.ocl_eager [--rounds 30] [--calls 200] [--size 1] [--only OP]

Microseconds a call from Python, medians of rounds in which all take turns; the device is waited for between rounds, not
between calls.  --size 0: tensors without elements along one dimension, for which nothing is queued.  `abi`: pl_op_run
through cffi, into a tensor that exists.  The last column is the ratio to PyTorch's op on the CPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import pylayout as pl
import pylayout.ocl
from pylayout._load import ffi, lib
from pylayout.context import handle


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


def measure(calls: dict[str, Callable[[], Any]], rounds: int, count: int) -> dict[str, float]:
    """Median microseconds of each."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(5):
                call()
            torch.ocl.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append(1e6 * (time.perf_counter() - start) / count)
            torch.ocl.synchronize()
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--only", metavar="OP", help="call this one for ten seconds: for a profiler")
    given = parser.parse_args()
    pylayout.ocl.load()
    pl.set_tuning("off")
    torch.ocl.set_fallback("error")
    with torch.no_grad():
        there, here = cases(given.size, "ocl:0"), cases(given.size, "cpu")
        if given.only:
            end = time.perf_counter() + 10
            while time.perf_counter() < end:
                for _ in range(1000):
                    there[given.only]()
                torch.ocl.synchronize()
            return
        calls = {"abi add": abi_add(given.size)}
        for name in there:
            calls[name], calls[f"{name} on the CPU"] = there[name], here[name]
        found = measure(calls, given.rounds, given.calls)
    print(f"{'op':18} {'ocl us':>8} {'cpu us':>8} {'ratio':>7}      (abi add: {found['abi add']:.2f} us)")
    for name in there:
        mine, other = found[name], found[f"{name} on the CPU"]
        print(f"{name:18} {mine:8.2f} {other:8.2f} {mine / other:7.2f}")


if __name__ == "__main__":
    main()
