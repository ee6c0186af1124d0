"""A held-out part for corpora that come without one, the same each time for the same seed."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

from regard.errors import DataError, SettingError
from regard.text.corpus import Example, Pair
from regard.text.report import Report

Item = TypeVar("Item", bound=str | Pair | Example)
Given = TypeVar("Given", bound=str | Pair | Example, covariant=True)


class Corpus(Protocol[Given]):
    """What every kind of corpus offers: passes over its items, a report of the last one, an identity."""

    @property
    def report(self) -> Report:
        """What the latest pass read and left out so far."""
        ...

    def __iter__(self) -> Iterator[Given]: ...

    def identity(self) -> str:
        """A digest of everything that decides what a pass gives."""
        ...


@dataclass(frozen=True)
class HeldOut:
    """A set of texts chosen by a hash: each text with a mark up to `limit` is held out.

    The text alone decides (the source of a pair), so a text that occurs twice is never on both sides.
    """

    seed: int
    limit: int

    @classmethod
    def choose(cls, corpus: Iterable[Item], share: float = 0.05, most: int = 1000, seed: int = 1) -> HeldOut:
        """Hold out that share of the texts, at least one and at most `most`; one pass, little memory."""
        if not 0 < share < 1 or most < 1:
            raise SettingError(f"share ({share}) must lie between 0 and 1, and most ({most}) be at least 1")
        lowest: list[int] = []  # a heap of negated marks: the largest kept mark is at its top
        kept: set[int] = set()
        count = 0
        for item in corpus:
            count += 1
            mark = _mark(seed, _key(item))
            if mark not in kept and (len(lowest) <= most or mark < -lowest[0]):
                kept.add(mark)
                heapq.heappush(lowest, -mark)
                if len(lowest) > most + 1:
                    kept.discard(-heapq.heappop(lowest))
        if len(kept) < 2:
            raise DataError(f"{count:,} examples with {len(kept)} different texts cannot be split; give more")
        size = min(most, max(1, round(share * count)), len(kept) - 1)
        return cls(seed, sorted(kept)[size - 1])

    def holds(self, item: str | Pair | Example) -> bool:
        """Whether this example belongs to the held-out part."""
        return _mark(self.seed, _key(item)) <= self.limit


class Part(Generic[Item]):
    """One side of a split corpus, itself a corpus; its report counts the other side as skipped."""

    def __init__(self, corpus: Corpus[Item], held_out: HeldOut, held: bool):
        self.corpus = corpus
        self.held_out = held_out
        self.held = held

    @property
    def report(self) -> Report:
        """What the last pass read and left out."""
        return self.corpus.report

    def __iter__(self) -> Iterator[Item]:
        reason = "not held out" if self.held else "held out"
        for item in self.corpus:
            if self.held_out.holds(item) == self.held:
                yield item
            else:
                self.report.drop(reason, self.report.place)

    def identity(self) -> str:
        """The identity of the whole, and which side this is."""
        return f"{self.corpus.identity()} {self.held_out} {self.held}"


def _key(item: str | Pair | Example) -> str:
    return item if isinstance(item, str) else item[0]


def _mark(seed: int, text: str) -> int:
    return int.from_bytes(blake2b(f"{seed}\0{text}".encode(), digest_size=8).digest(), "big")
