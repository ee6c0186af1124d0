"""Overview of all heads: every attention map made small, and the row to show first.

L layers, H heads, Q queries, K keys. Weights are read a few layers at a time, which bounds the memory for a
long text in a deep model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from regard.inspection.record.record import Record
from regard.inspection.record.tokens import Side
from regard.model.watch import attention_path

SMALL = 48  # rows and columns of a small map at most
AT_ONCE = 1 << 28  # bytes of weights read in one pass where the recording cannot hold them all
CLEAR = 0.3  # of a row; from here on, a link within the source is shown before others
Places = Mapping[str, Sequence[int]]  # by the name of a side


@dataclass(frozen=True)
class Pinned:
    """One query in one head, and the key of interest."""

    kind: str
    layer: int
    head: int
    query: int
    key: int
    strength: float
    is_largest: bool = False  # whether no other word of the row has a larger weight

    @property
    def place(self) -> dict[str, Any]:
        """Its fields for the view, without the strength."""
        names = ("kind", "layer", "head", "query", "key")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, eq=False)
class Overview:
    """Every head's attention map, pooled to a small one, and the row to show first."""

    maps: dict[str, np.ndarray]  # for each kind L H q k
    pinned: Pinned


def overview_of(record: Record, nouns: Places | None = None, pronouns: Places | None = None) -> Overview:
    """Pool the map of every head and choose the row to show first.

    If a side has `pronouns` (positions) and `nouns` (numbers of words), the row is one in which a pronoun
    attends to a noun: see `_clearest`. A pronoun of the output is read at the step that writes it. Otherwise
    the row is the most informative one of the last layer, in cross-attention if there is any: see
    `most_informative`.
    """
    small: dict[str, list[np.ndarray]] = {kind: [] for kind in record.kinds}
    linked: list[Pinned] = []
    last: tuple[str, int, np.ndarray] | None = None
    for last in every_layer(record):
        kind, layer, weights = last
        small[kind].append(pool(weights))
        linked += _links(record, kind, layer, weights, nouns or {}, pronouns or {})
    assert last is not None
    pinned = max(linked, key=_clearest, default=None) or most_informative(record, *last)
    return Overview({kind: np.stack(maps) for kind, maps in small.items()}, pinned)


def every_layer(record: Record) -> Iterator[tuple[str, int, np.ndarray]]:
    """The weights of each kind and layer, H Q K, the layers of a kind in order."""
    places = [(kind, layer) for kind in record.kinds for layer in range(record.layers(kind))]
    if record.recording.holds_weights:
        for kind, layer in places:
            yield kind, layer, record.attention(kind, layer)
        return
    sizes = [4 * record.heads * math.prod(map(len, record.sides(kind))) for kind, _ in places]
    while places:
        count = max(1, int(np.searchsorted(np.cumsum(sizes), AT_ONCE, "right")))
        yield from _recorded(record, places[:count])
        places, sizes = places[count:], sizes[count:]


def _recorded(record: Record, places: list[tuple[str, int]]) -> Iterator[tuple[str, int, np.ndarray]]:
    """One more pass that records only these weights."""
    names = [f"{attention_path(*place)}.weights" for place in places]
    _, values = record.recording.run(names)
    for (kind, layer), name in zip(places, names, strict=True):
        yield kind, layer, values[name][0].float().cpu().numpy()


