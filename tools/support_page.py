"""Write docs/reference/support.md: which provider runs which op in which dtype and layout.

python tools/support_page.py             writes the page from docs/reference/support.json
python tools/support_page.py --check     fails if the page is not current, or an op or a dtype is missing in the data
python tools/support_page.py --collect   asks the library on this machine anew (some minutes), then writes both
python tools/support_page.py --collect OP...   the same for these ops alone, such as new ones (seconds)

The data depend on the machine: its instruction set, its OpenCL devices. So they are kept, with the machine they are of.
The calls are those of tests/op_cases/.
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

# Ops from floating numbers to floating numbers that a loss is not derived through, and why.
NO_GRADIENT = {
    "all_finite": "its result is a step, whether numbers are finite",
    "dequantize_linear": "its data are integers; scales of quantisation are not trained",
    "logcumsumexp": "it would be running sums from the other end, of which there is no op yet",
    "qlinear_conv": "its data are integers",
    "qlinear_matmul": "its data are integers",
    "reorder": "it changes memory, not values; plans place it themselves",
    "tensor_scatter": "a cache of keys and values is not trained",
}
PARTS_OF_STEPS = ("_backward", "_backward_weights", "_step")  # how the names of parts of training steps end

DTYPES = ["f32", "f16", "bf16", "s8", "u8", "s32", "s64", "bool"]
PROVIDERS = {"onednn": "oneDNN", "host": "host", "opencl": "OpenCL"}
LAYOUTS = {"P": "plain (NCHW)", "L": "channels last (NHWC)", "B": "blocked (nChw8c, nChw16c)"}

HEAD = """# Support

Made by `tools/support_page.py` from `support.json` and the schemas: do not edit.

Which provider has a candidate for an op, by dtype of its data, in which layouts of its result: **P** plain (NCHW),
**L** channels last (NHWC), **B** blocked (nChw16c, nChw8c). A blank cell has no candidate there; if no provider has
one, the op is refused with the reason, which `pl.query` shows. Views need no provider: they are in no table. Any other
layout may be forced where an implementation is generic.

The table is of the calls in `tests/op_cases/`, asked on
{machine}, {date}; those of newer ops when they were added.
oneDNN's columns for f16 and bf16 depend on the processor's instruction set.

*dynamic*: the axes of the first tensor whose size may come with the call
([sizes known late](../howto/sizes-known-late.md)). "all", or the numbers of those that may, where attributes of the
tested calls fix the others (`normalized_shape=[9, 10]`); blank where the first tensor has no axes. It is found by
running a plan on the CPU at another size than it was made for, and holding its results against the op's. Kernels are
chosen once sizes are known, so every dtype and layout of the row serves them.
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


def cases_of_ops() -> list[Any]:
    """The calls of tests/op_cases/ that compute something."""
    sys.path.insert(0, str(ROOT / "tests"))
    from op_cases import CASES

    return [case for case in CASES if all(a is None or a.size for a in case.make())]


def own_dtype(case: Any) -> str:
    """That of the case's data, its largest tensor. Where it is not f32 (quantised ops, look-ups), no other is asked."""
    import numpy as np

    import pylayout as pl

    arrays = [a for a in case.make() if a is not None]
    return str(pl.asarray(max(arrays, key=lambda a: (a.size, a.dtype == np.float32))).dtype)


def candidates_of(case: Any, dtype: str, device: str) -> list[dict[str, Any]]:
    """The candidates of a case with data of that dtype; none where the schema refuses it."""
    import numpy as np

    import pylayout as pl

    from op_cases import tensor_parameters  # isort: skip

    arrays, own = case.make(), own_dtype(case)
    largest = max((a for a in arrays if a is not None), key=lambda a: (a.size, a.dtype == np.float32))
    # What the schema has in f32 whatever the data are: statistics of batch norm.
    dtypes = {p["name"]: p.get("dtypes") for p in calls.schemas()[case.op]["parameters"]}
    single = [not case.variadic and dtypes[name] == ["f32"] for name in tensor_parameters(case.op)]
    single += [False] * (len(arrays) - len(single))
    tensors = []
    for i, array in enumerate(arrays):
        if array is None:
            tensors.append(None)
            continue
        tensor = pl.asarray(array, device=device)
        converts = array.dtype == np.float32 and own == "f32" and not (array is not largest and single[i])
        tensors.append(tensor.to(dtype=dtype) if converts else tensor)
    try:
        if case.variadic:
            answer = pl.query(case.op, tensors, **case.attributes)
        else:
            named = dict(zip(tensor_parameters(case.op), tensors, strict=False))
            answer = pl.query(case.op, **named, **case.attributes)
    except (ValueError, TypeError, NotImplementedError, RuntimeError):
        return []
    found: list[dict[str, Any]] = answer.candidates
    return found


