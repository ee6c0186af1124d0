"""What kind of head it is: how sharp, how far, and whether it has a habit.

All numbers are means over the queries of one sentence or several. Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.errors import UsageError
from regard.inspection.record.inspection import Inspection


@dataclass(frozen=True)
class HeadStatistics:
    """One head in numbers. Shares are of the weight; those about places are None in cross-attention.

    entropy     how widely it looks, in bits: 0 for one word alone, log2 K for all K alike
    distance    how many tokens away it looks, by weight
    previous    the share that goes to the token before; `following`, `self_share` likewise. A query
                without such a token is left out
    first, end  the share that goes to the first key, and to the key that ends the sequence
    """

    kind: str
    layer: int
    head: int
    entropy: float | None
    distance: float | None
    previous: float | None
    following: float | None
    self_share: float | None
    first: float | None
    end: float | None

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return asdict(self)


def head_statistics(seen: Inspection | Iterable[Inspection]) -> list[HeadStatistics]:
    """Every head of every kind, in order."""
    sentences = [seen] if isinstance(seen, Inspection) else list(seen)
    if not sentences:
        raise UsageError("no sentence to describe heads by; give one inspection at least")
    return [each for kind in sentences[0].kinds for each in _of_kind(sentences, kind)]


def _of_kind(sentences: list[Inspection], kind: str) -> Iterator[HeadStatistics]:
    for layer in range(sentences[0].layers(kind)):
        measured = [_measures(one, kind, layer) for one in sentences]  # of each sentence: name to H Q
        joined = {name: np.concatenate([each[name] for each in measured], axis=1) for name in measured[0]}
        means = {name: _mean(values) for name, values in joined.items()}
        for head in range(sentences[0].heads):
            yield HeadStatistics(kind, layer, head, **{name: value[head] for name, value in means.items()})


def _measures(seen: Inspection, kind: str, layer: int) -> dict[str, np.ndarray]:
    """Every measure for every head and query, H Q; nan where it means nothing."""
    weights = seen.attention(kind, layer).astype(np.float64)
    queries, keys = seen.sides(kind)
    nothing = np.full(weights.shape[:2], np.nan)
    logs = np.log2(np.where(weights > 0, weights, 1.0))
    ends = [place for place, token in enumerate(keys.tokens) if token.special == "end"]
    found: dict[str, np.ndarray] = dict.fromkeys(("distance", "previous", "following", "self_share"), nothing)
    if queries is keys:
        places = np.arange(len(keys))
        found["distance"] = (weights * np.abs(places[:, None] - places)).sum(-1)
        shifts = {"previous": -1, "following": 1, "self_share": 0}
        found |= {name: _beside(weights, shift, seen.visible(kind, layer)) for name, shift in shifts.items()}
    found["entropy"] = -(weights * logs).sum(-1)
    found["first"] = weights[:, :, 0]
    return found | {"end": weights[:, :, ends].sum(-1) if ends else nothing}


def _beside(weights: np.ndarray, shift: int, visible: np.ndarray) -> np.ndarray:
    """The weight of the key that stands so many places from each query, nan where none may be seen."""
    share = np.full(weights.shape[:2], np.nan)
    for query in range(weights.shape[1]):
        key = query + shift
        if 0 <= key < weights.shape[2] and visible[query, key]:
            share[:, query] = weights[:, query, key]
    return share


def _mean(values: np.ndarray) -> list[float | None]:
    """The mean of each head over the queries that have a value, None where none has."""
    counted = ~np.isnan(values)
    sums = np.where(counted, values, 0.0).sum(1)
    return [float(total / n) if n else None for total, n in zip(sums, counted.sum(1), strict=True)]
