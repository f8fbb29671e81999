"""Seconds until the first result of a network, in processes of their own whose caches are empty.

    python -m bench.first_result resnet50 bert.onnx --device opencl:0 --seconds off 2 8 default

A row is one way to compile: `off` measures nothing, a number is `pl.compile(seconds=...)`, `live` is `tune="live"`,
`default` is what `pl.compile` does by itself. Empty are pylayout's cache and the driver's own (NVIDIA's). `start` is
Python's and the package's, `steady` the median of later runs in ms. Networks are torchvision's, or ONNX files without
named axes.

    python -m bench.first_result resnet50 --device opencl:0 --live

How plans get faster in their runs: `tune="live"` beside `seconds=8`, each in a process of its own that goes on
running. For each moment after the first result: the median of a second's runs, the longest of all runs since the moment
before as a multiple of that median, how many took over twice the median, and what was spent of the time. `regret` is
what all runs took longer than as many of the best moment's median would have, as a part of the time.
--seconds: other ways than these two. --no-tables: without the tables of costs that come with the package.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pylayout.cli.terminal import Table, ms_text

from .fresh import run_fresh
from .record import write

RUNS = 60  # behind the first
MOMENTS = [1, 5, 10, 25, 60]  # seconds after the first result
OVER = 20  # runs over twice the median that a row names, as seconds and multiples


def run_here(model: str, device: str, how: str, began: float, moments: list[float], tables: bool) -> None:
    """In a process of its own, which was started at `began` by the clock; goes on running until the last moment."""
    import numpy as np

    import pylayout as pl

    imported = time.time()
    pl.configure(cost_tables=tables)
    options: dict[str, Any] = {}
    if how in ("off", "live"):
        options["tune"] = how
    elif how != "default":
        options["seconds"] = float(how)
    plan = pl.compile(model, device=device, **options)
    compiled = time.time()
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(entry["shape"]).astype("f4")
        if entry["dtype"] == "f32"
        else rng.integers(0, 2, entry["shape"])
        for entry in plan.inputs
    ]
    for result in plan.run(*arrays):
        np.asarray(result)
    first = time.time()
    tensors = [pl.asarray(array, device=device) for array in arrays]
    row = {"start_s": imported - began, "compile_s": compiled - imported, "run_s": first - compiled}
    row["first_s"] = first - began
    if moments:
        print(json.dumps(row | run_on(plan, tensors, device, moments)))
        return
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        plan(*tensors)
        pl.synchronize(device)
        times.append(1e3 * (time.perf_counter() - start))
    print(json.dumps(row | {"steady_ms": statistics.median(times)}))


def run_on(plan: Any, tensors: list[Any], device: str, moments: list[float]) -> dict[str, Any]:
    """Run until the last of these moments, in s from now; of each what the module says."""
    import pylayout as pl

    begin = time.perf_counter()
    found: dict[str, Any] = {"moments": []}
    times: list[tuple[float, float]] = []  # when it began, in s, and what it took, in ms
    runs, taken = 0, 0.0
    for moment in moments:
        times = []
        while (start := time.perf_counter() - begin) < moment:
            plan(*tensors)
            pl.synchronize(device)
            times.append((start, 1e3 * (time.perf_counter() - begin - start)))
        last = [ms for start, ms in times if start >= moment - 1] or [times[-1][1]]
        tuning = plan.summary()["tuning"]
        median = statistics.median(last)
        longest = max(ms for _, ms in times) / median
        over = [[round(start, 3), round(ms / median, 2)] for start, ms in times if ms > 2 * median]
        row = {"s": moment, "ms": median, "longest": longest, "spent_ms": tuning["spent_ms"], "state": tuning["state"]}
        found["moments"].append(row | {"runs": len(times), "over_twice": len(over), "over": over[:OVER]})
        runs, taken = runs + len(times), taken + sum(ms for _, ms in times)
    least = min(moment["ms"] for moment in found["moments"])
    found["regret"] = (taken - runs * least) / taken
    # As long as it is left alone: queued runs, without waiting for each.
    begin = time.perf_counter()
    for _ in range(RUNS):
        plan(*tensors)
    pl.synchronize(device)
    found["queued_ms"] = 1e3 * (time.perf_counter() - begin) / RUNS
    found["tried"] = plan.summary()["tuning"]["tried"]
    found["contestants"] = plan.summary()["contestants"]
    return found


def exported(network: str, folder: Path) -> str:
    """The network as an ONNX file."""
    if network.endswith(".onnx"):
        return network
    import torch

    from . import torchvision_models

    path = folder / f"{network}.onnx"
    images = torchvision_models.images_for(network, 1)
    torch.onnx.export(torchvision_models.build(network), (images,), str(path), dynamo=False, opset_version=17)
    return str(path)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("networks", nargs="+", metavar="NETWORK|FILE.onnx")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", nargs="+", metavar="off|live|default|SECONDS", help="default: default")
    parser.add_argument("--live", action="store_true", help="how tune=live gets faster, beside seconds=8")
    parser.add_argument("--moments", nargs="+", type=float, default=MOMENTS, metavar="S")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--no-tables", dest="tables", action="store_false", help="no tables of costs")
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.began:
        moments = options.moments if options.live else []
        run_here(options.networks[0], options.device, options.seconds[0], options.began, moments, options.tables)
        return
    ways = options.seconds or (["live", "8"] if options.live else ["default"])
    rows = []
    table = Table(
        ["network", "compile", "start s", "compile s", "first result s", *(["steady"] if not options.live else [])]
    )
    later = Table(["network", "compile", "after s", "median", "longest run, medians", "over two", "spent ms", "state"])
    with tempfile.TemporaryDirectory() as folder:
        for network in options.networks:
            model = exported(network, Path(folder))
            for how in ways:
                here = [model, "--device", options.device, "--seconds", how, "--began", str(time.time())]
                here += [] if options.tables else ["--no-tables"]
                if options.live:
                    here += ["--live", "--moments", *map(str, options.moments)]
                row = {"network": Path(network).stem, "how": how, **json.loads(run_fresh("first_result", here))}
                rows.append(row)
                seconds = [f"{row[key]:.2f}" for key in ("start_s", "compile_s", "first_s")]
                table.add(network, how, *seconds, *([ms_text(row["steady_ms"])] if not options.live else []))
                for moment in row.get("moments", []):
                    later.add(
                        network,
                        how,
                        f"{moment['s']:g}",
                        ms_text(moment["ms"]),
                        f"{moment['longest']:.2f}",
                        f"{moment['over_twice']} of {moment['runs']}",
                        f"{moment['spent_ms']:.0f}",
                        moment["state"],
                    )
    print(table.render())
    if options.live:
        print(later.render())
        for row in rows:
            queued = f"{row['queued_ms']:.3f} ms a run where many are queued"
            regret = f"regret {100 * row['regret']:.1f} %"
            print(f"{row['network']}, {row['how']}: {queued}; {row['tried']} tried; {regret}")
    if options.json:
        write(options.json, "first_result", rows, device=options.device)


if __name__ == "__main__":
    main()
