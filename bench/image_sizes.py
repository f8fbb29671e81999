"""One plan for every image size and batch, beside plans of fixed sizes, ONNX Runtime and OpenVINO.

    python -m bench.image_sizes resnet18 mobilenet_v2 espcn_x3 unet

Fully convolutional networks. First calls: the 95th percentile over `--sizes` images of sizes never seen, and over
batches not seen. Steady: median times of the engines in turns at a few of those; `static` is a plan compiled for that
size alone.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pylayout as pl
from pylayout.cli.terminal import Table

from . import generators, super_resolution, torchvision_models
from .engines import onnxruntime_session, openvino_model
from .record import write
from .turns import relative_error, take_turns

NETWORKS = ["resnet18", "mobilenet_v2", "espcn_x3", "unet"]


def module_of(network: str) -> Any:
    import torch
    from torch import nn

    if network == "unet":
        torch.manual_seed(1)
        return generators.unet().eval()
    if network in super_resolution.NETWORKS:
        return super_resolution.build(network)
    whole = torchvision_models.build(network)
    return whole.features if hasattr(whole, "features") else nn.Sequential(*list(whole.children())[:-2])


def export(network: str, path: Path) -> None:
    import torch

    channels = 1 if network in super_resolution.NETWORKS else 3
    axes = {0: "n", 2: "h", 3: "w"}
    with torch.no_grad():
        torch.onnx.export(
            module_of(network),
            (torch.rand(1, channels, 64, 64),),
            str(path),
            dynamo=False,
            opset_version=17,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": axes, "y": axes},
        )


def _first_calls(runs: list[Callable[[], Any]]) -> float:
    """The 95th percentile of seconds."""
    times = []
    for run in runs:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[min(len(times) - 1, int(0.95 * len(times)))]


def measure(path: Path, options: Any) -> list[dict[str, Any]]:
    session = onnxruntime_session(path, options.threads)
    channels = session.get_inputs()[0].shape[1]
    request = openvino_model(path, options.threads).create_infer_request()
    keywords: dict[str, Any] = {"device": "cpu", "threads": options.threads, "tune": options.tune}
    plan = pl.compile(str(path), shapes={"x": (1, channels, 128, 128)}, **keywords)
    rng = np.random.default_rng(0)

    def images(n: int, h: int, w: int) -> Any:
        return rng.standard_normal((n, channels, h, w), dtype="f4")

    engines: dict[str, Callable[[Any], Any]] = {
        "late": lambda x: plan.run(x)[0],
        "onnxruntime": lambda x: session.run(None, {"x": x})[0],
        "openvino": lambda x: request.infer([x])[0],
    }
    sides = rng.permutation([(h, w) for h in range(64, 257, 8) for w in range(64, 257, 8)])
    unseen = {
        "sizes": [images(1, int(h), int(w)) for h, w in sides[: options.sizes]],
        "batches": [images(int(n), 64, 64) for n in rng.permutation(np.arange(1, 17))],
    }
    rows = []
    for kind, some in unseen.items():
        first = {
            name: _first_calls([lambda x=x, run=run: run(x) for x in some])  # type: ignore[misc]
            for name, run in engines.items()
        }
        for x in some[: options.steady]:
            static = pl.compile(str(path), shapes={"x": x.shape}, **keywords)
            steady = take_turns(
                {name: lambda run=run, x=x: run(x) for name, run in engines.items()}  # type: ignore[misc]
                | {"static": lambda static=static, x=x: static.run(x)[0]},  # type: ignore[misc]
                options.rounds,
            )
            row: dict[str, Any] = {"of": kind, "shape": list(x.shape)}
            row |= {f"first_{name}_s": seconds for name, seconds in first.items()}
            row |= {f"{name}_ms": ms for name, ms in steady.items()}
            row["error"] = relative_error(plan.run(x)[0], session.run(None, {"x": x})[0])
            rows.append(row)
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="|".join(NETWORKS))
    parser.add_argument("--sizes", type=int, default=20, help="image sizes never seen")
    parser.add_argument("--steady", type=int, default=3, help="of these, and of the batches, so many run steadily")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tune", default="off", help="of both plans; by default neither measures")
    parser.add_argument("--files", type=Path, help="a folder that keeps the ONNX files")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    table = Table(
        ["network", "shape", "first ms, 95th", "ORT", "OpenVINO", "late ms", "late/static", "peer/late", "error"]
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for network in options.networks:
            path = (options.files or Path(folder)) / f"late_{network}.onnx"
            if not path.exists():
                export(network, path)
            for row in measure(path, options):
                rows.append({"network": network, **row})
                first = [f"{1e3 * row[f'first_{name}_s']:.0f}" for name in ("late", "onnxruntime", "openvino")]
                ms, peer = row["late_ms"], min(row["onnxruntime_ms"], row["openvino_ms"])
                steady = [f"{ms:.2f}", f"{ms / row['static_ms']:.2f}", f"{peer / ms:.2f}", f"{row['error']:.0e}"]
                table.add(network, "x".join(map(str, row["shape"])), *first, *steady)
    print(table.render())
    if options.json:
        write(options.json, "image_sizes", rows, device="cpu")


if __name__ == "__main__":
    main()
