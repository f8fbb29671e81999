"""compile: a plan of whatever describes a program: a Graph, an ONNX model, a module of PyTorch."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import ArgumentTypeError, Error, FileError, InvalidArgumentError, ShapeError, UnsupportedError
from .graph import Graph
from .plan import Plan, Progress, compile_graph, path_bytes, read_plan
from .sizes import axis_sizes, is_integer

__all__ = ["compile", "load_plan"]


def compile(
    model: Any,
    example: Any = None,
    *,
    dynamic: Any = None,
    device: str = "auto",
    layout: str = "auto",
    threads: int | None = None,
    tune: str | None = None,
    seconds: float | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
    slice: int | Mapping[str, int] | None = None,
    streams: int | None = None,
    math: str | None = None,
    memory_limit: int | None = None,
    program_memory: int | None = None,
    submit: str | None = None,
    deterministic: bool = False,
    simplify: bool = True,
    without: str | Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Compile a Graph, an ONNX file, an `onnx.ModelProto`, a `torch.nn.Module` or a `torch.export.ExportedProgram`.

    example: of a module, the arguments that it is called with, as a tuple, or as a dict of keywords; it is exported by
    `torch.export`, and the plan needs no PyTorch. dynamic: None for the example's sizes; True, or what
    `torch.export.export` calls dynamic_shapes, for others, for which the plan is compiled again, with PyTorch. An
    ExportedProgram has both already, and is given alone.
    device: "auto" (a GPU if there is one, else the CPU), "cpu", "opencl:0"... layout: "auto", or one to force for
    comparison. threads: of ops on the CPU; default: the context's. tune: "auto" measures nothing here on the CPU and on
    GPUs: known costs and estimates decide, then other programs compete with the plan in its runs, for 5% of their time
    at most, until `plan.settled()`; of a step of training on a GPU, and on OpenCL devices that are no GPUs, it measures
    before. "live" never does; "off" is the same without competitors; "full" measures every candidate before the first
    run. seconds: given, "auto" measures what matters before the first run, too, for so long (default where it measures
    before: 60; 0: no limit); not with "live". deterministic: nothing competes in runs, as after
    `plan.freeze()`. What was chosen is kept on disk, and taken when "auto" compiles the same graph again.
    shapes: of a model's inputs, by name; sizes: of axes that it names; values: arrays that make inputs constants.
    slice, streams: images at a time and slices at the same time; default: chosen by measurement.
    What is left of the batch when no `streams` slices remain is run at once, on all threads.
    slice may be several, by the node (of `g.simplify()`) from which on they hold: {"": 1, "layer3.0.conv1": 8}.
    math: "fp32", "tf32" where the factors of products may be rounded, or "fp16" or "bf16" where values between inputs
    and outputs may be held so if the device gains by it (beyond 65504 those of f16 are infinite); states, their updates
    and losses stay f32. memory_limit: bytes of what the plan
    needs beside inputs and outputs: values between these, weights as kernels want them, states. To keep it a batch is
    run in smaller slices, values are made again in the backward pass of a step of training, and implementations are
    taken that need less memory for themselves or for their weights; OutOfMemoryError says what is the least.
    program_memory: where axes have names, bytes that programs for other sizes than the first may take, beside weights
    and the memory that they share (default: 32 MiB, or a twentieth of the weights where that is more); of more, the one
    that was not used for longest is let go when its runs have ended, and made again when it is needed.
    submit: which thread submits kernels to an OpenCL driver: "caller" (default), the calling one, within the run, or
    "thread", one of the library's where the device has one (PYLAYOUT_SUBMIT), for callers with other work between runs.
    simplify: run the passes, but those named in `without`; "strided_views" there keeps parts of tensors from being read
    or written where they lie with strides, "in_place" results from taking the memory of what is read for the last time,
    "widen" values of f16 and bf16 from being held as f32 on a processor that does not multiply these.
    progress: called as progress(stage, fraction); what it raises ends the compilation, as Ctrl-C does.

    An ONNX model in which a size follows from data, or what sequences hold, is planned by segments, in the first
    run; such a Plan is saved with the segments that its runs found (docs/howto/sizes-known-late.md).

    Raises what building the graph raises; UnsupportedError naming the node that nothing on the device can run.

    >>> import numpy, pylayout as pl
    >>> g = pl.Graph()
    >>> x = g.input("x", (1, 8, 6, 6))
    >>> g.output(g.relu(x), "y")
    >>> plan = pl.compile(g, device="cpu", tune="off")
    >>> plan.run(-numpy.ones((1, 8, 6, 6), "float32"))[0].max()
    np.float32(0.0)
    """
    _check_by_name(shapes, sizes, values)
    if without is not None and not isinstance(without, str):
        names = list(without) if isinstance(without, Iterable) else [without]
        if not all(isinstance(name, str) for name in names):
            raise ArgumentTypeError(f"compile: without is {without!r}, expected names of passes")
        without = ",".join(names)
    chains: int | str | None
    if isinstance(slice, Mapping):
        if "" not in slice:
            raise InvalidArgumentError(f'compile: slice is {dict(slice)}, expected "" among its keys: the beginning')
        chains = ",".join([str(slice[""]), *(f"{node}={size}" for node, size in slice.items() if node)])
    else:
        chains = slice
    options: dict[str, Any] = {
        "device": device,
        "layout": layout,
        "threads": threads,
        "tune": tune,
        "seconds": seconds,
        "slice": chains,
        "streams": streams,
        "math": math,
        "memory_limit": memory_limit,
        "program_memory": program_memory,
        "submit": submit,
        "deterministic": deterministic or None,
        "simplify": simplify,
        "without": without,
    }
    if isinstance(model, Graph):
        for name, given in (("shapes", shapes), ("sizes", sizes), ("values", values)):
            if given is not None:
                instead = "a graph.constant in place of the input" if name == "values" else "graph.bind(axis=size)"
                raise ArgumentTypeError(f"compile: {name} are given for a Graph, expected {instead}")
        if example is not None or dynamic is not None:
            name = "example" if example is not None else "dynamic"
            raise ArgumentTypeError(f"compile: {name} is given for a Graph, expected Graph(sizes=...) to name axes")
        return Plan(compile_graph(model, options, progress))
    if _is_module(model):
        for name, given in (("shapes", shapes), ("sizes", sizes), ("values", values)):
            if given is not None:
                raise ArgumentTypeError(f"compile: {name} are given for a module, expected an example alone")
        return _compile_module(model, example, dynamic, options, progress)
    if example is not None or dynamic is not None:
        raise ArgumentTypeError("compile: example or dynamic is given, but model is no torch.nn.Module")
    if not isinstance(model, (str, os.PathLike, bytes)) and not hasattr(model, "graph"):
        kind = type(model).__name__
        raise ArgumentTypeError(
            f"compile: model is {kind}, expected a Graph, a path of an ONNX file, a ModelProto, a torch.nn.Module or "
            "a torch.export.ExportedProgram"
        )
    from .onnx.model import read  # here: the package onnx is an extra

    found = _stamp(model)
    parsed = read(model)

    def graph_for(shapes: Mapping[str, Sequence[int]], reason: str) -> Graph:
        if _stamp(model) != found:
            raise FileError(f"compile: {os.fspath(model)} has changed since the plan was compiled; compile it again")
        return parsed.graph(shapes, None, values)

    graphs = parsed.graphs(shapes, sizes, values)
    try:
        first = next(graphs)
    except UnsupportedError as error:
        from .onnx.errors import RefusedError
        from .onnx.segments import SegmentedPlan, missing_op

        if isinstance(error, RefusedError):
            raise
        missing = missing_op(parsed)
        if missing is not None:
            if missing not in str(error):
                error.args = (f"{error}; by segments it cannot be planned either: pylayout has not {missing}",)
            raise
        return SegmentedPlan(parsed, options, values)

    def compiled(graph: Graph) -> Plan | Error:
        """Its plan, or why the sizes of its open axes make no sense once constants are computed."""
        try:
            return Plan(compile_graph(graph, options, progress), graph_for)
        except (InvalidArgumentError, ShapeError) as error:
            return error
        finally:
            graph._let_go()
            parsed.files.leave_pages()

    problem: Error | None = None
    for graph in itertools.chain([first], graphs):
        plan = compiled(graph)
        if isinstance(plan, Plan):
            return plan
        problem = problem or plan
    assert problem is not None
    raise problem


