"""Engines that run a network, each in a process of its own, taking turns.

No engine's idle threads spin under another's run, and a machine whose speed drifts slows all alike: in every round each
engine takes one turn, in a shuffled order. A turn is a run that is thrown away, then a few that count.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Engine", "onnxruntime_session", "openvino_model", "prepare", "take_turns"]

_LEAST_WARM_UP = 10  # runs


@dataclass
class Engine:
    """A worker process and what it measured."""

    name: str
    process: Any
    pipe: Any
    times: list[float] = field(default_factory=list)  # ms, one a turn
    error: float | None = None  # relative L2 distance to the reference
    problem: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ms(self) -> float:
        return statistics.median(self.times)


def _pylayout_runner(name: str, options: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], dict[str, Any]]]:
    import pylayout
    from pylayout.networks import Network
    from pylayout.policy_results import split_events

    from .turns import run_until_settled

    pylayout.set_threads(options["threads"])
    weights = dict(np.load(options["weights"]))
    network = Network(options["network"], weights, device=options["device"])
    images = np.load(options["images"])
    policy = name.partition(":")[2]

    def run() -> Any:
        y = network(pylayout.asarray(images, device=options["device"]), layout=policy)
        pylayout.synchronize(options["device"])
        return y

    if policy == "auto":  # tries whole chains in several layouts, or on a GPU single ops, then settles
        for _ in range(_LEAST_WARM_UP):
            run()
        run_until_settled(lambda: np.asarray(run()))

    def details() -> dict[str, Any]:
        splits = []
        for _ in range(5):
            with pylayout.profile() as recording:
                run()
            splits.append(split_events(recording.events))
        return {
            "op_ms": round(statistics.median(split.op_ms for split in splits), 4),
            "reorder_ms": round(statistics.median(split.reorder_ms for split in splits), 4),
            "reorders": splits[-1].activations[0] + splits[-1].weights[0],
        }

    return run, details


def _torch_runner(name: str, options: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], dict[str, Any]]]:
    import torch

    from . import torchvision_models
    from .model_files import module_of

    torch.set_num_threads(options["threads"])
    torch.set_grad_enabled(False)
    if "weights" in options:
        module = getattr(torchvision_models.import_torchvision(), options["network"])().eval()
        weights = np.load(options["weights"])
        module.load_state_dict({key: torch.from_numpy(weights[key]) for key in weights}, strict=False)
    else:
        module = module_of(options["network"])
    x = torch.from_numpy(np.load(options["images"]))
    if name == "torch:channels_last" and x.ndim == 4:
        module = module.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    return lambda: module(x), dict


def _kinds_ms(run: Callable[[], Any]) -> dict[str, float]:
    """Milliseconds by kind of op, of the fastest of five profiled runs."""
    import pylayout

    runs: list[dict[str, float]] = []
    for _ in range(5):
        with pylayout.profile() as recording:
            run()
        kinds: dict[str, float] = {}
        for event in recording.events:
            kinds[event["op"]] = kinds.get(event["op"], 0.0) + event["ms"]
        runs.append(kinds)
    fastest = min(runs, key=lambda kinds: sum(kinds.values()))
    return {kind: round(ms, 4) for kind, ms in sorted(fastest.items())}


def _plan_runner(name: str, options: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], dict[str, Any]]]:
    import pylayout

    plan = pylayout.compile(
        options["model"], device=options["device"], threads=options["threads"], seconds=options["compile_seconds"]
    )
    images = np.load(options["images"])

    def details() -> dict[str, Any]:
        summary = plan.summary()
        return {
            "kinds_ms": _kinds_ms(lambda: plan.run(images)),
            "reorders": summary["reorders"]["count"],
            "slices": summary["slices"],
            "streams": summary["streams"],
            "compile_seconds": round(summary["seconds"], 1),
        }

    return lambda: plan.run(images)[0], details


def onnxruntime_session(model: str | Path, threads: int) -> Any:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(model), settings, providers=["CPUExecutionProvider"])


def openvino_model(model: str | Path, threads: int, **more: str) -> Any:
    """Compiled for float32; `more`: settings."""
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", **more}
    return core.compile_model(core.read_model(model), "CPU", settings)


def _onnxruntime_runner(name: str, options: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], dict[str, Any]]]:
    session = onnxruntime_session(options["model"], options["threads"])
    inputs = {session.get_inputs()[0].name: np.load(options["images"])}
    return lambda: session.run(None, inputs)[0], dict


def _openvino_runner(name: str, options: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], dict[str, Any]]]:
    model = openvino_model(options["model"], options["threads"], PERFORMANCE_HINT="LATENCY")
    request, output, images = model.create_infer_request(), model.output(0), np.load(options["images"])
    return lambda: request.infer([images])[output], dict


# By what stands before a colon in an engine's name.
_RUNNERS = {
    "pylayout": _pylayout_runner,
    "torch": _torch_runner,
    "plan": _plan_runner,
    "onnxruntime": _onnxruntime_runner,
    "openvino": _openvino_runner,
}


def _serve(pipe: Any, name: str, options: dict[str, Any]) -> None:
    """A worker: builds its engine, warms up, then takes a turn each time it is asked."""
    try:
        run, details = _RUNNERS[name.partition(":")[0]](name, options)
        start, warm_up = time.monotonic(), 0
        # pylayout measures candidates in its first runs, and learns from them who uses which result.
        while warm_up < _LEAST_WARM_UP or time.monotonic() - start < options["warm_up_seconds"]:
            y = run()
            np.asarray(y)
            warm_up += 1
        reference = np.load(options["reference"])
        error = float(np.linalg.norm(np.asarray(y) - reference) / np.linalg.norm(reference))
    except Exception as problem:  # told to the parent, which leaves this engine out
        pipe.send(("failed", f"{type(problem).__name__}: {problem}"))
        return
    pipe.send(("ready", error))
    while (message := pipe.recv()) != "stop":
        if message == "details":
            pipe.send(details())
            continue
        run()
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            run()
            times.append((time.perf_counter() - begin) * 1e3)
        pipe.send(statistics.median(times))


def _signal(engine: Engine, number: int) -> None:
    if engine.process.pid is not None:
        os.kill(engine.process.pid, number)


def take_turns(names: list[str], options: dict[str, Any], rounds: int, seconds: float) -> list[Engine]:
    """Start the engines, let them take turns, end them; those that failed to start have a `problem`."""
    context = multiprocessing.get_context("spawn")
    engines = []
    for name in names:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, name, options), daemon=True)
        process.start()
        theirs.close()
        engine = Engine(name, process, ours)
        try:
            state, detail = ours.recv()  # one at a time: their warm-ups must not disturb each other
        except EOFError:
            state, detail = "failed", "its process died"
        if state == "ready":
            engine.error = detail
        else:
            engine.problem = detail
        engines.append(engine)
    running = [engine for engine in engines if not engine.problem]
    start = time.monotonic()
    # Those whose turn it is not are stopped: threads of some spin on for longer than a turn takes.
    for engine in running:
        _signal(engine, signal.SIGSTOP)
    try:
        for turn in range(rounds):
            if turn >= 3 and time.monotonic() - start > seconds:
                break
            for engine in random.sample(running, len(running)):
                _signal(engine, signal.SIGCONT)
                engine.pipe.send("turn")
                engine.times.append(engine.pipe.recv())
                _signal(engine, signal.SIGSTOP)
    finally:
        for engine in running:
            _signal(engine, signal.SIGCONT)
    for engine in running:
        engine.pipe.send("details")
        engine.details = engine.pipe.recv()
        engine.pipe.send("stop")
    for engine in engines:
        engine.process.join(20)
    return engines


def prepare(network: str, batch: int, folder: Path) -> dict[str, Any]:
    """Draw weights and images, compute the reference in NumPy; returns their files as options of the engines."""
    from pylayout import image
    from pylayout.networks import NETWORKS
    from pylayout.networks.reference import ReferenceLayers
    from pylayout.networks.weights import seeded

    weights = seeded(NETWORKS[network])
    images = np.concatenate([image.synthetic(seed=i) for i in range(batch)])
    files = {key: str(folder / f"{key}.npy") for key in ("images", "reference")}
    files["weights"] = str(folder / "weights.npz")
    np.save(files["images"], images)
    np.save(files["reference"], NETWORKS[network](ReferenceLayers(weights), images))
    np.savez(files["weights"], **weights)
    return {**files, "network": network}
