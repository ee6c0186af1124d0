"""The terminal as a blackboard: steps with their formula, matrices and a sentence, one colour per idea."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from regard.inspection.by_hand.layout import Grid, lay_out

# Each is readable on a dark ground and on a light one, with a contrast above 4.3 to both.
IDEAS = {"query": "#1f7abd", "key": "#b4620d", "value": "#0c8462", "output": "#a558ad"}
COLOURS = Theme(
    {**IDEAS, **{f"{idea}.bold": f"bold {colour}" for idea, colour in IDEAS.items()}}
    | {"soft": "#7a7a7a", "masked": "#7a7a7a"}
)
# For a screen that knows no more than ASCII.
PLAIN = str.maketrans(
    {
        "⎡": "[", "⎢": "[", "⎣": "[", "⎤": "]", "⎥": "]", "⎦": "]",
        "∞": "inf", "√": "sqrt ", "ᵀ": "^T", "Σ": "sum", "₀": "0", "₁": "1",
        "·": "*", "×": "x", "≈": "~", "→": "->", "█": "#", "∙": ".", "…": ".", "“": '"', "”": '"',
    }
)  # fmt: skip
# The same where every sign must keep its place.
ALIGNED = PLAIN | str.maketrans({"·": ".", "→": ">", "│": "|", "∞": "8", "√": "v", "Σ": "S", "ᵀ": "T"})
INDENT = 3
WIDEST = 100  # longer lines of words are hard to follow


class Board:
    """What is written goes to a rich console, in plain text where that is no terminal."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(theme=COLOURS, highlight=False)
        self.ascii = self.console.options.ascii_only
        self.width = max(20, self.console.width - INDENT)
        self._is_apart = True

    def write(self, markup: str) -> Text:
        """Words with styles in brackets, in signs that this screen has."""
        return Text.from_markup(markup.translate(PLAIN) if self.ascii else markup)

    def title(self, words: str) -> None:
        """The first line of a working."""
        self.gap()
        self._put(Rule(self.write(f"[bold]{words}"), style="soft", align="left"))

    def step(self, sign: str, name: str, formula: str = "") -> None:
        """The heading of a step: its number, its name and its formula."""
        self.gap()
        self._print(self.write(f"[bold reverse] {sign} [/] [bold]{name}[/]   {formula}"), indent=0)

    def say(self, words: str) -> None:
        """A plain sentence."""
        self._print(self.write(words), WIDEST)

    def note(self, words: str) -> None:
        """A remark in a softer voice."""
        self._print(self.write(f"[soft]Note: {words}"), WIDEST)

    def matrices(self, *parts: Grid | str, turned: bool = False) -> None:
        """Grids and the signs between them; a product turned is the turned factors in reverse."""
        parts = turn_equation(parts) if turned else parts
        self.gap()
        for line in lay_out([self._spell(part) for part in parts], self.width):
            self._print(self._plain(line))
        self.gap()

    def table(self, rows: Sequence[Sequence[Text | str]], right: Sequence[int] = (), gap: int = 1) -> None:
        """Lines whose parts stand under each other; the columns named in `right` are flush right."""
        grid = Table.grid(padding=(0, gap, 0, 0))
        for column in range(max(map(len, rows))):
            grid.add_column(justify="right" if column in right else "left", overflow="fold")
        for row in rows:
            grid.add_row(*(self._plain(cell if isinstance(cell, Text) else Text(cell)) for cell in row))
        self.gap()
        self._print(grid)
        self.gap()

    def lines(self, lines: Iterable[Text]) -> None:
        """Lines that were laid out already, each kept as it is."""
        self.gap()
        for line in lines:
            plain = Text(line.plain.translate(ALIGNED))
            self._put(Text(" " * INDENT) + (plain if self.ascii else line))
        self.gap()

    def gap(self) -> None:
        """An empty line, where the last one is not empty already."""
        if not self._is_apart:
            self.console.print()
        self._is_apart = True

    def _spell(self, part: Grid | str) -> Grid | str:
        """Longer spellings come before the setting, which measures them."""
        if isinstance(part, str) or not self.ascii:
            return part
        return replace(part, name=part.name.translate(PLAIN), hidden_sign=part.hidden_sign.translate(PLAIN))

    def _plain(self, text: Text) -> Text:
        return Text(text.plain.translate(PLAIN)) if self.ascii else text

    def _print(self, what: Text | Table, widest: int | None = None, indent: int = INDENT) -> None:
        """Print indented, without the spaces that rich leaves at the end of a line."""
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


def turn_equation(parts: Sequence[Grid | str]) -> tuple[Grid | str, ...]:
    """Each side of `A × B = C` turned: Bᵀ × Aᵀ = Cᵀ."""
    sides: list[list[Grid | str]] = [[]]
    for part in parts:
        if part == "=":
            sides.append([])
        else:
            sides[-1].append(part if isinstance(part, str) else part.turn())
    turned: list[Grid | str] = []
    for side in sides:
        turned += [*(["="] if turned else []), *reversed(side)]
    return tuple(turned)
