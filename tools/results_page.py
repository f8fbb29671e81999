"""Write docs/results/ (a page a device, plots, an index) and README's figures from docs/results/data/DEVICE/*.json.

python tools/results_page.py           writes them
python tools/results_page.py --check   fails if one is not current

A file is a record as bench/record.py writes it, plus "title" and, if the rows are not those of a benchmark known here,
"columns": [[key, heading], ...] (a key may be "a.b" for a value within a value). "notes" are printed below the table;
"result", a few words, stands in the index where no geometric mean of ratios does.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from generated import write_or_check
from results_plots import Plot, plots_of

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures: written by tools/results_page.py -->", "<!-- figures: end -->"

Record = dict[str, Any]
Table = tuple[list[str], list[list[str]]]

MATHS = ["fp32", "tf32", "fp16"]
# Benchmarks whose rows are one case each, so that a mean of their ratios says something.
CASES = {"models", "torch_compile", "gpu_models", "gpu", "winograd", "conv_fwd_stream", "training"}
# Those whose ratios are the best peer's time by ours.
PEERS = {"models", "torch_compile", "gpu_models", "gpu", "training", "many_cores"}
EQUAL = 0.03  # ratios this close to 1 count neither way: a second run gives them another sign


def number(value: Any, digits: int = 3) -> str:
    """A figure as tables show it."""
    if value is None:
        return ""
    if isinstance(value, float):
        return (
            f"{value:.1e}"
            if value and abs(value) < 1e-3
            else f"{value:.{digits}g}"
            if abs(value) < 100
            else f"{value:.0f}"
        )
    return str(value)


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def mean(values: list[float]) -> float:
    return statistics.geometric_mean(values)


def groups(record: Record) -> dict[str, list[float]]:
    """The ratios of a record, by what sets its rows apart: "batch 1", "fp32"."""
    found: dict[str, list[float]] = {}
    for row in record["rows"]:
        if isinstance(row.get("ratio"), (int, float)):
            several = len({(r.get("batch"), r.get("math")) for r in record["rows"]}) > 1
            name = row.get("math") or (f"batch {row['batch']}" if "batch" in row and several else "all")
            found.setdefault(name, []).append(row["ratio"])
    return found


# ---- the tables of benchmarks ----


def models_table(record: Record) -> Table:
    """A row a network, batches side by side."""
    batches = sorted({row["batch"] for row in record["rows"]})
    names = {
        "plan": "plan", "onnxruntime": "ORT", "openvino": "OpenVINO", "torch": "PyTorch",
        "pylayout": "pylayout", "eager": "eager", "channels_last": "channels last", "inductor": "inductor",
    }  # fmt: skip
    engines = [name for name in names if any(name in row["engines"] for row in record["rows"])]
    head = ["network"]
    for batch in batches:
        head += [f"batch {batch}: {names[engines[0]]}, ms", *(names[name] for name in engines[1:]), "ratio"]
    by_network: dict[str, dict[int, Any]] = {}
    for row in record["rows"]:
        by_network.setdefault(row["network"], {})[row["batch"]] = row
    rows = []
    for network, of_batch in by_network.items():
        cells = [network]
        for batch in batches:
            row = of_batch.get(batch, {"engines": {}})
            cells += [number(row["engines"].get(name, {}).get("ms")) for name in engines] + [ratio(row.get("ratio"))]
        errors = [row["engines"][engines[0]].get("error") for row in of_batch.values()]
        rows.append([*cells, number(max((e for e in errors if e is not None), default=None))])
    last = ["geometric mean"]
    for batch in batches:
        of_group = groups(record)[f"batch {batch}" if len(batches) > 1 else "all"]
        last += [""] * len(engines) + [f"**{ratio(mean(of_group))}**"]
    return [*head, "error"], [*rows, [*last, ""]]


def by_math_table(
    record: Record, key: str, ours: Callable[[Any], Any], theirs: Callable[[Any], Any], peer: str
) -> Table:
    """A row a network or op, maths side by side."""
    maths = [math for math in MATHS if any(row["math"] == math for row in record["rows"])]
    head = [key] + [word for math in maths for word in (math, peer, "ratio")]
    by_name: dict[str, dict[str, Any]] = {}
    for row in record["rows"]:
        by_name.setdefault(row[key], {})[row["math"]] = row
    rows = []
    for name, of_math in by_name.items():
        cells = [name]
        for math in maths:
            row = of_math.get(math)
            cells += [number(ours(row)), number(theirs(row)), ratio(row.get("ratio"))] if row else ["", "", ""]
        rows.append(cells)
    last = ["geometric mean"]
    for math in maths:
        last += ["", "", f"**{ratio(mean(groups(record)[math]))}**"]
    return head, [*rows, last]


def gpu_models_table(record: Record) -> Table:
    def peer(row: Any) -> Any:
        return min(ms for name, ms in row["ms"].items() if name != "plan")

    return by_math_table(record, "network", lambda row: row["ms"]["plan"], peer, "cuDNN")


def training_table(record: Record) -> Table:
    """A row a network, with each engine's time of a step; a mean for each mode of math."""
    engines = list(dict.fromkeys(name for row in record["rows"] for name in row["ms"]))
    head = ["network", "batch", "math", "optimizer", *(f"{name.replace('torch', 'PyTorch')}, ms" for name in engines)]
    older = [row for row in record["rows"] if "dlprimitives_ms" in row]  # in fp32
    more = ["dlprimitives, ms", "times as fast"] if older else []
    rows = [
        [row["network"], str(row["batch"]), row["math"], row.get("optimizer", "")]
        + [number(row["ms"].get(name)) for name in engines]
        + [ratio(row.get("ratio"))]
        + ([number(row.get("dlprimitives_ms")), ratio(times_dlprimitives(row))] if more else [])
        for row in record["rows"]
    ]
    of_groups = groups(record)
    for name, ratios in of_groups.items():
        of = f" of {name}" if len(of_groups) > 1 else ""
        rows.append([f"geometric mean{of}", *[""] * (len(head) - 1), f"**{ratio(mean(ratios))}**", *[""] * len(more)])
    if more:
        rows[len(record["rows"])][-1] = f"**{ratio(mean([times_dlprimitives(row) for row in older]))}**"
    return [*head, "ratio", *more], rows


