"""Charts of a lesson as SVG or PNG: legible at 700 pixels, in light and dark, for colour-blind readers too.

Colours are those of Okabe and Ito; every series also has a marker or a hatch of its own. The SVG takes its
ink from `color`, which follows the reader's light or dark scheme where the file stands alone.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from regard.lessons.lesson import Chart

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")
INK = "#123456"  # a colour that occurs nowhere else; in SVG it becomes currentColor
SCHEMES = "<style>svg{color:#1d1f23}@media(prefers-color-scheme:dark){svg{color:#e6e8eb}}</style>"
PNG_INK = "#1d1f23"
WIDTH, HEIGHT = 7.0, 3.1  # inches at 100 dots: 700 pixels
MOST_MARKERS = 12


def draw_svg(charts: Sequence[Chart]) -> str:
    """The charts side by side, as an SVG whose ink follows light and dark."""
    text = _draw(charts, INK, format="svg", transparent=True, metadata={"Date": None}).decode("utf-8")
    start = text.index("<svg")
    head, rest = text[start:].split(">", 1)
    return f"{head}>{SCHEMES}{rest}".replace(INK, "currentColor")


def draw_png(charts: Sequence[Chart]) -> bytes:
    """The charts side by side on white, as a PNG."""
    return _draw(charts, PNG_INK, format="png", dpi=200, facecolor="white")


def _draw(charts: Sequence[Chart], ink: str, **options: Any) -> bytes:
    """The file of the figure; `options` are those of savefig."""
    style: dict[Any, Any] = {
        "font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "regard",
        "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": ink, "text.color": ink,
        "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink, "axes.titlecolor": ink,
        "hatch.linewidth": 0.6,
    }  # fmt: skip
    with rc_context(style):
        across = min(len(charts), 2)
        down = -(-len(charts) // across)
        figure = Figure(figsize=(WIDTH, HEIGHT * down), layout="constrained", dpi=100)
        grid = figure.subplots(down, across, squeeze=False).flat
        for axes, chart in zip(grid, charts, strict=False):
            {"lines": _lines, "bars": _bars, "heat": _heat}[chart.kind](axes, chart, ink)
            axes.set_title(chart.title, loc="left", fontsize=9.5, fontweight="bold")
            axes.set_xlabel(chart.x)
            axes.set_ylabel(chart.y)
        for axes in list(grid)[len(charts) :]:
            axes.axis("off")
        file = io.BytesIO()
        figure.savefig(file, **options)
    return file.getvalue()


def _lines(axes: Axes, chart: Chart, ink: str) -> None:
    for number, line in enumerate(chart.series):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        every = max(1, len(line.x) // MOST_MARKERS)
        axes.plot(
            line.x,
            line.y,
            color=colour,
            marker=marker,
            markevery=every,
            markersize=4,
            lw=1.6,
            label=line.name,
        )
        if line.low:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.18, lw=0)
    if chart.log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(chart.series[0].x))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([f"{value:,}" for value in chart.series[0].x])
    if chart.log_y:
        axes.set_yscale("log")
    _finish(axes, chart, ink)


def _bars(axes: Axes, chart: Chart, ink: str) -> None:
    labels, count = chart.series[0].x, len(chart.series)
    width = 0.8 / count
    for number, bars in enumerate(chart.series):
        places = np.arange(len(labels)) + (number - (count - 1) / 2) * width
        errors = [
            np.subtract(bars.y, bars.low or bars.y),
            np.subtract(bars.high or bars.y, bars.y),
        ]
        axes.bar(
            places, bars.y, width * 0.92, yerr=errors, label=bars.name, capsize=2.5, ecolor=ink,
            color=COLOURS[number % len(COLOURS)], hatch=HATCHES[number % len(HATCHES)],
            edgecolor="white", lw=0,
        )  # fmt: skip
    axes.set_xticks(np.arange(len(labels)), [str(label) for label in labels])
    if chart.log_y:
        axes.set_yscale("log")
    _finish(axes, chart, ink)


def _heat(axes: Axes, chart: Chart, ink: str) -> None:
    values = np.array([row.y for row in chart.series], float)
    image = axes.imshow(values, cmap="cividis", aspect="auto")
    axes.set_yticks(range(len(values)), [row.name for row in chart.series], fontsize=7)
    labels = [str(label) for label in chart.series[0].x]
    axes.set_xticks(range(len(labels)), labels, fontsize=7, rotation=90 if len(labels) > 12 else 0)
    assert axes.figure is not None
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.05)
    bar.outline.set_edgecolor(ink)  # pyright: ignore[reportCallIssue]


def _finish(axes: Axes, chart: Chart, ink: str) -> None:
    if chart.reference is not None:
        height, label = chart.reference
        axes.axhline(height, color=ink, lw=1, ls=(0, (4, 3)), label=label)
    axes.grid(axis="y", color=ink, alpha=0.15, lw=0.6)
    axes.set_axisbelow(True)
    handles, labels = axes.get_legend_handles_labels()
    if len(chart.series) == 1:  # its name is the label of the axis
        handles, labels = handles[: chart.reference is not None], labels[: chart.reference is not None]
    if handles:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22), "ncols": 2}
        axes.legend(handles, labels, frameon=False, fontsize=8, **below)
