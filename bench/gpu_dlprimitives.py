"""Single fp32 ops on a GPU beside dlprimitives' own table of the same GPU: matrix products and convolutions, forward.

    dlprim_flops 0:0 > ops.txt          # dlprimitives' benchmark, with its build
    python -m bench.gpu_dlprimitives ops.txt --json out.json

The table is read from the file; each of its ops runs here with the same sizes and is timed as dlprimitives times it:
many in a row, into a result that exists, by functions of the C interface, queued without waiting in between ("us"),
once the op's kernel is settled and the device has worked for a second: one that was idle takes its time to reach its
clock. "python": the same op called as `ops.matmul(...)`, with a result made each time. dlprimitives' tensors are NCHW;
pylayout's are NHWC, as the layer before leaves them, and any kernel that is as accurate as f32 arithmetic may run.
Results are checked against double precision on the host where that takes no longer than a moment. Above 1, pylayout is
faster than dlprimitives.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pylayout as pl
from pylayout import ops
from pylayout._load import ffi, lib
from pylayout.calls import Attributes, attribute_text
from pylayout.cli.terminal import Table
from pylayout.context import state as context
from pylayout.errors import check

from .gpu import add_device, device_of, milliseconds
from .record import write

_GEMM = re.compile(r"^\s*([NT])([NT])\s+\d+:\s*(\d+),\s*(\d+),\s*(\d+)\s+([\d.]+) GFlops")
_CONV = re.compile(
    r"^\s*\d+\s+(\w+)\s+forward b=(\d+)\s+k=(\d+)\s+p=(\d+)\s+s=(\d+)\s+in=(\d+)\s+out=(\d+)\s+g=(\d+)\s+D=(\d+)"
    r"\s+([\d.]+) GFlops"
)
_CHECKED_GFLOP = 0.3  # products of at most so much are checked on the host
_AWAKE_SECONDS, _SETTLED_SECONDS = 1.0, 0.1  # calls before the first op is timed, and before each


class Gemm(NamedTuple):
    """op(a) of (m, k) times op(b) of (k, n); T: kept transposed."""

    transpose_a: bool
    transpose_b: bool
    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        letters = "NT"[self.transpose_a] + "NT"[self.transpose_b]
        return f"gemm {letters} {self.m}x{self.n}x{self.k}"

    @property
    def gflop(self) -> float:
        return 2e-9 * self.m * self.n * self.k

    def arrays(self) -> tuple[Any, Any]:
        rng = np.random.default_rng(1)
        a = rng.uniform(-1, 1, (self.k, self.m) if self.transpose_a else (self.m, self.k))
        b = rng.uniform(-1, 1, (self.n, self.k) if self.transpose_b else (self.k, self.n))
        return a.astype(np.float32), b.astype(np.float32)

    @property
    def op(self) -> str:
        return "matmul"

    @property
    def attributes(self) -> dict[str, Any]:
        return {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b}

    def tensors(self, a: Any, b: Any) -> tuple[Any, Any]:
        return a, b

    def run(self, tensors: tuple[Any, Any]) -> Any:
        return ops.matmul(*tensors, **self.attributes)

    def exact(self, a: Any, b: Any) -> Any:
        return (a.T if self.transpose_a else a).astype(np.float64) @ (b.T if self.transpose_b else b)


class Conv(NamedTuple):
    """A convolution of (n, c, size, size), kernels of k x k."""

    network: str
    n: int
    k: int
    padding: int
    stride: int
    c: int
    oc: int
    groups: int
    size: int

    @property
    def name(self) -> str:
        groups = f" g{self.groups}" if self.groups > 1 else ""
        return f"{self.network} {self.k}x{self.k}/{self.stride} {self.c}-{self.oc}{groups} at {self.size}"

    @property
    def gflop(self) -> float:
        places = ((self.size + 2 * self.padding - self.k) // self.stride + 1) ** 2
        return 2e-9 * self.n * places * self.oc * (self.c // self.groups) * self.k**2

    def arrays(self) -> tuple[Any, Any]:
        rng = np.random.default_rng(1)
        x = rng.uniform(-1, 1, (self.n, self.c, self.size, self.size))
        w = rng.uniform(-1, 1, (self.oc, self.c // self.groups, self.k, self.k))
        return x.astype(np.float32), w.astype(np.float32)

    @property
    def op(self) -> str:
        return "conv2d"

    @property
    def attributes(self) -> dict[str, Any]:
        return {"stride": self.stride, "padding": self.padding, "groups": self.groups}

    def tensors(self, x: Any, w: Any) -> tuple[Any, Any]:
        return x.to(layout="NHWC"), w

    def run(self, tensors: tuple[Any, Any]) -> Any:
        return ops.conv2d(*tensors, **self.attributes)

    def exact(self, x: Any, w: Any) -> Any:
        """Of the first image alone, by windows."""
        padded = np.pad(x[:1].astype(np.float64), ((0, 0), (0, 0), (self.padding,) * 2, (self.padding,) * 2))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (self.k, self.k), axis=(2, 3))
        windows = windows[:, :, :: self.stride, :: self.stride]
        parts = zip(np.split(windows, self.groups, axis=1), np.split(w, self.groups), strict=True)
        return np.concatenate([np.einsum("nchwij,ocij->nohw", v, f, optimize=True) for v, f in parts], axis=1)


def into(result: Any, case: Gemm | Conv, tensors: tuple[Any, Any]) -> Callable[[], Any]:
    """A call of that op into a tensor that exists, as dlprimitives' loop makes it."""
    kept = Attributes(attribute_text(case.op, case.attributes))
    name, count, handle, run = case.op.encode(), len(tensors), context.handle, lib.pl_op_run
    inputs = ffi.new("pl_tensor[]", [each._handle for each in tensors])
    outputs = ffi.new("pl_tensor[]", [result._handle])

    def call() -> None:
        if status := run(handle, name, kept.handle, inputs, count, outputs, 1, ffi.NULL):
            check(status)

    return call


