"""Which head links a word with another: measured over every head, over one sentence or several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.errors import UnknownName, UsageError
from regard.inspection.record.inspection import Inspection
from regard.inspection.record.tokens import Side


@dataclass(frozen=True, eq=False)
class Link:
    """A query word and a key word of one sentence, by spelling or by position."""

    seen: Inspection
    query: str | int
    key: str | int


@dataclass(frozen=True)
class Ranked:
    """One head, and how much of the query's attention goes to the key.

    `weight` is the mean over the sentences of `each`: from the query's pieces on average, to the key's
    pieces in sum. `uniform` is what a head that looks everywhere alike would give.
    """

    kind: str
    layer: int
    head: int
    weight: float
    uniform: float
    each: tuple[float, ...]

    @property
    def lift(self) -> float:
        """How many times the uniform share it is."""
        return self.weight / self.uniform if self.uniform else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return {**asdict(self), "each": list(self.each), "lift": self.lift}


def rank_heads(links: Link | Iterable[Link], kinds: Iterable[str] | None = None) -> list[Ranked]:
    """Every head of every kind that has both words, the one with the largest weight first."""
    links = [links] if isinstance(links, Link) else list(links)
    if not links:
        raise UsageError("no sentence to rank heads by; give one link at least")
    found = [ranked for kind in _kinds(links, kinds) for ranked in _ranked(links, kind)]
    return sorted(found, key=lambda ranked: -ranked.weight)


def _kinds(links: list[Link], kinds: Iterable[str] | None) -> list[str]:
    """The kinds in which every query can look at its key."""
    wanted = links[0].seen.kinds if kinds is None else list(kinds)
    able = [kind for kind in wanted if all(_has_both(link, kind) for link in links)]
    if not able:
        link = next(link for link in links if not any(_has_both(link, kind) for kind in wanted))
        texts = " / ".join(side.text for side in (link.seen.source, link.seen.target) if side is not None)
        raise UnknownName(f"no attention goes from {link.query!r} to {link.key!r} in: {texts}")
    return able


def _has_both(link: Link, kind: str) -> bool:
    queries, keys = link.seen.sides(kind)
    return _has(queries, link.query) and _has(keys, link.key)


def _has(side: Side, wanted: str | int) -> bool:
    return side.has(wanted) if isinstance(wanted, str) else -len(side) <= wanted < len(side)


def _ranked(links: list[Link], kind: str) -> Iterator[Ranked]:
    uniform = float(np.mean([_uniform(link, kind) for link in links]))
    for layer in range(links[0].seen.layers(kind)):
        weights = np.array([_weights(link, kind, layer) for link in links])  # sentences x heads
        for head, each in enumerate(weights.T):
            yield Ranked(kind, layer, head, float(each.mean()), uniform, tuple(map(float, each)))


def _weights(link: Link, kind: str, layer: int) -> np.ndarray:
    queries, keys = link.seen.sides(kind)
    rows = link.seen.attention(kind, layer)[:, list(queries.find(link.query))].mean(1)  # H K
    return rows[:, list(keys.find(link.key))].sum(-1)


def _uniform(link: Link, kind: str) -> float:
    """The key's share of what the query may look at."""
    queries, keys = link.seen.sides(kind)
    visible = link.seen.visible(kind, 0)[list(queries.find(link.query))].astype(float)
    shares = visible / np.maximum(visible.sum(-1, keepdims=True), 1)
    return float(shares[:, list(keys.find(link.key))].sum(-1).mean())
