"""Single ops under `torch.compile(backend="pylayout")` beside eager mode on the CPU, in turns within one process.

    python -m bench.torch_ops [OP ...] [--threads 1] [--rounds 30] [--json FILE]

A compiled op costs some 20 us beside its work, which PyTorch's guards and the plan's call take: what eager mode does
in less is not about kernels. "nothing" is `x + 1` of one element, which shows it. Medians, in microseconds; the ratio
is compiled over eager.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from pylayout.cli.terminal import Table

from .record import write
from .turns import run_until_settled, take_turns


def _ops() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """By name: a function of tensors, and these."""
    import torch
    from torch.nn import functional

    torch.manual_seed(0)
    x, images = torch.randn(512, 512), torch.randn(4, 16, 64, 64)
    columns, rows = torch.randint(0, 512, (512, 512)), torch.randint(0, 2000, (20000,))
    features, into = torch.randn(20000, 64), torch.zeros(2000, 64)

    def by_slices(reduce: str) -> Callable[..., Any]:
        return lambda y, i, f: y.scatter_reduce(0, i[:, None].expand(-1, 64), f, reduce)

    return {
        "nothing": (lambda y: y + 1, (torch.zeros(1),)),
        "sum of rows": (lambda x: x.sum(1), (x,)),
        "sum of short rows": (lambda x: x.sum(1), (torch.randn(4096, 49),)),
        "amax of rows": (lambda x: x.amax(1), (x,)),
        "amax of columns": (lambda x: x.amax(0), (x,)),
        "argmax of rows": (lambda x: x.argmax(1), (x,)),
        "lgamma": (lambda x: x.lgamma(), (x,)),
        "nan_to_num": (lambda x: x.nan_to_num(), (x,)),
        "sign": (lambda x: x.sign(), (x,)),
        "tril": (lambda x: x.tril(), (x,)),
        "where": (lambda x: torch.where(x > 0, x, 2 * x), (x,)),
        "one_hot": (lambda i: functional.one_hot(i, 100), (rows[:1000] % 100,)),
        "gather": (lambda x, i: x.gather(1, i), (x, columns)),
        "scatter_add of rows": (lambda x, i: x.scatter_add(1, i, x), (x, columns)),
        "scatter_add of columns": (lambda x, i: x.scatter_add(0, i, x), (x, columns)),
        "scatter sum of slices": (by_slices("sum"), (into, rows, features)),
        "scatter amax of slices": (by_slices("amax"), (into, rows, features)),
        "scatter prod of slices": (by_slices("prod"), (into, rows, features)),
        "index_reduce amax": (lambda y, i, f: y.index_reduce(0, i, f, "amax"), (into, rows, features)),
        "histc": (lambda x: torch.histc(x, 100, -3, 3), (x,)),
        "searchsorted": (lambda x, s: torch.searchsorted(s, x), (x, torch.linspace(-3, 3, 1000))),
        "cumsum": (lambda x: x.cumsum(1), (x,)),
        "softmax": (lambda x: x.softmax(1), (x,)),
        "cdist": (lambda x: torch.cdist(x[:300, :16], x[200:500, :16], p=1), (x,)),
        "prelu": (lambda y: functional.prelu(y, y[0, :, 0, 0]), (images,)),
        "averaged resize": (lambda y: functional.interpolate(y, (40, 40), mode="bilinear", antialias=True), (images,)),
        "circular border": (lambda y: functional.pad(y, (3, 3, 3, 3), mode="circular"), (images,)),
        "grid_sample": (
            lambda y, g: functional.grid_sample(y, g, align_corners=False),
            (images, torch.randn(4, 64, 64, 2)),
        ),
    }


def measure(name: str, rounds: int) -> dict[str, Any]:
    import torch

    import pylayout.torch  # noqa: F401  for a folder that is not installed

    function, tensors = _ops()[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="pylayout")
    with torch.no_grad():
        torch.testing.assert_close(compiled(*tensors), function(*tensors), rtol=1e-3, atol=1e-3)
        run_until_settled(lambda: compiled(*tensors), 5)
        ms = take_turns({"eager": lambda: function(*tensors), "compiled": lambda: compiled(*tensors)}, rounds)
    return {"op": name, "us": {engine: round(1e3 * each, 1) for engine, each in ms.items()}}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", metavar="OP", help="default: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    import torch

    import pylayout as pl

    known = list(_ops())
    for name in options.ops:
        if name not in known:
            parser.error(f"there is no op {name!r}, expected some of {', '.join(known)}")
    torch.set_num_threads(options.threads)
    pl.configure(threads=options.threads)
    rows = [measure(name, options.rounds) for name in options.ops or known]
    headings = ["op", "eager, us", "compiled", "ratio"]
    table = Table(headings, right=headings[1:])
    for row in rows:
        eager, compiled = row["us"]["eager"], row["us"]["compiled"]
        table.add(row["op"], f"{eager:.1f}", f"{compiled:.1f}", f"{compiled / eager:.2f}")
    print(table.render())
    if options.json:
        write(options.json, "torch_ops", rows, threads=options.threads)


if __name__ == "__main__":
    main()