def _check_by_name(shapes: Any, sizes: Any, values: Any) -> None:
    """Raises for what is no dict by name, or says no sizes."""
    for name, given, of in (
        ("shapes", shapes, "of the shapes of inputs"),
        ("sizes", sizes, "of the sizes of axes"),
        ("values", values, "of arrays in place of inputs"),
    ):
        if given is not None and not isinstance(given, Mapping):
            raise ArgumentTypeError(f"compile: {name} is {given!r}, expected a dict {of}, by name")
    for name, shape in (shapes or {}).items():
        if isinstance(shape, str) or not isinstance(shape, Iterable) or not all(map(is_integer, shape)):
            raise ArgumentTypeError(f'compile: shapes["{name}"] is {shape!r}, expected sizes such as (1, 3, 224, 224)')
    axis_sizes("compile", sizes or {})


def load_plan(path: str | os.PathLike[str], *, replan: bool = False, **options: Any) -> Plan:
    """Read a plan that `Plan.save` wrote: nothing is measured or chosen again.

    replan: compile a plan anew, with `options` as of `compile`, that was made for other hardware, software or numbers
    of threads, or for another device, number of threads or arithmetic than the options say; else UnsupportedError says
    what is different, and there are no options. Raises FileError, and InvalidArgumentError for a file
    that is no plan, or damaged. The file of a model that is run by segments needs the package onnx.
    """
    if options and not replan:
        given = next(iter(options))
        raise InvalidArgumentError(
            f"load_plan: {given} is given without replan=True; a plan keeps what it was made for"
        )
    if not _is_archive(path_bytes(path)):
        return read_plan(path, replan=replan, **options)
    from .onnx.segments import SegmentedPlan  # here: the package onnx is an extra

    return SegmentedPlan.load(path, replan, options)


