"""One engine in a process of its own, which takes a turn each time that it is asked.

Run as a script and not as a module of the package, so that a peer's process holds the peer alone: no other library's
threads, allocator or copy of oneDNN. Imports nothing of pylayout but in pylayout's own process.

    python worker.py ENGINE FD REQUEST.json

REQUEST.json: model (path), shapes (of inputs, by name), axes (sizes of named ones), order (of the inputs), inputs and
outputs (.npz files), threads, and pylayout's device, layout, tune and tune_seconds.
Over the socket FD go pickled tuples. To the parent: ("ready", facts), ("failed", why), ("times", [ms]); to the worker:
("turn", least runs, ms, most runs).
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["PEERS", "missing"]

# The packages that an engine needs, by the names to import and to install them.
PEERS = {
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
    "torch": ("torch", "onnx2torch"),
}

Run = Callable[[], list[Any]]  # one run on the inputs, which gives the outputs as arrays

# The first runs of an engine allocate, and some choose: they are not measured. At least so many, for so long.
WARM_UP_RUNS = 3
WARM_UP_SECONDS = 0.5


def missing(peer: str) -> str | None:
    """Why a peer cannot run here; None where its packages are installed."""
    for package in PEERS[peer]:
        if importlib.util.find_spec(package) is None:
            reads = ", which reads ONNX files for torch," if package == "onnx2torch" else ""
            return f"the package {package}{reads} is not installed: pip install {package}"
    return None


def _start_pylayout(request: dict[str, Any], inputs: dict[str, Any]) -> Run:
    import pylayout

    plan = pylayout.compile(
        request["model"],
        device=request["device"],
        layout=request["layout"],
        threads=request["threads"],
        tune=request["tune"],
        seconds=request["tune_seconds"],
        shapes=request["shapes"],
    )
    arrays = [inputs[item["name"]] for item in plan.inputs]
    return lambda: plan.run(*arrays)


def _start_onnxruntime(request: dict[str, Any], inputs: dict[str, Any]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = request["threads"]
    for axis, size in request["axes"].items():  # known sizes let it fold and plan memory, as the others do
        options.add_free_dimension_override_by_name(axis, size)
    session = onnxruntime.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"])

    def run() -> list[Any]:
        return list(session.run(None, inputs))

    return run


def _start_openvino(request: dict[str, Any], inputs: dict[str, Any]) -> Run:
    import openvino

    core = openvino.Core()
    model = core.read_model(request["model"])
    model.reshape({name: list(array.shape) for name, array in inputs.items()})
    settings = {
        "INFERENCE_NUM_THREADS": request["threads"],
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",  # else bfloat16 where the processor has it: another accuracy
    }
    compiled = core.compile_model(model, "CPU", settings)
    runner = compiled.create_infer_request()

    def run() -> list[Any]:
        results = runner.infer(inputs, share_inputs=True, share_outputs=True)
        return [results[i] for i in range(len(compiled.outputs))]

    return run


def _start_torch(request: dict[str, Any], inputs: dict[str, Any]) -> Run:
    import onnx2torch
    import torch

    torch.set_num_threads(request["threads"])
    module = onnx2torch.convert(request["model"]).eval()
    tensors = [torch.from_numpy(inputs[name]) for name in request["order"]]

    def run() -> list[Any]:
        with torch.inference_mode():
            results = module(*tensors)
        return [result.numpy() for result in (results if isinstance(results, (list, tuple)) else [results])]

    return run


_START = {
    "pylayout": _start_pylayout,
    "onnxruntime": _start_onnxruntime,
    "openvino": _start_openvino,
    "torch": _start_torch,
}


def _prepare(engine: str, request: dict[str, Any]) -> tuple[Run, dict[str, Any]]:
    import numpy

    with numpy.load(request["inputs"]) as file:
        inputs = {name: file[f"arr_{i}"] for i, name in enumerate(request["order"])}
    began = time.perf_counter()
    run = _START[engine](request, inputs)
    outputs = run()
    facts = {"load_seconds": time.perf_counter() - began, "version": sys.modules[engine].__version__}
    wide = [numpy.asarray(array) for array in outputs]
    wide = [array if array.dtype.kind in "biuf" else array.astype("float32") for array in wide]  # bfloat16
    numpy.savez(request["outputs"], *wide)
    began, done = time.perf_counter(), 1
    while done < WARM_UP_RUNS or time.perf_counter() - began < WARM_UP_SECONDS:
        run()
        done += 1
    return run, facts


def _turn(run: Run, least_runs: int, ms: float, most_runs: int) -> list[float]:
    """Times of runs in a row, ms, after one that brings the engine's weights into the caches."""
    run()
    times: list[float] = []
    while len(times) < least_runs or (sum(times) < ms and len(times) < most_runs):
        began = time.perf_counter()
        run()
        times.append((time.perf_counter() - began) * 1e3)
    return times


def main(engine: str, descriptor: str, request_file: str) -> None:
    from multiprocessing.connection import Connection

    pipe = Connection(int(descriptor))
    try:
        with open(request_file, encoding="utf-8") as file:  # noqa: PTH123
            request = json.load(file)
        run, facts = _prepare(engine, request)
        pipe.send(("ready", facts))
    except Exception as error:  # any error of any library: the parent leaves this engine out and says so
        pipe.send(("failed", f"{type(error).__name__}: {error}"))
        return
    try:
        while True:
            _, *limits = pipe.recv()
            pipe.send(("times", _turn(run, *limits)))
    except EOFError:  # the parent has gone
        return


if __name__ == "__main__":
    sys.path.pop(0)  # this file's own folder
    main(*sys.argv[1:])
