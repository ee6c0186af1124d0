"""Attention to take away: pictures, a table, every weight.

.svg .png    one head, or all heads of a layer side by side
.csv         one line a cell: kind, layer, head, the query and the key by position and word, the weight;
             what is not chosen is there in full
.npz         every weight: an array (layers, heads, queries, keys) for each kind, and the tokens
.html        the studio's view of this sentence in one file that fetches nothing; what is chosen is pinned
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import UnknownName, UsageError, nearest
from regard.inspection.record.inspection import Inspection
from regard.inspection.render.terminal import heat_of

if TYPE_CHECKING:
    from regard.inspection.render.payload import Notes


COLUMNS = ("kind", "layer", "head", "query", "query_token", "key", "key_token", "weight")


def save(
    seen: Inspection,
    path: str | Path,
    kind: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    query: int | str | None = None,
    tab: str | None = None,
    notes: Notes | None = None,
) -> Path:
    """Write what the ending of the name asks for.

    A picture shows the last layer of cross-attention, or of the only kind, where nothing is chosen. With
    `words`, pieces are merged to words. `query`, `tab` and `notes` are for pages alone: the word whose row is
    pinned, the tab that is open ("translate"), and what may be said about words.
    """
    path = Path(path)
    if kind is not None:
        seen.check(kind, layer or 0, head)
    writers = {".svg": _save_picture, ".png": _save_picture, ".csv": _save_table, ".npz": _save_arrays}
    ending = path.suffix.lower()
    if ending == ".html":
        from regard.inspection.render.html_export import Choice, save_page

        save_page(seen, path, Choice(kind, layer, head, query, words, tab), notes)
    elif ending in writers:
        writers[ending](seen, path, kind, layer, head, words)
    else:
        raise UnknownName(f"cannot save {path.name!r}; {nearest(ending, [*writers, '.html'])}")
    return path


def _save_picture(
    seen: Inspection, path: Path, kind: str | None, layer: int | None, head: int | None, words: bool
) -> None:
    from regard.inspection.render.figure import draw_head, draw_heads, write_figure

    kind = kind or seen.kinds[-1]
    layer = seen.layers(kind) - 1 if layer is None else layer
    seen.check(kind, layer, head)
    title = f"{kind.capitalize()} attention, layer {layer}"
    if head is not None:
        write_figure(draw_head(heat_of(seen, kind, layer, head, words), f"{title}, head {head}"), path)
        return
    heats = [heat_of(seen, kind, layer, number, words) for number in range(seen.heads)]
    write_figure(draw_heads(heats, [f"head {number}" for number in range(seen.heads)], title), path)


def _save_table(
    seen: Inspection, path: Path, kind: str | None, layer: int | None, head: int | None, words: bool
) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for each in [kind] if kind else seen.kinds:
            for number in range(seen.layers(each)) if layer is None else [layer]:
                seen.check(each, number, head)
                table.writerows(_lines(seen, each, number, head, words))


def _lines(
    seen: Inspection, kind: str, layer: int, head: int | None, words: bool
) -> Iterator[tuple[object, ...]]:
    queries, keys = (side.labels(words) for side in seen.sides(kind))
    for number in range(seen.heads) if head is None else [head]:
        weights = seen.attention(kind, layer, number, words)
        for query, query_token in enumerate(queries):
            for key, key_token in enumerate(keys):
                weight = np.format_float_positional(weights[query, key], trim="0")
                yield kind, layer, number, query, query_token, key, key_token, weight


def _save_arrays(
    seen: Inspection, path: Path, kind: str | None, layer: int | None, head: int | None, words: bool
) -> None:
    if layer is not None or head is not None:
        raise UsageError("an .npz holds every layer and head; leave them out, or save a .csv")
    arrays = {
        side.name: np.array(side.labels(words)) for side in (seen.source, seen.target) if side is not None
    }
    for each in [kind] if kind else seen.kinds:
        arrays[each] = np.stack([seen.attention(each, n, words=words) for n in range(seen.layers(each))])
    np.savez_compressed(path, allow_pickle=False, **arrays)
