"""Two sentences side by side: what one word looks at in the one and in the other, over all heads.

both = compare(tired, wide)
both.changes("it")          # every head, the one that changes most first
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from regard.errors import UsageError
from regard.inspection.record.inspection import Inspection
from regard.inspection.record.tokens import Side, merge_words, word_of


@dataclass(frozen=True)
class Pair:
    """A word of each sentence that stand for one another, by number; None where it has no partner."""

    first: int | None
    second: int | None
    label: str


@dataclass(frozen=True, eq=False)
class Change:
    """How differently a word looks in one head: its two rows over the paired words.

    `distance` is the total variation, half the sum of all differences: the share of attention that went
    elsewhere, 0 for the same row and 1 for nothing in common.
    """

    kind: str
    layer: int
    head: int
    distance: float
    first: np.ndarray
    second: np.ndarray

    @property
    def difference(self) -> np.ndarray:
        """What each word gained, the second less the first."""
        return self.second - self.first

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        told = {"kind": self.kind, "layer": self.layer, "head": self.head, "distance": self.distance}
        return {**told, "first": self.first.tolist(), "second": self.second.tolist()}


@dataclass(frozen=True)
class NextChange:
    """A token that may follow, with its probability in each sentence."""

    id: int
    text: str
    first: float
    second: float

    @property
    def change(self) -> float:
        """The second less the first."""
        return self.second - self.first

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return {**asdict(self), "change": self.change}


class Comparison:
    """Two inspections of one model, or of two with the same heads, in words."""

    def __init__(self, first: Inspection, second: Inspection):
        if first.kinds != second.kinds or first.heads != second.heads:
            raise UsageError("these two models have other heads; compare sentences of one model")
        self.first, self.second = first, second
        names = [side.name for side in (first.source, first.target) if side is not None]
        self.pairs = {name: pair_words(first.side(name), second.side(name)) for name in names}

    def labels(self, side: str) -> list[str]:
        """The paired words: one spelling where both agree, "tired/wide" where not."""
        return [pair.label for pair in self.pairs[side]]

    def changes(self, word: str | int, side: str | None = None) -> list[Change]:
        """How a word of the first sentence looks, in each head of each kind, the largest change first."""
        side = side or self._side_of(word)
        pair = self._partnered(word, side)
        found = []
        for kind in self.first.kinds:
            if self.first.sides(kind)[0].name == side:
                for layer in range(min(self.first.layers(kind), self.second.layers(kind))):
                    found += self._changes_in(kind, layer, pair)
        return sorted(found, key=lambda change: -change.distance)

    def difference_map(self, word: str | int, kind: str) -> np.ndarray:
        """What each paired word gained of a word's attention, layers x heads x pairs."""
        pair = self._partnered(word, self.first.sides(kind)[0].name)
        layers = min(self.first.layers(kind), self.second.layers(kind))
        return np.array(
            [[each.difference for each in self._changes_in(kind, n, pair)] for n in range(layers)]
        )

    @property
    def fork(self) -> int:
        """The last position up to which both outputs are the same: the next token is where they part."""
        first, second = self.first.written.ids, self.second.written.ids
        shared = min(len(first), len(second))
        differing = np.flatnonzero(first[:shared] != second[:shared])
        return max((int(differing[0]) if len(differing) else shared) - 1, 0)

    def next(self, position: int | None = None, top: int = 10) -> list[NextChange]:
        """The tokens whose probability changes most after a position, by default after the fork."""
        place = self.fork if position is None else position
        return self._next([each.written.find(place)[0] for each in (self.first, self.second)], top)

    def after_both(self, top: int = 10) -> list[NextChange]:
        """The same after the whole of each."""
        return self._next([-1, -1], top)

    def _next(self, places: list[int], top: int) -> list[NextChange]:
        side = self.first.written
        first, second = (
            each.probabilities[place] for each, place in zip((self.first, self.second), places, strict=True)
        )
        best = np.argsort(-np.abs(second - first), kind="stable")[:top].tolist()
        return [NextChange(n, word_of(side.tokenizer, n), float(first[n]), float(second[n])) for n in best]

    def _side_of(self, word: str | int) -> str:
        sides = [each for each in (self.first.source, self.first.target) if each is not None]
        return next((side.name for side in sides if isinstance(word, int) or side.has(word)), sides[0].name)

    def _partnered(self, word: str | int, side: str) -> Pair:
        place = self.first.side(side).find(word, words=True)[0]
        number = self.first.tokens(side)[place].word
        pair = next(pair for pair in self.pairs[side] if pair.first == number)
        if pair.second is None:
            raise UsageError(
                f"{word!r} has no partner in {self.second.side(side).text!r}; choose another word"
            )
        return pair

    def _changes_in(self, kind: str, layer: int, pair: Pair) -> list[Change]:
        first = self._rows(self.first, kind, layer, pair.first, "first")
        second = self._rows(self.second, kind, layer, pair.second, "second")
        distances = np.abs(second - first).sum(-1) / 2
        heads = range(self.first.heads)
        return [
            Change(kind, layer, head, float(distances[head]), first[head], second[head]) for head in heads
        ]

    def _rows(self, seen: Inspection, kind: str, layer: int, word: int | None, which: str) -> np.ndarray:
        """A word's row in every head over the paired words; what a sentence does not have gets 0."""
        queries, keys = seen.sides(kind)
        rows = merge_words(seen.attention(kind, layer).astype(np.float64), queries, keys)[:, word]
        places = [getattr(pair, which) for pair in self.pairs[keys.name]]
        return np.stack([np.zeros(len(rows)) if n is None else rows[:, n] for n in places], axis=-1)


def compare(first: Inspection, second: Inspection) -> Comparison:
    """Two sentences side by side."""
    return Comparison(first, second)


def pair_words(first: Side, second: Side) -> list[Pair]:
    """The words of both in order: equal ones paired, and as many that replace as many others."""
    left, right = first.labels(words=True), second.labels(words=True)
    pairs: list[Pair] = []
    for kind, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if b - a == d - c:
            names = [x if kind == "equal" else f"{x}/{y}" for x, y in zip(left[a:b], right[c:d], strict=True)]
            pairs += [Pair(a + n, c + n, name) for n, name in enumerate(names)]
        else:
            pairs += [Pair(n, None, f"{left[n]}/") for n in range(a, b)]
            pairs += [Pair(None, n, f"/{right[n]}") for n in range(c, d)]
    return pairs