def collect(ops: list[str]) -> dict[str, Any]:
    """What the library on this machine answers for every case in every dtype; of all ops, or of those named."""
    import datetime

    import pylayout as pl

    pl.configure(tune="off")
    devices = ["cpu", *[device.name for device in pl.devices() if device.name != "cpu"][:1]]
    found: dict[str, dict[str, dict[str, set[str]]]] = {}
    for case in cases_of_ops():
        if ops and case.op not in ops:
            continue
        own = own_dtype(case)
        for dtype in DTYPES if own == "f32" else [own]:
            for device in devices:
                for candidate in candidates_of(case, dtype, device):
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
        "dynamic": collect_dynamic(ops),
    }


def merged(data: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Data with what was asked of some ops later."""
    parts = {part: dict(sorted({**data[part], **later[part]}.items())) for part in ("ops", "dynamic")}
    return {**data, **parts}


def collect_dynamic(ops: list[str]) -> dict[str, str]:
    """By op the axes of its first tensor whose size may be known late: "all", or their numbers."""
    import pylayout as pl

    sys.path.insert(0, str(ROOT / "tests"))
    from late_sizes import late_axes
    from op_cases import CASES

    pl.configure(tune="off")
    best: dict[str, tuple[bool, int, str]] = {}
    for case in CASES:
        if ops and case.op not in ops:
            continue
        first = case.make()[0]
        if first is None or first.ndim == 0:
            best.setdefault(case.op, (False, -1, ""))  # there are none
            continue
        axes = late_axes(case)
        whole = len(axes) == first.ndim
        found = (whole, len(axes), "all" if whole else " ".join(map(str, sorted(axes))))
        best[case.op] = max(best.get(case.op, found), found)
    return {op: text for op, (_, _, text) in sorted(best.items())}


def problems(data: dict[str, Any]) -> list[str]:
    """Ops of the schemas that the data lack, and ops that are gone."""
    with_provider = {name for name, schema in calls.schemas().items() if not schema["view"]}
    missing = sorted(with_provider - set(data["ops"]))
    gone = sorted(set(data["ops"]) - set(calls.schemas()))
    late = sorted(name for name in data["ops"] if name not in data["dynamic"])
    return [
        *(f"no data for {name}" for name in missing),
        *(f"no sizes known late for {name}" for name in late),
        *(f"{name} is no op any more" for name in gone),
    ]


def derived() -> dict[str, tuple[set[str], set[str], set[str]]]:
    """By op: inputs that a loss can be derived by, those that it cannot, and the ops that these gradients consist of.

    From the calls of tests/op_cases/: what Graph.gradients makes of each.
    """
    import numpy as np

    import pylayout as pl

    sys.path.insert(0, str(ROOT / "tests"))
    from op_cases import CASES, tensor_parameters

    found: dict[str, tuple[set[str], set[str], set[str]]] = {}
    for case in CASES:
        if not calls.schemas()[case.op]["differentiable"]:
            continue
        arrays = case.make()
        names = tensor_parameters(case.op)
        by, not_by, made_of = found.setdefault(case.op, (set(), set(), set()))
        for i, array in enumerate(arrays):
            if array is None or array.dtype != np.float32:
                continue
            graph = pl.Graph()
            values: list[Any] = list(arrays)
            values[i] = graph.parameter("by", array)
            if case.variadic:
                results = graph.op(case.op, values, **case.attributes)
            else:
                results = graph.op(case.op, **dict(zip(names, values, strict=False)), **case.attributes)
            results = results if isinstance(results, tuple) else (results,)
            floating = [y for y in results if y.dtype.name == "f32"]
            if not floating:
                continue
            loss = graph.op("sum", floating[0])
            for y in floating[1:]:
                loss = graph.op("add", loss, graph.op("sum", y))
            before = len(graph.describe()["nodes"])
            name = names[0] if case.variadic else names[i]
            try:
                graph.gradients(loss, [values[i]])
            except pl.UnsupportedError:
                not_by.add(name)
                continue
            by.add(name)
            made_of.update(node["op"] for node in graph.describe()["nodes"][before:])
    return found


def letters(data: dict[str, Any], op: str, providers: tuple[str, ...], dtype: str) -> set[str]:
    return {letter for p in providers for letter in data["ops"].get(op, {}).get(p, {}).get(dtype, "")}


def backward_cell(data: dict[str, Any], made_of: set[str], providers: tuple[str, ...], dtype: str) -> str:
    """The layouts in which every op of a gradient has a kernel; * where each has one, in no common layout."""
    each = [letters(data, op, providers, dtype) for op in made_of if op in data["ops"]]
    if not all(each):
        return ""
    common = set(LAYOUTS).intersection(*each)
    return " ".join(sorted(common, key="PLB".index)) or "*"


def gradients(data: dict[str, Any]) -> list[str]:
    """Which ops a program may be trained through, by which of their inputs, and where."""
    schemas = calls.schemas()
    found = derived()
    places = {"cpu": ("host", "onednn"), "OpenCL": ("opencl",)}
    lines = [
        "## Forward and backward",
        "",
        "Every op above runs forward. Programs are trained through those below. The gradient of an op is made of other",
        "ops, those of the family *training* among them; the table says by which inputs there is one, and in which",
        "dtypes and layouts all ops that it consists of have a kernel: an asterisk where these have no layout in",
        "common. An empty cell of OpenCL: some of them run on the CPU. The last column names those for which oneDNN",
        "has a kernel, in f32 on the CPU; the others are the host provider's.",
        "",
        "| op | by | " + " | ".join(f"{place} {dtype}" for place in places for dtype in DTYPES[:3]) + " | oneDNN |",
        "|---" * (3 + 3 * len(places)) + "|",
    ]
    parameters = {name: [p["name"] for p in schema["parameters"]] for name, schema in schemas.items()}
    for op, (by, not_by, made_of) in sorted(found.items()):
        names = sorted(by, key=parameters[op].index)
        missing = sorted(not_by - by, key=parameters[op].index)
        text = ", ".join(names) + (f"; not {', '.join(missing)}" if missing else "")
        cells = [backward_cell(data, made_of, providers, d) for providers in places.values() for d in DTYPES[:3]]
        by_onednn = sorted(name for name in made_of if letters(data, name, ("onednn",), "f32"))
        lines.append(f"| {op} | {text} | {' | '.join(cells)} | {', '.join(by_onednn)} |")
    without = [name for name in sorted(schemas) if not schemas[name]["differentiable"]]
    parts = [name for name in without if name.endswith(PARTS_OF_STEPS)]
    others = [name for name in without if name not in parts and name not in NO_GRADIENT]
    lines += [
        "",
        "The others have no gradient, as a test confirms:",
        "",
        "| why | ops |",
        "|---|---|",
        f"| parts of a training step themselves: there are no gradients of gradients | {', '.join(parts)} |",
        "| no floating number of the result follows from one that is given: comparisons, choices, integers, random "
        f"numbers | {', '.join(others)} |",
        *(f"| {why} | {name} |" for name, why in NO_GRADIENT.items()),
        "",
    ]
    return lines


def page(data: dict[str, Any]) -> str:
    lines = [HEAD.format(machine=data["machine"], date=data["date"])]
    for provider, title in PROVIDERS.items():
        lines += [f"## {title}", "", f"| op | {' | '.join(DTYPES)} | dynamic |", "|---" * (len(DTYPES) + 2) + "|"]
        for op, providers in sorted(data["ops"].items()):
            if provider in providers:
                cells = [" ".join(providers[provider].get(dtype, "")) for dtype in DTYPES]
                lines.append(f"| {op} | {' | '.join(cells)} | {data['dynamic'].get(op, '')} |")
        lines.append("")
    lines += gradients(data)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--collect"]:
        ops = sys.argv[2:]
        found = collect(ops)
        if ops:
            found = merged(json.loads(DATA.read_text("utf-8")), found)
        DATA.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    data = json.loads(DATA.read_text("utf-8"))
    wrong = problems(data)
    for problem in wrong:
        print(f"support.json: {problem}: run `python tools/support_page.py --collect`", file=sys.stderr)
    sys.exit(write_or_check({PAGE: page(data)}, "support_page.py") or (1 if wrong else 0))
