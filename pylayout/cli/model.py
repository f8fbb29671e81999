"""Arguments and steps that the commands on model files share: which model, its shapes, its inputs, its plan."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from .common import add_device, add_threads, apply_threads, check_device, check_file, positive
from .errors import UsageError
from .progress import Progress

__all__ = [
    "add_layout",
    "add_model",
    "add_shapes",
    "add_tuning",
    "compile_plan",
    "picture_size",
    "read_inputs",
    "read_model",
]


_NUMPY = {
    "f32": "float32",
    "f16": "float16",
    "s8": "int8",
    "u8": "uint8",
    "s32": "int32",
    "s64": "int64",
    "bool": "bool",
}


# What NumPy raises for a file that holds no arrays.
_UNREADABLE = (OSError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile)


def add_shapes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="what to run on: .npy, .npz (inputs by name) or a picture; default: a photograph where the model takes "
        "one, else seeded random numbers",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=N,C,H,W",
        help="the shape of an input, where the model leaves it open or another is wanted; or the size of an axis that "
        "the model names: steps=7",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FILE.onnx", help="the model")
    add_shapes(parser)
    parser.add_argument("--batch", type=positive, metavar="N", help="the first size of every input")
    add_device(parser)
    add_threads(parser)
    add_layout(parser)
    add_tuning(parser)


def add_layout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--layout", default="auto", metavar="NAME", help="auto (default), or a layout to force: NCHW, NHWC, nChw16c, …"
    )


def add_tuning(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tune",
        choices=("auto", "off", "full"),
        default="auto",
        help="measure what matters (auto, default), nothing, or every candidate",
    )
    parser.add_argument(
        "--tune-seconds",
        type=_limit,
        default=60.0,
        metavar="S",
        help="measure for at most S seconds (default 60; 0: no limit); what was measured before costs nothing",
    )


def _limit(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return value


def _shapes(options: argparse.Namespace, inputs: Sequence[Any]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    axes: dict[str, int] = {}
    names = [item.name for item in inputs]
    known = {dim for item in inputs for dim in item.dims or () if isinstance(dim, str)}
    for text in options.shape:
        name, equals, sizes = text.rpartition("=")
        name = name if equals else names[0] if len(names) == 1 else ""
        if name not in names and name not in known:
            also = f" and its axes {', '.join(sorted(known))}" if known else ""
            raise UsageError(
                f"--shape {text}: the model's inputs are {', '.join(names)}{also}, expected NAME=SIZE,SIZE,…"
            )
        try:
            shape = tuple(int(size) for size in sizes.split(",") if size)
        except ValueError:
            raise UsageError(f"--shape {text}: {sizes!r} are not whole numbers") from None
        if name in names:
            shapes[name] = shape
        elif len(shape) == 1:
            axes[name] = shape[0]
        else:
            raise UsageError(f"--shape {text}: {name} is an axis, expected one size")
    given = {**_array_shapes(options, inputs), **shapes}
    for item in inputs:
        if item.name in given:
            named = zip(item.dims or (), given[item.name], strict=False)
            axes = {**{dim: size for dim, size in named if isinstance(dim, str)}, **axes}
    for item in inputs:  # as the importer has it: a first axis of which nothing is said is 1
        if item.name not in shapes and item.dims and isinstance(item.dims[0], str):
            axes = {**axes, item.dims[0]: options.batch} if options.batch else {item.dims[0]: 1, **axes}
    for item in inputs:
        if item.name in shapes or not item.dims:
            continue
        array = given.get(item.name, item.dims)
        array = array if len(array) == len(item.dims) else item.dims
        filled = [dim if isinstance(dim, int) else axes.get(dim, array[i]) for i, dim in enumerate(item.dims)]
        if options.batch or not isinstance(filled[0], int):
            filled[0] = options.batch or 1
        for i, size in enumerate(filled):
            if not isinstance(size, int):
                axis = f", {size}, of input {item} has no size: --shape {size}=… or" if size else f" of input {item}:"
                raise UsageError(f"axis {i}{axis} --shape {item.name}=…")
        if filled != list(item.dims):
            shapes[item.name] = tuple(filled)
    return shapes


def _array_shapes(options: argparse.Namespace, inputs: Sequence[Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of arrays that --input gives."""
    import numpy as np

    by_name = {item.name: item for item in inputs}
    shapes: dict[str, tuple[int, ...]] = {}
    for text in options.input:
        name, file = _named_file(text, by_name)
        path = Path(file)
        if path.suffix not in (".npy", ".npz"):
            continue
        check_file("--input", file, text)
        if path.suffix == ".npz" and not name:
            shapes.update({key: array.shape for key, array in _load(text, path).items() if key in by_name})
            continue
        name = name or next((each for each in by_name if each not in shapes), "")
        try:
            shape = np.load(path, mmap_mode="r", allow_pickle=False).shape if path.suffix == ".npy" else None
        except _UNREADABLE:
            _load(text, path)  # which says what is wrong
            continue
        if not name or shape is None:
            continue
        dims = by_name[name].dims
        if dims is not None and len(shape) not in (len(dims), len(dims) - 1):  # the first axis may be left out
            raise UsageError(f"--input {text}: has shape {shape}, expected {len(dims)} axes as input {name} has")
        shapes[name] = shape
    return shapes


