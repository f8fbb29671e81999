"""Curves over a common axis, as SVG that has the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Curve", "chart"]

_WIDTH, _HEIGHT = 1060, 260  # pixels, with the margins
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 34
_MOST_POINTS = 600  # of a curve that is drawn; longer ones are means of neighbours


@dataclass(frozen=True)
class Curve:
    """points: (x, y), ascending in x. colour: the name of a colour of style.css."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    width: float = 2.0


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most _MOST_POINTS, each the mean of its stretch."""
    length = -(-len(points) // _MOST_POINTS)
    stretches = [points[i : i + length] for i in range(0, len(points), length)] if length else []
    return [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in stretches]


def _steps(lowest: float, highest: float, count: int) -> list[float]:
    """About `count` round values between two."""
    span = highest - lowest
    if span <= 0:
        return [lowest]
    unit = 10.0 ** math.floor(math.log10(span / count))
    step = next(unit * factor for factor in (1, 2, 5, 10) if span / (unit * factor) <= count)
    first = math.ceil(lowest / step - 1e-9)
    return [step * k for k in range(first, math.floor(highest / step + 1e-9) + 1)]


def _decades(lowest: float, highest: float) -> list[float]:
    """Powers of ten, with twice and five times them where these are few."""
    found = [10.0**k for k in range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)]
    if len(found) <= 4:
        found = [factor * power for power in found for factor in (1, 2, 5)]
    return [value for value in found if lowest <= value <= highest]


def chart(curves: Sequence[Curve], x_name: str, *, logarithmic: bool = False) -> str:
    """The curves in one picture, a legend above it. Values of a logarithmic one that are not above 0 are left out."""
    drawn = []
    for curve in curves:
        points = [(x, y) for x, y in curve.points if math.isfinite(y) and (y > 0 or not logarithmic)]
        drawn.append((curve, _thinned(points)))
    every = [point for _, points in drawn for point in points]
    if not every:
        return '<p class="note">Nothing was recorded.</p>'
    left, right = min(x for x, _ in every), max(x for x, _ in every)
    low, high = min(y for _, y in every), max(y for _, y in every)
    if low == high:
        low, high = (low / 2, high * 2) if logarithmic else (low - 0.5, high + 0.5)

    def height(y: float) -> float:
        share = math.log(y / low) / math.log(high / low) if logarithmic else (y - low) / (high - low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def across(x: float) -> float:
        return _LEFT + (x - left) / ((right - left) or 1) * (_WIDTH - _LEFT - _RIGHT)

    parts = []
    for value in _decades(low, high) if logarithmic else _steps(low, high, 6):
        y = height(value)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="var(--line)"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    parts += [
        f'<text x="{across(value):.1f}" y="{_HEIGHT - 14}" text-anchor="middle">{value:g}</text>'
        for value in _steps(left, right, 10)
    ]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 1}" text-anchor="middle">{escape(x_name)}</text>')
    for curve, points in drawn:
        if len(points) == 1:
            (x, y), colour = points[0], f"var(--{curve.colour})"
            parts.append(f'<circle cx="{across(x):.1f}" cy="{height(y):.1f}" r="3" fill="{colour}"/>')
            continue
        line = "L".join(f"{across(x):.1f} {height(y):.1f}" for x, y in points)
        parts.append(
            f'<path d="M{line}" fill="none" stroke="var(--{curve.colour})" stroke-width="{curve.width}" '
            f'stroke-linejoin="round"><title>{escape(curve.name)}</title></path>'
        )
    keys = "".join(
        f'<span><i style="background:var(--{curve.colour})"></i>{escape(curve.name)}</span>' for curve in curves
    )
    return (
        f'<div class="legend">{keys}</div><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img" '
        f'aria-label="{escape(", ".join(curve.name for curve in curves))}" '
        f'style="font-size:11.5px;fill:var(--soft)">{"".join(parts)}</svg>'
    )