def pool(weights: np.ndarray, most: int = SMALL) -> np.ndarray:
    """Max-pool .. Q K to at most `most` rows and columns."""
    rows, columns = weights.shape[-2:]
    if rows > most:
        bounds = np.arange(most + 1) * rows // most
        parts = [weights[..., first:last, :].max(-2) for first, last in pairwise(bounds.tolist())]
        weights = np.stack(parts, axis=-2)  # five times as fast as reduceat along this axis
    if columns > most:
        weights = np.maximum.reduceat(weights, np.arange(most) * columns // most, axis=-1)
    return weights


def writes_next(record: Record, kind: str) -> bool:
    """Whether a row of this kind is a step that writes the next token, as in a translation's decoder."""
    return record.source is not None and record.sides(kind)[0] is record.target


def _links(
    record: Record, kind: str, layer: int, weights: np.ndarray, nouns: Places, pronouns: Places
) -> Iterator[Pinned]:
    """The weight from each pronoun to each noun, in each head."""
    queries, keys = record.sides(kind)
    for position in pronouns.get(queries.name, ()):
        query = position - writes_next(record, kind)
        for number in nouns.get(keys.name, ()):
            first = keys.words[number].positions[0]
            for head in range(len(weights)):
                shares = _by_word(weights[head, query], keys)
                weight = float(shares[number])
                yield Pinned(kind, layer, head, query, first, weight, weight >= shares.max())


def _clearest(link: Pinned) -> tuple[bool, bool, float]:
    """The order of links: clear ones within the source, where the noun has the largest weight of the row;
    then others with the largest weight; then by weight."""
    is_clear = link.kind == "encoder" and link.is_largest and link.strength >= CLEAR
    return is_clear, link.is_largest, link.strength


def _by_word(row: np.ndarray, side: Side) -> np.ndarray:
    """A row over tokens, summed to words."""
    starts = [word.positions[0] for word in side.words]
    return row if len(starts) == len(row) else np.add.reduceat(row, starts)


@dataclass(frozen=True)
class Finding:
    """What a row shows, in plain words: the word looked at most, and the numbers behind it."""

    claim: str
    detail: str


def finding(record: Record, pinned: Pinned) -> Finding:
    """The word that the pinned row looks at most; where this is not the key of interest, both weights."""
    keys = record.sides(pinned.kind)[1]
    shares = _by_word(record.attention(pinned.kind, pinned.layer, pinned.head)[pinned.query], keys)
    most, wanted = int(shares.argmax()), keys.tokens[pinned.key].word
    claim = f"{_asking(record, pinned)} looks most at “{keys.words[most].text}”."
    also = f", and {shares[wanted]:.2f} to “{keys.words[wanted].text}”" if wanted != most else ""
    name = {"encoder": "encoder", "decoder": "decoder self-attention", "cross": "cross-attention"}[
        pinned.kind
    ]
    place = f"in {name}, layer {pinned.layer}, head {pinned.head}"
    return Finding(claim, f"{shares[most]:.2f} of the attention goes there{also}, {place}.")


def _asking(record: Record, pinned: Pinned) -> str:
    queries = record.sides(pinned.kind)[0]
    if not writes_next(record, pinned.kind):
        return _quoted(queries, pinned.query)
    return f"The step that writes {_quoted(queries, pinned.query + 1)}"


def caption(record: Record, pinned: Pinned) -> str:
    """One sentence about the pinned row: which word looks at which, and with what weight."""
    keys = record.sides(pinned.kind)[1]
    word = keys.words[keys.tokens[pinned.key].word]
    row = record.attention(pinned.kind, pinned.layer, pinned.head)[pinned.query]
    return f"{_asking(record, pinned)} looks at “{word.text}”: {row[list(word.positions)].sum():.2f}"


def _quoted(side: Side, position: int) -> str:
    """The word at a position in quotes; after the last one, the end."""
    return f"“{side.words[side.tokens[position].word].text}”" if position < len(side) else "the end"


def most_informative(record: Record, kind: str, layer: int, weights: np.ndarray) -> Pinned:
    """The head, of weights H Q K, with the most informative rows, and its best row.

    A row is informative where its entropy is far below that of even attention and its weight is on words
    instead of special tokens. The head is counted among those given.
    """
    queries, keys = record.sides(kind)
    visible = np.arange(1, len(queries) + 1) if kind == "decoder" else np.full(len(queries), len(keys))
    entropy = -np.einsum("hqk,hqk->hq", weights, np.log(np.maximum(weights, 1e-30)))  # H Q
    on_words = weights @ np.array([not token.special for token in keys.tokens], dtype=weights.dtype)
    information = np.nan_to_num((np.log(visible) - entropy) * on_words)
    are_words = [not token.special for token in queries.tokens]
    information[:, ~np.array(are_words)] *= 1.0 if not any(are_words) else 0.0
    head = int(information.mean(1).argmax())
    query = int(information[head].argmax())
    key = int(weights[head, query].argmax())
    return Pinned(kind, layer, head, query, key, float(information[head, query]))