def _is_archive(path: bytes) -> bool:
    """Whether the file is one of SegmentedPlan.save; what cannot be read is not."""
    try:
        with Path(os.fsdecode(path)).open("rb") as file:
            return file.read(4) == b"PK\3\4"
    except OSError:
        return False


def _is_module(model: Any) -> bool:
    """Whether this is a module of PyTorch, which need not be installed, or one that was exported."""
    torch, exporting = sys.modules.get("torch"), sys.modules.get("torch.export")
    if torch is not None and isinstance(model, torch.nn.Module):
        return True
    return exporting is not None and isinstance(model, exporting.ExportedProgram)


def _compile_module(model: Any, example: Any, dynamic: Any, options: dict[str, Any], progress: Progress | None) -> Plan:
    from .torch.export import export  # here: the package torch is an extra

    exported = export(model, example, dynamic)
    graph = exported.graph()
    try:
        return Plan(compile_graph(graph, options, progress), exported.graph if exported.dynamic else None)
    finally:
        graph._let_go()


def _stamp(model: Any) -> tuple[int, int] | None:
    """What changes when a model's file does."""
    if not isinstance(model, (str, os.PathLike)):
        return None
    try:
        status = Path(model).stat()
    except (OSError, ValueError):  # reading it says why
        return None
    return status.st_mtime_ns, status.st_size
