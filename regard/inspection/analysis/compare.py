"""Compare two sentences: how the attention of a word changes in each head, and what follows.

both = compare(tired, wide)
both.changes("it")          # every head, the largest change first
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from regard.errors import UsageError
from regard.inspection.record.record import Record
from regard.inspection.record.tokens import Side, merge_words, word_of


@dataclass(frozen=True)
class Pair:
    """The numbers of a word in each sentence that are matched; None without a match."""

    first: int | None
    second: int | None
    label: str


@dataclass(frozen=True, eq=False)
class Change:
    """How the attention of a word changes in one head: its two rows over the paired words.

    `distance` is the total variation distance, half the sum of the absolute differences: 0 for equal rows, 1
    for rows with nothing in common.
    """

    kind: str
    layer: int
    head: int
    distance: float
    first: np.ndarray
    second: np.ndarray

    @property
    def difference(self) -> np.ndarray:
        """The second row minus the first."""
        return self.second - self.first

    def as_dict(self) -> dict[str, Any]:
        """The fields as values that JSON can hold."""
        place = {"kind": self.kind, "layer": self.layer, "head": self.head, "distance": self.distance}
        return {**place, "first": self.first.tolist(), "second": self.second.tolist()}


@dataclass(frozen=True)
class NextChange:
    """A possible next token with its probability in each sentence."""

    id: int
    text: str
    first: float
    second: float

    @property
    def change(self) -> float:
        """The second probability minus the first."""
        return self.second - self.first

    def as_dict(self) -> dict[str, Any]:
        """The fields as values that JSON can hold."""
        return {**asdict(self), "change": self.change}


class Comparison:
    """Two records of one model, or of two models with the same heads, over words."""

    def __init__(self, first: Record, second: Record):
        if first.kinds != second.kinds or first.heads != second.heads:
            raise UsageError("the two models have different heads; compare sentences of one model")
        self.first, self.second = first, second
        names = [side.name for side in first.all_sides]
        self.pairs = {name: pair_words(first.side(name), second.side(name)) for name in names}

    def labels(self, side: str) -> list[str]:
        """The paired words: one spelling where both are equal, "tired/wide" where not."""
        return [pair.label for pair in self.pairs[side]]

    def changes(self, word: str | int, side: str | None = None) -> list[Change]:
        """The change for a word of the first sentence in each head of each kind, the largest first."""
        side = side or self._side_of(word)
        pair = self._partnered(word, side)
        changes = []
        for kind in self.first.kinds:
            if self.first.sides(kind)[0].name == side:
                for layer in range(min(self.first.layers(kind), self.second.layers(kind))):
                    changes += self._changes_in(kind, layer, pair)
        return sorted(changes, key=lambda change: -change.distance)

    def difference_map(self, word: str | int, kind: str) -> np.ndarray:
        """The change in the attention of a word to each paired word, layers x heads x pairs."""
        pair = self._partnered(word, self.first.sides(kind)[0].name)
        layers = min(self.first.layers(kind), self.second.layers(kind))
        return np.array(
            [[change.difference for change in self._changes_in(kind, n, pair)] for n in range(layers)]
        )

    @property
    def fork(self) -> int:
        """The last position up to which both outputs are equal; they differ at the next token."""
        first, second = self.first.written.ids, self.second.written.ids
        shared = min(len(first), len(second))
        differing = np.flatnonzero(first[:shared] != second[:shared])
        return max((int(differing[0]) if len(differing) else shared) - 1, 0)

    def next(self, position: int | None = None, top: int = 10) -> list[NextChange]:
        """The tokens whose probability changes most after a position, by default after the fork."""
        place = self.fork if position is None else position
        return self._next([record.written.find(place)[0] for record in (self.first, self.second)], top)

    def after_both(self, top: int = 10) -> list[NextChange]:
        """The tokens whose probability changes most after the end of each text."""
        return self._next([-1, -1], top)

    def _next(self, places: list[int], top: int) -> list[NextChange]:
        side = self.first.written
        first, second = (
            record.probabilities[place]
            for record, place in zip((self.first, self.second), places, strict=True)
        )
        best = np.argsort(-np.abs(second - first), kind="stable")[:top].tolist()
        return [NextChange(n, word_of(side.tokenizer, n), float(first[n]), float(second[n])) for n in best]

    def _side_of(self, word: str | int) -> str:
        sides = self.first.all_sides
        return next((side.name for side in sides if isinstance(word, int) or side.has(word)), sides[0].name)

    def _partnered(self, word: str | int, side: str) -> Pair:
        place = self.first.side(side).find(word, words=True)[0]
        number = self.first.tokens(side)[place].word
        pair = next(pair for pair in self.pairs[side] if pair.first == number)
        if pair.second is None:
            raise UsageError(f"{word!r} has no match in {self.second.side(side).text!r}; choose another word")
        return pair

    def _changes_in(self, kind: str, layer: int, pair: Pair) -> list[Change]:
        first = self._rows(self.first, kind, layer, pair.first, "first")
        second = self._rows(self.second, kind, layer, pair.second, "second")
        distances = np.abs(second - first).sum(-1) / 2
        heads = range(self.first.heads)
        return [
            Change(kind, layer, head, float(distances[head]), first[head], second[head]) for head in heads
        ]

    def _rows(self, record: Record, kind: str, layer: int, word: int | None, which: str) -> np.ndarray:
        """The row of a word in every head over the paired words; a word without a match gets 0."""
        queries, keys = record.sides(kind)
        rows = merge_words(record.attention(kind, layer).astype(np.float64), queries, keys)[:, word]
        places = [getattr(pair, which) for pair in self.pairs[keys.name]]
        return np.stack([np.zeros(len(rows)) if n is None else rows[:, n] for n in places], axis=-1)


def compare(first: Record, second: Record) -> Comparison:
    """Compare two records."""
    return Comparison(first, second)


def pair_words(first: Side, second: Side) -> list[Pair]:
    """The words of both in order; equal words are paired, and replaced runs of equal length."""
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
