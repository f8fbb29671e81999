"""The plots of docs/results/: what each shows, and its SVG by matplotlib.

An SVG differs from one matplotlib to the next, so a plot is current if the digest in its first comment is that of its
data; matplotlib is needed to draw only.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Colours that are told apart by readers with colour blindness too (Okabe and Ito).
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7"]


@dataclass
class Plot:
    """Horizontal bars: a group a row, a colour a series."""

    file: str
    title: str
    axis: str
    rows: list[str]
    series: dict[str, list[float | None]]
    kind: str = "bars"  # or "stacked", or "points" on a logarithmic axis
    mark: float | None = None  # a line across

    @staticmethod
    def of_means(file: str, title: str, means: dict[str, float]) -> Plot:
        """One bar a geometric mean."""
        values: list[float | None] = [round(value, 3) for value in means.values()]
        return Plot(file, title, "times as fast as the best peer", list(means), {"": values}, mark=1)

    def digest(self) -> str:
        content = [self.title, self.axis, self.rows, self.series, self.kind, self.mark]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    def is_current(self, folder: Path) -> bool:
        path = folder / self.file
        return path.exists() and f"<!-- data: {self.digest()} -->" in path.read_text("utf-8")

    def write(self, folder: Path) -> None:
        import io

        import matplotlib

        matplotlib.use("svg")
        matplotlib.rcParams["svg.hashsalt"] = "pylayout"
        from matplotlib import pyplot

        count = len(self.series)
        height = 0.8 / (1 if self.kind != "bars" else count)
        inches = 1.1 + len(self.rows) * max(0.24, 0.13 * (count if self.kind == "bars" else 1))
        figure, axes = pyplot.subplots(figsize=(7.5, inches), layout="constrained")
        left = [0.0] * len(self.rows)
        for i, (name, values) in enumerate(self.series.items()):
            numbers = [value or 0.0 for value in values]
            places = [
                row + (i - (count - 1) / 2) * height if self.kind == "bars" else row for row in range(len(self.rows))
            ]
            if self.kind == "points":
                seen = [(value, row) for row, value in enumerate(values) if value]
                axes.plot([v for v, _ in seen], [r for _, r in seen], "o", color=COLOURS[i], label=name)
            else:
                bars = axes.barh(
                    places, numbers, height, left=left if self.kind == "stacked" else 0, color=COLOURS[i], label=name
                )
                if self.kind == "bars" and count == 1:
                    axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
            if self.kind == "stacked":
                left = [a + b for a, b in zip(left, numbers, strict=True)]
        axes.set_yticks(range(len(self.rows)), self.rows, fontsize=8)
        axes.margins(y=0.01)
        axes.invert_yaxis()
        axes.set_xlabel(self.axis, fontsize=9)
        axes.set_title(self.title, fontsize=10)
        if self.kind == "points":
            axes.set_xscale("log")
        if self.mark is not None:
            axes.axvline(self.mark, color="black", linewidth=1)
        if count > 1:
            axes.legend(fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
        head, _, rest = text.getvalue().partition("<svg")
        folder.mkdir(parents=True, exist_ok=True)
        lines = [line.rstrip() for line in f"{head}<!-- data: {self.digest()} -->\n<svg{rest}".split("\n")]
        (folder / self.file).write_text("\n".join(lines), "utf-8")


def plots_of(record: dict[str, Any]) -> list[Plot]:
    """The plots of a record: none for benchmarks whose tables are short."""
    name = record["file"].replace("/", "-")
    rows = record["rows"]
    found: list[Plot] = []
    benchmark = record["benchmark"]
    if benchmark in ("models", "gpu_models", "gpu"):
        label = "op" if benchmark == "gpu" else "network"
        apart = "batch" if benchmark == "models" else "math"
        names = list(dict.fromkeys(row[label] for row in rows))
        values = {(row[label], row[apart]): row.get("ratio") for row in rows}
        series = {
            f"batch {kind}" if apart == "batch" else str(kind): [values.get((each, kind)) for each in names]
            for kind in dict.fromkeys(row[apart] for row in rows)
        }
        found.append(
            Plot(f"{name}-ratio.svg", record["title"], "times as fast as the best peer", names, series, mark=1)
        )
    if benchmark == "models":
        worst: dict[str, float] = {}
        for row in rows:
            error = row["engines"]["plan"].get("error") or 0.0
            worst[row["network"]] = max(worst.get(row["network"], 0.0), error)
        axis = "relative L2 distance to PyTorch"
        found.append(
            Plot(f"{name}-error.svg", "Error of plans", axis, list(worst), {"": list(worst.values())}, "points")
        )
    if benchmark == "winograd":
        values = [row.get("ratio") for row in rows]
        shapes = [row["shape"] if isinstance(row["shape"], str) else " ".join(map(str, row["shape"])) for row in rows]
        found.append(
            Plot(f"{name}-ratio.svg", record["title"], "times as fast as oneDNN", shapes, {"": values}, mark=1)
        )
    if benchmark == "networks":
        for row in rows:
            entries = {key: entry for key, entry in row["engines"].items() if "ms" in entry and "reorders" in entry}
            if not any(entry.get("reorder_ms") for entry in entries.values()):
                continue
            reorders: list[float | None] = [entry.get("reorder_ms", 0.0) for entry in entries.values()]
            rest: list[float | None] = [e["ms"] - (r or 0) for e, r in zip(entries.values(), reorders, strict=True)]
            title = f"{row['network']}: time and reorders by policy"
            series = {"ops and the rest": rest, "reorders": reorders}
            found.append(Plot(f"{name}-{row['network']}.svg", title, "ms", list(entries), series, "stacked"))
    if benchmark == "gpu_memory":
        names = list(dict.fromkeys(row["op"] for row in rows))
        series = {
            dtype: [
                min((r["tb_s"] for r in rows if r["op"] == op and r["dtype"] == dtype), default=None) for op in names
            ]
            for dtype in dict.fromkeys(row["dtype"] for row in rows)
        }
        target = 0.8 * record.get("peak_tb_s", 0) or None
        axis = "TB/s, the slowest layout; the line is the target"
        found.append(Plot(f"{name}-rate.svg", record["title"], axis, names, series, mark=target))
    return found
