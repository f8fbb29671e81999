"""Write docs/reference/support.md: which provider runs which op in which dtype and layout.

python tools/support_page.py             writes the page from docs/reference/support.json
python tools/support_page.py --check     fails if the page is not current, or an op or a dtype is missing in the data
python tools/support_page.py --collect   asks the library on this machine anew (a minute), then writes both

The data depend on the machine: its instruction set, its OpenCL devices. So they are kept, with the machine they are of.
The calls are those of tests/op_cases.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from generated import write_or_check

from pylayout import calls

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "support.md"
DATA = ROOT / "docs" / "reference" / "support.json"

DTYPES = ["f32", "f16", "bf16", "s8", "u8", "s32", "s64", "bool"]
PROVIDERS = {"onednn": "oneDNN", "host": "host", "opencl": "OpenCL"}
LAYOUTS = {"P": "plain (NCHW)", "L": "channels last (NHWC)", "B": "blocked (nChw8c, nChw16c)"}

HEAD = """# Support

Made by `tools/support_page.py` from `support.json` and the schemas: do not edit.

Which provider has a candidate for an op, by dtype of its data, in which layouts of its result: **P** plain (NCHW),
**L** channels last (NHWC), **B** blocked (nChw16c, nChw8c). A blank cell has no candidate there; if no provider has
one, the op is refused with the reason, which `pl.query` shows. Views need no provider: they are in no table. Any other
layout may be forced where an implementation is generic.

The table is of the calls in `tests/op_cases.py`, asked on
{machine}, {date}.
oneDNN's columns for f16 and bf16 depend on the processor's instruction set.
"""


def layout_letter(text: str) -> str:
    """P, L or B of a description such as "f32 (2, 19, 9, 10) NHWC"."""
    layout = text.rsplit(" ", 1)[-1]
    if any(sign.isdigit() for sign in layout):
        return "B"
    plain = ["", "C", "NC", "NCW", "NCHW", "NCDHW", "a", "ab", "abc", "abcd", "abcde"]
    return "P" if layout in plain or layout.endswith(")") else "L" if layout.upper().endswith("C") else "P"


def name_of(device: Any) -> str:
    """A device and the hardware that it is."""
    known = device.capabilities
    if "isa" in known:
        return f"{device.name} ({known['model']}, {known['isa'].split()[-1]})"
    return f"{device.name} ({device.fingerprint.split('|')[1]}, {known.get('driver', 'unknown driver')})"


def collect() -> dict[str, Any]:
    """What the library on this machine answers for every case in every dtype."""
    import datetime

    import numpy as np

    import pylayout as pl

    sys.path.insert(0, str(ROOT / "tests"))
    from op_cases import CASES, tensor_parameters

    pl.configure(tune="off")
    devices = ["cpu", *[device.name for device in pl.devices() if device.name != "cpu"][:1]]
    found: dict[str, dict[str, dict[str, set[str]]]] = {}
    for case in CASES:
        arrays = case.make()
        # The data are the largest tensor; where it is not of f32 (quantised ops, look-ups), its dtype is the op's own.
        largest = max((a for a in arrays if a is not None), key=lambda a: (a.size, a.dtype == np.float32))
        own = str(pl.asarray(largest).dtype)
        for dtype in DTYPES if own == "f32" else [own]:
            for device in devices:
                tensors = []
                for array in arrays:
                    if array is None:
                        tensors.append(None)
                        continue
                    tensor = pl.asarray(array, device=device)
                    tensors.append(tensor.to(dtype=dtype) if array.dtype == np.float32 and own == "f32" else tensor)
                try:
                    if case.variadic:
                        answer = pl.query(case.op, tensors, **case.attributes)
                    else:
                        named = dict(zip(tensor_parameters(case.op), tensors, strict=False))
                        answer = pl.query(case.op, **named, **case.attributes)
                except (ValueError, TypeError, NotImplementedError, RuntimeError):
                    continue  # the schema refuses that dtype
                for candidate in answer.candidates:
                    of_op = found.setdefault(case.op, {}).setdefault(candidate["provider"], {})
                    of_op.setdefault(dtype, set()).update(layout_letter(text) for text in candidate["outputs"][:1])

    return {
        "date": datetime.date.today().isoformat(),
        "machine": " and ".join(map(name_of, pl.devices())),
        "ops": {
            op: {
                provider: {dtype: "".join(sorted(letters, key="PLB".index)) for dtype, letters in by_dtype.items()}
                for provider, by_dtype in sorted(providers.items())
            }
            for op, providers in sorted(found.items())
        },
    }


def problems(data: dict[str, Any]) -> list[str]:
    """Ops of the schemas that the data lack, and ops that are gone."""
    with_provider = {name for name, schema in calls.schemas().items() if not schema["view"]}
    missing = sorted(with_provider - set(data["ops"]))
    gone = sorted(set(data["ops"]) - set(calls.schemas()))
    return [f"no data for {name}" for name in missing] + [f"{name} is no op any more" for name in gone]


def gradients() -> list[str]:
    """Which ops a program may be trained through."""
    schemas = calls.schemas()
    ops = {True: [], False: []}  # type: dict[bool, list[str]]
    for name in sorted(schemas):
        ops[bool(schemas[name]["differentiable"])].append(name)
    return [
        "## Forward and backward",
        "",
        "Every op above runs forward. Programs are trained through these, in any dtype and layout of the table; the",
        "gradient of an op is made of other ops, those of the family *training* among them:",
        "",
        ", ".join(ops[True]) + ".",
        "",
        "These have no gradient, as they choose, count, compare, quantise or are of a backward pass themselves:",
        "",
        ", ".join(ops[False]) + ".",
        "",
    ]


def page(data: dict[str, Any]) -> str:
    lines = [HEAD.format(machine=data["machine"], date=data["date"])]
    for provider, title in PROVIDERS.items():
        lines += [f"## {title}", "", f"| op | {' | '.join(DTYPES)} |", "|---" * (len(DTYPES) + 1) + "|"]
        for op, providers in sorted(data["ops"].items()):
            if provider in providers:
                cells = [" ".join(providers[provider].get(dtype, "")) for dtype in DTYPES]
                lines.append(f"| {op} | {' | '.join(cells)} |")
        lines.append("")
    lines += gradients()
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    if "--collect" in sys.argv[1:]:
        DATA.write_text(json.dumps(collect(), indent=1) + "\n", "utf-8")
    data = json.loads(DATA.read_text("utf-8"))
    wrong = problems(data)
    for problem in wrong:
        print(f"support.json: {problem}: run `python tools/support_page.py --collect`", file=sys.stderr)
    sys.exit(write_or_check({PAGE: page(data)}, "support_page.py") or (1 if wrong else 0))
