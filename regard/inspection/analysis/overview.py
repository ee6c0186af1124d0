"""All heads at a glance: every map made small, and the place that is worth a first look.

L layers, H heads, Q queries, K keys. Weights are looked at a few layers at a time, so that a long text in a
deep model needs no more memory than it may.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from regard.inspection.record.inspection import Inspection
from regard.inspection.record.recording import at_rest
from regard.inspection.record.tokens import Side
from regard.model.watch import attention_path, watch

SMALL = 48  # rows and columns of a small map at most
AT_ONCE = 1 << 28  # bytes of weights held together where the recording cannot hold them all
Places = Mapping[str, Sequence[int]]  # by the name of a side


@dataclass(frozen=True)
class Pinned:
    """One query in one head, and the key that it is looked at for."""

    kind: str
    layer: int
    head: int
    query: int
    key: int
    strength: float

    @property
    def place(self) -> dict[str, Any]:
        """Where it is, for the view."""
        names = ("kind", "layer", "head", "query", "key")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, eq=False)
class Glance:
    """Every head's map, pooled to a small one, and a good first choice."""

    overview: dict[str, np.ndarray]  # for each kind L H q k
    pinned: Pinned


def glance(seen: Inspection, nouns: Places | None = None, pronouns: Places | None = None) -> Glance:
    """Look at every head once.

    Where a side has `pronouns`, by their position, and `nouns`, by the number of the word, the first choice
    is the head, of any kind, in which a pronoun gives one noun the most weight; one that is written looks
    from the step that writes it. Else it is the head of the last layer, of cross-attention where there is
    any, that tells most: whose rows are furthest from looking everywhere alike, as far as they look at words
    at all. Its most telling row is then the query.
    """
    small: dict[str, list[np.ndarray]] = {kind: [] for kind in seen.kinds}
    linked: list[Pinned] = []
    last: tuple[str, int, np.ndarray] | None = None
    for last in every_layer(seen):
        kind, layer, weights = last
        small[kind].append(pool(weights))
        linked += _links(seen, kind, layer, weights, nouns or {}, pronouns or {})
    assert last is not None
    pinned = max(linked, key=lambda each: each.strength, default=None) or most_telling(seen, *last)
    return Glance({kind: np.stack(maps) for kind, maps in small.items()}, pinned)


def every_layer(seen: Inspection) -> Iterator[tuple[str, int, np.ndarray]]:
    """The weights of each kind and layer, H Q K, the layers of a kind in order."""
    places = [(kind, layer) for kind in seen.kinds for layer in range(seen.layers(kind))]
    if seen.recording.holds_weights:
        for kind, layer in places:
            yield kind, layer, seen.attention(kind, layer)
        return
    sizes = [4 * seen.heads * math.prod(map(len, seen.sides(kind))) for kind, _ in places]
    while places:
        count = max(1, int(np.searchsorted(np.cumsum(sizes), AT_ONCE, "right")))
        yield from _passed(seen, places[:count])
        places, sizes = places[count:], sizes[count:]


def _passed(seen: Inspection, places: list[tuple[str, int]]) -> Iterator[tuple[str, int, np.ndarray]]:
    """One more pass that records these weights alone."""
    names = [f"{attention_path(*place)}.weights" for place in places]
    recording = seen.recording
    device = next(seen.model.parameters()).device
    sides = [side for side in (seen.source, seen.target) if side is not None]
    ids = [torch.as_tensor(side.ids, device=device)[None] for side in sides]
    with (
        torch.no_grad(),
        at_rest(seen.model),
        watch(seen.model, names, recording.off, recording.patch) as passed,
    ):
        seen.model(*ids)
    for (kind, layer), name in zip(places, names, strict=True):
        yield kind, layer, passed[name][0].float().cpu().numpy()


def pool(weights: np.ndarray, most: int = SMALL) -> np.ndarray:
    """.. Q K with at most so many rows and columns, each the largest of those that it stands for."""
    rows, columns = weights.shape[-2:]
    if rows > most:
        bounds = np.arange(most + 1) * rows // most
        parts = [weights[..., first:last, :].max(-2) for first, last in pairwise(bounds.tolist())]
        weights = np.stack(parts, axis=-2)  # five times as fast as reduceat along this axis
    if columns > most:
        weights = np.maximum.reduceat(weights, np.arange(most) * columns // most, axis=-1)
    return weights


def writes_next(seen: Inspection, kind: str) -> bool:
    """Whether a row of this kind is a step that writes the next token, as in a translation's decoder."""
    return seen.source is not None and seen.sides(kind)[0] is seen.target


def _links(
    seen: Inspection, kind: str, layer: int, weights: np.ndarray, nouns: Places, pronouns: Places
) -> Iterator[Pinned]:
    """In each head, how much each pronoun looks at each noun."""
    queries, keys = seen.sides(kind)
    for position in pronouns.get(queries.name, ()):
        query = position - writes_next(seen, kind)
        for number in nouns.get(keys.name, ()):
            places = list(keys.words[number].positions)
            for head, weight in enumerate(weights[:, query, places].sum(-1).tolist()):
                yield Pinned(kind, layer, head, query, places[0], weight)


def caption(seen: Inspection, pinned: Pinned) -> str:
    """What is to be seen in a place, in a sentence."""
    queries, keys = seen.sides(pinned.kind)
    word = keys.words[keys.tokens[pinned.key].word]
    row = seen.attention(pinned.kind, pinned.layer, pinned.head)[pinned.query]
    asks = _quoted(queries, pinned.query)
    if writes_next(seen, pinned.kind):
        asks = f"The step that writes {_quoted(queries, pinned.query + 1)}"
    return f"{asks} looks at “{word.text}”: {row[list(word.positions)].sum():.2f}"


def _quoted(side: Side, position: int) -> str:
    """The word at a position; behind the last one stands the end."""
    return f"“{side.words[side.tokens[position].word].text}”" if position < len(side) else "the end"


def most_telling(seen: Inspection, kind: str, layer: int, weights: np.ndarray) -> Pinned:
    """Of some heads of a layer, H Q K, the one that tells most, counted among them, and its best row."""
    queries, keys = seen.sides(kind)
    many = np.arange(1, len(queries) + 1) if kind == "decoder" else np.full(len(queries), len(keys))
    entropy = -np.einsum("hqk,hqk->hq", weights, np.log(np.maximum(weights, 1e-30)))  # H Q
    at_words = weights @ np.array([not token.special for token in keys.tokens], dtype=weights.dtype)
    telling = np.nan_to_num((np.log(many) - entropy) * at_words)
    counted = [not token.special for token in queries.tokens]
    telling[:, ~np.array(counted)] *= 1.0 if not any(counted) else 0.0
    head = int(telling.mean(1).argmax())
    query = int(telling[head].argmax())
    key = int(weights[head, query].argmax())
    return Pinned(kind, layer, head, query, key, float(telling[head, query]))
