"""Board: titles, steps, matrices and tables in the terminal, with one colour per idea."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

Matrix = NDArray[np.float64]

MOST_DECIMALS = 4
LONGEST_LABEL = 12
BRACKETS = (("⎡", "⎤"), ("⎢", "⎥"), ("⎣", "⎦"))
ONE_ROW = ("[", "]")


@dataclass(frozen=True, eq=False)
class Grid:
    """A matrix to print.

    hidden   cells that show a sign instead of a number
    strong   cells in bold
    signed   print a plus before positive numbers if there are negative ones
    sums     the sums of the rows, or of the columns once transposed, printed beside them
    """

    name: str
    values: Matrix
    style: str = ""
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    row_style: str = "query"
    column_style: str = "key"
    hidden: NDArray[np.bool_] | None = None
    hidden_sign: str = "-∞"
    strong: NDArray[np.bool_] | None = None
    signed: bool = False
    sums: tuple[str, ...] = ()
    transposed: bool = False

    def transpose(self) -> Grid:
        """The grid with rows as columns."""
        return replace(
            self,
            name=transpose_name(self.name),
            values=self.values.T,
            rows=self.columns,
            columns=self.rows,
            row_style=self.column_style,
            column_style=self.row_style,
            hidden=None if self.hidden is None else self.hidden.T,
            strong=None if self.strong is None else self.strong.T,
            transposed=not self.transposed,
        )


def transpose_name(name: str) -> str:
    """Q to Qᵀ, and Qᵀ back to Q."""
    if name.endswith("ᵀ"):
        return name[:-1]
    return f"{name}ᵀ" if name.isalpha() else f"({name})ᵀ"


def write_numbers(values: Matrix, signed: bool = False) -> list[list[str]]:
    """All numbers of a matrix in one format, with up to four decimals as needed."""
    finite = values[np.isfinite(values)]
    largest = np.abs(finite).max(initial=0.0)
    sign = "+" if signed and (finite < 0).any() else ""
    if largest >= 1e6 or 0 < largest < 1e-3:
        kind = "3e"
    else:
        kind = f"{_decimals(finite)}f"
        values = values.round(int(kind[:-1])) + 0.0  # avoids -0
    return [[f"{number:{sign}.{kind}}" for number in row] for row in values]


def _decimals(finite: Matrix) -> int:
    exact = (n for n in range(MOST_DECIMALS) if np.allclose(finite, finite.round(n), rtol=0, atol=1e-9))
    return next(exact, MOST_DECIMALS)


def clip(label: str) -> str:
    """A label, shortened to the width of a column."""
    return label if cell_len(label) <= LONGEST_LABEL else set_cell_size(label, LONGEST_LABEL - 1) + "…"


@dataclass(frozen=True)
class Block:
    """A printed matrix: a head (name, column labels) over a body."""

    head: list[Text]
    body: list[Text]

    @property
    def width(self) -> int:
        return max(line.cell_len for line in (*self.head, *self.body))


def lay_out(parts: Sequence[Grid | str], width: int) -> Iterator[Text]:
    """Grids and the signs between them as lines of text; grids that do not fit go to a new row."""
    row: list[Block] = []
    for part in parts:
        if isinstance(part, str):
            row.append(Block([], [Text(f" {part} ")]))
            continue
        for block in _bands(part, width):
            if row and sum(block.width for block in (*row, block)) > width:
                sign = [] if row[-1].head else [row.pop()]
                yield from _join(row)
                row = sign
            row.append(block)
    yield from _join(row)


def _join(row: Sequence[Block]) -> Iterator[Text]:
    """Blocks side by side, with aligned bodies and vertically centred signs."""
    if not row:
        return
    above = max(len(block.head) for block in row)
    height = max(len(block.body) for block in row)
    columns = []
    for block in row:
        body = block.body if block.head else [Text()] * ((height - 1) // 2) + block.body
        lines = [Text()] * (above - len(block.head)) + block.head + body
        columns.append((block.width, lines + [Text()] * (above + height - len(lines))))
    for number in range(above + height):
        line = Text()
        for size, lines in columns:
            line.append_text(lines[number])
            line.pad_right(size - lines[number].cell_len)
        line.rstrip()
        yield line


def _bands(grid: Grid, width: int) -> Iterator[Block]:
    """The grid as one block, or as several bands of columns if it is wider than the screen."""
    whole = _set(grid)
    count = grid.values.shape[1]
    width -= 3  # for a sign before it
    if whole.width <= width or count == 1:
        yield whole
        return
    pieces = min(count, -(-whole.width // width) + 1)
    edges = [round(n * count / pieces) for n in range(pieces + 1)]
    for first, after in pairwise(edges):
        band = slice(first, after)
        yield _set(
            replace(
                grid,
                name=f"{grid.name}  columns {first} to {after - 1}",
                values=grid.values[:, band],
                columns=grid.columns[band],
                hidden=None if grid.hidden is None else grid.hidden[:, band],
                strong=None if grid.strong is None else grid.strong[:, band],
                sums=grid.sums[band] if grid.transposed else grid.sums if after == count else (),
            )
        )


def _set(grid: Grid) -> Block:
    cells = write_numbers(grid.values, grid.signed)
    if grid.hidden is not None:
        for row, hidden in zip(cells, grid.hidden, strict=True):
            row[:] = [grid.hidden_sign if out else cell for cell, out in zip(row, hidden, strict=True)]
    columns = [clip(label) for label in grid.columns]
    feet = list(grid.sums) if grid.transposed else []
    widths = [
        max(map(cell_len, column)) for column in zip(*cells, *filter(None, (columns, feet)), strict=True)
    ]
    rows = [clip(label) for label in grid.rows]
    margin = max(map(cell_len, rows), default=-1) + 1
    inner = sum(widths) + len(widths) + 1
    name = Text(" " * margin).append_text(_centred(grid.name, inner + 2, _bold(grid.style)))
    head = [name] + ([_beside(margin, "", columns, widths, grid.column_style)] if columns else [])
    body = [_row(grid, number, rows, cells, widths, margin) for number in range(len(cells))]
    foot = [_beside(margin, "Σ", feet, widths, "soft")] if feet else []
    return Block(head, body + foot)


def _centred(words: str, width: int, style: str) -> Text:
    text = Text(words, style)
    text.pad_left(max(0, (width - text.cell_len) // 2))
    return text


def _beside(margin: int, label: str, cells: Sequence[str], widths: Sequence[int], style: str) -> Text:
    """A line above or below the brackets, aligned with the columns."""
    line = Text(_right(label, margin - 1) + " " if margin else "") + Text(" ")
    for cell, width in zip(cells, widths, strict=True):
        line.append(" " + _right(cell, width), style)
    return line


def _row(
    grid: Grid, number: int, labels: Sequence[str], cells: list[list[str]], widths: Sequence[int], margin: int
) -> Text:
    last = len(cells) - 1
    left, right = ONE_ROW if not last else BRACKETS[0 if not number else 2 if number == last else 1]
    line = Text()
    if labels:
        line.append(_right(labels[number], margin - 1), grid.row_style).append(" ")
    line.append(left, "soft")
    for column, (cell, width) in enumerate(zip(cells[number], widths, strict=True)):
        line.append(" " + _right(cell, width), _style(grid, number, column))
    line.append(" ").append(right, "soft")
    if grid.sums and not grid.transposed:
        line.append(f"  Σ {grid.sums[number]}", "soft")
    return line


def _style(grid: Grid, row: int, column: int) -> str:
    if grid.hidden is not None and grid.hidden[row, column]:
        return "masked"
    strong = grid.strong is not None and grid.strong[row, column]
    return _bold(grid.style) if strong else grid.style


def _bold(style: str) -> str:
    return f"{style}.bold" if style else "bold"


def _right(words: str, width: int) -> str:
    return " " * (width - cell_len(words)) + words


# Each has a contrast above 4.3 to black and to white.
IDEAS = {"query": "#1f7abd", "key": "#b4620d", "value": "#0c8462", "output": "#a558ad"}
COLOURS = Theme(
    {**IDEAS, **{f"{idea}.bold": f"bold {colour}" for idea, colour in IDEAS.items()}}
    | {"soft": "#7a7a7a", "masked": "#7a7a7a"}
)
# For terminals that show only ASCII.
PLAIN = str.maketrans(
    {
        "⎡": "[", "⎢": "[", "⎣": "[", "⎤": "]", "⎥": "]", "⎦": "]",
        "∞": "inf", "√": "sqrt ", "ᵀ": "^T", "Σ": "sum", "₀": "0", "₁": "1",
        "·": "*", "×": "x", "≈": "~", "→": "->", "█": "#", "∙": ".", "…": ".", "“": '"', "”": '"',
    }
)  # fmt: skip
# The same with one character for each sign, for aligned lines.
ALIGNED = PLAIN | str.maketrans({"·": ".", "→": ">", "│": "|", "∞": "8", "√": "v", "Σ": "S", "ᵀ": "T"})
INDENT = 3
WIDEST = 100  # characters of a line of prose


class Board:
    """Prints to a rich console; without a terminal, plain text."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(theme=COLOURS, highlight=False)
        self.ascii = self.console.options.ascii_only
        self.width = max(20, self.console.width - INDENT)
        self._is_apart = True

    def write(self, markup: str) -> Text:
        """Markup as text, in characters that the terminal has."""
        return Text.from_markup(markup.translate(PLAIN) if self.ascii else markup)

    def title(self, words: str) -> None:
        """Print a title line."""
        self.gap()
        self._put(Rule(self.write(f"[bold]{words}"), style="soft", align="left"))

    def step(self, sign: str, name: str, formula: str = "") -> None:
        """Print the heading of a step: its sign, name and formula."""
        self.gap()
        self._print(self.write(f"[bold reverse] {sign} [/] [bold]{name}[/]   {formula}"), indent=0)

    def say(self, words: str) -> None:
        """Print a sentence."""
        self._print(self.write(words), WIDEST)

    def note(self, words: str) -> None:
        """Print a note in grey."""
        self._print(self.write(f"[soft]Note: {words}"), WIDEST)

    def matrices(self, *parts: Grid | str, transposed: bool = False) -> None:
        """Print grids and the signs between them; a transposed product has its factors in reverse."""
        parts = transpose_equation(parts) if transposed else parts
        self.gap()
        for line in lay_out([self._spell(part) for part in parts], self.width):
            self._print(self._plain(line))
        self.gap()

    def table(self, rows: Sequence[Sequence[Text | str]], right: Sequence[int] = (), gap: int = 1) -> None:
        """Print rows with aligned columns; the columns in `right` are right-aligned."""
        grid = Table.grid(padding=(0, gap, 0, 0))
        for column in range(max(map(len, rows))):
            grid.add_column(justify="right" if column in right else "left", overflow="fold")
        for row in rows:
            grid.add_row(*(self._plain(cell if isinstance(cell, Text) else Text(cell)) for cell in row))
        self.gap()
        self._print(grid)
        self.gap()

    def lines(self, lines: Iterable[Text]) -> None:
        """Print lines as they are."""
        self.gap()
        for line in lines:
            plain = Text(line.plain.translate(ALIGNED))
            self._put(Text(" " * INDENT) + (plain if self.ascii else line))
        self.gap()

    def gap(self) -> None:
        """Print an empty line unless the last line is empty."""
        if not self._is_apart:
            self.console.print()
        self._is_apart = True

    def _spell(self, part: Grid | str) -> Grid | str:
        """Replace signs by their ASCII spellings before the layout measures them."""
        if isinstance(part, str) or not self.ascii:
            return part
        return replace(part, name=part.name.translate(PLAIN), hidden_sign=part.hidden_sign.translate(PLAIN))

    def _plain(self, text: Text) -> Text:
        return Text(text.plain.translate(PLAIN)) if self.ascii else text

    def _print(self, what: Text | Table, widest: int | None = None, indent: int = INDENT) -> None:
        """Print indented, without the trailing spaces of rich."""
        options = self.console.options.update_width(min(self.width, widest or self.width))
        for segments in self.console.render_lines(what, options, pad=False):
            line = Text(" " * indent)
            for segment in segments:
                line.append(segment.text, segment.style)
            line.rstrip()
            self._put(line)

    def _put(self, what: Text | Rule) -> None:
        self.console.print(what, soft_wrap=isinstance(what, Text))
        self._is_apart = False


def transpose_equation(parts: Sequence[Grid | str]) -> tuple[Grid | str, ...]:
    """The equation `A × B = C` transposed: Bᵀ × Aᵀ = Cᵀ."""
    sides: list[list[Grid | str]] = [[]]
    for part in parts:
        if part == "=":
            sides.append([])
        else:
            sides[-1].append(part if isinstance(part, str) else part.transpose())
    transposed: list[Grid | str] = []
    for side in sides:
        transposed += [*(["="] if transposed else []), *reversed(side)]
    return tuple(transposed)
