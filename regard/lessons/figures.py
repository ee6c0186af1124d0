"""Charts of a lesson as SVG or PNG: legible at 700 pixels, in light and dark, for colour-blind readers too.

Colours are those of Okabe and Ito; every series also has a marker or a hatch of its own. The SVG takes its
ink from `color`, which follows the reader's light or dark scheme where the file stands alone.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from regard.lessons.lesson import Chart

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")
INK = "#123456"  # a colour that occurs nowhere else; in SVG it becomes currentColor
SCHEMES = "<style>svg{color:#1d1f23}@media(prefers-color-scheme:dark){svg{color:#e6e8eb}}</style>"
PNG_INK = "#1d1f23"
WIDTH, HEIGHT = 7.0, 3.1  # inches at 100 dots: 700 pixels
MOST_MARKERS = 12
THICKEST = 1.8  # the first line, as a multiple of the last
MOST_NUMBERS = 12  # beside a heat map
MOST_LETTERS = 40  # of the horizontal labels of a heat map
LEGEND_BELOW = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22)}
LEGEND_ABOVE = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.98)}  # where slanted labels are below


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
    file = io.BytesIO()
    with rc_context(style):
        figure_of(charts, ink).savefig(file, **options)
    return file.getvalue()


def figure_of(charts: Sequence[Chart], ink: str = PNG_INK) -> Figure:
    """The charts side by side, in this ink."""
    across = min(len(charts), 2)
    down = -(-len(charts) // across)
    figure = Figure(figsize=(WIDTH, HEIGHT * down), layout="constrained", dpi=100)
    grid = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, chart, looks in zip(grid, charts, _looks(charts), strict=False):
        {"lines": _lines, "bars": _bars, "heat": _heat, "image": _image}[chart.kind](axes, chart, looks, ink)
        axes.set_title(chart.title, loc="left", fontsize=9.5, fontweight="bold")
        axes.set_xlabel(chart.x)
        axes.set_ylabel(chart.y)
    for cell in {chart.cell for chart in charts if chart.kind == "heat"}:
        _share_scale([axes for axes, chart in zip(grid, charts, strict=False) if chart.cell == cell])
    for axes in grid[len(charts) :]:
        axes.axis("off")
    return figure


def _share_scale(heat_maps: Sequence[Axes]) -> None:
    """The same colours for the same values."""
    limits = np.array([axes.images[0].get_clim() for axes in heat_maps])
    for axes in heat_maps:
        axes.images[0].set_clim(limits[:, 0].min(), limits[:, 1].max())


def _looks(charts: Sequence[Chart]) -> list[list[int]]:
    """For each series of each chart the number of its colour, marker and hatch: one name, one look."""
    known: dict[str, int] = {}
    looks = []
    for chart in charts:
        names = [] if chart.kind in ("heat", "image") else [one.name for one in chart.series]
        free = iter(sorted(set(range(len(names))) - {known[name] for name in names if name in known}))
        looks.append([known[name] if name in known else known.setdefault(name, next(free)) for name in names])
    return looks


def _lines(axes: Axes, chart: Chart, looks: Sequence[int], ink: str) -> None:
    thick = np.linspace(1.0, THICKEST, len(chart.series))[::-1]  # lines that coincide all stay visible
    for number, line, factor in zip(looks, chart.series, thick, strict=True):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        every = max(1, len(line.x) // MOST_MARKERS)
        axes.plot(
            line.x, _drawable(line.y, chart), color=colour, marker=marker, markevery=every,
            markersize=4 * factor, lw=1.4 * factor, label=line.name,
        )  # fmt: skip
        if line.low:
            low, high = _drawable(line.low, chart), _drawable(line.high, chart)
            axes.fill_between(line.x, low, high, color=colour, alpha=0.25, lw=0)
    if chart.log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(chart.series[0].x))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([f"{value:,}" for value in chart.series[0].x])
    elif all(isinstance(value, int) for line in chart.series for value in line.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(axes, chart, ink)


def _drawable(values: Sequence[float], chart: Chart) -> np.ndarray:
    """The values; on a logarithmic scale without those that have no logarithm."""
    array = np.array(values, float)
    return np.where(array > 0, array, np.nan) if chart.log_y else array


def _bars(axes: Axes, chart: Chart, looks: Sequence[int], ink: str) -> None:
    labels, count = chart.series[0].x, len(chart.series)
    width = 0.8 / count
    for place, (number, bars) in enumerate(zip(looks, chart.series, strict=True)):
        places = np.arange(len(labels)) + (place - (count - 1) / 2) * width
        errors = [np.subtract(bars.y, bars.low), np.subtract(bars.high, bars.y)] if bars.low else None
        axes.bar(
            places, bars.y, width * 0.92, yerr=errors, label=bars.name, capsize=2.5, ecolor=ink,
            color=COLOURS[number % len(COLOURS)], hatch=HATCHES[number % len(HATCHES)],
            edgecolor="white", lw=0,
        )  # fmt: skip
    names = [str(label) for label in labels]
    slanted: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(np.arange(len(names)), names, **(slanted if _overlap(axes, names) else {}))
    _finish(axes, chart, ink, LEGEND_ABOVE if _overlap(axes, names) else LEGEND_BELOW)


def _overlap(axes: Axes, names: list[str]) -> bool:
    """Whether labels side by side need more characters than the width of a chart has."""
    assert axes.figure is not None
    longest = max(len(line) for name in names for line in name.split("\n"))
    return longest * len(names) > (45 if len(axes.figure.axes) > 1 else 100)


def _heat(axes: Axes, chart: Chart, looks: Sequence[int], ink: str) -> None:
    values = np.array([row.y for row in chart.series], float)
    cells = axes.imshow(values, cmap="cividis", aspect="auto")
    _name_cells(axes, chart)
    assert axes.figure is not None
    bar = axes.figure.colorbar(cells, ax=axes, fraction=0.05, label=chart.cell)
    bar.outline.set_edgecolor(ink)  # pyright: ignore[reportCallIssue]


def _image(axes: Axes, chart: Chart, looks: Sequence[int], ink: str) -> None:
    axes.imshow(np.reshape([row.y for row in chart.series], (len(chart.series), -1, 3)))
    _name_cells(axes, chart)


def _name_cells(axes: Axes, chart: Chart) -> None:
    """Labels of rows and columns."""
    axes.set_yticks(*_ticks([row.name for row in chart.series]), fontsize=7)
    places, labels = _ticks([str(label) for label in chart.series[0].x])
    is_wide = len(labels) > MOST_NUMBERS or sum(map(len, labels)) > MOST_LETTERS
    axes.set_xticks(places, labels, fontsize=7, rotation=90 if is_wide else 0)


def _ticks(labels: list[str]) -> tuple[range, list[str]]:
    """The places and labels of the rows or columns of a heat map; of many numbers only some."""
    are_numbers = all(label.isdecimal() for label in labels)
    every = -(-len(labels) // MOST_NUMBERS) if are_numbers else 1
    return range(0, len(labels), every), labels[::every]


def _scale_y(axes: Axes, values: list[float]) -> None:
    """A logarithmic scale; its labels are plain numbers if they span less than a decade."""
    axes.set_yscale("log")
    if max(values) < 10 * min((value for value in values if value > 0), default=np.inf):
        for set_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            set_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _finish(axes: Axes, chart: Chart, ink: str, legend: Mapping[str, Any] = LEGEND_BELOW) -> None:
    if chart.log_y:
        _scale_y(axes, [value for line in chart.series for value in line.y])
    if chart.reference is not None:
        height, label = chart.reference
        axes.axhline(height, color=ink, lw=1, ls=(0, (4, 3)), label=label)
    axes.grid(axis="y", color=ink, alpha=0.15, lw=0.6)
    axes.set_axisbelow(True)
    handles, labels = axes.get_legend_handles_labels()
    if len(chart.series) == 1:  # its name is the label of the axis
        handles, labels = handles[: chart.reference is not None], labels[: chart.reference is not None]
    if handles:
        axes.legend(handles, labels, frameon=False, fontsize=8, ncols=2, **legend)
