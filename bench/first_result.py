"""Seconds until the first result of a network, in processes of their own whose caches are empty.

    python -m bench.first_result resnet50 bert.onnx --device opencl:0 --seconds off 2 8 default

A row is one way to compile: `off` measures nothing, a number is `pl.compile(seconds=...)`, `default` is what
`pl.compile` does by itself. Empty are pylayout's cache and the driver's own (NVIDIA's). `start` is Python's and the
package's, `steady` the median of later runs in ms. Networks are torchvision's, or ONNX files without named axes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pylayout.cli.terminal import Table, ms_text

from .record import write

RUNS = 60  # behind the first


def run_here(model: str, device: str, how: str, began: float) -> None:
    """In a process of its own, which was started at `began` by the clock."""
    import numpy as np

    import pylayout as pl

    imported = time.time()
    options: dict[str, Any] = {}
    if how == "off":
        options["tune"] = "off"
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
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        plan(*tensors)
        pl.synchronize(device)
        times.append(1e3 * (time.perf_counter() - start))
    row = {"start_s": imported - began, "compile_s": compiled - imported, "run_s": first - compiled}
    print(json.dumps(row | {"first_s": first - began, "steady_ms": statistics.median(times)}))


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
    parser.add_argument("--seconds", nargs="+", default=["default"], metavar="off|default|SECONDS")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.began:
        run_here(options.networks[0], options.device, options.seconds[0], options.began)
        return
    rows = []
    table = Table(["network", "compile", "start s", "compile s", "first result s", "steady"])
    with tempfile.TemporaryDirectory() as folder:
        for network in options.networks:
            model = exported(network, Path(folder))
            for how in options.seconds:
                with tempfile.TemporaryDirectory() as cache:
                    caches = {"PYLAYOUT_CACHE_DIR": cache + "/own", "CUDA_CACHE_PATH": cache + "/driver"}
                    command = [sys.executable, "-m", "bench.first_result", model, "--device", options.device]
                    command += ["--seconds", how, "--began", str(time.time())]
                    done = subprocess.run(command, env={**os.environ, **caches}, stdout=subprocess.PIPE, check=True)
                row = {"network": network, "how": how, **json.loads(done.stdout.splitlines()[-1])}
                rows.append(row)
                seconds = [f"{row[key]:.2f}" for key in ("start_s", "compile_s", "first_s")]
                table.add(network, how, *seconds, ms_text(row["steady_ms"]))
    print(table.render())
    if options.json:
        write(options.json, "first_result", rows, device=options.device)


if __name__ == "__main__":
    main()