def _named_file(text: str, inputs: Collection[str]) -> tuple[str, str]:
    """The input that an --input names, or "", and the file."""
    name, equals, file = text.partition("=")
    if equals and name in inputs:
        return name, file
    if equals and Path(file).exists() and not Path(text).exists():
        raise UsageError(f"--input {text}: there is no input {name!r}, expected {', '.join(inputs)}")
    return "", text


def read_model(options: argparse.Namespace) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """The model, parsed, and the shapes that the options give its inputs."""
    path = Path(options.model)
    if not path.is_file():
        why = "a folder, expected a file" if path.is_dir() else "no such file"
        raise UsageError(f"{options.model}: {why}")
    from .. import onnx

    model = onnx.read(path)
    return model, _shapes(options, model.inputs)


def compile_plan(options: argparse.Namespace, progress: Progress) -> Any:
    """The plan that the options of `add_model` ask for."""
    apply_threads(options)
    check_device(options.device)
    progress.update("reading the model", 0, 1)
    model, shapes = read_model(options)
    from .. import compile

    return compile(
        model,
        device=options.device,
        layout=options.layout,
        tune=options.tune,
        seconds=options.tune_seconds,
        shapes=shapes or None,
        progress=lambda stage, fraction: progress.update(stage, fraction, 1),
    )


def picture_size(shape: Sequence[int]) -> tuple[int, bool] | None:
    """(size, channels last) of an input that takes square pictures, else None."""
    if len(shape) != 4:
        return None
    if shape[1] == 3 and shape[2] == shape[3]:
        return shape[2], False
    if shape[3] == 3 and shape[1] == shape[2]:
        return shape[1], True
    return None


def _picture(path: Path | None, item: dict[str, Any]) -> Any:
    import numpy as np

    from .. import image

    size = picture_size(item["shape"])
    if size is None or item["dtype"] != "f32":
        raise UsageError(
            f"--input {path}: input {item['name']} is {item['dtype']} {tuple(item['shape'])}; a picture goes into f32 "
            "(n, 3, size, size) or (n, size, size, 3)"
        )
    try:
        pixels = image.load(path, size[0]) if path else image.synthetic(size[0])
    except OSError as error:
        raise UsageError(f"--input {path}: {error}") from None
    pixels = np.repeat(pixels, item["shape"][0], axis=0)
    return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1) if size[1] else pixels)


def _random(item: dict[str, Any], seed: int) -> Any:
    import numpy as np

    random = np.random.default_rng(seed)
    shape, dtype = tuple(item["shape"]), item["dtype"]
    if dtype not in _NUMPY:
        raise UsageError(
            f"--input: input {item['name']} is {dtype}, which NumPy has not: no numbers can be drawn for it"
        )
    if dtype.startswith("f"):
        return random.standard_normal(shape).astype(_NUMPY[dtype])
    # Small numbers, so that they are valid where they choose among a few things: words, segments, masks.
    return random.integers(0, 2, shape).astype(_NUMPY[dtype])


def _load(text: str, path: Path) -> Any:
    """What --input names: an array, or a dict of arrays."""
    import numpy as np

    try:
        if path.suffix != ".npz":
            return np.load(path, allow_pickle=False)
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except _UNREADABLE as error:
        why = "" if "pickle" in str(error) else f" ({error})"  # NumPy's advice for other files
        raise UsageError(f"--input {text}: is no {path.suffix} file of NumPy, or a damaged one{why}") from None


def _array_from(text: str, path: Path, item: dict[str, Any]) -> Any:
    import numpy as np

    array = _load(text, path)
    wanted = tuple(item["shape"])
    if array.ndim == len(wanted) - 1:
        array = array[None]
    if wanted and array.ndim == len(wanted) and array.shape[0] == 1 and array.shape[1:] == wanted[1:]:
        array = np.repeat(array, wanted[0], axis=0)
    return np.ascontiguousarray(array)


def read_inputs(options: argparse.Namespace, inputs: Sequence[dict[str, Any]]) -> tuple[list[Any], str]:
    """An array for each input {"name", "dtype", "shape"}, and in words what they are."""
    import numpy as np

    from .. import image

    by_name = {item["name"]: item for item in inputs}
    given: dict[str, Any] = {}
    words = []
    for text in options.input:
        name, file = _named_file(text, by_name)
        path = Path(file)
        check_file("--input", file, text)
        words.append(path.name)
        if path.suffix == ".npz" and not name:
            for key, array in _load(text, path).items():
                if key not in by_name:
                    raise UsageError(f"--input {text}: there is no input {key!r}, expected {', '.join(by_name)}")
                given[key] = np.ascontiguousarray(array)
            continue
        if not name:
            left = [key for key in by_name if key not in given]
            if not left:
                raise UsageError(f"--input {text}: the model has only {len(by_name)} inputs")
            name = left[0]
        item = by_name[name]
        given[name] = _array_from(text, path, item) if path.suffix == ".npy" else _picture(path, item)
    seed = 0
    for name, item in by_name.items():
        if name in given:
            continue
        seed += 1
        if picture_size(item["shape"]) and item["dtype"] == "f32":
            path_or_none = image.photograph()
            given[name] = _picture(path_or_none, item)
            words.append(path_or_none.name if path_or_none else "a drawn picture")
        else:
            given[name] = _random(item, seed)
            words.append("random numbers")
    return [given[name] for name in by_name], ", ".join(dict.fromkeys(words))