def warm(run: Callable[[], Any], wait: Callable[[], None], seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(50):
            run()
        wait()


def table_of(path: Path) -> list[tuple[Gemm | Conv, float]]:
    """The ops of dlprimitives' output, each with its GFLOP/s."""
    found: list[tuple[Gemm | Conv, float]] = []
    for line in path.read_text().splitlines():
        if gemm := _GEMM.match(line):
            a, b, *sizes, rate = gemm.groups()
            found.append((Gemm(a == "T", b == "T", *map(int, sizes)), float(rate)))
        elif conv := _CONV.match(line):
            network, *sizes, rate = conv.groups()
            found.append((Conv(network, *map(int, sizes)), float(rate)))
    return list(dict(found).items())  # a line may stand there twice


def measure(case: Gemm | Conv, theirs: float, device: str, rounds: int, awake: float) -> dict[str, Any]:
    arrays = case.arrays()
    tensors = case.tensors(*(pl.asarray(each, device=device) for each in arrays))

    def python() -> Any:
        return case.run(tensors)

    def wait() -> None:
        pl.synchronize(device)

    for _ in range(5):  # what is measured, built and chosen on first sight
        result = python()
    run = into(result, case, tensors)
    warm(run, wait, awake)
    row: dict[str, Any] = {"op": case.name, "gflop": round(case.gflop, 3), "dlprimitives_gflops": theirs}
    if isinstance(case, Conv) or case.gflop <= _CHECKED_GFLOP:
        exact = case.exact(*arrays)
        got = np.asarray(result)[: len(exact)]
        row["error"] = float(np.linalg.norm(got - exact) / np.linalg.norm(exact))
    ms = statistics.median(milliseconds(run, wait) for _ in range(rounds))
    row["us"], row["gflops"] = round(1e3 * ms, 2), round(1e3 * case.gflop / ms, 1)
    warm(python, wait, _SETTLED_SECONDS)
    row["python_us"] = round(1e3 * statistics.median(milliseconds(python, wait) for _ in range(rounds)), 2)
    row["ratio"] = case.gflop / (1e-3 * ms) / theirs
    with pl.profile() as recording:
        python()
    row["implementation"] = recording.events[-1]["implementation"]
    return row


def print_table(rows: list[dict[str, Any]]) -> None:
    right = ("us", "GFLOP/s", "dlprimitives'", "times as fast", "python", "error")
    table = Table(("op", *right, "by"), right=right)
    for row in rows:
        error = f"{row['error']:.1e}" if "error" in row else ""
        cells = (f"{row['us']:.1f}", f"{row['gflops']:.0f}", f"{row['dlprimitives_gflops']:.0f}", f"{row['ratio']:.2f}")
        table.add(row["op"], *cells, f"{row['python_us']:.1f}", error, row["implementation"])
    table.print()
    for kind in ("gemm", ""):
        ratios = [row["ratio"] for row in rows if row["op"].startswith("gemm") == bool(kind)]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            what = "products" if kind else "convolutions"
            print(f"{len(ratios)} {what}: {mean:.2f} times dlprimitives (geometric mean), the least {min(ratios):.2f}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, nargs="?", help="what dlprim_flops printed")
    add_device(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most-gflop", type=float, default=math.inf, help="leave out larger ops, as on a slow device")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    if not options.table:
        print("needs dlprimitives' table: its dlprim_flops prints it")
        return
    if not options.table.is_file():
        parser.error(f"no file {options.table}")
    cases = [each for each in table_of(options.table) if each[0].gflop <= options.most_gflop]
    if not cases:
        parser.error(f"{options.table} holds no op in the form that dlprim_flops prints")
    device = device_of(options)
    waits = [_AWAKE_SECONDS] + [_SETTLED_SECONDS] * len(cases)
    rows = [measure(*each, device, options.rounds, waits[i]) for i, each in enumerate(cases)]
    print_table(rows)
    if options.json:
        write(options.json, "gpu_dlprimitives", rows, device=device)


if __name__ == "__main__":
    main()