def times_dlprimitives(row: Any) -> Any:
    return row["dlprimitives_ms"] / row["ms"]["pylayout"] if "dlprimitives_ms" in row else None


def gpu_table(record: Record) -> Table:
    return by_math_table(record, "op", lambda row: row["tflops"], lambda row: row.get("torch_tflops"), "PyTorch")


def networks_table(record: Record) -> Table:
    """A row an engine, networks side by side; reorders of activations by number and share of the time."""
    head = ["engine"]
    engines: list[str] = []
    for row in record["rows"]:
        head += [f"{row['network']}, ms", "reorders"]
        engines += [name for name in row["engines"] if name not in engines]
    rows = []
    for name in engines:
        cells = [name]
        for row in record["rows"]:
            entry = row["engines"].get(name, {})
            share = entry["reorder_ms"] / entry["ms"] if entry.get("reorder_ms") else None
            cells.append(number(entry.get("ms")))
            cells.append(f"{number(entry.get('reorders'))}{f', {share:.1%}' if share else ''}")
        rows.append(cells)
    return head, rows


def gpu_memory_table(record: Record) -> Table:
    """A row an op and dtype, layouts in one cell."""
    by_op: dict[tuple[str, str], list[Any]] = {}
    for row in record["rows"]:
        by_op.setdefault((row["op"], row["dtype"]), []).append(row)
    rows = [
        [op, dtype, ", ".join(row["layout"] for row in of_op), ", ".join(number(row["tb_s"]) for row in of_op)]
        for (op, dtype), of_op in by_op.items()
    ]
    return ["op", "dtype", "layouts", "TB/s"], rows


def plain_table(record: Record) -> Table:
    """The columns that the record names, else every plain value of the rows."""

    def within(row: Any, key: str) -> Any:
        for part in key.split("."):
            row = row.get(part) if isinstance(row, dict) else None
        return row

    columns = record.get("columns")
    if not columns:
        keys = dict.fromkeys(
            key for row in record["rows"] for key, value in row.items() if not isinstance(value, (dict, list))
        )
        columns = [[key, key.replace("_", " ")] for key in keys]
    rows = []
    for row in record["rows"]:
        values = [(key, within(row, key)) for key, _ in columns]
        rows.append(
            [
                ratio(value) if key.endswith("ratio") and isinstance(value, float) else number(value, 4)
                for key, value in values
            ]
        )
    return [heading for _, heading in columns], rows


