"""Write docs/reference/pytorch-ops.md, which ATen ops plans run, from the converters.

python tools/torch_page.py           writes it
python tools/torch_page.py --check   fails if it is not current
"""

import importlib
import re
import sys
import textwrap
from pathlib import Path

import torch
from generated import write_or_check

from pylayout.torch.backend import decompositions
from pylayout.torch.registry import complex_converters, converters, name_of

PATH = Path(__file__).parent.parent / "docs" / "reference" / "pytorch-ops.md"

# The page is of this PyTorch: each version has other ops.
VERSION = ".".join(torch.__version__.split(".")[:2])

HEAD = f"""# PyTorch's ops

Made by `tools/torch_page.py` from the converters (`pylayout/torch/convert/`) and PyTorch {VERSION}: not edited by hand.

What `torch.compile(backend="pylayout")` and `pylayout.compile` of a module do with each op of ATen:
[Use pylayout from PyTorch](../howto/pytorch.md). An op has several overloads, each with its own entry here.

- **By plans**: there is a converter. It leaves a call to PyTorch, with the reason in `pylayout.torch.report()`, for
  what the table says, for dtypes that the library has not (float64 and others), for tensors that are neither on the
  CPU nor on `ocl`, sparse or quantised, and for shapes that the library's op refuses.
- **By plans, of complex64 on the CPU**: the ops listed below, as pairs of real numbers. Inputs and results of
  `pylayout.compile` are real.
- **By decomposition**: PyTorch writes the op as others, of which most have converters.
- **By PyTorch**: everything else. Beside the core ops listed below these are ops that draw random numbers, so that the
  generator's numbers are those of eager mode, ops that write to their arguments, and functions that are no ATen ops.

Ops on numbers and sizes alone (`arange`, `full`, masks made of these) are computed once, when a plan is compiled.

## By plans
"""


def title_of(module_name: str) -> str:
    """The first sentence of a family's docstring."""
    text = (importlib.import_module(module_name).__doc__ or "").strip().split("\n")[0]
    return re.split(r"[:.]", text)[0].removesuffix(", with PyTorch's promotion of dtypes")


def core_ops() -> set[str]:
    """The overloads of ATen that PyTorch calls core."""
    found = set()
    for packet_name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, packet_name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            if torch.Tag.core in getattr(packet, overload).tags:
                found.add(f"{packet_name}.{overload}")
    return found


def listed(names: list[str]) -> list[str]:
    return textwrap.wrap(", ".join(f"`{name}`" for name in sorted(names)) + ".", 120)


def page() -> str:
    lines = [HEAD]
    families: dict[str, list[str]] = {}
    for name, found in converters().items():
        families.setdefault(found.function.__module__, []).append(name)
    for module, names in sorted(families.items(), key=lambda item: title_of(item[0])):
        lines += [f"### {title_of(module)}", "", "| op | left to PyTorch |", "|---|---|"]
        lines += [f"| {name} | {converters()[name].note} |" for name in sorted(names)]
        lines.append("")
    lines += ["## By plans: complex numbers", "", *listed([*complex_converters()]), ""]
    decomposed = {name_of(op) for op in decompositions()}
    written = {name_of(op) for op in decompositions() if not op._schema.is_mutable}
    lines += ["## By decomposition", "", *listed([*(written - set(converters()))]), ""]
    left = {name for name in core_ops() if not name.endswith("out")} - set(converters()) - decomposed
    lines += ["## By PyTorch: core ops", "", *listed([*left]), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(write_or_check({PATH: page()}, "torch_page.py"))
