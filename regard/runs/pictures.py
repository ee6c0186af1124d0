"""The curves of a run as PNG files."""

from __future__ import annotations

from pathlib import Path

from regard.runs.course import Chart


def write_pictures(charts: list[Chart], folder: Path) -> list[Path]:
    """A picture for each chart."""
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