TABLES: dict[str, Callable[[Record], Table]] = {
    "models": models_table,
    "torch_compile": models_table,
    "networks": networks_table,
    "gpu_models": gpu_models_table,
    "gpu": gpu_table,
    "gpu_memory": gpu_memory_table,
    "training": training_table,
}


# ---- the pages ----


def section(record: Record, plots: list[Plot]) -> list[str]:
    """One record: what, when, how, figures, plots, notes."""
    machine = record["machine"]
    facts = [f"{record['date']}"]
    if "threads" in machine:
        facts.append(f"{machine['threads']} thread{'s' if machine['threads'] != 1 else ''}")
    if machine.get("state"):
        facts.append(machine["state"])
    facts += [f"{name} {version}" for name, version in record.get("versions", {}).items()]
    head, rows = TABLES.get(record["benchmark"], plain_table)(record)
    lines = [f"## {record['title']}", "", f"{'; '.join(facts)}: `{record['command']}`", ""]
    lines += [f"![{plot.title}](plots/{plot.file})" for plot in plots]
    lines += [""] if plots else []
    lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", *(f"- {note}" for note in record.get("notes", []))]
    return [*lines, ""] if record.get("notes") else lines


def device_page(records: list[Record], plots: dict[str, list[Plot]]) -> str:
    machine = records[0]["machine"]
    facts = [
        f"{key}: {value}" for key, value in machine.items() if key not in ("name", "threads", "state", "load") and value
    ]
    lines = [f"# {machine['name']}", "", "Made by `tools/results_page.py` from `docs/results/data/`: do not edit."]
    lines += [
        "How figures are taken: [Measure](../howto/measure.md). A ratio above 1 means that pylayout is faster.",
        "",
    ]
    lines += ["; ".join(facts) + ".", ""]
    for record in records:
        lines += section(record, plots[record["file"]])
    return "\n".join(lines).rstrip() + "\n"


def case_name(row: Any) -> str:
    """What a row is of: "resnet50, batch 16, fp16"."""
    parts = [row.get("network") or row["op"]]
    parts += [f"batch {row['batch']}"] if "batch" in row else []
    parts += [row["math"]] if "math" in row else []
    parts += [f"{row['threads']} threads"] if "threads" in row else []
    return ", ".join(parts)


def sides_table(devices: dict[str, list[Record]]) -> list[str]:
    """How many cases are faster than the best peer, and how many slower, with the slowest."""
    lines = ["## Faster and slower than peers", ""]
    lines += [
        f"Cases by their ratio to the best peer measured beside: faster above {1 + EQUAL}, slower below {1 - EQUAL}.",
        "",
        "| what | faster | equal | slower | the largest ratio | the least ratios |",
        "|---|---|---|---|---|---|",
    ]
    for folder, records in devices.items():
        for record in (record for record in records if record["benchmark"] in PEERS):
            rows = sorted((row for row in record["rows"] if row.get("ratio")), key=lambda row: row["ratio"])
            slower = [row for row in rows if row["ratio"] < 1 - EQUAL]
            faster = [row for row in rows if row["ratio"] > 1 + EQUAL]
            first = "; ".join(f"{case_name(row)}: {row['ratio']:.2f}" for row in rows[: min(max(len(slower), 1), 3)])
            lines.append(
                f"| {records[0]['machine']['name']}: [{record['title']}]({folder}.md#{slug(record['title'])}) "
                f"| {len(faster)} | {len(rows) - len(faster) - len(slower)} | {len(slower)} "
                f"| {case_name(rows[-1])}: {rows[-1]['ratio']:.2f} | {first} |"
            )
    return [*lines, ""]


