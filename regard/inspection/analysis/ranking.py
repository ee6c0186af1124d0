"""Rank heads by the attention from one word to another, over one or more sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.errors import UnknownName, UsageError
from regard.inspection.record.record import Record
from regard.inspection.record.tokens import Side


@dataclass(frozen=True, eq=False)
class Link:
    """A query word and a key word of one record, by spelling or by position."""

    record: Record
    query: str | int
    key: str | int


@dataclass(frozen=True)
class Ranked:
    """One head and the weight from the query to the key.

    `each` has the weight in each sentence: the mean over the query's tokens of the sum over the key's tokens.
    `weight` is the mean of `each`. `uniform` is the weight under even attention.
    """

    kind: str
    layer: int
    head: int
    weight: float
    uniform: float
    each: tuple[float, ...]

    @property
    def lift(self) -> float:
        """The weight divided by the uniform weight."""
        return self.weight / self.uniform if self.uniform else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The fields as values that JSON can hold."""
        return {**asdict(self), "each": list(self.each), "lift": self.lift}


def rank_heads(links: Link | Iterable[Link], kinds: Iterable[str] | None = None) -> list[Ranked]:
    """Every head of every kind that has both words, by weight, the largest first."""
    links = [links] if isinstance(links, Link) else list(links)
    if not links:
        raise UsageError("ranking heads needs at least one link; give one")
    heads = [head for kind in _kinds(links, kinds) for head in _ranked(links, kind)]
    return sorted(heads, key=lambda ranked: -ranked.weight)


def _kinds(links: list[Link], kinds: Iterable[str] | None) -> list[str]:
    """The kinds of attention in which every link has its query and its key."""
    wanted = links[0].record.kinds if kinds is None else list(kinds)
    able = [kind for kind in wanted if all(_has_both(link, kind) for link in links)]
    if not able:
        link = next(link for link in links if not any(_has_both(link, kind) for kind in wanted))
        texts = " / ".join(side.text for side in link.record.all_sides)
        raise UnknownName(f"no attention goes from {link.query!r} to {link.key!r} in: {texts}")
    return able


def _has_both(link: Link, kind: str) -> bool:
    queries, keys = link.record.sides(kind)
    return _has(queries, link.query) and _has(keys, link.key)


def _has(side: Side, wanted: str | int) -> bool:
    return side.has(wanted) if isinstance(wanted, str) else -len(side) <= wanted < len(side)


def _ranked(links: list[Link], kind: str) -> Iterator[Ranked]:
    uniform = float(np.mean([_uniform(link, kind) for link in links]))
    for layer in range(links[0].record.layers(kind)):
        weights = np.array([_weights(link, kind, layer) for link in links])  # sentences x heads
        for head, each in enumerate(weights.T):
            yield Ranked(kind, layer, head, float(each.mean()), uniform, tuple(map(float, each)))


def _weights(link: Link, kind: str, layer: int) -> np.ndarray:
    queries, keys = link.record.sides(kind)
    rows = link.record.attention(kind, layer)[:, list(queries.find(link.query))].mean(1)  # H K
    return rows[:, list(keys.find(link.key))].sum(-1)


def _uniform(link: Link, kind: str) -> float:
    """The weight of the key under even attention to the visible keys."""
    queries, keys = link.record.sides(kind)
    visible = link.record.visible(kind, 0)[list(queries.find(link.query))].astype(float)
    shares = visible / np.maximum(visible.sum(-1, keepdims=True), 1)
    return float(shares[:, list(keys.find(link.key))].sum(-1).mean())
