"""Attention in a file; the ending of its name chooses the format.

.svg .png    one head, or all heads of a layer side by side
.csv         one line per cell: kind, layer, head, the query and the key by position and token, the weight;
             all kinds, layers and heads that are not chosen are included
.npz         every weight: an array (layers, heads, queries, keys) for each kind, and the tokens
.html        the studio's view of this sentence in one file without network access; the choice is pinned
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import UnknownName, UsageError, nearest
from regard.inspection.record.record import Record
from regard.inspection.render.terminal import heat_of

if TYPE_CHECKING:
    from regard.inspection.render.payload import Notes


COLUMNS = ("kind", "layer", "head", "query", "query_token", "key", "key_token", "weight")


def save(
    record: Record,
    path: str | Path,
    kind: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    query: int | str | None = None,
    tab: str | None = None,
    notes: Notes | None = None,
) -> Path:
    """Write the format that the ending of the name stands for.

    Without a choice, a picture shows the last layer of cross-attention, or of the only kind. With `words`,
    the tokens of a word are merged. `query`, `tab` and `notes` are for pages: the word whose row is pinned,
    the tab that opens ("translate"), and notes about words.
    """
    path = Path(path)
    if kind is not None:
        record.check(kind, layer or 0, head)
    writers = {".svg": _save_picture, ".png": _save_picture, ".csv": _save_table, ".npz": _save_arrays}
    ending = path.suffix.lower()
    if ending == ".html":
        from regard.inspection.render.html_export import Choice, save_page

        save_page(record, path, Choice(kind, layer, head, query, words, tab), notes)
    elif ending in writers:
        writers[ending](record, path, kind, layer, head, words)
    else:
        raise UnknownName(f"cannot save {path.name!r}; {nearest(ending, [*writers, '.html'])}")
    return path


def _save_picture(
    record: Record, path: Path, kind: str | None, layer: int | None, head: int | None, words: bool
) -> None:
    from regard.inspection.render.figure import draw_head, draw_heads, write_figure

    kind = kind or record.kinds[-1]
    layer = record.layers(kind) - 1 if layer is None else layer
    record.check(kind, layer, head)
    title = f"{kind.capitalize()} attention, layer {layer}"
    if head is not None:
        write_figure(draw_head(heat_of(record, kind, layer, head, words), f"{title}, head {head}"), path)
        return
    heats = [heat_of(record, kind, layer, number, words) for number in range(record.heads)]
    write_figure(draw_heads(heats, [f"head {number}" for number in range(record.heads)], title), path)


def _save_table(
    record: Record, path: Path, kind: str | None, layer: int | None, head: int | None, words: bool
) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for chosen in [kind] if kind else record.kinds:
            for number in range(record.layers(chosen)) if layer is None else [layer]:
                record.check(chosen, number, head)
                table.writerows(_lines(record, chosen, number, head, words))


def _lines(
    record: Record, kind: str, layer: int, head: int | None, words: bool
) -> Iterator[tuple[object, ...]]:
    queries, keys = (side.labels(words) for side in record.sides(kind))
    for number in range(record.heads) if head is None else [head]:
        weights = record.attention(kind, layer, number, words)
        for query, query_token in enumerate(queries):
            for key, key_token in enumerate(keys):
                weight = np.format_float_positional(weights[query, key], trim="0")
                yield kind, layer, number, query, query_token, key, key_token, weight


def _save_arrays(
    record: Record, path: Path, kind: str | None, layer: int | None, head: int | None, words: bool
) -> None:
    if layer is not None or head is not None:
        raise UsageError("an .npz holds every layer and head; leave --layer and --head out, or save a .csv")
    arrays = {side.name: np.array(side.labels(words)) for side in record.all_sides}
    for chosen in [kind] if kind else record.kinds:
        layers = range(record.layers(chosen))
        arrays[chosen] = np.stack([record.attention(chosen, number, words=words) for number in layers])
    np.savez_compressed(path, allow_pickle=False, **arrays)
