"""Attention as a figure: one head, or all heads of a layer side by side, with the words on both axes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from regard.inspection.render.board import IDEAS
from regard.inspection.render.heat_map import DIVERGING, HATCH, SCALE, Heat, percent, signed_percent

LARGEST_WITH_DIGITS = 24  # rows or columns; digits in larger maps are too small to read
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "regard",
}


def draw_head(heat: Heat, title: str) -> Figure:
    """One attention map with words, digits and a legend."""
    rows, columns = heat.values.shape
    side = 0.42 if max(rows, columns) <= LARGEST_WITH_DIGITS else 0.22
    margin = 0.1 * max(map(len, (*heat.rows, *heat.columns)), default=1) + 0.4
    figure = Figure(figsize=(side * columns + margin + 1.0, side * rows + margin + 0.6), layout="constrained")
    axes = figure.add_subplot()
    _map(axes, heat)
    _words(axes, heat, size=10 if side > 0.3 else 6)
    if side > 0.3:
        _digits(axes, heat)
    axes.set_title(title, loc="left", fontweight="bold", pad=10)
    _legend(figure, [axes], heat)
    return figure


def draw_heads(heats: Sequence[Heat], titles: Sequence[str], title: str) -> Figure:
    """Several maps of one layer side by side; words label only the left and the top maps."""
    across = min(4, len(heats))
    down = -(-len(heats) // across)
    rows, columns = heats[0].values.shape
    side = min(0.2, 5 / max(rows, columns))
    label = 0.08 * max(map(len, (*heats[0].rows, *heats[0].columns)))
    size = (across * (side * columns + 0.25) + label + 0.9, down * (side * rows + 0.45) + label + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, across, squeeze=False)
    for number, place in enumerate(axes.flat):
        if number >= len(heats):
            place.axis("off")
            continue
        _map(place, heats[number])
        _words(place, heats[number], size=7, left=number % across == 0, top=number < across)
        place.set_title(titles[number], loc="left", fontsize=9, fontweight="bold")
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    _legend(figure, list(axes.flat), heats[0])
    return figure


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as .svg, with text as text, or as .png; equal figures give equal bytes."""
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.12, h_pad=0.12)
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        metadata: dict[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, dpi=200, metadata=metadata, facecolor="white")


def _map(axes: Any, heat: Heat) -> None:
    values = np.ma.masked_where(False if heat.visible is None else ~heat.visible, heat.values)
    colours = LinearSegmentedColormap.from_list("regard", DIVERGING if heat.signed else SCALE)
    axes.patch.set(
        facecolor="white", hatch="/////", edgecolor=HATCH, linewidth=0
    )  # shows through masked cells
    axes.imshow(values, cmap=colours, vmin=-1 if heat.signed else 0, vmax=1, aspect="equal")
    axes.tick_params(length=0)
    for edge in axes.spines.values():
        edge.set_visible(False)


def _words(axes: Any, heat: Heat, size: float, left: bool = True, top: bool = True) -> None:
    axes.xaxis.tick_top()
    columns, rows = (list(map(_literal, labels)) for labels in (heat.columns, heat.rows))
    axes.set_xticks(
        range(len(columns)),
        columns if top else [""] * len(columns),
        rotation=60,
        ha="left",
        fontsize=size,
        color=IDEAS["key"],
    )
    axes.set_yticks(range(len(rows)), rows if left else [""] * len(rows), fontsize=size, color=IDEAS["query"])
    axes.tick_params(axis="x", pad=0)
    for tick in axes.get_xticklabels():
        tick.set_rotation_mode("anchor")


def _digits(axes: Any, heat: Heat) -> None:
    for row in range(len(heat.rows)):
        for column in range(len(heat.columns)):
            ink = heat.style(row, column).color
            if heat.sees(row, column) and ink is not None:
                value = float(heat.values[row, column])
                text = signed_percent(value) if heat.signed else percent(value)
                axes.text(column, row, text, ha="center", va="center", fontsize=8, color=ink.name)


def _legend(figure: Figure, axes: list[Any], heat: Heat) -> None:
    bar = figure.colorbar(axes[0].images[0], ax=axes, fraction=0.03, pad=0.02, shrink=0.8, aspect=25)
    ticks = [-1, -0.5, 0, 0.5, 1] if heat.signed else [0, 0.25, 0.5, 0.75, 1]
    bar.set_ticks(
        ticks, labels=[f"{100 * tick:+.0f} %" if heat.signed else f"{100 * tick:.0f} %" for tick in ticks]
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8)
    masked = "" if heat.visible is None or heat.visible.all() else "; hatched: masked"
    legend = f"percent of each row{masked}" if not heat.signed else "percentage points"
    figure.supxlabel(legend, x=0.01, ha="left", fontsize=8, color="#6b6b6b")


def _literal(text: str) -> str:
    return text.replace("$", r"\$")  # a dollar begins a formula
