"""Attention in the terminal: a head large, all heads of a layer small, or what one word looks at.

Numbers are percents of a row. With colour, light is 0 and dark is 100, on a dark terminal too; without,
the digits alone say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.markup import escape
from rich.style import Style
from rich.text import Text

from regard.inspection.analysis.steps import Steps
from regard.inspection.by_hand.board import Board, clip
from regard.inspection.record.inspection import Inspection
from regard.inspection.record.tokens import word_of
from regard.inspection.render.heat_map import Heat, beside, draw, draw_small, painted, percent, shade

LEGEND = "Percent of each row; · is less than half a percent"
MASKED = "; nothing stands where a word may not look"


def show_texts(board: Board, seen: Inspection) -> None:
    """What was read and written."""
    for side in (seen.source, seen.target):
        if side is not None:
            board.say(f"[soft]{side.name}[/]  {escape(side.text)}")


def show_head(board: Board, seen: Inspection, kind: str, layer: int, head: int, words: bool = False) -> None:
    """One head large: a row for each query, a column for each key."""
    heat = heat_of(seen, kind, layer, head, words)
    board.title(f"{kind.capitalize()} attention, layer {layer}, head {head}")
    board.lines(draw(heat, board.width))
    _legend(board, heat)


def show_layer(board: Board, seen: Inspection, kind: str, layer: int, words: bool = False) -> None:
    """All heads of a layer, small, each with its strongest link."""
    maps = [heat_of(seen, kind, layer, head, words) for head in range(seen.heads)]
    board.title(f"{kind.capitalize()} attention, layer {layer}, {seen.heads} heads")
    coloured = board.console.color_system is not None
    blocks = []
    for head, heat in enumerate(maps):
        caption = [Text(f"head {head}", "bold"), Text(_strongest(heat), "soft")]
        blocks.append([*caption, *draw_small(heat, coloured)])
    board.lines(beside(blocks, board.width))
    tone = "darker is more" if coloured else "a digit is a tenth"
    for where, side, style in zip(("Down", "Across"), seen.sides(kind), ("query", "key"), strict=True):
        board.say(f"[soft]{where}:[/] [{style}]{escape(' '.join(side.labels(words)))}[/]")
    board.say(f"[soft]Each with its strongest link in percent; {tone}.")


def show_word(
    board: Board, seen: Inspection, kind: str, layer: int, head: int, query: str | int, words: bool = False
) -> None:
    """What one word looks at in one head: the words in a row, painted by weight, the percents below."""
    queries, keys = seen.sides(kind)
    places = queries.find(query, words)
    weights = row_of(seen, kind, layer, head, places, words)
    own = {*places} if queries is keys and not words else set()
    board.title(f"{kind.capitalize()} attention, layer {layer}, head {head}")
    board.say(f"What “{escape(name_of(seen, kind, places))}” looks at:")
    board.gap()
    board.lines(word_row(keys.labels(words), weights, board.width, own))
    board.gap()


def show_word_over_heads(
    board: Board, seen: Inspection, kind: str, query: str | int, layers: Iterable[int], words: bool = False
) -> None:
    """What one word looks at in every head: a row for each head, a column for each key."""
    queries, keys = seen.sides(kind)
    places, layers = queries.find(query, words), list(layers)
    pairs = [(layer, head) for layer in layers for head in range(seen.heads)]
    rows = np.array([row_of(seen, kind, layer, head, places, words) for layer, head in pairs])
    visible = np.array([_sees(seen, kind, layer, head, places, words) for layer, head in pairs])
    heat = Heat(rows, [f"layer {layer} head {head}" for layer, head in pairs], keys.labels(words), visible)
    board.title(
        f"{kind.capitalize()} attention: what “{escape(name_of(seen, kind, places))}” looks at, head by head"
    )
    board.lines(draw(heat, board.width))
    _legend(board, heat)


def heat_of(seen: Inspection, kind: str, layer: int, head: int, words: bool = False) -> Heat:
    """One head as a map. A row of cross-attention says which word is written while looking so."""
    queries, keys = seen.sides(kind)
    rows = queries.labels(words)
    if kind == "cross":
        end = word_of(queries.tokenizer, queries.tokenizer.end)
        rows = [
            f"{read} → {clip(then)}" for read, then in zip(map(clip, rows), [*rows[1:], end], strict=True)
        ]
    weights, visible = seen.attention(kind, layer, head, words), seen.visible(kind, layer, head, words)
    return Heat(weights, [row if kind == "cross" else clip(row) for row in rows], keys.labels(words), visible)


def row_of(
    seen: Inspection, kind: str, layer: int, head: int, places: Sequence[int], words: bool
) -> np.ndarray:
    """Where a word looks: its pieces' rows averaged, and with `words` the pieces of each key summed."""
    row = seen.attention(kind, layer, head)[list(places)].mean(0)
    return seen.sides(kind)[1].merge() @ row if words else row


def name_of(seen: Inspection, kind: str, places: Sequence[int]) -> str:
    """A query as a person calls it: its word, or its token where it is one of several."""
    side = seen.sides(kind)[0]
    word = side.words[side.tokens[places[0]].word]
    return word.text if word.positions == tuple(places) else side.tokens[places[0]].text


def word_row(
    labels: Sequence[str], weights: np.ndarray, width: int, own: set[int] | None = None
) -> Iterator[Text]:
    """Words in their order, each on the colour of its weight, and its percent below it."""
    room = 2 if sum(max(cell_len(label), 3) + 2 for label in labels) <= width else 1
    above, below = Text(), Text()
    for place, (label, weight) in enumerate(zip(labels, map(float, weights), strict=True)):
        wide = max(cell_len(label), 3) + room
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
    """One cell's way through the six steps as one line of digits."""
    score, scaled = steps["scores"].value[key], steps["scaled"].value[key]
    power, total = steps["exponentials"].value[key], float(steps["sum"].value)
    weight = steps["weights"].value[key]
    made = f"q({steps.word}) · k({steps.keys[key]}) = {score:.2f}"
    divided = f"/ {steps.divisor:.2f} = {scaled:.2f}" if steps.divisor != 1 else "not divided"
    return f"{made}, {divided}, e^({scaled:.2f} - largest) = {power:.3f}, / {total:.3f} = {weight:.3f}"


def _sees(
    seen: Inspection, kind: str, layer: int, head: int, places: Sequence[int], words: bool
) -> np.ndarray:
    row = np.asarray(seen.visible(kind, layer, head)[list(places)].any(0))
    return np.greater(seen.sides(kind)[1].merge() @ row, 0) if words else row


def _strongest(heat: Heat) -> str:
    row, column = divmod(int(heat.values.argmax()), heat.values.shape[1])
    read = heat.rows[row].partition(" → ")[2] or heat.rows[row]
    return f"{read}→{heat.columns[column]} {percent(float(heat.values[row, column]))}"


def _legend(board: Board, heat: Heat) -> None:
    masked = "" if heat.visible is None or heat.visible.all() else MASKED
    board.say(f"[soft]{LEGEND}{masked}.")
