"""Write docs/reference/pytorch-samples.md: which of PyTorch's own samples the device ocl runs alone.

python tools/torch_samples_page.py                    writes the page from pytorch-samples.json
python tools/torch_samples_page.py --check            fails if it is not current
python tools/torch_samples_page.py --collect FOLDER   keeps what ocl_opinfo.py and ocl_modules.py of tests/pytorch wrote

A claim once made stays: --collect fails where an entry that was claimed is not any more. With --lose it is given up.
"""

import json
import sys
import textwrap
from pathlib import Path

from generated import write_or_check

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
DATA, PAGE = FOLDER / "pytorch-samples.json", FOLDER / "pytorch-samples.md"

# By part: title, and the command that gives it.
PARTS = {
    "ops": ("Ops", "tests/pytorch/ocl_opinfo.py --samples 1"),
    "ops_f16": ("Ops, float16", "tests/pytorch/ocl_opinfo.py --samples 1 --dtype float16"),
    "ops_bf16": ("Ops, bfloat16", "tests/pytorch/ocl_opinfo.py --samples 1 --dtype bfloat16"),
    "integers": (
        "Ops of integers alone, int64",
        "tests/pytorch/ocl_opinfo.py --samples 1 --dtype int64 --integers-alone",
    ),
    "gradients": ("Gradients of ops", "tests/pytorch/ocl_opinfo.py --samples 1 --gradients"),
    "gradients_f16": (
        "Gradients of ops, float16",
        "tests/pytorch/ocl_opinfo.py --samples 1 --gradients --dtype float16",
    ),
    "gradients_bf16": (
        "Gradients of ops, bfloat16",
        "tests/pytorch/ocl_opinfo.py --samples 1 --gradients --dtype bfloat16",
    ),
    "modules_f32": ("Modules, float32", "tests/pytorch/ocl_modules.py"),
    "modules_f16": ("Modules, float16", "tests/pytorch/ocl_modules.py --dtype float16"),
    "modules_bf16": ("Modules, bfloat16", "tests/pytorch/ocl_modules.py --dtype bfloat16"),
}

HEAD = """# PyTorch's samples on the device `ocl`

Made by `tools/torch_samples_page.py` from `pytorch-samples.json`, which is measured: do not edit.

PyTorch has lists of samples of its ops (`op_db`) and modules (`module_db`), with which it tests itself. Here they
run on [the device `ocl`](../howto/pytorch-device.md), an OpenCL device that is a processor (PoCL), and are held
against the CPU: modules forward and with the gradients of inputs and parameters, in training and in evaluation. Ops
in halves are held against the CPU in halves or, as that rounds in between, in float32. An entry is
**claimed** where all of it runs on the device alone; the tests run claims again. The others are right, too, with the
ops named here run by the CPU on copies.
"""


def collect(folder: Path, lose: bool) -> None:
    """Keeps what runs found; a part whose file is not there stays as it is. `lose`: claims may go."""
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    for part in PARTS:
        file = folder / f"{part}.json"
        if file.exists():
            entries = json.loads(file.read_text())
            wrong = [each["name"] for each in entries if each["wrong"]]
            if wrong:
                sys.exit(f"{part}: wrong are {', '.join(wrong)}")
            claimed = sorted(each["name"] for each in entries if not each["cpu"])
            lost = sorted({*data.get(part, {"claimed": []})["claimed"]} - {*claimed})
            if lost and not lose:
                sys.exit(f"{part}: claimed before and not now are {', '.join(lost)} (--lose gives them up)")
            others = {
                each["name"]: each["cpu"] for each in sorted(entries, key=lambda each: each["name"]) if each["cpu"]
            }
            data[part] = {"claimed": claimed, "others": others}
    DATA.write_text(json.dumps(data, indent=1) + "\n")


def cell(text: str) -> str:
    return text.split("\n", 1)[0][:100].replace("|", "\\|").replace("*", "\\*").replace("<", "\\<").replace("_", "\\_")


def section(part: str, found: dict) -> list[str]:
    title, command = PARTS[part]
    claimed, others = found["claimed"], found["others"]
    lines = [f"## {title}", "", f"    python {command}", ""]
    lines += [f"{len(claimed) + len(others)} entries, {len(claimed)} claimed:", ""]
    lines += [*textwrap.wrap(", ".join(f"`{name}`" for name in claimed) + ".", 120, break_on_hyphens=False), ""]
    lines += ["| entry | on the CPU |", "|---|---|"]
    for name, ops in others.items():
        lines.append(f"| {cell(name)} | {', '.join(f'{cell(op)} ({cell(reason)})' for op, reason in ops.items())} |")
    return [*lines, ""]


def page() -> str:
    data = json.loads(DATA.read_text())
    lines = [HEAD]
    for part in PARTS:
        if part in data:
            lines += section(part, data[part])
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    if "--collect" in sys.argv[1:]:
        collect(Path(sys.argv[sys.argv.index("--collect") + 1]), "--lose" in sys.argv[1:])
    sys.exit(write_or_check({PAGE: page()}, "torch_samples_page.py"))
