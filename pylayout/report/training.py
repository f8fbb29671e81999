"""The report of a training: its curves, what is confused with what, and the pictures that it gets wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import write_text
from ..machine import facts as machine_facts
from . import _page, sections
from .curves import Curve, chart

__all__ = ["Results", "write_training"]

_MOST_CLASSES = 30  # of a table of what is confused with what
_MOST_WRONG = 40  # pictures
_MOST_PIXELS = 32 * 32  # of a picture that is drawn pixel by pixel
_SIDE = 64  # of its drawing


@dataclass(frozen=True)
class Results:
    """What a training was and gave. epochs: dicts with number, loss, test_loss, accuracy, lr, seconds, in order."""

    title: str
    facts: Mapping[str, str]
    epochs: Sequence[Mapping[str, float]]
    losses: Sequence[float]  # of each step
    images: NDArray[np.float32]  # (n, c, h, w), not trained on
    labels: NDArray[np.int64]
    guesses: NDArray[np.int64]


def _cards(results: Results) -> str:
    last = results.epochs[-1]
    shown = [
        (f"{100 * last['accuracy']:.2f}%", f"of {len(results.labels)} test pictures right"),
        (f"{last['loss']:.4f}", "loss in the last epoch"),
        (f"{last['test_loss']:.4f}", "loss on the test pictures"),
        (f"{sum(epoch['seconds'] for epoch in results.epochs):.1f} s", f"for {len(results.epochs)} epochs"),
    ]
    content = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(text)}</span></div>' for value, text in shown
    )
    return f'<div class="cards">{content}</div>'


def _loss_chart(results: Results) -> str:
    steps = len(results.losses) / len(results.epochs)  # of an epoch
    each = [((i + 0.5) / steps, loss) for i, loss in enumerate(results.losses)]
    curves = [
        Curve("each step", "rest", each, width=1.0),
        Curve("mean of an epoch", "conv", [(epoch["number"], epoch["loss"]) for epoch in results.epochs]),
        Curve("test pictures", "reorder", [(epoch["number"], epoch["test_loss"]) for epoch in results.epochs]),
    ]
    return chart(curves, "epochs", logarithmic=True)


def _accuracy_chart(results: Results) -> str:
    points = [(epoch["number"], 100 * epoch["accuracy"]) for epoch in results.epochs]
    return chart([Curve("% of the test pictures right", "best", points)], "epochs")


def _confusion(results: Results) -> str:
    """Rows: what a picture is; columns: what it was taken for."""
    classes = int(max(results.labels.max(), results.guesses.max())) + 1
    if classes > _MOST_CLASSES:
        return f'<p class="note">A table of {classes} classes is left out.</p>'
    counts = np.zeros((classes, classes), int)
    np.add.at(counts, (results.labels, results.guesses), 1)
    head = "".join(f'<th class="r">{i}</th>' for i in range(classes))
    rows = []
    for i, row in enumerate(counts):
        cells = "".join(
            f'<td class="r{" best" if i == j else ""}">{count if count else "·"}</td>' for j, count in enumerate(row)
        )
        rows.append(f"<tr><th>{i}</th>{cells}</tr>")
    return f'<div class="scroll"><table><tr><th></th>{head}</tr>{"".join(rows)}</table></div>'


def _drawing(image: NDArray[np.float32], low: float, high: float) -> str:
    """A picture of few pixels, its first three channels as colours."""
    planes = image[:3] if len(image) >= 3 else np.repeat(image[:1], 3, axis=0)
    levels = np.clip((planes - low) / ((high - low) or 1) * 255, 0, 255).astype(int)
    height, width = levels.shape[1:]
    pixels = "".join(
        f'<path d="M{x} {y}h1v1h-1z" fill="rgb({",".join(str(v) for v in levels[:, y, x])})"/>'
        for y in range(height)
        for x in range(width)
    )
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{_SIDE}" height="{_SIDE}" shape-rendering="crispEdges">'
        f"{pixels}</svg>"
    )


def _wrong(results: Results) -> str:
    places = np.flatnonzero(results.labels != results.guesses)
    if not len(places):
        return '<p class="note">None.</p>'
    if results.images[0, 0].size > _MOST_PIXELS:
        return f'<p class="note">{len(places)}; pictures of more than {_MOST_PIXELS} pixels are not drawn.</p>'
    low, high = float(results.images.min()), float(results.images.max())
    drawn = "".join(
        f'<figure style="margin:0">{_drawing(results.images[i], low, high)}<figcaption class="note">'
        f"{results.labels[i]}, taken for {results.guesses[i]}</figcaption></figure>"
        for i in places[:_MOST_WRONG]
    )
    more = f'<p class="note">{_MOST_WRONG} of {len(places)}.</p>' if len(places) > _MOST_WRONG else ""
    return f'{more}<div style="display:flex;flex-wrap:wrap;gap:14px">{drawn}</div>'


def write_training(path: str | os.PathLike[str], results: Results) -> None:
    """Write the report as one HTML file that loads nothing from elsewhere."""
    facts: dict[str, Any] = {**results.facts, "at": f"{datetime.now():%Y-%m-%d %H:%M}"}
    body = [
        _cards(results),
        sections.section("Loss", _loss_chart(results), note="Cross entropy, in logarithmic scale."),
        sections.section("Accuracy", _accuracy_chart(results)),
        sections.section("Wrong test pictures", _wrong(results)),
        sections.section(
            "What is taken for what", _confusion(results), note="Rows: the class of a picture; columns: the guess."
        ),
        sections.section("Machine", sections.facts_table(machine_facts())),
    ]
    write_text("report", path, _page(results.title, facts, body))
