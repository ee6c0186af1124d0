"""A chart as inline SVG that takes its colours from the page, so that it is at home in light and dark."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from regard.runs.course import Chart, Series

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 30, 30


class Scale:
    """From values to places along an axis, with round numbers to mark."""

    def __init__(self, low: float, high: float, begin: float, end: float):
        if high <= low:
            low, high = low - (abs(low) or 1) * 0.05, high + (abs(high) or 1) * 0.05
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def __call__(self, value: float) -> float:
        """Where a value lies."""
        share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self, about: int = 7) -> list[float]:
        """Round numbers inside the axis, steps of 1, 2 or 5."""
        rough = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def draw(chart: Chart) -> str:
    """The chart as an <svg> element."""
    every_x = np.concatenate([series.x for series in chart.series])
    every_y = np.concatenate([series.y for series in chart.series])
    margin = 0.04 * float(np.ptp(every_y))
    across = Scale(0.0, float(every_x.max()), LEFT, WIDTH - RIGHT)
    low = float(every_y.min()) - margin
    low = max(0.0, low) if float(every_y.min()) >= 0 else low
    up = Scale(low, float(every_y.max()) + margin, HEIGHT - BOTTOM, TOP)
    title = escape(chart.title)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">']
    parts += [f'<text class="title" x="{LEFT}" y="16">{title}</text>', *_grid(across, up)]
    for number, series in enumerate(chart.series):
        parts += _curve(series, across, up, number)
    return "\n".join([*parts, *_legend(chart), "</svg>"])


def number_text(value: float) -> str:
    """A number short enough for an axis."""
    if value == 0:
        return "0"
    if abs(value) >= 10_000:
        return f"{value / 1000:,.4g}k"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"


def _grid(across: Scale, up: Scale) -> list[str]:
    lines = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(y):.1f}" y2="{up(y):.1f}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{number_text(y)}</text>'
        for y in up.ticks()
    ]
    lines += [
        f'<text class="tick" x="{across(x):.1f}" y="{HEIGHT - 10}" text-anchor="middle">'
        f"{number_text(x)}</text>"
        for x in across.ticks(8)
        if x == int(x)
    ]
    return lines


def _curve(series: Series, across: Scale, up: Scale, number: int) -> list[str]:
    points = [(across(x), up(y)) for x, y in zip(series.x, series.y, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    lines = [f'<polyline class="curve c{number}" points="{path}"/>']
    if series.marked or len(points) == 1:
        lines += [f'<circle class="dot c{number}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
    return lines


def _legend(chart: Chart) -> list[str]:
    if len(chart.series) == 1:
        return []
    place, lines = WIDTH - RIGHT, []
    for number, series in reversed(list(enumerate(chart.series))):
        lines.append(
            f'<text class="key c{number}" x="{place}" y="16" text-anchor="end">{escape(series.name)}</text>'
        )
        place -= 8 * len(series.name) + 16
    return lines
