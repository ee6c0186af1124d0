"""All heads at a glance: every map made small, and the place that is worth a first look.

L layers, H heads, Q queries, K keys. Weights are looked at a few layers at a time, so that a long text in a
deep model needs no more memory than it may.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.inspection.recording import at_rest
from regard.inspection.tokens import Side
from regard.inspection.trace import Inspection
from regard.model.watch import attention_path, watch

SMALL = 48  # rows and columns of a small map at most
AT_ONCE = 1 << 28  # bytes of weights held together where the recording cannot hold them all
IT = "it"


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


def glance(seen: Inspection, nouns: Sequence[int] = ()) -> Glance:
    """Look at every head once.

    Where the sentence has an "it" and words are named as `nouns`, by number, the first choice is the head
    in which it gives one of them the most weight. Else it is the head of the last layer, of cross-attention
    where there is any, that tells most: whose rows are furthest from looking everywhere alike, as far as
    they look at words at all. Its most telling row is then the query.
    """
    small: dict[str, list[np.ndarray]] = {kind: [] for kind in seen.kinds}
    linked: list[Pinned] = []
    last = seen.kinds[-1], seen.layers(seen.kinds[-1]) - 1
    chosen: Pinned | None = None
    for kind, layer, weights in every_layer(seen):
        small[kind].append(pool(weights))
        if kind == seen.kinds[0]:
            linked += _from_it(seen.side(seen.sides(kind)[0].name), nouns, kind, layer, weights)
        if (kind, layer) == last:
            chosen = most_telling(seen, kind, layer, weights)
    assert chosen is not None
    pinned = max(linked, key=lambda each: each.strength, default=chosen)
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
    for axis in (-2, -1):
        length = weights.shape[axis]
        if length > most:
            weights = np.maximum.reduceat(weights, np.arange(most) * length // most, axis=axis)
    return weights


def _from_it(
    side: Side, nouns: Sequence[int], kind: str, layer: int, weights: np.ndarray
) -> Iterator[Pinned]:
    """In each head, how much the first "it" looks at the noun that it looks at most."""
    it = next((word for word in side.words if word.text.casefold() == IT), None)
    if it is None or not nouns:
        return
    rows = weights[:, list(it.positions)].mean(1)  # H K
    shares = np.stack([rows[:, list(side.words[noun].positions)].sum(-1) for noun in nouns])
    for head, best in enumerate(shares.argmax(0).tolist()):
        noun = side.words[nouns[best]].positions[0]
        yield Pinned(kind, layer, head, it.positions[0], noun, float(shares[best, head]))


def most_telling(seen: Inspection, kind: str, layer: int, weights: np.ndarray) -> Pinned:
    """Of some heads of a layer, H Q K, the one that tells most, counted among them, and its best row."""
    queries, keys = seen.sides(kind)
    many = np.arange(1, len(queries) + 1) if kind == "decoder" else np.full(len(queries), len(keys))
    weights = weights.astype(np.float64)
    entropy = -(weights * np.log(np.maximum(weights, 1e-30))).sum(-1)  # H Q
    at_words = weights[:, :, [not token.special for token in keys.tokens]].sum(-1)
    telling = np.nan_to_num((np.log(many) - entropy) * at_words)
    counted = [not token.special for token in queries.tokens]
    telling[:, ~np.array(counted)] *= 1.0 if not any(counted) else 0.0
    head = int(telling.mean(1).argmax())
    query = int(telling[head].argmax())
    key = int(weights[head, query].argmax())
    return Pinned(kind, layer, head, query, key, float(telling[head, query]))
