"""Attention in the terminal: one head, all heads of a layer, or the row of one word.

Numbers are percents of a row. With colour, light is 0 and dark is 100, also on a dark terminal; without
colour, digits show the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.markup import escape
from rich.style import Style
from rich.text import Text

from regard.inspection.analysis.overview import writes_next
from regard.inspection.analysis.steps import Steps
from regard.inspection.record.record import Record
from regard.inspection.record.tokens import word_of
from regard.inspection.render.board import Board, clip
from regard.inspection.render.heat_map import Heat, beside, draw, draw_small, painted, percent, shade

LEGEND = "Percent of each row; · is below half a percent"
MASKED = "; masked cells are empty"


def show_texts(board: Board, record: Record) -> None:
    """The texts of the source and the target."""
    for side in record.all_sides:
        board.say(f"[soft]{side.name}[/]  {escape(side.text)}")


def show_head(board: Board, record: Record, kind: str, layer: int, head: int, words: bool = False) -> None:
    """One head: a row for each query, a column for each key."""
    heat = heat_of(record, kind, layer, head, words)
    board.title(f"{kind.capitalize()} attention, layer {layer}, head {head}")
    board.lines(draw(heat, board.width))
    _legend(board, heat)


def show_layer(board: Board, record: Record, kind: str, layer: int, words: bool = False) -> None:
    """All heads of a layer as small maps, each with its largest weight."""
    maps = [heat_of(record, kind, layer, head, words) for head in range(record.heads)]
    board.title(f"{kind.capitalize()} attention, layer {layer}, {record.heads} heads")
    coloured = board.console.color_system is not None
    blocks = []
    for head, heat in enumerate(maps):
        caption = [Text(f"head {head}", "bold"), Text(_strongest(heat), "soft")]
        blocks.append([*caption, *draw_small(heat, coloured)])
    board.lines(beside(blocks, board.width))
    tone = "darker is more" if coloured else "a digit is a tenth"
    for where, side, style in zip(("Down", "Across"), record.sides(kind), ("query", "key"), strict=True):
        board.say(f"[soft]{where}:[/] [{style}]{escape(' '.join(side.labels(words)))}[/]")
    board.say(f"[soft]Each head with its largest weight in percent; {tone}.")


def show_word(
    board: Board, record: Record, kind: str, layer: int, head: int, query: str | int, words: bool = False
) -> None:
    """The row of one word in one head: all words, coloured by weight, with percents below."""
    queries, keys = record.sides(kind)
    places = queries.find(query, words)
    weights = row_of(record, kind, layer, head, places, words)
    own = {*places} if queries is keys and not words else set()
    board.title(f"{kind.capitalize()} attention, layer {layer}, head {head}")
    board.say(f"What “{escape(name_of(record, kind, places))}” looks at:")
    board.gap()
    board.lines(word_row(keys.labels(words), weights, board.width, own))
    board.gap()


def show_word_over_heads(
    board: Board, record: Record, kind: str, query: str | int, layers: Iterable[int], words: bool = False
) -> None:
    """The row of one word in every head: a row for each head, a column for each key."""
    queries, keys = record.sides(kind)
    places, layers = queries.find(query, words), list(layers)
    pairs = [(layer, head) for layer in layers for head in range(record.heads)]
    rows = np.array([row_of(record, kind, layer, head, places, words) for layer, head in pairs])
    visible = np.array([_sees(record, kind, layer, head, places, words) for layer, head in pairs])
    heat = Heat(rows, [f"layer {layer} head {head}" for layer, head in pairs], keys.labels(words), visible)
    name = escape(name_of(record, kind, places))
    board.title(f"{kind.capitalize()} attention: what “{name}” looks at, head by head")
    board.lines(draw(heat, board.width))
    _legend(board, heat)


def heat_of(record: Record, kind: str, layer: int, head: int, words: bool = False) -> Heat:
    """One head as a heat map. A row of a translation's decoder also names the word that its step writes."""
    queries, keys = record.sides(kind)
    rows = [clip(label) for label in queries.labels(words)]
    if writes_next(record, kind):
        end = word_of(queries.tokenizer, queries.tokenizer.end)
        rows = [f"{read} → {then}" for read, then in zip(rows, [*rows[1:], end], strict=True)]
    weights, visible = record.attention(kind, layer, head, words), record.visible(kind, layer, head, words)
    return Heat(weights, rows, keys.labels(words), visible)


def row_of(
    record: Record, kind: str, layer: int, head: int, places: Sequence[int], words: bool
) -> np.ndarray:
    """The row of a word: the mean over its tokens, and with `words` the sum over the tokens of each key."""
    row = record.attention(kind, layer, head)[list(places)].mean(0)
    return record.sides(kind)[1].merge() @ row if words else row


def name_of(record: Record, kind: str, places: Sequence[int]) -> str:
    """The text of a query: its word, or its token if the word has several."""
    side = record.sides(kind)[0]
    word = side.words[side.tokens[places[0]].word]
    return word.text if word.positions == tuple(places) else side.tokens[places[0]].text


def word_row(
    labels: Sequence[str], weights: np.ndarray, width: int, own: set[int] | None = None
) -> Iterator[Text]:
    """The words in order, each on the colour of its weight, with its percent below."""
    gap = 2 if sum(max(cell_len(label), 3) + 2 for label in labels) <= width else 1
    above, below = Text(), Text()
    for place, (label, weight) in enumerate(zip(labels, map(float, weights), strict=True)):
        wide = max(cell_len(label), 3) + gap
        if above.cell_len + wide > width and above.cell_len:
            yield from (above, below, Text())
            above, below = Text(), Text()
        ground, left = painted(shade(weight)), (wide - cell_len(label)) // 2
        above.append(" " * left, ground)
        above.append(label, ground + Style(bold=True, underline=place in (own or ())))
        above.append(" " * (wide - left - cell_len(label)), ground)
        below.append(percent(weight).center(wide), "bold" if weight >= 0.1 else "soft")
    yield from (above, below)


def cell_line(steps: Steps, key: int) -> str:
    """The steps of one cell as one line."""
    score, scaled = steps["scores"].value[key], steps["scaled"].value[key]
    power, total = steps["exponentials"].value[key], float(steps["sum"].value)
    weight = steps["weights"].value[key]
    product = f"q({steps.word}) · k({steps.keys[key]}) = {score:.2f}"
    divided = f"/ {steps.divisor:.2f} = {scaled:.2f}" if steps.divisor != 1 else "not divided"
    return f"{product}, {divided}, e^({scaled:.2f} - largest) = {power:.3f}, / {total:.3f} = {weight:.3f}"


def _sees(record: Record, kind: str, layer: int, head: int, places: Sequence[int], words: bool) -> np.ndarray:
    row = np.asarray(record.visible(kind, layer, head)[list(places)].any(0))
    return np.greater(record.sides(kind)[1].merge() @ row, 0) if words else row


def _strongest(heat: Heat) -> str:
    row, column = divmod(int(heat.values.argmax()), heat.values.shape[1])
    read = heat.rows[row].partition(" → ")[2] or heat.rows[row]
    return f"{read}→{heat.columns[column]} {percent(float(heat.values[row, column]))}"


def _legend(board: Board, heat: Heat) -> None:
    masked = "" if heat.visible is None or heat.visible.all() else MASKED
    board.say(f"[soft]{LEGEND}{masked}.")
