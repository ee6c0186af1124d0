"""Attention in a file; the ending of its name chooses the format.

.svg .png    one head, or all heads of a layer side by side
.csv         one line per cell: kind, layer, head, the query and the key by position and token, the weight;
             all kinds, layers and heads that are not chosen are included
.npz         every weight: an array (layers, heads, queries, keys) for each kind, and the tokens
.html        the studio's view of this sentence in one file without network access; the choice is pinned
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from regard.errors import UnknownName, UsageError, nearest
from regard.inspection.record.record import Record
from regard.inspection.render.html_export import Choice, save_page
from regard.inspection.render.payload import Notes
from regard.inspection.render.terminal import heat_of

FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
COLUMNS = ("kind", "layer", "head", "query", "query_token", "key", "key_token", "weight")


def save(record: Record, path: str | Path, choice: Choice, notes: Notes | None = None) -> Path:
    """Write the format that the ending of the name stands for.

    Without a choice, a picture shows the last layer of cross-attention, or of the only kind. `query`, `tab`
    and `notes` are for pages.
    """
    path = Path(path)
    if choice.kind is not None:
        record.check(choice.kind, choice.layer or 0, choice.head)
    writers = {".svg": _save_picture, ".png": _save_picture, ".csv": _save_table, ".npz": _save_arrays}
    ending = path.suffix.lower()
    if ending == ".html":
        save_page(record, path, choice, notes)
    elif ending in writers:
        writers[ending](record, path, choice)
    else:
        raise UnknownName(f"cannot save {path.name!r}; {nearest(ending, [*writers, '.html'])}")
    return path


def _save_picture(record: Record, path: Path, choice: Choice) -> None:
    from regard.inspection.render.figure import draw_head, draw_heads, write_figure

    kind, head, words = choice.kind or record.kinds[-1], choice.head, choice.words
    layer = record.layers(kind) - 1 if choice.layer is None else choice.layer
    record.check(kind, layer, head)
    title = f"{kind.capitalize()} attention, layer {layer}"
    if head is not None:
        write_figure(draw_head(heat_of(record, kind, layer, head, words), f"{title}, head {head}"), path)
        return
    heats = [heat_of(record, kind, layer, number, words) for number in range(record.heads)]
    write_figure(draw_heads(heats, [f"head {number}" for number in range(record.heads)], title), path)


def _save_table(record: Record, path: Path, choice: Choice) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for kind in [choice.kind] if choice.kind else record.kinds:
            for layer in range(record.layers(kind)) if choice.layer is None else [choice.layer]:
                record.check(kind, layer, choice.head)
                table.writerows(_lines(record, kind, layer, choice))


def _lines(record: Record, kind: str, layer: int, choice: Choice) -> Iterator[tuple[object, ...]]:
    queries, keys = ([*map(as_text_cell, side.labels(choice.words))] for side in record.sides(kind))
    for head in range(record.heads) if choice.head is None else [choice.head]:
        weights = record.attention(kind, layer, head, choice.words)
        for query, query_token in enumerate(queries):
            for key, key_token in enumerate(keys):
                weight = np.format_float_positional(weights[query, key], trim="0")
                yield kind, layer, head, query, query_token, key, key_token, weight


def as_text_cell(text: str) -> str:
    """A text for a cell of a table; one that a spreadsheet would take for a formula gets an apostrophe.

    saving/save.js of the view has the same rule. Numbers are not texts.
    """
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def _save_arrays(record: Record, path: Path, choice: Choice) -> None:
    if choice.layer is not None or choice.head is not None:
        raise UsageError("an .npz holds every layer and head; leave them out, or save a .csv")
    arrays = {side.name: np.array(side.labels(choice.words)) for side in record.all_sides}
    for kind in [choice.kind] if choice.kind else record.kinds:
        layers = range(record.layers(kind))
        arrays[kind] = np.stack([record.attention(kind, layer, words=choice.words) for layer in layers])
    np.savez_compressed(path, allow_pickle=False, **arrays)
