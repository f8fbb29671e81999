"""The benchmarks: `python -m bench` runs them all with short settings, `python -m bench NAME …` one with its arguments.

A benchmark is a module here with a `main`, or a C or C++ program (`main` of the file's name).
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

from .gpu import NoGpu
from .programs import program

_FOLDER = Path(__file__).resolve().parent
_ASIDE = {
    "__init__",
    "__main__",
    "derive_shapes",
    "device_memory",
    "detectors",
    "dlprimitives",
    "engines",
    "fresh",
    "generators",
    "image_transformers",
    "model_files",
    "programs",
    "record",
    "shapes",
    "super_resolution",
    "text_models",
    "turns",
    "torchvision_models",
    "video_models",
}
_SHORT = {
    "choice_quality": ["--every", "5"],
    "cost_tables": ["squeezenet1_0", "--runs", "1", "--seconds", "10"],
    "eager_work": ["tables", "--rounds", "2"],
    "first_plans": ["squeezenet1_0", "--rounds", "5", "--seconds", "10"],
    "gpu": ["--batch", "4", "--rounds", "3"],
    "gpu_memory": ["--rounds", "3"],
    "ocl_first": ["squeezenet1_0", "--work", "inference", "--tune", "off", "--batch", "1", "--seconds", "1"],
    "policies": ["--processes", "1", "--seconds", "5"],
    "recurrent_layers": ["lstm:8x2x16x1", "--rounds", "3"],
    "static_caches": ["--words", "8"],
    "stacked_heads": ["mpt", "--layers", "2", "--seconds", "2"],
    "torch_accuracy": ["squeezenet1_0", "--image", "64"],
    "winograd": ["--seconds", "0.3"],
    "networks": ["resnet50", "mobilenet_v2", "--rounds", "11"],
    "models": ["resnet50", "mobilenet_v2", "vgg16", "--batch", "1", "16", "--rounds", "9"],
}


def benchmarks() -> dict[str, str]:
    """Names, and whether each is a "module" or a "program"."""
    found = {path.stem: "module" for path in _FOLDER.glob("*.py") if path.stem not in _ASIDE}
    for pattern in ("*.c", "*.cpp"):
        found.update({path.stem: "program" for path in _FOLDER.glob(pattern)})
    return dict(sorted(found.items()))


def run(name: str, kind: str, arguments: list[str]) -> None:
    if kind == "module":
        sys.argv[0] = f"bench.{name}"  # what --help shows
        importlib.import_module(f".{name}", __package__).main(arguments)
    else:
        subprocess.run([str(program(name, os.environ.get("PYLAYOUT_BENCH_BUILD"))), *arguments], check=True)


def main() -> None:
    known = benchmarks()
    name, *arguments = sys.argv[1:] or [""]
    if name in ("-h", "--help") or (name and name not in known):
        print(f"{__doc__}\nbenchmarks: {', '.join(known)}")
        sys.exit(0 if name in ("-h", "--help") else 2)
    for one, kind in known.items() if not name else [(name, known[name])]:
        print(f"== {one}", flush=True)
        try:
            run(one, kind, arguments if name else _SHORT.get(one, []))
        except ModuleNotFoundError as missing:  # an extra: the other benchmarks can do without
            if name or str(missing.name).partition(".")[0] in ("bench", "pylayout"):
                raise
            print(f"left out: {missing.name} is not installed")
        except NoGpu as reason:
            if name:
                raise
            print(f"left out: {reason}")


if __name__ == "__main__":
    main()
