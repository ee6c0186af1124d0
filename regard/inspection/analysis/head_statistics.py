"""Statistics of each head: entropy, distance, and the weight on particular positions.

All numbers are means over the queries of one or more sentences. Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.errors import UsageError
from regard.inspection.record.record import Record


@dataclass(frozen=True)
class HeadStatistics:
    """The statistics of one head. Those about relative positions are None in cross-attention.

    entropy     of a row, in bits: 0 for one key alone, log2 K for even attention to K keys
    distance    the weighted mean distance to the keys, in tokens
    previous    the weight on the token before; `following` and `self_share` likewise. Queries without
                such a token are left out
    first, end  the weight on the first key, and on the key that ends the sequence
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
        """The fields as values that JSON can hold."""
        return asdict(self)


def head_statistics(records: Record | Iterable[Record]) -> list[HeadStatistics]:
    """The statistics of every head of every kind, in order."""
    sentences = [records] if isinstance(records, Record) else list(records)
    if not sentences:
        raise UsageError("head statistics need at least one record; give one")
    return [head for kind in sentences[0].kinds for head in _of_kind(sentences, kind)]


def _of_kind(sentences: list[Record], kind: str) -> Iterator[HeadStatistics]:
    for layer in range(sentences[0].layers(kind)):
        measured = [_measures(record, kind, layer) for record in sentences]  # per sentence: name to H Q
        joined = {name: np.concatenate([m[name] for m in measured], axis=1) for name in measured[0]}
        means = {name: _mean(values) for name, values in joined.items()}
        for head in range(sentences[0].heads):
            yield HeadStatistics(kind, layer, head, **{name: value[head] for name, value in means.items()})


def _measures(record: Record, kind: str, layer: int) -> dict[str, np.ndarray]:
    """Every measure for every head and query, H Q; nan where it is undefined."""
    weights = record.attention(kind, layer).astype(np.float64)
    queries, keys = record.sides(kind)
    nothing = np.full(weights.shape[:2], np.nan)
    logs = np.log2(np.where(weights > 0, weights, 1.0))
    ends = [place for place, token in enumerate(keys.tokens) if token.special == "end"]
    measures: dict[str, np.ndarray] = dict.fromkeys(
        ("distance", "previous", "following", "self_share"), nothing
    )
    if queries is keys:
        places = np.arange(len(keys))
        measures["distance"] = (weights * np.abs(places[:, None] - places)).sum(-1)
        shifts = {"previous": -1, "following": 1, "self_share": 0}
        measures |= {
            name: _beside(weights, shift, record.visible(kind, layer)) for name, shift in shifts.items()
        }
    measures["entropy"] = -(weights * logs).sum(-1)
    measures["first"] = weights[:, :, 0]
    return measures | {"end": weights[:, :, ends].sum(-1) if ends else nothing}


def _beside(weights: np.ndarray, shift: int, visible: np.ndarray) -> np.ndarray:
    """The weight of the key `shift` positions from each query; nan where there is none or it is masked."""
    share = np.full(weights.shape[:2], np.nan)
    for query in range(weights.shape[1]):
        key = query + shift
        if 0 <= key < weights.shape[2] and visible[query, key]:
            share[:, query] = weights[:, query, key]
    return share


def _mean(values: np.ndarray) -> list[float | None]:
    """The mean of each head over the queries that have a value, or None."""
    counted = ~np.isnan(values)
    sums = np.where(counted, values, 0.0).sum(1)
    return [float(total / n) if n else None for total, n in zip(sums, counted.sum(1), strict=True)]