def index_page(devices: dict[str, list[Record]]) -> str:
    lines = ["# Results", "", "Made by `tools/results_page.py` from `docs/results/data/`: do not edit.", ""]
    lines += ["Ratios are geometric means over the rows; above 1, pylayout is faster. How figures are taken:"]
    lines += [
        "[Measure](../howto/measure.md); how to add yours: [Publish figures](../publish.md). What was tried on the way:"
    ]
    lines += ["[Notes](../notes/index.md).", ""]
    lines += sides_table(devices)
    for folder, records in devices.items():
        lines += [f"## [{records[0]['machine']['name']}]({folder}.md)", "", "| what | date | result |", "|---|---|---|"]
        for record in records:
            if record["benchmark"] in CASES:
                of_groups = groups(record).items()
                parts = [f"{'' if name == 'all' else name + ' '}{mean(r):.2f} ({len(r)} rows)" for name, r in of_groups]
                result = ", ".join(parts)
            else:
                result = record.get("result", "")
            title = f"[{record['title']}]({folder}.md#{slug(record['title'])})"
            lines.append(f"| {title} | {record['date']} | {result} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def figures(devices: dict[str, list[Record]]) -> str:
    """README's figures: geometric means of the records of whole networks."""
    by_file = {record["file"]: record for records in devices.values() for record in records}
    cpu, gpu = by_file["zen5/models"], by_file["h200/gpu_models"]
    cpu_means = {name: mean(ratios) for name, ratios in groups(cpu).items()}
    gpu_means = {name: mean(ratios) for name, ratios in groups(gpu).items()}
    networks = len({row["network"] for row in cpu["rows"]}), len({row["network"] for row in gpu["rows"]})
    on_cpu = " and ".join(f"**{value:.2f}** at {name}" for name, value in cpu_means.items())
    on_gpu = ", ".join(f"**{value:.2f}** in {name}" for name, value in gpu_means.items())
    return "\n".join(
        [
            "![Plans of whole networks beside the best peer](docs/results/plots/whole-networks.svg)",
            "",
            "Speed of pylayout's plans relative to the fastest peer (geometric mean; above 1, pylayout is faster):",
            "",
            f"- CPU, {networks[0]} networks, {cpu['machine']['threads']} cores of an {cpu['machine']['name']}, against "
            f"the better of ONNX Runtime and OpenVINO: {on_cpu}.",
            f"- GPU, {networks[1]} networks, batch 16, {gpu['machine']['name']} through OpenCL, against PyTorch with "
            f"cuDNN: {on_gpu}.",
            "",
            "Every row: [Results](docs/results/index.md).",
        ]
    )


def rank(record: Record) -> int:
    """Where a record stands on its page: whole networks first."""
    first = ["models", "gpu_models", "networks", "policies", "profile", "gpu"]
    return first.index(record["benchmark"]) if record["benchmark"] in first else len(first)


def load() -> dict[str, list[Record]]:
    """The records by device; devices and records with whole networks first."""
    devices: dict[str, list[Record]] = {}
    for path in sorted((RESULTS / "data").glob("*/*.json")):
        record = json.loads(path.read_text("utf-8"))
        record["file"] = f"{path.parent.name}/{path.stem}"
        devices.setdefault(path.parent.name, []).append(record)
    for records in devices.values():
        records.sort(key=lambda record: (rank(record), record["file"]))
    return dict(sorted(devices.items(), key=lambda item: rank(item[1][0])))


def main() -> int:
    devices = load()
    plots = {record["file"]: plots_of(record) for records in devices.values() for record in records}
    summary = Plot.of_means(
        "whole-networks.svg",
        "Plans of whole networks beside the best peer",
        {
            f"{record['machine']['name']}, {name if name.startswith('batch') else name + ', batch 16'}": mean(ratios)
            for record in (devices["zen5"][0], devices["h200"][0])
            for name, ratios in groups(record).items()
        },
    )
    readme = README.read_text("utf-8")
    begin, end = readme.index(BEGIN) + len(BEGIN), readme.index(END)
    files = {
        README: readme[:begin] + "\n" + figures(devices) + "\n" + readme[end:],
        RESULTS / "index.md": index_page(devices),
        **{RESULTS / f"{folder}.md": device_page(records, plots) for folder, records in devices.items()},
    }
    every = [summary, *(plot for of_record in plots.values() for plot in of_record)]
    stale = [path for path in RESULTS.glob("*.md") if path not in files]
    stale += [path for path in (RESULTS / "plots").glob("*.svg") if path.name not in {plot.file for plot in every}]
    old = [plot for plot in every if not plot.is_current(RESULTS / "plots")]
    if "--check" not in sys.argv[1:]:
        for plot in old:
            plot.write(RESULTS / "plots")
    elif old:
        print(f"{old[0].file} is not current: run `python tools/results_page.py`", file=sys.stderr)
    return write_or_check(files, "results_page.py", stale) or int("--check" in sys.argv[1:] and bool(old))


if __name__ == "__main__":
    sys.exit(main())
