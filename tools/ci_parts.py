"""The parts of CI that not every run of .ci/run takes: those that cover what changed, and one a day, in turns.

python tools/ci_parts.py BASE      prints the make targets that are due, a line each; BASE "": not known
CI_PARTS=all, or names: those parts instead ("test-kernels sanitize-address")

A part whose programs are not installed here is left out, with a line that says so. tools/ci_page.py writes the table of
the parts.
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Part:
    """A make target. `paths`: it runs where something below one of them changed (git's pathspecs). `needs`: patterns of
    the names of programs that it takes."""

    target: str
    covers: str
    paths: tuple[str, ...]
    needs: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """Those of `needs` that no program on PATH matches."""
        folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
        names = [path.name for folder in folders if folder.is_dir() for path in folder.iterdir()]
        return [need for need in self.needs if not any(re.fullmatch(need, name) for name in names)]


OPENCL = "src/providers/opencl"
# What all kernels are made with.
ALL_KERNELS = (
    "kernels/common",
    *(f"{OPENCL}/{folder}" for folder in ("addressing", "program", "tuning")),
    *(f"tests/c/{name}" for name in ("candidates.h", "opencl_candidates.h", "opencl_points.h", "opencl_testing.h")),
    "tests/c/support/slow_cases.txt",
)


def kernels(family: str, covers: str, *paths: str) -> Part:
    """The slow C tests of a family of kernels."""
    return Part(f"test-kernels-{family}", f"the slow C tests: {covers}", (*paths, *ALL_KERNELS))


# Each day has the next of them, so a place in this list is a day.
PARTS = (
    kernels(
        "conv",
        "convolutions, their tuning spaces for CPUs, gradients by weights",
        "kernels/conv",
        "kernels/conv_transpose",
        f"{OPENCL}/conv",
        f"{OPENCL}/matrix_units",
        "tests/c/opencl_conv_cases.h",
        "tests/c/test_opencl_conv.cpp",
        "tests/c/test_opencl_points_conv.cpp",
        "tests/c/test_opencl_training.cpp",
    ),
    kernels(
        "matmul",
        "products, their tuning space for CPUs, products of groups of rows",
        "kernels/matmul",
        f"{OPENCL}/matmul",
        "tests/c/opencl_matmul_cases.h",
        "tests/c/test_opencl_matmul.cpp",
        "tests/c/test_opencl_points_matmul.cpp",
        "tests/c/test_grouped_products.cpp",
    ),
    kernels(
        "attention",
        "attention and its gradients, their tuning spaces",
        "kernels/attention",
        f"{OPENCL}/attention",
        f"{OPENCL}/matrix_units",
        "tests/c/opencl_attention_cases.h",
        "tests/c/test_opencl_attention.cpp",
        "tests/c/test_opencl_points_attention.cpp",
        "tests/c/test_opencl_training.cpp",
    ),
    kernels(
        "norm",
        "norms along rows, batch norm in training and its gradients",
        "kernels/batch_norm",
        "kernels/normalise",
        f"{OPENCL}/normalise",
        "tests/c/test_opencl_row_vectors.cpp",
        "tests/c/test_opencl_training.cpp",
    ),
    kernels(
        "pool",
        "pools and their gradients as on GPUs",
        "kernels/pool",
        "kernels/adaptive_pool",
        f"{OPENCL}/pool",
        "tests/c/opencl_pools.h",
        "tests/c/test_opencl_images.cpp",
        "tests/c/test_opencl_training.cpp",
    ),
    kernels(
        "rows",
        "softmax and reductions along rows, reorders, resizes as on GPUs",
        *(f"kernels/{kind}" for kind in ("arg_reduce", "reduce", "reorder", "resize", "softmax")),
        f"{OPENCL}/reduce",
        f"{OPENCL}/reorder",
        "tests/c/test_opencl_images.cpp",
        "tests/c/test_opencl_reorder.cpp",
        "tests/c/test_opencl_row_vectors.cpp",
    ),
    kernels(
        "local",
        "the tuning spaces of tiles in local memory; races of all kernels that share it",
        "kernels/attention",
        "kernels/conv",
        "kernels/matmul",
        "kernels/squeeze_excite",
        f"{OPENCL}/*/*local*",
        f"{OPENCL}/attention",
        f"{OPENCL}/matrix_units",
        "tests/c/opencl_*_cases.h",
        "tests/c/test_opencl_points_local.cpp",
        "tests/c/test_opencl_races.cpp",
    ),
    kernels(
        "units",
        "the tuning spaces of matrix units, every unit, copies by pieces, persistent work-groups",
        "kernels/conv/*mma*",
        "kernels/conv/*stream*",
        f"{OPENCL}/matrix_units",
        f"{OPENCL}/*/*mma*",
        f"{OPENCL}/*/*stream*",
        "tests/c/kernels",
        "tests/c/opencl_conv_cases.h",
        "tests/c/opencl_matmul_cases.h",
        "tests/c/test_opencl_matrix_units.cpp",
        "tests/c/test_opencl_mma*",
        "tests/c/test_opencl_points_mma.cpp",
        "tests/c/test_opencl_stream.cpp",
    ),
    Part(
        "test-optimised",
        "the Python tests of many small kernels, which make test has PoCL not optimise, as users have them",
        ("kernels", OPENCL, "tests/op_cases", "tests/conftest.py"),
    ),
    Part(
        "test-candidates",
        "all cases of all ops and their gradients on OpenCL; the same where dispatch measures several candidates and "
        "takes any; every value of every tunable",
        (
            "kernels",
            OPENCL,
            "src/dispatch",
            "src/ops",
            "tests/op_cases",
            "tests/test_gradient_candidates.py",
            "tests/test_gradients_by_differences.py",
            "tests/test_op_gradients.py",
            "tests/test_opencl_kernels.py",
            "tests/test_opencl_tunables.py",
            "tests/test_ops.py",
        ),
    ),
    Part(
        "sanitize-address",
        "the C tests with AddressSanitizer and UndefinedBehaviorSanitizer",
        ("src/abi", "examples/*.c", "tests/c/support/*.c", "tests/c/support/*.cpp"),
    ),
    Part(
        "test-networks",
        "the slow Python tests: large networks, each layout, each device",
        (
            "src/dispatch",
            "src/graph",
            "src/ops",
            "pylayout/onnx",
            "tests/test_real_networks.py",
            "tests/test_networks.py",
            "tests/test_mixed_precision.py",
        ),
    ),
    Part(
        "test-torch",
        "the slow tests of PyTorch: loops of training, processes that train together, networks under torch.compile",
        ("src/dispatch", "src/graph", "pylayout/ocl", "pylayout/torch", "examples/train_*.py", "tests/pytorch"),
    ),
    Part(
        "test-text",
        "the Python tests that need transformers, timm or Hugging Face's Trainer: text networks exported, generating, "
        "trained",
        (
            "pyproject.toml",
            "src/graph/passes/recognise_attention.cpp",
            "src/graph/passes/recognise_rotary.cpp",
            "pylayout/onnx",
            "tests/onnx/test_text_networks.py",
            "tests/pytorch/test_generate.py",
            "tests/pytorch/test_mixtures.py",
        ),
    ),
    Part(
        "test-intel",
        "the OpenCL tests of what processors are offered, the program cache's, and real sizes, on Intel's runtime",
        ("src/providers/opencl/runtime", "src/compiler", "tests/test_program_cache.py"),
    ),
    Part(
        "sanitize-thread",
        "the C tests that start threads, and those of the host's kernels, with ThreadSanitizer",
        ("src/core", "src/providers/host/common", "tests/c/support/*.c"),
    ),
    Part(
        "test-sizes",
        "every candidate, on cases at the sizes of networks that are drawn anew each day",
        ("src/providers/host", "src/providers/onednn", "pylayout/verify", "tests/test_real_sizes.py"),
    ),
    Part(
        "warnings",
        "every file parsed by Clang, and by a GCC newer than 12; warnings are errors",
        ("tools/warnings", "CMakeLists.txt"),
        (r"clang\+\+(-\d+)?|g\+\+-1[3-9]",),
    ),
    Part(
        "test-aarch64",
        "the core cross-built for AArch64, its C tests in QEMU",
        ("cmake/aarch64.cmake", "src/providers/host/conv"),
        (r"aarch64-linux-gnu-g\+\+", r"qemu-aarch64(-static)?"),
    ),
)


def due(changed: list[str], day: int, asked: str = "") -> list[str]:
    """Targets of the parts that `changed` names, and of the day's; where some are asked for, those and no others.
    Each day begins with another one, as the last ones may be left out for want of time."""
    targets = [part.target for part in PARTS]
    if asked:
        wanted = targets if asked == "all" else asked.split()
        unknown = sorted(set(wanted) - set(targets))
        if unknown:
            raise ValueError(f"CI_PARTS names {', '.join(unknown)}, expected all or some of {', '.join(targets)}")
        return wanted
    today = targets[day % len(targets)]
    found = []
    for part in PARTS:
        if part.target not in changed and part.target != today:
            continue
        if missing := part.missing():
            print(f"make {part.target}: left out, no program is named {' or '.join(missing)}", file=sys.stderr)
        else:
            found.append(part.target)
    first = day % len(found) if found else 0
    return found[first:] + found[:first]


def changed_since(base: str) -> list[str]:
    """Targets of the parts of which a path differs between the commits `base` and HEAD."""
    return [
        part.target
        for part in PARTS
        if subprocess.run(["git", "diff", "--quiet", base, "HEAD", "--", *part.paths], cwd=ROOT, check=False).returncode
    ]


def main() -> int:
    base = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        days = datetime.datetime.now(datetime.timezone.utc).date().toordinal()
        print("\n".join(due(changed_since(base) if base else [], days, os.environ.get("CI_PARTS", ""))))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
