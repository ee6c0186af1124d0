"""The curves of a run as PNG files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

OBJECTIVE = "What training minimises, with label smoothing and R-Drop"
MOST_POINTS = 400  # of a curve; more would not be seen


@dataclass(frozen=True)
class Series:
    """One curve: x, y, and whether its points are marked."""

    name: str
    x: np.ndarray
    y: np.ndarray
    marked: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves that share their axes; `file` is the name of the figure."""

    file: str
    title: str
    series: list[Series]


@dataclass(frozen=True)
class Curves:
    """The events of a run, in order."""

    charts: list[Chart]
    validations: list[dict[str, Any]]
    resumed: list[dict[str, Any]] = field(default_factory=list)
    finished: dict[str, Any] | None = None
    tokens: int = 0
    seconds: float = 0.0
    padding: float | None = None

    @property
    def best(self) -> dict[str, Any] | None:
        """The validation that made a checkpoint the best."""
        return next((event for event in reversed(self.validations) if event.get("is_best")), None)


def curves_of(events: Sequence[dict[str, Any]]) -> Curves:
    """The curves of these events."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_kind.setdefault(event["event"], []).append(event)
    steps, validations = by_kind.get("step", []), by_kind.get("validation", [])
    return Curves(
        charts=_charts(steps, validations),
        validations=validations,
        resumed=by_kind.get("resumed", []),
        finished=(by_kind.get("finished") or [None])[-1],
        tokens=sum(step["tokens"] for step in steps),
        seconds=sum(step["seconds"] for step in steps),
        padding=steps[-1].get("padding") if steps else None,
    )


def _charts(steps: list[dict[str, Any]], validations: list[dict[str, Any]]) -> list[Chart]:
    plain = [step for step in steps if "cross_entropy" in step]  # earlier versions did not write it
    other = len(plain) < len(steps) or any(step["cross_entropy"] != step["loss"] for step in plain)
    losses = [_mean(plain, "cross_entropy", "training"), *_scores(validations, ["loss"], "validation")]
    made = [
        Chart("loss", "Loss: cross-entropy", losses),
        Chart("objective", OBJECTIVE, [_mean(steps, "loss", "training")] if other else []),
        Chart("scores", "Validation scores", _scores(validations, ["bleu", "chrf", "accuracy"])),
        Chart("perplexity", "Validation perplexity", _scores(validations, ["perplexity"])),
        Chart("bits", "Bits per character", _scores(validations, ["bits_per_character"])),
        Chart("learning_rate", "Learning rate", [_mean(steps, "learning_rate", "learning_rate")]),
        Chart("gradient", "Gradient norm, before clipping", [_mean(steps, "gradient_norm", "norm")]),
        Chart("speed", "Tokens per second", [_speed(steps)]),
    ]
    drawn = [Chart(one.file, one.title, [s for s in one.series if len(s.x)]) for one in made]
    return [chart for chart in drawn if chart.series]


def _mean(steps: list[dict[str, Any]], key: str, name: str) -> Series:
    """A value of the steps; each point is the mean of equally many steps."""
    parts = _parts(len(steps))
    x = [steps[part[-1]]["step"] for part in parts]
    y = [np.mean([steps[place][key] for place in part]) for part in parts]
    return Series(name, np.array(x, float), np.array(y, float))


def _speed(steps: list[dict[str, Any]]) -> Series:
    parts = _parts(len(steps))
    tokens = [sum(steps[place]["tokens"] for place in part) for part in parts]
    seconds = [sum(steps[place]["seconds"] for place in part) for part in parts]
    x = np.array([steps[part[-1]]["step"] for part in parts], float)
    return Series("tokens/s", x, np.array(tokens, float) / np.maximum(np.array(seconds, float), 1e-9))


def _parts(count: int) -> list[np.ndarray]:
    """The numbers below `count` in at most MOST_POINTS ranges."""
    return [part for part in np.array_split(np.arange(count), min(count, MOST_POINTS) or 1) if len(part)]


def _scores(validations: list[dict[str, Any]], keys: Sequence[str], name: str | None = None) -> list[Series]:
    """One curve for each of these scores that has a value."""
    curves: list[Series] = []
    for key in keys:
        points = [(one["step"], one["scores"].get(key)) for one in validations]
        points = [(step, value) for step, value in points if value is not None]
        x, y = (np.array([point[axis] for point in points], float) for axis in (0, 1))
        curves.append(Series(name or key.replace("_", " "), x, y, marked=True))
    return curves


WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 30, 30


class Scale:
    """A scale from values to positions on an axis, with round tick marks."""

    def __init__(self, low: float, high: float, begin: float, end: float):
        if high <= low:
            low, high = low - (abs(low) or 1) * 0.05, high + (abs(high) or 1) * 0.05
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def __call__(self, value: float) -> float:
        """The position of a value."""
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


def write_pictures(charts: list[Chart], folder: Path) -> list[Path]:
    """One figure per chart."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(chart, folder / f"{chart.file}.png") for chart in charts]


def _write(chart: Chart, path: Path) -> Path:
    # A Figure of its own draws without a window and leaves nothing behind in matplotlib.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.4), dpi=120)
    axes = figure.subplots()
    figure.subplots_adjust(left=0.1, right=0.98, top=0.9, bottom=0.15)  # a computed layout draws all twice
    for series in chart.series:
        axes.plot(series.x, series.y, marker="o" if series.marked else None, markersize=4, label=series.name)
    axes.set_title(chart.title, loc="left", fontsize=11)
    axes.set_xlabel("step")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if len(chart.series) > 1:
        axes.legend(frameon=False)
    figure.savefig(path)
    return path
