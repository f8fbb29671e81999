"""What a call of `torch.compile(backend="pylayout")` costs beside the plan itself, by the number of weights, in turns.

    python -m bench.torch_overhead [WEIGHTS ...] [--json FILE]

The model is a chain of small linear layers in inference mode. "PyTorch": the same model compiled by a backend of
AOTAutograd that gives a result at once, which is what torch.compile costs by itself: it finds the compiled code by
guards on every weight. "over the plan": the call without that part and without the plan's own run. Medians, in
microseconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from pylayout.cli.terminal import Table

from .record import write


class _Nothing:
    """What a backend makes of a graph: its result, known before."""

    def __init__(self, result: Any) -> None:
        self._boxed_call = True
        self._results = (result,)

    def __call__(self, arguments: list[Any]) -> Any:
        arguments.clear()
        return self._results


_CALLER = "def call(x):\n    return model(x)\n"


def _compiled(model: Any, **options: Any) -> Callable[[Any], Any]:
    """The model compiled through a code object of its own: PyTorch keeps compiled code, and its guards, by these."""
    import torch

    namespace = {"model": model}
    exec(_CALLER, namespace)
    made: Callable[[Any], Any] = torch.compile(namespace["call"], **options)
    return made


def measure(weights: int, calls: int, threads: int) -> dict[str, Any]:
    import torch
    from torch._dynamo.backends.common import aot_autograd

    import pylayout as pl
    import pylayout.torch
    from pylayout._load import lib

    torch._dynamo.reset()
    pylayout.torch.reset()
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(max(1, weights // 2)))).eval()
    x = torch.ones(4, 8)
    with torch.no_grad():
        result = model(x)
        fast = _compiled(model, backend="pylayout", options={"threads": threads, "deterministic": True})
        nothing = _compiled(model, backend=aot_autograd(fw_compiler=lambda module, inputs: _Nothing(result)))
        torch.testing.assert_close(fast(x), result)
        (plan,) = pylayout.torch.report().graphs[0].plans
        destination = torch.empty_like(result)
        memory = [x.data_ptr()], 1, [destination.data_ptr()], 1
        runs: dict[str, Callable[[], Any]] = {
            "call": lambda: fast(x),
            "PyTorch": lambda: nothing(x),
            "plan": lambda: lib.pyl_plan_run(plan._handle, *memory),
        }
        times: dict[str, list[float]] = {name: [] for name in runs}
        for turn in range(calls + 100):
            for name, run in runs.items():
                begin = time.perf_counter()
                run()
                if turn >= 100:
                    times[name].append(1e6 * (time.perf_counter() - begin))
        pl.synchronize()
        torch.testing.assert_close(destination, result)
    us = {name: round(statistics.median(each), 2) for name, each in times.items()}
    over = statistics.median(call - torch_part - plan for call, torch_part, plan in zip(*times.values(), strict=True))
    return {"weights": weights, "us": us, "over": round(over, 2)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", nargs="*", type=int, default=[2, 60, 240])
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    rows = [measure(weights, options.calls, options.threads) for weights in options.weights]
    headings = ["weights", "call, us", "PyTorch", "plan", "over the plan"]
    table = Table(headings, right=headings)
    for row in rows:
        table.add(str(row["weights"]), *(f"{us:.1f}" for us in row["us"].values()), f"{row['over']:.1f}")
    print(table.render())
    if options.json:
        write(options.json, "torch_overhead", rows, threads=options.threads)


if __name__ == "__main__":
    main()
