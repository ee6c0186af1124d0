"""Heat maps as lines of coloured text: with words on both axes, or small and without words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from rich.text import Text

from regard.inspection.render.board import clip

# Steps of equal lightness from nearly white to dark blue; for differences, from rust to blue.
SCALE = ("#f4f6fa", "#c3d6ea", "#87b1da", "#4387c2", "#1b5a9c", "#0a2f66")
DIVERGING = ("#7a2e05", "#c66a2b", "#eab98f", "#f4f2ef", "#9fc3e3", "#3f7fbc", "#0a3a75")
HATCH = "#dcd8d0"  # of masked cells in pictures
EVEN = 0.179  # the luminance at which black and white text have equal contrast
DARK, LIGHT = "#000000", "#ffffff"


def shade(weight: float) -> str:
    """The colour of a weight from 0 to 1."""
    return _between(SCALE, float(np.clip(weight, 0, 1)))


def shade_of_difference(difference: float, largest: float = 1.0) -> str:
    """The colour of a difference: rust below 0, blue above 0, nearly white at 0."""
    share = float(np.clip(difference / (largest or 1.0), -1, 1))
    return _between(DIVERGING, (share + 1) / 2)


def painted(colour: str) -> Style:
    """The style of readable text on this background colour."""
    return Style(color=DARK if _lightness(colour) > EVEN else LIGHT, bgcolor=colour)


def percent(weight: float, visible: bool = True) -> str:
    """A weight as a whole percent; a dot below half a percent, nothing where it is masked."""
    if not visible:
        return ""
    return "·" if weight < 0.005 else f"{100 * weight:.0f}"


def signed_percent(difference: float) -> str:
    """A difference as whole percents with its sign; a dot below half a percent."""
    return "·" if abs(difference) < 0.005 else f"{100 * difference:+.0f}"


def _between(scale: tuple[str, ...], share: float) -> str:
    at = share * (len(scale) - 1)
    lower = min(int(at), len(scale) - 2)
    start, end = (np.array(Color.parse(scale[n]).get_truecolor()) for n in (lower, lower + 1))
    mixed = np.rint(start + (end - start) * (at - lower)).astype(int)
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _lightness(colour: str) -> float:
    """Relative luminance, 0 black to 1 white."""
    channels = np.array(Color.parse(colour).get_truecolor()) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


CELLS = (5, 4, 3)  # widths of a cell; the widest that fits is used
TENTHS = "·123456789"


@dataclass(frozen=True, eq=False)
class Heat:
    """A matrix to draw: a row for each query, a column for each key.

    `visible` is False at masked cells. With `signed`, the values are differences from -1 to 1.
    """

    values: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    visible: np.ndarray | None = None
    signed: bool = False

    def sees(self, row: int, column: int) -> bool:
        """Whether the cell is not masked."""
        return self.visible is None or bool(self.visible[row, column])

    def style(self, row: int, column: int) -> Style:
        """The style of a cell; a masked one is not painted."""
        if not self.sees(row, column):
            return Style()
        value = self.values[row, column]
        return painted(shade_of_difference(value) if self.signed else shade(value))

    def digits(self, row: int, column: int) -> str:
        """The text of a cell."""
        value = float(self.values[row, column])
        return signed_percent(value) if self.signed else percent(value, self.sees(row, column))


def draw(heat: Heat, width: int) -> Iterator[Text]:
    """The map with its words, in bands of columns if it is wider than the screen."""
    labels = [clip(label) for label in heat.columns]
    margin = max(map(cell_len, heat.rows), default=0) + 1
    space = max(width - margin, 16)
    cell = next((size for size in CELLS if _fits(labels, size, space)), CELLS[-1])
    band = max(1, (space - max(map(cell_len, labels), default=0)) // cell)
    if _fits(labels, cell, space):
        band = len(labels)
    for first in range(0, len(labels), band):
        columns = range(first, min(first + band, len(labels)))
        yield from ([Text()] if first else [])
        yield from _stairs([labels[n] for n in columns], margin, cell)
        for row in range(len(heat.rows)):
            yield _line(heat, row, columns, margin, cell)


def draw_small(heat: Heat, coloured: bool) -> Iterator[Text]:
    """The map without words: with colour two rows per line, without colour a digit for each tenth."""
    if not coloured:
        for row in range(len(heat.rows)):
            yield Text("".join(_tenth(heat, row, column) for column in range(len(heat.columns))))
        return
    for row in range(0, len(heat.rows), 2):
        line = Text()
        for column in range(len(heat.columns)):
            line.append(*_two_cells(heat, row, column))
        yield line


def beside(blocks: Sequence[Sequence[Text]], width: int, gap: int = 3) -> Iterator[Text]:
    """Blocks of lines side by side, as many in a row as the width allows."""
    row: list[Sequence[Text]] = []
    used = 0
    for block in blocks:
        wide = max((line.cell_len for line in block), default=0) + gap
        if row and used + wide - gap > width:
            yield from _joined(row, gap)
            yield Text()
            row, used = [], 0
        row.append(block)
        used += wide
    yield from _joined(row, gap)


def _fits(labels: Sequence[str], cell: int, space: int) -> bool:
    ends = [number * cell + max(cell_len(label), cell) for number, label in enumerate(labels)]
    return max(ends, default=0) <= space


def _stairs(labels: Sequence[str], margin: int, cell: int) -> Iterator[Text]:
    """Column labels on several lines, so that none overlaps the next; a line connects label and column."""
    heights: list[int] = [0] * len(labels)
    for number in reversed(range(len(labels))):
        reached = range(number + 1, min(number + 1 + cell_len(labels[number]) // cell, len(labels)))
        heights[number] = max((heights[other] + 1 for other in reached), default=0)
    for height in range(max(heights, default=0), -1, -1):
        line = Text(" " * margin)
        for number, label in enumerate(labels):
            if heights[number] >= height:
                line.pad_right(margin + number * cell - line.cell_len)
                line.append(label, "key") if heights[number] == height else line.append("│", "soft")
        yield line


def _line(heat: Heat, row: int, columns: Sequence[int], margin: int, cell: int) -> Text:
    label = heat.rows[row]
    line = Text(" " * (margin - 1 - cell_len(label))).append(label, "query").append(" ")
    for column in columns:
        line.append(_centred(heat.digits(row, column), cell), heat.style(row, column))
    return line


def _centred(digits: str, cell: int) -> str:
    before = max(0, cell - len(digits)) // 2 if cell != 4 else max(0, 3 - len(digits))
    return (" " * before + digits).ljust(cell)


def _tenth(heat: Heat, row: int, column: int) -> str:
    if not heat.sees(row, column):
        return " "
    return TENTHS[min(9, round(10 * abs(float(heat.values[row, column]))))]


def _two_cells(heat: Heat, row: int, column: int) -> tuple[str, Style]:
    """Two cells, one above the other, as one character."""
    colours = [_background(heat, n, column) for n in (row, row + 1)]
    if colours[0] is None:
        return (" ", Style()) if colours[1] is None else ("▄", Style(color=colours[1]))
    return "▀", Style(color=colours[0], bgcolor=colours[1])


def _background(heat: Heat, row: int, column: int) -> str | None:
    colour = heat.style(row, column).bgcolor if row < len(heat.rows) else None
    return colour.name if colour else None


def _joined(row: Sequence[Sequence[Text]], gap: int) -> Iterator[Text]:
    widths = [max((line.cell_len for line in block), default=0) + gap for block in row]
    for number in range(max(map(len, row), default=0)):
        line = Text()
        for block, width in zip(row, widths, strict=True):
            part = block[number] if number < len(block) else Text()
            line.append_text(part)
            line.append(" " * (width - part.cell_len))
        line.rstrip()
        yield line
