"""Networks on a GPU: pylayout's plans against PyTorch's cuDNN, eager and in a CUDA graph, in one process.

    python -m bench.gpu_models resnet50 mobilenet_v2 --batch 16 64 --math fp32 tf32 fp16 --json out.json
    python -m bench.gpu_models bert gpt2 llama --batch 1 8 --math fp16 --compiled

Each engine has its input on the device and leaves its output there; a time is from the call until the device is done.
PyTorch's algorithms are chosen by measurement (cudnn.benchmark); fp16 is half precision, images and clips of video
channels last.
--compiled: a peer more, torch.compile in the mode "reduce-overhead" (fused kernels in a CUDA graph). Errors are of the
whole output against PyTorch in double precision, as a ratio of norms. The last lines are geometric means of the
better peer's time over pylayout's: above 1, pylayout is faster.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pylayout as pl
from pylayout.cli.terminal import Table, ms_text

from .gpu import add_device, device_of
from .model_files import NETWORKS, input_of, module_of
from .record import write
from .torchvision_models import write_onnx
from .turns import relative_error, take_turns

SEEDS = ["alexnet", "resnet18", "resnet50", "vgg16", "mobilenet_v2"]


def ours(path: str, x: Any, math: str, options: argparse.Namespace) -> Callable[[], Any]:
    plan = pl.compile(path, device=options.device, math=math, seconds=options.seconds)
    given = pl.asarray(x.numpy(), device=options.device)

    def run() -> Any:
        result = plan(given)
        pl.synchronize(options.device)
        return result

    return run


def replayed(torch: Any, module: Any, given: Any) -> Callable[[], Any]:
    """Runs a CUDA graph of the module; raises RuntimeError where it cannot be captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(given)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = module(given)

    def replay() -> Any:
        graph.replay()
        torch.cuda.synchronize()
        return captured

    return replay


def theirs(torch: Any, module: Any, x: Any, math: str, compiled: bool = False) -> dict[str, Callable[[], Any]]:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = math != "fp32"
    torch.backends.cudnn.benchmark = True
    module, given = module.cuda(), x.cuda()
    if math == "fp16":
        form = torch.channels_last_3d if given.ndim == 5 else torch.channels_last
        module = module.half().to(memory_format=form)
        if given.is_floating_point():
            given = given.half().to(memory_format=form)

    def until_done(call: Callable[[Any], Any]) -> Callable[[], Any]:
        def run() -> Any:
            result = call(given)
            torch.cuda.synchronize()
            return result

        return run

    engines = {"cudnn": until_done(module)}
    try:
        engines["cudnn_graph"] = replayed(torch, module, given)
    except RuntimeError as problem:  # Swin v2 copies from the host on its way
        print(f"  no CUDA graph: {problem}", flush=True)
    if compiled:
        engines["compiled"] = until_done(torch.compile(module, mode="reduce-overhead"))
    return engines


def rows_of(torch: Any, network: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    import copy

    module = module_of(network)
    rows = []
    for batch in options.batch:
        x = input_of(network, batch)
        where = "cuda" if torch.cuda.is_available() else "cpu"
        doubled = x.double() if x.is_floating_point() else x
        exact = copy.deepcopy(module).double().to(where)(doubled.to(where)).float().cpu().numpy()
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.onnx")
            write_onnx(module, x, Path(path))
            for math in options.math:
                start = time.perf_counter()
                engines = {"plan": ours(path, x, math, options)}
                row: dict[str, Any] = {"network": network, "batch": batch, "math": math}
                row["compile_s"] = round(time.perf_counter() - start, 1)
                if options.peers:
                    engines.update(theirs(torch, copy.deepcopy(module), x, math, options.compiled))
                row["error"] = {name: relative_error(run(), exact) for name, run in engines.items()}
                row["ms"] = take_turns(engines, options.rounds)
                peers = [ms for name, ms in row["ms"].items() if name != "plan"]
                if peers:
                    row["ratio"] = round(min(peers) / row["ms"]["plan"], 3)
                rows.append(row)
                print(json.dumps(row), flush=True)
                del engines
                torch.cuda.empty_cache()
    return rows


def rows_or_reason(torch: Any, network: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    try:
        return rows_of(torch, network, options)
    except RuntimeError as problem:  # one network must not cost the others
        print(f"  left out: {network}: {problem}", flush=True)
        return []


def complete(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse names that are no networks; the device is the first GPU if none was given."""
    for name in options.networks:
        if name not in NETWORKS:
            parser.error(f"no network named {name!r}, expected one of {', '.join(NETWORKS)}")
    options.device = device_of(options)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=SEEDS)
    parser.add_argument("--batch", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--math", nargs="+", default=["fp32"], choices=("fp32", "tf32", "fp16"))
    add_device(parser)
    parser.add_argument("--seconds", type=float, default=60.0, help="for measuring, of one compilation (default 60)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="time pylayout alone")
    parser.add_argument("--compiled", action="store_true", help="torch.compile as a peer, too")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    complete(parser, options)
    import torch

    if options.peers and not torch.cuda.is_available():
        print("needs PyTorch for CUDA, or --no-peers")
        return
    torch.set_grad_enabled(False)
    rows = [row for name in options.networks for row in rows_or_reason(torch, name, options)]
    table = Table(("network", "batch", "math", "plan", "cudnn", "graph", "compiled", "ratio", "error", "its error"))
    for row in rows:
        engines = ("plan", "cudnn", "cudnn_graph", "compiled")
        times = [ms_text(row["ms"][name]) if name in row["ms"] else "-" for name in engines]
        cells = [row["network"], str(row["batch"]), row["math"], *times, str(row.get("ratio", "-"))]
        table.add(*cells, f"{row['error']['plan']:.1e}", f"{row['error'].get('cudnn', float('nan')):.1e}")
    table.print()
    for math in options.math:
        ratios = [row["ratio"] for row in rows if row["math"] == math and "ratio" in row]
        if ratios:
            print(f"{math}: {statistics.geometric_mean(ratios):.3f} over {len(ratios)} rows, least {min(ratios)}")
    if options.json:
        write(options.json, "gpu_models", rows, device=options.device)


if __name__ == "__main__":
    main()
